"""Whole calls of the classical tests on plain arrays, against one read of the draws on one core.

    python benchmarks/whole_call.py             # printed
    python benchmarks/whole_call.py --write     # writes docs/benchmarks/whole_call.md

Kernels are compiled before. The calls of one shape are measured in turns, and the best of nine
turns counts. "Read" sums all draws on one core; that of `hpd` sums its log-densities. The ratio is
that of a call, less 2 ms, to the read. Other packages of the field follow if installed.
"""

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numba
import numpy as np
from speed import SHAPES, _sum
from tables import printed, write_page

import tarpon
from tarpon._base.threads import n_allowed

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "whole_call.md"
N_TURNS, OVERHEAD = 9, 2e-3
ORDERS = ["draws first", "simulations first"]


def data(shape: tuple[int, int, int], order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and truths in single precision."""
    rng = np.random.default_rng(0)
    theta = rng.uniform(size=shape[1:]).astype("f4")
    samples = rng.standard_normal(shape, dtype="f4")
    samples *= np.float32(0.1)
    samples += theta
    if order == "simulations first":
        samples = np.ascontiguousarray(samples.swapaxes(0, 1)).swapaxes(0, 1)
    return samples, theta


def calls(samples: np.ndarray, theta: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return what is compared, by name; the first two are reads."""
    log_prob = np.ascontiguousarray(samples[..., 0]), np.ascontiguousarray(theta[:, 0])
    memory = samples if samples.flags.c_contiguous else samples.swapaxes(0, 1)
    flat, few = memory.reshape(-1), log_prob[0].reshape(-1)
    sims = tarpon.Simulations(samples, theta)
    fixed = tarpon.references.Fixed(np.zeros(theta.shape[1]))
    return {
        "read": lambda: _sum(flat, 0, len(flat)),
        "read of log-densities": lambda: _sum(few, 0, len(few)),
        "`tarp`, arrays": lambda: tarpon.tarp(samples, theta, rng=0),
        "`tarp`, fixed reference, `Simulations`": lambda: tarpon.tarp(
            sims, reference=fixed, rng=0
        ),
        "`sbc`, arrays": lambda: tarpon.sbc(samples, theta, rng=0),
        "`hpd`, arrays": lambda: tarpon.hpd(*log_prob, rng=0),
    }


def peers(samples: np.ndarray, theta: np.ndarray) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the calls of other packages that are installed, by name."""
    try:
        import tarp
    except ImportError:
        pass
    else:
        yield "Ciela tarp", lambda: tarp.get_tarp_coverage(samples, theta, references="random")
    try:
        import torch
        from sbi.diagnostics.tarp import _run_tarp
    except ImportError:
        return
    tensors = torch.as_tensor(samples), torch.as_tensor(theta)
    references = torch.zeros_like(tensors[1])
    yield "sbi, TARP", lambda: _run_tarp(*tensors, references)


def best(functions: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Return the smallest time of calls that take turns, by the clock and of all threads."""
    for function in functions.values():
        function()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for _ in range(N_TURNS):
        for name, function in functions.items():
            before, worked = time.perf_counter(), time.process_time()
            function()
            times[name].append((time.perf_counter() - before, time.process_time() - worked))
    return {
        name: (min(took for took, _ in turns), min(worked for _, worked in turns))
        for name, turns in times.items()
    }


def rows(order: str) -> Iterator[str]:
    yield ""
    yield f"| draws × simulations × parameters, {order} | what | ms | CPU ms | (ms − 2) / read |"
    yield "|---|---|--:|--:|--:|"
    for shape in SHAPES:
        arrays = data(shape, order)
        # Threads of peers go on spinning after their calls, so they have turns of their own.
        times = best(calls(*arrays)) | best(dict(peers(*arrays)))
        for name, (took, worked) in times.items():
            read = times["read of log-densities" if "hpd" in name else "read"][0]
            part = max(0.0, took - OVERHEAD) / read
            ratio = "" if name.startswith("read") else f"{part:.1f}"
            start = " × ".join(map(str, shape)) if name == "read" else ""
            yield f"| {start} | {name} | {1e3 * took:.2f} | {1e3 * worked:.2f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write whole_call.md")
    options = parser.parse_args()
    lines = [
        "# Whole calls",
        "",
        "Written by `python benchmarks/whole_call.py --write` in the environment of `make peers`, "
        f"on {n_allowed()} cores of a shared {platform.machine()} server; numpy "
        f"{np.__version__}, numba {numba.__version__}. Single precision; the first use of plain "
        f"arrays in a process whose kernels are compiled, best of {N_TURNS} turns, by the clock "
        "and by the CPU time of all threads. A read sums the draws on one core.",
    ]
    lines = printed(chain(lines, *map(rows, ORDERS)))
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()

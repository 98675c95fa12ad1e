"""Time and memory of counting, against the read limit of this machine and against peers.

    make peers                                  # sets up the peers and runs this
    python benchmarks/speed.py --write          # writes speed.md beside this file

Every row of the table is measured side by side in one run. "Read" is the time in which the same
threads sum the same array, the least that any pass can take. Times are the smallest of many.
"""

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numba import njit

import tarpon
from tarpon import curves
from tarpon.backends import _kernels
from tarpon.backends._threads import n_threads_for, share
from tarpon.inference import bands
from tarpon.ranks import Ranks

SHAPES = [(1000, 500, 2), (1000, 500, 256), (1000, 1000, 10), (200, 5000, 20)]


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _sum(flat: np.ndarray, first: int, last: int) -> float:
    total = flat.dtype.type(0)
    for k in range(np.uint64(first), np.uint64(last)):  # unsigned, or it is not vectorised
        total += flat[k]
    return total


def read(samples: np.ndarray) -> None:
    """Read every number once, with as many threads as counting has."""
    flat = samples.reshape(-1)
    share(
        lambda first, last, _: _sum(flat, first, last) and None,
        len(flat),
        n_threads_for(samples.nbytes, len(flat)),
        np.zeros((1, 1)),
    )


def seconds(function: Callable[[], object], budget: float = 1.5) -> float:
    """Return the smallest time of many calls."""
    function()
    times, start = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - start < budget and len(times) < 200):
        before = time.perf_counter()
        function()
        times.append(time.perf_counter() - before)
    return min(times)


def extra_megabytes(function: Callable[[], object]) -> float:
    """Return by how much the memory of this process peaks during a call (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    function()
    return max(0.0, (_memory("VmHWM") - before) / 1024)


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise RuntimeError(f"{name} is not in /proc/self/status")


def contenders(
    samples: np.ndarray, theta: np.ndarray
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is compared: every one gets references and no normalisation."""
    references = np.random.default_rng(1).uniform(size=theta.shape).astype(samples.dtype)
    weight = np.ones(theta.shape[1])
    centers = references.astype(float)
    yield "tarpon, counting", lambda: _kernels.closer(samples, theta, centers, weight)
    yield "tarpon, whole call", lambda: tarpon.tarp(samples, theta, rng=0).p_value
    try:
        import tarp
    except ImportError:
        pass
    else:
        yield (
            "Ciela tarp",
            lambda: tarp.get_tarp_coverage(samples, theta, references=references, norm=False),
        )
        yield (
            "Ciela tarp, normalised",
            lambda: tarp.get_tarp_coverage(samples, theta, references="random", norm=True),
        )
    try:
        import torch
        from sbi.diagnostics.tarp import _run_tarp
    except ImportError:
        return
    tensors = [torch.as_tensor(a) for a in (samples, theta, references)]
    for n_threads in (1, 2):

        def run(n_threads: int = n_threads) -> object:
            torch.set_num_threads(n_threads)
            return _run_tarp(*tensors)

        yield f"sbi, {n_threads} threads", run


def table() -> Iterator[str]:
    yield "| draws × simulations × parameters | precision | what | ms | × read | extra MB |"
    yield "|---|---|---|--:|--:|--:|"
    for shape in SHAPES:
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(0)
            theta = rng.uniform(size=shape[1:]).astype(dtype)
            samples = rng.standard_normal(shape, dtype=dtype)
            samples *= dtype(0.1)
            samples += theta
            limit = seconds(lambda s=samples: read(s))
            name = " × ".join(map(str, shape))
            yield f"| {name} | {np.dtype(dtype).name} | read limit | {1e3 * limit:.2f} | 1 | |"
            for what, call in contenders(samples, theta):
                took = seconds(call)
                extra = extra_megabytes(call)
                yield f"| | | {what} | {1e3 * took:.2f} | {took / limit:.1f} | {extra:.0f} |"


def bootstrap() -> Iterator[str]:
    yield ""
    yield "| 1000 curves of resampled simulations | ms |"
    yield "|---|--:|"
    for n_sims, n_draws in [(500, 1000), (1000, 1000), (10_000, 1000)]:
        ranks = np.random.default_rng(0).integers(n_draws + 1, size=n_sims)
        ranks = Ranks(ranks, n_draws)
        rng = np.random.default_rng(0)
        took = seconds(lambda r=ranks, g=rng: curves.bootstrap(r, 1000, g))
        yield f"| {n_sims} simulations × {n_draws} draws | {1e3 * took:.0f} |"
    yield ""
    yield "| exact inference on one curve | p-value ms | band ms |"
    yield "|---|--:|--:|"
    for n_sims, n_draws in [(500, 100), (1000, 1000), (10**6, 100), (10**6, 1000)]:
        ranks = np.random.default_rng(0).integers(n_draws + 1, size=n_sims)
        p = seconds(lambda r=ranks, n=n_draws: bands.p_values(
            Ranks(r, n)))  # fmt: skip
        b = seconds(lambda n=n_sims, m=n_draws: bands.band.__wrapped__(n, m, 0.95))
        yield f"| {n_sims} simulations × {n_draws} draws | {1e3 * p:.0f} | {1e3 * b:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write speed.md")
    write = parser.parse_args().write
    lines = [
        "# Speed and memory",
        "",
        "Written by `python benchmarks/speed.py --write` in the environment of `make peers`, on "
        f"{n_threads_for(2**40, 2**40)} cores of a shared {platform.machine()} "
        f"server; numpy {np.__version__}. Counting is one pass; the whole call also finds the "
        "box, draws references and computes the exact p-value.",
        "",
    ]
    for line in lines:
        print(line)
    for part in (table(), bootstrap()):
        for line in part:
            print(line, flush=True)
            lines.append(line)
    if write:
        Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

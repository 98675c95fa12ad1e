"""Time and memory of counting, against the read limit of this machine and against peers.

    make peers                                  # sets up the peers and runs this
    python benchmarks/speed.py --write          # writes docs/benchmarks/speed.md

The calls of one row are measured in turns, in one run, and the best of many turns counts. "Read"
is the time in which the same threads sum the same array, each from one end of its part to the
other. Counting reads several streams at once, which may be faster.
"""

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numba
import numpy as np
from numba import njit
from tables import printed, write_page

import tarpon
from tarpon import bands, curves
from tarpon._base.threads import n_allowed, n_threads_for, share
from tarpon.backends import _kernels
from tarpon.ranks import Ranks

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "speed.md"
N_DIMS = [1, 2, 4, 8, 10, 16, 20, 32, 50, 100, 256, 1000]
N_DRAWS = 1000
ORDERS = ["draws first", "simulations first"]
SHAPES = [(1000, 500, 2), (1000, 500, 256), (1000, 1000, 10), (200, 5000, 20)]

METRICS: dict[str, Callable[..., object]] = {
    "L1": lambda s, t, c: _kernels.closer_l1(s, t, c, np.ones(t.shape[1])),
    "weighted": lambda s, t, c: _kernels.closer(s, t, c, np.linspace(1, 2, t.shape[1])),
    "periodic": lambda s, t, c: _kernels.closer_periodic(
        s, t, c, np.ones(t.shape[1]), np.ones(t.shape[1])
    ),
}


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _sum(flat: np.ndarray, first: int, last: int) -> float:
    total = flat.dtype.type(0)
    for k in range(np.uint64(first), np.uint64(last)):  # unsigned, to be vectorised
        total += flat[k]
    return total


def read(samples: np.ndarray) -> None:
    """Read every number once, with as many threads as counting uses."""
    flat = samples.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.view(np.float32)
    share(
        lambda first, last, _: _sum(flat, first, last) and None,
        len(flat),
        n_threads_for(samples.nbytes, len(flat)),
        np.zeros((1, 1)),
    )


def seconds(function: Callable[[], object], budget: float = 1.5) -> float:
    """Return the smallest time of many calls."""
    return fastest({"": function}, budget)[""]


def fastest(
    calls: dict[str, Callable[[], object]],
    budget: float = 1.5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the smallest time of each of several calls that take turns."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end, n_turns = time.perf_counter() + budget * len(calls), 0
    while n_turns < 5 or (time.perf_counter() < end and n_turns < 200):
        for name, call in calls.items():
            before = clock()
            call()
            times[name].append(clock() - before)
        n_turns += 1
    return {name: min(turns) for name, turns in times.items()}


def points(n_dims: int, dtype: str, order: str, megabytes: int) -> tuple[np.ndarray, ...]:
    """Return the memory of the samples, the samples, truths, and references."""
    rng = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    n_sims = max(32, megabytes * 2**20 // (N_DRAWS * n_dims * size))
    theta = rng.uniform(size=(n_sims, n_dims)).astype(dtype)
    if order == "draws first":
        memory = np.empty((N_DRAWS, *theta.shape), dtype)
        for draw in memory:
            draw[:] = theta + 0.1 * rng.standard_normal(theta.shape, dtype=np.float32)
        return memory, memory, theta, rng.uniform(size=theta.shape)
    memory = np.empty((n_sims, N_DRAWS, n_dims), dtype)
    for draws, truth in zip(memory, theta, strict=True):
        draws[:] = truth + 0.1 * rng.standard_normal(draws.shape, dtype=np.float32)
    return memory, memory.swapaxes(0, 1), theta, rng.uniform(size=theta.shape)


def of_read_limit(
    count: Callable[..., object],
    n_dims: int,
    dtype: str,
    order: str,
    megabytes: int,
    budget: float,
) -> str:
    """Return the part of the read limit that counting reaches, by the clock and by CPU time."""
    memory, *arrays = points(n_dims, dtype, order, megabytes)
    calls = {"read": lambda: read(memory), "count": lambda: count(*arrays)}
    parts = []
    for clock in (time.perf_counter, time.process_time):
        best = fastest(calls, budget / 4, clock)
        parts.append(best["read"] / best["count"])
    return f"{parts[0]:.2f} ({parts[1]:.2f})"


def limits(megabytes: int, budget: float) -> Iterator[str]:
    dtypes = ["float16", "float32", "float64"]
    yield (
        "Fraction of the read limit that counting reaches (L2, ties counted), by the clock, and "
        "in brackets by the CPU time of all threads, which other processes disturb less; "
        f"{N_DRAWS} draws, {megabytes} MB or more."
    )
    yield ""
    yield "| parameters | " + " | ".join(f"{d}, {o}" for d in dtypes for o in ORDERS) + " |"
    yield "|--:|" + "--:|" * len(dtypes) * len(ORDERS)
    for n_dims in N_DIMS:
        weight = np.ones(n_dims)
        count = lambda *arrays, w=weight: _kernels.closer(*arrays, w)  # noqa: E731
        parts = [
            of_read_limit(count, n_dims, dtype, order, megabytes, budget)
            for dtype in dtypes
            for order in ORDERS
        ]
        yield f"| {n_dims} | " + " | ".join(parts) + " |"
    yield ""
    yield "| distance, float32 | parameters | " + " | ".join(ORDERS) + " |"
    yield "|---|--:|" + "--:|" * len(ORDERS)
    for name, count in METRICS.items():
        for n_dims in (2, 10, 20, 100):
            parts = [
                of_read_limit(count, n_dims, "float32", order, megabytes, budget)
                for order in ORDERS
            ]
            yield f"| {name} | {n_dims} | " + " | ".join(parts) + " |"
    yield ""


def extra_megabytes(function: Callable[[], object]) -> float:
    """Return the peak memory of this process during a call, beyond what it had (Linux)."""
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
    """Yield the calls that are compared, by name."""
    references = np.random.default_rng(1).uniform(size=theta.shape).astype(samples.dtype)
    weight = np.ones(theta.shape[1])
    centres = references.astype(float)
    yield "tarpon, counting", lambda: _kernels.closer(samples, theta, centres, weight)
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
    yield (
        "Counting is one pass; the whole call also computes the box, draws references and "
        "computes the exact p-value. All packages get the same references; those that normalise "
        "are marked."
    )
    yield ""
    yield "| draws × simulations × parameters | precision | what | ms | × read | extra MB |"
    yield "|---|---|---|--:|--:|--:|"
    for shape in SHAPES:
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(0)
            theta = rng.uniform(size=shape[1:]).astype(dtype)
            samples = rng.standard_normal(shape, dtype=dtype)
            samples *= dtype(0.1)
            samples += theta
            calls = {"read limit": lambda s=samples: read(s), **dict(contenders(samples, theta))}
            best = fastest(calls)
            shape_name = " × ".join(map(str, shape))
            for name, call in calls.items():
                took, limit = best[name], best["read limit"]
                extra = extra_megabytes(call)
                first = name == "read limit"
                start = f"| {shape_name} | {np.dtype(dtype).name} " if first else "| | "
                yield f"{start}| {name} | {1e3 * took:.2f} | {took / limit:.1f} | {extra:.0f} |"


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
    parser.add_argument("--megabytes", type=int, default=256, help="size of the samples")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds per number")
    options = parser.parse_args()
    lines = [
        "# Speed and memory",
        "",
        "Written by `python benchmarks/speed.py --write` in the environment of `make peers`, on "
        f"{n_allowed()} cores of a shared {platform.machine()} "
        f"server; numpy {np.__version__}, numba {numba.__version__}. The entries of a row were "
        "measured in turns, best of many turns. The read limit is the time in which the same "
        "threads sum the same array, each from one end of its part to the other; counting reads "
        "several streams at once, which may be faster.",
        "",
    ]
    parts = limits(options.megabytes, options.budget), table(), bootstrap()
    lines = printed(chain(lines, *parts))
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()

"""Compiling kernels, and running them on all the processors that this process may use."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from numba import njit

from .._types import Array

_THREAD_BYTES = 4 * 2**20
_CHUNKS_PER_THREAD = 16
# Sums may be reordered, or they have no vectors. Never "nnan": NaN would then count as closer.
_FASTMATH = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a kernel that lets other threads run, and keep it for the next process."""
    kernel: Callable[..., None]
    try:
        kernel = njit(function, nogil=True, fastmath=_FASTMATH, cache=True)
    except RuntimeError:  # Neither the package's folder nor the user's can be written to.
        kernel = njit(function, nogil=True, fastmath=_FASTMATH)
    return kernel


def share(run: Callable[..., None], n_items: int, n_threads: int, results: Array) -> None:
    """Hand out ranges of items to threads as they become free.

    Each thread writes to a result of its own, or all to the same if there is but one.
    """
    # A multiple of four, since draws are counted in groups.
    step = 4 * -(-n_items // (4 * _CHUNKS_PER_THREAD * n_threads)) if n_threads > 1 else n_items
    ranges: SimpleQueue[int | None] = SimpleQueue()
    for first in [*range(0, n_items, max(step, 1)), *[None] * n_threads]:
        ranges.put(first)

    def work(thread: int) -> None:
        for first in iter(ranges.get, None):
            run(first, min(first + step, n_items), results[thread % len(results)])

    if n_threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, range(n_threads)))


def n_threads_for(n_bytes: int, n_items: int) -> int:
    """Return how many threads are allowed, and worth their start and the counts they keep."""
    affinity = getattr(os, "sched_getaffinity", None)  # Only Linux has it.
    n_cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    allowed = int(os.environ.get("TARPON_THREADS") or n_cpus)
    return max(1, min(allowed, n_bytes // _THREAD_BYTES, n_items // 16))

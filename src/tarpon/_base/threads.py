"""Running functions on all the processors that this process may use."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from .types import Array

_T = TypeVar("_T")
_THREAD_BYTES = 4 * 2**20
_CHUNKS_PER_THREAD = 16
_most: ContextVar[int | None] = ContextVar("_most", default=None)


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:
    """Return what controls the linear algebra that is loaded; SciPy brings its own."""
    return ThreadpoolController()


def one_thread_each() -> AbstractContextManager[object]:
    """Keep linear algebra to the thread that calls it, since the threads are ours.

    Two pools of threads on the same processors wait for each other, on a busy machine for many
    times as long as they work.
    """
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


def over_ranges(run: Callable[[int, int], None], n_items: int, n_bytes: int) -> None:
    """Call `run(first, last)` on ranges of items, on several threads if they are worth it."""
    n_threads = n_threads_for(n_bytes, 16 * n_items)
    with one_thread_each():
        share(lambda first, last, _: run(first, last), n_items, n_threads, [None])


def share(
    run: Callable[..., None],
    n_items: int,
    n_threads: int,
    results: Sequence[Any] | Array,
    *,
    at_once: int = 0,
) -> None:
    """Hand out ranges of items to the calling thread, and to others as they become free.

    Each thread writes to a result of its own, or all to the same if there is but one. Threads that
    have not begun when all is done are not waited for.

    Arguments:
        run: Function of the first item of a range, of the one after its last, and of a result.
        n_items: Number of items.
        n_threads: Number of threads.
        results: A result per thread, or one for all.
        at_once: Number of items of a range, by default so many that each thread gets a few ranges.
    """
    few = -(-n_items // (_CHUNKS_PER_THREAD * n_threads)) if n_threads > 1 else n_items
    step = max(1, at_once or few)
    ranges = deque(range(0, n_items, step))

    def work(thread: int) -> None:
        try:
            for first in _taken(ranges):
                run(first, min(first + step, n_items), results[thread % len(results)])
        finally:  # after an error nothing is left for the others
            ranges.clear()

    helping = [others().submit(work, thread) for thread in range(1, n_threads)]
    try:
        work(0)
    finally:
        for other in helping:
            if not other.cancel():
                other.result()


def _taken(ranges: deque[int]) -> Iterator[int]:
    """Yield what other threads have not taken yet."""
    while True:
        try:
            yield ranges.popleft()
        except IndexError:
            return


def others() -> ThreadPoolExecutor:
    """Return threads that wait for work."""
    return _others(os.getpid())


@cache
def _others(process: int) -> ThreadPoolExecutor:
    """Return those of a process: one that is forked has none of the threads of its parent."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="tarpon")


def mapped(function: Callable[[Any], _T], items: Iterable[Any]) -> list[_T]:
    """Return a function of every item, computed on all threads that are allowed."""
    if (n_threads := n_allowed()) == 1:
        return [function(item) for item in items]
    with one_thread_each(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, items))


@contextmanager
def at_most(n_threads: int) -> Iterator[None]:
    """Use no more threads than this for what the calling thread asks for."""
    before = _most.set(n_threads)
    try:
        yield
    finally:
        _most.reset(before)


def n_threads_for(n_bytes: int, n_items: int) -> int:
    """Return how many threads are allowed, and worth their start and the counts they keep."""
    return max(1, min(n_allowed(), n_bytes // _THREAD_BYTES, n_items // 16))


def n_allowed() -> int:
    """Return how many threads are allowed."""
    affinity = getattr(os, "sched_getaffinity", None)  # Only Linux has it.
    n_cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    return _most.get() or _asked_for() or n_cpus


def _asked_for() -> int:
    """Return how many threads the environment asks for, 0 where it does not say."""
    given = os.environ.get("TARPON_THREADS", "").strip()
    if given and not (given.isdecimal() and int(given)):
        raise ValueError(
            f"the environment variable `TARPON_THREADS` must be a whole number of threads, at "
            f"least 1, but got {given!r}."
        )
    return int(given or 0)

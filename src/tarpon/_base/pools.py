"""Pools: parallel calls, in threads that can be abandoned or on an executor."""

import ctypes
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any
from weakref import WeakKeyDictionary


@dataclass(frozen=True, eq=False)
class Pool:
    """Calls on an executor.

    Arguments:
        executor: Executor of `concurrent.futures`.
        n_workers: Number of parallel calls.
    """

    executor: Executor
    n_workers: int

    @classmethod
    def of(cls, executor: Any) -> "Pool":
        """Return the pool of an executor or of a Dask client."""
        if hasattr(executor, "get_executor"):  # a Dask client
            n_workers = sum(executor.ncores().values())
            return cls(executor.get_executor(pure=False), max(n_workers, 1))
        from . import threads

        return cls(executor, getattr(executor, "_max_workers", None) or threads.n_allowed())

    @property
    def n_at_once(self) -> int:
        """Number of calls to submit at a time, so that no worker waits for its next one."""
        return 2 * self.n_workers

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Call a function on the executor."""
        with warnings.catch_warnings():
            # Blocks of an array that only this program can read are large, and known to be.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.executor.submit(_on_one_thread, function, *given)

    def leave(self, future: Future[Any]) -> bool:
        """Cancel a call if it has not begun; return whether its worker is free."""
        return future.cancel()


def _on_one_thread(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function on one processor; the others have calls of their own."""
    from . import threads

    with threads.at_most(1):
        return function(*given)


class _LeftBehind(BaseException):
    """Raised in the thread of a call that was abandoned."""


@dataclass(frozen=True, eq=False)
class Threads:
    """Calls in a new thread each. A stuck thread does not keep the program from ending.

    Arguments:
        n_workers: Number of parallel calls.
        running: Thread of each call.
    """

    n_workers: int
    running: WeakKeyDictionary[Future[Any], threading.Thread] = field(
        default_factory=WeakKeyDictionary
    )

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Call a function in a new thread."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        thread = threading.Thread(target=_run, args=(future, function, given), daemon=True)
        self.running[future] = thread
        thread.start()
        return future

    def leave(self, future: Future[Any]) -> bool:
        """Abandon a call, which ends when it returns to Python; its worker is free at once."""
        ident = ctypes.c_ulong(self.running.pop(future).ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_LeftBehind))
        return True


def _run(future: Future[Any], function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    with suppress(_LeftBehind):
        try:
            future.set_result(function(*given))
        except _LeftBehind:
            raise
        except BaseException as error:
            future.set_exception(error)


def as_they_end(
    function: Callable[[Any], Any],
    tasks: Iterable[Any],
    pool: Pool | Threads,
    time_limit: float | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield the index of each task and the result or exception of its call, as calls end.

    Arguments:
        function: Function of a task.
        tasks: Tasks, taken one per free worker.
        pool: Pool for the calls.
        time_limit: Seconds after which a call is abandoned.
    """
    n_workers, waiting = pool.n_workers, enumerate(tasks)
    running: dict[Future[Any], tuple[int, float]] = {}
    limit = inf if time_limit is None else time_limit
    try:
        while True:
            for k, task in islice(waiting, max(n_workers - len(running), 0)):
                running[pool.submit(function, task)] = k, time.monotonic() + limit
            if not running:
                break
            rest = min(end for _, end in running.values()) - time.monotonic()
            done, _ = wait(running, None if rest == inf else max(rest, 0), FIRST_COMPLETED)
            for future in done:
                yield running.pop(future)[0], future.exception() or future.result()
            for future in [f for f, (_, end) in running.items() if end <= time.monotonic()]:
                n_workers -= not pool.leave(future)
                late = TimeoutError(f"took longer than {time_limit:g} s")
                yield running.pop(future)[0], late
        for k, _ in waiting:
            yield k, TimeoutError("was not begun, since every worker is stuck")
    finally:
        for future in running:
            pool.leave(future)


def within(time_limit: float | None, function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a function, or raise `TimeoutError` after so many seconds."""
    for _, outcome in as_they_end(lambda _: function(*given), [None], Threads(1), time_limit):
        if isinstance(outcome, BaseException):
            raise outcome
    return outcome

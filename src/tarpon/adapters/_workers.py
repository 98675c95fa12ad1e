"""Workers: calls beside each other, of which none can hold up the rest for ever."""

import ctypes
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._base.text import clean
from .._base.types import Array
from ..simulations import shapes

_LONGEST_REASON, _MOST_REASONS = 200, 3


class _LeftBehind(BaseException):
    """Nobody waits for this call any more."""


class Threads:
    """A thread for each call. Those that are stuck do not keep the program from ending."""

    def __init__(self) -> None:
        self.of: WeakKeyDictionary[Future[Any], threading.Thread] = WeakKeyDictionary()

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Call a function in a thread of its own."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        thread = threading.Thread(target=_run, args=(future, function, given), daemon=True)
        self.of[future] = thread
        thread.start()
        return future

    def leave(self, future: Future[Any]) -> bool:
        """End a call as soon as it is back in Python; return whether its place is free again."""
        thread = self.of.pop(future)
        ident = ctypes.c_ulong(thread.ident or 0)
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


class Places:
    """The places of an executor. A call that is stuck keeps its own: only its owner may end it."""

    def __init__(self, executor: Executor) -> None:
        self.submit = executor.submit

    def leave(self, future: Future[Any]) -> bool:
        """Cancel a call that has not begun; return whether its place is free again."""
        return future.cancel()


def each(
    function: Callable[[Any], Any],
    tasks: Iterable[Any],
    *,
    n_workers: int,
    executor: Executor | None = None,
    time_limit: float | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield the place of each task, and what the function returned or raised, as they end.

    Arguments:
        function: Takes a task.
        tasks: What there is to do.
        n_workers: How many calls there are at a time.
        executor: Where they run; without one, in threads.
        time_limit: The seconds after which a call is given up.
    """
    pool = Threads() if executor is None else Places(executor)
    waiting = enumerate(tasks)
    running: dict[Future[Any], tuple[int, float]] = {}
    limit = np.inf if time_limit is None else time_limit
    try:
        while True:
            for k, task in islice(waiting, max(n_workers - len(running), 0)):
                running[pool.submit(function, task)] = k, time.monotonic() + limit
            if not running:
                break
            rest = min(end for _, end in running.values()) - time.monotonic()
            done, _ = wait(running, None if rest == np.inf else max(rest, 0), FIRST_COMPLETED)
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
    """Return what a function returns, or raise if it takes longer than so many seconds."""
    calls = each(lambda _: function(*given), [None], n_workers=1, time_limit=time_limit)
    for _, outcome in calls:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcome


def gathered(found: Mapping[int, Any], shape: tuple[int, int, int], on_invalid: str) -> Array:
    """Return draws `(n_draws, n_sims, n_dims)`: those of each simulation, NaN where it has none.

    Arguments:
        found: What was drawn for each simulation, `(n_draws, n_dims)`, or why nothing was.
        shape: The shape of all draws.
        on_invalid: What to do with simulations without draws: "raise" or "drop".
    """
    n_draws, n_sims, n_dims = shape
    failed = {k: why for k, why in sorted(found.items()) if isinstance(why, BaseException)}
    if failed:
        _refuse(failed, n_sims, on_invalid)
    # Half precision gives way to that of the draws.
    nothing = np.full((n_draws, n_dims), np.nan, dtype=np.float16)
    return np.stack([nothing if k in failed else found[k] for k in range(n_sims)], axis=1)


def _refuse(failed: Mapping[int, BaseException], n_sims: int, on_invalid: str) -> None:
    """Say which simulations have no draws and why: raise, or warn where they may be dropped."""
    said = f"{len(failed)} of {n_sims} simulations have no draws: {_reasons(failed)}."
    if on_invalid == "raise" or len(failed) == n_sims:
        raise RuntimeError(
            f"{said} Failed fits are rarely random, so look at them first; `on_invalid='drop'` "
            f"then leaves them out, and the result says how many."
        ) from next(iter(failed.values()))
    warnings.warn(f"{said} They are dropped.", stacklevel=4)


def _reasons(failed: Mapping[int, BaseException]) -> str:
    """Return the indices of what failed, those with the same reason together."""
    indices: dict[str, list[str]] = {}
    for k, error in failed.items():
        kind = "" if isinstance(error, TimeoutError) else f"{type(error).__name__}: "
        why = clean(textwrap.shorten(f"{kind}{error}", _LONGEST_REASON))
        indices.setdefault(why, []).append(str(k))
    said = [f"{', '.join(where)} ({why})" for why, where in indices.items()]
    others = [k for where in list(indices.values())[_MOST_REASONS:] for k in where]
    if others:
        said[_MOST_REASONS:] = [f"{', '.join(others)} (for other reasons)"]
    return "; ".join(said)


def shaped(drawn: Any, n_draws: int, n_dims: int) -> Array:
    """Return the draws of one simulation as an array, `(n_draws, n_dims)`."""
    draws = shapes.array("draws", drawn)
    if draws.ndim == 1 and n_dims == 1:
        draws = draws[:, None]
    if draws.shape != (n_draws, n_dims):
        raise ValueError(f"gave {draws.shape} in place of ({n_draws}, {n_dims}) draws")
    return draws

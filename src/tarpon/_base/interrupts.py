"""Ctrl-C that is not lost, and that reaches the main program only."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

_MASKS = hasattr(signal, "pthread_sigmask")


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Yield a function that raises `KeyboardInterrupt` if Ctrl-C was pressed since the beginning.

    Python discards exceptions that are raised in callbacks from C, such as those of Numba's
    compiler, and Ctrl-C with them. So nothing is raised at once: loops that wait for others call
    this function again and again. A second Ctrl-C is raised wherever it arrives.
    """
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    def stop_if_asked() -> None:
        if asked:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop_if_asked  # handled by the user's program
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop_if_asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C back, also in processes that are started meanwhile, until they `forget` it."""
    if not _MASKS:
        yield
        return
    resource_tracker.ensure_running()  # which would let Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def forget() -> None:
    """Ignore Ctrl-C from now on, and one that was held back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

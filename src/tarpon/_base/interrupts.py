"""Ctrl-C that is not lost."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Yield a function that raises `KeyboardInterrupt` if Ctrl-C was pressed since the beginning.

    Python discards exceptions that are raised in callbacks from C, such as those of Numba's
    compiler, and Ctrl-C with them. Loops that run for long therefore call this function.
    """
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.default_int_handler(number, frame)

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

"""Ctrl-C that is not lost."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_BUILDERS = {"importlib", "llvmlite", "numba"}
_CAN_HOLD = hasattr(signal, "pthread_sigmask")


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Yield a function that raises `KeyboardInterrupt` if Ctrl-C was pressed since the beginning.

    Python discards exceptions that are raised in callbacks from C, such as those of Numba's
    compiler, and Ctrl-C with them. Loops that run for long therefore call this function; imports
    and the compiler are not interrupted.
    """
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if not _builds(frame):
            signal.default_int_handler(number, frame)

    def stop_if_asked() -> None:
        nonlocal asked
        if asked:
            asked = False
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop_if_asked  # handled by the user's program
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop_if_asked
        stop_if_asked()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _builds(frame: FrameType | None) -> bool:
    """Return whether a frame, or one that called it, imports a module or compiles a kernel."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _BUILDERS:
            return True
        frame = frame.f_back
    return False


@contextmanager
def held() -> Iterator[None]:
    """Hold back Ctrl-C until the end, also from processes that are started meanwhile.

    Those call `forget` when they are ready for it. Windows cannot hold it back.
    """
    if not _CAN_HOLD:
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # or the first process starts it, and ends the holding
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def forget() -> None:
    """Forget Ctrl-C that was held back from this process, and hold back no more."""
    if _CAN_HOLD:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, handler)

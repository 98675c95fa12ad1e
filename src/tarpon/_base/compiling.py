"""Compiling kernels, and keeping them for later processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import filelock
from numba import njit
from numba.core import event

from .progress import Announcement

_T = TypeVar("_T")
_LOCK = "tarpon-kernels.lock"
_COMPILING = "tarpon is compiling its kernels: some seconds, and they are kept for later calls."
# Sums may be reordered, or they have no vectors. Never "nnan": NaN would then count as closer.
_FASTMATH = {"reassoc", "contract", "nsz"}


class _Kept:
    """Cache of compiled kernels that a full disk or a damaged file does not stop.

    One process reads or writes at a time: two that write together would name two kernels alike,
    and a third would run one in the place of the other.

    Arguments:
        cache: Cache of numba.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def load_overload(self, *given: Any) -> Any:
        """Return a kernel, or None if it cannot be read."""
        try:
            with self._alone():
                return self.cache.load_overload(*given)
        except Exception:  # damaged pickles raise errors of any type
            with suppress(OSError):
                self.cache.flush()
            return None

    def save_overload(self, *given: Any) -> None:
        """Write a kernel if the disk has room."""
        with suppress(OSError), self._alone():
            self.cache.save_overload(*given)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes out, if the folder can be written to."""
        lock = filelock.FileLock(Path(self.cache.cache_path) / _LOCK)
        try:
            lock.acquire()
        except (OSError, NotImplementedError):  # nobody writes here
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)


def compiled(function: Callable[..., _T]) -> Callable[..., _T]:
    """Compile a kernel that lets other threads run, and keep it for the next process."""
    kernel: Any
    try:
        kernel = njit(function, nogil=True, fastmath=_FASTMATH, cache=True)
        kernel._cache = _Kept(kernel._cache)
    except (RuntimeError, OSError):  # Neither this folder nor the user's can be written to.
        kernel = njit(function, nogil=True, fastmath=_FASTMATH)
    return kernel


class _Compiling(event.Listener):
    """Announces that kernels of this package are being compiled, where that takes long."""

    def __init__(self) -> None:
        self.announcement = Announcement(_COMPILING)
        self.depth = 0  # a kernel compiles the functions that it calls

    def on_start(self, event: Any) -> None:
        """Begin to compile a kernel."""
        if _is_ours(event):
            self.depth += 1
            if self.depth == 1:
                self.announcement.begin()

    def on_end(self, event: Any) -> None:
        """Finish a kernel."""
        if _is_ours(event):
            self.depth -= 1
            if self.depth == 0:
                self.announcement.end()


def _is_ours(event: Any) -> bool:
    package = __name__.partition(".")[0]
    return str(event.data["dispatcher"].py_func.__module__).partition(".")[0] == package


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]

"""The writer: writes finished simulations while others are computed."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

from .._base.arrays import Results
from .store import Store

_SECONDS = 0.1  # between writes, at least
_MOST = 64  # simulations per write


class Writer:
    """Writer of simulations, which writes those that end at about the same time together.

    One write is in progress at a time. Slow simulations are written one by one.

    Arguments:
        store: Store to write to.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.thread = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None
        self.began = -_SECONDS
        self.waiting: dict[int, Results] = {}
        self.under_way: dict[int, Results] = {}
        self.on_disk: dict[int, Results] = {}

    def take(self, index: int, results: Results) -> None:
        """Take a simulation; block if too many are waiting already."""
        self.waiting[index] = results
        if len(self.waiting) >= _MOST:
            self._write()

    def written(self) -> dict[int, Results]:
        """Return what has reached the disk since the last call, and start the next write."""
        if self.writing is None or self.writing.done():
            self._await()
            if time.monotonic() - self.began >= _SECONDS:
                self._write()
        done, self.on_disk = self.on_disk, {}
        return done

    def flush(self) -> None:
        """Write everything, and wait for it."""
        self._write()
        self._await()

    def close(self) -> None:
        """Write everything, and end."""
        with self.thread:
            self.flush()

    def _write(self) -> None:
        self._await()
        if self.waiting:
            self.began = time.monotonic()
            self.writing = self.thread.submit(self.store.keep, self.waiting)
            self.under_way, self.waiting = self.waiting, {}

    def _await(self) -> None:
        under_way, self.under_way = self.under_way, {}
        writing, self.writing = self.writing, None
        try:
            if writing is not None:
                writing.result()
        except OSError:
            self.waiting = {}  # the disk is full: do not try again
            raise
        self.on_disk |= under_way

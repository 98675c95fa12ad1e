"""The writer: brings what is finished to the disk while others go on to simulate."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

from .._base.arrays import Results
from .store import Store

_SECONDS = 0.1  # from one write to the next, at least
_MOST = 64  # simulations that wait for the next write


class Writer:
    """Writes what has ended within a short while together: that costs a disk as much as one.

    One write is under way at a time. Where simulations take long, each is written at once.

    Arguments:
        store: Where they are written.
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
        """Take a simulation; if too many wait for the disk already, wait with them."""
        self.waiting[index] = results
        if len(self.waiting) >= _MOST:
            self._write()

    def written(self) -> dict[int, Results]:
        """Return what is on the disk since the last call, and go on with what waits."""
        if self.writing is None or self.writing.done():
            self._await()
            if time.monotonic() - self.began >= _SECONDS:
                self._write()
        done, self.on_disk = self.on_disk, {}
        return done

    def flush(self) -> None:
        """Return when all is on the disk."""
        self._write()
        self._await()

    def close(self) -> None:
        """Write what is left, and nothing after that."""
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
            self.waiting = {}  # a disk that is full once is full again
            raise
        self.on_disk |= under_way

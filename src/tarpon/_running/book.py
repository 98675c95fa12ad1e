"""The book of a run: which simulations are done, failed, and still to do."""

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..engine import Results
from ..simulations import Simulations
from .store import Failure, Store
from .workers import Fault, Outcome

_HOPELESS = 5  # simulations that fail before any works


class Book:
    """Which simulations are done, failed, and still to do.

    Arguments:
        store: Where those that are done are kept.
        n_sims: How many there are.
        retries: How often one that failed is tried again.
    """

    def __init__(self, store: Store, n_sims: int, retries: int) -> None:
        self.store, self.n_sims, self.retries = store, n_sims, retries
        self.results: dict[int, Results] = {}
        self.failures: dict[int, Failure] = {}
        self.notes: list[str] = []
        self.waiting: deque[int] = deque()
        self.running: set[int] = set()
        self.attempts: Counter[int] = Counter()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.unwritten: dict[Future[None], tuple[int, Results]] = {}
        for index in range(n_sims):
            self._recall(index)
        self.n_before = len(self.results)

    def _recall(self, index: int) -> None:
        try:
            results = self.store.read(index)
        except ValueError as damage:
            self.notes.append(f"{damage}: simulation {index} was computed again.")
            results = None
        if results is None:
            self.waiting.append(index)
        else:
            self.results[index] = results
            self.shapes = {name: one.shape for name, one in results.items()}

    @property
    def open(self) -> bool:
        """Whether anything is left to do or to wait for."""
        return bool(self.waiting or self.running or self.unwritten)

    def next(self) -> int:
        """Hand out a simulation."""
        index = self.waiting.popleft()
        self.running.add(index)
        return index

    def enter(self, index: int, outcome: Outcome | None, writers: ThreadPoolExecutor) -> None:
        """Take what a worker made of a simulation, which is nothing if it has not begun it."""
        self.running.remove(index)
        if outcome is None:
            self.waiting.appendleft(index)
            return
        self.attempts[index] += 1
        if not isinstance(outcome, Fault):
            outcome = self._like_the_others(outcome)
        if not isinstance(outcome, Fault):
            writing = writers.submit(self.store.keep, index, outcome)
            self.unwritten[writing] = index, outcome
        elif self.attempts[index] <= self.retries:
            self.waiting.appendleft(index)
        else:
            self._give_up(index, outcome)

    def _like_the_others(self, results: Results) -> Outcome:
        """Return the results, or say how they differ from those of other simulations."""
        here = {name: one.shape for name, one in results.items()}
        there = self.shapes = self.shapes or here
        if here == there:
            return results
        names = sorted(name for name in here | there if here.get(name) != there.get(name))
        return Fault(
            f"simulations must be alike, but this one differs from others in the shape of "
            f"{', '.join(names)}: {[here.get(n) for n in names]}, {[there.get(n) for n in names]}"
        )

    def _give_up(self, index: int, fault: Fault) -> None:
        failure = Failure(index, fault.message, self.attempts[index], fault.details)
        self.failures[index] = failure
        with _on_disk(self):
            self.store.note(failure)
        if not self.results and not self.unwritten and len(self.failures) >= _HOPELESS:
            raise RuntimeError(
                f"none of the first {len(self.failures)} simulations worked. The last: {failure}."
                f"\n{fault.details}"
            )

    def commit(self) -> None:
        """Count what the disk has put down."""
        for writing in [future for future in self.unwritten if future.done()]:
            index, results = self.unwritten.pop(writing)
            with _on_disk(self):
                writing.result()
            self.results[index] = results

    def simulations(self, n_first: int, names: list[str] | None) -> Simulations:
        """Return those of the first that are done, in the order of their indices."""
        every = [self.results[index] for index in range(n_first) if index in self.results]
        if len(every) < 2:
            said = next(iter(self.failures.values()), "nothing")
            raise RuntimeError(f"only {len(every)} simulations worked. The first: {said}.")
        axes = {"samples": 1, "theta": 0, "x": 0, "log_prob_samples": 1, "log_prob_theta": 0}
        arrays: dict[str, Any] = {
            name: np.stack([results[name] for results in every], axis=axis)
            for name, axis in axes.items()
            if name in every[0]
        }
        return Simulations(**arrays, names=names)


@contextmanager
def _on_disk(book: Book) -> Iterator[None]:
    """Say what to do when the disk does not take what it is given."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{str(book.store.folder)!r} cannot be written to: {error.strerror or error}. The "
            f"{len(book.results)} simulations in it are safe. When there is room again, the same "
            f"call goes on from there."
        ) from error

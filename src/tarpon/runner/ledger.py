"""The book of a run: which simulations are done, have failed, and are still to do."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._base.arrays import Results
from ..simulations import Simulations
from .store import Failure, Store, stacked
from .workers import Attempt, Fault
from .writer import Writer

_HOPELESS = 5  # failures before the first success


class Book:
    """Book of simulations that are done, have failed, and are still to do.

    When it is closed, all results are on the disk.

    Arguments:
        store: Store of finished simulations.
        n_sims: Number of simulations.
        retries: Number of further attempts after a failure.
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
        self.writer = Writer(store)
        for path in store.files(n_sims):
            self._recall(path)
        self.waiting.extend(index for index in range(n_sims) if index not in self.results)

    def _recall(self, path: Path) -> None:
        try:
            found = self.store.read(path)
        except ValueError as damage:
            self.store.set_aside(path)
            self.notes.append(f"{damage} It was renamed, and its simulations are computed again.")
            return
        self.shapes = {name: array.shape for name, array in next(iter(found.values())).items()}
        self.results |= {k: results for k, results in found.items() if k < self.n_sims}

    def __enter__(self) -> "Book":
        return self

    def __exit__(self, *_: object) -> None:
        with _on_disk(self):
            self.writer.close()

    @property
    def open(self) -> bool:
        """Whether simulations are waiting or running."""
        return bool(self.waiting or self.running)

    def next(self) -> int:
        """Return the index of the next simulation."""
        index = self.waiting.popleft()
        self.running.add(index)
        return index

    def enter(self, index: int, attempt: Attempt | None) -> None:
        """Enter the result or fault of a simulation; None if its worker never began it."""
        self.running.remove(index)
        if attempt is None:
            self.waiting.appendleft(index)
            return
        self.attempts[index] += 1
        if not isinstance(attempt, Fault):
            attempt = self._unlike(attempt) or attempt
        if not isinstance(attempt, Fault):
            with _on_disk(self):
                self.writer.take(index, attempt)
        elif self.attempts[index] <= self.retries:
            self.waiting.appendleft(index)
        else:
            self._give_up(index, attempt)

    def _unlike(self, results: Results) -> Fault | None:
        """Return a fault if results have other shapes than those of other simulations."""
        here = {name: one.shape for name, one in results.items()}
        there = self.shapes = self.shapes or here
        if here == there:
            return None
        names = sorted(name for name in here | there if here.get(name) != there.get(name))
        return Fault(
            f"all simulations must have the same shapes, but this one differs in the shape of "
            f"{', '.join(names)}: {[here.get(n) for n in names]}, {[there.get(n) for n in names]}"
        )

    def _give_up(self, index: int, fault: Fault) -> None:
        failure = Failure(index, fault.message, self.attempts[index], fault.details)
        self.failures[index] = failure
        with _on_disk(self):
            self.store.note(failure)
        if not self.shapes and len(self.failures) >= _HOPELESS:
            raise RuntimeError(
                f"all of the first {len(self.failures)} simulations failed. The last: {failure}."
                f"\n{fault.details}"
            )

    def commit(self) -> None:
        """Count the simulations that have reached the disk."""
        with _on_disk(self):
            if not self.open:
                self.writer.flush()
            self.results |= self.writer.written()

    def simulations(self, n_first: int, names: list[str] | None) -> Simulations:
        """Return the finished ones of the first `n_first` simulations, in order."""
        every = [self.results[index] for index in range(n_first) if index in self.results]
        if len(every) < 2:
            worked = "only one simulation" if every else "no simulation"
            first = next(iter(self.failures.values()), "none")
            raise RuntimeError(
                f"{worked} succeeded, and a test needs two. The first failure: {first}."
            )
        return Simulations(**stacked(every), names=names)


@contextmanager
def _on_disk(book: Book) -> Iterator[None]:
    """Add advice to errors of the disk."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{str(error).removesuffix('.')}. The {len(book.results)} simulations in "
            f"{str(book.store.path)!r} are safe. When the disk has room again, the same call "
            f"resumes from there."
        ) from error

"""When to stop: the sequential test of a run."""

from itertools import count, groupby, islice, takewhile

import numpy as np

from .._base.arrays import Results
from ..checks.tolerances import Tolerance
from ..sequential.monitor import Monitor
from ..simulations import Simulations
from .ledger import Book
from .store import precision, stacked

_AT_ONCE = 64  # simulations added together, which is faster and changes no number


class Watch:
    """Sequential test of simulations, in the order of their indices.

    So the simulation at which it stops depends on the seed only, not on the speed of workers.
    `place` is the number of simulations that count, including failures.
    """

    def __init__(
        self, level: float, tolerance: float | Tolerance, seed: int, names: list[str] | None
    ) -> None:
        self.enough, self.names = 1 / level, names
        self.monitor = Monitor(level=level, tolerance=tolerance, rng=seed)
        self.place = 0

    @property
    def settled(self) -> str:
        """The reason to stop; "" if there is none, or fewer than two simulations."""
        early = self.monitor.n_sims < 2 or self.monitor.outcome == "running"
        return "" if early else self.monitor.outcome

    def follow(self, book: Book) -> None:
        """Add all simulations without an unfinished one before them."""
        while not self.settled:
            while self.place in book.failures:
                self.place += 1
            ready = self._ready(book)
            if not ready:
                return
            n_before, sims = self.monitor.n_sims, Simulations(**stacked(ready), names=self.names)
            self.monitor._take(sims, until_settled=True)
            self.place += self.monitor.n_sims - n_before

    def _ready(self, book: Book) -> list[Results]:
        """Return the next finished simulations with the same dtypes."""
        there = takewhile(book.results.__contains__, count(self.place))
        results = (book.results[index] for index in islice(there, _AT_ONCE))
        return next((list(alike) for _, alike in groupby(results, precision)), [])

    def expected(self, n_sims: int) -> int:
        """Return how many more simulations are expected before the run stops."""
        n, monitor = self.place, self.monitor
        # The bound on coverage shrinks with the square root of the number of simulations.
        guesses = [n_sims, n * (monitor.within / monitor.tolerance) ** 2 if n else n_sims]
        if monitor.e_value > 1:
            guesses.append(n * np.log(self.enough) / np.log(monitor.e_value))
        return max(int(min(guesses)) - n, 0)

    def stage(self, book: Book) -> str:
        """Return evidence, coverage and what is left, in one line."""
        words = [
            f"evidence {self.monitor.e_value:.2g}:1 (stops at {self.enough:.3g}:1)",
            f"coverage ±{self.monitor.within:.2g}",
            f"about {self.expected(book.n_sims)} more",
        ]
        return ", ".join(words + _failed(book))


class Patience:
    """No test on the way: all simulations count, for a test at the end.

    The nearest of them are known only when all are done, so that no earlier look is exact.
    """

    settled = ""

    def __init__(self, n_sims: int) -> None:
        self.place = n_sims

    def follow(self, book: Book) -> None:
        """Do nothing."""

    def stage(self, book: Book) -> str:
        """Return what is simulated, in one line."""
        return ", ".join(["around the observation", *_failed(book)])


def _failed(book: Book) -> list[str]:
    return [f"{len(book.failures)} failed"] if book.failures else []

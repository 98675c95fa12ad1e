"""The watch over a run: what is known so far, and whether that is enough."""

from itertools import count, groupby, islice, takewhile

import numpy as np

from .._base.arrays import Results
from ..sequential.monitor import Monitor
from ..simulations import Simulations
from .ledger import Book
from .store import precision, stacked

_AT_ONCE = 64  # simulations that are tested together, which is faster and gives the same


class Watch:
    """The sequential test, which takes simulations in the order of their indices alone.

    So where it stops hangs on the seed, and not on who was quick: `place` is the number of
    simulations that count, failed ones among them.
    """

    def __init__(self, level: float, tolerance: float, seed: int, names: list[str] | None) -> None:
        self.enough, self.names = 1 / level, names
        self.monitor = Monitor(level=level, tolerance=tolerance, rng=seed)
        self.place = 0

    @property
    def settled(self) -> str:
        """Why to stop; nothing while there is no reason, or only one simulation to describe."""
        early = self.monitor.n_sims < 2 or self.monitor.outcome == "running"
        return "" if early else self.monitor.outcome

    def follow(self, book: Book) -> None:
        """Take in all simulations that have none before them that is still to come."""
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
        """Return the next simulations, as far as they are there and of one precision."""
        there = takewhile(book.results.__contains__, count(self.place))
        results = (book.results[index] for index in islice(there, _AT_ONCE))
        return next((list(alike) for _, alike in groupby(results, precision)), [])

    def expected(self, n_sims: int) -> int:
        """Return how many simulations it will take at the pace so far."""
        n, monitor = self.place, self.monitor
        # What is uncertain about coverage shrinks with the square root.
        guesses = [n_sims, n * (monitor.within / monitor.tolerance) ** 2 if n else n_sims]
        if monitor.e_value > 1:
            guesses.append(n * np.log(self.enough) / np.log(monitor.e_value))
        return max(int(min(guesses)) - n, 0)

    def stage(self, book: Book) -> str:
        """Return what is known so far, in a line."""
        words = [
            f"evidence {self.monitor.e_value:.2g}:1 (stops at {self.enough:.3g}:1)",
            f"coverage ±{self.monitor.within:.2g}",
            f"about {self.expected(book.n_sims)} more",
        ]
        return ", ".join(words + ([f"{len(book.failures)} failed"] if book.failures else []))

"""What experiments are given, and what they give back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.stats import binom

from .._base.progress import Progress, tracked
from .._base.threads import n_allowed
from ..checks import Check
from ..diagnostics import Result
from ..problems import Galaxies, pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Item = TypeVar("Item")
Value = TypeVar("Value")

LEVEL = 0.05

# An accurate posterior breaks a limit on "about 5 %" less often than this.
_FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Lab:
    """What an experiment is given.

    Arguments:
        out: The folder for what it writes.
        quick: Whether to run it small.
        seed: The seed.
        galaxies: A `.npy` file of pictures of galaxies, or none for those of the Hubble field.
        device: Where chains run: "cpu", a CUDA device of torch, or "auto" to take one if there is.
        progress: Called as `progress(stage, n_done, n_total)`.
    """

    out: Path
    quick: bool = False
    seed: int = 0
    galaxies: Path | None = None
    device: str = "auto"
    progress: Progress | None = None

    @cached_property
    def prior(self) -> Galaxies:
        """The prior of lensed sources."""
        return Galaxies.fit(pictures(self.galaxies))

    def size(self, full: int, quick: int) -> int:
        """Return a size of the experiment."""
        return quick if self.quick else full

    @property
    def n_swaps(self) -> int:
        """Number of swaps of `check`; the fewer of a quick run give p-values of 0.005 and more."""
        return self.size(999, 199)

    def track(self, items: Iterable[Item], n_total: int, stage: str) -> Iterator[Item]:
        """Yield items, and tell how many are done."""
        return tracked(items, stage, n_total, self.progress)

    def map(
        self, function: Callable[[Item], Value], items: Sequence[Item], stage: str
    ) -> list[Value]:
        """Return the function of each item, computed on all processors."""
        with ThreadPoolExecutor(n_allowed()) as pool:
            return list(self.track(pool.map(function, items), len(items), stage))


@dataclass(frozen=True)
class Claim:
    """A number that an experiment must give.

    Arguments:
        what: What the number is.
        value: The number.
        low: What it must not be below, if anything.
        high: What it must not be above, if anything.
    """

    what: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the number lies where it must."""
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return bool(low <= self.value <= high)

    @property
    def wanted(self) -> str:
        """Where the number must lie, in words."""
        low, high = (None if x is None else f"{x:.3g}" for x in (self.low, self.high))
        if low is not None and high is not None:
            return low if low == high else f"{low} to {high}"
        return f"≥ {low}" if high is None else f"≤ {high}"


@dataclass(frozen=True)
class Answer:
    """What the paper's tests and `check` say of one estimator, side by side.

    Arguments:
        case: The estimator.
        tests: The p-value of each of the paper's tests, by name.
        check: The p-value of `check`.
        words: What `check` says.
    """

    case: str
    tests: dict[str, float]
    check: float
    words: str

    @classmethod
    def of(cls, case: str, tests: dict[str, Result], check: Check) -> "Answer":
        """Return the answers that results give."""
        words = str(check.findings[0]) if check.findings else check.outcome
        p_values = {name: result.p_value for name, result in tests.items()}
        return cls(case, p_values, check.p_value, words)


@dataclass
class Outcome:
    """What an experiment gives back.

    Arguments:
        figures: Its figures, by file name.
        claims: The numbers that it must give.
        answers: What the tests say, estimator by estimator.
        tables: More numbers to be read, by title: rows of names and values.
        numbers: What else the figures show.
    """

    figures: "dict[str, Figure]" = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)


def distance(result: Result) -> float:
    """Return the largest distance of a curve from the diagonal (Kolmogorov and Smirnov's)."""
    return float(abs(result.curve.ecp - result.curve.level).max())


def about(what: str, n_rejected: int, n_studies: int, level: float = LEVEL) -> Claim:
    """Claim that accurate posteriors are rejected as often as the level says."""
    low, high = binom(n_studies, level).ppf([_FALSE_ALARM, 1 - _FALSE_ALARM]) / n_studies
    return Claim(what, n_rejected / n_studies, float(low), float(high))


def curve(result: Result, n_points: int = 101) -> dict[str, Any]:
    """Return the numbers of a curve, at levels close enough to draw it again."""
    at = np.unique(np.linspace(0, len(result.curve.level) - 1, n_points).astype(int))
    return {
        "p_value": result.p_value,
        "distance": distance(result),
        "level": np.round(result.curve.level[at], 4).tolist(),
        "coverage": np.round(result.curve.ecp[at], 4).tolist(),
    }

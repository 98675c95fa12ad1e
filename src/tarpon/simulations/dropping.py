"""Dropping: whether it was chance which simulations failed and were left out.

Where failures depend on the parameters, those that are left follow another prior than the
posteriors assume: accurate ones then look wrong. If failures are chance, the truths, draws and
observations of those dropped are a random sample of all, and a permutation test of any statistic
is exact.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from .._base.arrays import host
from .._base.text import stated
from .._base.types import Array, Floats
from .stored import Stored

if TYPE_CHECKING:
    from . import Simulations

_LEVEL = 0.01  # how often chance is taken for something else
_PERMUTATIONS = 999
_MOST_COMPARED = 2000  # simulations on either side, chosen at random
_MOST_COLUMNS = 128


@dataclass(frozen=True)
class Dropping:
    """Whether it depends on the simulations which of them were dropped.

    Each number is an exact p-value, adjusted for the number of them, of a comparison of the
    dropped simulations with the others; None where there is nothing to compare.

    Arguments:
        truths: That of the truths, as far as they are finite.
        draws: That of one draw of each, the first that is finite.
        x: That of the observations.
        where: The parameter whose truths, or draws, differ most.
    """

    truths: float | None = None
    draws: float | None = None
    x: float | None = None
    where: str = ""

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What dropping depends on: any of "truths", "draws" and "x"."""
        return tuple(
            name
            for name in ("truths", "draws", "x")
            if (p_value := getattr(self, name)) is not None and p_value <= _LEVEL
        )

    @property
    def doubtful(self) -> bool:
        """Whether accurate posteriors may look wrong because of what was dropped."""
        return "truths" in self.depends_on or "draws" in self.depends_on

    @property
    def cause(self) -> str:
        """What dropping depends on, in words; nothing if it looks random."""
        points = " and ".join(name for name in self.depends_on if name != "x")
        on = [f"the {points} of {self.where}"] * bool(points)
        return " and ".join([*on, *["the observations"] * ("x" in self.depends_on)])

    @property
    def doubt(self) -> str:
        """What to add to an answer that is in doubt; nothing to others."""
        if not self.doubtful:
            return ""
        return f"; in doubt, since which simulations were dropped depends on {self.cause}"

    def exactness(self, n_dropped: int, *, approximate: bool = False) -> str:
        """Return in which sense p-values are exact after `n_dropped` simulations were dropped."""
        exact = "approximate" if approximate else "exact"
        if not n_dropped:
            return exact
        if self.depends_on:
            given = "only if" if self.doubtful else "given that"
            return f"{exact} {given} failures depend on the observations alone"
        return f"{exact} given that the dropped ones failed at random"

    def warning(self, n_dropped: int, n_sims: int) -> str | None:
        """Return what dropping can do, if it does not look random, of so many and those left."""
        if not self.depends_on:
            return None
        smallest = min(getattr(self, name) for name in self.depends_on)
        said = (
            f"{n_dropped} of {n_dropped + n_sims} simulations were dropped, and which ones "
            f"depends on {self.cause} ({stated('p', smallest)})."
        )
        rest = "the answer holds for observations that do not fail."
        if not self.doubtful:
            return f"{said} {rest[:1].upper()}{rest[1:]}"
        return (
            f"{said} If simulations fail because of their parameters, those left follow another "
            f"prior than the posteriors assume, and accurate ones look wrong: find out why they "
            f"fail, or leave their parameters out of the prior. If they fail because of what was "
            f"observed, {rest}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, and what dropping depends on."""
        return asdict(self) | {"depends_on": list(self.depends_on)}


def first_finite(sims: "Simulations") -> Floats:
    """Return the first draw of each simulation that is finite, NaN if none is, `(n_sims, n_dims)`.

    One draw, not a mean: the mean of the few that are left would scatter more widely.
    """
    first = host(sims.samples[:1])[0].astype(float)
    for k in np.flatnonzero(~np.isfinite(first).all(axis=1)):
        draws = host(sims.samples[:, k : k + 1])[:, 0]
        there = np.flatnonzero(np.isfinite(draws).all(axis=1))[:1]
        first[k] = draws[there[0]] if len(there) else np.nan
    return first


def tested(sims: "Simulations", invalid: Array, first: Floats | None) -> Dropping:
    """Compare the simulations that are about to be dropped with the others.

    Arguments:
        sims: All simulations.
        invalid: Which of them are dropped.
        first: One finite draw of each, if known.
    """
    columns: dict[str, Floats] = {}
    if sims.n_dims:
        columns["truths"] = host(sims.theta).astype(float)
        columns["draws"] = first_finite(sims) if first is None else first
    x = sims.x
    if x is not None and not (isinstance(x, Stored) and prod(x.shape[1:]) > _MOST_COLUMNS):
        columns["x"] = np.asarray(host(x), dtype=float).reshape(sims.n_sims, -1)
    compared = {name: _compare(values, invalid) for name, values in columns.items()}
    found = {name: pair for name, pair in compared.items() if pair is not None}
    p_values = {name: min(1.0, len(found) * p) for name, (p, _) in found.items()}
    names: Sequence[str] = sims.names or ()
    parameters = [found[name] for name in ("truths", "draws") if name in found]
    where = names[min(parameters)[1]] if parameters else ""
    return Dropping(**p_values, where=where)


def _compare(values: Floats, dropped: Array) -> tuple[float, int] | None:
    """Return the p-value that dropped rows are a random sample, and the column that tells most."""
    # Random numbers follow from which ones were dropped, and from nothing that is compared.
    rng = np.random.default_rng(int(sha256(dropped.tobytes()).hexdigest(), 16))
    chosen = np.unique(np.linspace(0, values.shape[1] - 1, _MOST_COLUMNS).astype(int))
    values = values[:, chosen] if values.shape[1] else values
    finite = np.isfinite(values).all(axis=1)
    some = [np.flatnonzero(finite & side) for side in (dropped, ~dropped)]
    some = [rng.permutation(rows)[:_MOST_COMPARED] for rows in some]
    n_dropped, n_kept = map(len, some)
    if not n_dropped or not n_kept or not values.shape[1]:
        return None
    scores = _scores(values[np.concatenate(some)])
    sums = _sums(scores, n_dropped, rng)
    largest = sums.max(axis=1)
    p_value = float((largest >= largest[0] * (1 - 1e-9)).mean())
    return p_value, int(chosen[sums[0].argmax() % len(chosen)])


def _scores(values: Floats) -> Floats:
    """Return ranks and their squares of each column, with mean 0 and sd 1; 0 if none differ."""
    ranks = np.empty(values.shape)
    for k, column in enumerate(values.T):
        _, place, number = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, k] = (number.cumsum() - 0.5 * number)[place] - 0.5 * len(column)
    scores = np.concatenate([ranks, np.square(ranks)], axis=1)
    scores -= scores.mean(axis=0)
    sd = scores.std(axis=0)
    return scores / np.where(sd > 1e-9 * len(values), sd, np.inf)


def _sums(scores: Floats, n: int, rng: Generator) -> Floats:
    """Return squared sums over the first `n` rows, and over random ones, `(n_sums, n_scores)`."""
    sums = [scores[:n].sum(axis=0)]
    for _ in range(_PERMUTATIONS):
        sums.append(scores[rng.permutation(len(scores))[:n]].sum(axis=0))
    return np.square(sums)

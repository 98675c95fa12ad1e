"""Ranks of the truths among their draws. Nothing after the ranks depends on the posterior."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from . import regions
from ._base.arrays import Results, joined
from ._base.text import Estimate
from ._base.types import Floats, Ints
from .regions import Region
from .simulations import Simulations, is_simple, passes

N_LEVELS = 999  # the largest rank among weighted draws


@dataclass(frozen=True, eq=False)
class Ranks:
    r"""Ranks :math:`r_i \in \{0, \dots, n\}` of the truths among :math:`n` draws.

    For draws of unequal number or weight, ranks are levels of the weight below the truth.

    Arguments:
        values: Ranks of shape `(n_sims,)`, or `(n_sims, n_scores)` for several scores.
        n_draws: Number of draws :math:`n`, the largest rank.
    """

    values: Ints
    n_draws: int

    @property
    def n_sims(self) -> int:
        return len(self.values)

    def histogram(self) -> Ints:
        """Return how often each rank occurs, `(n_draws + 1,)` or `(n_draws + 1, n_scores)`."""
        columns = np.atleast_2d(self.values.T)
        counts = [np.bincount(column, minlength=self.n_draws + 1) for column in columns]
        return np.transpose(counts).reshape(self.n_draws + 1, *self.values.shape[1:])

    def pit(self, rng: Generator) -> Floats:
        """Return the ranks spread over [0, 1], uniform if and only if the ranks are."""
        return (self.values + rng.uniform(size=self.values.shape)) / (self.n_draws + 1)


def rank(sims: Simulations, region: Region, rng: Generator) -> Ranks:
    r"""Rank each truth among its draws, with ties broken at random.

    .. math::
        r_i = \#\{j : s_{ij} < s^*_i\} + \mathrm{Uniform}\{0, \dots, \#\{j : s_{ij} = s^*_i\}\}
    """
    return broken(counts(sims, region), sims, rng)


def broken(counts: Results, sims: Simulations, rng: Generator) -> Ranks:
    r"""Return the ranks that follow from counts, with ties broken at random.

    For weighted draws, with the weight :math:`w^*` of the truth and :math:`V` uniform,

    .. math:: u_i = \frac{\sum_{s_{ij} < s^*_i} w_{ij} + V_i \Big(w^*_i
              + \sum_{s_{ij} = s^*_i} w_{ij}\Big)}{w^*_i + \sum_j w_{ij}}

    is exactly uniform, and is rounded down to one of a thousand levels.
    """
    if not sims.weighted:
        values, equal = counts["below"].astype(np.int64), counts["equal"]
        tied = equal > 0  # without a tie, no random number is drawn: that takes time, too
        values[tied] += rng.integers(equal[tied], endpoint=True)
        return Ranks(values, n_draws=sims.n_draws)
    u = counts["below"] + rng.uniform(size=counts["below"].shape) * counts["equal"]
    return Ranks(np.minimum((u * (N_LEVELS + 1)).astype(np.int64), N_LEVELS), n_draws=N_LEVELS)


Extra = Callable[[Simulations, Region], Results]


def counts(sims: Simulations, region: Region, extra: Extra | None = None) -> Results:
    """Count the draws that score below each truth, and the draws that score the same.

    For weighted draws, return their shares of the weight; the second includes that of the truth.

    Arguments:
        sims: Simulations, in memory, on disk or on a device.
        region: Region that scores the points.
        extra: Function that returns further arrays per simulation, computed in the same pass.
    """
    if is_simple(sims):
        return passes.whole(sims, partial(_counts, region=region, extra=extra))
    return joined(
        passes.each(
            sims,
            "counts",
            partial(_counts_of_part, extra=extra),
            extra=lambda part: {"region": regions.cut(region, part)},
            final=True,
            apart=True,
        )
    )


def _counts_of_part(part: Simulations, *, region: Region, extra: Extra | None) -> Results:
    stored = part._unread.get("samples")
    if stored is not None and stored.plain and regions.counter(region, part)[1]:
        return _counts(part._fetched(but="samples"), region, extra)  # kernels read the draws
    pieces = passes.pieces(part, by_chunk=True, unchecked=True)
    return joined(_counts(piece, region, extra) for piece in pieces)


def _counts(sims: Simulations, region: Region, extra: Extra | None) -> Results:
    count, fused = regions.counter(region, sims)
    below, equal = passes.noticed(sims, count, fused=fused)
    more = {} if extra is None else extra(sims, region)
    return {"below": below, "equal": equal, **more}


def held(
    values: Ints, n_draws: int, level: float, *, central: bool, error: float = 0.05
) -> Estimate:
    """Return the share of truths whose ranks lie in the first, or central, `level` of all ranks.

    Arguments:
        values: The ranks of one score, `(n_sims,)`.
        n_draws: The number of draws.
        level: The share of the ranks.
        central: Whether those in the middle are meant, or those from the lowest on.
        error: The probability that the interval misses the share.
    """
    start = (1 - level) / 2 if central else 0.0
    u = (values + 0.5) / (n_draws + 1)
    return proportion(int(((u > start) & (u < start + level)).sum()), len(values), error)


def proportion(n_inside: int, n_sims: int, error: float = 0.05) -> Estimate:
    """Return a share of the simulations with its exact interval (Clopper and Pearson, 1934).

    It also holds for the mean of probabilities that differ (Hoeffding, 1956).
    """
    from scipy.special import betaincinv

    low = betaincinv(n_inside, n_sims - n_inside + 1, error / 2) if n_inside else 0.0
    high = betaincinv(n_inside + 1, n_sims - n_inside, 1 - error / 2) if n_inside < n_sims else 1.0
    return Estimate(n_inside / n_sims, float(low), float(high))

r"""Tolerances: errors that are too small to matter, and whether a study shows that they are.

With enough simulations every approximate posterior is rejected. Simultaneous intervals say how
large its errors can be: with the confidence :math:`1 - a`, a third of :math:`a` each for the
biases, for the widths and for the coverage of all :math:`D` parameters, by Bonferroni. Of
coverage, with the distribution function :math:`F_N` of the ranks of :math:`m` regions in
:math:`N` simulations, the bound of Dvoretzky, Kiefer, Wolfowitz and Massart holds at all levels,

.. math:: \sup_c |F(c) - c| \le \sup_c |F_N(c) - c| + \sqrt{\frac{\log(6 m / a)}{2 N}} .
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log1p, sqrt

import numpy as np

from .._base import arguments
from .._base.types import Floats, Ints
from .parameters import Effects

_KINDS = 3  # biases, widths and coverage share the confidence
# The parts of the swap test that are regions, in words.
_REGIONS = {"centre": "regions around the centre", "density": "regions of highest density"}


@dataclass(frozen=True)
class Tolerance:
    """The largest errors that do not matter, on average over observations.

    Arguments:
        bias: Of any parameter, in posterior sd.
        width: Of any parameter, as a fraction: 0.1 lets truths scatter between 0.9 and 1.1 times
            as widely as the draws.
        coverage: Of the central intervals of any parameter, and of regions around the centre and
            of highest density, at any level.

    Example:
        >>> sims = tarpon.problems.zoo("exact", n_dims=2, n_sims=4000, n_draws=100, rng=0)
        >>> tarpon.check(sims, tolerance=tarpon.Tolerance(), rng=0).outcome
        'within tolerance'
    """

    bias: float = 0.1
    width: float = 0.1
    coverage: float = 0.05

    def __post_init__(self) -> None:
        for name in ("bias", "width", "coverage"):
            arguments.above_zero(name, getattr(self, name))


@dataclass(frozen=True)
class Margin:
    """How large an error is at least and at most, in the worst parameter or region.

    Arguments:
        least: The error is not smaller.
        most: The error is not larger, in any of them.
        worst: The name of the parameter or region with the largest one.
    """

    least: float
    most: float
    worst: str


@dataclass(frozen=True)
class Margins:
    """The errors that a study leaves possible, all at once.

    Arguments:
        tolerance: The largest errors that do not matter.
        confidence: The confidence of all margins together.
        bias: Of the biases, in posterior sd.
        width: Of the widths, as a fraction.
        coverage: Of the coverage of single parameters, of regions around the centre, and of those
            of highest density if there are densities.
    """

    tolerance: Tolerance
    confidence: float
    bias: Margin
    width: Margin
    coverage: Margin

    @property
    def kinds(self) -> dict[str, tuple[Margin, float]]:
        """The margins and what is tolerated, by kind."""
        names = ("bias", "width", "coverage")
        return {name: (getattr(self, name), getattr(self.tolerance, name)) for name in names}

    @property
    def within(self) -> bool:
        """Whether all errors are shown to be tolerable."""
        return all(margin.most <= limit for margin, limit in self.kinds.values())

    @property
    def beyond(self) -> tuple[str, ...]:
        """The kinds of errors that are shown to be larger than what is tolerated."""
        return tuple(kind for kind, (one, limit) in self.kinds.items() if one.least > limit)


def margins(
    effects: Effects,
    names: Sequence[str],
    ranks: Mapping[str, Ints],
    tolerance: Tolerance,
    level: float,
) -> Margins:
    """Return the errors that a study leaves possible.

    Arguments:
        effects: The effects of all simulations.
        names: The names of the parameters.
        ranks: The ranks of the truths by the parts of the swap test, `(n_sims,)` each.
        tolerance: The largest errors that do not matter.
        level: One minus the confidence.
    """
    from scipy.special import stdtrit

    dims, share, n_sims = range(len(names)), level / _KINDS, len(effects.truth)
    z = float(stdtrit(n_sims - 1, 1 - share / (2 * len(names))))
    biases, widths = ([of(k, z) for k in dims] for of in (effects.bias, effects.width))
    every = np.arange(effects.ranks.n_draws + 1)
    from_middle, all_from = (abs(2 * r - every[-1]) for r in (effects.ranks.values, every))
    distances = {name: _distance(from_middle[:, k], all_from) for k, name in enumerate(names)}
    regions = {words: ranks[part] for part, words in _REGIONS.items() if part in ranks}
    distances |= {words: _distance(values, every) for words, values in regions.items()}
    radius = sqrt(log(2 * len(distances) / share) / (2 * n_sims))
    return Margins(
        tolerance,
        1 - level,
        _margin(np.array([[one.low, one.high] for one in biases]), names),
        _margin(np.array([[one.low - 1, one.high - 1] for one in widths]), names),
        _margin(
            np.array([[distance - radius, distance + radius] for distance in distances.values()]),
            tuple(distances),
        ),
    )


def _margin(ends: Floats, names: Sequence[str]) -> Margin:
    """Return the margin of errors with intervals `(n, 2)`."""
    most = abs(ends).max(axis=1)
    least = np.where(ends.prod(axis=1) > 0, abs(ends).min(axis=1), 0.0)
    return Margin(float(least.max()), float(most.max()), names[int(most.argmax())])


def _distance(values: Ints, accurate: Ints) -> float:
    """Return the largest distance of a distribution function from that of accurate posteriors.

    Arguments:
        values: Numbers made of the ranks of the truths, `(n_sims,)`.
        accurate: The same made of every rank once.
    """
    n = int(accurate.max()) + 1
    shares = (np.bincount(some, minlength=n) / len(some) for some in (values, accurate))
    return float(abs(np.cumsum(np.subtract(*shares))).max())


def n_needed(n_dims: int, tolerance: Tolerance, level: float, power: float) -> int:
    """Return how many simulations show that accurate normal posteriors are within a tolerance.

    Arguments:
        n_dims: The number of parameters.
        tolerance: The largest errors that do not matter.
        level: One minus the confidence.
        power: The probability of showing it.
    """
    from scipy.special import ndtri

    # Intervals must end inside the tolerance, so that estimates must be nearer to what is right.
    wrong, missed = level / _KINDS, (1 - power) / _KINDS
    z = sum(-ndtri(share / (2 * n_dims)) for share in (wrong, missed))
    reach = sum(sqrt(log(2 * (n_dims + 1) / share) / 2) for share in (wrong, missed))
    roots = (
        z / tolerance.bias,
        z / (sqrt(2) * log1p(tolerance.width)),
        reach / tolerance.coverage,
    )
    return ceil(max(roots) ** 2)

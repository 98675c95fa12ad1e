r"""Evidence that may be looked at after every simulation.

A *bet* is a function :math:`b_t(r) \ge 0` of the rank that is fixed before simulation
:math:`t`, and whose mean over the :math:`n + 1` ranks is one. Under accuracy ranks are uniform, so
the capital of whoever bets all of it every time,

.. math:: M_t = \prod_{s \le t} b_s(r_s), \qquad P(\sup_t M_t \ge 1/\alpha) \le \alpha,

is a fair game (Ville, 1939), whenever one looks and whenever one stops. A weighted mean of
capitals is fair too. So each score and each alternative has a gambler of its own, and the one that
happens to be right carries the mean: several scores cost the logarithm of their number, once.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from math import erfc, exp, log, pi, sqrt

import numpy as np
from numpy.random import Generator

from .._base.disk import Record
from .._base.types import Array, Floats, Ints
from ..ranks import broken
from ..regions import FromCentre, FromDraws, HalfLines, HighestDensity, Region, standing
from ..simulations import Simulations
from ..simulations.blocks import Block

# What the gamblers bet on: truths that are shifted against the draws, or that scatter by a factor
# more or less, in normal scores; by how much, and with which share of the money. Errors far
# beyond these are found at once all the same.
SHIFTS = {0.15: 0.15, 0.3: 0.4, 0.5: 0.35, 0.9: 0.1}
SCALES = {0.65: 0.1, 0.8: 0.2, 1.12: 0.1, 1.25: 0.3, 1.5: 0.3}
_SHIFTED, _ANY = 0.65, 0.05  # the share of shifts, and of the bet on any histogram
_N_BINS, _PER_BIN = 10, 10
LEVELS = np.linspace(0, 1, _N_BINS * _PER_BIN + 1)
_SHARES = {"marginals": 8.0, "centre": 2.0, "posterior balls": 1.0, "density": 2.0}
N_BALLS = 8
_TUNED = 50  # simulations: the bound is at its best for some ten times as many


@dataclass(frozen=True, eq=False)
class _Table:
    """What follows from a rank among so many points.

    Arguments:
        bets: What each alternative pays, `(n_points, n_alternatives)`, on average one.
        covered: Which share of a rank lies below each level, `(n_points, n_levels)`, on average
            the level.
    """

    bets: Floats
    covered: Floats


@lru_cache(maxsize=64)
def table(n_points: int) -> _Table:
    r"""Return what every rank from 0 to `n_points - 1` pays.

    Proportional to :math:`N(z; \mu, \sigma) / N(z; 0, 1)` at the normal score
    :math:`z = \Phi^{-1}((r + 1/2) / (n + 1))`.
    """
    from scipy.special import ndtri

    shift, scale, _ = _alternatives()
    rank = np.arange(n_points)[:, None]
    z = ndtri((rank + 0.5) / n_points)
    bets = np.exp(0.5 * (z**2 - ((z - shift) / scale) ** 2))
    return _Table(bets / bets.mean(axis=0), np.clip(n_points * LEVELS - rank, 0.0, 1.0))


@cache
def _alternatives() -> tuple[Floats, Floats, Floats]:
    """Return the shifts and scales of the alternatives, and all shares, the histogram's last."""
    shift = np.array([sign * size for size in SHIFTS for sign in (1, -1)] + [0.0] * len(SCALES))
    scale = np.array([1.0] * (2 * len(SHIFTS)) + list(SCALES))
    shifts = np.repeat(list(SHIFTS.values()), 2) / 2
    share = np.concatenate([_SHIFTED * shifts, (1 - _SHIFTED) * np.array(list(SCALES.values()))])
    return shift, scale, np.append((1 - _ANY) * share, _ANY)


@dataclass(frozen=True, eq=False)
class Wealth:
    """The capitals of all gamblers, and what they know of the past.

    Leading axes, if any, count runs that go on side by side.

    Arguments:
        log_capital: The logarithms, `(..., n_scores, n_bets)`.
        covered: How many truths lay below each level, `(..., n_scores, n_levels)`.
        n_sims: The number of simulations.
    """

    log_capital: Floats
    covered: Floats
    n_sims: int = 0

    @classmethod
    def initial(cls, n_scores: int, n_runs: tuple[int, ...] = ()) -> "Wealth":
        """Return what there is before the first simulation: one unit for each."""
        n_bets = len(_alternatives()[2])
        return cls(
            np.zeros((*n_runs, n_scores, n_bets)), np.zeros((*n_runs, n_scores, len(LEVELS)))
        )

    @classmethod
    def of_record(cls, record: Record, n_scores: int, n_sims: int) -> "Wealth":
        """Return the wealth that a record holds."""
        n_bets = len(_alternatives()[2])
        return cls(
            record.floats("log_capital", n_scores, n_bets),
            record.floats("covered", n_scores, len(LEVELS), low=0.0, high=float(n_sims)),
            n_sims,
        )

    def bet(self, ranks: Ints, n_points: int, sizes: Ints) -> "Wealth":
        """Return the wealth after one more simulation.

        Arguments:
            ranks: Of the truth, `(..., n_ranks)`.
            n_points: How many values a rank may have.
            sizes: How many of the ranks belong to each score; bets on these are averaged.
        """
        known, starts = table(n_points), np.cumsum(sizes) - sizes

        def averaged(values: Floats) -> Floats:
            return np.add.reduceat(values[ranks], starts, axis=-2) / sizes[:, None]

        covered = averaged(known.covered)
        histogram = _N_BINS * (self._expected() * _bins(covered)).sum(axis=-1, keepdims=True)
        bets = np.concatenate([averaged(known.bets), histogram], axis=-1)
        return Wealth(self.log_capital + np.log(bets), self.covered + covered, self.n_sims + 1)

    def _expected(self) -> Floats:
        """Return how likely each bin is, as the past has it (Krichevsky and Trofimov, 1981)."""
        return (_bins(self.covered) + 0.5) / (self.n_sims + 0.5 * _N_BINS)

    def log_e(self) -> Floats:
        """Return the logarithm of the e-value of each score, `(..., n_scores)`."""
        return log_mean(self.log_capital, _alternatives()[2])

    def error(self) -> Floats:
        """Return the worst difference of coverage and level so far, of any score, `(...)`."""
        return abs(self.covered / max(self.n_sims, 1) - LEVELS).max(axis=(-2, -1))

    def joined(self, other: "Wealth") -> "Wealth":
        """Return the wealth of gamblers who bet on both, on simulations that are independent."""
        return Wealth(
            self.log_capital + other.log_capital,
            self.covered + other.covered,
            self.n_sims + other.n_sims,
        )


def _bins(covered: Floats) -> Floats:
    return np.diff(covered[..., ::_PER_BIN], axis=-1)


def log_mean(logs: Floats, shares: Floats) -> Floats:
    """Return the logarithm of a weighted mean over the last axis."""
    top = logs.max(axis=-1)
    return top + np.log((shares * np.exp(logs - top[..., None])).sum(axis=-1))


def radius(n_sims: int, level: float) -> float:
    r"""Return how far coverage may lie above what was measured, at one level and at all times.

    The number of truths covered less its expectation :math:`S_t` has increments of variance
    :math:`1/4` at most, so for every :math:`\lambda` :math:`\exp(\lambda S_t - \lambda^2 t / 8)`
    is a capital; their mean over the positive half of :math:`N(0, 1/\rho)` is, with
    :math:`V = t / 4` (Howard, Ramdas, McAuliffe and Sekhon, 2021),

    .. math:: 2 \sqrt{\frac{\rho}{V + \rho}}\; e^{s^2 / 2}\, \Phi(s),
              \qquad s = \frac{S_t}{\sqrt{V + \rho}} ,

    and stays below one over the level with that probability. Coverage is off most at *some* level
    of *some* score, on one side. It is enough that the bound holds there: the worst measured
    error plus this radius bounds the worst error, whatever the number of scores and levels.
    """
    rho, variance = _TUNED / 4, n_sims / 4
    goal = log(1 / level) - log(2) + 0.5 * log((variance + rho) / rho)
    s = sqrt(2 * max(goal, 0.0)) + 1.0
    for _ in range(8):  # Newton's steps, downhill on a convex function
        below = 0.5 * erfc(-s / sqrt(2))
        slope = s + exp(-0.5 * s * s) / sqrt(2 * pi) / below
        s -= (0.5 * s * s + log(below) - goal) / slope
    return s * sqrt(variance + rho) / max(n_sims, 1)


@dataclass(frozen=True)
class Scores:
    """What is ranked of every simulation.

    Arguments:
        names: One name a score.
        shares: How much of the money is on each, in all one.
    """

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, sims: Simulations) -> "Scores":
        """Return the scores that simulations allow for."""
        found = {
            family: (sims.names or ()) if family == "marginals" else (family,)
            for family in regions(sims)
        }
        total = sum(_SHARES[family] for family in found)
        return cls(
            tuple(name for names in found.values() for name in names),
            tuple(
                _SHARES[family] / total / len(names)
                for family, names in found.items()
                for _ in names
            ),
        )


def regions(sims: Simulations) -> dict[str, Region]:
    """Return the regions in which truths are ranked, by family."""
    points: dict[str, Region] = {
        "marginals": HalfLines(),
        "centre": FromCentre(),
        "posterior balls": FromDraws(N_BALLS),
    }
    density: dict[str, Region] = {"density": HighestDensity()}
    return (points if sims.n_dims else {}) | (density if sims.log_prob_samples is not None else {})


def ranked(block: Block, rng: Generator) -> tuple[Ints, int, Ints]:
    """Return ranks, how many values they may have, and how many of them belong to each score.

    Arguments:
        block: Simulations whose truths are hidden among the draws.
        rng: Breaks ties.

    Returns:
        Ranks of shape `(n_block, n_ranks)`, as `Wealth.bet` takes them.
    """
    values, sizes, n_points = [], [], 0
    for family, region in regions(block.sims).items():
        below, equal = (
            numbers.reshape(len(block.truth), -1) for numbers in standing(region, block)
        )
        found = broken({"below": below, "equal": equal}, block.sims, rng)
        n_ranks, n_points = found.values.shape[1], found.n_draws + 1
        values.append(found.values)
        sizes += [1] * n_ranks if family == "marginals" else [n_ranks]
    return np.concatenate(values, axis=1), n_points, np.array(sizes)


def log_softmax_bet(scores: Array, block: Block) -> float:
    r"""Return the logarithm of what a bet on every point pays, in proportion to its score.

    .. math:: E = (n + 1)\, \frac{e^{f(\theta^*)}}{\sum_e e^{f(\theta_e)}}

    has mean one when any of the :math:`n + 1` points is as likely to be the truth. Of weighted
    points, the sum is :math:`(n + 1) \sum_e w_e e^{f(\theta_e)} / \sum_e w_e`.

    Arguments:
        scores: The scores :math:`f` of the points of one simulation, `(n_points,)`.
        block: The simulation, its truth hidden among the draws.
    """
    weights = block.weights[:, 0] if block.weighted else np.ones(len(scores))
    scores = np.asarray(scores, dtype=float)
    return float(scores[block.truth[0]] - log_mean(scores, weights / weights.sum()))

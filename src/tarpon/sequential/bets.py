r"""Bets on ranks: evidence that stays valid however often you look at it.

A *bet* is a function :math:`b_t(r) \ge 0` of the rank, fixed before simulation :math:`t`, with
mean one over the :math:`n + 1` ranks. For an accurate posterior ranks are uniform, so the capital
of a gambler who bets all of it every time,

.. math:: M_t = \prod_{s \le t} b_s(r_s), \qquad P(\sup_t M_t \ge 1/\alpha) \le \alpha,

is a fair game (Ville, 1939), however often you look and whenever you stop. A weighted mean of
capitals is fair too. So each score and each alternative has its own gambler, and the gambler who
is right dominates the mean: several scores cost the logarithm of their number, once.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from math import erfc, exp, log, pi, sqrt

import numpy as np
from numpy.random import Generator

from .._base.disk import Record
from .._base.text import clean
from .._base.types import Array, Floats, Ints
from ..ranks import broken
from ..regions import FromCentre, FromDraws, HalfLines, HighestDensity, Region, standing
from ..simulations import Simulations
from ..simulations.blocks import Block

# The alternatives: truths that are shifted against the draws, or that scatter more or less by a
# factor, in normal scores; by size, with the share of the capital on each. Much larger errors are
# detected at once as well.
SHIFTS = {0.15: 0.15, 0.3: 0.4, 0.5: 0.35, 0.9: 0.1}
SCALES = {0.65: 0.1, 0.8: 0.2, 1.12: 0.1, 1.25: 0.3, 1.5: 0.3}
_SHIFTED, _ANY = 0.65, 0.05  # the shares of shifts, and of the bet on a learned histogram
_N_BINS, _PER_BIN = 10, 10
LEVELS = np.linspace(0, 1, _N_BINS * _PER_BIN + 1)
_SHARES = {"marginals": 8.0, "centre": 2.0, "posterior balls": 1.0, "density": 2.0}
N_BALLS = 8
_TUNED = 50  # simulations; the bound is tightest for about ten times as many


@dataclass(frozen=True, eq=False)
class _Table:
    """The payments and the coverage of each rank among `n_points` points.

    Arguments:
        bets: Payments per rank and alternative, `(n_points, n_alternatives)`, with mean one.
        covered: Shares of each rank below each level, `(n_points, n_levels)`, with the level as
            mean.
    """

    bets: Floats
    covered: Floats


@lru_cache(maxsize=64)
def table(n_points: int) -> _Table:
    r"""Return the table of all ranks from 0 to `n_points - 1`.

    Payments are proportional to :math:`N(z; \mu, \sigma) / N(z; 0, 1)` at the normal score
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
    """Return shifts, scales and shares of the alternatives; the last share is the histogram's."""
    shift = np.array([sign * size for size in SHIFTS for sign in (1, -1)] + [0.0] * len(SCALES))
    scale = np.array([1.0] * (2 * len(SHIFTS)) + list(SCALES))
    shifts = np.repeat(list(SHIFTS.values()), 2) / 2
    share = np.concatenate([_SHIFTED * shifts, (1 - _SHIFTED) * np.array(list(SCALES.values()))])
    return shift, scale, np.append((1 - _ANY) * share, _ANY)


@dataclass(frozen=True, eq=False)
class Wealth:
    """The capitals of all gamblers, and the coverage so far.

    Leading axes, if any, are parallel runs.

    Arguments:
        log_capital: Logarithms of the capitals, `(..., n_scores, n_bets)`.
        covered: Numbers of truths below each level, `(..., n_scores, n_levels)`.
        n_sims: Number of simulations so far.
    """

    log_capital: Floats
    covered: Floats
    n_sims: int = 0

    @classmethod
    def initial(cls, n_scores: int, n_runs: tuple[int, ...] = ()) -> "Wealth":
        """Return the wealth before the first simulation: a capital of one per gambler."""
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
            ranks: Ranks of the truth, `(..., n_ranks)`.
            n_points: Number of values that a rank may have.
            sizes: Numbers of ranks per score, `(n_scores,)`; their bets are averaged.
        """
        by_rank, starts = table(n_points), np.cumsum(sizes) - sizes

        def averaged(values: Floats) -> Floats:
            return np.add.reduceat(values[ranks], starts, axis=-2) / sizes[:, None]

        covered = averaged(by_rank.covered)
        histogram = _N_BINS * (self._expected() * _bins(covered)).sum(axis=-1, keepdims=True)
        bets = np.concatenate([averaged(by_rank.bets), histogram], axis=-1)
        return Wealth(self.log_capital + np.log(bets), self.covered + covered, self.n_sims + 1)

    def _expected(self) -> Floats:
        """Return the probability of each bin, by past counts (Krichevsky and Trofimov, 1981)."""
        return (_bins(self.covered) + 0.5) / (self.n_sims + 0.5 * _N_BINS)

    def log_e(self) -> Floats:
        """Return the logarithm of the e-value of each score, `(..., n_scores)`."""
        return log_mean(self.log_capital, _alternatives()[2])

    def error(self) -> Floats:
        """Return the largest difference of coverage and level so far, of any score, `(...)`."""
        return abs(self.covered / max(self.n_sims, 1) - LEVELS).max(axis=(-2, -1))

    def joined(self, other: "Wealth") -> "Wealth":
        """Return the wealth after the bets of both, on independent simulations."""
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
    r"""Return how far coverage may exceed its estimate, at one level and at all times.

    The number of truths covered minus its expectation, :math:`S_t`, has increments of variance
    :math:`1/4` at most, so for every :math:`\lambda` :math:`\exp(\lambda S_t - \lambda^2 t / 8)`
    is a capital. The mean of these capitals over the positive half of :math:`N(0, 1/\rho)` is,
    with :math:`V = t / 4` (Howard, Ramdas, McAuliffe and Sekhon, 2021),

    .. math:: 2 \sqrt{\frac{\rho}{V + \rho}}\; e^{s^2 / 2}\, \Phi(s),
              \qquad s = \frac{S_t}{\sqrt{V + \rho}} ,

    and reaches one over `level` with at most that probability. The error of coverage is largest at
    *some* level of *some* score, on one side. It is enough that the bound holds there: the largest
    measured error plus this radius bounds the largest error, for any number of scores and levels.
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
class Stakes:
    """The scores by which the truth of every simulation is ranked.

    Arguments:
        names: Names, one per score.
        shares: Shares of the capital, one per score, with sum one.
    """

    names: tuple[str, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(clean(name) for name in self.names))

    @classmethod
    def of(cls, sims: Simulations) -> "Stakes":
        """Return the scores that can be computed for simulations."""
        by_family = {
            family: (sims.names or ()) if family == "marginals" else (family,)
            for family in regions(sims)
        }
        total = sum(_SHARES[family] for family in by_family)
        return cls(
            tuple(name for names in by_family.values() for name in names),
            tuple(
                _SHARES[family] / total / len(names)
                for family, names in by_family.items()
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
    """Return the ranks of truths, and the arguments `n_points` and `sizes` of `Wealth.bet`.

    Arguments:
        block: Simulations with truths hidden among the draws.
        rng: Generator that breaks ties.

    Returns:
        Ranks of shape `(n_block, n_ranks)`, the number of values that a rank may have, and the
        numbers of ranks per score.
    """
    values, sizes, n_points = [], [], 0
    for family, region in regions(block.sims).items():
        below, equal = (
            numbers.reshape(len(block.truth), -1) for numbers in standing(region, block)
        )
        ranks = broken({"below": below, "equal": equal}, block.sims, rng)
        n_ranks, n_points = ranks.values.shape[1], ranks.n_draws + 1
        values.append(ranks.values)
        sizes += [1] * n_ranks if family == "marginals" else [n_ranks]
    return np.concatenate(values, axis=1), n_points, np.array(sizes)


def log_softmax_bet(scores: Array, block: Block) -> float:
    r"""Return the logarithm of the payment of a bet on all points, by their scores.

    .. math:: E = (n + 1)\, \frac{e^{f(\theta^*)}}{\sum_e e^{f(\theta_e)}}

    has mean one if each of the :math:`n + 1` points is equally likely to be the truth. For
    weighted points, the sum is :math:`(n + 1) \sum_e w_e e^{f(\theta_e)} / \sum_e w_e`.

    Arguments:
        scores: Scores :math:`f` of the points of one simulation, `(n_points,)`.
        block: Block of one simulation, with the truth hidden among the draws.
    """
    weights = block.weights[:, 0] if block.weighted else np.ones(len(scores))
    scores = np.asarray(scores, dtype=float)
    return float(scores[block.truth[0]] - log_mean(scores, weights / weights.sum()))

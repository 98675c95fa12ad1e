r"""Comparing: which of two estimators has the better draws of the same simulations.

Each simulation gives the draws of an estimator a score, the lower the better: the energy score

.. math:: S = E|L^{-1}(\theta - \theta^*)| - \tfrac{1}{2} E|L^{-1}(\theta - \theta')| ,

where :math:`\theta^*` is the truth, :math:`\theta` and :math:`\theta'` are draws, and
:math:`L L^T` is the covariance of the truths of all simulations, the same for every estimator. Its
mean is smallest for the exact posterior: draws gain by lying near the truth, and lose by being
closer to each other than to it.

References:
    Strictly Proper Scoring Rules, Prediction, and Estimation (Gneiting and Raftery, 2007)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._base import arguments, threads
from .._base.arrays import Results, double, host, joined, namespace, to_device_of
from .._base.fingerprint import of_array
from .._base.text import Estimate
from .._base.types import RNG, Array, ArrayLike, Floats
from ..simulations import Simulations, weights
from ..simulations.blocks import Block

_MOST_DRAWS = 256  # per simulation: more change a score by less than other simulations would
_N_LAGS = 4  # pairs per draw
_RIDGE = 1e-6  # of the variance, so that parameters may depend on each other
_MOST_SIGNS = 2**22  # at a time


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of the draws of one estimator, the lower the better.

    Arguments:
        values: The scores, `(n_sims,)`.
        truths: A fingerprint of the truths: scores of the same simulations have the same.
    """

    values: Floats
    truths: str

    @property
    def mean(self) -> float:
        """The mean over all simulations."""
        return float(self.values.mean())


@dataclass(frozen=True)
class Paired:
    """How much better the first of two estimators is, on the same simulations.

    Arguments:
        share: The share of simulations in which the first scores better; ties count half.
        difference: By how much it scores better on average, with its 95 % interval.
        p_value: Exact, of the hypothesis that the two could be exchanged in every simulation.
        n_sims: The number of simulations.
        n_flips: The number of random exchanges.
    """

    share: float
    difference: Estimate
    p_value: float
    n_sims: int
    n_flips: int


def paired(first: ArrayLike, second: ArrayLike, *, n_flips: int = 9999, rng: RNG = 0) -> Paired:
    r"""Test whether one of two estimators is better, by their scores of the same simulations.

    The hypothesis is that the two scores :math:`(a_i, b_i)` of each simulation could be exchanged,
    independently of other simulations: :math:`(a_i, b_i)` and :math:`(b_i, a_i)` are equally
    likely. Exchanging them changes the sign of :math:`d_i = b_i - a_i`. So the p-value

    .. math:: p = \frac{1 + \#\{s : |\sum_i s_i d_i| \ge |\sum_i d_i|\}}{1 + n_\text{flips}}

    over random signs :math:`s_i = \pm 1` is exact for any number of simulations and any
    distribution of scores. A whole simulation is exchanged, never one of its parameters.

    Arguments:
        first: The scores of the first estimator, `(n_sims,)`, the lower the better: energy scores
            or, say, minus the log-density of the truth.
        second: The scores of the second, of the same simulations in the same order.
        n_flips: The number of random exchanges; the p-value is at least 1 / (n_flips + 1).
        rng: A seed or a generator.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(2, 100))
        >>> paired(noise[0], noise[1] + 1.0).p_value
        0.0001
    """
    a, b = _scores("first", first), _scores("second", second)
    if len(a) != len(b):
        raise ValueError(
            f"`first` and `second` must be scores of the same simulations, but got {len(a)} and "
            f"{len(b)} of them. Score both estimators on the simulations that they share."
        )
    arguments.positive("n_flips", n_flips)
    gain = b - a
    return Paired(
        float((gain > 0).mean() + (gain == 0).mean() / 2),
        _mean(gain),
        _p_value(gain, n_flips, np.random.default_rng(rng)),
        len(gain),
        n_flips,
    )


def _scores(name: str, values: ArrayLike) -> Floats:
    scores = np.asarray(host(values), dtype=float)
    if scores.ndim != 1 or len(scores) < 2 or not np.isfinite(scores).all():
        wanted = "finite scores of at least two simulations, (n_sims,)"
        raise ValueError(arguments.wrong(name, wanted, values))
    return scores


def _mean(gain: Floats) -> Estimate:
    """Return a mean with the interval of Student's t."""
    from scipy.special import stdtrit

    mean, n = float(gain.mean()), len(gain)
    half = float(stdtrit(n - 1, 0.975) * gain.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half, mean + half)


def _p_value(gain: Floats, n_flips: int, rng: np.random.Generator) -> float:
    """Return the share of exchanges, the real one included, with at least the real difference."""
    least = abs(gain.sum()) - 1e-12 * abs(gain).sum()  # sums of equal size may round differently
    n_beyond, n_block = 1, max(1, _MOST_SIGNS // len(gain))
    for start in range(0, n_flips, n_block):
        shape = min(n_block, n_flips - start), len(gain)
        signs = 2.0 * rng.integers(2, size=shape, dtype=np.int8) - 1.0
        n_beyond += int((abs(signs @ gain) >= least).sum())
    return n_beyond / (n_flips + 1)


def fingerprint(sims: Simulations) -> str:
    """Return a fingerprint of the truths, which is the same in single and double precision."""
    with np.errstate(over="ignore"):
        return of_array(np.asarray(host(sims.theta)).astype(np.float32, copy=False))


def ranked(scores: Sequence[Scores]) -> list[int] | None:
    """Return the places of estimators, best first; nothing if their simulations differ."""
    if len({one.truths for one in scores}) > 1:
        return None
    return sorted(range(len(scores)), key=lambda k: scores[k].mean)


@dataclass(frozen=True, eq=False)
class Energy:
    r"""The energy scores of a study, in units of its truths.

    The covariance of truths in units of their sd is :math:`V S^2 V^T`, of a rank :math:`r` that is
    at most their number, so that only its axes are kept, whatever the number of parameters.

    Arguments:
        sd: Standard deviations of the truths, `(n_dims,)`.
        axes: Principal axes :math:`V` of the truths, `(n_dims, r)`.
        lengths: Standard deviations :math:`S` along the axes, `(r,)`.
        truths: A fingerprint of the truths.
    """

    sd: Floats
    axes: Floats
    lengths: Floats
    truths: str

    @classmethod
    def of(cls, sims: Simulations, truths: str) -> "Energy":
        """Return the score in which the truths of these simulations have a unit covariance."""
        truth = np.asarray(host(sims.theta), dtype=float)
        sd = truth.std(axis=0)
        sd = np.where(sd > 0, sd, 1.0)
        centred = (truth - truth.mean(axis=0)) / sd
        with threads.one_thread_each():  # quicker, for so few
            _, lengths, axes = np.linalg.svd(centred / np.sqrt(len(truth)), full_matrices=False)
        return cls(sd, axes.T, np.sqrt(lengths**2 + _RIDGE), truths)

    def measure(self, sims: Simulations) -> Results:
        """Return the score of every simulation, by name."""
        return joined(threads.mapped(self._measure, sims.blocks()))

    def _measure(self, block: Block) -> Results:
        n = len(block.points) - 1
        # Weighted draws may be few among many of no weight, so that all of them are needed.
        every = 1 if block.weighted else -(-n // _MOST_DRAWS)
        truth, draws = double(block.points[:1]), double(block.points[1::every])
        share: Floats = np.ones(draws.shape[:2])
        if block.weighted:
            share = weights.relative(host(block.log_weights)[1:])
        places = self._placed(draws - truth)
        apart = _apart(places, share, near=block.weighted)
        return {"energy": _weighted(_lengths(places), share) - apart / 2}

    def _placed(self, gaps: Array) -> Array:
        """Return differences of points as vectors of the length that is their distance."""
        gaps = gaps / to_device_of(self.sd, gaps)
        axes = to_device_of(self.axes, gaps)
        along = gaps @ axes
        places = along / to_device_of(self.lengths, gaps)
        if self.axes.shape[0] == self.axes.shape[1]:
            return places
        off = (gaps - along @ axes.T) / _RIDGE**0.5  # where no truth lies
        return namespace(gaps).concatenate([places, off], axis=-1)


def _apart(places: Array, share: Floats, *, near: bool) -> Floats:
    """Return the mean distance of draws from draws that are near or far in their order."""
    step = 1 if near else max(1, len(places) // (2 * _N_LAGS))
    lags = [lag for k in range(_N_LAGS) if (lag := (k + 1) * step) < len(places)]
    distances = np.concatenate([_lengths(places[lag:] - places[:-lag]) for lag in lags])
    return _weighted(distances, np.concatenate([share[lag:] * share[:-lag] for lag in lags]))


def _lengths(vectors: Array) -> Floats:
    """Return the lengths of vectors along the last axis."""
    return np.asarray(host(namespace(vectors).einsum("ijk,ijk->ij", vectors, vectors) ** 0.5))


def _weighted(distances: Floats, share: Floats) -> Floats:
    """Return the mean of distances by weight, `(n, n_block)`; 0 where no pair has any."""
    total = share.sum(axis=0)
    return (share * distances).sum(axis=0) / np.where(total > 0, total, 1.0)

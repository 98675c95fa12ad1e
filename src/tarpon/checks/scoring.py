"""Log scores: how much density an estimator puts on the truths, in one number."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np

from .._base.arrays import host
from .._base.text import Estimate
from .._base.types import Array, Floats
from ..simulations import Simulations
from ..simulations.stored import Stored

_FEW = 64  # simulations whose draws tell whether densities are normalised
_TOLERANCE, _CLEAR = 0.1, 6  # nats, and standard errors, by which entropies may be too large
_SYMMETRIC = 1e-6  # the skewness from which on an interval is corrected for it


@dataclass(frozen=True, eq=False)
class LogScores:
    r"""The log-densities :math:`\log q(\theta^*_i | x_i)` of the truths, in nats.

    Their mean is a proper score if the densities are normalised: the exact posterior has the
    largest.

    Arguments:
        values: The log-densities of the truths, `(n_sims,)`.
        truths: The fingerprint of the truths, equal for equal simulations in the same order.
        excess: By how much the entropy of the draws exceeds that of a normal with their
            covariance, in nats, if their log-densities are taken as normalised: positive only if
            they are not. Less its uncertainty, and 0 if too few draws are there to tell.
    """

    values: Array
    truths: str
    excess: float = 0.0

    @classmethod
    def of(cls, sims: Simulations, truths: str) -> "LogScores | None":
        """Return the log scores of simulations; None if no log-densities were given."""
        stored = sims.log_prob_theta
        if stored is None:
            return None
        values = stored.read() if isinstance(stored, Stored) else stored
        return cls(np.asarray(host(values)), truths, _excess(sims))

    @property
    def n_zero(self) -> int:
        """The number of truths at which the density is zero."""
        return int((self.values == -np.inf).sum())

    @property
    def mean(self) -> Estimate:
        """The mean in nats, with its 95 % interval; all of it -inf if any density is zero."""
        return mean(self.values.astype(float))


def gain(scores: LogScores | None, other: LogScores | None) -> Estimate:
    r"""Return how much more the first scores than the other, in nats per simulation.

    It estimates the difference of two Kullback-Leibler divergences from the exact posterior,
    averaged over observations,

    .. math:: E \log \frac{q(\theta^* | x)}{q'(\theta^* | x)}
        = E_x \big[ KL(p \| q') - KL(p \| q) \big] .

    Differences are taken simulation by simulation, so what makes a truth hard to predict for both
    estimators cancels.

    Arguments:
        scores: The log scores of the first estimator.
        other: The log scores of the other, on the same simulations.
    """
    if scores is None or other is None:
        raise ValueError(
            "a gain needs the log-densities of both estimators, but "
            f"{'neither check has any' if scores is other else 'one check has none'}: pass "
            "`log_prob_samples` and `log_prob_theta` to `Simulations`."
        )
    for one in (scores, other):
        if one.excess > 0:
            raise ValueError(
                "a gain needs normalised log-densities of independent draws, but those of the "
                f"{'first' if one is scores else 'other'} check are not normalised, not those of "
                f"the draws, or the draws are a chain: their entropy would exceed that of any "
                f"density with their covariance by {one.excess:.2f} nats or more."
            )
    if scores.truths != other.truths:
        raise ValueError(
            "a gain needs two checks of the same simulations in the same order, but their truths "
            f"differ ({len(scores.values)} and {len(other.values)} simulations). If simulations "
            f"were dropped, drop the same ones from both."
        )
    if scores.n_zero and other.n_zero:
        raise ValueError(
            f"both densities are zero at some truths, {scores.n_zero} and {other.n_zero} of "
            f"{len(scores.values)}, so both log scores are -inf and their difference is unknown."
        )
    return mean(scores.values.astype(float) - other.values.astype(float))


def _excess(sims: Simulations) -> float:
    r"""Return by how much the entropies of log-densities exceed what is possible.

    No density has a larger entropy than the normal with its covariance,

    .. math:: -E \log q \le \frac{d}{2} \log 2 \pi e + \frac{1}{2} \log \det \Sigma .

    The mean over a few simulations, less its tolerance; the covariance of few draws is corrected
    as that of normal ones.
    """
    from scipy.special import digamma

    few = slice(0, min(sims.n_sims, _FEW))
    points = np.asarray(host(sims.samples[:, few]), dtype=float).swapaxes(0, 1)
    claimed = np.asarray(host(sims.log_probs()[0][:, few]), dtype=float).T
    weights = np.full(claimed.shape, 1 / sims.n_draws)
    if sims.log_weights is not None:
        logs = np.asarray(host(sims.log_weights[:, few]), dtype=float).T
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
    alike, n_dims = np.square(weights).sum(axis=1), sims.n_dims
    with np.errstate(all="ignore"):
        n_draws = 1 / alike
        about = points - np.einsum("sj,sjk->sk", weights, points)[:, None]
        covariance = np.einsum("sj,sjk,sjl->skl", weights, about, about)
        _, log_det = np.linalg.slogdet(covariance / (1 - alike)[:, None, None])
        too_small = digamma((n_draws[:, None] - 1 - np.arange(n_dims)) / 2).sum(axis=1)
        log_det -= too_small + n_dims * np.log(2 / (n_draws - 1))
        entropy = -np.where(weights > 0, weights * claimed, 0.0).sum(axis=1)
        excess = entropy - 0.5 * (n_dims * (1 + np.log(2 * np.pi)) + log_det)
    # Too few draws, or parameters that never vary, tell nothing.
    excess = excess[np.isfinite(log_det) & (n_draws > n_dims + 1)]
    if len(excess) < 2:
        return 0.0
    if not np.isfinite(excess).all():
        return np.inf  # draws of density zero
    error = float(excess.std(ddof=1)) / np.sqrt(len(excess))
    return max(float(excess.mean()) - _TOLERANCE - _CLEAR * error, 0.0)


def to_dict(scores: LogScores | None) -> dict[str, Any] | None:
    """Return the log score for JSON, where infinite numbers are null."""
    if scores is None or scores.excess > 0:
        return None
    numbers = {name: end if isfinite(end) else None for name, end in asdict(scores.mean).items()}
    return numbers | {"n_zero": scores.n_zero, "truths": scores.truths}


def mean(values: Floats) -> Estimate:
    r"""Return the mean of values, with a 95 % interval that allows for their skewness.

    Log-densities have a long tail on the left, which intervals of Student's t miss: of a normal
    posterior in one dimension, they hold the mean in 92 % of studies with 50 simulations. With
    the skewness :math:`\gamma` of the values, :math:`\gamma_n = \gamma / \sqrt{n}` and a quantile
    :math:`t`, Hall's transformation gives the quantile

    .. math:: \frac{3}{\gamma_n} \Big( \big(1 + \gamma_n (t - \gamma_n / 6)\big)^{1/3} - 1 \Big) .

    References:
        On the removal of skewness by transformation (Hall, 1992), J. R. Stat. Soc. B 54, 221.

    Arguments:
        values: The values, `(n,)`; one that is infinite makes the mean infinite.

    Example:
        >>> print(mean(np.array([-1.0, -1.2, -0.9, -3.0])))
        -1.52 [-7.94, -0.34]
    """
    from scipy.special import stdtrit

    n = len(values)
    if not np.isfinite(values).all():
        infinite = float(values[~np.isfinite(values)][0])
        return Estimate(infinite, infinite, infinite)
    unit = float(abs(values).max()) or 1.0  # squares might be out of range
    scaled = values / unit
    centre, sd = float(scaled.mean()), float(scaled.std(ddof=1)) if n > 1 else 0.0
    if sd == 0:
        return Estimate(centre * unit, centre * unit, centre * unit)
    skewness = float((((scaled - centre) / sd) ** 3).mean()) / np.sqrt(n)
    quantiles = stdtrit(n - 1, np.array([0.975, 0.025]))
    if abs(skewness) > _SYMMETRIC:
        quantiles = 3 / skewness * (np.cbrt(1 + skewness * (quantiles - skewness / 6)) - 1)
    low, high = unit * (centre - quantiles * sd / np.sqrt(n))
    return Estimate(unit * centre, float(low), float(high))

"""Adversaries: scores that are learned from earlier simulations, to tell truths from draws.

An adversary is any object with one method, `fit(theta, samples, x)`, that returns a function of
points and observations: the higher its value, the more a point looks like the truth among its
draws. A `Monitor` fits it on simulations that are over, and bets on the next one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Protocol, TypeAlias

import numpy as np
from numpy.random import Generator

from .._base.arrays import power_of_two
from .._base.types import Array, ArrayLike, Floats
from ..simulations.blocks import Block
from ..simulations.shapes import array, finite
from .bets import log_mean, log_softmax_bet

__all__ = ["Adversary", "Quadratic"]

Score: TypeAlias = Callable[[Array, Array | None], Array]

_FIRST, _GROWTH = 20, 1.25  # simulations before the first fit, and between one and the next
_N_KEPT = 32  # draws of each simulation that are kept to learn from
_TEMPERS = np.array([0.25, 0.5, 1.0])
_MOST_FEATURES, _MOST_OBSERVED = 128, 16


class Adversary(Protocol):
    """Whatever learns to tell truths from draws."""

    def fit(self, theta: Array, samples: Array, x: Array | None) -> Score:
        """Return a score of points that is larger for truths.

        Arguments:
            theta: The truths of earlier simulations, `(n_sims, n_dims)`.
            samples: Some of their draws, `(n_draws, n_sims, n_dims)`.
            x: Their observations, `(n_sims, ...)`, if there are any.

        Returns:
            A function of points `(n_points, n_sims, n_dims)` and observations that returns
            `(n_points, n_sims)` numbers. All points of a simulation come together, the truth
            anywhere among them.
        """
        ...


@dataclass(frozen=True)
class Quadratic:
    r"""A quadratic function of the parameters, in units of the posterior itself.

    With :math:`z` the points about the centre of their simulation over their spread,

    .. math:: f(\theta; x) = \sum_k (a_k z_k + b_k z_k^2) + \sum_{k<l} c_{kl} z_k z_l
              + \sum_{kl} d_{kl} z_k x_l ,

    fitted by penalised likelihood to the truths among their draws. Products that would make more
    than 128 terms are left out, and so are observations of more than 16 numbers.

    Arguments:
        penalty: How much the squares of coefficients cost.
    """

    penalty: float = 100.0

    def fit(self, theta: Array, samples: Array, x: Array | None) -> Score:
        """Return the quadratic that tells these truths from their draws best."""
        units = None if x is None else _Units.of(x)
        features = _features(np.concatenate([theta[None], samples]), x, units)
        return partial(_quadratic, units=units, slope=_logit(features, self.penalty))


@dataclass(frozen=True, eq=False)
class _Units:
    """The mean and the spread of observations."""

    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, x: Array) -> "_Units | None":
        columns = x.reshape(len(x), -1).astype(float)
        if columns.shape[1] > _MOST_OBSERVED:
            return None
        unit = power_of_two(abs(columns).max(axis=0))
        columns /= unit
        sd = columns.std(axis=0)
        return cls(unit * columns.mean(axis=0), np.where(sd > 0, unit * sd, np.inf))

    def __call__(self, x: Array) -> Floats:
        return (x.reshape(len(x), -1) - self.mean) / self.sd


def _quadratic(points: Array, x: Array | None, *, units: _Units | None, slope: Floats) -> Floats:
    return _features(points, x, units) @ slope


def _features(points: Array, x: Array | None, units: _Units | None) -> Floats:
    """Return the terms of the function, `(n_points, n_sims, n_features)`."""
    about = points - points.mean(axis=0, dtype=float)
    about /= power_of_two(abs(about).max(axis=0))
    sd = np.sqrt((about**2).mean(axis=0))
    z = about / np.where(sd > 0, sd, 1.0)
    n_dims = z.shape[-1]
    first, second = np.triu_indices(n_dims, 1)
    products = [z[..., first] * z[..., second]]
    if units is not None and x is not None:
        g = units(x)
        products.append((z[..., None] * g[:, None, :]).reshape(*z.shape[:2], -1))
    chosen = [z, z**2]
    for more in sorted(products, key=lambda block: block.shape[-1]):
        if sum(block.shape[-1] for block in (*chosen, more)) <= _MOST_FEATURES:
            chosen.append(more)
    return np.concatenate(chosen, axis=-1)


def _logit(features: Floats, penalty: float) -> Floats:
    """Return the slopes that tell the first of each simulation's points from the others."""
    n_features = features.shape[-1]
    slope = np.zeros(n_features)
    value, gradient, curvature = _likelihood(features, slope, penalty)
    for _ in range(25):
        step = np.linalg.solve(curvature, gradient)
        for halving in range(30):
            tried = slope + step / 2**halving
            found = _likelihood(features, tried, penalty)
            if found[0] >= value:
                break
        gain, slope = found[0] - value, tried
        value, gradient, curvature = found
        if gain < 1e-9 * (1 + abs(value)):
            break
    return slope


def _likelihood(features: Floats, slope: Floats, penalty: float) -> tuple[float, Floats, Floats]:
    """Return the penalised log-likelihood, its gradient, and minus its second derivatives."""
    scores = features @ slope
    share = np.exp(scores - scores.max(axis=0))
    share /= share.sum(axis=0)
    mean = (share[..., None] * features).sum(axis=0)
    weighted = (np.sqrt(share)[..., None] * features).reshape(-1, len(slope))
    value = np.log(np.maximum(share[0], 1e-300)).sum() - 0.5 * penalty * (slope**2).sum()
    gradient = (features[0] - mean).sum(axis=0) - penalty * slope
    curvature = weighted.T @ weighted - mean.T @ mean + penalty * np.eye(len(slope))
    return float(value), gradient, curvature


@dataclass(frozen=True, eq=False)
class Gambler:
    """An adversary at the table: what it has learned from, and what it has won.

    It bets its score as it is, and at a half and a quarter of it, in case it has learned too much
    from too little.

    Arguments:
        adversary: Learns the score.
        points: Of each simulation the truth and some of the draws, `(1 + n_kept, n_dims)`.
        x: Their observations.
        log_capital: The logarithms of the three capitals.
        n_bets: How many simulations it has bet on.
        fitted: The number of simulations of the last fit, and the score that came of it.
    """

    adversary: Adversary
    points: tuple[Array, ...] = ()
    x: tuple[Array, ...] = ()
    log_capital: Floats = field(default_factory=lambda: np.zeros(len(_TEMPERS)))
    n_bets: int = 0
    fitted: tuple[int, Score] | None = None

    @classmethod
    def from_arrays(
        cls, adversary: Adversary, n_bets: int, *, points: Array, x: Array, log_capital: Floats
    ) -> "Gambler":
        """Return the gambler that `to_arrays` was called on; it fits its score again."""
        return cls(adversary, tuple(points), tuple(x), log_capital, n_bets)

    def to_arrays(self) -> dict[str, Array]:
        """Return what a file keeps, beside the adversary and the number of its bets."""
        return {
            "points": np.array(self.points),
            "x": np.array(self.x),
            "log_capital": self.log_capital,
        }

    @property
    def log_e(self) -> float:
        """The logarithm of the mean of the three capitals."""
        return float(log_mean(self.log_capital, np.full(len(_TEMPERS), 1 / len(_TEMPERS))))

    @property
    def nats(self) -> float:
        """The mean logarithm of what a bet paid."""
        return self.log_e / max(self.n_bets, 1)

    def bet(self, block: Block, rng: Generator) -> "Gambler":
        """Return the gambler after one more simulation, from which it may learn then."""
        ready = self._ready()
        capital = self.log_capital
        if ready.fitted is not None:
            scores = one_score(ready.fitted[1](block.points, block.x), block.n_points)
            paid = [log_softmax_bet(temper * scores, block) for temper in _TEMPERS]
            capital = capital + np.array(paid)
        return replace(
            ready,
            points=(*self.points, _kept(block, rng)),
            x=self.x if block.x is None else (*self.x, np.asarray(block.x[0])),
            log_capital=capital,
            n_bets=self.n_bets + (ready.fitted is not None),
        )

    def _ready(self) -> "Gambler":
        """Return the gambler, fitted to as many of the earlier simulations as it should be."""
        wanted = _last_fit(len(self.points))
        if not wanted or (self.fitted is not None and self.fitted[0] == wanted):
            return self
        points = np.stack(self.points[:wanted], axis=1)
        x = np.stack(self.x[:wanted]) if self.x else None
        return replace(self, fitted=(wanted, self.adversary.fit(points[0], points[1:], x)))

    def joined(self, other: "Gambler") -> "Gambler":
        """Return a gambler who bet on both, on simulations that are independent."""
        return Gambler(
            self.adversary,
            self.points + other.points,
            self.x + other.x,
            self.log_capital + other.log_capital,
            self.n_bets + other.n_bets,
        )


def _last_fit(n_sims: int) -> int:
    """Return the number of simulations of the last fit that is due, 0 before the first."""
    last, following = 0, _FIRST
    while following <= n_sims:
        last, following = following, ceil(_GROWTH * following)
    return last


def _kept(block: Block, rng: Generator) -> Array:
    """Return the truth and some draws of a simulation, as likely as they weigh."""
    truth = int(block.truth[0])
    others = np.delete(np.arange(block.n_points), truth)
    weights = block.weights[others, 0] if block.weighted else np.ones(len(others))
    again = block.weighted or len(others) < _N_KEPT
    chosen = rng.choice(others, _N_KEPT, replace=again, p=weights / weights.sum())
    return block.points[np.append(truth, chosen), 0]


def one_score(values: ArrayLike, n_points: int) -> Array:
    """Return what an adversary says of the points of one simulation, (n_points,), finite."""
    values = array("scores", values)
    if values.shape != (n_points, 1):
        raise ValueError(
            f"the score of an adversary must be one number a point, ({n_points}, 1) for points of "
            f"shape ({n_points}, 1, n_dims), but got {values.shape}."
        )
    return finite("scores of an adversary", values[:, 0])

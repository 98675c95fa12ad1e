"""Adversaries: scores learned from earlier simulations, to distinguish truths from draws.

An adversary is any object with a method `fit(theta, samples, x)` that returns a function of points
and observations. The higher its value, the more a point looks like the truth. A `Monitor` fits the
adversary to earlier simulations, and bets on the next simulation. `Folds` turn an adversary into a
score of `check`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Protocol, TypeAlias

import numpy as np
from numpy.random import Generator

from .._base import arguments
from .._base.arrays import power_of_two
from .._base.disk import Record
from .._base.types import Array, ArrayLike, Floats
from ..simulations.blocks import Block
from ..simulations.shapes import array, finite
from .bets import log_mean, log_softmax_bet
from .floors import NATS, STAKES, Floor
from .folds import Folds
from .loglinear import LogLinear
from .products import Products

__all__ = ["Adversary", "Folds", "LogLinear", "Products", "Quadratic"]

ADVERSARY = "an object with `fit(theta, samples, x)`, like `tarpon.adversaries.Quadratic()`"
Score: TypeAlias = Callable[[Array, Array | None], Array]

_FIRST, _GROWTH = 20, 1.25  # simulations before the first fit, and their growth to the next
_N_KEPT = 32  # draws per simulation that are kept to learn from
_TEMPERS = np.array([0.25, 0.5, 1.0])
_MOST_FEATURES, _MOST_OBSERVED = 128, 16


class Adversary(Protocol):
    """An object that learns to distinguish truths from draws."""

    def fit(self, theta: Array, samples: Array, x: Array | None) -> Score:
        """Return a function that scores truths higher than draws.

        Arguments:
            theta: Truths of earlier simulations, `(n_sims, n_dims)`.
            samples: Some of their draws, `(n_draws, n_sims, n_dims)`.
            x: Observations `(n_sims, ...)`, or None.

        Returns:
            A function of points `(n_points, n_sims, n_dims)` and observations that returns scores
            `(n_points, n_sims)`. It is called with all points of a simulation, the truth at a
            random place.
        """
        ...


@dataclass(frozen=True)
class Quadratic:
    r"""A quadratic function of the parameters, in units of the posterior.

    With :math:`z` the standardised points of a simulation,

    .. math:: f(\theta; x) = \sum_k (a_k z_k + b_k z_k^2) + \sum_{k<l} c_{kl} z_k z_l
              + \sum_{kl} d_{kl} z_k x_l ,

    fitted by penalised likelihood to the truths among their draws. Products that would give more
    than 128 terms are omitted, and so are observations of more than 16 numbers.

    Arguments:
        penalty: Penalty on the squares of the coefficients.
    """

    penalty: float = 100.0

    def __post_init__(self) -> None:
        if np.isinf(arguments.above_zero("penalty", self.penalty)):
            raise ValueError(f"`penalty` must be finite, but got {self.penalty!r}.")

    def fit(self, theta: Array, samples: Array, x: Array | None) -> Score:
        """Return the quadratic that best distinguishes these truths from their draws."""
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
    """Return the slopes that distinguish the first point of each simulation from the others."""
    n_features = features.shape[-1]
    slope = np.zeros(n_features)
    value, gradient, curvature = _likelihood(features, slope, penalty)
    for _ in range(25):
        step = np.linalg.solve(curvature, gradient)
        for halving in range(30):
            tried = slope + step / 2**halving
            reached = _likelihood(features, tried, penalty)
            if reached[0] >= value:
                break
        gain, slope = reached[0] - value, tried
        value, gradient, curvature = reached
        if gain < 1e-9 * (1 + abs(value)):
            break
    return slope


def _likelihood(features: Floats, slope: Floats, penalty: float) -> tuple[float, Floats, Floats]:
    """Return the penalised log-likelihood, its gradient, and its negative Hessian."""
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
    """An adversary that bets: the simulations that it learned from, and its capital.

    It bets on its score, and on half and a quarter of it, in case it has overfitted.

    Arguments:
        adversary: Adversary that learns the score.
        points: Arrays `(1 + n_kept, n_dims)`, one per simulation: the truth, then some draws.
        x: Observations, one per simulation.
        log_capital: Logarithms of the three capitals, `(3,)`.
        n_bets: Number of simulations with a bet.
        floor: Capitals of those who bet that its gains are no larger than some divergence.
        fitted: Number of simulations of the last fit, and the score that it returned.
    """

    adversary: Adversary
    points: tuple[Array, ...] = ()
    x: tuple[Array, ...] = ()
    log_capital: Floats = field(default_factory=lambda: np.zeros(len(_TEMPERS)))
    n_bets: int = 0
    floor: Floor = field(default_factory=Floor)
    fitted: tuple[int, Score] | None = None

    @classmethod
    def of_record(cls, adversary: Adversary, record: Record, n_sims: int) -> "Gambler":
        """Return the gambler that `to_arrays` was called on; it fits its score again."""
        points = record.array("adversary_points", "f", n_sims, *(1 + _N_KEPT, None) * bool(n_sims))
        x = record.arrays.get("adversary_x", np.empty(0))
        record.array("adversary_x", "biuf", n_sims if len(x) else 0, *x.shape[1:])
        return cls(
            adversary,
            tuple(finite("adversary_points", points)),
            tuple(x),
            record.floats("adversary_log_capital", len(_TEMPERS)),
            record.count("adversary", most=n_sims),
            Floor(
                record.floats("adversary_floor", len(STAKES), len(NATS)),
                record.floats("adversary_highest", len(NATS), low=0.0),
            ),
        )

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays of a file, without the adversary and the number of bets."""
        return {
            "points": np.array(self.points),
            "x": np.array(self.x),
            "log_capital": self.log_capital,
            "floor": self.floor.log_capital,
            "highest": self.floor.highest,
        }

    @property
    def log_e(self) -> float:
        """The logarithm of the mean of the three capitals."""
        return _log_mean(self.log_capital)

    @property
    def nats(self) -> float:
        """The mean logarithm of the payments."""
        return self.log_e / max(self.n_bets, 1)

    def bet(self, block: Block, rng: Generator) -> "Gambler":
        """Return the gambler after a bet on one more simulation, which it may then learn from."""
        ready = self._ready()
        capital, floor = self.log_capital, self.floor
        if ready.fitted is not None:
            scores = one_score(ready.fitted[1](block.points, block.x), block.n_points)
            payments = [log_softmax_bet(temper * scores, block) for temper in _TEMPERS]
            capital = capital + np.array(payments)
            floor = floor.paid(np.array([_log_mean(capital) - self.log_e]))
        return replace(
            ready,
            points=(*self.points, _kept(block, rng)),
            x=self.x if block.x is None else (*self.x, np.asarray(block.x[0])),
            log_capital=capital,
            n_bets=self.n_bets + (ready.fitted is not None),
            floor=floor,
        )

    def _ready(self) -> "Gambler":
        """Return the gambler, fitted to earlier simulations if a fit is due."""
        n_fit = _last_fit(len(self.points))
        if not n_fit or (self.fitted is not None and self.fitted[0] == n_fit):
            return self
        points = np.stack(self.points[:n_fit], axis=1)
        x = np.stack(self.x[:n_fit]) if self.x else None
        score = self.adversary.fit(points[0], points[1:], x)
        arguments.function("adversary.fit(theta, samples, x)", score, "a function of points and x")
        return replace(self, fitted=(n_fit, score))

    def joined(self, other: "Gambler") -> "Gambler":
        """Return the gambler after the bets of both, on independent simulations."""
        return Gambler(
            self.adversary,
            self.points + other.points,
            self.x + other.x,
            self.log_capital + other.log_capital,
            self.n_bets + other.n_bets,
            self.floor.joined(other.floor),
        )


def _log_mean(log_capital: Floats) -> float:
    """Return the logarithm of the mean of capitals."""
    return float(log_mean(log_capital, np.full(len(log_capital), 1 / len(log_capital))))


def _last_fit(n_sims: int) -> int:
    """Return the number of simulations of the latest fit that is due, 0 before the first."""
    last, following = 0, _FIRST
    while following <= n_sims:
        last, following = following, ceil(_GROWTH * following)
    return last


def _kept(block: Block, rng: Generator) -> Array:
    """Return the truth and some draws of a simulation, chosen by weight."""
    truth = int(block.truth[0])
    others = np.delete(np.arange(block.n_points), truth)
    weights = block.weights[others, 0] if block.weighted else np.ones(len(others))
    again = block.weighted or len(others) < _N_KEPT
    chosen = rng.choice(others, _N_KEPT, replace=again, p=weights / weights.sum())
    return block.points[np.append(truth, chosen), 0]


def one_score(values: ArrayLike, n_points: int) -> Array:
    """Return the finite scores of an adversary for one simulation, `(n_points,)`."""
    values = array("scores", values)
    if values.shape != (n_points, 1):
        raise ValueError(
            f"the score of an adversary must be one number per point, ({n_points}, 1) for points "
            f"of shape ({n_points}, 1, n_dims), but got {values.shape}."
        )
    return finite("scores of an adversary", values[:, 0])

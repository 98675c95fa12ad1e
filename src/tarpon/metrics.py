"""Metrics: how far two points are apart.

A metric is any callable that takes two arrays of points, broadcasts them, and reduces their
last axis; any increasing function of the distance will do, since only its ranks are used. A
callable of your own gets points in the parameters' own units, as NumPy arrays, or as torch
tensors if the samples are on a GPU.

The metrics here that have a `scale` divide every difference by it first. Left at None it
becomes the width of the box of all truths and draws, so that a change of units changes no
rank; give the width of your prior for numbers that do not depend on the box, or 1 for the
parameters' own units.
"""

from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np

from . import backends
from ._base import arguments
from ._base.arrays import Results, beside, double, host, namespace
from ._base.text import clean
from ._base.types import Array, Floats, Ints
from .simulations import Simulations, passes, points_alone

__all__ = ["L1", "L2", "Lp", "Mahalanobis", "Metric", "Periodic", "Sphere", "Weighted"]


class Metric(Protocol):
    """A distance, or any increasing function of one."""

    def __call__(self, a: Array, b: Array, /) -> Array:
        """Return the distances of points `(..., n_dims)`, of shape `(...)`."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A metric that takes its scale from truths and draws together."""

    def fit(self, sims: Simulations) -> Metric:
        """Return the metric with its scale set, which one that has a scale keeps."""
        ...


@runtime_checkable
class Fused(Protocol):
    """A metric for which draws can be counted without storing their distances."""

    def count(self, sims: Simulations, centers: Floats) -> tuple[Ints, Ints]:
        """Count the draws that are closer to the centers than the truth, and those as close."""
        ...


def fit(metric: Metric, sims: Simulations) -> Metric:
    """Return the metric with its scale set, and numbers for as many parameters as there are."""
    if isinstance(metric, Weighted | L1 | L2 | Lp | Periodic):
        for name in ("weights", "period", "scale"):
            numbers = getattr(metric, name, None)
            if numbers is not None:
                arguments.per_parameter(name, numbers, sims.n_dims)
    if isinstance(metric, Mahalanobis) and metric.covariance is not None:
        shape = (sims.n_dims, sims.n_dims)
        if metric.covariance.shape != shape:
            raise ValueError(arguments.wrong("covariance", f"of shape {shape}", metric.covariance))
    return metric.fit(sims) if isinstance(metric, Fittable) else metric


@dataclass(frozen=True, eq=False)
class Weighted:
    r"""Squared Euclidean distance with a weight on each parameter,

    .. math:: d(a, b) = \sum_k w_k \, (a_k - b_k)^2 / s_k^2 .

    Arguments:
        weights: The weights :math:`w`, of shape `(n_dims,)`, none negative.
        scale: The scales :math:`s`, of shape `(n_dims,)`, or one for all.

    Example:
        >>> Weighted([1.0, 4.0])(np.array([0.0, 0.0]), np.array([3.0, 1.0]))
        np.float64(13.0)
    """

    weights: Floats | float
    scale: Floats | float | None = None

    def __post_init__(self) -> None:
        weights = arguments.floats("weights", self.weights)
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                f"`weights` must be finite and not negative, but got {clean(weights)}."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        return (beside(self.weights, a) * ((a - b) / _unit(self.scale, a)) ** 2).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        return replace(self, scale=sims.width()) if self.scale is None else self

    def count(self, sims: Simulations, centers: Floats) -> tuple[Ints, Ints]:
        weight = np.broadcast_to(self.weights / _or_one(self.scale) ** 2, (sims.n_dims,))
        return backends.of(sims.samples).closer(sims.samples, sims.theta, centers, weight)


@dataclass(frozen=True, eq=False)
class L2:
    r"""Squared Euclidean distance, the paper's choice,

    .. math:: d(a, b) = \sum_k (a_k - b_k)^2 / s_k^2 .

    Arguments:
        scale: The scales :math:`s`, of shape `(n_dims,)`, or one for all.

    Example:
        >>> L2()(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
        np.float64(25.0)
    """

    scale: Floats | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        return (((a - b) / _unit(self.scale, a)) ** 2).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        return replace(self, scale=sims.width()) if self.scale is None else self

    def count(self, sims: Simulations, centers: Floats) -> tuple[Ints, Ints]:
        return Weighted(1.0, self.scale).count(sims, centers)


@dataclass(frozen=True, eq=False)
class L1:
    r"""Sum of absolute differences,

    .. math:: d(a, b) = \sum_k |a_k - b_k| / s_k .

    Arguments:
        scale: The scales :math:`s`, of shape `(n_dims,)`, or one for all.

    Example:
        >>> L1()(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
        np.float64(7.0)
    """

    scale: Floats | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        return abs((a - b) / _unit(self.scale, a)).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        return replace(self, scale=sims.width()) if self.scale is None else self

    def count(self, sims: Simulations, centers: Floats) -> tuple[Ints, Ints]:
        weight = np.broadcast_to(1.0 / _or_one(self.scale), (sims.n_dims,))
        return backends.of(sims.samples).closer_l1(sims.samples, sims.theta, centers, weight)


@dataclass(frozen=True, eq=False)
class Lp:
    r"""Sum of powers of the differences, or the largest of them where :math:`p = \infty`,

    .. math:: d(a, b) = \sum_k |a_k - b_k|^p / s_k^p .

    Arguments:
        p: The power :math:`p > 0`.
        scale: The scales :math:`s`, of shape `(n_dims,)`, or one for all.

    Example:
        >>> Lp(np.inf)(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
        np.float64(4.0)
    """

    p: float
    scale: Floats | float | None = None

    def __post_init__(self) -> None:
        arguments.above_zero("p", self.p)
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        lengths, p = abs((a - b) / _unit(self.scale, a)), float(self.p)
        longest = namespace(lengths).amax
        return longest(lengths, axis=-1) if np.isinf(p) else (lengths**p).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        return replace(self, scale=sims.width()) if self.scale is None else self


@dataclass(frozen=True, eq=False)
class Periodic:
    r"""Squared Euclidean distance on a torus, each difference taken the short way round,

    .. math:: d(a, b) = \sum_k \min_{z \in \mathbb{Z}} (a_k - b_k + z P_k)^2 / s_k^2 .

    Left at None, the scale of a parameter that wraps is its period, and that of one that does
    not is its width in the box of all truths and draws.

    Arguments:
        period: The period :math:`P`, of shape `(n_dims,)`, or one for all; `inf` for a
            parameter that does not wrap.
        scale: The scales :math:`s`, of shape `(n_dims,)`, or one for all.

    Example:
        >>> Periodic(period=360.0)(np.array([350.0]), np.array([10.0]))
        np.float64(400.0)
    """

    period: Floats | float
    scale: Floats | float | None = None

    def __post_init__(self) -> None:
        period = arguments.floats("period", self.period)
        if not (period > 0).all():
            raise ValueError(f"`period` must be positive, but got {clean(period)}.")
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        wraps = np.isfinite(self.period)
        turn, wrapped = beside(np.where(wraps, self.period, 1.0), a), beside(wraps, a)
        difference = a - b
        short = difference - wrapped * turn * (difference / turn).round()
        return ((short / _unit(self.scale, a)) ** 2).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        wide = np.where(np.isfinite(self.period), self.period, sims.width())
        return replace(self, scale=wide) if self.scale is None else self

    def count(self, sims: Simulations, centers: Floats) -> tuple[Ints, Ints]:
        shape = (sims.n_dims,)
        weight = np.broadcast_to(1.0 / _or_one(self.scale) ** 2, shape)
        period = np.broadcast_to(self.period, shape)
        backend = backends.of(sims.samples)
        return backend.closer_periodic(sims.samples, sims.theta, centers, weight, period)


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    r"""Squared distance in units of a covariance,

    .. math:: d(a, b) = (a - b)^T \, C^{-1} (a - b) .

    Left at None, :math:`C` is the mean covariance of the points within one simulation, truth
    and draws together, so that one unit is one standard deviation of a posterior. Directions
    in which no point varies do not count.

    Arguments:
        covariance: The matrix :math:`C`, of shape `(n_dims, n_dims)`, in parameter units.

    Example:
        >>> Mahalanobis([[4.0, 0.0], [0.0, 1.0]])(np.array([2.0, 0.0]), np.array([0.0, 1.0]))
        np.float64(2.0)
    """

    covariance: Floats | None = None

    def __post_init__(self) -> None:
        if self.covariance is not None:
            covariance = arguments.floats("covariance", self.covariance, "a matrix of numbers")
            object.__setattr__(self, "covariance", covariance)
            object.__setattr__(self, "_whiten", _whitening(covariance))

    def __call__(self, a: Array, b: Array) -> Array:
        difference = double(a) - b
        if self.covariance is not None:
            difference = difference @ beside(self._whiten, difference)
        return (difference**2).sum(-1)

    def fit(self, sims: Simulations) -> "Mahalanobis":
        return Mahalanobis(_within_covariance(sims)) if self.covariance is None else self

    _whiten = np.ones((1, 1))


@dataclass(frozen=True)
class Sphere:
    r"""Distance on the sphere between two longitudes and latitudes, as the haversine

    .. math:: d(a, b) = \sin^2 \tfrac{a_2 - b_2}{2}
                        + \cos a_2 \cos b_2 \sin^2 \tfrac{a_1 - b_1}{2} .

    Arguments:
        degrees: Whether the angles are in degrees; otherwise they are in radians.

    Example:
        >>> Sphere(degrees=True)(np.array([359.0, 0.0]), np.array([1.0, 0.0])).round(6)
        np.float64(0.000305)
    """

    degrees: bool = False

    def __post_init__(self) -> None:
        arguments.flag("degrees", self.degrees)

    def __call__(self, a: Array, b: Array) -> Array:
        if a.shape[-1] != 2 or b.shape[-1] != 2:
            raise ValueError(
                f"`Sphere` measures between (longitude, latitude) pairs, but the points have "
                f"{a.shape[-1]} parameters. Pass those two alone."
            )
        unit = np.pi / 180 if self.degrees else 1.0
        sin, cos = namespace(a).sin, namespace(a).cos
        a, b = unit * double(a), unit * double(b)
        across, up = sin((a - b) / 2)[..., 0], sin((a - b) / 2)[..., 1]
        return up**2 + cos(a[..., 1]) * cos(b[..., 1]) * across**2


def _scale(scale: Floats | float | None) -> Floats | None:
    if scale is None:
        return None
    numbers = arguments.floats("scale", scale)
    if not np.isfinite(numbers).all() or not (numbers > 0).all():
        raise ValueError(f"`scale` must be positive and finite, but got {clean(numbers)}.")
    return numbers


def _or_one(scale: Floats | float | None) -> Floats | float:
    return 1.0 if scale is None else scale


def _unit(scale: Floats | float | None, points: Array) -> Array | float:
    """Return the scale where the points are, 1 where there is none."""
    return 1.0 if scale is None else beside(scale, points)


def _within_covariance(sims: Simulations) -> Floats:
    products = (
        found["products"] for found in passes.each(points_alone(sims), "covariance", _products)
    )
    return sum(products, np.zeros((sims.n_dims,) * 2)) / (sims.n_draws * sims.n_sims)


def _products(part: Simulations) -> Results:
    """Return the products of parameters about their centres, summed over all points."""
    total = np.zeros((part.n_dims, part.n_dims))
    for piece in passes.pieces(part):
        for block in piece.blocks():
            about = double(block.points) - block.centre
            if block.weighted:
                share = block.weights / block.weights.mean(axis=0)
                about *= beside(np.sqrt(share)[..., None], about)
            rows = about.reshape(-1, part.n_dims)
            total += host(rows.T @ rows)
    return {"products": total}


def _whitening(covariance: Floats) -> Floats:
    """Return W with W Wᵀ the inverse of the covariance, leaving out directions of no variance."""
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"`covariance` must be a square matrix, but got {covariance.shape}.")
    sd = np.sqrt(np.diag(covariance))
    sd = np.where(sd > 0, sd, 1.0)
    # Eigenvalues of the correlations, so that the cut-off does not depend on the units.
    variance, axes = np.linalg.eigh(covariance / np.outer(sd, sd))
    kept = variance > len(sd) * np.finfo(float).eps * variance.max(initial=0.0)
    return axes[:, kept] / np.sqrt(variance[kept]) / sd[:, None]

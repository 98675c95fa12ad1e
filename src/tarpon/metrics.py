"""Metrics: how far two points are apart.

A metric is any callable that takes two arrays of points, broadcasts them, and reduces their
last axis. Any increasing function of a distance works, since only ranks are used. Your own
callable receives points in parameter units, as NumPy arrays, or as torch tensors if the samples
are on a GPU.

Metrics with a `scale` divide every difference by it. The default, None, is the width of the box
of truths and draws, that of `references.Uniform`, so that a change of units changes no rank. Give
the width of your prior for numbers that do not depend on the box, or 1 for parameter units.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, Self, runtime_checkable

import numpy as np

from . import backends
from ._base import arguments
from ._base.arrays import Results, double, host, namespace, power_of_two, to_device_of
from ._base.text import clean
from ._base.types import Array, Floats, Ints
from .simulations import Simulations, passes
from .simulations.boxes import sampled_width
from .simulations.views import points_alone

__all__ = ["L1", "L2", "Lp", "Mahalanobis", "Metric", "Periodic", "Sphere", "Weighted"]

_ROUNDED = 1e-6  # how far rounding, in single precision, may take correlations from what they are


class Metric(Protocol):
    """A distance, or any increasing function of one."""

    def __call__(self, a: Array, b: Array, /) -> Array:
        """Return the distances of points `(..., n_dims)`, of shape `(...)`."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A metric that computes its scale from truths and draws together."""

    def fit(self, sims: Simulations) -> Metric:
        """Return the metric with its scale set; a scale that was given is kept."""
        ...


@runtime_checkable
class Fused(Protocol):
    """A metric for which draws can be counted without storing their distances."""

    def count(self, sims: Simulations, centres: Floats) -> tuple[Ints, Ints]:
        """Count the draws closer to the centre than the truth, and the draws as close."""
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


def distances(metric: Metric, points: Array, centres: Array) -> Array:
    """Return the distances of points `(..., n_dims)` from centres, of shape `(...)`, finite."""
    found, shape = metric(points, centres), np.broadcast_shapes(points.shape, centres.shape)[:-1]
    if tuple(np.shape(found)) != shape:
        raise ValueError(
            f"a metric must reduce the last axis alone: of points {tuple(points.shape)} and "
            f"{tuple(centres.shape)} it must return {shape}, but got {tuple(np.shape(found))}. "
            f"Add `.sum(-1)`, for example."
        )
    if not namespace(found).isfinite(found).all():
        raise ValueError(
            "a metric must return finite numbers, but some are NaN or infinite. It is given "
            "points in the parameters' own units: squares of large numbers overflow."
        )
    return found


@dataclass(frozen=True, eq=False)
class Weighted:
    r"""Squared Euclidean distance with a weight per parameter.

    .. math:: d(a, b) = \sum_k w_k \, (a_k - b_k)^2 / s_k^2 .

    Arguments:
        weights: The weights :math:`w`, of shape `(n_dims,)`, none negative and not all zero.
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
        if not weights.any():
            raise ValueError(f"`weights` must not all be zero, but got {clean(weights)}.")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "scale", _scale(self.scale))

    def __call__(self, a: Array, b: Array) -> Array:
        return (to_device_of(self.weights, a) * ((a - b) / _unit(self.scale, a)) ** 2).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        return replace(self, scale=sampled_width(sims)) if self.scale is None else self

    def count(self, sims: Simulations, centres: Floats) -> tuple[Ints, Ints]:
        # Not the square of the scale, which may be out of range.
        scale = np.broadcast_to(np.sqrt(self.weights) / _or_one(self.scale), (sims.n_dims,))
        return backends.of(sims.samples).closer(sims.samples, sims.theta, centres, scale)


@dataclass(frozen=True, eq=False)
class L2:
    r"""Squared Euclidean distance, the default and the choice of the paper.

    .. math:: d(a, b) = \sum_k (a_k - b_k)^2 / s_k^2 .

    Arguments:
        scale: Scales :math:`s` of shape `(n_dims,)`, or one number for all parameters.

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
        return replace(self, scale=sampled_width(sims)) if self.scale is None else self

    def count(self, sims: Simulations, centres: Floats) -> tuple[Ints, Ints]:
        return Weighted(1.0, self.scale).count(sims, centres)


@dataclass(frozen=True, eq=False)
class L1:
    r"""Sum of absolute differences.

    .. math:: d(a, b) = \sum_k |a_k - b_k| / s_k .

    Arguments:
        scale: Scales :math:`s` of shape `(n_dims,)`, or one number for all parameters.

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
        return replace(self, scale=sampled_width(sims)) if self.scale is None else self

    def count(self, sims: Simulations, centres: Floats) -> tuple[Ints, Ints]:
        scale = np.broadcast_to(1.0 / _or_one(self.scale), (sims.n_dims,))
        return backends.of(sims.samples).closer_l1(sims.samples, sims.theta, centres, scale)


@dataclass(frozen=True, eq=False)
class Lp:
    r"""Sum of powers of the differences, or the largest difference for :math:`p = \infty`.

    .. math:: d(a, b) = \sum_k |a_k - b_k|^p / s_k^p .

    Arguments:
        p: Power :math:`p > 0`.
        scale: Scales :math:`s` of shape `(n_dims,)`, or one number for all parameters.

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
        return replace(self, scale=sampled_width(sims)) if self.scale is None else self


@dataclass(frozen=True, eq=False)
class Periodic:
    r"""Squared Euclidean distance on a torus, each difference taken the short way round.

    .. math:: d(a, b) = \sum_k \min_{z \in \mathbb{Z}} (a_k - b_k + z P_k)^2 / s_k^2 .

    The default scale is the period of a parameter that wraps, and otherwise the width of the
    parameter in the box of all truths and draws.

    Arguments:
        period: Periods :math:`P` of shape `(n_dims,)`, or one number for all parameters; `inf`
            for a parameter that does not wrap.
        scale: Scales :math:`s` of shape `(n_dims,)`, or one number for all parameters.

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
        turn, wrapped = to_device_of(np.where(wraps, self.period, 1.0), a), to_device_of(wraps, a)
        difference = a - b
        short = difference - wrapped * turn * (difference / turn).round()
        return ((short / _unit(self.scale, a)) ** 2).sum(-1)

    def fit(self, sims: Simulations) -> Self:
        wide = np.where(np.isfinite(self.period), self.period, sampled_width(sims))
        return replace(self, scale=wide) if self.scale is None else self

    def count(self, sims: Simulations, centres: Floats) -> tuple[Ints, Ints]:
        shape = (sims.n_dims,)
        scale = np.broadcast_to(1.0 / _or_one(self.scale), shape)
        period = np.broadcast_to(self.period, shape)
        backend = backends.of(sims.samples)
        return backend.closer_periodic(sims.samples, sims.theta, centres, scale, period)


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    r"""Squared distance in units of a covariance.

    .. math:: d(a, b) = (a - b)^T \, C^{-1} (a - b) .

    By default :math:`C` is the mean covariance of the points within a simulation, truth and
    draws together, so that one unit is one standard deviation of a posterior. Directions in
    which no point varies are ignored.

    Arguments:
        covariance: The matrix :math:`C`, of shape `(n_dims, n_dims)`, in parameter units:
            symmetric, and without negative eigenvalues.

    Example:
        >>> Mahalanobis([[4.0, 0.0], [0.0, 1.0]])(np.array([2.0, 0.0]), np.array([0.0, 1.0]))
        np.float64(2.0)
    """

    covariance: Floats | None = None

    def __post_init__(self) -> None:
        if self.covariance is not None:
            covariance = arguments.floats("covariance", self.covariance, "a matrix of numbers")
            covariance = _covariance(covariance)
            object.__setattr__(self, "covariance", covariance)

    def __call__(self, a: Array, b: Array) -> Array:
        if self.covariance is None:
            return ((double(a) - b) ** 2).sum(-1)
        return self._given(a, b)

    @cached_property
    def _given(self) -> Metric:
        """The distance in units of the covariance that is given."""
        assert self.covariance is not None
        return _Whitened(_whitening(self.covariance))

    def fit(self, sims: Simulations) -> Metric:
        if self.covariance is not None:
            return self._given
        unit = power_of_two(sampled_width(sims))
        return _Whitened(_whitening(_within_covariance(sims, unit)) / unit[:, None])


@dataclass(frozen=True, eq=False)
class _Whitened:
    """Squared distance of differences times a matrix, `(n_dims, n_kept)`."""

    matrix: Floats

    def __call__(self, a: Array, b: Array) -> Array:
        difference = double(a) - b
        return ((difference @ to_device_of(self.matrix, difference)) ** 2).sum(-1)


@dataclass(frozen=True)
class Sphere:
    r"""Haversine distance between two points (longitude, latitude) on the sphere.

    .. math:: d(a, b) = \sin^2 \tfrac{a_2 - b_2}{2}
                        + \cos a_2 \cos b_2 \sin^2 \tfrac{a_1 - b_1}{2} .

    Arguments:
        degrees: Whether angles are in degrees rather than radians.

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
                f"`Sphere` needs 2 parameters, (longitude, latitude), but got "
                f"{a.shape[-1]} parameters. Pass these two alone."
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
    """Return the scale on the device of the points, 1 if there is none."""
    return 1.0 if scale is None else to_device_of(scale, points)


def _within_covariance(sims: Simulations, unit: Floats) -> Floats:
    parts = passes.each(points_alone(sims), "covariance", partial(_products, unit=unit))
    products = sum((part["products"] for part in parts), np.zeros((sims.n_dims,) * 2))
    return products / (sims.n_draws * sims.n_sims)


def _products(part: Simulations, *, unit: Floats) -> Results:
    """Return the products of parameters about the centre of their simulation, in units, summed."""
    total = np.zeros((part.n_dims, part.n_dims))
    for piece in passes.pieces(part):
        for block in piece.blocks():
            about = (double(block.points) - block.centre) / to_device_of(unit, block.points)
            if block.weighted:
                share = block.weights / block.weights.mean(axis=0)
                about *= to_device_of(np.sqrt(share)[..., None], about)
            rows = about.reshape(-1, part.n_dims)
            total += host(rows.T @ rows)
    return {"products": total}


def _covariance(given: Floats) -> Floats:
    """Return a covariance of the user's own, which must be one."""
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"`covariance` must be a square matrix, but got {given.shape}.")
    if not np.isfinite(given).all():
        raise ValueError("`covariance` must be finite, but some of it is NaN or infinite.")
    _, correlation = _correlation(given)
    if not np.allclose(correlation, correlation.T, rtol=0.0, atol=_ROUNDED):
        raise ValueError("`covariance` must be symmetric, but differs from its transpose.")
    lowest = float(np.linalg.eigvalsh(correlation).min(initial=0.0))
    if (np.diag(given) < 0).any() or lowest < -_ROUNDED * len(given):
        raise ValueError(
            f"`covariance` must have no negative eigenvalue, but the lowest one of its "
            f"correlations is {lowest:.3g}: such a matrix measures no distance."
        )
    if not given.any():
        raise ValueError("`covariance` must not be zero: such a matrix measures no distance.")
    return given


def _correlation(covariance: Floats) -> tuple[Floats, Floats]:
    """Return standard deviations, 1 where there is none, and the covariance in their units."""
    sd = np.sqrt(np.diag(covariance).clip(min=0.0))
    sd = np.where(sd > 0, sd, 1.0)
    return sd, covariance / np.outer(sd, sd)


def _whitening(covariance: Floats) -> Floats:
    """Return W with W Wᵀ the inverse of the covariance, leaving out directions of no variance."""
    sd, correlation = _correlation(covariance)
    # Eigenvalues of the correlations, so that the cut-off does not depend on the units.
    variance, axes = np.linalg.eigh(correlation)
    kept = variance > len(sd) * np.finfo(float).eps * variance.max(initial=0.0)
    return axes[:, kept] / np.sqrt(variance[kept]) / sd[:, None]

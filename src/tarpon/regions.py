"""Regions: nested credible regions, each the sublevel sets of a score.

A region is any object with a method `scores(block)` that returns a number for every pooled
point of a block of simulations, the truth among them. All points must be scored in the same
way: for an accurate posterior the truth is one more draw.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from . import backends, bases, references
from . import metrics as _metrics
from ._base import arguments
from ._base.arrays import (
    Rows,
    Window,
    double,
    host,
    in_order,
    in_units,
    single,
    to_device_of,
)
from ._base.types import Array, ArrayLike, Floats, Ints
from .bases import Bands, Basis
from .metrics import L2, Metric
from .references import HeldOut, Reference
from .simulations import Simulations, range_of
from .simulations.blocks import Block
from .simulations.fields import unflattened
from .simulations.shapes import needs_x, where_it_is

_NEAREST = (1, 2, 4, 8)  # which of the nearest neighbours give a score

__all__ = [
    "Balls",
    "Fit",
    "FromCentre",
    "FromDraws",
    "FromPoints",
    "HalfLines",
    "HighestDensity",
    "Neighbours",
    "Region",
    "Residuals",
    "Scores",
    "Values",
]

_MOST_PREDICTED = 2**23  # numbers that are predicted together


@runtime_checkable
class Region(Protocol):
    r"""A family of nested regions :math:`\{\theta : s(\theta; x) \le t\}`."""

    def scores(self, block: Block) -> Array:
        """Return scores `(n_draws + 1, n_block)`, or `(n_draws + 1, n_block, n_scores)`."""
        ...


@runtime_checkable
class Counted(Protocol):
    """A region for which draws can be counted without storing their scores."""

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        """Count the draws that score below the truth, and the draws that score the same."""
        ...


@runtime_checkable
class Cut(Protocol):
    """A region that holds numbers per simulation, and can be reduced to some simulations."""

    def cut(self, sims: slice) -> Region:
        """Return the region with the numbers of some simulations only."""
        ...


@dataclass(frozen=True, eq=False)
class Balls:
    r"""Balls around reference points, the regions of TARP (Lemos et al., 2023, Algorithm 2).

    .. math:: s(\theta; x) = d(\theta, \theta_r(x)) .

    Arguments:
        centres: Reference points :math:`\theta_r` of shape `(n_sims, n_dims)`, or several per
            simulation, `(n_sims, n_centres, n_dims)`.
        metric: Distance :math:`d`.
    """

    centres: Rows
    metric: Metric = L2()

    def __post_init__(self) -> None:
        arguments.function("metric", self.metric, "a function of two points, like `L2()`")

    @classmethod
    def at(
        cls, reference: Reference, metric: Metric, sims: Simulations, rng: Generator
    ) -> "tuple[Balls, Simulations]":
        """Draw reference points: return the balls around them, and the simulations to rank."""
        drawn = reference.draw(sims, rng)
        points, left = drawn if isinstance(drawn, HeldOut) else (drawn, sims)
        centres = references.reference_points(points, sims.n_sims, sims.shape)
        references.refuse_own_points(centres, left)
        return cls(centres, _metrics.fit(metric, sims)), left

    def scores(self, block: Block) -> Array:
        points = double(block.points)
        centres = to_device_of(self.centres[block.where], points)
        points = points if centres.ndim == 2 else points[:, :, None]
        return _metrics.distances(self.metric, points, centres)

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        if isinstance(self.metric, _metrics.Fused):
            return self.metric.count(sims, self.centres[range_of(sims)])
        return count(self, sims)

    def cut(self, sims: slice) -> "Balls":
        return replace(self, centres=Window(self.centres[sims], sims.start))


@dataclass(frozen=True)
class HighestDensity:
    r"""Regions of highest density (Lemos et al., 2023, Algorithm 1).

    .. math:: s(\theta; x) = -\log \hat p(\theta | x) .

    The printed algorithm counts the draws of *lower* density than the truth, which mirrors the
    curve and turns overconfidence into underconfidence. Its Lemma 1 needs the draws of higher
    density, and these are counted here.
    """

    def scores(self, block: Block) -> Array:
        return -block.log_prob

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        draws, truths = sims.log_probs()
        below, equal = backends.exact(draws).smaller(draws[..., None], truths[:, None])
        return sims.n_draws - (below + equal)[:, 0], equal[:, 0]


@dataclass(frozen=True)
class HalfLines:
    r"""Half-lines along each parameter, the regions of marginal SBC (Talts et al., 2018).

    .. math:: s_k(\theta; x) = \theta_k .
    """

    def scores(self, block: Block) -> Array:
        return block.points

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        return backends.exact(sims.samples).smaller(sims.samples, sims.theta)


@dataclass(frozen=True)
class Residuals:
    r"""Half-lines along each parameter, given the parameters before it.

    The points of a simulation are decorrelated by the Cholesky factor :math:`L` of their own
    correlations, which are shrunk as much as they are noise.

    .. math:: s_k(\theta; x) = y_k, \qquad y = L^{-1} (\theta - \bar\theta) / \sigma .
    """

    def scores(self, block: Block) -> Array:
        return block.whitened


@dataclass(frozen=True)
class FromCentre:
    r"""Ellipsoids around the centre of the points, :math:`s(\theta; x) = |y|^2`.

    The most powerful region against wrong widths in many dimensions.
    """

    def scores(self, block: Block) -> Array:
        return block.squared


@dataclass(frozen=True, eq=False)
class FromPoints:
    r"""Balls around several points per simulation, :math:`s_l(\theta; x) = |\theta - c_l|^2`.

    Arguments:
        centres: Points :math:`c_l` of shape `(n_sims, n_centres, n_dims)`.
        scale: Units of the parameters, of shape `(n_dims,)`.
    """

    centres: Rows
    scale: Floats

    def scores(self, block: Block) -> Array:
        """Return one score per centre, up to a constant per simulation and centre."""
        # Relative to the mean of the points, so that single precision suffices. The squared
        # distance of a centre from the mean is the same for all points, and left out.
        mean, scale = block.centre[:, None], to_device_of(self.scale, block.points)
        points = in_units(block.points.swapaxes(0, 1), mean, scale)
        centres = single((to_device_of(self.centres[block.where], points) - mean) / scale)
        gaps = -2 * backends.swaps(points).inner_products(points, centres)
        gaps += (points**2).sum(axis=-1)[:, :, None]
        return gaps.swapaxes(0, 1)


@dataclass(frozen=True)
class FromDraws:
    r"""Ellipsoids around some of the points, :math:`s_l(\theta; x) = |y - y_l|^2`.

    Arguments:
        n: Number of points that serve as centres.
    """

    n: int = 16

    def __post_init__(self) -> None:
        arguments.positive("n", self.n)

    def scores(self, block: Block) -> Array:
        """Return one score per centre, infinite for the centre itself."""
        return _gaps(block, self.n).swapaxes(0, 1)


@dataclass(frozen=True)
class Neighbours:
    r"""Places with few other points around: the distance to the j-th nearest of some points.

    .. math:: s_j(\theta; x) = |y - y_{(j)}|^2, \qquad j = 1, 2, 4, 8 .

    A density that is estimated from the draws alone, as fine as they allow: draws that blur a
    thin structure, fill a gap or leak out of it leave truths where draws are dense.

    Arguments:
        n: Number of points of which the nearest are looked for.
    """

    n: int = 32

    def __post_init__(self) -> None:
        arguments.positive("n", self.n)

    def scores(self, block: Block) -> Array:
        """Return one score per j."""
        gaps = _gaps(block, self.n)
        most = max(gaps.shape[2] - 1, 1)  # a point is not its own neighbour
        places = sorted({min(j, most) - 1 for j in _NEAREST})
        return in_order(gaps, axis=2)[..., places].swapaxes(0, 1)


def _gaps(block: Block, n: int) -> Array:
    """Return squared distances to the first points of a block, `(n_block, n_all, n)`.

    A point is infinitely far from itself.
    """
    y = block.whitened.swapaxes(0, 1)
    centres = y[:, : min(n, block.n_points - 1)]
    norm = block.squared.swapaxes(0, 1)
    gaps = -2 * backends.swaps(y).inner_products(y, centres)
    gaps += norm[:, :, None]
    gaps += norm[:, None, : centres.shape[1]]
    # A point is no neighbour of itself, and rounding must not decide its distance.
    own = np.arange(centres.shape[1])
    gaps[:, own, own] = np.inf
    if block.played is not None:
        extra, sim = np.nonzero(block.played < len(own))
        gaps[sim, block.n_points + extra, block.played[extra, sim]] = np.inf
    return gaps


@dataclass(frozen=True)
class Scores:
    """A function of your own, of a point and its observation.

    Arguments:
        function: Function of `theta`, of shape `(n_points, n_block, n_dims)`, or of fields
            `(n_points, n_block, *shape)`, and `x`, of shape `(n_block, ...)` or None without
            observations. It returns scores of shape `(n_points, n_block)`, or
            `(n_points, n_block, n_scores)`.

    Example:
        >>> total = Scores(lambda theta, x: theta.sum(axis=-1))
    """

    function: Callable[[Array, Array | None], Array]

    def __post_init__(self) -> None:
        arguments.function("function", self.function, "a function of theta and x")

    def scores(self, block: Block) -> Array:
        return self.function(unflattened(block.points, block.sims.shape), block.x)


@dataclass(frozen=True, eq=False)
class Fit:
    r"""Regions of the points that fit the data best, where the forward model is known.

    The score of a point is what its prediction :math:`f(\theta)` leaves of the data, in units of
    the noise: its :math:`\chi^2` per datum, and the part of it in each band of the data.

    .. math:: s(\theta; x) = \frac{1}{n} \sum_k \frac{(x_k - f_k(\theta))^2}{\sigma_k^2} .

    Arguments:
        forward: Function of `theta`, `(n_points, n_block, n_dims)` or fields
            `(n_points, n_block, *shape)`, that returns noiseless observations,
            `(n_points, n_block, *shape of one observation)`. It need not be linear.
        noise: Standard deviation :math:`\sigma` of the noise: a number, or one per datum. If it is
            the same for all data, its size does not matter.
        basis: Bands of the data, like `bases.Regions(labels)` for parts of them. By default,
            `bases.Fourier()` if an observation has two or more axes, otherwise none.

    Example:
        >>> sims = tarpon.problems.field("data_unused", shape=(8, 8), n_draws=20, rng=0)
        >>> fit = Fit(lambda theta: theta, noise=1.0)
        >>> check = tarpon.check(sims, scores={"fit": fit}, n_swaps=99, rng=0)
        >>> check.findings[0].kind.value
        'wrong fit to the data'
    """

    forward: Callable[[Array], ArrayLike]
    noise: ArrayLike = 1.0
    basis: Basis | None = None

    def __post_init__(self) -> None:
        arguments.function("forward", self.forward, "a function of theta")
        noise = arguments.floats("noise", self.noise)
        if not (noise > 0).all():
            raise ValueError(arguments.wrong("noise", "positive", self.noise))
        object.__setattr__(self, "noise", noise)

    def bands(self, sims: Simulations) -> Bands | None:
        """Return the bands of the data, if there are any."""
        shape = tuple((needs_x(None, "`Fit`") if sims.x is None else sims.x).shape[1:])
        basis = bases.fitting(self.basis, shape)
        return None if basis is None else basis.bands(shape)

    def scores(self, block: Block) -> Array:
        x = host(needs_x(block.x, "`Fit`"))
        points = unflattened(block.points, block.sims.shape)
        # Predictions may be far larger than points.
        step = max(1, _MOST_PREDICTED // max(1, block.n_points * x[0].size))
        starts = range(0, len(x), step)
        return np.concatenate(
            [self._scores(points[:, k : k + step], x[k : k + step]) for k in starts], axis=1
        )

    def _scores(self, points: Array, x: Floats) -> Floats:
        predicted = host(where_it_is("forward(theta)", self.forward(points), 1))
        if np.shape(self.noise) not in ((), x.shape[1:]):
            wanted = f"a number or of the shape of one observation, {x.shape[1:]}"
            raise ValueError(arguments.wrong("noise", wanted, self.noise))
        if predicted.shape != (*points.shape[:2], *x.shape[1:]):
            raise ValueError(
                f"`forward` must return predictions {(*points.shape[:2], *x.shape[1:])} (points, "
                f"simulations, and the shape of an observation), but got {predicted.shape}."
            )
        left = ((x - predicted) / self.noise).reshape(*points.shape[:2], -1)
        total, shape = (left**2).mean(axis=-1, keepdims=True), x.shape[1:]
        if (basis := bases.fitting(self.basis, shape)) is None:
            return total
        labels = basis.bands(shape).labels
        own = labels[:, None] == np.arange(labels.max() + 1)
        squares = np.asarray(basis.coefficients(left, shape)) ** 2
        return np.concatenate([total, squares @ own / left.shape[-1]], axis=-1)


@dataclass(frozen=True, eq=False)
class Values:
    """Scores that were computed before, for draws and truths.

    Arguments:
        samples: Scores of the draws, `(n_draws, n_sims)` or `(n_draws, n_sims, n_scores)`.
        theta: Scores of the truths, `(n_sims,)` or `(n_sims, n_scores)`.
    """

    samples: Any
    theta: Any

    def scores(self, block: Block) -> Array:
        return block.pool(self.theta, self.samples)

    def cut(self, sims: slice) -> "Values":
        draws, truths = self.samples[:, sims], self.theta[sims]
        return Values(Window(draws, sims.start), Window(truths, sims.start))


def fitting(region: Region, sims: Simulations) -> Region:
    """Return a region, or raise if its centres are not those of as many simulations."""
    if isinstance(region, Balls | FromPoints):
        sizes = sims.n_sims, sims.shape
        region = replace(
            region, centres=references.reference_points(region.centres, *sizes, "centres")
        )
    if isinstance(region, FromPoints):
        arguments.per_parameter("scale", arguments.floats("scale", region.scale), sims.n_dims)
    return region


def cut(region: Region, sims: slice) -> Region:
    """Return a region with the numbers of some simulations only, small enough to be sent."""
    return region.cut(sims) if isinstance(region, Cut) else region


def counter(region: Region, sims: Simulations) -> tuple[Callable[[], tuple[Array, Array]], bool]:
    """Return a function that counts the draws of simulations, and whether it needs no scores.

    Then kernels alone count, which notice NaN and infinities themselves.
    """
    if sims.weighted or not isinstance(region, Counted):
        return partial(count, region, sims), False
    fused = not isinstance(region, Balls) or isinstance(region.metric, _metrics.Fused)
    return partial(region.count, sims), fused


def count(region: Region, sims: Simulations) -> tuple[Array, Array]:
    """Count the draws that score below the truth, and the same, block by block.

    For weighted draws, return their shares of the weight instead; the weight of the truth itself
    is included in the second share.
    """
    below, equal = zip(*(standing(region, block) for block in sims.blocks()), strict=True)
    return np.concatenate(below), np.concatenate(equal)


def standing(region: Region, block: Block) -> tuple[Array, Array]:
    """Count the draws of a block, or add up their weights, as `count` does."""
    scores = _scores(region, block)
    own = scores[block.truth, np.arange(len(block.truth))]
    if not block.weighted:
        return host((scores < own).sum(axis=0)), host((scores == own).sum(axis=0)) - 1
    scores, own, share = host(scores), host(own), block.weights / block.weights.sum(axis=0)
    share = share[..., None] if scores.ndim == 3 else share
    return (
        np.where(scores < own, share, 0.0).sum(axis=0),
        np.where(scores == own, share, 0.0).sum(axis=0),
    )


def _scores(region: Region, block: Block) -> Array:
    shape = (block.n_points, block.where.stop - block.where.start)
    return scores(region.scores(block), shape)


def scores(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return scores `(n_points, n_sims)` or `(n_points, n_sims, n_scores)`, free of NaN."""
    values = where_it_is("scores", values, 1)
    if values.shape[:2] != shape or values.ndim not in (2, 3):
        raise ValueError(
            f"`scores` must be {shape} (points, simulations), with one more axis for several "
            f"scores, but got {tuple(values.shape)}. A score gets `theta` of shape (points, "
            f"simulations, n_dims), or with the axes of a field, and must reduce these."
        )
    if (values != values).any():
        raise ValueError("`scores` must be numbers, but some are NaN.")
    return values


def score_shapes(
    draws: tuple[int, ...], truths: tuple[int, ...], n_draws: int, n_sims: int
) -> None:
    """Raise if scores given as arrays, for draws and truths, have the wrong shapes."""
    if draws[:2] != (n_draws, n_sims) or truths != draws[1:] or len(draws) > 3:
        raise ValueError(
            f"`scores` given as arrays must be ({n_draws}, {n_sims}) for draws and ({n_sims},) "
            f"for truths, both with one more axis for several, but got {draws} and {truths}."
        )

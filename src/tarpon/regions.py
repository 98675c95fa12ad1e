"""Regions: nested credible regions, each the sublevel sets of a score.

A region is any object with one method, `scores(block)`, that returns a number for every
pooled point of a block of simulations, the truth among them. All must get their scores in the
same way: under accuracy the truth is one more draw.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from . import backends, references
from . import metrics as _metrics
from ._base import arguments
from ._base.arrays import Rows, Window, beside, double, host, single
from ._base.types import Array, ArrayLike, Floats, Ints
from .metrics import L2, Metric
from .references import HeldOut, Reference
from .simulations import Simulations, place
from .simulations.blocks import Block
from .simulations.shapes import where_it_is

__all__ = [
    "Balls",
    "FromCentre",
    "FromDraws",
    "FromPoints",
    "HalfLines",
    "HighestDensity",
    "Region",
    "Residuals",
    "Scores",
    "Values",
]


@runtime_checkable
class Region(Protocol):
    r"""A family of nested regions :math:`\{\theta : s(\theta; x) \le t\}`."""

    def scores(self, block: Block) -> Array:
        """Return scores of shape `(n_draws + 1, n_block)`, or with one more axis for several."""
        ...


@runtime_checkable
class Counted(Protocol):
    """A region for which draws can be counted without storing their scores."""

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        """Count the draws that score below, and the same as, the truth."""
        ...


@runtime_checkable
class Cut(Protocol):
    """A region that holds numbers of every simulation, and need not hold them all."""

    def cut(self, where: slice) -> Region:
        """Return the region with what it needs for some of the simulations."""
        ...


@dataclass(frozen=True, eq=False)
class Balls:
    r"""Balls around reference points, that is TARP (Lemos et al., 2023, Algorithm 2),

    .. math:: s(\theta; x) = d(\theta, \theta_r(x)) .

    Arguments:
        centers: The reference points :math:`\theta_r`, of shape `(n_sims, n_dims)`, or several
            of each simulation, `(n_sims, n_centers, n_dims)`.
        metric: The distance :math:`d`.
    """

    centers: Rows
    metric: Metric = L2()

    def __post_init__(self) -> None:
        arguments.function("metric", self.metric, "a function of two points, like `L2()`")

    @classmethod
    def at(
        cls, reference: Reference, metric: Metric, sims: Simulations, rng: Generator
    ) -> "tuple[Balls, Simulations]":
        """Draw the references: return the balls, and the simulations to rank in them."""
        drawn = reference.draw(sims, rng)
        points, left = drawn if isinstance(drawn, HeldOut) else (drawn, sims)
        centers = references.reference_points(points, sims.n_sims, sims.n_dims)
        return cls(centers, _metrics.fit(metric, sims)), left

    def scores(self, block: Block) -> Array:
        centers, points = beside(self.centers[block.where], block.points), double(block.points)
        return self.metric(points if centers.ndim == 2 else points[:, :, None], centers)

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        if isinstance(self.metric, _metrics.Fused):
            return self.metric.count(sims, self.centers[place(sims)])
        return count(self, sims)

    def cut(self, where: slice) -> "Balls":
        return replace(self, centers=Window(self.centers[where], where.start))


@dataclass(frozen=True)
class HighestDensity:
    r"""Regions of highest density (Lemos et al., 2023, Algorithm 1),

    .. math:: s(\theta; x) = -\log \hat p(\theta | x) .

    The printed algorithm counts the draws of *lower* density than the truth, which mirrors the
    curve and turns overconfidence into underconfidence; its Lemma 1 needs those of higher
    density, which is what this score counts.
    """

    def scores(self, block: Block) -> Array:
        return -block.log_prob

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        draws, truths = sims.log_probs()
        below, equal = backends.of(draws).smaller(draws[..., None], truths[:, None])
        return sims.n_draws - (below + equal)[:, 0], equal[:, 0]


@dataclass(frozen=True)
class HalfLines:
    r"""Half-lines along each parameter, that is marginal SBC (Talts et al., 2018),

    .. math:: s_k(\theta; x) = \theta_k .
    """

    def scores(self, block: Block) -> Array:
        return block.points

    def count(self, sims: Simulations) -> tuple[Ints, Ints]:
        return backends.of(sims.samples).smaller(sims.samples, sims.theta)


@dataclass(frozen=True)
class Residuals:
    r"""Half-lines along what each parameter says beyond those before it.

    The points of a simulation are decorrelated by the Cholesky factor :math:`L` of their own
    correlations, shrunk as far as they are noise,

    .. math:: s_k(\theta; x) = y_k, \qquad y = L^{-1} (\theta - \bar\theta) / \sigma .
    """

    def scores(self, block: Block) -> Array:
        return block.whitened


@dataclass(frozen=True)
class FromCentre:
    r"""Ellipsoids around the centre of the points, :math:`s(\theta; x) = |y|^2`.

    The strongest of all regions against wrong widths in many dimensions.
    """

    def scores(self, block: Block) -> Array:
        return (block.whitened**2).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class FromPoints:
    r"""Balls around several reference points each, :math:`s_l(\theta; x) = |\theta - c_l|^2`.

    Arguments:
        centers: The points :math:`c_l`, of shape `(n_sims, n_centers, n_dims)`.
        scale: The unit of each parameter, of shape `(n_dims,)`.
    """

    centers: Rows
    scale: Floats

    def scores(self, block: Block) -> Array:
        """Return one score a centre, less what is the same for all points."""
        # About the centre of the points, so that single precision suffices; the square of
        # the center's own distance is the same for all points and left out.
        centre, scale = block.centre[:, None], beside(self.scale, block.points)
        points = single((block.points.swapaxes(0, 1) - centre) / scale)
        centers = single((beside(self.centers[block.where], points) - centre) / scale)
        gaps = -2 * backends.swaps(points).inner_products(points, centers)
        gaps += (points**2).sum(axis=-1)[:, :, None]
        return gaps.swapaxes(0, 1)


@dataclass(frozen=True)
class FromDraws:
    r"""Ellipsoids around some of the points themselves, :math:`s_l(\theta; x) = |y - y_l|^2`.

    Arguments:
        n: How many points serve as centres.
    """

    n: int = 16

    def __post_init__(self) -> None:
        arguments.positive("n", self.n)

    def scores(self, block: Block) -> Array:
        """Return one score a centre, infinite for the centre itself."""
        y = block.whitened.swapaxes(0, 1)
        centers = y[:, : min(self.n, block.n_points - 1)]
        norm = (y**2).sum(axis=-1)
        gaps = -2 * backends.swaps(y).inner_products(y, centers)
        gaps += norm[:, :, None]
        gaps += norm[:, None, : centers.shape[1]]
        # A point is no neighbour of itself, and rounding must not decide how far it is.
        own = np.arange(centers.shape[1])
        gaps[:, own, own] = np.inf
        if block.played is not None:
            extra, sim = np.nonzero(block.played < len(own))
            gaps[sim, block.n_points + extra, block.played[extra, sim]] = np.inf
        return gaps.swapaxes(0, 1)


@dataclass(frozen=True)
class Scores:
    """Any function of a point and its observation.

    Arguments:
        function: Takes `theta` of shape `(n_points, n_block, n_dims)` and `x` of shape
            `(n_block, ...)`, None where there are no observations, and returns scores of shape
            `(n_points, n_block)`, or with one more axis for several scores.

    Example:
        >>> total = Scores(lambda theta, x: theta.sum(axis=-1))
    """

    function: Callable[[Array, Array | None], Array]

    def __post_init__(self) -> None:
        arguments.function("function", self.function, "a function of theta and x")

    def scores(self, block: Block) -> Array:
        return self.function(block.points, block.x)


@dataclass(frozen=True, eq=False)
class Values:
    """Scores that are known already.

    Arguments:
        samples: The scores of the draws, `(n_draws, n_sims)`, or with one more axis for several.
        theta: The scores of the truths, `(n_sims,)` or `(n_sims, n_scores)`.
    """

    samples: Any
    theta: Any

    def scores(self, block: Block) -> Array:
        return block.pool(self.theta, self.samples)

    def cut(self, where: slice) -> "Values":
        draws = self.samples[:, where]
        return Values(Window(draws, where.start), Window(self.theta[where], where.start))


def fitting(region: Region, sims: Simulations) -> Region:
    """Return a region whose centers, if it has any, are those of as many simulations."""
    if isinstance(region, Balls | FromPoints):
        sizes = sims.n_sims, sims.n_dims
        region = replace(
            region, centers=references.reference_points(region.centers, *sizes, "centers")
        )
    if isinstance(region, FromPoints):
        arguments.per_parameter("scale", arguments.floats("scale", region.scale), sims.n_dims)
    return region


def cut(region: Region, where: slice) -> Region:
    """Return a region with what it needs for some of the simulations, to be sent to them."""
    return region.cut(where) if isinstance(region, Cut) else region


def count(region: Region, sims: Simulations) -> tuple[Array, Array]:
    """Count the draws that score below, and the same as, the truth, block by block.

    Of weighted draws, return their shares of the weight; the truth's own is part of the latter.
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
    """Return scores of shape (n_points, n_sims) or (n_points, n_sims, n_scores), without NaN."""
    values = where_it_is("scores", values, 1)
    if values.shape[:2] != shape or values.ndim not in (2, 3):
        raise ValueError(
            f"`scores` must be {shape} (points, simulations), or have one more axis for several "
            f"scores, but got {tuple(values.shape)}. A score takes `theta` of shape (points, "
            f"simulations, n_dims) and reduces its last axis."
        )
    if (values != values).any():
        raise ValueError("`scores` must be numbers, but some are NaN.")
    return values


def score_shapes(
    draws: tuple[int, ...], truths: tuple[int, ...], n_draws: int, n_sims: int
) -> None:
    """Raise if scores that came as arrays have the wrong shapes, `draws` and `truths`."""
    if draws[:2] != (n_draws, n_sims) or truths != draws[1:] or len(draws) > 3:
        raise ValueError(
            f"`scores` given as arrays must be ({n_draws}, {n_sims}) for draws and ({n_sims},) "
            f"for truths, both with one more axis for several, but got {draws} and {truths}."
        )

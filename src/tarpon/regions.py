"""Regions: nested credible regions, each the sublevel sets of a score.

A region is any object with a method `scores(block)` that returns a number for every pooled
point of a block of simulations, the truth among them. All points must be scored in the same
way: for an accurate posterior the truth is one more draw.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from . import backends, references
from . import metrics as _metrics
from ._base import arguments
from ._base.arrays import Rows, Window, double, host, in_units, single, to_device_of
from ._base.types import Array, ArrayLike, Floats, Ints
from .metrics import L2, Metric
from .references import HeldOut, Reference
from .simulations import Simulations, range_of
from .simulations.blocks import Block
from .simulations.fields import unflattened
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
        return (block.whitened**2).sum(axis=-1)


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
        y = block.whitened.swapaxes(0, 1)
        centres = y[:, : min(self.n, block.n_points - 1)]
        norm = (y**2).sum(axis=-1)
        gaps = -2 * backends.swaps(y).inner_products(y, centres)
        gaps += norm[:, :, None]
        gaps += norm[:, None, : centres.shape[1]]
        # A point is no neighbour of itself, and rounding must not decide its distance.
        own = np.arange(centres.shape[1])
        gaps[:, own, own] = np.inf
        if block.played is not None:
            extra, sim = np.nonzero(block.played < len(own))
            gaps[sim, block.n_points + extra, block.played[extra, sim]] = np.inf
        return gaps.swapaxes(0, 1)


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


def is_fused(region: Region) -> bool:
    """Return whether a region counts by kernels alone, which need no scores."""
    if isinstance(region, Balls):
        return isinstance(region.metric, _metrics.Fused)
    return isinstance(region, Counted)


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

r"""Outliers: rare points far from all others of their simulation.

A network whose flow folds badly, or a sampler that got lost, may return a few draws that are very
far away. Means and standard deviations then say little, while ranks hardly notice. A point is an
outlier of a parameter if it lies more than ten interquartile widths from the median, and if such
points are rare: the farthest one lies beyond four standard deviations, as no more than one point
in sixteen can. If draws are right, truths are outliers as often as they are: the sum

.. math:: \sum_i 1[\theta_i \text{ is an outlier}]

over the points that play the truths is compared with those of swaps.
"""

from dataclasses import dataclass

import numpy as np

from .._base.arrays import double, host, namespace, single, to_device_of, zeros
from .._base.types import Array, Floats, Ints
from ..simulations import Simulations, passes
from ..simulations.blocks import Block
from ..simulations.views import points_alone

WIDTHS = 10.0  # interquartile widths from the median
IN_SD = 13.5  # the same for normal points, in standard deviations
_RARE = 4.0  # standard deviations from the mean
_N_LOOKS, _AT_ONCE = 8, 8  # groups of simulations that are looked at, and their size


@dataclass(frozen=True, eq=False)
class Windows:
    """Where points are no outliers, for the simulations and parameters that may have some.

    Arguments:
        sims: The simulations of the block, `(n_windows,)`.
        dims: The parameters.
        middle: The medians.
        reach: The distances from there to the ends; infinite if most points are equal.
    """

    sims: Ints
    dims: Ints
    middle: Floats
    reach: Floats

    @classmethod
    def of(cls, points: Array, centre: Array, spread: Array, weights: Array | None) -> "Windows":
        """Return the windows of points `(n_points, n_block, n_dims)`.

        Arguments:
            points: The points.
            centre: Their means, `(n_block, n_dims)`.
            spread: Their standard deviations.
            weights: Their weights, `(n_points, n_block)`, if they differ.
        """
        xp = namespace(points)
        far = xp.maximum(xp.amax(points, axis=0) - centre, centre - xp.amin(points, axis=0))
        sims, dims = np.nonzero(host(far > _RARE * spread))
        columns = host(double(points[:, to_device_of(sims, points), to_device_of(dims, points)]))
        if weights is None:
            n = len(columns)
            places = np.array([n // 4, n // 2, n - 1 - n // 4])
            lower, median, upper = np.partition(columns, places, axis=0)[places]
        else:
            lower, median, upper = _by_weight(columns, host(weights)[:, sims])
        reach = WIDTHS * np.where(upper > lower, upper - lower, np.inf)
        return cls(sims, dims, median, reach)

    def distance(self, points: Array) -> Floats:
        """Return how far points lie from the middle of their windows, whose ends are at 1.

        Of shape `(n_points, n_windows)`.
        """
        found = points[:, to_device_of(self.sims, points), to_device_of(self.dims, points)]
        distance: Floats = abs(host(double(found)) - self.middle) / self.reach
        return distance


def _by_weight(columns: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the quartiles of columns, each point by its weight."""
    order = columns.argsort(axis=0)
    total = np.take_along_axis(weights, order, axis=0).cumsum(axis=0)
    found = []
    for level in (0.25, 0.5, 0.75):
        place = (total >= level * total[-1]).argmax(axis=0)
        point = np.take_along_axis(order, place[None], axis=0)
        found.append(np.take_along_axis(columns, point, axis=0)[0])
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class Outliers:
    """Whether points are outliers, and the logarithm of how far beyond, in every parameter."""

    def scores(self, block: Block) -> Array:
        """Return both, `(n_points, n_block, 2 * n_dims)`."""
        points, n_dims = block.points, block.points.shape[2]
        windows = _of_block(block)
        distance = windows.distance(points)
        beyond = distance > 1
        how_far = np.log(np.where(beyond, distance, 1.0))
        scores = zeros((*points.shape[:2], 2 * n_dims), points)
        sims, dims = (to_device_of(which, points) for which in (windows.sims, windows.dims))
        scores[:, sims, dims] = single(to_device_of(beyond, scores))
        scores[:, sims, n_dims + dims] = single(to_device_of(how_far, scores))
        return scores


def are_there(sims: Simulations) -> bool:
    """Return whether some simulations have outliers, the truths as one of the points."""
    return any(
        bool((_of_block(block).distance(block.points) > 1).any())
        for some in passes.glimpses(points_alone(sims), _N_LOOKS, _AT_ONCE)
        for block in some.blocks()
    )


def _of_block(block: Block) -> Windows:
    weights = block.weights if block.weighted else None
    return Windows.of(block.pooled, block.centre, block.spread, weights)


def spread(block: Block) -> Array:
    """Return the standard deviations of points without their outliers, `(n_block, n_dims)`."""
    points = double(block.pooled)
    weights = block.weights if block.weighted else np.ones(tuple(points.shape[:2]))
    share = to_device_of((weights / weights.sum(axis=0))[..., None], points)
    left, outlying = without(points, share, block.centre, block.spread, weighted=block.weighted)
    if not outlying.any():
        return block.spread
    mean = (left * points).sum(axis=0)
    sd = (left * (points - mean) ** 2).sum(axis=0) ** 0.5
    return namespace(sd).where(sd > 0, sd, 1.0)


def without(
    draws: Array, share: Array, mean: Array, sd: Array, *, weighted: bool
) -> tuple[Array, Floats]:
    """Return the shares of draws with those of outliers 0, and how much they had.

    Arguments:
        draws: The draws, `(n_draws, n_block, n_dims)`.
        share: The share of each in the weight of its simulation, `(n_draws, n_block, 1)`.
        mean: The means of the draws, `(n_block, n_dims)`.
        sd: Their standard deviations.
        weighted: Whether the shares differ.

    Returns:
        The shares, `(n_draws, n_block, n_dims)` if there are outliers; and the share that
        outliers had, `(n_block, n_dims)`.
    """
    windows = Windows.of(draws, mean, sd, share[..., 0] if weighted else None)
    beyond = windows.distance(draws) > 1
    outlying = np.zeros(tuple(draws.shape[1:]))
    if not beyond.any():
        return share, outlying
    left = np.array(np.broadcast_to(host(share), tuple(draws.shape)))
    own = left[:, windows.sims, windows.dims]
    outlying[windows.sims, windows.dims] = (own * beyond).sum(axis=0)
    left[:, windows.sims, windows.dims] = np.where(beyond, 0.0, own)
    left /= left.sum(axis=0)
    return to_device_of(left, draws), outlying

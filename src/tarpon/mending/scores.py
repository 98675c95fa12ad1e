"""Scores of truths and of new points, given some draws of the posterior that they belong to."""

from typing import Any

import numpy as np

from .. import regions
from .._base import arrays
from .._base.arrays import Results, joined
from .._base.types import Array, ArrayLike, Floats
from ..regions import Region
from ..simulations import Simulations, passes
from .distances import Ellipsoids, Halves


def of_truths(part: Simulations, *, n_centre: int, region: Region | None) -> Results:
    """Return the score of each truth, and the share of draws with smaller scores."""
    found = []
    for piece in passes.pieces(part):
        for block in piece.blocks():
            sims, here = block.sims, block.here
            halves = Halves.of(block, n_centre)
            draws, truths = arrays.host(sims.samples[:, here]), arrays.host(sims.theta[here])
            first = halves.first(draws)
            if region is None:
                ellipsoids = Ellipsoids.of(first)
                score = ellipsoids.distances(truths[None])[0]
                nearer = (ellipsoids.distances(draws) < score) & halves.held
                share = nearer.sum(axis=0) / (1 + halves.held.sum(axis=0))
            else:
                densities: dict[str, Any] = {}
                if sims.log_prob_samples is not None and sims.log_prob_theta is not None:
                    densities = {
                        "log_prob_samples": halves.first(sims.log_prob_samples[:, here]).astype(
                            float
                        ),
                        "log_prob_theta": arrays.host(sims.log_prob_theta[here]),
                    }
                scores = _pooled(region, Simulations(first, truths, x=block.x, **densities))
                score, share = scores[0], (scores[1:] < scores[0]).sum(axis=0) / len(scores)
            found.append({"score": score, "below": share})
    return joined(found)


def _pooled(region: Region, sims: Simulations) -> Floats:
    """Return the scores of truths and draws, `(1 + n_draws, n_sims)`."""
    found = []
    for block in sims.blocks():
        values = regions.scores(region.scores(block), (block.n_points, len(block.truth)))
        if values.ndim == 3:
            raise ValueError(
                f"`region` must have one score per point, but it has {values.shape[2]}: calibrate "
                f"one of them alone, for example by `tarpon.regions.Scores(lambda theta, x: "
                f"theta[..., 0])`."
            )
        found.append(arrays.host(values))
    return np.concatenate(found, axis=1)


def applies_elsewhere(region: Region) -> None:
    """Raise if a region holds numbers per simulation, which a new observation does not have."""
    if isinstance(region, regions.Cut | regions.FromPoints):
        raise ValueError(
            f"`region` must apply to a new observation, but `{type(region).__name__}` holds "
            f"numbers per simulation: use `tarpon.regions.Scores` with a function of points and x."
        )


def of_points(
    region: Region | None,
    points: Floats,
    draws: Floats,
    x_o: ArrayLike | None,
    log_prob: ArrayLike | None,
) -> Floats:
    """Return the scores of points of one posterior, `(n_points,)`.

    Arguments:
        region: Region, or None for the distance from the centre of the draws.
        points: Points, `(n_points, n_dims)`.
        draws: Draws by which they are scored, `(n_draws, n_dims)`.
        x_o: Observation, or None.
        log_prob: Log-densities of the points, `(n_points,)`, or None.
    """
    if region is None:
        return Ellipsoids.of(draws[:, None]).distances(points[:, None])[:, 0]
    x = None if x_o is None else np.asarray(x_o)
    densities = None if log_prob is None else np.atleast_1d(np.asarray(log_prob))
    # Fewer points at a time than draws, so that the two are never mistaken for each other.
    step = len(draws) - 1
    found = [
        _of_some(
            region,
            points[k:][:step],
            draws,
            x,
            None if densities is None else densities[k:][:step],
        )
        for k in range(0, len(points), step)
    ]
    return np.concatenate(found)


def _of_some(
    region: Region, points: Floats, draws: Floats, x: Array | None, log_prob: Array | None
) -> Floats:
    n = len(points)
    more: dict[str, Any] = {}
    if log_prob is not None:
        more = {"log_prob_samples": np.zeros((len(draws), n)), "log_prob_theta": log_prob}
    if x is not None:
        more["x"] = np.repeat(x[None], n, axis=0)
    return _pooled(region, Simulations(np.repeat(draws[:, None], n, axis=1), points, **more))[0]

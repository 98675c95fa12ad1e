"""Examples: the simulations in which the truth lies nearest to its draws, and farthest."""

from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.arrays import Results, double, host, joined
from .._base.types import Array, Floats, Ints
from ..simulations import Simulations, passes
from ..simulations.fields import Places, blocks, places_of
from ..simulations.views import chosen, on_host, points_alone
from .fields import blocks_of_cells
from .many_cells import Grid
from .parameters import Effects

_MOST_CELLS = 4096  # of an example, beyond which blocks of cells are drawn


@dataclass(frozen=True, eq=False)
class Example:
    """One simulation: its truth, and the mean and sd of its draws, of the shape of a field each.

    Arguments:
        place: Its place among all simulations.
        misfit: The root mean square of its residual.
        truth: The truth.
        mean: The mean of the draws.
        sd: Their standard deviation.
        places: The places of the cells, or of blocks of cells.
    """

    place: int
    misfit: float
    truth: Floats
    mean: Floats
    sd: Floats
    places: Places

    @property
    def residual(self) -> Floats:
        """The truth about the mean of the draws, in their sd; 0 where that is 0."""
        return _residual(self.truth, self.mean, self.sd)

    @classmethod
    def of(cls, sims: Simulations, place: int) -> "Example":
        """Read one simulation; of very many cells, the means of blocks of them."""
        one = on_host(chosen(points_alone(sims), np.array([place])))
        places = places_of(sims.names, sims.shape)
        points = np.concatenate([one.theta[None], one.samples]).swapaxes(0, 1)
        if sims.n_dims > _MOST_CELLS and len(sims.shape) > 1:
            starts = blocks_of_cells(sims.shape, _MOST_CELLS)
            fields = points[0].astype(np.result_type(points, np.float32), copy=False)
            points = Grid(sims.shape, starts).means(fields)[None]
            places = blocks(places, sims.shape, starts)
        truth, draws = points[:, 0].astype(float), points[:, 1:].swapaxes(0, 1)
        mean, sd = _moments(draws, one.log_weights)
        size = float(_misfit(truth, mean, sd)[0])
        truth, mean, sd = (each.reshape(places.grid) for each in (truth, mean, sd))
        return cls(place, size, truth, mean, sd, places)


def of_check(sims: Simulations, effects: Effects) -> tuple[Example, ...]:
    """Return simulations whose parameters have the smallest, median and largest residual."""
    size = _misfit(effects.truth, effects.mean, effects.sd)
    return tuple(Example.of(sims, k) for k in _spread(size))


def of_simulations(sims: Simulations, place: int | None) -> tuple[Example, ...]:
    """Return one simulation, or those with the smallest, median and largest residual."""
    if place is None:
        found = joined(passes.each(points_alone(sims), "examples", _misfits))
        return tuple(Example.of(sims, k) for k in _spread(found["misfit"]))
    if arguments.positive("i", place, 0) >= sims.n_sims:
        wanted = f"from 0 to {sims.n_sims - 1}, the place of a simulation"
        raise ValueError(arguments.wrong("i", wanted, place))
    return (Example.of(sims, place),)


def _spread(size: Floats) -> list[int]:
    """Return the places of the smallest, the median and the largest of sizes."""
    order: Ints = np.argsort(size, kind="stable")
    return [int(order[k]) for k in (0, len(order) // 2, -1)]


def _misfits(part: Simulations) -> Results:
    return joined(
        {
            "misfit": _misfit(
                host(piece.theta).astype(float), *_moments(piece.samples, piece.log_weights)
            )
        }
        for piece in passes.pieces(part)
    )


def _moments(samples: Array, log_weights: Array | None) -> tuple[Floats, Floats]:
    """Return mean and sd of the draws of each simulation, `(n_sims, n_dims)` each."""
    draws = double(samples)
    if log_weights is None:
        mean = draws.mean(axis=0)
        return host(mean), host(((draws - mean) ** 2).mean(axis=0) ** 0.5)
    draws = host(draws)
    share = np.exp(log_weights - log_weights.max(axis=0))
    share = (share / share.sum(axis=0))[..., None]
    mean = (share * draws).sum(axis=0)
    return mean, np.sqrt((share * (draws - mean) ** 2).sum(axis=0))


def _misfit(truth: Floats, mean: Floats, sd: Floats) -> Floats:
    return np.sqrt(np.square(_residual(truth, mean, sd)).mean(axis=-1))


def _residual(truth: Floats, mean: Floats, sd: Floats) -> Floats:
    return (truth - mean) / np.where(sd > 0, sd, np.inf)

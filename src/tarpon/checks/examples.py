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

_MOST_CELLS = 4096  # of an example, beyond which blocks of cells are drawn


@dataclass(frozen=True, eq=False)
class Example:
    """One simulation: its truth, and the mean and sd of its draws, of the shape of a field each.

    Arguments:
        place: Its place among all simulations.
        misfit: The root mean square of its residual, over all cells.
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
    def of(cls, sims: Simulations, place: int, misfit: float) -> "Example":
        """Read one simulation of a known misfit; of very many cells, means of blocks of them."""
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
        truth, mean, sd = (each.reshape(places.grid) for each in (truth, mean, sd))
        return cls(place, misfit, truth, mean, sd, places)


def spread(sims: Simulations, misfits: Floats) -> tuple[Example, ...]:
    """Return the simulations with the smallest, the median and the largest of their misfits."""
    order: Ints = np.argsort(misfits, kind="stable")
    places = [int(order[k]) for k in (0, len(order) // 2, -1)]
    return tuple(Example.of(sims, k, float(misfits[k])) for k in places)


def of_simulations(sims: Simulations, place: int | None) -> tuple[Example, ...]:
    """Return one simulation, or those with the smallest, median and largest misfit."""
    if place is None:
        return spread(
            sims, joined(passes.each(points_alone(sims), "examples", _misfits))["misfit"]
        )
    if arguments.positive("i", place, 0) >= sims.n_sims:
        wanted = f"from 0 to {sims.n_sims - 1}, the place of a simulation"
        raise ValueError(arguments.wrong("i", wanted, place))
    one = chosen(points_alone(sims), np.array([place]))
    return (Example.of(sims, place, float(_misfits(one)["misfit"][0])),)


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

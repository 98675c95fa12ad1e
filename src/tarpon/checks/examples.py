"""Examples: the simulations in which the truth lies nearest to its draws, and farthest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.arrays import Results, double, host, joined
from .._base.types import Array, Floats, Ints
from ..simulations import Simulations, chosen, on_host, passes, points_alone
from .parameters import Effects


@dataclass(frozen=True, eq=False)
class Example:
    r"""One simulation: its truth, and the mean and sd of its draws, of the shape of a field each.

    Arguments:
        place: Its place among all simulations.
        misfit: The root mean square of its residual.
        truth: The truth.
        mean: The mean of the draws.
        sd: Their standard deviation.
    """

    place: int
    misfit: float
    truth: Floats
    mean: Floats
    sd: Floats

    @property
    def residual(self) -> Floats:
        """The truth about the mean of the draws, in their sd; 0 where that is 0."""
        return _residual(self.truth, self.mean, self.sd)


def of_effects(effects: Effects, unit: Floats, shape: tuple[int, ...]) -> tuple[Example, ...]:
    """Return the simulations with the smallest, the median and the largest residual."""
    size = _misfit(effects.truth, effects.mean, effects.sd)
    return tuple(
        Example(
            k,
            float(size[k]),
            *((one[k] * unit).reshape(shape) for one in (effects.truth, effects.mean, effects.sd)),
        )
        for k in _spread(size)
    )


def of_simulations(sims: Simulations, place: int | None) -> tuple[Example, ...]:
    """Return one simulation, or those with the smallest, the median and the largest residual."""
    if place is not None:
        place = arguments.positive("i", place, 0)
        if place >= sims.n_sims:
            wanted = f"from 0 to {sims.n_sims - 1}, the place of a simulation"
            raise ValueError(arguments.wrong("i", wanted, place))
        places: Sequence[int] = [place]
    else:
        found = joined(passes.each(points_alone(sims), "examples", _misfits))
        places = _spread(found["misfit"])
    few = on_host(chosen(points_alone(sims), np.unique(places)))
    moments = _moments(few.samples, few.log_weights)
    truth = few.theta.astype(float)
    size, order = _misfit(truth, *moments), np.unique(places)
    examples = {
        int(k): Example(
            int(k), float(size[j]), *(one[j].reshape(sims.shape) for one in (truth, *moments))
        )
        for j, k in enumerate(order)
    }
    return tuple(examples[k] for k in places)


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

"""Views: simulations with arrays left out or replaced. What is stored is not read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from .._base import arrays
from .._base.types import Array, Ints
from ..engine import Run
from . import fields, shapes, weights
from .stored import Stored

if TYPE_CHECKING:
    from . import Simulations

HERE = Run()
AXES = {
    "samples": 1,
    "theta": 0,
    "x": 0,
    "log_prob_samples": 1,
    "log_prob_theta": 0,
    "log_weights": 1,
    "log_weights_theta": 0,
}  # of each array the axis that counts the simulations


def along(name: str, array: Array, which: Any) -> Array:
    """Return some of the simulations of an array."""
    return array[:, which] if AXES[name] else array[which]


def without_last(array: Any, n: int) -> Any:
    """Return the draws without the last `n`; what is stored is not read."""
    if isinstance(array, Stored):
        return array.first(array.shape[0] - n)
    return array[:-n]


def without(sims: "Simulations", *names: str) -> "Simulations":
    """Return the simulations with the named arrays dropped, so that those are not read."""
    return sims._with(**dict.fromkeys(names))


def points_alone(sims: "Simulations") -> "Simulations":
    """Return the simulations without observations and log-densities."""
    return without(sims, "x", "log_prob_samples", "log_prob_theta")


def densities_alone(sims: "Simulations") -> "Simulations":
    """Return the simulations without observations and points."""
    densities = sims._with(
        samples=np.empty((sims.n_draws, sims.n_sims, 0)),
        theta=np.empty((sims.n_sims, 0)),
        x=None,
        names=(),
        shape=(0,),
    )
    densities._known.box, densities._known.centres = (np.empty(0), np.empty(0)), None
    densities._known.sampled_box = None
    return densities


def chosen(sims: "Simulations", places: Ints) -> "Simulations":
    """Return some of the simulations; what is stored is not read."""
    kept = np.zeros(sims.n_sims, dtype=bool)
    kept[places] = True
    some = {
        name: array.keep(kept) if isinstance(array, Stored) else along(name, array, places)
        for name, array in sims._by_name.items()
    }
    part = sims._with(_run=HERE, **some)
    part._known.centres = part._known.box = part._known.sampled_box = None
    if part._whole:
        part._know_box(*shapes.pooled_box(part.samples, part.theta))
    return part


def redrawn(sims: "Simulations", samples: Array) -> "Simulations":
    """Return the simulations with other draws, equally weighted, and without log-densities."""
    part = sims._with(
        samples=samples,
        log_prob_samples=None,
        log_prob_theta=None,
        log_weights=None,
        log_weights_theta=None,
    )
    part._known.centres = None
    part._know_box(*shapes.pooled_box(samples, part.theta))
    return part


def averaged(
    sims: "Simulations", samples: Array, theta: Array, starts: Sequence[Ints]
) -> "Simulations":
    """Return simulations of fields with the averages of blocks of cells in place of cells.

    Arguments:
        sims: The simulations.
        samples: The averages of the draws, `(n_draws, n_sims, n_blocks)`.
        theta: Those of the truths, `(n_sims, n_blocks)`.
        starts: Where blocks begin along each axis.
    """
    names = fields.blocks(sims.names, sims.shape, starts)
    shape = tuple(map(len, starts))
    part = sims._with(samples=samples, theta=theta, names=names, shape=shape)
    part._known.centres = part._known.box = part._known.sampled_box = None
    if part._whole:
        part._know_box(*shapes.pooled_box(samples, theta))
    return part


def on_host(sims: "Simulations") -> "Simulations":
    """Return the simulations with all that is stored read, and all arrays in NumPy."""
    here = sims._fetched()
    here = here._with(
        _run=HERE,
        **{name: np.asarray(arrays.host(array)) for name, array in here._by_name.items()},
    )
    here._know_box(*shapes.pooled_box(here.samples, here.theta))
    return here


def bare(sims: "Simulations") -> "Simulations":
    """Return a single simulation on the host, without draws of weight zero.

    Weights that are all the same are dropped too.
    """
    on_host = {name: np.asarray(arrays.host(array)) for name, array in sims._by_name.items()}
    alone = sims._with(**on_host)
    if alone.log_weights is None:
        return alone
    there = np.flatnonzero(alone.log_weights[:, 0] > -np.inf)
    alone._set(**{name: a[there] for name, a in alone._by_name.items() if AXES[name] == 1})
    own = alone.log_weights_theta
    if own is not None and (alone.log_weights == own).all():
        alone._set(log_weights=None, log_weights_theta=None)
    return alone


def equalised(sims: "Simulations", rng: Generator) -> "Simulations":
    """Return simulations whose draws weigh the same, where the truths' weights are not known.

    Each draw is kept with the probability of its weight over the largest of its simulation.
    """
    if sims.log_weights is None or sims.log_weights_theta is not None:
        return sims
    equal = sims._with(
        log_weights=weights.accepted(sims.log_weights, rng),
        log_weights_theta=np.zeros(sims.n_sims, np.float32),
        _resampled=True,
    )
    equal._known.centres = None
    return equal


def with_warning(sims: "Simulations", said: str) -> "Simulations":
    """Return simulations of which every check warns."""
    return sims._with(_warnings=(*sims._warnings, said))

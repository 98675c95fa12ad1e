"""Simulations whose draws are repaired."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.types import Array
from ..simulations import Simulations, shapes
from ..simulations.views import chosen, on_host, redrawn
from .fitting import Map

FEWEST_KEPT = 10  # draws of a simulation
_MOST_SHORT = 0.05  # share of simulations that may keep fewer draws than the others
_MOST_LEFT_OUT = 0.5


@dataclass(frozen=True, eq=False)
class Mended:
    """Repaired simulations.

    Arguments:
        sims: The simulations, None if most keep too few draws.
        kept: The share of draws that are kept.
        before: The same simulations with as many draws as they were.
    """

    sims: Simulations | None
    kept: float
    before: Simulations | None = None


def repaired(the_map: Map, sims: Simulations, rng: Generator) -> Mended:
    """Return simulations with repaired draws, as many as 95 % of them keep.

    Whether and how many draws of a simulation are kept depends on its data and draws alone, and
    the kept ones are as if drawn one by one. So neither the choice of simulations nor that of
    their first draws depends on what the truths are.
    """
    moved, kept = the_map(sims.samples, sims.x, rng)
    counts = kept.sum(axis=0)
    n_draws = max(FEWEST_KEPT, int(np.quantile(counts, _MOST_SHORT)))
    enough = np.flatnonzero(counts >= n_draws)
    share = float(kept.mean())
    if len(enough) < _MOST_LEFT_OUT * sims.n_sims:
        return Mended(None, share)
    some = chosen(sims, enough)
    draws = _first(moved[:, enough], kept[:, enough], n_draws).astype(some.theta.dtype)
    not_held = some.samples[the_map.n_held : the_map.n_held + n_draws]
    return Mended(redrawn(some, draws), share, redrawn(some, not_held))


def _first(draws: Array, where: Array, n: int) -> Array:
    """Return the first `n` draws of each simulation that are marked."""
    order = np.argsort(~where, axis=0, kind="stable")[:n]
    return np.take_along_axis(draws, order[..., None], axis=0)


def equal(sims: Simulations, fewest: int) -> Simulations:
    """Return simulations in memory with the same number of draws each, or raise."""
    shapes.needs_parameters(sims.n_dims)
    if sims.draws.worth is not None or sims.draws.approximate:
        raise ValueError(
            "a repair needs draws of equal weight, but these have weights: resample each "
            "posterior by its weights first."
        )
    n_draws = sims.draws.fewest
    if n_draws <= fewest:
        raise ValueError(
            f"a repair needs more than {fewest} draws per simulation, but got {n_draws}: draw "
            f"more."
        )
    here = on_host(sims)
    if here.log_weights is None:
        return redrawn(here, here.samples)
    return redrawn(here, _first(here.samples, here.log_weights > -np.inf, n_draws))

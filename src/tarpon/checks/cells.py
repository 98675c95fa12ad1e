"""Cells: the errors of every cell of a field, or of blocks of cells where there are many."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.text import Estimate
from ..ranks import held
from ..simulations import Simulations
from ..simulations.fields import Places
from ..simulations.views import averaged, points_alone
from .fields import MOST_CELLS, Field, blocks_of_cells
from .parameters import Effects, measure
from .statistics import adjusted, log_ratio
from .swaps import Sums


@dataclass(frozen=True)
class Cell:
    """The errors of a cell, or of the mean of a block of cells, with 95 % intervals.

    Arguments:
        name: Its name.
        bias: How far the draws lie above the truths, in posterior sd.
        width: The factor by which truths scatter more widely than draws.
        coverage_68: The share of truths in the central 68 % of the draws.
        p_value: Of bias and width, exact and adjusted for the number of cells.
    """

    name: str
    bias: Estimate
    width: Estimate
    coverage_68: Estimate
    p_value: float


def cells(sims: Simulations, field: Field, sums: Sums, rng: Generator) -> Iterator[Cell]:
    """Yield the errors of blocks of cells that are smaller than those that are parameters.

    Arguments:
        sims: The simulations, of parameters.
        field: The scores of their fields.
        sums: The sums of a swap test.
        rng: Breaks ties.
    """
    if field.maps is None:
        return
    draws, truths = field.maps[:, 1:].swapaxes(0, 1), field.maps[:, 0]
    starts = blocks_of_cells(field.shape, MOST_CELLS)
    fine = averaged(points_alone(sims), draws, truths, starts)
    effects = Effects.of(fine, measure(fine), rng)
    p_values = adjusted(log_ratio(sums.moments["maps"][: sums.n_rows, :2]).sum(axis=1))
    ranks = effects.ranks
    assert isinstance(fine.names, Places)
    for k, name in enumerate(fine.names):
        inside = held(ranks.values[:, k], ranks.n_draws, 0.68, central=True)
        yield Cell(name, effects.bias(k), effects.width(k), inside, float(p_values[k]))


def places(sims: Simulations, field: Field) -> Places:
    """Return the places of the cells whose errors are known."""
    known = sims.names if isinstance(sims.names, Places) else Places(field.shape)
    if field.maps is None:
        return known
    starts = blocks_of_cells(field.shape, MOST_CELLS)
    return Places(
        field.shape, known.axes, known.label, tuple(tuple(np.asarray(s).tolist()) for s in starts)
    )

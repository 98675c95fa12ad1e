r"""Piles: cells of fields that are exactly at the smallest or the largest value of all draws.

Parameters of fields with many cells are means over blocks of them, in which clipped cells leave no
trace. So the cells themselves are looked at, all of them at once. Let :math:`q_i` be the share of
the points of simulation :math:`i` that have a cell at that value. If truths are points like all
others, no truth has such a cell with a probability of :math:`\prod_i (1 - q_i)`.
"""

import numpy as np

from .._base.arrays import host, rounded_like
from .._base.types import Floats
from ..simulations import Simulations, lattices, passes
from .mistakes import FEWEST_CLIPPED, MOST_PILED, Cause, Mistake, unlikely


def clipped_cells(sims: Simulations, piles: Floats | None) -> Mistake | None:
    """Return the mistake if cells of draws are at the same end in many simulations, and no truth.

    Arguments:
        sims: The simulations, of fields.
        piles: What is at the ends of the draws, `(n_sims, 2, 3)`, if that is known.
    """
    if piles is None or sims.weighted:
        return None
    found = []
    for side, end in enumerate((np.min, np.max)):
        value = float(end(piles[:, side, 0]))
        there = piles[:, side, 0] == value
        points, cells = np.where(there[:, None], piles[:, side, 1:], 0.0).astype(float).T
        own = np.full(sims.n_sims, 1 / (sims.n_draws + 1))
        if (
            there.sum() >= FEWEST_CLIPPED
            and unlikely(points, own, sims.n_dims, MOST_PILED)
            and not _on_grid(sims, value)
            and not _in_truths(sims, value)
        ):
            numbers = {"share": float(cells.mean()), "value": float(value)}
            found.append(Mistake(Cause.CLIPPED, (), numbers))
    return max(found, key=lambda mistake: mistake.numbers["share"], default=None)


def _on_grid(sims: Simulations, value: float) -> bool:
    """Return whether cells of a draw that are not at the end are on a grid: rounded, or counts."""
    draw = host(sims.samples[:, :1])[0, 0]
    others = draw[draw != value]
    return not len(others) or bool(lattices.discrete(others[:, None, None]).all())


def _in_truths(sims: Simulations, value: float) -> bool:
    """Return whether a cell of any truth has a value, in the digits of the draws."""
    step, nothing = passes.step(sims), host(sims.samples[:, :1])[:0]
    return any(
        (rounded_like(host(sims.theta[start : start + step]), nothing) == value).any()
        for start in range(0, sims.n_sims, step)
    )

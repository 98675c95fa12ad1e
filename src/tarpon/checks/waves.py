r"""Waves: sums over simulations of cosines of ranks, which see any shape that is wrong.

With :math:`u_k` the share of the points of a simulation below the one that plays the truth, in
parameter :math:`k`, every labelling has the sums

.. math:: \sum_i \cos(\pi j u_k), \qquad \sum_i \cos(\pi j u_k) \cos(\pi l u_m) .

If draws are right, shares are uniform, and all of these sums are noise about zero. Moments of
ranks see shapes that are wrong as a whole; waves see gaps, edges and several modes, and those of
two parameters any dependence on each other. No single wave must stand out: the sum of all
:math:`z^2` of a parameter, or a pair, is compared with that of swaps.
"""

from collections.abc import Mapping

import numpy as np

from .. import backends
from .._base import arrays
from .._base.arrays import Results
from .._base.types import Array, Floats, Ints
from .statistics import any_of, standardise

WAVES, PAIR_WAVES = "waves", "pair_waves"
N_WAVES, N_OF_PAIRS = 8, 3  # waves of one parameter, and of each of two
_MOST_PAIRED = 32  # parameters of which pairs are taken


def pairs(n_chosen: int) -> Ints:
    """Return the parameters of pairs, `(n_pairs, 2)`."""
    return np.column_stack(np.triu_indices(min(n_chosen, _MOST_PAIRED), 1))


def shapes(n_chosen: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the sums of a labelling, by name."""
    return {
        WAVES: (n_chosen, N_WAVES),
        PAIR_WAVES: (len(pairs(n_chosen)), N_OF_PAIRS, N_OF_PAIRS),
    }


def add(sums: Results, scores: Array, slots: Array) -> None:
    """Add the waves of a block to the sums, by name and `(n_rows, ...)`.

    Arguments:
        sums: The sums, which are added to.
        scores: The normal scores of the chosen parameters, `(n_block, n_all, n_chosen)`.
        slots: The points that play the truth, `(n_rows, n_block)`.
    """
    n_block, _, n_chosen = scores.shape
    first, every = _first(scores), arrays.to_device_of(np.arange(n_block), scores)
    one, other = pairs(n_chosen).T

    def run(rows: slice, sims: slice) -> None:
        waves = _waves(first[every[sims, None], slots[rows, sims].T])
        sums[WAVES][rows] += waves.sum(axis=0)
        few = waves[:, :, :_MOST_PAIRED, :N_OF_PAIRS].swapaxes(0, 1)
        n_rows, n_together, n_paired, _ = few.shape
        flat = few.reshape(n_rows, n_together, -1)
        products = (flat.swapaxes(1, 2) @ flat).reshape(
            n_rows, n_paired, N_OF_PAIRS, n_paired, N_OF_PAIRS
        )
        sums[PAIR_WAVES][rows] += products.swapaxes(2, 3)[:, one, other]

    n_numbers = n_chosen * N_WAVES + (min(n_chosen, _MOST_PAIRED) * N_OF_PAIRS) ** 2
    backends.swaps(scores).over_rows(run, len(slots), n_block, n_numbers)


def _first(scores: Array) -> Array:
    r"""Return :math:`\cos(\pi u)` of normal scores, with :math:`u` the share of points below.

    Nearly so of few points, whose scores are scaled to a variance of one.
    """
    xp = arrays.namespace(scores)
    if xp is not np:
        return xp.cos(np.pi * xp.special.ndtr(scores))
    from scipy.special import ndtr

    return np.cos(np.float32(np.pi) * ndtr(scores))


def _waves(first: Array) -> Array:
    r"""Return :math:`\cos(\pi j u)` for j up to 8, along a new last axis, from the first of them.

    By the recurrence of Chebyshev, :math:`c_{j+1} = 2 c_1 c_j - c_{j-1}`.
    """
    xp = arrays.namespace(first)
    waves = [xp.ones_like(first), first]
    while len(waves) <= N_WAVES:
        waves.append(2 * first * waves[-1] - waves[-2])
    return xp.stack(waves[1:], axis=-1)


def of_one(sums: Mapping[str, Array]) -> Floats:
    """Return how far the shape of each parameter is off, standardised, `(n_rows, n_chosen)`."""
    return _together((sums[WAVES] ** 2).sum(axis=2))


def of_two(sums: Mapping[str, Array]) -> Floats:
    """Return how far the shape of each pair is off, slow waves first, `(n_rows, n_pairs)`."""
    order = np.arange(1, N_OF_PAIRS + 1)
    weights = arrays.to_device_of(1 / np.add.outer(order, order), sums[PAIR_WAVES])
    return _together((sums[PAIR_WAVES] ** 2 * weights).sum(axis=3).sum(axis=2))


def _together(squares: Floats) -> Floats:
    """Return the cube roots of sums of squares, which are nearly normal, where they are large."""
    return standardise(squares ** (1 / 3), len(squares)).clip(min=0)


def families(sums: Mapping[str, Array]) -> dict[str, Floats]:
    """Return the statistics made of waves, one per row of the real labelling and the swaps."""
    found = {"shapes": any_of(of_one(sums))}
    return found | ({"pair shapes": any_of(of_two(sums))} if sums[PAIR_WAVES].shape[1] else {})

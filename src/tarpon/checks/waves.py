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
from functools import cache

import numpy as np

from .. import backends
from .._base import arrays
from .._base.arrays import Results
from .._base.types import Array, Floats, Ints
from .statistics import any_of, standardise

WAVES, PAIR_WAVES = "waves", "pair_waves"
N_WAVES, N_OF_PAIRS = 8, 3  # waves of one parameter, and of each of two
_MOST_PAIRED = 32  # parameters of which pairs are taken
_REACH, _PER_UNIT = 8, 16384  # normal scores in the table, and its places per unit


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
    kernels, n_chosen = backends.swaps(scores), scores.shape[2]
    one, other = pairs(n_chosen).T

    def run(rows: slice, _: slice, first: Array) -> None:
        waves = _waves(first)
        sums[WAVES][rows] += (waves @ arrays.namespace(first).ones_like(first[0, 0])).swapaxes(
            1, 2
        )
        if len(one):
            few = waves[:, :N_OF_PAIRS, :_MOST_PAIRED]
            sums[PAIR_WAVES][rows] += _products(few)[:, one, other]

    first = kernels.by_simulation(_first, scores)
    kernels.over_rows(run, first, slots, n_chosen * (2 + N_OF_PAIRS))


def _first(scores: Array) -> Array:
    r"""Return :math:`\cos(\pi u)` of normal scores, with :math:`u` the share of points below.

    Nearly so of few points, whose scores are scaled to a variance of one. Looked up in a table
    in steps of 6e-5, which is many times as fast as computing it.
    """
    xp, table = arrays.namespace(scores), arrays.to_device_of(_table(), scores)
    places = (scores.clip(-_REACH, _REACH) + _REACH) * _PER_UNIT + 0.5
    return table[xp.asarray(places, dtype=xp.int32)]


@cache
def _table() -> Floats:
    """Return the first wave of normal scores from -8 to 8."""
    from scipy.special import ndtr

    scores = np.arange(2 * _REACH * _PER_UNIT + 1) / _PER_UNIT - _REACH
    return np.cos(np.pi * ndtr(scores)).astype(np.float32)


def _waves(first: Array) -> Array:
    r"""Return :math:`\cos(\pi j u)` for j up to 8, along a new second axis, given the first.

    By the recurrence of Chebyshev, :math:`c_{j+1} = 2 c_1 c_j - c_{j-1}`.
    """
    waves = arrays.zeros((len(first), N_WAVES, *first.shape[1:]), first)
    twice, waves[:, 0] = 2 * first, first
    for j in range(1, N_WAVES):
        wave = waves[:, j]
        wave += twice
        wave *= waves[:, j - 1]
        wave -= waves[:, j - 2] if j > 1 else 1
    return waves


def _products(waves: Array) -> Array:
    """Return the sums of products of waves of two parameters, `(n_rows, n, n, n_waves, n_waves)`.

    Arguments:
        waves: The waves, `(n_rows, n_waves, n, n_together)`.
    """
    n_rows, n_waves, n, n_together = waves.shape
    flat = waves.reshape(n_rows, -1, n_together)
    both = (flat @ flat.swapaxes(1, 2)).reshape(n_rows, n_waves, n, n_waves, n)
    return arrays.namespace(waves).moveaxis(both, (2, 4), (1, 2))


def of_one(sums: Mapping[str, Array]) -> Floats:
    """Return how far the shape of each parameter is off, standardised, `(n_rows, n_chosen)`."""
    return together((sums[WAVES] ** 2).sum(axis=2))


def of_two(sums: Mapping[str, Array]) -> Floats:
    """Return how far the shape of each pair is off, slow waves first, `(n_rows, n_pairs)`."""
    order = np.arange(1, N_OF_PAIRS + 1)
    weights = arrays.to_device_of(1 / np.add.outer(order, order), sums[PAIR_WAVES])
    return together((sums[PAIR_WAVES] ** 2 * weights).sum(axis=3).sum(axis=2))


def together(squares: Floats) -> Floats:
    """Return the cube roots of sums of squares, which are nearly normal, where they are large."""
    return standardise(squares ** (1 / 3), len(squares)).clip(min=0)


def families(sums: Mapping[str, Array]) -> dict[str, Floats]:
    """Return the statistics made of waves, one per row of the real labelling and the swaps."""
    found = {"shapes": any_of(of_one(sums))}
    return found | ({"pair shapes": any_of(of_two(sums))} if sums[PAIR_WAVES].shape[1] else {})

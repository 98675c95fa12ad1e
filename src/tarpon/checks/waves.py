r"""Waves: sums over simulations of cosines of ranks, which see any shape that is wrong.

With :math:`u_k` the share of the points of a simulation below the one that plays the truth, in
parameter :math:`k`, every labelling has the sums

.. math:: \sum_i \cos(\pi j u_k), \qquad \sum_i \cos(\pi j u_k) \cos(\pi l u_m) .

If draws are right, shares are uniform, and all of these sums are noise about zero. Moments of
ranks see shapes that are wrong as a whole; waves see gaps, edges and several modes, and those of
two parameters any dependence on each other. No single wave must stand out: the sum of all
:math:`z^2` of a parameter, or a pair, is compared with that of swaps.
"""

from collections.abc import Iterator, Mapping
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
    n_block, _, n_chosen = scores.shape
    first, every = _first(scores), arrays.to_device_of(np.arange(n_block), scores)
    one, other = pairs(n_chosen).T

    def run(rows: slice, sims: slice) -> None:
        few = []
        for j, wave in enumerate(_waves(first[every[sims, None], slots[rows, sims].T])):
            sums[WAVES][rows, :, j] += wave.sum(axis=0)
            few += [wave[..., :_MOST_PAIRED]] if j < N_OF_PAIRS else []
        if len(one):
            sums[PAIR_WAVES][rows] += _products(few)[:, one, other]

    n_numbers = n_chosen * (2 + N_OF_PAIRS)
    backends.swaps(scores).over_rows(run, len(slots), n_block, n_numbers)


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


def _waves(first: Array) -> Iterator[Array]:
    r"""Yield :math:`\cos(\pi j u)` for j up to 8, given the first of them.

    By the recurrence of Chebyshev, :math:`c_{j+1} = 2 c_1 c_j - c_{j-1}`.
    """
    twice, before, wave = 2 * first, arrays.namespace(first).ones_like(first), first
    for _ in range(N_WAVES):
        yield wave
        before, wave = wave, twice * wave - before


def _products(waves: list[Array]) -> Array:
    """Return the sums of products of waves of two parameters, `(n_rows, n, n, n_waves, n_waves)`.

    Arguments:
        waves: The waves `(ntogether, n_rows, n)`.
    """
    xp, (ntogether, n_rows, n) = arrays.namespace(waves[0]), waves[0].shape
    flat = xp.stack(waves, axis=2).swapaxes(0, 1).reshape(n_rows, ntogether, -1)
    both = (flat.swapaxes(1, 2) @ flat).reshape(n_rows, len(waves), n, len(waves), n)
    return xp.moveaxis(both, (2, 4), (1, 2))


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

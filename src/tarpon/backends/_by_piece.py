"""Counting draws that are read a few simulations at a time, each piece by its own backend."""

from collections.abc import Callable

import numpy as np

from .._base.arrays import Pieces
from .._base.types import Array, Floats, Ints
from . import Backend, exact, of

_Counts = tuple[Ints, Ints]


def extent(samples: Pieces) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
    low, high = zip(*(exact(piece).extent(piece) for _, piece in samples.pieces()), strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def smaller(samples: Pieces, theta: Array) -> _Counts:
    """Count the draws below the truth, and equal to it, per parameter."""
    return _joined(samples, exact, lambda on, piece, sims: on.smaller(piece, theta[sims]))


def closer(samples: Pieces, theta: Array, centres: Floats, scale: Floats) -> _Counts:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    return _joined(
        samples, of, lambda on, piece, sims: on.closer(piece, theta[sims], centres[sims], scale)
    )


def closer_l1(samples: Pieces, theta: Array, centres: Floats, scale: Floats) -> _Counts:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
    return _joined(
        samples, of, lambda on, piece, sims: on.closer_l1(piece, theta[sims], centres[sims], scale)
    )


def closer_periodic(
    samples: Pieces, theta: Array, centres: Floats, scale: Floats, period: Floats
) -> _Counts:
    """Count as `closer` does, each difference taken the short way round its period."""
    return _joined(
        samples,
        of,
        lambda on, piece, sims: on.closer_periodic(
            piece, theta[sims], centres[sims], scale, period
        ),
    )


def _joined(
    samples: Pieces,
    backend: Callable[[Array], Backend],
    count: Callable[[Backend, Array, slice], _Counts],
) -> _Counts:
    """Return the counts of all pieces, one after the other."""
    counts = [count(backend(piece), piece, sims) for sims, piece in samples.pieces()]
    below, equal = (np.concatenate(one) for one in zip(*counts, strict=True))
    return below, equal

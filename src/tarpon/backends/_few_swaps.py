"""The functions of `_swaps` in NumPy: their definition, and quick for a few numbers."""

import numpy as np

from .._base.types import Array


def rank(columns: Array, weights: Array, played: Array, table: Array) -> tuple[Array, Array]:
    """Rank all points of every simulation by the weight below them; also count ties.

    The level of points with equal scores is that of the middle of their weight, and their number
    the mean of two where it lies between levels. Ranks of unweighted points are those of points
    with weight one. What is after the first points has the weight of the point that it replaces.

    Arguments:
        columns: Scores of shape `(n_sims, n_scores, n_all)`.
        weights: Weights of the first points, `(n_sims, n_points)`.
        played: Weighted points that the other points replace, `(n_sims, n_all - n_points)`.
        table: The number that stands for each level, `(n_levels,)`.
    """
    n_points, n_levels = weights.shape[1], len(table)
    new = np.arange(columns.shape[2]) >= n_points
    places = np.concatenate([np.tile(np.arange(n_points), (len(played), 1)), played], axis=1)
    own = np.take_along_axis(weights, places, axis=1)
    order = np.argsort(columns, axis=2, kind="stable")
    heavy = _in_order(np.where(new, 0.0, own), order)
    run, start, stop = _runs(np.take_along_axis(columns, order, axis=2))
    after = heavy.cumsum(axis=2).ravel()
    ends = ((after - heavy.ravel())[start] + after[stop])[run].reshape(heavy.shape)

    twice = np.empty(columns.shape)
    np.put_along_axis(twice, order, ends, axis=2)
    there = np.take_along_axis(columns, played[:, None], axis=2)
    extra = columns[..., n_points:]
    side = (there > extra).astype(float) - (there < extra)
    twice[..., n_points:] += side * own[:, None, n_points:]
    middle = 0.5 * twice * (n_levels / np.cumsum(weights, axis=1)[:, -1, None, None])
    levels = np.stack([np.ceil(middle) - 1, np.floor(middle)]).astype(np.int64)
    low, high = table[levels.clip(0, n_levels - 1)]
    found = (np.float32(0.5) * (low + high)).swapaxes(1, 2)

    several = np.bincount(run, weights=(heavy > 0).ravel())[run].reshape(heavy.shape) > 1
    tied = np.empty(columns.shape, bool)
    np.put_along_axis(tied, order, several & (heavy > 0), axis=2)
    n_tied = tied.sum(axis=1, dtype=np.int32)
    return np.ascontiguousarray(found), np.take_along_axis(n_tied, places, axis=1)


def _runs(ordered: Array) -> tuple[Array, Array, Array]:
    """Return the run of equal numbers that each is in, and where runs begin and end, all flat."""
    begins = np.ones(ordered.shape, bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    start = np.flatnonzero(begins)
    return begins.cumsum() - 1, start, np.append(start[1:], ordered.size) - 1


def _in_order(numbers: Array, order: Array) -> Array:
    """Return numbers `(n_sims, n_all)` in orders `(n_sims, n_scores, n_all)` of their own."""
    return numbers[np.arange(len(numbers))[:, None, None], order]


def add_moments(scores: Array, slots: Array, moments: Array, sums: Array) -> None:
    """Add the moments of the normal scores of the points that play the truth, per score."""
    values = np.stack(moments_of(scores, moments), axis=2)
    add_values(values.reshape(*scores.shape[:2], -1), slots, sums.reshape(len(slots), -1))


def moments_of(t: Array, moments: Array) -> tuple[Array, Array, Array, Array]:
    """Return the four moments of normal scores, even or odd polynomials of them."""
    shift, width, skew, tails = moments
    q = t * t
    return (
        shift[1] * t,
        width[0] + width[2] * q,
        t * (skew[1] + skew[3] * q),
        tails[0] + q * (tails[2] + tails[4] * q),
    )


def add_along(scores: Array, slots: Array, moments: Array, along: Array, sums: Array) -> None:
    """Add the first two moments of normal scores, each times numbers of its simulation."""
    both = np.stack(moments_of(scores, moments)[:2], axis=2)[:, :, :, None]
    values = both * along[:, None, None]
    add_values(values.reshape(*scores.shape[:2], -1), slots, sums.reshape(len(slots), -1))


def add_values(values: Array, slots: Array, sums: Array) -> None:
    """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""
    chosen = np.empty(sums.shape, values.dtype)
    for value, slot in zip(values, np.ascontiguousarray(slots.T), strict=True):
        sums += value.take(slot, axis=0, out=chosen, mode="clip")  # without a check of each

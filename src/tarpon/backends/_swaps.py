"""The expensive part of the swap test on the CPU: pooled ranks, and sums over ranks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.arrays import host, rounded_like
from .._base.threads import compiled, over_ranges
from .._base.types import Array, Ints

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64
_PART_BYTES = 4 * 2**20


def pool(truths: Array, draws: Array, place: Ints) -> Array:
    """Return truths `(n_sims, ...)` and draws `(n_draws, n_sims, ...)` as one array.

    Each truth moves to its place, and the draw from there to the end.
    """
    truths, draws = host(truths), host(draws)
    truths, (n_draws, n_sims) = rounded_like(truths, draws), draws.shape[:2]
    # Simulations first in memory: all further steps handle one simulation at a time.
    shape = (n_sims, n_draws + 1, *draws.shape[2:])
    pooled = np.empty(shape, np.result_type(truths, draws)).swapaxes(0, 1)
    pooled[:n_draws], pooled[n_draws] = draws, truths
    every = np.arange(n_sims)
    pooled[n_draws] = pooled[place, every]
    pooled[place, every] = truths
    return pooled


def decorrelate(points: Array, correlation: Callable[[slice], Array]) -> Array:
    """Return decorrelated points, written over the given ones.

    Arguments:
        points: Standardised points `(n_sims, n_all, n_dims)` in single precision.
        correlation: Function that returns the correlations `(n_some, n_dims, n_dims)` of some
            simulations.
    """
    from scipy.linalg.blas import strsm

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        for z, root in zip(points[part], np.linalg.cholesky(correlation(part)), strict=True):
            # Transposed views have the order of Fortran, so nothing is copied.
            z[...] = strsm(1.0, root.T, z.T, trans_a=1, overwrite_b=1).T

    over_ranges(run, len(points), 8 * points.nbytes)
    return points


def pooled_ranks(scores: Array, n_points: int, played: Array) -> tuple[Array, Array]:
    """Rank all points of every simulation among its first `n_points`.

    Among equal scores the earlier point ranks lower. A point after the first `n_points` is
    ranked in the place of the point in `played` that it replaces.

    Arguments:
        scores: Scores of shape `(n_sims, n_all, n_scores)`.
        n_points: Number of pooled points.
        played: Pooled points that the other points replace, `(n_sims, n_all - n_points)`.

    Returns:
        Ranks from 0 to `n_points - 1`, of the shape of `scores`; and the number of scores in
        which each point is tied, of shape `(n_sims, n_all)`.
    """
    columns = np.ascontiguousarray(scores.swapaxes(1, 2), dtype=_comparable(scores.dtype))
    ranks = np.empty(scores.shape, np.uint16 if n_points < 2**16 else np.uint32)
    tied = np.zeros(scores.shape[:2], np.int32)
    short = columns.dtype == np.float32

    def run(first: int, last: int) -> None:
        part, at = columns[first:last], slice(first, last)
        if short:
            keys = np.empty((*part.shape[:2], n_points), np.uint64)
            _pack(part.view(np.uint32), keys)
            keys.sort(axis=2)
            _packed_kernel(part.view(np.uint32), keys, played[at], ranks[at], tied[at])
        else:
            order = np.argsort(part[:, :, :n_points], axis=2)
            _rank_kernel(part, order, n_points, played[at], ranks[at], tied[at])

    over_ranges(run, len(scores), 16 * scores.nbytes)
    return ranks, tied


def _comparable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that kernels can compare and that keeps distinct numbers distinct."""
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def weighted_ranks(
    scores: Array, weights: Array, played: Array, n_levels: int
) -> tuple[Array, Array]:
    """Rank all points of every simulation by the weight below them, in `n_levels` levels.

    The weight below a point includes half of its own weight, and the weights of earlier points
    with the same score. A point after the first `n_points` is ranked in the place, and with the
    weight, of the point in `played` that it replaces.

    Arguments:
        scores: Scores of shape `(n_sims, n_all, n_scores)`.
        weights: Weights of the first points, `(n_sims, n_points)`.
        played: Weighted points that the other points replace, `(n_sims, n_all - n_points)`.
        n_levels: Number of different ranks.

    Returns:
        Ranks from 0 to `n_levels - 1`, of the shape of `scores`; and the number of scores in
        which each point is tied with another of positive weight, of shape `(n_sims, n_all)`.
    """
    columns = np.ascontiguousarray(scores.swapaxes(1, 2), dtype=_comparable(scores.dtype))
    ranks = np.empty(scores.shape, np.uint16)
    tied = np.zeros(scores.shape[:2], np.int32)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        order = np.argsort(columns[part, :, : weights.shape[1]], axis=2, kind="stable")
        _weighted_kernel(
            columns[part], order, weights[part], played[part], n_levels, ranks[part], tied[part]
        )

    over_ranges(run, len(scores), 16 * scores.nbytes)
    return ranks, tied


@compiled
def _place(ordered: Array, at: Array, score: float, played: int) -> np.intp:
    """Return the number of points that score less, or the same and precede the played point."""
    first = np.searchsorted(ordered, score)
    last = np.searchsorted(ordered, score, side="right")
    return first + np.searchsorted(at[first:last], played)


@compiled
def _weighted_kernel(
    columns: Array, order: Array, weights: Array, played: Array, n_levels: int, ranks: Array,
    tied: Array,
) -> None:  # fmt: skip
    n_sims, n_scores, n_all = columns.shape
    n_points = weights.shape[1]
    below = np.zeros(n_points + 1)
    for i in range(n_sims):
        weight = weights[i]
        for k in range(n_scores):
            column, at = columns[i, k], order[i, k]
            for j in range(n_points):
                below[j + 1] = below[j] + weight[at[j]]
            per_weight = n_levels / below[n_points]
            start = 0
            while start < n_points:
                stop, heavy = start, 0
                while stop < n_points and column[at[stop]] == column[at[start]]:
                    heavy += weight[at[stop]] > 0
                    stop += 1
                for j in range(start, stop):
                    e = at[j]
                    middle = (below[j] + 0.5 * weight[e]) * per_weight
                    ranks[i, e, k] = min(int(middle), n_levels - 1)
                    tied[i, e] += heavy > 1 and weight[e] > 0
                start = stop
            ordered = column[at]
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                others = below[_place(ordered, at, column[e], p)]
                others -= weight[p] if column[p] < column[e] else 0.0
                middle = (others + 0.5 * weight[p]) * per_weight
                ranks[i, e, k] = min(max(int(middle), 0), n_levels - 1)
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


@compiled
def _key(bits: int, place: int) -> np.uint64:
    """Return a number that sorts as a float of these bits does, and then by place."""
    if bits == 0x80000000:  # zeros of both signs are equal
        bits = 0
    ordered = ~np.uint32(bits) if bits >> 31 else np.uint32(bits) | np.uint32(0x80000000)
    return (np.uint64(ordered) << np.uint64(32)) | np.uint64(place)


@compiled
def _pack(bits: Array, keys: Array) -> None:
    for i in range(keys.shape[0]):
        for k in range(keys.shape[1]):
            for j in range(keys.shape[2]):
                keys[i, k, j] = _key(bits[i, k, j], j)


@compiled
def _packed_kernel(bits: Array, keys: Array, played: Array, ranks: Array, tied: Array) -> None:
    n_sims, n_scores, n_all = bits.shape
    n_points, low = keys.shape[2], np.uint64(0xFFFFFFFF)
    for i in range(n_sims):
        for k in range(n_scores):
            ordered = keys[i, k]
            before = ~ordered[0]
            for j in range(n_points):
                key = ordered[j]
                place = key & low
                ranks[i, place, k] = j
                if (key ^ before) >> np.uint64(32) == 0:
                    tied[i, place] += 1
                    if j == 1 or (ordered[j - 2] ^ before) >> np.uint64(32) != 0:
                        tied[i, before & low] += 1
                before = key
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                key = _key(bits[i, k, e], p)
                below = np.searchsorted(ordered, key)
                ranks[i, e, k] = below - (_key(bits[i, k, p], p) < key)
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


@compiled
def _rank_kernel(
    columns: Array, order: Array, n_points: int, played: Array, ranks: Array, tied: Array
) -> None:
    n_sims, n_scores, n_all = columns.shape
    for i in range(n_sims):
        for k in range(n_scores):
            column, at = columns[i, k], order[i, k]
            start = 0
            while start < n_points:
                stop = start + 1
                while stop < n_points and column[at[stop]] == column[at[start]]:
                    stop += 1
                if stop - start > 1:
                    at[start:stop] = np.sort(at[start:stop])
                    for j in range(start, stop):
                        tied[i, at[j]] += 1
                for j in range(start, stop):
                    ranks[i, at[j], k] = j
                start = stop
            ordered = column[at]
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                below = _place(ordered, at, column[e], p)
                ranks[i, e, k] = below - (column[p] < column[e])
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


def add_moments(ranks: Array, slots: Array, score: Array, moments: Array, sums: Array) -> None:
    """Add the moments of the ranks of the points that play the truth, per score.

    Arguments:
        ranks: Ranks of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        score: The normal score of every rank, `(n_ranks,)`.
        moments: The moments as polynomials of the normal score, even or odd, `(4, 5)`.
        sums: Sums of shape `(n_rows, 4, n_scores)`, which are added to.
    """

    def run(first: int, last: int) -> None:
        _moments_kernel(ranks, slots[first:last], score, moments, sums[first:last])

    _share_rows(run, slots, 2 * ranks.shape[2])


@compiled
def _moments_kernel(
    ranks: Array, slots: Array, score: Array, moments: Array, sums: Array
) -> None:
    c1, c20, c22 = moments[0, 1], moments[1, 0], moments[1, 2]
    c31, c33 = moments[2, 1], moments[2, 3]
    c40, c42, c44 = moments[3, 0], moments[3, 2], moments[3, 4]
    for b in range(slots.shape[0]):
        first, second, third, fourth = sums[b, 0], sums[b, 1], sums[b, 2], sums[b, 3]
        for i in range(slots.shape[1]):
            row = ranks[i, slots[b, i]]
            for k in range(_index(row.size)):
                t = score[row[k]]
                q = t * t
                first[k] += c1 * t
                second[k] += c20 + c22 * q
                third[k] += t * (c31 + c33 * q)
                fourth[k] += c40 + q * (c42 + c44 * q)


def mean_values(ranks: Array, table: Array) -> Array:
    """Return the values `(n_ranks, n_values)` of ranks `(n_sims, n_all, n_scores)`, averaged."""
    means = np.zeros((*ranks.shape[:2], table.shape[1]), np.float32)

    def run(first: int, last: int) -> None:
        _mean_kernel(ranks[first:last], table, means[first:last])

    over_ranges(run, len(ranks), 8 * ranks.nbytes)
    means /= ranks.shape[2]
    return means


@compiled
def _mean_kernel(ranks: Array, table: Array, means: Array) -> None:
    for i in range(ranks.shape[0]):
        for j in range(ranks.shape[1]):
            mean, row = means[i, j], ranks[i, j]
            for k in range(_index(row.size)):
                values = table[row[k]]
                for c in range(_index(values.size)):
                    mean[c] += values[c]


def add_along(
    ranks: Array, slots: Array, score: Array, moments: Array, along: Array, sums: Array
) -> None:
    """Add the first two moments of the ranks, each times numbers of its simulation and score.

    Arguments:
        ranks: Ranks of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        score: The normal score of every rank, `(n_ranks,)`.
        moments: The moments as polynomials of the normal score, `(4, 5)`.
        along: The numbers, `(n_sims, n_ways, n_scores)`.
        sums: Sums of shape `(n_rows, 2, n_ways, n_scores)`, which are added to.
    """

    def run(first: int, last: int) -> None:
        _along_kernel(ranks, slots[first:last], score, moments, along, sums[first:last])

    _share_rows(run, slots, 2 * ranks.shape[2] * along.shape[1])


@compiled
def _along_kernel(
    ranks: Array, slots: Array, score: Array, moments: Array, along: Array, sums: Array
) -> None:
    c1, c20, c22 = moments[0, 1], moments[1, 0], moments[1, 2]
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row = ranks[i, slots[b, i]]
            for way in range(along.shape[1]):
                numbers, shift, width = along[i, way], sums[b, 0, way], sums[b, 1, way]
                for k in range(_index(row.size)):
                    t = score[row[k]]
                    shift[k] += c1 * t * numbers[k]
                    width[k] += (c20 + c22 * t * t) * numbers[k]


def add_values(values: Array, slots: Array, sums: Array) -> None:
    """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""

    def run(first: int, last: int) -> None:
        _values_kernel(values, slots[first:last], sums[first:last])

    _share_rows(run, slots, values.shape[2])


@compiled
def _values_kernel(values: Array, slots: Array, sums: Array) -> None:
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row, total = values[i, slots[b, i]], sums[b]
            for k in range(_index(row.size)):
                total[k] += row[k]


def over_rows(run: Callable[[slice], None], n_rows: int, n_together: int) -> None:
    """Call a function on some rows at a time, the same ones whoever computes them."""

    def parts(first: int, last: int) -> None:
        for k in range(first, last):
            run(slice(k * n_together, min((k + 1) * n_together, n_rows)))

    n_parts = -(-n_rows // n_together)
    over_ranges(parts, n_parts, n_parts * _PART_BYTES)


def inner_products(a: Array, b: Array) -> Array:
    """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
    out = np.empty((len(a), a.shape[1], b.shape[1]), dtype=np.float32)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        np.matmul(a[part], b[part].swapaxes(1, 2), out=out[part])

    over_ranges(run, len(a), a.nbytes * b.shape[1] // 4)
    return out


def _share_rows(run: Callable[..., None], slots: Array, n_sums: int) -> None:
    over_ranges(run, len(slots), 4 * slots.size * n_sums)

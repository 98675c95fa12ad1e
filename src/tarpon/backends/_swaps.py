"""The expensive part of the swap test on the CPU: scores of pooled ranks, and their sums."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.arrays import host, rounded_like
from .._base.threads import compiled, over_ranges
from .._base.types import Array, Ints

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64
_ROWS_SHARED = 128
_CACHED, _SIMS_CACHED = 2**18, 128  # numbers, and simulations, that a cache holds


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


def pooled_scores(
    scores: Array, n_points: int, played: Array, table: Array
) -> tuple[Array, Array]:
    """Rank all points of every simulation among its first `n_points`.

    Among equal scores the earlier point ranks lower. A point after the first `n_points` is
    ranked in the place of the point in `played` that it replaces.

    Arguments:
        scores: Scores of shape `(n_sims, n_all, n_scores)`.
        n_points: Number of pooled points.
        played: Pooled points that the other points replace, `(n_sims, n_all - n_points)`.
        table: The number that stands for each rank, `(n_points,)`, in single precision.

    Returns:
        The numbers that stand for the ranks, of the shape of `scores`; and the number of scores
        in which each point is tied, of shape `(n_sims, n_all)`.
    """
    columns = np.ascontiguousarray(scores.swapaxes(1, 2), dtype=_comparable(scores.dtype))
    found, tied = np.empty(scores.shape, np.float32), np.zeros(scores.shape[:2], np.int32)
    short = columns.dtype == np.float32

    def run(first: int, last: int) -> None:
        part, at = columns[first:last], slice(first, last)
        if short:
            keys = np.empty((*part.shape[:2], n_points), np.uint64)
            _pack(part.view(np.uint32), keys)
            keys.sort(axis=2)
            _packed_kernel(part.view(np.uint32), keys, played[at], table, found[at], tied[at])
        else:
            order = np.argsort(part[:, :, :n_points], axis=2)
            _rank_kernel(part, order, played[at], table, found[at], tied[at])

    over_ranges(run, len(scores), 16 * scores.nbytes)
    return found, tied


def _comparable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that kernels can compare and that keeps distinct numbers distinct."""
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def weighted_scores(
    scores: Array, weights: Array, played: Array, table: Array
) -> tuple[Array, Array]:
    """Rank all points of every simulation by the weight below them, in levels.

    The weight below a point includes half of its own weight, and the weights of earlier points
    with the same score. A point after the first `n_points` is ranked in the place, and with the
    weight, of the point in `played` that it replaces.

    Arguments:
        scores: Scores of shape `(n_sims, n_all, n_scores)`.
        weights: Weights of the first points, `(n_sims, n_points)`.
        played: Weighted points that the other points replace, `(n_sims, n_all - n_points)`.
        table: The number that stands for each level, `(n_levels,)`, in single precision.

    Returns:
        The numbers that stand for the levels, of the shape of `scores`; and the number of scores
        in which each point is tied with another of positive weight, of shape `(n_sims, n_all)`.
    """
    columns = np.ascontiguousarray(scores.swapaxes(1, 2), dtype=_comparable(scores.dtype))
    found, tied = np.empty(scores.shape, np.float32), np.zeros(scores.shape[:2], np.int32)

    def run(first: int, last: int) -> None:
        at = slice(first, last)
        order = np.argsort(columns[at, :, : weights.shape[1]], axis=2, kind="stable")
        _weighted_kernel(columns[at], order, weights[at], played[at], table, found[at], tied[at])

    over_ranges(run, len(scores), 16 * scores.nbytes)
    return found, tied


@compiled
def _place(ordered: Array, at: Array, score: float, played: int) -> np.intp:
    """Return the number of points that score less, or the same and precede the played point."""
    first = np.searchsorted(ordered, score)
    last = np.searchsorted(ordered, score, side="right")
    return first + np.searchsorted(at[first:last], played)


@compiled
def _weighted_kernel(
    columns: Array, order: Array, weights: Array, played: Array, table: Array, found: Array,
    tied: Array,
) -> None:  # fmt: skip
    n_sims, n_scores, n_all = columns.shape
    n_points, n_levels = weights.shape[1], table.size
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
                    found[i, e, k] = table[min(int(middle), n_levels - 1)]
                    tied[i, e] += heavy > 1 and weight[e] > 0
                start = stop
            ordered = column[at]
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                others = below[_place(ordered, at, column[e], p)]
                others -= weight[p] if column[p] < column[e] else 0.0
                middle = (others + 0.5 * weight[p]) * per_weight
                found[i, e, k] = table[min(max(int(middle), 0), n_levels - 1)]
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
def _packed_kernel(
    bits: Array, keys: Array, played: Array, table: Array, found: Array, tied: Array
) -> None:
    n_sims, n_scores, n_all = bits.shape
    n_points, low = keys.shape[2], np.uint64(0xFFFFFFFF)
    for i in range(n_sims):
        for k in range(n_scores):
            ordered = keys[i, k]
            before = ~ordered[0]
            for j in range(n_points):
                key = ordered[j]
                place = key & low
                found[i, place, k] = table[j]
                if (key ^ before) >> np.uint64(32) == 0:
                    tied[i, place] += 1
                    if j == 1 or (ordered[j - 2] ^ before) >> np.uint64(32) != 0:
                        tied[i, before & low] += 1
                before = key
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                key = _key(bits[i, k, e], p)
                below = np.searchsorted(ordered, key)
                found[i, e, k] = table[below - (_key(bits[i, k, p], p) < key)]
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


@compiled
def _rank_kernel(
    columns: Array, order: Array, played: Array, table: Array, found: Array, tied: Array
) -> None:
    n_sims, n_scores, n_all = columns.shape
    n_points = order.shape[2]
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
                    found[i, at[j], k] = table[j]
                start = stop
            ordered = column[at]
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                below = _place(ordered, at, column[e], p)
                found[i, e, k] = table[below - (column[p] < column[e])]
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


def add_moments(scores: Array, slots: Array, moments: Array, sums: Array) -> None:
    """Add the moments of the normal scores of the points that play the truth, per score.

    Arguments:
        scores: Normal scores of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        moments: The moments as polynomials of the normal score, even or odd, `(4, 5)`.
        sums: Sums of shape `(n_rows, 4, n_scores)`, which are added to.
    """

    def run(first: int, last: int) -> None:
        _moments_kernel(scores, slots[first:last], moments, sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * scores.shape[2])


@compiled
def _moments_kernel(scores: Array, slots: Array, moments: Array, sums: Array) -> None:
    c1, c20, c22 = moments[0, 1], moments[1, 0], moments[1, 2]
    c31, c33 = moments[2, 1], moments[2, 3]
    c40, c42, c44 = moments[3, 0], moments[3, 2], moments[3, 4]
    for i in range(slots.shape[1]):
        for b in range(slots.shape[0]):
            row, total = scores[i, slots[b, i]], sums[b]
            for k in range(_index(row.size)):
                t = row[k]
                q = t * t
                total[0, k] += c1 * t
                total[1, k] += c20 + c22 * q
                total[2, k] += t * (c31 + c33 * q)
                total[3, k] += c40 + q * (c42 + c44 * q)


def mean_moments(scores: Array, moments: Array) -> Array:
    """Return the moments of normal scores `(n_sims, n_all, n_scores)`, averaged over the last."""
    means = np.zeros((*scores.shape[:2], len(moments)), np.float32)

    def run(first: int, last: int) -> None:
        _mean_kernel(scores[first:last], moments, means[first:last])

    over_ranges(run, len(scores), 8 * scores.nbytes)
    return means


@compiled
def _mean_kernel(scores: Array, moments: Array, means: Array) -> None:
    c1, c20, c22 = moments[0, 1], moments[1, 0], moments[1, 2]
    c31, c33 = moments[2, 1], moments[2, 3]
    c40, c42, c44 = moments[3, 0], moments[3, 2], moments[3, 4]
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            row = scores[i, j]
            t1, t2, t3, t4 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for k in range(_index(row.size)):
                t = row[k]
                q = t * t
                t1 += t
                t2 += q
                t3 += q * t
                t4 += q * q
            n = np.float32(row.size)
            means[i, j, 0] = c1 * t1 / n
            means[i, j, 1] = c20 + c22 * t2 / n
            means[i, j, 2] = (c31 * t1 + c33 * t3) / n
            means[i, j, 3] = c40 + (c42 * t2 + c44 * t4) / n


def add_along(scores: Array, slots: Array, moments: Array, along: Array, sums: Array) -> None:
    """Add the first two moments of normal scores, each times numbers of its simulation and score.

    Arguments:
        scores: Normal scores of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        moments: The moments as polynomials of the normal score, `(4, 5)`.
        along: The numbers, `(n_sims, n_ways, n_scores)`.
        sums: Sums of shape `(n_rows, 2, n_ways, n_scores)`, which are added to.
    """

    def run(first: int, last: int) -> None:
        _along_kernel(scores, slots[first:last], moments, along, sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * along[0].size)


@compiled
def _along_kernel(scores: Array, slots: Array, moments: Array, along: Array, sums: Array) -> None:
    c1, c20, c22 = moments[0, 1], moments[1, 0], moments[1, 2]
    for i in range(slots.shape[1]):
        for b in range(slots.shape[0]):
            row = scores[i, slots[b, i]]
            for way in range(along.shape[1]):
                numbers, shift, width = along[i, way], sums[b, 0, way], sums[b, 1, way]
                for k in range(_index(row.size)):
                    t, number = row[k], numbers[k]
                    shift[k] += c1 * t * number
                    width[k] += (c20 + c22 * t * t) * number


def add_values(values: Array, slots: Array, sums: Array) -> None:
    """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""

    def run(first: int, last: int) -> None:
        _values_kernel(values, slots[first:last], sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * values.shape[2])


@compiled
def _values_kernel(values: Array, slots: Array, sums: Array) -> None:
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row, total = values[i, slots[b, i]], sums[b]
            for k in range(_index(row.size)):
                total[k] += row[k]


def over_rows(
    run: Callable[[slice, slice], None], n_rows: int, n_sims: int, n_numbers: int
) -> None:
    """Call a function on some rows and simulations at a time, so that numbers stay in caches.

    The same ones are together whoever computes them, so that sums do not depend on threads.

    Arguments:
        run: The function of rows and simulations.
        n_rows: The number of rows.
        n_sims: The number of simulations.
        n_numbers: The size of the numbers of a row and simulation.
    """
    step = max(1, _CACHED // (min(n_sims, _SIMS_CACHED) * n_numbers))

    def parts(first: int, last: int) -> None:
        for k in range(first, last):
            rows = slice(k * step, min((k + 1) * step, n_rows))
            for start in range(0, n_sims, _SIMS_CACHED):
                run(rows, slice(start, min(start + _SIMS_CACHED, n_sims)))

    n_parts = -(-n_rows // step)
    over_ranges(parts, n_parts, 16 * n_parts * _CACHED)


def inner_products(a: Array, b: Array) -> Array:
    """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
    out = np.empty((len(a), a.shape[1], b.shape[1]), dtype=np.float32)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        np.matmul(a[part], b[part].swapaxes(1, 2), out=out[part])

    over_ranges(run, len(a), a.nbytes * b.shape[1] // 4)
    return out


def _share_rows(run: Callable[[int, int], None], n_rows: int, n_bytes: int) -> None:
    """Share rows between threads, many at a time: each time, all scores are read."""

    def parts(first: int, last: int) -> None:
        run(first * _ROWS_SHARED, min(last * _ROWS_SHARED, n_rows))

    over_ranges(parts, -(-n_rows // _ROWS_SHARED), n_bytes)

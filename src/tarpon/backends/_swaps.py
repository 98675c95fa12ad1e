"""The expensive part of the swap test on the CPU: pooled ranks, and sums over ranks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.arrays import host, rounded_like
from .._base.threads import compiled, over_ranges
from .._base.types import Array, Ints

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64


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

    def run(first: int, last: int) -> None:
        part = columns[first:last]
        order = np.argsort(part[:, :, :n_points], axis=2)
        _rank_kernel(
            part, order, n_points, played[first:last], ranks[first:last], tied[first:last]
        )

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


def add_moments(ranks: Array, slots: Array, table: Array, sums: Array) -> None:
    """Add functions of the ranks of the points that play the truth, per score.

    Arguments:
        ranks: Ranks of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        table: Values of the functions per rank, `(n_ranks, n_functions)`.
        sums: Sums of shape `(n_rows, n_functions, n_scores)`, which are added to.
    """

    def run(first: int, last: int) -> None:
        _moments_kernel(ranks, slots[first:last], table, sums[first:last])

    _share_rows(run, slots, ranks.shape[2] * table.shape[1])


@compiled
def _moments_kernel(ranks: Array, slots: Array, table: Array, sums: Array) -> None:
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row = ranks[i, slots[b, i]]
            for c in range(table.shape[1]):
                total = sums[b, c]
                for k in range(_index(row.size)):
                    total[k] += table[row[k], c]


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


def add_products(values: Array, slots: Array, others: Array, pairs: Array, crossed: Array) -> None:
    """Add the products of the values of the points that play the truth.

    Arguments:
        values: Values of shape `(n_sims, n_all, n_values)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        others: Numbers per simulation, `(n_sims, n_others)`.
        pairs: Sums of products of values, `(n_rows, n_values, n_values)`, which are added to
            above the diagonal.
        crossed: Sums of products of values with `others`, `(n_rows, n_values, n_others)`, which
            are added to.
    """

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        _products_kernel(values, slots[part], others, pairs[part], crossed[part])

    _share_rows(run, slots, values.shape[2] * (values.shape[2] + others.shape[1]))


@compiled
def _products_kernel(
    values: Array, slots: Array, others: Array, pairs: Array, crossed: Array
) -> None:
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row, other = values[i, slots[b, i]], others[i]
            for k in range(row.size):
                value, above, across = row[k], pairs[b, k], crossed[b, k]
                for m in range(_index(k + 1), _index(row.size)):
                    above[m] += value * row[m]
                for m in range(_index(other.size)):
                    across[m] += value * other[m]


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

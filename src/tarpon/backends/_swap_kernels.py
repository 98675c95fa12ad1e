"""The compiled loops of `_swaps`."""

import numpy as np

from .._base.compiling import compiled
from .._base.types import Array

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64


# Searches are written out: NumPy's take seconds to compile.


@compiled
def _place(column: Array, order: Array, score: float, played: int) -> int:
    """Return the number of points that score less, or the same and precede the played point."""
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        other = column[order[middle]]
        if other < score or (other == score and order[middle] < played):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def rank_weighted(
    columns: Array, order: Array, weights: Array, played: Array, table: Array, found: Array,
    tied: Array,
) -> None:  # fmt: skip
    """Rank ordered points by the weight below them."""
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
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                others = below[_place(column, at, column[e], p)]
                others -= weight[p] if column[p] < column[e] else 0.0
                middle = (others + 0.5 * weight[p]) * per_weight
                found[i, e, k] = table[min(max(int(middle), 0), n_levels - 1)]
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


@compiled
def rank_packed(
    bits: Array, keys: Array, played: Array, n_bits: int, table: Array, found: Array, tied: Array
) -> None:
    """Rank points in single precision by their sorted keys, as `_swaps._packed` made them."""
    n_sims, n_scores, n_all = bits.shape
    n_points = np.uint64(n_all - played.shape[1])
    low, ones, shift = np.uint64(0xFFFFFFFF), np.uint64((1 << n_bits) - 1), np.uint64(n_bits)
    for i in range(n_sims):
        for k in range(n_scores):
            below, last, before_last = 0, np.uint64(0), np.uint64(0)
            for j in range(n_all):
                key = keys[i, k, j]
                place, extra, score = (key & low) >> shift, key & ones, key >> np.uint64(32)
                if extra < ones:
                    found[i, n_points + extra, k] = table[below - (bits[i, k, place] < score)]
                    continue
                found[i, place, k] = table[below]
                if below > 0 and last >> np.uint64(32) == score:
                    tied[i, place] += 1
                    if below == 1 or before_last >> np.uint64(32) != score:
                        tied[i, (last & low) >> shift] += 1
                below, last, before_last = below + 1, key, last
        for e in range(played.shape[1]):
            tied[i, n_points + np.uint64(e)] = tied[i, played[i, e]]


@compiled
def rank_ordered(
    columns: Array, order: Array, played: Array, table: Array, found: Array, tied: Array
) -> None:
    """Rank points that are ordered by their scores, and by their places where they tie."""
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
                    for j in range(start, stop):
                        tied[i, at[j]] += 1
                for j in range(start, stop):
                    found[i, at[j], k] = table[j]
                start = stop
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                below = _place(column, at, column[e], p)
                found[i, e, k] = table[below - (column[p] < column[e])]
        for e in range(n_points, n_all):
            tied[i, e] = tied[i, played[i, e - n_points]]


@compiled
def add_moments(scores: Array, slots: Array, moments: Array, sums: Array) -> None:
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


@compiled
def add_along(scores: Array, slots: Array, moments: Array, along: Array, sums: Array) -> None:
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


@compiled
def add_values(values: Array, slots: Array, sums: Array) -> None:
    for b in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            row, total = values[i, slots[b, i]], sums[b]
            for k in range(_index(row.size)):
                total[k] += row[k]

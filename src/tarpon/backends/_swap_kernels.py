"""The compiled loops of `_swaps`."""

from typing import Any

import numpy as np

from .._base.compiling import compiled
from .._base.types import Array

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64


# Searches are written out: NumPy's take seconds to compile.


@compiled
def _equal(column: Array, order: Array, score: float) -> tuple[int, int]:
    """Return where points with a score begin and end in the order of all."""
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        if column[order[middle]] < score:
            low = middle + 1
        else:
            high = middle
    while high < order.size and column[order[high]] == score:
        high += 1
    return low, high


@compiled
def _between(table: Array, middle: float) -> Any:
    """Return the number of the level that contains a middle, the mean of two if it is between."""
    last = table.size - 1
    low, high = int(np.ceil(middle)) - 1, int(middle)
    low, high = min(max(low, 0), last), min(max(high, 0), last)
    return np.float32(0.5) * (table[low] + table[high])


@compiled
def _middle(table: Array, start: int, stop: int) -> Any:
    """Return the number of the middle of the ranks from `start` to before `stop`."""
    return np.float32(0.5) * (table[(start + stop - 1) // 2] + table[(start + stop) // 2])


@compiled
def rank_weighted(
    columns: Array, order: Array, weights: Array, played: Array, table: Array, found: Array,
    tied: Array,
) -> None:  # fmt: skip
    """Rank ordered points by the weight below them."""
    n_sims, n_scores, n_all = columns.shape
    n_points = weights.shape[1]
    below = np.zeros(n_points + 1)
    for i in range(n_sims):
        weight = weights[i]
        for k in range(n_scores):
            column, at = columns[i, k], order[i, k]
            for j in range(n_points):
                below[j + 1] = below[j] + weight[at[j]]
            per_weight = table.size / below[n_points]
            start = 0
            while start < n_points:
                stop, heavy = start, 0
                while stop < n_points and column[at[stop]] == column[at[start]]:
                    heavy += weight[at[stop]] > 0
                    stop += 1
                number = _between(table, 0.5 * (below[start] + below[stop]) * per_weight)
                for j in range(start, stop):
                    e = at[j]
                    found[i, e, k] = number
                    tied[i, e] += heavy > 1 and weight[e] > 0
                start = stop
            for e in range(n_points, n_all):
                p = played[i, e - n_points]
                start, stop = _equal(column, at, column[e])
                twice = below[start] + below[stop]
                if column[p] != column[e]:  # what it replaces is no longer there
                    twice += -weight[p] if column[p] < column[e] else weight[p]
                found[i, e, k] = _between(table, 0.5 * twice * per_weight)
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
    half = np.uint64(32)
    for i in range(n_sims):
        for k in range(n_scores):
            ordered, below, start = keys[i, k], 0, 0
            while start < n_all:
                key, score, stop = ordered[start], ordered[start] >> half, start + 1
                place, extra = (key & low) >> shift, key & ones
                if stop == n_all or ordered[stop] >> half != score:  # no other scores the same
                    if extra == ones:
                        found[i, place, k] = table[below]
                        below += 1
                    else:
                        found[i, n_points + extra, k] = table[below - (bits[i, k, place] < score)]
                    start = stop
                    continue
                same = int(extra == ones)
                while stop < n_all and ordered[stop] >> half == score:
                    same += int(ordered[stop] & ones == ones)
                    stop += 1
                for j in range(start, stop):
                    place, extra = (ordered[j] & low) >> shift, ordered[j] & ones
                    if extra == ones:
                        found[i, place, k] = _middle(table, below, below + same)
                        tied[i, place] += same > 1
                        continue
                    first = below - int(bits[i, k, place] < score)
                    last = below + same + int(bits[i, k, place] > score)
                    found[i, n_points + extra, k] = _middle(table, first, last)
                start, below = stop, below + same
        for e in range(played.shape[1]):
            tied[i, n_points + np.uint64(e)] = tied[i, played[i, e]]


@compiled
def rank_ordered(
    columns: Array, order: Array, played: Array, table: Array, found: Array, tied: Array
) -> None:
    """Rank points that are ordered by their scores."""
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
                number = _middle(table, start, stop)
                for j in range(start, stop):
                    found[i, at[j], k] = number
                    tied[i, at[j]] += stop - start > 1
                start = stop
            for e in range(n_points, n_all):
                own = column[played[i, e - n_points]]
                start, stop = _equal(column, at, column[e])
                start -= int(own < column[e])
                stop += int(own > column[e])
                found[i, e, k] = _middle(table, start, stop)
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

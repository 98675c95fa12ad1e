r"""Counting on the CPU: one pass over the samples, at about the speed of reading them.

A distance is a sum over the parameters, and so is the difference of two distances. A draw
:math:`s` is closer to the centre :math:`r` than the truth :math:`t` if

.. math:: d(s, r) - d(t, r) = \sum_k f(s_k - t_k; t_k - r_k) < 0

with a *term* :math:`f` per kind of distance. Terms subtract points, never distances: distances
would cancel in single precision, and a draw that equals the truth bit for bit must be a tie.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._base.arrays import exact
from .._base.threads import n_threads_for, over_ranges, share
from .._base.types import Array, Floats, Ints
from ._rows import (
    Pair,
    blocks,
    extent_rows,
    l1,
    l2,
    long_rows,
    order,
    periodic,
    short_rows,
    smaller_rows,
    window,
    working,
)
from ._sums import saw
from ._terms import centred, prepare
from ._vectors import N_COLUMNS, N_ROWS

_CACHED_BYTES = 2**19  # of truths that fit into a cache
# Of rows up to this many bytes, those that follow each other are read faster than distant ones.
_NEAR_BYTES = 128
# Rows shorter than this many numbers are read several at a time, if no sums are needed.
_TILE = 64
# Numbers per simulation times centres, above which a matrix product beats a pass per centre.
_LEAST_FOR_PRODUCT = 150_000


def closer(samples: Array, theta: Array, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    if centres.ndim == 2:
        return _closer(l2, samples, theta, centres, scale)
    if centres.shape[1] * samples.shape[0] * samples.shape[2] < _LEAST_FOR_PRODUCT:
        return _one_by_one(closer, samples, theta, centres, scale)
    return _closer_to_many(samples, theta, centres, scale)


def closer_l1(samples: Array, theta: Array, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
    if centres.ndim == 3:
        return _one_by_one(closer_l1, samples, theta, centres, scale)
    return _closer(l1, samples, theta, centres, scale)


def closer_periodic(
    samples: Array, theta: Array, centres: Floats, scale: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    if centres.ndim == 3:
        return _one_by_one(closer_periodic, samples, theta, centres, scale, period)
    return _closer(periodic, samples, theta, centres, scale, period)


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below the truth, and equal to it, per parameter."""
    dtype = working(samples.dtype, whole=theta.dtype.kind in "biu")
    saw(bool(np.isfinite(theta).all()))
    parts = (
        (sims, _smaller(block, exact(theta[sims], dtype)))
        for sims, block in blocks(samples, dtype)
    )
    return _added(parts, theta.shape)


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
    dtype = working(samples.dtype, whole=True)
    ends = np.stack([_extent(block, dtype) for _, block in blocks(samples, dtype)])
    ends = ends.astype(samples.dtype)
    return ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)


def _closer(
    term: Callable[..., Any],
    samples: Array,
    theta: Array,
    centres: Floats,
    scale: Floats,
    period: Floats | float = np.inf,
) -> tuple[Ints, Ints]:
    """Count the draws for which the terms sum to less than zero, and to zero."""
    dtype = working(samples.dtype)

    def parts() -> Iterator[tuple[slice, Ints]]:
        for sims, block in blocks(samples, dtype):
            truth = exact(theta[sims], dtype)
            away = np.subtract(theta[sims], centres[sims], dtype=float)
            constants = prepare(term.__name__, truth, away[:, None], scale, period)
            yield sims, _count(term, block, truth, constants.away[:, 0], constants.table)

    return _added(parts(), theta.shape[:1])


def _added(parts: Iterator[tuple[slice, Ints]], shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the counts of all blocks, of some simulations or some draws each, added up."""
    total: Ints | None = None
    for sims, counts in parts:
        if total is None and counts.shape[1:] == shape:
            total = counts
            continue
        total = np.zeros((2, *shape), dtype=np.int64) if total is None else total
        total[:, sims] += counts
    assert total is not None
    return total[0], total[1]


def _closer_to_many(
    samples: Array, theta: Array, centres: Floats, scale: Floats
) -> tuple[Ints, Ints]:
    r"""Count for several centres at once, by a small matrix product per simulation.

    A draw is closer if :math:`|\delta|^2 < 2\, \delta \cdot \rho` with :math:`\delta = s - t`
    and :math:`\rho = r - t`: differences of points, as in the other kernels.
    """
    dtype = working(samples.dtype)
    truth = exact(theta, dtype)
    scale = centred(scale, theta[:, None] - centres, truth.dtype.itemsize)
    unit = scale.astype(truth.dtype)
    below, equal = np.zeros((2, *centres.shape[:2]), dtype=np.int64)
    finite: list[bool] = []

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            step = unit * (samples[:, i].astype(dtype) - truth[i])
            toward = (2 * scale * (centres[i] - theta[i])).astype(step.dtype)
            gap = (step * step).sum(axis=1)[:, None] - step @ toward.T
            finite.append(bool(np.isfinite(gap.sum())))
            below[i], equal[i] = (gap < 0).sum(axis=0), (gap == 0).sum(axis=0)

    over_ranges(run, len(theta), samples.nbytes)
    saw(all(finite))
    return below, equal


def _one_by_one(
    count: Callable[..., tuple[Ints, Ints]],
    samples: Array,
    theta: Array,
    centres: Floats,
    *more: Any,
) -> tuple[Ints, Ints]:
    """Count for one centre after the other."""
    counts = [count(samples, theta, centre, *more) for centre in centres.swapaxes(0, 1)]
    below, equal = np.stack(counts, axis=-1)
    return below, equal


def _count(
    term: Callable[..., Any], samples: Array, truth: Array, away: Array, table: Array
) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = window(samples)
    by_sims = steps[0] <= steps[1]
    if n_dims < N_COLUMNS:
        # With simulations in the lanes, their constants must be adjacent too.
        constants = np.asfortranarray(truth), np.asfortranarray(away), table, n_dims
        count = _count_short(term, by_sims, min(steps) == n_dims, n_dims, samples.itemsize)
    else:
        constants = *_in_tiles(truth, away, table), n_dims
        near = samples.itemsize <= 4 and n_dims * samples.itemsize <= _NEAR_BYTES
        count = _count_long(term, by_sims, not by_sims or near)
    lost: list[bool] = []

    def run(first: int, last: int, counts: Array) -> None:
        """Count some of the simulations, or some tiles of the draws of all."""
        if by_sims:
            lost.append(count(flat, steps, (0, n_draws), (first, last), constants, counts))
            return
        # Constants are read again for every few draws, so use no more than fit into the cache.
        draws = first * N_ROWS, min(last * N_ROWS, n_draws)
        n_kept = max(1, _CACHED_BYTES // (2 * n_dims * truth.itemsize))
        for i in range(0, n_sims, n_kept):
            sims = i, min(i + n_kept, n_sims)
            lost.append(count(flat, steps, draws, sims, constants, counts))

    n_threads = n_threads_for(samples.nbytes, n_sims if by_sims else n_draws)
    # Threads with different draws of the same simulations need separate counts.
    counts = np.zeros((1 if by_sims else n_threads, 2, n_sims), dtype=np.int32)
    share(run, n_sims if by_sims else -(-n_draws // N_ROWS), n_threads, counts)
    saw(not any(lost))
    total: Ints = counts.sum(axis=0, dtype=np.int64)
    return total


def _count_short(
    term: Callable[..., Any], by_sims: bool, dense: bool, n_dims: int, itemsize: int
) -> Callable[..., bool]:
    """Return a function that counts short rows, in the number of streams measured as fastest.

    More streams would not fit into the registers, and streams of tiny rows are too short to pay.
    The function returns whether a sum is NaN or infinite.
    """
    n_streams = (2 if n_dims * itemsize > 4 else 1) if by_sims else (4 if n_dims <= 4 else 2)

    def count(flat: Array, steps: Pair, draws: Pair, *rest: Any) -> bool:
        """Count the draws that fill all streams, then the remaining draws."""
        whole, lost = draws[1] - (draws[1] - draws[0]) % n_streams, 0
        if draws[0] < whole:
            kernel = short_rows(term, n_dims, n_streams, by_sims, dense)
            lost |= kernel(flat, steps, (draws[0], whole), *rest)
        if whole < draws[1]:
            kernel = short_rows(term, n_dims, 1, True, False)
            lost |= kernel(flat, steps, (whole, draws[1]), *rest)
        return lost > 0

    return count


def _count_long(term: Callable[..., Any], by_sims: bool, near: bool) -> Callable[..., bool]:
    """Return a function that counts longer rows, in tiles of draws; the last may be partial.

    A tile holds draws that follow each other if `near`, else one of each of `N_ROWS` equal parts.
    """

    def count(flat: Array, steps: Pair, draws: Pair, *rest: Any) -> bool:
        """Count the draws that fill whole tiles, then the remaining draws."""
        kernel = long_rows(term, by_sims)
        n_times, n_left = divmod(draws[1] - draws[0], N_ROWS)
        apart, along = (1, N_ROWS) if near else (n_times, 1)
        lost = kernel(flat, steps, (draws[0], N_ROWS, n_times, apart, along), *rest)
        if n_left:
            lost |= kernel(flat, steps, (draws[1] - n_left, n_left, 1, 1, 0), *rest)
        return lost > 0

    return count


def _in_tiles(truth: Array, away: Array, table: Array) -> tuple[Array, Array, Array]:
    """Return the columns in tiles; the last tile overlaps the one before, so that it is full."""
    n_dims = truth.shape[1]
    starts = np.arange(0, n_dims, N_COLUMNS)[:, None]
    columns = np.minimum(starts, n_dims - N_COLUMNS) + np.arange(N_COLUMNS)
    truth, away, table = (np.take(a, columns.ravel(), axis=1) for a in (truth, away, table))
    # Columns that an earlier tile counts get no weight here.
    table[0] *= (columns >= starts).ravel()
    return truth, away, table


def _smaller(samples: Array, truth: Array) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = window(samples)
    if steps[1] == n_dims < steps[0]:
        # Each number of a draw has a truth of its own, like a simulation of one parameter.
        column = truth.reshape(-1, 1)
        numbers = samples.reshape(n_draws, n_sims * n_dims, 1)
        counts = _count(order, numbers, column, column, np.zeros((3, 1)))
        return counts.reshape(2, n_sims, n_dims)
    width = max(1, _TILE // n_dims) if steps[0] == n_dims else 1

    lost: list[int] = []

    def run(first: int, last: int, counts: Array) -> None:
        sims = first, last
        lost.append(smaller_rows(flat, steps, n_draws, sims, truth, width, counts))

    counts = np.zeros((2, n_sims, n_dims), dtype=np.int64)
    share(run, n_sims, n_threads_for(samples.nbytes, n_sims), counts[None])
    saw(not any(lost))
    return counts


def _extent(samples: Array, dtype: np.dtype[Any]) -> Array:
    rows = samples if samples.strides[0] > samples.strides[1] else samples.swapaxes(0, 1)
    n_outer, n_inner, n_dims = rows.shape
    flat, steps = window(rows)
    width = max(1, _TILE // n_dims) if steps[1] == n_dims else 1

    def run(first: int, last: int, ends: Array) -> None:
        extent_rows(flat, steps, (first, last), n_inner, n_dims, ends)

    n_threads = n_threads_for(samples.nbytes, n_outer)
    ends = np.tile(samples[0, 0].astype(dtype), (n_threads, 2, width))
    share(run, n_outer, n_threads, ends)
    low, high = ends.swapaxes(0, 1).reshape(2, -1, n_dims)
    return np.stack([low.min(axis=0), high.max(axis=0)])

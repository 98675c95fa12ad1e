r"""Counting on the CPU: one pass over the samples, at about the speed of reading them.

A distance is a sum over the parameters, and so is the difference of two. A draw :math:`s` is
closer to the center :math:`r` than the truth :math:`t` where

.. math:: d(s, r) - d(t, r) = \sum_k f(s_k - t_k; t_k - r_k) < 0

with a *term* :math:`f` for each distance. Terms subtract points, never distances: those would
cancel in single precision, and a draw that equals the truth bit for bit must be a tie.

Two kernels serve all terms and both orders of memory: rows of a few parameters put draws or
simulations in the lanes of their vectors, longer rows put parameters there. Both read several
streams at once: where the simulations of a draw lie together, a few draws; where the draws of a
simulation do, a few equal parts of them. One stream would leave a fifth of the memory's speed
unused, and keep arithmetic waiting. Half floats are widened once they are in registers.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numba.extending import register_jitable
from numpy.lib.stride_tricks import as_strided

from .._types import Array, Floats, Ints
from ._terms import centered
from ._threads import compiled, each, n_threads_for, share
from ._vectors import (
    N_COLUMNS,
    N_ROWS,
    larger,
    load,
    number,
    repeat,
    row_signs,
    widens_halves,
    zeros,
)

_Pair: TypeAlias = tuple[int, int]
_Streams: TypeAlias = tuple[int, int, int, int, int]
_Constants: TypeAlias = tuple[Array, Array, Array, int]

# What is copied at once; how many truths are prepared at once; how many a cache keeps.
_BLOCK_BYTES = 4 * 2**20
_BLOCK_TRUTHS = 2**18
_CACHED_BYTES = 2**19
# Rows shorter than this many numbers are taken several at a time, where that needs no sums.
_TILE = 64
# Numbers of a simulation times centers from which a matrix product beats a pass for each center.
_WORTH_A_PRODUCT = 150_000
# Signed indices might count from the end, and checking that costs two thirds of the speed.
_index = np.uint64


def closer(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k d_k^2`."""
    if centers.ndim == 2:
        return _closer(_l2, samples, theta, centers, np.sqrt(weight))
    if centers.shape[1] * samples.shape[0] * samples.shape[2] < _WORTH_A_PRODUCT:
        return _one_by_one(closer, samples, theta, centers, weight)
    return _closer_to_many(samples, theta, centers, np.sqrt(weight))


def closer_l1(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k |d_k|`."""
    if centers.ndim == 3:
        return _one_by_one(closer_l1, samples, theta, centers, weight)
    return _closer(_l1, samples, theta, centers, weight)


def closer_periodic(
    samples: Array, theta: Array, centers: Floats, weight: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    if centers.ndim == 3:
        return _one_by_one(closer_periodic, samples, theta, centers, weight, period)
    return _closer(_periodic, samples, theta, centers, np.sqrt(weight), period)


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below and equal to the truth, parameter by parameter."""
    dtype = _working(samples.dtype, whole=theta.dtype.kind in "biu")
    counts = np.zeros((2, *theta.shape), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        counts[:, sims] += _smaller(block, _exact(theta[sims], dtype))
    return counts[0], counts[1]


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN where there is one."""
    dtype = _working(samples.dtype, whole=True)
    ends = np.stack([_extent(block, dtype) for _, block in _blocks(samples, dtype)])
    ends = ends.astype(samples.dtype)
    return ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)


# Terms, of numbers or of tiles, each as two factors; `away` is t - r. Only their products and
# sums may be rearranged: the factors are exact where a draw equals the truth or its mirror image.


@register_jitable(fastmath=False)
def _l2(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return the factors of |s - r|^2 - |t - r|^2."""
    # Each gets the square root of the weight: the weight itself, or the square of a step, may
    # be out of range in single precision.
    step = scale * (draw - truth)
    return step, step + scale * (away + away)


@register_jitable(fastmath=False)
def _l1(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return the factors of |s - r| - |t - r|."""
    step = draw - truth
    right = step + (away - abs(away))
    left = -(step + (away + abs(away)))
    return scale, larger(right, left)


@register_jitable(fastmath=False)
def _periodic(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return the factors of |s - r|^2 - |t - r|^2, both the short way round; so is `away`."""
    step = draw - truth
    step = scale * (step - turn * np.rint((step + away) * per_turn))
    return step, step + scale * (away + away)


@register_jitable
def _order(draw: Any, truth: Any, *_: Any) -> Any:
    """Return the sign of s - t; the difference itself may overflow."""
    return 1, -1 if draw < truth else (0 if draw == truth else 1)


# Kernels. All walk `flat`, the memory of the samples, by the steps from a draw to the next and
# from a simulation to the next.


@cache
def _short_rows(
    term: Callable[..., Any], n_dims: int, n_streams: int, by_sims: bool, dense: bool
) -> Callable[..., None]:
    """Return the kernel for rows of a few numbers, with draws or simulations in the lanes.

    The number of draws must be a multiple of `n_streams`. Rows follow one another without a gap
    if `dense`: the compiler then knows all distances, and loads whole vectors.
    """

    def kernel(
        flat: Array, steps: _Pair, draws: _Pair, sims: _Pair, constants: _Constants, counts: Array
    ) -> None:
        truth, away, table, _ = constants
        along_draws = _index(n_dims if dense and by_sims else steps[0])
        along_sims = _index(n_dims if dense and not by_sims else steps[1])
        length = _index((draws[1] - draws[0]) // n_streams if by_sims else 1)
        for first in range(_index(draws[0]), _index(draws[1]), length * _index(n_streams)):
            for i in range(_index(sims[0]), _index(sims[1])):
                n_below = n_equal = np.int32(0)
                for j in range(length):
                    for stream in range(_index(n_streams)):
                        at = (first + j + stream * length) * along_draws + i * along_sims
                        total = truth.dtype.type(0)
                        for k in range(_index(n_dims)):
                            row = table[0, k], table[1, k], table[2, k]
                            a, b = term(number(flat[at + k]), truth[i, k], away[i, k], *row)
                            total += a * b
                        n_below = np.int32(n_below + (total < 0))
                        n_equal = np.int32(n_equal + (total == 0))
                counts[0, i] += n_below
                counts[1, i] += n_equal

    return compiled(kernel)


@cache
def _long_rows(term: Callable[..., Any], by_sims: bool) -> Callable[..., None]:
    """Return the kernel for rows that fill a tile, with parameters in the lanes.

    A tile holds a few parameters of `n_rows` draws that are `apart`; the next `n_times - 1`
    tiles hold the same ones of draws that are `along` further. The constants are laid out by
    `_in_tiles`.
    """

    def kernel(
        flat: Array,
        steps: _Pair,
        draws: _Streams,
        sims: _Pair,
        constants: _Constants,
        counts: Array,
    ) -> None:
        truth, away, table, n_dims = constants
        first, n_rows, n_times = _index(draws[0]), _index(draws[1]), _index(draws[2])
        apart, along = _index(draws[3] * steps[0]), _index(draws[4])
        zero, last = truth.dtype.type(0), _index(n_dims - N_COLUMNS)
        n_sims = _index(sims[1] - sims[0])
        for outer in range(n_sims if by_sims else n_times):
            for inner in range(n_times if by_sims else n_sims):
                i = _index(sims[0]) + (outer if by_sims else inner)
                turn = inner if by_sims else outer
                at = (first + turn * along) * _index(steps[0]) + i * _index(steps[1])
                total = zeros(zero)
                for k in range(_index(0), _index(truth.shape[1]), _index(N_COLUMNS)):
                    some = load(flat, at + (k if k < last else last), apart, n_rows, zero)
                    points = repeat(truth[i], k), repeat(away[i], k)
                    row = repeat(table[0], k), repeat(table[1], k), repeat(table[2], k)
                    a, b = term(some, *points, *row)
                    total = total + a * b
                n_below, n_equal = row_signs(total, n_rows)
                counts[0, i] += n_below
                counts[1, i] += n_equal

    return compiled(kernel)


@compiled
def _smaller_kernel(
    flat: Array, steps: _Pair, n_draws: int, sims: _Pair, truth: Array, width: int, counts: Array
) -> None:
    """Count draws parameter by parameter, `width` at a time that follow without a gap."""
    n_dims = truth.shape[1]
    tile = np.empty(width * n_dims, truth.dtype)
    n_below, n_equal = np.empty(tile.size, np.int32), np.empty(tile.size, np.int32)
    for i in range(sims[0], sims[1]):
        n_below[:] = n_equal[:] = 0
        for row in range(0, tile.size, n_dims):
            for k in range(n_dims):
                tile[row + k] = truth[i, k]
        for j in range(0, n_draws, width):
            at = _index(j * steps[0] + i * steps[1])
            for k in range(_index(min(width, n_draws - j) * n_dims)):
                n_below[k] += number(flat[at + k]) < tile[k]
                n_equal[k] += number(flat[at + k]) == tile[k]
        for row in range(0, tile.size, n_dims):
            for k in range(n_dims):
                counts[0, i, k] += n_below[row + k]
                counts[1, i, k] += n_equal[row + k]


@compiled
def _extent_kernel(
    flat: Array, steps: _Pair, outer: _Pair, n_inner: int, n_dims: int, ends: Array
) -> None:
    """Widen the ends, of shape `(2, width * n_dims)`, to hold all rows, `width` at a time."""
    width = ends.shape[1] // n_dims
    for i in range(outer[0], outer[1]):
        for j in range(0, n_inner, width):
            at = _index(i * steps[0] + j * steps[1])
            for k in range(_index(min(width, n_inner - j) * n_dims)):
                new, low, high = number(flat[at + k]), ends[0, k], ends[1, k]
                is_nan = new != new
                ends[0, k] = new if (new < low) | is_nan else low
                ends[1, k] = new if (new > high) | is_nan else high


# From arrays to kernels.


def _closer(
    term: Callable[..., Any],
    samples: Array,
    theta: Array,
    centers: Floats,
    scale: Floats,
    period: Floats | float = np.inf,
) -> tuple[Ints, Ints]:
    """Count the draws for which the terms sum to less than zero, and to zero."""
    dtype = _working(samples.dtype)
    turn = np.where(np.isfinite(period), period, 0.0)
    counts = np.zeros((2, len(theta)), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        truth = _exact(theta[sims], dtype)
        away = np.subtract(theta[sims], centers[sims], dtype=float)
        away -= turn * np.rint(away / period)
        # Rounded down, or the far side of the circle might be farther than the truth there.
        per_turn = (1 - 8 * np.finfo(truth.dtype).eps) / period
        table = np.stack(np.broadcast_arrays(centered(scale, away), turn, per_turn))
        counts[:, sims] += _count(
            term, block, truth, away.astype(truth.dtype), table.astype(truth.dtype)
        )
    return counts[0], counts[1]


def _closer_to_many(
    samples: Array, theta: Array, centers: Floats, scale: Floats
) -> tuple[Ints, Ints]:
    r"""Count for several centers at once, by a small matrix product a simulation.

    A draw is closer where :math:`|\delta|^2 < 2\, \delta \cdot \rho` with :math:`\delta = s - t`
    and :math:`\rho = r - t`: differences of points, as in the other kernels.
    """
    dtype = _working(samples.dtype)
    truth = _exact(theta, dtype)
    scale = centered(scale, theta[:, None] - centers)
    unit = scale.astype(truth.dtype)
    below, equal = np.zeros((2, *centers.shape[:2]), dtype=np.int64)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            step = unit * (samples[:, i].astype(dtype) - truth[i])
            toward = (2 * scale * (centers[i] - theta[i])).astype(step.dtype)
            gap = (step * step).sum(axis=1)[:, None] - step @ toward.T
            below[i], equal[i] = (gap < 0).sum(axis=0), (gap == 0).sum(axis=0)

    each(run, len(theta), samples.nbytes)
    return below, equal


def _one_by_one(
    count: Callable[..., tuple[Ints, Ints]],
    samples: Array,
    theta: Array,
    centers: Floats,
    *more: Any,
) -> tuple[Ints, Ints]:
    """Count for one center after the other."""
    counts = [count(samples, theta, center, *more) for center in centers.swapaxes(0, 1)]
    below, equal = np.stack(counts, axis=-1)
    return below, equal


def _count(
    term: Callable[..., Any], samples: Array, truth: Array, away: Array, table: Array
) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = _window(samples)
    by_sims = steps[0] <= steps[1]
    if n_dims < N_COLUMNS:
        # Simulations in the lanes want their constants side by side too.
        constants = np.asfortranarray(truth), np.asfortranarray(away), table, n_dims
        count = _count_short(term, by_sims, min(steps) == n_dims, n_dims, samples.itemsize)
    else:
        constants = *_in_tiles(truth, away, table), n_dims
        count = _count_long(term, by_sims)

    def run(first: int, last: int, counts: Array) -> None:
        if by_sims:
            count(flat, steps, (0, n_draws), (first, last), constants, counts)
            return
        # All constants are read again for every few draws, so take no more than the cache keeps.
        draws = first * N_ROWS, min(last * N_ROWS, n_draws)
        n_kept = max(1, _CACHED_BYTES // (2 * n_dims * truth.itemsize))
        for i in range(0, n_sims, n_kept):
            count(flat, steps, draws, (i, min(i + n_kept, n_sims)), constants, counts)

    n_threads = n_threads_for(samples.nbytes, n_sims if by_sims else n_draws)
    # Threads that take different draws of the same simulations count apart.
    counts = np.zeros((1 if by_sims else n_threads, 2, n_sims), dtype=np.int32)
    share(run, n_sims if by_sims else -(-n_draws // N_ROWS), n_threads, counts)
    total: Ints = counts.sum(axis=0, dtype=np.int64)
    return total


def _count_short(
    term: Callable[..., Any], by_sims: bool, dense: bool, n_dims: int, itemsize: int
) -> Callable[..., None]:
    """Return what counts rows of a few numbers, in as many streams as were measured to be best.

    More would not fit into the registers; and streams of tiny rows end before they are worth it.
    """
    n_streams = (2 if n_dims * itemsize > 4 else 1) if by_sims else (4 if n_dims <= 4 else 2)

    def count(flat: Array, steps: _Pair, draws: _Pair, *rest: Any) -> None:
        whole = draws[1] - (draws[1] - draws[0]) % n_streams
        if draws[0] < whole:
            kernel = _short_rows(term, n_dims, n_streams, by_sims, dense)
            kernel(flat, steps, (draws[0], whole), *rest)
        if whole < draws[1]:
            kernel = _short_rows(term, n_dims, 1, True, False)
            kernel(flat, steps, (whole, draws[1]), *rest)

    return count


def _count_long(term: Callable[..., Any], by_sims: bool) -> Callable[..., None]:
    """Return what counts longer rows, in tiles of draws; those left over fill a part of one."""

    def count(flat: Array, steps: _Pair, draws: _Pair, *rest: Any) -> None:
        kernel = _long_rows(term, by_sims)
        n_times, n_left = divmod(draws[1] - draws[0], N_ROWS)
        apart, along = (n_times, 1) if by_sims else (1, N_ROWS)
        kernel(flat, steps, (draws[0], N_ROWS, n_times, apart, along), *rest)
        if n_left:
            kernel(flat, steps, (draws[1] - n_left, n_left, 1, 1, 0), *rest)

    return count


def _in_tiles(truth: Array, away: Array, table: Array) -> tuple[Array, Array, Array]:
    """Lay the columns out as tiles take them; the last tile starts early enough to be full."""
    n_dims = truth.shape[1]
    starts = np.arange(0, n_dims, N_COLUMNS)[:, None]
    columns = np.minimum(starts, n_dims - N_COLUMNS) + np.arange(N_COLUMNS)
    truth, away, table = (np.take(a, columns.ravel(), axis=1) for a in (truth, away, table))
    # What an earlier tile has already counted has no weight.
    table[0] *= (columns >= starts).ravel()
    return truth, away, table


def _smaller(samples: Array, truth: Array) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = _window(samples)
    if steps[1] == n_dims < steps[0]:
        # Each number of a draw has a truth of its own, like a simulation of one parameter.
        column = truth.reshape(-1, 1)
        numbers = samples.reshape(n_draws, n_sims * n_dims, 1)
        counts = _count(_order, numbers, column, column, np.zeros((3, 1)))
        return counts.reshape(2, n_sims, n_dims)
    width = max(1, _TILE // n_dims) if steps[0] == n_dims else 1

    def run(first: int, last: int, counts: Array) -> None:
        _smaller_kernel(flat, steps, n_draws, (first, last), truth, width, counts)

    counts = np.zeros((2, n_sims, n_dims), dtype=np.int64)
    share(run, n_sims, n_threads_for(samples.nbytes, n_sims), counts[None])
    return counts


def _extent(samples: Array, dtype: np.dtype[Any]) -> Array:
    rows = samples if samples.strides[0] > samples.strides[1] else samples.swapaxes(0, 1)
    n_outer, n_inner, n_dims = rows.shape
    flat, steps = _window(rows)
    width = max(1, _TILE // n_dims) if steps[1] == n_dims else 1

    def run(first: int, last: int, ends: Array) -> None:
        _extent_kernel(flat, steps, (first, last), n_inner, n_dims, ends)

    n_threads = n_threads_for(samples.nbytes, n_outer)
    ends = np.tile(samples[0, 0].astype(dtype), (n_threads, 2, width))
    share(run, n_outer, n_threads, ends)
    low, high = ends.swapaxes(0, 1).reshape(2, -1, n_dims)
    return np.stack([low.min(axis=0), high.max(axis=0)])


def _blocks(samples: Array, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield the samples as they are if a kernel can walk them, otherwise copies of them.

    A block is a few simulations, so that neither copies nor what is prepared for each truth
    grow with the samples.
    """
    n_draws, n_sims, n_dims = samples.shape
    if _walkable(samples, dtype):
        n_together = max(1, _BLOCK_TRUTHS // max(n_dims, 1))
        for i in range(0, n_sims, n_together):
            yield slice(i, i + n_together), samples[:, i : i + n_together]
        return
    n_rows = max(1, _BLOCK_BYTES // (n_dims * dtype.itemsize))
    n_together = max(1, n_rows // max(n_draws, 1))
    for i in range(0, n_sims, n_together):
        sims = slice(i, i + n_together)
        for j in range(0, n_draws, n_rows):
            yield sims, np.ascontiguousarray(samples[j : j + n_rows, sims], dtype)


def _walkable(samples: Array, dtype: np.dtype[Any]) -> bool:
    return (
        (samples.dtype == dtype or (samples.dtype == np.float16 and widens_halves()))
        and samples.flags.aligned
        and all(step >= 0 and step % samples.itemsize == 0 for step in samples.strides)
        and (samples.strides[2] == samples.itemsize or samples.shape[2] == 1)
    )


def _window(samples: Array) -> tuple[Array, _Pair]:
    """Return the memory from the first number to the last, and the steps of the first two axes."""
    along = [step // samples.itemsize for step in samples.strides]
    size = 1 + sum((n - 1) * step for n, step in zip(samples.shape, along, strict=True))
    flat = as_strided(samples, (max(size, 0),), (samples.itemsize,), writeable=False)
    # Kernels know no half floats but by their bits.
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat, (along[0], along[1])


def _working(dtype: np.dtype[Any], *, whole: bool = False) -> np.dtype[Any]:
    """Return the type that kernels work in; integers become floats unless `whole`."""
    if whole and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)


def _exact(theta: Array, dtype: np.dtype[Any]) -> Array:
    """Return the truths in the given type if that is exact, otherwise in double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        same = theta.astype(dtype)
    return same if np.array_equal(same, theta, equal_nan=True) else theta.astype(np.float64)

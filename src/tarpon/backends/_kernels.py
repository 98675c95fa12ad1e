r"""Counting on the CPU: one pass over the samples, at about the speed of reading them.

A distance is a sum over the parameters, and so is the difference of two. A draw :math:`s` is
closer to the center :math:`r` than the truth :math:`t` where

.. math:: d(s, r) - d(t, r) = \sum_k f(s_k - t_k; t_k - r_k) < 0

with a *term* :math:`f` for each distance. Terms subtract points, never distances: those would
cancel in single precision, and a draw that equals the truth bit for bit must be a tie.

One kernel serves all terms and both orders of memory. It reads a few streams at once: where the
simulations of a draw lie together, a few draws; where the draws of a simulation do, a few equal
parts of them. One stream would leave a fifth of the memory's speed unused.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numba.extending import register_jitable
from numpy.lib.stride_tricks import as_strided

from .._types import Array, Floats, Ints
from ._threads import compiled, n_threads_for, share

_Pair: TypeAlias = tuple[int, int]
_Arrays: TypeAlias = tuple[Array, Array, Array]

_BLOCK_BYTES = 4 * 2**20
_CACHED_BYTES = 2**19
# Rows shorter than this many numbers are taken several at a time, where that needs no sums.
_TILE = 64
# The compiler unrolls rows of a length it knows, and puts draws or simulations in the lanes of
# its vectors. That is fast for short rows alone; in longer ones, parameters fill the lanes.
_LONGEST_FROZEN = 8
# Signed indices might count from the end, and checking that costs two thirds of the speed.
_index = np.uint64


def closer(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k d_k^2`."""
    away = np.subtract(theta, centers, dtype=float)
    return _closer(_l2, samples, theta, 2 * away, np.sqrt(weight))


def closer_l1(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k |d_k|`."""
    away = np.subtract(theta, centers, dtype=float)
    return _closer(_l1, samples, theta, away, weight)


def closer_periodic(
    samples: Array, theta: Array, centers: Floats, weight: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    away = np.subtract(theta, centers, dtype=float)
    return _closer(_periodic, samples, theta, away, np.sqrt(weight), period)


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below and equal to the truth, parameter by parameter."""
    dtype = _working(samples.dtype, whole=theta.dtype.kind in "biu")
    truth = _exact(theta, dtype)
    counts = np.zeros((2, *theta.shape), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        counts[:, sims] += _smaller(block, truth[sims])
    return counts[0], counts[1]


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN where there is one."""
    dtype = _working(samples.dtype, whole=True)
    ends = np.stack([_extent(block) for _, block in _blocks(samples, dtype)]).astype(samples.dtype)
    return ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)


# Terms. They are compiled without "reassoc", which could undo the care that they take.


@register_jitable(fastmath={"contract"})
def _l2(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return |s - r|^2 - |t - r|^2, where `away` is 2 (t - r)."""
    step = draw - truth
    # Each factor gets the square root of the weight: the weight itself, or the square of a
    # step, may be out of range in single precision.
    return (scale * step) * (scale * (step + away))


@register_jitable(fastmath={"contract"})
def _l1(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return |s - r| - |t - r|, where `away` is t - r."""
    step = draw - truth
    right = step + (away - abs(away))
    left = -(step + (away + abs(away)))
    return scale * (right if right > left else left)


@register_jitable(fastmath={"contract"})
def _periodic(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return |s - r|^2 - |t - r|^2, both the short way round; `away` is the short t - r."""
    step = draw - truth
    step -= turn * np.rint((step + away) * per_turn)
    return (scale * step) * (scale * (step + (away + away)))


@register_jitable
def _order(draw: Any, truth: Any, *_: Any) -> Any:
    """Return the sign of s - t; the difference itself may overflow."""
    return -1 if draw < truth else (0 if draw == truth else 1)


# Kernels. All walk `flat`, the memory of the samples, by the steps from a draw to the next and
# from a simulation to the next.


@cache
def _counter(
    term: Callable[..., Any], n_streams: int, by_sims: bool, frozen: int
) -> Callable[..., None]:
    """Return the kernel for a term and an order of memory.

    The number of draws must be a multiple of `n_streams`. Unless `frozen` is 0, rows must have
    this length and follow one another without a gap.
    """

    def kernel(
        flat: Array, steps: _Pair, draws: _Pair, sims: _Pair, constants: _Arrays, counts: Array
    ) -> None:
        truth, away, table = constants
        n_dims = _index(frozen if frozen else truth.shape[1])
        along_draws = _index(frozen if frozen and by_sims else steps[0])
        along_sims = _index(frozen if frozen and not by_sims else steps[1])
        length = _index((draws[1] - draws[0]) // n_streams if by_sims else 1)
        for first in range(_index(draws[0]), _index(draws[1]), length * _index(n_streams)):
            for i in range(_index(sims[0]), _index(sims[1])):
                n_below = n_equal = np.int32(0)
                for j in range(length):
                    for stream in range(_index(n_streams)):
                        at = (first + j + stream * length) * along_draws + i * along_sims
                        total = truth.dtype.type(0)
                        for k in range(n_dims):
                            row = table[0, k], table[1, k], table[2, k]
                            total += term(flat[at + k], truth[i, k], away[i, k], *row)
                        n_below = np.int32(n_below + (total < 0))
                        n_equal = np.int32(n_equal + (total == 0))
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
                n_below[k] += flat[at + k] < tile[k]
                n_equal[k] += flat[at + k] == tile[k]
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
                number, low, high = flat[at + k], ends[0, k], ends[1, k]
                is_nan = number != number
                ends[0, k] = number if (number < low) | is_nan else low
                ends[1, k] = number if (number > high) | is_nan else high


# From arrays to kernels.


def _closer(
    term: Callable[..., Any],
    samples: Array,
    theta: Array,
    away: Floats,
    scale: Floats,
    period: Floats | float = np.inf,
) -> tuple[Ints, Ints]:
    """Count the draws for which the terms sum to less than zero, and to zero."""
    dtype = _working(samples.dtype)
    truth = _exact(theta, dtype)
    turn = np.where(np.isfinite(period), period, 0.0)
    away = away - turn * np.rint(away / period)
    # Rounded down, or the far side of the circle might be farther than the truth that is there.
    per_turn = (1 - 8 * np.finfo(truth.dtype).eps) / period
    table = np.stack(np.broadcast_arrays(_centered(scale, away), turn, per_turn))
    away, table = away.astype(truth.dtype), table.astype(truth.dtype)
    counts = np.zeros((2, len(theta)), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        counts[:, sims] += _count(term, block, (truth[sims], away[sims], table))
    return counts[0], counts[1]


def _count(term: Callable[..., Any], samples: Array, constants: _Arrays) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = _window(samples)
    by_sims = steps[0] <= steps[1]
    frozen = n_dims if min(steps) == n_dims <= _LONGEST_FROZEN else 0
    n_streams = 2 if frozen else 4
    truth, away, table = constants
    if frozen:  # Simulations in the lanes want their constants side by side too.
        constants = np.asfortranarray(truth), np.asfortranarray(away), table

    def count(draws: _Pair, sims: _Pair, counts: Array) -> None:
        rest = draws[1] - (draws[1] - draws[0]) % n_streams
        if draws[0] < rest:
            kernel = _counter(term, n_streams, by_sims, frozen)
            kernel(flat, steps, (draws[0], rest), sims, constants, counts)
        if rest < draws[1]:
            kernel = _counter(term, 1, True, 0)
            kernel(flat, steps, (rest, draws[1]), sims, constants, counts)

    def run(first: int, last: int, counts: Array) -> None:
        if by_sims:
            count((0, n_draws), (first, last), counts)
            return
        # All constants are read again for every few draws, so take no more than the cache keeps.
        n_kept = max(1, _CACHED_BYTES // (2 * n_dims * samples.itemsize))
        for i in range(0, n_sims, n_kept):
            count((first, last), (i, min(i + n_kept, n_sims)), counts)

    n_items = n_sims if by_sims else n_draws
    n_threads = n_threads_for(samples.nbytes, n_items)
    # Threads that take different draws of the same simulations count apart.
    counts = np.zeros((1 if by_sims else n_threads, 2, n_sims), dtype=np.int32)
    share(run, n_items, n_threads, counts)
    total: Ints = counts.sum(axis=0, dtype=np.int64)
    return total


def _smaller(samples: Array, truth: Array) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    flat, steps = _window(samples)
    if steps[1] == n_dims < steps[0]:
        # Each number of a draw has a truth of its own, like a simulation of one parameter.
        column = truth.reshape(-1, 1)
        constants = column, column, np.zeros((3, 1))
        numbers = samples.reshape(n_draws, n_sims * n_dims, 1)
        counts = _count(_order, numbers, constants)
        return counts.reshape(2, n_sims, n_dims)
    width = max(1, _TILE // n_dims) if steps[0] == n_dims else 1

    def run(first: int, last: int, counts: Array) -> None:
        _smaller_kernel(flat, steps, n_draws, (first, last), truth, width, counts)

    counts = np.zeros((2, n_sims, n_dims), dtype=np.int64)
    share(run, n_sims, n_threads_for(samples.nbytes, n_sims), counts[None])
    return counts


def _extent(samples: Array) -> Array:
    rows = samples if samples.strides[0] > samples.strides[1] else samples.swapaxes(0, 1)
    n_outer, n_inner, n_dims = rows.shape
    flat, steps = _window(rows)
    width = max(1, _TILE // n_dims) if steps[1] == n_dims else 1

    def run(first: int, last: int, ends: Array) -> None:
        _extent_kernel(flat, steps, (first, last), n_inner, n_dims, ends)

    n_threads = n_threads_for(samples.nbytes, n_outer)
    ends = np.tile(samples[0, 0], (n_threads, 2, width))
    share(run, n_outer, n_threads, ends)
    low, high = ends.swapaxes(0, 1).reshape(2, -1, n_dims)
    return np.stack([low.min(axis=0), high.max(axis=0)])


def _blocks(samples: Array, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield the samples if a kernel can walk them, otherwise copies of a few at a time."""
    n_draws, n_sims, n_dims = samples.shape
    if (
        samples.dtype == dtype
        and samples.flags.aligned
        and all(step >= 0 and step % dtype.itemsize == 0 for step in samples.strides)
        and (samples.strides[2] == dtype.itemsize or n_dims == 1)
    ):
        yield slice(None), samples
        return
    n_rows = max(1, _BLOCK_BYTES // (n_dims * dtype.itemsize))
    n_together = max(1, n_rows // max(n_draws, 1))
    for i in range(0, n_sims, n_together):
        sims = slice(i, i + n_together)
        for j in range(0, n_draws, n_rows):
            yield sims, np.ascontiguousarray(samples[j : j + n_rows, sims], dtype)


def _window(samples: Array) -> tuple[Array, _Pair]:
    """Return the memory from the first number to the last, and the steps of the first two axes."""
    along = [step // samples.itemsize for step in samples.strides]
    size = 1 + sum((n - 1) * step for n, step in zip(samples.shape, along, strict=True))
    flat = as_strided(samples, (max(size, 0),), (samples.itemsize,), writeable=False)
    return flat, (along[0], along[1])


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


def _centered(scale: Floats, away: Floats) -> Floats:
    """Return the scale times a constant that brings the largest difference near one.

    Equal scales become a power of two, so that points on a lattice keep their ties.
    """
    scale = scale / (np.max(scale, initial=0.0) or 1.0)
    largest = np.max(scale * abs(away), initial=0.0, where=np.isfinite(away))
    return np.ldexp(scale, min(-int(np.frexp(largest)[1]), 126))

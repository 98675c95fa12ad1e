r"""Counting on the CPU: one pass over the samples, at about the speed of reading them.

A distance is a sum over the parameters, and so is the difference of two. A draw :math:`s` is
closer to the center :math:`r` than the truth :math:`t` where

.. math:: d(s, r) - d(t, r) = \sum_k f(s_k - t_k; t_k - r_k) < 0

with a *term* :math:`f` for each distance. Terms subtract points, never distances: those would
cancel in single precision, and a draw that equals the truth bit for bit must be a tie.

One kernel serves all terms and both orders of memory. It reads a few streams at once: where the
simulations of a draw lie together, a few draws; where the draws of a simulation do, a few equal
parts of them. One stream leaves a fifth of the memory's speed unused.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import Any, Literal, cast

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.lib.stride_tricks import as_strided

from .._types import Array, Floats, Ints

_BLOCK_BYTES = 4 * 2**20
_THREAD_BYTES = 4 * 2**20
_CHUNKS_PER_THREAD = 16
# Numbers that the kernels of `smaller` and `extent` take together, however short the rows.
_TILE = 64
# The compiler unrolls rows of a length it knows, and puts draws or simulations in the lanes of
# its vectors. That is fast for short rows alone; in longer ones, parameters fill the lanes.
_LONGEST_FROZEN = 8

# Sums may be reordered, or they have no vectors. Never "nnan": NaN would then count as closer.
_FASTMATH = {"reassoc", "contract", "nsz"}
# Signed indices may be negative, and checking that costs two thirds of the speed.
_index = np.uint64


def closer(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k d_k^2`."""
    away = 2 * np.subtract(theta, centers, dtype=float)
    return _closer(_l2, samples, theta, away, np.sqrt(_relative(weight)))


def closer_l1(samples: Array, theta: Array, centers: Floats, weight: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k |d_k|`."""
    away = np.subtract(theta, centers, dtype=float)
    return _closer(_l1, samples, theta, away, _relative(weight))


def closer_periodic(
    samples: Array, theta: Array, centers: Floats, weight: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    turn = np.where(np.isfinite(period), period, 0.0)
    away = np.subtract(theta, centers, dtype=float)
    away -= turn * np.rint(away / period)
    return _closer(_periodic, samples, theta, away, np.sqrt(_relative(weight)), turn)


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below and equal to the truth, parameter by parameter."""
    whole = samples.dtype.kind in "biu" and theta.dtype.kind in "biu"
    dtype = _integer(samples.dtype) if whole else _floating(samples.dtype)
    truth = _exact(theta, dtype)
    counts = np.zeros((2, *theta.shape), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        counts[:, sims] += _smaller(block, truth[sims])
    return counts[0], counts[1]


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN where there is one."""
    whole = samples.dtype.kind in "biu"
    dtype = _integer(samples.dtype) if whole else _floating(samples.dtype)
    lows, highs = zip(*(_extent(block) for _, block in _blocks(samples, dtype)), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return low.astype(samples.dtype), high.astype(samples.dtype)


# Terms. Those of `closer` are compiled without "reassoc", which could undo what they are for.


@register_jitable(fastmath={"contract"})
def _l2(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return |s - r|^2 - |t - r|^2 for the difference `away` = 2 (t - r)."""
    step = draw - truth
    # The square root of the weight on each factor: the weight itself, one over a width
    # squared, may be out of range in single precision, and so may the square of a step.
    return (scale * step) * (scale * (step + away))


@register_jitable(fastmath={"contract"})
def _l1(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return |s - r| - |t - r| for the difference `away` = t - r."""
    step = draw - truth
    right = step + (away - abs(away))
    left = -(step + (away + abs(away)))
    return scale * (right if right > left else left)


@register_jitable(fastmath={"contract"})
def _periodic(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return |s - r|^2 - |t - r|^2 the short way round, for the short way `away` = t - r."""
    step = draw - truth
    step -= turn * np.rint((step + away) * per_turn)
    return (scale * step) * (scale * (step + (away + away)))


@register_jitable
def _order(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return the sign of s - t, which integers could overflow."""
    return -1 if draw < truth else (0 if draw == truth else 1)


# Kernels.


def _compile(function: Callable[..., None]) -> Callable[..., None]:
    options = {"nogil": True, "fastmath": _FASTMATH}
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # Neither the package nor the home folder can be written to.
        compiled = njit(**options)(function)
    return cast(Callable[..., None], compiled)


@cache
def _counter(
    term: Callable[..., Any], n_streams: int, by_sims: bool, frozen: int
) -> Callable[..., None]:
    """Return the kernel for a term and an order of memory.

    The number of draws must be a multiple of `n_streams`. Unless `frozen` is 0, rows must have
    this length and follow one another without a gap.
    """

    def kernel(
        flat: Array,
        steps: tuple[int, int],
        draws: tuple[int, int],
        sims: tuple[int, int],
        truth: Array,
        away: Array,
        table: Array,
        below: Array,
        equal: Array,
    ) -> None:
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
                            scale, turn, per_turn = table[0, k], table[1, k], table[2, k]
                            total += term(
                                flat[at + k], truth[i, k], away[i, k], scale, turn, per_turn
                            )
                        n_below = np.int32(n_below + (total < 0))
                        n_equal = np.int32(n_equal + (total == 0))
                below[i] += n_below
                equal[i] += n_equal

    return _compile(kernel)


@_compile
def _smaller_kernel(
    flat: Array,
    steps: tuple[int, int],
    n_draws: int,
    sims: tuple[int, int],
    truth: Array,
    width: int,
    below: Array,
    equal: Array,
) -> None:
    """Count draws parameter by parameter, `width` rows that lie end to end at a time."""
    n_dims = truth.shape[1]
    tile = np.empty(width * n_dims, truth.dtype)
    n_below = np.empty(tile.size, np.int32)
    n_equal = np.empty(tile.size, np.int32)
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
                below[i, k] += n_below[row + k]
                equal[i, k] += n_equal[row + k]


@_compile
def _extent_kernel(
    flat: Array,
    steps: tuple[int, int],
    outer: tuple[int, int],
    n_inner: int,
    width: int,
    low: Array,
    high: Array,
) -> None:
    """Lower `low` and raise `high`, `width` rows that lie end to end at a time."""
    n_dims = low.size // width
    for i in range(outer[0], outer[1]):
        for j in range(0, n_inner, width):
            at = _index(i * steps[0] + j * steps[1])
            for k in range(_index(min(width, n_inner - j) * n_dims)):
                number = flat[at + k]
                is_nan = number != number
                low[k] = number if (number < low[k]) | is_nan else low[k]
                high[k] = number if (number > high[k]) | is_nan else high[k]


# From arrays to kernels.


def _closer(
    term: Callable[..., Any],
    samples: Array,
    theta: Array,
    away: Floats,
    scale: Floats,
    turn: Floats | float = 0.0,
) -> tuple[Ints, Ints]:
    dtype = _floating(samples.dtype)
    truth = _exact(theta, dtype)
    # Rounded down, so that no truth at the far side is taken the other way round.
    eps = np.finfo(truth.dtype).eps
    per_turn = np.divide(1 - 8 * eps, turn, out=np.zeros(len(scale)), where=np.not_equal(turn, 0))
    table = np.stack(np.broadcast_arrays(_centered(scale, away), turn, per_turn))
    constants = away.astype(truth.dtype), table.astype(truth.dtype)
    counts = np.zeros((2, len(theta)), dtype=np.int64)
    for sims, block in _blocks(samples, dtype):
        counts[:, sims] += _count(term, block, truth[sims], constants[0][sims], constants[1])
    return counts[0], counts[1]


def _count(
    term: Callable[..., Any], samples: Array, truth: Array, away: Array, table: Array
) -> Ints:
    """Count the draws whose terms sum to less than, and to exactly, zero."""
    n_draws, n_sims, n_dims = samples.shape
    steps, n_threads = _steps(samples), _n_threads(samples)
    by_sims = steps[0] <= steps[1]
    frozen = n_dims if min(steps) == n_dims <= _LONGEST_FROZEN else 0
    n_streams = 2 if frozen else 4
    # Simulations side by side in the lanes want their constants side by side too.
    order: Literal["F", "C"] = "F" if frozen else "C"
    constants = np.asarray(truth, order=order), np.asarray(away, order=order), table
    flat = _flat(samples)

    def run(first: int, last: int, below: Array, equal: Array) -> None:
        (start, stop), sims = ((0, n_draws), (first, last)) if by_sims else ((first, last), (0, n_sims))
        rest = stop - (stop - start) % n_streams
        if start < rest:
            kernel = _counter(term, n_streams, by_sims, frozen)
            kernel(flat, steps, (start, rest), sims, *constants, below, equal)
        if rest < stop:
            kernel = _counter(term, 1, True, 0)
            kernel(flat, steps, (rest, stop), sims, *constants, below, equal)

    # Threads that share simulations count apart.
    counts = np.zeros((1 if by_sims else n_threads, 2, n_sims), dtype=np.int32)
    _share(run, n_sims if by_sims else n_draws, n_threads, counts)
    return counts.sum(axis=0, dtype=np.int64)


def _smaller(samples: Array, truth: Array) -> Ints:
    n_draws, n_sims, n_dims = samples.shape
    steps = _steps(samples)
    if steps[1] == n_dims < steps[0]:
        # Every number of such a draw has a truth of its own, as in simulations of one parameter.
        each = as_strided(
            samples,
            (n_draws, n_sims * n_dims, 1),
            (samples.strides[0], samples.itemsize, samples.itemsize),
            writeable=False,
        )
        column = truth.reshape(-1, 1)
        return _count(_order, each, column, column, np.zeros((3, 1))).reshape(2, n_sims, n_dims)
    flat = _flat(samples)
    width = max(1, _TILE // n_dims) if steps[0] == n_dims else 1

    def run(first: int, last: int, below: Array, equal: Array) -> None:
        _smaller_kernel(flat, steps, n_draws, (first, last), truth, width, below, equal)

    counts = np.zeros((1, 2, n_sims, n_dims), dtype=np.int64)
    _share(run, n_sims, _n_threads(samples), counts)
    return counts[0]


def _extent(samples: Array) -> Array:
    """Return the smallest and largest values, of shape `(2, n_dims)`."""
    rows = samples if np.argmax(samples.strides[:2]) == 0 else samples.swapaxes(0, 1)
    n_outer, n_inner, n_dims = rows.shape
    flat, steps = _flat(rows), _steps(rows)
    width = max(1, _TILE // n_dims) if steps[1] == n_dims else 1

    def run(first: int, last: int, low: Array, high: Array) -> None:
        _extent_kernel(flat, steps, (first, last), n_inner, width, low, high)

    n_threads = _n_threads(samples)
    ends = np.tile(samples[0, 0], (n_threads, 2, width))
    _share(run, n_outer, n_threads, ends)
    low, high = ends.swapaxes(0, 1).reshape(2, -1, n_dims)
    return np.stack([low.min(axis=0), high.max(axis=0)])


def _share(run: Callable[..., None], n_items: int, n_threads: int, results: Array) -> None:
    """Hand out ranges of items to threads as they become free.

    Each thread gets one of the `results` to write to, or all get the same if there is but one.
    """
    # A multiple of four: draws are counted in groups.
    step = 4 * -(-n_items // (4 * _CHUNKS_PER_THREAD * n_threads)) if n_threads > 1 else n_items
    ranges: SimpleQueue[int | None] = SimpleQueue()
    for first in [*range(0, n_items, max(step, 1)), *[None] * n_threads]:
        ranges.put(first)

    def work(thread: int) -> None:
        for first in iter(ranges.get, None):
            run(first, min(first + step, n_items), *results[thread % len(results)])

    if n_threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, range(n_threads)))


def _n_threads(samples: Array) -> int:
    """Return how many threads are worth their start, and the counts that each may keep."""
    try:
        n_cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # Only Linux has it.
        n_cpus = os.cpu_count() or 1
    allowed = int(os.environ.get("TARPON_THREADS") or n_cpus)
    return max(1, min(allowed, samples.nbytes // _THREAD_BYTES, len(samples) // 16))


def _blocks(samples: Array, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield all samples if a kernel can walk them; otherwise copies, a few megabytes at a time."""
    if _walkable(samples, dtype):
        yield slice(None), samples
        return
    n_draws, n_sims, n_dims = samples.shape
    n_rows = max(1, _BLOCK_BYTES // (n_dims * dtype.itemsize))
    n_together = max(1, n_rows // n_draws)
    for i in range(0, n_sims, n_together):
        sims = slice(i, i + n_together)
        for j in range(0, n_draws, n_rows):
            yield sims, np.ascontiguousarray(samples[j : j + n_rows, sims], dtype)


def _walkable(samples: Array, dtype: np.dtype[Any]) -> bool:
    return (
        samples.dtype == dtype
        and samples.flags.aligned
        and all(step >= 0 and step % dtype.itemsize == 0 for step in samples.strides)
        and (samples.strides[2] == dtype.itemsize or samples.shape[2] == 1)
    )


def _steps(samples: Array) -> tuple[int, int]:
    """Return how many numbers the next draw, and the next simulation, are away."""
    return samples.strides[0] // samples.itemsize, samples.strides[1] // samples.itemsize


def _flat(samples: Array) -> Array:
    """Return all memory from the first number to the last, whatever lies between."""
    last = sum((n - 1) * step for n, step in zip(samples.shape, samples.strides, strict=True))
    size = last // samples.itemsize + 1
    return as_strided(samples, (max(size, 0),), (samples.itemsize,), writeable=False)


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the precision to calculate in."""
    if dtype == np.float16:
        return np.dtype(np.float32)
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def _integer(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the integers to compare in."""
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def _exact(theta: Array, dtype: np.dtype[Any]) -> Array:
    """Return the truths in the type of the samples if that is exact, else in double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        same = theta.astype(dtype)
    return same if np.array_equal(same, theta, equal_nan=True) else theta.astype(np.float64)


def _relative(weight: Floats) -> Floats:
    # Equal weights become exactly one, so that points of a lattice keep their ties.
    return np.asarray(weight / (np.max(weight, initial=0.0) or 1.0))


def _centered(scale: Floats, away: Floats) -> Floats:
    """Return the scale times the power of two that brings the largest difference near one."""
    largest = np.max(scale * abs(away), initial=0.0, where=np.isfinite(away))
    return np.ldexp(scale, min(-int(np.frexp(largest)[1]), 126))

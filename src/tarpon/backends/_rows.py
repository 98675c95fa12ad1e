r"""The compiled loops of `_kernels`: terms of distances, and the kernels that sum them.

Two kernels serve all terms and both orders of memory: short rows put draws or simulations into
the lanes of vectors, longer rows put parameters there. Both read several streams at once: a few
draws if the simulations of a draw are adjacent, or a few equal parts of the draws if the draws
of a simulation are. A single stream would leave a fifth of the memory bandwidth unused, except
for rows of 8 to 32 numbers, of which the arithmetic takes longer. Half floats are widened in
registers.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numba.extending import register_jitable
from numpy.lib.stride_tricks import as_strided

from .._base.compiling import compiled
from .._base.types import Array
from ._vectors import (
    N_COLUMNS,
    larger,
    load,
    lost,
    number,
    repeat,
    row_signs,
    widens_halves,
    zeros,
)

Pair: TypeAlias = tuple[int, int]
_Streams: TypeAlias = tuple[int, int, int, int, int]
_Constants: TypeAlias = tuple[Array, Array, Array, int]

# Signed indices may count from the end, and checking for that costs two thirds of the speed.
_index = np.uint64


# Terms of numbers or tiles, each as two factors, from the constants of `_terms.prepare`.
# Only products and sums may be rearranged: the factors are exact if a draw equals the truth or
# its mirror image.


@register_jitable(fastmath=False)
def l2(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return the factors of |s - r|^2 - |t - r|^2."""
    # Each factor has the square root of the weight: the weight itself, or the square of a step,
    # may be out of range in single precision.
    step = scale * (draw - truth)
    return step, step + scale * away


@register_jitable(fastmath=False)
def l1(draw: Any, truth: Any, away: Any, scale: Any, *_: Any) -> Any:
    """Return the factors of |s - r| - |t - r|."""
    step = draw - truth
    right = step + (away - abs(away))
    left = -(step + (away + abs(away)))
    return scale, larger(right, left)


@register_jitable(fastmath=False)
def periodic(draw: Any, truth: Any, away: Any, scale: Any, turn: Any, per_turn: Any) -> Any:
    """Return the factors of |s - r|^2 - |t - r|^2, both the short way round; so is `away`."""
    step = draw - truth
    step = scale * (step - turn * np.rint((step + away) * per_turn))
    return step, step + scale * (away + away)


@register_jitable
def order(draw: Any, truth: Any, *_: Any) -> Any:
    """Return the sign of s - t; the difference itself may overflow."""
    return 1, -1 if draw < truth else (0 if draw == truth else 1)


# Kernels. All read `flat`, the memory of the samples, by the steps between draws and between
# simulations.


@cache
def short_rows(
    term: Callable[..., Any], n_dims: int, n_streams: int, by_sims: bool, dense: bool
) -> Callable[..., Any]:
    """Return the kernel for rows of a few numbers, with draws or simulations in the lanes.

    The number of draws must be a multiple of `n_streams`. If `dense`, rows are contiguous: the
    compiler then knows all steps, and loads whole vectors. Kernels return zero unless a number,
    or a sum, is NaN or infinite.
    """
    of_numbers = term is order

    def kernel(
        flat: Array, steps: Pair, draws: Pair, sims: Pair, constants: _Constants, counts: Array
    ) -> Any:
        """Count all streams of some simulations, one number of a row after the other."""
        truth, away, table, _ = constants
        n_lost = np.int32(0)
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
                            draw = number(flat[at + k])
                            a, b = term(draw, truth[i, k], away[i, k], *row)
                            total += a * b
                            if of_numbers:
                                n_lost = np.int32(n_lost | lost(draw))
                        if not of_numbers:
                            n_lost = np.int32(n_lost | lost(total))
                        n_below = np.int32(n_below + (total < 0))
                        n_equal = np.int32(n_equal + (total == 0))
                counts[0, i] += n_below
                counts[1, i] += n_equal
        return n_lost

    return compiled(kernel)


@cache
def long_rows(term: Callable[..., Any], by_sims: bool) -> Callable[..., Any]:
    """Return the kernel for rows that fill a tile, with parameters in the lanes.

    A tile holds a few parameters of `n_rows` draws with step `apart`; the next `n_times - 1`
    tiles hold the same parameters of draws `along` further on. The layout of the constants is
    that of `_kernels._in_tiles`. Kernels return zero unless a sum is NaN or
    infinite.
    """

    def kernel(
        flat: Array,
        steps: Pair,
        draws: _Streams,
        sims: Pair,
        constants: _Constants,
        counts: Array,
    ) -> Any:
        """Count all tiles of some simulations, a few parameters of a tile at a time."""
        truth, away, table, n_dims = constants
        first, n_rows, n_times = _index(draws[0]), _index(draws[1]), _index(draws[2])
        apart, along = _index(draws[3] * steps[0]), _index(draws[4])
        zero, last = truth.dtype.type(0), _index(n_dims - N_COLUMNS)
        n_sims, n_lost = _index(sims[1] - sims[0]), np.int32(0)
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
                n_below, n_equal, others = row_signs(total, n_rows)
                counts[0, i] += n_below
                counts[1, i] += n_equal
                n_lost |= others
        return n_lost

    return compiled(kernel)


@compiled
def smaller_rows(
    flat: Array, steps: Pair, n_draws: int, sims: Pair, truth: Array, width: int, counts: Array
) -> Any:
    """Count draws per parameter, `width` contiguous draws at a time, as `short_rows` does."""
    n_dims = truth.shape[1]
    n_lost = np.int32(0)
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
                draw = number(flat[at + k])
                n_below[k] += draw < tile[k]
                n_equal[k] += draw == tile[k]
                n_lost = np.int32(n_lost | lost(draw))
        for row in range(0, tile.size, n_dims):
            for k in range(n_dims):
                counts[0, i, k] += n_below[row + k]
                counts[1, i, k] += n_equal[row + k]
    return n_lost


@compiled
def extent_rows(
    flat: Array, steps: Pair, outer: Pair, n_inner: int, n_dims: int, ends: Array
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


# Bytes that are copied, and truths that are prepared, at a time.
_BLOCK_BYTES = 4 * 2**20


_BLOCK_TRUTHS = 2**18


def blocks(samples: Array, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield parts of the samples, as views if a kernel can read them in place, else as copies.

    A part is a few simulations, so that neither the copies nor the constants per truth grow with
    the samples.
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


def window(samples: Array) -> tuple[Array, tuple[int, int]]:
    """Return the memory from the first number to the last, and the steps of the first two axes."""
    along = [step // samples.itemsize for step in samples.strides]
    size = 1 + sum((n - 1) * step for n, step in zip(samples.shape, along, strict=True))
    flat = as_strided(samples, (max(size, 0),), (samples.itemsize,), writeable=False)
    # Kernels read half floats as bits.
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat, (along[0], along[1])


def working(dtype: np.dtype[Any], *, whole: bool = False) -> np.dtype[Any]:
    """Return the type in which kernels compute; integers become floats unless `whole`."""
    if whole and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)

"""The expensive part of the swap test on the CPU: scores of pooled ranks, and their sums.

Of a few numbers NumPy computes them, in less time than it takes to load the compiled kernels, or
even to compile them. What rounding may change depends on the size alone, never on what was
called before.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.arrays import host, rounded_like
from .._base.threads import over_ranges
from .._base.types import Array, Ints
from . import _few_swaps

# Numbers that NumPy adds up, or ranks, before loading the kernels would have been quicker.
_FEW_ADDED, _FEW_RANKED = 2**22, 2**22
_ROWS_SHARED = 128
_PLACES = 2**32  # that half a key has room for
_CACHED, _SIMS_CACHED = 2**19, 256  # numbers, and simulations, that a cache holds
_FEW_CACHED = 2**16  # numbers that a cache holds with others made of them


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
    n_sims, n_all, n_dims = points.shape
    if n_sims * n_dims**2 * (n_all + n_dims) < _FEW_ADDED:
        roots = np.linalg.cholesky(correlation(slice(None)))
        points[...] = np.linalg.solve(roots, points.swapaxes(1, 2)).swapaxes(1, 2)
        return points
    from scipy.linalg.blas import strsm  # not needed for a few, and slow to import
    from scipy.linalg.lapack import spotrf  # many times as quick as NumPy for large matrices

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        for z, matrix in zip(points[part], correlation(part), strict=True):
            # Transposed views have the order of Fortran, so nothing is copied.
            root, failed = spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
            if failed:
                raise np.linalg.LinAlgError("correlations must be positive definite.")
            z[...] = strsm(1.0, root, z.T, lower=1, overwrite_b=1).T

    over_ranges(run, len(points), 8 * points.nbytes)
    return points


def pooled_scores(
    scores: Array, n_points: int, played: Array, table: Array
) -> tuple[Array, Array]:
    """Rank all points of every simulation among its first `n_points`.

    Points with equal scores have the number of the middle of their ranks, the mean of two if it
    lies between them. A point after the first `n_points` is ranked in the place of the point in
    `played` that it replaces.

    Arguments:
        scores: Scores of shape `(n_sims, n_all, n_scores)`.
        n_points: Number of pooled points.
        played: Pooled points that the other points replace, `(n_sims, n_all - n_points)`.
        table: The number that stands for each rank, `(n_points,)`, in single precision.

    Returns:
        The numbers that stand for the ranks, of the shape of `scores`; and the number of scores
        in which each point is tied, of shape `(n_sims, n_all)`.
    """
    if not _ranks.are_worth_kernels(scores.size):
        return _rank_few(scores, np.ones((len(scores), n_points)), played, table)
    from . import _swap_kernels

    found, tied = np.empty(scores.shape, np.float32), np.zeros(scores.shape[:2], np.int32)
    played, table = np.ascontiguousarray(played), np.ascontiguousarray(table)
    n_bits = played.shape[1].bit_length()
    short = _comparable(scores.dtype) == np.float32 and n_points << n_bits <= _PLACES

    def run(at: slice) -> None:
        part, more = _columns(scores[at]), (table, found[at], tied[at])
        if short:
            bits, keys = _packed(part, played[at], n_bits)
            keys.sort(axis=2)
            _swap_kernels.rank_packed(bits, keys, played[at], n_bits, *more)
        else:
            order = np.argsort(part[:, :, :n_points], axis=2)
            _swap_kernels.rank_ordered(part, order, played[at], *more)

    _over_sims(run, scores, 16 * scores.nbytes)
    return found, tied


def _rank_few(scores: Array, weights: Array, played: Array, table: Array) -> tuple[Array, Array]:
    """Rank all points by NumPy; the arguments are those of `weighted_scores`."""
    found, tied = np.empty(scores.shape, np.float32), np.empty(scores.shape[:2], np.int32)

    def run(at: slice) -> None:
        some = _columns(scores[at]), weights[at], played[at]
        found[at], tied[at] = _few_swaps.rank(*some, table)

    _over_sims(run, scores, 16 * scores.nbytes)
    return found, tied


def _columns(scores: Array) -> Array:
    """Return scores `(n_sims, n_all, n_scores)` as columns that can be compared."""
    return np.ascontiguousarray(scores.swapaxes(1, 2), dtype=_comparable(scores.dtype))


def _packed(columns: Array, played: Array, n_bits: int) -> tuple[Array, Array]:
    """Return bits that sort as numbers in single precision do, and keys with places.

    The upper half of a key has these bits. The lower half has the place of its point, and then
    so many bits: all ones, or which of the extra points takes the place.

    Arguments:
        columns: Numbers `(n_sims, n_scores, n_all)`.
        played: Points that the last ones replace, `(n_sims, n_extra)`.
        n_bits: The number of bits that hold the number of extra points.
    """
    signed = (columns + np.float32(0)).view(np.int32)  # zeros of both signs are equal
    bits = (signed ^ (signed >> 31 | np.int32(-(2**31)))).view(np.uint32)
    n_sims, n_extra = played.shape
    places = np.arange(columns.shape[2] - n_extra) << n_bits | (1 << n_bits) - 1
    lower = np.tile(places, (n_sims, 1)), played << n_bits | np.arange(n_extra)
    keys = bits.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.concatenate(lower, axis=1).astype(np.uint64)[:, None]
    return bits, keys


class _Ranks:
    """Decides where ranks are computed, which are the same everywhere."""

    def __init__(self) -> None:
        self.n_by_numpy = 0

    def are_worth_kernels(self, n_numbers: int) -> bool:
        """Return whether so many more numbers are worth loading the kernels."""
        if self.n_by_numpy + n_numbers > _FEW_RANKED:
            self.n_by_numpy = _FEW_RANKED  # from now on they are loaded
            return True
        self.n_by_numpy += n_numbers
        return False


_ranks = _Ranks()


def _comparable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that kernels can compare and that keeps distinct numbers distinct."""
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize < 8 else np.float64)
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def weighted_scores(
    scores: Array, weights: Array, played: Array, table: Array
) -> tuple[Array, Array]:
    """Rank all points of every simulation by the weight below them, in levels.

    The weight below a point includes half the weight of all points with the same score, its own
    among them. A point after the first `n_points` is ranked in the place, and with the
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
    if scores.size < _FEW_RANKED:
        return _rank_few(scores, weights, played, table)
    from . import _swap_kernels

    found, tied = np.empty(scores.shape, np.float32), np.zeros(scores.shape[:2], np.int32)
    weights, played = np.ascontiguousarray(weights), np.ascontiguousarray(played)
    table = np.ascontiguousarray(table)

    def run(at: slice) -> None:
        columns = _columns(scores[at])
        order = np.argsort(columns[:, :, : weights.shape[1]], axis=2, kind="stable")
        more = weights[at], played[at], table, found[at], tied[at]
        _swap_kernels.rank_weighted(columns, order, *more)

    _over_sims(run, scores, 16 * scores.nbytes)
    return found, tied


def add_moments(scores: Array, slots: Array, moments: Array, sums: Array) -> None:
    """Add the moments of the normal scores of the points that play the truth, per score.

    Arguments:
        scores: Normal scores of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        moments: The moments as polynomials of the normal score, even or odd, `(4, 5)`.
        sums: Sums of shape `(n_rows, 4, n_scores)`, which are added to.
    """
    if slots.size * scores.shape[2] * len(moments) < _FEW_ADDED:
        _few_swaps.add_moments(scores, slots, moments, sums)
        return
    from . import _swap_kernels

    def run(first: int, last: int) -> None:
        _swap_kernels.add_moments(scores, slots[first:last], moments, sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * scores.shape[2])


def mean_moments(scores: Array, moments: Array) -> Array:
    """Return the moments of normal scores `(n_sims, n_all, n_scores)`, averaged over the last.

    In NumPy at any size: compiling takes longer than it would save.
    """
    share = np.full(scores.shape[2], 1 / scores.shape[2], np.float32)
    means = np.empty((*scores.shape[:2], len(moments)), np.float32)

    def run(some: slice) -> None:
        for m, values in enumerate(_few_swaps.moments_of(scores[some], moments)):
            means[some, :, m] = values @ share

    _over_sims(run, scores, 8 * scores.nbytes)
    return means


def add_along(scores: Array, slots: Array, moments: Array, along: Array, sums: Array) -> None:
    """Add the first two moments of normal scores, each times numbers of its simulation and score.

    Arguments:
        scores: Normal scores of shape `(n_sims, n_all, n_scores)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        moments: The moments as polynomials of the normal score, `(4, 5)`.
        along: The numbers, `(n_sims, n_ways, n_scores)`.
        sums: Sums of shape `(n_rows, 2, n_ways, n_scores)`, which are added to.
    """
    if slots.size * 2 * along[0].size < _FEW_ADDED:
        _few_swaps.add_along(scores, slots, moments, along, sums)
        return
    from . import _swap_kernels

    def run(first: int, last: int) -> None:
        _swap_kernels.add_along(scores, slots[first:last], moments, along, sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * along[0].size)


def add_values(values: Array, slots: Array, sums: Array) -> None:
    """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""
    if slots.size * values.shape[2] < _FEW_ADDED:
        _few_swaps.add_values(values, slots, sums)
        return
    from . import _swap_kernels

    def run(first: int, last: int) -> None:
        _swap_kernels.add_values(values, slots[first:last], sums[first:last])

    _share_rows(run, len(slots), 4 * slots.size * values.shape[2])


def over_rows(
    run: Callable[[slice, slice, Array], None], values: Array, slots: Array, n_numbers: int
) -> None:
    """Call a function on some rows and simulations at a time, so that numbers stay in caches.

    The same ones are together whoever computes them, so that sums do not depend on threads.

    Arguments:
        run: The function of rows, simulations, and the values of the points that play the truth
            in them, `(n_some_rows, n_values, n_some_sims)`.
        values: Values of all points, `(n_sims, n_all, n_values)`.
        slots: Points that play the truth, `(n_rows, n_sims)`.
        n_numbers: The size of the numbers of a row and simulation.
    """
    n_sims, n_all, n_values = values.shape
    flat, begin = values.reshape(-1, n_values), n_all * np.arange(n_sims)
    step = max(1, _CACHED // (min(n_sims, _SIMS_CACHED) * n_numbers))

    def parts(first: int, last: int) -> None:
        for k in range(first, last):
            rows = slice(k * step, min((k + 1) * step, len(slots)))
            for start in range(0, n_sims, _SIMS_CACHED):
                sims = slice(start, min(start + _SIMS_CACHED, n_sims))
                some = flat[slots[rows, sims] + begin[sims]]
                run(rows, sims, np.ascontiguousarray(some.swapaxes(1, 2)))

    n_parts = -(-len(slots) // step)
    over_ranges(parts, n_parts, 16 * n_parts * _CACHED)


def by_simulation(function: Callable[[Array], Array], numbers: Array) -> Array:
    """Return a function of numbers in single precision, of some simulations at a time."""
    found = np.empty(numbers.shape, np.float32)

    def run(some: slice) -> None:
        found[some] = function(numbers[some])

    _over_sims(run, numbers, 4 * numbers.nbytes)
    return found


def inner_products(a: Array, b: Array) -> Array:
    """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
    out = np.empty((len(a), a.shape[1], b.shape[1]), dtype=np.float32)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        np.matmul(a[part], b[part].swapaxes(1, 2), out=out[part])

    over_ranges(run, len(a), a.nbytes * b.shape[1] // 4)
    return out


def _over_sims(run: Callable[[slice], None], numbers: Array, n_bytes: int) -> None:
    """Call a function on a few simulations at a time, whose numbers a cache holds."""
    step = max(1, _FEW_CACHED // max(1, numbers[:1].size))

    def parts(first: int, last: int) -> None:
        for start in range(first, last, step):
            run(slice(start, min(start + step, last)))

    over_ranges(parts, len(numbers), n_bytes)


def _share_rows(run: Callable[[int, int], None], n_rows: int, n_bytes: int) -> None:
    """Share rows between threads, many at a time: each time, all scores are read."""

    def parts(first: int, last: int) -> None:
        run(first * _ROWS_SHARED, min(last * _ROWS_SHARED, n_rows))

    over_ranges(parts, -(-n_rows // _ROWS_SHARED), n_bytes)

"""Counting on a CUDA device: the choice of kernel and of the shape of its tiles."""

from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from ._terms import Constants
from ._triton_kernels import (
    closer_kernel,
    flat_kernel,
    product_kernel,
    short_kernel,
    smaller_kernel,
)

_READ_AT_ONCE = 16  # bytes
_LONG_ROW = 64  # parameters
_LONGEST_ROW = 128  # numbers in a tile; longer rows are read in parts
_LONGEST_UNROLLED = 16  # parameters up to which a lane can hold a whole draw
_LONGEST_ROW_OF_FEW = 8  # up to which that is faster than products
_MOST_CENTRES = 16  # centres that are counted together
# Constants that a lane holds in single precision; `benchmarks/compiled.py` shows that none spill.
_HELD = {"squares": 160, "others": 64}


class Tile(NamedTuple):
    """The part of the samples that a program reads: `n` tiles of this shape in sequence."""

    draws: int
    sims: int
    dims: int
    n: int
    warps: int
    stages: int


def closer(term: str, samples: Tensor, constants: Constants, lost: Tensor) -> Tensor:
    """Count the draws closer than the truth, and as close, `(2, n_sims, n_centres)`.

    Arguments:
        term: Distance: "l2", "l1" or "periodic".
        samples: Samples `(n_draws, n_sims, n_dims)`, contiguous along the last axis.
        constants: Constants of the same simulations, contiguous.
        lost: Number that becomes 1 if any distance is NaN or infinite, `(1,)` in 32 bits.
    """
    n_draws, _, n_dims = samples.shape
    by_sims, itemsize = _by_sims(samples), constants.truth.itemsize
    if constants.n_centres == 1:
        half = samples.itemsize == 2
        tile = single_tile(n_draws, n_dims, by_sims, itemsize, half=half)
        return single(term, samples, constants, tile, lost)
    most = together(term, n_dims, itemsize)
    # Groups of equal size, so that few kernels are compiled.
    size = triton.cdiv(constants.n_centres, triton.cdiv(constants.n_centres, most))
    groups = [constants._replace(away=away) for away in constants.away.split(size, dim=1)]
    if most == 1:
        counts = [closer(term, samples, group, lost) for group in groups]
    elif _by_product(term, n_dims, itemsize):
        tile = product_tile(n_draws, n_dims)
        counts = [product(samples, group, tile, lost) for group in groups]
    else:
        tile = short_tile(n_draws, n_dims, by_sims)
        counts = [short(term, samples, group, tile, lost) for group in groups]
    return torch.cat(counts, dim=2)


def _by_product(term: str, n_dims: int, itemsize: int) -> bool:
    """Return whether tensor cores count for several centres."""
    return term == "l2" and itemsize == 4 and n_dims > _LONGEST_ROW_OF_FEW


def together(term: str, n_dims: int, itemsize: int) -> int:
    """Return how many centres are counted together: as many as a lane has registers for."""
    if _by_product(term, n_dims, itemsize):
        return _MOST_CENTRES
    held = _HELD["squares" if term == "l2" else "others"] // (1 if itemsize == 4 else 4)
    return min(_MOST_CENTRES, max(1, held // n_dims)) if n_dims <= _LONGEST_UNROLLED else 1


# These tiles were the fastest on an H200, to within 3 %, by `benchmarks/gpu.py --tune`.


def single_tile(
    n_draws: int, n_dims: int, by_sims: bool, itemsize: int = 4, *, half: bool = False
) -> Tile:
    """Return the tile for one centre.

    Arguments:
        n_draws: Number of draws.
        n_dims: Number of parameters.
        by_sims: Whether the draws of a simulation are adjacent in memory.
        itemsize: Bytes of a constant.
        half: Whether samples are in half precision.
    """
    dims = triton.next_power_of_2(n_dims)
    if dims > 512:
        # Odd rows are read number by number, and need registers for as many addresses.
        draws, warps, stages = (64, 4, 5) if half else (128 // itemsize, 8, 1)
        tile = Tile(draws, 1, 128 >> (n_dims % 2), 1, warps, stages)
    elif dims > _LONGEST_ROW:
        tile = Tile(64, 1, 64, 1, 4, 3)
    elif by_sims and dims <= 2:
        tile = Tile(256, 8, dims, 4, 4, 3) if half else Tile(1024, 2, dims, 1, 2 * dims, 1)
    elif by_sims and dims <= 32:
        draws = (2048 if dims <= 8 else 4096) // dims
        tile = Tile(draws, 1, dims, 1024 // draws, 4, 3)
    elif by_sims:
        tile = Tile(64, 1, dims, 16, 8, 3 if dims <= 64 else 4)
    elif dims <= 2:
        tile = Tile(16, 256 // dims, dims, 64, 8, 3)
    elif dims == 64:
        tile = Tile(16, 4, dims, 64, 4, 4)
    else:
        tile = Tile(4, 1024 // dims, dims, 64, 4, 3 if half or dims <= 32 else 4)
    return _fitted(tile, n_draws)


def short_tile(n_draws: int, n_dims: int, by_sims: bool) -> Tile:
    """Return the tile for several centres and few parameters."""
    few = n_dims <= 4
    tile = Tile(64, 1, n_dims, 16, 1, 3 if few else 1)
    return _fitted(tile if by_sims else Tile(4, 32, n_dims, 256, 1, 4 if few else 2), n_draws)


def product_tile(n_draws: int, n_dims: int) -> Tile:
    """Return the tile for several centres and many parameters."""
    dims = max(16, triton.next_power_of_2(n_dims))
    if dims > 64:
        tile = Tile(128, 1, 16, 1, 2, 3)
    else:  # odd rows, as above
        draws = 64 if dims == 32 or (dims == 64 and n_dims % 2) else 128
        tile = Tile(draws, 1, dims, 1024 // draws, 4, 1)
    return _fitted(tile, n_draws, fewest=16)


def _fitted(tile: Tile, n_draws: int, fewest: int = 1) -> Tile:
    """Return the tile with no more draws than the samples have."""
    draws = min(tile.draws, max(fewest, triton.next_power_of_2(n_draws)))
    sims = tile.sims * (tile.draws // draws) if fewest == 1 else tile.sims
    return tile._replace(draws=draws, sims=sims, n=min(tile.n, triton.cdiv(n_draws, draws)))


def single(term: str, samples: Tensor, constants: Constants, tile: Tile, lost: Tensor) -> Tensor:
    """Count for one centre, `(2, n_sims, 1)`."""
    n_draws, n_sims, n_dims = samples.shape
    counts = samples.new_zeros((2, n_sims, 1), dtype=torch.int32)
    grid, n_groups, once = _grid(samples, tile)
    by_sims, along_away = _by_sims(samples), constants.away.stride(0)
    tiles = {"DRAWS": tile.draws, "SIMS": tile.sims, "DIMS": tile.dims, "N": tile.n}
    kind = {"TERM": term, "BY_SIMS": by_sims, "ONCE": once}
    kind |= {"FAR": _far(samples, tile), "STAGES": tile.stages}
    compiler = {"num_warps": tile.warps, "enable_fp_fusion": True}
    with _on(samples):
        if _flat(samples, tile):
            sizes, units = _units(n_draws, n_sims, max(samples.stride()[:2]))
            flat_kernel[grid](
                samples, *constants, counts, lost, *sizes, along_away, n_groups,
                UNITS=units, **kind, **tiles, **compiler,
            )  # fmt: skip
        else:
            sizes, units = _units(n_draws, n_dims, *samples.stride()[:2])
            closer_kernel[grid](
                samples, *constants, counts, lost, sizes[0], n_sims, *sizes[1:],
                along_away, n_groups, IN_PARTS=n_dims > tile.dims, UNITS=units,
                # Long rows are read once and would evict the constants from the cache.
                KEEP="evict_first" if n_dims > _LONG_ROW else "", **kind, **tiles, **compiler,
            )  # fmt: skip
    return counts


def _flat(samples: Tensor, tile: Tile) -> bool:
    """Return whether rows without gaps are shorter than what a thread reads at once."""
    n_dims = samples.shape[2]
    whole = n_dims == tile.dims and min(samples.stride()[:2]) == n_dims
    return whole and n_dims * samples.itemsize < _READ_AT_ONCE


def short(term: str, samples: Tensor, constants: Constants, tile: Tile, lost: Tensor) -> Tensor:
    """Count for several centres and few parameters, `(2, n_sims, n_centres)`."""
    n_draws, n_sims, n_dims = samples.shape
    counts = samples.new_zeros((2, n_sims, constants.n_centres), dtype=torch.int32)
    grid, n_groups, once = _grid(samples, tile)
    with _on(samples):
        short_kernel[grid](
            samples, *constants, counts, lost, n_draws, n_sims, *samples.stride()[:2],
            constants.away.stride(0), n_groups,
            TERM=term, BY_SIMS=_by_sims(samples), ONCE=once,
            FAR=_far(samples, tile), N_DIMS=n_dims, N_CENTRES=constants.n_centres,
            DRAWS=tile.draws, SIMS=tile.sims, N=tile.n, STAGES=tile.stages,
            num_warps=tile.warps, enable_fp_fusion=True,
        )  # fmt: skip
    return counts


def product(samples: Tensor, constants: Constants, tile: Tile, lost: Tensor) -> Tensor:
    """Count for several centres and many parameters, `(2, n_sims, n_centres)`."""
    n_draws, n_sims, n_dims = samples.shape
    counts = samples.new_zeros((2, n_sims, constants.n_centres), dtype=torch.int32)
    grid, n_groups, once = _grid(samples, tile)
    sizes, units = _units(n_draws, n_dims, *samples.stride()[:2])
    with _on(samples):
        product_kernel[grid](
            samples, *constants, counts, lost, sizes[0], n_sims, *sizes[1:],
            constants.away.stride(0), constants.n_centres, n_groups,
            BY_SIMS=_by_sims(samples), IN_PARTS=n_dims > tile.dims,
            ONCE=once, FAR=_far(samples, tile), UNITS=units,
            DRAWS=tile.draws, DIMS=tile.dims, CENTRES=_MOST_CENTRES, N=tile.n,
            STAGES=tile.stages, num_warps=tile.warps, enable_fp_fusion=True,
        )  # fmt: skip
    return counts


def smaller(samples: Tensor, truth: Tensor, lost: Tensor) -> Tensor:
    """Count the draws below the truth, and equal to it, per parameter, `(2, …)`.

    `lost` becomes 1 if any draw is NaN or infinite.
    """
    shape = truth.shape
    if samples.stride(1) == samples.shape[2]:
        # The numbers of a draw are contiguous, as in a single simulation with all parameters.
        samples, truth = samples.flatten(1)[:, None], truth.reshape(1, -1)
    n_draws, n_sims, n_dims = samples.shape
    sizes, units = _units(n_dims, *samples.stride()[:2])
    dims = min(triton.next_power_of_2(n_dims), 512)
    draws = min(triton.next_power_of_2(n_draws), 4096 // dims)
    n = max(1, min(16, triton.cdiv(n_draws, draws)))
    n_runs = triton.cdiv(n_draws, draws * n)
    counts = samples.new_zeros((2, n_sims, n_dims), dtype=torch.int32)
    with _on(samples):
        smaller_kernel[(n_runs * n_sims * triton.cdiv(n_dims, dims),)](
            samples, truth, counts, lost, n_draws, n_sims, *sizes, n_runs,
            UNITS=units, DRAWS=draws, DIMS=dims, N=n, num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return counts.reshape(2, *shape)


def _by_sims(samples: Tensor) -> bool:
    """Return whether the draws of a simulation are adjacent in memory."""
    return samples.stride(0) <= samples.stride(1)


def _grid(samples: Tensor, tile: Tile) -> tuple[tuple[int], int, bool]:
    """Return how many programs there are, how many of them are adjacent in memory, and whether
    each counts all draws of its simulations.
    """
    n_runs = triton.cdiv(samples.shape[0], tile.draws * tile.n)
    n_groups = triton.cdiv(samples.shape[1], tile.sims)
    return (n_runs * n_groups,), n_runs if _by_sims(samples) else n_groups, n_runs == 1


def _far(samples: Tensor, tile: Tile) -> bool:
    """Return whether the draws of a tile are farther apart than 32 bits can say."""
    return tile.draws * samples.stride(0) + tile.sims * samples.stride(1) >= 2**31


def _units(*sizes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes as products of a number and a power of two, at most 16."""
    units = tuple(min(size & -size, 16) or 1 for size in sizes)
    return tuple(size // unit for size, unit in zip(sizes, units, strict=True)), units


def _on(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch on the device of the tensor, which need not be the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else torch.no_grad()

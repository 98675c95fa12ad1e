r"""Counting on a CUDA device: fused kernels that read the samples once.

The terms are those of `_kernels`: each is the part of one parameter in
:math:`d(s, r) - d(t, r)`, made of differences of points, so that a draw that equals the truth
bit for bit sums to zero.

All kernels take either order of memory. Steps from a draw to the next, and from a simulation to
the next, are given in units of as many numbers as divide both and the length of a row: that is
what lets the compiler load several numbers at once.
"""

from contextlib import AbstractContextManager

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._terms import Constants

_LONGEST_ROW = 128  # numbers that are held at once; of longer rows, a part at a time
_PART = 64
_LONGEST_UNROLLED = 16  # parameters for which a lane takes a whole draw
_MOST_CENTERS = 16  # of the centers that are counted together


@triton.jit
def _term(draw, truth, away, scale, turn, per_turn, TERM: tl.constexpr):
    """Return the part of one parameter in d(s, r) - d(t, r)."""
    step = draw - truth
    if TERM == "l1":
        right = step + (away - tl.abs(away))
        left = -(step + (away + tl.abs(away)))
        part = scale * tl.where(right > left, right, left)
    elif TERM == "periodic":
        step -= turn * tl.floor((step + away) * per_turn + 0.5)
        part = (scale * step) * (scale * (step + (away + away)))
    else:
        part = (scale * step) * (scale * (step + away))
    return part


@triton.jit
def _closer_kernel(
    samples, truth, away, table, counts,
    n_draws, n_sims, n_units, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, UNIT: tl.constexpr, IN_PARTS: tl.constexpr,
    KEEP: tl.constexpr, DRAWS: tl.constexpr, SIMS: tl.constexpr, DIMS: tl.constexpr,
    TILES: tl.constexpr,
):  # fmt: skip
    """Count for a few simulations and a run of draws, in tiles of (DRAWS, SIMS, DIMS)."""
    program = tl.program_id(0).to(tl.int64)
    if BY_SIMS:
        group, run = program // n_groups, program % n_groups
    else:
        run, group = program // n_groups, program % n_groups
    n_dims = n_units * UNIT
    i = group * SIMS + tl.arange(0, SIMS)
    of_sim = i[None, :, None]
    in_sims = of_sim < n_sims
    k = tl.arange(0, DIMS)[None, None, :]
    inside = in_sims & (k < n_dims)
    t = tl.load(truth + of_sim * n_dims + k, mask=inside, other=0.0)
    a = tl.load(away + of_sim * along_away + k, mask=inside, other=0.0)
    scale = tl.load(table + k, mask=k < n_dims, other=0.0)
    turn = tl.load(table + n_dims + k, mask=k < n_dims, other=0.0)
    per_turn = tl.load(table + 2 * n_dims + k, mask=k < n_dims, other=0.0)
    n_below = tl.zeros([SIMS], tl.int32)
    n_equal = tl.zeros([SIMS], tl.int32)
    for tile in range(TILES):
        j = (run * TILES + tile) * DRAWS + tl.arange(0, DRAWS)
        of_draw = j[:, None, None]
        in_draws = of_draw < n_draws
        rows = samples + (of_draw * along_draws + of_sim * along_sims) * UNIT
        s = tl.load(rows + k, mask=in_draws & inside, other=0.0, eviction_policy=KEEP).to(t.dtype)
        total = _term(s, t, a, scale, turn, per_turn, TERM)
        if IN_PARTS:
            for first in range(DIMS, n_dims, DIMS):
                m = first + k
                here = in_sims & (m < n_dims)
                s = tl.load(rows + m, mask=in_draws & here, other=0.0, eviction_policy=KEEP)
                total += _term(
                    s.to(t.dtype),
                    tl.load(truth + of_sim * n_dims + m, mask=here, other=0.0),
                    tl.load(away + of_sim * along_away + m, mask=here, other=0.0),
                    tl.load(table + m, mask=m < n_dims, other=0.0),
                    tl.load(table + n_dims + m, mask=m < n_dims, other=0.0),
                    tl.load(table + 2 * n_dims + m, mask=m < n_dims, other=0.0),
                    TERM,
                )
        gap = tl.sum(total, axis=2)
        real = j[:, None] < n_draws
        n_below += tl.sum((real & (gap < 0)).to(tl.int32), axis=0)
        n_equal += tl.sum((real & (gap == 0)).to(tl.int32), axis=0)
    tl.atomic_add(counts + i, n_below, mask=i < n_sims)
    tl.atomic_add(counts + n_sims + i, n_equal, mask=i < n_sims)


@triton.jit
def _short_kernel(
    samples, truth, away, table, counts,
    n_draws, n_sims, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, N_DIMS: tl.constexpr, N_CENTERS: tl.constexpr,
    CENTERS: tl.constexpr, DRAWS: tl.constexpr, SIMS: tl.constexpr,
):  # fmt: skip
    r"""Count for several centers at once, whole draws in each lane: short rows need no sums.

    Of :math:`|\delta|^2 + \delta \cdot 2 (t - r)`, the first part is the same for all centers.
    """
    program = tl.program_id(0).to(tl.int64)
    if BY_SIMS:
        group, run = program // n_groups, program % n_groups
    else:
        run, group = program // n_groups, program % n_groups
    j = run * DRAWS + tl.arange(0, DRAWS)
    c = tl.arange(0, CENTERS)
    real = j < n_draws
    for i in range(group * SIMS, tl.minimum((group + 1) * SIMS, n_sims)):
        row = samples + j * along_draws + i * along_sims
        square = tl.zeros([DRAWS], truth.dtype.element_ty)
        draws = ()
        for k in tl.static_range(N_DIMS):
            s = tl.load(row + k, mask=real, other=0.0).to(truth.dtype.element_ty)
            if TERM == "l2":
                s = tl.load(table + k) * (s - tl.load(truth + i * N_DIMS + k))
                square += s * s
            draws = draws + (s,)  # noqa: RUF005
        found = tl.zeros([CENTERS], tl.int32)
        for center in tl.static_range(N_CENTERS):
            gap = square
            for k in tl.static_range(N_DIMS):
                a = tl.load(away + i * along_away + center * N_DIMS + k)
                if TERM == "l2":
                    gap += draws[k] * (tl.load(table + k) * a)
                else:
                    gap += _term(
                        draws[k],
                        tl.load(truth + i * N_DIMS + k),
                        a,
                        tl.load(table + k),
                        tl.load(table + N_DIMS + k),
                        tl.load(table + 2 * N_DIMS + k),
                        TERM,
                    )
            # Both counts in one number, which halves the sums over lanes.
            both = tl.where(gap < 0, 1, tl.where(gap == 0, 65536, 0))
            both = tl.sum(tl.where(real, both, 0), axis=0)
            found = tl.where(c == center, both, found)
        at = counts + i * N_CENTERS + c
        tl.atomic_add(at, found & 65535, mask=c < N_CENTERS)
        tl.atomic_add(at + n_sims * N_CENTERS, found >> 16, mask=c < N_CENTERS)


@triton.jit
def _product_kernel(
    samples, truth, away, table, counts,
    n_draws, n_sims, n_units, along_draws, along_sims, along_away, n_centers, n_groups,
    BY_SIMS: tl.constexpr, UNIT: tl.constexpr,
    DRAWS: tl.constexpr, DIMS: tl.constexpr, CENTERS: tl.constexpr,
):  # fmt: skip
    r"""Count for several centers at once by :math:`|\delta|^2 + \delta \cdot 2 (t - r)`."""
    program = tl.program_id(0).to(tl.int64)
    if BY_SIMS:
        i, run = program // n_groups, program % n_groups
    else:
        run, i = program // n_groups, program % n_groups
    n_dims = n_units * UNIT
    j = run * DRAWS + tl.arange(0, DRAWS)
    c = tl.arange(0, CENTERS)
    row = samples + (j[:, None] * along_draws + i * along_sims) * UNIT
    square = tl.zeros([DRAWS, DIMS], tl.float32)
    product = tl.zeros([DRAWS, CENTERS], tl.float32)
    for first in range(0, n_dims, DIMS):
        k = first + tl.arange(0, DIMS)
        inside = (j[:, None] < n_draws) & (k[None, :] < n_dims)
        s = tl.load(row + k[None, :], mask=inside, other=0.0).to(tl.float32)
        t = tl.load(truth + i * n_dims + k, mask=k < n_dims, other=0.0)
        scale = tl.load(table + k, mask=k < n_dims, other=0.0)
        # Beyond the last draw the step would be minus the truth, and finite; it is not counted.
        step = scale[None, :] * (s - t[None, :])
        a = tl.load(
            away + i * along_away + c[None, :] * n_dims + k[:, None],
            mask=(c[None, :] < n_centers) & (k[:, None] < n_dims),
            other=0.0,
        )
        square += step * step
        product += tl.dot(step, scale[:, None] * a, input_precision="tf32x3")
    gap = product + tl.sum(square, axis=1)[:, None]
    real = j[:, None] < n_draws
    at = counts + i * n_centers + c
    below = tl.sum((real & (gap < 0)).to(tl.int32), axis=0)
    equal = tl.sum((real & (gap == 0)).to(tl.int32), axis=0)
    tl.atomic_add(at, below, mask=c < n_centers)
    tl.atomic_add(at + n_sims * n_centers, equal, mask=c < n_centers)


@triton.jit
def _smaller_kernel(
    samples, truth, counts,
    n_draws, n_sims, n_units, along_draws, along_sims, n_runs,
    UNIT: tl.constexpr, DRAWS: tl.constexpr, DIMS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Count parameter by parameter, for one simulation, some parameters and a run of draws."""
    program = tl.program_id(0).to(tl.int64)
    n_dims = n_units * UNIT
    n_parts = tl.cdiv(n_dims, DIMS)
    part, rest = program % n_parts, program // n_parts
    run, i = rest % n_runs, rest // n_runs
    k = part * DIMS + tl.arange(0, DIMS)
    t = tl.load(truth + i * n_dims + k, mask=k < n_dims, other=0)
    n_below = tl.zeros([DRAWS, DIMS], tl.int32)
    n_equal = tl.zeros([DRAWS, DIMS], tl.int32)
    for tile in range(TILES):
        j = (run * TILES + tile) * DRAWS + tl.arange(0, DRAWS)
        at = (j[:, None] * along_draws + i * along_sims) * UNIT + k[None, :]
        inside = (j[:, None] < n_draws) & (k[None, :] < n_dims)
        s = tl.load(samples + at, mask=inside, other=float("nan")).to(t.dtype)
        n_below += (s < t[None, :]).to(tl.int32)
        n_equal += (s == t[None, :]).to(tl.int32)
    at = counts + i * n_dims + k
    tl.atomic_add(at, tl.sum(n_below, axis=0), mask=k < n_dims)
    tl.atomic_add(at + n_sims * n_dims, tl.sum(n_equal, axis=0), mask=k < n_dims)


# From tensors to kernels.


def closer(term: str, samples: Tensor, constants: Constants) -> Tensor:
    """Count the draws closer than the truth, and as close, `(2, n_sims, n_centers)`.

    Arguments:
        term: Which distance: "l2", "l1" or "periodic".
        samples: Of shape `(n_draws, n_sims, n_dims)`, the last axis without gaps.
        constants: Of the same simulations, the tables without gaps.
    """
    n_dims, n_centers = samples.shape[2], constants.away.shape[1]
    groups = constants.away.split(_MOST_CENTERS, dim=1)
    if n_centers > 1 and n_dims <= _LONGEST_UNROLLED:
        counts = [_short(term, samples, constants._replace(away=group)) for group in groups]
    elif n_centers > 1 and term == "l2" and constants.truth.dtype == torch.float32:
        counts = [_product(samples, constants._replace(away=group)) for group in groups]
    else:
        each = constants.away.unbind(dim=1)
        counts = [_single(term, samples, constants._replace(away=away)) for away in each]
    return torch.cat(counts, dim=2)


def _single(term: str, samples: Tensor, constants: Constants) -> Tensor:
    n_draws, n_sims, n_dims = samples.shape
    by_sims, unit, steps = _walk(samples)
    shape, tiles, n_warps = _tile(n_draws, n_dims, by_sims)
    counts = samples.new_zeros((2, n_sims, 1), dtype=torch.int32)
    n_runs = triton.cdiv(n_draws, shape[0] * tiles)
    n_groups = triton.cdiv(n_sims, shape[1])
    with _on(samples):
        _closer_kernel[(n_runs * n_groups,)](
            samples, *constants, counts,
            n_draws, n_sims, n_dims // unit, *steps, constants.away.stride(0),
            n_runs if by_sims else n_groups,
            TERM=term, BY_SIMS=by_sims, UNIT=unit, IN_PARTS=n_dims > shape[2],
            # Long rows are read once and would push constants out of the cache.
            KEEP="evict_first" if n_dims > 64 else "",
            DRAWS=shape[0], SIMS=shape[1], DIMS=shape[2], TILES=tiles,
            num_warps=n_warps, enable_fp_fusion=True,
        )  # fmt: skip
    return counts


def _short(term: str, samples: Tensor, constants: Constants) -> Tensor:
    n_draws, n_sims, n_dims = samples.shape
    n_centers = constants.away.shape[1]
    by_sims, _, _ = _walk(samples)
    # One warp, whose sums need no barrier, with as many draws as its registers hold.
    draws = min(max(128, 2048 // triton.next_power_of_2(n_dims)), 1024)
    draws = min(draws, max(32, triton.next_power_of_2(n_draws)))
    # Where simulations lie between draws, a few of them share each line of cache.
    sims = 1 if by_sims else max(2, triton.next_power_of_2(64 // n_dims))
    counts = samples.new_zeros((2, n_sims, n_centers), dtype=torch.int32)
    n_runs, n_groups = triton.cdiv(n_draws, draws), triton.cdiv(n_sims, sims)
    with _on(samples):
        _short_kernel[(n_runs * n_groups,)](
            samples, *constants, counts,
            n_draws, n_sims, samples.stride(0), samples.stride(1), constants.away.stride(0),
            n_runs if by_sims else n_groups,
            TERM=term, BY_SIMS=by_sims, N_DIMS=n_dims, N_CENTERS=n_centers,
            CENTERS=triton.next_power_of_2(n_centers), DRAWS=draws, SIMS=sims,
            num_warps=1, enable_fp_fusion=True,
        )  # fmt: skip
    return counts


def _product(samples: Tensor, constants: Constants) -> Tensor:
    n_draws, n_sims, n_dims = samples.shape
    n_centers = constants.away.shape[1]
    by_sims, unit, steps = _walk(samples)
    draws = min(128, max(16, triton.next_power_of_2(n_draws)))
    counts = samples.new_zeros((2, n_sims, n_centers), dtype=torch.int32)
    n_runs = triton.cdiv(n_draws, draws)
    with _on(samples):
        _product_kernel[(n_runs * n_sims,)](
            samples, *constants, counts,
            n_draws, n_sims, n_dims // unit, *steps, constants.away.stride(0),
            n_centers, n_runs if by_sims else n_sims,
            BY_SIMS=by_sims, UNIT=unit, DRAWS=draws, DIMS=32, CENTERS=16,
            num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return counts


def smaller(samples: Tensor, truth: Tensor) -> Tensor:
    """Count the draws below and equal to the truth, parameter by parameter, `(2, …)`."""
    shape = truth.shape
    if samples.stride(1) == samples.shape[2]:
        # The numbers of a draw lie together: as if there were one simulation of them all.
        samples, truth = samples.flatten(1)[:, None], truth.reshape(1, -1)
    n_draws, n_sims, n_dims = samples.shape
    _, unit, steps = _walk(samples)
    dims = min(triton.next_power_of_2(n_dims), 512)
    draws = min(triton.next_power_of_2(n_draws), 4096 // dims)
    tiles = max(1, min(16, triton.cdiv(n_draws, draws)))
    n_runs = triton.cdiv(n_draws, draws * tiles)
    counts = samples.new_zeros((2, n_sims, n_dims), dtype=torch.int32)
    with _on(samples):
        _smaller_kernel[(n_runs * n_sims * triton.cdiv(n_dims, dims),)](
            samples, truth, counts, n_draws, n_sims, n_dims // unit, *steps, n_runs,
            UNIT=unit, DRAWS=draws, DIMS=dims, TILES=tiles,
            num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return counts.reshape(2, *shape)


def _walk(samples: Tensor) -> tuple[bool, int, tuple[int, int]]:
    """Return whether draws lie together, the unit of steps, and the steps in that unit."""
    steps = samples.stride(0), samples.stride(1)
    unit = 1
    while unit < 16 and not any(n % (2 * unit) for n in (*steps, samples.shape[2])):
        unit *= 2
    return steps[0] <= steps[1], unit, (steps[0] // unit, steps[1] // unit)


def _tile(n_draws: int, n_dims: int, by_sims: bool) -> tuple[tuple[int, int, int], int, int]:
    """Return the shape of a tile, how many of them a program takes, and its warps."""
    dims = triton.next_power_of_2(n_dims) if n_dims <= _LONGEST_ROW else _PART
    size = 4096 if dims in (32, 64) else 1024 if dims == 16 else 2048
    together = size // dims
    most_draws = triton.next_power_of_2(n_draws)
    draws = min(together if by_sims else max(4, together // 64), most_draws, together)
    tiles = 16 if n_dims <= 16 or not by_sims else 1
    tiles = max(1, min(tiles, triton.cdiv(n_draws, draws)))
    n_warps = 2 if dims == 16 else 8 if n_dims > 512 else 4
    return (draws, together // draws, dims), tiles, n_warps


def _on(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch on the device of the tensor, which need not be the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else torch.no_grad()

r"""The Triton kernels, each of which reads the samples once.

The terms are those of `_kernels`: each is the part of one parameter in
:math:`d(s, r) - d(t, r)`, computed from differences of points, so that the sum is zero for a
draw that equals the truth bit for bit.

All kernels accept both orders of memory. Sizes and steps are given as a number times their
largest power of two, which is compiled in: the compiler loads four numbers at once if it knows
that steps are multiples of four.

Distances that are NaN or infinite set `lost`, so that nothing need be read twice to find draws
that are invalid.
"""

import triton
import triton.language as tl


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
def _finite(numbers):
    """Return which numbers are neither NaN nor infinite."""
    return tl.abs(numbers) < float("inf")


@triton.jit
def _place(n_groups, BY_SIMS: tl.constexpr):
    """Return the simulations and draws of a program, adjacent for neighbouring programs."""
    program = tl.program_id(0).to(tl.int64)
    first, second = program // n_groups, program % n_groups
    if BY_SIMS:
        group, run = first, second
    else:
        run, group = first, second
    return group, run


@triton.jit
def closer_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, n_dims, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, IN_PARTS: tl.constexpr, KEEP: tl.constexpr,
    UNITS: tl.constexpr,
    DRAWS: tl.constexpr, SIMS: tl.constexpr, DIMS: tl.constexpr, N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Count for a few simulations and a run of draws, in tiles of (DRAWS, SIMS, DIMS)."""
    group, run = _place(n_groups, BY_SIMS)
    n_draws, n_dims = n_draws * UNITS[0], n_dims * UNITS[1]
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
    for tile in tl.range(N, num_stages=STAGES):
        j = (run * N + tile) * DRAWS + tl.arange(0, DRAWS)
        of_draw = j[:, None, None]
        in_draws = of_draw < n_draws
        rows = samples + of_draw * along_draws * UNITS[2] + of_sim * along_sims * UNITS[3]
        s = tl.load(rows + k, mask=in_draws & inside, other=0.0, eviction_policy=KEEP)
        total = _term(s.to(t.dtype), t, a, scale, turn, per_turn, TERM)
        if IN_PARTS:
            for first in tl.range(DIMS, n_dims, DIMS, num_stages=STAGES):
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
        # Ties, and what is lost in the upper half of the same number.
        both = tl.where(gap == 0, 1, tl.where(_finite(gap), 0, 65536))
        n_equal += tl.sum(tl.where(real, both, 0), axis=0)
    tl.atomic_add(counts + i, n_below, mask=i < n_sims)
    tl.atomic_add(counts + n_sims + i, n_equal & 65535, mask=i < n_sims)
    tl.store(lost + 0 * i, 1, mask=(i < n_sims) & (n_equal > 65535))


@triton.jit
def short_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, N_DIMS: tl.constexpr, N_CENTRES: tl.constexpr,
    DRAWS: tl.constexpr, SIMS: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    r"""Count for several centres at once, whole draws in each lane: short rows need no sums.

    Of :math:`|\delta|^2 + \delta \cdot 2 (t - r)`, the first part is the same for all centres.
    """
    group, run = _place(n_groups, BY_SIMS)
    i = group * SIMS + tl.arange(0, SIMS)[None, :]
    in_sims = i < n_sims
    truths, aways, counted = (), (), ()
    any_lost = tl.zeros([DRAWS, SIMS], tl.int32)
    for k in tl.static_range(N_DIMS):
        truths = truths + (tl.load(truth + i * N_DIMS + k, mask=in_sims, other=0.0),)  # noqa: RUF005
    for centre in tl.static_range(N_CENTRES):
        counted = counted + (tl.zeros([DRAWS, SIMS], tl.int32),)  # noqa: RUF005
        for k in tl.static_range(N_DIMS):
            at = away + i * along_away + centre * N_DIMS + k
            a = tl.load(at, mask=in_sims, other=0.0)
            aways = aways + (tl.load(table + k) * a if TERM == "l2" else a,)  # noqa: RUF005
    for tile in tl.range(N, num_stages=STAGES):
        j = (run * N + tile) * DRAWS + tl.arange(0, DRAWS)[:, None]
        real = (j < n_draws) & in_sims
        row = samples + j * along_draws + i * along_sims
        square = tl.zeros([DRAWS, SIMS], truth.dtype.element_ty)
        draws = ()
        for k in tl.static_range(N_DIMS):
            s = tl.load(row + k, mask=real, other=0.0).to(truth.dtype.element_ty)
            if TERM == "l2":
                s = tl.load(table + k) * (s - truths[k])
                square += s * s
            draws = draws + (s,)  # noqa: RUF005
        added = ()
        for centre in tl.static_range(N_CENTRES):
            gap = square
            for k in tl.static_range(N_DIMS):
                a = aways[centre * N_DIMS + k]
                if TERM == "l2":
                    gap += draws[k] * a
                else:
                    gap += _term(
                        draws[k], truths[k], a,
                        tl.load(table + k), tl.load(table + N_DIMS + k),
                        tl.load(table + 2 * N_DIMS + k), TERM,
                    )  # fmt: skip
            if centre == 0:  # others are lost with it
                any_lost |= tl.where(real & ~_finite(gap), 1, 0)
            # Both counts in one number, which halves the sums over lanes.
            both = tl.where(gap < 0, 1, tl.where(gap == 0, 65536, 0))
            added = added + (counted[centre] + tl.where(real, both, 0),)  # noqa: RUF005
        counted = added
    for centre in tl.static_range(N_CENTRES):
        both = tl.sum(counted[centre], axis=0)[None, :]
        at = counts + i * N_CENTRES + centre
        tl.atomic_add(at, both & 65535, mask=in_sims)
        tl.atomic_add(at + n_sims * N_CENTRES, both >> 16, mask=in_sims)
    tl.store(lost + 0 * i, 1, mask=in_sims & (tl.max(any_lost, axis=0)[None, :] > 0))


@triton.jit
def product_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, n_dims, along_draws, along_sims, along_away, n_centres, n_groups,
    BY_SIMS: tl.constexpr, IN_PARTS: tl.constexpr, UNITS: tl.constexpr,
    DRAWS: tl.constexpr, DIMS: tl.constexpr, CENTRES: tl.constexpr, N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    r"""Count for several centres at once by :math:`|\delta|^2 + \delta \cdot 2 (t - r)`."""
    i, run = _place(n_groups, BY_SIMS)
    n_draws, n_dims = n_draws * UNITS[0], n_dims * UNITS[1]
    c = tl.arange(0, CENTRES)
    k = tl.arange(0, DIMS)
    n_below = tl.zeros([CENTRES], tl.int32)
    n_equal = tl.zeros([CENTRES], tl.int32)
    aways = away + i * along_away + c[None, :] * n_dims
    t = tl.load(truth + i * n_dims + k, mask=k < n_dims, other=0.0)
    scale = tl.load(table + k, mask=k < n_dims, other=0.0)
    wanted = (c[None, :] < n_centres) & (k[:, None] < n_dims)
    a = scale[:, None] * tl.load(aways + k[:, None], mask=wanted, other=0.0)
    for tile in tl.range(N, num_stages=STAGES):
        j = (run * N + tile) * DRAWS + tl.arange(0, DRAWS)
        # After the last draw the step is finite, minus the truth, and not counted.
        real = j[:, None] < n_draws
        row = samples + j[:, None] * along_draws * UNITS[2] + i * along_sims * UNITS[3]
        s = tl.load(row + k[None, :], mask=real & (k[None, :] < n_dims), other=0.0)
        step = scale[None, :] * (s.to(tl.float32) - t[None, :])
        square = step * step
        product = tl.dot(step, a, input_precision="tf32x3")
        if IN_PARTS:
            for first in tl.range(DIMS, n_dims, DIMS, num_stages=STAGES):
                m = first + k
                s = tl.load(row + m[None, :], mask=real & (m[None, :] < n_dims), other=0.0)
                u = tl.load(truth + i * n_dims + m, mask=m < n_dims, other=0.0)
                unit = tl.load(table + m, mask=m < n_dims, other=0.0)
                here = (c[None, :] < n_centres) & (m[:, None] < n_dims)
                b = unit[:, None] * tl.load(aways + m[:, None], mask=here, other=0.0)
                step = unit[None, :] * (s.to(tl.float32) - u[None, :])
                square += step * step
                product += tl.dot(step, b, input_precision="tf32x3")
        gap = product + tl.sum(square, axis=1)[:, None]
        n_below += tl.sum((real & (gap < 0)).to(tl.int32), axis=0)
        both = tl.where(gap == 0, 1, tl.where(_finite(gap), 0, 65536))
        n_equal += tl.sum(tl.where(real, both, 0), axis=0)
    at = counts + i * n_centres + c
    tl.atomic_add(at, n_below, mask=c < n_centres)
    tl.atomic_add(at + n_sims * n_centres, n_equal & 65535, mask=c < n_centres)
    tl.store(lost + 0 * c, 1, mask=n_equal > 65535)


@triton.jit
def smaller_kernel(
    samples, truth, counts, lost,
    n_draws, n_sims, n_dims, along_draws, along_sims, n_runs,
    UNITS: tl.constexpr, DRAWS: tl.constexpr, DIMS: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Count per parameter, for one simulation, some parameters and a run of draws."""
    program = tl.program_id(0).to(tl.int64)
    n_dims = n_dims * UNITS[0]
    n_parts = tl.cdiv(n_dims, DIMS)
    part, rest = program % n_parts, program // n_parts
    run, i = rest % n_runs, rest // n_runs
    k = part * DIMS + tl.arange(0, DIMS)
    t = tl.load(truth + i * n_dims + k, mask=k < n_dims, other=0)
    n_below = tl.zeros([DRAWS, DIMS], tl.int32)
    n_equal = tl.zeros([DRAWS, DIMS], tl.int32)
    for tile in range(N):
        j = (run * N + tile) * DRAWS + tl.arange(0, DRAWS)
        row = j[:, None] * along_draws * UNITS[1] + i * along_sims * UNITS[2]
        inside = (j[:, None] < n_draws) & (k[None, :] < n_dims)
        s = tl.load(samples + row + k[None, :], mask=inside, other=float("nan")).to(t.dtype)
        n_below += (s < t[None, :]).to(tl.int32)
        n_equal += tl.where(s == t[None, :], 1, tl.where(inside & ~_finite(s), 65536, 0))
    at = counts + i * n_dims + k
    tl.atomic_add(at, tl.sum(n_below, axis=0), mask=k < n_dims)
    tl.atomic_add(at + n_sims * n_dims, tl.sum(n_equal & 65535, axis=0), mask=k < n_dims)
    tl.store(lost + 0 * k, 1, mask=(k < n_dims) & (tl.max(n_equal, axis=0) > 65535))

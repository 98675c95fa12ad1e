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
def _scaled(away, scale, TERM: tl.constexpr):
    """Return differences of truths and centres as `_term` needs them."""
    if TERM == "l2":
        away *= scale
    return away


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
        step *= scale
        part = step * (step + away)
    return part


@triton.jit
def _negative(gap):
    """Return 1 for what is below zero, else 0.

    The sign is a bit, which takes fewer instructions to add than a comparison. Adding zero gives
    zeros the positive sign.
    """
    if gap.dtype == tl.float64:
        negative = (gap + 0.0).to(tl.uint64, bitcast=True) >> 63
    else:
        negative = (gap + 0.0).to(tl.uint32, bitcast=True) >> 31
    return negative.to(tl.int32)


@triton.jit
def _zero(gap):
    """Return 65536 for zeros, else 0: so that two counts share a number."""
    return tl.where(gap == 0, 65536, 0)


@triton.jit
def _add(counts, number, mask, ONCE: tl.constexpr):
    """Add counts to those of other programs, if there are any."""
    if ONCE:
        tl.store(counts, number, mask=mask)
    else:
        tl.atomic_add(counts, number, mask=mask)


@triton.jit
def _finite(numbers):
    """Return which numbers are neither NaN nor infinite."""
    return tl.abs(numbers) < float("inf")


@triton.jit
def _place(n_groups, BY_SIMS: tl.constexpr):
    """Return the simulations and draws of a program, adjacent for neighbouring programs."""
    program = tl.program_id(0)
    first, second = program // n_groups, program % n_groups
    if BY_SIMS:
        group, run = first, second
    else:
        run, group = first, second
    return group, run


@triton.jit
def _steps(place, step, FAR: tl.constexpr):
    """Return places in memory that are a step apart; if FAR, 32 bits do not hold them."""
    if FAR:
        place = place.to(tl.int64)
    return place * step


@triton.jit
def flat_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, along, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, ONCE: tl.constexpr,
    FAR: tl.constexpr, UNITS: tl.constexpr,
    DRAWS: tl.constexpr, SIMS: tl.constexpr, DIMS: tl.constexpr, N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Count as `closer_kernel` does, where neighbouring rows are so short that threads read
    several of them at once: rows of a power of two, without gaps between them.
    """
    group, run = _place(n_groups, BY_SIMS)
    n_draws, n_sims, along = n_draws * UNITS[0], n_sims * UNITS[1], along * UNITS[2]
    first_sim = (group * SIMS).to(tl.int64)
    place = tl.arange(0, SIMS)
    real_sim = place < n_sims - group * SIMS
    INNER: tl.constexpr = DRAWS if BY_SIMS else SIMS
    OUTER: tl.constexpr = SIMS if BY_SIMS else DRAWS
    number = tl.arange(0, INNER * DIMS)[None, :]
    k = tl.arange(0, DIMS)[None, None, :]
    sim = place[:, None, None] if BY_SIMS else place[None, :, None]
    inside = sim < n_sims - group * SIMS
    t = tl.load(truth + first_sim * DIMS + sim * DIMS + k, mask=inside, other=0.0)
    a = tl.load(away + first_sim * along_away + sim * along_away + k, mask=inside, other=0.0)
    each = k + 0 * sim  # as many places as `t` has: kept in the same registers
    scale, turn = tl.load(table + each), tl.load(table + DIMS + each)
    per_turn = tl.load(table + 2 * DIMS + each)
    a = _scaled(a, scale, TERM)
    steps = _steps(tl.arange(0, OUTER)[:, None], along, FAR) + number
    counted = tl.zeros([OUTER, INNER], tl.int32)
    spoilt = tl.zeros([OUTER, INNER], t.dtype)
    for tile in tl.range(N, num_stages=STAGES):
        first = (run * N + tile) * DRAWS
        if BY_SIMS:
            start = first_sim * along + first.to(tl.int64) * DIMS
            n_outer, n_inner = n_sims - group * SIMS, n_draws - first
        else:
            start = first.to(tl.int64) * along + first_sim * DIMS
            n_outer, n_inner = n_draws - first, n_sims - group * SIMS
        mask = (tl.arange(0, OUTER)[:, None] < n_outer) & (number < n_inner * DIMS)
        s = tl.load(samples + start + steps, mask=mask, other=0.0)
        s = tl.reshape(s, [OUTER, INNER, DIMS]).to(t.dtype)
        gap = tl.sum(_term(s, t, a, scale, turn, per_turn, TERM), axis=2)
        gap = tl.where(
            tl.arange(0, INNER)[None, :] < n_inner if BY_SIMS
            else tl.arange(0, OUTER)[:, None] < n_outer, gap, 1.0,
        )  # fmt: skip
        counted += _negative(gap) + _zero(gap)
        spoilt += gap * 0  # NaN, if the gap is NaN or infinite
    DRAWS_AXIS: tl.constexpr = 1 if BY_SIMS else 0
    both, spoilt = tl.sum(counted, axis=DRAWS_AXIS), tl.sum(spoilt, axis=DRAWS_AXIS)
    counts += first_sim + place
    _add(counts, both & 65535, real_sim, ONCE)
    _add(counts + n_sims, both >> 16, real_sim, ONCE)
    tl.store(lost + 0 * place, 1, mask=real_sim & (spoilt != spoilt))


@triton.jit
def closer_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, n_dims, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, IN_PARTS: tl.constexpr,
    KEEP: tl.constexpr, ONCE: tl.constexpr, FAR: tl.constexpr, UNITS: tl.constexpr,
    DRAWS: tl.constexpr, SIMS: tl.constexpr, DIMS: tl.constexpr, N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Count for a few simulations and a run of draws, in tiles of (DRAWS, SIMS, DIMS).

    Rows that are not there are read as the last one instead, which saves masks.
    """
    group, run = _place(n_groups, BY_SIMS)
    n_draws, n_dims = n_draws * UNITS[0], n_dims * UNITS[1]
    along_draws, along_sims = along_draws * UNITS[2], along_sims * UNITS[3]
    first_sim = (group * SIMS).to(tl.int64)
    place = tl.arange(0, SIMS)
    real_sim = place < n_sims - group * SIMS
    sim = tl.minimum(place, n_sims - group * SIMS - 1)[None, :, None]
    k = tl.arange(0, DIMS)[None, None, :]
    inside = k < n_dims
    truth += first_sim * n_dims + sim * n_dims
    away += first_sim * along_away + sim * along_away
    t = tl.load(truth + k, mask=inside, other=0.0)
    a = tl.load(away + k, mask=inside, other=0.0)
    each = k + 0 * sim  # as many places as `t` has: kept in the same registers
    scale = tl.load(table + each, mask=inside, other=0.0)
    turn = tl.load(table + n_dims + each, mask=inside, other=0.0)
    per_turn = tl.load(table + 2 * n_dims + each, mask=inside, other=0.0)
    a = _scaled(a, scale, TERM)
    draw = tl.arange(0, DRAWS)
    counted = tl.zeros([DRAWS, SIMS], tl.int32)
    spoilt = tl.zeros([DRAWS, SIMS], t.dtype)
    for tile in tl.range(N, num_stages=STAGES):
        first = (run * N + tile) * DRAWS
        row = tl.minimum(draw, n_draws - first - 1)
        rows = samples + (first.to(tl.int64) * along_draws + first_sim * along_sims)
        rows += _steps(row, along_draws, FAR)[:, None, None] + _steps(sim, along_sims, FAR)
        s = tl.load(rows + k, mask=inside, other=0.0, eviction_policy=KEEP)
        total = _term(s.to(t.dtype), t, a, scale, turn, per_turn, TERM)
        if IN_PARTS:
            for part in tl.range(DIMS, n_dims, DIMS, num_stages=STAGES):
                m = part + k
                here = m < n_dims
                s = tl.load(rows + m, mask=here, other=0.0, eviction_policy=KEEP)
                unit = tl.load(table + m, mask=here, other=0.0)
                total += _term(
                    s.to(t.dtype),
                    tl.load(truth + m, mask=here, other=0.0),
                    _scaled(tl.load(away + m, mask=here, other=0.0), unit, TERM),
                    unit,
                    tl.load(table + n_dims + m, mask=here, other=0.0),
                    tl.load(table + 2 * n_dims + m, mask=here, other=0.0),
                    TERM,
                )  # fmt: skip
        gap = tl.where((draw < n_draws - first)[:, None], tl.sum(total, axis=2), 1.0)
        counted += _negative(gap) + _zero(gap)
        spoilt += gap * 0  # NaN, if the gap is NaN or infinite
    both, spoilt = tl.sum(counted, axis=0), tl.sum(spoilt, axis=0)
    counts += first_sim + place
    _add(counts, both & 65535, real_sim, ONCE)
    _add(counts + n_sims, both >> 16, real_sim, ONCE)
    tl.store(lost + 0 * place, 1, mask=real_sim & (spoilt != spoilt))


@triton.jit
def short_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, along_draws, along_sims, along_away, n_groups,
    TERM: tl.constexpr, BY_SIMS: tl.constexpr, ONCE: tl.constexpr,
    FAR: tl.constexpr, N_DIMS: tl.constexpr, N_CENTRES: tl.constexpr,
    DRAWS: tl.constexpr, SIMS: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    r"""Count for several centres at once, whole draws in each lane: short rows need no sums.

    Of :math:`|\delta|^2 + \delta \cdot 2 (t - r)`, the first part is the same for all centres.
    Ties are counted in tiles that have any, which hardly any has.
    """
    group, run = _place(n_groups, BY_SIMS)
    first_sim = (group * SIMS).to(tl.int64)
    place = tl.arange(0, SIMS)[None, :]
    in_sims = place < n_sims - group * SIMS
    truth += first_sim * N_DIMS + place * N_DIMS
    away += first_sim * along_away + place * along_away
    truths, aways, counted = (), (), ()
    spoilt = tl.zeros([DRAWS, SIMS], truth.dtype.element_ty)
    for k in tl.static_range(N_DIMS):
        truths = truths + (tl.load(truth + k, mask=in_sims, other=0.0),)  # noqa: RUF005
    for centre in tl.static_range(N_CENTRES):
        counted = counted + (tl.zeros([DRAWS, SIMS], tl.int32),)  # noqa: RUF005
        for k in tl.static_range(N_DIMS):
            a = tl.load(away + centre * N_DIMS + k, mask=in_sims, other=0.0)
            aways = aways + (_scaled(a, tl.load(table + k), TERM),)  # noqa: RUF005
    steps = _steps(tl.arange(0, DRAWS)[:, None], along_draws, FAR)
    steps = steps + _steps(place, along_sims, FAR)
    for tile in tl.range(N, num_stages=STAGES):
        first = (run * N + tile) * DRAWS
        real = (tl.arange(0, DRAWS)[:, None] < n_draws - first) & in_sims
        row = samples + (first.to(tl.int64) * along_draws + first_sim * along_sims) + steps
        square = tl.zeros([DRAWS, SIMS], truth.dtype.element_ty)
        draws = ()
        for k in tl.static_range(N_DIMS):
            s = tl.load(row + k, mask=real, other=0.0).to(truth.dtype.element_ty)
            s = tl.where(real, s, truths[k])
            if TERM == "l2":
                s = tl.load(table + k) * (s - truths[k])
                square += s * s
            draws = draws + (s,)  # noqa: RUF005
        # A draw that is not there is the truth, but farther away.
        own = tl.where(real, square, 1.0)
        gaps = ()
        for centre in tl.static_range(N_CENTRES):
            gap = own
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
            gaps = gaps + (gap,)  # noqa: RUF005
        added, few, tied = (), own, own < 0
        for centre in tl.static_range(N_CENTRES):
            added = added + (counted[centre] + _negative(gaps[centre]),)  # noqa: RUF005
            # A product costs less than a comparison. That of four gaps is zero, or too small for
            # a number, if one of them is zero, and else only if all are tiny.
            few = gaps[centre] if centre % 4 == 0 else few * gaps[centre]
            if centre % 4 == 3 or centre == N_CENTRES - 1:
                tied = tied | ~(tl.abs(few) > 0)
        counted = added
        if tl.max(tl.max(tied.to(tl.int32), axis=1), axis=0) > 0:
            added = ()
            for centre in tl.static_range(N_CENTRES):
                added = added + (counted[centre] + _zero(gaps[centre]),)  # noqa: RUF005
            counted = added
        spoilt += gap * 0  # of the last centre: others are lost with it
    counts += first_sim * N_CENTRES + place * N_CENTRES
    for centre in tl.static_range(N_CENTRES):
        both = tl.sum(counted[centre], axis=0)[None, :]
        _add(counts + centre, both & 65535, in_sims, ONCE)
        _add(counts + n_sims * N_CENTRES + centre, both >> 16, in_sims, ONCE)
    spoilt = tl.sum(spoilt, axis=0)[None, :]
    tl.store(lost + 0 * place, 1, mask=in_sims & (spoilt != spoilt))


@triton.jit
def _digits(numbers):
    """Return numbers as sums of two that have the eleven leading digits each, which is exact."""
    first = (numbers.to(tl.uint32, bitcast=True) & 0xFFFFE000).to(tl.float32, bitcast=True)
    return first, numbers - first


@triton.jit
def _dot(step, away, total):
    """Add products of differences to a total, with the digits of single precision."""
    a, b = _digits(step)
    c, d = _digits(away)
    total = tl.dot(b, c, total, input_precision="tf32")
    total = tl.dot(a, d, total, input_precision="tf32")
    return tl.dot(a, c, total, input_precision="tf32")


@triton.jit
def product_kernel(
    samples, truth, away, table, counts, lost,
    n_draws, n_sims, n_dims, along_draws, along_sims, along_away, n_centres, n_groups,
    BY_SIMS: tl.constexpr, IN_PARTS: tl.constexpr, ONCE: tl.constexpr,
    FAR: tl.constexpr, UNITS: tl.constexpr,
    DRAWS: tl.constexpr, DIMS: tl.constexpr, CENTRES: tl.constexpr, N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    r"""Count for several centres at once by :math:`|\delta|^2 + \delta \cdot 2 (t - r)`."""
    group, run = _place(n_groups, BY_SIMS)
    i = group.to(tl.int64)
    n_draws, n_dims = n_draws * UNITS[0], n_dims * UNITS[1]
    along_draws, along_sims = along_draws * UNITS[2], along_sims * UNITS[3]
    c = tl.arange(0, CENTRES)
    k = tl.arange(0, DIMS)
    truth += i * n_dims
    away += i * along_away + c[None, :] * n_dims
    t = tl.load(truth + k, mask=k < n_dims, other=0.0)
    scale = tl.load(table + k, mask=k < n_dims, other=0.0)
    wanted = (c[None, :] < n_centres) & (k[:, None] < n_dims)
    a = tl.load(away + k[:, None], mask=wanted, other=0.0)
    a *= scale[:, None]
    draw = tl.arange(0, DRAWS)
    counted = tl.zeros([DRAWS, CENTRES], tl.int32)
    spoilt = tl.zeros([DRAWS], tl.float32)
    for tile in tl.range(N, num_stages=STAGES):
        first = (run * N + tile) * DRAWS
        # Rows that are not there are read as the last one instead, which saves masks.
        row = _steps(tl.minimum(draw, n_draws - first - 1), along_draws, FAR)
        rows = samples + (first.to(tl.int64) * along_draws + i * along_sims) + row[:, None]
        square = tl.zeros([DRAWS, DIMS], tl.float32)
        product = tl.zeros([DRAWS, CENTRES], tl.float32)
        if IN_PARTS:
            for part in tl.range(0, n_dims, DIMS, num_stages=STAGES):
                m = part + k
                here = m < n_dims
                s = tl.load(rows + m[None, :], mask=here[None, :], other=0.0)
                step = s.to(tl.float32) - tl.load(truth + m, mask=here, other=0.0)[None, :]
                wanted = (c[None, :] < n_centres) & here[:, None]
                b = tl.load(away + m[:, None], mask=wanted, other=0.0)
                unit = tl.load(table + m, mask=here, other=0.0)
                step *= unit[None, :]
                square += step * step
                product = _dot(step, unit[:, None] * b, product)
        else:
            s = tl.load(rows + k[None, :], mask=(k < n_dims)[None, :], other=0.0)
            step = scale[None, :] * (s.to(tl.float32) - t[None, :])
            square += step * step
            product = _dot(step, a, product)
        # No product is larger than this.
        total = tl.where(draw < n_draws - first, tl.sum(square, axis=1), 1e38)
        gap = product + total[:, None]
        counted += _negative(gap) + _zero(gap)
        spoilt += total * 0  # NaN, if the total is NaN or infinite
    both, spoilt = tl.sum(counted, axis=0), tl.sum(spoilt, axis=0)
    counts += i * n_centres + c
    _add(counts, both & 65535, c < n_centres, ONCE)
    _add(counts + n_sims * n_centres, both >> 16, c < n_centres, ONCE)
    tl.store(lost, 1, mask=spoilt != spoilt)


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

"""The compiled loops over fields of many cells: moments, residuals, blocks of cells and bands."""

import numpy as np

from .._base.compiling import compiled
from .._base.types import Array

# Signed indices may be negative, and the check for that prevents vectorised loops.
_index = np.uint64
_CELLS = 2048  # that all points have together in a cache


@compiled
def moments(
    truth: Array, draws: Array, share: Array, first: int, last: int,
    mean: Array, square: Array, ends: Array,
) -> None:  # fmt: skip
    """Find the mean of truth and draws `(n_draws, n_cells)` in some cells, and their variance.

    Each point counts by its share, that of the truth first. Also the smallest and the largest of
    the draws, `(2, n_cells)`.
    """
    n_draws = len(draws)
    for start in range(first, last, _CELLS):
        here = slice(start, min(start + _CELLS, last))
        point, centre, about = truth[here], mean[here], square[here]
        low, high = ends[0, here], ends[1, here]
        _begin(draws[0, here], centre, about, low, high)
        _add(point, point, share[0], 0.0, centre)
        for j in range(0, n_draws, 2):
            k, other = _next(j, share)
            _add(draws[j, here], draws[k, here], share[j + 1], other, centre)
        _add_squares(point, point, share[0], 0.0, centre, about)
        for j in range(0, n_draws, 2):
            k, other = _next(j, share)
            a, b = draws[j, here], draws[k, here]
            _add_squares(a, b, share[j + 1], other, centre, about)
            _widen(a, b, low, high)


@compiled
def _begin(draw: Array, centre: Array, about: Array, low: Array, high: Array) -> None:
    # Cell by cell: assignments of whole slices would take three seconds to compile.
    for c in range(_index(draw.size)):
        centre[c] = about[c] = 0
        low[c] = high[c] = draw[c]


@compiled
def _next(j: int, share: Array) -> tuple[int, float]:
    """Return the draw after another and its share: two at a time read the totals half as often.

    After the last draw follows itself, with no share.
    """
    if j + 2 < len(share):
        return j + 1, share[j + 2]
    return j, 0.0


@compiled
def _add(a: Array, b: Array, share_a: float, share_b: float, total: Array) -> None:
    for c in range(_index(total.size)):
        total[c] += share_a * a[c] + share_b * b[c]


@compiled
def _add_squares(
    a: Array, b: Array, share_a: float, share_b: float, centre: Array, total: Array
) -> None:
    for c in range(_index(total.size)):
        one, other = a[c] - centre[c], b[c] - centre[c]
        total[c] += share_a * one * one + share_b * other * other


@compiled
def _widen(a: Array, b: Array, low: Array, high: Array) -> None:
    for c in range(_index(low.size)):
        least = a[c] if a[c] < b[c] else b[c]
        most = a[c] if a[c] > b[c] else b[c]
        low[c] = least if least < low[c] else low[c]
        high[c] = most if most > high[c] else high[c]


@compiled
def residuals(
    points: Array, centre: Array, per_sd: Array, ends: Array,
    about: Array, sums: Array, at_ends: Array,
) -> None:  # fmt: skip
    """Write points about the centre, and add their standardised squares, cubes, fourth powers.

    Arguments:
        points: Points `(n_points, n_cells)`.
        centre: The mean of all points `(n_cells,)`.
        per_sd: One over their standard deviation.
        ends: Two values, for example the smallest and the largest of all draws.
        about: The residuals `(n_points, n_cells)`, written.
        sums: The three sums of each point, `(n_points, 3)`.
        at_ends: The number of cells that equal these values, `(n_points, 2)`, added.
    """
    low, high = ends
    for j in range(len(points)):
        for start in range(0, centre.size, _CELLS):
            here = slice(start, min(start + _CELLS, centre.size))
            p, m, s, d = points[j, here], centre[here], per_sd[here], about[j, here]
            second, third, fourth = d.dtype.type(0), d.dtype.type(0), d.dtype.type(0)
            n_low, n_high = d.dtype.type(0), d.dtype.type(0)
            for c in range(_index(p.size)):
                n_low += d.dtype.type(p[c] == low)
                n_high += d.dtype.type(p[c] == high)
                gap = p[c] - m[c]
                d[c] = gap
                z = gap * s[c]
                second += z * z
                third += z * z * z
                fourth += z * z * z * z
            sums[j, 0] += second
            sums[j, 1] += third
            sums[j, 2] += fourth
            at_ends[j, 0] += n_low
            at_ends[j, 1] += n_high


@compiled
def add_blocks(fields: Array, rows: Array, starts: Array, sums: Array) -> None:
    """Add the cells of fields `(n_fields, n_rows, n_columns)` up by block.

    Rows of the same blocks are added first, column by column.

    Arguments:
        fields: The fields, with all axes but the last as one.
        rows: The first block of each row of cells, among all blocks.
        starts: Where blocks begin along a row, and where the last one ends.
        sums: The sums of all blocks `(n_fields, n_blocks)`, to which cells are added.
    """
    for j in range(len(fields)):
        lines = np.zeros(starts[-1], fields.dtype)
        for r in range(rows.size):
            _add_line(fields[j, r], lines)
            if r + 1 == rows.size or rows[r + 1] != rows[r]:
                _add_columns(lines, starts, sums[j, rows[r] :])
                lines[:] = 0


@compiled
def _add_line(line: Array, lines: Array) -> None:
    for c in range(_index(line.size)):
        lines[c] += line[c]


@compiled
def _add_columns(lines: Array, starts: Array, sums: Array) -> None:
    for b in range(starts.size - 1):
        total = lines.dtype.type(0)
        for c in range(_index(starts[b]), _index(starts[b + 1])):
            total += lines[c]
        sums[b] += total


@compiled
def add_bands(
    waves: Array, centre: Array, contrasts: Array, runs: Array, labels: Array,
    sums: Array, crossed: Array,
) -> None:  # fmt: skip
    """Add coefficients up by band: squares, products with the centre, themselves, contrasts.

    Arguments:
        waves: The coefficients of residuals `(n_fields, n_coefficients)`.
        centre: Those of the mean of the points, `(n_coefficients,)`.
        contrasts: Weights that compare directions, `(n_contrasts, n_coefficients)`.
        runs: Where runs of coefficients of one band begin, and where the last one ends.
        labels: The band of each run; negative for none.
        sums: The three sums of each band, `(n_fields, 3, n_bands)`.
        crossed: Sums of squares times contrasts, `(n_fields, n_bands, n_contrasts)`.
    """
    for j in range(len(waves)):
        for r in range(labels.size):
            k, here = labels[r], slice(runs[r], runs[r + 1])
            if k < 0:
                continue
            d, m = waves[j, here], centre[here]
            square, product, total = d.dtype.type(0), d.dtype.type(0), d.dtype.type(0)
            for c in range(_index(d.size)):
                square += d[c] * d[c]
                product += d[c] * m[c]
                total += d[c]
            sums[j, 0, k] += square
            sums[j, 1, k] += product
            sums[j, 2, k] += total
            for q in range(len(contrasts)):
                weights, compared = contrasts[q, here], d.dtype.type(0)
                for c in range(_index(d.size)):
                    compared += d[c] * d[c] * weights[c]
                crossed[j, k, q] += compared

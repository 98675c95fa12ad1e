"""Patches: adjacent cells of a field that are wrong in the same way."""

from dataclasses import dataclass

import numpy as np

from .._base.types import Floats, Ints
from .statistics import adjusted

_MOST_PATCHES, _STRICTER = 3, 5


@dataclass(frozen=True, eq=False)
class Patch:
    """Adjacent cells that fail on the same side.

    Arguments:
        cells: Their places among all cells.
        sign: The side.
        where: The place in words.
    """

    cells: Ints
    sign: float
    where: str


def patches(
    values: Floats, shape: tuple[int, ...], level: float, field: tuple[int, ...]
) -> list[Patch]:
    """Return the largest clusters of adjacent cells that are far from zero, largest first.

    Cells fail by p-values that are adjusted for all cells (Westfall and Young, 1993), so that
    accurate posteriors have any patch at all no more often than the level says.

    Arguments:
        values: The standardised sums of all cells, `(n_rows, n_cells)`, the real ones first.
        shape: Their shape.
        level: The level.
        field: The shape of the field, if each of them stands for several cells.

    Example:
        >>> values = np.random.default_rng(0).normal(size=(100, 64))
        >>> values[0, [9, 10, 17]] = 9.0
        >>> patches(values, (8, 8), 0.05, (8, 8))[0].where
        'a patch of 3 cells around (1, 1)'
    """
    from scipy.ndimage import label

    p_values = adjusted(abs(values))
    fails = p_values <= level
    size = tuple(n / m for n, m in zip(field, shape, strict=True))
    found = []
    for sign in (1.0, -1.0):
        places, n = label((fails & (values[0] * sign > 0)).reshape(shape))
        for k in range(1, n + 1):
            cells = np.flatnonzero(places.ravel() == k)
            found.append(Patch(cells, sign, _where(cells, shape, size)))
    found.sort(key=lambda patch: (-len(patch.cells), -abs(values[0, patch.cells]).max()))
    # Beside the largest one, others must be clear.
    clear = [patch for patch in found[1:] if p_values[patch.cells].min() <= level / _STRICTER]
    return [*found[:1], *clear][:_MOST_PATCHES]


def _where(cells: Ints, shape: tuple[int, ...], size: tuple[float, ...]) -> str:
    """Return the place of cells in words: around a cell, or between rows of a long one."""
    at = np.unravel_index(cells, shape)
    centre = [int((axis.mean() + 0.5) * unit) for axis, unit in zip(at, size, strict=True)]
    n = round(len(cells) * float(np.prod(size)))
    around = f"({', '.join(map(str, centre))})" if len(centre) > 1 else f"{centre[0]}"
    if n == 1:
        return f"the cell {around}"
    place = f"{n} cells around {around}{_rows(at, shape, size)}"
    if max(size) == 1:
        return f"a patch of {place}"
    averages = " × ".join(f"{unit:.3g}" for unit in size)
    return f"a patch of about {place}, in averages of {averages} cells"


def _rows(at: tuple[Ints, ...], shape: tuple[int, ...], size: tuple[float, ...]) -> str:
    """Return the rows of cells that fill most of the width of a field, if they do."""
    if len(shape) != 2 or len(np.unique(at[1])) < 0.75 * shape[1]:
        return ""
    first, last = (int(end * size[0]) for end in (at[0].min(), at[0].max() + 1))
    return f" (rows {first}–{last - 1})"

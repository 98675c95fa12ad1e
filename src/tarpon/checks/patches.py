"""Patches: adjacent cells of a field that are wrong in the same way."""

from dataclasses import dataclass

import numpy as np

from .._base.types import Floats, Ints
from .statistics import adjusted

_MOST_PATCHES, _STRICTER = 3, 5
_OFF = 3.0  # standard errors from which a cell belongs to a patch beside it
_FEW = 9  # cells whose centre says where they are
_HOLE = 0.15  # the cells that a ring surrounds, over its own


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
    accurate posteriors have any patch at all no more often than the level says. A patch is a cell
    that fails with all cells around it that are clearly off on the same side.

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
        there = (fails | (abs(values[0]) >= _OFF)) & (values[0] * sign > 0)
        places = label(there.reshape(shape), structure=np.ones((3,) * len(shape)))[0].ravel()
        for k in np.unique(places[fails & there]):
            cells = np.flatnonzero(places == k)
            found.append(Patch(cells, sign, _where(cells, shape, size)))
    found.sort(key=lambda patch: (-len(patch.cells), -abs(values[0, patch.cells]).max()))
    # Beside the largest one, others must be clear.
    clear = [patch for patch in found[1:] if p_values[patch.cells].min() <= level / _STRICTER]
    return [*found[:1], *clear][:_MOST_PATCHES]


def _where(cells: Ints, shape: tuple[int, ...], size: tuple[float, ...]) -> str:
    """Return the place of cells in words: around which cell, and from where to where if many."""
    at = np.unravel_index(cells, shape)
    centre = [int((axis.mean() + 0.5) * unit) for axis, unit in zip(at, size, strict=True)]
    n = round(len(cells) * float(np.prod(size)))
    around = f"({', '.join(map(str, centre))})" if len(centre) > 1 else f"{centre[0]}"
    if n == 1:
        return f"the cell {around}"
    shaped = "ring" if _is_ring(cells, shape) else "patch"
    reach = f" ({_reach(at, size)})" if n > _FEW else ""
    place = f"{n} cells around {around}{reach}"
    if max(size) == 1:
        return f"a {shaped} of {place}"
    averages = " × ".join(f"{unit:.3g}" for unit in size)
    return f"a {shaped} of about {place}, in averages of {averages} cells"


def _is_ring(cells: Ints, shape: tuple[int, ...]) -> bool:
    """Return whether cells surround a part of the field that is not among them."""
    from scipy.ndimage import binary_fill_holes

    mask = np.zeros(shape, dtype=bool)
    mask.ravel()[cells] = True
    return bool(binary_fill_holes(mask).sum() >= (1 + _HOLE) * len(cells))


def _reach(at: tuple[Ints, ...], size: tuple[float, ...]) -> str:
    """Return from where to where cells reach along each axis."""
    known = {1: ["cells"], 2: ["rows", "columns"]}
    names = known.get(len(at)) or [f"axis {axis}:" for axis in range(len(at))]
    ends = [
        (int(axis.min() * unit), int((axis.max() + 1) * unit) - 1)
        for axis, unit in zip(at, size, strict=True)
    ]
    spans = (f"{name} {low}–{high}" for name, (low, high) in zip(names, ends, strict=True))
    return ", ".join(spans)

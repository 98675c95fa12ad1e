"""Fields: posteriors over images, maps and time series, which have axes of their own.

Points are flat everywhere, `(n_draws, n_sims, n_dims)`. What is here names their cells by place,
and tells which axis is where when shapes do not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import Any, overload

import numpy as np

from .._base.arrays import package

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Places(Sequence[str]):
    """The names of all cells of a field by their places, made only when they are asked for.

    Arguments:
        shape: The shape of the field.
        axes: Names of its axes, if they have any.
        label: The name of the field.
        starts: Where blocks of cells begin along each axis, if blocks are named rather than cells.

    Example:
        >>> names = Places((8, 8))
        >>> names[38], len(names), names.index("theta[4, 6]")
        ('theta[4, 6]', 64, 38)
        >>> Places((8, 8), ("lat", "lon"))[38]
        'theta[lat=4, lon=6]'
        >>> Places((8, 8), starts=((0, 4), (0, 4)))[2]
        'theta[4:8, 0:4]'
    """

    shape: Shape
    axes: tuple[str, ...] = ()
    label: str = "theta"
    starts: tuple[tuple[int, ...], ...] = ()

    @property
    def grid(self) -> Shape:
        """How many cells or blocks there are along each axis."""
        return tuple(map(len, self.starts)) or self.shape

    def __len__(self) -> int:
        return prod(self.grid)

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[str, ...]: ...
    def __getitem__(self, k: int | slice) -> str | tuple[str, ...]:
        if isinstance(k, slice):
            return tuple(self[j] for j in range(*k.indices(len(self))))
        k = range(len(self))[k]
        if not self.starts:
            return place(self.shape, k, self.label, self.axes)
        return named(self.label, self._ranges(k), self.axes)

    def _ranges(self, k: int) -> list[str]:
        """Return the cells of a block along each axis."""
        found = []
        for start, n, j in zip(
            self.starts, self.shape, np.unravel_index(k, self.grid), strict=True
        ):
            low, high = (*start, n)[j : j + 2]
            found.append(f"{low}:{high}" if high > low + 1 else f"{low}")
        return found

    def __iter__(self) -> Iterator[str]:
        return (self[k] for k in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Places):
            return vars(self) == vars(other)
        return isinstance(other, tuple | list) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


def place(shape: Shape, cell: int, label: str, axes: Sequence[str] = ()) -> str:
    """Return the name of a number in data of a shape, for example `x[3]` or `x[4, 6]`."""
    if prod(shape) == 1:
        return label
    return named(label, [str(k) for k in np.unravel_index(cell, shape)], axes)


def named(label: str, at: Sequence[str], axes: Sequence[str] = ()) -> str:
    """Return a name with a place, for example `theta[4, 6]` or `theta[lat=4, lon=6]`."""
    if axes:
        at = [f"{axis}={k}" for axis, k in zip(axes, at, strict=True)]
    return f"{label}[{', '.join(at)}]"


def blocks(names: Sequence[str] | None, shape: Shape, starts: Sequence[Any]) -> Places:
    """Return the names of blocks of cells, for example `theta[4:8, 0:4]`.

    Arguments:
        names: The names of the cells.
        shape: The shape of the field.
        starts: Where blocks begin along each axis.
    """
    known = names if isinstance(names, Places) else Places(shape)
    return replace(known, starts=tuple(tuple(map(int, each)) for each in starts))


def axes(samples: Any, theta: Any) -> tuple[str, ...] | None:
    """Return the names of the axes of fields, if they are arrays of xarray; they must agree."""
    named = [
        tuple(map(str, points.dims[n:]))
        for points, n in ((samples, 2), (theta, 1))
        if package(points) == "xarray" and len(points.dims) > n + 1
    ]
    if len(set(named)) > 1:
        raise ValueError(
            f"the axes of one field must be the same in `samples` and `theta`, in the same order, "
            f"but got {listed(*named[0])} and {listed(*named[1])}: try `theta.transpose(...)`."
        )
    return named[0] if named else None


def places_of(names: Sequence[str] | None, shape: Shape) -> Places:
    """Return the places of the cells of a field, whatever the user calls them."""
    return names if isinstance(names, Places) else Places(shape)


def described(shape: Shape) -> str:
    """Return how many parameters there are, or what the fields look like, in words."""
    if len(shape) > 1:
        return f"fields of {size(shape)}"
    return parameters(prod(shape))


def size(shape: Shape) -> str:
    """Return a shape in words, for example `8 x 16`."""
    return " x ".join(map(str, shape))


def parameters(n: int) -> str:
    """Return a number of parameters in words."""
    return f"{n} parameter{'s' * (n != 1)}"


def listed(*sizes: Any) -> str:
    """Return sizes the way that a shape is printed, some of them by name."""
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


def hint(got: Shape, n_sims: int, shape: Shape) -> str:
    """Return what seems to be wrong with draws of a shape, and what to do.

    Arguments:
        got: The shape of the draws, which does not fit.
        n_sims: The number of truths.
        shape: The shape of one truth.
    """
    wanted = (n_sims, *shape)
    if len(shape) > 1 and got == shape:
        return " `samples` and `theta` look swapped: draws come first."
    if len(shape) > 1 and n_sims == 1 and got[1:] == shape:
        return " `theta` may have an axis too many: try `theta[0]`."
    if got == wanted:
        return " If there is one draw a simulation, pass `samples[None]`."
    return (
        _about_order(got, wanted)
        or _about_axes(got, n_sims, shape)
        or _about_sizes(got, n_sims, shape)
        or " Draws come first, then simulations, then "
        + ("the axes of the field." if len(shape) > 1 else "parameters.")
    )


def flattened(points: Any, shape: Shape) -> Any:
    """Return points with the axes of a field as one, where they have them; others as they are."""
    n = len(shape)
    if n < 2 or tuple(points.shape[-n:]) != tuple(shape):
        return points
    return points.reshape(*points.shape[:-n], prod(shape))


def by_cell(points: Any, n_cells: int) -> Any:
    """Return points with their last axes as one, where these have so many cells together.

    Example:
        >>> by_cell(np.zeros((9, 4, 6)), 24).shape, by_cell(np.zeros((9, 24)), 24).shape
        ((9, 24), (9, 24))
    """
    for axis in reversed(range(points.ndim)):
        if prod(points.shape[axis:]) == n_cells:
            return points.reshape(*points.shape[:axis], n_cells)
    return points


def unflattened(points: Any, shape: Shape) -> Any:
    """Return flat points with the axes of a field; all others as they are."""
    return points.reshape(*points.shape[:-1], *shape) if len(shape) > 1 else points


def _about_order(got: Shape, wanted: Shape) -> str:
    """Return how axes seem to be ordered, if another order would fit."""
    if len(got) != len(wanted) + 1:
        return ""
    n = len(got)
    if (got[0], *got[2:]) == wanted:
        return " Its first two axes look swapped: try `samples.swapaxes(0, 1)`."
    if got[:-1] == wanted:
        return " Its draws look last: try `np.moveaxis(samples, -1, 0)`."
    cells = got[2:], wanted[1:]
    if got[1] == wanted[0] and sorted(cells[0]) == sorted(cells[1]):
        found = f" The draws are fields of {size(cells[0])}, and the truths of {size(cells[1])}: "
        if n == 4:
            return found + "if they are transposed, try `samples.swapaxes(-1, -2)`."
        order = _order(got, wanted, (0, 1))
        return found + f"if their axes are in another order, try `samples.transpose{order}`."
    order = _order(got, wanted, ())
    return f" Its axes look out of order: try `samples.transpose{order}`." if order else ""


def _order(got: Shape, wanted: Shape, first: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return an order of axes in which all but the first are the wanted ones; None if none is."""
    if len(got) > 6:
        return None
    every = (order for order in permutations(range(len(got))) if order[: len(first)] == first)
    fits = (order for order in every if tuple(got[k] for k in order[1:]) == wanted)
    return next(fits, None)


def _about_axes(got: Shape, n_sims: int, shape: Shape) -> str:
    """Return which axes seem to be missing, or too many."""
    n_cells, field = prod(shape), len(shape) > 1
    if field and got[1:] == shape:
        return " The axis of the simulations is missing: draws of all of them are needed."
    if field and got[1:] == (n_sims, n_cells):
        return f" The draws are flat: try `samples.reshape{(*got[:2], *shape)}`."
    if got[1:2] != (n_sims,):
        return ""
    if not field and len(got) > 3 and prod(got[2:]) == n_cells:
        return f" The truths are flat: try `theta.reshape{(n_sims, *got[2:])}`."
    if len(got) != len(shape) + 2 and _without_ones(got[2:]) == _without_ones(shape):
        return (
            f" They differ in axes of length 1, of one channel, say: try "
            f"`samples.reshape{(*got[:2], *shape)}`."
        )
    return ""


def _about_sizes(got: Shape, n_sims: int, shape: Shape) -> str:
    """Return in which number draws and truths seem to differ."""
    if len(got) == len(shape) + 2 and got[2:] == shape:
        return f" There are {got[1]} simulations of draws but {n_sims} truths."
    if got[1:2] != (n_sims,) or len(got) < 3:
        return ""
    if len(got) > 3 or len(shape) > 1:
        return f" The draws are {described(got[2:])}, and the truths {described(shape)}."
    return f" The draws have {parameters(got[2])}, and the truths {shape[0]}."


def _without_ones(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)

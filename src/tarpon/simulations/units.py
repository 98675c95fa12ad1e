"""Units: parameters of any size, brought near one by powers of two.

Squares of numbers beyond 1e±154 are no doubles. A power of two changes no digit of a number, and
one that follows from all truths and draws together tells none of them from the others.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.arrays import power_of_two, to_device_of
from .._base.types import Array, Floats
from .blocks import Block
from .stored import Stored

if TYPE_CHECKING:
    from . import Simulations

_ORDINARY = 200  # powers of two up to which numbers are left as they are
_DOUBLE, _SINGLE = 1000, 120  # powers of two beyond which numbers leave no room to compute with


def refuse_too_large(box: tuple[Array, Array], dtype: Any, names: Any) -> None:
    """Raise if parameters are so large that they leave no room to compute with.

    Arguments:
        box: The corners of the box of all truths and draws.
        dtype: The type of the draws.
        names: Of the parameters.
    """
    largest = _largest(box)
    _refuse(largest > 2.0 ** _power(dtype), "above 1e{:.0f}", box, dtype, names)


def refuse_too_narrow(box: tuple[Array, Array], dtype: Any, names: Any) -> None:
    """Raise if parameters differ by so little that one over the width would be infinite."""
    low, high = (np.asarray(corner, dtype=float) for corner in box)
    narrow = (high > low) & (high - low < 2.0 ** -_power(dtype))
    _refuse(narrow, "within 1e-{:.0f}", box, dtype, names)


def _power(dtype: Any) -> int:
    return _DOUBLE if dtype.itemsize >= 8 else _SINGLE


def _largest(box: tuple[Array, Array]) -> Floats:
    low, high = (np.asarray(corner, dtype=float) for corner in box)
    return np.maximum(abs(low), abs(high))


def _refuse(which: Array, limit: str, box: tuple[Array, Array], dtype: Any, names: Any) -> None:
    for k in np.flatnonzero(which & np.isfinite(_largest(box)))[:1]:
        single = _power(dtype) == _SINGLE
        beyond = limit.format(_power(dtype) * np.log10(2.0))
        raise ValueError(
            f"`{names[k]}` lies between {box[0][k]:.3g} and {box[1][k]:.3g}, but numbers {beyond} "
            f"leave no room to compute in {'single' if single else 'double'} precision. Give it "
            f"in other units{' or in double precision' * single}."
        )


def powers_of_two(box: tuple[Array, Array]) -> Floats:
    """Return a unit for each parameter, `(n_dims,)`: 1 for those of ordinary size."""
    unit = power_of_two(_largest(box))
    return np.where((unit > 2.0**_ORDINARY) | (unit < 2.0**-_ORDINARY), unit, 1.0)


def tamed(sims: "Simulations", box: tuple[Array, Array] | None = None) -> "Simulations":
    """Return the simulations with all parameters of ordinary size.

    Arguments:
        sims: The simulations.
        box: The box of their truths and draws, if not that of all of which they are a part.
    """
    if box is None:
        if not sims._whole:
            sims.centres()  # whoever needs the box needs these, and one pass brings both
        box = sims.box
    unit = powers_of_two(box)
    return sims if (unit == 1).all() else _divided(sims, unit, unit)


def in_own_units(block: Block) -> Block:
    """Return a block in the units of its user."""
    unit = block.sims._unit
    if unit is None:
        return block
    own = replace(block, sims=_divided(block.sims, 1 / unit, None))
    by = to_device_of(unit, block.points)
    # Planted points are among them, and squares of the others may be out of range.
    vars(own).update(points=block.points * by, centre=block.centre * by, spread=block.spread * by)
    return own


def _divided(sims: "Simulations", by: Floats, unit: Floats | None) -> "Simulations":
    def divided(points: Any) -> Any:
        if isinstance(points, Stored):
            return replace(points, unit=by)
        return points / to_device_of(by, points)

    other = sims._with(samples=divided(sims.samples), theta=divided(sims.theta), _unit=unit)
    known = other._known
    known.box = None if known.box is None else (known.box[0] / by, known.box[1] / by)
    known.sampled_box = None
    known.centres = None if known.centres is None else known.centres / by
    return other

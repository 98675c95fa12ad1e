"""Boxes that contain every truth and every draw, of all simulations or of some of many."""

from typing import TYPE_CHECKING

import numpy as np

from .._base.types import Array, Floats
from . import shapes, units
from .views import points_alone

if TYPE_CHECKING:
    from . import Simulations

_ORDINARY = 1e30  # above, or below one over it, parameters may need a unit
_BOX_NUMBERS = 2**22  # up to so many, a box is that of all of them
_SAMPLED_NUMBERS, _FEWEST_SAMPLED = 2**17, 16  # numbers and simulations of a sampled box


def ordinary(low: Array, high: Array) -> bool:
    """Return whether parameters in a box are of ordinary size."""
    ends = np.abs(np.asarray([low, high], dtype=float))
    width = np.subtract(high, low, dtype=float)
    large, small = ends.max(initial=0.0), width[width > 0].min(initial=1.0)
    return bool(large < _ORDINARY and small > 1 / _ORDINARY)


def is_ordinary(sims: "Simulations") -> bool:
    """Return whether parameters in memory are of ordinary size, so that they need no unit."""
    return sims._whole and sims._unit is None and ordinary(*sims.box)


def sampled_box(sims: "Simulations") -> tuple[Array, Array]:
    """Return the box of every truth and every draw, of some simulations if there are many.

    Above 4 million numbers, it is that of all points of every n-th simulation, at least 16 of
    them. Truths and draws enter alike, and the choice depends on the shape alone.
    """
    step, known = _step(sims), sims._known
    if step == 1:
        return sims.box
    if known.sampled_box is None:
        found = _sampled(points_alone(sims), step)
        if not np.isfinite(found).all() and not known.checked:
            sims._validate()
        sims._refuse_too_large(*found)
        known.sampled_box = found
    return known.sampled_box


def sampled_width(sims: "Simulations") -> Floats:
    """Return the sides of the sampled box, 1 for parameters that never vary, `(n_dims,)`."""
    return width(sims, sampled_box(sims))


def width(sims: "Simulations", box: tuple[Array, Array]) -> Floats:
    """Return the sides of a box, 1 for parameters that never vary, `(n_dims,)`."""
    if not (sims._whole and sims._unit is None and ordinary(*box)):
        units.refuse_too_narrow(box, sims.samples.dtype, sims.names)
    low, high = (np.asarray(corner, dtype=float) for corner in box)
    return np.where(high > low, high - low, 1.0)


def _step(sims: "Simulations") -> int:
    """Return which simulations a box is made of: every one, or every n-th if there are many."""
    row = (sims.n_draws + 1) * max(sims.n_dims, 1)
    if sims.n_sims * row <= _BOX_NUMBERS:
        return 1
    return max(1, sims.n_sims // max(_FEWEST_SAMPLED, _SAMPLED_NUMBERS // row))


def _sampled(sims: "Simulations", step: int) -> tuple[Array, Array]:
    """Return the box of all points of every n-th simulation."""
    if sims._whole:
        return shapes.pooled_box(sims.samples[:, ::step], sims.theta[::step])
    places = range(0, sims.n_sims, step)
    some = (sims._part(slice(i, i + 1))._fetched() for i in places)
    low, high = zip(*(shapes.pooled_box(one.samples, one.theta) for one in some), strict=True)
    return np.minimum.reduce(low), np.maximum.reduce(high)

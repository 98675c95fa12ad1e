"""Labels: groups of simulations by their observations, which a new observation belongs to too."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.text import clean
from .._base.types import Array, ArrayLike
from ..local.groups import Side
from ..local.places import Place
from ..local.where import Where
from ..simulations import Simulations, shapes

Labelling = Callable[[Array], ArrayLike]
ELSEWHERE = "elsewhere"
_GROUPS = (
    "labels (n_sims,), a function of the observations that returns them, or the answer of "
    "`tarpon.where`"
)
_FEATURE = re.compile(r"x(?:\[(\d+(?:, \d+)*)\])?")


@dataclass(frozen=True)
class Sides:
    """A function of observations: the first place to which each belongs, or elsewhere.

    Arguments:
        places: Sides of each place.
    """

    places: tuple[tuple[Side, ...], ...]

    @classmethod
    def of(cls, places: Sequence[Place]) -> "Sides":
        """Return the function for places of `tarpon.where`, of which there must be some."""
        sides = tuple(place.sides for place in places if place.sides)
        if not sides:
            raise ValueError(
                "`groups` must be places that are a part of data space, but `tarpon.where` named "
                "none: leave `groups` out."
            )
        return cls.checked(sides)

    @classmethod
    def checked(cls, places: tuple[tuple[Side, ...], ...]) -> "Sides":
        """Return the function for sides of places, which must be numbers of the observations."""
        for side in (side for place in places for side in place):
            if not _FEATURE.fullmatch(side.feature):
                raise ValueError(
                    f"`groups` must be fixed by numbers of the observations, like 'x[0]', but one "
                    f"is by {side.feature!r}: pass a function of x that returns labels."
                )
        return cls(places)

    def __call__(self, x: Array) -> Array:
        """Return the label of each observation, `(n,)`."""
        labels = np.full(len(x), ELSEWHERE, dtype=object)
        for place in reversed(self.places):
            here = np.ones(len(x), dtype=bool)
            for side in place:
                column = _column(x, side.feature)
                here &= column > (-np.inf if side.low is None else side.low)
                here &= column <= (np.inf if side.high is None else side.high)
            labels[here] = " and ".join(map(str, place))
        return labels.astype(str)


def _column(x: Array, feature: str) -> Array:
    """Return a number of each observation by its name."""
    found = _FEATURE.fullmatch(feature)
    if found is None or found[1] is None:
        return x.reshape(len(x), -1)[:, 0]
    place = tuple(int(k) for k in found[1].split(", "))
    return np.moveaxis(x, 0, -1)[place]


def labelled(sims: Simulations, groups: object) -> tuple[Array | None, Labelling | None]:
    """Return the label of each simulation, and the function of observations, where given.

    Arguments:
        sims: The simulations.
        groups: What the user gave.
    """
    if groups is None:
        return None, None
    places = groups.places if isinstance(groups, Where) else groups
    if isinstance(places, list | tuple) and all(isinstance(one, Place) for one in places):
        groups = Sides.of(places)
    if callable(groups):
        return of_function(groups, shapes.needs_x(sims.x, "`groups`")), groups
    if not isinstance(groups, list | tuple) and not hasattr(groups, "shape"):
        raise TypeError(arguments.wrong("groups", _GROUPS, groups))
    return _texts(groups, sims.n_sims), None


def of_function(function: Labelling, x: Array) -> Array:
    """Return the labels of observations by a function."""
    return _texts(function(x), len(x))


def _texts(labels: ArrayLike, n: int) -> Array:
    """Return one label per observation, as text."""
    found = np.asarray(labels)
    if found.shape != (n,) or found.dtype.kind not in "biufUO":
        raise ValueError(
            f"`groups` must be one label per observation, ({n},), but got shape {found.shape} of "
            f"{found.dtype}."
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError("`groups` must be labels, but some are NaN or infinite.")
    return np.array([clean(label) for label in found.tolist()])

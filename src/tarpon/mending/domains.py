"""The observations that a repair was fitted and proven on."""

from dataclasses import dataclass

import numpy as np

from .._base.text import stated
from .._base.types import Array, ArrayLike, Floats
from ..local.near import UNUSUAL, conformal
from ..simulations import Simulations, fields, neighbours, shapes


@dataclass(frozen=True, eq=False)
class Domain:
    """The observations of simulations.

    Arguments:
        x: Observations, `(n_sims, ...)`, or None.
    """

    x: Array | None

    @classmethod
    def of(cls, sims: Simulations) -> "Domain":
        """Return the observations of these simulations."""
        return cls(None if sims.x is None else np.asarray(sims.x, dtype=float))

    def observation(self, x: ArrayLike | None) -> Array | None:
        """Return one observation with an axis before its own, or raise."""
        if self.x is None:
            if x is not None:
                raise ValueError(
                    "`x` cannot be used: the simulations of this repair had no observations."
                )
            return None
        if x is None:
            raise ValueError("this repair reads the observation: pass it as the second argument.")
        one = shapes.finite("observation", shapes.array("x", x))
        if one.shape != self.x.shape[1:]:
            raise ValueError(
                f"`x` must have the shape of one observation, {self.x.shape[1:]}, but got "
                f"{one.shape}."
            )
        return np.asarray(one, dtype=float)[None]

    def belongs(self, one: Array | None) -> None:
        """Raise if an observation is unlike the simulated ones."""
        if self.x is None or one is None:
            return
        every = np.concatenate([self.x, one]).reshape(len(self.x) + 1, -1)
        typical = conformal(neighbours.standardised(every))
        if typical < UNUSUAL:
            raise ValueError(
                f"the observation is unlike those of the simulations ({stated('p', typical)}, "
                f"exact), so that the proof does not apply to it. Simulate more like it, or pass "
                f"`outside=True` to repair its posterior all the same."
            )


def draws(samples: ArrayLike, n_dims: int, n_held: int) -> Floats:
    """Return draws of one posterior, `(n_draws, n_dims)`, or raise; fields come flat."""
    found = shapes.finite("draws", shapes.array("samples", samples))
    found = fields.by_cell(found, n_dims) if found.ndim > 2 else found
    if found.ndim != 2 or found.shape[1] != n_dims:
        raise ValueError(
            f"`samples` must be the draws of one posterior, (n_draws, {n_dims}), but got "
            f"{found.shape}."
        )
    if len(found) <= n_held:
        raise ValueError(
            f"`samples` must have more than {n_held} draws, which are held out for units, but got "
            f"{len(found)}."
        )
    return np.asarray(found, dtype=float)

"""`Cover`: thresholds of scores, and the regions of points that score no more."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base import arguments, disk
from .._base.text import Estimate
from .._base.types import Array, ArrayLike, Floats
from .._version import __version__
from ..regions import Region
from ..simulations import fields, shapes
from . import words
from .differences import Difference
from .distances import Ellipsoids, spread_evenly
from .labels import Labelling, of_function
from .scores import of_points

KIND = "cover"
ALL = "all"


@dataclass(frozen=True)
class Threshold:
    """The largest score of points in the region.

    Arguments:
        group: Label of the group of observations; `"all"` if there is one threshold.
        value: The threshold.
        place: Place `k` of the threshold among the sorted scores of the truths, from 1.
        n_sims: Number of simulations of the group.
        before: Share of their truths in the regions that contain as many of the draws.
    """

    group: str
    value: float
    place: int
    n_sims: int
    before: Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Cover:
    """Regions that contain the truth as often as they say.

    Arguments:
        coverage: Probability of containing the truth, at least.
        sure: Confidence of the coverage; None if it holds on average over calibrations.
        thresholds: Thresholds, one per group.
        n_centre: Number of draws from which scores are computed.
        names: Names of the parameters.
        region: Region whose scores are used; None for the distance from the centre.
        labelling: Function that returns the groups of observations, or None.
        difference: Where one common threshold covers more truths or fewer than elsewhere; None
            if that was not tested.
        n_dropped: Number of invalid simulations left out.
    """

    coverage: float
    sure: float | None
    thresholds: tuple[Threshold, ...]
    n_centre: int
    names: tuple[str, ...]
    region: Region | None = None
    labelling: Labelling | None = None
    difference: Difference | None = None
    n_dropped: int = 0

    def holds(
        self,
        theta: ArrayLike,
        samples_o: ArrayLike,
        *,
        x_o: ArrayLike | None = None,
        group: object = None,
        log_prob: ArrayLike | None = None,
    ) -> Array:
        """Return which points belong to the region of an observation, `(n,)`.

        Arguments:
            theta: Points, `(n, n_dims)`, or one point `(n_dims,)`.
            samples_o: Draws of the observation's posterior, `(n_draws, n_dims)`, equally weighted.
            x_o: The observation, if groups or the region depend on it.
            group: Label of its group, instead of `x_o`.
            log_prob: Log-densities of the points, `(n,)`, if the region needs them.
        """
        draws = self._draws(samples_o)
        points = arguments.floats("theta", theta)
        points = fields.by_cell(points, len(self.names)) if points.ndim > 1 else points
        points = points[None] if points.ndim < 2 else points
        if points.shape[1:] != (len(self.names),):
            wanted = f"points, (n, {len(self.names)})"
            raise ValueError(arguments.wrong("theta", wanted, np.asarray(theta)))
        chosen = draws[spread_evenly(len(draws), self.n_centre)]
        limit = self._threshold(x_o, group).value
        return of_points(self.region, points, chosen, x_o, log_prob) <= limit

    def level(
        self,
        samples_o: ArrayLike,
        *,
        x_o: ArrayLike | None = None,
        group: object = None,
        log_prob: ArrayLike | None = None,
    ) -> float:
        """Return the share of the draws in the region of an observation: its credibility level.

        It is 1 if the region reaches beyond all draws. Draws by which the region is placed do not
        count.

        Arguments:
            samples_o: Draws of the observation's posterior, `(n_draws, n_dims)`.
            x_o: The observation, if groups or the region depend on it.
            group: Label of its group, instead of `x_o`.
            log_prob: Log-densities of the draws, `(n_draws,)`, if the region needs them.
        """
        draws = self._draws(samples_o)
        places = spread_evenly(len(draws), self.n_centre)
        if len(draws) == self.n_centre:
            raise ValueError(
                f"`samples_o` must have more than the {self.n_centre} draws by which the region "
                f"is placed, but got {len(draws)}."
            )
        held = None if log_prob is None else np.delete(np.asarray(log_prob), places)
        limit = self._threshold(x_o, group).value
        scores = of_points(self.region, np.delete(draws, places, axis=0), draws[places], x_o, held)
        return float((scores <= limit).mean())

    def contour(
        self,
        samples_o: ArrayLike,
        parameters: Sequence[str | int] = (0, 1),
        *,
        x_o: ArrayLike | None = None,
        group: object = None,
        n: int = 200,
    ) -> Floats:
        """Return the outline of the region in two parameters, for a corner plot, `(n, 2)`.

        It is the shadow of the region of all parameters. For the region of two parameters alone,
        calibrate them alone.

        Arguments:
            samples_o: Draws of the observation's posterior, `(n_draws, n_dims)`.
            parameters: Two parameters, by name or place.
            x_o: The observation, if there are groups.
            group: Label of its group, instead of `x_o`.
            n: Number of points, of which the last is the first.
        """
        if self.region is not None:
            raise ValueError(
                "only the region by distance has an outline: leave `region` out of `cover`, or "
                "ask `holds` at the points of a grid."
            )
        first, second = self._places(parameters)
        draws = self._draws(samples_o)
        ellipsoid = Ellipsoids.of(draws[spread_evenly(len(draws), self.n_centre)][:, None])
        radius = self._threshold(x_o, group).value
        return ellipsoid.ellipse(first, second, radius, arguments.positive("n", n, 3))

    def _places(self, parameters: Sequence[str | int]) -> list[int]:
        wanted = f"two different parameters of {', '.join(self.names)}, by name or place"
        if not isinstance(parameters, list | tuple) or len(parameters) != 2:
            raise ValueError(arguments.wrong("parameters", wanted, parameters))
        known = [*range(len(self.names))]
        places = [
            self.names.index(one)
            if one in self.names
            else known.index(one)
            if one in known
            else -1
            for one in parameters
        ]
        if -1 in places or places[0] == places[1]:
            raise ValueError(arguments.wrong("parameters", wanted, parameters))
        return places

    def _draws(self, samples_o: ArrayLike) -> Floats:
        draws = shapes.finite("draws `samples_o`", arguments.floats("samples_o", samples_o))
        draws = fields.by_cell(draws, len(self.names)) if draws.ndim > 2 else draws
        if draws.ndim == 1 and len(self.names) == 1:
            draws = draws[:, None]
        if draws.ndim != 2 or draws.shape[1] != len(self.names) or len(draws) < self.n_centre:
            raise ValueError(
                f"`samples_o` must be draws of one posterior, (n_draws, {len(self.names)}), at "
                f"least the {self.n_centre} that each simulation was scored by, but got "
                f"{draws.shape}."
            )
        return draws

    def _threshold(self, x_o: ArrayLike | None, group: object) -> Threshold:
        """Return the threshold of the group of an observation."""
        by_group = {one.group: one for one in self.thresholds}
        if list(by_group) == [ALL] and group is None:
            return by_group[ALL]
        if group is None and x_o is not None and self.labelling is not None:
            group = of_function(self.labelling, np.asarray(x_o)[None])[0]
        if group is None:
            advice = "x_o" if self.labelling is not None else "group"
            raise ValueError(f"thresholds differ by group: pass `{advice}=` of the observation.")
        if str(group) not in by_group:
            known = ", ".join(repr(name) for name in by_group)
            raise ValueError(f"`group` must be one of {known}, but got {arguments.shown(group)}.")
        return by_group[str(group)]

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file for `tarpon.load`, without pickling and without functions.

        A cover with groups by a function needs `group=` after loading.

        Example:
            >>> sims = tarpon.problems.zoo("narrow", n_sims=200, rng=0)
            >>> tarpon.cover(sims, rng=0).save("cover.npz")
            >>> tarpon.load("cover.npz").coverage
            0.9
        """
        from .records import kept

        disk.save(path, KIND, *kept(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "schema": "tarpon-cover-1",
            "level": self.coverage,
            "sure": self.sure,
            "thresholds": [asdict(one) for one in self.thresholds],
            "n_centre": self.n_centre,
            "region": words.region(self.region),
            "difference": None if self.difference is None else asdict(self.difference),
            "n_dropped": self.n_dropped,
            "text": str(self),
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        return words.first_line(self)

    def __str__(self) -> str:
        return words.cover(self)

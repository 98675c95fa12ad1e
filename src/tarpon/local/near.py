r"""`near`: can the posterior be trusted at one observation?

Given the observations and the pooled points, the truth is any of the points with the same
probability, independently between simulations. So whatever chooses simulations by these alone
keeps the swap test exact, and posteriors that are wrong elsewhere do not matter. Here the nearest
simulations are chosen, and `check` tests them.

Whether the observation is like the simulations at all is another question: all :math:`N + 1`
observations are treated alike, so the share of them whose tenth neighbour is at least as far as
that of the observation is an exact p-value if it came from the same distribution, whether the
posteriors are accurate or not.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments
from .._base.types import RNG, Array, ArrayLike, Floats
from .._version import __version__
from ..checks import Check, check
from ..checks.findings import UNCORRELATED
from ..checks.swaps import fewest_swaps
from ..simulations import Simulations, fields, neighbours
from ..simulations.neighbours import Neighbours, Observation
from ..simulations.views import chosen, equalised
from . import words
from .surroundings import Surroundings, surroundings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NEIGHBOUR = 10  # the neighbour whose distance says whether an observation is unusual
UNUSUAL = 0.01  # the p-value below which an observation is outside the simulations
_EXTREME, _MOST_EXTREME = 0.05, 3  # the p-value of numbers worth a word, and their number


@dataclass(frozen=True)
class Extreme:
    """A number of an observation that is unusual among the simulations.

    Arguments:
        name: Its name, for example `"x[3]"` or `"the posterior mean of mass"`.
        above: Whether it is unusually large.
        p_value: The share of observations as extreme, the user's among them, on both sides.
    """

    name: str
    above: bool
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class Near:
    """The answer at one observation.

    Arguments:
        check: The check of the nearest simulations.
        typical: The p-value of the observation being one of the simulated kind.
        extremes: The numbers in which it is most unusual, if it is outside the simulations.
        n_sims: The number of simulations among which the nearest were found.
        radius: The distance of the farthest of the nearest simulations.
        measure: What distances are measured by: `"posteriors"`, `"summary(x)"` or `"x"`.
        alike: Whether posterior means and widths are the same for all simulations, so that the
            nearest ones are arbitrary.
        surroundings: Where the observation and the nearest simulations lie, for figures.
        n_observations: The number of observations that were asked about; the level is divided by
            it.
        around: Whether truths were simulated around the posterior of the observation, by
            `run(near=)`, and not from the prior. Then `typical` is approximate.
    """

    check: Check
    typical: float
    extremes: tuple[Extreme, ...]
    n_sims: int
    radius: float
    measure: str
    alike: bool
    surroundings: Surroundings
    n_observations: int = 1
    around: bool = False

    @property
    def outcome(self) -> str:
        """What can be said at the observation.

        One of "outside the simulations", "inaccurate here", "no evidence against here" and "too
        few near".
        """
        if self.typical < UNUSUAL / self.n_observations:
            return "outside the simulations"
        named = {"too few to say": "too few near"}
        return named.get(self.check.outcome, f"{self.check.outcome} here")

    @property
    def n(self) -> int:
        """The number of the nearest simulations."""
        return self.check.n_sims

    @property
    def p_value(self) -> float:
        """The exact p-value of the nearest simulations."""
        return self.check.p_value

    def plot(self) -> "Figure":
        """Draw the observation among the simulations, and bias and width of the nearest.

        Without the latter if it is outside the simulations, since they do not apply to it.
        """
        from .. import plots

        draw = [partial(plots.near, self), partial(plots.effects, self.check)]
        n_drawn = 1 if self.outcome == "outside the simulations" else 2
        return plots.side_by_side(*draw[:n_drawn])

    def report(self, path: str | Path, *, name: str = "") -> None:
        """Write one HTML file about the nearest simulations."""
        self.check.report(
            path, name=name or f"{self.n} simulations near the observation", near=self
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "schema": "tarpon-near-1",
            "outcome": self.outcome,
            "typical": self.typical,
            "extremes": [asdict(extreme) for extreme in self.extremes],
            "n_sims": self.n_sims,
            "radius": self.radius,
            "measure": self.measure,
            "alike": self.alike,
            "n_observations": self.n_observations,
            "around": self.around,
            "check": self.check.to_dict(),
            "text": str(self),
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        return f"near, {self.n} of {self.n_sims} simulations: {self.outcome}"

    def __str__(self) -> str:
        return words.near(self)


def near(
    sims: Simulations,
    x_o: ArrayLike,
    *,
    samples: ArrayLike | None = None,
    n: int = 100,
    summary: Callable[[Array], ArrayLike] | None = None,
    level: float = 0.05,
    n_swaps: int = 999,
    rng: RNG = None,
) -> "Near | tuple[Near, ...]":
    """Test the posteriors of the simulations that are most like an observation.

    Arguments:
        sims: The simulations, with observations.
        x_o: The observation; or several, `(n_observations, ...)`, of which each is tested at the
            level divided by their number.
        samples: The draws of its posterior, `(n_draws, n_dims)`; of several observations
            `(n_draws, n_observations, n_dims)`. With them, distances are those of posterior means
            and widths, which works best where observations have many numbers.
        n: The number of simulations to test.
        summary: A function of observations that returns what distances are measured by.
        level: The level of the test.
        n_swaps: The number of swaps.
        rng: A seed or a generator.

    Returns:
        A `Near`, or one for each of several observations.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_dims=2, n_sims=500, rng=0)
        >>> tarpon.near(sims, sims.x[0], rng=0).outcome
        'inaccurate here'
    """
    wanted = "`Simulations` with `x`: tarpon.Simulations(samples, theta, x=x)"
    arguments.instance("sims", sims, Simulations, wanted)
    n = min(arguments.positive("n", n), sims.n_sims)
    level, seed = arguments.probability("level", level), arguments.seed(rng)
    if summary is not None:
        arguments.function("summary", summary, "a function of the observations")
    observations = _observations(sims, x_o, samples)
    level /= len(observations)
    n_swaps = max(n_swaps, fewest_swaps(level)) if len(observations) > 1 else n_swaps
    sims = equalised(sims, np.random.default_rng([seed, 1]))
    found = tuple(
        _near(sims, one, n, summary, len(observations), level=level, n_swaps=n_swaps, seed=seed)
        for one in observations
    )
    return found if _several(sims, x_o) else found[0]


def _several(sims: Simulations, x_o: ArrayLike) -> bool:
    """Return whether observations have an axis that counts them, as those of simulations do."""
    return sims.x is not None and np.ndim(x_o) == sims.x.ndim


def _observations(
    sims: Simulations, x_o: ArrayLike, samples: ArrayLike | None
) -> list[Observation]:
    """Return one observation or several, each with its draws."""
    if not _several(sims, x_o):
        return [Observation.of(sims, x_o, samples)]
    if len(x_o) == 0:
        raise ValueError("`x_o` must hold at least one observation, but it is empty.")
    wanted = (len(x_o), *sims.shape)
    if samples is not None and np.shape(samples)[1:] not in (wanted, (len(x_o), sims.n_dims)):
        raise ValueError(
            f"`samples` of {len(x_o)} observations must be {fields.listed('n_draws', *wanted)}, "
            f"but got {np.shape(samples)}."
        )
    return [
        Observation.of(sims, one, None if samples is None else np.asarray(samples)[:, i])
        for i, one in enumerate(x_o)
    ]


def _near(
    sims: Simulations, observation: Observation, n: int, summary: neighbours.Summary | None,
    n_observations: int, *, level: float, n_swaps: int, seed: int,
) -> Near:  # fmt: skip
    found = neighbours.nearest(sims, observation, n, summary)
    typical, extremes = belongs(sims, observation, summary)
    answer = check(chosen(sims, found.places), level=level, n_swaps=n_swaps, rng=seed)
    # Observations that are alike say little about differences between truths.
    warnings = tuple(said for said in answer.warnings if said != UNCORRELATED)
    return Near(
        replace(answer, warnings=warnings),
        typical,
        extremes if typical < UNUSUAL / n_observations else (),
        sims.n_sims,
        float(found.distance.max()),
        found.measure,
        _arbitrary(sims, found),
        surroundings(sims, observation, found, summary),
        n_observations,
    )


def _arbitrary(sims: Simulations, found: Neighbours) -> bool:
    return found.measure == "posteriors" and neighbours.uninformed(sims)


def belongs(
    sims: Simulations, observation: Observation, summary: neighbours.Summary | None = None
) -> tuple[float, tuple[Extreme, ...]]:
    """Return the p-value of an observation being one of the simulated kind, and its extremes.

    If its posterior is known, half of the level is for that: by the draws alone, which may choose
    nothing here but a number of the observation.
    """
    views = [neighbours.features(sims, observation, summary)]
    if observation.samples is not None:
        names = [
            f"the posterior {what} of {name}"
            for what in ("mean", "width")
            for name in sims.names or ()
        ]
        views.append((neighbours.of_draws(sims, observation.samples), names))
    typical = min(1.0, len(views) * min(conformal(view) for view, _ in views))
    extremes = [one for view in views for one in _extremes(*view)]
    extremes.sort(key=lambda one: one.p_value)
    unusual = [one for one in extremes if one.p_value <= _EXTREME]
    return typical, tuple(unusual[:_MOST_EXTREME])


def conformal(every: Floats) -> float:
    """Return the share of points whose tenth neighbour is at least as far as that of the last."""
    from scipy.spatial import KDTree

    k = min(_NEIGHBOUR, len(every) - 1)
    distance = KDTree(every).query(every, k=[k + 1])[0][:, 0]
    return float((distance >= distance[-1]).mean())


def _extremes(every: Floats, names: list[str]) -> list[Extreme]:
    """Return how extreme each feature of the last point is, on its side."""
    below, above = (every <= every[-1]).mean(axis=0), (every >= every[-1]).mean(axis=0)
    return [
        Extreme(name, bool(high < low), float(min(1.0, 2 * min(low, high))))
        for name, low, high in zip(names, below, above, strict=True)
    ]

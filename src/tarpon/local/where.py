r"""`where`: in which part of data space posteriors are wrong.

Groups of simulations are cut out by features of their observations. In each, the sums of bias and
width components of the ranks of truths are compared with those of swaps, and the largest of all
sums in each swap adjusts for their number (Westfall and Young, 1993). Given observations and
pooled points, labels are uniform wherever posteriors are right, so a group of such simulations is
named with a probability of at most the level, however wrong the others are.

Whether errors depend on the observations at all is tested by permuting the ranks of simulations
among the groups, which is exact even if posteriors are wrong everywhere alike.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from .._base import arguments
from .._base.types import RNG, Array, ArrayLike, Floats
from .._version import __version__
from ..checks.features import Features
from ..checks.labellings import MOST_CHOSEN, Part
from ..checks.parameters import Effects, measure
from ..checks.statistics import adjusted, standardise
from ..checks.swaps import added, enough_swaps, needs_at_least
from ..regions import HalfLines
from ..simulations import Simulations, shapes
from ..simulations.views import equalised
from . import words
from .groups import features, groups, is_fine
from .maps import Atlas, Curve, Map, tested
from .places import Place, Sums
from .windows import windows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PERMUTATIONS = 999
_AT_ONCE = 2**21  # scores of permuted simulations


@dataclass(frozen=True, eq=False, repr=False)
class Where:
    """Where posteriors are wrong.

    Arguments:
        places: The groups in which errors are largest and that say different things, at most
            four.
        p_value: The smallest adjusted p-value of all groups.
        depends: The p-value of errors being the same for all observations; small if they depend
            on them.
        elsewhere: Whether nothing was found without the simulations of the places.
        features: The names of the features by which groups were made.
        n_groups: The number of groups.
        n_sims: The number of simulations.
        level: The level of the test.
        critical: The number of standard errors of intervals that hold for all groups at once.
        seed: The integer that reproduces the answer, as `rng=`.
        atlas: What maps and curves are made of.
    """

    places: tuple[Place, ...]
    p_value: float
    depends: float
    elsewhere: bool
    features: tuple[str, ...]
    n_groups: int
    n_sims: int
    level: float
    critical: float
    seed: int
    atlas: Atlas

    @property
    def outcome(self) -> str:
        """One of "inaccurate in places", "inaccurate everywhere" and "nothing found"."""
        if self.p_value > self.level:
            return "nothing found"
        everywhere = self.places and all(not place.sides for place in self.places)
        return "inaccurate everywhere" if everywhere else "inaccurate in places"

    def map(
        self,
        kind: str = "width",
        *,
        features: Sequence[str] | None = None,
        parameter: str | None = None,
    ) -> Map:
        """Return the errors of one kind in windows all over two features.

        Windows are tested together, apart from the groups of `places`: the probability of a
        p-value below the level in any window with accurate posteriors is at most the level.

        Arguments:
            kind: `"bias"` or `"width"`.
            features: Two of the first four features; by default those with the largest error.
            parameter: The name of a parameter; by default the worst, or all together.
        """
        return self.atlas.map(kind, features, parameter)

    def curve(
        self, kind: str = "bias", *, feature: str | None = None, parameter: str | None = None
    ) -> Curve:
        """Return the errors of one kind along a feature.

        The intervals hold for all bins of all features and parameters at once.

        Arguments:
            kind: `"bias"`, `"width"`, or `"coverage"` of the central 68 % of the draws.
            feature: The name of a feature; by default the one with the clearest error.
            parameter: The name of a parameter; by default the worst, or all together.
        """
        return self.atlas.curve(kind, feature, parameter)

    def plot(self) -> "Figure":
        """Draw maps of bias and width side by side; curves if there is only one feature."""
        from .. import plots

        draw = plots.map if len(self.features) > 1 else plots.along
        kinds = ("bias", "width")
        return plots.side_by_side(*(partial(draw, self, kind=kind) for kind in kinds))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "schema": "tarpon-where-1",
            "outcome": self.outcome,
            "p_value": self.p_value,
            "depends": self.depends,
            "places": [asdict(place) | {"text": str(place)} for place in self.places],
            "elsewhere": self.elsewhere,
            "features": list(self.features),
            "n_groups": self.n_groups,
            "n_sims": self.n_sims,
            "level": self.level,
            "critical": self.critical,
            "seed": self.seed,
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        first = f": {self.places[0]}" if self.places else ""
        return f"where, {self.n_sims} simulations: {self.outcome}{first}"

    def __str__(self) -> str:
        return words.where(self)


def where(
    sims: Simulations,
    *,
    names_x: Sequence[str] | None = None,
    summary: Callable[[Array], ArrayLike] | None = None,
    x_o: ArrayLike | None = None,
    level: float = 0.05,
    n_swaps: int = 999,
    rng: RNG = None,
) -> Where:
    """Find the part of data space where posteriors are wrong.

    Arguments:
        sims: The simulations. Without observations, groups are made by posterior means.
        names_x: The names of the numbers of an observation, or of its summary.
        summary: A function of the observations that returns what groups are to be made by, at
            most twelve numbers each; of more numbers the leading principal components are used,
            and posterior means.
        x_o: An observation to mark in maps and curves; it changes nothing else.
        level: The probability of naming any group in which posteriors are right.
        n_swaps: The number of swaps.
        rng: A seed or a generator.

    Returns:
        A `Where`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(1000, 2))
        >>> width = np.where(x[:, :1] > 1, 0.5, 1)
        >>> draws = x + width * rng.normal(size=(50, 1000, 2))
        >>> sims = tarpon.Simulations(draws, x + rng.normal(size=(1000, 2)), x=x)
        >>> tarpon.where(sims, rng=0).places[0].sides[0].feature
        'x[0]'
    """
    arguments.instance("sims", sims, Simulations, "`Simulations`: tarpon.Simulations(...)")
    shapes.needs_parameters(sims.n_dims)
    needs_at_least(sims.n_sims, sims.n_draws)
    if summary is not None:
        arguments.function("summary", summary, "a function of the observations")
    level, seed = arguments.probability("level", level), arguments.seed(rng)
    n_swaps = enough_swaps(n_swaps, level)
    swapping, ties, permute = np.random.default_rng(seed).spawn(3)
    sims = equalised(sims, np.random.default_rng([seed, 1]))
    values, names, star = features(sims, names_x, summary, x_o)
    found, fine = tuple(groups(values, names, sims.n_dims)), is_fine(sims.n_sims, sims.n_dims)
    members = np.stack([group.members for group in found], axis=1).astype(np.float32)
    mapped = windows(values, fine=fine)
    both, effects = _sums(
        sims, np.concatenate([members, mapped.members], axis=1), n_swaps, swapping, ties
    )
    sums, of_windows = both[..., : len(found)].reshape(len(both), -1), both[..., len(found) :]
    p_values = adjusted(abs(sums)).reshape(-1, len(found))
    critical = float(np.quantile(abs(sums).max(axis=1), 1 - level))
    depends = _depends(effects.scores, members, permute)
    map_sums, map_p_values, map_critical = tested(of_windows, level)
    study = Sums(sims.names or (), found, sums[0].reshape(p_values.shape), p_values, effects)
    places, elsewhere = study.named(level, critical, everywhere=depends > level)
    return Where(
        tuple(places), float(p_values.min()), depends, elsewhere, tuple(names),
        len(found), sims.n_sims, level, critical, seed,
        Atlas(
            sims.names or (), names, values, mapped, map_sums, map_p_values, effects,
            map_critical, {group.sides: p_values[:, g] for g, group in enumerate(found)},
            critical, level, fine, star,
        ),
    )  # fmt: skip


def _sums(
    sims: Simulations, members: Floats, n_swaps: int, swapping: Generator, ties: Generator
) -> tuple[Floats, Effects]:
    """Return standardised sums `(n_rows, n_scores, n_groups)`, and the effects.

    The scores are the biases of all parameters, their widths, and the width of all together.
    """
    n_dims = min(sims.n_dims, MOST_CHOSEN)
    nothing = np.zeros((sims.n_sims, sims.n_dims), dtype=np.float32)
    by_group = Features(
        members, np.zeros(members.shape[1]), members.shape[1], np.zeros((0, 2), dtype=int),
        np.zeros(0, dtype=int), nothing, nothing, np.arange(members.shape[1]), principal=False,
    )  # fmt: skip
    totals, recipe = added(
        sims, {"marginals": Part(HalfLines())}, by_group, np.arange(n_dims),
        n_swaps=n_swaps, rng=swapping, measure=measure,
    )  # fmt: skip
    bias, width = totals.products["data"], totals.products["data_width"]
    every = np.concatenate([bias, width, width.sum(axis=1, keepdims=True)], axis=1)
    sums = standardise(every, recipe.n_rows, copy=False)
    return sums, Effects.of(sims, totals.joined_measured(), ties)


def _depends(scores: Floats, members: Floats, rng: Generator) -> float:
    """Return the p-value of the largest sum of scores in a group, by permuting simulations.

    Arguments:
        scores: The normal scores of the ranks of truths, `(n_sims, n_dims)`.
        members: Which simulations belong to each group, `(n_sims, n_groups)`.
        rng: The generator of the permutations.
    """
    n = len(scores)
    both = np.concatenate([scores, scores**2, (scores**2).sum(axis=1, keepdims=True)], axis=1)
    both -= both.mean(axis=0)
    both = (both / np.maximum(both.std(axis=0), 1e-300)).astype(np.float32)
    size = members.sum(axis=0)
    scale = np.sqrt(np.maximum(size * (n - size) / (n - 1), 1e-9))
    inner = (size > 0) & (size < n)
    unit = members[:, inner] / scale[inner]
    largest = [abs(both.T @ unit).max(initial=0.0)]
    n_together = max(1, _AT_ONCE // both.size)
    while len(largest) <= _PERMUTATIONS:
        orders = rng.permuted(np.tile(np.arange(n), (n_together, 1)), axis=1)
        some = both[orders].swapaxes(1, 2).reshape(-1, n) @ unit
        largest += abs(some).reshape(n_together, -1).max(axis=1, initial=0.0).tolist()
    compared = np.array(largest[: _PERMUTATIONS + 1])
    return float((compared >= compared[0] - 1e-6).mean())

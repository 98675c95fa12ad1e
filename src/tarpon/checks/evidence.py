"""Evidence: what stands behind the words of a check, for its tables and figures."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..ranks import Ranks
from ..results import Result
from ..simulations import Simulations, units
from ..simulations.weights import Draws
from ..verdict import Reading
from .families import MOST_FEATURES, SCORE
from .parameters import Effects
from .statistics import adjusted, log_ratio
from .swaps import RANK, Sums

_MOST_KEPT = 10
_MOST_TRENDS = 4
_MOST_BINS, _FEWEST_IN_BIN = 8, 15

Item = TypeVar("Item")


@dataclass(frozen=True)
class Pair:
    """Two parameters, and how the normal scores of their ranks correlate.

    Arguments:
        names: Their names.
        truths: The correlation of the truths.
        draws: The same of the draws: for accurate posteriors they agree up to noise.
        p_value: Exact, and adjusted for the number of pairs.
    """

    names: tuple[str, str]
    truths: float
    draws: float
    p_value: float


@dataclass(frozen=True)
class Direction:
    """One parameter, given those before it, and how far it is off in standard errors.

    Arguments:
        name: Its name.
        given: The number of parameters before it.
        bias: The shift of the truths among the draws.
        width: The scatter of the truths among the draws.
        p_value: Exact, and adjusted for the number of directions.
    """

    name: str
    given: int
    bias: float
    width: float
    p_value: float


@dataclass(frozen=True)
class Trend:
    """How an error changes with something that is known before the truth.

    Arguments:
        name: The parameter whose bias changes; none if it is the width of all.
        along: What it changes with; the data are standardised.
        place: The median of that in each bin, `(n_bins,)`.
        error: Bias or width in each bin, as in `Parameter`, with 95 % intervals.
        p_value: Exact, and adjusted for everything of the kind that was looked at.
    """

    name: str | None
    along: str
    place: tuple[float, ...]
    error: tuple[Estimate, ...]
    p_value: float


@dataclass(frozen=True)
class Looked(Generic[Item]):
    """Everything of one kind that was looked at, and the worst of it.

    Arguments:
        n: How many there were.
        n_failed: How many have a p-value of the level of the check or less.
        worst: The worst few, worst first, whether they failed or not.
    """

    n: int
    n_failed: int
    worst: tuple[Item, ...]

    @property
    def failed(self) -> tuple[Item, ...]:
        """Those of the worst that failed."""
        return self.worst[: self.n_failed]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What stands behind the words of a check.

    Arguments:
        marginals: The ranks of every parameter. Ties are broken as the check broke them.
        joint: The ranks of all parameters together: by the distance from the centre of the
            draws, by the estimator's density if given, by your own scores. May be empty.
        pairs: Correlations.
        directions: Parameters, given those before them.
        slopes: Biases that follow the posterior's mean.
        by_data: Biases that follow the data.
        widths: Widths that follow the data.
        has_x: Whether observations were given.
    """

    marginals: Result
    joint: tuple[Result, ...]
    pairs: Looked[Pair]
    directions: Looked[Direction]
    slopes: Looked[Trend]
    by_data: Looked[Trend]
    widths: Looked[Trend]
    has_x: bool

    @classmethod
    def of(
        cls,
        sims: Simulations,
        sums: Sums,
        effects: Effects,
        data: Array | None,
        *,
        level: float,
        seed: int,
    ) -> "Evidence":
        """Return the evidence in the sums of a swap test."""
        names, label = tuple(sims.names or ()), "x" if data is sims.x else "summary(x)"
        draws = sims.draws
        feature = _feature_names(names, data, label, sums)
        trends = _Trends(names, sums, effects, feature, level, units.of(sims))
        return cls(
            _marginals(effects.ranks, names, seed, draws),
            tuple(_joint(sums.measured, effects.ranks.n_draws, seed, draws)),
            _pairs(names, sums, level),
            _directions(names, sums, level),
            trends.slopes(),
            trends.by_data(),
            trends.widths(),
            sims.x is not None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what failed, by kind."""
        kinds = ("pairs", "directions", "slopes", "by_data", "widths")
        return {
            kind: {
                "n": getattr(self, kind).n,
                "n_failed": getattr(self, kind).n_failed,
                "failed": [asdict(item) for item in getattr(self, kind).failed],
            }
            for kind in kinds
        }


def marginal_p_values(sums: Sums) -> Floats:
    """Return a p-value of each parameter, adjusted for their number."""
    return adjusted(log_ratio(sums.moments["marginals"][: sums.n_rows]).sum(axis=1))


def _marginals(ranks: Ranks, names: tuple[str, ...], seed: int, draws: Draws) -> Result:
    # As small as they can be, since there is one for every simulation and parameter.
    values = ranks.values.astype(np.min_scalar_type(ranks.n_draws))
    return Result("SBC", Ranks(values, ranks.n_draws), Reading.SIDE, names, seed, draws)


def _joint(measured: dict[str, Array], n_draws: int, seed: int, draws: Draws) -> Iterable[Result]:
    known = {"centre": "distance from the centre", "density": "the estimator's density"}
    for name, values in measured.items():
        part = name.removeprefix(RANK)
        if name.startswith(RANK) and (part in known or part.startswith(SCORE)):
            ranks = Ranks(np.asarray(values).astype(np.int64), n_draws)
            reading = Reading.OUTWARD if part in known else Reading.MIXED
            named = known.get(part, part.removeprefix(SCORE))
            yield Result("joint", ranks, reading, (named,), seed, draws)


def _ranked(
    statistics: Floats, level: float, item: Callable[[int, float], Item], most: int = _MOST_KEPT
) -> Looked[Item]:
    """Return what was looked at by statistics `(n_rows, n)`, of which large ones are suspect."""
    if not statistics.shape[1]:
        return Looked(0, 0, ())
    p_values = adjusted(statistics)
    order = np.lexsort((-statistics[0], p_values))[:most]
    return Looked(
        len(p_values),
        int((p_values <= level).sum()),
        tuple(item(int(k), float(p_values[k])) for k in order),
    )


def _pairs(names: tuple[str, ...], sums: Sums, level: float) -> Looked[Pair]:
    a, b = np.triu_indices(len(sums.chosen), 1)
    truths, draws = sums.correlations[:, a, b]

    def pair(k: int, p_value: float) -> Pair:
        first, second = (names[sums.chosen[side[k]]] for side in (a, b))
        return Pair((first, second), float(truths[k]), float(draws[k]), p_value)

    return _ranked(abs(sums.pairs[:, a, b]), level, pair)


def _directions(names: tuple[str, ...], sums: Sums, level: float) -> Looked[Direction]:
    if "residuals" not in sums.moments:
        return Looked(0, 0, ())
    moments = sums.moments["residuals"][: sums.n_rows]

    def direction(k: int, p_value: float) -> Direction:
        bias, width = moments[0, :2, k]
        return Direction(names[k], k, float(bias), float(width), p_value)

    return _ranked(log_ratio(moments[:, :3]).sum(axis=1), level, direction)


def _feature_names(
    names: tuple[str, ...], data: Array | None, label: str, sums: Sums
) -> Callable[[int], str]:
    """Return what the features of the data are called."""
    if data is None:
        return lambda k: f"the posterior mean of {names[k]}"
    size = prod(data.shape[1:])
    if size > MOST_FEATURES:
        return lambda k: f"principal component {k + 1} of {label}"
    if size > sums.features.shape[1]:
        return lambda k: f"number {k} of those of {label} that vary"
    return lambda k: label if size == 1 else f"{label}[{k}]"


@dataclass(frozen=True, eq=False)
class _Trends:
    """Finds out how errors change with what is known."""

    names: tuple[str, ...]
    sums: Sums
    effects: Effects
    feature: Callable[[int], str]
    level: float
    unit: Floats

    def slopes(self) -> Looked[Trend]:
        return self._found(
            abs(self.sums.slope[: self.sums.n_rows]),
            lambda k: (k, "its posterior mean", self.unit[k] * self.effects.mean[:, k]),
        )

    def by_data(self) -> Looked[Trend]:
        data = abs(self.sums.data)
        n_features = data.shape[2]

        def bias(place: int) -> tuple[int, str, Floats]:
            k, feature = divmod(place, n_features)
            return int(self.sums.chosen[k]), *self._feature(feature)

        return self._found(data.reshape(len(data), -1), bias)

    def widths(self) -> Looked[Trend]:
        return self._found(abs(self.sums.data_width), lambda k: (None, *self._feature(k)))

    def _feature(self, k: int) -> tuple[str, Floats]:
        return self.feature(k), self.sums.features[:, k]

    def _found(
        self, statistics: Floats, look: Callable[[int], tuple[int | None, str, Floats]]
    ) -> Looked[Trend]:
        def trend(place: int, p_value: float) -> Trend:
            k, along, values = look(place)
            bins = _bins(values)
            some = [self.effects.some(where) for where in bins]
            return Trend(
                None if k is None else self.names[k],
                along,
                tuple(float(np.median(values[where])) for where in bins),
                tuple(each.width() if k is None else each.bias(k) for each in some),
                p_value,
            )

        return _ranked(statistics, self.level, trend, _MOST_TRENDS)


def _bins(values: Floats) -> list[Ints]:
    """Return which simulations are in bins with about as many of them each."""
    n_bins = max(1, min(_MOST_BINS, len(values) // _FEWEST_IN_BIN))
    return np.array_split(np.argsort(values, kind="stable"), n_bins)

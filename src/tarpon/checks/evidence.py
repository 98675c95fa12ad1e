"""Evidence: the ranks, pairs, directions and trends behind the findings of a check."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from .._base.types import Array, Floats
from ..ranks import Ranks
from ..results import Result
from ..simulations import Simulations
from ..simulations.fields import Places
from ..simulations.weights import Draws
from ..verdict import Reading
from .cells import Cell, cells, places
from .comparing import Energy, Scores
from .examples import Example, spread
from .fields import Field
from .flaws import Trend
from .parameters import Effects
from .products import apart, pairs
from .scales import Band, bands
from .scoring import LogScores
from .statistics import adjusted, any_of, log_ratio, row_p_values, standardise
from .swaps import Sums
from .trends import Trends, label
from .values import Few, Value

_MOST_KEPT = 10
_MOST_TRENDS = 4

Item = TypeVar("Item")


@dataclass(frozen=True)
class Pair:
    """Two parameters, and how the normal scores of their ranks correlate.

    Arguments:
        names: The names of the parameters.
        truths: The correlation of the truths.
        draws: The correlation of the draws: for accurate posteriors they agree up to noise.
        p_value: Exact, and adjusted for the number of pairs.
    """

    names: tuple[str, str]
    truths: float
    draws: float
    p_value: float


@dataclass(frozen=True)
class Direction:
    """One parameter given those before it, with its errors in standard errors.

    Arguments:
        name: The name of the parameter.
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
class Tested(Generic[Item]):
    """All pairs, directions or trends that were tested, and the worst of them.

    Arguments:
        n: The number of them.
        n_failed: The number with a p-value at or below the level of the check.
        worst: The worst few, worst first, whether they failed or not.
    """

    n: int
    n_failed: int
    worst: tuple[Item, ...]

    @property
    def failed(self) -> tuple[Item, ...]:
        """The worst few, as far as they failed."""
        return self.worst[: self.n_failed]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The numbers behind the findings of a check.

    Arguments:
        marginals: The ranks of every parameter. Ties are broken as the check broke them.
        joint: The ranks of all parameters together: by the distance from the centre of the
            draws, by the estimator's density if given, by your own scores. May be empty.
        pairs: Correlations.
        directions: Parameters, given those before them.
        slopes: Biases along the parameter's own posterior mean.
        by_data: Biases along the data.
        widths: Widths along the data.
        energy: The energy score of every simulation, to compare estimators.
        values: How often each value of parameters that take few is drawn, and how often it is
            the truth: in all simulations, and in bins of its share among the draws.
        has_x: Whether observations were given.
        log_scores: The log-densities of the truths, if given.
        bands: Of fields, the power and the width of the truths over those of the draws in every
            band, smallest scales first, with exact simultaneous limits for accurate posteriors.
        places: Of fields, the places of the cells, or blocks of cells, whose errors are known.
        cells: Of fields with many cells, the errors of blocks of cells that are smaller than those
            that are parameters.
        examples: Of fields, the simulations with the smallest, the median and the largest residual
            of all cells.
    """

    marginals: Result
    joint: tuple[Result, ...]
    pairs: Tested[Pair]
    directions: Tested[Direction]
    slopes: Tested[Trend]
    by_data: Tested[Trend]
    widths: Tested[Trend]
    energy: Scores
    values: tuple[Value, ...]
    has_x: bool
    log_scores: LogScores | None
    bands: tuple[Band, ...] = ()
    places: Places | None = None
    cells: tuple[Cell, ...] = ()
    examples: tuple[Example, ...] = ()

    @classmethod
    def of(
        cls,
        sims: Simulations,
        sums: Sums,
        effects: Effects,
        data: Array | None,
        energy: Energy,
        *,
        level: float,
        seed: int,
        log_scores: LogScores | None,
        field: Field | None,
        whole: Simulations,
    ) -> "Evidence":
        """Return the evidence in the sums of a swap test."""
        names, draws = tuple(sims.names or ()), sims.draws
        trends = Trends.of(sims, sums, effects, data, label(sims, data))
        return cls(
            _marginals(effects.ranks, names, seed, draws),
            tuple(_joint(sums, effects.ranks.n_draws, seed, draws)),
            _pairs(names, sums, level),
            _directions(names, sums, level),
            _slopes(trends, level),
            _by_data(trends, level),
            _widths(trends, level),
            Scores(sums.measured["energy"], energy.truths),
            tuple(table(effects, names, trends.unit)),
            sims.x is not None,
            log_scores,
            bands(field, sums, level, np.random.default_rng([seed, 2])) if field else (),
            places(sims, field) if field else None,
            tuple(cells(sims, field, sums, np.random.default_rng([seed, 3]))) if field else (),
            spread(whole, field.misfit) if field else (),
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
        } | {
            "values": [asdict(value) for value in self.values],
            "bands": [asdict(band) for band in self.bands],
        }


def marginal_p_values(sums: Sums, few: Few = Few()) -> Floats:
    """Return the p-value of each parameter, adjusted for their number."""
    statistics = log_ratio(sums.moments["marginals"][: sums.n_rows]).sum(axis=1)
    if few:
        by_value = sums.moments["values"][: sums.n_rows]
        for k in few.values:
            statistics[:, k] = any_of(by_value[..., few.of_parameter(k)])
        # Statistics of two kinds are compared by their p-values.
        statistics = -np.log(row_p_values(statistics, sums.n_rows))
    return adjusted(statistics)


def table(effects: Effects, names: Sequence[str], unit: Floats) -> Iterable[Value]:
    """Yield how often values are drawn, and how often they are the truth."""
    for k, shares in effects.few.items():
        yield from shares.table(names[k], float(unit[k]))


def _marginals(ranks: Ranks, names: tuple[str, ...], seed: int, draws: Draws) -> Result:
    # In as few bytes as possible, since there is one per simulation and parameter.
    values = ranks.values.astype(np.min_scalar_type(ranks.n_draws))
    return Result("SBC", Ranks(values, ranks.n_draws), Reading.SIDE, names, seed, draws)


def _joint(sums: Sums, n_draws: int, seed: int, draws: Draws) -> Iterable[Result]:
    known = {"centre": "distance from the centre", "density": "the estimator's density"}
    for part, ranks in sums.ranks.items():
        if part in known or part in sums.own:
            reading = Reading.OUTWARD if part in known else Reading.MIXED
            name = known[part] if part in known else sums.own[part]
            values = Ranks(np.asarray(ranks).astype(np.int64), n_draws)
            yield Result("joint", values, reading, (name,), seed, draws)


def _ranked(
    statistics: Floats, level: float, item: Callable[[int, float], Item], most: int = _MOST_KEPT
) -> Tested[Item]:
    """Return all items by their statistics `(n_rows, n)`, of which the largest are worst."""
    if not statistics.shape[1]:
        return Tested(0, 0, ())
    p_values = adjusted(statistics)
    order = np.lexsort((-statistics[0], p_values))[:most]
    return Tested(
        len(p_values),
        int((p_values <= level).sum()),
        tuple(item(int(k), float(p_values[k])) for k in order),
    )


def _pairs(names: tuple[str, ...], sums: Sums, level: float) -> Tested[Pair]:
    kept, sums = apart(len(sums.chosen)), sums.unbiased
    a, b = pairs(len(sums.chosen))[kept].T
    truths, draws = sums.correlations[0, kept], sums.correlations.mean(axis=0)[kept]

    def pair(k: int, p_value: float) -> Pair:
        first, second = (names[sums.chosen[side[k]]] for side in (a, b))
        return Pair((first, second), float(truths[k]), float(draws[k]), p_value)

    return _ranked(abs(sums.products["pairs"][:, kept]), level, pair)


def _directions(names: tuple[str, ...], sums: Sums, level: float) -> Tested[Direction]:
    if "residuals" not in sums.moments:
        return Tested(0, 0, ())
    moments = sums.moments["residuals"][: sums.n_rows]

    def direction(k: int, p_value: float) -> Direction:
        bias, width = moments[0, :2, k]
        return Direction(names[k], k, float(bias), float(width), p_value)

    return _ranked(log_ratio(moments[:, :3]).sum(axis=1), level, direction)


def _trends(
    statistics: Floats, level: float, trend: Callable[[int, float], Trend]
) -> Tested[Trend]:
    """Return all trends by their statistics, of which the largest are worst."""
    return _ranked(abs(statistics).reshape(len(statistics), -1), level, trend, _MOST_TRENDS)


def _slopes(trends: Trends, level: float) -> Tested[Trend]:
    return _trends(
        trends.sums.along[: trends.sums.n_rows, 0, 0],
        level,
        lambda k, p_value: trends.bias(k, trends.along_mean(k), p_value),
    )


def _by_data(trends: Trends, level: float) -> Tested[Trend]:
    sums, n_plain = trends.sums, trends.sums.features.plain

    def trend(place: int, p_value: float) -> Trend:
        k, feature = divmod(place, n_plain)
        return trends.bias(int(sums.chosen[k]), trends.along(feature), p_value)

    return _trends(sums.products["data"][..., :n_plain], level, trend)


def _widths(trends: Trends, level: float) -> Tested[Trend]:
    whole = standardise(trends.sums.products["data_width"].sum(axis=1), trends.sums.n_rows)
    return _trends(whole, level, lambda k, p_value: trends.width(None, trends.along(k), p_value))

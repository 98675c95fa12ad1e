"""Findings: the flaws that the swap test names, where they are, and how large."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from .._base.text import Estimate
from .._base.types import Floats
from ..ranks import proportion
from ..simulations import Simulations
from .confounders import Remaining
from .parameters import Effects
from .products import pairs as both
from .statistics import adjusted, log_mean_exp, log_ratio, row_p_values, standardise
from .swaps import Sums

_FEWEST_FOR_RECOVERY = 20
_ALSO_THERE = 2.0  # standard errors from which a wrong width is one of all parameters
# A flaw may be named although its adjusted p-value is above the level, or although another flaw
# casts it as a shadow, but then its own p-value must be this many times below the level.
_STRICTER = 5
# Truths beyond all draws are named beside another flaw, so they must be many and clear.
_OUTSIDE_TIMES, _OUTSIDE_STRICTER = 4, 10


class Kind(StrEnum):
    """What can be wrong with posteriors."""

    BIASED = "biased"
    OVERCONFIDENT = "overconfident"
    UNDERCONFIDENT = "underconfident"
    SKEWED = "skewed"
    TAILS = "wrong tails"
    BIAS_BY_DATA = "bias by data"
    WIDTH_BY_DATA = "width by data"
    IGNORES_DATA = "ignores the data"
    UNUSED_DATA = "ignores a part of the data"
    CORRELATION = "wrong correlation"
    CORRELATION_BY_DATA = "correlation by data"
    COMBINATION = "wrong combination"
    DEPENDENCE = "wrong dependence"
    ROUNDED = "rounded"
    OUTSIDE = "outside the draws"
    SCORE = "wrong score"
    SHAPE = "wrong shape"


@dataclass(frozen=True)
class Finding:
    """A flaw as data; `str` gives it in words.

    Arguments:
        kind: What is wrong.
        parameters: The names of the parameters in which it is worst; none if it is in all.
        p_value: Exact, and adjusted for the number of flaws that are looked for.
        size: How large it is, with its 95 % interval, if one number says so: the bias, the
            scatter of the truths, their correlation, or the share of them beyond all draws.
        unit: The unit of the size.
        expected: What the size of accurate posteriors would be.
        direction: Where the draws lie (`"above"` or `"below"` the truths), on which side they
            miss a tail, or what their tails are (`"heavy"` or `"light"`).
        where: What the flaw depends on, `"x"` or `"the posterior mean"`; or the name of your
            own score.
    """

    kind: Kind
    parameters: tuple[str, ...]
    p_value: float
    size: Estimate | None = None
    unit: str | None = None
    expected: float | None = None
    direction: str | None = None
    where: str | None = None

    def __str__(self) -> str:
        from . import words

        return words.sentence(self)


_OTHERS = {Kind.SKEWED, Kind.TAILS, Kind.BIAS_BY_DATA, Kind.IGNORES_DATA, Kind.WIDTH_BY_DATA}
# What else a flaw may look like.
_SHADOWS = {
    Kind.BIASED: _OTHERS,
    Kind.OVERCONFIDENT: _OTHERS,
    Kind.UNDERCONFIDENT: _OTHERS,
    Kind.TAILS: {Kind.SKEWED},
}
_SHAPE = ("radial", "posterior balls", "random balls", "residuals", "density")


def findings(
    sims: Simulations, sums: Sums, families: Mapping[str, Floats], effects: Effects, level: float
) -> tuple[Finding, ...]:
    """Return what is wrong with posteriors that the test has rejected, worst first."""
    named = _named(sims, sums, families, effects, level)
    remaining = None
    if any(finding.kind in _SHADOWS for finding in named):
        remaining = Remaining.of(sums, effects)
        named = _without_shadows(named, remaining, level)
    if not named:
        seen = [families[name] for name in _SHAPE if name in families]
        p_value = min(float((values >= values[0]).mean()) for values in seen)
        named = [Finding(Kind.SHAPE, (), p_value)]
    return (*named, *_outside(sims, effects, remaining, level))


def warnings(effects: Effects, chained: str | None, dropped: str | None) -> tuple[str, ...]:
    """Return warnings about the draws, whatever the test says.

    Arguments:
        effects: What was measured of the draws.
        chained: The warning about chains, if the draws look like some.
        dropped: The warning about dropped simulations, if dropping does not look random.
    """
    told = [dropped] if dropped else []
    if chained:
        told.append(chained[:1].upper() + chained[1:])
    if len(effects.truth) >= _FEWEST_FOR_RECOVERY and not effects.recovered().any():
        told.append(
            "The draws are uncorrelated with the truths in every parameter: the estimator "
            "ignores the data, the data say nothing, or the axes are swapped."
        )
    return tuple(told)


@dataclass(frozen=True, eq=False)
class _Rejected:
    """What was measured of posteriors that the test has rejected, and how many flaws they have."""

    sims: Simulations
    sums: Sums
    effects: Effects
    n_flaws: int

    @property
    def along(self) -> str:
        """What errors may depend on: without observations, the place of the posterior."""
        return "the posterior mean" if self.sims.x is None else "x"

    def names(self, *places: int) -> tuple[str, ...]:
        names = tuple(self.sims.names or ())
        return tuple(names[k] for k in places)


def _named(
    sims: Simulations, sums: Sums, families: Mapping[str, Floats], effects: Effects, level: float
) -> list[Finding]:
    """Return the flaws that stand out, strongest first, shadows among them."""
    statistics, describe = zip(*_flaws(sums, families), strict=True)
    p = row_p_values(np.column_stack(statistics), sums.n_rows)
    single, among_all = p[0], adjusted(-np.log(p))
    order = np.argsort(single, kind="stable")
    # The whole has been rejected already, so a flaw that is clear on its own is named too.
    clear = (among_all <= level) | (single <= level / _STRICTER)
    kept = [k for k in order if clear[k]]
    # Rejected as a whole and no flaw on its own: the two likeliest.
    kept = kept or [k for k in order[:2] if single[k] <= level]
    rejected = _Rejected(sims, sums, effects, len(kept))
    described = (describe[k](rejected, float(among_all[k])) for k in kept)
    return [finding for finding in described if finding is not None]


def _without_shadows(named: list[Finding], remaining: Remaining, level: float) -> list[Finding]:
    """Return the findings, strongest first, that others do not explain.

    What is stronger than another is seldom its shadow, so less has to remain of it.
    """
    p_values = {
        Kind.SKEWED: remaining.skewed,
        Kind.TAILS: remaining.tails,
        Kind.BIAS_BY_DATA: remaining.bias_by_data,
        Kind.IGNORES_DATA: remaining.bias_by_data,
        Kind.WIDTH_BY_DATA: remaining.width_by_data,
    }
    kept = []
    for place, finding in enumerate(named):
        kind = finding.kind
        casters = [k for k, other in enumerate(named) if kind in _SHADOWS.get(other.kind, ())]
        limit = level if place < min(casters, default=0) else level / _STRICTER
        if not casters or p_values[kind] <= limit:
            kept.append(finding)
    return kept


# Makes a finding of a flaw with its p-value; None if a closer look shows nothing.
_Describe = Callable[[_Rejected, float], Finding | None]


def _flaws(sums: Sums, families: Mapping[str, Floats]) -> Iterator[tuple[Floats, _Describe]]:
    """Yield the statistic of every flaw that is looked for, `(n_rows,)`, and its description."""
    n_rows = sums.n_rows
    marginals = sums.moments["marginals"][:n_rows]
    ratios = log_ratio(marginals)
    whole = standardise(marginals.sum(axis=2), n_rows)
    # For scaled normal draws the fourth moment follows the second: the rest is due to tails.
    typical = marginals[:, 1].mean(axis=1) / np.sqrt(sums.n_sims)
    tails = marginals[:, 3] - np.sqrt(1.5 * sums.n_sims) * typical[:, None] ** 2
    all_tails = log_ratio(standardise(tails.sum(axis=1), n_rows))
    slope = families["slope"]
    yield families["bias"], _biased
    yield np.logaddexp(log_ratio(whole[:, 1]), log_mean_exp(ratios[:, 1])), _width
    yield log_mean_exp(ratios[:, 2]), _skewed
    yield np.logaddexp(all_tails, log_mean_exp(log_ratio(tails))), _tails
    yield np.logaddexp(slope, families.get("data", slope)), _bias_by_data
    if "data width" in families:
        yield families["data width"], _width_by_data
    if "pairs" in families:
        yield families["pairs"], _correlation
    if "ties" in families:
        yield families["ties"], lambda _, p_value: Finding(Kind.ROUNDED, (), p_value)
    for part, name in sums.own.items():
        yield families[part], partial(_score, name)


def _biased(rejected: _Rejected, p_value: float) -> Finding:
    k = _strongest(rejected.sums.moments["marginals"][0, 0])
    bias = rejected.effects.bias(k)
    return Finding(
        Kind.BIASED, rejected.names(k), p_value,
        size=bias, unit="posterior sd", expected=0.0,
        direction="above" if bias.value > 0 else "below",
    )  # fmt: skip


def _width(rejected: _Rejected, p_value: float) -> Finding | None:
    n_rows = rejected.sums.n_rows
    single = rejected.sums.moments["marginals"][:n_rows, 1]
    k = _strongest(single[0])
    sign = np.sign(single[0, k])
    others = float(standardise(single.sum(axis=1) - single[:, k], n_rows)[0])
    everywhere = single.shape[1] > 1 and sign * others >= _ALSO_THERE
    factor = rejected.effects.width(None if everywhere else k)
    right = (factor.low <= 1 <= factor.high) or (factor.value > 1) != (sign > 0)
    if right and rejected.n_flaws > 1:
        return None  # the sd is right, and something else is wrong
    return Finding(
        Kind.OVERCONFIDENT if sign > 0 else Kind.UNDERCONFIDENT,
        () if everywhere else rejected.names(k), p_value,
        size=factor, unit="width of the draws", expected=1.0,
    )  # fmt: skip


def _skewed(rejected: _Rejected, p_value: float) -> Finding:
    third = rejected.sums.moments["marginals"][0, 2]
    k = _strongest(third)
    missing = "above" if third[k] > 0 else "below"
    return Finding(Kind.SKEWED, rejected.names(k), p_value, direction=missing)


def _tails(rejected: _Rejected, p_value: float) -> Finding:
    heavy = rejected.sums.moments["marginals"][0, 3].sum() < 0
    return Finding(Kind.TAILS, (), p_value, direction="heavy" if heavy else "light")


def _bias_by_data(rejected: _Rejected, p_value: float) -> Finding:
    sums, informed = rejected.sums, rejected.effects.informed()
    slope, data = abs(sums.along[0, 0, 0]), abs(sums.products["data"][0, :, : sums.features.plain])
    k = _strongest(slope)
    if data.size and data.max() > slope.max():
        k = int(sums.chosen[np.unravel_index(np.argmax(data), data.shape)[0]])
    if not informed[k]:
        names = rejected.names(k) if informed.any() else ()
        return Finding(Kind.IGNORES_DATA, names, p_value)
    return Finding(Kind.BIAS_BY_DATA, rejected.names(k), p_value, where=rejected.along)


def _width_by_data(rejected: _Rejected, p_value: float) -> Finding:
    return Finding(Kind.WIDTH_BY_DATA, (), p_value, where=rejected.along)


def _correlation(rejected: _Rejected, p_value: float) -> Finding:
    sums = rejected.sums
    every = both(len(sums.chosen))
    at = int(np.argmax(np.where(every[:, 0] < every[:, 1], abs(sums.products["pairs"][0]), -1)))
    (a, b), correlations = every[at], sums.correlations[:, at]
    truths, draws = float(correlations[0]), float(correlations.mean())
    return Finding(
        Kind.CORRELATION, rejected.names(int(sums.chosen[a]), int(sums.chosen[b])), p_value,
        size=_correlated(truths, sums.n_sims), unit="correlation", expected=draws,
    )  # fmt: skip


def _correlated(correlation: float, n_sims: int) -> Estimate:
    """Return a correlation with its interval, by Fisher's transformation."""
    z = np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))
    half = 1.96 / np.sqrt(max(n_sims - 3, 1))
    return Estimate(correlation, float(np.tanh(z - half)), float(np.tanh(z + half)))


def _score(name: str, _: _Rejected, p_value: float) -> Finding:
    return Finding(Kind.SCORE, (), p_value, where=name)


def _strongest(values: Floats) -> int:
    return int(np.argmax(abs(values)))


def _outside(
    sims: Simulations, effects: Effects, remaining: Remaining | None, level: float
) -> tuple[Finding, ...]:
    """Return whether truths lie beyond all of their draws more often than draws would."""
    from scipy.special import bdtrc

    if sims.weighted:
        return ()  # the expected number of such truths is not known
    outside = effects.outside.sum(axis=0)
    n_sims, expected = sims.n_sims, 2 / (sims.n_draws + 1)
    explained = expected if remaining is None else np.maximum(remaining.outside, expected)
    p = bdtrc(np.maximum(outside - 1, 0), n_sims, explained) * sims.n_dims
    k = int(np.argmin(np.where(outside > 0, p, 1.0)))
    if outside[k] <= _OUTSIDE_TIMES * n_sims * expected or p[k] > level / _OUTSIDE_STRICTER:
        return ()
    return (
        Finding(
            Kind.OUTSIDE, ((sims.names or ())[k],), float(min(1.0, p[k])),
            size=proportion(int(outside[k]), n_sims), unit="share of the truths",
            expected=expected,
        ),
    )  # fmt: skip

"""Findings: which flaws the swap test names, without those that simpler ones explain."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .._base.types import Array, Floats
from ..ranks import proportion
from ..simulations import Simulations, alerts, warnings_of
from . import dependences, descriptions, scales, shares, words
from .descriptions import Candidate, Describe, Rejected
from .families import combinations
from .fields import Field
from .fits import Fitted
from .flaws import Finding, Kind
from .mistakes import Mistake
from .parameters import Effects
from .statistics import adjusted, any_of, log_mean_exp, log_ratio, row_p_values, standardise
from .swaps import Sums

UNCORRELATED = (
    "The draws are uncorrelated with the truths in every parameter: the estimator ignores the "
    "data, the data say nothing, or the axes are swapped."
)
_FEWEST_FOR_RECOVERY = 20
_MOST_OUTLIERS = 3  # parameters whose outliers are worth a warning
# A flaw may be named although its adjusted p-value is above the level, or although another flaw
# casts it as a shadow, but then its own p-value must be this many times below the level.
_STRICTER = 5
# Truths beyond all draws are named beside another flaw, so they must be many and clear.
_OUTSIDE_TIMES, _OUTSIDE_STRICTER = 4, 10

# Where at least this share of the truths lies beyond all draws, ranks show none of these.
_MOSTLY_OUTSIDE = 0.9
_OF_RANKS = {
    Kind.SKEWED, Kind.TAILS, Kind.CORRELATION, Kind.COMBINATION, Kind.DEPENDENCE, Kind.SHAPE,
    Kind.OUTSIDE,
}  # fmt: skip

_BY_DATA = {Kind.BIAS_BY_DATA, Kind.IGNORES_DATA, Kind.UNUSED_DATA, Kind.WIDTH_BY_DATA}
_OTHERS = _BY_DATA | {Kind.SKEWED, Kind.TAILS, Kind.CORRELATION_BY_DATA, Kind.DEPENDENCE}
_SCALES = {Kind.POWER, Kind.SCALES, Kind.PHASES, Kind.ANISOTROPY}
# What else a flaw may look like.
_SHADOWS = {
    Kind.BIASED: _OTHERS | _SCALES,
    Kind.OVERCONFIDENT: _OTHERS,
    Kind.UNDERCONFIDENT: _OTHERS,
    Kind.OUTLIERS: {Kind.TAILS},
    Kind.TAILS: {Kind.SKEWED, Kind.DEPENDENCE, Kind.COMBINATION, Kind.WIDTH_BY_DATA},
    Kind.SKEWED: {Kind.DEPENDENCE},
    Kind.BIAS_BY_DATA: {
        Kind.UNUSED_DATA, Kind.CORRELATION_BY_DATA, Kind.WIDTH_BY_DATA, Kind.CORRELATION,
        Kind.COMBINATION, Kind.OVERCONFIDENT, Kind.SKEWED, Kind.TAILS,
    },
    Kind.UNUSED_DATA: {Kind.OVERCONFIDENT, Kind.SKEWED, Kind.TAILS},
    Kind.IGNORES_DATA: {Kind.UNUSED_DATA, Kind.CORRELATION_BY_DATA, Kind.WIDTH_BY_DATA},
    Kind.CORRELATION: {Kind.COMBINATION, Kind.DEPENDENCE},
    Kind.ROUNDED: {Kind.DEPENDENCE, Kind.COMBINATION},
    Kind.ANISOTROPY: _SCALES,
}  # fmt: skip
# What wrong scales of a field do not explain: they change all widths, slopes and correlations.
_BESIDE_SCALES = {
    Kind.BIASED, Kind.IGNORES_DATA, Kind.OUTLIERS, Kind.ROUNDED, Kind.VALUES, Kind.SCORE,
    Kind.FIT, Kind.CELLS,
}  # fmt: skip
# What a flaw in few values does not explain in the same parameter.
_BESIDE_VALUES = {Kind.IGNORES_DATA, Kind.UNUSED_DATA, Kind.SCORE, Kind.FIT}
_OF_FIELDS = {
    "power": scales.power,
    "scales": scales.width,
    "phases": scales.phases,
    "anisotropy": scales.anisotropy,
    "cells": scales.cells,
    "regions": scales.regions,
}
_SHAPE = ("radial", "posterior balls", "random balls", "neighbours", "residuals", "density")


def findings(
    sims: Simulations,
    sums: Sums,
    families: Mapping[str, Floats],
    effects: Effects,
    data: Array | None,
    level: float,
    field: Field | None = None,
    fits: Mapping[str, Fitted] | None = None,
    clipped: Mistake | None = None,
) -> tuple[Finding, ...]:
    """Return what is wrong with posteriors that the test has rejected, worst first."""
    rejected = Rejected.of(sims, sums, effects, data, level, field, fits)
    found = _named(rejected, families)
    first, last = ([one for one in found if one.last is late] for late in (False, True))
    first = _beside_scales(_beside_values(first, rejected), level)
    named = _without_shadows(first, rejected) or [one.finding for one in last][:1]
    if not named:
        seen = [families[name] for name in _SHAPE if name in families]
        p_value = min(float((values >= values[0]).mean()) for values in seen)
        named = [shares.unnamed(rejected, p_value)]
    every = _beside_distant((*named, *_outside(rejected)), rejected)
    return every if clipped is None else _beside_clipped(every, clipped, rejected)


def warnings(
    sims: Simulations, effects: Effects, found: Sequence[Finding], dropped: str | None
) -> tuple[str, ...]:
    """Return warnings about the draws, whatever the test says.

    Arguments:
        sims: The simulations.
        effects: What was measured of the draws.
        found: The findings, which need no warning.
        dropped: The warning about dropped simulations, if dropping does not look random.
    """
    told = [dropped] if dropped else []
    told += [said[:1].upper() + said[1:] for said in (*warnings_of(sims), *alerts.of_draws(sims))]
    names = dict(enumerate(sims.names or ()))
    known = [name for one in found if one.kind is Kind.OUTLIERS for name in one.parameters]
    told += [
        words.outlying(one, names[one.dim], sims.n_sims)
        for one in effects.outliers[:_MOST_OUTLIERS]
        if names[one.dim] not in known
    ]
    if len(effects.truth) >= _FEWEST_FOR_RECOVERY and not effects.recovered().any():
        told.append(UNCORRELATED)
    return tuple(told)


def _named(rejected: Rejected, families: Mapping[str, Floats]) -> list[Candidate]:
    """Return the flaws that stand out, strongest first, shadows among them."""
    statistics, describe = zip(*_flaws(rejected, families), strict=True)
    p = row_p_values(np.column_stack(statistics), rejected.sums.n_rows)
    single, among_all, level = p[0], adjusted(-np.log(p)), rejected.level
    order = np.argsort(single, kind="stable")
    # The whole has been rejected already, so a flaw that is clear on its own is named too.
    clear = (among_all <= level) | (single <= level / _STRICTER)
    kept = [k for k in order if clear[k]]
    # Rejected as a whole and no flaw on its own: the two likeliest.
    kept = kept or [k for k in order[:2] if single[k] <= level]
    found = [found for k in kept for found in describe[k](rejected, float(among_all[k]))]
    return [candidate for candidate in found if not _contradicted(candidate.finding)]


def _contradicted(finding: Finding) -> bool:
    """Return whether the interval of a size says that nothing is wrong."""
    size, right = finding.size, finding.expected
    return size is not None and right is not None and size.low <= right <= size.high


def _beside_clipped(
    found: tuple[Finding, ...], clipped: Mistake, rejected: Rejected
) -> tuple[Finding, ...]:
    """Return the findings without those that clipped draws explain.

    Clipped draws equal each other and no truth, and truths lie beyond them.
    """
    every = rejected.names(*range(rejected.sims.n_dims))
    piled = set(rejected.names(*clipped.parameters) or every)
    explained = {Kind.OUTSIDE} | ({Kind.ROUNDED} if 2 * len(piled) > len(every) else set())
    return tuple(
        one for one in found if one.kind not in explained or not piled.issuperset(one.parameters)
    )


def _beside_distant(found: tuple[Finding, ...], rejected: Rejected) -> tuple[Finding, ...]:
    """Return the findings without those about ranks of truths that nearly all lie beyond draws.

    All that is known of them is how far away they are.
    """
    distant = np.flatnonzero(rejected.effects.outside.mean(axis=0) > _MOSTLY_OUTSIDE)
    names = set(rejected.names(*(int(k) for k in distant)))
    if rejected.field is not None or not names:
        return found
    left = [
        one
        for one in found
        if one.kind not in _OF_RANKS or names.isdisjoint(one.parameters or names)
    ]
    return tuple(left) or found


def _beside_values(named: list[Candidate], rejected: Rejected) -> list[Candidate]:
    """Return the candidates without those that a flaw in few values explains.

    Ranks among equal draws are random, so flaws of ranks say no more of these parameters; and
    draws with wrong shares tie with each other more or less often than with truths.
    """
    if not any(candidate.by_value for candidate in named):
        return named
    every = rejected.names(*range(rejected.sims.n_dims))
    few = set(rejected.names(*rejected.effects.few))
    return [
        candidate
        for candidate in named
        if candidate.by_value
        or candidate.finding.kind in _BESIDE_VALUES
        or (
            candidate.finding.kind is not Kind.ROUNDED
            and not few.issuperset(candidate.finding.parameters or every)
        )
    ]


def _beside_scales(named: list[Candidate], level: float) -> list[Candidate]:
    """Return the candidates without those that wrong scales of a field explain.

    Any other flaw of a field also changes the distribution of its cells; but only a bias makes it
    skewed. What is named beside wrong scales, or beside a wrong fit to the data, must be clear
    among all flaws.
    """
    if any(candidate.finding.kind is Kind.FIT for candidate in named):
        named = [c for c in named if c.finding.kind is Kind.FIT or c.finding.p_value <= level]
    kinds = {candidate.finding.kind for candidate in named}
    named = [c for c in named if _says_more(c.finding, kinds)] or named
    if not any(candidate.by_scale for candidate in named):
        return named
    return [
        candidate
        for candidate in named
        if candidate.by_scale
        or (candidate.finding.kind in _BESIDE_SCALES and candidate.finding.p_value <= level)
    ]


def _says_more(finding: Finding, kinds: set[Kind]) -> bool:
    """Return whether a finding is not about cells, or about a skewness that is due to no bias."""
    skewed = finding.unit == "skewness of the cells" and Kind.BIASED not in kinds
    return finding.kind is not Kind.CELLS or skewed


def _without_shadows(named: list[Candidate], rejected: Rejected) -> list[Finding]:
    """Return the findings, strongest first, that others do not explain.

    What is stronger than another is seldom its shadow, so less has to remain of it.
    """
    kept = list(named)
    for place, candidate in enumerate(named):
        casters = [
            k for k, other in enumerate(named)
            if other in kept and _casts(other, candidate, stronger=k < place)
        ]  # fmt: skip
        limit = rejected.level if place < min(casters, default=0) else rejected.level / _STRICTER
        simpler = [named[k] for k in casters]
        if casters and candidate.left(rejected.remaining, simpler) > limit:
            kept.remove(candidate)
    return [candidate.finding for candidate in kept if not _explained(candidate, kept, rejected)]


def _casts(other: Candidate, candidate: Candidate, *, stronger: bool) -> bool:
    """Return whether a flaw may look like another, which is no simpler.

    Widths that follow the data are tails on average, and tails make widths noisy: of these two,
    the stronger one casts the other. So it is with flaws of fields at some scales.
    """
    kind, of = candidate.finding.kind, other.finding.kind
    if kind is Kind.TAILS and of is Kind.WIDTH_BY_DATA:
        return stronger
    if kind in _SCALES and kind in _SHADOWS.get(of, ()):
        return stronger and kind is not of
    return kind in _SHADOWS.get(of, ()) or (kind is of and other.simple > candidate.simple)


def _explained(candidate: Candidate, kept: list[Candidate], rejected: Rejected) -> bool:
    """Return whether a bias along one feature is that along all data, of which it is a part.

    And data that are not used at all are not used in part either.
    """
    finding = candidate.finding
    if finding.kind is Kind.UNUSED_DATA:
        ignored = [o.finding.parameters for o in kept if o.finding.kind is Kind.IGNORES_DATA]
        return any(not names or set(finding.parameters) <= set(names) for names in ignored)
    unused = [other for other in kept if other.finding.kind is Kind.UNUSED_DATA]
    if finding.kind is not Kind.BIAS_BY_DATA or not unused:
        return False
    return candidate.left(rejected.remaining, unused) > rejected.level


def _flaws(
    rejected: Rejected, families: Mapping[str, Floats]
) -> Iterator[tuple[Floats, Describe]]:
    """Yield the statistic of every flaw that is looked for, `(n_rows,)`, and its description."""
    sums = rejected.sums
    n_rows = sums.n_rows
    marginals = sums.moments["marginals"][:n_rows]
    widths = sums.unbiased.moments["marginals"][:, 1]
    all_widths = standardise(widths.sum(axis=1), n_rows)
    # For scaled normal draws the fourth moment follows the second: the rest is due to tails.
    typical = marginals[:, 1].mean(axis=1) / np.sqrt(sums.n_sims)
    tails = marginals[:, 3] - np.sqrt(1.5 * sums.n_sims) * typical[:, None] ** 2
    all_tails = standardise(tails.sum(axis=1), n_rows)
    slope = families["slope"]
    bias = families["bias"]
    width = np.logaddexp(log_ratio(all_widths), log_mean_exp(log_ratio(widths)))
    if "maps" in sums.moments:
        maps = sums.unbiased.moments["maps"]
        bias, width = (np.logaddexp(s, any_of(maps[:, k])) for k, s in enumerate((bias, width)))
    yield bias, descriptions.biased
    yield width, descriptions.width
    yield log_mean_exp(log_ratio(marginals[:, 2])), descriptions.skewed
    yield any_of(all_tails, tails), descriptions.tails
    yield np.logaddexp(slope, families.get("data", slope)), dependences.bias_by_data
    if "data width" in families:
        both = np.logaddexp(families["data width"], families["one width"])
        yield both, dependences.width_by_data
        yield families["products"], dependences.bias_by_product
        yield families["all data"], dependences.unused_data
    if "pairs" in families:
        pairs = sums.unbiased.products["pairs"][:, rejected.trends.apart]
        yield any_of(pairs), dependences.correlation
        yield families["pairs by data"], dependences.correlation_by_data
    if "combinations" in families:
        every = sums.unbiased.correlations
        yield combinations(every, len(sums.chosen)), dependences.combination
    if "triples" in families:
        yield families["triples"], dependences.dependence
    yield families["shapes"], shares.of_one
    if "pair shapes" in families:
        yield families["pair shapes"], shares.of_two
    if "outliers" in families:
        yield families["outliers"], descriptions.outliers
    if "ties" in families:
        yield families["ties"], descriptions.rounded
    if "values" in families:
        yield families["values"], descriptions.values
    for name, describe in _OF_FIELDS.items():
        if name in families:
            yield families[name], describe
    for part, name in sums.own.items():
        fitted = (rejected.fits or {}).get(name)
        yield families[part], descriptions.score(name) if fitted is None else fitted.describe


def _outside(rejected: Rejected) -> tuple[Finding, ...]:
    """Return whether truths lie beyond all of their draws more often than draws would."""
    from scipy.special import bdtrc

    sims = rejected.sims
    if sims.weighted:
        return ()  # the expected number of such truths is not known
    outside = rejected.effects.outside.sum(axis=0)
    n_sims, expected = sims.n_sims, 2 / (sims.n_draws + 1)
    explained = np.maximum(rejected.remaining.outside, expected)
    p = bdtrc(np.maximum(outside - 1, 0), n_sims, explained) * sims.n_dims
    k = int(np.argmin(np.where(outside > 0, p, 1.0)))
    few = outside[k] <= _OUTSIDE_TIMES * n_sims * expected
    if few or p[k] > rejected.level / _OUTSIDE_STRICTER:
        return ()
    return (
        Finding(
            Kind.OUTSIDE, rejected.names(k), float(min(1.0, p[k])),
            size=proportion(int(outside[k]), n_sims), unit="share of the truths",
            expected=expected,
        ),
    )  # fmt: skip

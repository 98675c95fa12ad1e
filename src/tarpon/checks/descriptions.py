"""Descriptions: where a flaw is, how large, and what would remain of it beside others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from .._base.text import Estimate
from .._base.types import Array, Floats
from ..simulations import Simulations, alerts
from ..simulations.stored import Stored
from .confounders import Remaining
from .families import combinations, eigenvalues
from .features import guides_of_blocks
from .flaws import Finding, Kind, Trend
from .parameters import Effects, with_interval
from .products import pairs, triples
from .statistics import adjusted, standardise
from .swaps import Sums
from .trends import Trends, difference, label
from .values import off

_ALSO_THERE = 2.0  # standard errors from which a wrong width is one of all parameters
_DIFFERENT = 0.01  # the p-value from which on errors of parameters are not all the same
_MOST_BLOCKS, _CLEAR_BLOCK = 16, 2.5  # parts of the data, and standard errors to name one
_AS_CLEAR = 0.85  # how clear data are that are named before what the posterior says of itself
_BEYOND = "what the data say beyond the draws"
_LEAST_EXPLAINED = 0.01  # of what the draws leave open
_MOST_NAMED = 4  # parameters of a combination
_MOST_NUMBERS = 2**26  # of data that are looked at once more


@dataclass(frozen=True, eq=False)
class Rejected:
    """What was measured of posteriors that the test has rejected."""

    sims: Simulations
    sums: Sums
    effects: Effects
    trends: Trends
    data: Array | None
    level: float

    @classmethod
    def of(
        cls, sims: Simulations, sums: Sums, effects: Effects, data: Array | None, level: float
    ) -> "Rejected":
        trends = Trends.of(sims, sums, effects, data, label(sims, data))
        return cls(sims, sums, effects, trends, data, level)

    @cached_property
    def chained(self) -> bool:
        """Whether the draws look like a chain: their means and sd are noisier than they should."""
        return alerts.of_chains(self.sims) is not None

    @cached_property
    def remaining(self) -> Remaining:
        """What remains beside bias and width."""
        return Remaining.of(self.sums, self.effects)

    def names(self, *places: int) -> tuple[str, ...]:
        names = tuple(self.sims.names or ())
        return tuple(names[k] for k in places)


# Returns the p-value of what remains of a flaw beside others that were named.
_Left = Callable[[Remaining, "Sequence[Candidate]"], float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A finding that others may explain.

    Arguments:
        finding: The finding.
        left: Returns the p-value of what remains of it beside other candidates.
        bias: For a bias that follows something: the parameter, and what it follows.
        simple: Whether what it follows is one feature, rather than a product.
        by_value: Whether it was found among parameters that take few values.
    """

    finding: Finding
    left: _Left = lambda remaining, others: 0.0
    bias: tuple[int, Floats] | None = None
    simple: bool = True
    by_value: bool = False


# Describes a flaw with a p-value; nothing if a closer look shows nothing.
Describe = Callable[[Rejected, float], list[Candidate]]


def _remaining(p_value: Callable[[Remaining], float]) -> _Left:
    return lambda remaining, others: p_value(remaining)


def biased(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe shifts, of each parameter that is shifted on its own, or of the worst."""
    shifts = rejected.sums.moments["marginals"][: rejected.sums.n_rows, 0]
    found = []
    for sign, ks in _failing(shifts, rejected.level).items():
        sizes = {k: rejected.effects.bias(k) for k in ks}
        # Truths that rank high lie above the draws, which then have a negative bias.
        clear = [k for k, size in sizes.items() if min(-sign * size.low, -sign * size.high) > 0]
        if clear:
            each = tuple(sizes[k] for k in clear)
            found.append(_shifted(rejected, clear, each, p_value))
    worst = int(np.argmax(abs(shifts[0])))
    return found or [_shifted(rejected, [worst], (rejected.effects.bias(worst),), p_value)]


def _shifted(
    rejected: Rejected, ks: Sequence[int], sizes: tuple[Estimate, ...], p_value: float
) -> Candidate:
    return Candidate(
        Finding(
            Kind.BIASED, rejected.names(*ks), p_value,
            size=sizes[0], unit="posterior sd", expected=0.0,
            direction="above" if sizes[0].value > 0 else "below",
            sizes=sizes if len(sizes) > 1 else (),
        )
    )  # fmt: skip


def width(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe wrong widths: of all parameters if they are alike, otherwise of those that fail."""
    single = rejected.sums.moments["marginals"][: rejected.sums.n_rows, 1]
    k = int(np.argmax(abs(single[0])))
    sign = np.sign(single[0, k])
    others = float(standardise(single.sum(axis=1) - single[:, k], len(single))[0])
    everywhere = single.shape[1] > 1 and sign * others >= _ALSO_THERE
    failing = _failing(single, rejected.level)
    whole = rejected.effects.width()
    if everywhere and (_alike(single, whole.value) or not failing):
        return _widths(rejected, (), (whole,), sign, p_value)
    found = []
    for side, ks in (failing or {sign: [k]}).items():
        sizes = {k: rejected.effects.width(k) for k in ks}
        clear = [
            k
            for k, size in sizes.items()
            if min(side * (size.low - 1), side * (size.high - 1)) > 0
        ]
        found += _widths(rejected, clear, tuple(sizes[k] for k in clear), side, p_value)
    return found


def _widths(
    rejected: Rejected, ks: Sequence[int], sizes: tuple[Estimate, ...], sign: float, p_value: float
) -> list[Candidate]:
    if not sizes or (sizes[0].value > 1) != (sign > 0):
        return []  # the sd is right, and something else is wrong
    return [
        Candidate(
            Finding(
                Kind.OVERCONFIDENT if sign > 0 else Kind.UNDERCONFIDENT,
                rejected.names(*ks), p_value,
                size=sizes[0], unit="width of the draws", expected=1.0,
                sizes=sizes if len(sizes) > 1 else (),
            )
        )
    ]  # fmt: skip


def _failing(values: Floats, level: float) -> dict[float, list[int]]:
    """Return the places where the first row is far from zero on its own, among all, by sign.

    The largest first, and the sign of the largest first.
    """
    ks = np.flatnonzero(adjusted(abs(values)) <= level)
    found: dict[float, list[int]] = {}
    for k in ks[np.argsort(-abs(values[0, ks]), kind="stable")]:
        found.setdefault(float(np.sign(values[0, k])), []).append(int(k))
    return found


def _alike(widths: Floats, factor: float) -> bool:
    """Return whether the widths of all parameters may be wrong by the same factor.

    Arguments:
        widths: The width of each parameter in standard errors, `(n_rows, n_dims)`.
        factor: The factor; by it, the standard errors themselves grow.
    """
    spread = widths.var(axis=1)
    return bool(spread[0] <= np.quantile(spread[1:], 1 - _DIFFERENT) * max(1.0, factor) ** 4)


def skewed(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the skewness of the truths among the draws."""
    third = rejected.sums.moments["marginals"][0, 2]
    k = int(np.argmax(abs(third)))
    size = _mean(np.sqrt(6.0) * rejected.remaining.moments[2][:, k])
    if size.value * third[k] < 0:
        return []
    finding = Finding(
        Kind.SKEWED, rejected.names(k), p_value,
        size=size, unit="skewness of the truths among the draws", expected=0.0,
        direction="above" if third[k] > 0 else "below",
    )  # fmt: skip
    return [Candidate(finding, _remaining(lambda remaining: remaining.skewed))]


def tails(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the tails of the draws: of all parameters if they agree, otherwise of the worst."""
    fourth = rejected.sums.moments["marginals"][: rejected.sums.n_rows, 3]
    k = int(np.argmax(abs(fourth[0])))
    others = float(standardise(fourth.sum(axis=1) - fourth[:, k], len(fourth))[0])
    everywhere = fourth.shape[1] > 1 and np.sign(fourth[0, k]) * others >= _ALSO_THERE
    each = np.sqrt(24.0) * rejected.remaining.moments[3]
    size = _mean(each.mean(axis=1) if everywhere else each[:, k])
    finding = Finding(
        Kind.TAILS, () if everywhere else rejected.names(k), p_value,
        size=size, unit="excess kurtosis of the truths among the draws", expected=0.0,
        direction="heavy" if size.value < 0 else "light",
    )  # fmt: skip

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        widths = any(other.finding.kind is Kind.WIDTH_BY_DATA for other in others)
        return 1.0 if widths else remaining.tails

    return [Candidate(finding, left)]


def _mean(values: Floats) -> Estimate:
    """Return a mean with its interval."""
    mean, half = float(values.mean()), float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)


def _following(
    rejected: Rejected,
    k: int,
    along: tuple[str, Floats],
    n_tests: int,
    p_value: float,
    *,
    simple: bool = True,
) -> Candidate:
    """Return a bias of a parameter that follows something, with its trend."""
    trend = rejected.trends.bias(k, along, p_value)
    finding = Finding(
        Kind.BIAS_BY_DATA, rejected.names(k), p_value,
        size=difference(trend), unit="posterior sd", expected=0.0, where=trend.along, trend=trend,
    )  # fmt: skip

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        given = [other.bias[1] for other in others if other.bias and other.bias[0] == k]
        return remaining.bias_along(k, along[1], n_tests, *given)

    return Candidate(finding, left, (k, along[1]), simple)


def bias_by_data(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a bias that follows a feature of the data, or the posterior mean itself."""
    sums, informed = rejected.sums, rejected.effects.informed()
    slope, data = abs(sums.along[0, 0, 0]), abs(sums.products["data"][0, :, : sums.features.plain])
    k, along = int(np.argmax(slope)), None
    if data.size and data.max() > _AS_CLEAR * slope.max():
        place, feature = np.unravel_index(np.argmax(data), data.shape)
        k, along = int(sums.chosen[place]), rejected.trends.along(int(feature))
    if not informed[k] and p_value > rejected.level:
        return []
    if not informed[k]:
        names = rejected.names(k) if informed.any() else ()
        follows = _following(rejected, k, along or rejected.trends.along_mean(k), 1, p_value)
        finding = Finding(
            Kind.IGNORES_DATA, names, p_value,
            size=rejected.effects.recovery(k), unit="correlation of the draws with the truths",
            trend=follows.finding.trend,
        )  # fmt: skip
        return [Candidate(finding, _remaining(lambda remaining: remaining.bias_by_data))]
    n_tests = slope.size + data.size
    return [_following(rejected, k, along or rejected.trends.along_mean(k), n_tests, p_value)]


def bias_by_product(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a bias that follows a product of two features of the data."""
    sums = rejected.sums
    products = abs(sums.products["data"][0, :, sums.features.products])
    if not products.size:
        return []
    place, at = np.unravel_index(np.argmax(products), products.shape)
    along = rejected.trends.along(sums.features.plain + int(at))
    k = int(sums.chosen[place])
    return [_following(rejected, k, along, products.size, p_value, simple=False)]


def unused_data(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe what the data say about a parameter that its draws do not know."""
    sums = rejected.sums
    guides, k = sums.features.guides, int(np.argmax(sums.along[0, 0, 1]))
    size = rejected.effects.explained(k, guides[:, k])
    if rejected.chained or size.low <= _LEAST_EXPLAINED:
        return []
    where = _unused_part(rejected, k)
    finding = Finding(
        Kind.UNUSED_DATA, rejected.names(k), p_value,
        size=size, unit="share of what the draws leave open", expected=0.0, where=where,
        trend=rejected.trends.bias(k, (_BEYOND, guides[:, k]), p_value),
    )  # fmt: skip
    n_tests, plain = guides.shape[1], sums.features.values[:, : sums.features.plain]

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        given = [other.bias[1] for other in others if other.bias and other.bias[0] == k]
        # Beside the feature that its bias follows most, named or not.
        given.append(plain[:, np.argmax(abs(remaining.moments[0][:, k] @ plain))])
        return remaining.bias_along(k, guides[:, k], n_tests, *given)

    return [Candidate(finding, left, (k, guides[:, k]))]


def _unused_part(rejected: Rejected, k: int) -> str:
    """Return which part of the data would tell more about a parameter, if it is clear which."""
    data, name = rejected.data, label(rejected.sims, rejected.data)
    if data is None or isinstance(data, Stored) or data.ndim != 2 or data.size > _MOST_NUMBERS:
        return name
    n_columns = data.shape[1]
    edges = np.linspace(0, n_columns, min(_MOST_BLOCKS, n_columns) + 1).astype(int)
    mean = rejected.sums.features.means[:, k]
    guides = guides_of_blocks(np.asarray(data, dtype=float), mean, edges)
    errors = np.sqrt(len(data)) * rejected.effects.correlations(k, guides)
    clear = np.flatnonzero(errors >= _CLEAR_BLOCK)
    if not len(clear) or len(clear) == len(errors):
        return name
    runs = np.split(clear, np.flatnonzero(np.diff(clear) > 1) + 1)
    return ", ".join(_range(name, edges[run[0]], edges[run[-1] + 1]) for run in runs)


def _range(name: str, first: int, last: int) -> str:
    return f"{name}[{first}]" if last == first + 1 else f"{name}[{first}:{last}]"


def width_by_data(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a width that follows the data: of all parameters, or of one."""
    sums, trends, n_rows = rejected.sums, rejected.trends, rejected.sums.n_rows
    single = sums.products["data_width"]
    whole = abs(standardise(single.sum(axis=1), n_rows)[0])
    along = abs(sums.along[0, 1, ::2])
    along[1] *= not rejected.chained  # the sd of a short chain is noise
    best = [abs(single[0]).max() / _AS_CLEAR, along[0].max(), along[1].max()]
    if whole.max() >= _AS_CLEAR * max(best):
        k, followed = None, trends.along(int(np.argmax(whole)))
    elif best[0] >= max(best[1:]):
        place, feature = np.unravel_index(np.argmax(abs(single[0])), single.shape[1:])
        k, followed = int(sums.chosen[place]), trends.along(int(feature))
        others = single[:, :, feature].sum(axis=1) - single[:, place, feature]
        signed = np.sign(single[0, place, feature]) * standardise(others, n_rows)[0]
        k = None if single.shape[1] > 1 and signed >= _ALSO_THERE else k
    else:
        way = int(np.argmax(best[1:]))
        k = int(np.argmax(along[way]))
        followed = (trends.along_mean, trends.along_width)[way](k)
    trend = trends.width(k, followed, p_value)
    finding = Finding(
        Kind.WIDTH_BY_DATA, () if k is None else rejected.names(k), p_value,
        size=difference(trend), unit="ratio of widths", expected=1.0,
        where=trend.along, trend=trend,
    )  # fmt: skip
    n_tests = whole.size if k is None else single[0].size + along.size
    left = _remaining(lambda remaining: remaining.width_along(k, followed[1], n_tests))
    return [Candidate(finding, left)]


def correlation(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the pair whose correlation is farthest off."""
    sums, apart = rejected.sums, rejected.trends.apart
    at = apart[np.argmax(abs(sums.products["pairs"][0, apart]))]
    a, b = sums.chosen[pairs(len(sums.chosen))[at]]
    truths, draws = sums.correlations[0, at], sums.correlations[:, at].mean()
    return [
        Candidate(
            Finding(
                Kind.CORRELATION, rejected.names(a, b), p_value,
                size=with_interval(float(truths), sums.n_sims), unit="correlation",
                expected=float(draws),
            )
        )
    ]  # fmt: skip


def correlation_by_data(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the pair whose correlation follows the data, or the mean of one of them."""
    sums, trends, every = rejected.sums, rejected.trends, pairs(len(rejected.sums.chosen))
    by_data = abs(sums.products["pairs_by_data"][0][:, trends.apart])
    by_own = abs(sums.products["pairs_by_own"][0]) * ~np.eye(len(sums.chosen), dtype=bool)
    if by_data.size and by_data.max() >= _AS_CLEAR * by_own.max():
        feature, pair = np.unravel_index(np.argmax(by_data), by_data.shape)
        a, b = every[trends.apart[pair]]
        along = trends.along(int(sums.features.leading[feature]))
    else:
        a, b = np.unravel_index(np.argmax(by_own), by_own.shape)
        _, mean = trends.along_mean(int(sums.chosen[b]))
        along = f"the posterior mean of {trends.names[sums.chosen[b]]}", mean
    at = int(np.flatnonzero((every == sorted((a, b))).all(axis=1))[0])
    first, second = (int(sums.chosen[k]) for k in sorted((a, b)))
    trend = trends.correlation(first, second, along, p_value)
    finding = Finding(
        Kind.CORRELATION_BY_DATA, rejected.names(first, second), p_value,
        size=difference(trend), unit="correlation", where=trend.along, trend=trend,
        expected=float(sums.correlations[:, at].mean()),
    )  # fmt: skip
    followed = (along[1] - along[1].mean()) / (along[1].std() or 1.0)
    n_tests = by_data.size + by_own.size
    left = _remaining(lambda remaining: remaining.together((first, second), followed, n_tests))
    return [Candidate(finding, left)]


def combination(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the combination of parameters whose width is farthest off."""
    sums, n_chosen = rejected.sums, len(rejected.sums.chosen)
    values, whiten = eigenvalues(sums.correlations, n_chosen)
    extremes = standardise(np.log(np.maximum(values[:, [0, -1]], 1e-9)), len(values))[0] * [-1, 1]
    widest = int(np.argmax(extremes))
    product = np.zeros((n_chosen, n_chosen))
    a, b = pairs(n_chosen).T
    product[a, b] = product[b, a] = sums.correlations[0]
    _, axes = np.linalg.eigh(whiten.T @ product @ whiten)
    loads = whiten @ axes[:, -widest]
    loads /= np.linalg.norm(loads) * np.sign(loads[np.argmax(abs(loads))])
    size = _spiked(values[0, -widest], n_chosen / sums.n_sims, sums.n_sims, widest == 1)
    order = np.argsort(-abs(loads), kind="stable")[:_MOST_NAMED]
    names = rejected.names(*(int(sums.chosen[k]) for k in order))
    terms = [f"{loads[k]:+.2f} {name}" for k, name in zip(order, names, strict=True)]
    spoken = " ".join(terms).removeprefix("+").replace(" +", " + ").replace(" -", " − ")
    more = f" … ({n_chosen} parameters)" if n_chosen > len(order) else ""
    finding = Finding(
        Kind.COMBINATION, names, p_value,
        size=size, unit="width of the draws", expected=1.0, where=spoken + more,
    )  # fmt: skip
    return [Candidate(finding, partial(_left_of_combination, rejected))]


def _spiked(value: float, ratio: float, n_sims: int, largest: bool) -> Estimate:
    r"""Return the scatter along a direction that was chosen for its eigenvalue.

    The largest eigenvalue of noisy products is larger than the variance :math:`\ell` along it:
    with :math:`\gamma` parameters per simulation, :math:`\ell + \gamma \ell / (\ell - 1)`.
    """
    half = (1 - ratio + value) / 2
    root = np.sqrt(max(half**2 - value, 0.0))
    variance = max(half + root if largest else half - root, 1e-6)
    error = 1.96 * np.sqrt(1 / (2 * n_sims))
    scatter = float(np.sqrt(variance))
    return Estimate(scatter, scatter * float(np.exp(-error)), scatter * float(np.exp(error)))


def _left_of_combination(
    rejected: Rejected, remaining: Remaining, others: Sequence[Candidate]
) -> float:
    """Return the p-value of combinations once every pair that fails is put right."""
    sums, apart = rejected.sums, rejected.trends.apart
    z = abs(sums.products["pairs"][:, apart])
    right = sums.correlations.copy()
    failed = apart[adjusted(z) <= rejected.level]
    right[0, failed] = right[1:, failed].mean(axis=0)
    values = combinations(right, len(sums.chosen))
    return float((values >= values[0]).mean())


def dependence(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the three parameters that depend on each other in the most wrong way."""
    sums = rejected.sums
    every = triples(len(sums.chosen))
    at = int(np.argmax(abs(sums.products["triples"][0])))
    ks = tuple(int(k) for k in sums.chosen[every[at]])
    trend = _of_three(rejected.trends, ks, p_value)
    finding = Finding(
        Kind.DEPENDENCE, rejected.names(*dict.fromkeys(ks)), p_value,
        size=difference(trend), unit="correlation" if trend.what == "correlation"
        else "posterior sd", expected=0.0, where=trend.along, trend=trend,
    )  # fmt: skip
    one = np.ones(sums.n_sims)
    left = _remaining(lambda remaining: remaining.together(ks, one, len(every)))
    return [Candidate(finding, left)]


def _of_three(trends: Trends, ks: tuple[int, ...], p_value: float) -> Trend:
    """Return how two parameters correlate where a third is low or high among its draws.

    If two of the three are the same: how another is shifted where that one is far out.
    """
    a, b, c = ks
    scores, names = trends.effects.scores, trends.names
    if len(set(ks)) == 3:
        along = f"the place of {names[c]} among its draws", scores[:, c]
        return trends.correlation(a, b, along, p_value)
    twice, other = (a, c) if a == b else (c, a)
    along = f"the distance of {names[twice]} from its posterior median", abs(scores[:, twice])
    return trends.bias(other, along, p_value)


def rounded(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe truths and draws with different ties."""
    return [Candidate(Finding(Kind.ROUNDED, (), p_value))]


def values(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a parameter that takes few values: its shift, its width, or its worst value."""
    by_value = abs(rejected.sums.moments["values"][0])
    score, column = np.unravel_index(np.argmax(by_value), by_value.shape)
    k, value = rejected.effects.tested[column]
    found = []
    if value is None and score == 0:
        found = [_shifted(rejected, [k], (rejected.effects.bias(k),), p_value)]
    elif value is None:
        size = rejected.effects.width(k)
        found = _widths(rejected, [k], (size,), np.sign(size.value - 1), p_value)
    found = found or [_shares(rejected, k, value, bool(score == 0), p_value)]
    return [replace(candidate, by_value=True) for candidate in found]


def _shares(
    rejected: Rejected, k: int, value: float | None, everywhere: bool, p_value: float
) -> Candidate:
    """Describe a value: in all simulations, or where it is farthest off by its share."""
    unit = float(rejected.trends.unit[k])
    rows = list(rejected.effects.few[k].table(rejected.names(k)[0], unit))
    same = [row for row in rows if value is None or row.value == value * unit]
    worst = max(same, key=lambda row: (row.everywhere == everywhere, off(row)))
    finding = Finding(
        Kind.VALUES, rejected.names(k), p_value,
        size=worst.truths, unit="share of the truths", expected=worst.draws, where=worst.where,
        direction="too often" if worst.draws > worst.truths.value else "too rarely",
    )  # fmt: skip
    return Candidate(finding)


def score(name: str) -> Describe:
    """Return what describes a wrong score of the user's own."""
    return lambda _, p_value: [Candidate(Finding(Kind.SCORE, (), p_value, where=name))]

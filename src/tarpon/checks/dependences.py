"""Descriptions of flaws that depend on something: on the data, on other parameters."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from .._base import arrays
from .._base.text import Estimate
from .._base.types import Floats
from ..simulations.stored import Stored
from .confounders import Remaining
from .descriptions import Candidate, Rejected, in_others, remaining, what_biases_follow
from .families import LEAST_VARIANCE, combinations, eigenvalues, matrices
from .features import guides_of_blocks
from .flaws import Finding, Kind, Trend
from .parameters import with_interval
from .products import pairs, triples
from .statistics import adjusted, standardise
from .trends import Trends, difference, label, thirds
from .unlearned import missed, unlearned

_MOST_BLOCKS, _CLEAR_BLOCK = 16, 2.5  # parts of the data, and standard errors to name one
_AS_CLEAR = 0.85  # how clear data are that are named before what the posterior says of itself
_BEYOND = "what the data say beyond the draws"
_LEAST_EXPLAINED = 0.01  # of what the draws leave open
_MOST_NAMED = 4  # parameters of a combination
_MOST_NUMBERS = 2**26  # of data that are looked at once more


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
        return remaining.bias_along(k, along[1], n_tests, *what_biases_follow(others, k))

    return Candidate(finding, left, (k, along[1]), simple)


def bias_by_data(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a bias that follows a feature of the data, or the posterior mean itself."""
    sums, informed = rejected.sums, rejected.effects.informed()
    slope, data = abs(sums.along[0, 0, 0]), abs(sums.products["data"][0, :, : sums.features.plain])
    k, along = int(np.argmax(slope)), None
    if data.size and data.max() > _AS_CLEAR * slope.max():
        place, feature = np.unravel_index(np.argmax(data), data.shape)
        k, along = int(sums.chosen[place]), rejected.trends.along(int(feature))
    along = along or rejected.trends.along_mean(k)
    learned = informed & ~missed(rejected, k, along[1])
    if learned[k]:
        return [_following(rejected, k, along, slope.size + data.size, p_value)]
    if p_value > rejected.level:
        return []
    ks = unlearned(rejected, k, learned) if informed.any() else []
    sizes = tuple(rejected.effects.recovery(j) for j in ks or [k])
    finding = Finding(
        Kind.IGNORES_DATA, rejected.names(*ks), p_value,
        size=sizes[0], unit="correlation of the draws with the truths",
        sizes=sizes if len(sizes) > 1 else (), trend=rejected.trends.bias(k, along, p_value),
    )  # fmt: skip
    return [Candidate(finding, remaining(lambda remaining: remaining.bias_by_data))]


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
        # Beside the feature that its bias follows most, named or not.
        most = plain[:, np.argmax(abs(remaining.moments[0][:, k] @ plain))]
        return remaining.bias_along(k, guides[:, k], n_tests, *what_biases_follow(others, k), most)

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
        k = None if in_others(single[:, :, feature], int(place)) else k
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
    left = remaining(lambda remaining: remaining.width_along(k, followed[1], n_tests))
    return [Candidate(finding, left)]


def correlation(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the pair whose correlation is farthest off."""
    sums, apart = rejected.sums.unbiased, rejected.trends.apart
    at = apart[np.argmax(abs(sums.products["pairs"][0, apart]))]
    a, b = sums.chosen[pairs(len(sums.chosen))[at]]
    truths, draws = sums.correlations[0, at], sums.correlations[:, at].mean()
    finding = Finding(
        Kind.CORRELATION, rejected.names(a, b), p_value,
        size=with_interval(float(truths), sums.n_sims), unit="correlation",
        expected=float(draws),
    )  # fmt: skip

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        return remaining.correlation(a, b, float(draws), len(apart), *what_biases_follow(others))

    return [Candidate(finding, left)]


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
    change, expected = difference(trend), float(rejected.sums.unbiased.correlations[:, at].mean())
    if (draws := _drawn(rejected, first, second, along[1])) is not None:
        trend, expected = replace(trend, draws=draws), draws[1] - draws[0]
    elif change.low <= 0 <= change.high:
        return []  # it is that of the draws which changes, and they are not at hand
    finding = Finding(
        Kind.CORRELATION_BY_DATA, rejected.names(first, second), p_value,
        size=change, unit="correlation", where=trend.along, trend=trend, expected=expected,
    )  # fmt: skip
    followed = (along[1] - along[1].mean()) / (along[1].std() or 1.0)
    n_tests = by_data.size + by_own.size
    left = remaining(lambda remaining: remaining.together((first, second), followed, n_tests))
    return [Candidate(finding, left)]


def _drawn(rejected: Rejected, a: int, b: int, along: Floats) -> tuple[float, float] | None:
    """Return how the draws of two parameters correlate where a feature is lowest, and highest."""
    samples = rejected.sims.samples
    if isinstance(samples, Stored) or rejected.sims.weighted:
        return None
    found = []
    for sims in thirds(along):
        draws = arrays.host(samples[:, sims][..., [a, b]]).astype(float)
        about = draws - draws.mean(axis=0)
        norm = np.sqrt((about**2).sum(axis=0).prod(axis=-1))
        found.append(float((about.prod(axis=-1).sum(axis=0) / np.maximum(norm, 1e-300)).mean()))
    return found[0], found[1]


def combination(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the combination of parameters whose width is farthest off.

    None is named if swaps find one that is as far off too often: in as many parameters as
    simulations, truths never scatter along some combination.
    """
    sums, n_chosen = rejected.sums.unbiased, len(rejected.sums.chosen)
    values, whiten = eigenvalues(sums.correlations, n_chosen)
    logs = np.log(np.maximum(values[:, [0, -1]], LEAST_VARIANCE))
    extremes = standardise(logs, len(values)) * [-1, 1]
    widest = int(np.argmax(extremes[0]))
    if (extremes[:, widest] >= extremes[0, widest]).mean() > rejected.level:
        return []
    (product,) = matrices(sums.correlations[:1], n_chosen)
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
    """Return the p-value of combinations once every pair that fails is put right.

    Beside biases that follow something, with the correlations that are left beside them.
    """
    sums, apart = rejected.sums.unbiased, rejected.trends.apart
    right = sums.correlations.copy()
    if given := what_biases_follow(others):
        a, b = pairs(len(sums.chosen)).T
        right[0] = remaining.correlations(sums.chosen.tolist(), *given)[a, b]
    failed = apart[adjusted(abs(sums.products["pairs"][:, apart])) <= rejected.level]
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
    left = remaining(lambda remaining: remaining.together(ks, one, len(every)))
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

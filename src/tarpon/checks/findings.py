"""Findings: the flaws that the swap test names, where they are, and how large."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._base.text import unsigned
from .._base.types import Floats
from ..simulations import Simulations
from .confounders import Beyond
from .families import SCORE
from .parameters import Effects
from .statistics import log_mean_exp, log_ratio, row_p_values, standardise
from .swaps import Sums

_FEWEST_FOR_RECOVERY = 20
_ALSO_THERE = 2.0  # standard errors from which a wrong width is one of all parameters
_OTHERS = {"skewed", "wrong tails", "bias by data", "width by data"}
# What else a flaw may look like.
_SHADOWS = {"biased": _OTHERS, "width": _OTHERS, "wrong tails": {"skewed"}}
_SHAPE = ("radial", "posterior balls", "random balls", "residuals", "density")


@dataclass(frozen=True)
class Finding:
    """A flaw in words.

    Arguments:
        flaw: What is wrong.
        where: The parameters that it is worst in; none if it is in all.
        size: How large it is, in words.
        p_value: Exact, and adjusted for the number of flaws that are looked for.
    """

    flaw: str
    where: tuple[str, ...]
    size: str
    p_value: float

    def __str__(self) -> str:
        link = " between " if len(self.where) == 2 else " in "
        place = link + " and ".join(self.where) if self.where else ""
        size = f": {self.size}" if self.size else ""
        return f"{self.flaw}{place}{size}"


@dataclass(frozen=True, eq=False)
class _Evidence:
    sims: Simulations
    sums: Sums
    effects: Effects
    kept: frozenset[str]

    @property
    def along(self) -> str:
        """What errors may depend on: without observations, the place of the posterior."""
        return "the posterior mean" if self.sims.x is None else "x"

    def names(self, *where: int) -> tuple[str, ...]:
        named = tuple(self.sims.names or ())
        return tuple(named[k] for k in where)

    def strongest(self, values: Floats) -> int:
        return int(np.argmax(abs(values)))


def findings(
    sims: Simulations, sums: Sums, families: dict[str, Floats], effects: Effects, level: float
) -> tuple[Finding, ...]:
    """Return what is wrong with posteriors that the test has rejected, worst first."""
    statistics = _statistics(sums, families)
    p = row_p_values(np.column_stack(list(statistics.values())), sums.n_rows)
    smallest = p.min(axis=1)
    adjusted = {
        name: float((smallest <= q * (1 + 1e-9)).mean())
        for name, q in zip(statistics, p[0], strict=True)
    }
    order = [list(statistics)[k] for k in np.argsort(p[0], kind="stable")]
    single = dict(zip(statistics, p[0], strict=True))
    # The whole has been rejected already, so a flaw that is clear on its own is named too.
    kept = [name for name in order if adjusted[name] <= level or single[name] <= level / 5]
    # Rejected as a whole and no flaw on its own: the two likeliest.
    kept = kept or [name for name in order[:2] if single[name] <= level]
    evidence = _Evidence(sims, sums, effects, frozenset(kept))
    found = {name: _DESCRIBE.get(name, _score)(evidence, name, adjusted[name]) for name in kept}
    named = {name: finding for name, finding in found.items() if finding is not None}
    beyond = Beyond.of(sums, effects) if set(_SHADOWS) & set(named) else None
    if beyond is not None:
        named = _without_shadows(named, beyond.p_values, level)
    if not named:
        shape = min(_share_above(families[name]) for name in _SHAPE if name in families)
        named = {"shape": Finding("wrong shape", (), "no single number describes it", shape)}
    return (*named.values(), *_outside(evidence, beyond, level))


def warnings(effects: Effects, chained: str | None, dropped: str | None) -> tuple[str, ...]:
    """Return what is odd about the draws, whatever the test says.

    Arguments:
        effects: What was measured of them.
        chained: What to say of chains, if they look like some.
        dropped: What to say of simulations that were dropped, if that does not look random.
    """
    found = [dropped] if dropped else []
    if chained:
        found.append(chained[:1].upper() + chained[1:])
    if len(effects.truth) >= _FEWEST_FOR_RECOVERY and not effects.recovered().any():
        found.append(
            "The draws are uncorrelated with the truths in every parameter: the estimator "
            "ignores the data, the data say nothing, or the axes are swapped."
        )
    return tuple(found)


def _without_shadows(
    named: dict[str, Finding], left: dict[str, float], level: float
) -> dict[str, Finding]:
    """Return the findings, strongest first, that others do not explain.

    What is stronger than another is seldom its shadow, so less has to be left of it.
    """
    kept = {}
    for place, (name, finding) in enumerate(named.items()):
        casters = [at for at, other in enumerate(named) if name in _SHADOWS.get(other, ())]
        limit = level if place < min(casters, default=0) else level / 5
        if not casters or left[name] <= limit:
            kept[name] = finding
    return kept


def _share_above(statistic: Floats) -> float:
    return float((statistic >= statistic[0]).mean())


def _statistics(sums: Sums, families: dict[str, Floats]) -> dict[str, Floats]:
    """Return one statistic a flaw, `(n_rows,)` each."""
    n_rows = sums.n_rows
    marginals = sums.moments["marginals"][:n_rows]
    ratios = log_ratio(marginals)
    whole = standardise(marginals.sum(axis=2), n_rows)
    # For scaled normal draws the fourth moment follows the second: what is left is tails.
    typical = marginals[:, 1].mean(axis=1) / np.sqrt(sums.n_sims)
    tails = marginals[:, 3] - np.sqrt(1.5 * sums.n_sims) * typical[:, None] ** 2
    statistics = {
        "biased": families["bias"],
        "width": np.logaddexp(log_ratio(whole[:, 1]), log_mean_exp(ratios[:, 1])),
        "skewed": log_mean_exp(ratios[:, 2]),
        "wrong tails": np.logaddexp(
            log_ratio(standardise(tails.sum(axis=1), n_rows)), log_mean_exp(log_ratio(tails))
        ),
        "bias by data": np.logaddexp(families["slope"], families.get("data", families["slope"])),
    }
    if "data width" in families:
        statistics["width by data"] = families["data width"]
    if "pairs" in families:
        statistics["wrong correlation"] = families["pairs"]
    if "ties" in families:
        statistics["rounded"] = families["ties"]
    return statistics | {k: v for k, v in families.items() if k.startswith(SCORE)}


Describe = Callable[[_Evidence, str, float], "Finding | None"]


def _biased(evidence: _Evidence, _: str, p_value: float) -> Finding:
    k = evidence.strongest(evidence.sums.moments["marginals"][0, 0])
    bias = evidence.effects.bias(k)
    side = "above" if bias.value > 0 else "below"
    size = f"the draws lie {unsigned(bias)} posterior sd {side} the truths"
    return Finding("biased", evidence.names(k), size, p_value)


def _width(evidence: _Evidence, _: str, p_value: float) -> Finding | None:
    n_rows = evidence.sums.n_rows
    single = evidence.sums.moments["marginals"][:n_rows, 1]
    k = evidence.strongest(single[0])
    sign = np.sign(single[0, k])
    others = float(standardise(single.sum(axis=1) - single[:, k], n_rows)[0])
    everywhere = single.shape[1] > 1 and sign * others >= _ALSO_THERE
    factor = evidence.effects.width(None if everywhere else k)
    right = (factor.low <= 1 <= factor.high) or (factor.value > 1) != (sign > 0)
    if right and len(evidence.kept) > 1:
        return None  # the sd is right, and something else is wrong
    flaw = "overconfident" if sign > 0 else "underconfident"
    size = f"the truths scatter {factor} times as widely as the draws"
    where = () if everywhere else evidence.names(k)
    return Finding(flaw, where, size, p_value)


def _skewed(evidence: _Evidence, _: str, p_value: float) -> Finding:
    third = evidence.sums.moments["marginals"][0, 2]
    k = evidence.strongest(third)
    missing, extra = ("above", "below") if third[k] > 0 else ("below", "above")
    size = f"the draws miss a tail or mode {missing}, or have one too many {extra}"
    return Finding("skewed", evidence.names(k), size, p_value)


def _tails(evidence: _Evidence, _: str, p_value: float) -> Finding:
    fourth = evidence.sums.moments["marginals"][0, 3]
    heavy = fourth.sum() < 0
    size = f"the tails of the draws are too {'heavy' if heavy else 'light'}"
    return Finding("wrong tails", (), size, p_value)


def _bias_by_data(evidence: _Evidence, _: str, p_value: float) -> Finding:
    informed = evidence.effects.informed()
    slope = abs(evidence.sums.slope[0])
    data = evidence.sums.data[0]
    k = int(np.argmax(slope))
    if data.size and abs(data).max() > slope.max():
        k = int(evidence.sums.chosen[np.unravel_index(np.argmax(abs(data)), data.shape)[0]])
    if not informed.any() or not informed[k]:
        size = "the draws are the same whatever was observed, or the axes are swapped"
        where = evidence.names(k) if informed.any() else ()
        return Finding("ignores the data", where, size, p_value)
    what = "posterior mean" if evidence.sims.x is None else "observation"
    size = f"the shift between draws and truths changes with the {what}"
    return Finding(f"bias depends on {evidence.along}", evidence.names(k), size, p_value)


def _width_by_data(evidence: _Evidence, _: str, p_value: float) -> Finding:
    what = "simulations" if evidence.sims.x is None else "observations"
    size = f"too narrow for some {what} and too wide for others"
    return Finding(f"width depends on {evidence.along}", (), size, p_value)


def _correlation(evidence: _Evidence, _: str, p_value: float) -> Finding:
    products = np.triu(abs(evidence.sums.pairs[0]), 1)
    a, b = np.unravel_index(np.argmax(products), products.shape)
    truths, draws = evidence.sums.correlations[:, a, b]
    a, b = evidence.sums.chosen[a], evidence.sums.chosen[b]
    size = f"given the data, truths correlate by {truths:+.2f} and draws by {draws:+.2f}"
    return Finding("wrong correlation", evidence.names(int(a), int(b)), size, p_value)


def _rounded(evidence: _Evidence, _: str, p_value: float) -> Finding:
    size = "truths and draws do not share the same discrete values"
    return Finding("rounded", (), size, p_value)


def _score(evidence: _Evidence, name: str, p_value: float) -> Finding:
    own = name.removeprefix(SCORE)
    return Finding(f"wrong in your score “{own}”", (), "", p_value)


_DESCRIBE: dict[str, Describe] = {
    "biased": _biased,
    "width": _width,
    "skewed": _skewed,
    "wrong tails": _tails,
    "bias by data": _bias_by_data,
    "width by data": _width_by_data,
    "wrong correlation": _correlation,
    "rounded": _rounded,
}


def _outside(evidence: _Evidence, beyond: Beyond | None, level: float) -> tuple[Finding, ...]:
    """Return whether truths lie beyond all of their draws more often than draws would."""
    from scipy.special import bdtrc

    if evidence.sims.weighted:
        return ()  # there is no one number of truths to expect there
    outside = evidence.effects.outside.sum(axis=0)
    n_sims, expected = evidence.sims.n_sims, 2 / (evidence.sims.n_draws + 1)
    explained = expected if beyond is None else np.maximum(beyond.outside, expected)
    p = bdtrc(np.maximum(outside - 1, 0), n_sims, explained) * evidence.sims.n_dims
    k = int(np.argmin(np.where(outside > 0, p, 1.0)))
    if outside[k] <= 4 * n_sims * expected or p[k] > level / 10:
        return ()
    size = f"{outside[k]} of {n_sims} truths lie beyond all draws, not {n_sims * expected:.1f}"
    return (Finding("outside the draws", evidence.names(k), size, float(min(1.0, p[k]))),)

"""Words: what findings and checks say, made from their fields here and nowhere else."""

from math import expm1, floor, isinf, log10
from typing import TYPE_CHECKING

from .._base.text import Estimate, dropped, stated, unsigned
from ..ranks import held
from ..results import Result
from ..simulations import fields
from .flaws import Finding, Kind
from .outliers import WIDTHS
from .parameters import Outlying
from .power import BIASES, CAUGHT, NARROWINGS, TELLING_BIAS, TELLING_WIDTH, Detectable

if TYPE_CHECKING:
    from .answers import Check
    from .comparing import Paired
    from .parameters import Parameter
    from .plan import Plan
    from .scoring import LogScores

_MOST_FINDINGS, _MOST_FAMILIES, _MOST_LISTED, _MOST_ADVICE = 4, 6, 5, 2
_MOST_LEARNED, _LEAST_LEARNED = 4, 2  # parameters: all of them, or those of which least is known


def sentence(finding: Finding) -> str:
    """Return a finding in words, with where and how large the flaw is."""
    size = size_of(finding)
    return f"{headline(finding)}{f': {size}' if size else ''}"


def headline(finding: Finding) -> str:
    """Return the name of the flaw, and where it is."""
    names, where = listed(finding), finding.where
    match finding.kind:
        case Kind.BIAS_BY_DATA:
            return f"bias of {names} depends on {where}"
        case Kind.WIDTH_BY_DATA:
            return f"width{f' of {names}' if names else ''} depends on {where}"
        case Kind.CORRELATION_BY_DATA:
            return f"correlation of {names} depends on {where}"
        case Kind.IGNORES_DATA if names:
            return f"learned nothing about {names}"
        case Kind.UNUSED_DATA:
            part = "a part of the data" if where in ("x", "summary(x)") else where
            return f"ignores {part} in {names}"
        case Kind.COMBINATION:
            return "wrong combination of parameters"
        case Kind.POWER | Kind.SCALES | Kind.PHASES | Kind.ANISOTROPY:
            return f"{where}"
        case Kind.BIASED | Kind.OVERCONFIDENT | Kind.UNDERCONFIDENT as kind if where:
            return f"{kind.value} in {where}"
        case Kind.FIT:
            part = f" ({where})" if where else ""
            return f"the draws fit the data {finding.direction} than the truths{part}"
        case Kind.SCORE:
            return f"wrong in your score “{where}”"
        case Kind.CORRELATION | Kind.DEPENDENCE as kind:
            return f"{kind.value} between {names}"
        case kind:
            return f"{kind.value}{f' in {names}' if names else ''}"


def listed(finding: Finding) -> str:
    """Return the names of the parameters, as people list them."""
    if finding.sizes:
        return f"{len(finding.sizes)} parameters"
    *first, last = finding.parameters or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def size_of(finding: Finding) -> str:
    """Return how large the flaw is, or what it looks like; nothing for most of your own scores."""
    size, direction = finding.size, finding.direction
    match finding.kind:
        case Kind.BIASED if size:
            if finding.sizes:
                return f"the draws lie {direction} the truths, by {_each(finding)} posterior sd"
            return f"the draws lie {unsigned(size)} posterior sd {direction} the truths"
        case Kind.OVERCONFIDENT | Kind.UNDERCONFIDENT:
            factor = _each(finding) if finding.sizes else size
            return f"the truths scatter {factor} times as widely as the draws{_rest(finding)}"
        case Kind.CORRELATION if size:
            draws = _signed(finding.expected)
            return f"given the data, truths correlate by {size} and draws by {draws}"
        case Kind.COMBINATION:
            return f"along {finding.where}, the truths scatter {size} times as widely as the draws"
        case Kind.BIAS_BY_DATA | Kind.WIDTH_BY_DATA | Kind.CORRELATION_BY_DATA:
            return along(finding)
        case Kind.DEPENDENCE:
            return along(finding) if finding.trend else _of_shape(finding)
        case Kind.IGNORES_DATA | Kind.UNUSED_DATA:
            return _of_data(finding)
        case Kind.POWER | Kind.SCALES | Kind.PHASES | Kind.ANISOTROPY | Kind.CELLS | Kind.FIT:
            return _of_field(finding)
        case Kind.SCORE if direction:
            return f"truths differ from draws most in {direction}"
        case Kind.ROUNDED:
            return "truths and draws do not share the same discrete values"
    return _of_shape(finding)


def _of_data(finding: Finding) -> str:
    """Return how much of the data the draws ignore."""
    size = finding.size
    if finding.kind is Kind.UNUSED_DATA:
        return f"that part explains {size.percent()} of what the draws leave open" if size else ""
    if finding.parameters:
        return (
            "the truths follow the data but not the draws, whose means correlate with them by "
            f"{_each(finding) if finding.sizes else size}"
        )
    return (
        "the draws are the same whatever was observed, or the axes are swapped; their means "
        f"correlate with the truths by {size}"
    )


def _of_field(finding: Finding) -> str:
    """Return how large a flaw is at scales of a field, in its cells, or in its fit to the data."""
    size, direction = finding.size, finding.direction
    match finding.kind:
        case Kind.POWER:
            much = "times" if size and size.value > 1 else "of"
            return f"the draws have {size} {much} the power that they should"
        case Kind.SCALES:
            return f"{direction}, the truths scatter {size} times as widely as the draws"
        case Kind.PHASES if size:
            less = size.value < (finding.expected or 0.0)
            more = "more than truths do, as if structure were in the wrong places"
            return (
                f"draws follow posterior means {more if less else 'less than truths do'}; truths "
                f"correlate with these means by {size}, and draws by {_signed(finding.expected)}"
            )
        case Kind.ANISOTROPY:
            return (
                f"wrong directions; the ratio of the power {direction} is {size} times as large "
                f"for truths as for draws"
            )
        case Kind.FIT:
            return f"their chi² is {size} times as large"
        case Kind.CELLS:
            return f"the {finding.unit} of truths is off by {size} from that of draws"
    return ""


def _rest(finding: Finding) -> str:
    """Return the width of a field outside a patch: right, if its interval as printed says so."""
    rest = finding.elsewhere
    if rest is None:
        return ""
    right = round(rest.low, 2) <= 1 <= round(rest.high, 2)
    return f"; right elsewhere, {rest}" if right else f"; elsewhere {rest} times"


def outlying(found: Outlying, name: str, n_sims: int) -> str:
    """Return what is to be known of draws that are far from all others."""
    return (
        f"{_rare(found.share)} of the draws of {name} lie beyond {WIDTHS:g} of their own "
        f"interquartile widths, in {found.posteriors:.0%} of the posteriors, and {found.n_truths} "
        f"of {n_sims} truths do (expected: {n_sims * found.share:.1f}). They move the means and "
        f"sds of the draws; the sizes here leave them out."
    )


def _rare(share: float | None) -> str:
    """Return a small share in per cent."""
    return f"{100 * (share or 0.0):.2g}%"


def _of_shape(finding: Finding) -> str:
    """Return how the distribution of truths among draws differs: skewness, tails, shares."""
    size, direction, expected = finding.size, finding.direction, finding.expected or 0.0
    match finding.kind:
        case Kind.SKEWED:
            other = "below" if direction == "above" else "above"
            return (
                f"the draws miss a tail or mode {direction}, or have one too many {other}; the "
                f"truths have a skewness of {size} among them"
            )
        case Kind.TAILS:
            # Ranks do not tell these two apart: both take truths from the middle to its sides.
            other = (
                "fill a gap between modes" if direction == "heavy" else "are too few in the middle"
            )
            return (
                f"the tails of the draws are too {direction}, or the draws {other}; the truths "
                f"have an excess kurtosis of {size} among them"
            )
        case Kind.OUTLIERS if size:
            return (
                f"{_rare(expected)} of the draws lie beyond {WIDTHS:g} of their own "
                f"interquartile widths, in {finding.where} of the posteriors, and "
                f"{size.percent(1)} of the truths do; means and sds of such draws are wrong"
            )
        case Kind.VALUES if size:
            return (
                f"{finding.where} is drawn in {expected:.0%}, and is the truth in {size.percent()}"
            )
        case Kind.OUTSIDE if size:
            return f"{size.percent()} of the truths lie beyond all draws, not {expected:.1%}"
        case Kind.DEPENDENCE | Kind.SHAPE:
            return _share(finding)
    return ""


def _share(finding: Finding) -> str:
    """Return which share of the truths is too large or too small, and where."""
    size, expected = finding.size, finding.expected
    if size is None:
        return "no single number describes it"
    if finding.kind is Kind.DEPENDENCE:
        return f"{size.percent()} of the truths lie {finding.where}, not {expected:.0%}"
    if finding.where is None:
        return (
            f"the {expected:.0%} of the draws nearest to their centre surround {size.percent()} "
            f"of the truths"
        )
    return f"{size.percent()} of the truths lie in {finding.where}, not {expected:.0%}"


def _each(finding: Finding) -> str:
    """Return the sizes in several parameters, the largest first."""
    shown = [
        f"{unsigned(size) if finding.kind is Kind.BIASED else size} in {name}"
        for name, size in zip(finding.parameters, finding.sizes, strict=True)
    ]
    n_more = len(shown) - _MOST_LISTED
    return ", ".join(shown[:_MOST_LISTED]) + (f" and {n_more} more" if n_more > 0 else "")


def along(finding: Finding) -> str:
    """Return how large an error is at both ends of what it depends on."""
    trend = finding.trend
    assert trend is not None
    of = f"{trend.along} is " if finding.kind is Kind.DEPENDENCE else "that is "
    ends = f"where {of}lowest, and {{}} where it is highest (thirds of the simulations)"
    match trend.what:
        case "width":
            low, high = str(trend.low), str(trend.high)
            return f"the truths scatter {low} times as widely as the draws {ends.format(high)}"
        case "correlation":
            of = f" of {' and '.join(trend.names)}" if finding.kind is Kind.DEPENDENCE else ""
            if trend.draws is None:
                return f"the truths{of} correlate by {trend.low} {ends.format(trend.high)}"
            low, high = (_signed(correlation) for correlation in trend.draws)
            ends = ends.format(f"by {trend.high} (draws: {high})")
            return f"the truths correlate by {trend.low} (draws: {low}) {ends}"
    return f"the draws lie {_side(trend.low)} {ends.format(_side(trend.high))}"


def _signed(value: float | None) -> str:
    """Return a number with two digits and its sign; none for zero."""
    rounded = round(value or 0.0, 2)
    return f"{rounded:+.2f}" if rounded else "0.00"


def _side(bias: Estimate) -> str:
    """Return how far the draws lie from the truths, and on which side if that is known."""
    if bias.low <= 0 <= bias.high:
        return f"within {max(-bias.low, bias.high):.2f} posterior sd of the truths"
    return f"{unsigned(bias)} posterior sd {'above' if bias.value > 0 else 'below'} the truths"


def errors(parameter: "Parameter") -> str:
    """Return the bias and the width of a parameter, whatever is wrong with it."""
    bias, width = parameter.bias, parameter.width
    side = "below" if max(bias.low, bias.high) < 0 else "above"
    return (
        f"the draws lie {unsigned(bias)} posterior sd {side} the truths, and the truths scatter "
        f"{width} times as widely as the draws"
    )


def _in_full(size: Estimate) -> str:
    """Return an estimate with as many digits as its interval is worth."""
    wide = size.high - size.low
    digits = 2 if wide <= 0 else min(9, max(2, 1 - floor(log10(wide))))
    return f"{size.value:.{digits}f} [{size.low:.{digits}f}, {size.high:.{digits}f}]"


def holds(result: Result) -> str:
    """Return the share of the truths in the 68 % regions of a result with one score."""
    share = held(result.ranks.values.ravel(), result.ranks.n_draws, 0.68, central=False)
    return f"the 68% regions hold {share.percent()} of the truths"


def better(paired: "Paired", first: str, second: str, n_pairs: int = 1) -> str:
    """Return which of two estimators is better, by how much, and how sure that is."""
    p_value = min(1.0, n_pairs * paired.p_value)
    share, size = paired.share, paired.difference
    if size.value < 0:
        first, second, share = second, first, 1 - share
        size = Estimate(-size.value, -size.high, -size.low)
    exact = "exact" if n_pairs == 1 else f"exact, adjusted for {n_pairs} pairs"
    return (
        f"the draws of {first} score better than those of {second} in {share:.0%} of the "
        f"simulations, on average by {_in_full(size)}, {stated('p', p_value, 3)} ({exact})"
    )


def caught(detectable: Detectable) -> str:
    """Return the smallest errors that a study would have caught."""
    smallest = 1.001 * BIASES[0], -1.001 * expm1(-NARROWINGS[0])  # 1.001: rounding errors
    least = " or less" if detectable.bias <= smallest[0] else ""
    bias = f"a bias of {detectable.bias:.2f} sd{least} in one parameter"
    least = " or less" if detectable.width <= smallest[1] else ""
    width = f"widths off by {detectable.width:.0%}{least}"
    if isinf(detectable.bias) and isinf(detectable.width):
        return "no bias or wrong width"
    if isinf(detectable.bias):
        return f"{width}, the same for all observations, but no bias"
    if isinf(detectable.width):
        return f"{bias}, the same for all observations, but no wrong width"
    return f"{bias}, or {width}, the same for all observations"


def power(detectable: Detectable) -> str:
    """Return what a study was able to see, as a sentence."""
    if isinf(detectable.bias) and isinf(detectable.width):
        return "This study could not reliably have caught any bias or wrong width."
    return f"With {CAUGHT:.0%} probability this study would have caught {caught(detectable)}."


def log_score(check: "Check") -> str:
    """Return the log score as a sentence; nothing without normalised log-densities."""
    scores = check.evidence.log_scores
    if scores is None or scores.excess > 0:
        return ""
    if scores.n_zero:
        return f"Log score: −∞ nats, since {_zero(scores)}."
    return f"Log score: {scores.mean} nats, the mean log-density of the truths if normalised."


def gain(check: "Check", other: "Check", name: str, of_other: str) -> str:
    """Return how much more a check scores than another, as a sentence.

    Arguments:
        check: A check.
        other: The check that it is compared with.
        name: What was checked.
        of_other: What the other checked.
    """
    scores, others = check.evidence.log_scores, other.evidence.log_scores
    if scores is None or others is None or scores.excess > 0 or others.excess > 0:
        return ""
    said = f"Log score of {name} minus that of {of_other}"
    if scores.truths != others.truths:
        return f"{said}: not comparable, since they are not of the same simulations."
    if scores.n_zero and others.n_zero:
        return f"{said}: unknown, since both are −∞."
    if scores.n_zero:
        return f"{said}: −∞ nats, since {_zero(scores)}."
    if others.n_zero:
        return f"{said}: ∞ nats, since for {of_other} {_zero(others)}."
    return f"{said}: {check.gain_over(other)} nats."


def _zero(scores: "LogScores") -> str:
    n_zero = scores.n_zero
    return f"the density is zero at {n_zero} of {len(scores.values)} truths"


def learned(check: "Check") -> str:
    """Return by how much draws are narrower than truths, and how their means follow them."""
    parameters = check.parameters
    least = sorted(parameters, key=lambda parameter: parameter.contraction)
    shown = parameters if len(parameters) <= _MOST_LEARNED else least[:_LEAST_LEARNED]
    each = [f"{p.name} {_contracts(p)} (recovery {p.recovery:.2f})" for p in shown]
    of = f" least, of {len(parameters)} parameters" if len(shown) < len(parameters) else ""
    return f"Learned{of}: {', '.join(each)}."


def _contracts(parameter: "Parameter") -> str:
    size = parameter.contraction
    if size < -1:
        return "is far wider than the truths"
    return f"contracts by {size:.0%}" if size >= 0.005 else "does not contract"


def needed(check: "Check") -> str:
    """Return how many simulations it takes before a pass means anything."""
    seen, n_dims = check.detectable, len(check.parameters)
    least = "at least" if isinf(seen.bias) or isinf(seen.width) else "about"
    return (
        f"A pass needs {least} {seen.n_needed(check.n_sims)} simulations, to catch a bias of "
        f"{TELLING_BIAS:g} sd and widths off by {TELLING_WIDTH:.0%}; for smaller errors see "
        f"tarpon.plan({n_dims}, bias=0.3)."
    )


def seen_by(check: "Check") -> str:
    """Return the families that reject the posteriors on their own."""
    seen = [family.name for family in check.families if family.adjusted <= check.level]
    return ", ".join(seen[:_MOST_FAMILIES]) or "only the combined test"


def tolerated(check: "Check") -> str:
    """Return how large errors can be, beside what is tolerated."""
    margins = check.margins
    assert margins is not None
    bias, width, coverage = (
        (f"{unit * margin.most:.2g}", f"{unit * limit:.2g}")
        for (margin, limit), unit in zip(margins.kinds.values(), (1, 100, 100), strict=True)
    )
    shown = (
        f"biases are at most {bias[0]} sd (tolerance {bias[1]})",
        f"widths are right within {width[0]}% ({width[1]}%)",
        f"coverage within {coverage[0]}% ({coverage[1]}%)",
    )
    bound = f"With {margins.confidence:.0%} confidence, {', '.join(shown[:-1])} and {shown[-1]}"
    average = "on average over observations; single posteriors may be further off"
    if check.outcome == "within tolerance":
        measurably = "There is evidence against them, but the errors are too small to matter. "
        return f"{measurably if check.p_value <= check.level else ''}{bound}, {average}."
    if margins.beyond:
        worst = " and ".join(
            f"{kind} of {getattr(margins, kind).worst}" for kind in margins.beyond
        )
        return f"By more than the tolerance: {worst}. {bound}, {average}."
    return f"Not shown to be within the tolerance. {bound}, {average}."


def summary(check: "Check") -> str:
    """Return what a colleague would say about a check."""
    n_more, places = len(check.findings) - _MOST_FINDINGS, check.evidence.places
    points = fields.described(places.shape if places else (len(check.parameters),))
    outcome = "WEAK EVIDENCE AGAINST" if check.weak else check.outcome.upper()
    lines = [
        f"{outcome}  {stated('p', check.p_value, 3)} ({check.exactness}, "
        f"{check.n_swaps} swaps), {check.n_sims} simulations{dropped(check.n_dropped)} × "
        f"{check.draws} × {points}"
    ]
    if check.margins:
        lines.append(f"  {tolerated(check)}")
    if check.weak:
        lines.append(
            "  Repeat with fresh simulations: of accurate posteriors, "
            f"{check.level:.0%} look like this. What stands out most, if it is real:"
        )
    lines += [f"  {k}. {finding}" for k, finding in enumerate(check.findings[:_MOST_FINDINGS], 1)]
    if n_more > 0:
        lines.append(f"  and {n_more} more in `findings`")
    if check.findings:
        lines.append(f"  Seen by: {seen_by(check)}")
    lines += [f"  {learned(check)}", f"  {power(check.detectable)}"]
    if said := log_score(check):
        lines.append(f"  {said}")
    lines += [f"  Warning: {warning}" for warning in check.warnings]
    if check.outcome == "too few to say":
        lines.append(f"  {needed(check)}")
    lines += [f"  Next: {advice}." for advice in check.advice[:_MOST_ADVICE]]
    return "\n".join(lines)


def plan(plan: "Plan") -> tuple[str, list[dict[str, str]], list[str]]:
    """Return a plan in words: what comes before its table, the rows, and what comes after."""
    from .plan import FEW_SWAPS

    surely = (
        f"with {100 * plan.power:.3g}% probability in {plan.n_dims} "
        f"dimension{'s' * (plan.n_dims > 1)}"
    )
    foot = [f"with `check(..., n_swaps={plan.n_swaps})`"] * (plan.n_swaps > FEW_SWAPS)
    if plan.detectable:
        return *_seen(plan, surely), foot
    if plan.tolerance is not None:
        (shown,), most = set(plan.n_sims.values()), plan.tolerance
        return (
            (
                f"To show {surely} that accurate posteriors are within the tolerance (bias "
                f"{most.bias:g} sd, widths {most.width:.2g}, coverage {most.coverage:.2g}) takes "
                f"{shown} simulations."
            ),
            [],
            foot,
        )
    sought = [f"a bias of {plan.bias:g} sd in one parameter"] * bool(plan.bias)
    sought += [f"widths off by {100 * plan.width:.3g}%"] * bool(plan.width)
    goal = f"To see {' and '.join(sought)} {surely}"
    needed = [(str(n), str(n_sims or "over 100000")) for n, n_sims in plan.n_sims.items()]
    if len(needed) > 1:
        return f"{goal}:", [{"draws": n, "simulations": n_sims} for n, n_sims in needed], foot
    ((n_draws, n_sims),) = needed
    takes = f"{goal} takes {n_sims} simulations of {n_draws} draws each"
    return f"{' '.join([takes, *foot])}.", [], []


def _seen(plan: "Plan", surely: str) -> tuple[str, list[dict[str, str]]]:
    """Return what so many simulations see, before the table and in its rows."""
    from .plan import WIDEST

    (n_sims,), most = set(plan.n_sims.values()), f"{BIASES[-1]:g} sd"
    if all(isinf(least.bias) and isinf(least.width) for least in plan.detectable.values()):
        draws = " or ".join(map(str, plan.detectable))
        return (
            f"{n_sims} simulations of {draws} draws see nothing {surely}: no bias up to {most}, "
            f"no widths off by up to {WIDEST:.0%}."
        ), []
    rows = [
        {
            "draws": str(n_draws),
            "bias": f"no bias up to {most}" if isinf(least.bias) else f"{least.bias:.2f} sd",
            "widths off by": (
                f"not up to {WIDEST:.0%}" if isinf(least.width) else f"{least.width:.0%}"
            ),
        }
        for n_draws, least in plan.detectable.items()
    ]
    return f"The smallest errors that {n_sims} simulations see {surely}:", rows

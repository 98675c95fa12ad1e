"""Words: what findings and checks say, made from their fields here and nowhere else."""

from math import isinf
from typing import TYPE_CHECKING

from .._base.text import dropped, stated, unsigned
from .findings import Finding, Kind
from .power import CAUGHT, Detectable

if TYPE_CHECKING:
    from . import Check

_MOST_FINDINGS, _MOST_FAMILIES = 4, 6


def sentence(finding: Finding) -> str:
    """Return a finding in words, with where and how large the flaw is."""
    names, size = " and ".join(finding.parameters), size_of(finding)
    place = f" {link(finding)} {names}" if names else ""
    return f"{flaw(finding)}{place}{f': {size}' if size else ''}"


def flaw(finding: Finding) -> str:
    """Return the name of the flaw."""
    match finding.kind:
        case Kind.BIAS_BY_DATA:
            return f"bias depends on {finding.where}"
        case Kind.WIDTH_BY_DATA:
            return f"width depends on {finding.where}"
        case Kind.SCORE:
            return f"wrong in your score “{finding.where}”"
        case kind:
            return kind.value


def link(finding: Finding) -> str:
    """Return the word between the flaw and its parameters."""
    return "between" if len(finding.parameters) == 2 else "in"


def size_of(finding: Finding) -> str:
    """Return how large the flaw is, or what it looks like; nothing for most of your own scores."""
    size, direction = finding.size, finding.direction
    match finding.kind:
        case Kind.BIASED if size:
            return f"the draws lie {unsigned(size)} posterior sd {direction} the truths"
        case Kind.OVERCONFIDENT | Kind.UNDERCONFIDENT:
            return f"the truths scatter {size} times as widely as the draws"
        case Kind.SKEWED:
            other = "below" if direction == "above" else "above"
            return f"the draws miss a tail or mode {direction}, or have one too many {other}"
        case Kind.TAILS:
            return f"the tails of the draws are too {direction}"
        case Kind.BIAS_BY_DATA:
            what = "observation" if finding.where == "x" else "posterior mean"
            return f"the shift between draws and truths changes with the {what}"
        case Kind.WIDTH_BY_DATA:
            what = "observations" if finding.where == "x" else "simulations"
            return f"too narrow for some {what} and too wide for others"
        case Kind.CORRELATION if size:
            draws = f"{finding.expected:+.2f}"
            return f"given the data, truths correlate by {size.value:+.2f} and draws by {draws}"
        case Kind.SCORE if direction:
            return f"truths differ from draws most in {direction}"
        case Kind.OUTSIDE if size:
            return (
                f"{size.percent()} of the truths lie beyond all draws, not {finding.expected:.1%}"
            )
    return _PLAIN.get(finding.kind, "")


_PLAIN = {
    Kind.IGNORES_DATA: "the draws are the same whatever was observed, or the axes are swapped",
    Kind.ROUNDED: "truths and draws do not share the same discrete values",
    Kind.SHAPE: "no single number describes it",
}


def caught(detectable: Detectable) -> str:
    """Return the smallest errors that a study would have caught."""
    bias = f"a bias of {detectable.bias:.2f} sd in one parameter"
    width = f"widths off by {detectable.width:.0%}"
    if isinf(detectable.bias):
        return "no bias or wrong width" if isinf(detectable.width) else f"{width}, but no bias"
    return f"{bias}, but no wrong width" if isinf(detectable.width) else f"{bias}; {width}"


def power(detectable: Detectable) -> str:
    """Return what a study was able to see, as a sentence."""
    if isinf(detectable.bias) and isinf(detectable.width):
        return "This study could not reliably have caught any bias or wrong width."
    return f"With {CAUGHT:.0%} probability this study would have caught {caught(detectable)}."


def seen_by(check: "Check") -> str:
    """Return the families that reject the posteriors on their own."""
    seen = [family.name for family in check.families if family.adjusted <= check.level]
    return ", ".join(seen[:_MOST_FAMILIES]) or "only the combined test"


def summary(check: "Check") -> str:
    """Return what a colleague would say about a check."""
    n_parameters, n_more = len(check.parameters), len(check.findings) - _MOST_FINDINGS
    lines = [
        f"{check.outcome.upper()}  {stated('p', check.p_value, 3)} ({check.exactness}, "
        f"{check.n_swaps} swaps), {check.n_sims} simulations{dropped(check.n_dropped)} × "
        f"{check.draws} × {n_parameters} parameter{'s' * (n_parameters > 1)}"
    ]
    lines += [f"  {k}. {finding}" for k, finding in enumerate(check.findings[:_MOST_FINDINGS], 1)]
    if n_more > 0:
        lines.append(f"  and {n_more} more in `findings`")
    if check.findings:
        lines.append(f"  Seen by: {seen_by(check)}")
    lines.append(f"  {power(check.detectable)}")
    lines += [f"  Warning: {warning}" for warning in check.warnings]
    if check.outcome == "too few to say":
        lines.append(
            "  More simulations are needed before a pass means anything: "
            f"tarpon.plan({n_parameters}, bias=0.3) says how many."
        )
    return "\n".join(lines)

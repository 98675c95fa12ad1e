"""The figure that shows a finding."""

from ..checks import Check, words
from ..checks.evidence import Pair
from ..checks.flaws import Finding, Kind
from ._fields import error_map, spectrum
from ._figures import Figure, coverage, pair, ranks, ranks_of, ranks_title, trend

_MAPPED = {Kind.BIASED: "bias", Kind.OVERCONFIDENT: "width", Kind.UNDERCONFIDENT: "width"}


def pair_of(check: Check, finding: Finding) -> Pair | None:
    """Return the two parameters that depend on each other in a wrong way, if they are at hand."""
    if finding.kind is not Kind.DEPENDENCE or finding.trend is not None:
        return None
    worst = check.evidence.pairs.worst
    return next((two for two in worst if set(two.names) == set(finding.parameters)), None)


def of_finding(check: Check, finding: Finding, key: str) -> Figure | None:
    """Return the figure that shows a flaw."""
    evidence = check.evidence
    if finding.trend is not None:
        return trend(finding.trend, key)
    match finding.kind:
        case Kind.CORRELATION:
            return pair(check, evidence.pairs.worst[0], key)
        case Kind.DEPENDENCE if (two := pair_of(check, finding)) is not None:
            return pair(check, two, key)
        case Kind.SCORE:
            own = [result for result in evidence.joint if result.names == (finding.where,)]
            title = ranks_title(finding.where or "")
            return ranks_of(own[0], key, title, words.holds(own[0])) if own else None
        case Kind.ROUNDED | Kind.VALUES | Kind.CELLS:
            return None
        case Kind.POWER | Kind.SCALES | Kind.PHASES | Kind.ANISOTROPY:
            return spectrum(check, key)
    if evidence.places is not None and finding.kind in _MAPPED:
        return error_map(check, _MAPPED[finding.kind], key)
    if finding.parameters and finding.kind is not Kind.COMBINATION:
        score = evidence.marginals.names.index(finding.parameters[0])
        return ranks(check, score, key)
    return coverage(evidence.joint, key) if evidence.joint else None

"""Advice: what to do next, from the findings and from mistakes that are recognised."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .._base.arrays import Results
from ..simulations import Simulations
from . import mistakes, orders
from .flaws import Finding, Kind
from .mistakes import Cause, Mistake
from .parameters import Effects
from .slopes import FACTORS

PAGE = "docs/next.md"
_FEWEST_SIMS = 20
_MOST_LISTED = 3


@dataclass(frozen=True)
class Advice:
    """What to do next about a check; `str` gives it in words.

    Arguments:
        cause: The mistake that was recognised, or else the kind of the finding.
        parameters: The names of the parameters that show it; none if it is in all.
        numbers: The numbers that show it, by name; none if it follows from a finding.
        evidence: The same in words, or the likely causes of a finding.
        next: What to do, with the command.
        link: The section of the documentation about it.
    """

    cause: Cause | Kind
    parameters: tuple[str, ...]
    numbers: dict[str, float]
    evidence: str
    next: str
    link: str

    @property
    def recognised(self) -> bool:
        """Whether a mistake was recognised; otherwise these are the usual causes of a finding."""
        return isinstance(self.cause, Cause)

    def __str__(self) -> str:
        both = (self.evidence, self.next) if self.recognised else (self.next, self.evidence)
        return f"{'. '.join(both)} ({self.link})"


def advise(
    sims: Simulations,
    effects: Effects,
    measured: Results,
    findings: Sequence[Finding],
    cells: Mistake | None = None,
) -> tuple[Advice, ...]:
    """Return what to do next, mistakes before the usual causes of findings.

    Arguments:
        sims: The simulations.
        effects: What was measured of the draws.
        measured: What `mistakes.measure` returned.
        findings: The findings of posteriors that the test has clearly rejected, otherwise none.
        cells: The mistake that the cells of fields show, if parameters are means of cells.
    """
    found = list(recognised(sims, effects, measured, cells, rejected=bool(findings)))
    names = sims.names or ()
    told = [_of_mistake(mistake, names) for mistake in found]
    if whole := [advice for advice in told if advice.cause in _WHOLE]:
        return tuple(whole)  # explains all that is found
    usual: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        usual.setdefault(_USUAL[finding.kind], finding)
    return (*told, *(_of_finding(finding) for finding in usual.values()))


_WHOLE = (Cause.SIMULATIONS, Cause.AXES, Cause.MOVED, Cause.PARAMETERS, Cause.UNITS)
_WORST = (Cause.CLIPPED, Cause.LEAK, Cause.NARROW, Cause.BURN_IN, Cause.PULLED, Cause.UNITS)


def recognised(
    sims: Simulations,
    effects: Effects,
    measured: Results,
    cells: Mistake | None = None,
    *,
    rejected: bool,
) -> Iterator[Mistake]:
    """Yield the mistakes that are recognised, those that explain most first.

    Units and burn-in are looked for in rejected posteriors alone: the order of draws does not
    matter to accuracy. A wrong order explains all others; it is looked for in draws that are
    uncorrelated with the truths, too, which no test can reject without the data.
    """
    rejected = rejected and sims.n_sims >= _FEWEST_SIMS
    if rejected or not effects.recovered().any():
        found = (
            orders.order_of_simulations(sims, effects),
            orders.order_of_axes(sims, effects),
            orders.moved(sims, effects) if rejected else (),
            orders.order_of_parameters(effects),
        )
        for mistake in itertools.chain(*found):
            yield mistake
            return
    if rejected:
        lines = list(orders.factors(effects))
        if len(sims.shape) > 1:  # all cells of a field have the same unit
            lines = [line for line in lines if 2 * len(line.parameters) > sims.n_dims]
        yield from (line for line in lines if line.cause is Cause.UNITS)
    yield from mistakes.at_the_ends(sims, effects, measured, cells)
    if rejected:
        yield from mistakes.burn_in(sims, effects, measured)
        yield from (line for line in lines if line.cause is Cause.PULLED)  # the weakest last


def _of_mistake(mistake: Mistake, names: Sequence[str]) -> Advice:
    parameters = tuple(names[k] for k in mistake.parameters)
    worst = parameters[0] if parameters else "all cells"
    evidence, following = _said(mistake, _listed(parameters or (worst,)), worst)
    if mistake.cause in _WORST and len(parameters) > 1:
        evidence += f"; also in {_listed(parameters[1:])}"
    anchor = mistake.cause.value.replace(" ", "-")
    return Advice(
        mistake.cause, parameters, mistake.numbers, evidence, following, f"{PAGE}#{anchor}"
    )


def _of_finding(finding: Finding) -> Advice:
    causes, following = _USUAL[finding.kind]
    evidence = f"Usual causes: {causes}"
    return Advice(finding.kind, finding.parameters, {}, evidence, following, finding.page)


def _listed(names: Sequence[str]) -> str:
    """Return names as people list them, a few of many."""
    *first, last = names[:_MOST_LISTED]
    n_more = len(names) - _MOST_LISTED
    if n_more > 0:
        return f"{', '.join([*first, last])} and {n_more} more"
    return f"{', '.join(first)} and {last}" if first else last


def _said(mistake: Mistake, names: str, worst: str) -> tuple[str, str]:
    """Return what shows a mistake, and what to do about it."""
    numbers = mistake.numbers
    words = {"names": names, "worst": worst, "call": mistake.detail}
    if "share" in numbers:
        words["percent"] = _percent(numbers["share"])
    if "factor" in numbers:
        words["confused"] = _CONFUSED[FACTORS[numbers["factor"]]]
    evidence, following = _SAID[mistake.cause]
    return evidence.format(**numbers, **words), following.format(**numbers, **words)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


_ANOTHER_PRIOR = "Compare the prior of the estimator with that of the truths"
_SAID = {
    Cause.SIMULATIONS: (
        "Order of simulations? The draws of {worst} match truths of other simulations "
        "(correlation {correlation:.2f}, {now:.2f} as they are)",
        "If so, `{call}`, and check again",
    ),
    Cause.AXES: (
        "Order of axes? Turned or flipped, the draws match the truths (mean correlation of cells "
        "{correlation:.2f}, {now:.2f} as they are)",
        "If so, `{call}`, and check again",
    ),
    Cause.MOVED: (
        "Moved? A cell or two farther, the draws match the truths better (mean correlation of "
        "cells {correlation:.2f}, {now:.2f} as they are)",
        "If so, `{call}`, and check again",
    ),
    Cause.PARAMETERS: (
        "Order of parameters? The draws of {names} match the truths of each other (correlation "
        "{correlation:.2f} or more, {now:.2f} as they are)",
        "Compare the columns of `theta` with those of `samples`, and check again",
    ),
    Cause.UNITS: (
        "{confused} Truths of {worst} go as {slope:.3g} [{low:.3g}, {high:.3g}] times the "
        "posterior mean",
        "If so, multiply the draws of {names} by {factor:.4g}, and check again",
    ),
    Cause.CLIPPED: (
        "Clipped? {percent} of the draws of {worst} are exactly {value:z.4g}, and no truth is",
        "Sample in an unbounded parameter, or reject draws outside the prior",
    ),
    Cause.LEAK: (
        "Prior leak: {percent} of the draws of {worst} lie outside [{low:z.4g}, {high:z.4g}], the "
        "range of all truths",
        _ANOTHER_PRIOR,
    ),
    Cause.NARROW: (
        "Prior too narrow? {percent} of the truths of {worst} lie outside [{low:z.4g}, "
        "{high:z.4g}], the range of all draws",
        _ANOTHER_PRIOR,
    ),
    Cause.BURN_IN: (
        "Burn-in? The first draws of {worst} lie {drift:.2g} posterior sd from the last ones, in "
        "the same direction in most simulations",
        "Drop the first draws, `samples[len(samples) // 4 :]`, and check again",
    ),
    Cause.PULLED: (
        "Pulled towards the prior: truths of {worst} deviate {slope:.2f} [{low:.2f}, {high:.2f}] "
        "times as far as posterior means do",
        "The prior may be too strong, or the data underused: train longer, or give the estimator "
        "better summaries",
    ),
}
_CONFUSED = {
    "sign": "Wrong sign?",
    "half": "A factor of 2 (a variance for an sd in logarithms, a radius for a diameter)?",
    "double": "A factor of 2 (an sd for a variance in logarithms, a diameter for a radius)?",
    "ln for log10": "Draws in log10 and truths in ln?",
    "log10 for ln": "Draws in ln and truths in log10?",
    "radians for degrees": "Draws in radians and truths in degrees?",
    "degrees for radians": "Draws in degrees and truths in radians?",
    "power of ten": "Different units?",
}
_SHAPE = (
    "an estimator that is not flexible enough, or has not converged",
    "Train longer or on more simulations, then use a more flexible estimator",
)
_BY_DATA = (
    "too little training where observations are rare, or summaries that miss something",
    'Look at the trend in `check.report("report.html")`, and train on more such observations',
)
_TOGETHER = (
    "draws of each parameter on its own, or an estimator that is not flexible enough",
    "Draw all parameters jointly, and use a more flexible estimator",
)
_SCALES = (
    "a network or a loss that smooths, too few steps of a sampler, or a wrong prior",
    "Look at `check.evidence.bands`, and compare the spectra of truths and draws",
)
_USUAL = {
    Kind.BIASED: (
        "a prior or a simulator that differs between training and test, or too little training",
        "Compare the prior of the truths with that of the estimator, then `check.plot()`",
    ),
    Kind.OVERCONFIDENT: (
        "raw or unconverged chains, too little training, or noise that was left out",
        "Thin draws of chains with `tarpon.adapters.chains.thin`; otherwise train on more "
        "simulations, or average several estimators",
    ),
    Kind.UNDERCONFIDENT: (
        "too little training, data that are used in part, or a temperature above one",
        "Train longer, with better summaries of the data",
    ),
    Kind.SKEWED: _SHAPE,
    Kind.TAILS: _SHAPE,
    Kind.SHAPE: _SHAPE,
    Kind.OUTLIERS: (
        "draws that diverged, or an estimator that is unstable for some observations",
        "Look at the simulations with such draws, and remove divergent chains",
    ),
    Kind.OUTSIDE: (
        "modes or tails that the sampler does not reach",
        "Run more chains from different starts, or train on more simulations",
    ),
    Kind.BIAS_BY_DATA: _BY_DATA,
    Kind.WIDTH_BY_DATA: _BY_DATA,
    Kind.CORRELATION_BY_DATA: _BY_DATA,
    Kind.IGNORES_DATA: (
        "a network that has not learned from the data, summaries that lose them, or draws that "
        "belong to another observation",
        "Compare the posteriors of two very different observations",
    ),
    Kind.UNUSED_DATA: (
        "summaries that lose information, masks, data in different units, or too little training",
        "Look for these data in what the estimator is given, then train longer",
    ),
    Kind.CORRELATION: _TOGETHER,
    Kind.COMBINATION: _TOGETHER,
    Kind.DEPENDENCE: _TOGETHER,
    Kind.POWER: _SCALES,
    Kind.SCALES: _SCALES,
    Kind.ANISOTROPY: _SCALES,
    Kind.PHASES: (
        "maps that are shifted, flipped or transposed, or a network that paints details of its "
        "own where the data have some",
        "Compare the draws of one observation with its truth, cell by cell",
    ),
    Kind.CELLS: _SHAPE,
    Kind.FIT: (
        "data that are ignored in part, another noise or forward model in the sampler than in the "
        "simulations, or a sampler that stops early",
        "Draw what is left of one observation for its truth and for some draws",
    ),
    Kind.ROUNDED: (
        "draws or truths that were rounded, or stored in fewer digits",
        "Store both in the same precision, and check again",
    ),
    Kind.VALUES: (
        "classes that are rarer in training than in the prior, or an overfitted classifier",
        "Look at `check.to_frame(\"values\")`, and train with the prior's shares",
    ),
    Kind.SCORE: (
        "an error in the quantity that this score measures",
        "Draw that quantity for truths and draws side by side",
    ),
}  # fmt: skip

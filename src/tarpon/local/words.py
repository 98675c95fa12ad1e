"""Words of local answers, made from their fields here and nowhere else."""

from typing import TYPE_CHECKING

from .._base.text import stated, unsigned
from ..checks import words

if TYPE_CHECKING:
    from .near import Extreme, Near
    from .places import Place
    from .where import Where

_MEASURES = {
    "posteriors": "posterior means and widths up to {} posterior sd away",
    "x": "observations up to {} sd away",
    "summary(x)": "summaries up to {} sd away",
}


def near(answer: "Near") -> str:
    """Return what can be said at an observation."""
    check = answer.check
    lines = [f"{answer.outcome.upper()}  {stated('p', check.p_value, 3)} ({check.exactness})"]
    if answer.outcome == "outside the simulations":
        exactness = "approximate" if answer.around else "exact"
        lines[0] = f"{answer.outcome.upper()}  {stated('p', answer.typical, 3)} ({exactness})"
        lines.append(f"  {_unusual(answer)}")
        return "\n".join(lines)
    share = "" if answer.around else f"{answer.n / answer.n_sims:.0%} of them, "
    around = " around it" if answer.around else ""
    how_far = _MEASURES[answer.measure].format(f"{answer.radius:.2g}")
    lines += [
        f"  The observation is like those of the simulations ({stated('p', answer.typical)}).",
        f"  Among the {answer.n} nearest of {answer.n_sims} simulations{around} "
        f"({share}{how_far}):",
    ]
    lines += [f"  {k}. {finding}" for k, finding in enumerate(check.findings[:_MOST], 1)]
    if not check.findings:
        lines.append(f"  {_NOTHING}")
    lines.append(f"  {words.power(check.detectable)}")
    lines += [f"  Warning: {warning}" for warning in check.warnings]
    if answer.alike:
        lines.append(f"  Warning: {_ALIKE}")
    if check.outcome == "too few to say":
        lines.append(f"  {_too_few(answer, check.detectable.n_needed(check.n_sims))}")
    if answer.n_observations > 1:
        lines.append(
            f"  One of {answer.n_observations} observations, each tested at level "
            f"{check.level:.2g}; for all of data space see tarpon.where."
        )
    return "\n".join(lines)


_MOST = 4
_NOTHING = "no evidence against the posteriors."
_ALIKE = (
    "posterior means and widths are the same for all simulations, so the nearest ones are "
    "arbitrary: pass `summary`."
)


def _too_few(answer: "Near", n_needed: int) -> str:
    """Return how a pass would be possible: with more of the simulations that there are, if any."""
    if answer.around or n_needed > answer.n_sims:
        return f"A pass needs about {n_needed} simulations as near as these: simulate more."
    return (
        f"A pass needs about {n_needed} simulations: pass `n={n_needed}`, though these lie "
        f"further away, or simulate more."
    )


def _unusual(answer: "Near") -> str:
    """Return in what an observation differs from the simulated ones."""
    found = [_extreme(one, answer.n_sims) for one in answer.extremes]
    features = f": {'; '.join(found)}" if found else ""
    return (
        f"The observation is unlike those of the simulations{features}. What they say about "
        f"accuracy does not apply to it."
    )


def _extreme(one: "Extreme", n_sims: int) -> str:
    side = "above" if one.above else "below"
    if one.p_value * (n_sims + 1) < 2.5:  # the observation alone, on both sides
        return f"{one.name} lies {side} all {n_sims}"
    return f"{one.name} lies {side} {1 - one.p_value / 2:.1%} of them"


def place(one: "Place") -> str:
    """Return where posteriors are wrong, and by how much."""
    sides = " and ".join(map(str, one.sides))
    here = f"where {sides}, " if sides else "everywhere, "
    if one.kind == "bias":
        side = "above" if one.size.value > 0 else "below"
        return (
            f"{here}the draws of {one.parameter} lie {unsigned(one.size)} posterior sd {side} the "
            f"truths"
        )
    whose = f"the truths of {one.parameter}" if one.parameter else "the truths"
    return f"{here}{whose} scatter {one.size} times as widely as the draws"


def where(answer: "Where") -> str:
    """Return where posteriors are wrong, as a colleague would."""
    lines = [
        f"{answer.outcome.upper()}  {stated('p', answer.p_value, 3)} (exact, adjusted for "
        f"{answer.n_groups} groups), {answer.n_sims} simulations"
    ]
    lines += [
        f"  {k}. {one} ({one.n_sims / answer.n_sims:.0%} of the simulations)"
        for k, one in enumerate(answer.places, 1)
    ]
    if not answer.places and answer.outcome != "nothing found":
        lines.append("  It is not clear where: no group alone has a clear error.")
    if answer.places and answer.elsewhere and answer.outcome == "inaccurate in places":
        lines.append("  Elsewhere nothing was found.")
    depends = answer.depends <= answer.level
    verb = "depend" if depends else "are not shown to depend"
    lines.append(f"  Errors {verb} on the observations ({stated('p', answer.depends)}, exact).")
    return "\n".join(lines)


def label(kind: str, parameter: str | None) -> str:
    """Return the label of an axis of errors."""
    if kind == "coverage":
        return f"Truths of {parameter} in 68% of the draws"
    if kind == "bias":
        return f"Bias of {parameter} / posterior sd"
    return f"Scatter of the truths{f' of {parameter}' if parameter else ''} / width"

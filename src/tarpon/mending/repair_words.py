"""Words of repairs, made from their fields here and nowhere else."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .._base.text import stated
from .._version import __version__
from ..checks import words

if TYPE_CHECKING:
    from ..checks import Check
    from .fitting import Step
    from .repair import Repair

LOST = 0.03  # the share of the posterior that may be missing
_UNPROVEN = (
    "Not proven: with as few draws, the posteriors pass without the repair, too. Pass more "
    "simulations, or more draws of each."
)
_STEPS = {
    "move": "location, width and correlation are moved",
    "keep": "draws are kept with a probability that follows their place",
}


def repair(answer: "Repair") -> str:
    """Return what became of the posteriors, and how well that is known."""
    lines = [_first(answer)]
    if answer.outcome == "nothing to repair":
        lines.append("  Draws are returned as they were.")
    else:
        lines += [f"  Step {k}: {_step(step)}" for k, step in enumerate(answer.steps, 1)]
    if answer.before is not None and answer.outcome != "nothing to repair":
        lines.append(f"  Before: {_found(answer.before)}.")
    if answer.check is not None and answer.outcome in ("repaired", "improved, still inaccurate"):
        lines.append(f"  After: {_found(answer.check)}.")
        if answer.outcome == "repaired" and not answer.proven:
            lines.append(f"  {_UNPROVEN}")
        lines.append(f"  Left: {_left(answer)}.")
        lines.append(f"  {words.power(answer.check.detectable)}")
    return "\n".join(lines)


def _first(answer: "Repair") -> str:
    name = answer.outcome.upper()
    match answer.outcome:
        case "repaired":
            return f"{name}: no evidence against on {_proof(answer)}; {_kept(answer)}"
        case "improved, still inaccurate":
            return f"{name} on {_proof(answer)}; {_kept(answer)}"
        case "nothing to repair":
            return f"{name}: {answer.n_fit} simulations show no error that a repair gains on"
    return f"{name}: {_why_not(answer)}; train again"


def _why_not(answer: "Repair") -> str:
    if not any(step.used for step in answer.steps):
        return "no step clearly gains on simulations held out of its fit"
    if answer.check is None:
        return "mass is missing (under half of the simulations keep enough draws)"
    if answer.missing > LOST:
        share = f"{answer.missing:.0%} of the posterior"
        return f"mass is missing (about {share} lies where there are too few draws)"
    return (
        f"mass is missing (truths lie outside of their draws, and {_proof(answer)} still show "
        f"errors)"
    )


def _proof(answer: "Repair") -> str:
    if answer.check is None:
        return f"{answer.n_unseen} unseen simulations"
    said = stated("p", answer.check.p_value, 3)
    return f"{answer.check.n_sims} unseen simulations ({said}, {answer.check.exactness})"


def _kept(answer: "Repair") -> str:
    return f"{answer.kept:.0%} of draws kept"


def _step(step: "Step") -> str:
    # Where there are next to no draws, a density ratio is too large to be estimated.
    size = "a nat or more" if step.gain > 1 else f"{step.gain:.2g} ± {step.error:.1g} nats"
    gain = f"{size} on simulations held out of its fit"
    if step.used:
        return f"{step.name}: {_STEPS[step.name]}; gains {gain}."
    if step.gain <= 0:
        return f"{step.name}, not used: it gains nothing on simulations held out of its fit."
    why = "less clear than that of keeping alone" if step.name == "move" else "not clear"
    return f"{step.name}, not used: its gain of {gain} is {why}."


def _found(check: "Check") -> str:
    said = stated("p", check.p_value, 3)
    if not check.findings:
        return f"{said}, nothing found"
    more = len(check.findings) - 1
    return f"{said}, {check.findings[0]}" + (f", and {more} more" if more else "")


def _left(answer: "Repair") -> str:
    """Return the largest bias and wrong width that are left."""
    bias = max(answer.left, key=lambda one: abs(one.bias.value))
    width = max(answer.left, key=lambda one: abs(one.width.value - 1))
    return (
        f"biases up to {bias.bias} sd ({bias.name}); truths scatter up to {width.width} times as "
        f"widely as draws ({width.name})"
    )


def to_dict(answer: "Repair") -> dict[str, Any]:
    """Return everything that a program or a log would keep."""
    return {
        "schema": "tarpon-repair-1",
        "outcome": answer.outcome,
        "proven": answer.proven,
        "before": None if answer.before is None else answer.before.to_dict(),
        "check": None if answer.check is None else answer.check.to_dict(),
        "kept": answer.kept,
        "missing": answer.missing,
        "steps": [asdict(step) for step in answer.steps],
        "left": [asdict(one) for one in answer.left],
        "n_fit": answer.n_fit,
        "n_unseen": answer.n_unseen,
        "names": list(answer.names),
        "seed": answer.seed,
        "text": str(answer),
        "version": __version__,
    }


def to_json(answer: "Repair") -> str:
    """Return the same as JSON."""
    return json.dumps(to_dict(answer), indent=2)

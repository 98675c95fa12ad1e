"""Words of regions that hold, and of how wrong posteriors are, made from their fields here."""

from typing import TYPE_CHECKING

from .._base.text import dropped, stated
from ..regions import HighestDensity, Region

if TYPE_CHECKING:
    from .nats import Nats
    from .thresholds import Cover, Threshold

_DIFFERS = 0.05  # the p-value from which on a difference of coverage is worth a word


def region(chosen: Region | None) -> str:
    """Return the name of a region."""
    return "distance" if chosen is None else type(chosen).__name__


def first_line(answer: "Cover") -> str:
    """Return the guarantee."""
    n = sum(one.n_sims for one in answer.thresholds)
    n_groups = len(answer.thresholds)
    each = f" in each of {n_groups} groups" if n_groups > 1 else ""
    how = "on average" if answer.sure is None else f"with {_percent(answer.sure)} confidence"
    return (
        f"cover, {n} simulations{dropped(answer.n_dropped)}: regions contain the truth in at "
        f"least {_percent(answer.coverage)} of cases{each}, {how} (exact)"
    )


def cover(answer: "Cover") -> str:
    """Return the guarantee, the region, and what the draws themselves would have covered."""
    one = len(answer.thresholds) == 1
    lines = [f"{first_line(answer)}."]
    for group in answer.thresholds:
        whose = "" if one else f"Group {group.group}, {group.n_sims} simulations: "
        before = (
            f"Regions that contain {_percent(answer.coverage)} of the draws contain "
            f"{group.before.percent()} of the truths."
        )
        lines.append(f"  {whose}{_region(answer, group)} {before}")
    found = answer.difference
    if found is not None and found.p_value <= _DIFFERS:
        lines.append(
            f"  Warning: coverage depends on the observation ({stated('p', found.p_value)}, "
            f"exact): {found.inside:.0%} where {found.where}, {found.outside:.0%} elsewhere. The "
            f"guarantee holds for all together; pass `groups` for regions that hold in each."
        )
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _region(answer: "Cover", group: "Threshold") -> str:
    if answer.region is None:
        return (
            f"Points within {group.value:.3g} posterior sd of the centre of the draws belong to "
            f"the region."
        )
    if isinstance(answer.region, HighestDensity):
        return f"Points with a log-density of {-group.value:.4g} or more belong to the region."
    return f"Points with a score of at most {group.value:.4g} belong to the region."


def nats(answer: "Nats") -> str:
    """Return how wrong posteriors are at least, in one sentence."""
    if answer.low == 0:
        return f"Errors are too small to size with {answer.n_sims} simulations."
    how = f"{_percent(1 - answer.level)}, {'exact' if answer.exact else 'approximate'}"
    about = f", about {answer.about:.2g}" if answer.about > answer.low else ""
    return (
        f"Wrong by at least {answer.low:.2g} nats per observation ({how}){about}; as bad as a "
        f"shift of {answer.shift:.2f} sd."
    )

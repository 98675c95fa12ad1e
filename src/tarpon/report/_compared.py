"""Several checks beside each other, the best first."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from ..checks import Check, words
from ..checks.comparing import paired, ranked
from ..checks.families import SEES
from ._chapter import Chapter
from ._figures import EFFECTS, JOINT, Figure, coverage, effects

_OUTCOMES = ("within tolerance", "no evidence against", "too few to say", "inaccurate")


def best_first(checks: Sequence[Check]) -> list[int]:
    """Return the places of checks, best first.

    By their energy scores if they are of the same simulations, otherwise by outcome and p-value.
    """
    by_score = ranked([check.evidence.energy for check in checks])
    if by_score is not None:
        return by_score
    return sorted(
        range(len(checks)),
        key=lambda k: (_OUTCOMES.index(checks[k].outcome), -checks[k].p_value),
    )


def above(k: int, check: Check) -> dict[str, str]:
    """Return the ids of the figures before the chapter of a check, by what they show."""
    return {EFFECTS: f"e{k}"} | ({JOINT: f"c{k}"} if check.evidence.joint else {})


class Compared:
    """Several checks, best first, and the figures and tables that compare them."""

    def __init__(self, chapters: list[Chapter]) -> None:
        self.chapters = chapters
        self._checks = [chapter.check for chapter in chapters]

    @cached_property
    def coverage(self) -> list[Figure]:
        """The coverage of joint regions, one figure per check."""
        return [
            coverage(chapter.check.evidence.joint, f"c{k}", title=chapter.name)
            for k, chapter in enumerate(self.chapters)
            if chapter.check.evidence.joint
        ]

    @cached_property
    def effects(self) -> list[Figure]:
        """Bias and width on the same axes, one figure per check."""
        return [
            effects(chapter.check, f"e{k}", title=chapter.name, others=self._checks)
            for k, chapter in enumerate(self.chapters)
        ]

    @cached_property
    def scored(self) -> bool:
        """Whether all checks are of the same simulations, so that scores can be compared."""
        return ranked([check.evidence.energy for check in self._checks]) is not None

    @cached_property
    def better(self) -> list[str]:
        """Whether each check is better than the next, in words."""
        n = len(self.chapters)
        told = (
            words.better(
                paired(first.check.evidence.energy.values, second.check.evidence.energy.values),
                f"“{first.name}”",
                f"“{second.name}”",
                n * (n - 1) // 2,
            )
            for first, second in pairwise(self.chapters if self.scored else [])
        )
        return [sentence.replace(" = ", "\u00a0=\u00a0") for sentence in told]

    @property
    def gains(self) -> list[str]:
        """How much more every other check scores than the first, where there are densities."""
        first, *others = self.chapters
        said = [words.gain(c.check, first.check, c.name, first.name) for c in others]
        return [sentence for sentence in said if sentence]

    @property
    def families(self) -> list[tuple[str, str, list[float | None]]]:
        """Every family of any check, with its adjusted p-value in each."""
        tables = [{row.name: row.adjusted for row in check.families} for check in self._checks]
        names = [name for name in SEES if any(name in table for table in tables)]
        own = {name for table in tables for name in table} - set(names)
        return [
            (name, SEES.get(name, "your own score"), [table.get(name) for table in tables])
            for name in (*names, *sorted(own))
        ]

    @property
    def parameters(self) -> list[tuple[str, list[float | None]]]:
        """Every parameter that failed in any check, with its adjusted p-value in each."""
        tables = [{row.name: row.p_value for row in check.parameters} for check in self._checks]
        names = dict.fromkeys(name for table in tables for name in table)
        rows = [(name, [table.get(name) for table in tables]) for name in names]
        return [row for row in rows if any(self._failed(p, k) for k, p in enumerate(row[1]))]

    def _failed(self, p: float | None, k: int) -> bool:
        return p is not None and p <= self._checks[k].level

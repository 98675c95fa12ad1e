"""A chapter of a report: one check with its words, its figures and the rows of its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import prod

import numpy as np

from .._base.formulas import plain
from .._base.text import Estimate
from .._base.types import Floats
from ..checks import Check, words
from ..checks.evidence import Direction, Tested
from ..checks.flaws import Finding, Kind, Trend
from ..checks.parameters import Parameter
from ..checks.values import Value
from ..local.near import Near
from ..local.where import Where
from ..plots.fields import KINDS
from ..simulations.fields import size
from ._fields import SPECTRUM, error_map, examples, spectrum
from ._figures import (
    EFFECTS,
    JOINT,
    Figure,
    coverage,
    differences,
    effects,
    notch,
    pair,
    ranks,
    ranks_title,
    single,
    trend,
)
from ._findings import of_finding, pair_of
from ._places import Observed, Places

_MOST_AT_THE_TOP = 3
_MOST_CURVES = 7
_MOST_PANELS = 12
_MOST_VALUES = 500
_MOST_CELLS = 20  # of a field in the table of parameters
_HEADLINES = {
    "inaccurate": "These posteriors are inaccurate.",
    "within tolerance": "These posteriors are within tolerance.",
    "no evidence against": "No evidence against these posteriors.",
    "too few to say": "Too few simulations to say.",
}
_WEAK = "Weak evidence against these posteriors: repeat with fresh simulations."
_CAVEATS = {
    "inaccurate": "",
    "no evidence against": "Smaller errors may remain.",
    "too few to say": (
        "That is too coarse for a pass to mean anything. Run more simulations: tarpon.plan gives "
        "their number."
    ),
}


@dataclass(frozen=True)
class Mark:
    """An estimate as a dot with whiskers, in per cent of the width of its cell."""

    low: float
    value: float
    high: float
    target: float

    @classmethod
    def of(cls, estimate: Estimate, target: float, reach: float) -> "Mark":
        """Return the mark on an axis that reaches equally far to both sides of the target."""
        ends = np.array([estimate.low, estimate.value, estimate.high])
        places = 50 + 46 * (ends - target) / reach
        low, value, high = np.clip(places, 2, 98).round(1).tolist()
        return cls(low, value, high, 50.0)


@dataclass(frozen=True)
class ParameterRow:
    """A parameter in the table, with the marks and the curve in its cells."""

    place: int
    parameter: Parameter
    bias: Mark
    width: Mark
    curve: str
    failed: bool


@dataclass(frozen=True)
class Entry:
    """A finding with the figure that shows it.

    Arguments:
        finding: The finding.
        figure: Its figure, if any.
        above: The key of a figure above that shows the same.
    """

    finding: Finding
    figure: Figure | None
    above: str | None = None

    @property
    def headline(self) -> str:
        """The name of the flaw, and where it is."""
        return plain(words.headline(self.finding))

    @property
    def size(self) -> str:
        """How large it is, in words."""
        return plain(words.size_of(self.finding))


class Chapter:
    """A check, and everything that a page shows of it.

    Arguments:
        check: The check.
        name: The name of what was checked.
        key: The beginning of the ids of its figures.
        command: The command that reproduces it.
        above: The ids of figures before the chapter, by what they show.
        where: Where the posteriors are wrong, if that was asked.
        near: What holds at an observation, if one was given.
    """

    def __init__(
        self,
        check: Check,
        name: str,
        key: str,
        command: str,
        above: Mapping[str, str] | None = None,
        *,
        where: Where | None = None,
        near: Near | None = None,
    ) -> None:
        self.check, self.name, self.key, self.command = check, name, key, command
        self.places = None if where is None else Places(where, key)
        self.observed = None if near is None else Observed(near, check, key)
        self.above = dict(above or {})
        self._keys = (f"{key}-f{k}" for k in count())

    @property
    def outcome(self) -> str:
        """The outcome of the check."""
        return self.check.outcome

    @property
    def headline(self) -> str:
        """The outcome as a sentence."""
        return _WEAK if self.check.weak else _HEADLINES[self.outcome]

    @property
    def caveat(self) -> str:
        """What follows from the errors that could have been missed, or that are tolerated."""
        return words.tolerated(self.check) if self.check.margins else _CAVEATS[self.outcome]

    @property
    def smallest(self) -> bool:
        """Whether the p-value is the smallest that the swaps can give."""
        return self.check.p_value * (self.check.n_swaps + 1) < 1.5

    @property
    def lead(self) -> list[str]:
        """The worst findings, as sentences."""
        found = [plain(str(finding)) for finding in self.check.findings[:_MOST_AT_THE_TOP]]
        return [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in found]

    @property
    def n_more(self) -> int:
        """The number of findings that are not at the top."""
        return max(0, len(self.check.findings) - _MOST_AT_THE_TOP)

    @cached_property
    def findings(self) -> list[Entry]:
        """The findings, worst first, each figure once."""
        entries: list[Entry] = []
        keys = dict(self.above)
        for finding in self.check.findings:
            figure = of_finding(self.check, finding, next(self._keys))
            if figure and figure.shows in keys:
                entries.append(Entry(finding, None, keys[figure.shows]))
            else:
                entries.append(Entry(finding, figure))
                keys |= {figure.shows: figure.key} if figure else {}
        return entries

    @cached_property
    def shown(self) -> dict[str, str]:
        """The ids of the figures above those of no finding, by what they show."""
        return self.above | {
            entry.figure.shows: entry.figure.key for entry in self.findings if entry.figure
        }

    @cached_property
    def order(self) -> list[int]:
        """The parameters, those farthest off first."""
        parameters = self.check.parameters
        return sorted(
            range(len(parameters)),
            key=lambda k: (parameters[k].p_value, -_distance(parameters[k])),
        )

    @cached_property
    def joint(self) -> Figure | None:
        """The coverage of all parameters together."""
        joint = self.check.evidence.joint
        return coverage(joint, next(self._keys)) if joint and not self.joint_above else None

    @property
    def joint_above(self) -> str | None:
        """The id of a figure above with the coverage of all parameters together."""
        return self.shown.get(JOINT)

    @cached_property
    def marginals(self) -> Figure:
        """The coverage of the parameters that are farthest off."""
        result = self.check.evidence.marginals
        few = single(result, *sorted(self.order[:_MOST_CURVES]))
        return differences(few, next(self._keys), len(result.names))

    @cached_property
    def effects(self) -> Figure | None:
        """Bias and width of the parameters."""
        if EFFECTS in self.above or self.is_field:
            return None
        return effects(self.check, next(self._keys))

    @property
    def is_field(self) -> bool:
        """Whether parameters are the cells of a field."""
        return self.check.evidence.places is not None

    @cached_property
    def maps(self) -> list[Figure]:
        """The errors of every cell of a field that no finding shows."""
        if not self.is_field:
            return []
        drawn = [error_map(self.check, kind, next(self._keys)) for kind in KINDS]
        return [figure for figure in drawn if figure.shows not in self.shown]

    @cached_property
    def spectrum(self) -> Figure | None:
        """The power at every scale of a field, unless a finding shows it."""
        if not self.is_field or SPECTRUM in self.shown:
            return None
        return spectrum(self.check, next(self._keys))

    @cached_property
    def examples(self) -> Figure | None:
        """Single simulations of a field."""
        return examples(self.check, next(self._keys)) if self.is_field else None

    @property
    def about_cells(self) -> str:
        """What the parameters of a field are, in words."""
        places = self.check.evidence.places
        if places is None:
            return ""
        one = f"fields of {size(places.shape)} cells"
        n = len(self.check.parameters)
        if n == prod(places.shape):
            return f"Parameters are the cells of {one}."
        return f"Parameters are the means of {n} blocks of cells of {one}."

    @cached_property
    def panels(self) -> list[Figure]:
        """The ranks of the parameters that are farthest off, one small figure each."""
        return [
            ranks(self.check, k, next(self._keys), small=True)
            for k in self.order[:_MOST_PANELS]
            if self._ranks_title(k) not in self.shown
        ]

    @property
    def ranked_above(self) -> list[tuple[str, str]]:
        """The names of the parameters whose ranks are shown above, and the ids of the figures."""
        return [
            (self.check.parameters[k].name, self.shown[self._ranks_title(k)])
            for k in self.order
            if self._ranks_title(k) in self.shown
        ]

    @property
    def notch(self) -> str:
        """What a notch in the band of the ranks means, if there is one."""
        return notch(self.check.evidence.marginals)

    def _ranks_title(self, k: int) -> str:
        return ranks_title(self.check.parameters[k].name)

    @cached_property
    def pair(self) -> Figure | None:
        """The worst pair, if it failed and no finding shows it."""
        failed = self.check.evidence.pairs.failed
        shown = any(
            finding.kind is Kind.CORRELATION or pair_of(self.check, finding) == failed[0]
            for finding in self.check.findings
            if failed
        )
        return pair(self.check, failed[0], next(self._keys)) if failed and not shown else None

    @cached_property
    def trends(self) -> list[Figure]:
        """The strongest of every kind of dependence on the data that no finding shows."""
        evidence = self.check.evidence
        kinds: tuple[Tested[Trend], ...] = (evidence.slopes, evidence.by_data, evidence.widths)
        drawn = [
            trend(kind.worst[0], next(self._keys), among="the number of such trends")
            for kind in kinds
            if kind.worst
        ]
        return [figure for figure in drawn if figure.shows not in self.shown]

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The worst directions that fail, of parameters that fail on their own, too."""
        failing = {p.name for p in self.check.parameters if p.p_value <= self.check.level}
        return tuple(d for d in self.check.evidence.directions.failed if d.name in failing)

    @cached_property
    def rows(self) -> list[ParameterRow]:
        """The table of all parameters, those farthest off first."""
        parameters = self.check.parameters
        bias = _reach([p.bias for p in parameters], 0.0, 0.3)
        width = _reach([p.width for p in parameters], 1.0, 0.3)
        return [
            ParameterRow(
                k,
                parameters[k],
                Mark.of(parameters[k].bias, 0.0, bias),
                Mark.of(parameters[k].width, 1.0, width),
                _points(*self._curves[k], self._scale),
                parameters[k].p_value <= self.check.level,
            )
            for k in self.order[: _MOST_CELLS if self.is_field else None]
        ]

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of parameters that take few, as many as a page can show."""
        return self.check.evidence.values[:_MOST_VALUES]

    @property
    def n_angles_failed(self) -> int:
        """The number of families that fail on their own."""
        return sum(family.adjusted <= self.check.level for family in self.check.families)

    @property
    def n_failed(self) -> int:
        """The number of parameters that fail on their own."""
        return sum(p.p_value <= self.check.level for p in self.check.parameters)

    @cached_property
    def band(self) -> str:
        """The band of the small curves, as the points of a polygon."""
        band = self.check.evidence.marginals.band()
        up, down = (
            _points(band.level, side - band.level, self._scale) for side in (band.high, band.low)
        )
        return up + " " + " ".join(reversed(down.split()))

    @cached_property
    def _curves(self) -> list[tuple[Floats, Floats]]:
        """Levels, and coverage minus level, of every parameter."""
        curve = self.check.evidence.marginals.curve
        ecp = curve.ecp.reshape(len(curve.level), -1)
        return [(curve.level, column - curve.level) for column in ecp.T]

    @cached_property
    def _scale(self) -> float:
        """The reach of the small curves; a few that lie farther are cut off."""
        band = self.check.evidence.marginals.band()
        tops = [float(abs(gap).max()) for _, gap in self._curves]
        return max(1.5 * float((band.high - band.level).max()), _most_of(tops))


def _distance(parameter: Parameter) -> float:
    """Return the distance of a parameter from being right, in half intervals."""
    pairs = ((parameter.bias, 0.0), (parameter.width, 1.0))
    return max(abs(e.value - right) / max(e.high - e.low, 1e-12) for e, right in pairs)


def _reach(estimates: Sequence[Estimate], target: float, least: float) -> float:
    """Return the reach of an axis; a few estimates that lie farther are cut off."""
    ends = [max(abs(e.low - target), abs(e.high - target)) for e in estimates]
    return max(least, _most_of(ends))


def _most_of(sizes: Sequence[float]) -> float:
    """Return the largest size, unless it would dwarf all others."""
    return min(max(sizes), 4 * float(np.quantile(sizes, 0.8)))


def _points(level: Floats, gap: Floats, reach: float, n: int = 33) -> str:
    """Return a small curve as the points of a polyline in a box of 100 by 30."""
    x = np.linspace(0, 1, n)
    y = np.clip(15 - 14 * np.interp(x, level, gap) / reach, 1, 29)
    return " ".join(f"{100 * a:.0f},{b:.1f}" for a, b in zip(x, y, strict=True))

"""Descriptions: where a flaw is, how large, and what would remain of it beside others.

Here are the flaws of single parameters; `dependences` has those that depend on something.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..ranks import proportion
from ..simulations import Simulations, alerts
from .confounders import Remaining
from .fields import Field
from .flaws import Finding, Kind
from .parameters import Effects
from .patches import Patch, patches
from .statistics import adjusted, standardise
from .swaps import Sums
from .trends import Trends, label
from .values import off

if TYPE_CHECKING:
    from .fits import Fitted

_ALSO_THERE = 2.0  # standard errors from which a wrong width is one of all parameters
_LEAST_KURTOSIS = -2.0  # of two values with half of the probability each
_DIFFERENT = 0.01  # the p-value from which on errors of parameters are not all the same


@dataclass(frozen=True, eq=False)
class Rejected:
    """What was measured of posteriors that the test has rejected."""

    sims: Simulations
    sums: Sums
    effects: Effects
    trends: Trends
    data: Array | None
    level: float
    field: Field | None = None
    fits: "Mapping[str, Fitted] | None" = None

    @classmethod
    def of(
        cls,
        sims: Simulations,
        sums: Sums,
        effects: Effects,
        data: Array | None,
        level: float,
        field: Field | None = None,
        fits: "Mapping[str, Fitted] | None" = None,
    ) -> "Rejected":
        trends = Trends.of(sims, sums, effects, data, label(sims, data))
        return cls(sims, sums, effects, trends, data, level, field, fits)

    @cached_property
    def chained(self) -> bool:
        """Whether the draws look like a chain: their means and sd are noisier than they should."""
        return alerts.of_chains(self.sims) is not None

    @cached_property
    def remaining(self) -> Remaining:
        """What remains beside bias and width."""
        return Remaining.of(self.sums, self.effects)

    def names(self, *places: int) -> tuple[str, ...]:
        names = tuple(self.sims.names or ())
        return tuple(names[k] for k in places)


# Returns the p-value of what remains of a flaw beside others that were named.
Left = Callable[[Remaining, "Sequence[Candidate]"], float]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A finding that others may explain.

    Arguments:
        finding: The finding.
        left: Returns the p-value of what remains of it beside other candidates.
        bias: For a bias that follows something: the parameter, and what it follows.
        simple: Whether what it follows is one feature, rather than a product.
        by_value: Whether it was found among parameters that take few values.
        by_scale: Whether it was found at some scales of fields.
        last: Whether it is named only if nothing else is.
    """

    finding: Finding
    left: Left = lambda remaining, others: 0.0
    bias: tuple[int, Floats] | None = None
    simple: bool = True
    by_value: bool = False
    by_scale: bool = False
    last: bool = False


# Describes a flaw with a p-value; nothing if a closer look shows nothing.
Describe = Callable[[Rejected, float], list[Candidate]]


def remaining(p_value: Callable[[Remaining], float]) -> Left:
    """Return a p-value of what remains beside bias and width, whatever else was named."""
    return lambda remaining, others: p_value(remaining)


def what_biases_follow(others: Sequence[Candidate], k: int | None = None) -> list[Floats]:
    """Return what others say that the bias of a parameter follows, or those of all."""
    return [other.bias[1] for other in others if other.bias and k in (None, other.bias[0])]


def biased(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe shifts, of each parameter that is shifted on its own, or of the worst."""
    shifts = rejected.sums.moments["marginals"][: rejected.sums.n_rows, 0]
    if rejected.field is not None:
        return _shifted_patches(rejected, p_value)
    found = []
    for sign, ks in _failing(shifts, rejected.level).items():
        sizes = {k: rejected.effects.bias(k) for k in ks}
        # Truths that rank high lie above the draws, which then have a negative bias.
        clear = [k for k, size in sizes.items() if min(-sign * size.low, -sign * size.high) > 0]
        if clear:
            each = tuple(sizes[k] for k in clear)
            found.append(_shifted(rejected, clear, each, p_value))
    worst = int(np.argmax(abs(shifts[0])))
    return found or [_shifted(rejected, [worst], (rejected.effects.bias(worst),), p_value)]


def _shifted(
    rejected: Rejected, ks: Sequence[int], sizes: tuple[Estimate, ...], p_value: float
) -> Candidate:
    return Candidate(
        Finding(
            Kind.BIASED, rejected.names(*ks), p_value,
            size=sizes[0], unit="posterior sd", expected=0.0,
            direction="above" if sizes[0].value > 0 else "below",
            sizes=sizes if len(sizes) > 1 else (),
        )
    )  # fmt: skip


def _shifted_patches(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe shifts of a field, patch by patch."""
    found = []
    for patch in _patches(rejected, 0):
        size = _mean(-_residuals(rejected)[:, patch.cells].mean(axis=1))
        finding = Finding(
            Kind.BIASED, (), p_value,
            size=size, unit="posterior sd", expected=0.0,
            direction="above" if size.value > 0 else "below", where=patch.where,
        )  # fmt: skip
        found.append(Candidate(finding))
    return found


def _residuals(rejected: Rejected) -> Floats:
    """Return truths about the mean of their draws, in sd of the draws, cell by cell."""
    field = rejected.field
    if field is None or field.maps is None:
        return rejected.effects.z
    # The mean of all points has a share of the truth in it.
    n_points = field.maps.shape[1]
    return field.maps[:, 0].astype(float) * n_points / (n_points - 1)


def _patches(rejected: Rejected, moment: int) -> list[Patch]:
    """Return the largest patches of a field that fail by their bias (0) or width (1)."""
    sums, field = rejected.sums.unbiased, rejected.field
    assert field is not None
    name, shape = (
        ("maps", field.map_shape) if field.maps is not None else ("marginals", field.shape)
    )
    values = sums.moments[name][: sums.n_rows, moment]
    return patches(values, shape, rejected.level, field.shape)


def width(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe wrong widths: of all parameters if they are alike, otherwise of those that fail."""
    single = rejected.sums.unbiased.moments["marginals"][:, 1]
    k = int(np.argmax(abs(single[0])))
    sign = np.sign(single[0, k])
    everywhere = in_others(single, k)
    failing = _failing(single, rejected.level)
    whole = rejected.effects.width()
    if everywhere and (_alike(single, whole.value) or not failing):
        return _beside_biases((), _widths(rejected, (), (whole,), sign, p_value))
    if rejected.field is not None:
        return _wide_patches(rejected, p_value)
    found = []
    for side, ks in (failing or {sign: [k]}).items():
        sizes = {k: rejected.effects.width(k) for k in ks}
        clear = [
            k
            for k, size in sizes.items()
            if min(side * (size.low - 1), side * (size.high - 1)) > 0
        ]
        widths = _widths(rejected, clear, tuple(sizes[k] for k in clear), side, p_value)
        found += _beside_biases(clear, widths)
    return found


def _beside_biases(ks: Sequence[int], widths: list[Candidate]) -> list[Candidate]:
    """Return widths of some parameters, or of all, of which biases along the data leave less."""

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        return remaining.too_wide(ks, *what_biases_follow(others))

    return [replace(candidate, left=left) for candidate in widths]


def _wide_patches(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe wrong widths of a field, patch by patch."""
    field, found = rejected.field, []
    assert field is not None
    patches = _patches(rejected, 1)
    named = [patch.cells for patch in patches]
    rest = np.setdiff1d(np.arange(prod(field.map_shape)), np.concatenate([*named, []]))
    elsewhere = _width_of_cells(rejected, rest) if len(rest) else None
    for patch in patches:
        size = _width_of_cells(rejected, patch.cells)
        found += [
            replace(c, finding=replace(c.finding, where=patch.where, elsewhere=elsewhere))
            for c in _widths(rejected, (), (size,), patch.sign, p_value)
        ]
    return found


def _width_of_cells(rejected: Rejected, cells: Ints) -> Estimate:
    """Return the width of some cells together, or of blocks of cells if there are maps.

    Truths are measured about their own mean, so that a bias is no width.
    """
    field = rejected.field
    if field is None or field.maps is None:
        return rejected.effects.width_of(cells.tolist())
    z = field.maps[..., cells].astype(float)
    z[:, 0] = (z[:, 0] - z[:, 0].mean(axis=0)) * np.sqrt(len(z) / (len(z) - 1))
    # All cells count the same: one that is wide by chance also varies more.
    square = field.ratio((z**2).mean(axis=2, keepdims=True), [0])
    return Estimate(*np.sqrt([square.value, square.low, square.high]).tolist())


def _widths(
    rejected: Rejected, ks: Sequence[int], sizes: tuple[Estimate, ...], sign: float, p_value: float
) -> list[Candidate]:
    if not sizes or (sizes[0].value > 1) != (sign > 0):
        return []  # the sd is right, and something else is wrong
    return [
        Candidate(
            Finding(
                Kind.OVERCONFIDENT if sign > 0 else Kind.UNDERCONFIDENT,
                rejected.names(*ks), p_value,
                size=sizes[0], unit="width of the draws", expected=1.0,
                sizes=sizes if len(sizes) > 1 else (),
            )
        )
    ]  # fmt: skip


def in_others(values: Floats, k: int) -> bool:
    """Return whether the others together are off on the same side as one, `(n_rows, n)`."""
    others = standardise(values.sum(axis=1) - values[:, k], len(values))[0]
    return values.shape[1] > 1 and bool(np.sign(values[0, k]) * others >= _ALSO_THERE)


def _failing(values: Floats, level: float) -> dict[float, list[int]]:
    """Return the places where the first row is far from zero on its own, among all, by sign.

    The largest first, and the sign of the largest first.
    """
    ks = np.flatnonzero(adjusted(abs(values)) <= level)
    found: dict[float, list[int]] = {}
    for k in ks[np.argsort(-abs(values[0, ks]), kind="stable")]:
        found.setdefault(float(np.sign(values[0, k])), []).append(int(k))
    return found


def _alike(widths: Floats, factor: float) -> bool:
    """Return whether the widths of all parameters may be wrong by the same factor.

    Arguments:
        widths: The width of each parameter in standard errors, `(n_rows, n_dims)`.
        factor: The factor; by it, the standard errors themselves grow.
    """
    spread = widths.var(axis=1)
    most = float(np.quantile(spread[1:], 1 - _DIFFERENT)) * max(1.0, factor) ** 4
    return float(spread[0]) <= most


def skewed(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the skewness of the truths among the draws."""
    third = rejected.sums.moments["marginals"][0, 2]
    k = int(np.argmax(abs(third)))
    size = _mean(np.sqrt(6.0) * rejected.remaining.moments[2][:, k])
    if size.value * third[k] < 0:
        return []
    finding = Finding(
        Kind.SKEWED, rejected.names(k), p_value,
        size=size, unit="skewness of the truths among the draws", expected=0.0,
        direction="above" if third[k] > 0 else "below",
    )  # fmt: skip
    return [Candidate(finding, remaining(lambda remaining: remaining.skewed))]


def tails(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the tails of the draws: of all parameters if they agree, otherwise of the worst."""
    fourth = rejected.sums.moments["marginals"][: rejected.sums.n_rows, 3]
    k = int(np.argmax(abs(fourth[0])))
    everywhere = in_others(fourth, k)
    each = np.sqrt(24.0) * rejected.remaining.moments[3]
    size = _at_least(_LEAST_KURTOSIS, _mean(each.mean(axis=1) if everywhere else each[:, k]))
    finding = Finding(
        Kind.TAILS, () if everywhere else rejected.names(k), p_value,
        size=size, unit="excess kurtosis of the truths among the draws", expected=0.0,
        direction="heavy" if size.value < 0 else "light",
    )  # fmt: skip

    def left(remaining: Remaining, others: Sequence[Candidate]) -> float:
        instead = {Kind.WIDTH_BY_DATA, Kind.OUTLIERS}
        return 1.0 if any(o.finding.kind in instead for o in others) else remaining.tails

    return [Candidate(finding, left)]


def outliers(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe draws that are outliers more often than truths."""
    sums, n_sims = rejected.sums.moments["outliers"][0, 0], rejected.sims.n_sims
    found = [one for one in rejected.effects.outliers if sums[one.dim] < 0]
    if not found:
        return []  # it is the truths, which other findings describe
    worst = min(found, key=lambda one: sums[one.dim])
    finding = Finding(
        Kind.OUTLIERS, rejected.names(worst.dim), p_value,
        size=proportion(worst.n_truths, n_sims), unit="share of the truths",
        expected=worst.share, where=f"{worst.posteriors:.0%}",
    )  # fmt: skip
    return [Candidate(finding)]


def _mean(values: Floats) -> Estimate:
    """Return a mean with its interval."""
    mean, half = float(values.mean()), float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)


def _at_least(bound: float, size: Estimate) -> Estimate:
    """Return a size that cannot be less than a bound."""
    return Estimate(*(max(end, bound) for end in (size.value, size.low, size.high)))


def rounded(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe truths and draws with different ties."""
    return [Candidate(Finding(Kind.ROUNDED, (), p_value))]


def values(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe a parameter that takes few values: its shift, its width, or its worst value."""
    by_value = abs(rejected.sums.moments["values"][0])
    score, column = np.unravel_index(np.argmax(by_value), by_value.shape)
    k, value = rejected.effects.tested[column]
    found = []
    if value is None and score == 0:
        found = [_shifted(rejected, [k], (rejected.effects.bias(k),), p_value)]
    elif value is None:
        size = rejected.effects.width(k)
        found = _widths(rejected, [k], (size,), np.sign(size.value - 1), p_value)
    found = found or [_shares(rejected, k, value, bool(score == 0), p_value)]
    return [replace(candidate, by_value=True) for candidate in found]


def _shares(
    rejected: Rejected, k: int, value: float | None, everywhere: bool, p_value: float
) -> Candidate:
    """Describe a value: in all simulations, or where it is farthest off by its share."""
    unit = float(rejected.trends.unit[k])
    rows = list(rejected.effects.few[k].table(rejected.names(k)[0], unit))
    same = [row for row in rows if value is None or row.value == value * unit]
    worst = max(same, key=lambda row: (row.everywhere == everywhere, off(row)))
    finding = Finding(
        Kind.VALUES, rejected.names(k), p_value,
        size=worst.truths, unit="share of the truths", expected=worst.draws, where=worst.where,
        direction="too often" if worst.draws > worst.truths.value else "too rarely",
    )  # fmt: skip
    return Candidate(finding)


def score(name: str) -> Describe:
    """Return what describes a wrong score of the user's own."""
    return lambda _, p_value: [Candidate(Finding(Kind.SCORE, (), p_value, where=name))]

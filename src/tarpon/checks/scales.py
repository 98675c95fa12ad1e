r"""Scales: what is wrong with fields, band by band, how large it is, and which flaw it is.

The power of a truth in a band differs from that of its draws by

.. math:: \sum c^2 - \sum c_j^2 = \Big(\sum d^2 - \sum d_j^2\Big) + 2 \sum (d - d_j)\, m ,

a wrong width, and truths that follow the mean :math:`m` of the points more or less than draws do.
If both have the same sign, the draws have too much or too little power. If they have different
ones, the mean has structure where the truths have none. If truths follow the mean as draws do, the
width is wrong.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from .descriptions import Candidate, Rejected
from .fields import Field
from .flaws import Finding, Kind
from .statistics import adjusted
from .swaps import Sums

_CLEAR = 2.0  # standard errors from which truths follow the mean differently
_MATTERS = 0.2  # the share of a wrong power from which on it is due to following the mean
_STRICTER = 5  # times below the level, truths follow the mean differently
_OPEN = 0.5  # the share of the mean in the power of a band below which the data say little
_DIFFERENT = 0.01  # the p-value from which on errors of bands are not all the same
_LARGEST_LOG = 30.0  # of ratios of power, where draws or truths have next to none


@dataclass(frozen=True)
class Band:
    """The power of a field in a band.

    Arguments:
        name: The name of the band: for waves, their wavelength in cells.
        scale: The smallest and the largest wavelength in cells, if they are waves.
        power: The power of the truths over that of the draws, with its 95 % interval: below 1 the
            draws have too much.
        width: The same for what is left without the mean of the points, as a ratio of standard
            deviations: above 1 is overconfident.
        accurate: Where the power of accurate posteriors lies, in all bands at once, with the
            confidence of the check: exact.
        p_value: Of the power, exact and adjusted for the number of bands.
    """

    name: str
    scale: tuple[float, float] | None
    power: Estimate
    width: Estimate
    accurate: tuple[float, float]
    p_value: float


def bands(field: Field, sums: Sums, level: float, rng: Generator) -> tuple[Band, ...]:
    """Return the power of truths over draws in every band, with its simultaneous band."""
    p_values = adjusted(abs(sums.moments["power"][: sums.n_rows, 0]))
    low, high = limits(field, sums.n_rows - 1, level, rng)
    return tuple(
        Band(
            name,
            field.bands.scales[k] if field.bands.scales else None,
            field.ratio(field.power, [k]),
            _root(field.ratio(field.width, [k])),
            (float(low[k]), float(high[k])),
            float(p_values[k]),
        )
        for k, name in enumerate(field.bands.names)
    )


def limits(field: Field, n_swaps: int, level: float, rng: Generator) -> tuple[Floats, Floats]:
    """Return where ratios of power lie, in all bands at once, if truths are swapped with draws.

    The largest deviation of all bands, in standard deviations of each, has a quantile that swaps
    with the real labelling among them exceed as often as the level says.
    """
    n_sims, n_points, _ = field.power.shape
    every, total = np.arange(n_sims), field.of_draws(field.power).sum(axis=0)
    share = None if field.share is None else field.share.cumsum(axis=1)
    rows = np.empty((n_swaps + 1, len(total)))
    rows[0] = field.power[:, 0].sum(axis=0, dtype=float)
    for row in rows[1:]:
        if share is None:
            played = rng.integers(n_points, size=n_sims)
        else:
            played = (share > rng.uniform(size=(n_sims, 1))).argmax(axis=1)
        row[:] = field.power[every, played].sum(axis=0, dtype=float)
    logs = np.log(np.maximum(rows, 1e-300)) - np.log(np.maximum(total, 1e-300))
    logs = logs.clip(-_LARGEST_LOG, _LARGEST_LOG)
    centre, sd = logs.mean(axis=0), np.maximum(logs.std(axis=0), 1e-12)
    farthest = np.sort((abs(logs - centre) / sd).max(axis=1))
    reach = farthest[int(np.ceil(round((1 - level) * len(farthest), 9))) - 1]
    return np.exp(centre - reach * sd), np.exp(centre + reach * sd)


def _root(square: Estimate) -> Estimate:
    return Estimate(*(float(np.sqrt(end)) for end in (square.value, square.low, square.high)))


def _inverse(size: Estimate) -> Estimate:
    return Estimate(1 / size.value, 1 / size.high, 1 / size.low)


@dataclass(frozen=True, eq=False)
class Scales:
    """Which bands are wrong, and how."""

    field: Field
    sums: Sums
    level: float

    @classmethod
    def of(cls, rejected: Rejected) -> "Scales":
        assert rejected.field is not None
        return cls(rejected.field, rejected.sums, rejected.level)

    def _z(self, family: str) -> Floats:
        """Return the shift of the truths in each band in standard errors, `(n_rows, n_bands)`."""
        shifts: Floats = self.sums.moments[family][: self.sums.n_rows, 0]
        return shifts

    def fails(self, family: str) -> Array:
        """Return which bands fail on their own."""
        return adjusted(abs(self._z(family))) <= self.level

    @cached_property
    def _follows(self) -> Array:
        """Which bands fail since truths follow the mean differently, and not by a little."""
        field = self.field
        follows, width = (
            abs((scores[:, 0] - field.of_draws(scores)).mean(axis=0))
            for scores in (field.follows, field.width)
        )
        # Where truths scatter more widely, they also follow the mean less steadily.
        z = self._z("phases").copy()
        z[0] /= [max(1.0, field.ratio(field.width, [k]).value ** 0.5) for k in range(len(z[0]))]
        clear = adjusted(abs(z)) <= self.level / _STRICTER
        return clear & (2 * follows > _MATTERS * width)

    def _alike(self, scores: Floats) -> bool:
        """Return whether the ratios of all bands may be the same."""
        from scipy.special import chdtrc

        n_bands = len(self.field.bands.names)
        sizes = [self.field.ratio(scores, [k]) for k in range(n_bands)]
        logs = np.log([size.value for size in sizes])
        error = np.array([np.log(size.high / size.low) / (2 * 1.96) for size in sizes])
        weight = 1 / np.maximum(error, 1e-6) ** 2
        about = logs - (weight * logs).sum() / weight.sum()
        return bool(chdtrc(max(n_bands - 1, 1), (weight * about**2).sum()) > _DIFFERENT)

    @cached_property
    def misplaced(self) -> Array:
        """Which bands have structure in the wrong places."""
        follows, width = self._z("phases")[0], self._z("scales")[0]
        apart = (follows * width < 0) & (abs(width) > _CLEAR)
        return self._follows & self.fails("scales") & apart

    @cached_property
    def uniform(self) -> bool:
        """Whether all there is is one wrong width, the same at all scales."""
        return self._alike(self.field.width) and not self._follows.any()

    @cached_property
    def powerful(self) -> Ints:
        """The bands whose power is wrong, rather than the width alone."""
        if self.uniform:
            return np.zeros(0, dtype=int)
        power, follows = self._z("power")[0], self._z("phases")[0]
        moved = (abs(follows) > _CLEAR) & (follows * power > 0)
        draws = self.field.of_draws(self.field.power).mean(axis=0)
        mean = self.field.mean.mean(axis=0) / np.maximum(draws, 1e-300)
        wrong = self.fails("power") & (moved | (mean < _OPEN)) & ~self.misplaced
        wrong |= self._follows & moved & ~self.misplaced
        if wrong.any() and not self.misplaced.any() and self._alike(self.field.power):
            return np.arange(len(wrong))
        return np.flatnonzero(wrong)

    def by_sign(self, family: str, places: Ints) -> list[list[int]]:
        """Return places by the sign of their shift, the clearest first."""
        z = self._z(family)[0, places]
        signs = [places[z > 0], places[z < 0]]
        return [list(map(int, each)) for each in signs if len(each)]


def power(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe scales at which draws have too much or too little power."""
    scales = Scales.of(rejected)
    places = scales.powerful
    if len(places) == len(scales.field.bands.names):
        groups = [list(map(int, places))]
    else:
        groups = scales.by_sign("power", places)
    found = []
    for group in groups:
        size = _inverse(scales.field.ratio(scales.field.power, group))
        finding = Finding(
            Kind.POWER, (), p_value, size=size, unit="power that the draws should have",
            expected=1.0, direction="too much" if size.value > 1 else "too little",
            where=scales.field.bands.called(group),
        )  # fmt: skip
        found.append(_candidate(finding))
    return found


def width(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe scales at which draws are too narrow or too wide about their mean."""
    scales = Scales.of(rejected)
    if scales.uniform:
        return []
    fails = scales.fails("scales")
    fails[scales.powerful] = False
    places = np.flatnonzero(fails & ~scales.misplaced)
    found = []
    for group in scales.by_sign("scales", places):
        size = _root(scales.field.ratio(scales.field.width, group))
        finding = Finding(
            Kind.SCALES, (), p_value, size=size, unit="width of the draws", expected=1.0,
            direction="overconfident" if size.value > 1 else "underconfident",
            where=scales.field.bands.called(group),
        )  # fmt: skip
        found.append(_candidate(finding))
    return found


def phases(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe scales at which the structure of draws is in the wrong places."""
    scales, field = Scales.of(rejected), rejected.field
    places = np.flatnonzero(scales.misplaced)
    if field is None or not len(places):
        return []
    truths, draws = (_agreement(field, places, truths=own) for own in (True, False))
    finding = Finding(
        Kind.PHASES, (), p_value, size=truths, unit="correlation with posterior means",
        expected=draws.value, where=field.bands.called([int(k) for k in places]),
    )  # fmt: skip
    return [_candidate(finding)]


def _agreement(field: Field, places: Ints, *, truths: bool) -> Estimate:
    """Return how structure correlates with that of the mean of the points, in some bands."""
    cross = field.follows + field.mean[:, None]
    each = cross[..., places].sum(axis=2) / np.sqrt(
        np.maximum(
            field.power[..., places].sum(axis=2) * field.mean[:, None, places].sum(axis=2), 1e-300
        )
    )
    values = each[:, 0] if truths else field.of_draws(each[..., None])[:, 0]
    mean, half = float(values.mean()), float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)


def anisotropy(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe scales at which truths vary along other directions than draws."""
    field, sums = rejected.field, rejected.sums
    assert field is not None
    n_contrasts = len(field.bands.directions)
    shifts = sums.moments["anisotropy"][: sums.n_rows, 0]
    fails = (adjusted(abs(shifts)) <= rejected.level).reshape(-1, n_contrasts)
    z = shifts[0].reshape(-1, n_contrasts)
    pair = int(np.argmax((z**2 * fails).sum(axis=0)))
    sign = np.sign((z * fails)[:, pair].sum())
    places = np.flatnonzero(fails[:, pair] & (z[:, pair] * sign > 0))
    if not len(places):
        return []
    first, second = field.bands.directions[pair][:: int(sign)]
    contrast = field.directions.reshape(*field.width.shape, n_contrasts)[..., pair] * sign
    size = _difference(field, contrast[..., places], field.width[..., places])
    finding = Finding(
        Kind.ANISOTROPY, (), p_value, size=size,
        unit="ratio of the truths' power along two directions to that of the draws", expected=1.0,
        direction=f"along {first} and along {second}",
        where=field.bands.called([int(k) for k in places]),
    )  # fmt: skip
    return [_candidate(finding)]


def _difference(field: Field, contrast: Floats, width: Floats) -> Estimate:
    r"""Return by which factor truths have more power in one direction than another, over draws.

    With the contrast :math:`q` of powers :math:`P_a` and :math:`P_b`, the ratio
    :math:`P_a / P_b` is :math:`(1 + q) / (1 - q)`.
    """
    each = (contrast * width).sum(axis=2) / np.maximum(width.sum(axis=2), 1e-30)
    truths, draws = each[:, 0].astype(float), field.of_draws(each[..., None])[:, 0]

    def log_ratio(q: Floats | float) -> Floats | float:
        return 2 * np.arctanh(np.clip(q, -0.999, 0.999))

    centre = float(draws.mean())
    mean, half = truths.mean(), 1.96 * (truths - draws).std(ddof=1) / np.sqrt(len(truths))
    ends = (log_ratio(float(end)) for end in (mean, mean - half, mean + half))
    return Estimate(*(float(np.exp(end - log_ratio(centre))) for end in ends))


def cells(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the distribution of the cells of one field."""
    field = rejected.field
    assert field is not None
    z = rejected.sums.moments["cells"][: rejected.sums.n_rows, 0]
    # Other flaws make cells peaked, but seldom skewed.
    skewed = adjusted(abs(z))[0] <= rejected.level / _STRICTER
    k = 0 if skewed else int(np.argmax(abs(z[0])))
    truths, draws = field.cells[:, 0, k].astype(float), field.of_draws(field.cells)[:, k]
    gap = truths - draws
    mean, half = float(gap.mean()), float(1.96 * gap.std(ddof=1) / np.sqrt(len(gap)))
    finding = Finding(
        Kind.CELLS, (), p_value, size=Estimate(mean, mean - half, mean + half),
        unit=f"{('skewness', 'kurtosis')[k]} of the cells", expected=0.0,
    )  # fmt: skip
    return [replace(_candidate(finding), by_scale=False)]


def regions(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the region, or the coefficient, that is shifted most."""
    field = rejected.field
    assert field is not None
    shifts = rejected.sums.moments["regions"][: rejected.sums.n_rows, 0]
    fails = np.flatnonzero(adjusted(abs(shifts)) <= rejected.level)
    found = []
    for k in fails[np.argsort(-abs(shifts[0, fails]))][:3]:
        draws = field.bias[:, 1:, k].astype(float)
        sd = np.maximum(draws.std(axis=1), 1e-300)
        above = (field.of_draws(field.bias)[:, k] - field.bias[:, 0, k]) / sd
        mean, half = float(above.mean()), float(1.96 * above.std(ddof=1) / np.sqrt(len(above)))
        finding = Finding(
            Kind.BIASED, (), p_value, size=Estimate(mean, mean - half, mean + half),
            unit="posterior sd", expected=0.0, direction="above" if mean > 0 else "below",
            where=field.bands.names[k],
        )  # fmt: skip
        found.append(replace(_candidate(finding), by_scale=False))
    return found


def _candidate(finding: Finding) -> Candidate:
    """Return a candidate of which nothing is left beside a flaw that may look like it."""
    return Candidate(finding, lambda remaining, others: 1.0, by_scale=True)

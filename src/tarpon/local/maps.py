"""Maps and curves: errors in windows of simulations, all over two features or along one.

Windows hold the simulations that are nearest to a place in two features of the observations. What
chooses them does not depend on truths, so the swaps of `where` adjust for their number: windows
are tested apart from the groups that `where` names, and cost these no power. Intervals hold for
all windows at once, or for all bins of all features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.text import Estimate
from .._base.types import Floats, Ints
from ..checks.parameters import Effects
from ..checks.statistics import adjusted
from ..ranks import held
from . import words
from .groups import Group, Side, bins, edges
from .windows import MOST_MAPPED, Windows

_CENTRAL = 0.68
_RIGHT = {"bias": 0.0, "width": 1.0}


@dataclass(frozen=True)
class Window:
    """Simulations that are alike in two features.

    Arguments:
        place: The mean of both features.
        size: The bias in posterior sd or the factor of the width, with an interval that holds
            for all windows at once.
        p_value: Exact, and adjusted for the number of windows and parameters.
        n_sims: The number of simulations.
    """

    place: tuple[float, float]
    size: Estimate
    p_value: float
    n_sims: int


@dataclass(frozen=True)
class Map:
    """The errors of one kind all over two features.

    Arguments:
        features: The names of both features.
        kind: `"bias"` or `"width"`.
        parameter: The name of the parameter; none if the width of all together is shown.
        windows: The windows.
        level: The probability that any window of accurate posteriors has a smaller p-value.
        x_o: The features of the observation, if it was given; NaN where they are not known.
    """

    features: tuple[str, str]
    kind: str
    parameter: str | None
    windows: tuple[Window, ...]
    level: float
    x_o: tuple[float, float] | None

    @property
    def label(self) -> str:
        """What the sizes are, as the label of an axis."""
        return words.label(self.kind, self.parameter)

    @property
    def right(self) -> float:
        """The bias or width of accurate posteriors."""
        return _RIGHT[self.kind]

    @property
    def significant(self) -> tuple[Window, ...]:
        """The windows in which posteriors are wrong."""
        return tuple(window for window in self.windows if window.p_value <= self.level)


@dataclass(frozen=True)
class Curve:
    """The errors of one kind along a feature.

    Arguments:
        feature: The name of the feature.
        kind: `"bias"`, `"width"` or `"coverage"`, the share of truths in the central 68 % of the
            draws.
        parameter: The name of the parameter; none if the width of all together is shown.
        place: The median of the feature in each bin.
        sizes: The error in each bin, with intervals for all bins of all features and parameters
            at once: those of coverage hold at any size, the others approximately.
        significant: Which bins have an error: by the exact p-values of `where`, or by the
            interval of the coverage.
        n_sims: The number of simulations in each bin.
        right: The size that accurate posteriors have.
        x_o: The feature of the observation, if it is known.
    """

    feature: str
    kind: str
    parameter: str | None
    place: tuple[float, ...]
    sizes: tuple[Estimate, ...]
    significant: tuple[bool, ...]
    n_sims: tuple[int, ...]
    right: float
    x_o: float | None

    @property
    def label(self) -> str:
        """What the sizes are, as the label of an axis."""
        return words.label(self.kind, self.parameter)

    @property
    def off(self) -> float:
        """How far the worst bin is off, in half intervals."""
        return max(_off(size, self.right) for size in self.sizes)


def _off(size: Estimate, right: float) -> float:
    half = size.high - size.value if size.value < right else size.value - size.low
    return abs(size.value - right) / max(half, 1e-300)


@dataclass(frozen=True, eq=False)
class Atlas:
    """Everything that maps and curves are made of.

    Arguments:
        parameters: The names of the parameters.
        features: The names of the features.
        values: The features of all simulations, `(n_sims, n_features)`.
        windows: The windows.
        sums: The standardised sums of the windows, `(n_scores, n_windows)`: the biases of all
            parameters, their widths, and the width of all together.
        p_values: Their p-values, adjusted for the number of all, of the same shape.
        effects: The effects of all simulations.
        critical: The number of standard errors of intervals that hold for all windows at once.
        bins: The p-values of the groups of `where`, `(n_scores,)` each, by what they have in
            common; bins of features are such groups.
        critical_bins: The number of standard errors of intervals for all groups at once.
        level: The level of the test.
        fine: Whether features are cut into many bins.
        x_o: The features of the observation, if it was given; NaN where they are not known.
    """

    parameters: Sequence[str]
    features: Sequence[str]
    values: Floats
    windows: Windows
    sums: Floats
    p_values: Floats
    effects: Effects
    critical: float
    bins: Mapping[tuple[Side, ...], Floats]
    critical_bins: float
    level: float
    fine: bool
    x_o: Floats | None

    def map(
        self,
        kind: str = "width",
        features: Sequence[str] | None = None,
        parameter: str | None = None,
    ) -> Map:
        """Return the errors of one kind over two features; the worst by default."""
        arguments.one_of("kind", kind, list(_RIGHT))
        score = self._score(kind, parameter)
        pair = self._pair(features)
        shown = np.flatnonzero((self.windows.pairs == pair).all(axis=1))
        k = self._parameter(score)
        star = None if self.x_o is None else self.x_o[list(pair)]
        return Map(
            (self.features[pair[0]], self.features[pair[1]]),
            kind,
            None if k is None else self.parameters[k],
            tuple(self._window(kind, score, k, int(w)) for w in shown),
            self.level,
            None if star is None or np.isnan(star).all() else (float(star[0]), float(star[1])),
        )

    def _window(self, kind: str, score: int, k: int | None, w: int) -> Window:
        inside = np.flatnonzero(self.windows.members[:, w])
        middle = self.values[np.ix_(inside, self.windows.pairs[w])].mean(axis=0)
        size = self._size(inside, kind, k, self.critical)
        place = float(middle[0]), float(middle[1])
        return Window(place, size, float(self.p_values[score, w]), len(inside))

    def _score(self, kind: str, parameter: str | None) -> int:
        """Return the row of a score; by default the one with the largest sum in any window."""
        n_dims = (len(self.sums) - 1) // 2
        first = 0 if kind == "bias" else n_dims
        if parameter is not None:
            return first + self._known("parameter", parameter, self.parameters[:n_dims])
        last = n_dims if kind == "bias" else len(self.sums)
        return first + int(abs(self.sums[first:last]).max(axis=1, initial=0.0).argmax())

    def _parameter(self, score: int) -> int | None:
        n_dims = (len(self.sums) - 1) // 2
        return None if score == 2 * n_dims else score % n_dims

    def _pair(self, features: Sequence[str] | None) -> tuple[int, int]:
        """Return the columns of two features; by default those of the worst window, if any is."""
        if not len(self.windows.pairs):
            raise ValueError(
                f"a map needs two features, but there is one, {self.features[0]}: draw the "
                f"errors along it, with `plots.along(where)`."
            )
        if features is None:
            wrong = self.p_values.min() <= self.level
            worst = int(abs(self.sums).max(axis=0).argmax()) if wrong else 0
            return int(self.windows.pairs[worst, 0]), int(self.windows.pairs[worst, 1])
        mapped = list(self.features[:MOST_MAPPED])
        named = arguments.words("features", features, 2, "feature")
        first, second = sorted(self._known("features", name, mapped) for name in named)
        if first == second:
            raise ValueError(f"`features` must be two different ones, but got {named[0]!r} twice.")
        return first, second

    def curve(
        self, kind: str = "bias", feature: str | None = None, parameter: str | None = None
    ) -> Curve:
        """Return the errors of one kind along a feature; the worst by default."""
        arguments.one_of("kind", kind, ["bias", "width", "coverage"])
        columns: Sequence[int] = range(len(self.features))
        if feature is not None:
            columns = [self._known("feature", feature, self.features)]
        n_dims = (len(self.sums) - 1) // 2
        ks: list[int | None] = list(range(n_dims))
        ks += [None] * (kind == "width" and len(ks) > 1)
        if parameter is not None:
            ks = [self._known("parameter", parameter, self.parameters[:n_dims])]
        every = [one for column in columns for one in self._curves(kind, column, ks)]
        return max(every, key=lambda one: one.off)

    def _curves(self, kind: str, column: int, ks: Sequence[int | None]) -> Iterator[Curve]:
        """Yield the curves of several parameters along one feature."""
        values, name = self.values[:, column], self.features[column]
        cuts = edges(values, fine=self.fine)
        parts = [part for part in bins(name, values, cuts) if part.members.sum() > 1]
        inside = [np.flatnonzero(part.members) for part in parts]
        error = self.level / (len(parts) * len(self.features) * len(self.parameters))
        right = _RIGHT.get(kind, self._nominal)
        star = None if self.x_o is None or np.isnan(self.x_o[column]) else float(self.x_o[column])
        for k in ks:
            sizes = [self._size(one, kind, k, self.critical_bins, error) for one in inside]
            clear = [
                not size.low <= right <= size.high
                if kind == "coverage"
                else self._p_value(part, kind, k) <= self.level
                for part, size in zip(parts, sizes, strict=True)
            ]
            yield Curve(
                name, kind, None if k is None else self.parameters[k],
                tuple(float(np.median(values[one])) for one in inside), tuple(sizes),
                tuple(clear), tuple(len(one) for one in inside), right, star,
            )  # fmt: skip

    def _p_value(self, part: Group, kind: str, k: int | None) -> float:
        """Return the p-value of an error in a bin, adjusted for all groups of `where`."""
        n_dims = (len(self.sums) - 1) // 2
        score = 2 * n_dims if k is None else k + n_dims * (kind == "width")
        return float(self.bins.get(part.sides, self.bins[()])[score])  # () is all simulations

    def _size(
        self, inside: Ints, kind: str, k: int | None, critical: float, error: float = 0.05
    ) -> Estimate:
        """Return the error of some simulations.

        Few simulations say little about their own scatter: intervals are at least as long as the
        scatter of all simulations makes them.
        """
        part, share = self.effects.subset(inside), len(inside) / len(self.values)
        if kind == "coverage" and k is not None:
            ranks = part.ranks
            return held(ranks.values[:, k], ranks.n_draws, _CENTRAL, central=True, error=error)
        if kind == "bias" and k is not None:
            bias, of_all = part.bias(k, critical), self.effects.bias(k, critical)
            half = max(bias.high - bias.value, (of_all.high - of_all.value) / np.sqrt(share))
            return Estimate(bias.value, float(bias.value - half), float(bias.value + half))
        width, of_all = part.width(k, critical), self.effects.width(k, critical)
        own, general = (np.log(one.high / one.value) for one in (width, of_all))
        return _spread_of(width.value, max(own, general / np.sqrt(share)), critical)

    @property
    def _nominal(self) -> float:
        """The share of all ranks that count as central."""
        n_draws = self.effects.ranks.n_draws
        return held(np.arange(n_draws + 1), n_draws, _CENTRAL, central=True).value

    @staticmethod
    def _known(name: str, given: str, known: Sequence[str]) -> int:
        return list(known).index(arguments.one_of(name, given, list(known)))


def _spread_of(width: float, half: float, critical: float) -> Estimate:
    """Return a width with the interval of a standard deviation of as many normal numbers.

    Arguments:
        width: The width.
        half: The half length of a symmetric interval of its logarithm.
        critical: The number of standard errors to both sides.
    """
    from scipy.special import chdtri, ndtr

    if not 0 < half < np.inf:
        return Estimate(width, width, width)
    n, tail = critical**2 / (2 * half**2), ndtr(-critical)
    low, high = (width * np.sqrt(n / chdtri(n, at)) for at in (tail, 1 - tail))
    return Estimate(width, float(low), float(high))


def tested(sums: Floats, level: float) -> tuple[Floats, Floats, float]:
    """Return the sums of windows, their p-values, and how many standard errors hold for all.

    Arguments:
        sums: The standardised sums of every labelling, `(n_rows, n_scores, n_windows)`.
        level: The level of the test.
    """
    flat = abs(sums).reshape(len(sums), -1)
    if not flat.shape[1]:
        return sums[0], np.ones(sums.shape[1:]), 0.0
    critical = float(np.quantile(flat.max(axis=1), 1 - level))
    return sums[0], adjusted(flat).reshape(sums.shape[1:]), critical

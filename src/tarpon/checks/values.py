r"""Values: parameters that take few of them, such as a model index, a switch or a small count.

Where all draws may be equal, neither ranks nor posterior standard deviations say much. Such a
parameter is tested by the indicators of its values. With the share :math:`p_{iv}` of the value
:math:`v` among the pooled points of simulation :math:`i`, the sums

.. math:: \sum_i 1[\theta_i = v], \qquad
          \sum_i 1[\theta_i = v] \log \frac{p_{iv}}{1 - p_{iv}}

over the points that play the truths show whether the value is drawn too often, and whether its
probabilities are too extreme. If there are more than two values, the sums of :math:`\theta_i` and
of its square, both about the mean of the pooled points, show a shift and a wrong width. All are
compared with the sums of swaps, so that nothing else need be known of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from .._base.arrays import Results, double, host, namespace, to_device_of, zeros
from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..ranks import proportion
from ..simulations import Simulations, passes
from ..simulations.blocks import Block
from ..simulations.views import points_alone

MOST_VALUES = 12
_N_LOOKS, _AT_ONCE = 8, 8  # groups of simulations that are looked at, and their size
_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the bins of shares


@dataclass(frozen=True)
class Value:
    """How often a value is drawn, and how often it is the truth.

    Arguments:
        name: The name of the parameter.
        value: The value.
        low: The smallest share of the value among the draws of a simulation that counts here.
        high: The largest such share. All simulations together have the bin from 0 to 1.
        n_sims: The number of simulations in this bin.
        draws: The mean share of the value among their draws.
        truths: The share of their truths that have the value, with its exact 95 % interval.
    """

    name: str
    value: float
    low: float
    high: float
    n_sims: int
    draws: float
    truths: Estimate

    @property
    def everywhere(self) -> bool:
        """Whether all simulations count."""
        return self.low == 0.0 and self.high == 1.0

    @property
    def where(self) -> str:
        """The value, and the simulations that count, in words."""
        some = f" in simulations that predict it with {self.low:.0%} to {self.high:.0%}"
        return f"value {self.value:g}{'' if self.everywhere else some}"


def off(value: Value) -> float:
    """Return how far draws and truths are apart, in standard errors of accurate posteriors."""
    variance = value.draws * (1 - value.draws) + 1 / value.n_sims
    return abs(value.draws - value.truths.value) / float(np.sqrt(variance / value.n_sims))


@dataclass(frozen=True, eq=False)
class Few:
    """The parameters that take few values.

    Arguments:
        values: The values of each of them, ascending, by the place of the parameter.
    """

    values: Mapping[int, Floats] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values)

    @classmethod
    def of(cls, sims: Simulations) -> "Few":
        """Return the parameters that take few values in some of the simulations.

        All points of a simulation are looked at, the truth as one of them, so that the values
        tell nothing about which point it is.
        """
        known: dict[int, Floats] = {k: np.empty(0) for k in range(sims.n_dims)}
        n_seen = 0
        for some in passes.glimpses(points_alone(sims), _N_LOOKS, _AT_ONCE):
            n_seen += some.n_sims
            for block in some.blocks():
                _look(block, known)
            if not known:
                break
        # With few simulations, each of them may have a single value of its own.
        most = min(MOST_VALUES, n_seen // 2)
        return cls({k: values for k, values in known.items() if 2 <= len(values) <= most})

    @property
    def tested(self) -> list[tuple[int, float | None]]:
        """The parameters and values that are tested, `None` for all values of one.

        Of two values, one indicator is enough.
        """
        found: list[tuple[int, float | None]] = []
        for k, values in self.values.items():
            found += [(k, value) for value in values[len(values) == 2 :].tolist()]
            found += [(k, None)] if len(values) > 2 else []
        return found

    def of_parameter(self, k: int) -> Ints:
        """Return which of those that are tested belong to a parameter."""
        return np.flatnonzero([place == k for place, _ in self.tested])

    def scores(self, block: Block) -> Array:
        """Return both sums' terms, `(n_points, n_block, 2 * n_tested)`."""
        tested, points = self.tested, block.points
        weights, xp = _weights(block, points), namespace(points)
        scores = zeros((*points.shape[:2], 2 * len(tested)), points)
        for column, (k, value) in enumerate(tested):
            of_k = double(points[..., k])
            if value is None:
                first = (of_k - block.centre[:, k]) / float(np.diff(self.values[k]).min())
                second = first * first
            else:
                first = double(of_k == value)
                n = (weights * first[: block.n_points]).sum(axis=0)
                # Half a point each way, so that the logarithm is finite.
                second = first * xp.log((n + 0.5) / (block.n_points - n + 0.5))
            scores[..., column], scores[..., len(tested) + column] = first, second
        return scores

    def shares(self, sims: Simulations) -> Results:
        """Return the shares of all values among the draws, `(n_sims, n_values)`."""
        if not self:
            return {}
        return {"shares": np.concatenate([self._shares(block) for block in sims.blocks()])}

    def split(self, shares: Floats | None) -> Iterator[tuple[int, Floats]]:
        """Yield the parameters, and the shares of their values among all shares."""
        ends = np.cumsum([0, *(len(values) for values in self.values.values())])
        for k, start, end in zip(self.values, ends, ends[1:], strict=False):
            assert shares is not None
            yield k, shares[:, start:end]

    def _shares(self, block: Block) -> Floats:
        draws = block.points[1:]
        weights = _weights(block, draws)[-len(draws) :]
        total = weights.sum(axis=0) if block.weighted else float(len(draws))
        shares = [
            host((weights * (double(draws[..., k]) == value)).sum(axis=0) / total)
            for k, values in self.values.items()
            for value in values
        ]
        return np.stack(shares, axis=1)


def _look(block: Block, known: dict[int, Floats]) -> None:
    """Add the values of a block to those of each parameter; drop parameters with too many."""
    there = block.weights > 0 if block.weighted else slice(None)
    points = host(block.points)
    for k in tuple(known):
        values = np.union1d(known[k], np.asarray(points[..., k][there], dtype=float))
        if len(values) <= MOST_VALUES:
            known[k] = values
        else:
            del known[k]


def _weights(block: Block, near: Array) -> Array:
    """Return weights of the points with a sum that is their number; 1 if they are equal."""
    if not block.weighted:
        return to_device_of(np.ones((1, 1)), near)
    return to_device_of(block.weights / block.weights.mean(axis=0), near)


@dataclass(frozen=True, eq=False)
class Shares:
    """A parameter that takes few values, in all simulations.

    Arguments:
        values: The values, `(n_values,)`.
        draws: Their shares among the draws, `(n_sims, n_values)`.
        truth: The truths, `(n_sims,)`.
        mean: The means of the draws, `(n_sims,)`.
        variance: The variances of the draws, `(n_sims,)`.
        ess: The effective sample size of a typical simulation.
    """

    values: Floats
    draws: Floats
    truth: Floats
    mean: Floats
    variance: Floats
    ess: float

    def subset(self, sims: Ints) -> "Shares":
        """Return the same of some simulations only."""
        some = ("draws", "truth", "mean", "variance")
        return replace(self, **{name: getattr(self, name)[sims] for name in some})

    @cached_property
    def expected(self) -> float:
        """The mean square of a truth about the mean of its draws, if it were one more of them.

        At least as large as if one draw of all were another value: a width stays finite.
        """
        least = np.diff(self.values).min() ** 2 / (self.ess * len(self.truth))
        return float(max(self.variance.mean() * (1 + 1 / self.ess), least))

    def bias(self, z: float = 1.96) -> Estimate:
        """Return how far the draws lie above the truths, in posterior sd pooled over simulations.

        The error is never smaller than that of accurate posteriors: if a rare value never
        occurs among the truths, their scatter says little.
        """
        error, scale = self.mean - self.truth, np.sqrt(self.expected)
        variance = max(float(error.var(ddof=1)), self.expected)
        value, half = float(error.mean()) / scale, z * np.sqrt(variance / len(error)) / scale
        return Estimate(*(float(end) for end in (value, value - half, value + half)))

    def width(self, z: float = 1.96) -> Estimate:
        """Return how much more widely the truths scatter than the draws, over all simulations."""
        error = self.truth - self.mean
        square, n = np.square(error - error.mean()) * len(error) / (len(error) - 1), len(error)
        ratio = float(square.mean()) / self.expected
        fourth = (self.draws * (self.values - self.mean[:, None]) ** 4).sum(axis=1)
        known = float((fourth - self.variance**2).clip(min=0).mean())
        variance = max(float((square - ratio * self.variance).var(ddof=1)), known)
        half = z * np.sqrt(variance / n) / self.expected
        ends = (ratio, max(ratio - half, 0.0), ratio + half)
        return Estimate(*(float(np.sqrt(end)) for end in ends))

    def table(self, name: str, unit: float) -> Iterator[Value]:
        """Yield every value for all simulations, and for bins of its share among the draws."""
        for column, value in enumerate(self.values):
            share, is_truth = self.draws[:, column], self.truth == value
            bins = np.clip(np.searchsorted(_EDGES, share, side="right"), 1, len(_EDGES) - 1)
            ranges = [(0.0, 1.0, np.ones(len(share), dtype=bool))]
            ranges += [(_EDGES[b - 1], _EDGES[b], bins == b) for b in np.unique(bins)]
            for low, high, here in ranges:
                n_here, drawn = int(here.sum()), float(share[here].mean())
                truths = proportion(int(is_truth[here].sum()), n_here)
                yield Value(name, float(value * unit), low, high, n_here, drawn, truths)

"""Trends: how bias, width and correlation change along what they may depend on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..simulations import Simulations, unit_of
from .flaws import Trend
from .parameters import Effects
from .products import apart
from .swaps import Sums

_MOST_BINS, _FEWEST_IN_BIN = 8, 15


@dataclass(frozen=True, eq=False)
class Trends:
    """What errors may depend on, and how large they are along it.

    Arguments:
        names: The names of the parameters.
        sums: The sums of the swap test, on the host.
        effects: What was measured of the draws.
        feature: Names a plain feature of the data, or a product.
        unit: The units of the parameters.
    """

    names: tuple[str, ...]
    sums: Sums
    effects: Effects
    feature: Callable[[int], str]
    unit: Floats

    @classmethod
    def of(
        cls, sims: Simulations, sums: Sums, effects: Effects, data: Array | None, label: str
    ) -> "Trends":
        """Return the trends of a check of data with a label, such as "x"."""
        names = tuple(sims.names or ())
        return cls(names, sums, effects, sums.features.namer(data, label, names), unit_of(sims))

    def along_mean(self, k: int) -> tuple[str, Floats]:
        """Return the posterior mean of a parameter, and what it is called beside it."""
        return "its posterior mean", self.unit[k] * self.effects.mean[:, k]

    def along_width(self, k: int) -> tuple[str, Floats]:
        """Return the posterior sd of a parameter, and what it is called beside it."""
        return "its posterior sd", self.unit[k] * self.effects.sd[:, k]

    def along(self, feature: int) -> tuple[str, Floats]:
        """Return a feature, and what it is called."""
        return self.feature(feature), self.sums.features.values[:, feature]

    def bias(self, k: int, along: tuple[str, Floats], p_value: float) -> Trend:
        """Return how the bias of a parameter changes."""
        return self._trend("bias", (k,), along, p_value, lambda e: e.bias(k))

    def width(self, k: int | None, along: tuple[str, Floats], p_value: float) -> Trend:
        """Return how the width of a parameter changes, or that of all."""
        ks = () if k is None else (k,)
        return self._trend("width", ks, along, p_value, lambda e: e.width(k))

    def correlation(self, a: int, b: int, along: tuple[str, Floats], p_value: float) -> Trend:
        """Return how the correlation of two parameters changes."""
        return self._trend("correlation", (a, b), along, p_value, lambda e: e.correlation(a, b))

    def _trend(
        self,
        what: str,
        ks: tuple[int, ...],
        along: tuple[str, Floats],
        p_value: float,
        error: Callable[[Effects], Estimate],
    ) -> Trend:
        name, values = along
        order = np.argsort(values, kind="stable")
        n_bins = max(1, min(_MOST_BINS, len(values) // _FEWEST_IN_BIN))
        bins, (lowest, highest) = np.array_split(order, n_bins), thirds(values)
        return Trend(
            what,
            tuple(self.names[k] for k in ks),
            name,
            tuple(float(np.median(values[sims])) for sims in bins),
            tuple(error(self.effects.subset(sims)) for sims in bins),
            error(self.effects.subset(lowest)),
            error(self.effects.subset(highest)),
            p_value,
        )

    @property
    def apart(self) -> Ints:
        """The pairs of two different parameters, among all pairs."""
        return apart(len(self.sums.chosen))


def label(sims: Simulations, data: Array | None) -> str:
    """Return what the data are called."""
    return "x" if data is sims.x else "summary(x)"


def thirds(values: Floats) -> tuple[Ints, Ints]:
    """Return the simulations where numbers are lowest, and those where they are highest."""
    order, n = np.argsort(values, kind="stable"), max(2, len(values) // 3)
    return order[:n], order[-n:]


def difference(trend: Trend) -> Estimate:
    """Return how much an error changes from the lowest third to the highest."""
    ends = np.array([[e.value, e.low, e.high] for e in (trend.low, trend.high)])
    if trend.what == "width":
        ends = np.log(np.maximum(ends, 1e-9))
    value, _, _ = ends[1] - ends[0]
    half = np.hypot.reduce((ends[:, 2] - ends[:, 1]) / 2)
    change = np.array([value, value - half, value + half])
    return Estimate(*(np.exp(change) if trend.what == "width" else change).tolist())

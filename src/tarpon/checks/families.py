"""Families: the regions that `check` ranks truths in, and the statistics made of the ranks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.random import Generator

from .._base.arrays import Results, host, namespace, power_of_two
from .._base.types import Array, Floats
from ..regions import (
    FromCentre,
    FromDraws,
    FromPoints,
    HalfLines,
    HighestDensity,
    Region,
    Residuals,
    cut,
)
from ..simulations import Simulations, shapes, units
from ..simulations.blocks import Block
from .labellings import MOST_CHOSEN, Part, Plants
from .statistics import log_mean_exp, log_ratio, standardise
from .swaps import Sums, swap

N_BALLS = 16
MOST_FEATURES = 64
_ROW_BYTES = 16 * 2**20
_FEWEST_ROWS = 16  # that are read together, or a sketch of wide data would take too long
_DATA = "observations `x` (or `summary(x)`)"
# Of data with so many columns, and no more rows or bytes, rows are multiplied with each other.
_WIDE, _FEW_ROWS, _FEW_BYTES = 2**16, 2000, 2**30
_TIED = 0.01  # the share of tied points from which ties have a family

# Families with few scores, directed at what goes wrong most often, count twice.
_TWICE = ("bias", "width", "scale", "data width")

SEES = {
    "bias": "one parameter is shifted",
    "location and scale": "one parameter is shifted or has a wrong width",
    "marginals": "one parameter has a wrong distribution",
    "width": "all parameters are too narrow or too wide",
    "tails": "all parameters have wrong tails",
    "centre": "points lie too far from the centre or too near",
    "scale": "three views of the width together",
    "radial": "the distribution of the distance from the centre is wrong",
    "posterior balls": "the shape of the posterior is wrong anywhere",
    "random balls": "TARP with many random references",
    "slope": "the bias of a parameter depends on its posterior mean",
    "residuals": "one parameter is wrong, given those before it",
    "directions": "a shift in any direction",
    "pairs": "the correlation of two parameters is wrong",
    "data": "the bias of a parameter depends on the data; without them, on posterior means",
    "data width": "the width depends on the data; without them, on posterior means",
    "density": "the estimator's own density is wrong",
    "ties": "truths and draws are rounded differently",
}


def swapped(
    sims: Simulations,
    scores: Mapping[str, Region],
    data: Array | None,
    *,
    n_swaps: int,
    rng: Generator,
    plants: Plants | None = None,
    measure: Callable[[Simulations], Results] | None = None,
) -> Sums:
    """Go over the simulations once, and return the sums that all families are made of.

    Without data, the centre of the points takes their place.
    """
    place, sketch, label = rng.spawn(3)
    centres = sims.centres()  # first: for stored draws, this pass also finds the box
    return swap(
        sims,
        parts(sims, scores, place),
        features(centres if data is None else data, sketch),
        n_swaps=n_swaps,
        most_chosen=MOST_CHOSEN,
        rng=label,
        plants=plants,
        measure=measure,
    )


def parts(sims: Simulations, scores: Mapping[str, Region], rng: Generator) -> dict[str, Part]:
    """Return the regions and the user's own scores, by name."""
    ranked = {
        "marginals": Part(HalfLines()),
        "centre": Part(FromCentre()),
        "draws": Part(FromDraws(N_BALLS), pooled=True),
        "points": Part(FromPoints(_RandomPoints.of(sims, rng), sims.width()), pooled=True),
    }
    if sims.n_dims > 1:
        ranked["residuals"] = Part(Residuals())
    if sims.log_prob_samples is not None:
        ranked["density"] = Part(HighestDensity())
    own = {
        f"score: {name}": Part(_InOwnUnits(region), own=name) for name, region in scores.items()
    }
    return ranked | own


@dataclass(frozen=True, eq=False)
class _InOwnUnits:
    """A region of the user's own, which sees parameters in the user's own units."""

    region: Region

    def scores(self, block: Block) -> Array:
        return self.region.scores(units.in_own_units(block))

    def cut(self, where: slice) -> "_InOwnUnits":
        return _InOwnUnits(cut(self.region, where))


@dataclass(frozen=True, eq=False)
class _RandomPoints:
    """Points uniform in the box, drawn when a block needs them: too many to keep."""

    low: Floats
    high: Floats
    unit: Floats  # a power of two, in which single precision holds them
    seed: int

    @classmethod
    def of(cls, sims: Simulations, rng: Generator) -> "_RandomPoints":
        low, high = (np.asarray(corner, dtype=float) for corner in sims.box)
        unit = power_of_two(np.maximum(abs(low), abs(high)))
        return cls(low, high, unit, int(rng.integers(2**63)))

    def __getitem__(self, where: slice) -> Floats:
        rng = np.random.default_rng([self.seed, where.start])
        fraction = rng.uniform(size=(where.stop - where.start, N_BALLS, len(self.low)))
        points = (self.low + fraction * (self.high - self.low)) / self.unit
        return self.unit * points.astype(np.float32)


def n_features(sims: Simulations) -> int:
    """Return the largest number of features of the data."""
    return min(MOST_FEATURES, sims.n_dims if sims.x is None else prod(sims.x.shape[1:]))


def features(data: Array, rng: Generator) -> Floats:
    """Return standardised features of each simulation's data, `(n_sims, n_features)`.

    The features are the data themselves, or their leading principal components if they are many.
    """
    if _is_wide(data):
        columns = _principal_of_wide(np.asarray(data))
    elif prod(data.shape[1:]) > MOST_FEATURES:
        columns = _principal(_Columns.of(data), rng)
    else:
        columns = np.asarray(data, dtype=float).reshape(data.shape[0], -1)
    columns = _standard(shapes.finite(_DATA, columns))
    return np.ascontiguousarray(columns, dtype=np.float32)


def _is_wide(data: Array) -> bool:
    n_rows, n_columns = data.shape[0], prod(data.shape[1:])
    small = isinstance(data, np.ndarray) or n_rows * n_columns * data.dtype.itemsize <= _FEW_BYTES
    return n_columns > _WIDE and n_rows <= _FEW_ROWS and small


def _principal_of_wide(data: Array) -> Floats:
    """Return the leading principal components of standardised columns, a few of them at a time.

    They are the leading eigenvectors of the products of rows, of which there are few.
    """
    flat = data.reshape(len(data), -1)
    step = max(1, _ROW_BYTES // (8 * len(flat)))
    products = np.zeros((len(flat), len(flat)))
    for start in range(0, flat.shape[1], step):
        some = np.asarray(flat[:, start : start + step], dtype=float)
        columns = _standard(shapes.finite(_DATA, some))
        products += columns @ columns.T
    _, axes = np.linalg.eigh(products)
    return axes[:, ::-1][:, : min(MOST_FEATURES, len(flat) - 1)]


def _principal(columns: "_Columns", rng: Generator) -> Floats:
    """Return the leading principal components of standardised columns.

    By a randomised range finder with one power iteration (Halko et al., 2011), and a few rows at
    a time, since the data may be images of which no copy fits into memory.
    """
    n_kept = min(MOST_FEATURES, columns.n_rows - 1)
    guess = rng.standard_normal((columns.n_rows, n_kept + 16))
    turned = sum(rows.T @ guess[where] for where, rows in columns)
    twice = np.zeros_like(turned)
    for _, rows in columns:
        twice += rows.T @ (rows @ turned)
    basis, _ = np.linalg.qr(np.concatenate([rows @ twice for _, rows in columns]))
    turn, _, _ = np.linalg.svd(
        sum(basis[where].T @ rows for where, rows in columns), full_matrices=False
    )
    return (basis @ turn)[:, :n_kept]


@dataclass(frozen=True, eq=False)
class _Columns:
    """Standardised columns of data, a few rows at a time; constant columns are zero."""

    data: Array
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, data: Array) -> "_Columns":
        """Return the columns of data with their means and sd."""
        plain = cls(data, np.zeros(1), np.ones(1))
        largest = np.max([abs(rows).max(axis=0) for _, rows in plain], axis=0)
        shapes.finite(_DATA, largest)
        unit = power_of_two(largest)
        scaled = cls(data, np.zeros(1), unit)
        mean = unit * (sum(rows.sum(axis=0) for _, rows in scaled) / plain.n_rows)
        square, largest = np.zeros((2, len(unit)))
        for _, rows in cls(data, mean, unit):
            square += np.square(rows).sum(axis=0)
            largest = np.maximum(largest, abs(rows).max(axis=0))
        sd = np.sqrt(square / plain.n_rows)
        return cls(data, mean, np.where(sd > 1e-12 * largest, unit * sd, np.inf))

    @property
    def n_rows(self) -> int:
        return int(self.data.shape[0])

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        step = max(_FEWEST_ROWS, _ROW_BYTES // (8 * prod(self.data.shape[1:])))
        for start in range(0, self.n_rows, step):
            where = slice(start, min(start + step, self.n_rows))
            rows = np.asarray(self.data[where], dtype=float).reshape(where.stop - start, -1)
            yield where, (rows - self.mean) / self.sd


def _standard(columns: Floats) -> Floats:
    """Return the columns that vary, each with mean 0 and sd 1."""
    columns = columns / power_of_two(abs(columns).max(axis=0, initial=0.0))
    columns -= columns.mean(axis=0)
    sd = columns.std(axis=0)
    varies = sd > 1e-12 * abs(columns).max(axis=0, initial=0.0)
    return columns[:, varies] / sd[varies]


def families(sums: Sums) -> dict[str, Floats]:
    """Return the statistic of every family for the real labelling and the swaps."""
    real_and_swapped = sums.with_rows(lambda values: values[: sums.n_rows])
    return moment_families(real_and_swapped) | product_families(sums)


def moment_families(sums: Sums) -> dict[str, Floats]:
    """Return the statistics made of moments alone, one per row: logarithms of ratios."""
    moments, n_rows = sums.moments, sums.n_rows
    single = log_ratio(moments["marginals"])
    whole = standardise(moments["marginals"].sum(axis=2), n_rows)
    centre, draws, points = (moments[name][..., 0] for name in ("centre", "draws", "points"))
    scale = standardise(whole[:, 1] + centre[:, 0] + points[:, 1], n_rows)
    families = {
        "bias": log_mean_exp(single[:, 0]),
        "location and scale": log_mean_exp(single[:, :2].sum(axis=1)),
        "marginals": log_mean_exp(single.sum(axis=1)),
        "width": log_ratio(whole[:, 1]),
        "tails": log_ratio(whole[:, 3]),
        "centre": log_ratio(centre[:, 0]),
        "scale": log_ratio(scale),
        "radial": log_ratio(centre[:, :3]).sum(axis=1),
        "posterior balls": log_ratio(draws[:, :3]).sum(axis=1),
        "random balls": log_ratio(points[:, :2]).sum(axis=1),
        "slope": _slope(sums.slope, n_rows),
    }
    if "residuals" in moments:
        residuals = moments["residuals"]
        families["residuals"] = log_mean_exp(log_ratio(residuals[:, :3]).sum(axis=1))
        families["directions"] = 0.5 * (residuals[:, 0] ** 2).sum(axis=1)
    if "density" in moments:
        families["density"] = log_ratio(moments["density"][:, :3, 0]).sum(axis=1)
    if sums.share_tied > _TIED:
        families["ties"] = log_ratio(sums.ties)
    for name in sums.own:
        families[name] = log_mean_exp(log_ratio(moments[name]).sum(axis=1))
    return {name: host(values) for name, values in families.items()}


def _slope(slope: Floats, n_rows: int) -> Floats:
    """Return what speaks for a slope of any one parameter, or of all together."""
    whole = log_ratio(standardise(slope.sum(axis=1), n_rows))
    return log_mean_exp(namespace(slope).column_stack([log_ratio(slope), whole]))


def product_families(sums: Sums) -> dict[str, Floats]:
    """Return the statistics made of products, one per row of the real labelling and the swaps."""
    families = {}
    if len(sums.chosen) > 1:
        upper = np.triu_indices(len(sums.chosen), 1)
        families["pairs"] = log_mean_exp(log_ratio(sums.pairs[:, *upper]))
    if sums.data.shape[2]:
        families["data"] = log_mean_exp(log_ratio(sums.data))
        families["data width"] = log_mean_exp(log_ratio(sums.data_width))
    return {name: host(values) for name, values in families.items()}


def weights(names: Iterable[str]) -> Floats:
    """Return how much each family counts in the combination."""
    return np.array([2.0 if name in _TWICE else 1.0 for name in names])

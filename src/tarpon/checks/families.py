"""The portfolio of `check`: what is ranked, and the families of statistics made of it."""

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
from .statistics import log_mean_exp, log_ratio, standardise
from .swaps import Part, Plants, Sums, swap

N_BALLS = 16
MOST_CHOSEN = 128  # parameters of which pairs, and products with the data, are made
MOST_FEATURES = 64
SCORE = "score: "  # names the families of scores of the user's own
_ROW_BYTES = 16 * 2**20
_TIED = 0.01  # the share of tied points from which ties are worth a family

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
    "slope": "the bias of a parameter follows its posterior mean",
    "residuals": "one parameter is wrong, given those before it",
    "directions": "a shift in any direction",
    "pairs": "the correlation of two parameters is wrong",
    "data": "the bias of a parameter follows the data; without them, posterior means",
    "data width": "the width follows the data; without them, posterior means",
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
    beside: Callable[[Simulations], Results] | None = None,
) -> Sums:
    """Go over the simulations once, and return the sums that all families are made of.

    Without data, errors are looked for that depend on the centre of the points.
    """
    place, sketch, label = rng.spawn(3)
    centres = sims.centres()  # first, since where the draws are stored they bring the box along
    return swap(
        sims,
        parts(sims, scores, place),
        features(centres if data is None else data, sketch),
        n_swaps=n_swaps,
        most_chosen=MOST_CHOSEN,
        rng=label,
        plants=plants,
        beside=beside,
    )


def parts(sims: Simulations, scores: Mapping[str, Region], rng: Generator) -> dict[str, Part]:
    """Return what is ranked: the regions of the portfolio, and the user's own scores."""
    chosen = {
        "marginals": Part(HalfLines()),
        "centre": Part(FromCentre()),
        "draws": Part(FromDraws(N_BALLS), pooled=True),
        "points": Part(FromPoints(_RandomPoints.of(sims, rng), sims.width()), pooled=True),
    }
    if sims.n_dims > 1:
        chosen["residuals"] = Part(Residuals())
    if sims.log_prob_samples is not None:
        chosen["density"] = Part(HighestDensity())
    own = {SCORE + name: Part(_InOwnUnits(region)) for name, region in scores.items()}
    return chosen | own


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
    """Points uniform in the box, drawn when a block asks for them: too many to be kept."""

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


def features(data: Array, rng: Generator) -> Floats:
    """Return standardised numbers of each simulation's data, `(n_sims, n_features)`.

    The data themselves where they are few, and otherwise their leading principal components.
    """
    if prod(data.shape[1:]) > MOST_FEATURES:
        columns = _principal(_Columns.of(data), rng)
    else:
        columns = np.asarray(data, dtype=float).reshape(data.shape[0], -1)
    columns = _standard(shapes.finite("observations (or `summary(x)`)", columns))
    return np.ascontiguousarray(columns, dtype=np.float32)


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
    """Standardised columns of data, a few rows at a time; those that never vary are zero."""

    data: Array
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, data: Array) -> "_Columns":
        """Measure the columns of data."""
        plain = cls(data, np.zeros(1), np.ones(1))
        largest = np.max([abs(rows).max(axis=0) for _, rows in plain], axis=0)
        shapes.finite("observations (or `summary(x)`)", largest)
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
        step = max(1, _ROW_BYTES // (8 * prod(self.data.shape[1:])))
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


def moment_families(
    moments: Mapping[str, Floats], slope: Floats, ties: Floats, share_tied: float, n_rows: int
) -> dict[str, Floats]:
    """Return the statistics made of moments alone, `(rows,)` each: logarithms of ratios."""
    one = log_ratio(moments["marginals"])
    whole = standardise(moments["marginals"].sum(axis=2), n_rows)
    centre, draws, points = (moments[name][..., 0] for name in ("centre", "draws", "points"))
    scale = standardise(whole[:, 1] + centre[:, 0] + points[:, 1], n_rows)
    families = {
        "bias": log_mean_exp(one[:, 0]),
        "location and scale": log_mean_exp(one[:, :2].sum(axis=1)),
        "marginals": log_mean_exp(one.sum(axis=1)),
        "width": log_ratio(whole[:, 1]),
        "tails": log_ratio(whole[:, 3]),
        "centre": log_ratio(centre[:, 0]),
        "scale": log_ratio(scale),
        "radial": log_ratio(centre[:, :3]).sum(axis=1),
        "posterior balls": log_ratio(draws[:, :3]).sum(axis=1),
        "random balls": log_ratio(points[:, :2]).sum(axis=1),
        "slope": log_mean_exp(
            namespace(slope).column_stack([log_ratio(slope), _whole_slope(slope, n_rows)])
        ),
    }
    if "residuals" in moments:
        residuals = moments["residuals"]
        families["residuals"] = log_mean_exp(log_ratio(residuals[:, :3]).sum(axis=1))
        families["directions"] = 0.5 * (residuals[:, 0] ** 2).sum(axis=1)
    if "density" in moments:
        families["density"] = log_ratio(moments["density"][:, :3, 0]).sum(axis=1)
    if share_tied > _TIED:
        families["ties"] = log_ratio(ties)
    for name in moments:
        if name.startswith(SCORE):
            families[name] = log_mean_exp(log_ratio(moments[name]).sum(axis=1))
    return {name: host(values) for name, values in families.items()}


def _whole_slope(slope: Floats, n_rows: int) -> Floats:
    return log_ratio(standardise(slope.sum(axis=1), n_rows))


def product_families(sums: Sums) -> dict[str, Floats]:
    """Return the statistics made of products, `(n_rows,)` each."""
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


def families(sums: Sums) -> dict[str, Floats]:
    """Return the statistic of every family for the real labelling and the swaps."""
    first = slice(0, sums.n_rows)
    moments = {name: values[first] for name, values in sums.moments.items()}
    own = moment_families(
        moments, sums.slope[first], sums.ties[first], sums.share_tied, sums.n_rows
    )
    return own | product_families(sums)

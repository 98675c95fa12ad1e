"""Families: the regions that `check` ranks truths in, and the statistics made of the ranks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.arrays import Results, host, power_of_two, to_device_of
from .._base.types import Array, Floats
from ..regions import (
    FromCentre,
    FromDraws,
    FromPoints,
    HalfLines,
    HighestDensity,
    Neighbours,
    Region,
    Residuals,
    cut,
)
from ..simulations import Simulations, units
from ..simulations.blocks import Block
from . import outliers, waves
from .features import Features, features
from .labellings import MOST_CHOSEN, Part, Plants
from .products import PRODUCTS
from .products import pairs as both
from .statistics import any_of, log_mean_exp, log_ratio, standardise
from .swaps import Sums, swap
from .values import Few

N_BALLS = 8  # around draws, and around random points
_TIED = 0.01  # the share of tied points from which ties have a family
_MOST_COMBINED = 64  # parameters of which combinations are looked for
LEAST_VARIANCE = 1e-5  # along a combination of parameters; less is due to rounding

# Families with few scores, directed at what goes wrong most often, count twice.
_TWICE = ("bias", "width", "scale", "data width", "density", "values")

# Families of the first circle, of which several see most flaws.
_FIRST = {
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
    "neighbours": "truths lie where draws are too dense, or too sparse",
    "slope": "the bias of a parameter depends on its posterior mean",
    "residuals": "one parameter is wrong, given those before it",
    "directions": "a shift in any direction",
    "pairs": "the correlation of two parameters is wrong",
    "data": "the bias of a parameter depends on the data; without them, on posterior means",
    "data width": "the width depends on the data; without them, on posterior means",
    "density": "the estimator's own density is wrong",
    "ties": "truths and draws are rounded differently",
    "outliers": "draws lie far from all others more often than truths do, or truths do",
    "values": "a value of a discrete parameter is drawn too often or too rarely",
}
# Families for flaws that none of the others sees, of which the strongest counts.
_SECOND = {
    "products": "the bias of a parameter depends on a product of two features of the data",
    "one width": "the width of one parameter depends on the data, or on its own mean and width",
    "all data": "the data say more about a parameter than its posterior, all of them together",
    "pairs by data": "the correlation of two parameters depends on the data",
    "combinations": "a combination of parameters is too narrow or too wide",
    "triples": "three parameters depend on each other in a wrong way",
    "shapes": "one parameter has gaps, edges or modes in the wrong places",
    "pair shapes": "two parameters depend on each other in a wrong way",
}
FIELDS = {
    "power": "fields have too much or too little power at some scale",
    "scales": "fields are too narrow or too wide at some scale",
    "phases": "the structure of fields is too strong, too weak or in the wrong places",
    "anisotropy": "fields vary along the wrong directions",
    "cells": "the cells of one field have a wrong distribution",
    "regions": "a region or a coefficient of fields is shifted",
}
_MAPS = {"maps": "a patch of fields is shifted or has a wrong width"}
SEES = _FIRST | _SECOND | FIELDS | _MAPS


def swapped(
    sims: Simulations,
    scores: Mapping[str, Region],
    data: Array | None,
    *,
    n_swaps: int,
    rng: Generator,
    few: Few = Few(),
    outlying: bool | None = None,
    fields: Mapping[str, Part] | None = None,
    plants: Plants | None = None,
    measure: Callable[[Simulations], Results] | None = None,
    before: Callable[[Features], None] | None = None,
) -> Sums:
    """Go over the simulations once, and return the sums that all families are made of.

    Without data, the centre of the points takes their place. `outlying` is whether some points
    are outliers, if that is known. `fields` has the scores of whole fields. `before` is called
    with the features, for other passes over the simulations: shards stop after this one.
    """
    place, sketch, choose, label = rng.spawn(4)
    centres = sims.centres()  # first: for stored draws, this pass also finds the box
    chosen = np.sort(choose.permutation(sims.n_dims)[:MOST_CHOSEN])
    found = features(data, centres, len(chosen), sketch)
    if before:
        before(found)
    return swap(
        sims,
        parts(sims, scores, place, few, outlying) | dict(fields or {}),
        found,
        chosen,
        n_swaps=n_swaps,
        rng=label,
        plants=plants,
        measure=measure,
    )


def parts(
    sims: Simulations,
    scores: Mapping[str, Region],
    rng: Generator,
    few: Few = Few(),
    outlying: bool | None = None,
) -> dict[str, Part]:
    """Return the regions and the user's own scores, by name."""
    ranked = {
        "marginals": Part(HalfLines()),
        "centre": Part(FromCentre()),
        "draws": Part(FromDraws(N_BALLS), pooled=True),
        "points": Part(FromPoints(_RandomPoints.of(sims, rng), sims.width()), pooled=True),
        "neighbours": Part(Neighbours(), pooled=True),
    }
    if sims.n_dims > 1:
        ranked["residuals"] = Part(Residuals())
    if sims.log_prob_samples is not None:
        ranked["density"] = Part(HighestDensity())
    if outliers.are_there(sims) if outlying is None else outlying:
        ranked["outliers"] = Part(outliers.Outliers(), ranked=False)
    if few:
        ranked["values"] = Part(few, ranked=False)
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


def families(sums: Sums, by_product: dict[str, Floats] | None = None) -> dict[str, Floats]:
    """Return the statistic of every family for the real labelling and the swaps.

    Arguments:
        sums: The sums.
        by_product: What `product_families` returned, if it is known.
    """
    real_and_swapped = sums.with_rows(lambda values: values[: sums.n_rows])
    by_product = product_families(sums) if by_product is None else by_product
    return moment_families(real_and_swapped) | by_product


def moment_families(sums: Sums) -> dict[str, Floats]:
    """Return the statistics made of moments alone, one per row: logarithms of ratios."""
    moments, n_rows = sums.moments, sums.n_rows
    marginals = moments["marginals"]
    single, whole = log_ratio(marginals), standardise(marginals.sum(axis=2), n_rows)
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
        "slope": _slope(sums.along[:, 0, 0], n_rows),
        "neighbours": log_ratio(moments["neighbours"][:, :3, 0]).sum(axis=1),
    }
    if "residuals" in moments:
        residuals = moments["residuals"]
        families["residuals"] = log_mean_exp(log_ratio(residuals[:, :3]).sum(axis=1))
        families["directions"] = 0.5 * (residuals[:, 0] ** 2).sum(axis=1)
    if "density" in moments:
        families["density"] = log_ratio(moments["density"][:, :3, 0]).sum(axis=1)
    if sums.share_tied > _TIED:
        families["ties"] = log_ratio(sums.ties)
    if "outliers" in moments:
        beyond = moments["outliers"]
        families["outliers"] = any_of(beyond[:, 0], beyond[:, 1])
    if "values" in moments:
        shares = moments["values"]
        families["values"] = any_of(shares[:, 0], shares[:, 1])
    for name in moments.keys() & FIELDS.keys():
        shifts = moments[name][:, 0]
        families[name] = any_of(shifts, standardise(shifts.sum(axis=1), n_rows))
    if "maps" in moments:
        cells = moments["maps"]
        families["maps"] = any_of(cells[:, 0], cells[:, 1])
    for name in sums.own:
        families[name] = log_mean_exp(log_ratio(moments[name]).sum(axis=1))
    return {name: host(values) for name, values in families.items()}


def _slope(slope: Floats, n_rows: int) -> Floats:
    """Return what speaks for a slope of any one parameter, or of all together."""
    return any_of(slope, standardise(slope.sum(axis=1), n_rows))


def product_families(sums: Sums) -> dict[str, Floats]:
    """Return the statistics made of products, one per row of the real labelling and the swaps."""
    features, n_rows = sums.features, sums.n_rows
    data, width, pairs, by_own, by_data, triples = (sums.products[name] for name in PRODUCTS)
    families = {}
    if features.plain:
        plain, along = slice(features.plain), sums.along[:n_rows]
        share = to_device_of(features.share, data)
        families["data"] = any_of(data[..., plain])
        families["data width"] = any_of(standardise(width.sum(axis=1), n_rows))
        products, n_squares = data[..., features.products], features.n_squares
        families["products"] = any_of(products[..., :n_squares], products[..., n_squares:])
        families["one width"] = any_of(width, along[:, 1, 0], along[:, 1, 2])
        families["all data"] = any_of(
            along[:, 0, 1],
            standardise(along[:, 0, 1].sum(axis=1), n_rows),
            dense(data[..., plain], share[plain]),
            dense(data[..., features.waves], share[features.waves]),
        )
    if len(sums.chosen) > 1:
        different = slice(len(sums.chosen), None)
        families["pairs"] = any_of(pairs[:, different])
        families["pairs by data"] = any_of(by_data[..., different], _off_diagonal(by_own))
    if 1 < len(sums.chosen) <= _MOST_COMBINED:
        families["combinations"] = combinations(host(sums.correlations), len(sums.chosen))
    if triples.shape[1]:
        families["triples"] = any_of(triples)
    families |= waves.families(sums.products)
    return {name: host(values) for name, values in families.items()}


def _off_diagonal(sums: Floats) -> Floats:
    """Return a view of what is off the diagonal of matrices, `(n_rows, n - 1, n)`."""
    n_rows, n, _ = sums.shape
    return sums.reshape(n_rows, -1)[:, 1:].reshape(n_rows, n - 1, n + 1)[..., :-1]


def dense(sums: Floats, share: Floats) -> Floats:
    r"""Return what all features together say about the bias of each parameter.

    Of standardised sums :math:`z_{kf}` with the shares :math:`w_f`, the standardised cube root
    of :math:`\sum_f w_f z_{kf}^2`, which is nearly normal: a quadratic form with a kernel on all
    of the data. Only large ones speak against accuracy.
    """
    return waves.together((sums * sums) @ share)


def combinations(products: Floats, n_chosen: int) -> Floats:
    """Return what speaks for a combination of parameters that is too narrow or too wide.

    The mean products of normal scores, `(n_rows, n_pairs)`, are whitened by their mean over all
    rows; then the largest and the smallest eigenvalue, and their sum, are compared.
    """
    values = eigenvalues(products, n_chosen)[0]
    extremes = np.log(np.maximum(values[:, [-1, 0]], LEAST_VARIANCE)) * [1, -1]
    z = standardise(np.column_stack([extremes, values.sum(axis=1)]), len(values))
    return any_of(z[:, :2].clip(min=0), z[:, 2])


def eigenvalues(products: Floats, n_chosen: int) -> tuple[Floats, Floats]:
    """Return the eigenvalues of whitened products in every row, and the matrix that whitens."""
    full = matrices(products, n_chosen)
    sizes, axes = np.linalg.eigh(full.mean(axis=0))
    whiten = axes / np.sqrt(np.maximum(sizes, 1e-6 * sizes.max()))
    return np.linalg.eigvalsh(whiten.T @ full @ whiten), whiten


def matrices(products: Floats, n_chosen: int) -> Floats:
    """Return products of all pairs `(n_rows, n_pairs)` as symmetric matrices."""
    a, b = both(n_chosen).T
    full = np.empty((len(products), n_chosen, n_chosen))
    full[:, a, b] = full[:, b, a] = products
    return full


def weights(names: Iterable[str]) -> Floats:
    """Return how much each family counts in the combination; 0 for the second circle."""
    return np.array([_weight(name) for name in names])


def _weight(name: str) -> float:
    first = name in _FIRST or name not in SEES  # the user's own scores are of the first circle
    return (2.0 if name in _TWICE else 1.0) if first else 0.0

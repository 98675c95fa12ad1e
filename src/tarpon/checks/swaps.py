r"""The exact swap test: many scores on the same simulations, one p-value.

Under accuracy the truth is one more draw, so given the pooled points of every simulation, which
of them is the truth is uniform and independent between simulations. A *labelling* picks one
point of every simulation to play the truth; row 0 has the real ones, the other rows random
ones. Any statistic of a labelling has the same distribution in all rows, whatever the number of
simulations, draws and dimensions, the dependence between scores, the ties, the observations:

.. math:: p = \frac{1 + \#\{b : S_b \ge S_0\}}{B + 1}

All statistics here are sums over simulations of functions of pooled ranks, so that a row costs
one look-up per simulation and score, and no more than a block of ranks is ever stored.
"""

from collections import ChainMap, UserDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np
from numpy.random import Generator

from .._base import arguments, arrays, threads
from .._base.arrays import Results, joined
from .._base.types import Array, Floats, Ints
from ..ranks import N_LEVELS
from ..simulations import Simulations, passes
from .features import Features
from .labellings import Part, Plants, Recipe, Totals
from .products import pairs, triples
from .statistics import components, standardise

_DATA_PER_SUM, _DATA_PER_LARGE_SUM = 2, 8  # how many times larger than its sums a part is
_LARGE_SUMS = 64 * 2**20
_LEAST = 1e-3  # mean square of normal scores, and share of it that is variance
_RARE = 3.0  # the variance of a number of truths that counts half
_FEWEST_SIMS, FEWEST_DRAWS = 2, 5


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over simulations, one row per labelling: the real one, swaps, and planted errors.

    They are where the samples are; `on_host` brings them to the CPU.

    Arguments:
        n_sims: The number of simulations.
        n_rows: The number of rows that are the real labelling or a swap.
        n_plays: The number of rows after them in which a draw plays the truth.
        own: The parts that are scores of the user's own, with the user's names for them.
        moments: By part, the four moments of the normal scores of ranks, standardised,
            `(n_all, 4, n_scores)`.
        along: Bias and width of each parameter along its posterior mean, along what the data
            say beyond the means, and along its posterior width, `(n_all, 2, 3, n_dims)`.
        products: Products of normal scores with each other and with features, standardised, by
            the names in `products`, `(n_rows, ...)`.
        ties: In how many discrete parameters a point equals another that is no copy of it,
            `(n_all,)`.
        chosen: The parameters of which products are made.
        share_tied: The share of points, parameter by parameter, that do.
        correlations: The mean products of the normal scores of pairs, in every row,
            `(n_rows, n_pairs)`.
        features: The features.
        ranks: By part with one score, the ranks of the truths, `(n_sims,)`.
        measured: Extra arrays per simulation, computed in the same pass.
    """

    n_sims: int
    n_rows: int
    n_plays: int
    own: dict[str, str]
    moments: Mapping[str, Array]
    along: Floats
    products: MutableMapping[str, Array]
    ties: Floats
    chosen: Ints
    share_tied: float
    correlations: Floats
    features: Features
    ranks: Results
    measured: Results

    def on_host(self) -> "Sums":
        """Return the same sums as NumPy arrays."""
        return replace(
            self,
            moments=_OnHost(self.moments),
            products=_OnHost(self.products),
            **{name: arrays.host(vars(self)[name]) for name in ("along", "ties", "correlations")},
        )

    @cached_property
    def unbiased(self) -> "Sums":
        r"""The sums of truths about their own mean, so that no bias passes for another flaw.

        With the mean :math:`m_k` of the normal scores of a parameter, their mean square
        :math:`q_k`, and the mean products :math:`c_{kl}` of scores in units of its root, truths
        about their mean have the variance and the correlation

        .. math:: q_k - m_k^2, \qquad
                  \frac{c_{kl} - m_k m_l}{\sqrt{(1 - m_k^2)(1 - m_l^2)}} .

        The real labelling and the swaps are treated alike. For sums on the host.
        """
        moments = dict(self.moments)
        for name in moments.keys() & {"marginals", "maps"}:
            moments[name] = moments[name][: self.n_rows].copy()
            moments[name][:, 1] -= _widths_of_means(self, name)
        a, b = pairs(len(self.chosen)).T
        mean = moments["marginals"][:, 0, self.chosen] / np.sqrt(self.n_sims)
        rest = (1 - mean**2).clip(min=_LEAST) ** 0.5
        correlations = (self.correlations - mean[:, a] * mean[:, b]) / (rest[:, a] * rest[:, b])
        # The other products are brought from a device only if they are asked for.
        products = ChainMap({"pairs": standardise(correlations, self.n_rows)}, self.products)
        return replace(self, moments=moments, products=products, correlations=correlations)

    def with_rows(self, change: Callable[[Array], Array]) -> "Sums":
        """Return the sums with other rows of what is summed in all rows, planted ones too."""
        return replace(
            self,
            moments=_Changed(self.moments, change),
            along=change(self.along),
            ties=change(self.ties),
        )


def _part_bytes(sums: int) -> int:
    """Return how large a part of the draws is, at least, that is made into sums of some size.

    Sums of many parameters are large: then there are few parts, since each has sums of its own.
    """
    return sums * (_DATA_PER_SUM if sums < _LARGE_SUMS else _DATA_PER_LARGE_SUM)


@dataclass(frozen=True, eq=False)
class _Changed(Mapping[str, Array]):
    """Arrays that are changed when they are asked for, so that memory holds few of them."""

    arrays: Mapping[str, Array]
    change: Callable[[Array], Array]

    def __getitem__(self, name: str) -> Array:
        return self.change(self.arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


class _OnHost(UserDict[str, Array]):
    """Arrays that are brought to the host when they are asked for: some may never be."""

    def __getitem__(self, name: str) -> Array:
        self.data[name] = arrays.host(self.data[name])
        return self.data[name]


def swap(
    sims: Simulations,
    parts: Mapping[str, Part],
    features: Features,
    chosen: Ints,
    *,
    n_swaps: int,
    rng: Generator,
    plants: Plants | None = None,
    measure: Callable[[Simulations], Results] | None = None,
) -> Sums:
    """Go over the simulations once, and return every sum for every labelling, in its unit.

    Arguments:
        sims: The simulations.
        parts: What is ranked, by name; `"marginals"` must be among them.
        features: The features of the simulations.
        chosen: The parameters of which products are taken.
        n_swaps: The number of random labellings.
        rng: The generator of the labellings.
        plants: Errors to plant, if any.
        measure: Returns extra arrays per simulation, computed in the same pass.
    """
    totals, recipe = added(
        sims, parts, features, chosen,
        n_swaps=n_swaps, rng=rng, plants=plants, measure=measure,
    )  # fmt: skip
    own = {name: part.own for name, part in parts.items() if part.own is not None}
    return _in_units(totals, recipe, sims, features, own)


def added(
    sims: Simulations,
    parts: Mapping[str, Part],
    features: Features,
    chosen: Ints,
    *,
    n_swaps: int,
    rng: Generator,
    plants: Plants | None = None,
    measure: Callable[[Simulations], Results] | None = None,
) -> tuple[Totals, Recipe]:
    """Return the sums in no unit, and the recipe of them; the arguments are those of `swap`."""
    recipe = Recipe(
        components(N_LEVELS + 1 if sims.weighted else sims.n_draws + 1),
        chosen,
        n_swaps + 1,
        int(rng.integers(2**63)),
        plants,
        measure,
    )
    totals = Totals()
    for results in passes.each(
        sims,
        "swaps",
        recipe.sums,
        n_bytes=_part_bytes(recipe.n_bytes(sims.n_dims, features)),
        extra=lambda where: {
            "parts": {name: part.cut(where) for name, part in parts.items()},
            "features": features[where],
            "start": where.start,
        },
        final=True,
    ):
        totals.add(Totals.unpacked(results))
        results.clear()  # or they would still be there while the next part is computed
    return totals, recipe


def _in_units(
    totals: Totals, recipe: Recipe, sims: Simulations, features: Features, own: dict[str, str]
) -> Sums:
    """Return the sums of all simulations, each in its own unit."""
    n_rows, chosen, n_sims = recipe.n_rows, recipe.chosen, sims.n_sims
    found = dict(totals.products)
    marginals, ties = totals.moments["marginals"], found.pop("ties")
    if "maps" in totals.moments:
        # In the scatter of all cells, or a wrong width would pass for biases.
        bias, square = totals.moments["maps"][:, 0], totals.moments["maps"][:, 1]
        bias /= (square.mean(axis=1) / n_sims).clip(min=1e-6)[:, None] ** 0.5
    moments = {name: standardise(values, n_rows) for name, values in totals.moments.items()}
    for name in moments.keys() & {"values", "outliers"}:
        moments[name] *= _frequent(totals.moments[name][:n_rows, 0])
    if not sims.weighted:  # only unweighted ranks have moments that are known beforehand
        moments["marginals"] = marginals / float(np.sqrt(n_sims))
    unit = _unit(marginals, recipe.table, n_sims)
    moments["marginals"][:, 0] *= unit
    # About the mean of what errors are followed along, which is known only now.
    along = found.pop("along") - marginals[:, :2, None] * (found.pop("total_along") / n_sims)
    along[:, 0] *= unit[:, None]
    products = _in_unit(found, unit[:n_rows, chosen])
    correlations = products["pairs"] / n_sims
    return Sums(
        n_sims,
        n_rows,
        recipe.n_plays,
        own,
        moments,
        along=standardise(along, n_rows, copy=False),
        correlations=correlations,
        products={name: standardise(sums, n_rows, copy=False) for name, sums in products.items()},
        ties=standardise(ties, n_rows)[:, 0],
        chosen=chosen,
        share_tied=float(ties[:n_rows].mean()) / (n_sims * sims.n_dims),
        features=features,
        ranks=joined(totals.ranks),
        measured=joined(totals.measured),
    )


def _frequent(counts: Array) -> Array:
    """Return factors of standardised counts of truths: near 0 for what is rare.

    A single truth would be many standard deviations, in swaps too, and hide all others.
    """
    about = counts - counts.mean(axis=0)
    variance = (about * about).mean(axis=0)
    return (variance / (variance + _RARE)) ** 0.5


def _in_unit(sums: Results, unit: Array) -> Results:
    """Return sums of products of normal scores, changed to units, `(n_rows, n_chosen)`."""
    n_chosen = unit.shape[1]
    a, b = pairs(n_chosen).T
    k, m, n = triples(n_chosen).T

    def change(first: int, last: int) -> None:
        own = unit[first:last]
        some = {name: values[first:last] for name, values in sums.items()}
        both = own[:, a] * own[:, b]
        some["data"] *= own[:, :, None]
        some["data_width"] *= (own * own)[:, :, None]
        some["pairs"] *= both
        some["pairs_by_own"] *= own[:, :, None]
        some["pairs_by_own"] *= own[:, None]
        some["pairs_by_data"] *= both[:, None]
        some["triples"] *= own[:, k] * own[:, m] * own[:, n]

    on_host = arrays.namespace(unit) is np
    threads.over_ranges(change, len(unit), sum(map(np.size, sums.values())) if on_host else 0)
    return sums


def _unit(marginals: Array, table: Floats, n_sims: int) -> Array:
    r"""Return one over the root mean square of each parameter's normal scores, `(n_all, n_dims)`.

    Biases and products are measured in it, or a wrong width would pass for them. The square of a
    normal score :math:`z` has the two components :math:`z^2 = 1 + c\, h_2`, where :math:`h_2` is
    the width component of the rank and :math:`c` the mean of :math:`z^2 h_2`, so that the sums of
    :math:`h_2` are enough.
    """
    c = float((table[:, 0] ** 2 * table[:, 1]).mean())
    square = 1 + c * marginals[:, 1] / n_sims
    return square.clip(min=_LEAST) ** -0.5


def _widths_of_means(sums: Sums, name: str) -> Floats:
    """Return the widths that are due to the means of the truths alone, in standard errors."""
    moments = sums.moments[name][: sums.n_rows]
    square = moments[:, 0] ** 2 / sums.n_sims
    if name == "marginals":  # in units of the root mean square, unlike maps
        square *= (1 + np.sqrt(2 / sums.n_sims) * moments[:, 1]).clip(min=_LEAST)
    return np.sqrt(sums.n_sims / 2) * square


def needs_at_least(n_sims: int, n_draws: int) -> None:
    """Raise if there are too few simulations or draws for the swap test."""
    if n_sims < _FEWEST_SIMS or n_draws < FEWEST_DRAWS:
        raise ValueError(
            f"`check` needs at least {_FEWEST_SIMS} simulations of {FEWEST_DRAWS} draws, but got "
            f"{n_sims} of {n_draws}. Use `sbc` or `tarp`, which work with one."
        )


def fewest_swaps(level: float, n_at_level: int = 1) -> int:
    """Return the number of swaps of which `n_at_level`, the truths among them, make the level."""
    return max(ceil(min(round(n_at_level / level, 9), 10**18)) - 1, 1)


def enough_swaps(n_swaps: int, level: float) -> int:
    """Return the number of swaps, or raise if no p-value could be as small as the level."""
    n_swaps, fewest = arguments.positive("n_swaps", n_swaps, 0), fewest_swaps(level)
    if n_swaps < fewest:
        raise ValueError(
            f"`n_swaps` must be at least {fewest} at level {level:g}, but got {n_swaps}: "
            f"the p-value is never below 1 / (n_swaps + 1)."
        )
    return n_swaps

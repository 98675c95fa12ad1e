r"""The exact swap test: many scores on the same simulations, one p-value.

Under accuracy the truth is one more draw, so given the pooled points of every simulation, which
of them is the truth is uniform and independent between simulations. A *labelling* picks one
point of every simulation to play the truth; row 0 has the real ones, the other rows random
ones. Any statistic of a labelling has the same distribution in all rows, whatever the number of
simulations, draws and dimensions, the dependence between scores, the ties, the observations:

.. math:: p = \frac{1 + \#\{b : S_b \ge S_0\}}{B + 1}

All statistics here are sums over simulations of functions of pooled ranks, so that a row costs
one look-up a simulation and score, and no more than a block of ranks is ever stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

import numpy as np
from numpy.random import Generator

from .. import backends, regions
from .._base import arrays, threads
from .._base.arguments import _whole
from .._base.arrays import Results, Rows, Window, joined
from .._base.types import Array, Floats, Ints
from ..ranks import N_LEVELS
from ..regions import Region, cut
from ..simulations import Simulations, passes, shapes
from ..simulations.blocks import Block
from .statistics import MOMENTS, components, standardise

_BLOCK_BYTES = 32 * 2**20
_DATA_PER_SUM = 8  # how many times larger than its sums a part of the draws is, at least
_SUMS = ("slope", "pairs", "data", "data_width", "ties")
_MOMENTS = "moments: "
RANK = "rank: "  # names what is measured: the ranks of the truths by a part with one score


@dataclass(frozen=True)
class Part:
    """Scores that are ranked together.

    Arguments:
        region: Gives the scores.
        pooled: Whether its scores are several views of the same thing, to be averaged.
    """

    region: Region
    pooled: bool = False

    def cut(self, where: slice) -> "Part":
        return replace(self, region=cut(self.region, where))


class Plants(Protocol):
    """Points with a planted error, to see what the test would have caught."""

    @property
    def n_plays(self) -> int: ...

    @property
    def n_extra(self) -> int: ...

    def points(self, block: Block, played: Ints) -> Array:
        """Return `(n_extra, n_block, n_dims)` points made of the pooled ones `played`."""
        ...


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over simulations, one row a labelling: the real one, swaps, and planted errors.

    They are where the samples are; `on_host` brings them to the CPU.

    Arguments:
        n_sims: The number of simulations.
        n_rows: The number of rows that are the real labelling or a swap.
        n_plays: The number of rows after them in which a draw plays the truth.
        moments: By part, the four moments of the normal scores of ranks, standardised,
            `(rows, 4, n_scores)`.
        slope: Products of each parameter's normal scores with the centre of its points.
        pairs: Products of the normal scores of pairs, `(n_rows, n_chosen, n_chosen)`.
        data: Products of normal scores with features, `(n_rows, n_chosen, n_features)`.
        data_width: Products of the widths of all parameters with them, `(n_rows, n_features)`.
        ties: In how many parameters a point equals another, `(rows,)`.
        chosen: The parameters of which pairs and products with the data are made.
        share_tied: The share of points, parameter by parameter, that equal another.
        correlations: Of the normal scores of pairs: those of the truths and, on average over
            the labellings, of any point, `(2, n_chosen, n_chosen)`.
        features: The features, `(n_sims, n_features)`.
        measured: What else was to be had of every simulation, by name.
    """

    n_sims: int
    n_rows: int
    n_plays: int
    moments: dict[str, Floats]
    slope: Floats
    pairs: Floats
    data: Floats
    data_width: Floats
    ties: Floats
    chosen: Ints
    share_tied: float
    correlations: Floats
    features: Floats
    measured: Results

    def on_host(self) -> "Sums":
        """Return the same sums as NumPy arrays."""
        return replace(
            self,
            moments={name: arrays.host(sums) for name, sums in self.moments.items()},
            slope=arrays.host(self.slope),
            pairs=arrays.host(self.pairs),
            data=arrays.host(self.data),
            data_width=arrays.host(self.data_width),
            ties=arrays.host(self.ties),
            correlations=arrays.host(self.correlations),
        )


def swap(
    sims: Simulations,
    parts: Mapping[str, Part],
    features: Floats,
    *,
    n_swaps: int,
    most_chosen: int,
    rng: Generator,
    plants: "Plants | None" = None,
    beside: Callable[[Simulations], Results] | None = None,
) -> Sums:
    """Go over the simulations once, and return every sum for every labelling.

    Arguments:
        sims: The simulations.
        parts: What is ranked; `"marginals"` must be among them.
        features: Numbers of each simulation's data, `(n_sims, n_features)`.
        n_swaps: The number of random labellings.
        most_chosen: Of how many parameters, at most, products are taken.
        rng: Where labellings come from.
        plants: Errors to plant, if any.
        beside: Returns what else is to be had of some simulations, by name.
    """
    label, choose = rng.spawn(2)
    slope_of = _standard_columns(sims.centres())
    recipe = _Recipe(
        components(N_LEVELS + 1 if sims.weighted else sims.n_draws + 1),
        np.sort(choose.permutation(sims.n_dims)[:most_chosen]),
        n_swaps + 1,
        int(label.integers(2**63)),
        plants,
        beside,
    )
    adder, measured = _Adder(), []
    for found in passes.each(
        sims,
        "swaps",
        recipe.sums,
        n_bytes=_DATA_PER_SUM * recipe.n_bytes(sims.n_dims, features.shape[1]),
        extra=lambda where: {
            "parts": {name: part.cut(where) for name, part in parts.items()},
            "slope_of": Window(slope_of[where], where.start),
            "features": Window(features[where], where.start),
        },
        final=True,
    ):
        measured.append({k: v for k, v in found.items() if k not in adder.names(found)})
        adder.add(found)
    return adder.finish(sims, recipe, features, joined(measured))


@dataclass(frozen=True, eq=False)
class _Recipe:
    """How the sums of some simulations are made, wherever that is done."""

    table: Floats
    chosen: Ints
    n_rows: int
    seed: int
    plants: Plants | None
    beside: Callable[[Simulations], Results] | None

    @property
    def n_plays(self) -> int:
        """The number of labellings in which a draw plays the truth, to plant errors."""
        return self.plants.n_plays if self.plants else 0

    @property
    def n_all(self) -> int:
        """The number of labellings, those with planted errors too."""
        return self.n_rows + self.n_plays + (self.plants.n_extra if self.plants else 0)

    def n_bytes(self, n_dims: int, n_features: int) -> int:
        """Return about how large the sums are."""
        products = len(self.chosen) * (len(self.chosen) + n_features) + n_features
        return 4 * (self.n_all * (4 * (2 * n_dims + 3) + n_dims + 1) + self.n_rows * products)

    def sums(
        self, sims: Simulations, *, parts: Mapping[str, Part], slope_of: Rows, features: Rows
    ) -> Results:
        """Return the sums of some simulations, and what else is to be had of each of them."""
        adder, measured = _Adder(), []
        with threads.one_thread_each():
            for piece in passes.pieces(sims):
                ranks = joined(
                    self._add(adder, block, parts, slope_of[block.where], features[block.where])
                    for block in piece.blocks(_BLOCK_BYTES)
                )
                measured.append(ranks | (self.beside(piece) if self.beside else {}))
        return adder.sums | joined(measured)

    def _add(
        self,
        adder: "_Adder",
        block: Block,
        parts: Mapping[str, Part],
        slope_of: Floats,
        features: Floats,
    ) -> Results:
        """Add the sums of a block, and return the ranks of its truths, by part with one score."""
        # Random numbers hang on the block, never on who computes it or when.
        hide, label, spread = np.random.default_rng([self.seed, block.where.start]).spawn(3)
        block = block.hidden(hide)
        swaps = block.labels(self.n_rows - 1, label)
        block, slots, played = _planted(block, self.plants, label)
        slots = np.concatenate([block.truth[None], swaps, slots])
        slots, table, slope_of, features = (
            arrays.to_device_of(numbers, block.points)
            for numbers in (slots, self.table, slope_of, features)
        )
        truths = {}
        for name, part in parts.items():
            ranks, tied = _ranks(part.region, block, played, len(self.table))
            adder.add_part(name, part.pooled, ranks, slots, table)
            if ranks.shape[2] == 1:
                every = arrays.to_device_of(np.arange(len(ranks)), ranks)
                own = arrays.host(ranks[every, slots[0], 0])
                truths[RANK + name] = _spread(own, block, len(self.table), spread)
            if name == "marginals":
                scores = table[:, 0][ranks]
                adder.add_slope(scores * slope_of[:, None], tied, slots)
                width = table[:, 1][ranks].sum(axis=2)
                some = scores[..., self.chosen]
                adder.add_products(some, width, slots[: self.n_rows], features)
        return truths


def _spread(ranks: Ints, block: Block, n_levels: int, rng: Generator) -> Ints:
    """Return the ranks of truths, those of weighted ones at random over their own weight."""
    if not block.weighted:
        return ranks
    own = block.weights[block.truth, np.arange(len(ranks))] / block.weights.sum(axis=0)
    levels = ranks + 0.5 + n_levels * own * rng.uniform(-0.5, 0.5, size=len(ranks))
    return np.clip(levels.astype(np.int64), 0, n_levels - 1)


def _planted(block: Block, plants: Plants | None, label: Generator) -> tuple[Block, Ints, Ints]:
    """Return the block with planted points, which points play the truth, and for which."""
    n_block = len(block.truth)
    if plants is None:
        nothing = np.empty((0, n_block), dtype=np.int64)
        return block, nothing, nothing
    plays = block.labels(plants.n_plays, label)
    played = np.tile(plays, (plants.n_extra // plants.n_plays, 1))
    extra = np.broadcast_to(block.n_points + np.arange(plants.n_extra)[:, None], played.shape)
    planted = block.extended(plants.points(block, played), played)
    return planted, np.concatenate([plays, extra]), played


def _ranks(region: Region, block: Block, played: Ints, n_levels: int) -> tuple[Array, Array]:
    """Return pooled ranks `(n_block, n_all, n_scores)` of a region, and how often points tie."""
    scores = arrays.to_device_of(
        shapes.where_it_is("scores", region.scores(block), 1), block.points
    )
    n_all = len(block.points)
    if scores.shape[:1] == (block.n_points,) and block.n_points < n_all:
        # Numbers that came with the draws are not known of planted points: nothing is planted.
        extra = scores[played, np.arange(scores.shape[1])]
        scores = arrays.namespace(scores).concatenate([scores, extra])
    scores = arrays.to_device_of(regions.scores(scores, (n_all, len(block.truth))), block.points)
    scores = scores[..., None] if scores.ndim == 2 else scores
    by_sim = scores.swapaxes(0, 1)
    if block.weighted:
        on_host = arrays.host(by_sim)
        by_weight = backends.swaps(on_host).weighted_ranks
        found = by_weight(on_host, block.weights.T, played.T, n_levels)
        ranks, tied = (arrays.to_device_of(numbers.astype(np.int64), scores) for numbers in found)
        return ranks, tied
    rank = backends.swaps(scores).pooled_ranks
    return rank(by_sim, block.n_points, arrays.to_device_of(played.T, scores))


def _standard_columns(numbers: Floats) -> Floats:
    sd = numbers.std(axis=0)
    return ((numbers - numbers.mean(axis=0)) / np.where(sd > 0, sd, 1.0)).astype(np.float32)


class _Adder:
    """The sums while they grow, by name: a block of simulations, or a part of them, at a time."""

    def __init__(self) -> None:
        self.sums: Results = {}

    @staticmethod
    def names(found: Results) -> list[str]:
        """Return the names of what is a sum, in their order."""
        return [name for name in found if name in _SUMS or name.startswith(_MOMENTS)]

    def add(self, found: Results) -> None:
        """Add the sums of other simulations."""
        for name in self.names(found):
            if name in self.sums:
                # What comes from a folder is on the host, wherever the samples are.
                self.sums[name] += arrays.to_device_of(found[name], self.sums[name])
            else:
                self.sums[name] = found[name]

    def of(self, name: str, near: Array, *shape: int) -> Array:
        """Return the sums of a name, where there are none yet zeros beside an array."""
        if name not in self.sums:
            self.sums[name] = arrays.zeros(shape, near)
        return self.sums[name]

    def add_part(self, name: str, pooled: bool, ranks: Array, slots: Array, table: Floats) -> None:
        """Add the moments of the ranks by one region, of all its scores together if `pooled`."""
        n_scores = 1 if pooled else ranks.shape[2]
        sums = self.of(_MOMENTS + name, table, len(slots), len(MOMENTS), n_scores)
        heavy = backends.swaps(ranks)
        if pooled:
            heavy.add_values(table[ranks].mean(axis=2), slots, sums[..., 0])
        else:
            heavy.add_moments(ranks, slots, table, sums)

    def add_slope(self, values: Array, tied: Array, slots: Array) -> None:
        """Add scores times posterior means, and in how many scores a point is tied."""
        heavy = backends.swaps(values)
        heavy.add_values(values, slots, self.of("slope", values, len(slots), values.shape[2]))
        ties = arrays.single(tied[..., None])
        heavy.add_values(ties, slots, self.of("ties", values, len(slots), 1))

    def add_products(self, scores: Array, width: Array, slots: Array, features: Floats) -> None:
        """Add products of scores with each other and with features of the data."""
        n_rows, n_chosen, n_features = len(slots), scores.shape[2], features.shape[1]
        pairs = self.of("pairs", scores, n_rows, n_chosen, n_chosen)
        data = self.of("data", scores, n_rows, n_chosen, n_features)
        backends.swaps(scores).add_products(scores, slots, features, pairs, data)
        data_width = self.of("data_width", scores, n_rows, n_features)
        every = arrays.to_device_of(np.arange(len(width)), width)
        data_width += width[every, slots] @ features

    def finish(
        self, sims: Simulations, recipe: _Recipe, features: Floats, measured: Results
    ) -> Sums:
        """Return the sums of all simulations, each in its own unit."""
        sums, n_rows, chosen, table = self.sums, recipe.n_rows, recipe.chosen, recipe.table
        share_tied = float(sums["ties"][:n_rows].mean()) / (sims.n_sims * sims.n_dims)
        root = float(np.sqrt(sims.n_sims))
        # The sum of a parameter's squared normal scores, over what it is expected to be. Its
        # bias and its products are measured in that, or a wrong width would pass for them.
        second = float((table[:, 0] ** 2 * table[:, 1]).mean())
        marginals = sums[_MOMENTS + "marginals"]
        energy = 1 + second * marginals[:, 1] / root**2
        gauge = energy.clip(min=1e-3) ** -0.5
        moments = {
            name.removeprefix(_MOMENTS): standardise(values, n_rows)
            for name, values in sums.items()
            if name.startswith(_MOMENTS)
        }
        # Weighted ranks have no moments that are known beforehand.
        known = standardise(marginals, n_rows) if sims.weighted else marginals / root
        moments["marginals"] = known
        moments["marginals"][:, 0] *= gauge
        some = gauge[:n_rows, chosen]
        pairs = sums["pairs"] * some[:, :, None] * some[:, None]
        every = arrays.namespace(pairs).stack([pairs[0], pairs.mean(axis=0)])
        return Sums(
            sims.n_sims,
            n_rows,
            recipe.n_plays,
            moments,
            slope=standardise(sums["slope"], n_rows),
            pairs=standardise(pairs, n_rows),
            data=standardise(sums["data"] * some[:, :, None], n_rows),
            data_width=standardise(sums["data_width"], n_rows),
            ties=standardise(sums["ties"], n_rows)[:, 0],
            chosen=chosen,
            share_tied=share_tied,
            correlations=every / sims.n_sims,
            features=features,
            measured=measured,
        )


_FEWEST_SIMS, FEWEST_DRAWS = 2, 5


def needs_at_least(n_sims: int, n_draws: int) -> None:
    """Raise if there are too few simulations or draws for the swap test."""
    if n_sims < _FEWEST_SIMS or n_draws < FEWEST_DRAWS:
        raise ValueError(
            f"`check` needs at least {_FEWEST_SIMS} simulations of {FEWEST_DRAWS} draws, but got "
            f"{n_sims} of {n_draws}. Use `sbc` or `tarp`, which work with one."
        )


def enough_swaps(n_swaps: int, level: float) -> int:
    """Return the number of swaps, with which a p-value of the level must be possible."""
    n_swaps, fewest = _whole("n_swaps", n_swaps), max(ceil(round(1 / level, 9)) - 1, 1)
    if n_swaps < fewest:
        raise ValueError(
            f"`n_swaps` must be at least {fewest} at level {level:g}, but got {n_swaps}: "
            f"the p-value is never below 1 / (n_swaps + 1)."
        )
    return n_swaps

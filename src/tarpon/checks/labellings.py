"""Labellings of a block: its ranks, and what they add to the sums of every labelling.

A row is a labelling, a slot the point that plays the truth in it. Every sum is a look-up in a
table of pooled ranks, so that no more than a block of ranks is ever stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from numpy.random import Generator

from .. import backends, regions
from .._base import arguments, arrays, threads
from .._base.arrays import Results, joined
from .._base.types import Array, Floats, Ints
from ..regions import Region, cut
from ..simulations import Simulations, lattices, passes, shapes
from ..simulations.blocks import Block
from . import products, waves
from .features import Features, n_features
from .products import Sizes
from .statistics import MOMENTS, polynomials

N_WAYS = 3  # the posterior mean, what the data say beyond it, and the posterior's own width
MOST_CHOSEN = 128  # parameters of which pairs, and products with the data, are made
_BLOCK_BYTES = 32 * 2**20
_FEWEST_TOGETHER = 128  # simulations whose products are added at once


@dataclass(frozen=True)
class Part:
    """Scores that are ranked together.

    Arguments:
        region: Gives the scores.
        pooled: Whether its scores are several views of the same thing, to be averaged.
        own: The user's name for it, if it is a score of the user's own.
        ranked: Whether scores are ranked, or added as they are.
    """

    region: Region
    pooled: bool = False
    own: str | None = None
    ranked: bool = True

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


def sums_bytes(n_rows: int, n_all: int, n_dims: int, sizes: Sizes) -> int:
    """Return about how large the sums of labellings are, of which `n_rows` have products."""
    n_products = sum(prod(shape) for shape in sizes.shapes().values())
    return 4 * (n_all * (4 * (2 * n_dims + 4) + 2 * N_WAYS * n_dims + 1) + n_rows * n_products)


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything that the sums of some simulations depend on, besides the simulations.

    Arguments:
        table: The moments of every rank, `(n_ranks, 4)`.
        chosen: The parameters of which products are taken.
        n_rows: The number of labellings that are the real one or a swap.
        seed: The seed of the labellings.
        plants: Errors to plant, if any.
        measure: Returns extra arrays per simulation, computed in the same pass.
    """

    table: Floats
    chosen: Ints
    n_rows: int
    seed: int
    plants: Plants | None
    measure: Callable[[Simulations], Results] | None

    @property
    def n_plays(self) -> int:
        """The number of labellings in which a draw plays the truth, to plant errors."""
        return self.plants.n_plays if self.plants else 0

    @property
    def n_all(self) -> int:
        """The number of labellings, those with planted errors too."""
        return self.n_rows + self.n_plays + (self.plants.n_extra if self.plants else 0)

    @cached_property
    def polynomials(self) -> Floats:
        """The moments as polynomials of the normal score of a rank, `(4, 5)`."""
        return polynomials(self.table)

    @property
    def width(self) -> tuple[float, float]:
        """The numbers that make the width of a rank, of the square of its score and of one."""
        return float(self.polynomials[1, 2]), float(self.polynomials[1, 0])

    def n_bytes(self, n_dims: int, features: Features) -> int:
        """Return about how large the sums are."""
        return sums_bytes(self.n_rows, self.n_all, n_dims, Sizes.of(len(self.chosen), features))

    def sums(
        self, sims: Simulations, *, parts: Mapping[str, Part], features: Features, start: int
    ) -> Results:
        """Return the sums of some simulations and the arrays per simulation, packed."""
        totals = Totals()
        with threads.one_thread_each():
            for piece in passes.pieces(sims):
                for block in piece.blocks(_BLOCK_BYTES):
                    here = slice(block.where.start - start, block.where.stop - start)
                    self._add(totals, block, parts, features[here])
                totals.measured.append(self.measure(piece) if self.measure else {})
            totals.add_waiting(self.chosen, self.width)
        return totals.packed()

    def _add(
        self, totals: "Totals", block: Block, parts: Mapping[str, Part], features: Features
    ) -> None:
        """Add the sums of a block, and the ranks of its truths by parts with one score."""
        # Random numbers depend on the block only, never on who computes it or when.
        hide, label, spread = np.random.default_rng([self.seed, block.where.start]).spawn(3)
        block = block.hidden(hide)
        swaps = block.labels(self.n_rows - 1, label)
        block, plays, played = _planted(block, self.plants, label)
        slots = np.concatenate([block.truth[None], swaps, plays])
        slots, table, moments = (
            arrays.to_device_of(numbers, block.points)
            for numbers in (slots, self.table[:, 0], self.polynomials)
        )
        truths = {}
        for name, part in parts.items():
            if not part.ranked:
                totals.add_scores(name, part.region.scores(block), slots)
                continue
            scores, tied = _normal_scores(part.region, block, played, table)
            totals.add_part(name, part.pooled, scores, slots, moments)
            if scores.shape[2] == 1:
                numbers = arrays.host(scores[:, : block.n_points, 0])
                truths[name] = _ranks(numbers, block, self.table[:, 0], spread)
            if name == "marginals":
                real = _without_repeats(tied, block, played)
                totals.add_along(scores, real, slots, moments, _along(block, features))
                chosen = (
                    scores if len(self.chosen) == scores.shape[2] else scores[..., self.chosen]
                )
                totals.waiting.append((chosen, slots[: self.n_rows], features))
        if sum(len(scores) for scores, _, _ in totals.waiting) >= _FEWEST_TOGETHER:
            totals.add_waiting(self.chosen, self.width)
        totals.ranks.append(truths)


def _along(block: Block, features: Features) -> Floats:
    """Return what the errors of a parameter may depend on, `(n_block, N_WAYS, n_dims)`."""
    means, guides = (
        arrays.to_device_of(numbers, block.points) for numbers in (features.means, features.guides)
    )
    xp = arrays.namespace(means)
    return xp.stack([means, guides, arrays.single(xp.log(block.spread))], axis=1)


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over simulations while they grow, and the arrays per simulation so far.

    Arguments:
        moments: By part, the sums of the moments of ranks.
        products: The other sums: `along`, `total_along`, `ties`, and those of products.
        ranks: The ranks of the truths by part, one entry per group of simulations.
        measured: The extra arrays by name, one entry per group of simulations.
        waiting: Scores, slots and features of blocks whose products are still to be added.
    """

    moments: Results = field(default_factory=dict)
    products: Results = field(default_factory=dict)
    ranks: list[Results] = field(default_factory=list)
    measured: list[Results] = field(default_factory=list)
    waiting: list[tuple[Array, Array, Features]] = field(default_factory=list)

    def packed(self) -> Results:
        """Return all arrays by field and name, since engines keep arrays by one name."""
        rows = {"ranks": joined(self.ranks), "measured": joined(self.measured)}
        groups = {"moments": self.moments, "products": self.products} | rows
        return {f"{g}/{name}": values for g in groups for name, values in groups[g].items()}

    def joined_measured(self) -> Results:
        """Return the extra arrays of all simulations so far."""
        return joined(self.measured)

    @classmethod
    def unpacked(cls, results: Results) -> "Totals":
        """Return the totals that were packed."""
        groups: dict[str, Results] = {"moments": {}, "products": {}, "ranks": {}, "measured": {}}
        for key, values in results.items():
            group, _, name = key.partition("/")
            groups[group][name] = values
        moments, products, ranks, measured = groups.values()
        return cls(moments, products, [ranks], [measured])

    def add(self, other: "Totals") -> None:
        """Add the sums of other simulations, and append their arrays."""
        for sums, others in ((self.moments, other.moments), (self.products, other.products)):
            for name, values in others.items():
                if name in sums:
                    # What comes from a folder is on the host, wherever the samples are.
                    sums[name] += arrays.to_device_of(values, sums[name])
                else:
                    sums[name] = values
        self.ranks.extend(other.ranks)
        self.measured.extend(other.measured)

    def add_part(
        self, name: str, pooled: bool, scores: Array, slots: Array, moments: Floats
    ) -> None:
        """Add the moments of normal scores by one region, of all together if `pooled`."""
        n_scores = 1 if pooled else scores.shape[2]
        sums = _zeros_unless(self.moments, name, scores, len(slots), len(MOMENTS), n_scores)
        kernels = backends.swaps(scores)
        if pooled:
            kernels.add_values(kernels.mean_moments(scores, moments), slots, sums[..., 0])
        else:
            kernels.add_moments(scores, slots, moments, sums)

    def add_scores(self, name: str, scores: Array, slots: Array) -> None:
        """Add two scores of each indicator as they are, `(n_all, n_block, 2 * n_indicators)`."""
        by_sim = scores.swapaxes(0, 1)
        n_indicators = by_sim.shape[2] // 2
        sums = _zeros_unless(self.moments, name, by_sim, len(slots), 2, n_indicators)
        both = sums.reshape(len(slots), by_sim.shape[2])
        backends.swaps(by_sim).add_values(by_sim, slots, both)

    def add_along(
        self, scores: Array, tied: Array, slots: Array, moments: Floats, along: Floats
    ) -> None:
        """Add the moments of normal scores times numbers of their simulations; count ties."""
        kernels, n_all, n_dims = backends.swaps(scores), len(slots), scores.shape[2]
        sums = _zeros_unless(self.products, "along", scores, n_all, 2, N_WAYS, n_dims)
        kernels.add_along(scores, slots, moments, along, sums)
        total = _zeros_unless(self.products, "total_along", scores, N_WAYS, n_dims)
        total += along.sum(axis=0)
        ties = _zeros_unless(self.products, "ties", scores, n_all, 1)
        kernels.add_values(arrays.single(tied[..., None]), slots, ties)

    def add_waiting(self, chosen: Ints, width: tuple[float, float]) -> None:
        """Add the products of the blocks that wait, with each other and with features.

        Blocks of few simulations wait for more, since all sums are read and written each time.
        """
        if not self.waiting:
            return
        each, slots, features = zip(*self.waiting, strict=True)
        self.waiting.clear()
        xp, shapes = arrays.namespace(each[0]), Sizes.of(len(chosen), features[0]).shapes()
        scores = each[0] if len(each) == 1 else xp.concatenate(each)
        sums = {
            name: _zeros_unless(self.products, name, scores, len(slots[0]), *shape)
            for name, shape in shapes.items()
        }
        together = Features.joined(features)
        every = xp.concatenate(slots, axis=1)
        products.add(sums, scores, every, together, chosen, width)
        waves.add(sums, scores, every)


def _zeros_unless(sums: Results, name: str, near: Array, *shape: int) -> Array:
    """Return the sums of a name; where there are none yet, zeros beside an array."""
    if name not in sums:
        sums[name] = arrays.zeros(shape, near)
    return sums[name]


def _ranks(numbers: Floats, block: Block, table: Floats, rng: Generator) -> Ints:
    """Return the ranks of truths, at random among points with equal scores.

    Weighted ones are at random levels within the weight of these points.

    Arguments:
        numbers: The normal scores of all points, `(n_block, n_points)`.
        block: The block.
        table: The normal score of each rank.
        rng: Generator for what is at random.
    """
    every = np.arange(len(numbers))
    own = numbers[every, block.truth]
    middle, same = np.searchsorted(table, own), numbers == own[:, None]
    if not block.weighted:
        n_same = same.sum(axis=1)
        return middle - n_same // 2 + rng.integers(n_same)
    share = (same * block.weights.T).sum(axis=1) / block.weights.sum(axis=0)
    levels = middle + 0.5 + len(table) * share * rng.uniform(-0.5, 0.5, size=len(own))
    return np.clip(levels.astype(np.int64), 0, len(table) - 1)


def _planted(block: Block, plants: Plants | None, label: Generator) -> tuple[Block, Ints, Ints]:
    """Return the block with planted points, those that play the truth, and those replaced."""
    n_block = len(block.truth)
    if plants is None:
        nothing = np.empty((0, n_block), dtype=np.int64)
        return block, nothing, nothing
    plays = block.labels(plants.n_plays, label)
    played = np.tile(plays, (plants.n_extra // plants.n_plays, 1))
    extra = np.broadcast_to(block.n_points + np.arange(plants.n_extra)[:, None], played.shape)
    planted = block.extended(plants.points(block, played), played)
    return planted, np.concatenate([plays, extra]), played


def _normal_scores(
    region: Region, block: Block, played: Ints, table: Floats
) -> tuple[Array, Array]:
    """Return normal scores `(n_block, n_all, n_scores)` by a region, and how often points tie.

    They stand for the pooled ranks of the points, one by one in the `table`.
    """
    scores = shapes.where_it_is("scores", region.scores(block), 1)
    n_all = len(block.points)
    if scores.shape[:1] == (block.n_points,) and block.n_points < n_all:
        # Scores that came with the draws are unknown for planted points: nothing is planted.
        extra = scores[played, np.arange(scores.shape[1])]
        scores = arrays.namespace(scores).concatenate([scores, extra])
    scores = arrays.to_device_of(regions.scores(scores, (n_all, len(block.truth))), block.points)
    scores = scores[..., None] if scores.ndim == 2 else scores
    by_sim = scores.swapaxes(0, 1)
    if block.weighted:
        by_sim, table = arrays.host(by_sim), arrays.host(table)
        by_weight = backends.swaps(by_sim).weighted_scores
        found, tied = by_weight(by_sim, block.weights.T, played.T, table)
        return arrays.to_device_of(found, scores), arrays.to_device_of(tied, scores)
    rank = backends.swaps(scores).pooled_scores
    return rank(by_sim, block.n_points, arrays.to_device_of(played.T, scores), table)


def _without_repeats(tied: Array, block: Block, played: Ints) -> Array:
    """Return in how many discrete parameters points equal others that are no copies of them.

    Points that repeat as a whole are rejected MCMC steps or were resampled, and say nothing about
    the posterior. `lattices.discrete` says how they are told from rounded ones.

    Arguments:
        tied: In how many parameters each point equals another, `(n_block, n_all)`.
        block: The block.
        played: The pooled points that the extra ones stand for, `(n_extra, n_block)`.
    """
    n_tied = arrays.host(tied)[:, : block.n_points]
    sims = np.flatnonzero(n_tied.any(axis=1))
    if not len(sims):
        return tied
    pooled = arrays.host(block.pooled[:, sims])
    there = block.weights[:, sims] > 0 if block.weighted else None
    on_grid = lattices.discrete(pooled, there)
    if on_grid.all():
        return tied
    real, some = np.zeros_like(n_tied), on_grid.any(axis=1)
    known = None if there is None else there[:, some]
    real[sims[some]] = lattices.n_discrete_ties(pooled[:, some], on_grid[some], known).T
    extra = np.take_along_axis(real, played.T, axis=1)
    return arrays.to_device_of(np.concatenate([real, extra], axis=1), tied)


def most_sums(n_dims: int, x: Array | None = None) -> Sizes:
    """Return the largest numbers of sums for so many parameters, and observations if any."""
    n_chosen = min(n_dims, MOST_CHOSEN)
    n_plain, n_products, n_waves = n_features(n_dims if x is None else prod(x.shape[1:]), n_chosen)
    n_leading = min(n_plain, products.most_leading(n_chosen))
    return Sizes(n_chosen, n_plain + n_products + n_waves, n_plain, n_leading)


def affordable_swaps(n_swaps: int, sims: Simulations, n_dims: int) -> None:
    """Raise if the sums and labels of so many swaps of parameters do not fit into memory."""
    sums = sums_bytes(n_swaps, n_swaps, n_dims, most_sums(n_dims, sims.x))
    labels = min(sims.n_sims, passes.step(sims, _BLOCK_BYTES))
    # Measured: sums are there three times, labels more than twice, and statistics of families.
    arguments.affordable(
        3.0 * sums + n_swaps * (20.0 * labels + 600.0),
        f"`n_swaps` = {n_swaps}",
        "The smallest p-value is 1 / (n_swaps + 1), so 9999 are enough for most levels: ask for "
        "fewer.",
    )

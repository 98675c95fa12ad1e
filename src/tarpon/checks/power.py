"""Power: the smallest errors that a study would have caught, found by planting them.

In the user's own simulations a draw plays the truth, and the other draws are shifted, or
narrowed about their centre. How far that moves the sums of the swap test is measured, and the
swaps themselves supply the noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.arrays import double, host, in_order, kind, namespace, single, to_device_of
from .._base.types import Array, Floats, Ints
from ..simulations import lattices
from ..simulations.blocks import Block
from . import outliers
from .families import moment_families, weights
from .statistics import row_p_values, totals
from .swaps import Sums

BIASES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
NARROWINGS = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)  # logarithms of a factor
CAUGHT = 0.9
# What a study must be able to see before a pass means anything; with fewer simulations not even
# normal posteriors allow for that. Sharp edges only seem to: shifts across them are seen at once.
TELLING_BIAS, TELLING_WIDTH, FEWEST_TELLING = 0.5, 0.3, 50
_N_PLAYS = 3
_N_NOISE = 100  # swaps that are moved, or fewer where there are many parameters:
_MOST_MOVED = 8_000  # their number times that of the parameters is at most this
_N_SIZES = 14
_SMALLEST, _N_SIZES_PLANNED = 1e-3, 40  # of the largest; sizes between which power is known
_FEW = 64  # points that show whether a parameter is discrete
_SHARED = 0.05  # the share of them, at least, that equal another if it is


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of several sizes: a bias in one parameter, or a wrong width of all.

    Arguments:
        shifted: The parameter that is shifted in each of the plays.
        outlying: Whether points may be outliers, which sd leave out.
    """

    shifted: Ints
    outlying: bool = False
    n_plays: int = _N_PLAYS
    n_extra: int = _N_PLAYS * (len(BIASES) + len(NARROWINGS))

    @classmethod
    def of(cls, n_dims: int, rng: Generator, *, outlying: bool = False) -> "Errors":
        """Return errors in which any of the parameters may be the one that is shifted."""
        return cls(rng.integers(n_dims, size=cls.n_plays), outlying)

    def points(self, block: Block, played: Ints) -> Array:
        """Return the played draws as they look when all others are shifted or narrowed."""
        xp, pooled = namespace(block.pooled), block.pooled
        truths = double(pooled[played, np.arange(played.shape[1])])
        n_biased = self.n_plays * len(BIASES)
        biased, narrow = truths[:n_biased], truths[n_biased:]
        sizes = to_device_of(np.repeat(BIASES, self.n_plays), truths)
        at = np.tile(self.shifted, len(BIASES))
        every = np.arange(len(biased))
        spread = outliers.spread(block) if self.outlying else block.spread
        biased[every, :, at] -= sizes[:, None] * spread[:, at].T
        factors = to_device_of(np.exp(np.repeat(NARROWINGS, self.n_plays)), truths)[:, None, None]
        narrow[...] = block.centre + factors * (narrow - block.centre)
        for sim, dim in zip(*np.nonzero(_discrete(pooled)), strict=True):
            luck = np.random.default_rng([block.where.start + sim, dim]).random(self.n_plays)
            truths[:, sim, dim] = _among(pooled[:, sim, dim], truths[:, sim, dim], luck)
        return xp.asarray(truths, dtype=pooled.dtype) if kind(pooled) == "f" else truths


def _discrete(pooled: Array) -> Array:
    """Return whether parameters take few values, for each simulation, `(n_block, n_dims)`."""
    ordered = in_order(pooled[:_FEW])
    shared = host((ordered[1:] == ordered[:-1]).sum(axis=0)) > _SHARED * (len(ordered) - 1)
    sims = np.flatnonzero(shared.any(axis=1))
    shared[sims] &= lattices.discrete(pooled[:_FEW, sims])
    return shared


def _among(values: Array, moved: Array, luck: Floats) -> Array:
    """Return moved points, each at one of the two values around it, right on average.

    Between the values of a discrete parameter they would stand out from all others.
    """
    known, points = np.unique(host(values)).astype(float), host(moved)
    above = np.searchsorted(known, points).clip(max=len(known) - 1)
    low, high = known[(above - 1).clip(min=0)], known[above]
    fraction = (points - low) / np.where(high > low, high - low, 1.0)
    return to_device_of(np.where(fraction > np.resize(luck, len(fraction)), high, low), moved)


@dataclass(frozen=True)
class Detectable:
    """The smallest errors that the study would have caught with 90 % probability.

    They are the same for all observations: errors that only some share have to be larger.

    Arguments:
        bias: The bias of one parameter, in posterior sd; infinite if no size is caught, and 0.05
            for that or less, the smallest size that is tried.
        width: The fraction by which all parameters are too narrow; infinite if no size is caught,
            and 0.025 for that or less.
    """

    bias: float
    width: float

    def telling(self, n_sims: int) -> bool:
        """Return whether a pass of so many simulations means anything."""
        seen = self.bias <= TELLING_BIAS and self.width <= TELLING_WIDTH
        return seen and n_sims >= FEWEST_TELLING

    def n_needed(self, n_sims: int) -> int:
        """Return about how many simulations make a pass mean something, given so many now.

        The size of what is caught falls with the root of their number. Where no size is caught,
        the largest that was tried gives the least number.
        """
        narrowing = min(-np.log1p(-min(self.width, 0.99)), NARROWINGS[-1])
        times = max(
            min(self.bias, BIASES[-1]) / TELLING_BIAS, narrowing / -np.log1p(-TELLING_WIDTH)
        )
        needed = max(n_sims * times**2, FEWEST_TELLING)
        step = 10 ** max(int(np.log10(needed)) - 1, 0)
        return int(step * np.ceil(round(needed / step, 6)))

    def __str__(self) -> str:
        from . import words

        return words.caught(self)


def detectable(sums: Sums, by_product: Mapping[str, Floats], level: float) -> Detectable:
    """Return the smallest planted errors that the test catches.

    Arguments:
        sums: The sums of a study.
        by_product: The statistics of families that are made of products.
        level: The level of the test.
    """
    bias, log_factor = (
        _smallest(sums, by_product, planted, level) for planted in (SHIFTED, NARROWED)
    )
    return Detectable(bias, np.inf if np.isinf(log_factor) else -np.expm1(-log_factor))


@dataclass(frozen=True)
class Planted:
    """Errors of one kind among those that were planted.

    Arguments:
        sizes: Their sizes, ascending.
        n_before: The number of other errors that were planted before them.
    """

    sizes: tuple[float, ...]
    n_before: int = 0

    def effects(self, values: Floats, n_rows: int, n_plays: int) -> Floats:
        """Return how far each error moves the sums of each play, `(n_sizes, n_plays, ...)`."""
        plays, errors = values[n_rows:][:n_plays], values[n_rows + n_plays :]
        these = errors[self.n_before * n_plays :][: len(self.sizes) * n_plays]
        return double(these.reshape(len(self.sizes), *plays.shape) - plays)


SHIFTED, NARROWED = Planted(BIASES), Planted(NARROWINGS, n_before=len(BIASES))


def by_size(
    sums: Sums, by_product: Mapping[str, Floats], planted: Planted, level: float, growth: float
) -> tuple[Floats, Floats]:
    """Return sizes of an error, ascending, and how often each is caught: never less often.

    Arguments:
        sums: The sums of a study.
        by_product: The statistics of families that are made of products.
        planted: The kind of error.
        level: The level of the test.
        growth: The number of simulations over that of the study.
    """
    sizes = np.geomspace(_SMALLEST * planted.sizes[-1], planted.sizes[-1], _N_SIZES_PLANNED)
    powers = _powers(sums, by_product, planted, sizes, level, growth)
    return sizes, np.maximum.accumulate(powers)


def _powers(
    sums: Sums,
    by_product: Mapping[str, Floats],
    planted: Planted,
    sizes: Floats,
    level: float,
    growth: float = 1.0,
) -> Floats:
    """Return how often errors of given sizes are caught, from the effects of planted ones."""
    n_rows, move = sums.n_rows, _Move.by(sums, planted, sizes, growth)
    moved = moment_families(sums.with_rows(move))
    # Products hardly move, and moving them would cost more than all the rest.
    unmoved = {name: values[move.origins()] for name, values in by_product.items()}
    p_values = row_p_values(np.column_stack([*moved.values(), *unmoved.values()]), n_rows)
    total = totals(p_values, weights([*moved, *unmoved]))
    above = n_rows - 1 - np.searchsorted(np.sort(total[1:n_rows]), total[n_rows:])
    return ((1 + above) / n_rows <= level).reshape(len(sizes), -1).mean(axis=1)


@dataclass(frozen=True, eq=False)
class _Move:
    r"""Moves swaps as errors of some sizes would have moved them.

    A sum :math:`S_b` of a swap becomes, for an error of size :math:`s` in play :math:`j`,

    .. math:: S_b + \sqrt{g} \sum_p w_p(s)\, E_{pj}

    with the effects :math:`E` of the planted errors, weights :math:`w` that interpolate between
    their sizes, and :math:`g` times the simulations: sums, and so effects, grow with its root.

    Arguments:
        sums: The sums of a study, planted errors among them.
        planted: The errors whose effects are known.
        weights: The factors of the effects, `(n_sizes, n_planted)`.
        swaps: The rows that are moved.
    """

    sums: Sums
    planted: Planted
    weights: Floats
    swaps: slice

    @classmethod
    def by(cls, sums: Sums, planted: Planted, sizes: Floats, growth: float) -> "_Move":
        """Return the move by errors of these sizes in `growth` times the simulations."""
        known = (0.0, *planted.sizes)
        weights = np.array([np.interp(sizes, known, one_hot) for one_hot in np.eye(len(known))])
        affordable = max(3, _MOST_MOVED // sums.along.shape[3])
        swaps = slice(1, 1 + min(_N_NOISE, affordable, sums.n_rows - 1))
        return cls(sums, planted, np.sqrt(growth) * weights[1:].T, swaps)

    def __call__(self, values: Floats) -> Floats:
        """Return the first rows, and then swaps moved by every error and play."""
        effects = self.planted.effects(values, self.sums.n_rows, self.sums.n_plays)
        effect = to_device_of(self.weights, values) @ effects.reshape(len(effects), -1)
        effect = effect.reshape(len(self.weights), 1, *effects.shape[1:])
        moved = values[self.swaps][:, None] + single(effect)
        rows = [values[: self.sums.n_rows], moved.reshape(-1, *values.shape[1:])]
        return namespace(values).concatenate(rows)

    def origins(self) -> Ints:
        """Return the row that each of the returned rows was before it was moved."""
        first = np.arange(self.sums.n_rows)
        moved = np.repeat(first[self.swaps], self.sums.n_plays)
        return np.concatenate([first, np.tile(moved, len(self.weights))])


def _smallest(
    sums: Sums, by_product: Mapping[str, Floats], planted: Planted, level: float
) -> float:
    """Return the size at which an error is caught often enough, by interpolation."""
    sizes = np.geomspace(planted.sizes[0], planted.sizes[-1], _N_SIZES)
    powers = np.maximum.accumulate(_powers(sums, by_product, planted, sizes, level))
    if powers[-1] < CAUGHT:
        return float(np.inf)
    rising = np.append(True, np.diff(powers) > 0)
    return float(np.exp(np.interp(CAUGHT, powers[rising], np.log(sizes)[rising])))

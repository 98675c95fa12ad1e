"""Power: the smallest errors that a study would have caught, found by planting them.

In the user's own simulations a draw plays the truth, and the other draws are shifted, or
narrowed about their centre. That moves the sums of the swap test; how far is measured, and the
swaps themselves supply the noise.
"""

from dataclasses import dataclass

import numpy as np

from .._base.arrays import double, host, kind, namespace, to_device_of
from .._base.types import Array, Floats, Ints
from ..simulations.blocks import Block
from .families import moment_families, product_families, weights
from .statistics import row_p_values, totals
from .swaps import Sums

BIASES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
NARROWINGS = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)  # logarithms of a factor
CAUGHT = 0.9
_N_PLAYS = 3
_N_NOISE = 100
_N_SIZES = 14
_MOST_MOVED = 8_000
_FEW = 64  # points by which discrete parameters are told from others
_SHARED = 0.05  # the share of them, at least, that equal another


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of several sizes: a bias in one parameter, or a wrong width of all.

    Arguments:
        shifted: The parameter that is shifted in each of the plays.
    """

    shifted: Ints
    n_plays: int = _N_PLAYS
    n_extra: int = _N_PLAYS * (len(BIASES) + len(NARROWINGS))

    def points(self, block: Block, played: Ints) -> Array:
        """Return the played draws as they look when all others are shifted or narrowed."""
        xp, pooled = namespace(block.pooled), block.pooled
        truths = double(pooled[played, np.arange(played.shape[1])])
        n_biased = self.n_plays * len(BIASES)
        biased, narrow = truths[:n_biased], truths[n_biased:]
        sizes = to_device_of(np.repeat(BIASES, self.n_plays), truths)
        at = np.tile(self.shifted, len(BIASES))
        every = np.arange(len(biased))
        biased[every, :, at] -= sizes[:, None] * block.spread[:, at].T
        factors = to_device_of(np.exp(np.repeat(NARROWINGS, self.n_plays)), truths)[:, None, None]
        narrow[...] = block.centre + factors * (narrow - block.centre)
        for sim, dim in zip(*np.nonzero(_discrete(pooled)), strict=True):
            luck = np.random.default_rng([block.where.start + sim, dim]).random(self.n_plays)
            truths[:, sim, dim] = _among(pooled[:, sim, dim], truths[:, sim, dim], luck)
        return xp.asarray(truths, dtype=pooled.dtype) if kind(pooled) == "f" else truths


def _discrete(pooled: Array) -> Array:
    """Return which parameters of which simulations take the same values again and again."""
    ordered = np.sort(host(pooled[:_FEW]), axis=0)
    return (ordered[1:] == ordered[:-1]).mean(axis=0) > _SHARED


def _among(values: Array, moved: Array, luck: Floats) -> Array:
    """Return moved points each at one of the two values around it, right on average.

    Between the values of a discrete parameter they would be told from all others at once.
    """
    known, points = np.unique(host(values)).astype(float), host(moved)
    above = np.searchsorted(known, points).clip(max=len(known) - 1)
    low, high = known[(above - 1).clip(min=0)], known[above]
    part = (points - low) / np.where(high > low, high - low, 1.0)
    return to_device_of(np.where(part > np.resize(luck, len(part)), high, low), moved)


@dataclass(frozen=True)
class Detectable:
    """The smallest errors that the study would have caught with 90 % probability.

    Arguments:
        bias: Of one parameter, in posterior sd; infinite if none of the sizes tried is caught.
        width: Of all parameters, as a fraction by which they are too narrow.
    """

    bias: float
    width: float

    def __str__(self) -> str:
        bias = "no bias of any size" if np.isinf(self.bias) else f"a bias of {self.bias:.2f} sd"
        width = "no wrong width" if np.isinf(self.width) else f"widths off by {self.width:.0%}"
        return f"{bias} in one parameter; {width}"


def detectable(sums: Sums, level: float) -> Detectable:
    """Return the smallest planted errors that the test catches."""
    bias, log_factor = (_smallest(sums, planted, level) for planted in (BIASES, NARROWINGS))
    return Detectable(bias, np.inf if np.isinf(log_factor) else -np.expm1(-log_factor))


def power(sums: Sums, level: float, *, bias: float, width: float, growth: float) -> float:
    """Return how likely each error is caught with `growth` times the simulations, at least.

    Arguments:
        sums: The sums of a study.
        level: The level of the test.
        bias: The bias of one parameter, in posterior sd; 0 for none.
        width: The fraction by which all parameters are too narrow; 0 for none.
        growth: How many times more simulations there are.
    """
    sought = ((BIASES, bias), (NARROWINGS, -np.log1p(-width)))
    caught = (
        _powers(sums, planted, np.array([size]), level, growth)[0]
        for planted, size in sought
        if size > 0
    )
    return float(min(caught))


def _powers(
    sums: Sums, planted: tuple[float, ...], sizes: Floats, level: float, growth: float = 1.0
) -> Floats:
    """Return how often errors of given sizes are caught, from the effects of planted ones."""
    n_rows, move = sums.n_rows, _Move.by(sums, planted, sizes, growth)
    own = moment_families(
        {name: move(values) for name, values in sums.moments.items()},
        move(sums.slope),
        move(sums.ties),
        sums.share_tied,
        n_rows,
    )
    # Products hardly move, and moving them would cost more than all the rest.
    others = {name: values[move.rows()] for name, values in product_families(sums).items()}
    p_values = row_p_values(np.column_stack([*own.values(), *others.values()]), n_rows)
    total = totals(p_values, weights([*own, *others]))
    above = n_rows - 1 - np.searchsorted(np.sort(total[1:n_rows]), total[n_rows:])
    return ((1 + above) / n_rows <= level).reshape(len(sizes), -1).mean(axis=1)


@dataclass(frozen=True, eq=False)
class _Move:
    """Moves swaps as errors of some sizes would have moved them.

    Arguments:
        sums: The sums of a study, planted errors among them.
        planted: The sizes that were planted.
        share: How much of the effect of each of them an error has, `(n_sizes, n_planted)`.
        noise: The swaps that are moved.
    """

    sums: Sums
    planted: tuple[float, ...]
    share: Floats
    noise: slice

    @classmethod
    def by(cls, sums: Sums, planted: tuple[float, ...], sizes: Floats, growth: float) -> "_Move":
        """Return the move by errors of these sizes in `growth` times the simulations."""
        known = (0.0, *planted)
        share = np.array([np.interp(sizes, known, row) for row in np.eye(len(known))[1:]]).T
        affordable = max(3, _MOST_MOVED // sums.slope.shape[1])
        noise = slice(1, 1 + min(_N_NOISE, affordable, sums.n_rows - 1))
        # Sums grow with the root of the number of simulations, and so do effects.
        return cls(sums, planted, np.sqrt(growth) * share, noise)

    def __call__(self, values: Floats) -> Floats:
        """Return the first rows, and then swaps moved by every error."""
        shape = (self.sums.n_plays, *values.shape[1:])
        effects = self._effects(values).reshape(len(self.planted), -1)
        effect = (to_device_of(self.share, values) @ effects).reshape(len(self.share), *shape)
        away = values[self.noise][None, :, None] + effect[:, None]
        rows = [values[: self.sums.n_rows], away.reshape(-1, *shape[1:])]
        return namespace(values).concatenate(rows)

    def _effects(self, values: Floats) -> Floats:
        """Return how far each planted error moves each play, `(n_planted, n_plays, ...)`."""
        n_rows, n_plays = self.sums.n_rows, self.sums.n_plays
        plays, biased, narrow = np.cumsum([n_rows, n_plays, n_plays * len(BIASES)])
        errors = values[narrow:] if self.planted is NARROWINGS else values[biased:narrow]
        shape = (len(self.planted), n_plays, *values.shape[1:])
        return double(errors.reshape(shape) - values[plays:biased])

    def rows(self) -> Ints:
        """Return which rows those are that were not moved, or before they were."""
        first = np.arange(self.sums.n_rows)
        moved = np.repeat(first[self.noise], self.sums.n_plays)
        return np.concatenate([first, np.tile(moved, len(self.share))])


def _smallest(sums: Sums, planted: tuple[float, ...], level: float) -> float:
    """Return the size at which an error is caught often enough, by interpolation."""
    sizes = np.geomspace(planted[0], planted[-1], _N_SIZES)
    powers = np.maximum.accumulate(_powers(sums, planted, sizes, level))
    if powers[-1] < CAUGHT:
        return float(np.inf)
    rising = np.append(True, np.diff(powers) > 0)
    return float(np.exp(np.interp(CAUGHT, powers[rising], np.log(sizes)[rising])))

"""Blocks: a few simulations at a time, each truth pooled with its draws."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from .. import backends
from .._base import arrays
from .._base.arrays import in_units, single, to_device_of, zeros
from .._base.types import Array, Floats, Ints
from . import weights

if TYPE_CHECKING:
    from . import Simulations


@dataclass(frozen=True, eq=False)
class Block:
    """A few simulations, each truth pooled with its draws: what scores are made of.

    A region sees only the pooled points and must treat all of them alike.

    Arguments:
        sims: The `Simulations`.
        where: Which of all simulations the block holds.
        truth: The place of each truth among its points, of shape `(n_block,)`.
        played: The pooled points that extra ones stand for, `(n_extra, n_block)`, if any.
    """

    sims: "Simulations"
    where: slice
    truth: Ints
    played: Ints | None = None

    @property
    def n_points(self) -> int:
        """The number of pooled points of each simulation."""
        return self.sims.n_draws + 1

    @property
    def here(self) -> slice:
        """Which of `sims` the block holds, which may be but a part of all."""
        return slice(self.where.start - self.sims._start, self.where.stop - self.sims._start)

    def hidden(self, rng: Generator) -> "Block":
        """Return the block with each truth at a random place among its points.

        Among those that weigh anything, where some do not: then they stay where they are, and
        nothing tells the truth from them.
        """
        if self.sims.log_weights is None:
            return replace(self, truth=rng.integers(self.n_points, size=len(self.truth)))
        there = self.sims.log_weights[:, self.here] > -np.inf
        there = np.concatenate([there, np.ones((1, len(self.truth)), dtype=bool)])
        chosen = rng.integers(there.sum(axis=0))
        return replace(self, truth=(there.cumsum(axis=0) > chosen).argmax(axis=0))

    def labels(self, n_rows: int, rng: Generator) -> Ints:
        """Return points to play the truth, each as likely as its weight, `(n_rows, n_block)`."""
        n_block = len(self.truth)
        if not self.weighted:
            return rng.integers(self.n_points, size=(n_rows, n_block))
        share = self.weights.cumsum(axis=0)
        share /= share[-1]
        chosen = rng.uniform(size=(n_block, n_rows))
        rows = (np.searchsorted(*both, side="right") for both in zip(share.T, chosen, strict=True))
        return np.stack(list(rows), axis=1)

    @cached_property
    def points(self) -> Array:
        """The truths and draws, and extra points if any, `(n_points, n_block, n_dims)`."""
        return self._pooled(self.sims.theta[self.here], self.sims.samples[:, self.here])

    def extended(self, extra: Array, played: Ints) -> "Block":
        """Return the block with more points to be scored along, `(n_extra, n_block, n_dims)`.

        They stand for the points `played`, and must not change the scores of the others.
        """
        both = arrays.namespace(extra).concatenate(
            [self.points.swapaxes(0, 1), extra.swapaxes(0, 1)], axis=1
        )
        longer = Block(self.sims, self.where, self.truth, played)
        # What is known of the pooled points is not computed again.
        vars(longer).update(points=both.swapaxes(0, 1), centre=self.centre, spread=self.spread)
        return longer

    @property
    def pooled(self) -> Array:
        """The truths and draws alone: what scales, centres and references are made of."""
        return self.points[: self.n_points]

    @property
    def weighted(self) -> bool:
        """Whether draws weigh differently."""
        return self.sims.weighted

    @cached_property
    def log_weights(self) -> Floats:
        """The logarithms of the weights of the points, of shape `(n_points, n_block)`."""
        draws, truths = self.sims.log_weights, self.sims.log_weights_theta
        assert draws is not None
        assert truths is not None
        return self._pooled(truths[self.here], draws[:, self.here])

    @cached_property
    def weights(self) -> Floats:
        """The weights of the points, the largest of each simulation 1, `(n_points, n_block)`."""
        return weights.relative(self.log_weights)

    @cached_property
    def centre(self) -> Floats:
        """The mean of the points of each simulation, of shape `(n_block, n_dims)`."""
        return self._mean(self.pooled)

    @cached_property
    def spread(self) -> Floats:
        """Their standard deviation, 1 for parameters that do not vary, `(n_block, n_dims)`."""
        about = self.pooled - self.centre
        about *= about
        sd = self._mean(about) ** 0.5
        return arrays.namespace(sd).where(sd > 0, sd, 1.0)

    def _mean(self, numbers: Array) -> Floats:
        """Return the mean of numbers of the points, each by its weight."""
        if not self.weighted:
            return numbers.mean(axis=0, dtype=arrays.namespace(numbers).float64)
        share = self.weights / self.weights.sum(axis=0)
        return (arrays.to_device_of(share, numbers)[..., None] * numbers).sum(axis=0)

    @cached_property
    def whitened(self) -> Floats:
        """The points about their centre, decorrelated and in units of their spread."""
        weights = self.weights if self.weighted else None
        return whiten(self.points, self.n_points, self.centre, self.spread, weights, self.played)

    @cached_property
    def squared(self) -> Floats:
        """The squared lengths of the whitened points, of shape `(n_points, n_block)`."""
        return (self.whitened**2).sum(axis=-1)

    @cached_property
    def log_prob(self) -> Array:
        """The log-densities of the points, of shape `(n_points, n_block)`."""
        draws, truths = self.sims.log_probs()
        return self._pooled(truths[self.here], draws[:, self.here])

    @property
    def x(self) -> Array | None:
        """The observations of the block, of shape `(n_block, ...)`."""
        return None if self.sims.x is None else self.sims.x[self.here]

    def pool(self, truths: Array, draws: Array) -> Array:
        """Return numbers of all truths `(n_sims, ...)` and draws `(n_draws, n_sims, ...)`, pooled.

        Truths go to their places, and the draws that were there to the end.
        """
        return self._pooled(truths[self.where], draws[:, self.where])

    def _pooled(self, truths: Array, draws: Array) -> Array:
        return backends.swaps(draws).pool(truths, draws, self.truth)


_MOST_WHITENED = 256


def whiten(
    points: Array,
    n_points: int,
    centre: Floats,
    spread: Floats,
    weights: Floats | None = None,
    played: Ints | None = None,
) -> Floats:
    r"""Return points about their centre, decorrelated and in units of their own spread.

    Each point contributes to the covariance in which it is measured, and therefore looks closer.
    An extra point replaces another. Its own contribution then takes the place of the other's:
    parameter by parameter as far as correlations are shrunk, and otherwise with :math:`q` its
    squared length in the covariance of the others,

    .. math:: q = |y'|^2 + \frac{w (y' \cdot y)^2}{1 - w |y|^2}, \qquad
        |y'|^2 \to \frac{q}{1 + w q},

    where :math:`w` is what a point counts. One that equals the other stays where the other is.

    Arguments:
        points: Of shape `(n_all, n_sims, n_dims)`.
        n_points: How many of them, the first ones, define correlations.
        centre: Their mean, of shape `(n_sims, n_dims)`.
        spread: Their standard deviation, of shape `(n_sims, n_dims)`.
        weights: What each of those points weighs, `(n_points, n_sims)`, if not the same.
        played: In whose place each of the other points stands, `(n_all - n_points, n_sims)`,
            if there are any.
    """
    z = in_units(points, centre, spread).swapaxes(0, 1)
    n_sims, _, n_dims = z.shape
    every = np.arange(n_sims)[:, None]
    places = np.zeros((n_sims, 0), dtype=int) if played is None else played.T
    share, counts = None, zeros((n_sims, 1, 1), z) + 1 / n_points
    if weights is not None:
        share = single(to_device_of((weights / weights.mean(axis=0)).T[..., None], z))
        counts = share[every, places] / n_points
    kept = zeros((n_sims, 1, 1), z)  # of the correlations, once they are known

    def hold_in(where: slice) -> None:
        own, extra = z[every[where], places[where]], z[where, n_points:]
        extra /= (1 + (1 - kept[where]) * counts[where] * (extra**2 - own**2)) ** 0.5

    def correlation(where: slice) -> Floats:
        correlations, kept[where] = _shrunk_correlation(
            z[where, :n_points], None if share is None else share[where]
        )
        hold_in(where)
        return correlations

    if 1 < n_dims <= _MOST_WHITENED:
        z = backends.swaps(z).decorrelate(z, correlation)
        _replace(z[every, places], z[:, n_points:], kept * counts)
    else:
        hold_in(slice(None))
    return z.swapaxes(0, 1)


def _replace(own: Floats, extra: Floats, count: Floats) -> None:
    """Bring extra points to the length that they have once they count, and the others do not."""
    square = (extra**2).sum(axis=-1, keepdims=True)
    left = 1 - count * (own**2).sum(axis=-1, keepdims=True)
    q = square + count * (extra * own).sum(axis=-1, keepdims=True) ** 2 / left.clip(min=1e-6)
    extra *= (q / (1 + count * q) / square.clip(min=1e-30)) ** 0.5


def _shrunk_correlation(z: Floats, share: Floats | None) -> tuple[Floats, Floats]:
    """Return the correlations of standardised points (n_sims, n_points, n_dims), shrunk.

    Also how much of them is kept, of shape `(n_sims, 1, 1)`.

    After Schäfer and Strimmer (2005), and less so where there are many points a parameter: a
    thin direction is just what ought to be seen.
    """
    n_points, n_dims = z.shape[1:]
    weighed = z if share is None else z * share
    correlation = z.swapaxes(1, 2) @ weighed / n_points
    # Points that weigh differently are worth fewer.
    worth = n_points if share is None else n_points**2 / (share**2).sum(axis=(1, 2))
    diagonal = np.arange(n_dims)
    correlation[:, diagonal, diagonal] = 0
    square = correlation * correlation
    signal, quartic = square.sum(axis=(1, 2)), (square * square).sum(axis=(1, 2))
    noise = (n_dims * (n_dims - 1) - 2 * signal + quartic) / worth
    shrink = (noise / signal.clip(min=1e-12)).clip(0, 1)
    shrink *= 2 * n_dims / (worth + 0 * noise).clip(min=2 * n_dims)
    kept = (1 - shrink - 1e-4)[:, None, None]
    correlation *= kept
    correlation[:, diagonal, diagonal] = 1
    return correlation, kept

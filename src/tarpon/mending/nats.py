r"""`nats`: how wrong posteriors are at least, in nats per observation.

The divergence of the exact posterior from the one under test,
:math:`\mathrm{KL} = E \log p(\theta^* | x) / \hat p(\theta^* | x)`, is how much log-density of the
truth is lost on average. An adversary learns from earlier simulations to tell truths from draws,
and bets on later ones, in an order that is fixed beforehand. What it wins bounds the divergence
from below (`sequential.floors`), and nothing here bounds it from above: an error that the
adversary cannot learn does not count.
"""

import json
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from .._base import arguments, arrays, threads
from .._base.types import RNG, Array, Floats
from .._version import __version__
from ..engine import Run
from ..sequential.bets import log_mean
from ..sequential.floors import Floor
from ..sequential.loglinear import LogLinearScore, fitted
from ..simulations import Simulations, bound, passes, shapes
from ..simulations.views import chosen, equalised
from . import words

_FIRST, _GROWTH = 50, 1.5  # simulations before the first fit, and their growth to the next
_N_KEPT = 32  # draws per simulation that are learned from
_MOST_SIMS, _MOST_BYTES = 20_000, 2**28  # beyond, a random part of the simulations is used
_N_TOGETHER = 2**22  # numbers that are computed together
_LAST = 0.5  # share of the bets, the last ones, by which the size is estimated


@dataclass(frozen=True, repr=False)
class Nats:
    """How wrong posteriors are at least.

    Arguments:
        low: Lower bound of the divergence in nats per observation, 0 if it is too small to size.
        about: What the adversary gained per observation once it had learned; an estimate that
            tends to be too small.
        level: Probability that the bound exceeds the divergence, at most.
        n_sims: Number of simulations.
        exact: Whether the bound is exact; not if draws were resampled by weight.
        seed: Integer that reproduces the answer, as `rng=`.
    """

    low: float
    about: float
    level: float
    n_sims: int
    exact: bool
    seed: int

    @property
    def shift(self) -> float:
        """The bias of a normal posterior that has a divergence of `low`, in posterior sd."""
        return sqrt(2 * self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "schema": "tarpon-nats-1",
            "low": self.low,
            "about": self.about,
            "shift": self.shift,
            "level": self.level,
            "n_sims": self.n_sims,
            "exact": self.exact,
            "seed": self.seed,
            "text": str(self),
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        return f"nats, {self.n_sims} simulations: {self}"

    def __str__(self) -> str:
        return words.nats(self)


def nats(sims: Simulations, *, level: float = 0.05, rng: RNG = None) -> Nats:
    """Return how wrong posteriors are at least, in nats per observation.

    Arguments:
        sims: Simulations; five hundred or more, or the bound is rarely above 0.
        level: Probability that the bound exceeds the divergence, at most.
        rng: Seed or generator.

    Returns:
        A `Nats`.

    Example:
        >>> sims = tarpon.problems.zoo("weights_forgotten", n_sims=1000, rng=0)
        >>> 0.1 < tarpon.nats(sims, rng=0).low < 0.22
        True
    """
    arguments.instance("sims", sims, Simulations, "`Simulations`: tarpon.Simulations(...)")
    shapes.needs_parameters(sims.n_dims)
    level, seed = arguments.probability("level", level), arguments.seed(rng)
    order, keep, resample = np.random.default_rng(seed).spawn(3)
    sims = equalised(bound(sims, Run()), resample)
    n_used = min(_MOST_SIMS, max(1, _MOST_BYTES // (8 * (sims.n_draws + 1) * sims.n_dims)))
    used = order.permutation(sims.n_sims)[:n_used]
    with threads.one_thread_each():
        points = _Points.of(chosen(sims, np.sort(used)), order)
        payments = _payments(points, keep)
    late = payments[len(payments) - ceil(_LAST * len(payments)) :]
    return Nats(
        Floor().paid(payments).low(level),
        float(late.mean()) if len(late) else 0.0,
        level,
        sims.n_sims,
        not sims.draws.approximate,
        seed,
    )


@dataclass(frozen=True, eq=False)
class _Points:
    """Simulations in the order of the bets.

    Arguments:
        z: Points in units of their simulation, the truth first, `(n_points, n_sims, n_dims)`.
        x: Observations, or None.
        weights: Weights of the points, `(n_points, n_sims)`, or None if all weigh the same.
    """

    z: Floats
    x: Array | None
    weights: Floats | None

    @classmethod
    def of(cls, sims: Simulations, rng: Generator) -> "_Points":
        """Return the points of simulations, in random order."""
        z, x, weights = [], [], []
        for piece in passes.pieces(sims):
            for block in piece.blocks():
                z.append(arrays.host((block.points - block.centre) / block.spread))
                x += [] if block.x is None else [np.asarray(block.x)]
                weights += [block.weights] if block.weighted else []
        order = rng.permutation(sims.n_sims)
        return cls(
            np.concatenate(z, axis=1)[:, order],
            np.concatenate(x)[order] if x else None,
            np.concatenate(weights, axis=1)[:, order] if weights else None,
        )

    def observed(self, where: slice) -> Array | None:
        """Return the observations of some simulations."""
        return None if self.x is None else self.x[where]

    def some(self, n: int, rng: Generator) -> Floats:
        """Return the truths and some draws of the first `n` simulations, by weight."""
        n_draws = len(self.z) - 1
        if self.weights is None:
            return self.z[: 1 + _N_KEPT, :n]
        share = np.cumsum(self.weights[1:, :n], axis=0)
        at = rng.uniform(size=(min(_N_KEPT, n_draws), 1, n)) * share[-1]
        places = 1 + (share <= at).sum(axis=1).clip(max=n_draws - 1)
        return np.concatenate([self.z[:1, :n], self.z[places, np.arange(n)]])


def _payments(points: _Points, rng: Generator) -> Floats:
    """Return the logarithms of what the adversary's bets pay, in their order."""
    n, n_sims = _FIRST, points.z.shape[1]
    found: list[Floats] = [np.empty(0)]
    while n < n_sims:
        score = fitted(points.some(n, rng), points.observed(slice(0, n)))
        end = min(n_sims, ceil(_GROWTH * n))
        step = max(1, _N_TOGETHER // (len(points.z) * max(len(score.slope), 1)))
        for k in range(n, end, step):
            found.append(_paid(score, points, slice(k, min(k + step, end))))
        n = end
    return np.concatenate(found)


def _paid(score: LogLinearScore, points: _Points, where: slice) -> Floats:
    """Return the logarithms of the payments of bets on all points, by their scores."""
    scores = score.of_units(points.z[:, where], points.observed(where))
    weights = np.ones(scores.shape) if points.weights is None else points.weights[:, where]
    shares = weights / weights.sum(axis=0)
    return scores[0] - log_mean(scores.T, shares.T)

"""Distances of points from the centre of draws, in units of their covariance."""

from dataclasses import dataclass

import numpy as np

from .._base import arrays
from .._base.types import Array, Floats, Ints
from ..simulations.blocks import Block


def spread_evenly(n_draws: Ints | int, n: int) -> Ints:
    """Return the places of `n` draws that are spread evenly over all, `(n, ...)`."""
    return np.multiply.outer(np.arange(n), n_draws) // n


@dataclass(frozen=True, eq=False)
class Halves:
    """The draws of simulations in two parts.

    Arguments:
        places: Places of the draws that centres and covariances are made of, `(n, n_sims)`.
        held: Which draws are in the other part, `(n_draws, n_sims)`.
    """

    places: Ints
    held: Array

    @classmethod
    def of(cls, block: Block, n: int) -> "Halves":
        """Return the halves of a block, `n` draws in the first; draws of weight 0 in neither."""
        sims, every = block.sims, np.arange(len(block.truth))
        there = np.ones((sims.n_draws, len(every)), dtype=bool)
        if sims.log_weights is not None:
            there = sims.log_weights[:, block.here] > -np.inf
        present_first = np.argsort(~there, axis=0, kind="stable")
        places = present_first[spread_evenly(there.sum(axis=0), n), every]
        held = there.copy()
        held[places, every] = False
        return cls(places, held)

    def first(self, draws: Array) -> Array:
        """Return the first part of numbers of draws, `(n, n_sims, ...)`."""
        return arrays.host(draws)[self.places, np.arange(self.places.shape[1])]


@dataclass(frozen=True, eq=False)
class Ellipsoids:
    r"""Ellipsoids :math:`|L^{-1} (\theta - \mu) / \sigma| \le t`, one per simulation.

    Correlations are shrunk as much as they are noise (Schäfer and Strimmer, 2005). A parameter
    whose draws are all equal has its centre there, and every other value is infinitely far.

    Arguments:
        centre: Means :math:`\mu` of the draws, `(n_sims, n_dims)`.
        sd: Their standard deviations :math:`\sigma`, 0 if all are equal.
        root: Cholesky factors :math:`L` of the correlations, `(n_sims, n_dims, n_dims)`.
    """

    centre: Floats
    sd: Floats
    root: Floats

    @classmethod
    def of(cls, draws: Array) -> "Ellipsoids":
        """Return the ellipsoids of draws `(n_draws, n_sims, n_dims)`."""
        equal = (draws == draws[:1]).all(axis=0)
        centre = np.where(equal, draws[0], draws.mean(axis=0, dtype=float))
        sd = np.where(equal, 0.0, draws.std(axis=0, dtype=float))
        z = ((draws - centre) / np.where(sd > 0, sd, 1.0)).swapaxes(0, 1)
        return cls(centre, sd, np.linalg.cholesky(_shrunk(z.swapaxes(1, 2) @ z / len(draws), z)))

    def distances(self, points: Array) -> Floats:
        """Return the distances of points `(n_points, n_sims, n_dims)`, `(n_points, n_sims)`."""
        fixed = self.sd == 0
        about = points - self.centre
        z = np.where(fixed, 0.0, about / np.where(fixed, 1.0, self.sd))
        y = np.linalg.solve(self.root, z.transpose(1, 2, 0))
        far = (fixed & (about != 0)).any(axis=-1)
        return np.where(far, np.inf, np.sqrt(np.square(y).sum(axis=1)).T)

    def ellipse(self, k: int, m: int, radius: float, n: int) -> Floats:
        """Return points of the outline of the first ellipsoid, seen along all other axes.

        Arguments:
            k: Place of the parameter of the first column.
            m: Place of that of the second column.
            radius: Radius of the ellipsoid.
            n: Number of points; the last one is the first.
        """
        angle = np.linspace(0, 2 * np.pi, n)
        correlation = (self.root[0] @ self.root[0].T)[np.ix_([k, m], [k, m])]
        circle = np.linalg.cholesky(correlation) @ np.stack([np.cos(angle), np.sin(angle)])
        pair = [k, m]
        return self.centre[0, pair] + radius * self.sd[0, pair] * circle.T


def _shrunk(correlation: Floats, z: Floats) -> Floats:
    """Return correlations of standardised points `(n_sims, n_points, n_dims)`, shrunk."""
    n_points, n_dims = z.shape[1:]
    diagonal = np.eye(n_dims, dtype=bool)
    square = np.where(diagonal, 0.0, np.square(correlation))
    noise = np.where(diagonal, 0.0, np.square(1 - square)).sum(axis=(1, 2)) / n_points
    shrink = (noise / np.maximum(square.sum(axis=(1, 2)), 1e-12)).clip(0, 1)
    kept = 1 - shrink * min(1.0, 2 * n_dims / n_points) - 1e-4
    return np.where(diagonal, 1.0, kept[:, None, None] * correlation)

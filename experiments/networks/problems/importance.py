"""Draws and densities of posteriors whose likelihood is known, by importance sampling."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.ndimage import maximum_filter
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import multivariate_t

from .problem import Array, Problem

_SIDE = 64  # cells of a grid, per parameter
_NEGLIGIBLE = 60  # differences of log-likelihoods beyond which cells are left out
_N_ZOOMS = 3
_N_POINTS = 20_000  # in the cells of the last grid
_N_STARTS, _N_STEPS, _N_ROUNDS = 30, 40, 2

Function = Callable[[Array], Array]


def to_box(problem: Problem, theta: Array) -> Array:
    """Return where the prior maps to: the unit box, on which it is uniform."""
    if problem.half_width is None:
        return ndtr(theta / problem.sd)
    return (theta / problem.half_width + 1) / 2


def from_box(problem: Problem, unit: Array) -> Array:
    """Return the parameters of points in the unit box."""
    if problem.half_width is None:
        return problem.sd * ndtri(unit)
    return problem.half_width * (2 * unit - 1)


def log_prior(problem: Problem, theta: Array) -> Array:
    """Return the log-density of the prior inside of its support."""
    if problem.half_width is None:
        z = theta / problem.sd
        return -0.5 * (z**2 + np.log(2 * np.pi * problem.sd**2)).sum(axis=-1)
    return np.full(theta.shape[:-1], -theta.shape[-1] * np.log(2 * problem.half_width))


def gridded(
    problem: Problem, log_likelihood: Function, n_draws: int, rng: Generator, *, at: Array
) -> tuple[Array, Array, Array]:
    """Return draws of a posterior with two parameters, and log-densities of them and of a point.

    The likelihood is evaluated at a random point of each cell of a grid, and the grid is drawn
    anew around the cells that matter. Then points are drawn in cells, by the likelihood in and
    around them, and accepted by weight.

    Arguments:
        problem: The problem, for its prior.
        log_likelihood: Function of points `(n, 2)` that returns `(n,)`, up to a constant.
        n_draws: Number of draws.
        rng: The generator.
        at: The point `(2,)`.
    """
    cells = np.stack(np.meshgrid(np.arange(_SIDE), np.arange(_SIDE)), axis=-1).reshape(-1, 2)
    low, width = np.zeros(2), np.ones(2)
    for zoom in range(_N_ZOOMS):
        unit = low + width * (cells + rng.uniform(size=cells.shape)) / _SIDE
        values = log_likelihood(from_box(problem, unit))
        if zoom < _N_ZOOMS - 1:
            some = cells[values > values.max() - _NEGLIGIBLE]
            first, last = np.maximum(some.min(axis=0) - 1, 0), some.max(axis=0) + 2
            last = np.minimum(last, _SIDE)
            low, width = low + width * first / _SIDE, width * (last - first) / _SIDE
    shares = _shares(values)
    chosen = rng.choice(len(cells), _N_POINTS, p=shares)
    unit = low + width * (cells[chosen] + rng.uniform(size=(_N_POINTS, 2))) / _SIDE
    points = from_box(problem, unit)
    values = log_likelihood(points)
    log_weights = values - np.log(shares[chosen] * len(cells) / width.prod())
    log_evidence = logsumexp(log_weights) - np.log(_N_POINTS)
    drawn = resampled(log_weights, n_draws, rng)
    densities = values + log_prior(problem, points) - log_evidence
    (truth,) = log_likelihood(at[None]) + log_prior(problem, at[None]) - log_evidence
    return points[drawn], densities[drawn], truth


def _shares(log_likelihood: Array) -> Array:
    """Return probabilities of cells: the likelihood in and around them, and a little for all."""
    grid = np.exp(log_likelihood - log_likelihood.max()).reshape(_SIDE, _SIDE)
    around = maximum_filter(grid, 3).ravel()
    return 0.95 * around / around.sum() + 0.05 / len(around)


def resampled(log_weights: Array, n_draws: int, rng: Generator) -> Array:
    """Return places of draws: points are accepted by weight, so that no draw is repeated.

    If too few are accepted, they are chosen by weight, with repetitions.
    """
    weights = np.exp(log_weights - log_weights.max())
    accepted = np.flatnonzero(rng.uniform(size=len(weights)) < weights)
    if len(accepted) >= n_draws:
        return rng.choice(accepted, n_draws, replace=False)
    return rng.choice(len(weights), n_draws, p=weights / weights.sum())


@dataclass(frozen=True)
class Curve:
    """A posterior with normal noise about a known function of the parameters.

    The mode is searched from the observation alone. Proposals are Student's t, first with the
    curvature at the mode, then with the mean and the covariance of the weighted points.

    Arguments:
        problem: The problem, for its prior.
        predict: Function of parameters `(n, n_dims)` that returns noiseless data `(n, n_data)`.
        sd: Standard deviation of the noise.
    """

    problem: Problem
    predict: Function
    sd: float
    n_points: int = 2000

    def draw(self, x: Array, n_draws: int, rng: Generator) -> Array:
        """Return draws `(n_draws, n_sims, n_dims)`, of enough points that none is repeated."""
        each = replace(self, n_points=max(self.n_points, 12 * n_draws))._weighted(x, rng)
        return np.stack(
            [points[resampled(weights, n_draws, rng)] for points, weights in each], axis=1
        )

    def log_posterior(self, theta: Array, x: Array) -> Array:
        """Return the log-densities of parameters, one per observation."""
        rng = np.random.default_rng(0)
        values = [self._log_target(at[None], one)[0] for at, one in zip(theta, x, strict=True)]
        weights = np.stack([weights for _, weights in self._weighted(x, rng)])
        return np.array(values) - logsumexp(weights, axis=1) + np.log(self.n_points)

    def _log_target(self, theta: Array, x: Array) -> Array:
        values = log_prior(self.problem, theta)
        inside = np.ones(len(theta), bool)
        if self.problem.half_width is not None:
            inside = (abs(theta) <= self.problem.half_width).all(axis=1)
        at = np.where(inside[:, None], theta, 0)
        residuals = (x - self.predict(at)) / self.sd
        return np.where(inside, values - 0.5 * (residuals**2).sum(axis=1), -np.inf)

    def _weighted(self, x: Array, rng: Generator) -> Iterator[tuple[Array, Array]]:
        """Yield points and their log-weights per observation."""
        for one, mean, covariance in zip(x, *self._peaks(x), strict=True):
            for _ in range(_N_ROUNDS):
                points, log_q = _student(mean, covariance, self.n_points, rng)
                log_weights = self._log_target(points, one) - log_q
                weights = np.exp(log_weights - log_weights.max())
                weights /= weights.sum()
                mean = weights @ points
                about = points - mean
                covariance = (weights[:, None] * about).T @ about + 1e-8 * covariance
            yield points, log_weights

    def _peaks(self, x: Array) -> tuple[Array, Array]:
        """Return the best mode of several starts per observation, and its inverse curvature."""
        starts, predicted = self._starts
        squares = (predicted**2).sum(axis=1)  # of distances but for the squares of data
        first = [np.argsort(squares - 2 * (predicted @ one))[:_N_STARTS] for one in x]
        theta, x = starts[np.concatenate(first)], np.repeat(x, _N_STARTS, axis=0)
        values, damping = self._log_target(theta, x), np.ones(len(theta))
        for _ in range(_N_STEPS):
            moved = theta + self._newton(theta, x, damping)[0]
            if self.problem.half_width is not None:
                moved = np.clip(moved, -self.problem.half_width, self.problem.half_width)
            new = self._log_target(moved, x)
            better = new > values
            theta[better], values[better] = moved[better], new[better]
            damping *= np.where(better, 0.3, 4.0)  # as Levenberg and Marquardt do
        best = values.reshape(-1, _N_STARTS).argmax(axis=1) + _N_STARTS * np.arange(len(first))
        return theta[best], np.linalg.inv(self._newton(theta[best], x[best], 0 * best)[1])

    @cached_property
    def _starts(self) -> tuple[Array, Array]:
        theta = self.problem.prior(50_000, np.random.default_rng(0))
        return theta, self.predict(theta)

    def _newton(self, theta: Array, x: Array, damping: Array) -> tuple[Array, Array]:
        """Return steps of Gauss and Newton, damped, and the curvatures."""
        n_dims, small = theta.shape[1], 1e-4
        moves = np.concatenate([small * np.eye(n_dims), -small * np.eye(n_dims)])
        moved = (theta[:, None] + moves).reshape(-1, n_dims)
        values = self.predict(moved).reshape(len(theta), 2, n_dims, -1)
        slopes = (values[:, 0] - values[:, 1]) / (2 * small * self.sd)
        precision = 0.0 if self.problem.half_width is not None else 1 / self.problem.sd**2
        curvature = slopes @ slopes.swapaxes(1, 2) + max(precision, 1e-3) * np.eye(n_dims)
        residuals = (x - self.predict(theta)) / self.sd
        uphill = (slopes @ residuals[..., None])[..., 0] - precision * theta
        damped = curvature * (1 + damping[:, None, None] * np.eye(n_dims))
        return np.linalg.solve(damped, uphill[..., None])[..., 0], curvature


def _student(mean: Array, covariance: Array, n: int, rng: Generator) -> tuple[Array, Array]:
    """Return draws of Student's t with five degrees of freedom, and their log-densities."""
    t = multivariate_t(mean, 1.2 * covariance, df=5, allow_singular=True, seed=rng)
    points = t.rvs(n)
    return points, t.logpdf(points)

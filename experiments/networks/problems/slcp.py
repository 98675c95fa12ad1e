"""SLCP, "simple likelihood, complex posterior": four points of a normal in two dimensions.

Given its covariance, the posterior of its mean is a normal cut off by the box, so that only the
other three parameters need to be integrated numerically.
"""

from functools import cache

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import qmc

from .problem import Array, Problem, box

_SIDE = 3.0
_N_POINTS = 4
_N_STEPS = 250
_STEPS = np.array([0.4, 0.4, 0.8])
_FACTOR = 0.4


def _covariance(theta: Array) -> tuple[Array, Array, Array]:
    """Return the sds and the correlation of the points."""
    return theta[..., 2] ** 2, theta[..., 3] ** 2, np.tanh(theta[..., 4])


def _coloured(theta: Array, noise: Array) -> Array:
    first, second, rho = (part[..., None] for part in _covariance(theta))
    a, b = noise[..., 0], noise[..., 1]
    return np.stack([first * a, second * (rho * a + np.sqrt(1 - rho**2) * b)], axis=-1)


def _slcp_simulate(theta: Array, rng: Generator) -> Array:
    noise = rng.normal(size=(len(theta), _N_POINTS, 2))
    return (theta[:, None, :2] + _coloured(theta, noise)).reshape(len(theta), -1)


def _distances(theta: Array, a: Array, b: Array, ab: Array) -> tuple[Array, Array]:
    """Return the trace of S^-1 times a matrix with these entries, and log det S."""
    first, second, rho = _covariance(theta)
    trace = a / first**2 + b / second**2 - 2 * rho * ab / (first * second)
    return trace / (1 - rho**2), 2 * np.log(first * second) + np.log1p(-(rho**2))


@cache
def _even(n_log2: int = 15) -> Array:
    """Return evenly spread points of the unit cube."""
    return np.clip(qmc.Sobol(3, rng=np.random.default_rng(0)).random_base2(n_log2), 1e-9, 1 - 1e-9)


def _spread(x: Array) -> tuple[Array, Array]:
    """Return parameters of the covariance after two zeros, and their log-weights for the prior.

    Half of the points are evenly spread in the box. The others have roots of sds about those of
    the observed points, to within a factor, so that precise ones are found, too. Signs of roots
    change no likelihood: they are positive here, and random in draws.
    """
    unit = _even().copy()
    spread = 0.5 * np.log(x.reshape(_N_POINTS, 2).std(axis=0))
    near = np.arange(len(unit)) % 2 == 1
    roots = _SIDE * unit[:, :2]
    roots[near] = np.exp(spread + _FACTOR * ndtri(unit[near, :2]))
    z = (np.log(roots) - spread) / _FACTOR
    even = (roots <= _SIDE).all(axis=1) / _SIDE**2
    tuned = np.exp(-0.5 * (z**2).sum(axis=1)) / (2 * np.pi * _FACTOR**2 * roots.prod(axis=1))
    theta = np.concatenate(
        [np.zeros((len(unit), 2)), roots, _SIDE * (2 * unit[:, 2:] - 1)], axis=1
    )
    return theta, -np.log((even + tuned) / 2 * _SIDE**2)


def _cut(mean: Array, sd: Array, rng: Generator) -> tuple[Array, Array]:
    """Return draws of normals that are cut off by the box, and the logarithm of what is inside."""
    low, high = (-_SIDE - mean) / sd, (_SIDE - mean) / sd
    # Invert in the lower tail, where the quantile function is precise.
    sign = np.where(mean > 0, 1, -1)
    below = ndtr(np.where(sign > 0, low, -high))
    inside = ndtr(np.where(sign > 0, high, -low)) - below
    z = sign * ndtri(below + inside * rng.uniform(size=len(mean)))
    with np.errstate(divide="ignore"):
        return np.clip(mean + sd * z, -_SIDE, _SIDE), np.log(inside)


def _slcp_filled(theta: Array, x: Array, rng: Generator) -> tuple[Array, Array]:
    """Return parameters with a mean that is drawn given the covariance, and log-weights.

    The average of the weights over the box is the integral of the likelihood.
    """
    points = x.reshape(_N_POINTS, 2)
    centre = points.mean(axis=0)
    first, second, rho = _covariance(theta)
    sds = first / np.sqrt(_N_POINTS), second / np.sqrt(_N_POINTS)
    m0, in_first = _cut(np.full(len(theta), centre[0]), sds[0], rng)
    given = centre[1] + rho * sds[1] * (m0 - centre[0]) / sds[0]
    m1, in_second = _cut(given, sds[1] * np.sqrt(1 - rho**2), rng)
    trace, log_det = _distances(theta, *_products(points - centre))
    constant = (_N_POINTS - 1) * np.log(2 * np.pi) + np.log(_N_POINTS) - 3 * np.log(2 * _SIDE)
    weights = in_first + in_second - 0.5 * trace - (_N_POINTS - 1) / 2 * log_det - constant
    filled = np.concatenate([m0[:, None], m1[:, None], theta[:, 2:]], axis=1)
    return filled, np.where((abs(theta[:, 2:]) <= _SIDE).all(axis=1), weights, -np.inf)


def _products(about: Array) -> tuple[Array, Array, Array]:
    a, b = about[..., 0], about[..., 1]
    return (a**2).sum(axis=-1), (b**2).sum(axis=-1), (a * b).sum(axis=-1)


def _slcp_log_posterior(theta: Array, x: Array) -> Array:
    rng = np.random.default_rng(0)
    about = x.reshape(len(x), _N_POINTS, 2) - theta[:, None, :2]
    trace, log_det = _distances(theta, *_products(about))
    log_likelihood = -0.5 * trace - _N_POINTS * (np.log(2 * np.pi) + log_det / 2)
    evidence = [logsumexp(_weighted(one, rng)[2]) for one in x]
    return log_likelihood - np.array(evidence) + np.log(len(_even()))


def _weighted(x: Array, rng: Generator) -> tuple[Array, Array, Array]:
    """Return spread parameters, their values, and their log-weights."""
    theta, log_weights = _spread(x)
    theta, values = _slcp_filled(theta, x, rng)
    return theta, values, values + log_weights


def _slcp_draws(x: Array, n_draws: int, rng: Generator) -> Array:
    """Resample evenly spread points by weight, then let each take steps of Metropolis."""
    return np.stack([_slcp_draws_of(one, n_draws, rng) for one in x], axis=1)


def _slcp_draws_of(x: Array, n_draws: int, rng: Generator) -> Array:
    theta, values, log_weights = _weighted(x, rng)
    weights = np.exp(log_weights - log_weights.max())
    chosen = rng.choice(len(theta), n_draws, p=weights / weights.sum())
    draws, values = theta[chosen], values[chosen]
    for _ in range(_N_STEPS):
        # Four points give a scale to within a factor, so scales take steps in their logarithm.
        steps = rng.choice([1.0, 0.3, 0.1], (n_draws, 1)) * rng.normal(size=(n_draws, 3)) * _STEPS
        proposed = draws.copy()
        proposed[:, 2:4] *= np.exp(steps[:, :2])
        proposed[:, 4] += steps[:, 2]
        proposed, new = _slcp_filled(proposed, x, rng)
        gain = new - values + steps[:, :2].sum(axis=1)
        better = np.log(rng.uniform(size=n_draws)) < gain
        draws[better], values[better] = proposed[better], new[better]
    draws[:, 2:4] *= rng.choice([-1, 1], (n_draws, 2))
    return draws


SLCP = Problem(
    "slcp", box(_SIDE, 5), _slcp_simulate, _slcp_log_posterior, _slcp_draws,
    half_width=_SIDE, n_dims=5,
)  # fmt: skip

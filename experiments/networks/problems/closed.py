"""Problems whose posterior has a closed form: Gaussian linear, Gaussian mixture, two moons."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri

from .problem import Array, Problem, box


def _inside(propose: Callable[[Array], Array], n_draws: int, x: Array, half_width: float) -> Array:
    """Propose draws for observations until all lie inside the box of the prior."""
    x = np.repeat(x[None], n_draws, axis=0).reshape(n_draws * len(x), -1)
    draws = propose(x)
    while len(out := np.flatnonzero((abs(draws) > half_width).any(axis=1))):
        draws[out] = propose(x[out])
    return draws.reshape(n_draws, -1, draws.shape[1])


# Gaussian linear: ten parameters, theta ~ N(0, 0.1) and x ~ N(theta, 0.1).

_VARIANCE = 0.1


def _linear_log_posterior(theta: Array, x: Array) -> Array:
    z = (theta - x / 2) / np.sqrt(_VARIANCE / 2)
    return -0.5 * (z**2 + np.log(np.pi * _VARIANCE)).sum(axis=1)


LINEAR = Problem(
    "gaussian_linear",
    lambda n, rng: np.sqrt(_VARIANCE) * rng.normal(size=(n, 10)),
    lambda theta, rng: theta + np.sqrt(_VARIANCE) * rng.normal(size=theta.shape),
    _linear_log_posterior,
    lambda x, n, rng: x / 2 + np.sqrt(_VARIANCE / 2) * rng.normal(size=(n, *x.shape)),
    sd=np.sqrt(_VARIANCE),
    n_dims=10,
)

# Gaussian mixture: theta uniform, x ~ N(theta, 1) or N(theta, 0.01), with equal probability.

_WIDE = 10.0
_SDS = (1.0, 0.1)


def _mixture_noise(n: int, rng: Generator) -> Array:
    return rng.choice(_SDS, (n, 1)) * rng.normal(size=(n, 2))


def _mixture_log_posterior(theta: Array, x: Array) -> Array:
    inside = [np.prod(ndtr((_WIDE - x) / s) - ndtr((-_WIDE - x) / s), axis=1) for s in _SDS]
    log_likelihoods = [
        -0.5 * (((theta - x) / s) ** 2).sum(axis=1) - np.log(2 * np.pi * s**2) for s in _SDS
    ]
    return np.logaddexp(*log_likelihoods) - np.log(inside[0] + inside[1])


MIXTURE = Problem(
    "gaussian_mixture",
    box(_WIDE, 2),
    lambda theta, rng: theta + _mixture_noise(len(theta), rng),
    _mixture_log_posterior,
    lambda x, n, rng: _inside(lambda at: at + _mixture_noise(len(at), rng), n, x, _WIDE),
    half_width=_WIDE,
)

# Two moons: x is a point of a crescent, moved by |theta_0 + theta_1| and theta_1 - theta_0. For a
# given point of the crescent there are two solutions, so that the posterior has two crescents.

_RADIUS, _RADIUS_SD = 0.1, 0.01


def _crescent(angle: Array, radius: Array) -> Array:
    return np.stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)], axis=-1)


def _random_crescent(n: int, rng: Generator) -> Array:
    angle = rng.uniform(-np.pi / 2, np.pi / 2, n)
    return _crescent(angle, rng.normal(_RADIUS, _RADIUS_SD, n))


def _turned(theta: Array) -> Array:
    total, difference = theta[:, 0] + theta[:, 1], theta[:, 1] - theta[:, 0]
    return np.stack([-abs(total), difference], axis=1) / np.sqrt(2)


def _solved(points: Array, x: Array, sign: Array | float) -> Array:
    """Return the parameters that move a point of the crescent to x; far outside if none does."""
    total, difference = points[..., 0] - x[..., 0], x[..., 1] - points[..., 1]
    theta = np.stack([sign * total - difference, sign * total + difference], axis=-1)
    return np.where(total[..., None] < 0, 9.0, theta / np.sqrt(2))


def _moons_inside(x: Array) -> Array:
    """Return the integral of the likelihood over the box: the number of solutions in it."""
    angles = (np.arange(200) + 0.5) / 200 * np.pi - np.pi / 2
    radii = _RADIUS + _RADIUS_SD * ndtri((np.arange(20) + 0.5) / 20)
    points = _crescent(*(grid.ravel() for grid in np.meshgrid(angles, radii)))[:, None]
    solutions = (_solved(points, x, sign) for sign in (-1, 1))
    return sum((abs(theta) <= 1).all(axis=-1).mean(axis=0) for theta in solutions)


def _moons_log_posterior(theta: Array, x: Array) -> Array:
    at = x - _turned(theta) - [0.25, 0.0]
    radius = np.hypot(*at.T)
    log_normal = -0.5 * ((radius - _RADIUS) / _RADIUS_SD) ** 2 - np.log(_RADIUS_SD)
    log_likelihood = log_normal - 0.5 * np.log(2 * np.pi) - np.log(np.pi * radius)
    each, place = np.unique(x, axis=0, return_inverse=True)
    parts = np.array_split(each, -(-len(each) // 200))
    inside = np.concatenate([_moons_inside(part) for part in parts])[place.ravel()]
    return np.where(at[:, 0] > 0, log_likelihood, -np.inf) - np.log(inside)


def _moons_draws(x: Array, n_draws: int, rng: Generator) -> Array:
    def propose(at: Array) -> Array:
        return _solved(_random_crescent(len(at), rng), at, rng.choice([-1, 1], len(at)))

    return _inside(propose, n_draws, x, 1.0)


MOONS = Problem(
    "two_moons",
    box(1.0, 2),
    lambda theta, rng: _random_crescent(len(theta), rng) + _turned(theta),
    _moons_log_posterior,
    _moons_draws,
    half_width=1.0,
)

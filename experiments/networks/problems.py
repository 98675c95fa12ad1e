"""Problems whose exact posterior is known: as a density, and as draws.

They are those of Lueckmann et al. (2021), "Benchmarking simulation-based inference". Shapes are
those of tarpon: `theta (n_sims, n_dims)`, `x (n_sims, n_data)`, draws `(n_draws, n_sims, n_dims)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import qmc

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator, and the exact posterior.

    Arguments:
        name: The name.
        prior: Function of a number and a generator that returns truths.
        simulate: Function of truths and a generator that returns observations.
        log_posterior: Function of truths `(n_sims, n_dims)` and observations that returns the
            normalised log-density of the exact posterior, `(n_sims,)`.
        draw: Function of observations, a number of draws and a generator that returns draws of
            the exact posterior.
        half_width: Half the width of the box in which the prior is uniform; None if it is normal.
        sd: Standard deviation of a normal prior.
        n_dims: Number of parameters.
    """

    name: str
    prior: Callable[[int, Generator], Array]
    simulate: Callable[[Array, Generator], Array]
    log_posterior: Callable[[Array, Array], Array]
    draw: Callable[[Array, int, Generator], Array]
    half_width: float | None = None
    sd: float | None = None
    n_dims: int = 2

    def study(self, n_sims: int, seed: int) -> tuple[Array, Array]:
        """Return truths and observations."""
        rng = np.random.default_rng(seed)
        theta = self.prior(n_sims, rng)
        return theta, self.simulate(theta, rng)


def _box(half_width: float, n_dims: int) -> Callable[[int, Generator], Array]:
    return lambda n, rng: rng.uniform(-half_width, half_width, (n, n_dims))


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
    _box(_WIDE, 2),
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
    _box(1.0, 2),
    lambda theta, rng: _random_crescent(len(theta), rng) + _turned(theta),
    _moons_log_posterior,
    _moons_draws,
    half_width=1.0,
)

# SLCP, "simple likelihood, complex posterior": x are four points of a normal in two dimensions.
# Given its covariance, the posterior of its mean is a normal cut off by the box, so that only the
# other three parameters need to be integrated numerically.

_SIDE = 3.0
_N_POINTS = 4
_N_STEPS = 30
_STEPS = np.array([0.4, 0.4, 0.8])


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
def _spread(n_log2: int = 15) -> Array:
    """Return points of the box, evenly spread, in the parameters of the covariance."""
    unit = qmc.Sobol(3, rng=np.random.default_rng(0)).random_base2(n_log2)
    return np.concatenate([np.zeros((len(unit), 2)), _SIDE * (2 * unit - 1)], axis=1)


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
    weights = (_slcp_filled(_spread(), one, rng)[1] for one in x)
    return log_likelihood - np.array([logsumexp(w) - np.log(len(w)) for w in weights])


def _slcp_draws(x: Array, n_draws: int, rng: Generator) -> Array:
    """Resample evenly spread points by weight, then let each take steps of Metropolis."""
    return np.stack([_slcp_draws_of(one, n_draws, rng) for one in x], axis=1)


def _slcp_draws_of(x: Array, n_draws: int, rng: Generator) -> Array:
    theta, log_weights = _slcp_filled(_spread(), x, rng)
    weights = np.exp(log_weights - log_weights.max())
    chosen = rng.choice(len(theta), n_draws, p=weights / weights.sum())
    draws, values = theta[chosen], log_weights[chosen]
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
    return draws


SLCP = Problem(
    "slcp", _box(_SIDE, 5), _slcp_simulate, _slcp_log_posterior, _slcp_draws,
    half_width=_SIDE, n_dims=5,
)  # fmt: skip

PROBLEMS = {one.name: one for one in (MOONS, LINEAR, MIXTURE, SLCP)}

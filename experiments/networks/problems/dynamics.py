"""Two differential equations: an epidemic (SIR), and predators and prey (Lotka and Volterra).

Parameters are logarithms of rates, shifted and scaled so that their prior is standard normal.
Steps of Runge and Kutta define the models: the posterior is that of the equations as solved here.
"""

from functools import partial

import numpy as np
from numpy.random import Generator
from scipy.special import xlog1py, xlogy

from .importance import Curve, Function, gridded
from .problem import Array, Problem, normal


def _solved(slope: Function, state: Array, step: float, n_steps: int, every: int) -> Array:
    """Return states `(n_kept, ..., n)` of Runge-Kutta steps of fourth order."""
    kept = []
    for n_done in range(1, n_steps + 1):
        a = slope(state)
        b = slope(state + 0.5 * step * a)
        c = slope(state + 0.5 * step * b)
        d = slope(state + step * c)
        state = np.clip(state + step / 6 * (a + 2 * b + 2 * c + d), -20, 12)
        if n_done % every == 0:
            kept.append(state)
    return np.stack(kept)


# SIR: of a million people one is infected. Infection rate 0.4 and recovery rate 1/8 per day, with
# factors of e^0.5 and e^0.2; on ten days, of 1000 people those who are infected are counted.

_PEOPLE, _COUNTED = 1e6, 1000


def _infected(theta: Array) -> Array:
    """Return the infected share on ten days, `(n, 10)`."""
    infection, recovery = 0.4 * np.exp(0.5 * theta[:, 0]), 0.125 * np.exp(0.2 * theta[:, 1])

    def slope(state: Array) -> Array:
        new = infection * np.exp(np.minimum(state[1], 0))  # logarithms of both shares
        return np.stack([-new, infection * np.exp(np.minimum(state[0], 0)) - recovery])

    start = np.log([[1 - 1 / _PEOPLE], [1 / _PEOPLE]]) * np.ones((2, len(theta)))
    return np.exp(np.minimum(_solved(slope, start, 2.0, 80, 8)[:, 1], -1e-6)).T


def _sir_log_likelihood(theta: Array, one: Array) -> Array:
    share = np.clip(_infected(theta), 1e-12, 1 - 1e-6)
    return (xlogy(one, share) + xlog1py(_COUNTED - one, -share)).sum(axis=1)


def _sir_draws(x: Array, n_draws: int, rng: Generator) -> Array:
    each = (
        gridded(SIR, partial(_sir_log_likelihood, one=one), n_draws, rng, at=np.zeros(2))[0]
        for one in x
    )
    return np.stack(list(each), axis=1)


def _sir_log_posterior(theta: Array, x: Array) -> Array:
    rng = np.random.default_rng(0)
    each = (
        gridded(SIR, partial(_sir_log_likelihood, one=one), 1, rng, at=at)[2]
        for at, one in zip(theta, x, strict=True)
    )
    return np.array(list(each))


SIR = Problem(
    "sir",
    normal(2),
    lambda theta, rng: rng.binomial(_COUNTED, np.clip(_infected(theta), 1e-12, 1 - 1e-6)) * 1.0,
    _sir_log_posterior,
    _sir_draws,
    sd=1.0,
    slow=True,
)

# Lotka-Volterra: thirty prey and one predator; both are counted ten times, to about 10 %.

_RATES, _FACTORS = np.exp([-0.125, -3.0, -0.125, -3.0]), 0.5
_NOISE = 0.1


def _animals(theta: Array) -> Array:
    """Return logarithms of prey and predators at ten times, `(n, 20)`."""
    birth, eaten, death, fed = (_RATES * np.exp(_FACTORS * theta)).T

    def slope(state: Array) -> Array:
        prey, predators = np.exp(np.clip(state, -20, 10))
        return np.stack([birth - eaten * predators, fed * prey - death])

    start = np.log([[30.0], [1.0]]) * np.ones((2, len(theta)))
    return _solved(slope, start, 0.2, 100, 10).reshape(20, -1).T


PREDATORS = Problem(
    "lotka_volterra",
    normal(4),
    lambda theta, rng: _animals(theta) + _NOISE * rng.normal(size=(len(theta), 20)),
    lambda theta, x: Curve(PREDATORS, _animals, _NOISE).log_posterior(theta, x),
    lambda x, n, rng: Curve(PREDATORS, _animals, _NOISE).draw(x, n, rng),
    sd=1.0,
    n_dims=4,
    slow=True,
)

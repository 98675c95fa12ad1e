"""A normal mean with a normal prior, where the posterior is known exactly."""

import numpy as np

from .._base import arguments
from .._base.types import RNG
from ..simulations import Simulations

ESTIMATORS = ("posterior", "prior")


def conjugate(
    estimator: str = "posterior",
    *,
    n_sims: int = 500,
    n_draws: int = 200,
    n_obs: int = 50,
    noise: float = 0.1,
    rng: RNG = None,
) -> Simulations:
    r"""Return draws for the mean of normal observations, from its posterior or from its prior.

    .. math::
        \theta \sim N(0, 1), \quad x_l \sim N(\theta, \sigma_x^2), \quad
        \theta | x \sim N\Big(s \sum_l x_l / \sigma_x^2, \; s\Big), \quad
        s = \Big(1 + \frac{n_x}{\sigma_x^2}\Big)^{-1}

    Draws from the prior have the right coverage although they ignore the data. A test can
    detect them only if it uses `x`.

    Arguments:
        estimator: Estimator: "posterior", or "prior", which ignores the data.
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        n_obs: Number of observations :math:`n_x` per simulation.
        noise: Standard deviation :math:`\sigma_x` of the observations.
        rng: Seed or generator.

    Returns:
        `Simulations` with `x` of shape `(n_sims, n_obs)` and log-densities.

    Example:
        >>> conjugate("prior", n_sims=100, rng=0)
        Simulations(100 simulations, 200 draws each, 1 parameter)
    """
    arguments.one_of("estimator", estimator, ESTIMATORS)
    arguments.sizes(n_sims=n_sims, n_draws=n_draws)
    arguments.sizes(n_sims=n_sims, n_obs=n_obs)
    arguments.between("noise", noise, 1e-100, 1e100)
    draw = np.random.default_rng(arguments.seed(rng))
    theta = draw.standard_normal(n_sims)
    x = theta[:, None] + noise * draw.standard_normal((n_sims, n_obs))
    variance = 1.0 / (1.0 + n_obs / noise**2) if estimator == "posterior" else 1.0
    mean = variance * x.sum(axis=1) / noise**2 if estimator == "posterior" else np.zeros(n_sims)
    z = draw.standard_normal((n_draws, n_sims))
    peak = -0.5 * np.log(2 * np.pi * variance)
    return Simulations(
        mean + np.sqrt(variance) * z,
        theta,
        x=x,
        log_prob_samples=peak - 0.5 * z**2,
        log_prob_theta=peak - 0.5 * (theta - mean) ** 2 / variance,
        names=["mu"],
    )

"""The Gaussian toy of the paper, in any number of dimensions."""

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike

from .._base import arguments
from .._base.types import RNG, Floats
from ..simulations import Simulations

_TRUTH_VARIANCE = {"correct": 1.0, "overconfident": 2.0, "underconfident": 0.5}
CASES = (*_TRUTH_VARIANCE, "biased")
_HALF_BOX = 5.0


def gaussian(
    case: str = "correct",
    *,
    n_sims: int = 500,
    n_draws: int = 200,
    n_dims: int = 2,
    full: bool = False,
    dtype: DTypeLike = np.float64,
    rng: RNG = None,
) -> Simulations:
    r"""Return normal posteriors that are right, too narrow, too wide, or biased.

    The draws of simulation :math:`i` follow :math:`N(\mu_i, \Sigma_i)` with
    :math:`\log \sigma \sim U(-5, -1)`. In the first three cases
    :math:`\mu_i \sim U(-5, 5)^D` and the truth follows :math:`N(\mu_i, k \Sigma_i)`, with
    :math:`k = 1` for "correct", 2 for "overconfident" and 1/2 for "underconfident". In the
    "biased" case the truth follows :math:`U(-5, 5)^D` and

    .. math:: \mu = \theta^* - \mathrm{sign}(\theta^*)\, Z(1 - |\theta^*| / 5)\, \sigma,

    with :math:`Z` the inverse survival function of the half-normal distribution. The bias grows
    outwards, and yet the densities of the truths follow the same law as those of the draws.

    Arguments:
        case: Case: "correct", "overconfident", "underconfident" or "biased".
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        n_dims: Number of parameters.
        full: Whether parameters are correlated, by a random Cholesky factor.
        dtype: Precision of the draws.
        rng: Seed or generator.

    Returns:
        `Simulations` with the log-densities of truths and draws.

    Example:
        >>> gaussian("biased", n_sims=100, n_dims=10, rng=0)
        Simulations(100 simulations, 200 draws each, 10 parameters)
    """
    arguments.one_of("case", case, CASES)
    arguments.sizes(n_sims=n_sims, n_draws=n_draws, n_dims=n_dims)
    dtype, full = _precision(dtype), arguments.flag("full", full)
    draw = np.random.default_rng(arguments.seed(rng))
    shape = (n_sims, n_dims)
    sd = np.exp(draw.uniform(-5.0, -1.0, size=shape))
    factor = _unit_cholesky(n_dims, draw) if full else np.eye(n_dims)
    if case == "biased":
        theta = draw.uniform(-_HALF_BOX, _HALF_BOX, size=shape)
        truth_z = np.sign(theta) * _half_normal_isf(1.0 - abs(theta) / _HALF_BOX)
        mean = theta - sd * (truth_z @ factor.T)
    else:
        mean = draw.uniform(-_HALF_BOX, _HALF_BOX, size=shape)
        truth_z = np.sqrt(_TRUTH_VARIANCE[case]) * draw.standard_normal(shape)
        theta = mean + sd * (truth_z @ factor.T)
    kind = np.float32 if np.dtype(dtype) == np.float32 else np.float64
    z = draw.standard_normal((n_draws, *shape), dtype=kind).astype(dtype, copy=False)
    log_prob = -0.5 * np.einsum("jik,jik->ji", z, z)
    draws = z @ factor.T.astype(dtype) if full else z
    draws *= sd.astype(dtype)
    draws += mean.astype(dtype)
    return Simulations(
        draws,
        theta.astype(dtype),
        log_prob_samples=log_prob,
        log_prob_theta=-0.5 * (truth_z**2).sum(axis=-1),
    )


def _precision(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)
    except Exception:  # of odd arguments NumPy raises any error
        found = np.dtype("O")
    if found.kind != "f":
        wanted = "a type of floating-point numbers, like `np.float32`"
        raise TypeError(arguments.wrong("dtype", wanted, dtype))
    return found


def _half_normal_isf(tail: Floats) -> Floats:
    from scipy.special import ndtri

    return -ndtri(tail / 2)


def _unit_cholesky(n_dims: int, draw: Generator) -> Floats:
    below = np.tril(draw.standard_normal((n_dims, n_dims)), -1)
    factor = below / np.sqrt(n_dims) + np.eye(n_dims)
    return factor / np.linalg.norm(factor, axis=1, keepdims=True)

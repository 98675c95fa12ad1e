"""Flows: draws and log-densities of LAMPE, zuko, and of whatever gives torch distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import arguments, arrays, optional
from .._base.progress import Progress
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations
from . import _torch
from .sampler import problem, told


def from_flow(
    estimator: Any,
    theta: ArrayLike,
    x: ArrayLike,
    n_draws: int = 1000,
    *,
    batch_size: int = 100,
    names: list[str] | None = None,
    on_invalid: str = "raise",
    rng: RNG = None,
    progress: Progress | None = None,
) -> Simulations:
    """Draw from a conditional distribution of torch, with the log-densities of draws and truths.

    Arguments:
        estimator: An `NPE` of LAMPE, a flow of zuko, or any function that takes observations
            `(n, ...)` and returns a distribution with `sample((n_draws,))` and `log_prob`.
        theta: The true parameters, of shape `(n_sims, n_dims)`.
        x: What was observed, of shape `(n_sims, ...)`.
        n_draws: How many draws to make for each.
        batch_size: How many observations to draw for at a time.
        names: One name a parameter.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.
        rng: The seed. That of torch stays as it is.
        progress: Called as `progress(stage, n_done, n_total)`; without it a bar is shown, on a
            terminal or in a notebook.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(200, 2))
        >>> x = theta + rng.normal(size=(200, 2))
        >>> from_flow(lambda x: Independent(Normal(x / 2, 0.5**0.5), 1), theta, x, 99, rng=0)
        Simulations(200 simulations, 99 draws each, 2 parameters)
    """
    truths, observed = problem(theta, x, n_draws)
    n_sims, seed = len(truths), arguments.seed(rng)
    each_x, each_theta = _torch.tensor(x), _torch.tensor(truths)
    distribution: Callable[[Any], Any] = getattr(estimator, "flow", estimator)
    size = arguments.positive("batch_size", batch_size)
    parts = [slice(start, start + size) for start in range(0, n_sims, size)]
    batches = (
        _batch(distribution, each_x[part], each_theta[part], n_draws, (seed, part.start))
        for part in parts
    )
    found = [batch for _, batch in told(enumerate(batches), len(parts), progress)]
    samples, densities = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
    return Simulations(
        samples,
        truths,
        x=observed,
        log_prob_samples=densities[1:],
        log_prob_theta=densities[0],
        names=names,
        on_invalid=on_invalid,
    )


def _batch(
    distribution: Callable[[Any], Any], x: Any, theta: Any, n_draws: int, seeds: tuple[int, int]
) -> tuple[Array, Array]:
    """Return the draws for a few observations, and log-densities of the truths and of them."""
    torch = optional.package("torch")
    with torch.no_grad(), _torch.seeded(*seeds):
        given = distribution(x)
        draws = given.sample((n_draws,))
        truths = theta.to(draws)[None]
        densities = given.log_prob(torch.cat([truths, draws]))
    return arrays.host(draws), arrays.host(densities)

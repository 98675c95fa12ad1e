"""Draws and log-densities of LAMPE, zuko and other functions that return torch distributions."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments, arrays, optional
from .._base.progress import Progress
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations
from . import _torch
from .sampler import problem, told

if TYPE_CHECKING:
    from torch import Tensor


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
        estimator: `NPE` of LAMPE, flow of zuko, or a function of observations `(n, ...)` that
            returns a distribution with `sample((n_draws,))` and `log_prob`.
        theta: True parameters `(n_sims, n_dims)`.
        x: Observations `(n_sims, ...)`.
        n_draws: Number of draws per simulation.
        batch_size: Number of observations per batch.
        names: Names, one per parameter.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
        rng: Seed or generator. The global seeds of torch and NumPy are not changed.
        progress: Function called as `progress(stage, n_done, n_total)`; by default a progress
            bar.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(200, 2))
        >>> x = theta + rng.normal(size=(200, 2))
        >>> from_flow(lambda x: Independent(Normal(x / 2, 0.5**0.5), 1), theta, x, 99, rng=0)
        Simulations(200 simulations, 99 draws each, 2 parameters)
    """
    arguments.function("estimator", getattr(estimator, "flow", estimator), "a flow or a function")
    truths, observed = problem(theta, x, n_draws, names, on_invalid, progress=progress)
    n_sims, seed = len(truths), arguments.seed(rng)
    conditions, targets = _torch.tensor(x), _torch.tensor(truths)
    distribution: Callable[[Tensor], Any] = getattr(estimator, "flow", estimator)
    size = arguments.positive("batch_size", batch_size)
    parts = [slice(start, start + size) for start in range(0, n_sims, size)]
    batches = (
        _batch(distribution, conditions[part], targets[part], n_draws, (seed, part.start))
        for part in parts
    )
    drawn = [batch for _, batch in told(enumerate(batches), len(parts), progress)]
    samples, densities = (np.concatenate(part, axis=1) for part in zip(*drawn, strict=True))
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
    distribution: "Callable[[Tensor], Any]",
    x: "Tensor",
    theta: "Tensor",
    n_draws: int,
    seeds: tuple[int, int],
) -> tuple[Array, Array]:
    """Return the draws for a batch of observations, and the log-densities of truths and draws."""
    torch = optional.package("torch")
    with torch.no_grad(), _torch.seeded(*seeds):
        posterior = distribution(x)
        draws = posterior.sample((n_draws,))
        truths = theta.to(draws)[None]
        densities = posterior.log_prob(torch.cat([truths, draws]))
    return arrays.host(draws), arrays.host(densities)

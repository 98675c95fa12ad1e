"""Draws and log-densities of posteriors of sbi."""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments, arrays, optional
from .._base.pools import within
from .._base.progress import Progress
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations
from . import _gather, _torch, chains
from .sampler import problem, told

if TYPE_CHECKING:
    from torch import Tensor


def from_sbi(
    posterior: Any,
    theta: ArrayLike,
    x: ArrayLike,
    n_draws: int = 1000,
    *,
    batch_size: int = 100,
    time_limit: float | None = None,
    names: list[str] | None = None,
    on_invalid: str = "raise",
    rng: RNG = None,
    progress: Progress | None = None,
) -> Simulations:
    """Draw from a posterior of sbi for many observations.

    Observations are processed in batches if the posterior supports it. If the network puts nearly
    all of its mass outside of the prior, sbi may search for draws without end: with a time limit,
    the observations of such a batch are repeated one by one, and those that time out are reported.
    Log-densities are not corrected for that mass, a constant per observation that changes no
    rank. The chains of an `MCMCPosterior` are thinned to their effective sample size.

    Arguments:
        posterior: Posterior that `build_posterior` returned, of any kind that can sample at any
            `x`.
        theta: True parameters `(n_sims, n_dims)`.
        x: Observations `(n_sims, ...)`.
        n_draws: Number of draws per simulation.
        batch_size: Number of observations per batch.
        time_limit: Seconds allowed for a batch, and then for each of its observations.
        names: Names, one per parameter.
        on_invalid: `"raise"` an error at the end if simulations failed, timed out or contain NaN,
            or `"drop"` them with a warning.
        rng: Seed or generator. The global seeds of torch and NumPy are not changed.
        progress: Function called as `progress(stage, n_done, n_total)`; by default a progress
            bar.
    """
    arguments.function("posterior", posterior, "a posterior of sbi", "sample")
    truths, observed = problem(theta, x, n_draws, names, on_invalid, time_limit, progress)
    n_sims, n_dims = truths.shape
    conditions = _torch.tensor(x)
    seed = arguments.seed(rng)
    size = arguments.positive("batch_size", batch_size)
    n_chains = getattr(posterior, "num_chains", 0)
    n_steps = n_chains * -(-n_draws // n_chains) if n_chains else n_draws
    drawn = _drawn(posterior, conditions, n_steps, size, time_limit, seed)
    by_sim = dict(told(drawn, n_sims, progress))
    samples = _gather.gathered(by_sim, (n_steps, n_sims, n_dims), on_invalid)
    more: dict[str, Any] = {"x": observed, "names": names, "on_invalid": on_invalid}
    if n_chains:
        steps = samples.reshape(n_chains, -1, n_sims, n_dims)
        return chains.thin(steps, truths, **more)
    more |= _log_probs(posterior, samples, truths, conditions, size)
    return Simulations(samples, truths, **more)


def _drawn(
    posterior: Any, x: "Tensor", n_draws: int, batch_size: int, time_limit: float | None, seed: int
) -> Iterator[tuple[int, Array | Exception]]:
    """Yield the index of each simulation, and its draws or the error that prevented them."""
    for start in range(0, len(x), batch_size):
        batch = x[start : start + batch_size]
        try:
            with _torch.seeded(seed, 0, start), _calm():
                draws = within(time_limit, _of_batch, posterior, batch, n_draws)
            yield from enumerate(draws.swapaxes(0, 1), start)
        except Exception:  # The error may concern some observations of the batch only.
            for k, observation in enumerate(batch, start):
                yield k, _alone(posterior, observation, n_draws, time_limit, (seed, 1, k))


def _alone(
    posterior: Any,
    x: "Tensor",
    n_draws: int,
    time_limit: float | None,
    seeds: tuple[int, int, int],
) -> Array | Exception:
    """Return the draws of one simulation, or the error that prevented them."""
    try:
        with _torch.seeded(*seeds):
            return within(time_limit, _of_observation, posterior, x, n_draws)
    except Exception as error:
        return error


def _of_batch(posterior: Any, x: "Tensor", n_draws: int) -> Array:
    if hasattr(posterior, "posteriors"):
        raise NotImplementedError("an ensemble uses the same mixture for all observations")
    drawn = posterior.sample_batched((n_draws,), x=x, show_progress_bars=False)
    return np.asarray(arrays.host(drawn))


def _of_observation(posterior: Any, x: "Tensor", n_draws: int) -> Array:
    torch = optional.package("torch")
    drawn = posterior.sample((n_draws,), x=x[None], show_progress_bars=False)
    if hasattr(posterior, "posteriors"):  # The draws are sorted by member of the ensemble.
        drawn = drawn[torch.randperm(n_draws)]
    return np.asarray(arrays.host(drawn))


@contextmanager
def _calm() -> Iterator[None]:
    """Ignore warnings about the size of batches, which is chosen here."""
    with warnings.catch_warnings():
        for message in ("Note that for batched sampling", "Capping max_sampling_batch_size"):
            warnings.filterwarnings("ignore", message=message)
        yield


def _log_probs(
    posterior: Any, samples: Array, truths: Array, x: "Tensor", batch_size: int
) -> dict[str, Array]:
    """Return the log-densities of draws and truths by name, if the posterior has them."""
    torch = optional.package("torch")
    log_prob = getattr(posterior, "log_prob_batched", None)
    if log_prob is None or "norm_posterior" not in inspect.signature(log_prob).parameters:
        return {}
    n_draws, n_sims, _ = samples.shape
    points = np.concatenate([truths[None].astype(samples.dtype), samples])
    densities = np.full((n_draws + 1, n_sims), np.nan, dtype=samples.dtype)
    drawn = np.flatnonzero(np.isfinite(samples).all(axis=(0, 2)))
    for start in range(0, len(drawn), batch_size):
        sims = drawn[start : start + batch_size]
        batch = torch.as_tensor(points[:, sims], device=x.device)
        try:
            values = log_prob(batch, x=x[torch.as_tensor(sims)], norm_posterior=False)
        except NotImplementedError:
            return {}
        densities[:, sims] = arrays.host(values)
    return {"log_prob_samples": densities[1:], "log_prob_theta": densities[0]}

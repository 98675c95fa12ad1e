"""sbi: draws and log-densities of its posteriors."""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._base import arguments, arrays, optional
from .._base.pools import within
from .._base.progress import Progress
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations
from . import _gather, _torch, chains
from .sampler import problem, told


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

    Draws are made for a batch of observations at a time where the posterior can do so. Where the
    network puts nearly all of its mass outside of the prior, sbi may search for draws without
    end: with a time limit, such a batch is drawn for one by one, and the observations that are
    stuck are reported. Log-densities come without the correction for that mass, which is a
    constant for each observation and changes no rank. The chains of an `MCMCPosterior` are thinned
    to as many draws as they are worth.

    Arguments:
        posterior: What `build_posterior` returns, of any kind that can be drawn from at any `x`.
        theta: The true parameters, of shape `(n_sims, n_dims)`.
        x: What was observed, of shape `(n_sims, ...)`.
        n_draws: How many draws to make for each.
        batch_size: How many observations to draw for at a time.
        time_limit: The seconds that a batch, and then each observation of it, may take.
        names: One name a parameter.
        on_invalid: What to do with simulations that have failed, take too long or hold NaN:
            `"raise"` once all others are done, or `"drop"` to leave them out with a warning.
        rng: The seed. The global ones of torch and NumPy stay as they are.
        progress: Called as `progress(stage, n_done, n_total)`; without it a bar is shown, on a
            terminal or in a notebook.
    """
    truths, observed = problem(theta, x, n_draws)
    n_sims, n_dims = truths.shape
    each_x = _torch.tensor(x)
    seed = arguments.seed(rng)
    size = arguments.positive("batch_size", batch_size)
    n_chains = getattr(posterior, "num_chains", 0)
    n_steps = n_chains * -(-n_draws // n_chains) if n_chains else n_draws
    drawn = _drawn(posterior, each_x, n_steps, size, time_limit, seed)
    found = dict(told(drawn, n_sims, progress))
    samples = _gather.gathered(found, (n_steps, n_sims, n_dims), on_invalid)
    more: dict[str, Any] = {"x": observed, "names": names, "on_invalid": on_invalid}
    if n_chains:
        steps = samples.reshape(n_chains, -1, n_sims, n_dims)
        return chains.thin(steps, truths, **more)
    more |= _log_probs(posterior, samples, truths, each_x, size)
    return Simulations(samples, truths, **more)


def _drawn(
    posterior: Any, x: Any, n_draws: int, batch_size: int, time_limit: float | None, seed: int
) -> Iterator[tuple[int, Any]]:
    """Yield the place of each simulation, and its draws or why there are none."""
    for start in range(0, len(x), batch_size):
        batch = x[start : start + batch_size]
        try:
            with _torch.seeded(seed, 0, start), _calm():
                found = within(time_limit, _of_batch, posterior, batch, n_draws)
            yield from enumerate(found.swapaxes(0, 1), start)
        except Exception:  # Whatever is wrong, it may be so with some of them only.
            for k, one in enumerate(batch, start):
                yield k, _alone(posterior, one, n_draws, time_limit, (seed, 1, k))


def _alone(
    posterior: Any, x: Any, n_draws: int, time_limit: float | None, seeds: tuple[int, int, int]
) -> Array | Exception:
    """Return the draws of one simulation, or why there are none."""
    try:
        with _torch.seeded(*seeds):
            return within(time_limit, _of_one, posterior, x, n_draws)
    except Exception as error:
        return error


def _of_batch(posterior: Any, x: Any, n_draws: int) -> Array:
    if hasattr(posterior, "posteriors"):
        raise NotImplementedError("an ensemble gives all observations the same mixture")
    drawn = posterior.sample_batched((n_draws,), x=x, show_progress_bars=False)
    return np.asarray(arrays.host(drawn))


def _of_one(posterior: Any, x: Any, n_draws: int) -> Array:
    torch = optional.package("torch")
    drawn = posterior.sample((n_draws,), x=x[None], show_progress_bars=False)
    if hasattr(posterior, "posteriors"):  # An ensemble gives the draws of its members in turn.
        drawn = drawn[torch.randperm(n_draws)]
    return np.asarray(arrays.host(drawn))


@contextmanager
def _calm() -> Iterator[None]:
    """Do without the advice on batches, whose size is chosen here."""
    with warnings.catch_warnings():
        for said in ("Note that for batched sampling", "Capping max_sampling_batch_size"):
            warnings.filterwarnings("ignore", message=said)
        yield


def _log_probs(
    posterior: Any, samples: Array, truths: Array, x: Any, batch_size: int
) -> dict[str, Array]:
    """Return the log-densities of draws and truths, by name, where the posterior has any."""
    torch = optional.package("torch")
    log_prob = getattr(posterior, "log_prob_batched", None)
    if log_prob is None or "norm_posterior" not in inspect.signature(log_prob).parameters:
        return {}
    n_draws, n_sims, _ = samples.shape
    points = np.concatenate([truths[None].astype(samples.dtype), samples])
    found = np.full((n_draws + 1, n_sims), np.nan, dtype=samples.dtype)
    drawn = np.flatnonzero(np.isfinite(samples).all(axis=(0, 2)))
    for start in range(0, len(drawn), batch_size):
        where = drawn[start : start + batch_size]
        some = torch.as_tensor(points[:, where], device=x.device)
        try:
            densities = log_prob(some, x=x[torch.as_tensor(where)], norm_posterior=False)
        except NotImplementedError:
            return {}
        found[:, where] = arrays.host(densities)
    return {"log_prob_samples": found[1:], "log_prob_theta": found[0]}

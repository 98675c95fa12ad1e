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
from .._base.types import RNG, Array, ArrayLike, Floats
from ..simulations import Simulations, shapes
from ..simulations.views import with_warning
from . import _gather, _torch, chains
from .sampler import problem, told

if TYPE_CHECKING:
    from torch import Tensor


_PROBED, _FEWEST_PROBES = 20, 20  # one draw of so many is repeated without rejection, and how many
_LEAK, _LARGE_LEAK = 0.01, 0.5  # shares outside of the prior to warn of, of all and of one
_IGNORED = (
    "Note that for batched sampling",
    "Capping max_sampling_batch_size",
    r".* of samples drawn with reject_outside",
)


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
    The share of that mass is estimated for every observation of a `DirectPosterior`, from a few
    draws of the network: log-densities are divided by what is left, a constant per observation
    that changes no rank, and leaks of more than 1 % trigger a warning, here and in `check`. The
    chains of an `MCMCPosterior` are thinned to their effective sample size.

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
    n_sims, *shape = truths.shape
    conditions = _torch.tensor(x)
    seed = arguments.seed(rng)
    size = arguments.positive("batch_size", batch_size)
    n_chains = getattr(posterior, "num_chains", 0)
    n_steps = n_chains * -(-n_draws // n_chains) if n_chains else n_draws
    drawn = _drawn(posterior, conditions, n_steps, size, time_limit, seed)
    by_sim = dict(told(drawn, n_sims, progress))
    samples = _gather.gathered(by_sim, (n_steps, n_sims, *shape), on_invalid)
    more: dict[str, Any] = {"x": observed, "names": names, "on_invalid": on_invalid}
    if n_chains:
        steps = samples.reshape(n_chains, -1, n_sims, *shape)
        return chains.thin(steps, truths, **more)
    more |= _log_probs(posterior, samples, truths, conditions, size)
    inside = _inside(posterior, samples, conditions, size, seed)
    if inside is None:
        return Simulations(samples, truths, **more)
    for name in more.keys() & {"log_prob_samples", "log_prob_theta"}:
        more[name] = more[name] - np.log(inside, dtype=more[name].dtype)
    sims = Simulations(samples, truths, **more)
    if (said := _leak(inside)) is None:
        return sims
    warnings.warn(said, stacklevel=2)
    return with_warning(sims, said)


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
    """Ignore warnings about the size of batches, which is chosen here, and about leaks."""
    with warnings.catch_warnings():
        for message in _IGNORED:
            warnings.filterwarnings("ignore", message=message)
        yield


def _inside(
    posterior: Any, samples: Array, x: "Tensor", batch_size: int, seed: int
) -> Floats | None:
    """Return the share of the network's mass inside the prior, `(n_sims,)`, if it can be told.

    It is estimated from a few draws that are not rejected, at a small part of the cost of all.
    Simulations without draws have NaN.
    """
    sample = getattr(posterior, "sample_batched", None)
    if not hasattr(posterior, "leakage_correction") or sample is None:
        return None
    if "reject_outside_prior" not in inspect.signature(sample).parameters:
        return None
    torch = optional.package("torch")
    n_draws, n_sims = samples.shape[:2]
    n_probes = max(_FEWEST_PROBES, n_draws // _PROBED)
    inside = np.full(n_sims, np.nan)
    support = optional.package("sbi.utils").within_support
    for start, sims in _batches(samples, batch_size):
        with _torch.seeded(seed, 2, start), _calm():
            probes = sample(
                (n_probes,),
                x=x[torch.as_tensor(sims)],
                reject_outside_prior=False,
                show_progress_bars=False,
            )
        within = support(posterior.prior, probes.flatten(0, 1)).reshape(n_probes, -1)
        inside[sims] = arrays.host(within).mean(axis=0)
    return np.maximum(inside, 0.5 / n_probes)  # draws were found, so some mass is inside


def _leak(inside: Floats) -> str | None:
    """Return a warning if much of the network's mass lies outside of the prior."""
    outside = 1 - inside[np.isfinite(inside)]
    if not len(outside) or (outside.mean() < _LEAK and outside.max() < _LARGE_LEAK):
        return None
    return (
        f"{outside.mean():.1%} of the network's mass lies outside of the prior, about "
        f"{outside.max():.0%} at simulation {np.nanargmin(inside)}: sbi rejects draws there, so "
        f"the draws that are tested are those of the truncated network, and log-densities are "
        f"corrected for it."
    )


def _batches(samples: Array, batch_size: int) -> Iterator[tuple[int, Array]]:
    """Yield the start of batches, and the indices of their simulations, all with draws."""
    drawn = np.flatnonzero(np.isfinite(shapes.flat(samples, 1)).all(axis=(0, 2)))
    for start in range(0, len(drawn), batch_size):
        yield start, drawn[start : start + batch_size]


def _log_probs(
    posterior: Any, samples: Array, truths: Array, x: "Tensor", batch_size: int
) -> dict[str, Array]:
    """Return the log-densities of draws and truths by name, if the posterior has them."""
    torch = optional.package("torch")
    log_prob = getattr(posterior, "log_prob_batched", None)
    if log_prob is None or "norm_posterior" not in inspect.signature(log_prob).parameters:
        return {}
    n_draws, n_sims = samples.shape[:2]
    points = np.concatenate([truths[None].astype(samples.dtype), samples])
    densities = np.full((n_draws + 1, n_sims), np.nan, dtype=samples.dtype)
    for _, sims in _batches(samples, batch_size):
        batch = torch.as_tensor(points[:, sims], device=x.device)
        try:
            values = log_prob(batch, x=x[torch.as_tensor(sims)], norm_posterior=False)
        except NotImplementedError:
            return {}
        densities[:, sims] = arrays.host(values)
    return {"log_prob_samples": densities[1:], "log_prob_theta": densities[0]}

"""Samplers: draws from any function."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence

from .._base import arguments, threads
from .._base.pools import Pool, Threads, as_they_end
from .._base.progress import Progress, shown, tracked
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations, shapes
from . import _gather


def from_sampler(
    sampler: Callable[..., ArrayLike],
    theta: ArrayLike,
    x: ArrayLike,
    n_draws: int = 1000,
    *,
    n_workers: int | None = None,
    executor: Any = None,
    time_limit: float | None = None,
    names: list[str] | None = None,
    on_invalid: str = "raise",
    rng: RNG = None,
    progress: Progress | None = None,
) -> Simulations:
    """Draw from the posterior of each simulation, several at a time.

    The random numbers of a simulation depend on the seed and its index only, not on the workers.

    Arguments:
        sampler: Function that returns draws `(n_draws, n_dims)`, or fields `(n_draws, *shape)`. It
            is called with an observation `x[i]`, the number of draws, and a
            `numpy.random.Generator` if it has a parameter `rng`, or a third parameter without a
            default.
        theta: True parameters `(n_sims, n_dims)`, or fields `(n_sims, *shape)`.
        x: Observations, of shape `(n_sims, ...)`.
        n_draws: Number of draws per simulation.
        n_workers: Number of parallel calls; by default one per processor.
        executor: Executor of `concurrent.futures`, or Dask client; by default threads are used.
        time_limit: Seconds per simulation. Calls that take longer are abandoned and reported with
            their index. A stuck thread ends when it returns to Python; a stuck worker of an
            executor is not used again.
        names: Names, one per parameter.
        on_invalid: `"raise"` an error at the end if simulations failed, timed out or contain NaN,
            or `"drop"` them with a warning.
        rng: Seed or generator.
        progress: Function called as `progress(stage, n_done, n_total)`; by default a progress
            bar.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(200, 1))
        >>> x = theta + rng.normal(size=(200, 1))
        >>> def sampler(x, n_draws, rng):
        ...     return x / 2 + rng.normal(size=(n_draws, 1)) / np.sqrt(2)
        >>> tarpon.from_sampler(sampler, theta, x, n_draws=99, rng=0)
        Simulations(200 simulations, 99 draws each, 1 parameter)
    """
    arguments.function("sampler", sampler, "a function of `x[i]` and the number of draws")
    truths, observed = problem(theta, x, n_draws, names, on_invalid, time_limit, progress)
    if executor is not None:
        arguments.function("executor", executor, "an executor of `concurrent.futures`", "submit")
    n_sims, shape = len(truths), truths.shape[1:]
    each_x = observed if isinstance(x, list | tuple) else x
    function = partial(_draws, sampler, n_draws, shape, arguments.name_of_rng(sampler))
    seed = arguments.seed(rng)
    tasks = ((each_x[k], SeedSequence(seed, spawn_key=(k,))) for k in range(n_sims))
    pool = Pool.of(executor) if executor is not None else Threads(threads.n_allowed())
    if n_workers is not None:
        pool = replace(pool, n_workers=arguments.positive("n_workers", n_workers))
    calls = as_they_end(function, tasks, pool, time_limit)
    found = dict(told(calls, n_sims, progress))
    samples = _gather.gathered(found, (n_draws, n_sims, *shape), on_invalid)
    return Simulations(samples, truths, x=observed, names=names, on_invalid=on_invalid)


def told(
    calls: Iterator[tuple[int, Any]], n_sims: int, progress: Progress | None
) -> Iterator[tuple[int, Any]]:
    """Yield the draws of each simulation, and report progress."""
    with shown(progress) as tell:
        yield from tracked(calls, "draws", n_sims, tell)


def problem(
    theta: ArrayLike,
    x: ArrayLike,
    n_draws: int,
    names: Sequence[str] | None,
    on_invalid: str,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> tuple[Array, Array]:
    """Return truths and observations that agree: better found out before an hour than after."""
    shapes.what_to_do(on_invalid)
    if time_limit is not None:
        arguments.above_zero("time_limit", time_limit)
    if progress is not None:
        arguments.function("progress", progress, "a function (stage, n_done, n_total)")
    truths = shapes.array("theta", theta)
    shapes.something_to_rank(shapes.truths(truths).shape[1], None)
    truths = truths[:, None] if truths.ndim == 1 else truths
    shapes.names(names, truths.shape[1:])
    arguments.affordable(
        8.0 * truths.size * arguments.positive("n_draws", n_draws),
        f"`n_draws` = {arguments.shown(n_draws)} for each of {len(truths)} simulations",
        "Draw less, or fewer at a time into files that tests read in blocks.",
    )
    return truths, shapes.needs_x(shapes.observations(x, len(truths)), "a sampler")


def _draws(
    sampler: Callable[..., ArrayLike],
    n_draws: int,
    shape: tuple[int, ...],
    name_of_rng: str,
    task: tuple[Any, SeedSequence],
) -> Array:
    """Return the draws of one simulation. This runs in a worker."""
    x, seeds = task
    given = {name_of_rng: Generator(np.random.PCG64(seeds))} if name_of_rng else {}
    return _gather.shaped(sampler(x, n_draws, **given), n_draws, shape)

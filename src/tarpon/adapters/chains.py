r"""Markov chains, thinned to their effective sample size (ESS).

Neighbouring steps are correlated, so that truths pile up at the lowest and highest ranks, as for
an overconfident posterior. `thin` keeps few enough steps that they are nearly independent.
"""

import warnings
from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from .._base import optional
from .._base.arguments import shown
from .._base.types import Array, ArrayLike, Floats
from ..simulations import Simulations, fields, shapes

__all__ = ["effective", "thin"]

_TAILS = (0.05, 0.95)
_LEAST_ESS = 15  # of a typical simulation; below, the estimate is unreliable
_LEAST_STEPS = 10  # below, the estimate of the ESS does not depend on the chain
_FEW = 32  # simulations that show whether chains and steps are swapped
_CORRELATED = 0.2  # the correlation of neighbouring chains from which they seem to be


def thin(
    chains: ArrayLike | Sequence[ArrayLike],
    theta: ArrayLike,
    *,
    log_prob_chains: ArrayLike | Sequence[ArrayLike] | None = None,
    **more: Any,
) -> Simulations:
    r"""Return simulations with chains thinned until their steps are nearly independent.

    Of :math:`m` steps with an effective sample size (ESS) of :math:`n`, every
    :math:`\lceil 2 m / n \rceil`-th is kept: with half as many steps as the ESS, almost no
    correlation is left. The ESS of short chains is uncertain, and too large a value does harm, so
    :math:`n` is at most the ESS of the median simulation. Simulations may keep different numbers
    of draws. The chains must be free of burn-in. Needs arviz-stats.

    Arguments:
        chains: Steps of shape `(n_chains, n_steps, n_sims, n_dims)`, or `(n_steps, n_sims,
            n_dims)` for one chain per simulation; or a list with one array per simulation,
            `(n_chains, n_steps, n_dims)` or `(n_steps, n_dims)`.
        theta: True parameters `(n_sims, n_dims)`.
        log_prob_chains: Log-densities of the steps, of the shape of `chains` without the last
            axis.
        more: Further arguments of `Simulations`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> steps = rng.normal(size=(2, 500, 20, 1))
        >>> steps += np.roll(steps, 1, axis=1) + np.roll(steps, 2, axis=1)
        >>> thin(steps, rng.normal(size=(20, 1))).draws.most < 300
        True
    """
    shapes.what_to_do(more.get("on_invalid", "raise"))
    theta = shapes.array("theta", theta)
    truths = shapes.truths(theta)
    by_sim = _by_simulation("chains", _flat(chains, theta.shape[1:]), 3)
    _same_number(len(by_sim), truths)
    if _swapped(by_sim):
        n_chains, n_steps = by_sim[0].shape[:2]
        warnings.warn(
            f"`chains` has {n_chains} chains of {n_steps} steps, but neighbouring chains "
            f"correlate as steps do. Are the axes of steps and chains swapped? If so, pass "
            f"{_first_two(chains)}.",
            stacklevel=2,
        )
    if log_prob_chains is None:
        ess = [_smallest_ess(chain) for chain in by_sim]
    else:
        densities = _by_simulation("log_prob_chains", log_prob_chains, 2)
        _as_chains(by_sim, densities)
        ess = [_smallest_ess(*both) for both in zip(by_sim, densities, strict=True)]
    most = float(np.median(ess))
    too_short = _too_short(int(np.median([chain.shape[1] for chain in by_sim])), most)
    if too_short:
        warnings.warn(
            f"{too_short}: posteriors look overconfident if draws are not independent.",
            stacklevel=2,
        )
    every = [
        ceil(2 * chain.shape[0] * chain.shape[1] / min(n, most))
        for chain, n in zip(by_sim, ess, strict=True)
    ]
    if log_prob_chains is not None:
        more["log_prob_samples"] = _steps(densities, every)
    draws = [fields.unflattened(row, theta.shape[1:]) for row in _steps(by_sim, every)]
    return Simulations(draws, theta, **more)


def _flat(chains: Any, shape: tuple[int, ...]) -> Any:
    """Return chains with the axes of a field as one; all others as they are."""
    if len(shape) < 2:
        return chains
    if isinstance(chains, list | tuple):
        return [fields.flattened(shapes.array("chains", chain), shape) for chain in chains]
    return fields.flattened(shapes.array("chains", chains), shape)


def _swapped(by_sim: list[Array]) -> bool:
    """Return whether neighbouring chains correlate more than distant ones and than steps do."""
    n_chains, n_steps = by_sim[0].shape[:2]
    if n_chains < _LEAST_STEPS or any(c.shape[:2] != (n_chains, n_steps) for c in by_sim):
        return False
    some = np.stack(by_sim[:_FEW]).astype(float)
    about = some - some.mean(axis=(1, 2), keepdims=True)
    power = np.square(about).mean(axis=(1, 2))
    power = np.where(power > 0, power, np.inf)

    def correlation(a: Floats, b: Floats) -> float:
        return float(((a * b).mean(axis=(1, 2)) / power).mean())

    half = n_chains // 2
    beside = correlation(about[:, 1:], about[:, :-1])
    far = correlation(about[:, half:], about[:, :-half])
    after = correlation(about[:, :, 1:], about[:, :, :-1])
    noise = 6 / np.sqrt(len(some) * n_chains)
    return beside > max(_CORRELATED + far, noise + far, after)


def _first_two(chains: ArrayLike | Sequence[ArrayLike]) -> str:
    listed = isinstance(chains, list | tuple)
    swapped = "[chain.swapaxes(0, 1) for chain in chains]"
    return f"`{swapped if listed else 'chains.swapaxes(0, 1)'}`"


def _too_short(n_steps: int, ess: float) -> str:
    """Return why typical chains are too short to be thinned, or nothing if they are not."""
    if n_steps < _LEAST_STEPS:
        return (
            f"chains of {n_steps} steps are too short to estimate their effective sample size. "
            f"Run them for at least {_LEAST_STEPS} steps, better for hundreds"
        )
    if ess < _LEAST_ESS:
        return (
            f"the chains of a typical simulation have an effective sample size of about "
            f"{ess:.0f}, and below {_LEAST_ESS} this estimate is unreliable. Run them at least "
            f"{ceil(_LEAST_ESS / ess)} times as long"
        )
    return ""


def _steps(by_sim: list[Array], every: list[int]) -> list[Array]:
    """Return every k-th step of the chains of each simulation, concatenated: at least one."""
    rows = [chain.reshape(-1, *chain.shape[2:]) for chain in by_sim]
    return [row[min(k, len(row)) - 1 :: k] for row, k in zip(rows, every, strict=True)]


def effective(chain: ArrayLike, log_prob: ArrayLike | None = None) -> Floats:
    """Return the effective sample size (ESS) of the chains of a simulation, per score.

    The scores are the parameters, the distance from the mean, and the log-density if given. The
    ESS of a score is the smaller of its bulk and tail ESS (Vehtari et al., 2021).

    Arguments:
        chain: Steps of shape `(n_chains, n_steps, n_dims)`.
        log_prob: Log-densities of the steps, `(n_chains, n_steps)`.
    """
    array_stats = _array_stats()
    steps = _by_simulation("chain", [chain], 3)[0].astype(float)
    if log_prob is not None:
        log_prob = _by_simulation("log_prob", [log_prob], 2)[0]
        _as_chains([steps], [log_prob])
    scores = _scores(steps, log_prob)
    axes = {"chain_axis": 0, "draw_axis": 1}
    bulk = array_stats.ess(scores, method="bulk", **axes)
    tail = array_stats.ess(scores, method="tail", prob=_TAILS, **axes)
    return np.fmin(bulk, tail)


def _scores(chain: Floats, log_prob: ArrayLike | None) -> Floats:
    """Return the scores of every step, `(n_chains, n_steps, n_scores)`."""
    sd = chain.std(axis=(0, 1))
    about = (chain - chain.mean(axis=(0, 1))) / np.where(sd > 0, sd, 1.0)
    scores = [chain, np.square(about).sum(axis=2, keepdims=True)]
    if log_prob is not None:
        scores.append(np.asarray(log_prob, dtype=float)[..., None])
    return np.concatenate(scores, axis=2)


def _smallest_ess(chain: Array, log_prob: Array | None = None) -> float:
    """Return the effective sample size of a simulation, the smallest of all scores."""
    ess = effective(chain, log_prob)
    ess = ess[np.isfinite(ess)]  # a parameter that never varies has none
    return max(1.0, float(ess.min())) if len(ess) else float(chain.shape[0] * chain.shape[1])


def _by_simulation(name: str, chains: ArrayLike | Sequence[ArrayLike], n_axes: int) -> list[Array]:
    """Return one array `(n_chains, n_steps, ...)` per simulation."""
    if isinstance(chains, list | tuple):
        rows = [shapes.array(name, chain) for chain in chains]
    else:
        steps = shapes.array(name, chains)
        if steps.ndim not in (n_axes, n_axes + 1):
            axes = ("n_chains", "n_steps", "n_sims", "n_dims")[: n_axes + 1]
            raise ValueError(
                f"`{name}` must be ({', '.join(axes)}), or without the first axis for one chain "
                f"per simulation, but got {steps.shape}."
            )
        rows = list(np.moveaxis(steps, 2, 0) if steps.ndim == n_axes + 1 else steps.swapaxes(0, 1))
    rows = [row[None] if row.ndim == n_axes - 1 else row for row in rows]
    for i, row in enumerate(rows):
        if row.ndim != n_axes or row.shape[1] < 4:
            swapped = row.ndim == n_axes and row.shape[0] >= 4
            asked = " Are the axes of chains and steps swapped? The second must be the steps."
            hint = asked if swapped else ""
            raise ValueError(
                f"`{name}` of simulation {i} must be (n_chains, n_steps"
                f"{', n_dims' * (n_axes == 3)}) with at least 4 steps, but got {row.shape}.{hint}"
            )
    return rows


def _same_number(n_sims: int, theta: Array) -> None:
    if theta.ndim and n_sims != len(theta):
        raise ValueError(
            f"`chains` must be (n_chains, n_steps, n_sims, n_dims), or a list with one array per "
            f"simulation, for the {len(theta)} simulations of `theta`, but got {n_sims} "
            f"simulations."
        )


def _as_chains(chains: list[Array], densities: list[Array]) -> None:
    wanted = [chain.shape[:2] for chain in chains]
    given = [density.shape for density in densities]
    if given != wanted:
        raise ValueError(
            f"`log_prob_chains` must be like `chains` without the last axis, {shown(wanted)}, "
            f"but got {shown(given)}."
        )


def _array_stats() -> Any:
    user = "the effective sample size"
    return optional.package("arviz_stats.base", user=user).array_stats

r"""Chains: Markov chains hold fewer draws than they have steps.

Neighbouring steps are alike, so ranks among them pile up at both ends, as those of an
overconfident posterior do. `thin` keeps so few of the steps that they are about independent.
"""

import warnings
from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from .._base import optional
from .._base.types import Array, ArrayLike, Floats
from ..simulations import Simulations, shapes

__all__ = ["effective", "thin"]

_TAILS = (0.05, 0.95)
_FEWEST = 15  # draws that the chains of a typical simulation ought to be worth
_SHORTEST = 10  # steps: below, what a chain is worth comes out the same, however it moves


def thin(
    chains: ArrayLike | Sequence[ArrayLike],
    theta: ArrayLike,
    *,
    log_prob_chains: ArrayLike | Sequence[ArrayLike] | None = None,
    **more: Any,
) -> Simulations:
    r"""Return simulations with so few steps of each chain that they are about independent.

    Of :math:`m` steps that are worth :math:`n` independent draws, every
    :math:`\lceil 2 m / n \rceil`-th is kept: at half their number, next to nothing is left of
    the correlation. Short chains make :math:`n` uncertain, and those that seem better than they
    are do harm, so :math:`n` is at most that of the median simulation. Simulations may
    differ in their number of draws. The chains are taken to have forgotten where they began.
    Needs arviz-stats.

    Arguments:
        chains: Of shape `(n_chains, n_steps, n_sims, n_dims)`, or `(n_steps, n_sims, n_dims)`
            for one chain a simulation; or a list with one array `(n_chains, n_steps, n_dims)` or
            `(n_steps, n_dims)` a simulation.
        theta: The true parameters, `(n_sims, n_dims)`.
        log_prob_chains: The log-density of every step, like `chains` without their last axis.
        more: What else `Simulations` take.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> steps = rng.normal(size=(2, 500, 20, 1))
        >>> steps += np.roll(steps, 1, axis=1) + np.roll(steps, 2, axis=1)
        >>> thin(steps, rng.normal(size=(20, 1))).draws.most < 300
        True
    """
    each = _each(chains, 3)
    _one_for_each(len(each), shapes.array("theta", theta))
    if log_prob_chains is None:
        worth = [_worth(chain) for chain in each]
    else:
        densities = _each(log_prob_chains, 2)
        worth = [_worth(*both) for both in zip(each, densities, strict=True)]
    most = float(np.median(worth))
    too_short = _too_short(int(np.median([chain.shape[1] for chain in each])), most)
    if too_short:
        warnings.warn(
            f"{too_short}: draws that are not independent look overconfident.", stacklevel=2
        )
    every = [
        ceil(2 * chain.shape[0] * chain.shape[1] / min(n, most))
        for chain, n in zip(each, worth, strict=True)
    ]
    if log_prob_chains is not None:
        more["log_prob_samples"] = _steps(densities, every)
    return Simulations(_steps(each, every), theta, **more)


def _too_short(n_steps: int, worth: float) -> str:
    """Return why typical chains are too short to be thinned well, and what to do, if they are."""
    if n_steps < _SHORTEST:
        return (
            f"chains of {n_steps} steps are too short to tell how many independent draws they are "
            f"worth. Run them for {_SHORTEST} steps at least, better for hundreds"
        )
    if worth < _FEWEST:
        return (
            f"the chains of a typical simulation are worth about {worth:.0f} independent draws, "
            f"and below {_FEWEST} that is hardly more than a guess. Run them at least "
            f"{ceil(_FEWEST / worth)} times as long"
        )
    return ""


def _steps(each: list[Array], every: list[int]) -> list[Array]:
    """Return some steps of all chains of a simulation, one after the other: one at least."""
    rows = [chain.reshape(-1, *chain.shape[2:]) for chain in each]
    return [row[min(k, len(row)) - 1 :: k] for row, k in zip(rows, every, strict=True)]


def effective(chain: ArrayLike, log_prob: ArrayLike | None = None) -> Floats:
    """Return how many independent draws a simulation's chains are worth, score by score.

    The smaller of the numbers for the bulk and for the tails (Vehtari et al., 2021), of every
    parameter, of the distance from the mean, and of the log-density if there is one.

    Arguments:
        chain: Of shape `(n_chains, n_steps, n_dims)`.
        log_prob: The log-density of every step, `(n_chains, n_steps)`.
    """
    array_stats = _array_stats()
    scores = _scores(shapes.array("chain", chain).astype(float), log_prob)
    axes = {"chain_axis": 0, "draw_axis": 1}
    bulk = array_stats.ess(scores, method="bulk", **axes)
    tail = array_stats.ess(scores, method="tail", prob=_TAILS, **axes)
    return np.fmin(bulk, tail)


def _scores(chain: Floats, log_prob: ArrayLike | None) -> Floats:
    """Return what is ranked of every step, `(n_chains, n_steps, n_scores)`."""
    sd = chain.std(axis=(0, 1))
    about = (chain - chain.mean(axis=(0, 1))) / np.where(sd > 0, sd, 1.0)
    scores = [chain, np.square(about).sum(axis=2, keepdims=True)]
    if log_prob is not None:
        scores.append(np.asarray(log_prob, dtype=float)[..., None])
    return np.concatenate(scores, axis=2)


def _worth(chain: Array, log_prob: Array | None = None) -> float:
    """Return how many draws the chains of a simulation are worth, by the worst of its scores."""
    worth = effective(chain, log_prob)
    worth = worth[np.isfinite(worth)]  # a parameter that never varies has no such number
    return max(1.0, float(worth.min())) if len(worth) else float(chain.shape[0] * chain.shape[1])


def _each(chains: ArrayLike | Sequence[ArrayLike], n_axes: int) -> list[Array]:
    """Return one array `(n_chains, n_steps, ...)` a simulation."""
    if isinstance(chains, list | tuple):
        rows = [shapes.array("chains", chain) for chain in chains]
    else:
        whole = shapes.array("chains", chains)
        if whole.ndim not in (n_axes, n_axes + 1):
            wanted = ("n_chains", "n_steps", "n_sims", "n_dims")[: n_axes + 1]
            raise ValueError(
                f"chains must be ({', '.join(wanted)}), or without the first axis for one chain "
                f"each, but got {whole.shape}."
            )
        rows = list(np.moveaxis(whole, 2, 0) if whole.ndim == n_axes + 1 else whole.swapaxes(0, 1))
    rows = [row[None] if row.ndim == n_axes - 1 else row for row in rows]
    for i, row in enumerate(rows):
        if row.ndim != n_axes or row.shape[1] < 4:
            raise ValueError(
                f"the chains of simulation {i} must be (n_chains, n_steps, n_dims) with 4 steps "
                f"at least, but got {row.shape}."
            )
    return rows


def _one_for_each(n_given: int, theta: Array) -> None:
    if theta.ndim and n_given != len(theta):
        raise ValueError(
            f"`chains` must be (n_chains, n_steps, n_sims, n_dims) with the {len(theta)} "
            f"simulations of `theta`, or a list with one array for each of them, but they are of "
            f"{n_given}."
        )


def _array_stats() -> Any:
    user = "the effective number of draws"
    return optional.package("arviz_stats.base", user=user).array_stats

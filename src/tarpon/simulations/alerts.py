"""Warnings: swapped axes, raw chains."""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from .._base import arrays
from .._base.arrays import power_of_two
from .._base.types import Array, Floats
from .stored import Stored

if TYPE_CHECKING:
    from . import Simulations

_SWAP_FALSE_ALARM = 1e-6
_SQUARE = 100  # draws and simulations that suffice to see which axis is which
_CHAINS = 64  # simulations that suffice to see whether draws come from a chain
_CHAIN_DRAWS = 2000
_CHAIN_BYTES = 2**24
_LAG = 0.1  # the correlation of neighbouring draws from which they do


def warn_if_square_and_swapped(samples: Array) -> None:
    """Warn if there are as many draws as simulations and the draws seem to lie along axis 1.

    An analysis of variance: the draws of one simulation lie together, so the means over the
    draw axis differ between simulations. When it is the means over the simulation axis that
    differ, the two axes are probably swapped.
    """
    from scipy.special import fdtrc

    n_draws, n_sims, n_dims = samples.shape
    if n_draws != n_sims or n_draws < 3 or not n_dims:
        return
    samples = _scaled(arrays.host(samples[:, :_SQUARE])[:_SQUARE])
    n_draws = n_sims = len(samples)
    of_sims, of_draws = samples.mean(axis=0, dtype=float), samples.mean(axis=1, dtype=float)
    total = samples.var(axis=(0, 1), dtype=float)
    between_sims, between_draws = of_sims.var(axis=0), of_draws.var(axis=0)
    rest = np.maximum(total - between_sims - between_draws, np.finfo(float).tiny)
    f_ratio = between_draws / rest * (n_sims - 1)
    p_value = n_dims * fdtrc(n_draws - 1, (n_draws - 1) * (n_sims - 1), f_ratio)
    if np.any((p_value < _SWAP_FALSE_ALARM) & (between_draws > between_sims)):
        warnings.warn(
            "`samples` has as many draws as simulations, and its draws seem to lie along axis 1: "
            "points that share an index of axis 0 lie together, as the draws of one simulation "
            "do. If so, pass `samples.swapaxes(0, 1)`.",
            stacklevel=4,
        )


def _scaled(samples: Array) -> Floats:
    """Return draws times a power of two for each parameter: squares might be out of range."""
    return samples / power_of_two(abs(samples.astype(float)).max(axis=(0, 1)))


def of_chains(sims: "Simulations") -> str | None:
    """Return a warning if the draws of simulations look like a chain; None otherwise."""
    return chained(sims.samples, sims.log_weights)


def chained(samples: Array, log_weights: Array | None) -> str | None:
    """Return a warning if neighbouring draws correlate, like those of a chain; None otherwise.

    Looks at a few simulations: the correlation of neighbours, over all of their parameters.
    """
    n_draws, _, n_dims = samples.shape
    few = slice(0, min(_CHAINS, max(1, _CHAIN_BYTES // (8 * n_draws * n_dims))))
    some = _scaled(arrays.host(samples[:, few])[:_CHAIN_DRAWS])
    there = np.ones((*some.shape[:2], 1))
    if log_weights is not None:
        there[...] = log_weights[:_CHAIN_DRAWS, few, None] > -np.inf
    about = (some - (there * some).sum(axis=0) / there.sum(axis=0)) * there
    square = (about**2).mean(axis=0)
    varies = (some.max(axis=0) > some.min(axis=0)) & (square > 0)
    about /= np.sqrt(np.where(varies, square, np.inf))
    if about.shape[1] > 1:  # what all simulations share is no chain
        about = (about - about.mean(axis=1, keepdims=True)) * there
    n_pairs = (there[1:] * there[:-1]).sum()
    lag = float((about[1:] * about[:-1]).sum() / max(n_pairs * some.shape[2], 1))
    if n_pairs < 2 or not lag >= max(_LAG, 5 / np.sqrt(n_pairs)):
        return None
    return (
        f"neighbouring draws correlate by {lag:.2f}, as those of a chain do. Ranks among them "
        f"look overconfident: thin the chains first, with `tarpon.adapters.chains.thin`."
    )


def warn_if_chained(samples: Array, log_weights: Array | None) -> None:
    """Warn of draws in memory that look like a chain."""
    said = None if isinstance(samples, Stored) else chained(samples, log_weights)
    if said is not None:
        warnings.warn(said, stacklevel=3)

"""Which simulations hold numbers that are none, and the box that the others lie in."""

from typing import Any

import numpy as np

from .. import backends
from .._base import arrays
from .._base.types import Array

_ON_INVALID = ("raise", "drop")


def pooled_box(samples: Array, theta: Array) -> tuple[Array, Array]:
    """Return the corners `(low, high)` of the box that holds every truth and every draw."""
    # Truths and draws must enter alike: a box around the truths alone tells them apart,
    # and the ranks of an exact posterior are then no longer uniform.
    if not samples.shape[2]:
        return np.empty(0), np.empty(0)
    low, high = backends.of(samples).extent(samples)
    xp = arrays.namespace(theta)
    least, most = (arrays.host(end(theta, axis=0)) for end in (xp.amin, xp.amax))
    return np.minimum(low, least), np.maximum(high, most)


def invalid(sims: Any, box: tuple[Array, Array]) -> Array:
    """Return which simulations hold NaN or infinite values.

    Arguments:
        sims: The `Simulations`, in memory.
        box: Their box, which has seen any such point there is.
    """
    bad = np.zeros(sims.n_sims, dtype=bool)
    if not all(np.isfinite(corner).all() for corner in box):
        for block in sims.blocks():
            finite = arrays.namespace(block.points).isfinite(block.points)
            bad[block.here] = ~arrays.host(finite.all(axis=2).all(axis=0))
    if sims.log_prob_samples is not None:
        bad |= _without_density(sims.log_prob_samples)
        bad |= _without_density(sims.log_prob_theta[None])
    if sims.log_weights is not None:
        finite = (sims.log_weights < np.inf).all(axis=0)
        bad |= ~(finite & (sims.log_weights > -np.inf).any(axis=0))
    if sims.log_weights_theta is not None:
        bad |= ~(sims.log_weights_theta < np.inf)
    return bad


def _without_density(log_prob: Array) -> Array:
    # A density of zero is an answer; an infinite one, or none at all, is a failure.
    bad = (log_prob != log_prob) | (log_prob == np.inf)
    return arrays.host(bad.any(axis=0))


def refuse(invalid: Array, on_invalid: str) -> None:
    """Raise where simulations are invalid and may not be dropped, or none would be left."""
    if on_invalid not in _ON_INVALID:
        raise ValueError(f"`on_invalid` must be 'raise' or 'drop', but got {on_invalid!r}.")
    n_invalid, n_sims = int(invalid.sum()), len(invalid)
    if n_invalid and (on_invalid == "raise" or n_invalid == n_sims):
        advice = (
            "Failed fits are rarely random, so look at them first; `on_invalid='drop'` "
            "(`--on-invalid drop`) then leaves whole simulations out, and the result says how "
            "many."
            if n_invalid < n_sims
            else "None is left to test."
        )
        raise ValueError(
            f"{n_invalid} of {n_sims} simulations hold NaN or infinite values, the first at "
            f"index {int(invalid.argmax())}. {advice}"
        )

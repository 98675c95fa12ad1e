"""Draws of one simulation after the other, put together; those that are missing are named."""

import textwrap
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base.text import clean
from .._base.types import Array
from ..simulations import shapes

_LONGEST_REASON, _MOST_REASONS = 200, 3


def gathered(found: Mapping[int, Any], shape: tuple[int, int, int], on_invalid: str) -> Array:
    """Return draws `(n_draws, n_sims, n_dims)`: those of each simulation, NaN where it has none.

    Arguments:
        found: What was drawn for each simulation, `(n_draws, n_dims)`, or why nothing was.
        shape: The shape of all draws.
        on_invalid: What to do with simulations without draws: "raise" or "drop".
    """
    n_draws, n_sims, n_dims = shape
    failed = {k: why for k, why in sorted(found.items()) if isinstance(why, BaseException)}
    if failed:
        _refuse(failed, n_sims, on_invalid)
    # Half precision gives way to that of the draws.
    nothing = np.full((n_draws, n_dims), np.nan, dtype=np.float16)
    return np.stack([nothing if k in failed else found[k] for k in range(n_sims)], axis=1)


def _refuse(failed: Mapping[int, BaseException], n_sims: int, on_invalid: str) -> None:
    """Say which simulations have no draws and why: raise, or warn where they may be dropped."""
    said = f"{len(failed)} of {n_sims} simulations have no draws: {_reasons(failed)}."
    if on_invalid == "raise" or len(failed) == n_sims:
        raise RuntimeError(
            f"{said} Failed fits are rarely random, so look at them first; `on_invalid='drop'` "
            f"then leaves them out, and the result says how many."
        ) from next(iter(failed.values()))
    warnings.warn(f"{said} They are dropped.", stacklevel=4)


def _reasons(failed: Mapping[int, BaseException]) -> str:
    """Return the indices of what failed, those with the same reason together."""
    indices: dict[str, list[str]] = {}
    for k, error in failed.items():
        kind = "" if isinstance(error, TimeoutError) else f"{type(error).__name__}: "
        why = clean(textwrap.shorten(f"{kind}{error}", _LONGEST_REASON))
        indices.setdefault(why, []).append(str(k))
    said = [f"{', '.join(where)} ({why})" for why, where in indices.items()]
    others = [k for where in list(indices.values())[_MOST_REASONS:] for k in where]
    if others:
        said[_MOST_REASONS:] = [f"{', '.join(others)} (for other reasons)"]
    return "; ".join(said)


def shaped(drawn: Any, n_draws: int, n_dims: int) -> Array:
    """Return the draws of one simulation as an array, `(n_draws, n_dims)`."""
    draws = shapes.array("draws", drawn)
    if draws.ndim == 1 and n_dims == 1:
        draws = draws[:, None]
    if draws.shape != (n_draws, n_dims):
        raise ValueError(f"gave {draws.shape} in place of ({n_draws}, {n_dims}) draws")
    return draws

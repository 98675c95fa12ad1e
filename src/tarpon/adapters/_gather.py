"""Draws of single simulations, gathered into one array."""

import textwrap
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base.text import clean
from .._base.types import Array
from ..simulations import shapes

_LONGEST_REASON, _MOST_REASONS = 200, 3


def gathered(found: Mapping[int, Any], shape: tuple[int, ...], on_invalid: str) -> Array:
    """Return draws `(n_draws, n_sims, *shape)`, NaN for simulations without draws.

    Arguments:
        found: Draws `(n_draws, *shape)` of each simulation, or the exception of its call.
        shape: Shape of all draws.
        on_invalid: `"raise"` an error if draws are missing, or `"drop"` to warn.
    """
    n_draws, n_sims, *one = shape
    failed = {k: why for k, why in sorted(found.items()) if isinstance(why, BaseException)}
    if failed:
        _refuse(failed, n_sims, on_invalid)
    # Stacked with draws, half precision becomes the precision of the draws.
    nothing = np.full((n_draws, *one), np.nan, dtype=np.float16)
    return np.stack([nothing if k in failed else found[k] for k in range(n_sims)], axis=1)


def _refuse(failed: Mapping[int, BaseException], n_sims: int, on_invalid: str) -> None:
    """Raise an error or warn that simulations have no draws, with the reasons."""
    said = f"{len(failed)} of {n_sims} simulations have no draws: {_reasons(failed)}."
    if on_invalid == "raise" or len(failed) == n_sims:
        raise RuntimeError(
            f"{said} Failures are rarely random, so look at them first. `on_invalid='drop'` "
            f"drops them, and the result states how many."
        ) from next(iter(failed.values()))
    warnings.warn(f"{said} They are dropped.", stacklevel=4)


def _reasons(failed: Mapping[int, BaseException]) -> str:
    """Return the indices of failed simulations, grouped by reason."""
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


def shaped(drawn: Any, n_draws: int, shape: tuple[int, ...]) -> Array:
    """Return the draws of one simulation as an array, `(n_draws, *shape)`."""
    draws = shapes.array("draws", drawn)
    if draws.ndim == 1 and shape == (1,):
        draws = draws[:, None]
    if draws.shape != (n_draws, *shape):
        raise ValueError(f"returned draws {draws.shape}, not {(n_draws, *shape)}")
    return draws

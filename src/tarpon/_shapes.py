"""The shapes of what simulations are made of, and what to say where they do not fit together."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from . import _arrays
from ._check import array, where_it_is
from ._stored import Stored, is_stored
from ._types import Array, ArrayLike


def points(samples: ArrayLike, theta: ArrayLike) -> tuple[Array, Array]:
    """Return draws (n_draws, n_sims, n_dims) and truths (n_sims, n_dims) that agree.

    Draws stay where they are, and truths go there.
    """
    samples = where_it_is("samples", samples, 1)
    theta = _arrays.beside(where_it_is("theta", theta, 0), samples)
    if theta.ndim == 1:
        theta = theta[:, None]
    if theta.ndim != 2:
        raise ValueError(
            f"`theta` must be (n_sims, n_dims), or (n_sims,) for one parameter, "
            f"but got {tuple(theta.shape)}."
        )
    shape = n_sims, n_dims = tuple(theta.shape)
    if samples.ndim == 2 and n_dims == 1:
        stored = isinstance(samples, Stored)
        samples = replace(samples, wide=True) if stored else samples[..., None]
    if samples.ndim != 3 or samples.shape[1:] != shape:
        raise ValueError(
            f"`samples` must be (n_draws, {n_sims}, {n_dims}) to match `theta` {shape}, "
            f"but got {tuple(samples.shape)}.{_shape_hint(samples, theta)}"
        )
    if not samples.shape[0] or not n_sims:
        raise ValueError(
            f"at least one simulation and one draw are needed, but `samples` is "
            f"{tuple(samples.shape)}."
        )
    return samples, theta


def _shape_hint(samples: Array, theta: Array) -> str:
    if samples.ndim == 3 and samples.shape[::2] == theta.shape:
        return " Its first two axes look swapped: try `samples.swapaxes(0, 1)`."
    if samples.shape == theta.shape:
        return " If there is one draw a simulation, pass `samples[None]`."
    return " Draws come first, then simulations, then parameters."


def observations(x: ArrayLike | None, n_sims: int) -> Array | None:
    """Return observations whose first axis counts the simulations."""
    if x is None:
        return None
    x = where_it_is("x", x, 0) if is_stored(x) else array("x", x)
    if x.ndim == 0 or x.shape[0] != n_sims:
        raise ValueError(
            f"`x` must have one entry a simulation, ({n_sims}, ...), but got {x.shape}."
        )
    return x


def log_probs(
    draws: ArrayLike | None, truths: ArrayLike | None, n_draws: int | None, n_sims: int | None
) -> tuple[Array, Array] | tuple[None, None]:
    """Return log-densities (n_draws, n_sims) of the draws and (n_sims,) of the truths."""
    if draws is None and truths is None:
        return None, None
    if draws is None or truths is None:
        missing = "log_prob_samples" if draws is None else "log_prob_theta"
        raise ValueError(
            f"`{missing}` is missing: log-densities are needed of the draws and of the truths."
        )
    draws = where_it_is("log_prob_samples", draws, 1)
    truths = _arrays.beside(where_it_is("log_prob_theta", truths, 0), draws)
    n_sims = (math.prod(truths.shape) if n_sims is None else n_sims) or 1
    n_draws = (draws.shape[0] if n_draws is None and draws.ndim else n_draws) or 1
    if truths.shape != (n_sims,):
        raise ValueError(f"`log_prob_theta` must be ({n_sims},), but got {tuple(truths.shape)}.")
    if draws.shape != (n_draws, n_sims):
        swapped = draws.shape[::-1] == (n_draws, n_sims) or draws.shape[:1] == (n_sims,)
        hint = " Its axes look swapped: try `log_prob_samples.T`." if swapped else ""
        raise ValueError(
            f"`log_prob_samples` must be ({n_draws}, {n_sims}), draws first, "
            f"but got {tuple(draws.shape)}.{hint}"
        )
    return draws, truths


def log_weights(
    draws: ArrayLike | None, truths: ArrayLike | None, shape: tuple[int, int]
) -> tuple[Array | None, Array | None]:
    """Return log-weights (n_draws, n_sims) of the draws and, if known, (n_sims,) of the truths."""
    if draws is None:
        if truths is not None:
            raise ValueError("`log_weights_theta` came without `log_weights` of the draws.")
        return None, None
    draws = array("log_weights", draws)
    if draws.shape != shape:
        swapped = draws.shape == shape[::-1]
        hint = " Its axes look swapped: try `log_weights.T`." if swapped else ""
        raise ValueError(f"`log_weights` must be {shape}, but got {draws.shape}.{hint}")
    if truths is None:
        return draws, None
    truths = array("log_weights_theta", truths)
    if truths.shape != shape[1:]:
        raise ValueError(f"`log_weights_theta` must be ({shape[1]},), but got {truths.shape}.")
    return draws, truths


def row(draws: Array, index: int, n_dims: int) -> Array:
    """Return the draws of one simulation, (n_draws, n_dims), of which there must be some."""
    draws = draws[:, None] if draws.ndim == 1 and n_dims == 1 else draws
    if draws.ndim != 2 or draws.shape[1] != n_dims or not len(draws):
        raise ValueError(
            f"the draws of simulation {index} must be (n_draws, {n_dims}) with one draw at least, "
            f"but got {draws.shape}."
        )
    return draws


def per_draw(name: str, rows: Sequence[Array], number: Array) -> Sequence[Array]:
    """Return one number a draw, in one array a simulation."""
    lengths = [row.shape for row in rows]
    if lengths != [(n,) for n in number]:
        raise ValueError(
            f"`{name}` must come as the draws do, one number for each: a list of {len(number)} "
            f"arrays, or flat with `offsets`; lengths differ from those of `samples`."
        )
    return rows


def offsets(given: ArrayLike, n_sims: int) -> Array:
    """Return where each simulation's draws begin, and the last ones end, (n_sims + 1,)."""
    ends = array("offsets", given)
    good = ends.shape == (n_sims + 1,) and ends.dtype.kind in "iu" and ends[0] == 0
    if not good or (np.diff(ends.astype(np.int64)) < 1).any():
        raise ValueError(
            f"`offsets` must be {n_sims + 1} integers that start at 0 and rise by the number of "
            f"draws of each simulation, but got {ends.dtype} of shape {ends.shape}."
        )
    return ends.astype(np.int64)


def names(given: Sequence[str] | None, n_dims: int) -> tuple[str, ...]:
    """Return one name a parameter, `theta_0`, `theta_1`, … where none are given."""
    if given is None:
        return tuple(f"theta_{k}" for k in range(n_dims))
    if isinstance(given, str):
        raise TypeError(f"`names` must be a list of {n_dims} names, but got {given!r}.")
    kept = tuple(str(name) for name in given)
    if len(kept) != n_dims:
        raise ValueError(f"`names` must name {n_dims} parameters, but got {len(kept)}.")
    if len(set(kept)) != n_dims:
        raise ValueError(f"`names` must differ from each other, but got {list(kept)}.")
    return kept

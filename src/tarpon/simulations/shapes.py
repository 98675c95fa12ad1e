"""Shapes that fit together, numbers that are finite, and the errors where they do not."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import backends
from .._base import arguments, arrays
from .._base.text import clean
from .._base.types import Array, ArrayLike
from . import fields
from .stored import Stored


def points(samples: ArrayLike, theta: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
    """Return draws (n_draws, n_sims, n_dims) and truths (n_sims, n_dims) that agree.

    Draws stay where they are, and truths go there. Fields come flat; the third value is the shape
    of one of them, or `(n_dims,)`.
    """
    samples = where_it_is("samples", samples, 1)
    theta = arrays.to_device_of(where_it_is("theta", theta, 0), samples)
    truths(theta)
    n_sims, shape = theta.shape[0], tuple(theta.shape[1:]) or (1,)
    got = tuple(samples.shape) + (1,) * (samples.ndim == 2 and shape == (1,))
    if got[1:] != (n_sims, *shape):
        raise ValueError(
            f"`samples` must be {fields.listed('n_draws', n_sims, *shape)} to match `theta` "
            f"{fields.listed(n_sims, *shape)}, but got {got}.{fields.hint(got, n_sims, shape)}"
        )
    if not samples.shape[0]:
        raise ValueError(
            f"at least one simulation and one draw are needed, but `samples` is "
            f"{tuple(samples.shape)}."
        )
    return flat(samples, 1), flat(theta, 0), shape


def truths(theta: Array) -> Array:
    """Return truths (n_sims, n_dims), or fields flat, of at least one simulation."""
    if not theta.ndim:
        raise ValueError(
            f"`theta` must be (n_sims, n_dims), (n_sims,) for one parameter, or (n_sims, *shape) "
            f"for fields, but got {tuple(theta.shape)}."
        )
    if not theta.shape[0]:
        raise ValueError(
            f"at least one simulation and one draw are needed, but `theta` is "
            f"{tuple(theta.shape)}."
        )
    return flat(theta, 0)


def flat(points: Array, axis: int) -> Array:
    """Return points with all axes after that of the simulations as one; what is stored unread."""
    if points.ndim == axis + 2:
        return points
    if isinstance(points, Stored):
        return replace(points, flat=True)
    return points.reshape(*points.shape[: axis + 1], math.prod(points.shape[axis + 1 :]))


def observations(x: ArrayLike | None, n_sims: int) -> Array | None:
    """Return observations whose first axis counts the simulations."""
    if x is None:
        return None
    x = where_it_is("x", x, 0) if is_stored(x) else array("x", x)
    if x.ndim == 0 or x.shape[0] != n_sims:
        raise ValueError(
            f"`x` must have one entry per simulation, ({n_sims}, ...), but got {x.shape}."
        )
    return x


def log_probs(
    draws: ArrayLike | None, truths: ArrayLike | None, n_draws: int | None, n_sims: int | None
) -> tuple[Array, Array] | tuple[None, None]:
    """Return log-densities (n_draws, n_sims) of the draws and (n_sims,) of the truths."""
    if draws is None and truths is None:
        return None, None
    both_log_probs(draws, truths)
    draws = where_it_is("log_prob_samples", draws, 1)
    truths = arrays.to_device_of(where_it_is("log_prob_theta", truths, 0), draws)
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


def both_log_probs(draws: ArrayLike | None, truths: ArrayLike | None) -> None:
    """Raise unless there are log-densities of the draws and of the truths."""
    if draws is None or truths is None:
        missing = "log_prob_samples" if draws is None else "log_prob_theta"
        raise ValueError(
            f"`{missing}` is missing, it is None: log-densities are needed of the draws and of "
            f"the truths."
        )


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


def row(draws: Array, index: int, shape: tuple[int, ...]) -> Array:
    """Return the draws of one simulation, (n_draws, *shape), of which there must be some."""
    draws = draws[:, None] if draws.ndim == 1 and shape == (1,) else draws
    if draws.shape[1:] != shape or not len(draws):
        raise ValueError(
            f"`samples` of simulation {index} must be {fields.listed('n_draws', *shape)} with one "
            f"draw at least, but got {draws.shape}."
        )
    return draws


def per_draw(name: str, rows: Sequence[Array], number: Array) -> Sequence[Array]:
    """Return one number per draw, in one array per simulation."""
    sizes = [row.shape for row in rows]
    if sizes != [(n,) for n in number]:
        raise ValueError(
            f"`{name}` must come as the draws do, one number for each: a list of {len(number)} "
            f"arrays as long as those of `samples`, or flat with `offsets`, but got "
            f"{arguments.shown(sizes) if sizes else 'one array'}."
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


def names(given: Sequence[str] | None, shape: tuple[int, ...]) -> Sequence[str]:
    """Return one name per parameter: `theta_0`, `theta_1`, … or `theta[0, 0]`, … by default.

    Of a field, names may be those of its axes.
    """
    n_dims = math.prod(shape)
    if given is None:
        field = len(shape) > 1
        return fields.Places(shape) if field else tuple(f"theta_{k}" for k in range(n_dims))
    if isinstance(given, fields.Places) and given.shape == shape:
        return given
    if len(shape) > 1 and isinstance(given, list | tuple) and len(given) == len(shape) != n_dims:
        return fields.Places(shape, arguments.words("names", given, len(shape), "axis"))
    kept = arguments.words("names", given, n_dims, "parameter")
    if len(set(kept)) != n_dims:
        raise ValueError(
            f"`names` must differ from each other, but got {arguments.shown(list(kept))}."
        )
    return kept


def array(name: str, value: ArrayLike) -> Array:
    """Return numbers as a NumPy array in their own precision, without a copy where possible.

    NumPy has no bfloat16: numbers of that precision become single ones, which holds them all.
    """
    if is_stored(value):
        value = Stored.of(value, 0).read()
    try:
        numbers = np.asarray(arrays.host(value))
    except (ValueError, np.ma.MaskError) as error:
        raise ValueError(
            f"`{name}` must be a rectangular array of numbers, but its rows differ in length. "
            f"Draws of unequal number come as a list with one array (n_draws, n_dims) for each "
            f"simulation."
        ) from error
    return _real(name, numbers)


def where_it_is(name: str, value: ArrayLike, axis: int) -> Any:
    """Return numbers on an accelerator or on disk as they are, and all others as `array` does.

    Arguments:
        name: What they are.
        value: The numbers.
        axis: The axis that counts the simulations.
    """
    if arrays.on_device(value):
        return _real(name, arrays.resident(value))
    if is_stored(value):
        return _real(name, Stored.of(value, axis))
    return array(name, value)


def _real(name: str, numbers: Any) -> Any:
    if arrays.kind(numbers) not in "biuf":
        single = isinstance(numbers, np.ndarray) and numbers.ndim == 0
        given = arguments.shown(numbers.item()) if single else clean(numbers.dtype)
        raise TypeError(
            f"`{name}` must hold real numbers, but got {given}. "
            f"Convert it first, for example with `np.asarray({name}, dtype=float)`."
        )
    return numbers


def finite(name: str, numbers: Array) -> Array:
    """Return the numbers, or raise if any is NaN or infinite."""
    if not np.isfinite(numbers).all():
        raise ValueError(f"the {name} must be finite, but some are NaN or infinite.")
    return numbers


def needs_x(x: Array | None, who: str) -> Array:
    """Return observations that must be there for the one who reads them."""
    if x is None:
        raise ValueError(
            f"{who} reads the observations: pass `x=`, of shape (n_sims, ...); it is None."
        )
    return np.asarray(x)


def something_to_rank(n_dims: int, log_probs: Array | None) -> None:
    """Raise if there are neither parameters nor log-densities."""
    if not n_dims and log_probs is None:
        raise ValueError(
            "`theta` must have at least one parameter, (n_sims, n_dims), but got n_dims = 0."
        )


def one_each(summaries: ArrayLike, n_sims: int) -> Array:
    """Return what a summary made of the observations, one entry per simulation."""
    found = array("summary(x)", summaries)
    if found.ndim == 0 or len(found) != n_sims:
        raise ValueError(
            f"`summary` must return one entry per simulation, ({n_sims}, ...), but got "
            f"{found.shape}."
        )
    return found


def n_entries(name: str, given: ArrayLike) -> int:
    """Return how many entries an array or a list has, of which there must be some."""
    shape = getattr(given, "shape", None)
    if isinstance(shape, tuple):
        n = shape[0] if shape else 0
    else:
        n = len(given) if isinstance(given, list | tuple) else 0
    if not n:
        wanted = "an array or a list with one entry per simulation, and one simulation at least"
        raise ValueError(arguments.wrong(name, wanted, given))
    return n


def needs_parameters(n_dims: int) -> None:
    """Raise if only log-densities were given."""
    if not n_dims:
        raise ValueError(
            "this test needs `samples` and `theta`, but only log-densities were given."
        )


def what_to_do(on_invalid: str) -> str:
    """Return what is to be done with invalid simulations."""
    return arguments.one_of("on_invalid", on_invalid, ("raise", "drop"))


def pooled_box(samples: Array, theta: Array) -> tuple[Array, Array]:
    """Return the corners `(low, high)` of the box that holds every truth and every draw."""
    # Truths and draws must enter alike: a box around the truths alone tells them apart,
    # and the ranks of an exact posterior are then no longer uniform.
    if not samples.shape[2]:
        return np.empty(0), np.empty(0)
    low, high = backends.exact(samples).extent(samples)
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
    n_invalid, n_sims = int(invalid.sum()), len(invalid)
    if n_invalid and (on_invalid == "raise" or n_invalid == n_sims):
        advice = (
            "Failed fits are rarely random, so look at them first; `on_invalid='drop'` "
            "(`--on-invalid drop`) then leaves whole simulations out, and the result says how "
            "many."
            if n_invalid < n_sims
            else "None is left to test: look at `samples` and `theta`."
        )
        raise ValueError(
            f"{n_invalid} of {n_sims} simulations hold NaN or infinite values, the first at "
            f"index {int(invalid.argmax())}. {advice}"
        )


_NOT_STORED = ("pandas", "scipy")  # tables, and sparse matrices, which are refused
_IN_MEMORY = ("__dlpack__", "__array_interface__")


def is_stored(value: ArrayLike) -> bool:
    """Return whether an array is not in memory, as far as can be told."""
    if isinstance(value, np.memmap):
        return value.filename is not None and value.mode in ("r", "r+")
    if isinstance(value, Stored):
        return True
    if arrays.package(value) in _NOT_STORED or any(hasattr(value, name) for name in _IN_MEMORY):
        return False
    return all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__"))

"""Checks of what users hand in, and the messages they read when one fails.

A message says what was wanted, what came, and what to do about it. Those about the shapes of
simulations are in `_shapes`.
"""

import importlib
import operator
import secrets
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays
from ._stored import Stored, is_stored
from ._types import RNG, Array, ArrayLike, Floats

_FEWEST_SIMS, FEWEST_DRAWS = 2, 5


def seed(rng: RNG) -> int:
    """Return the integer from which everything random of one call follows.

    A generator gives up 64 of its bits, so a second call with it goes on differently.
    """
    if rng is None:
        return secrets.randbits(64)
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**64, dtype=np.uint64))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise TypeError(
            f"`rng` must be a non-negative integer, a `numpy.random.Generator` or None, "
            f"but got {rng!r}."
        )
    if rng < 0:
        raise ValueError(f"`rng` must not be negative, but got {rng}.")
    return int(rng)


def array(name: str, value: ArrayLike) -> Array:
    """Return numbers as a NumPy array in their own precision, without a copy where possible.

    NumPy has no bfloat16: numbers of that precision become single ones, which holds them all.
    """
    if is_stored(value):
        value = Stored.of(value, 0).read()
    try:
        numbers = np.asarray(_arrays.host(value))
    except ValueError as error:
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
    if _arrays.on_device(value):
        return _real(name, _arrays.resident(value))
    if is_stored(value):
        return _real(name, Stored.of(value, axis))
    return array(name, value)


def _real(name: str, numbers: Any) -> Any:
    if _arrays.kind(numbers) not in "biuf":
        raise TypeError(
            f"`{name}` must hold real numbers, but got {numbers.dtype}. "
            f"Convert it first, for example with `np.asarray({name}, dtype=float)`."
        )
    return numbers


def reference_points(drawn: ArrayLike, n_sims: int, n_dims: int) -> Floats:
    """Return finite reference points, (n_sims, n_dims), or several: (n_sims, n, n_dims)."""
    drawn = array("reference", drawn)
    if drawn.ndim not in (2, 3) or drawn.shape[:: drawn.ndim - 1] != (n_sims, n_dims):
        raise ValueError(
            f"a reference must give one point a simulation, ({n_sims}, {n_dims}), or several, "
            f"({n_sims}, n, {n_dims}), but got {drawn.shape}."
        )
    return finite("reference points", drawn.astype(float, copy=False))


def finite(name: str, numbers: Array) -> Array:
    """Return the numbers, or raise if any is NaN or infinite."""
    if not np.isfinite(numbers).all():
        raise ValueError(f"the {name} must be finite, but some are NaN or infinite.")
    return numbers


def scores(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return scores of shape (n_points, n_sims) or (n_points, n_sims, n_scores), without NaN."""
    values = where_it_is("scores", values, 1)
    if values.shape[:2] != shape or values.ndim not in (2, 3):
        raise ValueError(
            f"scores must be {shape} (points, simulations), or have one more axis for several "
            f"scores, but got {tuple(values.shape)}. A score takes `theta` of shape (points, "
            f"simulations, n_dims) and reduces its last axis."
        )
    if (values != values).any():
        raise ValueError("scores must be numbers, but some are NaN.")
    return values


def one_score(values: ArrayLike, n_points: int) -> Array:
    """Return what an adversary says of the points of one simulation, (n_points,), finite."""
    values = array("scores", values)
    if values.shape != (n_points, 1):
        raise ValueError(
            f"the score of an adversary must be one number a point, ({n_points}, 1) for points of "
            f"shape ({n_points}, 1, n_dims), but got {values.shape}."
        )
    return finite("scores of an adversary", values[:, 0])


def needs_x(x: Array | None, who: str) -> Array:
    """Return observations that must be there for the one who reads them."""
    if x is None:
        raise ValueError(f"{who} reads the observations: pass `x=`, of shape (n_sims, ...).")
    return np.asarray(x)


def needs_parameters(n_dims: int) -> None:
    """Raise if only log-densities came."""
    if not n_dims:
        raise ValueError("this test needs `samples` and `theta`, but only log-densities came.")


def needs_at_least(n_sims: int, n_draws: int) -> None:
    """Raise if there are too few simulations or draws for the swap test."""
    if n_sims < _FEWEST_SIMS or n_draws < FEWEST_DRAWS:
        raise ValueError(
            f"`check` needs at least {_FEWEST_SIMS} simulations of {FEWEST_DRAWS} draws, but got "
            f"{n_sims} of {n_draws}. Use `sbc` or `tarp`, which work with one."
        )


def enough_swaps(n_swaps: int, level: float) -> int:
    """Return the number of swaps, with which a p-value of the level must be possible."""
    n_swaps, fewest = _whole("n_swaps", n_swaps), max(ceil(round(1 / level, 9)) - 1, 1)
    if n_swaps < fewest:
        raise ValueError(
            f"`n_swaps` must be at least {fewest} at level {level:g}, but got {n_swaps}: "
            f"the p-value is never below 1 / (n_swaps + 1)."
        )
    return n_swaps


def positive(name: str, value: int, least: int = 1) -> int:
    """Return a number of things of which there must be some."""
    whole = _whole(name, value)
    if whole < least:
        raise ValueError(f"`{name}` must be at least {least}, but got {whole}.")
    return whole


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` must be a whole number, but got {value!r}.") from None


def score_shapes(
    draws: tuple[int, ...], truths: tuple[int, ...], n_draws: int, n_sims: int
) -> None:
    """Raise if scores that came as arrays have the wrong shapes, `draws` and `truths`."""
    if draws[:2] != (n_draws, n_sims) or truths != draws[1:] or len(draws) > 3:
        raise ValueError(
            f"scores given as arrays must be ({n_draws}, {n_sims}) for the draws and ({n_sims},) "
            f"for the truths, both with one more axis for several, but got {draws} and {truths}."
        )


def probability(name: str, value: float) -> float:
    """Return a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must lie between 0 and 1, but got {value!r}.")
    return float(value)


def same_scores(shares: Sequence[float], before: Sequence[float], names: Sequence[str]) -> None:
    """Raise if simulations have other parameters or densities than those before."""
    if tuple(shares) != tuple(before):
        raise ValueError(
            f"all simulations of a `Monitor` must have the same parameters, and all or none of "
            f"them log-densities: so far it has ranked {', '.join(names) or 'nothing'}, and these "
            f"are ranked in {len(shares)} ways, not {len(before)}. Start another monitor for them."
        )


def same_observations(x: Array | None, before: Sequence[Array]) -> None:
    """Raise if an adversary got observations of some simulations only, or of another shape."""
    came = None if x is None else tuple(x.shape[1:])
    had = before[0].shape if before else None
    if came != had:
        raise ValueError(
            f"an adversary needs the same observations of all simulations, or none: `x` of one "
            f"simulation had shape {had} so far, and now {came}."
        )


def same_adversary(had: bool, given: bool) -> None:
    """Raise if a saved monitor had an adversary and none is given, or the other way round."""
    if had and not given:
        raise ValueError(
            "the saved monitor had an adversary, which is not in the file: pass the same one as "
            "`adversary=`."
        )
    if given and not had:
        raise ValueError("the saved monitor had no adversary: leave `adversary=` out.")


def mergeable(seed: int, other: int, alone: bool, other_alone: bool) -> None:
    """Raise if two monitors are the same, or only one of them has an adversary."""
    if seed == other:
        raise ValueError(
            f"both monitors have the seed {seed}: they are the same, or break ties alike. Give "
            f"each an `rng=` of its own."
        )
    if alone != other_alone:
        raise ValueError("one of the monitors has an adversary and the other has none.")


def existing(path: str | Path) -> Path:
    """Return the path of a file or folder that is there."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    return path


def package(name: str, extra: str) -> Any:
    """Return an optional package, or say how to get it.

    Arguments:
        name: Its name.
        extra: The extra of tarpon that brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this needs {name}: install it with `pip install tarpon[{extra}]`."
        ) from error


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Return a word that is known."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        raise ValueError(f"`{name}` must be one of {words}, but got {value!r}.")
    return value

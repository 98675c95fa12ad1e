"""Every check of what users hand in, and every message they read when it fails.

A message says what was wanted, what came, and what to do about it.
"""

import importlib
import math
import secrets
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays
from ._stored import Stored, is_stored
from ._types import RNG, Array, ArrayLike, Floats

ON_INVALID = ("raise", "drop")
_SWAP_FALSE_ALARM = 1e-6
_FEWEST_SIMS, _FEWEST_DRAWS = 2, 5
_LONGEST_REASON, _MOST_REASONS = 200, 3
_CHAINS = 64  # simulations that suffice to see whether draws come from a chain
_CHAIN_DRAWS = 2000
_CHAIN_BYTES = 2**24
_LAG = 0.1  # the correlation of neighbouring draws from which they do
_SQUARE = 100  # draws and simulations that suffice to see which axis is which


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


def warn_if_square_and_swapped(samples: Array) -> None:
    """Warn when as many draws as simulations came and the draws seem to lie along axis 1.

    An analysis of variance: the draws of one simulation lie together, so the means over the
    draw axis differ between simulations. When it is the means over the simulation axis that
    differ, the two axes are probably swapped.
    """
    from scipy.special import fdtrc

    n_draws, n_sims, n_dims = samples.shape
    if n_draws != n_sims or n_draws < 3 or not n_dims:
        return
    samples = _arrays.host(samples[:, :_SQUARE])[:_SQUARE]
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


def chained(samples: Array, log_weights: Array | None) -> str | None:
    """Return what to say if neighbouring draws are alike, as those of a chain are.

    Looks at a few simulations: the correlation of neighbours, over all of their parameters.
    """
    n_draws, _, n_dims = samples.shape
    few = slice(0, min(_CHAINS, max(1, _CHAIN_BYTES // (8 * n_draws * n_dims))))
    some = _arrays.host(samples[:, few])[:_CHAIN_DRAWS].astype(float)
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


def refuse_invalid(invalid: Array, on_invalid: str) -> None:
    """Raise where simulations are invalid and may not be dropped, or none would be left."""
    if on_invalid not in ON_INVALID:
        raise ValueError(f"`on_invalid` must be 'raise' or 'drop', but got {on_invalid!r}.")
    n_invalid, n_sims = int(invalid.sum()), len(invalid)
    if n_invalid and (on_invalid == "raise" or n_invalid == n_sims):
        advice = (
            "Failed fits are rarely random, so look at them first; `on_invalid='drop'` then "
            "leaves whole simulations out, and the result says how many."
            if n_invalid < n_sims
            else "None is left to test."
        )
        raise ValueError(
            f"{n_invalid} of {n_sims} simulations hold NaN or infinite values, the first at "
            f"index {int(invalid.argmax())}. {advice}"
        )


def no_draws(failed: Mapping[int, BaseException], n_sims: int, on_invalid: str) -> None:
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
        why = textwrap.shorten(f"{kind}{error}", _LONGEST_REASON)
        indices.setdefault(why, []).append(str(k))
    said = [f"{', '.join(where)} ({why})" for why, where in indices.items()]
    others = [k for where in list(indices.values())[_MOST_REASONS:] for k in where]
    if others:
        said[_MOST_REASONS:] = [f"{', '.join(others)} (for other reasons)"]
    return "; ".join(said)


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
    if x is None:
        raise ValueError(f"{who} reads the observations: pass `x=`, of shape (n_sims, ...).")
    return np.asarray(x)


def needs_parameters(n_dims: int) -> None:
    if not n_dims:
        raise ValueError("this test needs `samples` and `theta`, but only log-densities came.")


def needs_at_least(n_sims: int, n_draws: int) -> None:
    if n_sims < _FEWEST_SIMS or n_draws < _FEWEST_DRAWS:
        raise ValueError(
            f"`check` needs at least {_FEWEST_SIMS} simulations of {_FEWEST_DRAWS} draws, but got "
            f"{n_sims} of {n_draws}. Use `sbc` or `tarp`, which work with one."
        )


def positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1, but got {value}.")
    return int(value)


def score_shapes(
    draws: tuple[int, ...], truths: tuple[int, ...], n_draws: int, n_sims: int
) -> None:
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

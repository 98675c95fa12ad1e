"""Draws of unequal number or unequal weight.

A simulation with fewer draws than others is padded with points of weight zero. So there is one
case beside that of equal draws, that of weighted ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from .._base.types import Array, ArrayLike, Floats, Ints
from . import shapes

_PER_DRAW = ("log_prob_samples", "log_weights")


@dataclass(frozen=True)
class Draws:
    """How many draws the truths are ranked among.

    Arguments:
        fewest: The smallest number of draws of a simulation.
        most: The largest.
        worth: The smallest and largest effective sample size (ESS) of a simulation, None if all
            draws weigh the same.
        approximate: Whether weighted draws were resampled since the weights of the truths are
            not known. Everything is exact otherwise.
    """

    fewest: int
    most: int
    worth: tuple[float, float] | None = None
    approximate: bool = False

    @property
    def number(self) -> str:
        """How many there are, in words."""
        return _span(f"{self.fewest:,}", f"{self.most:,}")

    @property
    def value(self) -> str:
        """The effective sample size (ESS), in words; nothing if all draws weigh the same."""
        if self.worth is None:
            return ""
        return _span(*(f"{n:,.0f}" if n >= 10 else f"{n:.1f}" for n in self.worth))

    def __str__(self) -> str:
        number = _span(str(self.fewest), str(self.most))
        draws = "draw" if number == "1" else "draws"
        if self.worth is not None:
            return f"{number} weighted {draws} worth {self.value}"
        resampled = " (resampled by weight, so p is approximate)" if self.approximate else ""
        return f"{number} {draws}{resampled}"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def draws(log_weights: Array, *, approximate: bool) -> Draws:
    """Describe draws by their log-weights `(n_draws, n_sims)`, which are -inf for padding."""
    there = log_weights > -np.inf
    number = there.sum(axis=0)
    fewest, most = int(number.min()), int(number.max())
    largest = log_weights.max(axis=0)
    if (log_weights == largest)[there].all():
        return Draws(fewest, most, approximate=approximate)
    worth = effective(log_weights)
    return Draws(fewest, most, (float(worth.min()), float(worth.max())), approximate)


def relative(log_weights: Array) -> Floats:
    """Return weights `(n, n_sims)` in units of the largest of each simulation."""
    numbers = np.asarray(log_weights, dtype=float)
    return np.exp(numbers - numbers.max(axis=0))


def effective(log_weights: Array) -> Floats:
    r"""Return the effective sample size (ESS) of weighted draws, :math:`(\sum w)^2 / \sum w^2`."""
    w = relative(log_weights)
    return w.sum(axis=0) ** 2 / np.square(w).sum(axis=0)


def accepted(log_weights: Array, rng: Generator) -> Floats:
    """Return log-weights of draws that are kept, each as likely as its weight: 0, others -inf.

    The largest weight of each simulation is always kept, and no draw comes twice.
    """
    w = relative(log_weights)
    return np.where(rng.uniform(size=w.shape) < w, 0.0, -np.inf).astype(np.float32)


def dense(given: Mapping[str, Any], offsets: ArrayLike | None) -> dict[str, Any]:
    """Return draws that are given as one array per simulation as a single array.

    Those of simulations with fewer draws are filled up with the mean of the simulation's points,
    which changes neither the box nor the centre of anything, at weight zero.

    Arguments:
        given: The arrays of `Simulations`, by name. Draws may be a list with one array
            `(n_i, *shape)` a simulation, or with `offsets` one after the other.
        offsets: Where the draws of each simulation begin, and the last ones end, `(n_sims + 1,)`.
    """
    theta = shapes.array("theta", given["theta"])
    shapes.truths(theta)
    points = theta[:, None] if theta.ndim == 1 else theta
    rows = _rows("samples", given["samples"], points, offsets)
    if rows is None:
        return dict(given)
    rows = [shapes.row(row, i, points.shape[1:]) for i, row in enumerate(rows)]
    number = np.array([len(row) for row in rows])
    means = [_centre(row, truth) for row, truth in zip(rows, points, strict=True)]
    filled = {**given, "samples": _filled(rows, number, means), "theta": theta}
    for name in _PER_DRAW:
        if given.get(name) is not None:
            every = _rows(name, given[name], theta, offsets) or ()
            kept = shapes.per_draw(name, [np.asarray(row) for row in every], number)
            filled[name] = _filled(kept, number, [_NOTHING[name]] * len(kept))
    if given.get("log_weights") is None and (number != number[0]).any():
        there = np.arange(number.max())[:, None] < number
        filled["log_weights"] = np.where(there, 0.0, -np.inf).astype(np.float32)
        filled["log_weights_theta"] = np.zeros(len(theta), np.float32)
    return filled


_NOTHING = {"log_prob_samples": 0.0, "log_weights": -np.inf}


def _rows(
    name: str, given: Any, theta: ArrayLike, offsets: ArrayLike | None
) -> Sequence[Array] | None:
    """Return one array per simulation, or None if a single one was given."""
    if offsets is not None:
        flat, ends = shapes.array(name, given), shapes.offsets(offsets, len(theta))
        if flat.shape[:1] != (ends[-1],):
            raise ValueError(
                f"`offsets` end at {ends[-1]}, but `{name}` has shape {flat.shape}: the last "
                f"offset must be the number of all draws together."
            )
        return np.split(flat, ends[1:-1])
    if not by_simulation(given, len(theta)):
        return None
    return [shapes.array(name, row) for row in given]


def by_simulation(given: Any, n_sims: int) -> bool:
    """Return whether draws are a list with one array per simulation."""
    listed = isinstance(given, list | tuple) and len(given) == n_sims
    return listed and all(_is_row(row) for row in given)


def _is_row(row: object) -> bool:
    """Return whether an object is an array with axes, and not the class of one."""
    n_axes = getattr(row, "ndim", None)
    return isinstance(n_axes, int) and n_axes > 0 and not hasattr(row, "tocsr")


def _centre(draws: Array, truth: Array) -> Floats:
    return (draws.sum(axis=0, dtype=float) + truth) / (len(draws) + 1)


def _filled(rows: Sequence[Array], number: Ints, filling: Sequence[Any]) -> Array:
    """Return rows `(n_i, ...)` as one array `(n, n_sims, ...)`, the rest of each filled up."""
    dtype = np.result_type(*(row.dtype for row in rows), np.float32)
    whole = np.empty((number.max(), len(rows), *rows[0].shape[1:]), dtype)
    for i, (row, rest) in enumerate(zip(rows, filling, strict=True)):
        whole[: len(row), i], whole[len(row) :, i] = row, rest
    return whole

r"""Distances as sums of terms, and the constants of these terms, for all backends.

A draw :math:`s` is closer to the centre :math:`r` than the truth :math:`t` if
:math:`\sum_k f(s_k - t_k; t_k - r_k) < 0`, as `_kernels` explains: terms subtract points, never
distances.
"""

from typing import Any, NamedTuple

import numpy as np

from .._base.arrays import host, long_rows, namespace, to_device_of
from .._base.types import Array, Floats

_LARGEST_POWER = {4: 126, 8: 1022}  # of two, by the bytes of a number


class Constants(NamedTuple):
    """The constants of the terms, in the precision of the computation.

    Arguments:
        truth: Truths :math:`t` of shape `(n_sims, n_dims)`.
        away: Differences :math:`t - r`, doubled for "l2", `(n_sims, n_centres, n_dims)`.
        table: Scale, period and inverse period per parameter, `(3, n_dims)`.
    """

    truth: Any
    away: Any
    table: Any

    @property
    def n_centres(self) -> int:
        """The number of centres per simulation."""
        return int(self.away.shape[1])


def prepare(
    term: str, truth: Array, away: Array, scale: Floats, period: Floats | float
) -> Constants:
    """Return the constants of a term, from differences in double precision.

    Arguments:
        term: Distance: "l2", "l1" or "periodic".
        truth: Truths `(n_sims, n_dims)`, in the precision of the computation.
        away: Differences of truths and centres, `(n_sims, n_centres, n_dims)`.
        scale: Factors of the differences, `(n_dims,)`; "l2" and "periodic" square them as well.
        period: Periods, `(n_dims,)` or one for all parameters.
    """
    xp = namespace(truth)
    if term == "periodic":
        turns = xp.round(away / to_device_of(np.asarray(period), away))
        away = away - to_device_of(np.where(np.isfinite(period), period, 0.0), away) * turns
    table: Array = _table(scale, away, period, xp.finfo(truth.dtype))
    away = 2 * away if term == "l2" else away
    away, table = (xp.asarray(to_device_of(a, truth), dtype=truth.dtype) for a in (away, table))
    return Constants(truth, away, table)


def gap(term: str, draws: Array, constants: Constants, centre: int, xp: Any) -> Any:
    """Return how much farther than the truth draws are from a centre, `(n_draws, n_sims)`."""
    truth, away, (scale, turn, per_turn) = constants
    step, away = draws - truth, away[:, centre]
    if term == "l1":
        right = step + (away - abs(away))
        left = -(step + (away + abs(away)))
        return (scale * xp.where(right > left, right, left)).sum(-1)
    if term == "periodic":
        step, away = step - turn * xp.round((step + away) * per_turn), 2 * away
    return ((scale * step) * (scale * (step + away))).sum(-1)


def _table(scale: Floats, away: Array, period: Floats | float, precision: Any) -> Floats:
    """Return scale, period and its inverse of each parameter, `(3, n_dims)`.

    Arguments:
        scale: What differences are multiplied by.
        away: The differences of truths and centres, `(..., n_dims)`.
        period: The period of each parameter, or one for all.
        precision: What NumPy or torch say of the precision to compute in.
    """
    # Rounded down, or the far side of the circle might be farther than the truth that is there.
    per_turn = (1 - 8 * float(precision.eps)) / np.asarray(period)
    scale = centred(scale, away, precision.bits // 8)
    rows = (scale, np.where(np.isfinite(period), period, 0.0), per_turn)
    return np.stack([np.broadcast_to(row, away.shape[-1:]) for row in rows])


def centred(scale: Floats, away: Array, itemsize: int) -> Floats:
    """Return the scale times a constant that brings the largest difference near one.

    Equal scales become a power of two, so that points on a lattice keep their ties. Powers of two
    are kept apart until the end: parameters may be of sizes that no number spans.

    Arguments:
        scale: What differences are multiplied by, one for each parameter, or one for all.
        away: The differences of truths and centers, `(..., n_dims)`.
        itemsize: The bytes of a number in the precision to compute in.
    """
    scale = np.broadcast_to(scale, away.shape[-1:])
    part, power = np.frexp(scale)
    top = np.argsort(scale)[-1:]  # the largest one, if there is any parameter
    part, power = part / np.where(part[top] > 0, part[top], 1.0), power - power[top]
    size, size_power = np.frexp(_largest(abs(away).reshape(-1, away.shape[-1])))
    product, product_power = np.frexp(part * size)
    powers = (power + size_power + product_power)[product > 0]
    shift = -int(powers.max()) if powers.size else 0
    return np.ldexp(part, power + min(shift, _LARGEST_POWER[itemsize]))


def _largest(sizes: Array) -> Floats:
    """Return the largest finite size of each column, 0 if there is none."""
    xp = namespace(sizes)
    largest = _top(sizes)
    return (
        largest if np.isfinite(largest).all() else _top(xp.where(xp.isfinite(sizes), sizes, 0.0))
    )


def _top(sizes: Array) -> Floats:
    """Return the largest of each column."""
    if (xp := namespace(sizes)) is not np:
        return host(xp.amax(sizes, axis=0))
    tops = [rows.max(axis=0).reshape(n, -1).max(axis=0) for rows, n in long_rows(sizes)]
    return np.max(tops, axis=0)

r"""Distances as sums of terms, and what these need beside the draws, for all backends.

As `_kernels` has it, a draw :math:`s` is closer to the center :math:`r` than the truth :math:`t`
where :math:`\sum_k f(s_k - t_k; t_k - r_k) < 0`: terms subtract points, never distances.
"""

from typing import Any, NamedTuple

import numpy as np

from .._base.arrays import beside, host, namespace
from .._base.types import Array, Floats

_LARGEST_POWER = {4: 126, 8: 1022}  # of two, by the bytes of a number


class Constants(NamedTuple):
    """What the terms need beside the draws, in the precision that they are computed in.

    Arguments:
        truth: The truths :math:`t`, of shape `(n_sims, n_dims)`.
        away: The differences :math:`t - r`, doubled for "l2", `(n_sims, n_centers, n_dims)`.
        table: Scale, period and its inverse of each parameter, `(3, n_dims)`.
    """

    truth: Any
    away: Any
    table: Any

    @property
    def n_centers(self) -> int:
        """How many centers there are a simulation."""
        return int(self.away.shape[1])


def prepare(
    term: str, truth: Array, away: Array, scale: Floats, period: Floats | float
) -> Constants:
    """Return the constants of a term, from differences in double precision.

    Arguments:
        term: Which distance: "l2", "l1" or "periodic".
        truth: The truths, `(n_sims, n_dims)`, in the precision to compute in.
        away: The differences of truths and centers, `(n_sims, n_centers, n_dims)`.
        scale: What differences are multiplied by, for "l2" and "periodic" before the square.
        period: The period of each parameter.
    """
    xp = namespace(truth)
    if term == "periodic":
        turns = xp.round(away / beside(np.asarray(period), away))
        away = away - beside(np.where(np.isfinite(period), period, 0.0), away) * turns
    table: Array = _table(scale, away, period, xp.finfo(truth.dtype))
    away = 2 * away if term == "l2" else away
    away, table = (xp.asarray(beside(a, truth), dtype=truth.dtype) for a in (away, table))
    return Constants(truth, away, table)


def exact(theta: Array, dtype: np.dtype[Any]) -> Array:
    """Return truths of NumPy in the given type if that is exact, otherwise in double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        same = theta.astype(dtype)
    return same if np.array_equal(same, theta, equal_nan=True) else theta.astype(np.float64)


def gap(term: str, draws: Array, constants: Constants, center: int, xp: Any) -> Any:
    """Return how much farther draws are from a center than the truth is, `(n_draws, n_sims)`."""
    truth, away, (scale, turn, per_turn) = constants
    step, away = draws - truth, away[:, center]
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
        away: The differences of truths and centers, `(..., n_dims)`.
        period: The period of each parameter, or one for all.
        precision: What NumPy or torch say of the precision to compute in.
    """
    # Rounded down, or the far side of the circle might be farther than the truth that is there.
    per_turn = (1 - 8 * float(precision.eps)) / np.asarray(period)
    scale = centered(scale, away, precision.bits // 8)
    rows = (scale, np.where(np.isfinite(period), period, 0.0), per_turn)
    return np.stack([np.broadcast_to(row, away.shape[-1:]) for row in rows])


def centered(scale: Floats, away: Array, itemsize: int) -> Floats:
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
    xp, sizes = namespace(away), abs(away)
    sizes = xp.where(xp.isfinite(sizes), sizes, 0.0).reshape(-1, away.shape[-1])
    size, size_power = np.frexp(host(xp.amax(sizes, axis=0)))
    product, product_power = np.frexp(part * size)
    powers = (power + size_power + product_power)[product > 0]
    shift = -int(powers.max()) if powers.size else 0
    return np.ldexp(part, power + min(shift, _LARGEST_POWER[itemsize]))

"""Counting in NumPy: the definition for all other backends.

Distances are computed in double precision, each truth in one array with its draws, so that
equal points have equal distances. A few simulations are copied at a time.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .._base.types import Array, Floats, Ints
from ._sums import saw

_BLOCK_BYTES = 4 * 2**20


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
    return samples.min(axis=0).min(axis=0), samples.max(axis=0).max(axis=0)


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below the truth, and equal to it, per parameter."""
    below, equal = np.zeros((2, *theta.shape), dtype=np.int64)
    for sims in _blocks(samples):
        draws, truth = samples[:, sims], theta[sims]
        below[sims], equal[sims] = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
        saw(bool(np.isfinite(draws).all() and np.isfinite(truth).all()))
    return below, equal


def closer(samples: Array, theta: Array, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    return _count(samples, theta, centres, lambda d: ((scale * d) ** 2).sum(axis=-1))


def closer_l1(samples: Array, theta: Array, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
    return _count(samples, theta, centres, lambda d: (scale * abs(d)).sum(axis=-1))


def closer_periodic(
    samples: Array, theta: Array, centres: Floats, scale: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    finite = np.where(np.isfinite(period), period, 1.0)
    wraps = np.isfinite(period)

    def distance(difference: Floats) -> Floats:
        short = difference - np.where(wraps, finite * np.rint(difference / finite), 0.0)
        return ((scale * short) ** 2).sum(axis=-1)

    return _count(samples, theta, centres, distance)


def _count(
    samples: Array, theta: Array, centres: Floats, length: Callable[[Floats], Floats]
) -> tuple[Ints, Ints]:
    """Count the draws closer to the centre than the truth, and the draws as close."""
    below, equal = np.zeros((2, *centres.shape[:-1]), dtype=np.int64)
    for sims in _blocks(samples):
        pooled = np.concatenate([theta[None, sims], samples[:, sims]]).astype(float)
        if centres.ndim == 3:  # several centres per simulation
            pooled = pooled[:, :, None]
        lengths = length(pooled - centres[sims])
        below[sims] = (lengths[1:] < lengths[0]).sum(axis=0)
        equal[sims] = (lengths[1:] == lengths[0]).sum(axis=0)
    return below, equal


def _blocks(samples: Array) -> Iterator[slice]:
    n_draws, n_sims, n_dims = samples.shape
    step = max(1, _BLOCK_BYTES // (8 * n_draws * max(n_dims, 1)))
    for start in range(0, n_sims, step):
        yield slice(start, start + step)

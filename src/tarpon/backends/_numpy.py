"""Counting in NumPy: the definition that every other backend must meet.

Distances are taken in double precision, with each truth in one array with its draws, so that
equal points get equal distances. Copies are made of a few simulations at a time.
"""

from collections.abc import Callable, Iterator

import numpy as np

from .._base.types import Array, Floats, Ints

_BLOCK_BYTES = 4 * 2**20


def extent(samples: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN where there is one."""
    return samples.min(axis=(0, 1)), samples.max(axis=(0, 1))


def smaller(samples: Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below and equal to the truth, parameter by parameter."""
    below, equal = np.zeros((2, *theta.shape), dtype=np.int64)
    for where in _blocks(samples):
        draws, truth = samples[:, where], theta[where]
        below[where], equal[where] = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return below, equal


def closer(samples: Array, theta: Array, centers: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    return _count(samples, theta, centers, lambda d: ((scale * d) ** 2).sum(axis=-1))


def closer_l1(samples: Array, theta: Array, centers: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the center than the truth, by :math:`\sum_k c_k |d_k|`."""
    return _count(samples, theta, centers, lambda d: (scale * abs(d)).sum(axis=-1))


def closer_periodic(
    samples: Array, theta: Array, centers: Floats, scale: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    finite = np.where(np.isfinite(period), period, 1.0)
    wraps = np.isfinite(period)

    def distance(difference: Floats) -> Floats:
        short = difference - np.where(wraps, finite * np.rint(difference / finite), 0.0)
        return ((scale * short) ** 2).sum(axis=-1)

    return _count(samples, theta, centers, distance)


def _count(
    samples: Array, theta: Array, centers: Floats, length: Callable[[Floats], Floats]
) -> tuple[Ints, Ints]:
    """Count the draws that lie less far from the center than the truth, and as far."""
    below, equal = np.zeros((2, *centers.shape[:-1]), dtype=np.int64)
    for where in _blocks(samples):
        pooled = np.concatenate([theta[None, where], samples[:, where]]).astype(float)
        if centers.ndim == 3:  # several centers of each simulation
            pooled = pooled[:, :, None]
        lengths = length(pooled - centers[where])
        below[where] = (lengths[1:] < lengths[0]).sum(axis=0)
        equal[where] = (lengths[1:] == lengths[0]).sum(axis=0)
    return below, equal


def _blocks(samples: Array) -> Iterator[slice]:
    n_draws, n_sims, n_dims = samples.shape
    step = max(1, _BLOCK_BYTES // (8 * n_draws * max(n_dims, 1)))
    for start in range(0, n_sims, step):
        yield slice(start, start + step)

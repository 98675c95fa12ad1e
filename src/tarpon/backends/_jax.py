"""Counting on the device of JAX arrays, with one compiled reduction per distance.

NumPy subtracts truths and centres in double precision, since JAX may be set to single precision.
Draws are only read, and only integers return to the host.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from .._base.arrays import exact, host
from .._base.types import Array, Floats, Ints
from ._terms import Constants, gap, prepare

_SINGLE = ("float16", "bfloat16", "float32")


def extent(samples: jax.Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
    with _precision(samples):
        low, high = _extent(samples)
    return host(low), host(high)


def smaller(samples: jax.Array, theta: Array) -> tuple[Ints, Ints]:
    """Count the draws below the truth, and equal to it, per parameter."""
    truth = host(theta)
    whole = samples.dtype.kind in "biu" and truth.dtype.kind in "biu"
    truth = truth if whole else _exact(truth, samples)
    with _precision(truth):
        return _integers(_smaller(samples, truth))


def closer(samples: jax.Array, theta: Array, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    return _closer("l2", samples, theta, centres, scale)


def closer_l1(
    samples: jax.Array, theta: Array, centres: Floats, scale: Floats
) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
    return _closer("l1", samples, theta, centres, scale)


def closer_periodic(
    samples: jax.Array, theta: Array, centres: Floats, scale: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    return _closer("periodic", samples, theta, centres, scale, period)


def _closer(
    term: str,
    samples: jax.Array,
    theta: Array,
    centres: Floats,
    scale: Floats,
    period: Floats | float = np.inf,
) -> tuple[Ints, Ints]:
    """Count the draws for which the terms sum to less than zero, and to zero."""
    theta, shape = host(theta), np.shape(centres)[:-1]
    around = np.asarray(centres, dtype=float).reshape(len(theta), -1, theta.shape[1])
    away = theta[:, None].astype(float) - around
    constants = prepare(term, _exact(theta, samples), away, np.asarray(scale), period)
    with _precision(constants.truth):
        below, equal = _integers(_count(term, samples, constants))
    return below.reshape(shape), equal.reshape(shape)


@jax.jit
def _extent(samples: jax.Array) -> tuple[jax.Array, jax.Array]:
    return samples.min(axis=(0, 1)), samples.max(axis=(0, 1))


@jax.jit
def _smaller(samples: jax.Array, truth: jax.Array) -> jax.Array:
    return jnp.stack([(samples < truth).sum(axis=0), (samples == truth).sum(axis=0)])


@partial(jax.jit, static_argnums=0)
def _count(term: str, samples: jax.Array, constants: Constants) -> jax.Array:
    draws = samples.astype(constants.truth.dtype)
    counts = []
    for centre in range(constants.n_centres):
        apart = gap(term, draws, constants, centre, jnp)
        counts.append(jnp.stack([(apart < 0).sum(axis=0), (apart == 0).sum(axis=0)]))
    return jnp.stack(counts, axis=2)


def _exact(theta: Array, samples: jax.Array) -> Array:
    """Return the truths in single precision if draws are and that is exact, else in double."""
    dtype = np.float32 if str(samples.dtype) in _SINGLE else np.float64
    return exact(theta, np.dtype(dtype))


def _precision(numbers: Array) -> AbstractContextManager[object]:
    """Enable double precision in JAX if the numbers need it."""
    return jax.enable_x64(True) if numbers.dtype.itemsize == 8 else nullcontext()


def _integers(counts: jax.Array) -> tuple[Ints, Ints]:
    below, equal = np.asarray(counts, dtype=np.int64)
    return below, equal

"""The memory of samples as kernels read it: in blocks, by steps, in a supported type."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._base.types import Array
from ._vectors import widens_halves

# Bytes that are copied, and truths that are prepared, at a time.
_BLOCK_BYTES = 4 * 2**20
_BLOCK_TRUTHS = 2**18


def blocks(samples: Array, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield parts of the samples, as views if a kernel can read them in place, else as copies.

    A part is a few simulations, so that neither the copies nor the constants per truth grow with
    the samples.
    """
    n_draws, n_sims, n_dims = samples.shape
    if _walkable(samples, dtype):
        n_together = max(1, _BLOCK_TRUTHS // max(n_dims, 1))
        for i in range(0, n_sims, n_together):
            yield slice(i, i + n_together), samples[:, i : i + n_together]
        return
    n_rows = max(1, _BLOCK_BYTES // (n_dims * dtype.itemsize))
    n_together = max(1, n_rows // max(n_draws, 1))
    for i in range(0, n_sims, n_together):
        sims = slice(i, i + n_together)
        for j in range(0, n_draws, n_rows):
            yield sims, np.ascontiguousarray(samples[j : j + n_rows, sims], dtype)


def _walkable(samples: Array, dtype: np.dtype[Any]) -> bool:
    return (
        (samples.dtype == dtype or (samples.dtype == np.float16 and widens_halves()))
        and samples.flags.aligned
        and all(step >= 0 and step % samples.itemsize == 0 for step in samples.strides)
        and (samples.strides[2] == samples.itemsize or samples.shape[2] == 1)
    )


def window(samples: Array) -> tuple[Array, tuple[int, int]]:
    """Return the memory from the first number to the last, and the steps of the first two axes."""
    along = [step // samples.itemsize for step in samples.strides]
    size = 1 + sum((n - 1) * step for n, step in zip(samples.shape, along, strict=True))
    flat = as_strided(samples, (max(size, 0),), (samples.itemsize,), writeable=False)
    # Kernels read half floats as bits.
    return flat.view(np.uint16) if flat.dtype == np.float16 else flat, (along[0], along[1])


def working(dtype: np.dtype[Any], *, whole: bool = False) -> np.dtype[Any]:
    """Return the type in which kernels compute; integers become floats unless `whole`."""
    if whole and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)

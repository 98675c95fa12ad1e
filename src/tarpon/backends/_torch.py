"""Counting on the device of torch tensors; only integers return to the host.

Triton kernels read the samples once. Without Triton, torch sums the same terms over a few
simulations at a time.
"""

import math
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from .._base import optional
from .._base.arrays import double, host, plain, to_device_of
from .._base.types import Array, Floats, Ints
from ._sums import saw
from ._terms import Constants, gap, prepare

_BLOCK_BYTES = 64 * 2**20
_PINNED_BYTES = range(2**20, 2**28)  # of copies that are worth memory that stays in place
_OLDEST_TRITON = (3, 6)  # the kernels were not tested with older versions
_SINGLE = (torch.float16, torch.bfloat16, torch.float32)


def extent(samples: Tensor) -> tuple[Array, Array]:
    """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
    ends = torch.aminmax(samples, dim=0)  # both in one pass
    low, high = host(torch.stack([ends.min.amin(dim=0), ends.max.amax(dim=0)]))
    return low, high


def smaller(samples: Tensor, theta: Tensor) -> tuple[Ints, Ints]:
    """Count the draws below the truth, and equal to it, per parameter."""
    whole = not (samples.is_floating_point() or theta.is_floating_point())
    truth = theta if whole else _exact(theta, _working(samples.dtype))
    fused = _fused(samples)
    found = _Found.of((2, *theta.shape), samples)
    counts, lost = found.counts, found.lost
    lost += _spoilt(theta)
    for sims, block in _blocks(samples, in_place=fused is not None):
        if fused:
            counts[:, sims] += fused.smaller(block, truth[sims], lost)
        else:
            counts[0, sims] += (block < truth[sims]).sum(dim=0)
            counts[1, sims] += (block == truth[sims]).sum(dim=0)
            lost += _spoilt(block)
    return found.on_host()


def closer(samples: Tensor, theta: Tensor, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
    return _closer("l2", samples, theta, centres, scale)


def closer_l1(samples: Tensor, theta: Tensor, centres: Floats, scale: Floats) -> tuple[Ints, Ints]:
    r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
    return _closer("l1", samples, theta, centres, scale)


def closer_periodic(
    samples: Tensor, theta: Tensor, centres: Floats, scale: Floats, period: Floats
) -> tuple[Ints, Ints]:
    """Count as `closer` does, each difference taken the short way round its period."""
    return _closer("periodic", samples, theta, centres, scale, period)


def _closer(
    term: str,
    samples: Tensor,
    theta: Tensor,
    centres: Floats,
    scale: Floats,
    period: Floats | float = np.inf,
) -> tuple[Ints, Ints]:
    """Count the draws for which the terms sum to less than zero, and to zero."""
    n_dims = samples.shape[2]
    around = np.asarray(centres, dtype=float).reshape(len(theta), -1, n_dims)
    truth = _exact(theta, _working(samples.dtype)).contiguous()
    fused = _fused(samples)
    count = fused.closer if fused else _count
    found = _Found.of((2, *np.shape(centres)[:-1]), samples)
    counts, lost = found.counts.view(2, *around.shape[:2]), found.lost
    away = double(theta)[:, None] - _sent(around, samples)
    constants = prepare(term, truth, away, scale, period)
    for sims, block in _blocks(samples, in_place=fused is not None):
        part = constants._replace(truth=constants.truth[sims], away=constants.away[sims])
        counts[:, sims] += count(term, block, part, lost)
    return found.on_host()


class _Found(NamedTuple):
    """Both counts, and whether NaN or infinite numbers were lost, for one copy to the host.

    Arguments:
        numbers: All of them in 32 bits, as no simulation has more draws.
        shape: Shape of the counts.
    """

    numbers: Tensor
    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], samples: Tensor) -> Self:
        """Return counts of nothing, on the device of the samples."""
        n = math.prod(shape) + 1
        return cls(torch.zeros(n, dtype=torch.int32, device=samples.device), shape)

    @property
    def counts(self) -> Tensor:
        """The draws below and equal."""
        return self.numbers[1:].view(self.shape)

    @property
    def lost(self) -> Tensor:
        """Zero as long as all numbers were finite, `(1,)`."""
        return self.numbers[:1]

    def on_host(self) -> tuple[Ints, Ints]:
        """Return both counts, and note whether any number was lost."""
        numbers = _received(self.numbers)
        saw(not numbers[0])
        below, equal = numbers[1:].reshape(self.shape)
        return below, equal


def _sent(numbers: Array, samples: Tensor) -> Tensor:
    """Return numbers on the device of the samples."""
    if not samples.is_cuda or numbers.nbytes not in _PINNED_BYTES:
        return to_device_of(numbers, samples)
    return torch.from_numpy(plain(numbers)).pin_memory().to(samples.device, non_blocking=True)


def _received(numbers: Tensor) -> Array:
    """Return numbers of a device as an array."""
    if not numbers.is_cuda or numbers.nbytes not in _PINNED_BYTES:
        return host(numbers)
    return torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers).numpy()


def _count(term: str, draws: Tensor, constants: Constants, lost: Tensor) -> Tensor:
    """Count without Triton, `(2, n_sims, n_centres)`."""
    counts = []
    for centre in range(constants.n_centres):
        away = gap(term, draws, constants, centre, torch)
        if centre == 0:  # others are lost with it
            lost += _spoilt(away)
        counts.append(torch.stack([(away < 0).sum(dim=0), (away == 0).sum(dim=0)]))
    return torch.stack(counts, dim=2)


def _spoilt(numbers: Tensor) -> Tensor:
    """Return whether NaN or infinite numbers spoil the sum of all."""
    return ~numbers.sum(dtype=_working(numbers.dtype)).isfinite()


def _blocks(samples: Tensor, *, in_place: bool) -> Iterator[tuple[slice, Tensor]]:
    """Yield all samples if a kernel can read them in place, otherwise parts of them."""
    n_draws, n_sims, n_dims = samples.shape
    if in_place and (samples.stride(2) == 1 or n_dims == 1):
        yield slice(None), samples
        return
    n_rows = max(1, _BLOCK_BYTES // (8 * n_dims))
    n_together = max(1, n_rows // n_draws)
    for i in range(0, n_sims, n_together):
        sims = slice(i, i + n_together)
        for j in range(0, n_draws, n_rows):
            block = samples[j : j + n_rows, sims]
            yield sims, block.contiguous() if in_place else block


def _fused(samples: Tensor) -> ModuleType | None:
    """Return the Triton kernels, or None if they cannot be used for these samples."""
    return _kernels() if samples.is_cuda and samples.is_floating_point() else None


@cache
def _kernels() -> ModuleType | None:
    triton = optional.installed("triton")
    if triton is None or tuple(map(int, triton.__version__.split(".")[:2])) < _OLDEST_TRITON:
        return None
    from . import _triton

    return _triton


def _working(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which terms are computed."""
    return torch.float32 if dtype in _SINGLE else torch.float64


def _exact(theta: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the truths in the given type if that is exact, otherwise in double precision."""
    same = theta.to(dtype)
    if theta.is_floating_point() and torch.promote_types(theta.dtype, dtype) == dtype:
        return same
    exact = (same.double() == theta.double()) | theta.isnan()
    return same if bool(exact.all()) else theta.double()

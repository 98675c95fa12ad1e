"""Backends: each counts draws, and returns integers.

`_numpy` is the definition. Every other backend returns the same integers wherever no two
distances agree to within the rounding of their sum; a draw that equals the truth bit for bit
is a tie in all of them.
"""

from typing import Protocol

from .._types import Array, Floats, Ints


class Backend(Protocol):
    """The five functions of a backend."""

    def extent(self, samples: Array) -> tuple[Array, Array]:
        """Return the smallest and largest value of each parameter; NaN where there is one."""
        ...

    def smaller(self, samples: Array, theta: Array) -> tuple[Ints, Ints]:
        """Count the draws below and equal to the truth, parameter by parameter."""
        ...

    def closer(
        self, samples: Array, theta: Array, centers: Floats, weight: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k d_k^2`."""
        ...

    def closer_l1(
        self, samples: Array, theta: Array, centers: Floats, weight: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the center than the truth, by :math:`\sum_k w_k |d_k|`."""
        ...

    def closer_periodic(
        self, samples: Array, theta: Array, centers: Floats, weight: Floats, period: Floats
    ) -> tuple[Ints, Ints]:
        """Count as `closer` does, each difference taken the short way round its period."""
        ...


def of(array: Array) -> Backend:
    """Return the backend for an array, picked by the array's own type.

    Only NumPy arrays live on the host today, and for them the fused kernels are picked. They
    are imported here rather than above because numba takes a third of a second to load.
    """
    from . import _kernels

    return _kernels

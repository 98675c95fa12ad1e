"""Backends: each counts draws, and returns integers.

`_numpy` is the definition. Every other backend returns the same integers wherever no two
distances agree to within the rounding of their sum; a draw that equals the truth bit for bit
is a tie in all of them.
"""

from collections.abc import Callable
from typing import Any, Protocol

from .._base import arrays
from .._base.types import Array, Floats, Ints


class Backend(Protocol):
    """The five functions of a backend."""

    def extent(self, samples: Array) -> tuple[Array, Array]:
        """Return the smallest and largest value of each parameter; NaN where there is one."""
        ...

    def smaller(self, samples: Array, theta: Array) -> tuple[Ints, Ints]:
        """Count the draws below and equal to the truth, parameter by parameter."""
        ...

    def closer(
        self, samples: Array, theta: Array, centers: Floats, scale: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the center than the truth, by :math:`\sum_k (c_k d_k)^2`."""
        ...

    def closer_l1(
        self, samples: Array, theta: Array, centers: Floats, scale: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the center than the truth, by :math:`\sum_k c_k |d_k|`."""
        ...

    def closer_periodic(
        self, samples: Array, theta: Array, centers: Floats, scale: Floats, period: Floats
    ) -> tuple[Ints, Ints]:
        """Count as `closer` does, each difference taken the short way round its period."""
        ...


class Swaps(Protocol):
    """The heavy part of the swap test: pooled points, their ranks, and sums of those."""

    def pool(self, truths: Array, draws: Array, place: Ints) -> Array:
        """Return truths and draws as one array, the truths at their places."""
        ...

    def decorrelate(self, points: Array, correlation: Callable[[slice], Array]) -> Array:
        """Return points `(n_sims, n_all, n_dims)` without the correlations of simulations."""
        ...

    def inner_products(self, a: Array, b: Array) -> Array:
        """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
        ...

    def pooled_ranks(self, scores: Array, n_points: int, played: Ints) -> tuple[Array, Array]:
        """Rank all points among the first `n_points`; return how often each is tied too."""
        ...

    def weighted_ranks(
        self, scores: Array, weights: Floats, played: Ints, n_levels: int
    ) -> tuple[Array, Array]:
        """Rank points by the weight below them, in levels; on the CPU alone."""
        ...

    def add_moments(self, ranks: Array, slots: Ints, table: Array, sums: Array) -> None:
        """Add functions of the ranks of the points that play the truth, score by score."""
        ...

    def add_values(self, values: Array, slots: Ints, sums: Array) -> None:
        """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""
        ...

    def add_products(
        self, values: Array, slots: Ints, others: Array, pairs: Array, crossed: Array
    ) -> None:
        """Add the products of those values with each other and with numbers of the simulation."""
        ...


def of(array: Array) -> Backend:
    """Return the backend for an array, picked by the array's own type.

    Backends are imported here rather than above: numba takes a third of a second to load, and
    nobody who has no tensors should wait for torch.
    """
    backend: Any
    if arrays.package(array) == "torch":
        from . import _torch as backend
    elif arrays.package(array) == "jax":
        from . import _jax as backend
    else:
        from . import _kernels as backend
    return backend


def swaps(array: Array) -> Swaps:
    """Return the heavy part of the swap test for an array: torch's for tensors, or the CPU's."""
    chosen: Any
    if arrays.package(array) == "torch":
        from . import _torch_swaps as chosen
    else:
        from . import _swaps as chosen
    return chosen

"""Backends: each counts draws, and returns integers.

`_numpy` is the definition. All other backends return the same integers, unless two distances
agree to within the rounding of their sum. A draw that equals the truth bit for bit is a tie in
every backend.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np

from .._base import arrays
from .._base.types import Array, Floats, Ints
from ._sums import watched as watched

_FEW = 2**27  # numbers that NumPy compares in less time than it takes to compile the kernels
_sizes: list[int] = []  # of arrays that NumPy was chosen for


class Backend(Protocol):
    """The five functions of a backend."""

    def extent(self, samples: Array) -> tuple[Array, Array]:
        """Return the smallest and largest value of each parameter; NaN if any value is NaN."""
        ...

    def smaller(self, samples: Array, theta: Array) -> tuple[Ints, Ints]:
        """Count the draws below the truth, and equal to it, per parameter."""
        ...

    def closer(
        self, samples: Array, theta: Array, centres: Floats, scale: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the centre than the truth, by :math:`\sum_k (c_k d_k)^2`."""
        ...

    def closer_l1(
        self, samples: Array, theta: Array, centres: Floats, scale: Floats
    ) -> tuple[Ints, Ints]:
        r"""Count the draws closer to the centre than the truth, by :math:`\sum_k c_k |d_k|`."""
        ...

    def closer_periodic(
        self, samples: Array, theta: Array, centres: Floats, scale: Floats, period: Floats
    ) -> tuple[Ints, Ints]:
        """Count as `closer` does, each difference taken the short way round its period."""
        ...


class Swaps(Protocol):
    """The expensive part of the swap test: pooled points, scores of their ranks, and sums."""

    def pool(self, truths: Array, draws: Array, place: Ints) -> Array:
        """Return truths and draws as one array, each truth at its given place."""
        ...

    def decorrelate(self, points: Array, correlation: Callable[[slice], Array]) -> Array:
        """Return points `(n_sims, n_all, n_dims)`, decorrelated within each simulation."""
        ...

    def inner_products(self, a: Array, b: Array) -> Array:
        """Return the products of rows `(n_sims, n, n_dims)` with rows `(n_sims, m, n_dims)`."""
        ...

    def pooled_scores(
        self, scores: Array, n_points: int, played: Ints, table: Array
    ) -> tuple[Array, Array]:
        """Return numbers for the ranks of points among the first `n_points`, and count ties."""
        ...

    def weighted_scores(
        self, scores: Array, weights: Floats, played: Ints, table: Array
    ) -> tuple[Array, Array]:
        """Return numbers for ranks by the weight below points, in levels; on the CPU only."""
        ...

    def add_moments(self, scores: Array, slots: Ints, moments: Array, sums: Array) -> None:
        """Add the moments of the normal scores of the points that play the truth."""
        ...

    def add_along(
        self, scores: Array, slots: Ints, moments: Array, along: Array, sums: Array
    ) -> None:
        """Add the first two moments of normal scores times numbers of their simulations."""
        ...

    def mean_moments(self, scores: Array, moments: Array) -> Array:
        """Return the moments of normal scores, averaged over the last axis."""
        ...

    def add_values(self, values: Array, slots: Ints, sums: Array) -> None:
        """Add the values `(n_sims, n_all, n_values)` of the points that play the truth."""
        ...

    def over_rows(
        self,
        run: Callable[[slice, slice, Array], None],
        values: Array,
        slots: Ints,
        n_numbers: int,
    ) -> None:
        """Call a function on some rows and simulations at a time, and the values in them."""
        ...

    def by_simulation(self, function: Callable[[Array], Array], numbers: Array) -> Array:
        """Return a function of every number, computed on some simulations at a time."""
        ...


def of(array: Array) -> Backend:
    """Return the backend for an array, picked by the array's own type.

    Backends are imported here rather than at the top: numba takes a third of a second to load,
    and torch is imported only if there are tensors.
    """
    backend: Any
    if arrays.package(array) == "torch":
        from . import _torch as backend
    elif arrays.package(array) == "jax":
        from . import _jax as backend
    elif hasattr(array, "pieces"):
        from . import _by_piece as backend
    else:
        from . import _kernels as backend
    return backend


def exact(array: Array) -> Backend:
    """Return a backend for an array whose `extent` and `smaller`, which never round, are quick.

    For a few numbers that is NumPy's, unless the kernels are loaded anyway. Large arrays come in
    pieces, so the numbers of all calls count.
    """
    at_hand = isinstance(array, np.ndarray)
    if at_hand and sum(_sizes) + array.size < _FEW and f"{__name__}._kernels" not in sys.modules:
        from . import _numpy

        _sizes.append(array.size)
        return _numpy
    return of(array)


def swaps(array: Array) -> Swaps:
    """Return the functions of the swap test for an array: torch's for tensors, else the CPU's."""
    chosen: Any
    if arrays.package(array) == "torch":
        from . import _torch_swaps as chosen
    else:
        from . import _swaps as chosen
    return chosen


@cache
def fields() -> Any:
    """Return the loops over fields of many cells, which are compiled for the CPU."""
    from . import _field_kernels

    return _field_kernels

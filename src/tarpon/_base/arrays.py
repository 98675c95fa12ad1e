"""Arrays of other packages: which package and device, and the few names that differ.

Code for all devices is written once, with operators, methods and functions that NumPy and torch
have under the same name; `namespace` returns one of the two packages. No package is imported
here that the caller has not imported.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from . import optional
from .types import Array, ArrayLike

_OF_MODULE = {"jaxlib": "jax"}
_LONG = 512  # numbers of a row


def package(array: ArrayLike) -> str:
    """Return the name of the package that defines the type of an array."""
    name = type(array).__module__.partition(".")[0]
    return _OF_MODULE.get(name, name)


def on_device(array: ArrayLike) -> bool:
    """Return whether an array is on a GPU, or another device that has a backend."""
    kind = package(array)
    if kind == "torch":
        return bool(array.is_cuda)
    if kind == "jax":
        return any(device.platform != "cpu" for device in array.devices())
    return kind == "cupy"


def resident(array: ArrayLike) -> ArrayLike:
    """Return an array on a device as its backend needs it: CuPy's memory as a tensor."""
    if package(array) == "torch":
        return array.detach()
    return _tensor(array) if package(array) == "cupy" else array


def _tensor(array: ArrayLike) -> ArrayLike:
    user = "a CuPy array, unless it is passed as `cupy.asnumpy(...)` to use the CPU,"
    return optional.package("torch", user=user).from_dlpack(array)


def host(array: ArrayLike) -> ArrayLike:
    """Return numbers as a NumPy array, without a copy if they are on the CPU already.

    NumPy has no bfloat16, so bfloat16 becomes float32, which is exact.
    """
    kind = package(array)
    if kind == "torch":
        tensor = array.detach().cpu()
        return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    if kind == "jax" and str(array.dtype) == "bfloat16":
        return np.asarray(array.astype("float32"))
    return array.get() if kind == "cupy" else unmasked(array)


def unmasked(numbers: ArrayLike) -> Array:
    """Return numbers as a NumPy array, NaN where they are masked; masked integers become floats.

    Masks are those of NumPy, of arrays in a list too, and the missing values of pandas.
    """
    if isinstance(numbers, list | tuple) and any(np.ma.isMaskedArray(row) for row in numbers):
        numbers = np.ma.array(numbers)
    if package(numbers) == "pandas" and _nullable(numbers):
        return numbers.to_numpy(dtype=float, na_value=np.nan)
    masked = np.ma.isMaskedArray(numbers) and numbers.dtype.kind in "biuf"
    if not masked or not np.ma.is_masked(numbers):
        return np.asarray(numbers)
    return numbers.astype(np.promote_types(numbers.dtype, np.float16)).filled(np.nan)


def _nullable(table: ArrayLike) -> bool:
    """Return whether a table of pandas has numbers of its own types, which may be missing."""
    if not hasattr(table, "ndim"):  # NaT and NA
        return False
    dtypes = list(table.dtypes) if table.ndim == 2 else [table.dtype]
    own = any(not isinstance(dtype, np.dtype) for dtype in dtypes)
    return own and all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes)


def kind(array: Array) -> str:
    """Return the kind of numbers, as in `dtype.kind` of NumPy."""
    return _kind(array.dtype)


@cache
def _kind(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name == "bfloat16":
        return "f"
    return str(dtype.kind if hasattr(dtype, "kind") else np.dtype(name).kind)


def namespace(array: Array) -> Any:
    """Return torch for tensors, and NumPy for all other arrays."""
    return sys.modules["torch"] if package(array) == "torch" else np


def to_device_of(numbers: ArrayLike, array: Array) -> Array:
    """Return numbers on the device of the array, in their own precision."""
    if package(array) != "torch":
        return host(numbers)
    if package(numbers) != "torch":
        numbers = sys.modules["torch"].from_numpy(plain(host(numbers)))
        return numbers.to(array.device, copy=True)
    return numbers.to(array.device)


def plain(array: Array) -> Array:
    """Return an array in native order that is writeable and not reversed, as torch needs it."""
    if array.flags.writeable and array.dtype.isnative and min(array.strides, default=0) >= 0:
        return array
    copy = np.array(array)
    return copy.astype(copy.dtype.newbyteorder("="), copy=False)


def zeros(shape: tuple[int, ...], array: Array) -> Array:
    """Return zeros in single precision on the device of the array."""
    if package(array) == "torch":
        torch = sys.modules["torch"]
        return torch.zeros(shape, dtype=torch.float32, device=array.device)
    return np.zeros(shape, dtype=np.float32)


def rounded_like(truths: Array, draws: Array) -> Array:
    """Return the truths with no more digits than draws: extra digits would identify the truth."""
    if kind(truths) == kind(draws) == "f":
        precision = min(truths.dtype, draws.dtype, key=lambda dtype: dtype.itemsize)
        return namespace(truths).asarray(truths, dtype=precision)
    return truths


def double(array: Array) -> Array:
    """Return an array in double precision."""
    xp = namespace(array)
    return xp.asarray(array, dtype=xp.float64)


def single(array: Array) -> Array:
    """Return an array in single precision."""
    xp = namespace(array)
    return xp.asarray(array, dtype=xp.float32)


def in_order(array: Array, axis: int = 0) -> Array:
    """Return an array sorted along an axis, the first unless told."""
    in_torch = package(array) == "torch"
    return sys.modules["torch"].sort(array, dim=axis)[0] if in_torch else np.sort(array, axis=axis)


def in_units(points: Array, centre: Array, scale: Array) -> Array:
    """Return points about a centre in units of a scale, in single precision.

    Differences of short numbers need no more digits than the numbers have.
    """
    if kind(points) == "f" and points.dtype.itemsize <= 4:
        about = single(points) - single(centre)
        about /= single(scale)
        return about
    return single((points - centre) / scale)


def power_of_two(sizes: Array) -> Array:
    """Return the powers of two that sizes are between a half and one of; 1 for 0, inf and NaN.

    Numbers that are divided by them keep all digits, and have squares that are neither 0 nor
    infinite.
    """
    power = np.frexp(np.where(np.isfinite(sizes), sizes, 0.0))[1]
    return np.ldexp(1.0, np.minimum(power, 1023))


def long_rows(numbers: Array) -> Iterator[tuple[Array, int]]:
    """Yield rows `(n, n_dims)`, several side by side where they are short, and how many.

    NumPy broadcasts and reduces rows of a few numbers at a tenth of the speed of longer ones.

    Example:
        >>> [(rows.shape, n) for rows, n in long_rows(np.zeros((1000, 2)))]
        [((3, 512), 256), ((232, 2), 1)]
    """
    n_rows, n_dims = numbers.shape
    together = max(1, _LONG // max(n_dims, 1))
    whole = n_rows - n_rows % together
    if whole and n_dims:
        yield numbers[:whole].reshape(-1, together * n_dims), together
    if whole < n_rows or not n_dims:
        yield numbers[whole:], 1


Results: TypeAlias = dict[str, Array]


def joined(results: Iterable[Results]) -> Results:
    """Return arrays by name, concatenated over all blocks."""
    blocks = list(results)
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


class Pieces(Protocol):
    """Draws `(n_draws, n_sims, n_dims)` that are read a few simulations at a time."""

    def pieces(self) -> Iterator[tuple[slice, Array]]: ...


class Rows(Protocol):
    """Numbers of simulations, had for a range of them."""

    def __getitem__(self, where: slice, /) -> Array: ...


@dataclass(frozen=True, eq=False)
class Window:
    """A range of the simulations, asked for as if all were there.

    Arguments:
        array: Their numbers.
        start: The place of the first among all.
    """

    array: Any
    start: int

    def __getitem__(self, key: Any) -> Array:
        *before, where = key if isinstance(key, tuple) else (key,)
        return self.array[(*before, slice(where.start - self.start, where.stop - self.start))]


def exact(theta: Array, dtype: np.dtype[Any]) -> Array:
    """Return NumPy truths in the given type if that is exact, otherwise in double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        same = theta.astype(dtype)
    if theta.dtype == dtype or np.array_equal(same, theta, equal_nan=True):
        return same
    return theta.astype(np.float64)

"""Arrays that are not in memory, of which a few simulations are read at a time.

Whatever has `shape`, `dtype` and `__getitem__` will do: memory-mapped files, HDF5, Zarr and
netCDF variables, xarray and Dask arrays.
"""

import mmap
import os
import threading
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ._types import Array, ArrayLike, Ints

_MOST_AT_ONCE = 256 * 2**20  # bytes of whole chunks that are kept for the blocks to come
_IN_MEMORY = ("__dlpack__", "__array_interface__")
_PORTABLE = ("zarr", "dask", "xarray")  # arrays that other processes can read as well
_LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}
_kept = threading.local()
_NOTHING: tuple[Any, int | None, int, Array] = (None, None, 0, np.empty(0))


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


@dataclass(frozen=True)
class Mapped:
    """A view of a file, mapped anew for every read: its memory goes when what was read goes."""

    path: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, view: np.memmap[Any, Any]) -> "Mapped":
        root = view
        while isinstance(root.base, np.memmap):
            root = root.base
        ahead = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return cls(str(root.filename), root.offset + ahead, view.shape, view.strides, view.dtype)

    def __getitem__(self, key: Any) -> Array:
        whole = np.memmap(self.path, mode="r")
        view: Array = np.ndarray(self.shape, self.dtype, whole, self.offset, self.strides)
        return view[key]


@dataclass(frozen=True)
class InHDF5:
    """A dataset of an HDF5 file that is open for reading alone, opened anew for every read."""

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None

    @classmethod
    def of(cls, dataset: Any) -> "InHDF5":
        path = str(Path(dataset.file.filename).resolve())
        return cls(path, dataset.name, dataset.shape, dataset.dtype, dataset.chunks)

    def __getitem__(self, key: Any) -> Array:
        import h5py

        with h5py.File(self.path, "r") as file:
            return file[self.name][key]


@dataclass(frozen=True, eq=False)
class PlainZarr:
    """A Zarr array on disk whose chunks are numbers and nothing else: files that are mapped.

    What lies in one chunk is not even copied, which is several times as fast as decoding.
    """

    root: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    metadata: Any

    @staticmethod
    def fits(array: Any) -> bool:
        """Return whether a Zarr array is of this kind."""
        local = type(array.store).__name__ == "LocalStore"
        codecs = getattr(array.metadata, "codecs", ())
        return local and [codec.to_dict() for codec in codecs] == [_LITTLE_ENDIAN]

    @classmethod
    def of(cls, array: Any) -> "PlainZarr":
        root = Path(array.store.root).resolve() / array.path
        dtype = np.dtype(array.dtype).newbyteorder("<")
        return cls(root, array.shape, dtype, array.chunks, array.metadata)

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        ends, grid = self._places(key)
        if all(len(places) == 1 for places in grid):
            place = tuple(places[0] for places in grid)
            return self._chunk(place)[self._cut(place, ends)[0]]
        out = np.empty([max(0, stop - start) for start, stop in ends], self.dtype)
        for place in product(*grid):
            there, here = self._cut(place, ends)
            out[here] = self._chunk(place)[there]
        return out

    def ahead(self, key: tuple[slice, ...]) -> None:
        """Have the system read from disk what will be asked for next, while this goes on."""
        if not hasattr(os, "posix_fadvise"):
            return
        for place in product(*self._places(key)[1]):
            path = self.root / self.metadata.encode_chunk_key(place)
            if path.exists():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)

    def _places(self, key: tuple[slice, ...]) -> tuple[list[tuple[int, int]], list[range]]:
        """Return where slices start and stop, and which chunks they touch, axis by axis."""
        missing = (slice(None),) * (len(self.shape) - len(key))
        ends = [s.indices(n)[:2] for s, n in zip((*key, *missing), self.shape, strict=True)]
        grid = [
            range(start // size, -(-stop // size))
            for (start, stop), size in zip(ends, self.chunks, strict=True)
        ]
        return ends, grid

    def _cut(
        self, place: tuple[int, ...], ends: list[tuple[int, int]]
    ) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return which part of a chunk is wanted, and where it goes."""
        there, here = [], []
        for k, (start, stop), size in zip(place, ends, self.chunks, strict=True):
            low, high = max(start, k * size), min(stop, (k + 1) * size)
            there.append(slice(low - k * size, high - k * size))
            here.append(slice(low - start, high - start))
        return tuple(there), tuple(here)

    def _chunk(self, place: tuple[int, ...]) -> Array:
        path = self.root / self.metadata.encode_chunk_key(place)
        if not path.exists():
            return np.broadcast_to(self.dtype.type(self.metadata.fill_value), self.chunks)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self.dtype).reshape(self.chunks)


@dataclass(frozen=True, eq=False)
class Arranged:
    """An array read with its axes in another order, some of them as one.

    Arguments:
        source: The array.
        groups: For every axis of the result, the axes of the source that it is made of; none for
            an axis of length 1.
    """

    source: Any
    groups: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(self.source.shape[axis] for axis in group) for group in self.groups)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        alone = (group[0] if len(group) == 1 else None for group in self.groups)
        return tuple(1 if axis is None else _chunk_length(self.source, axis) for axis in alone)

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        key = (*key, *(slice(None),) * (len(self.groups) - len(key)))
        where = [slice(None)] * len(self.source.shape)
        after = list(key)
        for k, group in enumerate(self.groups):
            if len(group) == 1:
                where[group[0]], after[k] = key[k], slice(None)
        read = _numbers(self.source[tuple(where)])
        shape = [prod(read.shape[axis] for axis in group) for group in self.groups]
        order = [axis for group in self.groups for axis in group]
        return read.transpose(order).reshape(shape)[tuple(after)]


@dataclass(frozen=True, eq=False)
class Joined:
    """Arrays that are read side by side along their last axis."""

    parts: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.parts[0].shape[:-1], sum(part.shape[-1] for part in self.parts))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(part.dtype for part in self.parts))

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(_chunk_length(self.parts[0], axis) for axis in range(len(self.shape)))

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        return np.concatenate([_numbers(part[key]) for part in self.parts], axis=-1)


@dataclass(frozen=True, eq=False)
class Stored:
    """Numbers of simulations that are read when they are asked for.

    Arguments:
        source: Where they are: anything with `shape`, `dtype` and `__getitem__`.
        axis: The axis that counts the simulations.
        where: Which of the source's simulations these are.
        n_draws: How many of the first draws are seen; all where None.
        wide: Whether an axis for the only parameter is added at the end.
    """

    source: Any
    axis: int
    where: slice | Ints
    n_draws: int | None = None
    wide: bool = False

    @classmethod
    def of(cls, value: ArrayLike, axis: int) -> "Stored":
        """Return what was handed in as stored numbers."""
        if isinstance(value, Stored):
            return value
        source = value
        if isinstance(value, np.memmap):
            source = Mapped.of(value)
        elif _package(value) == "h5py" and value.file.mode == "r":
            source = InHDF5.of(value)
        elif _package(value) == "zarr" and PlainZarr.fits(value):
            source = PlainZarr.of(value)
        n_sims = value.shape[axis] if len(value.shape) > axis else 0
        return cls(source, axis, slice(0, n_sims))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        shape = list(self.source.shape)
        if len(shape) > self.axis:
            shape[self.axis] = self.n_sims
        if self.n_draws is not None:
            shape[0] = self.n_draws
        return (*shape, 1) if self.wide else tuple(shape)

    @property
    def n_sims(self) -> int:
        if isinstance(self.where, slice):
            return int(self.where.stop - self.where.start)
        return len(self.where)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)

    @property
    def portable(self) -> bool:
        """Whether another process can read them too."""
        return _is_portable(self.source)

    @property
    def chunk(self) -> int:
        """How many simulations are stored together; 1 where that does not matter."""
        return _chunk_length(self.source, self.axis)

    def window(self, where: slice) -> "Stored":
        """Return some of the simulations, unread."""
        if isinstance(self.where, slice):
            start = self.where.start
            return replace(self, where=slice(start + where.start, start + where.stop))
        return replace(self, where=self.where[where])

    def keep(self, kept: Array) -> "Stored":
        """Return the simulations for which `kept` is true, unread."""
        every = self.where
        if isinstance(every, slice):
            every = np.arange(every.start, every.stop)
        return replace(self, where=every[kept])

    def first(self, n_draws: int) -> "Stored":
        """Return the first draws of every simulation, unread."""
        return replace(self, n_draws=n_draws)

    def read(self) -> Array:
        """Return the numbers."""
        if not self.source.shape:
            return _numbers(self.source[()])
        if isinstance(self.where, slice):
            numbers = self._read(self.where.start, self.where.stop)
        elif len(self.where):
            start = int(self.where[0])
            slab = self._read(start, int(self.where[-1]) + 1)
            numbers = np.take(slab, self.where - start, axis=self.axis)
        else:
            numbers = self._read(0, 0)
        return numbers[..., None] if self.wide else numbers

    def ahead(self) -> None:
        """Have the system read them from disk, while something else goes on."""
        if isinstance(self.source, PlainZarr) and isinstance(self.where, slice):
            self.source.ahead((slice(None),) * self.axis + (self.where,))

    def __getitem__(self, key: Any) -> Array:
        """Read the simulations of a slice along their axis, all else whole."""
        where = key[self.axis] if isinstance(key, tuple) else key
        return self.window(slice(*where.indices(self.n_sims)[:2])).read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.read(), dtype=dtype)

    def _read(self, start: int, stop: int) -> Array:
        """Read a range of simulations, and with it whole chunks, which the next range may need."""
        length = self.chunk
        first, last = start // length * length, min(-(-stop // length) * length, self._end)
        if (first, last) == (start, stop) or start == stop or isinstance(self.source, PlainZarr):
            return self._slab(start, stop)
        row = self.dtype.itemsize * prod(self.shape) // max(self.n_sims, 1)
        if (last - first) * row > _MOST_AT_ONCE:
            self._warn(length, row, stop - start)
            return self._slab(start, stop)
        source, n_draws, at, slab = getattr(_kept, "slab", _NOTHING)
        known = source is self.source and n_draws == self.n_draws
        if not known or not (at <= start and stop <= at + slab.shape[self.axis]):
            slab, at = self._slab(first, last), first
            _kept.slab = (self.source, self.n_draws, at, slab)
        return slab[(slice(None),) * self.axis + (slice(start - at, stop - at),)]

    @property
    def _end(self) -> int:
        return int(self.source.shape[self.axis])

    def _slab(self, start: int, stop: int) -> Array:
        draws = (slice(None),) * self.axis if self.n_draws is None else (slice(self.n_draws),)
        try:
            return _numbers(self.source[(*draws, slice(start, stop))])
        except Exception as error:  # whatever the package raises that reads the file
            raise ValueError(
                f"simulations {start} to {stop - 1} cannot be read from where they are stored: "
                f"{error}. If the file is damaged, write it again."
            ) from error

    def _warn(self, length: int, row: int, n_sims: int) -> None:
        times = min(length, self._end) // max(n_sims, 1)
        if times > 1:
            warnings.warn(
                f"an array of shape {tuple(self.source.shape)} is stored in chunks that span "
                f"{length} simulations each, {length * row / 2**30:.1f} GB with all draws, so "
                f"each is read about {times} times. Store it in chunks of fewer simulations and "
                f"all draws: see docs/large.md.",
                stacklevel=2,
            )


def _is_portable(source: Any) -> bool:
    if isinstance(source, Arranged):
        return _is_portable(source.source)
    if isinstance(source, Joined):
        return all(_is_portable(part) for part in source.parts)
    if type(getattr(source, "store", None)).__name__ == "MemoryStore":  # of Zarr
        return False
    return isinstance(source, Mapped | InHDF5 | PlainZarr) or _package(source) in _PORTABLE


def forget() -> None:
    """Let go of the chunks that were kept for the blocks to come."""
    _kept.slab = _NOTHING


def is_stored(value: ArrayLike) -> bool:
    """Return whether an array is not in memory, as far as can be told."""
    if isinstance(value, np.memmap):
        return value.filename is not None and value.mode in ("r", "r+")
    if isinstance(value, Stored):
        return True
    if _package(value) == "pandas" or any(hasattr(value, name) for name in _IN_MEMORY):
        return False
    return all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__"))


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _numbers(read: Any) -> Array:
    """Return what a read gave as plain numbers, NaN where a file says that there are none."""
    if _package(read) in ("dask", "xarray"):
        # Not on the cluster that this may be running on already: it would wait for itself.
        read = read.compute(scheduler="synchronous")
    if isinstance(read, np.ma.MaskedArray):
        read = read.filled(np.nan) if read.mask.any() else read.data
    return np.asarray(read)


def _chunk_length(source: Any, axis: int) -> int:
    """Return how many simulations are stored together; 1 where that is unknown or irrelevant."""
    encoding = getattr(source, "encoding", None) or {}
    for sizes in (
        getattr(source, "shards", None),
        getattr(source, "chunksize", None),
        getattr(source, "chunks", None),
        encoding.get("chunksizes") if isinstance(encoding, dict) else None,
    ):
        if sizes is not None and len(sizes) > axis and isinstance(sizes[axis], int):
            return max(1, sizes[axis])
    return 1

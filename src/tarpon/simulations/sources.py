"""Sources: what numbers that are not in memory are read from.

Whatever has `shape`, `dtype` and `__getitem__` will do: HDF5, Zarr and netCDF variables, xarray
and Dask arrays. Those here are read faster, or by other processes, or as another shape.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .._base import optional
from .._base.arrays import package, unmasked
from .._base.types import Array, ArrayLike

_PORTABLE = ("zarr", "dask", "xarray")  # arrays that other processes can read as well
_MOST_CHUNKS, _MOST_NAMED = 10**6, 3  # chunks that are looked for, and missing ones that are named
_AT_ONCE = 2**21  # bytes that the system reads ahead if asked; of more it reads the beginning
_LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}


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
        """Return where in its file a memory-mapped array lies."""
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
        """Return where a dataset of h5py lies, which may then be closed."""
        path = str(Path(dataset.file.filename).resolve())
        return cls(path, dataset.name, dataset.shape, dataset.dtype, dataset.chunks)

    def __getitem__(self, key: Any) -> Array:
        with optional.package("h5py").File(self.path, "r") as file:
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
        """Return the files behind a Zarr array that `fits`."""
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
            with suppress(FileNotFoundError), self._opened(place) as file:
                _read_ahead(file.fileno())

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
        try:
            with self._opened(place) as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return np.broadcast_to(self.dtype.type(self.metadata.fill_value), self.chunks)
        return np.frombuffer(mapped, self.dtype).reshape(self.chunks)

    def _opened(self, place: tuple[int, ...]) -> FileIO:
        return FileIO(f"{self.root}/{self.metadata.encode_chunk_key(place)}")


def _read_ahead(file: int) -> None:
    """Have the system read a file from disk, unless it seems to be in memory."""
    n_bytes = os.fstat(file).st_size
    if not n_bytes or _in_memory(file, n_bytes // 2):
        return
    for start in range(0, n_bytes, _AT_ONCE):
        os.posix_fadvise(file, start, _AT_ONCE, os.POSIX_FADV_WILLNEED)


def _in_memory(file: int, place: int) -> bool:
    """Return whether a byte of a file is in memory, if the system can tell."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(file, [bytearray(1)], place, os.RWF_NOWAIT) > 0
    except OSError:  # it is not, or files of this kind cannot be asked
        return False


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
        return tuple(1 if axis is None else chunk_length(self.source, axis) for axis in alone)

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        key = (*key, *(slice(None),) * (len(self.groups) - len(key)))
        where = [slice(None)] * len(self.source.shape)
        after = list(key)
        for k, group in enumerate(self.groups):
            if len(group) == 1:
                where[group[0]], after[k] = key[k], slice(None)
        read = decoded(self.source[tuple(where)])
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
        return tuple(chunk_length(self.parts[0], axis) for axis in range(len(self.shape)))

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        return np.concatenate([decoded(part[key]) for part in self.parts], axis=-1)


def opened(array: ArrayLike) -> Any:
    """Return the source that suits an array best: one of ours, or the array itself."""
    if isinstance(array, np.memmap):
        return Mapped.of(array)
    if package(array) == "h5py" and array.file.mode == "r":
        return InHDF5.of(array)
    if package(array) == "zarr" and PlainZarr.fits(array):
        return PlainZarr.of(array)
    return array


def missing_chunks(source: Any) -> Iterator[str]:
    """Yield what to say of every stored array behind a source of which chunks are missing.

    What is missing is read as if it had been written, so nothing else would tell.
    """
    if isinstance(source, Arranged):
        yield from missing_chunks(source.source)
    elif isinstance(source, Joined):
        for part in source.parts:
            yield from missing_chunks(part)
    elif isinstance(source, InHDF5):
        with optional.package("h5py").File(source.path, "r") as file:
            yield from _missing_in_hdf5(file[source.name])
    elif package(source) == "h5py":
        yield from _missing_in_hdf5(source)
    elif package(source) == "zarr":
        yield from _missing_in_zarr(source)


def _missing_in_hdf5(dataset: Any) -> Iterator[str]:
    """Yield a warning if chunks of a dataset, or all of its numbers, were never written."""
    if dataset.is_virtual or dataset.external or not dataset.size:
        return
    if dataset.chunks is None:
        n_chunks, n_there = 1, int(dataset.id.get_storage_size() > 0)
    else:
        sizes = zip(dataset.shape, dataset.chunks, strict=True)
        n_chunks, n_there = prod(-(-n // size) for n, size in sizes), dataset.id.get_num_chunks()
    if n_there < n_chunks:
        yield (
            f"the HDF5 dataset {dataset.name!r} of {dataset.file.filename!r} lacks "
            f"{n_chunks - n_there} of {n_chunks} chunks, which are read as {dataset.fillvalue}. "
            f"They were never written: did the program that writes the file finish?"
        )


def _missing_in_zarr(array: Any) -> Iterator[str]:
    """Yield a warning if chunks of an array are not in its store."""
    if (there := _chunks_there(array)) is None:
        return
    sizes = zip(array.shape, array.shards or array.chunks, strict=True)
    places = islice(product(*(range(-(-n // size)) for n, size in sizes)), _MOST_CHUNKS)
    keys = [array.metadata.encode_chunk_key(place) for place in places]
    lost = [key for key in keys if not there(key)]
    if lost:
        named = ", ".join(lost[:_MOST_NAMED]) + ", …" * (len(lost) > _MOST_NAMED)
        yield (
            f"the Zarr array {str(array.store_path)!r} lacks {len(lost)} of {len(keys)} "
            f"chunks ({named}), which are read as {array.fill_value}. If they are lost, "
            f"write them again. Zarr leaves out chunks of that value alone, unless it is told "
            f"`config={{'write_empty_chunks': True}}`."
        )


def _chunks_there(array: Any) -> Callable[[str], bool] | None:
    """Return a function that tells whether a chunk is there; None where the store cannot tell."""
    if type(array.store).__name__ == "LocalStore":
        root = Path(array.store.root) / array.path
        return lambda key: (root / key).exists()
    if not array.store.supports_listing:
        return None

    async def listed() -> set[str]:
        return {key async for key in array.store.list_prefix(array.path)}

    known = optional.package("zarr.core.sync").sync(listed())
    return lambda key: f"{array.path}/{key}".lstrip("/") in known


def is_portable(source: Any) -> bool:
    """Return whether another process can read from a source too."""
    if isinstance(source, Arranged):
        return is_portable(source.source)
    if isinstance(source, Joined):
        return all(is_portable(part) for part in source.parts)
    if type(getattr(source, "store", None)).__name__ == "MemoryStore":  # of Zarr
        return False
    return isinstance(source, Mapped | InHDF5 | PlainZarr) or package(source) in _PORTABLE


def file_stats(source: Any) -> list[str] | None:
    """Return sizes and times of the files of a source; None if it has no files."""
    if isinstance(source, Arranged):
        inner = file_stats(source.source)
        return None if inner is None else [str(source.groups), *inner]
    if isinstance(source, Joined):
        every = [file_stats(part) for part in source.parts]
        return None if None in every else [line for inner in every for line in inner or ()]
    path = _path(source)
    if path is None or not path.exists():
        return None
    files = (
        [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    )
    stats = [(file.relative_to(path), file.stat()) for file in files]
    place = [str(getattr(source, name, "")) for name in ("name", "offset", "strides")]
    return place + [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats]


def _path(source: Any) -> Path | None:
    """Return the file or the folder of a source, if it has one."""
    kind = package(source)
    if isinstance(source, Mapped | InHDF5):
        return Path(source.path)
    if isinstance(source, PlainZarr):
        return source.root
    if kind == "netCDF4":
        return Path(source.group().filepath())
    if kind == "xarray":
        return Path(source.encoding["source"]) if "source" in source.encoding else None
    if kind == "zarr" and type(source.store).__name__ == "LocalStore":
        return Path(source.store.root) / source.path
    return None


def decoded(read: Any) -> Array:
    """Return what a read gave as plain numbers, NaN where they are masked."""
    if package(read) in ("dask", "xarray"):
        # Not on the cluster that this may be running on already: it would wait for itself.
        read = read.compute(scheduler="synchronous")
    return unmasked(read)


def chunk_length(source: Any, axis: int) -> int:
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

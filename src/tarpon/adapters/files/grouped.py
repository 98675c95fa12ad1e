"""Formats with groups: HDF5, netCDF and Zarr. Arrays stay on disk."""

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base import optional
from ..._base.text import clean, size
from ..._base.types import ArrayLike
from ...simulations.sources import InHDF5
from .entries import MOST_ARRAYS, FileArray, listed, refused, tree

if TYPE_CHECKING:
    from h5py import Dataset, ExternalLink, Group, HardLink, SoftLink
    from xarray import DataArray

_MOST_JSON = 2**20
_CODECS = {
    "bytes", "transpose", "sharding_indexed", "crc32c", "blosc", "gzip", "zstd", "vlen-utf8",
}  # fmt: skip
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_NUMBERS = {"bool", *_INTEGERS, "float16", "float32", "float64"}
_WORDS = {"string", "fixed_length_utf32"}
_EMPTY_CHUNKS = 10_000  # chunks without a file that a store may declare
_PACKED = {"scale_factor", "add_offset"}


def hdf5(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the datasets of all groups of an HDF5 file; links are refused."""
    h5py = optional.package("h5py")
    entries: dict[str, FileArray] = {}
    loose: list[str] = []

    def visit(name: str, link: "HardLink | SoftLink | ExternalLink") -> bool | None:
        """Add one name to the entries; a value other than None ends the walk."""
        if isinstance(link, h5py.ExternalLink):
            entries[name] = refused(f"is a link to another file, {clean(link.filename)!r}")
        elif isinstance(link, h5py.SoftLink):
            entries[name] = refused(f"is a link to {clean(link.path)!r}: name that instead")
        else:
            item = file[name]
            loose.extend(_loose(item))
            if isinstance(item, h5py.Dataset) and item.shape is not None:
                entries[name] = _in_hdf5(path, item)
        return True if len(entries) > MOST_ARRAYS else None

    with h5py.File(path, "r") as file:
        if file.visititems_links(visit):
            raise ValueError(f"it contains more than {MOST_ARRAYS} arrays")
        if loose or _loose(file):
            _probe(path)
        named = {"names": listed(file.attrs["names"])} if "names" in file.attrs else {}
        return named | entries


def _loose(item: "Group | Dataset") -> list[str]:
    """Return the attributes of variable length, such as words and references."""
    return [name for name in item.attrs if item.attrs.get_id(name).dtype.kind == "O"]


def _probe(path: Path) -> None:
    """Read all attributes in a separate process, which is killed if it hangs.

    Attributes of variable length are stored in a heap of the file. If the heap is damaged, the
    HDF5 library may search for its end without end.
    """
    try:
        subprocess.run(
            [sys.executable, "-c", _READ_ATTRIBUTES, str(path)],
            timeout=_PATIENCE, capture_output=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"its attributes cannot be read within {_PATIENCE} seconds, so it seems damaged: "
            f"write it again"
        ) from error


_PATIENCE = 30
_READ_ATTRIBUTES = """
import sys, h5py
def read(_, item):
    for name in item.attrs:
        item.attrs[name]
with h5py.File(sys.argv[1], "r") as file:
    read("", file)
    file.visititems(read)
"""


def netcdf(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the variables of all groups of a netCDF file of version 4."""
    optional.package("h5netcdf")  # the engine of xarray
    xarray = optional.package("xarray")
    inside = hdf5(path, limit)
    for name, array in inside.items():
        if array.refused:
            raise ValueError(f"{clean(name)!r} {array.refused}")
        if len(array.shape) == 1 and array.n_bytes > limit:  # an axis, which is read at once
            raise ValueError(f"{clean(name)!r} declares {size(array.n_bytes)}, more than allowed")
    entries = {name: array for name, array in inside.items() if array.is_words}
    words = [name.rpartition("/")[2] for name in entries]
    # Missing values become NaN, and packed values are unpacked.
    groups = xarray.open_groups(path, engine="h5netcdf", decode_times=False, drop_variables=words)
    for group, data in groups.items():
        for variable in data.variables:
            entries[f"{group}/{variable}".strip("/")] = _in_xarray(data[variable])
    return entries


def zarr(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the arrays of all groups of a Zarr store of version 3."""
    files = tree(path) if path.is_dir() else []
    for name, _, is_link in files:
        if is_link:
            raise ValueError(f"{clean(name)!r} is a link: a store must contain its own files only")
    names = [name for name, _, _ in files if name.rpartition("/")[2] == "zarr.json"]
    if any(name.endswith((".zgroup", ".zarray")) for name, _, _ in files):
        raise ValueError("its version is 2, where chunks may be pickled: write version 3")
    if "zarr.json" not in names:
        raise ValueError("it has no `zarr.json`")
    if len(names) > MOST_ARRAYS:
        raise ValueError(f"it contains more than {MOST_ARRAYS} arrays")
    entries: dict[str, FileArray] = {}
    for name in sorted(names):
        about = _metadata(path / name)
        if about["node_type"] == "array":
            entries[name[: -len("/zarr.json")]] = _in_zarr(path, name, about, len(files))
    attributes = _metadata(path / "zarr.json").get("attributes", {})
    return ({"names": listed(attributes["names"])} if "names" in attributes else {}) | entries


def _in_hdf5(path: Path, array: "Dataset") -> FileArray:
    h5py = optional.package("h5py")
    if array.is_virtual or array.external:
        return refused("is stored in other files")
    try:
        dtype = array.dtype
    except TypeError:
        return refused("has a type that NumPy lacks")
    words = h5py.check_string_dtype(dtype) is not None
    stored = InHDF5.of(array)
    return FileArray(
        array.shape,
        np.dtype("O") if words else dtype,
        partial(_words, path, array.name) if words else lambda: stored,
        dims=tuple(dim.label for dim in array.dims) if any(d.label for d in array.dims) else (),
        in_memory=words,
        at_once=prod(array.chunks or (0,)) * dtype.itemsize,
    )


def _words(path: Path, name: str) -> ArrayLike:
    h5py = optional.package("h5py")
    with h5py.File(path, "r") as file:
        array = file[name]
        if h5py.check_string_dtype(array.dtype).length is None:
            _measure(path, array)
        return array.asstr()[()]


def _measure(path: Path, array: "Dataset") -> None:
    """Raise if words are declared longer than the file, since HDF5 does not check this."""
    start, n_bytes = array.id.get_offset(), array.id.get_storage_size()
    if start is None or n_bytes != 16 * array.size:
        raise ValueError(f"{clean(array.name)!r} is stored in chunks: write words contiguously")
    with path.open("rb") as file:
        file.seek(start)
        places = np.frombuffer(file.read(n_bytes), [("length", "<u4"), ("place", "V12")])
    if places["length"].sum(dtype=np.int64) > path.stat().st_size:
        raise ValueError(f"{clean(array.name)!r} declares words that are longer than the file")


def _in_xarray(array: "DataArray") -> FileArray:
    chunks = array.encoding.get("chunksizes") or (0,)
    dims = tuple(str(dim) for dim in array.dims)
    at_once = prod(chunks) * array.dtype.itemsize
    return FileArray(array.shape, array.dtype, lambda: array, dims, at_once=at_once)


def _metadata(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_JSON:
        raise ValueError(f"{path.name!r} is too large: more than {size(_MOST_JSON)}")
    about = json.loads(path.read_bytes())
    if about["zarr_format"] != 3 or about["node_type"] not in ("array", "group"):
        raise ValueError("its `zarr.json` does not describe a group or an array of version 3")
    return about


def _in_zarr(path: Path, name: str, about: dict[str, Any], n_files: int) -> FileArray:
    shape, kind = tuple(about["shape"]), about["data_type"]
    kind = kind["name"] if isinstance(kind, dict) else kind
    if kind not in _NUMBERS | _WORDS:
        return refused(f"has type {clean(kind)!r}, which is not one of plain numbers")
    unknown = set(_codecs(about["codecs"])) - _CODECS
    if unknown:
        return refused(f"is packed with {clean(min(unknown))!r}, which is not supported")
    if _PACKED & set(about.get("attributes", {})):
        return refused("is packed with a scale and an offset: write the numbers themselves")
    dtype = np.dtype("O" if kind in _WORDS else kind)
    chunk = tuple(about["chunk_grid"]["configuration"]["chunk_shape"])
    if len(chunk) != len(shape) or any(type(n) is not int or n < 1 for n in chunk):
        return refused(f"has chunks of {clean(chunk)}, which do not fit its shape")
    n_chunks = prod(-(-n // k) for n, k in zip(shape, chunk, strict=True))
    if n_chunks > _EMPTY_CHUNKS + 100 * n_files:
        return refused(f"declares {n_chunks} chunks, most of which are missing")
    return FileArray(
        shape,
        dtype,
        partial(_open_zarr, path / name[: -len("zarr.json")], words=kind in _WORDS),
        dims=tuple(str(dim) for dim in about.get("dimension_names") or ()),
        in_memory=kind in _WORDS,
        at_once=prod(chunk) * dtype.itemsize,
    )


def _open_zarr(path: Path, *, words: bool) -> ArrayLike:
    zarr = optional.package("zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # words are not in Zarr's standard yet
        array = zarr.open_array(path, mode="r", zarr_format=3)
        return array[...] if words else array


def _codecs(codecs: Any) -> Iterator[str]:
    """Yield the name of every codec, also within shards."""
    for codec in codecs:
        codec = {"name": codec} if isinstance(codec, str) else codec
        yield str(codec["name"])
        settings = codec.get("configuration", {})
        yield from _codecs(settings.get("codecs", ()))
        yield from _codecs(settings.get("index_codecs", ()))

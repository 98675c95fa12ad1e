"""Formats without groups: `.npy`, folders of `.npy`, `.npz`, safetensors and torch."""

import ast
import json
import zipfile
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from ..._base import optional
from ..._base.text import clean, size
from ..._base.types import Array, ArrayLike
from .entries import MOST_ARRAYS, FileArray, listed

Order: TypeAlias = Literal["C", "F"]

_MOST_HEADER = 4096  # bytes; NumPy itself writes 118 for most arrays
_MOST_JSON = 2**20
_WIDTHS = {b"\x01\x00": 2, b"\x02\x00": 4}  # of the length of a header, by version
_KEYS = {"descr", "fortran_order", "shape"}
_TENSORS = {
    "BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2",
    "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip


def npy(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the array of a `.npy` file, under the name of the file."""
    with path.open("rb") as file:
        return {path.stem: _mapped(path, *_header(file), file.tell())}


def folder(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the arrays of all `.npy` files of a folder."""
    files = sorted(file for file in path.glob("*.npy") if file.is_file())
    if not files:
        raise ValueError("it contains no .npy file")
    if len(files) > MOST_ARRAYS:
        raise ValueError(f"it contains more than {MOST_ARRAYS} arrays")
    entries: dict[str, FileArray] = {}
    for file in files:
        try:
            entries |= npy(file, limit)
        except ValueError as error:
            raise ValueError(f"in {file.name!r}, {error}") from error
    return entries


def npz(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the arrays of an `.npz` archive, each of which is read completely."""
    entries: dict[str, FileArray] = {}
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it contains more than {MOST_ARRAYS} arrays")
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in entries:
                raise ValueError(f"it contains {clean(name)!r} twice")
            with archive.open(info) as file:
                shape, dtype, _ = _header(file)
                n_bytes = info.file_size - file.tell()
            array = FileArray(shape, dtype, partial(_member, path, info.filename), in_memory=True)
            if not dtype.hasobject:
                _same_size(name, array.n_bytes, n_bytes)
            entries[name] = array
    return entries


def safetensors(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the tensors of a safetensors file, and names if its metadata contain them."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, end = 8 + length, path.stat().st_size
        if length > _MOST_JSON or start > end:
            raise ValueError(
                f"malformed header: it declares {size(length)}, more than the file or "
                f"{size(_MOST_JSON)}"
            )
        header = json.loads(file.read(length))
    names = header.pop("__metadata__", {}).get("names")
    if len(header) > MOST_ARRAYS:
        raise ValueError(f"it contains more than {MOST_ARRAYS} arrays")
    entries = {name: _tensor(path, name, about, start, end) for name, about in header.items()}
    return entries if names is None else {"names": listed(names.split(","))} | entries


def torch(path: Path, limit: int) -> dict[str, FileArray]:
    """Return the tensors of a dictionary that was saved by torch."""
    torch = optional.package("torch")
    with zipfile.ZipFile(path) as archive:  # the format before 2020 is no archive, and refused
        members = archive.infolist()
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError("it is compressed, unlike files of torch")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # the message of torch advises to unpickle
        raise ValueError(
            "it is damaged, or contains more than tensors: save a dictionary of tensors"
        ) from error
    if not isinstance(saved, dict):
        raise ValueError(f"it contains a {type(saved).__name__}, not a dictionary of tensors")
    entries: dict[str, FileArray] = {}
    for name, value in saved.items():
        if isinstance(value, torch.Tensor):
            entries[str(name)] = _of_torch(value)
        elif name == "names" and isinstance(value, list | tuple):
            entries[name] = listed(value)
    return entries


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], Order]:
    """Return shape, type and order of a `.npy` file, and move to the start of its numbers."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it does not start like a .npy file")
    if start[6:] not in _WIDTHS:
        raise ValueError("its version is not 1.0 or 2.0, the versions for plain numbers")
    length = int.from_bytes(file.read(_WIDTHS[start[6:]]), "little")
    if length > _MOST_HEADER:
        raise ValueError(
            f"malformed header: it declares {size(length)}, and plain numbers need less than "
            f"{size(_MOST_HEADER)}"
        )
    text = file.read(length).decode("latin1").strip()
    try:
        header = ast.literal_eval(text)
        if set(header) != _KEYS or type(header["shape"]) is not tuple:
            raise ValueError
        dtype = np.dtype(header["descr"]) if isinstance(header["descr"], str) else np.dtype("V")
    except Exception as error:  # a parser raises many kinds of errors
        raise ValueError(f"malformed header: {clean(text, 80)}") from error
    return header["shape"], dtype, "F" if header["fortran_order"] else "C"


def _mapped(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order, offset: int
) -> FileArray:
    array = FileArray(shape, dtype, partial(_open, path, shape, dtype, order, offset))
    if not dtype.hasobject:
        _same_size(path.stem, array.n_bytes, path.stat().st_size - offset)
    return array


def _open(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order, offset: int
) -> Array:
    if not prod(shape):  # an empty map is an error
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order)


def _member(path: Path, name: str) -> Array:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _same_size(name: str, declared: int, stored: int) -> None:
    if declared != stored:
        raise ValueError(
            f"{clean(name)!r} declares {size(declared)} of numbers, but contains "
            f"{size(max(stored, 0))}: it was truncated or changed, so write it again"
        )


def _tensor(path: Path, name: str, about: Any, start: int, end: int) -> FileArray:
    shape, kind = tuple(about["shape"]), about["dtype"]
    if kind not in _TENSORS:
        raise ValueError(f"{clean(name)!r} is of type {clean(kind)!r}, which NumPy lacks")
    dtype = np.dtype(_TENSORS[kind])
    low, high = about["data_offsets"]
    inside = type(low) is type(high) is int and 0 <= low <= high <= end - start
    array = FileArray(shape, dtype, partial(_open, path, shape, dtype, "C", start + low))
    _same_size(name, array.n_bytes, high - low if inside else 0)
    if kind == "BF16":
        return FileArray(shape, np.dtype("f4"), partial(_widened, array.open), in_memory=True)
    return array


def _widened(read: Callable[[], ArrayLike]) -> Array:
    """Return bfloat16, which NumPy lacks, in single precision, of which it is the upper half."""
    return (np.asarray(read()).astype("<u4") << 16).view("<f4")


def _of_torch(tensor: ArrayLike) -> FileArray:
    if str(tensor.layout) != "torch.strided":
        raise ValueError("it contains a sparse tensor: save `tensor.to_dense()`")
    bits = str(tensor.dtype).removeprefix("torch.").replace("bfloat16", "float32")
    try:
        dtype = np.dtype(bits)
    except TypeError as error:
        raise ValueError(f"it contains a tensor of {tensor.dtype}, which NumPy lacks") from error
    copied = not tensor.is_contiguous()
    return FileArray(tuple(tensor.shape), dtype, lambda: tensor, in_memory=copied)

"""Arrays one after another: `.npy`, folders of them, `.npz`, safetensors, and tensors of torch."""

import ast
import json
import zipfile
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..._base import optional
from ..._base.types import Array, ArrayLike
from .entries import MOST_ARRAYS, Found, listed, short, size

_MOST_HEADER = 4096  # bytes; NumPy itself writes 118 for most arrays
_MOST_JSON = 2**20
_WIDTHS = {b"\x01\x00": 2, b"\x02\x00": 4}  # of the length of a header, by version
_KEYS = {"descr", "fortran_order", "shape"}
_TENSORS = {
    "BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2",
    "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip


def npy(path: Path, limit: int) -> dict[str, Found]:
    """Return the array of a `.npy` file, under the name of the file."""
    with path.open("rb") as file:
        return {path.stem: _mapped(path, *_header(file), file.tell())}


def folder(path: Path, limit: int) -> dict[str, Found]:
    """Return the arrays of all `.npy` files of a folder."""
    files = sorted(file for file in path.glob("*.npy") if file.is_file())
    if not files:
        raise ValueError("it holds no .npy file")
    if len(files) > MOST_ARRAYS:
        raise ValueError(f"it holds more than {MOST_ARRAYS} arrays")
    found: dict[str, Found] = {}
    for file in files:
        try:
            found |= npy(file, limit)
        except ValueError as error:
            raise ValueError(f"of {file.name!r}, {error}") from error
    return found


def npz(path: Path, limit: int) -> dict[str, Found]:
    """Return the arrays of an `.npz` archive, which are read whole."""
    found: dict[str, Found] = {}
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it holds more than {MOST_ARRAYS} arrays")
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise ValueError(f"it holds {short(name)!r} twice")
            with archive.open(info) as file:
                shape, dtype, _ = _header(file)
                there = info.file_size - file.tell()
            one = Found(shape, dtype, partial(_member, path, info.filename), in_memory=True)
            if not dtype.hasobject:
                _holds(name, one.n_bytes, there)
            found[name] = one
    return found


def safetensors(path: Path, limit: int) -> dict[str, Found]:
    """Return the tensors of a safetensors file, and the names that its metadata may hold."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, end = 8 + length, path.stat().st_size
        if length > _MOST_JSON or start > end:
            raise ValueError(
                f"its header is said to have {size(length)}: that of a few arrays has less than "
                f"{size(_MOST_JSON)}, and all of it must be there"
            )
        header = json.loads(file.read(length))
    names = header.pop("__metadata__", {}).get("names")
    if len(header) > MOST_ARRAYS:
        raise ValueError(f"it holds more than {MOST_ARRAYS} arrays")
    found = {name: _tensor(path, name, about, start, end) for name, about in header.items()}
    return found if names is None else {"names": listed(names.split(","))} | found


def torch(path: Path, limit: int) -> dict[str, Found]:
    """Return the tensors of a dictionary that torch has saved."""
    torch = optional.package("torch")
    with zipfile.ZipFile(path) as archive:  # also refuses the format of before 2020
        members = archive.infolist()
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError("it is compressed, as torch writes none")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch itself advises to unpickle
        raise ValueError(
            "it is damaged, or holds more than tensors: save a dictionary of tensors"
        ) from error
    if not isinstance(saved, dict):
        raise ValueError(f"it holds a {type(saved).__name__} in place of a dictionary of tensors")
    found: dict[str, Found] = {}
    for name, value in saved.items():
        if isinstance(value, torch.Tensor):
            found[str(name)] = _of_torch(value)
        elif name == "names" and isinstance(value, list | tuple):
            found[name] = listed(value)
    return found


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], str]:
    """Return shape, type and order of a `.npy` file, which is left where its numbers start."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it does not start as a .npy file does")
    if start[6:] not in _WIDTHS:
        raise ValueError("its version is not 1.0 or 2.0, which hold plain numbers")
    length = int.from_bytes(file.read(_WIDTHS[start[6:]]), "little")
    if length > _MOST_HEADER:
        raise ValueError(
            f"its header is said to have {size(length)}, and that of plain numbers has less than "
            f"{size(_MOST_HEADER)}"
        )
    text = file.read(length).decode("latin1").strip()
    try:
        header = ast.literal_eval(text)
        if set(header) != _KEYS or type(header["shape"]) is not tuple:
            raise ValueError
        dtype = np.dtype(header["descr"]) if isinstance(header["descr"], str) else np.dtype("V")
    except Exception as error:  # a parser that is given nonsense raises many things
        raise ValueError(f"its header is not one: {short(text, 80)}") from error
    return header["shape"], dtype, "F" if header["fortran_order"] else "C"


def _mapped(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], order: str, offset: int
) -> Found:
    found = Found(shape, dtype, partial(_open, path, shape, dtype, order, offset))
    if not dtype.hasobject:
        _holds(path.stem, found.n_bytes, path.stat().st_size - offset)
    return found


def _open(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], order: Any, offset: int
) -> Array:
    if not prod(shape):  # there is nothing to map
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order)


def _member(path: Path, name: str) -> Array:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _holds(name: str, declared: int, there: int) -> None:
    if declared != there:
        raise ValueError(
            f"{short(name)!r} declares {size(declared)} of numbers, but {size(max(there, 0))} are "
            f"there: it was cut off or changed, so write it again"
        )


def _tensor(path: Path, name: str, about: Any, start: int, end: int) -> Found:
    shape, kind = tuple(about["shape"]), about["dtype"]
    if kind not in _TENSORS:
        raise ValueError(f"{short(name)!r} is of type {short(kind)!r}, which NumPy lacks")
    dtype = np.dtype(_TENSORS[kind])
    low, high = about["data_offsets"]
    inside = type(low) is type(high) is int and 0 <= low <= high <= end - start
    found = Found(shape, dtype, partial(_open, path, shape, dtype, "C", start + low))
    _holds(name, found.n_bytes, high - low if inside else 0)
    if kind == "BF16":
        return Found(shape, np.dtype("f4"), partial(_widened, found.open), in_memory=True)
    return found


def _widened(read: Any) -> Array:
    """Return bfloat16, which NumPy lacks, in single precision: its bits are the upper half."""
    return (np.asarray(read()).astype("<u4") << 16).view("<f4")


def _of_torch(tensor: ArrayLike) -> Found:
    if str(tensor.layout) != "torch.strided":
        raise ValueError("a tensor of it is sparse: save `tensor.to_dense()`")
    bits = str(tensor.dtype).removeprefix("torch.").replace("bfloat16", "float32")
    try:
        dtype = np.dtype(bits)
    except TypeError as error:
        raise ValueError(f"a tensor of it is of {tensor.dtype}, which NumPy lacks") from error
    copied = not tensor.is_contiguous()
    return Found(tuple(tensor.shape), dtype, lambda: tensor, in_memory=copied)

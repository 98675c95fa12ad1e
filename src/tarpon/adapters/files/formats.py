"""The format of a file, and clear errors for files that cannot be read."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..._base import disk
from . import flat, grouped, tables
from .entries import FileArray, short

T = TypeVar("T")

_FOLDER = "folder"
_FORMATS: dict[str, tuple[str, Callable[[Path, int], dict[str, FileArray]]]] = {
    ".npz": ("an .npz file", flat.npz),
    ".npy": ("an .npy file", flat.npy),
    ".h5": ("an HDF5 file", grouped.hdf5),
    ".hdf5": ("an HDF5 file", grouped.hdf5),
    ".nc": ("a netCDF file", grouped.netcdf),
    ".zarr": ("a Zarr store of version 3", grouped.zarr),
    ".safetensors": ("a safetensors file", flat.safetensors),
    ".pt": ("a torch file", flat.torch),
    ".pth": ("a torch file", flat.torch),
    ".csv": ("a table", tables.table),
    ".parquet": ("a table", tables.table),
    _FOLDER: ("a folder", flat.folder),
}
_SIGNATURES = {
    b"PK": (".npz", ".pt", ".pth"),
    b"\x93NUMPY": (".npy",),
    b"\x89HDF": (".h5", ".hdf5", ".nc"),
    b"PAR1": (".parquet",),
}
_ADVICE = dict.fromkeys(
    (".pkl", ".pickle", ".joblib", ".dill"),
    "Pickles run code when they are read: save the arrays only, with `np.savez`.",
)


def entries(path: Path, limit: int, truths: Path | None = None) -> dict[str, FileArray]:
    """Return the arrays of a file by name.

    Arguments:
        path: File.
        limit: Memory that it may use, in bytes.
        truths: Table of truths that belongs to a table of draws.
    """
    kind = _kind(path)
    if truths is None:
        return trying(path, lambda: _FORMATS[kind][1](path, limit))
    _kind(truths)
    return trying(path, lambda: tables.table(path, limit, truths))


def what(path: Path) -> str:
    """Return the format of a file, in words."""
    return _FORMATS[_kind(path)][0]


def is_table(path: Path) -> bool:
    """Return whether a file is a table, with one row per draw."""
    return what(path) == "a table"


def trying(path: Path, read: Callable[[], T]) -> T:
    """Return what a function reads from a file, or raise an error that names the file."""
    try:
        return read()
    except ImportError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from error
    except Exception as error:  # other packages raise errors of any type
        raise ValueError(
            f"{str(path)!r} cannot be read as {what(path)} of plain arrays: {_message(error)}."
        ) from error


def _message(error: Exception) -> str:
    """Return the message of an error, as a part of a sentence."""
    if isinstance(error, KeyError):
        return f"it lacks {short(error)}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return f"the description of its arrays is malformed ({short(error)})"
    return short(error, 400).rstrip(".") or type(error).__name__


def _kind(path: Path) -> str:
    """Return the ending of a file, which must agree with its first bytes."""
    disk.existing(path)
    if path.is_dir():
        marks = ("zarr.json", ".zgroup", ".zarray")
        is_zarr = path.suffix == ".zarr" or any((path / mark).exists() for mark in marks)
        return ".zarr" if is_zarr else _FOLDER
    ending = path.suffix.lower()
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is neither a file nor a folder.")
    endings = _endings(path)
    if ending not in _FORMATS:
        known = ", ".join(suffix for suffix in _FORMATS if suffix != _FOLDER)
        advice = f"Its content is {endings[0]}: rename it." if endings else ""
        raise ValueError(
            f"{str(path)!r} has an unknown ending: a file of arrays must end with {known}, or be "
            f"a folder of .npy files. {_ADVICE.get(ending, advice)}".strip()
        )
    if not path.stat().st_size:
        raise ValueError(f"{str(path)!r} is empty.")
    if endings and ending not in endings:
        raise ValueError(
            f"{str(path)!r} ends with {ending}, but its content is {endings[0]}: rename it."
        )
    return ending


def _endings(path: Path) -> tuple[str, ...]:
    """Return the endings that agree with the first bytes of a file; empty if unknown."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"CDF"):
        raise ValueError(
            f"{str(path)!r} is netCDF of version 3: convert it with `nccopy -k nc4 OLD NEW`."
        )
    return next((ends for mark, ends in _SIGNATURES.items() if start.startswith(mark)), ())

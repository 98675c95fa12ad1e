"""Which file is of which format, and one clear error for whatever is wrong with it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..._base import disk
from . import flat, grouped, tables
from .entries import Found, short

T = TypeVar("T")

_FOLDER = "folder"
_FORMATS: dict[str, tuple[str, Callable[[Path, int], dict[str, Found]]]] = {
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
    "Pickles run what is in them: save the arrays alone, with `np.savez`.",
)


def found(path: Path, limit: int, truths: Path | None = None) -> dict[str, Found]:
    """Return what is in a file, by name.

    Arguments:
        path: The file.
        limit: How many bytes of memory it may take.
        truths: The table of truths that belongs to a table of draws.
    """
    kind = _kind(path)
    if truths is None:
        return trying(path, lambda: _FORMATS[kind][1](path, limit))
    _kind(truths)
    return trying(path, lambda: tables.table(path, limit, truths))


def what(path: Path) -> str:
    """Return what kind of file it is, in words."""
    return _FORMATS[_kind(path)][0]


def is_table(path: Path) -> bool:
    """Return whether a file has one row a draw."""
    return what(path) == "a table"


def trying(path: Path, read: Callable[[], T]) -> T:
    """Return what a function reads from a file, or raise an error that says what is wrong."""
    try:
        return read()
    except ImportError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from error
    except Exception as error:  # packages that read files raise whatever comes to their mind
        raise ValueError(
            f"{str(path)!r} cannot be read as {what(path)} of plain arrays: {_said(error)}."
        ) from error


def _said(error: Exception) -> str:
    """Return what an error says, as a part of a sentence."""
    if isinstance(error, KeyError):
        return f"it lacks {short(error)}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return f"what describes its arrays makes no sense ({short(error)})"
    return short(error, 400).rstrip(".") or type(error).__name__


def _kind(path: Path) -> str:
    """Return the ending by which a file is read, which must go with how it starts."""
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
        advice = f"Its content is that of {endings[0]}: rename it." if endings else ""
        raise ValueError(
            f"{str(path)!r} has an unknown ending: a file of arrays ends with {known}, or is a "
            f"folder of .npy files. {_ADVICE.get(ending, advice)}".strip()
        )
    if not path.stat().st_size:
        raise ValueError(f"{str(path)!r} is empty.")
    if endings and ending not in endings:
        raise ValueError(
            f"{str(path)!r} ends with {ending}, but its content is that of {endings[0]}: "
            f"rename it."
        )
    return ending


def _endings(path: Path) -> tuple[str, ...]:
    """Return the endings that go with how a file starts; none where that says nothing."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"CDF"):
        raise ValueError(
            f"{str(path)!r} is netCDF of version 3: convert it with `nccopy -k nc4 OLD NEW`."
        )
    return next((ends for mark, ends in _SIGNATURES.items() if start.startswith(mark)), ())

"""Files that are replaced at once or not at all, and records that are checked when read.

A record is an `.npz` file of plain arrays with a description in JSON.
"""

import json
import os
import platform
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite, prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from .._version import __version__
from . import arguments, arrays
from .arguments import new_file, shown
from .arguments import path as as_path
from .types import Array

T = TypeVar("T")

PART = ".part"  # the ending of temporary files
_DESCRIBED = "about"  # the member of a record that contains its description
_FORMAT = 1
_MOST_ARRAYS, _MOST_HEADER = 100, 4096
_KINDS = "biufU"  # kinds of dtypes in records


def existing(path: str | Path) -> Path:
    """Return the path of a file or folder that exists."""
    path = as_path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    return path


@contextmanager
def replacing(
    path: str | Path, place: Callable[[Path, Path], object] = Path.replace
) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces another one when it is complete and on the disk.

    After an error, a crash or a power cut the old file is still there.

    Arguments:
        path: Path of the file to replace.
        place: Function that renames the temporary file.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(path.parent)!r} to write {path.name!r} into: make it first."
        )
    with _naming(path):
        if path.exists() and not path.is_file():  # a pipe or a device is written to
            with path.open("wb") as file:
                yield file
            return
        path = path.resolve()  # replace the target of a link, not the link
        part = path.with_name(f"{secrets.token_hex(8)}{PART}")
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            place(part, path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to errors of the system, which lack it when the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).endswith(PART):
            raise
        kind = type(error) if type(error).__module__ == "builtins" else OSError
        named = kind(f"{str(path)!r} cannot be written: {error.strerror or error}.")
        named.errno = error.errno
        raise named from error


def synced(folder: Path) -> None:
    """Write the entries of a folder to the disk; systems without folders as files do it alone."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    return {
        "tarpon": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True, eq=False)
class Record:
    """Arrays of a file and their description, to be read with checks.

    Arguments:
        about: Entries of the description, by name.
        arrays: Arrays, by name.
    """

    about: dict[str, Any]
    arrays: dict[str, Array]

    def value(self, name: str, kind: type[T]) -> T:
        """Return an entry of a given type."""
        found = self.about.get(name)
        if type(found) is not kind or (isinstance(found, float) and not isfinite(found)):
            raise ValueError(f"{name!r} must be of type {kind.__name__}, but is {shown(found)}")
        return found

    def count(self, name: str, least: int = 0, most: int | None = None) -> int:
        """Return an entry that is an integer between two bounds."""
        found = self.value(name, int)
        if found < least or (most is not None and found > most):
            limit = "" if most is None else f" and at most {most}"
            raise ValueError(f"{name!r} must be at least {least}{limit}, but is {shown(found)}")
        return found

    def probability(self, name: str) -> float:
        """Return an entry that is a number strictly between 0 and 1."""
        return arguments.probability(name, self.value(name, float))

    def texts(self, name: str, n: int | None = None) -> tuple[str, ...]:
        """Return an entry that is a list of `n` strings, or of any number."""
        found = self.value(name, list)
        if not all(isinstance(text, str) for text in found) or n not in (None, len(found)):
            number = "texts" if n is None else f"{n} texts"
            raise ValueError(f"{name!r} must be a list of {number}, but is {shown(found)}")
        return tuple(found)

    def floats(self, name: str, *shape: int | None, low: float = -inf, high: float = inf) -> Array:
        """Return an array of finite doubles in an interval; None is an axis of any length."""
        found = self.array(name, "f", *shape)
        fits = np.isfinite(found) & (low <= found) & (found <= high)
        if found.dtype != np.float64 or not fits.all():
            limits = "" if (low, high) == (-inf, inf) else f" from {low:g} to {high:g}"
            raise ValueError(f"{name!r} must contain finite doubles{limits}")
        return found

    def integers(self, name: str, most: int, *shape: int | None) -> Array:
        """Return an array of integers from 0 to `most`; None is an axis of any length."""
        found = self.array(name, "iu", *shape)
        if found.size and (found.min() < 0 or found.max() > most):
            raise ValueError(f"{name!r} must contain whole numbers from 0 to {most}")
        return found.astype(np.int64)

    def array(self, name: str, kinds: str, *shape: int | None) -> Array:
        """Return an array of one of the kinds of dtypes; None is an axis of any length."""
        found = self.arrays.get(name)
        if found is None:
            raise ValueError(f"it contains no array {name!r}")
        fits = len(found.shape) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, found.shape, strict=True)
        )
        if found.dtype.kind not in kinds or not fits:
            sizes = ", ".join("any" if size is None else str(size) for size in shape)
            kind = "numbers" if "f" in kinds else "whole numbers"
            raise ValueError(
                f"{name!r} must contain {kind} of shape ({sizes}), but is {found.shape} of "
                f"{found.dtype}"
            )
        return found


def save(
    path: str | Path, kind: str, about: Mapping[str, Any], arrays_by_name: Mapping[str, Array]
) -> None:
    """Write a record completely or not at all, without pickling.

    Arguments:
        path: Path of the file.
        kind: Kind of the record, the entry "kind" of its description.
        about: Other entries of the description, for JSON.
        arrays_by_name: Arrays, by name.
    """
    whole = {"kind": kind, "format": _FORMAT, "versions": versions(), **about}
    members = {name: arrays.host(array) for name, array in arrays_by_name.items()}
    members[_DESCRIBED] = np.array(json.dumps(whole))
    with replacing(new_file(path)) as file:
        np.savez(file, **members)


def load(path: str | Path) -> Record:
    """Read a record; raise `ValueError` if the file is damaged or no record."""
    path = existing(path)
    with checking(path):
        return _read(path)


@contextmanager
def checking(path: str | Path) -> Iterator[None]:
    """Turn all errors about the content of a file into a `ValueError` that names it."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # damaged files raise almost anything in NumPy and zipfile
        said = str(error).removesuffix(".") or type(error).__name__
        raise ValueError(
            f"{str(path)!r} is damaged or was not saved by tarpon: {said}."
        ) from error


def _read(path: Path) -> Record:
    """Read a record after comparing its sizes with that of the file."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [info.filename for info in members]
        if len(names) > _MOST_ARRAYS or len(set(names)) < len(names):
            raise ValueError(f"it contains more than {_MOST_ARRAYS} arrays, or an array twice")
        if any(info.compress_type != zipfile.ZIP_STORED for info in members):
            raise ValueError("it is compressed")
        if sum(info.file_size for info in members) > path.stat().st_size:
            raise ValueError("its arrays are declared larger than the file")
        found = {name.removesuffix(".npy"): _member(archive, name) for name in names}
    text = found.pop(_DESCRIBED, np.array(0))
    if text.shape or text.dtype.kind != "U":
        raise ValueError(f"it contains no text {_DESCRIBED!r}")
    record = Record(described(str(text)), found)
    if record.value("format", int) != _FORMAT:
        raise ValueError(f"it has format {record.about['format']}, this version reads {_FORMAT}")
    return record


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    """Read an array after comparing its header with the archive."""
    n_bytes = archive.getinfo(name).file_size
    with archive.open(name) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{shown(name)} has an unknown format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file, _MOST_HEADER)
        if dtype.kind not in _KINDS or min(shape, default=0) < 0:
            raise ValueError(f"{shown(name)} is {shape} of {dtype}, not of plain numbers")
        if prod(shape) * dtype.itemsize != n_bytes - file.tell():
            raise ValueError(f"{shown(name)} does not have the size in its header")
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False, max_header_size=_MOST_HEADER)


def described(text: str) -> dict[str, Any]:
    """Return a description from JSON."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"the description is {shown(found)}, not a dictionary")
    return found

"""The arrays of a file before they are read, and how much memory they may use."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..._base.types import Array, ArrayLike

MOST_ARRAYS = 1000
_MOST_AXES = 32
_LONGEST = 2**62
_ALWAYS = 64 * 2**20  # bytes of memory that any file may use
_RATIO = 200  # a file that unpacks to more than this times its size contains no draws
_UNKNOWN_MEMORY = 8 * 2**30
_WORD = 64  # bytes of memory per word, at least
_WORDS = "OSTU"  # the kinds of NumPy's types that may contain words


@dataclass(frozen=True, eq=False)
class FileArray:
    """An array of a file, before it is read.

    Arguments:
        shape: Shape that the file declares.
        dtype: Type of the numbers.
        open: Function that returns the numbers, or an object that reads them when needed.
        dims: Names of the axes, if the file has them.
        in_memory: Whether opening the array reads all of it.
        at_once: Bytes that are read together with any part of the array.
        refused: Reason why the array may not be opened; empty if it may.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    open: Callable[[], ArrayLike]
    dims: tuple[str, ...] = ()
    in_memory: bool = False
    at_once: int = 0
    refused: str = ""

    def __post_init__(self) -> None:
        sizes = self.shape
        if any(type(n) is not int or n < 0 for n in sizes) or len(sizes) > _MOST_AXES:
            raise ValueError(f"invalid shape {short(sizes)}")
        if prod(n or 1 for n in sizes) * max(self.dtype.itemsize, 1) > _LONGEST:
            raise ValueError(f"invalid shape {short(sizes)}, larger than any disk")

    @property
    def n_bytes(self) -> int:
        """The memory that the whole array uses."""
        return prod(self.shape) * (_WORD if self.dtype.hasobject else self.dtype.itemsize)

    @property
    def is_numbers(self) -> bool:
        """Whether the array contains real numbers."""
        return self.dtype.kind in "biuf"

    @property
    def is_words(self) -> bool:
        """Whether the array is a list of words."""
        return self.dtype.kind in _WORDS and len(self.shape) == 1

    @property
    def kind(self) -> str:
        """The type of the array, in a word."""
        return "words" if self.is_words else "refused" if self.refused else str(self.dtype)

    def needs(self, axis: int | None) -> int:
        """Return how many bytes are read at once.

        Arguments:
            axis: Axis of the simulations if a few are read at a time, None if all are.
        """
        if self.in_memory or axis is None or len(self.shape) <= axis:
            return self.n_bytes
        return max(self.at_once, self.n_bytes // max(self.shape[axis], 1))


def refused(why: str) -> FileArray:
    """Return an array that is not opened, with the reason."""
    return FileArray((), np.dtype("V"), lambda: None, refused=why)


def listed(words: ArrayLike) -> FileArray:
    """Return names that are in memory already."""
    words = [str(word) for word in np.ravel(np.asarray(words)).tolist()]
    return FileArray((len(words),), np.dtype("U"), lambda: words, in_memory=True)


def at_hand(array: Array) -> FileArray:
    """Return an array that is in memory already."""
    return FileArray(array.shape, array.dtype, lambda: array, in_memory=True)


def memory(path: Path, most_bytes: int | None) -> int:
    """Return how many bytes of memory a file may use."""
    if most_bytes is not None:
        return most_bytes
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        installed = _UNKNOWN_MEMORY
    return min(installed // 2, max(_ALWAYS, _RATIO * _on_disk(path)))


def _on_disk(path: Path) -> int:
    if (path / "zarr.json").exists():
        return sum(n_bytes for _, n_bytes, _ in tree(path))
    files = path.glob("*.npy") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def tree(path: Path) -> list[tuple[str, int, bool]]:
    """Return every file below a folder: its name, its size, and whether it is a link."""
    files, folders = [], [""]
    while folders:
        below = folders.pop()
        with os.scandir(path / below) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
                else:
                    n_bytes = entry.stat().st_size if entry.is_file() else 0
                    files.append((name, n_bytes, not entry.is_file(follow_symlinks=False)))
    return files


def size(n_bytes: int) -> str:
    """Return a number of bytes in words, `720 B` or `1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000  # type: ignore[assignment]
    return f"{n_bytes:.3g} TB"


def short(words: object, most: int = 200) -> str:
    """Return words from a file as a short line that is safe to print on a terminal."""
    line = " ".join(str(words).split())
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return line if len(line) <= most else f"{line[: most - 1]}…"

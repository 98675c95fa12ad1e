"""What is kept on disk: files that are whole at all times, and what a folder says about itself."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ABOUT = "about.json"


PART = ".part"  # what the names of files end with that are not whole yet


def about_folder(folder: Path) -> dict[str, Any]:
    """Return what a folder of results says about itself."""
    path = folder / ABOUT
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}.")
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} is no folder of results: it holds no {ABOUT}.")
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(folder)!r} is no folder of results: {error}.") from error


def write_once(path: Path, about: Mapping[str, Any]) -> None:
    """Write a file unless another process has, which may be doing so right now."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=PART) as file:
        json.dump(about, file, indent=2)
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            return


@contextmanager
def replacing(path: Path, *, private: bool = True) -> Iterator[Any]:
    """Open a file that takes its name only when it is whole and on the disk.

    Arguments:
        path: Its name.
        private: Whether nobody else may read it; others get the permissions of any new file.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(path.parent)!r} to write {path.name!r} into: make it first."
        )
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=PART, delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not private:
                Path(file.name).chmod(0o666 & ~_umask())
        except BaseException:
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them, and objects as they print, wherever they are in memory."""

    def words(value: object) -> str:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

    return dict(json.loads(json.dumps(values, default=words)))


def existing(path: str | Path) -> Path:
    """Return the path of a file or folder that is there."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    return path

"""Folders of records: what all of them depend on, and what tells them from those of others.

`about.json` holds everything that the records depend on. Each record names the folder and the
file that it was written for, so that none is taken for another.
"""

import ast
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from . import arguments, arrays, disk
from .arguments import shown
from .fingerprint import of_array
from .types import RNG, Array

_ABOUT, _LOCK = "about.json", "lock"
_KIND = "part"


@dataclass(frozen=True)
class Folder:
    """A folder of records that depend on the same things.

    Arguments:
        path: The folder.
        key: Tells its records from those of folders that depend on something else.
        seed: The seed of everything in it.
    """

    path: Path
    key: str
    seed: int

    @classmethod
    def opened(
        cls,
        path: Path,
        identity: Mapping[str, Any],
        rng: RNG,
        *,
        note: Mapping[str, Any] | None = None,
        afresh: bool = False,
    ) -> "Folder":
        """Open a folder, a new one or one that depends on the same things.

        Arguments:
            path: The folder.
            identity: Everything that its records depend on beside the seed, as JSON has it.
            rng: The seed or generator; without one, that of the folder.
            note: What else to write into a new folder.
            afresh: Whether nothing in the folder counts yet, so that it may begin again.
        """
        identity = json.loads(json.dumps(identity))
        path.mkdir(parents=True, exist_ok=True)
        others = [p.name for p in path.iterdir() if p.name != _LOCK and p.suffix != disk.PART]
        if others and not (path / _ABOUT).exists():
            raise ValueError(
                f"{str(path)!r} is no folder of results: it has no {_ABOUT}, but {others[0]!r}. "
                f"Give this run a folder of its own."
            )
        if afresh or not others:
            seed = arguments.seed(rng)
            key = hashlib.sha256(json.dumps([identity, seed]).encode()).hexdigest()
            about = {"seed": seed, "key": key, "identity": identity, "note": note or {}}
            with disk.replacing(path / _ABOUT, Path.replace if afresh else _once) as file:
                file.write(json.dumps({"versions": disk.versions(), **about}, indent=2).encode())
        found = about_folder(path)
        _refuse_another(path, found, identity, rng)
        return cls(path, found["key"], found["seed"])

    def save(self, name: str, arrays_by_name: Mapping[str, Array]) -> None:
        """Write a record of the folder."""
        arrays_there = {key: arrays.host(array) for key, array in arrays_by_name.items()}
        disk.save(self.path / name, _KIND, self._about(name, arrays_there), arrays_there)

    def load(self, name: str) -> dict[str, Array]:
        """Return the arrays of a record, or raise `ValueError` if it is not what was written."""
        record = disk.load(self.path / name)
        about = {"kind": _KIND} | self._about(name, record.arrays)
        if any(record.about.get(entry) != value for entry, value in about.items()):
            raise ValueError(
                f"{str(self.path / name)!r} was written for another run or another name, or has "
                f"changed since."
            )
        return record.arrays

    def _about(self, name: str, arrays_there: Mapping[str, Array]) -> dict[str, Any]:
        """Return what a record of these arrays says about itself."""
        told = {key: of_array(array) for key, array in arrays_there.items()}
        return {"key": self.key, "name": name, "arrays": told}


def about_folder(path: Path) -> dict[str, Any]:
    """Return what a folder says about the records in it."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {str(path)!r}.")
    if not (path / _ABOUT).is_file():
        raise ValueError(f"{str(path)!r} is no folder of results: it has no {_ABOUT}.")
    try:
        about = disk.described((path / _ABOUT).read_text(encoding="utf-8"))
        record = disk.Record(about, {})
        return about | {
            "key": record.value("key", str),
            "seed": record.count("seed"),
            "identity": record.value("identity", dict),
            "note": record.value("note", dict),
        }
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{str(path)!r} is no folder of results: in {_ABOUT}, {error}."
        ) from error


def _once(part: Path, path: Path) -> None:
    """Give a file its name, unless another process has just given that to one of its own."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except (AttributeError, OSError):  # a system or a disk without links
        with filelock.FileLock(path.with_name(_LOCK)):
            if not path.exists():
                part.replace(path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other programs out of a folder; the lock goes with the process, however it ends."""
    lock = filelock.FileLock(folder / _LOCK)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise ValueError(
            f"another run is at work in {str(folder)!r}: wait for it, or give this one a folder "
            f"of its own."
        ) from error
    except NotImplementedError as error:
        raise ValueError(
            f"{str(folder)!r} is on a disk that cannot lock files, so that nothing would keep two "
            f"runs apart: give this run a folder on another disk."
        ) from error
    try:
        for left in folder.glob(f"*{disk.PART}"):  # of a program that was killed
            left.unlink()
        yield
    finally:
        lock.release()


def _refuse_another(
    path: Path, about: Mapping[str, Any], identity: Mapping[str, Any], rng: RNG
) -> None:
    """Refuse a folder whose records depend on something else."""
    wanted: dict[str, Any] = dict(identity)
    kept = dict(about["identity"])
    if isinstance(rng, int | np.integer):
        wanted["seed"], kept["seed"] = arguments.seed(rng), about["seed"]
    differ = [
        difference
        for name in wanted | kept
        for difference in _differences(name, kept.get(name), wanted.get(name))
    ]
    if differ:
        raise ValueError(
            f"{str(path)!r} holds results of another run: {'; '.join(differ)}. Results of both "
            f"must not be mixed: give this run a folder of its own, or delete that one."
        )


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield what has changed, in words. Comments and spaces of a source do not count."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before | now:
            yield from _differences(f"{name}.{key}", before.get(key), now.get(key))
    elif isinstance(before, str) and isinstance(now, str) and "\n" in before + now:
        if _code(before) != _code(now):
            yield _changed_line(name, before.splitlines(), now.splitlines())
    elif before != now:
        yield f"{name} was {shown(before)} and is {shown(now)}"


def _code(text: str) -> str:
    """Return a source without its comments and spaces."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return text


def _changed_line(name: str, before: list[str], now: list[str]) -> str:
    same = next(
        (k for k, lines in enumerate(zip(before, now, strict=False)) if lines[0] != lines[1]),
        min(len(before), len(now)),
    )
    was, is_now = (lines[same].strip() if same < len(lines) else "" for lines in (before, now))
    return f"{name}, line {same + 1}, was {was!r} and is {is_now!r}"

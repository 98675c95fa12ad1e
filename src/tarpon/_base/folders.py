"""Folders of records that depend on the same data, settings and seed.

`about.json` contains everything that the records depend on. Each record contains the key of its
folder, its own file name and a digest of its arrays, so that no record is mistaken for another.
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
    """Folder of records that depend on the same data, settings and seed.

    Arguments:
        path: Path of the folder.
        key: Digest of everything that the records depend on.
        seed: Seed of the records.
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
        """Create a folder, or open one with the same identity.

        Arguments:
            path: Path of the folder.
            identity: Everything that the records depend on but the seed, for JSON.
            rng: Seed or generator; by default the seed of the folder.
            note: Dictionary to write into a new folder.
            afresh: Whether a folder that exists may get another identity.
        """
        identity = json.loads(json.dumps(identity))
        path.mkdir(parents=True, exist_ok=True)
        others = [p.name for p in path.iterdir() if p.name != _LOCK and p.suffix != disk.PART]
        if others and not (path / _ABOUT).exists():
            raise ValueError(
                f"{str(path)!r} is not a folder of results: it contains {others[0]!r} but no "
                f"{_ABOUT}. Give this run a folder of its own."
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
        """Return the arrays of a record; raise `ValueError` if it is damaged or misplaced."""
        record = disk.load(self.path / name)
        about = {"kind": _KIND} | self._about(name, record.arrays)
        if any(record.about.get(entry) != value for entry, value in about.items()):
            raise ValueError(
                f"{str(self.path / name)!r} is damaged or misplaced: it was written by another "
                f"run or under another name, or has changed since."
            )
        return record.arrays

    def _about(self, name: str, arrays_there: Mapping[str, Array]) -> dict[str, Any]:
        """Return the description of a record with these arrays."""
        told = {key: of_array(array) for key, array in arrays_there.items()}
        return {"key": self.key, "name": name, "arrays": told}


def about_folder(path: Path) -> dict[str, Any]:
    """Return the content of `about.json`."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {str(path)!r}.")
    if not (path / _ABOUT).is_file():
        raise ValueError(f"{str(path)!r} is not a folder of results: it contains no {_ABOUT}.")
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
            f"{str(path)!r} is not a folder of results: in {_ABOUT}, {error}."
        ) from error


def _once(part: Path, path: Path) -> None:
    """Rename a file, unless another process has created a file of the new name meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except (AttributeError, OSError):  # the system or the disk lacks hard links
        with filelock.FileLock(path.with_name(_LOCK)):
            if not path.exists():
                part.replace(path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; the lock ends with the process."""
    lock = filelock.FileLock(folder / _LOCK)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise ValueError(
            f"another run uses {str(folder)!r}: wait until it ends, or give this run a folder of "
            f"its own."
        ) from error
    except NotImplementedError as error:
        raise ValueError(
            f"{str(folder)!r} is on a disk without file locks, so two runs could mix their "
            f"results: give this run a folder on another disk."
        ) from error
    try:
        for part in folder.glob(f"*{disk.PART}"):  # left by a program that was killed
            part.unlink()
        yield
    finally:
        lock.release()


def _refuse_another(
    path: Path, about: Mapping[str, Any], identity: Mapping[str, Any], rng: RNG
) -> None:
    """Refuse a folder with another identity or seed."""
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
            f"{str(path)!r} contains results of another run: {'; '.join(differ)}. Give this run "
            f"a folder of its own, or delete that one."
        )


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield the differences of two entries in words, without comments and spaces of sources."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before | now:
            yield from _differences(f"{name}.{key}", before.get(key), now.get(key))
    elif isinstance(before, str) and isinstance(now, str) and "\n" in before + now:
        if _code(before) != _code(now):
            yield _changed_line(name, before.splitlines(), now.splitlines())
    elif before != now:
        yield f"{name} was {shown(before)} and is {shown(now)}"


def _code(text: str) -> str:
    """Return a source without comments and spaces."""
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

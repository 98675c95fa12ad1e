"""The store: a folder with every simulation that is finished."""

import ast
import fcntl
import json
import os
import platform
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._base import arguments
from .._base.arrays import Results
from .._base.disk import PART, about_folder, replacing
from .._base.text import clean
from .._base.types import RNG
from .._version import __version__

_FORMAT = 1
_ABOUT = "about.json"
_LOCK = "lock"
_OWNER, _INDEX = "owner", "index"  # the arrays that say which simulations a file holds
_AXES = {"samples": 1, "log_prob_samples": 1}  # that count simulations; of all others the first
_FILES, _FAILURES, _DAMAGED = "simulations-*.npz", "failed-*.json", "damaged-"
_DAMAGES = OSError, ValueError, EOFError, LookupError, zipfile.BadZipFile  # as NumPy says them


@dataclass(frozen=True)
class Failure:
    """A simulation that gave no result.

    Arguments:
        index: Which one.
        message: What went wrong.
        attempts: How often it was tried.
        details: The traceback, if there is one.
    """

    index: int
    message: str
    attempts: int = 1
    details: str = ""

    def __str__(self) -> str:
        times = f", tried {self.attempts} times" if self.attempts > 1 else ""
        return f"simulation {self.index}: {clean(self.message, 1000)}{times}"


@dataclass(frozen=True)
class Store:
    """A folder of files with finished simulations, one in each or several.

    A file takes its name, that of the first simulation in it, when it is whole and on the disk.
    The zip format keeps a checksum of every array, and the file says which simulations of which
    store it holds.

    Arguments:
        folder: The folder.
        key: What tells this store from all others.
        seed: The seed of its simulations.
    """

    folder: Path
    key: str
    seed: int

    def files(self, n_sims: int) -> list[Path]:
        """Return the files that may hold some of so many simulations, in order."""
        end = _order(self._file(n_sims))
        found = sorted(self.folder.glob(_FILES), key=_order)
        return [path for path in found if _order(path) < end]

    def read(self, path: Path) -> dict[int, Results]:
        """Return the simulations of a file; raise `ValueError` if it is damaged."""
        try:
            owner, found = _read(path)
        except _DAMAGES as error:
            raise ValueError(f"{str(path)!r} is damaged ({error})") from error
        if (owner, path.name) != (self.key, self._file(min(found)).name):
            raise ValueError(f"{str(path)!r} is of another store or another simulation")
        return found

    def set_aside(self, path: Path) -> None:
        """Take a file that is damaged out of the way."""
        path.rename(path.with_name(f"{_DAMAGED}{path.name}"))

    def keep(self, finished: Mapping[int, Results]) -> None:
        """Write simulations; when this returns, a power cut does not lose them."""
        for alike in _by_precision(finished):
            indices = sorted(alike)
            arrays = stacked([alike[index] for index in indices])
            arrays |= {_INDEX: np.array(indices), _OWNER: np.array(self.key)}
            with replacing(self._file(indices[0])) as file:
                np.savez(file, **arrays)
        self._sync()
        for index in finished:
            self._failed(index).unlink(missing_ok=True)

    def note(self, failure: Failure) -> None:
        """Write down why there is no result."""
        with replacing(self._failed(failure.index)) as file:
            file.write(json.dumps(asdict(failure), indent=2).encode())

    def _file(self, index: int) -> Path:
        return self.folder / f"simulations-{index:06d}.npz"

    def _failed(self, index: int) -> Path:
        return self.folder / f"failed-{index:06d}.json"

    def _sync(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name of a file is on the disk only when its folder is
        finally:
            os.close(folder)


def _read(path: Path) -> tuple[str, dict[int, Results]]:
    """Return which store a file is of, and its simulations by index."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    owner, indices = str(found.pop(_OWNER)), found.pop(_INDEX)
    if indices.ndim != 1 or indices.dtype.kind != "i" or not len(indices) or min(indices) < 0:
        raise ValueError("it does not say which simulations it holds")
    return owner, {
        int(index): {name: many.take(k, axis=_AXES.get(name, 0)) for name, many in found.items()}
        for k, index in enumerate(indices)
    }


def n_kept(folder: Path) -> int:
    """Return how many simulations are in a store, but for files that are damaged."""
    n_sims = 0
    for path in folder.glob(_FILES):
        with suppress(*_DAMAGES), path.open("rb") as file, np.load(file) as arrays:
            n_sims += len(arrays[_INDEX])
    return n_sims


def _order(path: Path) -> tuple[int, str]:
    return len(path.name), path.name  # also of numbers with more digits than others


def stacked(every: Sequence[Results]) -> dict[str, Any]:
    """Return the arrays of simulations as `Simulations` has them."""
    return {
        name: np.stack([one[name] for one in every], axis=_AXES.get(name, 0)) for name in every[0]
    }


def precision(results: Results) -> tuple[Any, ...]:
    """Return what simulations must share: one array of both would change their numbers."""
    return tuple(results[name].dtype for name in sorted(results))


def _by_precision(finished: Mapping[int, Results]) -> Iterable[dict[int, Results]]:
    found: dict[tuple[Any, ...], dict[int, Results]] = {}
    for index, results in finished.items():
        found.setdefault(precision(results), {})[index] = results
    return found.values()


@contextmanager
def opened(folder: str | Path, identity: Mapping[str, Any], rng: RNG) -> Iterator[Store]:
    """Open a store, a new one or one of the same problem, for this program alone.

    Arguments:
        folder: Where it is.
        identity: What simulations depend on, beside the seed.
        rng: The seed or generator; with none, that of the store.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a") as lock:
        _take(lock, folder)
        for left in folder.glob(f"*{PART}"):  # of a program that was killed
            left.unlink()
        if not any(folder.glob(_FILES)):
            _begin(folder, identity, rng)
        about = about_folder(folder)
        _refuse_another(folder, about, identity, rng)
        yield Store(folder, about["key"], int(about["seed"]))


def _take(lock: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # gone with the process, however it ends
    except BlockingIOError as error:
        raise ValueError(
            f"another run is at work in {str(folder)!r}: wait for it, or give this one a store of "
            f"its own."
        ) from error


def _begin(folder: Path, identity: Mapping[str, Any], rng: RNG) -> None:
    """Begin a store where there is none, or one in which nothing has worked."""
    others = [path.name for path in folder.iterdir() if path.name != _LOCK]
    if others and not (folder / _ABOUT).exists():
        raise ValueError(
            f"{str(folder)!r} is no store: it has no {_ABOUT}, but {others[0]!r}. Give the run a "
            f"folder of its own."
        )
    for failure in folder.glob(_FAILURES):
        failure.unlink()
    about = {
        "format": _FORMAT,
        "seed": arguments.seed(rng),
        "key": secrets.token_hex(8),
        **identity,
        "tarpon": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    with replacing(folder / _ABOUT) as file:
        file.write(json.dumps(about, indent=2).encode())


def _refuse_another(
    folder: Path, about: Mapping[str, Any], identity: Mapping[str, Any], rng: RNG
) -> None:
    """Refuse a store of another problem, another seed or another format."""
    wanted = {"format": _FORMAT, **identity}
    if isinstance(rng, int | np.integer):
        wanted["seed"] = arguments.seed(rng)
    differ = [
        _difference(name, about.get(name), value)
        for name, value in wanted.items()
        if not _same(name, about.get(name), value)
    ]
    if differ:
        raise ValueError(
            f"{str(folder)!r} holds simulations of another problem: {'; '.join(differ)}. Results "
            f"of both must not be mixed: give this run a store of its own, or delete that one."
        )


def _same(name: str, before: Any, now: Any) -> bool:
    if name == "source" and before is not None:
        return before == now or ast.dump(ast.parse(before)) == ast.dump(ast.parse(now))
    return bool(before == now)


def _difference(name: str, before: Any, now: Any) -> str:
    """Return what has changed, in words."""
    if name == "source" and before is not None:
        return _changed_line(before.splitlines(), now.splitlines())
    if isinstance(before, dict) and isinstance(now, dict):
        return "; ".join(
            _difference(f"{name}.{key}", before.get(key), now.get(key))
            for key in before | now
            if before.get(key) != now.get(key)
        )
    return f"{name} was {before!r} and is {now!r}"


def _changed_line(before: list[str], now: list[str]) -> str:
    same = sum(1 for _ in _common(before, now))
    was, is_now = (lines[same].strip() if same < len(lines) else "" for lines in (before, now))
    return f"line {same + 1} of its source was {was!r} and is {is_now!r}"


def _common(before: list[str], now: list[str]) -> Iterator[str]:
    for was, is_now in zip(before, now, strict=False):
        if was != is_now:
            return
        yield was

"""The store: a folder with every simulation that is finished."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base import disk
from .._base.arrays import Results
from .._base.folders import Folder, alone
from .._base.text import clean
from .._base.types import RNG

_INDEX = "index"  # the array that says which simulations a file holds
_AXES = {"samples": 1, "log_prob_samples": 1}  # that count simulations; of all others the first
_FILES, _FAILURES, _DAMAGED = "simulations-*.npz", "failed-*.json", "damaged-"


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
    """A folder of records with finished simulations, one in each or several.

    A record is named after the first simulation in it.

    Arguments:
        folder: The folder.
    """

    folder: Folder

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    @property
    def seed(self) -> int:
        """The seed of the simulations."""
        return self.folder.seed

    def files(self, n_sims: int) -> list[Path]:
        """Return the files that may hold some of so many simulations, in order."""
        end = _order(self.path / _name(n_sims))
        found = sorted(self.path.glob(_FILES), key=_order)
        return [path for path in found if _order(path) < end]

    def read(self, path: Path) -> dict[int, Results]:
        """Return the simulations of a file; raise `ValueError` if it is damaged."""
        arrays = self.folder.load(path.name)
        indices = arrays.pop(_INDEX)
        return {
            int(index): {name: many.take(k, _AXES.get(name, 0)) for name, many in arrays.items()}
            for k, index in enumerate(indices)
        }

    def set_aside(self, path: Path) -> None:
        """Take a file that is damaged out of the way."""
        path.rename(path.with_name(f"{_DAMAGED}{path.name}"))

    def keep(self, finished: Mapping[int, Results]) -> None:
        """Write simulations; when this returns, a power cut does not lose them."""
        for alike in _by_precision(finished):
            indices = sorted(alike)
            arrays = stacked([alike[index] for index in indices])
            self.folder.save(_name(indices[0]), arrays | {_INDEX: np.array(indices)})
        disk.synced(self.path)
        for index in finished:
            self._failed(index).unlink(missing_ok=True)

    def note(self, failure: Failure) -> None:
        """Write down why there is no result."""
        with disk.replacing(self._failed(failure.index)) as file:
            file.write(json.dumps(asdict(failure), indent=2).encode())

    def _failed(self, index: int) -> Path:
        return self.path / f"failed-{index:06d}.json"


def _name(index: int) -> str:
    return f"simulations-{index:06d}.npz"


def n_kept(path: Path) -> int:
    """Return how many simulations are in a store, apart from files that are damaged."""
    n_sims = 0
    for file in path.glob(_FILES):
        with suppress(ValueError, KeyError, FileNotFoundError):
            n_sims += len(disk.load(file).arrays[_INDEX])
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
def opened(path: str | Path, identity: Mapping[str, Any], rng: RNG) -> Iterator[Store]:
    """Open a store, a new one or one of the same problem, for this program alone.

    Arguments:
        path: Where it is.
        identity: Everything that simulations depend on beside the seed.
        rng: The seed or generator; without one, that of the store.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    with alone(path):
        afresh = not any(path.glob(_FILES))
        folder = Folder.opened(path, identity, rng, afresh=afresh)
        if afresh:
            for failure in path.glob(_FAILURES):
                failure.unlink()
        yield Store(folder)

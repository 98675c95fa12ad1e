"""The store: a folder with all finished simulations."""

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

_INDEX = "index"  # the array with the indices of the simulations in a file
# The axes that count simulations; 0 for other arrays.
_AXES = {"samples": 1, "log_prob_samples": 1, "log_weights": 1}
_FILES, _FAILURES, _DAMAGED = "simulations-*.npz", "failed-*.json", "damaged-"


@dataclass(frozen=True)
class Failure:
    """Simulation without a result.

    Arguments:
        index: Index of the simulation.
        message: Reason.
        attempts: Number of attempts.
        details: Traceback, if there is one.
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
    """Folder of records with one or more finished simulations each.

    A record has the index of its first simulation in its name.

    Arguments:
        folder: Folder of the records.
    """

    folder: Folder

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return self.folder.path

    @property
    def seed(self) -> int:
        """The seed of the simulations."""
        return self.folder.seed

    def files(self, n_sims: int) -> list[Path]:
        """Return the files that may contain one of the first `n_sims` simulations, in order."""
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
        """Rename a damaged file."""
        path.rename(path.with_name(f"{_DAMAGED}{path.name}"))

    def keep(self, finished: Mapping[int, Results]) -> None:
        """Write simulations to the disk, so that they survive a power cut."""
        for alike in _by_precision(finished):
            indices = sorted(alike)
            arrays = stacked([alike[index] for index in indices])
            self.folder.save(_name(indices[0]), arrays | {_INDEX: np.array(indices)})
        disk.synced(self.path)
        for index in finished:
            self._failed(index).unlink(missing_ok=True)

    def note(self, failure: Failure) -> None:
        """Write the reason of a failure."""
        with disk.replacing(self._failed(failure.index)) as file:
            file.write(json.dumps(asdict(failure), indent=2).encode())

    def _failed(self, index: int) -> Path:
        return self.path / f"failed-{index:06d}.json"


def _name(index: int) -> str:
    return f"simulations-{index:06d}.npz"


def n_kept(path: Path) -> int:
    """Return the number of simulations in a store, without damaged files."""
    n_sims = 0
    for file in path.glob(_FILES):
        with suppress(ValueError, KeyError, FileNotFoundError):
            n_sims += len(disk.load(file).arrays[_INDEX])
    return n_sims


def _order(path: Path) -> tuple[int, str]:
    return len(path.name), path.name  # numbers may have more than six digits


def stacked(every: Sequence[Results]) -> dict[str, Any]:
    """Return the arrays of simulations, stacked as in `Simulations`."""
    return {
        name: np.stack([one[name] for one in every], axis=_AXES.get(name, 0)) for name in every[0]
    }


def precision(results: Results) -> tuple[Any, ...]:
    """Return the dtypes of a simulation, since stacking different ones would change numbers."""
    return tuple(results[name].dtype for name in sorted(results))


def _by_precision(finished: Mapping[int, Results]) -> Iterable[dict[int, Results]]:
    found: dict[tuple[Any, ...], dict[int, Results]] = {}
    for index, results in finished.items():
        found.setdefault(precision(results), {})[index] = results
    return found.values()


@contextmanager
def opened(path: str | Path, identity: Mapping[str, Any], rng: RNG) -> Iterator[Store]:
    """Create a store, or open one of the same problem, and lock it.

    Arguments:
        path: Path of the folder.
        identity: Everything that simulations depend on but the seed.
        rng: Seed or generator; by default the seed of the store.
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

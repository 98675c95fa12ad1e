"""Files: simulations in whatever format they were written. Nothing is ever unpickled.

The formats, what arrays are called, and what is refused: docs/files.md.
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._base import arguments, disk
from ..._base.text import clean, size
from ..._base.types import ArrayLike
from ...simulations import Simulations, shapes
from . import formats, roles
from .entries import Found, memory

_LONGEST = 4096  # characters of a path that are printed
_N_AXES = {"samples": 3, "theta": 2}


def load(
    path: str | Path,
    *,
    theta: str | Path | None = None,
    arrays: Mapping[str, str | None] | None = None,
    most_bytes: int | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Open simulations that are in a file.

    Of `.npz` archives and tables (`.csv`, `.parquet`) all is read. Of HDF5 (`.h5`, `.hdf5`),
    netCDF (`.nc`), Zarr version 3 (`.zarr`), `.npy` files, alone or in a folder, safetensors and
    torch (`.pt`, `.pth`), draws, log-densities and observations stay where they are until a test
    needs them.

    Arguments:
        path: A file with `samples` (n_draws, n_sims, n_dims) and `theta` (n_sims, n_dims), or
            with `log_prob_samples` and `log_prob_theta` alone; `x`, `log_weights`,
            `log_weights_theta`, `offsets` and `names` if there are any.
        theta: A second file, if the truths are in one of their own.
        arrays: What the arrays are called where the file has its own names for them, for example
            `{"samples": "post/draws"}`; None leaves one out.
        most_bytes: How much memory may be taken at once. By default half of what the machine has,
            and no more than 200 times the size of the file, or 64 MB.
        on_invalid: What to do with simulations that hold NaN: "raise" or "drop".

    Example:
        >>> rng = np.random.default_rng(0)
        >>> samples, theta = rng.normal(size=(9, 5, 2)), rng.normal(size=(5, 2))
        >>> np.savez("draws.npz", samples=samples, theta=theta)
        >>> load("draws.npz")
        Simulations(5 simulations, 9 draws each, 2 parameters)
        >>> np.save("a.npy", samples)
        >>> np.save("b.npy", theta)
        >>> load("a.npy", theta="b.npy")
        Simulations(5 simulations, 9 draws each, 2 parameters)
    """
    shapes.what_to_do(on_invalid)
    opened = _File.of(path, theta, arrays, most_bytes)
    taken = opened.read()
    if "samples" in taken and "theta" in taken:
        return Simulations(**taken, names=opened.names(), on_invalid=on_invalid)
    if "log_prob_samples" in taken and "log_prob_theta" in taken:
        alone = {role: array for role, array in taken.items() if role not in ("theta", "x")}
        return Simulations.of_densities(**alone, on_invalid=on_invalid)
    raise ValueError(opened.missing())


def inspect(
    path: str | Path,
    *,
    theta: str | Path | None = None,
    arrays: Mapping[str, str | None] | None = None,
    most_bytes: int | None = None,
) -> "Contents":
    """Say what is in a file, what each array is taken for, and what is missing.

    Arguments:
        path: The file, as for `load`.
        theta: A second file, if the truths are in one of their own.
        arrays: What the arrays are called.
        most_bytes: How much memory may be taken at once.

    Example:
        >>> np.savez("draws.npz", posterior=np.zeros((9, 5, 2)), truths=np.ones((5, 2)))
        >>> print(inspect("draws.npz"))  # doctest: +ELLIPSIS
        draws.npz is an .npz file of 2 arrays.
          name       shape      type     size   taken as
          posterior  (9, 5, 2)  float64  720 B  -
          truths     (5, 2)     float64  80 B   theta
        It cannot be tested yet: ...
    """
    opened = _File.of(path, theta, arrays, most_bytes)
    roles = {name: role for role, names in opened.picks.items() for name in names}
    entries = tuple(
        Entry(name, one.shape, one.kind, one.n_bytes, roles.get(name, ""))
        for name, one in opened.found.items()
    )
    try:
        holds, problem = str(load(path, theta=theta, arrays=arrays, most_bytes=most_bytes)), ""
    except (ValueError, TypeError) as error:
        holds, problem = "", str(error)
    words = ["tarpon", "check" if "samples" in opened.picks else "hpd", str(path)]
    words += ["--theta", str(theta)] if theta is not None else []
    for role, name in (arrays or {}).items():
        words += ["--array", f"{role}={name or ''}"]
    what = formats.what(opened.path)
    return Contents(str(path), what, entries, holds, problem, shlex.join(words))


@dataclass(frozen=True)
class Entry:
    """An array of a file, its size in bytes, and what it is taken as."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int
    role: str


@dataclass(frozen=True)
class Contents:
    """What is in a file; prints as a table.

    Arguments:
        path: The file.
        what: What kind of file it is.
        entries: Its arrays.
        holds: What they are together, if they can be tested.
        problem: Why not, if not.
        command: What tests them, on the command line.
    """

    path: str
    what: str
    entries: tuple[Entry, ...]
    holds: str
    problem: str
    command: str

    def __str__(self) -> str:
        rows = [("name", "shape", "type", "size", "taken as")]
        for one in self.entries:
            role = one.role or "-"
            kind = clean(one.dtype)
            rows.append((clean(one.name), str(one.shape), kind, size(one.n_bytes), role))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
        n = len(self.entries)
        head = f"{clean(self.path, _LONGEST)} is {self.what} of {n} array{'s' if n != 1 else ''}."
        return "\n".join([head, *(f"  {line}" for line in lines), self.verdict])

    @property
    def verdict(self) -> str:
        """Whether it can be tested, and what to do next."""
        if self.problem:
            return f"It cannot be tested yet: {self.problem}"
        return f"{self.holds}. To test it: {clean(self.command, _LONGEST)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _File:
    """A file of which it is known what is in it, and which array is what."""

    path: Path
    found: dict[str, Found]
    picks: roles.Picks
    limit: int

    @classmethod
    def of(
        cls,
        path: str | Path,
        theta: str | Path | None,
        arrays: Mapping[str, str | None] | None,
        most_bytes: int | None,
    ) -> "_File":
        """Look into a file, and a second one with the truths if there is one."""
        given = {"path": path} | ({} if theta is None else {"theta": theta})
        paths = [disk.existing(arguments.path(p, name)).absolute() for name, p in given.items()]
        if most_bytes is not None:
            arguments.positive("most_bytes", most_bytes)
        limit = max(memory(one, most_bytes) for one in paths)
        asked = _asked(arrays)
        if theta is not None and not formats.is_table(paths[0]):
            found = _pair(paths[0], paths[1], limit, asked)
        else:
            found = formats.found(paths[0], limit, *paths[1:])
        return cls(paths[0], found, roles.pick(found, asked), limit)

    def read(self) -> dict[str, ArrayLike]:
        """Return the arrays by their roles, unread where they can be."""
        return formats.trying(self.path, self._read)

    def _read(self) -> dict[str, ArrayLike]:
        roles.afford(self.picks, self.found, self.limit)
        return {
            role: roles.arranged(role, names, self.found)
            for role, names in self.picks.items()
            if role != roles.NAMES
        }

    def names(self) -> list[str] | None:
        """Return the names of the parameters, if the file has any."""
        return formats.trying(self.path, lambda: roles.parameters(self.picks, self.found))

    def missing(self) -> str:
        """Return what the file lacks, and how to say where it is."""
        lack = next(role for role in ("samples", "theta") if role not in self.picks)
        taken = [name for names in self.picks.values() for name in names]
        likely = [
            name
            for name, one in self.found.items()
            if name not in taken and one.is_numbers and len(one.shape) == _N_AXES[lack]
        ]
        name = clean(likely[0]) if likely else "NAME"
        return (
            f"{str(self.path)!r} must hold `samples` and `theta`, or `log_prob_samples` and "
            f"`log_prob_theta`, but holds {clean(', '.join(self.found)) or 'none of them'}. Say "
            f"what is what with `arrays={{{lack!r}: {name!r}}}` (`--array {lack}={name}`), or "
            f"name a second file with `theta=` (`--theta FILE`)."
        )


def _asked(arrays: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Return what arrays are called, by what they are."""
    wanted = 'a dictionary of names, like `{"samples": "post/draws"}`'
    asked = dict(arguments.instance("arrays", {} if arrays is None else arrays, Mapping, wanted))
    for role, name in asked.items():
        if not isinstance(role, str) or not isinstance(name, str | None):
            raise TypeError(arguments.wrong("arrays", wanted, asked))
    return asked


def _pair(path: Path, theta: Path, limit: int, asked: dict[str, str | None]) -> dict[str, Found]:
    """Return what is in a file and, of a second one, the truths. An only array is what it must."""
    found, truths = formats.found(path, limit), formats.found(theta, limit)
    if len(found) == 1:
        asked.setdefault("samples", *found)
    name = asked.pop("theta", None) or roles.only("theta", truths)
    if name not in truths:
        raise ValueError(
            f"there is no array {arguments.shown(name)} in {str(theta)!r} to take for `theta`."
        )
    asked["theta"] = "theta"
    return found | {"theta": truths[name]}

"""Simulations from files of many formats. Nothing is ever unpickled.

docs/files.md lists the formats, the names of arrays, and the files that are refused.
"""

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._base import arguments, disk
from ..._base.text import clean, size
from ..._base.types import ArrayLike
from ...simulations import Simulations, shapes
from . import formats, roles
from .entries import FileArray, memory

_LONGEST = 4096  # characters of a path that are printed
_N_AXES = {"samples": 3, "theta": 2}


def load(
    path: str | Path,
    *,
    theta: str | Path | None = None,
    arrays: Mapping[str, str | None] | None = None,
    most_bytes: int | None = None,
    on_invalid: str = "raise",
    names: Sequence[str] | None = None,
) -> Simulations:
    """Open the simulations in a file.

    Archives (`.npz`) and tables (`.csv`, `.parquet`) are read completely. In HDF5 (`.h5`,
    `.hdf5`), netCDF (`.nc`), Zarr version 3 (`.zarr`), `.npy` files, alone or in a folder,
    safetensors and torch (`.pt`, `.pth`), draws, log-densities and observations stay on disk until
    a test needs them.

    Arguments:
        path: File with `samples` (n_draws, n_sims, n_dims) and `theta` (n_sims, n_dims), or of
            fields `(n_draws, n_sims, *shape)` and `(n_sims, *shape)`, or only `log_prob_samples`
            and `log_prob_theta`; optionally with `x`, `log_weights`, `log_weights_theta`,
            `offsets` and `names`.
        theta: Second file, with the truths, if they are not in the first.
        arrays: Names of arrays in the file, where they differ, for example
            `{"samples": "post/draws"}`; None to ignore an array.
        most_bytes: Memory that may be used at once, in bytes. By default half of the machine's,
            and at most 200 times the size of the file, or 64 MB if that is more.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
        names: Names, one per parameter, in place of those in the file.

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
    data = opened.read()
    if "samples" in data and "theta" in data:
        names = opened.names() if names is None else names
        return Simulations(**data, names=names, on_invalid=on_invalid)
    if names is not None:
        raise ValueError(
            f"`names` are those of parameters, but {str(opened.path)!r} has no draws of any: "
            f"remove `names`."
        )
    if "log_prob_samples" in data and "log_prob_theta" in data:
        densities = {role: array for role, array in data.items() if role not in ("theta", "x")}
        return Simulations.of_densities(**densities, on_invalid=on_invalid)
    raise ValueError(opened.missing())


def inspect(
    path: str | Path,
    *,
    theta: str | Path | None = None,
    arrays: Mapping[str, str | None] | None = None,
    most_bytes: int | None = None,
) -> "Contents":
    """Return the arrays in a file, how `load` uses each, and what is missing.

    Arguments:
        path: File, as for `load`.
        theta: Second file, with the truths, if they are not in the first.
        arrays: Names of arrays in the file, where they differ.
        most_bytes: Memory that may be used at once, in bytes.

    Example:
        >>> np.savez("draws.npz", posterior=np.zeros((9, 5, 2)), truths=np.ones((5, 2)))
        >>> print(inspect("draws.npz"))  # doctest: +ELLIPSIS
        draws.npz is an .npz file of 2 arrays.
          name       shape      type     size   used as
          posterior  (9, 5, 2)  float64  720 B  -
          truths     (5, 2)     float64  80 B   theta
        It cannot be tested yet: ...
    """
    opened = _File.of(path, theta, arrays, most_bytes)
    roles = {name: role for role, names in opened.picks.items() for name in names}
    entries = tuple(
        Entry(name, array.shape, array.kind, array.n_bytes, roles.get(name, ""))
        for name, array in opened.entries.items()
    )
    holds = problem = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            holds = str(load(path, theta=theta, arrays=arrays, most_bytes=most_bytes))
        except (ValueError, TypeError) as error:
            problem = str(error)
    words = ["tarpon", "check" if "samples" in opened.picks else "hpd", str(path)]
    words += ["--theta", str(theta)] if theta is not None else []
    for role, name in (arrays or {}).items():
        words += ["--array", f"{role}={name or ''}"]
    said = tuple(str(warning.message) for warning in warned)
    what = formats.what(opened.path)
    return Contents(str(path), what, entries, holds, problem, shlex.join(words), said)


@dataclass(frozen=True)
class Entry:
    """An array of a file, its size in bytes, and its role in a test."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int
    role: str


@dataclass(frozen=True)
class Contents:
    """The contents of a file; prints as a table.

    Arguments:
        path: File.
        what: Format of the file, in words.
        entries: Arrays of the file.
        holds: Simulations in the file, in words; empty if they cannot be tested.
        problem: Reason why they cannot be tested; empty if they can.
        command: Command that tests them.
        warnings: Warnings about the arrays.
    """

    path: str
    what: str
    entries: tuple[Entry, ...]
    holds: str
    problem: str
    command: str
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("name", "shape", "type", "size", "used as")]
        for entry in self.entries:
            name, kind, role = clean(entry.name), clean(entry.dtype), entry.role or "-"
            rows.append((name, str(entry.shape), kind, size(entry.n_bytes), role))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
        n = len(self.entries)
        head = f"{clean(self.path, _LONGEST)} is {self.what} of {n} array{'s' if n != 1 else ''}."
        odd = (f"Warning: {clean(warning, _LONGEST)}" for warning in self.warnings)
        return "\n".join([head, *(f"  {line}" for line in lines), *odd, self.verdict])

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
    """A file, its arrays, and the role of each array."""

    path: Path
    entries: dict[str, FileArray]
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
        """Return the arrays of a file, and of a second file with the truths if given."""
        given = {"path": path} | ({} if theta is None else {"theta": theta})
        paths = [
            disk.existing(arguments.path(file, name)).absolute() for name, file in given.items()
        ]
        if most_bytes is not None:
            arguments.positive("most_bytes", most_bytes)
        limit = max(memory(file, most_bytes) for file in paths)
        asked = _asked(arrays)
        if theta is not None and not formats.is_table(paths[0]):
            entries = _pair(paths[0], paths[1], limit, asked)
        else:
            entries = formats.entries(paths[0], limit, *paths[1:])
        return cls(paths[0], entries, roles.pick(entries, asked), limit)

    def read(self) -> dict[str, ArrayLike]:
        """Return the arrays by role, unread if possible."""
        return formats.trying(self.path, self._read)

    def _read(self) -> dict[str, ArrayLike]:
        roles.afford(self.picks, self.entries, self.limit)
        axes = roles.field_axes(self.picks, self.entries)
        return {
            role: roles.arranged(role, names, self.entries, axes)
            for role, names in self.picks.items()
            if role != roles.NAMES
        }

    def names(self) -> Sequence[str] | None:
        """Return the names of the parameters, if the file has any."""
        return formats.trying(self.path, lambda: roles.parameters(self.picks, self.entries))

    def missing(self) -> str:
        """Return what the file lacks, and how to tell where it is."""
        lack = next(role for role in ("samples", "theta") if role not in self.picks)
        taken = [name for names in self.picks.values() for name in names]
        likely = [
            name
            for name, array in self.entries.items()
            if name not in taken and array.is_numbers and len(array.shape) >= _N_AXES[lack]
        ]
        name = clean(likely[0]) if likely else "NAME"
        return (
            f"{str(self.path)!r} must contain `samples` and `theta`, or `log_prob_samples` and "
            f"`log_prob_theta`, but contains {clean(', '.join(self.entries)) or 'no arrays'}. "
            f"Name an array with `arrays={{{lack!r}: {name!r}}}` (`--array {lack}={name}`), or "
            f"give a second file with `theta=` (`--theta FILE`)."
        )


def _asked(arrays: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Return the names of arrays by role, or raise if they are no names."""
    wanted = 'a dictionary of names, like `{"samples": "post/draws"}`'
    asked = dict(arguments.instance("arrays", {} if arrays is None else arrays, Mapping, wanted))
    for role, name in asked.items():
        if not isinstance(role, str) or not isinstance(name, str | None):
            raise TypeError(arguments.wrong("arrays", wanted, asked))
    return asked


def _pair(
    path: Path, theta: Path, limit: int, asked: dict[str, str | None]
) -> dict[str, FileArray]:
    """Return the arrays of a file, and the truths of a second. A single array needs no name."""
    entries, truths = formats.entries(path, limit), formats.entries(theta, limit)
    if len(entries) == 1:
        asked.setdefault("samples", *entries)
    name = asked.pop("theta", None) or roles.only("theta", truths)
    if name not in truths:
        raise ValueError(
            f"there is no array {arguments.shown(name)} in {str(theta)!r} to use as `theta`."
        )
    asked["theta"] = "theta"
    return entries | {"theta": truths[name]}

"""Tables of small studies: one row per draw, with columns `sim`, `NAME` and `true_NAME`."""

import csv as text
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..._base import optional
from ..._base.types import Array, Ints
from .entries import FileArray, at_hand, listed, short, size

Columns = dict[str, Array]

_SIM, _DRAW, _TRUE = "sim", "draw", "true_"
_OF_DRAWS = {
    "log_prob": ("log_prob_samples", "log_prob_theta"),
    "log_weight": ("log_weights", "log_weights_theta"),
}
_MOST_COLUMNS = 10_000


def table(path: Path, limit: int, truths: Path | None = None) -> dict[str, FileArray]:
    """Return the arrays of a table of draws.

    Arguments:
        path: File `.csv` or `.parquet`.
        limit: Memory that it may use, in bytes.
        truths: Table with one row per simulation, if `path` has no columns `true_NAME`.
    """
    columns = _columns(path, limit)
    if truths is not None:
        columns |= _matched(columns[_SIM], _columns(truths, limit))
    return {name: at_hand(array) for name, array in _arrays(columns).items()} | {
        "names": listed(_parameters(columns))
    }


def _columns(path: Path, limit: int) -> Columns:
    read = _parquet if path.suffix.lower() == ".parquet" else _csv
    columns = read(path, limit)
    if _SIM not in columns:
        raise ValueError(
            f"a table must have a column `sim` with the simulation of each row, but this one has "
            f"{short(', '.join(columns))}"
        )
    if not len(columns[_SIM]) or not np.isfinite(columns[_SIM]).all():
        raise ValueError("its column `sim` must have a number in every row, and at least one row")
    return columns


def _csv(path: Path, limit: int) -> Columns:
    if 8 * path.stat().st_size > limit:
        raise ValueError(
            f"it has {size(path.stat().st_size)}: store large studies in .npy or .zarr"
        )
    with path.open(encoding="utf-8", newline="") as file:
        head = [name.strip() for name in next(text.reader([file.readline(2**20)]), [])]
        _distinct(head)
        numbers = np.loadtxt(file, delimiter=",", ndmin=2, comments=None, dtype=float)
    if numbers.size and numbers.shape[1] != len(head):
        raise ValueError(
            f"its first line has {len(head)} names, but its rows have {numbers.shape[1]} numbers"
        )
    return dict(zip(head, numbers.reshape(-1, len(head)).T, strict=True))


def _parquet(path: Path, limit: int) -> Columns:
    parquet, types = (optional.package(f"pyarrow.{name}") for name in ("parquet", "types"))
    with parquet.ParquetFile(path, memory_map=True) as file:
        names = [field.name for field in file.schema_arrow]
        _distinct(names)
        n_bytes = 8 * file.metadata.num_rows * len(names)
        if n_bytes > limit:
            raise ValueError(
                f"it declares {size(n_bytes)} of numbers: store large studies in .npy or .zarr, "
                f"or pass `most_bytes=` (`--most-bytes`) if the size is right"
            )
        for field in file.schema_arrow:
            kind = field.type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ValueError(f"its column {short(field.name)!r} contains {kind}, not numbers")
        read = file.read(use_threads=False)
    return {name: np.asarray(read.column(name).to_numpy(), dtype=float) for name in names}


def _distinct(names: list[str]) -> None:
    if not names or len(names) > _MOST_COLUMNS or len(set(names)) != len(names):
        raise ValueError(
            f"its columns must have different names, but are {short(', '.join(names))}"
        )


def _matched(sims: Array, truths: Columns) -> Columns:
    """Return the truths for every row of a table of draws."""
    known, first = np.unique(truths[_SIM], return_index=True)
    if len(known) != len(truths[_SIM]) or not np.array_equal(known, np.unique(sims)):
        raise ValueError(
            "the table of truths must have exactly one row for each of its simulations"
        )
    row = first[np.searchsorted(known, sims)]
    return {
        name if name.startswith(_TRUE) else f"{_TRUE}{name}": column[row]
        for name, column in truths.items()
        if name not in (_SIM, _DRAW)
    }


def _parameters(columns: Columns) -> list[str]:
    known = (_SIM, _DRAW, *_OF_DRAWS)
    return [name for name in columns if name not in known and not name.startswith(_TRUE)]


def _arrays(columns: Columns) -> Columns:
    """Return draws, truths, log-densities and weights by role."""
    names = _parameters(columns)
    true = [f"{_TRUE}{name}" for name in names]
    rows = _Rows.of(columns)
    arrays = {"samples": rows.draws(names)} if names else {}
    if any(name in columns for name in true):
        missing = [name for name in true if name not in columns]
        if missing:
            raise ValueError(f"it has columns of truths, but no column {short(missing[0])!r}")
        arrays["theta"] = rows.truths(true)
    for name, (of_draws, of_truths) in _OF_DRAWS.items():
        if name in columns:
            arrays[of_draws] = rows.draws([name])[..., 0]
        if f"{_TRUE}{name}" in columns:
            arrays[of_truths] = rows.truths([f"{_TRUE}{name}"])[:, 0]
    if rows.equal:
        return arrays
    return arrays | {"offsets": np.append(rows.starts, len(rows.order))}


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table, sorted by simulation and draw.

    Arguments:
        columns: Columns of the table by name.
        order: Indices of the rows in this order.
        n_draws: Numbers of draws per simulation.
    """

    columns: Columns
    order: Ints
    n_draws: Ints

    @classmethod
    def of(cls, columns: Columns) -> "_Rows":
        """Sort the rows of a table, which may have any order."""
        order = np.lexsort((columns.get(_DRAW, columns[_SIM]), columns[_SIM]))
        return cls(columns, order, np.unique(columns[_SIM], return_counts=True)[1])

    @property
    def equal(self) -> bool:
        """Whether all simulations have the same number of draws."""
        return bool((self.n_draws == self.n_draws[0]).all())

    @property
    def starts(self) -> Ints:
        """Where the draws of each simulation begin."""
        return np.cumsum(self.n_draws) - self.n_draws

    def draws(self, names: list[str]) -> Array:
        """Return draws `(n_draws, n_sims, n)`, or `(n_all, n)` if their numbers differ."""
        flat = np.stack([self.columns[name][self.order] for name in names], axis=-1)
        if not self.equal:
            return flat
        return flat.reshape(len(self.n_draws), self.n_draws[0], len(names)).swapaxes(0, 1)

    def truths(self, names: list[str]) -> Array:
        """Return truths `(n_sims, n)`, which must be the same in all rows of a simulation."""
        for name in names:
            column = self.columns[name][self.order]
            first = np.repeat(column[self.starts], self.n_draws)
            if not ((column == first) | (np.isnan(column) & np.isnan(first))).all():
                raise ValueError(
                    f"its column {short(name)!r} must be the same in all rows of a simulation"
                )
        first_rows = self.order[self.starts]
        return np.stack([self.columns[name][first_rows] for name in names], axis=-1)

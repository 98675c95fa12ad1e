"""Tables of small studies: one row a draw, with columns `sim`, `NAME` and `true_NAME`."""

import csv as text
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..._base import optional
from ..._base.types import Array, Ints
from .entries import Found, at_hand, listed, short, size

Columns = dict[str, Array]

_SIM, _DRAW, _TRUE = "sim", "draw", "true_"
_OF_DRAWS = {
    "log_prob": ("log_prob_samples", "log_prob_theta"),
    "log_weight": ("log_weights", "log_weights_theta"),
}
_MOST_COLUMNS = 10_000


def table(path: Path, limit: int, truths: Path | None = None) -> dict[str, Found]:
    """Return the arrays that a table of draws holds.

    Arguments:
        path: A `.csv` or `.parquet` file.
        limit: How many bytes it may take.
        truths: A table with one row a simulation, where `path` has no columns `true_NAME`.
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
            f"a table has a column `sim` that says which simulation a row belongs to, but this "
            f"one has {short(', '.join(columns))}"
        )
    if not len(columns[_SIM]) or not np.isfinite(columns[_SIM]).all():
        raise ValueError("its column `sim` must hold a number in every row, and one row at least")
    return columns


def _csv(path: Path, limit: int) -> Columns:
    if 8 * path.stat().st_size > limit:
        raise ValueError(
            f"it has {size(path.stat().st_size)}: keep large studies in .npy or .zarr"
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
                f"it declares {size(n_bytes)} of numbers: keep large studies in .npy or .zarr, "
                f"or pass `most_bytes=` (`--most-bytes`) if that is right"
            )
        for field in file.schema_arrow:
            kind = field.type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ValueError(f"its column {short(field.name)!r} holds {kind}, not numbers")
        read = file.read(use_threads=False)
    return {name: np.asarray(read.column(name).to_numpy(), dtype=float) for name in names}


def _distinct(names: list[str]) -> None:
    if not names or len(names) > _MOST_COLUMNS or len(set(names)) != len(names):
        raise ValueError(f"its columns must have names that differ: {short(', '.join(names))}")


def _matched(sims: Array, truths: Columns) -> Columns:
    """Return the truths of every row of a table of draws."""
    known, where = np.unique(truths[_SIM], return_index=True)
    if len(known) != len(truths[_SIM]) or not np.array_equal(known, np.unique(sims)):
        raise ValueError(
            "its simulations must be those of the table of truths, one row each there"
        )
    row = where[np.searchsorted(known, sims)]
    return {
        name if name.startswith(_TRUE) else f"{_TRUE}{name}": column[row]
        for name, column in truths.items()
        if name not in (_SIM, _DRAW)
    }


def _parameters(columns: Columns) -> list[str]:
    known = (_SIM, _DRAW, *_OF_DRAWS)
    return [name for name in columns if name not in known and not name.startswith(_TRUE)]


def _arrays(columns: Columns) -> Columns:
    """Return draws, truths, log-densities and weights, by what they are."""
    names = _parameters(columns)
    true = [f"{_TRUE}{name}" for name in names]
    rows = _Rows.of(columns)
    found = {"samples": rows.draws(names)} if names else {}
    if any(name in columns for name in true):
        missing = [name for name in true if name not in columns]
        if missing:
            raise ValueError(f"it has columns of truths, but none is called {short(missing[0])!r}")
        found["theta"] = rows.truths(true)
    for name, (of_draws, of_truths) in _OF_DRAWS.items():
        if name in columns:
            found[of_draws] = rows.draws([name])[..., 0]
        if f"{_TRUE}{name}" in columns:
            found[of_truths] = rows.truths([f"{_TRUE}{name}"])[:, 0]
    return found if rows.equal else found | {"offsets": np.append(rows.starts, len(rows.order))}


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table by simulation, and by draw within each.

    Arguments:
        columns: The table.
        order: The rows in this order.
        n_draws: How many there are of each simulation.
    """

    columns: Columns
    order: Ints
    n_draws: Ints

    @classmethod
    def of(cls, columns: Columns) -> "_Rows":
        """Return the rows of a table, which may come in any order."""
        order = np.lexsort((columns.get(_DRAW, columns[_SIM]), columns[_SIM]))
        return cls(columns, order, np.unique(columns[_SIM], return_counts=True)[1])

    @property
    def equal(self) -> bool:
        """Whether all simulations have as many draws."""
        return bool((self.n_draws == self.n_draws[0]).all())

    @property
    def starts(self) -> Ints:
        """Where the draws of each simulation begin."""
        return np.cumsum(self.n_draws) - self.n_draws

    def draws(self, names: list[str]) -> Array:
        """Return (n_draws, n_sims, n), or (n_all, n) if simulations differ in their draws."""
        flat = np.stack([self.columns[name][self.order] for name in names], axis=-1)
        if not self.equal:
            return flat
        return flat.reshape(len(self.n_draws), self.n_draws[0], len(names)).swapaxes(0, 1)

    def truths(self, names: list[str]) -> Array:
        """Return (n_sims, n), which must be the same in all rows of a simulation."""
        for name in names:
            column = self.columns[name][self.order]
            first = np.repeat(column[self.starts], self.n_draws)
            if not ((column == first) | (np.isnan(column) & np.isnan(first))).all():
                raise ValueError(
                    f"its column {short(name)!r} must not differ between rows of a simulation"
                )
        where = self.order[self.starts]
        return np.stack([self.columns[name][where] for name in names], axis=-1)

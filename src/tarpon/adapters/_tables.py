"""Tables of small studies: one row a draw, with columns `sim`, `NAME` and `true_NAME`."""

import csv as text
from pathlib import Path

import numpy as np

from .._types import Array
from ._found import Found, at_hand, listed, short, size

Columns = dict[str, Array]

_SIM, _DRAW, _TRUE = "sim", "draw", "true_"
_DENSITY = "log_prob"
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
    import pyarrow.parquet as parquet
    from pyarrow import types

    with parquet.ParquetFile(path, memory_map=True) as file:
        names = [field.name for field in file.schema_arrow]
        _distinct(names)
        n_bytes = 8 * file.metadata.num_rows * len(names)
        if n_bytes > limit:
            raise ValueError(
                f"it declares {size(n_bytes)} of numbers: keep large studies in .npy or .zarr, "
                f"or pass `most_bytes=` if that is right"
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
    known = (_SIM, _DRAW, _DENSITY)
    return [name for name in columns if name not in known and not name.startswith(_TRUE)]


def _arrays(columns: Columns) -> Columns:
    """Return draws, truths and log-densities, (n_draws, n_sims, ...) and (n_sims, ...)."""
    names = _parameters(columns)
    order = np.lexsort((columns.get(_DRAW, columns[_SIM]), columns[_SIM]))
    sims, n_draws = np.unique(columns[_SIM], return_counts=True)
    if (n_draws != n_draws[0]).any():
        raise ValueError(
            f"simulation {sims[0]:g} has {n_draws[0]} rows and simulation "
            f"{sims[(n_draws != n_draws[0]).argmax()]:g} has another number: give all the same"
        )
    shape = (len(sims), n_draws[0])

    def draws(name: str) -> Array:
        return columns[name][order].reshape(shape).T

    found = {"samples": np.stack([draws(name) for name in names], axis=-1)} if names else {}
    true = [f"{_TRUE}{name}" for name in names]
    if names and all(name in columns for name in true):
        found["theta"] = np.stack([_constant(name, draws(name)) for name in true], axis=-1)
    elif any(name in columns for name in true):
        missing = next(name for name in true if name not in columns)
        raise ValueError(f"it has columns of truths, but none is called {short(missing)!r}")
    if _DENSITY in columns and f"{_TRUE}{_DENSITY}" in columns:
        density = f"{_TRUE}{_DENSITY}"
        found["log_prob_samples"] = draws(_DENSITY)
        found["log_prob_theta"] = _constant(density, draws(density))
    return found


def _constant(name: str, draws: Array) -> Array:
    """Return what is the same in all rows of a simulation."""
    first = draws[0]
    if not ((draws == first) | (np.isnan(draws) & np.isnan(first))).all():
        raise ValueError(
            f"its column {short(name)!r} must not differ between rows of a simulation"
        )
    return first

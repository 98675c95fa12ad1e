"""Records of repairs: what a file keeps, and how it is read with checks."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments
from .._base.disk import Record
from .._base.types import Array
from .domains import Domain
from .fitting import Map, Step
from .keeping import CAP, Keep, n_terms
from .moving import Move
from .whitening import DataFeatures, Shrunk, Whitening

if TYPE_CHECKING:
    from .repair import Repair

_SHRUNK = ("means", "log_sds", "correlations")
_OUTCOMES = (
    "repaired", "improved, still inaccurate", "nothing to repair", "cannot be repaired",
)  # fmt: skip


def kept(repair: "Repair") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description and the arrays of a record."""
    the_map, domain = repair._map, repair._domain
    white = the_map.whitening
    about = {
        "outcome": repair.outcome,
        "kept": repair.kept,
        "missing": repair.missing,
        "n_fit": repair.n_fit,
        "n_unseen": repair.n_unseen,
        "names": repair.names,
        "seed": repair.seed,
        "text": str(repair),
        "n_held": the_map.n_held,
        "steps": [asdict(step) for step in the_map.steps],
        "top": None if the_map.keep is None else the_map.keep.top,
        "moves": the_map.move is not None,
        "x": None if domain.x is None else list(domain.x.shape),
    }
    arrays = {"own": white.own, "own_scale": white.own_scale}
    arrays |= {f"data_{name}": value for name, value in vars(white.data).items()}
    for name in _SHRUNK:
        arrays |= {f"{name}_{part}": a for part, a in vars(getattr(white, name)).items()}
    if the_map.move is not None:
        arrays |= {f"move_{name}": value for name, value in vars(the_map.move).items()}
    if the_map.keep is not None:
        arrays["keep"] = the_map.keep.coefficients
    if domain.x is not None:
        arrays["x"] = domain.x.reshape(len(domain.x), -1)
    return about, {name: np.asarray(array, dtype=float) for name, array in arrays.items()}


def restored(record: Record) -> "Repair":
    """Return a repair that was saved; raise `ValueError` if the record is of anything else."""
    from .repair import Repair

    names, domain = record.texts("names"), _domain(record)
    n_dims, n_numbers = len(names), 0 if domain.x is None else domain.x[0].size
    if not n_dims:
        raise ValueError("'names' must name at least one parameter")
    whitening = _whitening(record, n_dims, n_numbers)
    steps = tuple(_one_step(fields) for fields in record.value("steps", list))
    missing = arguments.between("missing", record.value("missing", float), 0, 1)
    the_map = Map(
        record.count("n_held", least=2),
        whitening,
        _move(record, whitening, n_dims) if record.value("moves", bool) else None,
        _keep(record, whitening, n_dims),
        steps,
        missing,
    )
    return Repair(
        arguments.one_of("outcome", record.value("outcome", str), _OUTCOMES),
        None,
        None,
        arguments.between("kept", record.value("kept", float), 0, 1),
        steps,
        missing,
        record.count("n_fit"),
        record.count("n_unseen"),
        names,
        record.count("seed"),
        the_map,
        domain,
        record.value("text", str),
    )


def _domain(record: Record) -> Domain:
    shape = record.about.get("x")
    if shape is None:
        return Domain(None)
    sizes = [arguments.positive("x", size) for size in record.value("x", list)]
    return Domain(record.floats("x", sizes[0], int(np.prod(sizes[1:]))).reshape(sizes))


def _whitening(record: Record, n_dims: int, n_numbers: int) -> Whitening:
    turn = record.floats("data_turn", n_numbers, None)
    n = turn.shape[1]
    n_known, n_pairs = 1 + 3 * n, n_dims * (n_dims - 1) // 2
    data = DataFeatures(
        record.floats("data_mean", n_numbers),
        turn,
        record.floats("data_slopes", 1 + n, 2 * n),
        record.floats("data_scale", 2 * n, low=0.0),
    )
    sizes = zip(_SHRUNK, (n_known, n_known, 1), (n_dims, n_dims, n_pairs), strict=True)
    means, log_sds, bent = (
        Shrunk(
            record.floats(f"{name}_slopes", rows, columns),
            record.floats(f"{name}_factor", columns, low=0.0, high=1.0),
            record.floats(f"{name}_noise", columns, low=0.0),
        )
        for name, rows, columns in sizes
    )
    own = record.floats("own", n_known, 2 * n_dims)
    own_scale = record.floats("own_scale", 2 * n_dims, low=0.0)
    return Whitening(data, means, log_sds, bent, own, own_scale)


def _move(record: Record, whitening: Whitening, n_dims: int) -> Move:
    n_features, n_pairs = whitening.n_features, n_dims * (n_dims - 1) // 2
    return Move(
        record.floats("move_location", n_features, n_dims),
        record.floats("move_log_scale", n_features, n_dims),
        record.floats("move_bend", n_pairs),
    )


def _keep(record: Record, whitening: Whitening, n_dims: int) -> Keep | None:
    if record.about.get("top") is None:
        return None
    top = arguments.between("top", record.value("top", float), 0, CAP)
    return Keep(record.floats("keep", n_terms(n_dims, whitening.data.n_directions)), top)


def _one_step(fields: Any) -> Step:
    name = arguments.one_of("name", fields["name"], ["move", "keep"])
    gain, error = (arguments.real(key, fields[key]) for key in ("gain", "error"))
    return Step(name, arguments.flag("used", fields["used"]), gain, error)

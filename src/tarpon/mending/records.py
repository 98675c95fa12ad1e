"""Records of calibrated regions: what a file keeps, and how it is read with checks."""

from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments
from .._base.disk import Record
from .._base.text import Estimate
from .._base.types import Array
from ..local.groups import Side
from ..regions import HighestDensity
from .differences import Difference
from .labels import Sides

if TYPE_CHECKING:
    from .thresholds import Cover


def kept(cover: "Cover") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description and the arrays of a record."""
    if cover.region is not None and not isinstance(cover.region, HighestDensity):
        raise ValueError(
            "only the region by distance and `HighestDensity` can be saved: other regions are "
            "functions, which a file does not contain."
        )
    sides = cover.labelling.places if isinstance(cover.labelling, Sides) else ()
    about = {
        "coverage": cover.coverage,
        "sure": cover.sure,
        "n_centre": cover.n_centre,
        "names": cover.names,
        "density": cover.region is not None,
        "groups": [one.group for one in cover.thresholds],
        "sides": [[asdict(side) for side in place] for place in sides],
        "difference": None if cover.difference is None else asdict(cover.difference),
        "n_dropped": cover.n_dropped,
    }
    before = [[*asdict(one.before).values()] for one in cover.thresholds]
    arrays = {
        "thresholds": np.array([one.value for one in cover.thresholds]),
        "before": np.array(before),
        "places": np.array([one.place for one in cover.thresholds]),
        "n_sims": np.array([one.n_sims for one in cover.thresholds]),
    }
    return about, arrays


def restored(record: Record) -> "Cover":
    """Return a cover that was saved; raise `ValueError` if the record is of anything else."""
    from .thresholds import Cover, Threshold

    groups = record.texts("groups")
    values = record.floats("thresholds", len(groups))
    before = record.floats("before", len(groups), 3, low=0.0, high=1.0)
    n_sims = record.integers("n_sims", 2**62, len(groups))
    places = record.integers("places", int(n_sims.max(initial=0)), len(groups))
    if not groups or len(set(groups)) < len(groups) or not (places >= 1).all():
        raise ValueError("'groups' must be different labels, each with a place from 1 on")
    if (places > n_sims).any():
        raise ValueError("'places' must not exceed the number of simulations")
    rows = zip(groups, values, places, n_sims, before, strict=True)
    return Cover(
        record.probability("coverage"),
        None if record.about.get("sure") is None else record.probability("sure"),
        tuple(
            Threshold(g, float(v), int(k), int(n), Estimate(*b.tolist())) for g, v, k, n, b in rows
        ),
        record.count("n_centre", least=2),
        record.texts("names"),
        HighestDensity() if record.value("density", bool) else None,
        _sides(record.value("sides", list)),
        _difference(record.about.get("difference")),
        record.count("n_dropped"),
    )


def _sides(places: list[Any]) -> Sides | None:
    """Return the groups that `tarpon.where` named, if any."""
    if not places:
        return None
    return Sides.checked(tuple(tuple(_side(one) for one in place) for place in places))


def _side(fields: Any) -> Side:
    low, high = (fields[name] for name in ("low", "high"))
    ends = [
        None if end is None else arguments.between("end", end, -inf, inf) for end in (low, high)
    ]
    return Side(_text(fields["feature"]), *ends)


def _difference(fields: Any) -> Difference | None:
    if fields is None:
        return None
    shares = (
        arguments.between(name, fields[name], 0, 1) for name in ("inside", "outside", "p_value")
    )
    return Difference(_text(fields["where"]), *shares)


def _text(value: Any) -> str:
    return arguments.instance("text", value, str, "a text")

"""The role of each array of a file, by its name, its group and the names of its axes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..._base import arguments
from ..._base.text import clean, size
from ..._base.types import Array, ArrayLike
from ...simulations import shapes
from ...simulations.fields import Places
from ...simulations.sources import Arranged, Joined
from .. import _variables
from .entries import FileArray

SIM, DRAW, CHAIN, PARAM = "sim", "draw", "chain", "param"
NAMES, OFFSETS = "names", "offsets"
_POSTERIOR, _OBSERVED = "posterior/", "observed_data/"
_TRUTHS = ("true_parameters/", "constant_data/", "prior/")

_NAMELESS = re.compile(r"(^dim_|_dim_)\d+$")  # names of axes that have none

Picks = dict[str, list[str]]


@dataclass(frozen=True)
class Role:
    """A role that an array may have in a test.

    Arguments:
        aliases: Names in files; the first that exists is used.
        draws: Whether the array has an axis of draws, before the axis of simulations.
        rest: Number of further axes; None for any number.
        whole: Whether the array is read completely, and not a few simulations at a time.
    """

    aliases: tuple[str, ...]
    draws: bool = False
    rest: int | None = 0
    whole: bool = False

    @property
    def axis(self) -> int | None:
        """The axis of the simulations if a few are read at a time, else None."""
        return None if self.whole else int(self.draws)


ROLES = {
    "samples": Role(
        ("samples", "posterior_samples", "draws", "posterior_draws"), draws=True, rest=1
    ),
    "theta": Role(
        ("theta", "truths", "truth", "true_parameters", "theta_true", "true_theta", "thetas"),
        rest=1,
        whole=True,
    ),
    "x": Role(("x", "observations", "observed", "x_obs", "data"), rest=None),
    "log_prob_samples": Role(
        ("log_prob_samples", "samples_log_prob", "log_prob_draws"), draws=True
    ),
    "log_prob_theta": Role(
        ("log_prob_theta", "theta_log_prob", "log_prob_truths"), whole=True
    ),
    "log_weights": Role(("log_weights", "log_weight", "logw"), draws=True),
    "log_weights_theta": Role(("log_weights_theta", "log_weight_theta"), whole=True),
    OFFSETS: Role(("offsets",), whole=True),
    NAMES: Role(("names", "param_names", "parameter_names", "labels", PARAM), whole=True),
}  # fmt: skip


def pick(entries: Mapping[str, FileArray], asked: Mapping[str, str | None]) -> Picks:
    """Return the names of the arrays for each role.

    Arguments:
        entries: Arrays of the file.
        asked: Names that the caller gave, by role; None to leave a role out.
    """
    unknown = set(asked) - set(ROLES)
    if unknown:
        raise ValueError(
            f"`arrays` must name arrays for {', '.join(ROLES)}, but got "
            f"{arguments.shown(sorted(unknown))}."
        )
    picks: Picks = {}
    for role, name in asked.items():
        if name is not None and name not in entries:
            names = clean(", ".join(entries)) or "no arrays"
            raise ValueError(
                f"there is no array {arguments.shown(name)} to use as `{role}`, but {names}."
            )
        picks[role] = [] if name is None else [name]
    for role, chosen in (_in_groups(entries) or _by_alias(entries, set(picks))).items():
        picks.setdefault(role, chosen)
    return {role: chosen for role, chosen in picks.items() if chosen}


def only(role: str, entries: Mapping[str, FileArray]) -> str:
    """Return the name of the array for a role; a single array needs no name."""
    return next(iter(entries if len(entries) == 1 else _called(entries, role)), role)


def arranged(
    role: str, names: list[str], entries: Mapping[str, FileArray], order: tuple[str, ...] = ()
) -> ArrayLike:
    """Return the array for a role, draws before simulations, unread if possible.

    Arguments:
        role: The role.
        names: Names of its arrays.
        entries: Arrays of the file.
        order: Names of the axes of one field, in the order of its draws.
    """
    parts = [_with_axes(role, name, entries[name], len(names) > 1, order) for name in names]
    array = parts[0] if len(parts) == 1 else Joined(tuple(parts))
    return shapes.array(role, array) if ROLES[role].whole else array


def field_axes(picks: Picks, entries: Mapping[str, FileArray]) -> tuple[str, ...]:
    """Return the names of the axes of a field in the order of its draws, if they have names."""
    names = picks.get("samples", ())
    dims = entries[names[0]].dims if len(names) == 1 else ()
    axes = tuple(dim for dim in dims if dim not in (SIM, DRAW, CHAIN))
    return axes if SIM in dims and len(axes) > 1 else ()


def parameters(picks: Picks, entries: Mapping[str, FileArray]) -> Sequence[str] | None:
    """Return the names of the parameters, if the file has any."""
    axes, label = field_axes(picks, entries), "theta"
    if axes and NAMES not in picks:
        name = picks["samples"][0]
        sizes = dict(zip(entries[name].dims, entries[name].shape, strict=True))
        if name.startswith(_POSTERIOR):
            label = clean(name.removeprefix(_POSTERIOR))
        named = () if any(_NAMELESS.search(axis) for axis in axes) else tuple(map(clean, axes))
        return Places(tuple(sizes[axis] for axis in axes), named, label)
    variables = [name for name in picks.get("samples", ()) if name.startswith(_POSTERIOR)]
    if NAMES in picks and len(variables) <= 1:
        words = np.ravel(np.asarray(entries[picks[NAMES][0]].open()))
        return [str(name) for name in words.tolist()]
    return [full for name in variables for full in _elements(name, entries[name])] or None


def afford(picks: Picks, entries: Mapping[str, FileArray], limit: int) -> None:
    """Raise if an array is too large or not of numbers, before anything is read."""
    total, growth = 0.0, 1.0
    for role in sorted(picks, key=lambda role: role != OFFSETS):
        for name in picks[role]:
            array = entries[name]
            _must_fit(role, name, array)
            total += array.needs(None if OFFSETS in picks else _axis(role, array)) * growth
            if total > limit:
                raise ValueError(
                    f"`{role}`, {array.shape} of {array.dtype}, needs {size(int(total))} of "
                    f"memory at once, and {size(limit)} are allowed for a file of this size. If "
                    f"the shape is right, pass `most_bytes=` (`--most-bytes`)"
                )
        if role == OFFSETS:
            growth = _growth(shapes.array(OFFSETS, entries[picks[role][0]].open()))


def _must_fit(role: str, name: str, array: FileArray) -> None:
    if array.refused:
        raise ValueError(f"`{role}`, here {clean(name)!r}, {array.refused}")
    if not (array.is_words if role == NAMES else array.is_numbers):
        kind = "a list of words" if role == NAMES else "plain numbers"
        raise ValueError(
            f"`{role}`, here {clean(name)!r}, must be {kind}, but is "
            f"{array.shape} of {array.dtype}"
        )


def _growth(offsets: Array) -> float:
    """Return the factor by which padding all simulations to the longest enlarges the draws."""
    n_draws = np.diff(offsets.astype(float).ravel())
    return float(max(1.0, n_draws.max(initial=0) * n_draws.size / max(n_draws.sum(), 1)))


def _axis(role: str, array: FileArray) -> int | None:
    if ROLES[role].axis is not None and SIM in array.dims:
        return array.dims.index(SIM)
    return ROLES[role].axis


def _by_alias(entries: Mapping[str, FileArray], known: set[str]) -> Picks:
    return {role: _called(entries, role) for role in ROLES if role not in known}


def _called(entries: Mapping[str, FileArray], role: str) -> list[str]:
    """Return the array with the first alias that exists, in any group."""
    for alias in ROLES[role].aliases:
        matches = [name for name in entries if name.rpartition("/")[2].lower() == alias]
        if role == NAMES:
            matches = [name for name in matches if entries[name].is_words][:1]
        at_top = [name for name in matches if "/" not in name]
        matches = at_top or matches
        if len(matches) > 1:
            raise ValueError(
                f"`{role}` may be {' or '.join(map(clean, matches))}: choose one with "
                f"`arrays={{{role!r}: ...}}`."
            )
        if matches:
            return matches
    return []


def _in_groups(entries: Mapping[str, FileArray]) -> Picks:
    """Return the roles of arrays in the groups of ArviZ, if there is a group `posterior`."""
    dims = {name: array.dims for name, array in entries.items()}
    drawn = [name for name in dims if name.startswith(_POSTERIOR) and DRAW in dims[name]]
    samples = [name for name in drawn if SIM in dims[name]]
    if not [name for name in drawn if name != f"{_POSTERIOR}{DRAW}"]:
        return {}
    if not samples:
        raise ValueError(
            "its group `posterior` has no dimension `sim`, so it contains a single posterior. "
            "Join the posteriors of many simulations with `xarray.concat([...], dim='sim')`."
        )
    variables = [name.removeprefix(_POSTERIOR) for name in samples]
    theta: list[str] = []
    for group in _TRUTHS:
        names = [f"{group}{name}" for name in variables]
        if not theta and all(SIM in dims.get(name, ()) for name in names):
            theta = names
    x = [name for name in dims if name.startswith(_OBSERVED) and SIM in dims[name]]
    x = [name for name in x if name != f"{_OBSERVED}{SIM}"]
    inside = {name: array for name, array in entries.items() if name.startswith(_POSTERIOR)}
    words = _called(inside, NAMES)
    return {"samples": samples, "theta": theta, "x": x, NAMES: words}


def _with_axes(
    role: str, name: str, array: FileArray, flat: bool, order: tuple[str, ...]
) -> ArrayLike:
    """Open an array, with its axes in order if they have names."""
    kind, dims = ROLES[role], list(array.dims)
    if SIM not in dims and DRAW not in dims:
        return array.open()
    needed = [SIM, DRAW] if kind.draws else [SIM]
    if any(dims.count(dim) != 1 for dim in needed):
        raise ValueError(
            f"`{role}`, here {clean(name)!r}, has axes {clean(dims)}, but needs each of "
            f"{' and '.join(f'`{dim}`' for dim in needed)} once"
        )
    drawn = tuple(dims.index(dim) for dim in (CHAIN, DRAW) if dim in dims) if kind.draws else ()
    sim = dims.index(SIM)
    others = tuple(axis for axis in range(len(dims)) if axis != sim and axis not in drawn)
    if kind.rest == 1 and sorted(dims[axis] for axis in others) == sorted(order):
        others = tuple(dims.index(axis) for axis in order)
    rest: list[tuple[int, ...]] = [others] if kind.rest != 0 else []
    is_field = kind.rest == 1 and len(others) > 1
    if (kind.rest is None or is_field) and not flat:
        rest = [(axis,) for axis in others]
    groups = (*((drawn,) if drawn else ()), (sim,), *rest)
    if groups == tuple((axis,) for axis in range(len(dims))):
        return array.open()
    return Arranged(array.open(), groups)


def _elements(name: str, array: FileArray) -> list[str]:
    dims = zip(array.dims, array.shape, strict=True)
    shape = tuple(n for dim, n in dims if dim not in (SIM, DRAW, CHAIN))
    return _variables.elements(name.removeprefix(_POSTERIOR), shape)

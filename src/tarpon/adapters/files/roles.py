"""Which array of a file is what, by its name, its group and the names of its axes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..._base import arguments
from ..._base.text import clean, size
from ..._base.types import Array, ArrayLike
from ...simulations import shapes
from ...simulations.sources import Arranged, Joined
from .entries import Found

SIM, DRAW, CHAIN, PARAM = "sim", "draw", "chain", "param"
NAMES, OFFSETS = "names", "offsets"
_POSTERIOR, _OBSERVED = "posterior/", "observed_data/"
_TRUTHS = ("true_parameters/", "constant_data/", "prior/")

Picks = dict[str, list[str]]


@dataclass(frozen=True)
class Role:
    """What an array may be.

    Arguments:
        aliases: What it is called in files, the first that is there.
        draws: Whether it has an axis of draws, which comes before that of simulations.
        rest: How many axes follow; None for any number.
        whole: Whether it is read whole, and not a few simulations at a time.
    """

    aliases: tuple[str, ...]
    draws: bool = False
    rest: int | None = 0
    whole: bool = False

    @property
    def axis(self) -> int | None:
        """The axis that counts the simulations, where they are read a few at a time."""
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


def pick(found: Mapping[str, Found], asked: Mapping[str, str | None]) -> Picks:
    """Return the names of the arrays that play each role.

    Arguments:
        found: What is in the file.
        asked: The names that the caller gave; None for a role that is to be left out.
    """
    unknown = set(asked) - set(ROLES)
    if unknown:
        raise ValueError(
            f"`arrays` says what is taken for {', '.join(ROLES)}, but got "
            f"{arguments.shown(sorted(unknown))}."
        )
    picks: Picks = {}
    for role, name in asked.items():
        if name is not None and name not in found:
            holds = clean(", ".join(found)) or "nothing"
            raise ValueError(
                f"there is no array {arguments.shown(name)} to take for `{role}`: there is "
                f"{holds}."
            )
        picks[role] = [] if name is None else [name]
    for role, names in (_in_groups(found) or _by_alias(found, set(picks))).items():
        picks.setdefault(role, names)
    return {role: names for role, names in picks.items() if names}


def only(role: str, found: Mapping[str, Found]) -> str:
    """Return the name of the array that plays a role, which the only one does."""
    return next(iter(found if len(found) == 1 else _called(found, role)), role)


def arranged(role: str, names: list[str], found: Mapping[str, Found]) -> ArrayLike:
    """Return the array that plays a role, draws before simulations, unread where it can be."""
    parts = [_with_axes(role, name, found[name], len(names) > 1) for name in names]
    array = parts[0] if len(parts) == 1 else Joined(tuple(parts))
    return shapes.array(role, array) if ROLES[role].whole else array


def parameters(picks: Picks, found: Mapping[str, Found]) -> list[str] | None:
    """Return the names of the parameters, if the file has any."""
    variables = [name for name in picks.get("samples", ()) if name.startswith(_POSTERIOR)]
    if NAMES in picks and len(variables) <= 1:
        return [str(name) for name in np.ravel(np.asarray(found[picks[NAMES][0]].open())).tolist()]
    return [one for name in variables for one in _elements(name, found[name])] or None


def afford(picks: Picks, found: Mapping[str, Found], limit: int) -> None:
    """Raise before anything is read that is no array of numbers, or too large."""
    total, growth = 0.0, 1.0
    for role in sorted(picks, key=lambda role: role != OFFSETS):
        for name in picks[role]:
            array = found[name]
            _must_fit(role, name, array)
            total += array.needs(None if OFFSETS in picks else _axis(role, array)) * growth
            if total > limit:
                raise ValueError(
                    f"`{role}`, {array.shape} of {array.dtype}, brings {size(int(total))} into "
                    f"memory at once, and {size(limit)} are allowed for a file of this size. If "
                    f"that is right, pass `most_bytes=` (`--most-bytes`)"
                )
        if role == OFFSETS:
            growth = _growth(shapes.array(OFFSETS, found[picks[role][0]].open()))


def _must_fit(role: str, name: str, array: Found) -> None:
    if array.refused:
        raise ValueError(f"`{role}`, here {clean(name)!r}, {array.refused}")
    if not (array.is_words if role == NAMES else array.is_numbers):
        wanted = "a list of words" if role == NAMES else "plain numbers"
        raise ValueError(
            f"`{role}`, here {clean(name)!r}, must be {wanted}, but is "
            f"{array.shape} of {array.dtype}"
        )


def _growth(offsets: Array) -> float:
    """Return by how much draws grow when all simulations are filled up to the longest."""
    n_draws = np.diff(offsets.astype(float).ravel())
    return float(max(1.0, n_draws.max(initial=0) * n_draws.size / max(n_draws.sum(), 1)))


def _axis(role: str, array: Found) -> int | None:
    if ROLES[role].axis is not None and SIM in array.dims:
        return array.dims.index(SIM)
    return ROLES[role].axis


def _by_alias(found: Mapping[str, Found], known: set[str]) -> Picks:
    return {role: _called(found, role) for role in ROLES if role not in known}


def _called(found: Mapping[str, Found], role: str) -> list[str]:
    """Return the array with the first alias that is there, in whatever group it is."""
    for alias in ROLES[role].aliases:
        here = [name for name in found if name.rpartition("/")[2].lower() == alias]
        if role == NAMES:
            here = [name for name in here if found[name].is_words][:1]
        at_top = [name for name in here if "/" not in name]
        here = at_top or here
        if len(here) > 1:
            raise ValueError(
                f"`{role}` may be {' or '.join(map(clean, here))}: say which, with "
                f"`arrays={{{role!r}: ...}}`."
            )
        if here:
            return here
    return []


def _in_groups(found: Mapping[str, Found]) -> Picks:
    """Return the roles of groups as ArviZ has them, if there is a group of posterior draws."""
    drawn = [name for name in found if name.startswith(_POSTERIOR) and DRAW in found[name].dims]
    samples = [name for name in drawn if SIM in found[name].dims]
    if not [name for name in drawn if name != f"{_POSTERIOR}{DRAW}"]:
        return {}
    if not samples:
        raise ValueError(
            "its group `posterior` has no dimension `sim`, so it holds one posterior. Put those "
            "of many simulations together with `xarray.concat([...], dim='sim')`."
        )
    variables = [name.removeprefix(_POSTERIOR) for name in samples]
    theta: list[str] = []
    for group in _TRUTHS:
        names = [f"{group}{name}" for name in variables]
        if not theta and all(name in found and SIM in found[name].dims for name in names):
            theta = names
    x = [name for name in found if name.startswith(_OBSERVED) and SIM in found[name].dims]
    x = [name for name in x if name != f"{_OBSERVED}{SIM}"]
    words = _called({name: found[name] for name in found if name.startswith(_POSTERIOR)}, NAMES)
    return {"samples": samples, "theta": theta, "x": x, NAMES: words}


def _with_axes(role: str, name: str, found: Found, flat: bool) -> ArrayLike:
    """Open an array, with its axes in order if they have names."""
    what, dims = ROLES[role], list(found.dims)
    if SIM not in dims and DRAW not in dims:
        return found.open()
    needed = [SIM, DRAW] if what.draws else [SIM]
    if any(dims.count(dim) != 1 for dim in needed):
        raise ValueError(
            f"`{role}`, here {clean(name)!r}, has axes {clean(dims)}, but needs "
            f"{' and '.join(f'`{dim}`' for dim in needed)} among them, once each"
        )
    drawn = tuple(dims.index(dim) for dim in (CHAIN, DRAW) if dim in dims) if what.draws else ()
    sim = dims.index(SIM)
    others = tuple(axis for axis in range(len(dims)) if axis != sim and axis not in drawn)
    rest: list[tuple[int, ...]] = [others] if what.rest != 0 else []
    if what.rest is None and not flat:
        rest = [(axis,) for axis in others]
    groups = (*((drawn,) if drawn else ()), (sim,), *rest)
    if groups == tuple((axis,) for axis in range(len(dims))):
        return found.open()
    return Arranged(found.open(), groups)


def _elements(name: str, found: Found) -> list[str]:
    """Return the names of the numbers of a variable, `mu` or `mu[0]`, `mu[1]`, …"""
    counted = (SIM, DRAW, CHAIN)
    sizes = [n for dim, n in zip(found.dims, found.shape, strict=True) if dim not in counted]
    short_name = name.removeprefix(_POSTERIOR)
    if not sizes:
        return [short_name]
    return [f"{short_name}[{','.join(map(str, place))}]" for place in np.ndindex(*sizes)]

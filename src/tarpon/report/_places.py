"""Local answers in a report: where posteriors are wrong, and what holds at an observation."""

from itertools import count

from .. import plots
from .._base.formulas import plain
from .._base.text import Estimate
from ..checks import Check
from ..local.maps import Curve, Map
from ..local.near import Near
from ..local.where import Where
from ._figures import Figure, Numbers, effects, made

_WIDE, _CURVE = (4.6, 3.4), (3.6, 2.9)
_READ_MAP = (
    "Every large dot is a window: the simulations around its place in two features of the data. "
    "Its colour is their error, and fades where there is none. Orange: the draws lie above the "
    "truths, or are too narrow. Blue: they lie below, or are too wide. A thick edge is "
    "significant, {}: the probability of any thick edge where posteriors are accurate is at most "
    "{:.2g}. Small dots are simulations."
)
_ADJUSTED = "adjusted for all windows, parameters and pairs of features"
_READ_CURVE = (
    "Simulations are sorted into bins along the feature of the data with the clearest error. "
    "The grey line is the value of accurate posteriors. Filled dots are significant, and the band "
    "is for all bins of all features and parameters at once."
)
_READ_NEAR = (
    "The dots are simulations, and the blue ones are the nearest to the observation. Only these "
    "are tested."
)
_READ_ERRORS = (
    " The second figure has the bias and width of every parameter among them, with 95% intervals: "
    "accurate ones lie where the lines cross."
)


class Places:
    """Where posteriors are wrong, in words, maps and curves.

    Arguments:
        where: The answer of `where`.
        key: The beginning of the ids of its figures.
    """

    def __init__(self, where: Where, key: str) -> None:
        keys = (f"{key}-w{k}" for k in count())
        self.outcome, self.p, self.lines = _said(str(where))
        mapped = len(where.features) > 1
        self.maps = [_map(where, kind, next(keys)) for kind in ("bias", "width") if mapped]
        worst = max((where.curve(kind) for kind in ("bias", "width")), key=lambda one: one.off)
        kinds = ("bias", "width", "coverage")
        self.curves = [_curve(where, kind, worst.feature, next(keys)) for kind in kinds]
        star = where.map().x_o is not None if mapped else False
        line = where.curve(feature=worst.feature).x_o is not None
        self.read_map = _READ_MAP.format(_ADJUSTED, where.level)
        self.read_map += " The star is the observation." if star else ""
        self.read_curve = _READ_CURVE + (" The dashed line is the observation." if line else "")


class Observed:
    """What holds at an observation, in words and figures.

    Arguments:
        near: The answer of `near`.
        check: The check that the report is about.
        key: The beginning of the ids of its figures.
    """

    def __init__(self, near: Near, check: Check, key: str) -> None:
        self.outcome, self.p, self.lines = _said(str(near))
        self.figures, self.read = [_near(near, f"{key}-n0")], _READ_NEAR
        if near.outcome != "outside the simulations" and near.check is not check:
            title = f"Bias and width of the nearest {near.n}"
            self.figures.append(effects(near.check, f"{key}-n1", title=title))
            self.read += _READ_ERRORS


def _said(text: str) -> tuple[str, str, list[str]]:
    """Return the outcome of an answer, its p-value, and the lines that follow."""
    first, *lines = (plain(line.strip()) for line in text.splitlines())
    outcome, _, p = first.partition("  ")
    return outcome.capitalize(), p, lines


def _map(where: Where, kind: str, key: str) -> Figure:
    shown = where.map(kind)
    first, second = shown.features
    found = len(shown.significant)
    about = f"significant windows: {found} of {len(shown.windows)}"
    return made(
        lambda ax: plots.map(where, kind=kind, ax=ax),
        key,
        (f"{_what(shown)} over {first} and {second}", about, _ADJUSTED),
        (first, second, shown.label, "p, adjusted"),
        (_window(shown, k) for k in range(len(shown.windows))),
        _WIDE,
    )


def _window(shown: Map, k: int) -> Numbers:
    window = shown.windows[k]
    x, y = window.place
    return (f"{x:.3g}", f"{y:.3g}", str(window.size), f"{window.p_value:.3g}"), x, y


def _curve(where: Where, kind: str, feature: str, key: str) -> Figure:
    shown = where.curve(kind, feature=feature)
    about = f"significant bins: {sum(shown.significant)} of {len(shown.sizes)}"
    rows = (
        ((f"{x:.3g}", _shown(kind, size), f"{n}"), x, size.value)
        for x, size, n in zip(shown.place, shown.sizes, shown.n_sims, strict=True)
    )
    return made(
        lambda ax: plots.along(where, kind=kind, feature=feature, ax=ax),
        key,
        (f"{_what(shown)} along {feature}", about, _READ_CURVE),
        (feature, shown.label, "Simulations"),
        rows,
        _CURVE,
    )


def _shown(kind: str, size: Estimate) -> str:
    return size.percent() if kind == "coverage" else str(size)


def _what(shown: Map | Curve) -> str:
    return f"{shown.kind.capitalize()} of {shown.parameter or 'all parameters'}"


def _near(near: Near, key: str) -> Figure:
    shown = near.surroundings
    x, y = shown.x_o
    ends = [(float(values.min()), float(values.max())) for values in shown.values[shown.places].T]
    nearest = tuple(f"{low:.3g} to {high:.3g}" for low, high in ends)
    own = tuple(f"{one:.3g}" if one == one else "not known" for one in (x, y))
    middle = [(low + high) / 2 for low, high in ends]
    rows: list[Numbers] = [
        (("The observation", *own), x if x == x else middle[0], y if y == y else middle[1]),
        ((f"The nearest {near.n}", *nearest), middle[0], middle[1]),
    ]
    about = f"{near.n} of {near.n_sims} simulations are nearest"
    header, title = ("", *shown.names), "The observation and its neighbours"
    return made(lambda ax: plots.near(near, ax=ax), key, (title, about, _READ_NEAR), header, rows)

"""Figures of a report: drawn by `plots`, each with its words and the table behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from .. import plots
from .._base.formulas import plain
from .._base.text import stated
from ..checks import Check, words
from ..checks.evidence import Pair
from ..checks.flaws import Trend
from ..ranks import Ranks
from ..results import Result
from ..verdict import Reading
from ._svg import Draw, drawn

_SIZE = (4.4, 3.2)
_SQUARE = (3.5, 3.3)
_TALL = (4.4, 4.0)
_SMALL = (2.15, 1.7)
_WIDE = 500  # units of a figure that does not leave room for words beside it
_LEVELS = np.linspace(0, 1, 21)
JOINT, EFFECTS = "Coverage of joint regions", "Bias and width"

_READ_RANKS = (
    "Each truth is ranked among its draws. For accurate posteriors every rank is as likely as "
    "any other, and the line stays in the grey band. Higher on the left: the draws lie too high. "
    "Higher on the right: they lie too low. Higher at both ends: they are too narrow. "
    "Higher in the middle: they are too wide."
)
_READ_NOTCH = " Where the band has a notch, the bin has one rank more or fewer than the others."
_READ_OUTWARD = (
    "Regions that claim to hold the share of truths on the horizontal axis hold the share on the "
    "vertical one. On the diagonal claim and truth agree. Below it the regions hold fewer truths "
    "than they claim: the draws are too narrow or shifted. Above it they are too wide."
)
_READ_MIXED = (
    "The share of truths whose score is lower than that of a share of the draws. On the diagonal "
    "truths and draws score alike."
)
_READ_DIFFERENCE = (
    "The share of truths below each quantile of the draws, minus the level of the quantile. Above "
    "zero everywhere: the draws lie too high. Below zero: too low. First above, then below: too "
    "narrow. First below, then above: too wide. The band holds all parameters together with 95% "
    "probability."
)
_READ_EFFECTS = (
    "Every parameter with its 95% intervals. Accurate ones lie where the lines cross: no bias, "
    "and truths that scatter as widely as the draws. Higher up the draws are too narrow, lower "
    "down too wide. To the right they lie above the truths."
)
_READ_PAIR = (
    "Each dot is a truth, placed by its rank among the draws in both parameters. The ellipses "
    "hold 68% and 95% of the draws. The dots of accurate posteriors fill the ellipses: 5% of "
    "them lie outside the larger one, on all sides alike."
)
_READ_TREND = {
    "bias": (
        "Simulations are sorted into bins. In each bin, the dot is the bias with its 95% "
        "interval. The bias of accurate posteriors is zero in every bin."
    ),
    "width": (
        "Simulations are sorted into bins. In each bin, the dot is how much more widely the "
        "truths scatter than the draws, with its 95% interval. For accurate posteriors it is one "
        "in every bin. Above one, the draws are too narrow; below one, too wide."
    ),
    "correlation": (
        "Simulations are sorted into bins. In each bin, the dot is how the ranks of the truths "
        "correlate, with its 95% interval. Those of accurate posteriors correlate as the draws "
        "do in every bin."
    ),
}


@dataclass(frozen=True)
class Row:
    """A row of the table behind a figure, and its place in the figure."""

    cells: tuple[str, ...]
    x: float
    y: float


@dataclass(frozen=True)
class Figure:
    """A figure.

    Arguments:
        key: Its id in the page.
        title: Its title.
        about: Its content in words, for readers who cannot see it.
        read: How to read it.
        svg: The figure as SVG.
        header: The column names of the table behind it.
        rows: The rows of that table.
        width: The width of the figure in its own units.
        shows: What it shows: figures that show the same are the same figure.
    """

    key: str
    title: str
    about: str
    read: str
    svg: Markup
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    width: float
    shows: str

    @property
    def whole(self) -> bool:
        """Whether it needs the whole width of the page."""
        return self.width > _WIDE

    @property
    def points(self) -> str:
        """The places of the rows in the figure, for the script."""
        return " ".join(f"{row.x:.1f},{row.y:.1f}" for row in self.rows)


Numbers = tuple[tuple[str, ...], float, float]


def made(
    draw: Draw,
    key: str,
    texts: tuple[str, str, str],
    header: tuple[str, ...],
    numbers: Iterable[Numbers],
    size: tuple[float, float] = _SIZE,
) -> Figure:
    """Return a figure from its drawing, its title, content and reading, and the table behind."""
    svg, place = drawn(draw, key, size)
    rows = tuple(Row(tuple(map(plain, cells)), *place(x, y)) for cells, x, y in numbers)
    title, about, read = map(plain, texts)
    header = tuple(map(plain, header))
    return Figure(key, title, about, read, svg, header, rows, size[0] * 72, shows=texts[0])


def coverage(results: Sequence[Result], key: str, *, title: str = JOINT) -> Figure:
    """Return expected coverage of all parameters together."""
    mixed = any(result.reading is Reading.MIXED for result in results)
    about = "; ".join(f"by {result.names[0]}, {words.holds(result)}" for result in results)
    return made(
        lambda ax: plots.coverage(*results, ax=ax),
        key,
        (title, about, _READ_MIXED if mixed else _READ_OUTWARD),
        ("Level", *(result.names[0] for result in results), "95% band"),
        _curve_rows(results[0], [_at_levels(result)[:, 0] for result in results]),
        _SQUARE,
    )


def differences(result: Result, key: str, n_all: int) -> Figure:
    """Return expected coverage minus level of some parameters, with the band of all of them."""
    confidence = 1 - 0.05 / n_all
    which = "every parameter" if n_all == len(result.names) else "the parameters farthest off"
    left = [n for n, p in zip(result.names, result.p_values, strict=True) if n_all * p <= 0.05]
    about = f"Curves that leave the band: {', '.join(left) or 'none'}"
    columns = list((_at_levels(result) - _LEVELS[:, None]).T)
    rows = (
        ((cells[0], *(f"{column[k]:+.1%}" for column in columns)), x, float(columns[0][k]))
        for k, (cells, x, _) in enumerate(_curve_rows(result, columns))
    )

    def draw(ax: Axes) -> None:
        plots.difference(result, confidence=confidence, ax=ax)
        if n_all > 1:
            ax.collections[0].set_label(f"{100 * confidence:.4g}% band = 95% for all {n_all}")
        ax.legend(
            frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.17),
            ncols=2,
        )  # fmt: skip

    return made(
        draw,
        key,
        (f"Coverage of {which}", about, _READ_DIFFERENCE),
        ("Level", *result.names),
        rows,
        _TALL,
    )


def ranks(check: Check, score: int, key: str, *, small: bool = False) -> Figure:
    """Return the histogram of the ranks of a parameter."""
    parameter = check.parameters[score]
    title = parameter.name if small else ranks_title(parameter.name)
    about = words.errors(parameter)
    return ranks_of(single(check.evidence.marginals, score), key, title, about, small=small)


def ranks_title(name: str) -> str:
    """Return the title of the histogram of the ranks of a parameter or score."""
    return f"Ranks of {name}"


def ranks_of(alone: Result, key: str, title: str, about: str, *, small: bool = False) -> Figure:

    def draw(ax: Axes) -> None:
        plots.ranks(alone, ax=ax)
        if small:
            _bare(ax)

    edges, heights, _, _ = plots.rank_histogram(alone)
    rows = (
        ((f"{low:.0%} to {high:.0%}", f"{height:.2f}"), (low + high) / 2, height)
        for low, high, height in zip(edges, edges[1:], heights, strict=False)
    )
    read = "" if small else f"{_READ_RANKS}{notch(alone)}"
    header = ("Ranks", "Truths, relative to uniform")
    return made(draw, key, (title, about, read), header, rows, _SMALL if small else _SIZE)


def notch(result: Result) -> str:
    """Return what a notch in the band of a histogram of ranks means, if it has one."""
    edges = plots.rank_histogram(result)[0] * (result.ranks.n_draws + 1)
    return _READ_NOTCH if len(set(np.rint(np.diff(edges)).tolist())) > 1 else ""


def effects(
    check: Check, key: str, *, title: str = EFFECTS, others: Sequence[Check] = ()
) -> Figure:
    """Return bias and width of all parameters, on the axes of several checks if given."""

    def draw(ax: Axes) -> None:
        for other in others:
            plots.effects(other, ax=ax)
        limits = ax.axis()
        ax.clear()
        if others:
            ax.axis(limits)
        plots.effects(check, ax=ax)

    rows = (
        ((p.name, str(p.bias), str(p.width)), p.bias.value, p.width.value)
        for p in check.parameters
    )
    off = [p.name for p in check.parameters if p.p_value <= check.level]
    more = ", …" if len(off) > 8 else ""
    about = f"Parameters that fail: {', '.join(off[:8]) or 'none'}{more}"
    return made(
        draw,
        key,
        (title, about, _READ_EFFECTS),
        ("Parameter", "Bias / posterior sd", "Scatter of truths / width of draws"),
        rows,
    )


def pair(check: Check, pair: Pair, key: str) -> Figure:
    """Return where truths and draws lie in two parameters."""
    first, second = pair.names
    about = f"The truths correlate by {pair.truths:+.2f}, the draws by {pair.draws:+.2f}"
    rows = [
        (("Correlation of the truths", f"{pair.truths:+.2f}"), 1.0, pair.truths),
        (("Correlation of the draws", f"{pair.draws:+.2f}"), 1.0, pair.draws),
    ]
    return made(
        lambda ax: plots.pair(check, pair, ax=ax),
        key,
        (f"{first} and {second}", about, _READ_PAIR),
        ("", "Value"),
        rows,
    )


def trend(trend: Trend, key: str, *, among: str = "") -> Figure:
    """Return how an error changes along a feature of the data or a posterior mean.

    Arguments:
        trend: The trend.
        key: The id of the figure.
        among: For a caption with its p-value: what that is adjusted for.
    """
    rows = (
        ((f"{x:.3g}", str(error)), x, error.value)
        for x, error in zip(trend.place, trend.error, strict=True)
    )
    names = " and ".join(trend.names) or "all parameters"
    about = (
        f"{trend.what} {trend.low} in the lowest third of the simulations, {trend.high} in the "
        f"highest"
    )
    adjusted = f"; {stated('p', trend.p_value, 3)}, adjusted for {among}" if among else ""
    return made(
        lambda ax: plots.trend(trend, ax=ax),
        key,
        (
            f"{trend.what.capitalize()} of {names} along {trend.along}",
            f"{about}{adjusted}",
            _READ_TREND[trend.what],
        ),
        (trend.along, plots.trend_label(trend)),
        rows,
    )


def single(result: Result, *scores: int) -> Result:
    """Return the result of some scores alone."""
    values = result.ranks.values.reshape(result.ranks.n_sims, -1)[:, list(scores)]
    return replace(
        result,
        ranks=Ranks(values, result.ranks.n_draws),
        names=tuple(result.names[score] for score in scores),
    )


def _bare(ax: Axes) -> None:
    """Strip the axes of a small panel of legend and labels."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.set(xlabel="", ylabel="", xticks=[0, 0.5, 1])
    ax.locator_params(axis="y", nbins=3)


def _at_levels(result: Result) -> np.ndarray:
    ecp = result.curve.ecp.reshape(len(result.curve.level), -1)
    return np.stack([np.interp(_LEVELS, result.curve.level, column) for column in ecp.T], axis=1)


def _curve_rows(result: Result, columns: Sequence[np.ndarray]) -> Iterable[Numbers]:
    band = result.band()
    low, high = (np.interp(_LEVELS, band.level, side) for side in (band.low, band.high))
    for k, level in enumerate(_LEVELS):
        held = tuple(f"{column[k]:.1%}" for column in columns)
        cells = (f"{level:.0%}", *held, f"{low[k]:.1%} to {high[k]:.1%}")
        yield cells, float(level), float(columns[0][k])

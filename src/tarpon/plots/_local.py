"""Plots of local answers: maps, curves along a feature, and the surroundings of an observation."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from .._base import arguments
from .._base.types import Floats, Ints
from ._shared import BAND, COLORS, axes_of, shows, typeset

if TYPE_CHECKING:
    from ..local.maps import Map
    from ..local.near import Near
    from ..local.where import Where

_MOST_POINTS = 500
_STEPS = 11  # of colours, of which the one in the middle means that nothing is wrong
_REACH = (0.5, 1.0, 2.0)  # of colours to both sides: posterior sd, or factors to base 2


def map(
    where: "Where",
    *,
    kind: str = "width",
    features: Sequence[str] | None = None,
    parameter: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the bias or width in windows of simulations all over two features.

    Every large dot is a window of simulations around its place, small dots are simulations. Dots
    with a thick edge are significant, adjusted for all windows: the probability of any such edge
    where posteriors are accurate is at most the level. The star is the observation, if `where`
    was called with `x_o`.

    Arguments:
        where: The answer of `tarpon.where`.
        kind: `"bias"` or `"width"`.
        features: Two of the first four features; by default those with the largest error.
        parameter: The name of a parameter; by default the worst, or all together.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(1000, 2))
        >>> draws = x + np.where(x[:, :1] > 1, 0.5, 1) * rng.normal(size=(50, 1000, 2))
        >>> sims = tarpon.Simulations(draws, x + rng.normal(size=(1000, 2)), x=x)
        >>> tarpon.plots.map(tarpon.where(sims, rng=0)).get_xlabel()
        'x[0]'
    """
    shows("where", where, ("atlas", "places"), "what `tarpon.where` returns")
    shown = where.map(kind, features=features, parameter=parameter)
    ax = axes_of(ax)
    values = where.atlas.values[:, [where.features.index(name) for name in shown.features]]
    _simulations(ax, values)
    x, y = np.array([window.place for window in shown.windows]).T
    size = _on_scale(shown)
    reach = next((one for one in _REACH if abs(size).max() <= one), _REACH[-1])
    colours = fading(reach)
    wrong = np.array([window.p_value <= shown.level for window in shown.windows])
    ax.scatter(x, y, s=95, color="#ffffff", linewidth=0, zorder=2)
    ax.scatter(
        x, y, s=95, c=colours.to_rgba(size), zorder=3,
        edgecolors=["#000000" if one else BAND for one in wrong],
        linewidths=np.where(wrong, 1.8, 0.6).tolist(),
    )  # fmt: skip
    _star(ax, shown.x_o)
    ax.set(xlabel=typeset(shown.features[0]), ylabel=typeset(shown.features[1]))
    _bar(ax, colours, shown, reach)
    return ax


def _on_scale(shown: "Map") -> Floats:
    """Return the sizes of windows on the scale of the colours, where 0 means right."""
    size = np.array([window.size.value for window in shown.windows])
    return np.log2(np.maximum(size, 1e-6)) if shown.kind == "width" else size


def fading(reach: float) -> ScalarMappable:
    """Return colours that fade where nothing is wrong, so that they suit any background."""
    steps = np.linspace(-1, 1, _STEPS)
    colours = [(*to_rgb(COLORS[1] if step > 0 else COLORS[0]), abs(step)) for step in steps]
    norm = BoundaryNorm(np.linspace(-reach, reach, _STEPS + 1), _STEPS, clip=True)
    return ScalarMappable(norm, ListedColormap(colours))


def _bar(ax: Axes, colours: ScalarMappable, shown: "Map", reach: float) -> None:
    """Draw the colour bar, with the factors of widths at its ticks."""
    ticks = np.linspace(-reach, reach, 5)
    bar = ax.figure.colorbar(colours, ax=ax, pad=0.02, aspect=25, ticks=ticks)
    bar.ax.minorticks_off()
    bar.outline.set_linewidth(0.6)
    factors = shown.kind == "width"
    texts = [f"{2**tick:.2g}" if factors else f"{tick:g}".replace("-", "−") for tick in ticks]
    bar.set_ticklabels(texts)
    bar.set_label(typeset(shown.label))


def along(
    where: "Where",
    *,
    kind: str = "bias",
    feature: str | None = None,
    parameter: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the bias, width or coverage along a feature of the observations.

    Filled dots are significant, by p-values that are exact and adjusted for all bins. The band is
    for all bins of all features and parameters at once: approximate for bias and width, and for
    coverage the one of Clopper and Pearson, which holds for the mean coverage of a bin at any
    size (Hoeffding, 1956).

    Arguments:
        where: The answer of `tarpon.where`.
        kind: `"bias"`, `"width"`, or `"coverage"` of the central 68 % of the draws.
        feature: The name of a feature; by default the one with the clearest error.
        parameter: The name of a parameter; by default the worst, or all together.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_dims=2, n_sims=500, rng=0)
        >>> tarpon.plots.along(tarpon.where(sims, rng=0), feature="x[1]").get_xlabel()
        'x[1]'
    """
    shows("where", where, ("atlas", "places"), "what `tarpon.where` returns")
    shown = where.curve(kind, feature=feature, parameter=parameter)
    ax = axes_of(ax)
    value, low, high = np.array([(e.value, e.low, e.high) for e in shown.sizes]).T
    ax.axhline(shown.right, color=BAND, linewidth=0.8)
    ax.fill_between(shown.place, low, high, color=COLORS[5], alpha=0.35, linewidth=0)
    ax.plot(shown.place, value, color=COLORS[0], linewidth=1.4)
    faces = [COLORS[0] if wrong else "#ffffff" for wrong in shown.significant]
    ax.scatter(shown.place, value, s=26, c=faces, edgecolors=COLORS[0], linewidths=1.2, zorder=3)
    if shown.x_o is not None:
        _star(ax, (shown.x_o, np.nan))
    if kind == "coverage":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set(xlabel=typeset(shown.feature), ylabel=typeset(shown.label))
    return ax


def near(near: "Near", *, ax: Axes | None = None) -> Axes:
    """Draw the observation among the simulations, the nearest of which are tested.

    Axes are two posterior means if distances are measured by posteriors, or else two features of
    the observations in units of their sd.

    Arguments:
        near: The answer of `tarpon.near`.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_dims=2, n_sims=500, rng=0)
        >>> tarpon.plots.near(tarpon.near(sims, sims.x[0], rng=0)).get_ylabel()
        'x[1] / sd'
    """
    shows(
        "near", near, ("surroundings", "typical"), "what `tarpon.near` returns for one observation"
    )
    shown = near.surroundings
    ax = axes_of(ax)
    _simulations(ax, shown.values, "simulations")
    x, y = shown.values[_few(shown.places)].T
    ax.scatter(x, y, s=9, color=COLORS[0], linewidth=0, zorder=2, label=f"the nearest {near.n}")
    _star(ax, shown.x_o, "the observation")
    ax.set(xlabel=typeset(shown.names[0]), ylabel=typeset(shown.names[1]))
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=3,
              handletextpad=0.3, columnspacing=1.2, borderaxespad=0.2)  # fmt: skip
    return ax


def side_by_side(*draw: Callable[..., Axes]) -> Figure:
    """Draw several plots in one figure.

    Arguments:
        draw: Functions that draw on the axes that they are given as `ax`, like
            `partial(plots.map, where, kind="bias")`.
    """
    for one in draw:
        arguments.function("draw", one, "a function that takes `ax`")
    n = len(draw)
    if not n:
        raise ValueError("`draw` must be at least one function, but got none.")
    figure, axes = plt.subplots(1, n, figsize=(5.0 * n, 3.8), layout="constrained", squeeze=False)
    for one, ax in zip(draw, axes.flat, strict=True):
        one(ax=ax)
    return figure


def _simulations(ax: Axes, values: Floats, label: str | None = None) -> None:
    """Draw simulations as small dots, not all of very many."""
    x, y = values[_few(np.arange(len(values)))].T
    ax.scatter(x, y, s=4, color=BAND, alpha=0.55, linewidth=0, zorder=1, label=label)


def _few(places: Ints) -> Ints:
    return places[:: max(1, -(-len(places) // _MOST_POINTS))]


def _star(ax: Axes, x_o: tuple[float, float] | None, label: str | None = None) -> None:
    """Draw an observation as a star, or as a line where one of two features is not known."""
    if x_o is None:
        return
    x, y = x_o
    if np.isfinite(x_o).all():
        ax.scatter([x], [y], marker="*", s=190, color=COLORS[4], edgecolors="#000000",
                   linewidths=0.9, zorder=5, label=label)  # fmt: skip
    elif np.isfinite(x):
        ax.axvline(x, color=COLORS[4], linestyle="--", linewidth=1.4, zorder=1, label=label)
    elif np.isfinite(y):
        ax.axhline(y, color=COLORS[4], linestyle="--", linewidth=1.4, zorder=1, label=label)

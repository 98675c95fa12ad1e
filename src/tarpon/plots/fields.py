"""Plots of fields: maps of errors, the power at every scale, and single simulations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from .._base import arguments
from .._base.types import Array, Floats
from ..checks.examples import Example, of_simulations
from ..simulations import Simulations
from ..simulations.fields import Places
from ._local import fading
from ._shared import BAND, COLORS, axes_of, shows, typeset

if TYPE_CHECKING:
    from ..checks import Check
    from ..checks.cells import Cell
    from ..checks.parameters import Parameter

KINDS = ("bias", "width", "coverage")
_REACH = {
    "bias": (0.5, 1.0, 2.0),
    "width": (0.5, 1.0, 2.0),
    "coverage": (0.2, 0.3),
}  # of colours, which fade where an error is within the noise of a usual study
_LABELS = {
    "bias": "Bias / posterior sd",
    "width": "Scatter of truths / width of draws",
    "coverage": "Truths in the central 68 % of draws",
}
RIGHT = {"bias": 0.0, "width": 1.0, "coverage": 0.68}
_MOST = 0.995  # the share of cells whose errors the colours must reach
_RANKED = ("best", "median", "worst")
_RESIDUAL = 3.0  # sd to which the colours of residuals reach
_MOST_NAMES = 12  # of bands that are written level


@dataclass(frozen=True, eq=False)
class Shown:
    """One kind of error in every cell, as a map or a line.

    Arguments:
        value: The error, its ends `low` and `high`, and whether it is significant, by cell.
        places: The places of the cells.
        kind: One of `KINDS`.
    """

    value: Floats
    low: Floats
    high: Floats
    significant: Array
    places: Places
    kind: str

    @classmethod
    def of(cls, check: "Check", kind: str) -> "Shown":
        """Return a kind of error of a check of fields."""
        places = _places(check)
        name = "coverage_68" if kind == "coverage" else kind
        known = cells_of(check)
        every = [getattr(cell, name) for cell in known]
        ends = (np.array([getattr(one, end) for one in every]) for end in ("value", "low", "high"))
        wrong = np.array([cell.p_value <= check.level for cell in known])
        value, low, high = (_cells(numbers, places) for numbers in ends)
        return cls(value, low, high, _cells(wrong, places), places, kind)

    @property
    def error(self) -> Floats:
        """The error on the scale of the colours: 0 is right, overconfident is positive."""
        if self.kind == "width":
            return np.log2(np.maximum(self.value, 1e-6))
        return 0.68 - self.value if self.kind == "coverage" else self.value

    def middle(self, k: int) -> tuple[float, ...]:
        """Return the middle of a cell, or of a block of cells, along each axis."""
        return tuple(sum(ends) / 2 for ends in self._ends(k))

    def is_drawn(self, k: int) -> bool:
        """Return whether a cell, or a block of cells, lies in the slice that is drawn."""
        leading = self._ends(k)[: max(0, self.value.ndim - 2)]
        return all(
            low <= at <= high for (low, high), at in zip(leading, self.worst(), strict=True)
        )

    def _ends(self, k: int) -> list[tuple[int, int]]:
        """Return the first and the last cell along each axis."""
        at, places = np.unravel_index(k, self.places.grid), self.places
        starts = places.starts or tuple(tuple(range(n)) for n in places.shape)
        ends = [
            (*start, n)[j : j + 2] for start, n, j in zip(starts, places.shape, at, strict=True)
        ]
        return [(int(low), int(high) - 1) for low, high in ends]

    def worst(self) -> tuple[int, ...]:
        """Return the place along all axes but the last two with the largest errors."""
        leading = self.value.shape[:-2]
        if not leading:
            return ()
        size = np.square(self.error).sum(axis=(-1, -2))
        most = self.significant.sum(axis=(-1, -2)) * (1 + size.max()) + size
        return tuple(int(k) for k in np.unravel_index(int(most.argmax()), leading))


def cells_of(check: "Check") -> "Sequence[Cell | Parameter]":
    """Return the cells of a field, or blocks of them, with their errors."""
    return check.evidence.cells or check.parameters


def _places(check: "Check") -> Places:
    shows("check", check, ("parameters", "evidence"), "what `tarpon.check` returns")
    places = check.evidence.places
    if places is None or len(cells_of(check)) != len(places):
        raise ValueError(
            "maps and spectra are those of fields: pass `theta` (n_sims, *shape) and `samples` "
            "(n_draws, n_sims, *shape) to `tarpon.check`, or for a field with one axis "
            "`basis=tarpon.bases.Fourier()`."
        )
    return places


def _cells(numbers: Array, places: Places) -> Array:
    """Return numbers of cells, or of blocks of cells, at every cell."""
    found = numbers.reshape(places.grid)
    for axis, start in enumerate(places.starts):
        found = np.repeat(found, np.diff([*start, places.shape[axis]]), axis=axis)
    return found


def maps(
    check: "Check", *, kinds: Sequence[str] = KINDS, at: Sequence[int] | None = None
) -> Figure:
    """Draw the bias, width and coverage of every cell of a field.

    Cells where the draws lie too high, are too narrow, or hold too few truths are red, and those
    where the opposite holds blue. Outlined cells are significant, by exact p-values that are
    adjusted for all cells: the probability of any outline where posteriors are accurate is at most
    the level. Fields with one axis are drawn as lines with 95 % intervals, and of those with more
    than two axes one slice.

    Arguments:
        check: A check of fields.
        kinds: Any of `"bias"`, `"width"` and `"coverage"`.
        at: The place of the slice along all axes but the last two; by default the worst.

    Example:
        >>> sims = tarpon.problems.field("biased_patch", shape=(8, 8), n_sims=60, rng=0)
        >>> figure = tarpon.plots.maps(tarpon.check(sims, rng=0))
        >>> figure.axes[0].get_xlabel()
        'axis 1'
    """
    _places(check)
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(arguments.wrong("kinds", f"some of {', '.join(KINDS)}", kinds))
    shown = [Shown.of(check, kind) for kind in kinds]
    place = shown[0].worst() if at is None else at
    figure, axes = plt.subplots(1, len(kinds), figsize=(4.0 * len(kinds), 3.3), squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.06)
    for one, ax in zip(shown, axes.flat, strict=True):
        panel(one, ax, at=place)
    return figure


def panel(shown: Shown, ax: Axes, *, at: Sequence[int] | None = None) -> Axes:
    """Draw one kind of error of every cell."""
    if shown.value.ndim == 1:
        return _line(shown, ax)
    where = _slice(shown, at)
    error = shown.error[where]
    reach = _reach(shown)
    colours = fading(reach)
    ax.imshow(colours.to_rgba(error), interpolation="none")
    _outline(ax, shown.significant[where])
    _axes(ax, shown.places, where)
    _bar(ax, colours, shown.kind, reach)
    return ax


def _slice(shown: Shown, at: Sequence[int] | None) -> tuple[int, ...]:
    """Return the place of a slice along all axes but the last two."""
    leading = shown.value.shape[:-2]
    if at is None:
        return shown.worst()
    chosen = tuple(at) if isinstance(at, list | tuple) else (at,)
    inside = len(chosen) == len(leading) and all(
        isinstance(k, int | np.integer) and 0 <= k < n
        for k, n in zip(chosen, leading, strict=True)
    )
    if not inside:
        wanted = f"{len(leading)} places, one along each axis before the last two, of {leading}"
        raise ValueError(arguments.wrong("at", wanted, at))
    return tuple(int(k) for k in chosen)


def _reach(shown: Shown) -> float:
    """Return how far colours reach: nearly all cells lie within, and the same for all slices."""
    most = float(np.quantile(abs(shown.error), _MOST))
    return next((one for one in _REACH[shown.kind] if most <= one), _REACH[shown.kind][-1])


def _outline(ax: Axes, mask: Array) -> None:
    """Draw the border of the cells of a mask."""
    padded = np.pad(mask, 1).astype(int)
    rows, columns = np.nonzero(np.diff(padded, axis=0)[:, 1:-1])
    level = [((c - 0.5, r - 0.5), (c + 0.5, r - 0.5)) for r, c in zip(rows, columns, strict=True)]
    rows, columns = np.nonzero(np.diff(padded, axis=1)[1:-1])
    up = [((c - 0.5, r - 0.5), (c - 0.5, r + 0.5)) for r, c in zip(rows, columns, strict=True)]
    ax.add_collection(
        LineCollection(level + up, colors="#000000", linewidths=1.3, capstyle="round")
    )


def _axis(places: Places, axis: int) -> str:
    return typeset(places.axes[axis]) if places.axes else f"axis {axis}"


def _axes(ax: Axes, places: Places, where: tuple[int, ...]) -> None:
    """Name the axes of a map, and say which slice it is."""
    n = len(places.shape)
    ax.set(xlabel=_axis(places, n - 1), ylabel=_axis(places, n - 2))
    ax.locator_params(nbins=5, integer=True)
    ax.spines[["top", "right"]].set_visible(True)
    if where:
        at = ", ".join(f"{_axis(places, axis)} = {k}" for axis, k in enumerate(where))
        ax.set_title(at, fontsize="medium")


def _bar(ax: Axes, colours: ScalarMappable, kind: str, reach: float) -> None:
    """Draw the colour bar of a map, with sizes rather than errors at its ticks."""
    ticks = np.linspace(-reach, reach, 5)
    bar = _thin(ax.figure.colorbar(colours, ax=ax, pad=0.02, aspect=25, ticks=ticks))
    texts = {
        "bias": [f"{tick:g}".replace("-", "−") for tick in ticks],
        "width": [f"{2**tick:.2g}" for tick in ticks],
        "coverage": [f"{0.68 - tick:.0%}" for tick in ticks],
    }
    bar.set_ticklabels(texts[kind])
    bar.set_label(_LABELS[kind])


def _thin(bar: Colorbar) -> Colorbar:
    """Return a colour bar with a thin outline, in the colours of the map in the dark too."""
    bar.ax.minorticks_off()
    bar.outline.set_linewidth(0.6)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    return bar


def _line(shown: Shown, ax: Axes) -> Axes:
    """Draw one kind of error along a field with one axis."""
    x = np.arange(len(shown.value))
    ax.axhline(RIGHT[shown.kind], color=BAND, linewidth=0.8)
    ax.fill_between(x, shown.low, shown.high, color=COLORS[5], alpha=0.35, linewidth=0)
    ax.plot(x, shown.value, color=COLORS[0], linewidth=1.4)
    wrong = np.flatnonzero(shown.significant)
    ax.scatter(wrong, shown.value[wrong], s=22, color=COLORS[1], zorder=3)
    if shown.kind == "coverage":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set(xlabel=_axis(shown.places, 0), ylabel=_LABELS[shown.kind])
    return ax


def spectrum(check: "Check", *, ax: Axes | None = None) -> Axes:
    """Draw the power of the truths over that of the draws in every band of a field.

    The grey band is exact: all dots of an accurate posterior lie inside with the confidence of the
    check. Filled dots are significant, adjusted for the number of bands. Above one, the draws have
    too little power: they are too smooth. Below one, they have too much.

    Arguments:
        check: A check of fields.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> sims = tarpon.problems.field("oversmoothed", shape=(8, 8), n_sims=60, rng=0)
        >>> tarpon.plots.spectrum(tarpon.check(sims, rng=0)).get_xlabel()
        'Wavelength / cells'
    """
    _places(check)
    bands, ax = check.evidence.bands, axes_of(ax)
    x = np.arange(len(bands))
    value, low, high = np.array([(b.power.value, b.power.low, b.power.high) for b in bands]).T
    floor, top = np.array([band.accurate for band in bands]).T
    ax.axhline(1, color=BAND, linewidth=0.8)
    ax.stairs(
        top, np.arange(len(bands) + 1) - 0.5, baseline=floor, fill=True, color=BAND, alpha=0.35,
        label=f"{1 - check.level:.0%} band",
    )  # fmt: skip
    ax.errorbar(x, value, yerr=[value - low, high - value], fmt="none", ecolor=COLORS[5])
    ax.plot(x, value, color=COLORS[0], linewidth=1.4, label="truths over draws")
    faces = [COLORS[0] if band.p_value <= check.level else "#ffffff" for band in bands]
    ax.scatter(x, value, s=26, c=faces, edgecolors=COLORS[0], linewidths=1.2, zorder=3)
    waves = all(band.scale is not None for band in bands)
    names = [typeset(band.name) for band in bands]
    slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(x, names, **slanted if waves else {"rotation": 90})
    if len(bands) > _MOST_NAMES:
        ax.set_xticks(x[:: -(-len(bands) // _MOST_NAMES)])
    ax.set(xlabel="Wavelength / cells" if waves else "Band", ylabel="Power, truths / draws")
    ax.set_xlim(-0.5, len(bands) - 0.5)
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2,
              borderaxespad=0.2)  # fmt: skip
    return ax


def example(sims: "Simulations", i: int | None = None) -> Figure:
    """Draw the truth, the posterior mean, its sd and the residual of single simulations.

    By default those with the smallest, the median and the largest root mean square of the
    residual, that is of the truth about the posterior mean in posterior sd. Residuals of accurate
    posteriors have an sd of about one in every cell, over all simulations, and do not follow the
    posterior mean.

    Arguments:
        sims: Simulations of fields. Those with one axis are drawn as lines, and of those with more
            than two axes the slice in the middle is drawn.
        i: The place of one simulation.

    Example:
        >>> sims = tarpon.problems.field("exact", shape=(16, 16), n_sims=50, rng=0)
        >>> [ax.get_title() for ax in tarpon.plots.example(sims, 3).axes[:2]]
        ['truth', 'posterior mean']
    """
    arguments.instance("sims", sims, Simulations, "`Simulations`: tarpon.Simulations(...)")
    if sims.n_dims < 2:
        raise ValueError(f"`sims` must be those of fields, but have {sims.n_dims} parameters.")
    found = of_simulations(sims, i)
    flat = len(sims.shape) == 1
    size = (9.0, 0.6 + 1.7 * len(found)) if flat else (9.6, 1.2 + 2.1 * len(found))
    figure = plt.figure(figsize=size, layout="constrained")
    return examples(figure, found)


def examples(figure: Figure, found: Sequence[Example]) -> Figure:
    """Draw simulations on a figure, a row for each."""
    labels = _RANKED if len(found) > 1 else ("",)
    rows = [
        f"{label}{': ' if label else ''}simulation {one.place}\nresidual {one.misfit:.2f} sd"
        for label, one in zip(labels, found, strict=True)
    ]
    if found[0].truth.ndim == 1:
        _lines(figure, found, rows)
    else:
        _images(figure, found, rows)
    return figure


def _lines(figure: Figure, found: Sequence[Example], rows: Sequence[str]) -> None:
    axes = figure.subplots(len(found), 2, sharex=True, squeeze=False)
    for (left, right), one, row in zip(axes, found, rows, strict=True):
        x = np.arange(len(one.truth))
        left.fill_between(x, one.mean - one.sd, one.mean + one.sd, color=COLORS[5], alpha=0.35,
                          linewidth=0, label="mean ± sd")  # fmt: skip
        left.plot(x, one.mean, color=COLORS[0], linewidth=1.2)
        left.plot(x, one.truth, color=COLORS[1], linewidth=1.0, linestyle="--", label="truth")
        left.set_ylabel(row, fontsize="small")
        right.axhspan(-1, 1, color=BAND, alpha=0.35, linewidth=0)
        right.plot(x, one.residual, color=COLORS[0], linewidth=1.0)
    axes[0, 0].set_title("truth and posterior", fontsize="medium")
    axes[0, 1].set_title("residual / sd", fontsize="medium")
    axes[0, 0].legend(frameon=False, fontsize="small", ncols=2)
    for ax in axes[-1]:
        ax.set_xlabel(_axis(found[0].places, 0))


def _images(figure: Figure, found: Sequence[Example], rows: Sequence[str]) -> None:
    places = found[0].places
    middle = tuple(n // 2 for n in found[0].truth.shape[:-2])
    axes = figure.subplots(len(found), 4, sharex=True, sharey=True, squeeze=False)
    truth = np.array([[one.truth[middle], one.mean[middle]] for one in found])
    sd = np.array([one.sd[middle] for one in found])
    extent = _extent(places)
    for line, one, row, pair, width in zip(axes, found, rows, truth, sd, strict=True):
        images = [
            line[k].imshow(numbers, vmin=low, vmax=high, cmap=colours, interpolation="none",
                           extent=extent)
            for k, (numbers, low, high, colours) in enumerate((
                (pair[0], truth.min(), truth.max(), "viridis"),
                (pair[1], truth.min(), truth.max(), "viridis"),
                (width, 0.0, sd.max() or 1.0, "cividis"),
            ))
        ]  # fmt: skip
        colours = fading(_RESIDUAL)
        line[3].imshow(colours.to_rgba(one.residual[middle]), interpolation="none", extent=extent)
        line[0].set_ylabel(row, fontsize="small")
        for ax in line:
            ax.spines[["top", "right"]].set_visible(True)
            ax.locator_params(nbins=4, integer=True)
    titles = ("truth", "posterior mean", "posterior sd", "residual / sd")
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize="medium")
    if middle:
        at = ", ".join(f"{_axis(places, axis)} = {_at(places, axis, k)}"
                       for axis, k in enumerate(middle))  # fmt: skip
        figure.supxlabel(at, fontsize="small")
    bars = ((images[1], axes[:, :2]), (images[2], axes[:, 2:3]), (colours, axes[:, 3:]))
    for shown, above in bars:
        _thin(
            figure.colorbar(
                shown, ax=list(above.flat), location="bottom", pad=0.02,
                aspect=40 if above.shape[1] > 1 else 20, ticks=MaxNLocator(5),
            )
        )  # fmt: skip


def _at(places: Places, axis: int, k: int) -> int:
    """Return the first cell of a block along an axis."""
    return places.starts[axis][k] if places.starts else k


def _extent(places: Places) -> tuple[float, float, float, float]:
    """Return the sides of an image in cells, whether of cells or of blocks of cells."""
    rows, columns = places.shape[-2:]
    return -0.5, columns - 0.5, rows - 0.5, -0.5

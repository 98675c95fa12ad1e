"""Plots of results, checks, monitors, local answers, repairs; they take and return an `ax`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from .. import bands
from .._base import arguments, formulas
from .._base.text import Estimate
from .._base.types import Floats
from ..verdict import normal_scores
from ._local import along, map, near, side_by_side
from ._repair import mended, moved
from ._shared import BAND, COLORS, DASHES, alike, axes_of, shows, typeset
from .fields import example, maps, spectrum

if TYPE_CHECKING:
    from ..checks import Check
    from ..checks.evidence import Pair
    from ..checks.flaws import Trend
    from ..results import Result
    from ..sequential.monitor import Monitor

__all__ = [
    "alike",
    "along",
    "coverage",
    "difference",
    "effects",
    "evidence",
    "example",
    "map",
    "maps",
    "mended",
    "moved",
    "near",
    "one_legend",
    "pair",
    "panels",
    "ranks",
    "side_by_side",
    "spectrum",
    "trend",
]

_MOST_LABELS = 8
_MOST_DIGITS = 4  # of percentages
_MOST_POINTS = 500
_MANY = 50
_LINE = 9.0  # points from a line of a label to the next
_UPWARDS = (3.0, -11.0, 12.0, -20.0, 21.0)  # points from a dot to the label beside it
_BELOW = 4.2  # lines of a legend from the axes to the end of their label
_MOST_LOG = 690.0  # whose exponential is finite


def coverage(
    *results: "Result",
    labels: Sequence[str] | None = None,
    confidence: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw expected coverage against credibility level, with its exact band.

    A curve that leaves the band anywhere has a p-value below 1 - confidence.

    Arguments:
        results: One or more results, drawn over each other.
        labels: The name of each result.
        confidence: The confidence of the band.
        ax: The axes to draw on; a new figure by default.
    """
    _results(results)
    confidence = arguments.probability("confidence", confidence)
    ax = axes_of(ax)
    ax.plot([0, 1], [0, 1], color=BAND, linewidth=0.8, zorder=1)
    _curves(ax, results, labels, confidence, subtract=False)
    ticks = np.linspace(0, 1, 5)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=ticks, yticks=ticks)
    ax.set(xlabel="Credibility level", ylabel="Expected coverage")
    return ax


def difference(
    *results: "Result",
    labels: Sequence[str] | None = None,
    confidence: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw expected coverage minus credibility level, with its exact band.

    The same as `coverage`, with small departures magnified.

    Arguments:
        results: One or more results, drawn over each other.
        labels: The name of each result.
        confidence: The confidence of the band.
        ax: The axes to draw on; a new figure by default.
    """
    _results(results)
    confidence = arguments.probability("confidence", confidence)
    ax = axes_of(ax)
    ax.axhline(0, color=BAND, linewidth=0.8, zorder=1)
    _curves(ax, results, labels, confidence, subtract=True)
    ax.set(xlim=(0, 1), xlabel="Credibility level", ylabel="Expected coverage − level")
    return ax


def ranks(
    result: "Result",
    *,
    score: int = 0,
    n_bins: int | None = None,
    confidence: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the histogram of ranks, with an exact band for all bins at once.

    Where the numbers of ranks per bin differ by one, the band has a notch.

    Arguments:
        result: A result.
        score: The index of the score, if there are several.
        n_bins: The number of bins; by default at most 20, with at least 10 truths each.
        confidence: The confidence of the band.
        ax: The axes to draw on; a new figure by default.
    """
    _results([result])
    score = arguments.positive("score", score, 0)
    if score >= len(result.names):
        wanted = f"from 0 to {len(result.names) - 1}, which of the scores to draw"
        raise ValueError(arguments.wrong("score", wanted, score))
    if n_bins is not None:
        arguments.positive("n_bins", n_bins)
    confidence = arguments.probability("confidence", confidence)
    ax = axes_of(ax)
    place, counts, low, high = rank_histogram(result, score, n_bins, confidence)
    ax.stairs(high, place, baseline=low, fill=True, color=BAND, alpha=0.35,
              label=f"{confidence:.0%} band")  # fmt: skip
    ax.stairs(counts, place, color=COLORS[0], linewidth=1.6,
              label=typeset(result.names[score]))  # fmt: skip
    ax.axhline(1, color=BAND, linewidth=0.8)
    ax.set(xlim=(0, 1), xlabel="Rank of the truth / (number of draws + 1)")
    ax.set(ylabel="Truths, relative to uniform")
    ax.set_ylim(0, 1.3 * max(high.max(), counts.max()))
    ax.legend(frameon=False, fontsize="small", loc="upper right", ncols=2)
    return ax


def rank_histogram(
    result: "Result", score: int = 0, n_bins: int | None = None, confidence: float = 0.95
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return edges, heights and the ends of the band of a histogram of ranks.

    Heights are relative to uniform ranks, since bins may differ by one rank value.
    """
    n_sims, n_draws = result.ranks.n_sims, result.ranks.n_draws
    values = result.ranks.values.reshape(n_sims, -1)[:, score]
    n_bins = max(1, min(20, n_sims // 10, n_draws + 1)) if n_bins is None else n_bins
    edges = np.rint(np.linspace(0, n_draws + 1, min(n_bins, n_draws + 1) + 1)).astype(int)
    sizes = np.diff(edges)
    low, high = bands.histogram_band(n_sims, tuple(sizes.tolist()), confidence)
    flat = n_sims * sizes / (n_draws + 1)
    counts = np.histogram(values, edges)[0]
    return edges / (n_draws + 1), counts / flat, low / flat, high / flat


def effects(check: "Check", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the bias of every parameter against the width of its draws, with 95 % intervals.

    The lines cross at no bias and the right width. Up to eight parameters that fail are named,
    worst first.

    Arguments:
        check: A check.
        ax: The axes to draw on; a new figure by default.
    """
    shows("check", check, ("parameters", "evidence"), "what `tarpon.check` returns")
    ax = axes_of(ax)
    bias = [parameter.bias for parameter in check.parameters]
    width = [parameter.width for parameter in check.parameters]
    many = len(width) > _MANY
    ax.axvline(0, color=BAND, linewidth=0.8)
    ax.axhline(1, color=BAND, linewidth=0.8)
    ax.errorbar(
        [b.value for b in bias], [w.value for w in width],
        xerr=[[b.value - b.low for b in bias], [b.high - b.value for b in bias]],
        yerr=[[w.value - w.low for w in width], [w.high - w.value for w in width]],
        fmt="o", markersize=3 if many else 4, linewidth=0.4 if many else 1, color=COLORS[0],
        ecolor=COLORS[5],
    )  # fmt: skip
    ax.set(xlabel="Bias of the draws / posterior sd")
    ax.locator_params(axis="x", nbins=6)  # or labels such as −0.125 touch each other
    ax.set(ylabel="Scatter of the truths / width of the draws")
    off = [max(_distance(b, 0.0), _distance(w, 1.0)) for b, w in zip(bias, width, strict=True)]
    worst = [int(k) for k in np.argsort(off)[::-1][:_MOST_LABELS]]
    _annotate(
        ax,
        [
            (check.parameters[k].name, bias[k].value, width[k].value)
            for k in worst
            if check.parameters[k].p_value <= check.level
        ],
    )
    return ax


def _annotate(ax: "Axes", points: Sequence[tuple[str, float, float]]) -> None:
    """Name points, each beside it where no other name is yet."""
    taken: list[Floats] = []
    corners = np.array([[0], [1]])
    for name, x, y in points:
        place = ax.transData.transform((x, y)) * 72 / ax.figure.dpi
        size = np.array([4.8 * len(formulas.plain(name)), _LINE])
        boxes = {
            (right, up): place + np.array([4 if right else -4 - size[0], up]) + corners * size
            for up in _UPWARDS
            for right in (True, False)
        }
        right, up = min(boxes, key=lambda to: sum(_overlap(boxes[to], box) for box in taken))
        taken.append(boxes[right, up])
        ax.annotate(
            typeset(name), (x, y), xytext=(4 if right else -4, up), textcoords="offset points",
            fontsize="small", ha="left" if right else "right", va="bottom",
        )  # fmt: skip


def _overlap(a: Floats, b: Floats) -> float:
    """Return the area that two boxes share, each `[[left, low], [right, high]]`."""
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    return float(sides.clip(min=0).prod())


def pair(check: "Check", pair: "Pair | None" = None, *, ax: "Axes | None" = None) -> "Axes":
    """Draw where the truths lie among the draws in two parameters, and where they should.

    Both axes are the normal scores of ranks. The ellipses hold 68 % and 95 % of normal draws
    that correlate as these draws do.

    Arguments:
        check: A check.
        pair: A pair of `check.evidence.pairs.worst`; the worst by default.
        ax: The axes to draw on; a new figure by default.
    """
    shows("check", check, ("parameters", "evidence"), "what `tarpon.check` returns")
    pair = _worst_pair(check) if pair is None else pair
    shows("pair", pair, ("names", "truths"), "one of `check.evidence.pairs.worst`")
    ax = axes_of(ax)
    marginals = check.evidence.marginals
    scores = normal_scores(marginals.ranks.n_draws)
    columns = [marginals.names.index(name) for name in pair.names]
    x, y = scores[marginals.ranks.values[:_MOST_POINTS, columns]].T
    ax.scatter(x, y, s=7, color=COLORS[0], alpha=0.6, linewidth=0, label="truths")
    angle = np.linspace(0, 2 * np.pi, 100)
    across, along = np.cos(angle), np.sin(angle)
    for share, dashes in ((0.68, "-"), (0.95, "--")):
        radius = np.sqrt(-2 * np.log(1 - share))
        up = pair.draws * across + np.sqrt(1 - pair.draws**2) * along
        ax.plot(radius * across, radius * up, linestyle=dashes, color=COLORS[1], linewidth=1.4,
                label=f"{share:.0%} of the draws")  # fmt: skip
    x_label, y_label = (f"{typeset(name)} / posterior sd" for name in pair.names)
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set(aspect="equal")
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def _worst_pair(check: "Check") -> "Pair":
    if not check.evidence.pairs.worst:
        raise ValueError(
            "a pair needs two parameters, but this check has one: draw its ranks instead, with "
            "`plots.ranks(check.evidence.marginals)`."
        )
    return check.evidence.pairs.worst[0]


def trend(trend: "Trend", *, ax: "Axes | None" = None) -> "Axes":
    """Draw how a bias, a width or a correlation changes along the data or a posterior mean.

    Arguments:
        trend: A trend of the evidence of a check.
        ax: The axes to draw on; a new figure by default.
    """
    shows("trend", trend, ("place", "along"), "a trend of `check.evidence`")
    ax = axes_of(ax)
    value, low, high = np.array([(e.value, e.low, e.high) for e in trend.error]).T
    if trend.what != "correlation":
        ax.axhline(float(trend.what == "width"), color=BAND, linewidth=0.8)
    ax.errorbar(trend.place, value, yerr=[value - low, high - value], fmt="o-", markersize=4,
                linewidth=1.2, color=COLORS[0], ecolor=COLORS[5])  # fmt: skip
    ax.set(xlabel=typeset(trend.along), ylabel=typeset(trend_label(trend)))
    return ax


def trend_label(trend: "Trend") -> str:
    """Return the label of the axis of a trend."""
    names = " and ".join(trend.names)
    if trend.what == "correlation":
        return f"Correlation of {names}"
    if trend.what == "bias":
        return f"Bias of {names} / posterior sd"
    return f"Scatter of the truths{f' in {names}' if names else ''} / width"


def _distance(estimate: Estimate, target: float) -> float:
    """Return the distance of an estimate from its target in half intervals."""
    return abs(estimate.value - target) / max((estimate.high - estimate.low) / 2, 1e-12)


def evidence(
    *monitors: "Monitor", labels: Sequence[str] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the evidence against accuracy after every simulation.

    The probability that the curve of an accurate posterior ever reaches the dashed line is at
    most the level of the monitor.

    Arguments:
        monitors: One or more monitors, drawn over each other.
        labels: The name of each monitor.
        ax: The axes to draw on; a new figure by default.
    """
    if not monitors:
        raise ValueError("`monitors` must be at least one monitor, but got none.")
    for monitor in monitors:
        shows("monitors", monitor, ("history", "level"), "`tarpon.Monitor` objects")
    names = _labels(labels, len(monitors), "monitor")
    ax = axes_of(ax)
    ax.axhline(1, color=BAND, linewidth=0.8, zorder=1)
    for level in sorted({monitor.level for monitor in monitors}):
        ax.axhline(1 / level, color=BAND, linewidth=1.2, linestyle="--", zorder=1,
                   label=f"inaccurate, at level {level:g}")  # fmt: skip
    for k, (monitor, name) in enumerate(zip(monitors, names, strict=True)):
        history = monitor.history
        ax.plot(
            history.n_sims, np.exp(np.clip(history.log_e, -_MOST_LOG, _MOST_LOG)),
            color=COLORS[k % len(COLORS)], linestyle=DASHES[k % len(DASHES)],
            marker="o" if len(history.n_sims) == 1 else None, linewidth=1.6, label=name,
        )  # fmt: skip
    ax.set(yscale="log", xlabel="Simulations", ylabel="Evidence against accuracy (e-value)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def panels(
    results: "Mapping[str, Mapping[str, Result]]",
    *,
    draw: "Callable[..., Axes]" = coverage,
    n_cols: int = 4,
) -> "Figure":
    """Draw one panel of curves per case, from `{case: {label: result}}`.

    The panels share one legend, so every case should have the same labels.

    Arguments:
        results: The results of each case, by label.
        draw: The plot of each panel, `coverage` or `difference`.
        n_cols: The number of panels per row.
    """
    wanted = "a dictionary {case: {label: result}}"
    for curves in (results, *arguments.instance("results", results, Mapping, wanted).values()):
        if not arguments.instance("results", curves, Mapping, wanted):
            raise ValueError("`results` must have at least one case and result, but got none.")
    arguments.function("draw", draw, "a function like `plots.coverage`")
    n_cols = min(arguments.positive("n_cols", n_cols), len(results))
    n_rows = -(-len(results) // n_cols)
    figure, axes = plt.subplots(
        n_rows, n_cols, figsize=(0.9 + 2.8 * n_cols, 0.7 + 3.0 * n_rows),
        sharex=True, sharey=True, squeeze=False,
    )  # fmt: skip
    figure.set_layout_engine("constrained", wspace=0.06, hspace=0.04)
    for ax, (case, curves) in zip(axes.flat, results.items(), strict=False):
        draw(*curves.values(), labels=list(curves), ax=ax)
        ax.set_title(case)
        ax.label_outer()
    for ax in axes.flat[len(results) :]:
        ax.remove()
    one_legend(figure, n_cols=n_cols + 1)
    return figure


def one_legend(figure: "Figure", *, n_cols: int = 4) -> None:
    """Replace the legends of all panels of a figure by one below it.

    Labels of several panels are listed once. The figure needs `layout="constrained"`.

    Arguments:
        figure: A figure, with panels of any kind.
        n_cols: The number of entries per row.
    """
    arguments.instance("figure", figure, Figure, "a figure of matplotlib")
    arguments.positive("n_cols", n_cols)
    entries = {}
    for ax in figure.axes:
        entries.update(dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)))
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
    figure.legend(
        entries.values(), entries.keys(),
        loc="outside lower center", ncols=min(n_cols, len(entries)), frameon=False,
    )  # fmt: skip


def _results(results: "Sequence[Result]") -> None:
    """Raise unless these are results, and at least one."""
    if not results:
        raise ValueError("`results` must be at least one result, but got none.")
    for result in results:
        wanted = "what `tarp`, `sbc` or `hpd` return"
        shows("results", result, ("ranks", "curve"), wanted)


def _labels(labels: Sequence[str] | None, n: int, what: str) -> "Sequence[str | None]":
    return [None] * n if labels is None else arguments.words("labels", labels, n, what)


def _curves(
    ax: "Axes",
    results: "Sequence[Result]",
    labels: Sequence[str] | None,
    confidence: float,
    *,
    subtract: bool,
) -> None:
    sizes = {(result.ranks.n_sims, result.ranks.n_draws) for result in results}
    for n_sims, n_draws in sorted(sizes):
        band = bands.band(n_sims, n_draws, confidence)
        base = band.level if subtract else 0.0
        name = f"{100 * confidence:.4g}% band" + (
            f", {n_sims} simulations" if len(sizes) > 1 else ""
        )
        ax.fill_between(
            band.level, band.low - base, band.high - base,
            color=BAND, alpha=0.35 / len(sizes), linewidth=0, label=name,
        )  # fmt: skip
    lines = list(_lines(results, labels))
    for k, (label, level, ecp) in enumerate(lines):
        many = len(lines) > _MOST_LABELS
        ax.plot(
            level, ecp - level if subtract else ecp,
            drawstyle="steps-post" if len(level) < 50 else "default",
            color=COLORS[k % len(COLORS)], linestyle=DASHES[k % len(DASHES)],
            linewidth=0.8 if many else 1.6, alpha=0.7 if many else 1.0,
            label=None if many else typeset(label),
        )  # fmt: skip
    ax.xaxis.set_major_formatter(_Percent(1.0))
    ax.yaxis.set_major_formatter(_Percent(1.0))
    if subtract:
        _legend_below(ax)
    else:
        ax.legend(frameon=False, fontsize="small")


def _legend_below(ax: "Axes") -> None:
    """Draw the legend below the label of the axis: the band leaves no space between curves."""
    ax.legend(
        frameon=False, fontsize="small", ncols=3, loc="upper center", bbox_to_anchor=(0.5, 0),
        borderaxespad=_BELOW,
    )  # fmt: skip


class _Percent(PercentFormatter):
    """Percentages with the digits that tell all ticks apart, and no more."""

    def format_ticks(self, values: list[float]) -> list[str]:
        percent = 100 * np.asarray(values, dtype=float)
        exact = (
            np.allclose(percent, np.round(percent, n), atol=1e-6) for n in range(_MOST_DIGITS)
        )
        self.decimals = next((n for n, all_shown in enumerate(exact) if all_shown), _MOST_DIGITS)
        return super().format_ticks(values)


def _lines(
    results: "Sequence[Result]", labels: Sequence[str] | None
) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the label, levels and expected coverage of every curve."""
    given = _labels(labels, len(results), "result")
    for result, label in zip(results, given, strict=True):
        ecp = result.curve.ecp.reshape(len(result.curve.level), -1)
        for name, column in zip(result.names, ecp.T, strict=True):
            both = f"{label} {name}" if label and ecp.shape[1] > 1 else label or name
            yield both, result.curve.level, column

"""Plots of repairs: what was moved along the data, and one posterior before and after."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from .._base import arguments
from .._base.types import RNG, ArrayLike
from ._shared import BAND, COLORS, axes_of, shows, typeset

if TYPE_CHECKING:
    from ..mending.repair import Repair

_MOST_POINTS = 1000
_N_BINS = 30
_LABELS = {
    "location": "Draws are moved by / posterior sd",
    "width": "Draws are widened by a factor of",
}


def moved(repair: "Repair", *, kind: str = "location", ax: Axes | None = None) -> Axes:
    """Draw how far a repair moves draws, or by what it widens them, along the data.

    A dot is a simulated observation, at the number of the data that the move of a parameter
    follows most. The grey line is what draws that are not moved have.

    Arguments:
        repair: The answer of `tarpon.repair`.
        kind: `"location"` or `"width"`.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> sims = tarpon.problems.zoo("bias_by_x", n_sims=200, rng=0)
        >>> tarpon.plots.moved(tarpon.repair(sims, rng=0)).get_xlabel()
        'Number of the data / sd, from its mean'
    """
    shows("repair", repair, ("moves", "kept"), "what `tarpon.repair` returns")
    arguments.one_of("kind", kind, list(_LABELS))
    shown, ax = repair.moves, axes_of(ax)
    values, right = (shown.location, 0.0) if kind == "location" else (shown.factor, 1.0)
    ax.axhline(right, color=BAND, linewidth=0.8, zorder=1)
    some = slice(None, None, max(1, -(-len(values) // _MOST_POINTS)))
    for k, (name, feature) in enumerate(zip(shown.names, shown.features, strict=True)):
        label = f"{name} along {feature}" if feature else f"{name}, for all data"
        ax.scatter(shown.place[some, k], values[some, k], s=7, color=COLORS[k], linewidth=0,
                   label=typeset(label))  # fmt: skip
    reach = 1.1 * max(abs(values - right).max(), 0.1)
    ax.set_ylim(right - reach, right + reach)
    ax.set(xlabel="Number of the data / sd, from its mean", ylabel=_LABELS[kind])
    _legend(ax)
    return ax


def mended(
    repair: "Repair",
    samples: ArrayLike,
    x: ArrayLike | None = None,
    *,
    parameters: tuple[int, int] = (0, 1),
    rng: RNG = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the posterior of an observation before and after a repair.

    Crosses are the means.

    Arguments:
        repair: The answer of `tarpon.repair`.
        samples: The draws, `(n_draws, n_dims)`.
        x: The observation, if the simulations have observations.
        parameters: The places of two parameters; of one parameter there are histograms.
        rng: Seed or generator.
        ax: The axes to draw on; a new figure by default.

    Example:
        >>> sims = tarpon.problems.zoo("shift", n_sims=200, rng=0)
        >>> repair = tarpon.repair(sims, rng=0)
        >>> tarpon.plots.mended(repair, sims.samples[:, 0], sims.x[0], rng=0).get_xlabel()
        'theta_0'
    """
    shows("repair", repair, ("moves", "kept"), "what `tarpon.repair` returns")
    after, before = repair(samples, x, rng=rng), np.asarray(samples, dtype=float)
    names, ax = [typeset(name) for name in repair.names], axes_of(ax)
    both = ((before, BAND, "before"), (after, COLORS[0], "after"))
    if len(names) == 1:
        bins = np.histogram_bin_edges(np.concatenate([before[:, 0], after[:, 0]]), _N_BINS)
        for draws, color, label in both:
            ax.hist(draws[:, 0], bins.tolist(), density=True, histtype="step", color=color,
                    linewidth=1.6, label=label)  # fmt: skip
        ax.set(xlabel=names[0], ylabel="Density")
    else:
        i, j = (arguments.positive("parameters", k, 0) for k in parameters)
        if max(i, j) >= len(names):
            wanted = f"two places from 0 to {len(names) - 1}"
            raise ValueError(arguments.wrong("parameters", wanted, parameters))
        for draws, color, label in both:
            ax.scatter(draws[:_MOST_POINTS, i], draws[:_MOST_POINTS, j], s=6, color=color,
                       alpha=0.6, linewidth=0, label=label)  # fmt: skip
            ax.plot(*draws[:, [i, j]].mean(axis=0), "+", markersize=14, markeredgewidth=2.2,
                    color=_darker(color))  # fmt: skip
        ax.set(xlabel=names[i], ylabel=names[j])
    _legend(ax)
    return ax


def _darker(color: str) -> tuple[float, float, float]:
    red, green, blue = (0.6 * part for part in to_rgb(color))
    return red, green, blue


def _legend(ax: Axes) -> None:
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2,
              handletextpad=0.3, columnspacing=1.2, borderaxespad=0.2)  # fmt: skip

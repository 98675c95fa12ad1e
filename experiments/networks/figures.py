"""One figure per problem: draws of every estimator for one observation, beside exact ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import drawing
import numpy as np
from problems import PROBLEMS
from references import reference

PAIRS = {"slcp": (2, 3), "blob": (2, 3)}  # the parameters that are shown; (0, 1) of others
_COLUMNS, _SIZE = 4, 2.1
_INK, _GREY = "#1f5fa8", "#b8b8b8"


def write(folder: Path, problem: str, records: Sequence[dict[str, Any]]) -> None:
    """Draw the figure of a problem, if its draws are kept."""
    import matplotlib.pyplot as plt

    shown = [one for one in records if one["n_train"]]
    files = [drawing.path(one["estimator"], problem, one["n_train"]) for one in shown]
    if not files or not all(file.exists() for file in files):
        return
    place, pair = _place(files), PAIRS.get(problem, (0, 1))
    exact = reference(PROBLEMS[problem]).ten.samples[:, place][:, pair]
    rows = -(-len(shown) // _COLUMNS)
    columns = min(_COLUMNS, len(shown))
    figure, axes = plt.subplots(
        rows, columns, figsize=(_SIZE * columns, (_SIZE + 0.35) * rows), squeeze=False,
        sharex=True, sharey=True, layout="constrained",
    )  # fmt: skip
    for axis in axes.ravel()[len(shown) :]:
        axis.set_visible(False)
    for axis, one, file in zip(axes.ravel(), shown, files, strict=False):
        found = drawing.read(file)
        (at,) = np.flatnonzero(found.kept["ten"] == place)
        draws = np.asarray(found.studies["ten"].samples)[:, at][:, pair]
        for points, colour, size in ((exact, _GREY, 4), (draws, _INK, 1.5)):
            axis.scatter(*points.T, s=size, color=colour, linewidths=0, alpha=0.7, rasterized=True)
        axis.set_title(_title(one), fontsize=7.5)
        axis.tick_params(labelsize=6)
    _limits(axes[0, 0], exact)
    figure.supxlabel(f"parameter {pair[0]}", fontsize=7.5)
    figure.supylabel(f"parameter {pair[1]}", fontsize=7.5)
    figure.savefig(folder / f"networks-{problem}.png", dpi=110)
    plt.close(figure)


def _place(files: Sequence[Path]) -> int:
    """Return the first of the ten observations that all estimators have draws of."""
    kept = [set(drawing.read(file).kept["ten"].tolist()) for file in files]
    return min(set.intersection(*kept))


def _title(one: dict[str, Any]) -> str:
    nats = f"{one['true']['nats']:.2f} nats, " if "nats" in one["true"] else ""
    return f"{one['estimator']}, {one['n_train']}\n{nats}p = {one['at_300']['p']:.3f}"


def _limits(axis: Any, exact: np.ndarray) -> None:
    """Show the exact draws, and half as much on each side."""
    low, high = exact.min(axis=0), exact.max(axis=0)
    (left, bottom), (right, top) = low - 0.5 * (high - low), high + 0.5 * (high - low)
    axis.set_xlim(left, right)
    axis.set_ylim(bottom, top)

"""A repair in a report: what was done, what is moved, and a posterior before and after."""

from typing import TYPE_CHECKING

import numpy as np

from .. import plots
from .._base.formulas import plain
from .._base.types import RNG, ArrayLike
from ._figures import Figure, Numbers, made

if TYPE_CHECKING:
    from ..mending.repair import Repair

_SIZE = (3.8, 3.1)
_N_ROWS = 9
_READ_MOVED = (
    "A dot is a simulated observation. The grey line is what draws that are not moved have. Parts "
    "of the move that follow the draws rather than the data are left out."
)
_READ_MENDED = "Draws of one posterior, as they were and repaired."


class Repaired:
    """What became of posteriors, in words and figures.

    Arguments:
        repair: The answer of `tarpon.repair`.
        samples: Draws of one posterior, or None.
        x: Its observation.
        rng: Seed or generator.
    """

    def __init__(
        self, repair: "Repair", samples: ArrayLike | None, x: ArrayLike | None, rng: RNG
    ) -> None:
        first, *lines = (plain(line.strip()) for line in str(repair).splitlines())
        self.outcome, _, self.said = first.partition(": ")
        self.lines = lines
        self.figures = []
        moves = repair.moves
        if moves.location.any() or (moves.factor != 1).any():
            self.figures += [_moved(repair, kind, f"r-{kind}") for kind in ("location", "width")]
        if samples is not None:
            self.figures.append(_mended(repair, samples, x, rng))


def _moved(repair: "Repair", kind: str, key: str) -> Figure:
    shown = repair.moves
    values = shown.location if kind == "location" else shown.factor
    some = np.unique(np.linspace(0, len(values) - 1, _N_ROWS).astype(int))
    places = np.argsort(shown.place[:, 0], kind="stable")[some]
    rows: list[Numbers] = [
        (
            (f"{place:.2f}", *(f"{value:.3g}" for value in values[k])),
            float(place),
            float(values[k, 0]),
        )
        for k in places
        for place in shown.place[k, :1]
    ]
    what = "Location" if kind == "location" else "Width"
    about = f"between {values.min():.2g} and {values.max():.2g} at the simulated observations"
    header = (shown.features[0] or "all data", *shown.names)
    title = f"{what} that is moved, along the data"
    return made(
        lambda ax: plots.moved(repair, kind=kind, ax=ax),
        key, (title, about, _READ_MOVED), header, rows, _SIZE,
    )  # fmt: skip


def _mended(repair: "Repair", samples: ArrayLike, x: ArrayLike | None, rng: RNG) -> Figure:
    before, after = np.asarray(samples, dtype=float), repair(samples, x, rng=rng)
    rows: list[Numbers] = [
        ((name, *(f"{draws[:, k].mean():.3g} ± {draws[:, k].std():.2g}" for draws in both)), 0, 0)
        for both in [(before, after)]
        for k, name in enumerate(repair.names)
    ]
    return made(
        lambda ax: plots.mended(repair, samples, x, rng=rng, ax=ax),
        "r-mended",
        ("One posterior before and after", f"{len(after)} of {len(before)} draws", _READ_MENDED),
        ("Parameter", "Before, mean ± sd", "After"),
        rows,
        _SIZE,
    )

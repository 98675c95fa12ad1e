"""Figures of fields: errors of every cell, power at every scale, single simulations."""

from matplotlib.axes import Axes

from .. import plots
from ..checks import Check
from ..plots.fields import RIGHT, Shown, cells_of, panel
from ..plots.fields import examples as draw_examples
from ..simulations.fields import Places
from ._figures import Figure, made

_MOST_CELLS = 20  # in the table behind a map
SPECTRUM = "Power at every scale"
_READ_MAP = (
    "Red: the draws lie above the truths, are too narrow, or hold too few truths. Blue: the "
    "opposite. Outlined cells are significant, by exact p-values adjusted for all cells: accurate "
    "posteriors have no outline at all with the confidence of the check."
)
_READ_LINE = (
    "With 95% intervals. Red dots are significant, by exact p-values adjusted for all cells."
)
_READ_SPECTRUM = (
    "All dots of an accurate posterior lie in the grey band with its probability. Above one, the "
    "draws have too little power at this scale: they are too smooth. Below one, they have too "
    "much. Filled dots are significant, adjusted for the number of bands."
)
_READ_EXAMPLES = (
    "The simulations with the smallest, the median and the largest residual of all cells: the "
    "truth about the posterior mean, in posterior sd. Residuals of accurate posteriors have an sd "
    "of about one in every cell, over all simulations, and do not follow the posterior mean."
)


def error_map(check: Check, kind: str, key: str) -> Figure:
    """Return the bias, width or coverage of every cell of a field."""
    shown = Shown.of(check, kind)
    cells = cells_of(check)
    n_failed = sum(cell.p_value <= check.level for cell in cells)
    about = f"{n_failed} of {len(cells)} {of_what(shown.places)} are significant"
    name = "coverage_68" if kind == "coverage" else kind
    sizes = {k: getattr(p, name) for k, p in enumerate(cells) if shown.is_drawn(k)}
    worst = sorted(sizes, key=lambda k: -abs(sizes[k].value - RIGHT[kind]))[:_MOST_CELLS]
    rows = []
    for k in worst:
        *_, y, x = (sizes[k].value, *shown.middle(k))
        rows.append(((cells[k].name, str(sizes[k])), x, y))
    read = _READ_LINE if shown.value.ndim == 1 else _READ_MAP
    return made(
        lambda ax: panel(shown, ax),
        key,
        (f"{kind.capitalize()} of all {of_what(shown.places)}", about, read),
        ("Farthest off", kind.capitalize()),
        rows,
    )


def of_what(places: Places) -> str:
    """Return what is drawn on maps, in words."""
    return "blocks of cells" if places.starts else "cells"


def spectrum(check: Check, key: str) -> Figure:
    """Return the power of the truths over that of the draws in every band of a field."""
    bands = check.evidence.bands
    wrong = [band.name for band in bands if band.p_value <= check.level]
    about = f"Bands that fail: {', '.join(wrong) or 'none'}"
    rows = (
        (
            (band.name, str(band.power), f"{band.accurate[0]:.2f} to {band.accurate[1]:.2f}"),
            float(k),
            band.power.value,
        )
        for k, band in enumerate(bands)
    )
    return made(
        lambda ax: plots.spectrum(check, ax=ax),
        key,
        (SPECTRUM, about, _READ_SPECTRUM),
        ("Band", "Power, truths / draws", f"{1 - check.level:.0%} band"),
        rows,
    )


def examples(check: Check, key: str) -> Figure:
    """Return the simulations with the smallest, the median and the largest residual."""
    found = check.evidence.examples
    about = "; ".join(f"simulation {one.place} by {one.misfit:.2f} sd" for one in found)

    flat = found[0].truth.ndim == 1

    def draw(ax: Axes) -> object:
        figure = ax.get_figure(root=True)
        assert figure is not None
        ax.remove()
        axes = draw_examples(figure, found).axes
        n_columns = 2 if flat else 4
        return lambda _, row: axes[n_columns * int(row)].transAxes.transform((0.5, 0.5))

    rows = (((f"{one.place}", f"{one.misfit:.2f}"), 0.0, float(k)) for k, one in enumerate(found))
    size = (8.4, 5.2) if flat else (8.4, 7.0)
    return made(draw, key, ("Single simulations", f"Residuals: {about}", _READ_EXAMPLES),
                ("Simulation", "Residual / sd"), rows, size)  # fmt: skip

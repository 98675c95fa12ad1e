"""Shared by all plots: colours, axes, and names with formulas."""

from collections.abc import Sequence
from functools import lru_cache

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.mathtext import MathTextParser

from .._base import arguments, formulas

# Okabe and Ito (2008): distinct with any colour vision; the dashes are distinct in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
BAND = "#999999"


def axes_of(ax: Axes | None) -> Axes:
    """Return axes that were given, or those of a new figure."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(arguments.wrong("ax", "axes of matplotlib", ax))
    return plt.subplots(figsize=(4.2, 3.8), layout="constrained")[1] if ax is None else ax


def alike(*axes: Axes, titles: Sequence[str]) -> None:
    """Give axes the same limits, and their titles."""
    for bounds, to in ((Axes.get_xlim, Axes.set_xlim), (Axes.get_ylim, Axes.set_ylim)):
        low, high = zip(*(bounds(ax) for ax in axes), strict=True)
        for ax in axes:
            to(ax, min(low), max(high))
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)


def shows(name: str, value: object, attributes: Sequence[str], wanted: str) -> None:
    """Raise unless an object has what is drawn of it; its class lies in a storey above."""
    if isinstance(value, type) or not all(hasattr(value, one) for one in attributes):
        raise TypeError(arguments.wrong(name, wanted, value))


def typeset(words: str) -> str:
    r"""Return words as matplotlib draws them: with formulas such as `$\Omega_m$`.

    Other dollars, and formulas that matplotlib cannot read, are drawn as they are.
    """
    return "".join(
        part if formula and _readable(part) else part.replace("$", r"\$")
        for part, formula in formulas.split(words)
    )


@lru_cache(maxsize=4096)
def _readable(formula: str) -> bool:
    """Return whether matplotlib can typeset a formula."""
    try:
        MathTextParser("path").parse(formula)
    except (ValueError, RecursionError):
        return False
    return True

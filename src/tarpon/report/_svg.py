"""SVG of matplotlib figures, with the colours, fonts and ids of the page around them."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from .._base.formulas import plain

_STYLE: dict[Any, Any] = {
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8.5,
    "path.simplify_threshold": 0.4,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tarpon",  # the same figure gives the same file
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}
# Colours that a page may change in the dark, each with its value where there is no page.
_COLORS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper, #ffffff)",
    "#999999": "var(--band, #999999)",
    "#0072b2": "var(--blue, #0072b2)",
    "#d55e00": "var(--red, #d55e00)",
    "#009e73": "var(--green, #009e73)",
    "#cc79a7": "var(--pink, #cc79a7)",
    "#e69f00": "var(--gold, #e69f00)",
    "#56b4e9": "var(--sky, #56b4e9)",
}
_COLOR = re.compile("|".join(_COLORS))
_FONT = re.compile(r"font-family: [^;]*(; )?")
_LONG = re.compile(r"(\.\d\d)\d+")
_TARGET = re.compile(r"url\(#([^)]+)\)")
_XLINK = "{http://www.w3.org/1999/xlink}href"

NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONGEST, _LONGEST_NAME = 48, 30

Draw = Callable[[Axes], object]
Place = Callable[[float, float], tuple[float, float]]


def drawn(draw: Draw, key: str, size: tuple[float, float]) -> tuple[Markup, Place]:
    """Return a figure as SVG, and a function from the data to places in it.

    Arguments:
        draw: Draws on the axes that it is called with. If it draws on several of its own instead,
            it returns a function from the data to places on the display.
        key: The beginning of all ids in the SVG.
        size: Width and height in inches.
    """
    out = io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Text is set by the reader's browser, whatever glyphs the font here is missing.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        own = draw(ax)
        names = {*figure.findobj(Annotation), *_in_legend(ax)}
        for text in figure.findobj(Text):
            most = _LONGEST_NAME if text in names else _LONGEST
            text.set_text(_fitting(text.get_text(), most))
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    scale = 72 / figure.dpi

    def place(x: float, y: float) -> tuple[float, float]:
        at = own(x, y) if callable(own) else ax.transData.transform((x, y))
        right, up = np.asarray(at) * scale
        return float(right), float(size[1] * 72 - up)

    return _inline(out.getvalue(), key), place


def _in_legend(ax: Axes) -> list[Text]:
    legend = ax.get_legend()
    return legend.get_texts() if legend else []


def _fitting(text: str, most: int) -> str:
    """Return text of a figure; if it is too long, its beginning with formulas as plain text."""
    line = shortened(text, len(text))
    words = plain(line.replace(r"\$", "$"))
    return line if len(words) <= most else shortened(words, most).replace("$", r"\$")


def shortened(text: str, most: int) -> str:
    """Return text that fits into a figure: one line of limited length."""
    line = re.sub(r"[\r\n\t]+", " ", NOT_XML.sub("\ufffd", text))
    return line if len(line) <= most else line[: most - 1] + "…"


def _inline(text: str, key: str) -> Markup:
    root = ElementTree.fromstring(text)
    box = root.get("viewBox", "")
    wanted = {target for element in root.iter() for target in _targets(element)}
    for parent in list(root.iter()):
        for child in list(parent):
            child.tail = None
            if child.tag.endswith(("metadata", "style")):
                parent.remove(child)
    for element in root.iter():
        _localise(element, key, wanted)
    root.attrib = {"viewBox": box, "aria-hidden": "true", "focusable": "false"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _targets(element: ElementTree.Element) -> set[str]:
    """Return the ids that an element points to."""
    targets = {match for value in element.attrib.values() for match in _TARGET.findall(value)}
    return targets | {element.get(_XLINK, "").removeprefix("#")}


def _localise(element: ElementTree.Element, key: str, wanted: set[str]) -> None:
    """Rewrite the attributes of an element; its text is left alone."""
    element.tag = element.tag.rpartition("}")[2]
    if element.tag != "text" and element.text is not None and not element.text.strip():
        element.text = None
    if element.get("id") not in wanted:
        element.attrib.pop("id", None)
    target = element.attrib.pop(_XLINK, None)
    if target is not None and target.startswith("data:"):
        element.set("href", target)
    elif target is not None:
        element.set("href", f"#{key}-{target.removeprefix('#')}")
    for name, value in element.attrib.items():
        if name == "id":
            value = f"{key}-{value}"
        elif name == "style":
            value = _COLOR.sub(lambda match: _COLORS[match[0]], _FONT.sub("", value))
        elif name in ("d", "x", "y", "transform"):
            value = _LONG.sub(r"\1", " ".join(value.split()))
        element.set(name, _TARGET.sub(rf"url(#{key}-\1)", value))

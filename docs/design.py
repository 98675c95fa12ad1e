"""The picture of the design page, drawn from the imports in the source."""

import ast
import re
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 1.16, 0.5


def storeys(page: Path) -> list[list[str]]:
    """Return the rooms of each storey, lowest first, as the table of the page lists them."""
    rows = re.findall(r"^\| \d \| (.*?) \|", page.read_text(), re.MULTILINE)
    return [re.findall(r"`([^`]+)`", row) for row in rows]


def imported(src: Path) -> Counter[tuple[str, str]]:
    """Return how often one room imports from another, by their names."""
    found: Counter[tuple[str, str]] = Counter()
    for path in src.rglob("*.py"):
        *folders, _ = path.relative_to(src).parts
        room = path.relative_to(src).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level > len(folders):
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found.update((room, name.partition(".")[0]) for name in names)
    return found


def drawn(page: Path, src: Path) -> Figure:
    """Draw the storeys that do something, with a line for each pair of rooms that import."""
    shown = storeys(page)[:-1]
    places = {
        room.rstrip("/"): ((k - (len(rooms) - 1) / 2) * 1.35, 1.15 * floor)
        for floor, rooms in enumerate(shown)
        for k, room in enumerate(rooms)
        if room != "_version"
    }
    figure, ax = plt.subplots(figsize=(12.5, 8), layout="constrained")
    for (user, used), n in imported(src).items():
        if user in places and used in places and user != used:
            (x, y), (to_x, to_y) = places[user], places[used]
            beside = y == to_y
            ends = (
                (to_x, to_y + (0 if beside else _HEIGHT / 2)),
                (x, y - (0 if beside else _HEIGHT / 2)),
            )
            style = {"arrowstyle": "-|>", "color": "#35627f", "alpha": min(0.15 + 0.05 * n, 0.7)}
            bend = "arc3,rad=-0.35" if beside else "arc3"
            ax.annotate("", *ends, arrowprops=style | {"connectionstyle": bend, "lw": 0.8})
    for room, (x, y) in places.items():
        corner = x - _WIDTH / 2, y - _HEIGHT / 2
        ax.add_patch(plt.Rectangle(corner, _WIDTH, _HEIGHT, fc="#eef4f8", ec="#35627f", zorder=3))
        ax.text(x, y, room, ha="center", va="center", weight="bold", fontsize=9, zorder=4)
    for floor in range(len(shown)):
        ax.text(-6.6, 1.15 * floor, str(floor), color="0.5", fontsize=14, va="center")
    ax.set(xlim=(-6.9, 6.4), ylim=(-0.5, 1.15 * (len(shown) - 1) + 0.6))
    ax.axis("off")
    return figure

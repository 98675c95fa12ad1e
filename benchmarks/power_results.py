"""Results of `benchmarks/power.py`: p-values in a file, and the page that is drawn from them."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tarpon.problems import FLAWS

DOCS = Path(__file__).parents[1] / "docs"
DIMS = (2, 10, 50)
N_SIMS = 200  # of the table of powers
SIZES = (3, 6, 12, 25, 50, 100, N_SIMS, 400, 800, 1600, 3200)  # to find the number needed
LEVEL, POWER = 0.05, 0.8
N_C2ST = 10  # studies for classifiers, which are slow to train
COLUMNS = ("check", "oracle", "TARP", "HPD", "SBC", "C2ST", "sbi")
WORDS = ("right word", "other words")

Cell = dict[str, list[float | None]]  # a value per study, by test


class Results:
    """Values of all studies so far, by flaw, number of parameters and number of simulations."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, Cell] = json.loads(path.read_text()) if path.exists() else {}

    def cell(self, flaw: str, n_dims: int, n_sims: int = N_SIMS) -> Cell:
        return self.cells.get(f"{flaw} {n_dims} {n_sims}", {})

    def merge(self, cells: dict[str, Cell]) -> None:
        """Add cells, of which the columns with most studies are kept, and write the file."""
        for key, cell in cells.items():
            kept = self.cells.setdefault(key, {})
            kept |= {k: v for k, v in cell.items() if len(v) >= len(kept.get(k, []))}
        lines = (f"{json.dumps(key)}: {json.dumps(cell)}" for key, cell in self.cells.items())
        part = self.path.with_suffix(".part")
        part.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        part.replace(self.path)

    def mean(self, flaw: str, n_dims: int, column: str, n_sims: int = N_SIMS) -> float:
        """Return a power, or the mean of a column of words; NaN if it was not measured."""
        values = np.array(self.cell(flaw, n_dims, n_sims).get(column, []), float)
        values = values[~np.isnan(values)]
        if not len(values):
            return np.nan
        return float(np.mean(values if column in WORDS else values <= LEVEL))

    def needed(self, flaw: str, n_dims: int, column: str) -> float:
        """Return the number of simulations for a power of 0.8: `inf` if none was enough.

        The logarithm of the number is interpolated between sizes. NaN if too few were measured.
        """
        powers = np.array([self.mean(flaw, n_dims, column, n) for n in SIZES])
        enough = np.flatnonzero(powers >= POWER)
        if not len(enough):
            return np.nan if np.isnan(powers[-1]) else np.inf
        k = enough[0]
        if k == 0:
            return SIZES[0]
        part = (POWER - powers[k - 1]) / (powers[k] - powers[k - 1])
        return float(SIZES[k - 1] * (SIZES[k] / SIZES[k - 1]) ** part)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float, form: str = ".2f") -> str:
    return "" if np.isnan(value) else f"{value:{form}}"


def powers(results: Results) -> Iterator[str]:
    """Yield the lines of the table of powers: of the tests that were measured on most flaws."""
    every = [(flaw, n_dims) for flaw in FLAWS for n_dims in DIMS]
    columns = [
        name for name in COLUMNS
        if np.mean([name in results.cell(flaw, n_dims) for flaw, n_dims in every]) > 0.5
    ]  # fmt: skip
    yield row("flaw", "parameters", *columns, *WORDS)
    yield row("---", *["--:"] * (len(columns) + 3))
    for flaw, about in FLAWS.items():
        for n_dims in DIMS:
            means = [results.mean(flaw, n_dims, name) for name in (*columns, *WORDS)]
            yield row(about.label, str(n_dims), *map(number, means))
    for circle, which in (1, "first"), (2, "later"):
        those = [name for name, about in FLAWS.items() if about.circle == circle and about.kinds]
        table = [[results.mean(f, d, name) for name in columns] for f in those for d in DIMS]
        means = np.ma.masked_invalid(table).mean(axis=0).filled(np.nan)
        yield row(f"**mean over the {which} flaws**", "", *map(number, means), "", "")


def numbers_needed(results: Results) -> Iterator[str]:
    """Yield the lines of the table of simulations needed."""
    yield row("flaw", "parameters", "oracle", "check", "ratio")
    yield row("---", *["--:"] * 4)
    ratios = []  # the least that each may be, and the most
    for flaw, about in FLAWS.items():
        for n_dims in DIMS if about.kinds else ():
            limit, ours = (results.needed(flaw, n_dims, name) for name in ("oracle", "check"))
            least, most = (min(ours, SIZES[-1]) / limit, ours / limit)
            ratio = number(least, ".1f") if np.isfinite(limit) else ""
            ratio = f"> {ratio}" if ratio and np.isinf(most) else ratio
            yield row(about.label, str(n_dims), *map(size, (limit, ours)), ratio)
            ratios += [(least, most)] if ratio else []
    if ratios:
        least, most = np.median(ratios, axis=0)
        yield row("**median**", "", "", "", f"{'≥ ' if most > least else ''}{least:.1f}")


def size(n_sims: float) -> str:
    """Return a number of simulations as text, with a sign at the ends of the search."""
    if np.isinf(n_sims):
        return f"> {SIZES[-1]}"
    return f"≤ {SIZES[0]}" if n_sims == SIZES[0] else number(n_sims, ".0f")


def write(results: Results) -> None:
    """Write docs/power.md and its figure from the results."""
    cells = [results.cell(flaw, n_dims) for flaw in FLAWS for n_dims in DIMS]
    runs = {len(cell["check"]) for cell in cells if "check" in cell}
    swaps = {n for cell in cells for n in cell.get("swaps", [])}
    page = [
        "# Power on the zoo of flaws",
        "",
        f"Written by `python benchmarks/power.py --write`: {span(runs)} studies per cell, "
        f"{N_SIMS} simulations × 100 draws each, level 5 %, {span(swaps)} swaps. The cells are "
        "the shares of studies that each test rejects. The first rows are exact posteriors, where "
        "every test should reject in 5 % of studies, except the oracle, which then has nothing to "
        "look for. `check` uses the observations and, like HPD, "
        "the estimator's density where it has one. The oracle knows the flaw: it is the most "
        "powerful test that swaps truths with draws (`problems.oracle`), where the ratio of "
        "densities has a closed form. TARP has one uniform reference, as in the paper; SBC is "
        "adjusted by Bonferroni; C2ST is a boosted classifier of truths against draws and "
        f"observations ({N_C2ST} studies); sbi is the result of its `check_tarp`. The last "
        "columns are over the studies that `check` rejects: the share in which it named the flaw "
        "correctly, and the mean number of other flaws that it named.",
        "",
        "![Power of every test on every flaw](images/power.png)",
        "",
        *powers(results),
        "",
        "## Simulations needed",
        "",
        "The number of simulations with which a test finds the flaw in 80 % of studies, "
        f"interpolated between sizes that double, from {SIZES[0]} to {SIZES[-1]}. The ratio is "
        "how many times the oracle's simulations `check` needs. Sizes other than "
        f"{N_SIMS} were measured before `check` had the families *shapes*, *pair shapes* and "
        "*neighbours*.",
        "",
        *numbers_needed(results),
    ]
    (DOCS / "power.md").write_text("\n".join(page) + "\n")
    draw(results)


def span(values: set[int]) -> str:
    return " to ".join(map(str, sorted({min(values), max(values)}))) if values else "no"


def draw(results: Results) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(DIMS), figsize=(11, 9), sharey=True, layout="constrained")
    flaws = [flaw for flaw in FLAWS if flaw != "exact"]
    for ax, n_dims in zip(axes, DIMS, strict=True):
        image = [[results.mean(flaw, n_dims, name) for name in COLUMNS] for flaw in flaws]
        shown = ax.imshow(image, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        ax.set_xticks(range(len(COLUMNS)), COLUMNS, rotation=45, ha="right")
        ax.set_yticks(range(len(flaws)), [FLAWS[flaw].label for flaw in flaws])
        ax.set_title(f"{n_dims} parameters")
    figure.colorbar(shown, ax=axes, label="Share of studies in which the flaw is found")
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / "power.png", dpi=150)

"""Results of `benchmarks/local.py`, and the page that is made from them."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from power_results import Cell, Results
from scipy.stats import binomtest

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PATH, SBI = DOCS / "local.md", DOCS / "benchmarks/local.json", DOCS / "benchmarks/lc2st.json"
FLAWS = {"narrow": (0.7, 0.0), "bias": (1.0, 0.5)}  # widths and shifts of the draws
DIMS, N_SIMS = (2, 5, 10), (500, 2000)
SIZES = ((100, 9), (100, 99), (500, 9), (500, 99))  # simulations and draws, of levels
N_STUDIES, N_LC2ST, N_NULL = 60, 20, 20
SHAPES = ("1", "5", "200", "8×8")  # numbers of an observation
LEVEL = 0.05
INNER = 2.0358  # the 92.5 % quantile of x[0]
LEVELS = (
    "near", "near by x", "where", "depends, wrong everywhere", "typical, wrong everywhere",
    "typical by x",
)  # fmt: skip
TITLES = {
    "narrow": "0.7 × too narrow",
    "bias": "0.5 sd biased",
    "near by x": "near, without `samples`",
    "typical by x": "typical, wrong everywhere, without `samples`",
}


def rejected(values: Iterable[float], *, strict: bool = False) -> str:
    """Return the share of p-values at or below the level, with its 99 % exact interval."""
    found = np.array(list(values))
    return share(int((found < LEVEL if strict else found <= LEVEL).sum()), len(found))


def share(count: int, n: int, digits: int = 2) -> str:
    if n == 0:
        return ""
    low, high = binomtest(count, n).proportion_ci(0.99, method="exact")
    return f"{count / n:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def power(cells: dict[str, Cell], sbi: dict[str, Cell]) -> Iterator[str]:
    yield from heads(
        "flaw", "parameters", "simulations", "studies", "`near`, wrong", "inner half",
        "LC2ST, wrong", "`near`, right", "LC2ST, right", "window", "`near`, s", "LC2ST, s",
    )  # fmt: skip
    for flaw, n_sims, n_dims, ours in measured(cells):
        theirs = sbi.get(f"{flaw} {n_dims} {n_sims}", {})
        inside = np.array(ours["near in"])[np.array(ours["x in"]) > INNER]
        n_studies = f"{len(ours['where'])}, {len(theirs.get('lc2st s', ''))}"
        yield row(
            TITLES[flaw], n_dims, n_sims, n_studies, rejected(ours["near in"]), rejected(inside),
            rejected(theirs.get("lc2st in", []), strict=True), rejected(ours["near out"]),
            rejected(theirs.get("lc2st out", []), strict=True),
            f"{np.mean(ours['flawed in']):.0%}, {np.mean(ours['flawed out']):.0%}",
            f"{np.median(ours['near in s']):.2f}",
            f"{np.median(theirs['lc2st s']):.0f}" if theirs else "",
        )  # fmt: skip


def places(cells: dict[str, Cell]) -> Iterator[str]:
    yield from heads(
        "flaw", "parameters", "simulations", "rejected", "named", "a right group named",
        "depends", "intervals of `where` hold", "intervals of `near` hold",
    )  # fmt: skip
    every = [0, 0, 0, 0]
    for flaw, n_sims, n_dims, one in measured(cells):
        n = len(one["where"])
        held = [one[f"{kind} {place}"] for kind in ("bias", "width") for place in ("in", "out")]
        counts = [int(sum(one[k])) for k in ("n held", "n places")]
        counts += [round(np.sum(held) * n_dims), 4 * n * n_dims]
        every = [a + b for a, b in zip(every, counts, strict=True)]
        yield row(
            TITLES[flaw], n_dims, n_sims, rejected(one["where"]), share(int(sum(one["names"])), n),
            share(int(sum(one["right named"])), n), rejected(one["depends"]),
            share(*counts[:2]), share(*counts[2:], digits=3),
        )  # fmt: skip
    yield row("all", *[""] * 6, share(*every[:2], digits=3), share(*every[2:], digits=3))


def measured(cells: dict[str, Cell]) -> Iterator[tuple[str, int, int, Cell]]:
    for flaw, n_sims, n_dims in product(FLAWS, N_SIMS, DIMS):
        if (key := f"{flaw} {n_dims} {n_sims}") in cells:
            yield flaw, n_sims, n_dims, cells[key]


def heads(*names: str) -> Iterator[str]:
    yield row(*names)
    yield row(*["---"] * len(names))


def row(*columns: object) -> str:
    return f"| {' | '.join(map(str, columns))} |"


def levels(cells: dict[str, Cell]) -> Iterator[str]:
    yield from heads("p-value", "simulations", "draws", *SHAPES, "all")
    for name, (n_sims, n_draws) in product(LEVELS, SIZES):
        found = [
            cells.get(f"level {n_sims} {n_draws} {size}", {}).get(name, []) for size in SHAPES
        ]
        every = [*found, [p for values in found for p in values]]
        yield row(TITLES.get(name, name), n_sims, n_draws, *map(rejected, every))
    for n_draws in (9, 99):
        if cell := cells.get(f"twin {n_draws}"):
            for name, title in (("near", "near, off centre"), ("twin", "twin: by draws alone")):
                yield row(title, 500, n_draws, rejected(cell[name]), "", "", "", "")


def speed(cell: Cell) -> Iterator[str]:
    yield from heads("", "seconds", "over `check`")
    check = np.median(cell["check"])
    for name, times in cell.items():
        yield row(f"`{name}`", f"{np.median(times):.2f}", f"{np.median(times) / check:.2f}")


def write() -> None:
    """Write the tables into the page; its words stay."""
    cells, sbi = Results(PATH).cells, Results(SBI).cells
    page = PAGE.read_text()
    tables = {
        "power": power(cells, sbi),
        "places": places(cells),
        "levels": levels(cells),
        "speed": speed(cells["speed"]) if "speed" in cells else (),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]
    PAGE.write_text(page)


if __name__ == "__main__":
    write()

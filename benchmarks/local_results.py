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
N_STUDIES, N_LC2ST, N_NULL = 60, 20, 40
LEVEL = 0.05
LEVELS = (
    "near", "near by x", "where", "depends, wrong everywhere", "typical, wrong everywhere",
    "typical by x", "twin",
)  # fmt: skip
TITLES = {
    "narrow": "0.7 × too narrow",
    "bias": "0.5 sd biased",
    "near by x": "near, without `samples`",
    "typical by x": "typical, wrong everywhere, without `samples`",
    "twin": "twin: windows by the draws alone",
}


def rejected(values: Iterable[float], *, digits: int = 2, strict: bool = False) -> str:
    """Return the share of p-values at or below the level, with its 99 % exact interval."""
    found = np.array(list(values))
    return share(int((found < LEVEL if strict else found <= LEVEL).sum()), len(found), digits)


def share(count: int, n: int, digits: int = 2) -> str:
    if n == 0:
        return ""
    low, high = binomtest(count, n).proportion_ci(0.99, method="exact")
    return f"{count / n:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def power(cells: dict[str, Cell], sbi: dict[str, Cell]) -> Iterator[str]:
    yield "| flaw | parameters | simulations | `near` where wrong | LC2ST where wrong | `near` where right | LC2ST where right | `near`, s | LC2ST, s |"  # noqa: E501
    yield "|---|--:|--:|---|---|---|---|--:|--:|"
    for flaw, n_sims, n_dims in product(FLAWS, N_SIMS, DIMS):
        key = f"{flaw} {n_dims} {n_sims}"
        if key not in cells:
            continue
        ours, theirs = cells[key], sbi.get(key, {})
        columns = [TITLES[flaw], str(n_dims), str(n_sims)]
        for place in ("in", "out"):
            columns.append(rejected(ours[f"near {place}"]))
            columns.append(rejected(theirs.get(f"lc2st {place}", []), strict=True))
        columns.append(f"{np.median(ours['near in s']):.2f}")
        columns.append(f"{np.median(theirs['lc2st s']):.0f}" if theirs else "")
        yield f"| {' | '.join(columns)} |"


def places(cells: dict[str, Cell]) -> Iterator[str]:
    yield "| flaw | parameters | simulations | rejected | first place: x[0], above | by that alone | a right group named | window flawed | intervals of `where` hold | intervals of `near` hold |"  # noqa: E501
    yield "|---|--:|--:|---|---|---|---|--:|---|---|"
    for flaw, n_sims, n_dims in product(FLAWS, N_SIMS, DIMS):
        if (key := f"{flaw} {n_dims} {n_sims}") not in cells:
            continue
        one = cells[key]
        n = len(one["where"])
        columns = [TITLES[flaw], str(n_dims), str(n_sims), rejected(one["where"])]
        columns += [share(int(sum(one[k])), n) for k in ("names", "names alone", "right named")]
        columns += [f"{np.mean(one['flawed in']):.0%}, {np.mean(one['flawed out']):.0%}"]
        columns += [share(int(sum(one["n held"])), int(sum(one["n places"])))]
        held = [one[f"{kind} {place}"] for kind in ("bias", "width") for place in ("in", "out")]
        columns += [f"{np.mean(held):.3f}"]
        yield f"| {' | '.join(columns)} |"


def levels(cells: dict[str, Cell]) -> Iterator[str]:
    yield "| p-value | simulations | draws | x | P(p ≤ 0.05) |"
    yield "|---|--:|--:|---|---|"
    for name, (n_sims, n_draws), size in product(LEVELS, SIZES, ("1", "5", "200", "8×8")):
        if (key := f"level {n_sims} {n_draws} {size}") in cells:
            found = rejected(cells[key][name], digits=3)
            yield f"| {TITLES.get(name, name)} | {n_sims} | {n_draws} | {size} | {found} |"


def speed(cell: Cell) -> Iterator[str]:
    yield "| | seconds | over `check` |"
    yield "|---|--:|--:|"
    check = np.median(cell["check"])
    for name, times in cell.items():
        yield f"| `{name}` | {np.median(times):.2f} | {np.median(times) / check:.2f} |"


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

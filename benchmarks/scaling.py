"""Time and peak memory against every size, over three decades.

    python benchmarks/scaling.py --write        # writes scaling.md and scaling.png

One size grows at a time, the others stay. Memory is the peak of the process beyond its input.
"""

import argparse
import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from speed import extra_megabytes

import tarpon
from tarpon import Simulations
from tarpon._base.threads import n_allowed

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"
LABELS = {
    "n_sims": "Simulations N",
    "n_draws": "Draws n",
    "n_dims": "Parameters D",
    "n_references": "References K",
}
BASE = {
    "tarp": {"n_sims": 1000, "n_draws": 200, "n_dims": 20, "n_references": 1},
    "check": {"n_sims": 100, "n_draws": 100, "n_dims": 10},
}
GROWN = {
    "tarp": {
        "n_sims": (100, 300, 1000, 3000, 10_000, 30_000, 100_000),
        "n_draws": (20, 60, 200, 600, 2000, 6000, 20_000),
        "n_dims": (2, 6, 20, 60, 200, 600, 2000),
        "n_references": (1, 3, 10, 30, 100, 300, 1000),
    },
    "check": {
        "n_sims": (10, 30, 100, 300, 1000, 3000, 10_000),
        "n_draws": (10, 30, 100, 300, 1000, 3000, 10_000),
        "n_dims": (1, 3, 10, 30, 100, 300, 1000),
    },
}


def study(n_sims: int, n_draws: int, n_dims: int) -> Simulations:
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((n_sims, n_dims), dtype=np.float32)
    return Simulations(rng.standard_normal((n_draws, n_sims, n_dims), dtype=np.float32), theta)


def call(test: str, n_references: int = 1, **sizes: int) -> Callable[[], object]:
    sims = study(**sizes)
    if test == "check":
        return lambda: tarpon.check(sims, rng=0)
    reference = tarpon.references.Uniform()
    if n_references > 1:
        reference = tarpon.references.Several(reference, n_references)
    return lambda: tarpon.tarp(sims, reference=reference, rng=0).ranks


def measure(function: Callable[[], object]) -> tuple[float, float]:
    """Return the smallest of three times, or a single time above 3 s, and memory."""
    times = []

    def timed() -> None:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)

    # Return freed memory to the system, or it would hide what this call needs.
    ctypes.CDLL(None).malloc_trim(0)
    extra = extra_megabytes(timed)
    while times[-1] < 3 and len(times) < 3:
        timed()
    return min(times), extra


def measured() -> Iterator[tuple[str, str, int, float, float]]:
    """Yield the test, the name and value of the size that grows, the time and the memory."""
    for test, grown in GROWN.items():
        for name, sizes in grown.items():
            for n in sizes:
                yield test, name, n, *measure(call(test, **BASE[test] | {name: n}))


def figure(rows: list[tuple[str, str, int, float, float]]) -> None:
    import matplotlib.pyplot as plt

    shown, axes = plt.subplots(2, 4, figsize=(12, 5.4), sharey="row", layout="constrained")
    colors = {"tarp": "#0072B2", "check": "#D55E00"}
    for column, name in enumerate(LABELS):
        for test, color in colors.items():
            mine = [row for row in rows if row[:2] == (test, name)]
            if not mine:
                continue
            sizes = np.array([row[2] for row in mine])
            others = {k: v for k, v in BASE[test].items() if k != name and k != "n_references"}
            label = f"{test}, {' × '.join(f'{v} {k[2:]}' for k, v in others.items())}"
            took = np.array([row[3] for row in mine])
            top, below = axes[:, column]
            top.loglog(sizes, took, "o-", color=color, label=label)
            top.loglog(sizes, took[-1] * sizes / sizes[-1], ":", color=color)
            extra = [max(row[4], 0.1) for row in mine]
            below.loglog(sizes, extra, "s-", color=color, label=label)
        axes[0, column].legend(frameon=False, fontsize=7)
        axes[1, column].set_xlabel(LABELS[name])
    axes[0, 0].set_ylabel("Time / s (dotted: linear)")
    axes[1, 0].set_ylabel("Peak memory beyond input / MB")
    shown.savefig(PAGES / "scaling.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write scaling.md and scaling.png")
    write = parser.parse_args().write
    sizes = {
        test: " × ".join(f"{v} {k[2:]}" for k, v in base.items() if k != "n_references")
        for test, base in BASE.items()
    }
    lines = [
        "# How time and memory grow",
        "",
        "Written by `python benchmarks/scaling.py --write`, in single precision, on "
        f"{n_allowed()} cores of a shared server. One size grows, the others stay "
        f"at {sizes['tarp']} for `tarp` and at {sizes['check']} for `check` with 999 swaps. "
        "Several references are counted together. Memory is the peak of the process beyond its "
        "input. The smallest times are dominated by the p-value and by Python.",
        "",
        "![Time and memory against every size](scaling.png)",
        "",
        "| test | what grows | to | s | extra MB |",
        "|---|---|--:|--:|--:|",
    ]
    tarpon.check(study(20, 20, 3), rng=0)  # compiles
    tarpon.tarp(study(20, 20, 3), rng=0)
    rows = []
    for row in measured():
        test, name, n, took, extra = row
        rows.append(row)
        lines.append(f"| `{test}` | {LABELS[name]} | {n} | {took:.3g} | {extra:.0f} |")
        print(lines[-1], flush=True)
    if write:
        (PAGES / "scaling.md").write_text("\n".join(lines) + "\n")
        figure(rows)


if __name__ == "__main__":
    main()

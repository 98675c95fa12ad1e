"""Time and memory of `check`: against one argsort of the samples, and as each size grows.

python benchmarks/check_speed.py --write     # writes check_speed.md and check_speed.png
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from speed import extra_megabytes

import tarpon
from tarpon import Simulations
from tarpon._base.threads import n_allowed

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"
BASE = {"n_sims": 200, "n_draws": 200, "n_dims": 20}
GROWN = {
    "n_sims": (50, 100, 200, 400, 800, 1600, 3200),
    "n_draws": (50, 100, 200, 400, 800, 1600, 3200),
    "n_dims": (2, 5, 10, 20, 40, 80, 160, 320),
}


def study(n_sims: int, n_draws: int, n_dims: int, n_obs: int) -> Simulations:
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((n_sims, n_dims), dtype=np.float32)
    x = rng.standard_normal((n_sims, n_obs), dtype=np.float32)
    samples = rng.standard_normal((n_draws, n_sims, n_dims), dtype=np.float32)
    return Simulations(samples, theta, x=x)


def seconds(sims: Simulations, repeats: int = 2) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        tarpon.check(sims, rng=0)
        times.append(time.perf_counter() - start)
    return min(times)


SHAPES = ((1000, 500, 2, 10), (1000, 1000, 10, 10), (200, 5000, 20, 20), (1000, 500, 256, 1024))


def sorting(sims: Simulations) -> float:
    """Return how long one argsort of the samples takes on one core, draws last in memory."""
    columns = np.ascontiguousarray(sims.samples.transpose(1, 2, 0))
    times = []
    for _ in range(2):
        start = time.perf_counter()
        np.argsort(columns, axis=2)
        times.append(time.perf_counter() - start)
    return min(times)


def large() -> Iterator[str]:
    head = "| draws | simulations | parameters | observed |"
    yield f"{head} argsort / s | check / s | ratio | extra MB |"
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|"
    for n_draws, n_sims, n_dims, n_obs in SHAPES:
        sims = study(n_sims, n_draws, n_dims, n_obs)
        one, took = sorting(sims), seconds(sims, 3)
        extra = extra_megabytes(lambda s=sims: tarpon.check(s, rng=0))
        sizes = f"| {n_draws} | {n_sims} | {n_dims} | {n_obs} |"
        yield f"{sizes} {one:.2f} | {took:.2f} | {took / one:.1f} | {extra:.0f} |"


def growth() -> dict[str, list[float]]:
    return {
        name: [seconds(study(**(BASE | {name: n}), n_obs=20)) for n in sizes]
        for name, sizes in GROWN.items()
    }


def figure(times: dict[str, list[float]]) -> None:
    import matplotlib.pyplot as plt

    shown, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    labels = {"n_sims": "Simulations", "n_draws": "Draws", "n_dims": "Parameters"}
    for ax, (name, took) in zip(axes, times.items(), strict=True):
        sizes = np.array(GROWN[name])
        ax.loglog(sizes, took, "o-", color="#0072B2", label="check")
        ax.loglog(sizes, took[-1] * sizes / sizes[-1], "--", color="#999999", label="linear")
        others = [f"{value} {key[2:]}" for key, value in BASE.items() if key != name]
        ax.set(xlabel=labels[name], title=", ".join(others))
    axes[0].set_ylabel("Time / s")
    axes[0].legend(frameon=False)
    shown.savefig(PAGES / "check_speed.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write check_speed.md and .png")
    write = parser.parse_args().write
    lines = [
        "# Time and memory of `check`",
        "",
        "Written by `python benchmarks/check_speed.py --write`, with 999 swaps, in single "
        f"precision, on {n_allowed()} cores of a shared server. An argsort of the samples on one "
        "core is measured in the same run. Memory is the peak of the process beyond its input.",
        "",
    ]
    tarpon.check(study(50, 50, 3, 3), rng=0)  # compiles
    for line in large():
        print(line, flush=True)
        lines.append(line)
    times = growth()
    lines += ["", "![Time against each size](check_speed.png)", ""]
    lines += ["| size | time / s |", "|---|---|"]
    for name, took in times.items():
        cells = ", ".join(f"{n}: {s:.2f}" for n, s in zip(GROWN[name], took, strict=True))
        lines.append(f"| {name} | {cells} |")
        print(lines[-1])
    if write:
        (PAGES / "check_speed.md").write_text("\n".join(lines) + "\n")
        figure(times)


if __name__ == "__main__":
    main()

"""How often tests reject exact posteriors: the false-alarm rate behind every p-value.

    python benchmarks/level.py --write          # writes docs/level.md, about half an hour

Each cell repeats a small study thousands of times with the exact posterior N(x/2, 1/2).
"""

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import tarpon
from tarpon.checks import families
from tarpon.checks.statistics import combine

LEVELS = (0.01, 0.05, 0.1)
PAGE = Path(__file__).parents[1] / "docs" / "level.md"


def study(test: str, n_sims: int, n_draws: int, n_dims: int, seed: int) -> float:
    """Return the p-value of one study; for `band`, 0 if the curve leaves its 95 % band."""
    rng = np.random.default_rng([seed, n_sims, n_draws, n_dims])
    theta = rng.normal(size=(n_sims, n_dims))
    mean = (theta + rng.normal(size=theta.shape)) / 2
    z = rng.normal(size=(n_draws, *theta.shape))
    if test == "HPD":
        truth = -((theta - mean) ** 2).sum(-1)
        return tarpon.hpd(-0.5 * (z**2).sum(-1), truth, rng=seed).p_value
    samples = mean + np.sqrt(0.5) * z
    if test == "SBC":
        return tarpon.sbc(samples, theta, rng=seed).p_value
    result = tarpon.tarp(samples, theta, rng=seed)
    if test == "TARP":
        return result.p_value
    band, ecp = result.band(0.95), result.curve.ecp
    return 1.0 - bool(((ecp < band.low) | (ecp > band.high)).any())


def plain(points: np.ndarray) -> np.ndarray:
    return points


def correlated(points: np.ndarray) -> np.ndarray:
    return points @ (np.full((points.shape[-1],) * 2, 0.9) + 0.1 * np.eye(points.shape[-1]))


def heavy_tails(points: np.ndarray) -> np.ndarray:
    return np.sinh(3 * points)


def integers(points: np.ndarray) -> np.ndarray:
    return np.rint(2 * points).astype(int)


@dataclass(frozen=True)
class Cell:
    """Studies of one kind.

    Arguments:
        name: What the posteriors are.
        sizes: The numbers of simulations, draws, parameters, and numbers observed (0 for none).
        shape: Changes normal points.
        weighted: Whether draws come from a wider proposal, with weights.
    """

    name: str
    sizes: tuple[int, int, int, int]
    shape: Callable[[np.ndarray], np.ndarray] = plain
    weighted: bool = False

    def check(self, seed: int) -> dict[str, float]:
        """Return the p-values of `check` and of its families on an exact posterior."""
        n_sims, n_draws, n_dims, n_obs = self.sizes
        rng = np.random.default_rng([seed, *self.sizes])
        x = rng.normal(size=(n_sims, max(n_obs, 1)))
        mean = 0.8 * x[:, np.arange(n_dims) % x.shape[1]]
        points = mean + np.sqrt(0.2) * rng.normal(size=(n_draws + 1, n_sims, n_dims))
        weights = {}
        if self.weighted:
            points[1:] = mean + 1.5 * (points[1:] - mean)
            log_weights = (1 - 1 / 1.5**2) * -((points - mean) ** 2).sum(-1) / (2 * 0.2)
            weights = {"log_weights": log_weights[1:], "log_weights_theta": log_weights[0]}
        points = self.shape(points)
        sims = tarpon.Simulations(points[1:], points[0], **weights)
        sums = families.swapped(sims, {}, x if n_obs else None, n_swaps=99, rng=rng)
        by_family = families.families(sums)
        statistics = np.column_stack(list(by_family.values()))
        found = combine(statistics, families.weights(by_family))
        return {"check": found.p_value, **dict(zip(by_family, found.single, strict=True))}


CELLS = [
    Cell("normal", (n_sims, n_draws, n_dims, n_dims * with_x))
    for n_sims, n_draws, n_dims, with_x in product((20, 100), (10, 50), (1, 5, 50), (1, 0))
]
CELLS += [
    Cell(shape.__name__.replace("_", " "), sizes, shape)
    for shape in (correlated, heavy_tails, integers)
    for sizes in ((20, 10, 5, 5), (100, 50, 5, 0), (100, 50, 20, 20))
]
CELLS += [
    Cell("weighted", (20, 20, 3, 3), weighted=True),
    Cell("weighted", (100, 50, 5, 5), weighted=True),
    Cell("more data than simulations", (30, 20, 3, 300)),
    Cell("more data than simulations", (100, 20, 10, 1000)),
]


def rates(p_values: list[float], levels: tuple[float, ...]) -> Iterator[str]:
    for level in levels:
        rate = binomtest(int((np.array(p_values) <= level).sum()), len(p_values))
        low, high = rate.proportion_ci(0.99, method="exact")
        yield f"{rate.statistic:.4f} [{low:.4f}, {high:.4f}]"


def table(n_studies: int, run: Callable[..., Iterator[float]]) -> Iterator[str]:
    yield "| test | simulations | draws | parameters | P(p ≤ 0.01) | P(p ≤ 0.05) | P(p ≤ 0.1) |"
    yield "|---|--:|--:|--:|---|---|---|"
    for test, n_sims, n_draws, n_dims in product(
        ("TARP", "HPD", "SBC"), (20, 100, 500), (9, 99), (1, 5)
    ):
        p = list(run(partial(study, test, n_sims, n_draws, n_dims), range(n_studies)))
        yield f"| {test} | {n_sims} | {n_draws} | {n_dims} | {' | '.join(rates(p, LEVELS))} |"
    yield ""
    yield "| simulations | draws | curve leaves its 95 % band |"
    yield "|--:|--:|---|"
    for n_sims, n_draws in product((20, 100, 500), (9, 99)):
        p = list(run(partial(study, "band", n_sims, n_draws, 2), range(n_studies)))
        yield f"| {n_sims} | {n_draws} | {next(rates(p, (0.5,)))} |"


def check_table(
    n_studies: int, run: Callable[..., Iterator[dict]], cells: list[Cell]
) -> Iterator[str]:
    yield ""
    head = "| check on | simulations | draws | parameters | observed |"
    yield f"{head} P(p ≤ 0.01) | P(p ≤ 0.05) | P(p ≤ 0.1) |"
    yield "|---|--:|--:|--:|--:|---|---|---|"
    every: dict[str, list[float]] = {}
    for cell in cells:
        done = list(run(cell.check, range(n_studies)))
        for name, p in ((name, p) for one in done for name, p in one.items()):
            every.setdefault(name, []).append(p)
        sizes = " | ".join(str(size) for size in cell.sizes)
        cells = " | ".join(rates([one["check"] for one in done], LEVELS))
        yield f"| {cell.name} | {sizes} | {cells} |"
    yield ""
    yield "Each family alone, over all of these studies:"
    yield ""
    yield "| family | studies | P(p ≤ 0.01) | P(p ≤ 0.05) | P(p ≤ 0.1) |"
    yield "|---|--:|---|---|---|"
    for name, p in every.items():
        yield f"| {name} | {len(p)} | {' | '.join(rates(p, LEVELS))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/level.md")
    parser.add_argument("--only-check", action="store_true", help="print the table of `check`")
    parser.add_argument("--cells", default="", help="only cells of `check` with this name")
    parser.add_argument("--studies", type=int, default=4000, help="repeats per cell")
    parser.add_argument("--processes", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    lines = [
        f"By `python benchmarks/level.py --write`, with {options.studies} studies per cell; "
        "99 % exact intervals in brackets.",
        "",
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        run = partial(pool.map, chunksize=25)
        cells = [cell for cell in CELLS if options.cells in ("", cell.name)]
        parts = [check_table(options.studies // 2, run, cells)]
        if not options.only_check:
            parts.insert(0, table(options.studies, run))
        for part in parts:
            for line in part:
                print(line, flush=True)
                lines.append(line)
    if options.write and options.only_check:
        before, _, after = PAGE.read_text().partition("| check on |")
        table_of_check = "\n".join(lines[2:]).lstrip("\n")
        PAGE.write_text(before + table_of_check + "\n" + others(after))
    elif options.write:
        words, heading, after = PAGE.read_text().partition("## Measured\n\n")
        PAGE.write_text(words + heading + "\n".join(lines) + "\n" + others(after))


def others(after: str) -> str:
    """Return the later sections of a page, which other commands have measured."""
    _, heading, sections = after.partition("\n## ")
    return heading + sections


if __name__ == "__main__":
    main()

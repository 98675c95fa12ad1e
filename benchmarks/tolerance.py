"""How often `check` calls posteriors within tolerance that are not: at most the level.

    python benchmarks/tolerance.py --write      # a section of docs/level.md, about ten minutes

In every cell but the last rows one error is as large as the tolerance, so that each claim is
false. The last rows have exact posteriors: how often is it shown?
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from tables import write_section

import tarpon
from tarpon import Tolerance
from tarpon.checks.parameters import Effects, measure
from tarpon.checks.tolerances import Margins, margins
from tarpon.checks.values import Few
from tarpon.ranks import broken, counts
from tarpon.regions import FromCentre

PAGE, TITLE = Path(__file__).parents[1] / "docs" / "level.md", "## Within tolerance"
DEFAULT = Tolerance()
WIDTH_ALONE = Tolerance(coverage=0.5)
ABOUT = """\
By `python benchmarks/tolerance.py --write`, with {} studies per cell; 99 % exact intervals in
brackets. One error is as large as the tolerance, so every claim is false; the last rows have exact
posteriors."""
HEADER = (
    "| error | posteriors | parameters | simulations | tolerance | called within tolerance |",
    "|---|---|--:|--:|---|---|",
)

Shape = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.exponential(size=shape) - 1


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_t(5, size=shape) / np.sqrt(5 / 3)


def two_modes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 0.95 * rng.choice([-1, 1], size=shape) + 0.312 * rng.normal(size=shape)


@dataclass(frozen=True)
class Cell:
    """Studies of one kind.

    Arguments:
        error: What is wrong, in words.
        shape: Returns points of posteriors with mean 0 and sd 1.
        n_dims: The number of parameters.
        bias: How far the draws of the first parameter are shifted, in sd.
        width: The scatter of its truths over that of its draws.
        tolerance: The largest errors that do not matter.
        n_sims: The number of simulations.
    """

    error: str
    shape: Shape = normal
    n_dims: int = 1
    bias: float = 0.0
    width: float = 1.0
    tolerance: Tolerance = DEFAULT
    n_sims: int = 5000
    n_draws: int = 50

    def study(self, seed: int) -> bool:
        """Return whether one study claims that all errors are within the tolerance."""
        rng = np.random.default_rng([seed, self.n_sims, self.n_dims])
        points = self.shape(rng, (self.n_draws + 1, self.n_sims, self.n_dims))
        scale = np.exp(rng.normal(size=(self.n_sims, 1)))  # posteriors of all sizes
        points[1:, :, 0] = (points[1:, :, 0] + self.bias) / self.width
        points *= scale
        return margins_of(tarpon.Simulations(points[1:], points[0]), self.tolerance, rng).within


def margins_of(
    sims: tarpon.Simulations, tolerance: Tolerance, rng: np.random.Generator
) -> Margins:
    """Return the margins as `check` does, without the swaps that they do not need."""
    few = Few.of(sims)
    effects = Effects.of(sims, measure(sims, few), rng, few)
    centre = broken(counts(sims, FromCentre()), sims, rng).values
    return margins(effects, sims.names, {"centre": centre}, tolerance, 0.05)


CELLS = (
    Cell("bias 0.1 sd", bias=0.1),
    Cell("bias 0.1 sd", n_dims=5, bias=0.1),
    Cell("bias 0.1 sd", skewed, bias=0.1),
    Cell("bias 0.1 sd", heavy, n_dims=3, bias=0.1),
    Cell("bias 0.1 sd", two_modes, bias=0.1),
    Cell("truths 1.1 times as wide", width=1.1, tolerance=WIDTH_ALONE),
    Cell("truths 1.1 times as wide", n_dims=5, width=1.1, tolerance=WIDTH_ALONE),
    Cell("truths 1.1 times as wide", skewed, width=1.1, tolerance=WIDTH_ALONE),
    Cell("truths 1.1 times as wide", heavy, width=1.1, tolerance=WIDTH_ALONE),
    Cell("truths 0.9 times as wide", heavy, n_dims=3, width=0.9, tolerance=WIDTH_ALONE),
    Cell("coverage 4.4%", width=1.1, tolerance=Tolerance(bias=1, width=1, coverage=0.044)),
    Cell("bias 0.3 sd", bias=0.3, tolerance=Tolerance(0.3, 0.3, 0.15), n_sims=300),
    Cell("truths 1.3 times as wide", skewed, width=1.3, tolerance=Tolerance(0.3, 0.3, 0.3),
         n_sims=300),
    Cell("none"),
    Cell("none", n_dims=5),
    Cell("none", heavy, n_dims=3),
    Cell("none", tolerance=Tolerance(0.3, 0.3, 0.15), n_sims=500),
)  # fmt: skip


def row(cell: Cell, claims: list[bool]) -> str:
    low, high = binomtest(sum(claims), len(claims)).proportion_ci(0.99)
    tolerance = cell.tolerance
    limits = f"{tolerance.bias:g}, {tolerance.width:g}, {tolerance.coverage:g}"
    return (
        f"| {cell.error} | {cell.shape.__name__.replace('_', ' ')} | {cell.n_dims} | "
        f"{cell.n_sims} | {limits} | {np.mean(claims):.3f} [{low:.3f}, {high:.3f}] |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--write", action="store_true", help="replace the section of docs/level.md"
    )
    given = parser.parse_args()
    lines = [TITLE, "", ABOUT.format(given.studies), "", *HEADER]
    with ProcessPoolExecutor(given.processes) as pool:
        for cell in CELLS:
            claims = list(pool.map(cell.study, range(given.studies), chunksize=20))
            lines.append(row(cell, claims))
            print(lines[-1], flush=True)
    if given.write:
        write_section(PAGE, TITLE, lines)


if __name__ == "__main__":
    main()

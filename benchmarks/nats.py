"""How large the lower bound of `nats` is, and how often it exceeds the divergence: 5 % at most.

python benchmarks/nats.py --write      # the tables of docs/nats.md, about five minutes
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binomtest
from tables import write_section

import tarpon
from tarpon.sequential.adversaries import Quadratic
from tarpon.sequential.floors import Floor

PAGE, TITLE = Path(__file__).parents[1] / "docs" / "nats.md", "## Measured"
ABOUT = """\
By `python benchmarks/nats.py --write`. Flaws of the [zoo](read.md#the-zoo) with 100 draws per
simulation, and their divergence in closed form, per observation. *About* is the estimate; *above*
is the share of studies whose bound exceeds the divergence, with its exact 99 % interval. Times are
of one core, in CPU seconds."""
SAME = """\
An adversary must not bet on simulations that it has learned from. Exact posteriors of six
parameters, 200 simulations to bet on, a quadratic score with hardly any penalty, {} studies:"""
ZOO = {
    "exact": lambda n_dims: 0.0,
    "shift": lambda n_dims: 0.3**2 / 2,
    "narrow": lambda n_dims: scaled(n_dims, 0.9),
    "wide": lambda n_dims: scaled(n_dims, 1.1),
    "correlation_missed": lambda n_dims: -(n_dims // 2) * 0.5 * log(1 - 0.4**2),
    "weights_forgotten": lambda n_dims: scaled(n_dims, 1.25**0.5, shift=0.5),
}  # the divergence by the number of parameters


def scaled(n_dims: int, factor: float, shift: float = 0.0) -> float:
    """Return the divergence of normal posteriors of another width and, on average, shift."""
    return n_dims * (log(factor) + (1 + shift**2) / (2 * factor**2) - 0.5)


@dataclass(frozen=True)
class Cell:
    """Studies of one kind."""

    flaw: str
    n_dims: int = 2
    n_sims: int = 1000
    share: float = 1.0  # of the studies

    @property
    def true(self) -> float:
        return ZOO[self.flaw](self.n_dims)

    def study(self, seed: int) -> tuple[float, float, float]:
        """Return the bound, the estimate, and the seconds that they took."""
        seeds = [seed, self.n_sims, self.n_dims]
        rng = np.random.default_rng(seeds)
        sims = tarpon.problems.zoo(self.flaw, n_sims=self.n_sims, n_dims=self.n_dims, rng=rng)
        start = time.process_time()
        answer = tarpon.nats(sims, rng=rng)
        return answer.low, answer.about, time.process_time() - start


CELLS = (
    *(Cell(flaw) for flaw in ZOO),
    Cell("correlation_missed", n_sims=500),
    Cell("weights_forgotten", n_sims=500),
    Cell("narrow", n_dims=10, share=0.1),
    Cell("correlation_missed", n_dims=10, share=0.1),
)


def bet(seed: int, *, same: bool) -> bool:
    """Return whether a bound for exact posteriors is above 0."""
    rng = np.random.default_rng([seed, 99])
    theta, x = rng.normal(size=(400, 6)), rng.normal(size=(400, 6))
    samples = rng.normal(size=(50, 400, 6))
    learned, rest = slice(0, 200), slice(0, 200) if same else slice(200, 400)
    score = Quadratic(penalty=0.01).fit(theta[learned], samples[:, learned], x[learned])
    values = score(np.concatenate([theta[None, rest], samples[:, rest]]), x[rest])
    paid = values[0] - logsumexp(values, axis=0, b=1 / len(values))
    return Floor().paid(paid).low(0.05) > 0


def on_others(seed: int) -> bool:
    return bet(seed, same=False)


def on_the_same(seed: int) -> bool:
    return bet(seed, same=True)


def share(which: np.ndarray) -> str:
    low, high = binomtest(int(which.sum()), len(which)).proportion_ci(0.99)
    return f"{which.mean():.3f} [{low:.3f}, {high:.3f}]"


def row(cell: Cell, found: np.ndarray) -> str:
    low, about, seconds = found.T
    return (
        f"| `{cell.flaw}` | {cell.n_dims} | {cell.n_sims} | {len(low)} | {cell.true:.3f} | "
        f"{low.mean():.3f} | {about.mean():.3f} | {share(low > cell.true)} | "
        f"{np.median(seconds):.2f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="replace the section of the page")
    given = parser.parse_args()
    lines = [TITLE, "", ABOUT, ""]
    lines.append(
        "| flaw | parameters | simulations | studies | divergence | bound | about | above | time |"
    )
    lines.append("|---|--:|--:|--:|--:|--:|--:|---|--:|")
    with ProcessPoolExecutor(given.processes) as pool:
        for cell in CELLS:
            seeds = range(round(cell.share * given.studies))
            lines.append(row(cell, np.array(list(pool.map(cell.study, seeds, chunksize=5)))))
            print(lines[-1], flush=True)
        lines += ["", SAME.format(given.studies), ""]
        lines += ["| bets on | bound above 0 |", "|---|---|"]
        bets: dict[str, Callable[[int], bool]] = {
            "other simulations": on_others,
            "the same simulations": on_the_same,
        }
        for name, function in bets.items():
            above = np.array(list(pool.map(function, range(given.studies), chunksize=20)))
            lines.append(f"| {name} | {share(above)} |")
            print(lines[-1], flush=True)
    if given.write:
        write_section(PAGE, TITLE, lines)


if __name__ == "__main__":
    main()

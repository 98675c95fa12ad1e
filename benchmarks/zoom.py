"""How often 500 simulations show a flaw in a small ball of data space, around its centre or not.

    python benchmarks/zoom.py --write      # a section of docs/run.md, about ten minutes

A normal mean of five parameters is observed with noise. Posteriors are exact but for observations
within a radius of (1, 1, 1, 1, 1), which is the observation asked about.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, ncx2

import tarpon
from tarpon.runner.problem import simulated
from tarpon.runner.proposal import proposed
from tarpon.runner.store import stacked

PAGE, TITLE, NEXT = Path(__file__).parents[1] / "docs" / "run.md", "### How much it gains", "\n## "
N_DIMS, N_SIMS, N_DRAWS, N_NEAREST, N_SWAPS, LEVEL = 5, 500, 100, 150, 199, 0.05
NOISE, AT = 0.3, np.ones(5)
ABOUT = """\
By `python benchmarks/zoom.py --write`: five parameters, {} simulations with {} draws, and
posteriors that are wrong for observations in a ball around the one asked about. How often each
test rejects at 5 %, in {} studies per cell, with 95 % exact intervals in brackets."""
HEADER = (
    "| posteriors in the ball | data in the ball | `run(near=)` | `near`, truths from the prior "
    "| `check`, truths from the prior |",
    "|---|--:|---|---|---|",
)


@dataclass(frozen=True)
class Ball:
    """A normal mean, with draws that are wrong for data in a ball.

    Arguments:
        width: The width of the draws there, relative to the right one.
        shift: How far the draws of the first parameter are shifted there, in sd.
        radius: The radius of the ball.
    """

    width: float = 1.0
    shift: float = 0.0
    radius: float = 1.0

    def prior(self, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=N_DIMS)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * np.square(theta).sum(axis=1)

    def simulate(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + NOISE * rng.normal(size=N_DIMS)

    def posterior(self, x: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        shrink = 1 / (1 + NOISE**2)
        inside = bool(np.linalg.norm(x - AT) < self.radius)
        z = rng.normal(size=(n_draws, N_DIMS)) * (self.width if inside else 1.0)
        z[:, 0] += self.shift * inside
        return shrink * x + NOISE * np.sqrt(shrink) * z

    @property
    def share(self) -> float:
        """The share of the prior's data in the ball."""
        variance = 1 + NOISE**2
        return float(ncx2.cdf(self.radius**2 / variance, N_DIMS, N_DIMS / variance))

    def __str__(self) -> str:
        if self.width != 1:
            return f"{self.width:g} × as wide"
        return f"first parameter biased by {self.shift:g} sd" if self.shift else "exact"


RADII = (1.0, 1.5, 2.0)
CELLS = (Ball(), *(Ball(0.7, radius=r) for r in RADII), Ball(shift=0.7))


def study(given: tuple[Ball, int]) -> tuple[bool, bool, bool]:
    """Return whether each of the three tests rejects."""
    problem, seed = given
    proposal, samples = proposed(problem, AT, N_DRAWS, seed)
    here, there = (
        tarpon.Simulations(
            **stacked([simulated(problem, k, seed, N_DRAWS, by) for k in range(N_SIMS)])
        )
        for by in (proposal, None)
    )
    own = problem.posterior(AT, N_DRAWS, np.random.default_rng([seed, 1]))
    settings = {"n_swaps": N_SWAPS, "rng": seed}
    answers = (
        tarpon.near(here, AT, samples=samples, n=N_NEAREST, **settings),
        tarpon.near(there, AT, samples=own, n=N_NEAREST, **settings),
        tarpon.check(there, **settings),
    )
    zoomed, near, whole = (answer.p_value <= LEVEL for answer in answers)
    return zoomed, near, whole


def shown(rejected: np.ndarray) -> str:
    interval = binomtest(int(rejected.sum()), len(rejected)).proportion_ci()
    return f"{rejected.mean():.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def table(n_studies: int, n_workers: int) -> str:
    rows = [*HEADER]
    with ProcessPoolExecutor(n_workers) as pool:
        for cell in CELLS:
            jobs = [(cell, seed) for seed in range(n_studies)]
            found = np.array(list(pool.map(study, jobs)))
            share = "–" if str(cell) == "exact" else f"{cell.share:.1%}"
            rows.append(f"| {cell} | {share} | {' | '.join(map(shown, found.T))} |")
            print(rows[-1], flush=True)
    return "\n".join(["", ABOUT.format(N_SIMS, N_DRAWS, n_studies), "", *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-studies", type=int, default=50)
    parser.add_argument("--n-workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="a section of docs/run.md")
    options = parser.parse_args()
    made = table(options.n_studies, options.n_workers)
    if options.write:
        before, _, rest = PAGE.read_text().partition(f"{TITLE}\n")
        PAGE.write_text(f"{before}{TITLE}\n{made}{NEXT}{rest.partition(NEXT)[2]}")


if __name__ == "__main__":
    main()

"""The sequential test: false alarms, bounds, and stopping times.

    python benchmarks/sequential.py --write     # writes sequential.md, about a quarter of an hour

All runs advance together: at every step each run gets one more simulation of a normal posterior,
and the functions of `Monitor` rank it and bet on it.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import tarpon
from tarpon.sequential.bets import LEVELS, Scores, Wealth, log_mean, radius, ranked

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "sequential.md"
THRESHOLD = 20
FEW, MANY = 30, 100  # draws: the level is exact for any number, and power grows with it
FLAWS = {
    "width 0.7": (0.7, 0.0, 1),
    "width 0.8": (0.8, 0.0, 1),
    "bias 0.3 sd": (1.0, 0.3, 1),
    "bias 0.5 sd": (1.0, 0.5, 1),
    "width 1.3": (1.3, 0.0, 1),
    "bias 0.5 sd in one of ten": (1.0, 0.5, 10),
    "width 0.8 of all ten": (0.8, 0.0, 10),
}
GOALS = {"width 0.8": 95, "bias 0.5 sd": 40}


@dataclass
class Runs:
    """The evidence of every run after every simulation, `(n_sims, n_runs)`."""

    log_e: np.ndarray
    steps: np.ndarray  # the same, if bets were averaged over scores per simulation
    within: np.ndarray
    coverage: np.ndarray  # of each score at each level, over all runs


def runs(
    flaw: tuple[float, float, int], n_draws: int, n_runs: int, n_sims: int, seed: int
) -> Runs:
    """Run monitors on draws of a wrong `width` and `bias`, in units of the exact sd.

    The bias is in the first of `n_dims` parameters, the width in all of them.
    """
    width, bias, n_dims = flaw
    shift = bias * (np.arange(n_dims) == 0)
    rng = np.random.default_rng(seed)
    log_e, steps, within = (np.empty((n_sims, n_runs), np.float32) for _ in range(3))
    for t in range(n_sims):
        points = rng.standard_normal((n_draws + 1, n_runs, n_dims), dtype=np.float32)
        truths = ((points[0] - shift) / width).astype(np.float32)
        sims = tarpon.Simulations(points[1:], truths)
        if t == 0:
            scores = Scores.of(sims)
            shares = np.array(scores.shares)
            wealth = Wealth.initial(len(shares), (n_runs,))
            before = wealth.log_e()
        blocks = [ranked(block.hidden(rng), rng) for block in sims.blocks()]
        wealth = wealth.bet(np.concatenate([ranks for ranks, _, _ in blocks]), *blocks[0][1:])
        now = wealth.log_e()
        log_e[t], steps[t] = log_mean(now, shares), log_mean(now - before, shares)
        before = now
        within[t] = wealth.error() + radius(t + 1, 0.05)
    return Runs(log_e, steps.cumsum(axis=0), within, wealth.covered.mean(axis=0) / n_sims)


def rate(hits: np.ndarray) -> str:
    low, high = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.99)
    return f"{hits.mean():.4f} [{low:.4f}, {high:.4f}]"


def level(n_runs: int, n_sims: int) -> list[str]:
    """Return rows on how often exact posteriors are ever rejected."""
    exact = runs((1.0, 0.0, 1), FEW, n_runs, n_sims, seed=0)
    rows = [
        f"| ranks | {n_runs} | {n_sims} | {a} | {rate(exact.log_e.max(axis=0) >= -np.log(a))} |"
        for a in (0.01, 0.05, 0.1)
    ]
    stopped = (exact.within <= 0.1).argmax(axis=0) + 1
    median = f"{np.median(stopped):.0f} ({np.quantile(stopped, 0.9):.0f})"
    return [*rows, *adversary(3 * n_runs // 20, 100), "", settled(median)]


def settled(median: str) -> str:
    return f"Of these exact posteriors, coverage was within ±0.1 after {median} simulations."


def adversary(n_runs: int, n_sims: int) -> list[str]:
    """Return the same rows for monitors with an adversary, in two dimensions."""
    most = np.empty(n_runs)
    for seed in range(n_runs):
        sims = tarpon.problems.zoo("exact", n_sims=n_sims, n_draws=30, n_dims=2, rng=seed)
        fresh = tarpon.Monitor(adversary=tarpon.adversaries.Quadratic(), rng=seed)
        most[seed] = fresh.add(sims).history.log_e.max()
    return [
        f"| ranks and adversary | {n_runs} | {n_sims} | {a} | {rate(most >= -np.log(a))} |"
        for a in (0.05, 0.1)
    ]


def bounds(n_runs: int, n_sims: int) -> list[str]:
    """Return rows on how often the bound holds at all times."""
    rows = []
    for name in ("width 0.8", "bias 0.5 sd"):
        flawed = runs(FLAWS[name], FEW, n_runs, n_sims, seed=1)
        truth = abs(flawed.coverage - LEVELS).max()
        held = (flawed.within >= truth).all(axis=0)
        last = np.median(flawed.within.min(axis=0))
        rows.append(f"| {name} | {truth:.3f} | {n_runs} | {n_sims} | {rate(held)} | {last:.3f} |")
    truth, held = coin(n_runs, n_sims)
    rows.append(f"| a coin, one level | {truth:.3f} | {n_runs} | {n_sims} | {rate(held)} | |")
    return rows


def coin(n_runs: int, n_sims: int) -> tuple[float, np.ndarray]:
    """Return the hardest case: one score, one level, and the largest possible variance."""
    heads = np.random.default_rng(2).integers(2, size=(n_sims, n_runs))
    n = np.arange(1, n_sims + 1)
    measured = heads.cumsum(axis=0) / n[:, None]
    free = np.array([radius(int(t), 0.05) for t in n])
    return 0.5, (measured + free[:, None] >= 0.5).all(axis=0)


def stop(log_e: np.ndarray) -> str:
    """Return the median and the 90 % quantile of the time at which runs reach the threshold."""
    hit = log_e >= np.log(THRESHOLD)
    times = np.where(hit.any(axis=0), hit.argmax(axis=0) + 1, np.inf)
    median, late = np.quantile(times, [0.5, 0.9], method="higher")
    return f"{median:.0f} ({late:.0f})".replace("inf", f"over {len(hit)}")


def stopping(n_runs: int, n_sims: int) -> list[str]:
    """Return rows on how many simulations it takes to detect a flaw."""
    rows = []
    for name, flaw in FLAWS.items():
        n_fewer = n_runs // flaw[2]
        flawed = runs(flaw, MANY, n_fewer, n_sims, seed=3)
        goal = f"≤ {GOALS[name]}" if name in GOALS else ""
        stops = f"{stop(flawed.log_e)} | {goal} | {stop(flawed.steps)}"
        rows.append(f"| {name} | {n_fewer} | {stops} |")
    return rows


def page(n_runs: int) -> str:
    return "\n".join(
        [
            "# The sequential test",
            "",
            "Written by `python benchmarks/sequential.py --write`. Normal posteriors, in one "
            "dimension unless stated; 99 % exact intervals in brackets.",
            "",
            "## How often an exact posterior is ever rejected",
            "",
            f"{FEW} draws. With the adversary there are two parameters.",
            "",
            "| bets on | runs | simulations | level | P(ever e ≥ 1 / level) |",
            "|---|--:|--:|--:|---|",
            *level(n_runs, 3000),
            "",
            "## How often the bound on coverage errors holds at all times",
            "",
            f"{FEW} draws. It should hold in at least 95 % of runs. The worst error is that of "
            "all runs together; the bound is far above it if simulations are few.",
            "",
            "| flaw | worst error | runs | simulations | P(holds at all times) | last bound |",
            "|---|--:|--:|--:|---|--:|",
            *bounds(n_runs // 2, 1000),
            "",
            f"## How many simulations it takes until e ≥ {THRESHOLD}",
            "",
            f"{MANY} draws. Median, and 90 % quantile in brackets. Widths are those of the draws "
            "divided by those of the exact posterior. In the last column, the bets on each "
            "simulation are averaged over scores, instead of the capitals.",
            "",
            "| flaw | runs | simulations | goal | bets averaged |",
            "|---|--:|--:|--:|--:|",
            *stopping(n_runs // 2, 400),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    text = page(args.runs)
    print(text)
    if args.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()

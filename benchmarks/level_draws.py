"""How often tests reject exact posteriors when draws are weighted, ragged or chained.

    python benchmarks/level_draws.py --write     # writes docs/benchmarks/level_draws.md

Each cell repeats a study of 100 simulations two thousand times with an exact normal posterior.
Every correct method is followed by the wrong method that it replaces.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.signal import lfilter
from scipy.stats import binomtest

import tarpon
from tarpon import Simulations, bands
from tarpon.adapters import chains
from tarpon.ranks import Ranks
from tarpon.simulations.weights import effective

LEVELS = (0.01, 0.05, 0.1)
N_SIMS = 100
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "level_draws.md"


def weighted(n_draws: int, wide: float, seed: int, *, known: bool = True) -> Simulations:
    """Return draws of a proposal that is too wide, with weights to the posterior."""
    rng = np.random.default_rng([seed, n_draws])
    mean = 3 * rng.normal(size=(N_SIMS, 2))
    theta = mean + rng.normal(size=mean.shape)
    draws = mean + 0.3 + wide * rng.normal(size=(n_draws, *mean.shape))

    def log_prob(points: np.ndarray) -> np.ndarray:
        return -0.5 * ((points - mean) ** 2).sum(axis=-1)

    def log_weights(points: np.ndarray) -> np.ndarray:
        return log_prob(points) + 0.5 * (((points - mean - 0.3) / wide) ** 2).sum(axis=-1)

    return Simulations(
        draws, theta, log_prob_samples=log_prob(draws), log_prob_theta=log_prob(theta),
        log_weights=log_weights(draws), log_weights_theta=log_weights(theta) if known else None,
    )  # fmt: skip


def naive(sims: Simulations) -> float:
    """Return the p-value of weighted ranks that ignore the weight of the truth."""
    w = np.exp(sims.log_weights - sims.log_weights.max(axis=0))
    w = (w / w.sum(axis=0))[..., None]
    below = (w * (sims.samples < sims.theta)).sum(axis=0)
    ranks = Ranks(np.minimum((1000 * below).astype(np.int64), 999), 999)
    return min(1.0, 2 * float(bands.p_values(ranks).min()))


def ragged(seed: int) -> Simulations:
    rng = np.random.default_rng([seed, 1])
    mean = 3 * rng.normal(size=(N_SIMS, 2))
    rows = [m + rng.normal(size=(rng.integers(1, 50), 2)) for m in mean]
    return Simulations(rows, mean + rng.normal(size=mean.shape))


def chain(n_steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of AR(1) chains with correlation 0.9, and truths."""
    rng = np.random.default_rng([seed, 2])
    mean = 3 * rng.normal(size=(N_SIMS, 1))
    noise = np.sqrt(0.19) * rng.normal(size=(n_steps + 200, N_SIMS, 1))
    steps = lfilter([1.0], [1.0, -0.9], noise, axis=0)[200:]
    return mean + steps, mean + rng.normal(size=mean.shape)


def of(test: str, sims: Simulations, seed: int) -> float:
    if test == "naive SBC":
        return naive(sims)
    if test == "check":
        return tarpon.check(sims, rng=seed, n_swaps=199).p_value
    return getattr(tarpon, test.lower())(sims, rng=seed).p_value


def weighted_p(test: str, n_draws: int, wide: float, known: bool, seed: int) -> float:
    return of(test, weighted(n_draws, wide, seed, known=known), seed)


def ragged_p(test: str, seed: int) -> float:
    return of(test, ragged(seed), seed)


def chain_p(n_steps: int, thinned: bool, seed: int) -> float:
    steps, theta = chain(n_steps, seed)
    if thinned:
        return tarpon.sbc(chains.thin(steps, theta), rng=seed).p_value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about chains
        return tarpon.sbc(steps, theta, rng=seed).p_value


def described(n_draws: int, wide: float) -> str:
    ess = effective(weighted(n_draws, wide, 0).log_weights)
    return f"{n_draws} draws, ESS {np.median(ess):.0f} ({ess.min():.1f} to {ess.max():.0f})"


def cells() -> list[tuple[str, str, partial]]:
    listed = []
    for n_draws, wide in ((20, 1.5), (20, 2.8), (50, 2.0), (50, 4.4)):
        kind = f"weighted, {described(n_draws, wide)}"
        for test in ("TARP", "SBC", "HPD", "check", "naive SBC"):
            listed.append((kind, test, partial(weighted_p, test, n_draws, wide, True)))
    for n_draws in (50, 500):
        kind = f"truths' weights unknown, {described(n_draws, 2.0)}"
        for test in ("SBC", "check"):
            listed.append((kind, test, partial(weighted_p, test, n_draws, 2.0, False)))
    for test in ("TARP", "SBC", "check"):
        listed.append(("ragged, 1 to 49 draws", test, partial(ragged_p, test)))
    for n_steps in (100, 300):
        for thinned in (False, True):
            kind = f"chain of {n_steps} steps, {'thinned' if thinned else 'not thinned'}"
            listed.append((kind, "SBC", partial(chain_p, n_steps, thinned)))
    return listed


def row(kind: str, test: str, p_values: np.ndarray) -> str:
    rates = []
    for level in LEVELS:
        ci = binomtest(int((p_values <= level).sum()), len(p_values)).proportion_ci(0.99)
        mark = "**" if ci.low > level else ""
        rates.append(f"{mark}{(p_values <= level).mean():.4f}{mark}")
    return f"| {kind} | {test} | {' | '.join(rates)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--only", default="", help="beginning of the descriptions of cells to run")
    args = parser.parse_args()
    head = " | ".join(f"at {level}" for level in LEVELS)
    lines = [f"| draws | test | {head} |", "|---|---|" + "---|" * len(LEVELS)]
    with ProcessPoolExecutor() as pool:
        for kind, test, study in cells():
            if not kind.startswith(args.only):
                continue
            p_values = np.array(list(pool.map(study, range(args.repeats), chunksize=20)))
            lines.append(row(kind, test, p_values))
            print(lines[-1], flush=True)
    if args.write:
        PAGE.write_text(HEAD.format(repeats=args.repeats) + "\n".join(lines) + "\n")


HEAD = """# False alarms with draws that are weighted, ragged or from chains

How often tests reject exact posteriors, at three levels: {repeats} studies per cell, of 100
simulations. Bold rates exceed their level by more than their 99 % interval.
`naive SBC` omits the weight of the truth; chains are AR(1) with correlation 0.9.

    python benchmarks/level_draws.py --write

"""

if __name__ == "__main__":
    main()

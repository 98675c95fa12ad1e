"""How often `check.advice` recognises mistakes: planted ones, and in exact posteriors.

    python benchmarks/advice.py --write          # writes its tables into docs/level.md, 5 minutes

Every detector is run on every study, whether or not `check` would reject it, and without swaps.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest

import tarpon
from tarpon.checks import mistakes
from tarpon.checks.advice import recognised
from tarpon.checks.parameters import Effects, measure
from tarpon.checks.values import Few

PAGE = Path(__file__).parents[1] / "docs" / "level.md"
BEGIN, END = "<!-- advice -->\n", "<!-- end of advice -->\n"
Points = tuple[np.ndarray, np.ndarray]  # draws and truths


def pooled(points: np.ndarray) -> Points:
    return points[1:], points[0]


def normal(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    """Draw truths and draws of a normal prior and a normal likelihood."""
    mean = 0.9 * rng.normal(size=(n_sims, n_dims))
    return pooled(mean + np.sqrt(0.19) * rng.normal(size=(n_draws + 1, n_sims, n_dims)))


def uniform(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    """Draw truths and draws of a uniform prior from 1 to 3, observed with normal noise."""
    theta = rng.uniform(1, 3, size=(n_sims, n_dims))
    x = theta + 0.25 * rng.normal(size=theta.shape)
    low, high = ndtr((1 - x) / 0.25), ndtr((3 - x) / 0.25)
    u = rng.uniform(low, high, size=(n_draws, n_sims, n_dims))
    return np.clip(x + 0.25 * ndtri(u), 1 + 1e-12, 3 - 1e-12), theta


def skewed(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    """Draw truths and draws of a gamma prior and an exponential likelihood, mean observed."""
    theta = rng.gamma(3.0, size=(n_sims, n_dims))
    total = rng.gamma(20.0, 1 / theta)
    return rng.gamma(23.0, 1 / (1 + total), size=(n_draws, n_sims, n_dims)), theta


def heavy_tails(*sizes: Any) -> Points:
    draws, truths = normal(*sizes)
    return np.sinh(3 * draws), np.sinh(3 * truths)


def prior(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    return pooled(rng.uniform(size=(n_draws + 1, n_sims, n_dims)))


def bimodal(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    draws, truths = normal(rng, n_sims, n_draws, n_dims)
    signs = rng.choice([-1, 1], size=(n_draws + 1, n_sims, n_dims))
    return signs[1:] * (2 + draws), signs[0] * (2 + truths)


def exchangeable_parameters(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    draws, truths = normal(rng, n_sims, n_draws, n_dims)
    points = np.concatenate([truths[None], draws])
    return pooled(rng.permuted(points, axis=2))


def weakly_informed(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    shared = rng.normal(size=(n_sims, 1)) * np.linspace(0.05, 1, n_dims)
    return pooled(shared + rng.normal(size=(n_draws + 1, n_sims, n_dims)))


def binary(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    p = rng.beta(0.5, 0.5, size=(n_sims, n_dims))
    return pooled((rng.random(size=(n_draws + 1, n_sims, n_dims)) < p) * 1.0)


def counts(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    rate = rng.gamma(2.0, 3.0, size=(n_sims, n_dims))
    return pooled(rng.poisson(rate, size=(n_draws + 1, n_sims, n_dims)) * 1.0)


def piled(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    """Draw truths and draws that are zero with a probability that the data tell."""
    draws, truths = normal(rng, n_sims, n_draws, n_dims)
    return np.maximum(draws, 0), np.maximum(truths, 0)


def rounded(*sizes: Any) -> Points:
    draws, truths = skewed(*sizes)
    return draws.round(1), truths.round(1)


def chains(rng: Generator, n_sims: int, n_draws: int, n_dims: int) -> Points:
    """Draw a truth and a raw chain that has converged: neighbours correlate by 0.95."""
    mean, sd = rng.normal(size=(n_sims, n_dims)), np.sqrt(1 - 0.95**2)
    points = rng.normal(size=(n_draws + 1, n_sims, n_dims))
    for k in range(2, n_draws + 1):
        points[k] = 0.95 * points[k - 1] + sd * points[k]
    return pooled(mean + 0.5 * points)


def bounded_chains(*sizes: Any) -> Points:
    draws, truths = chains(*sizes)
    return ndtr(draws), ndtr(truths)


def ordered_truths(*sizes: Any) -> Points:
    draws, truths = normal(*sizes)
    order = truths[:, 0].argsort()
    return draws[:, order], truths[order]


EXACT = {
    problem.__name__: problem
    for problem in (
        normal, uniform, skewed, heavy_tails, prior, bimodal, exchangeable_parameters,
        weakly_informed, binary, counts, piled, rounded, chains, bounded_chains, ordered_truths,
    )
}  # fmt: skip
SIZES = ((20, 10), (60, 20), (100, 200), (300, 50), (500, 400))


def leak(draws: np.ndarray, truths: np.ndarray) -> Points:
    """Move one draw in 10 to below the range of all truths."""
    low, high = truths.min(axis=0), truths.max(axis=0)
    u = np.random.default_rng(0).random(size=draws.shape)
    return np.where(u < 1 / 10, low - 3 * u * (high - low), draws), truths


def burn_in(draws: np.ndarray, truths: np.ndarray) -> Points:
    """Begin all chains in the middle of the prior; they take a third of the draws."""
    left = np.exp(-np.arange(len(draws)) / (len(draws) / 8))[:, None, None]
    return draws + left * (truths.mean(axis=0) - draws), truths


def pulled(draws: np.ndarray, truths: np.ndarray) -> Points:
    """Move the draws a quarter of the way to the mean of the prior."""
    mean = draws.mean(axis=0)
    return draws - 0.25 * (mean - truths.mean(axis=0)), truths


def inner(draws: np.ndarray, truths: np.ndarray) -> Points:
    """Squeeze the draws into the inner 80 % of the prior, smoothly at its ends."""
    low, middle, high = np.quantile(truths, [0.1, 0.5, 0.9], axis=0)
    half = np.where(draws < middle, middle - low, high - middle)
    return middle + half * np.tanh((draws - middle) / half), truths


def clipped(draws: np.ndarray, truths: np.ndarray) -> Points:
    return np.maximum(draws, np.quantile(draws, 0.08, axis=(0, 1))), truths


PLANTED: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], Points]]] = {
    "simulations off by one": ("order of simulations", lambda d, t: (np.roll(d, 1, axis=1), t)),
    "simulations reversed": ("order of simulations", lambda d, t: (d[:, ::-1], t)),
    "reshaped instead of transposed": (
        "order of simulations",
        lambda d, t: (np.ascontiguousarray(d.swapaxes(0, 1)).reshape(d.shape), t),
    ),
    "parameters in another order": ("order of parameters", lambda d, t: (np.roll(d, 1, 2), t)),
    "draws in log10, truths in ln": ("units", lambda d, t: (d / np.log(10), t)),
    "draws in ln, truths in log10": ("units", lambda d, t: (d * np.log(10), t)),
    "draws in radians, truths in degrees": ("units", lambda d, t: (np.radians(d), t)),
    "draws in degrees, truths in radians": ("units", lambda d, t: (np.degrees(d), t)),
    "draws in units of 1000": ("units", lambda d, t: (d / 1000, t)),
    "draws doubled": ("units", lambda d, t: (2 * d, t)),
    "draws halved": ("units", lambda d, t: (d / 2, t)),
    "wrong sign": ("units", lambda d, t: (-d, t)),
    "clipped, 8 % of the draws": ("clipped", clipped),
    "beyond the prior, 10 % of the draws": ("prior leak", leak),
    "drawn from the inner 80 % of the prior": ("narrow prior", inner),
    "burn-in left in": ("burn-in", burn_in),
    "pulled to the prior by a quarter": ("pulled to the prior", pulled),
}


def causes(draws: np.ndarray, truths: np.ndarray) -> list[str]:
    """Return the mistakes that are recognised, as if the posteriors had been rejected."""
    sims = tarpon.Simulations(draws, truths)
    few = Few.of(sims)
    measured = measure(sims, few) | mistakes.measure(sims, mistakes.ends(sims))
    effects = Effects.of(sims, measured, np.random.default_rng(0), few)
    return [str(found.cause) for found in recognised(sims, effects, measured, rejected=True)]


def exact(name: str, seed: int) -> list[str]:
    rng = np.random.default_rng([seed, list(EXACT).index(name), 7])
    n_sims, n_draws = SIZES[seed % len(SIZES)]
    return causes(*EXACT[name](rng, n_sims, n_draws, (1, 2, 5)[seed // len(SIZES) % 3]))


def planted(name: str, seed: int) -> list[str]:
    """Return what is recognised in a study with a planted mistake."""
    cause, plant = PLANTED[name]
    n_dims = (1, 2, 5)[seed // 3 % 3] + (cause == "order of parameters")
    problems = [uniform, skewed] if cause == "prior leak" else [normal, uniform, skewed]
    rng = np.random.default_rng([seed, 99])
    return causes(*plant(*problems[seed % len(problems)](rng, 200, 250, n_dims)))


def share(n_named: int, n_studies: int) -> str:
    low, high = binomtest(n_named, n_studies).proportion_ci(0.99, method="exact")
    return f"{n_named / n_studies:.4f} [{low:.4f}, {high:.4f}]"


def tables(n_studies: int, run: Callable) -> list[str]:
    lines = [
        "By `python benchmarks/advice.py --write`, with 99 % exact intervals in brackets. Planted",
        f"in {n_studies // 4} studies of 200 simulations and 250 draws, in turn with normal, "
        "uniform and",
        "gamma priors (leaks: the last two), and with 1, 2 and 5 parameters (order of parameters:",
        "2, 3 and 6):",
        "",
        "| planted mistake | named | named first |",
        "|---|---|---|",
    ]
    for name, (cause, _) in PLANTED.items():
        found = list(run(partial(planted, name), range(n_studies // 4)))
        named = sum(cause in told for told in found)
        first = sum(told[:1] == [cause] for told in found)
        lines.append(f"| {name} | {share(named, len(found))} | {share(first, len(found))} |")
        print(lines[-1], flush=True)
    lines += [
        "",
        "Exact posteriors, 20 to 500 simulations, 10 to 400 draws, 1 to 5 parameters:",
        "",
        "| exact posteriors | studies | a mistake is named |",
        "|---|--:|---|",
    ]
    every = 0
    for name in EXACT:
        found = list(run(partial(exact, name), range(n_studies)))
        wrong = [told for told in found if told]
        every += len(wrong)
        words = name.replace("_", " ")
        lines.append(f"| {words} | {n_studies} | {share(len(wrong), n_studies)} |")
        print(lines[-1], wrong[:5], flush=True)
    total = n_studies * len(EXACT)
    return [*lines, f"| all | {total} | {share(every, total)} |", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/level.md")
    parser.add_argument("--studies", type=int, default=400, help="studies per exact problem")
    parser.add_argument("--processes", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        lines = tables(options.studies, partial(pool.map, chunksize=10))
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


if __name__ == "__main__":
    main()

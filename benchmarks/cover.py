"""How often calibrated regions contain the truth: at least as often as they say.

    python benchmarks/cover.py --write      # the tables of docs/cover.md, about three minutes

Coverage given a calibration is the probability of a score up to its threshold, by one million
fresh truths; its exact law is a Beta distribution.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.stats import beta, binomtest, norm
from tables import write_section

import tarpon
from tarpon.mending.cover import place
from tarpon.mending.distances import Ellipsoids

PAGE, TITLE = Path(__file__).parents[1] / "docs" / "cover.md", "## Measured"
LEVEL, WIDTH, N_DRAWS, N_FRESH = 0.9, 0.4, 100, 10**6
ABOUT = """\
By `python benchmarks/cover.py --write`. Draws of two parameters are {width} times as wide as they
should be, 100 per simulation, and {studies} studies calibrate regions for 90 %. *Before* is the
coverage of the draws' own 90 % regions, *after* that of calibrated ones, on a million fresh
truths; 99 % intervals in brackets. *Short* is the share of studies with a coverage below 90 %."""
HEADER = "| simulations | `sure` | before | after | expected | short | expected |"
GROUPED = """\
Truths scatter 1.5 times as widely as the draws where $x_0 > 0$ and 0.7 times elsewhere, 1000
simulations, {studies} studies:"""
LEVELS = """\
Why distances are calibrated, and not credibility levels: the share of {studies} studies with 200
simulations whose calibrated level reaches beyond the outermost draw, where there is no region."""


def study(rng: np.random.Generator, n_sims: int, scale: np.ndarray | float) -> tarpon.Simulations:
    """Return draws of sd 1 and truths of another, both divided by the latter."""
    centre = rng.normal(size=(n_sims, 2))
    draws = centre + rng.normal(size=(N_DRAWS, n_sims, 2))
    return tarpon.Simulations(draws, centre + scale * rng.normal(size=(n_sims, 2)))


@cache
def fresh(scale: float) -> np.ndarray:
    """Return the sorted scores of fresh truths."""
    rng, parts = np.random.default_rng(12345), []
    for _ in range(N_FRESH // 50_000):
        draws = rng.normal(size=(N_DRAWS // 2, 50_000, 2))
        parts.append(Ellipsoids.of(draws).distances(scale * rng.normal(size=(1, 50_000, 2)))[0])
    return np.sort(np.concatenate(parts))


def coverage(threshold: float, scale: float) -> float:
    return float(np.searchsorted(fresh(scale), threshold, side="right") / N_FRESH)


def calibrated(seed: int, *, n_sims: int, sure: float | None) -> tuple[float, float]:
    """Return the coverage of the draws' own regions, and that of calibrated ones."""
    sims = study(np.random.default_rng([seed, n_sims, sure is None]), n_sims, 1 / WIDTH)
    found = tarpon.cover(sims, LEVEL, sure=sure, rng=seed).thresholds[0]
    return found.before.value, coverage(found.value, 1 / WIDTH)


def grouped(seed: int) -> tuple[float, ...]:
    """Return coverages of both groups by one threshold, and by one each."""
    rng = np.random.default_rng([seed, 7])
    wide = rng.uniform(size=1000) > 0.5
    sims = study(rng, 1000, np.where(wide, 1.5, 0.7)[:, None])
    common = tarpon.cover(sims, LEVEL, rng=seed).thresholds[0].value
    slim, broad = (
        one.value for one in tarpon.cover(sims, LEVEL, groups=wide, rng=seed).thresholds
    )
    return coverage(common, 1.5), coverage(common, 0.7), coverage(broad, 1.5), coverage(slim, 0.7)


def past(seed: int, *, width: float) -> bool:
    """Return whether a calibrated level reaches beyond the outermost draw."""
    sims = study(np.random.default_rng([seed, 8]), 200, 1 / width)
    ellipsoids = Ellipsoids.of(sims.samples[::2])
    own = ellipsoids.distances(sims.theta[None])[0]
    levels = (ellipsoids.distances(sims.samples[1::2]) < own).mean(axis=0)
    return bool(np.sort(levels)[place(200, LEVEL, None) - 1] == 1)


def mean(values: np.ndarray) -> str:
    half = norm.ppf(0.995) * values.std() / np.sqrt(len(values))
    return f"{values.mean():.3f} [{values.mean() - half:.3f}, {values.mean() + half:.3f}]"


def share(which: np.ndarray) -> str:
    low, high = binomtest(int(which.sum()), len(which)).proportion_ci(0.99)
    return f"{which.mean():.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="replace the section of the page")
    given = parser.parse_args()
    n = given.studies
    lines = [TITLE, "", ABOUT.format(width=WIDTH, studies=n), ""]
    lines += [HEADER, "|--:|--:|---|---|--:|---|--:|"]
    with ProcessPoolExecutor(given.processes) as pool:
        for n_sims in (50, 200, 1000):
            for sure in (None, 0.95):
                job = partial(calibrated, n_sims=n_sims, sure=sure)
                raw, found = np.array(list(pool.map(job, range(n), chunksize=20))).T
                k = place(n_sims, LEVEL, sure)
                law = beta(k, n_sims + 1 - k)
                lines.append(
                    f"| {n_sims} | {sure or '–'} | {raw.mean():.3f} | {mean(found)} | "
                    f"{law.mean():.3f} | {share(found < LEVEL)} | {law.cdf(LEVEL):.3f} |"
                )
                print(lines[-1], flush=True)
        fewer = n // 5
        both = np.array(list(pool.map(grouped, range(fewer), chunksize=5))).T
        lines += ["", GROUPED.format(studies=fewer), ""]
        lines += ["| threshold | coverage where $x_0 > 0$ | elsewhere |", "|---|---|---|"]
        lines.append(f"| one for all | {mean(both[0])} | {mean(both[1])} |")
        lines.append(f"| one per group | {mean(both[2])} | {mean(both[3])} |")
        lines += ["", LEVELS.format(studies=fewer), ""]
        lines += ["| width of the draws | beyond the outermost draw |", "|--:|---|"]
        for width in (0.8, 0.7, 0.6):
            reach = np.array(list(pool.map(partial(past, width=width), range(fewer), chunksize=5)))
            lines.append(f"| {width} | {share(reach)} |")
    print("\n".join(lines))
    if given.write:
        write_section(PAGE, TITLE, lines)


if __name__ == "__main__":
    main()

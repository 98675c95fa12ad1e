"""Power of `check` on flaws that none of its constants was chosen on, beside the oracle.

    python benchmarks/unseen.py            # 40 studies per cell, printed
    python benchmarks/unseen.py --write    # docs/unseen.md

Every posterior is that of standard normal residuals z about the data, and either the truths or
the draws depart from it. The ratio of both densities has a closed form, so that the most powerful
test is known.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln, log_ndtr, ndtr, ndtri
from scipy.stats import t as student

import tarpon
from tarpon.problems import Oracle

PAGE = Path(__file__).parents[1] / "docs" / "unseen.md"
N_SIMS, N_DRAWS, N_SWAPS, LEVEL = (200, 500), 100, 299, 0.05
DIMS = (2, 10)
Array = np.ndarray
LogRatio = Callable[[Array, Array], Array]  # of residuals z (..., n_sims, n_dims) and data


@dataclass(frozen=True)
class Flaw:
    """A departure of truths from normal draws, or of draws from normal truths.

    Arguments:
        label: What is wrong.
        plant: Function of truths, draws, data and a generator that changes truths or draws in
            place, and returns the log-ratio of exact and estimated density.
    """

    label: str
    plant: Callable[[Array, Array, Array, Generator], LogRatio]

    def study(self, n_sims: int, n_dims: int, seed: int) -> Oracle:
        rng = np.random.default_rng([seed, n_sims, n_dims, len(self.label)])
        x, truths = rng.normal(size=(2, n_sims, n_dims))
        draws = rng.normal(size=(N_DRAWS, n_sims, n_dims))
        log_ratio = self.plant(truths, draws, x, rng)
        sims = tarpon.Simulations(x + draws, x + truths, x=x)
        return Oracle(sims, log_ratio(draws, x), log_ratio(truths, x))


def tail_dependence(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Give two truths the dependence of a t distribution, uncorrelated and normal each."""
    freedom = 3
    shared = np.sqrt(rng.chisquare(freedom, size=len(x)) / freedom)
    heavy = truths[:, :2] / shared[:, None]
    truths[:, :2] = ndtri(np.clip(student.cdf(heavy, freedom), 1e-12, 1 - 1e-12))

    def log_ratio(z: Array, x: Array) -> Array:
        y = student.ppf(ndtr(z[..., :2]), freedom)
        joint = gammaln(freedom / 2 + 1) - gammaln(freedom / 2) - np.log(np.pi * freedom)
        joint = joint - (freedom / 2 + 1) * np.log1p((y**2).sum(axis=-1) / freedom)
        return joint - student.logpdf(y, freedom).sum(axis=-1)

    return log_ratio


def spike(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Gather a tenth of the truths of the last parameter in a narrow spike."""
    share, centre, width = 0.1, 0.7, 0.05
    inside = rng.uniform(size=len(x)) < share
    truths[inside, -1] = centre + width * truths[inside, -1]

    def log_ratio(z: Array, x: Array) -> Array:
        z = z[..., -1]
        log_spike = -0.5 * ((z - centre) / width) ** 2 - np.log(width) + 0.5 * z**2
        return np.logaddexp(np.log(1 - share), np.log(share) + log_spike)

    return log_ratio


def skew_by_data(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Skew the first truth to the side of its datum: right and normal on average."""
    slope = 4.0
    mean = np.sqrt(2 / np.pi) * slope / np.sqrt(1 + slope**2)
    sd, side = np.sqrt(1 - mean**2), np.sign(x[:, 0])
    tilt = slope / np.sqrt(1 + slope**2)
    skewed = tilt * abs(rng.normal(size=len(x))) + np.sqrt(1 - tilt**2) * truths[:, 0]
    truths[:, 0] = side * (skewed - mean) / sd

    def log_ratio(z: Array, x: Array) -> Array:
        y = mean + sd * z[..., 0] * np.sign(x[:, 0])
        return np.log(2 * sd) + log_ndtr(slope * y) - 0.5 * y**2 + 0.5 * z[..., 0] ** 2

    return log_ratio


def width_by_size(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Draw the first parameter too widely where its datum is large, and too narrowly elsewhere."""
    factor = np.where(abs(x[:, 0]) > ndtri(0.75), 1.3, 1 / 1.3)
    draws[..., 0] *= factor
    return lambda z, x: np.log(factor) - 0.5 * z[..., 0] ** 2 * (1 - factor**-2.0)


def a_tenth(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Shift the draws of the first parameter by 1 sd, for the tenth with the largest datum."""
    shift = np.where(x[:, 0] > ndtri(0.9), 1.0, 0.0)
    draws[..., 0] += shift
    return lambda z, x: 0.5 * (z[..., 0] - shift) ** 2 - 0.5 * z[..., 0] ** 2


def comb(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Give the last truth many modes, half a sd apart."""
    depth, pitch = 0.8, 4 * np.pi
    kept = rng.uniform(size=(20, len(x)))
    tries = rng.normal(size=kept.shape)
    accepted = kept < (1 + depth * np.cos(pitch * tries)) / (1 + depth)
    truths[:, -1] = tries[accepted.argmax(axis=0), np.arange(len(x))]
    return lambda z, x: np.log1p(depth * np.cos(pitch * z[..., -1]))


def hole(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Push truths out of a disc of two parameters, which the draws fill."""
    radius = 0.6
    outside = np.exp(-(radius**2) / 2)  # the share of normal points
    distance = np.sqrt(radius**2 + rng.chisquare(2, size=len(x)))
    angle = rng.uniform(0, 2 * np.pi, size=len(x))
    truths[:, :2] = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def log_ratio(z: Array, x: Array) -> Array:
        out = (z[..., :2] ** 2).sum(axis=-1) >= radius**2
        return np.where(out, -np.log(outside), -50.0)

    return log_ratio


def width_by_other(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Let one truth scatter more where another is far out, and less where it is not."""

    def factor(z: Array) -> Array:
        return np.where(abs(z) > ndtri(0.75), 1.3, 1 / 1.3)

    truths[:, -1] *= factor(truths[:, 0])

    def log_ratio(z: Array, x: Array) -> Array:
        by = factor(z[..., 0])
        return -np.log(by) + 0.5 * z[..., -1] ** 2 * (1 - by**-2.0)

    return log_ratio


def flat(truths: Array, draws: Array, x: Array, rng: Generator) -> LogRatio:
    """Give the last truth a flat distribution with the mean and the sd of the draws."""
    half = np.sqrt(3)
    truths[:, -1] = rng.uniform(-half, half, size=len(x))

    def log_ratio(z: Array, x: Array) -> Array:
        z = z[..., -1]
        density = 0.5 * np.log(2 * np.pi) + 0.5 * z**2 - np.log(2 * half)
        return np.where(abs(z) <= half, density, -50.0)

    return log_ratio


FLAWS = [
    Flaw("two parameters are far out together, uncorrelated", tail_dependence),
    Flaw("a tenth of the truths in a narrow spike", spike),
    Flaw("skewness with the sign of a datum", skew_by_data),
    Flaw("one width 30 % off, by the size of a datum", width_by_size),
    Flaw("one shift of 1 sd, for a tenth of the data", a_tenth),
    Flaw("many modes, half a sd apart, blurred into one", comb),
    Flaw("a hole of two parameters filled", hole),
    Flaw("one width 30 % off, by the size of another parameter", width_by_other),
    Flaw("a flat posterior taken for a normal one", flat),
]


def powers(flaw: Flaw, n_sims: int, n_dims: int, n_studies: int) -> dict[str, float]:
    """Return the shares of studies that each test rejects."""
    found: dict[str, list[float]] = {"check": [], "oracle": [], "TARP": [], "SBC": []}
    for seed in range(n_studies):
        known = flaw.study(n_sims, n_dims, seed)
        found["check"].append(tarpon.check(known.sims, n_swaps=N_SWAPS, rng=seed).p_value)
        found["oracle"].append(known.p_value(n_swaps=N_SWAPS, rng=seed))
        found["TARP"].append(tarpon.tarp(known.sims, rng=seed).p_value)
        found["SBC"].append(tarpon.sbc(known.sims, rng=seed).p_value)
    return {name: float(np.mean(np.array(p) <= LEVEL)) for name, p in found.items()}


def rows(n_studies: int) -> Iterator[str]:
    for flaw in FLAWS:
        for n_dims in DIMS:
            each = [powers(flaw, n_sims, n_dims, n_studies) for n_sims in N_SIMS]
            cells = [f"{one[name]:.2f}" for one in each for name in one]
            line = f"| {flaw.label} | {n_dims} | {' | '.join(cells)} |"
            print(line, flush=True)
            yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="studies per cell")
    parser.add_argument("--write", action="store_true", help="write docs/unseen.md")
    options = parser.parse_args()
    tests = [f"{name}, {n}" for n in N_SIMS for name in ("check", "oracle", "TARP", "SBC")]
    header = [f"| flaw | parameters | {' | '.join(tests)} |", f"|---|{'--:|' * (1 + len(tests))}"]
    table = [*header, *rows(options.runs)]
    if options.write:
        text = PAGE.read_text()
        before, _, rest = text.partition("<!-- table -->")
        _, _, after = rest.partition("<!-- end of table -->")
        said = f"{options.runs} studies per cell, {N_DRAWS} draws, level 5 %, {N_SWAPS} swaps."
        lines = ["<!-- table -->", "", said, "", *table, "", "<!-- end of table -->"]
        PAGE.write_text(before + "\n".join(lines) + after)


if __name__ == "__main__":
    main()

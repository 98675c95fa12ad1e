"""Measure `near` and `where`: power beside sbi's LC2ST, levels, intervals and time.

    python benchmarks/local.py                # power, levels and intervals, 40 minutes
    python benchmarks/local.py --with-sbi     # LC2ST on the same simulations, hours; needs sbi
    python benchmarks/local.py --speed        # time beside that of `check`, 2 minutes
    python benchmarks/local.py --write        # writes docs/local.md from what was measured

Results are kept study by study in docs/benchmarks, so runs can be stopped and continued.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from local_results import DIMS, FLAWS, N_LC2ST, N_NULL, N_SIMS, N_STUDIES, PATH, SBI, SIZES, write
from numpy.random import Generator
from power_results import Cell, Results

import tarpon
from tarpon.local.near import belongs
from tarpon.local.places import Place
from tarpon.simulations import Simulations
from tarpon.simulations.neighbours import Observation
from tarpon.simulations.views import chosen

CUT = 1.4657  # the 85 % quantile of x[0], which has a variance of 2
SD = np.sqrt(0.5)  # of the posterior of each parameter


@dataclass(frozen=True, eq=False)
class Study:
    """Simulations of normal parameters with normal noise, and errors where x[0] is above a number.

    Arguments:
        n_sims: The number of simulations.
        n_draws: The number of draws.
        n_dims: The number of parameters, and of numbers of an observation.
        narrow: The width of the draws in units of the right one, where they are wrong.
        bias: The error of the draws of the first parameter there, in right posterior sd.
        cut: The number above which they are wrong.
        rng: The generator.
    """

    n_sims: int
    n_draws: int
    n_dims: int
    narrow: float
    bias: float
    cut: float
    rng: Generator

    def x(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        theta = self.rng.normal(size=(n, self.n_dims))
        return theta, theta + self.rng.normal(size=theta.shape)

    def draws(self, x: np.ndarray) -> np.ndarray:
        wrong = x[:, :1] > self.cut
        noise = self.rng.normal(size=(self.n_draws, *x.shape))
        draws = x / 2 + SD * np.where(wrong, self.narrow, 1) * noise
        draws[..., 0] += SD * np.where(wrong[:, 0], self.bias, 0)
        return draws

    def simulations(self) -> Simulations:
        theta, x = self.x(self.n_sims)
        return Simulations(self.draws(x), theta, x=x)

    def observation(self, where: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return an observation of which the first number meets a condition, and its draws."""
        _, x = self.x(1000)
        one = x[where(x[:, 0])][:1]
        return one[0], self.draws(one)[:, 0]

    def size(self, kind: str, k: int | None, x: np.ndarray) -> float:
        """Return the true bias or width of a parameter, or of all, among observations."""
        wrong = x[:, 0] > self.cut
        width = np.where(wrong, self.narrow, 1)
        bias = np.where(wrong, self.bias, 0) / width
        if kind == "bias":
            return float(bias.mean() if k == 0 else 0.0)
        share = 1 / self.n_dims if k is None else float(k == 0)
        return float(np.sqrt(np.mean(width**-2.0) + share * bias.var()))


def planted(flaw: str, n_dims: int, n_sims: int, seed: int) -> tuple[Study, Simulations]:
    """Return a study of the tables of power, and its simulations."""
    narrow, bias = FLAWS[flaw]
    rng = np.random.default_rng([seed, n_dims, n_sims, list(FLAWS).index(flaw)])
    study = Study(n_sims, 100, n_dims, narrow, bias, CUT, rng)
    return study, study.simulations()


def observations(study: Study) -> tuple[tuple[np.ndarray, ...], ...]:
    """Return an observation where posteriors are wrong, and one where they are right."""
    return study.observation(lambda x: x > CUT), study.observation(lambda x: x < 0)


def power(flaw: str, n_dims: int, n_sims: int, seed: int) -> dict[str, float]:
    study, sims = planted(flaw, n_dims, n_sims, seed)
    found: dict[str, float] = {}
    for name, (x_o, samples) in zip(("in", "out"), observations(study), strict=True):
        start = time.perf_counter()
        near = tarpon.near(sims, x_o, samples=samples, rng=seed)
        found[f"near {name}"], found[f"x {name}"] = near.p_value, float(x_o[0])
        found[f"near {name} s"] = time.perf_counter() - start
        window = sims.near(x_o, 100, samples=samples)
        found[f"flawed {name}"] = float((window.x[:, 0] > CUT).mean())
        found |= {f"{key} {name}": value for key, value in held(study, near, window.x).items()}
    start = time.perf_counter()
    where = tarpon.where(sims, rng=seed)
    found |= {"where": where.p_value, "where s": time.perf_counter() - start}
    return found | named(study, sims, where)


def held(study: Study, near: tarpon.Near, x: np.ndarray) -> dict[str, float]:
    """Return the share of the intervals of a window that hold, of biases and of widths."""
    return {
        kind: float(
            np.mean(
                [
                    getattr(one, kind).low <= study.size(kind, k, x) <= getattr(one, kind).high
                    for k, one in enumerate(near.check.parameters)
                ]
            )
        )
        for kind in ("bias", "width")
    }


def members(place: Place, x: np.ndarray) -> np.ndarray:
    """Return the observations that belong to a place."""
    inside = np.ones(len(x), dtype=bool)
    for side in place.sides:
        column = x[:, int(side.feature[2:-1])]
        inside &= (column > (-np.inf if side.low is None else side.low)) & (
            column <= (np.inf if side.high is None else side.high)
        )
    return inside


def named(study: Study, sims: Simulations, where: tarpon.Where) -> dict[str, float]:
    """Return whether the first place is the right one, and what is true of all places."""
    holds, right = [], 0
    for place in where.places:
        x = sims.x[members(place, sims.x)]
        k = None if place.parameter is None else sims.names.index(place.parameter)
        holds.append(place.size.low <= study.size(place.kind, k, x) <= place.size.high)
        right += bool(study.size(place.kind, k, x) == (place.kind == "width"))
    sides = where.places[0].sides if where.places else ()
    first = any(side.feature == "x[0]" and side.high is None for side in sides)
    alone = first and len(sides) == 1
    return {
        "names": float(first), "names alone": float(alone), "right named": float(right > 0),
        "n places": len(holds), "n held": sum(holds), "depends": where.depends,
    }  # fmt: skip


def lc2st(flaw: str, n_dims: int, n_sims: int, seed: int) -> dict[str, float]:
    """Return the p-values of sbi's LC2ST at the same observations, and the time of both."""
    import torch
    from sbi.diagnostics.lc2st import LC2ST

    study, sims = planted(flaw, n_dims, n_sims, seed)
    tensor = partial(torch.as_tensor, dtype=torch.float32)
    places = observations(study)
    start = time.perf_counter()
    test = LC2ST(
        tensor(sims.theta), tensor(sims.x), tensor(sims.samples[0]), seed=seed,
        num_trials_null=N_NULL,
    )  # fmt: skip
    test.train_on_observed_data(verbosity=0).train_under_null_hypothesis(verbosity=0)
    found = {
        f"lc2st {name}": test.p_value(tensor(samples), tensor(x_o[None]))
        for name, (x_o, samples) in zip(("in", "out"), places, strict=True)
    }
    return found | {"lc2st s": time.perf_counter() - start}


def linear(
    rng: Generator, n: int, n_draws: int, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return exact and wrong draws, truths and observations: mixed parameters, noise.

    The wrong draws are half as wide and shifted, alike for all observations.
    """
    size = int(np.prod(shape))
    mix = np.random.default_rng(size).normal(size=(2, size)) / np.sqrt(max(1, size / 5))
    theta = rng.normal(size=(n, 2))
    x = theta @ mix + rng.normal(size=(n, size))
    covariance = np.linalg.inv(np.eye(2) + mix @ mix.T)
    noise = rng.normal(size=(n_draws, n, 2)) @ np.linalg.cholesky(covariance).T
    mean = x @ mix.T @ covariance
    return mean + noise, mean + 0.5 * noise + 0.3, theta, x.reshape(n, *shape)


def level(n_sims: int, n_draws: int, shape: tuple[int, ...], seed: int) -> dict[str, float]:
    """Return p-values of exact posteriors, and of wrong ones that must not matter."""
    rng = np.random.default_rng([seed, n_sims, n_draws, *shape])
    draws, misled, theta, x = linear(rng, n_sims + 1, n_draws, shape)
    sims = Simulations(draws[:, 1:], theta[1:], x=x[1:])
    n = 100 if n_sims > 100 else 30
    run = partial(tarpon.near, n=n, n_swaps=199, rng=seed)
    where = tarpon.where(sims, n_swaps=199, rng=seed)
    wrong = Simulations(misled[:, 1:], theta[1:], x=x[1:])
    return {
        "near": run(sims, x[0], samples=draws[:, 0]).p_value,
        "near by x": run(sims, x[0]).p_value,
        "where": where.p_value,
        "depends, wrong everywhere": tarpon.where(wrong, n_swaps=199, rng=seed).depends,
        "typical, wrong everywhere": belongs(wrong, Observation.of(wrong, x[0], misled[:, 0]))[0],
        "typical by x": belongs(wrong, Observation.of(wrong, x[0]))[0],
    }


def twin(n_draws: int, seed: int) -> dict[str, float]:
    """Return p-values at an observation of exact posteriors; by the draws alone, too."""
    study = Study(500, n_draws, 1, 1.0, 0.0, CUT, np.random.default_rng([seed, n_draws]))
    sims, x_o = study.simulations(), np.array([2.4])
    far = abs(np.asarray(sims.samples).mean(axis=0)[:, 0] - 1.2)
    window = chosen(sims, np.sort(np.argsort(far)[:100]))
    samples = study.draws(x_o[None])[:, 0]
    return {
        "near": tarpon.near(sims, x_o, samples=samples, n_swaps=199, rng=seed).p_value,
        "twin": tarpon.check(window, n_swaps=199, rng=seed).p_value,
    }


def every(options: argparse.Namespace) -> Iterator[tuple[str, Callable, int]]:
    """Yield the cells to measure: their names, functions of a seed, and numbers of studies."""
    if options.with_sbi:
        for n_sims, n_dims, flaw in product(N_SIMS, DIMS, FLAWS):
            yield f"{flaw} {n_dims} {n_sims}", partial(lc2st, flaw, n_dims, n_sims), N_LC2ST
        return
    for n_sims, n_dims, flaw in product(N_SIMS, DIMS, FLAWS):
        yield f"{flaw} {n_dims} {n_sims}", partial(power, flaw, n_dims, n_sims), N_STUDIES
    for n_draws in (9, 99):
        yield f"twin {n_draws}", partial(twin, n_draws), 200
    for (n_sims, n_draws), shape in product(SIZES, ((1,), (5,), (200,), (8, 8))):
        size = "×".join(map(str, shape))
        yield f"level {n_sims} {n_draws} {size}", partial(level, n_sims, n_draws, shape), 400


def measure(options: argparse.Namespace) -> None:
    """Measure ten studies per cell and round, until all are done."""
    path = SBI if options.with_sbi else PATH
    with ProcessPoolExecutor(options.processes) as pool:
        for most in range(options.round, options.studies + 1, options.round):
            for key, run, n_studies in every(options):
                cell = Results(path).cells.get(key, {})
                done = len(next(iter(cell.values()), []))
                if not re.search(options.only, key) or done >= min(most, n_studies):
                    continue
                found = list(pool.map(run, range(done, min(most, n_studies))))
                more: Cell = {k: cell.get(k, []) + [one[k] for one in found] for k in found[0]}
                Results(path).merge({key: more})  # read again: others may have written
                print(key, done + len(found), {k: f"{np.mean(v):.2f}" for k, v in more.items()})


def speed() -> dict[str, Cell]:
    """Return the times of `check`, `near` and `where` on the same simulations, in turn."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2000, 10))
    x = theta[:, :8] + rng.normal(size=(2000, 8))
    samples = np.concatenate([x / 2, np.zeros((2000, 2))], axis=1) + np.where(
        np.arange(10) < 8, SD, 1.0
    ) * rng.normal(size=(1000, 2000, 10))
    sims = Simulations(samples, theta, x=x)
    near = partial(tarpon.near, x_o=x[0], samples=samples[:, 0])
    times: Cell = {"check": [], "near": [], "where": []}
    for _ in range(4):
        for name, run in (("check", tarpon.check), ("near", near), ("where", tarpon.where)):
            start = time.perf_counter()
            run(sims, rng=0)
            times[name].append(time.perf_counter() - start)
    return {"speed": {name: found[1:] for name, found in times.items()}}  # the first one compiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/local.md only")
    parser.add_argument("--with-sbi", action="store_true", help="measure LC2ST")
    parser.add_argument("--speed", action="store_true", help="measure times beside `check`")
    parser.add_argument("--only", default="", help="cells whose names match this expression")
    parser.add_argument("--studies", type=int, default=400, help="studies per cell at most")
    parser.add_argument("--round", type=int, default=20, help="studies per cell and round")
    parser.add_argument("--processes", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    if options.speed:
        times = speed()
        Results(PATH).merge(times)
    elif not options.write:
        measure(options)
    write()


if __name__ == "__main__":
    main()

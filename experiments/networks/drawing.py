"""Train an estimator, draw from it for every study, and keep the draws.

What tests say is computed from the kept draws alone, so it can be computed again without training.
"""

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from problems import PROBLEMS, Array, Problem

import tarpon

if TYPE_CHECKING:
    from estimators import Sampler

FOLDER = Path(__file__).with_name(".draws")


@dataclass(frozen=True)
class Study:
    """Simulations of a problem, the same for all of its estimators."""

    n_sims: int
    n_draws: int
    seed: int


STUDIES = {
    "few": Study(300, 300, 1),
    "many": Study(3000, 50, 2),
    "fit": Study(500, 100, 4),  # to fit a repair
    "fresh": Study(300, 100, 5),  # to test it
    "ten": Study(10, 1000, 6),
}
FEW = ("few", "ten")  # for estimators that draw slowly
REPAIRED = ("sbi nsf",)
_ARRAYS = ("samples", "theta", "x", "log_prob_samples", "log_prob_theta")


@dataclass(frozen=True)
class Drawn:
    """The draws of an estimator.

    Arguments:
        studies: Simulations with draws, by the name of the study.
        kept: Places of these simulations in the study: observations are left out where a network
            puts nearly all of its mass outside of the prior.
        seconds: CPU time of training, and of the draws per study.
    """

    studies: dict[str, tarpon.Simulations] = field(default_factory=dict)
    kept: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def path(estimator: str, problem: str, n_train: int) -> Path:
    """Return the file of the draws of an estimator."""
    return FOLDER / f"{problem}-{estimator.replace(' ', '-')}-{n_train}.npz"


def drawn(estimator: str, problem: str, n_train: int) -> Drawn:
    """Return the draws of an estimator; train it if they are not kept yet."""
    file = path(estimator, problem, n_train)
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        part = file.with_suffix(".part")
        with part.open("wb") as stream:
            np.savez(stream, **_drawn(estimator, PROBLEMS[problem], n_train))
        part.rename(file)
    return read(file)


def read(file: Path) -> Drawn:
    """Return the draws in a file."""
    found = Drawn()
    with np.load(file) as arrays:
        names = {name.partition("/")[0] for name in arrays.files if "/" in name} - {"seconds"}
        for study in names:
            given = {n: arrays[f"{study}/{n}"] for n in _ARRAYS if f"{study}/{n}" in arrays.files}
            found.studies[study] = tarpon.Simulations(**given)
            found.kept[study] = arrays[f"{study}/kept"]
        seconds = (name for name in arrays.files if name.startswith("seconds/"))
        found.seconds.update({name.partition("/")[2]: float(arrays[name]) for name in seconds})
    return found


def _drawn(estimator: str, problem: Problem, n_train: int) -> dict[str, Any]:
    """Train an estimator, and return the arrays of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        sample, studies = _sampler(estimator, problem, n_train)
        arrays: dict[str, Any] = {"seconds/train": time.process_time() - start}
        for study in studies:
            about = STUDIES[study]
            theta, x = problem.study(about.n_sims, about.seed)
            start = time.process_time()
            sims = sample(theta, x, about.n_draws)
            arrays[f"seconds/{study}"] = time.process_time() - start
            arrays |= {f"{study}/{name}": array for name, array in _arrays(sims).items()}
            first = (np.asarray(a[:, 0], "f4") for a in (theta, sims.theta))
            arrays[f"{study}/kept"] = np.flatnonzero(np.isin(*first))
    return arrays


def _sampler(estimator: str, problem: Problem, n_train: int) -> tuple["Sampler", tuple[str, ...]]:
    """Return the sampler of a trained estimator, and the studies it is fast enough for."""
    if not n_train:
        return exact(problem), FEW if problem.slow else ("few", "many", "ten")
    from estimators import SLOW, trained

    studies = tuple(STUDIES) if estimator in REPAIRED else ("few", "many", "ten")
    return trained(estimator, problem, n_train), FEW if estimator in SLOW else studies


def exact(problem: Problem) -> "Sampler":
    """Return the sampler of the exact posterior."""
    rng = np.random.default_rng(8)
    return lambda theta, x, n: tarpon.Simulations(problem.draw(x, n, rng), theta, x=x)


def _arrays(sims: tarpon.Simulations) -> dict[str, Array]:
    given = {name: getattr(sims, name) for name in _ARRAYS}
    return {name: np.asarray(array, "f4") for name, array in given.items() if array is not None}

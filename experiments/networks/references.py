"""Exact draws and densities for the studies, computed once and kept."""

from dataclasses import dataclass
from functools import cache

import drawing
import numpy as np
from problems import Array, Problem

N_DENSITIES = 1000  # of the large study


@dataclass(frozen=True)
class Known:
    """Exact log-densities of truths `(n_sims,)`, and exact draws `(n_draws, n_sims, n_dims)`."""

    log_prob: Array
    samples: Array | None = None


@dataclass(frozen=True)
class Reference:
    """What is known about the studies of a problem; of the large one, about the first truths."""

    few: Known
    ten: Known
    many: Known | None


@cache
def reference(problem: Problem) -> Reference:
    """Return what is known, from a file if it was computed before."""
    file = drawing.FOLDER / f"{problem.name}-reference.npz"
    if not file.exists():
        drawing.FOLDER.mkdir(exist_ok=True)
        arrays = computed(problem)
        np.savez(file, **arrays)
    with np.load(file) as arrays:
        few, ten = (Known(arrays[f"{s}/log_prob"], arrays[f"{s}/samples"]) for s in ("few", "ten"))
        many = Known(arrays["many/log_prob"]) if "many/log_prob" in arrays.files else None
    return Reference(few, ten, many)


def computed(problem: Problem) -> dict[str, Array]:
    """Return the arrays of a reference."""
    rng, arrays = np.random.default_rng(3), {}
    for study in ("few", "ten"):
        about = drawing.STUDIES[study]
        theta, x = problem.study(about.n_sims, about.seed)
        arrays[f"{study}/log_prob"] = problem.log_posterior(theta, x)
        arrays[f"{study}/samples"] = problem.draw(x, about.n_draws, rng)
    if not problem.slow:
        about = drawing.STUDIES["many"]
        theta, x = (a[:N_DENSITIES] for a in problem.study(about.n_sims, about.seed))
        arrays["many/log_prob"] = problem.log_posterior(theta, x)
    return arrays

"""Surroundings: where an observation and its nearest simulations lie, in two features."""

from dataclasses import dataclass

import numpy as np

from .._base.types import Floats, Ints
from ..simulations import Simulations, neighbours
from ..simulations.neighbours import Neighbours, Observation, Summary


@dataclass(frozen=True, eq=False)
class Surroundings:
    """An observation among the simulations, in two features.

    Arguments:
        names: The names of both features.
        values: The features of all simulations, `(n_sims, 2)`.
        x_o: Those of the observation; NaN if one is not known.
        places: The places of the nearest simulations.
    """

    names: tuple[str, str]
    values: Floats
    x_o: tuple[float, float]
    places: Ints


def surroundings(
    sims: Simulations, observation: Observation, found: Neighbours, summary: Summary | None
) -> Surroundings:
    """Return the two features in which the nearest simulations are most alike."""
    if found.measure == "posteriors" and observation.samples is not None:
        every, names = _posteriors(sims, observation.samples)
    else:
        every, labels = neighbours.features(sims, observation, summary)
        names = [f"{label} / sd" for label in labels]
        if every.shape[1] == 1:
            means = np.append(sims.centres()[:, 0], np.nan)
            every = np.column_stack([every, means])
            names.append(f"Posterior mean of {(sims.names or ['theta'])[0]}")
    own = every[-1]
    spread = every[found.places].std(axis=0) / np.maximum(every[:-1].std(axis=0), 1e-300)
    first, second = sorted(np.argsort(spread, kind="stable")[:2].tolist())
    return Surroundings(
        (names[first], names[second]), every[:-1, [first, second]],
        (float(own[first]), float(own[second])), found.places,
    )  # fmt: skip


def _posteriors(sims: Simulations, samples: Floats) -> tuple[Floats, list[str]]:
    """Return posterior means, or the mean and the width of a single one, `x_o` last."""
    pooled, known = neighbours.summaries(sims), sims.names or ()
    means = np.concatenate([pooled["mean"], samples.mean(axis=0)[None]])
    names = [f"Posterior mean of {name}" for name in known]
    if means.shape[1] > 1:
        return means, names
    widths = np.concatenate([pooled["sd"], samples.std(axis=0)[None]])
    return np.column_stack([means, widths]), [*names, f"Posterior width of {known[0]}"]

"""Unlearned: parameters of which the data tell, and the draws know nothing."""

import numpy as np

from .._base.types import Array, Floats
from .descriptions import Rejected
from .statistics import adjusted

_CLEAR = 3  # standard errors from which on a correlation is not due to chance


def missed(rejected: Rejected, k: int, along: Floats) -> Array:
    """Return whether a feature tells of a parameter of whose truths its draws know nothing.

    For no other parameter. Draws that vary at random do not follow the truths, neither by their
    means nor by their widths; if the truths follow the feature, an exact posterior would.
    """
    effects, found = rejected.effects, np.zeros(rejected.sims.n_dims, dtype=bool)
    truth = effects.truth[:, k]
    size = abs(truth - np.median(truth))
    at_chance = _CLEAR / np.sqrt(len(truth))
    found[k] = (
        abs(_correlation(truth, along)) > at_chance
        and abs(_correlation(truth, effects.mean[:, k])) <= at_chance
        and abs(_correlation(size, effects.sd[:, k])) <= at_chance
    )
    return found


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0


def unlearned(rejected: Rejected, k: int, learned: Array) -> list[int]:
    """Return the parameters of which nothing was learned and the data tell, the worst first."""
    sums = rejected.sums
    data = abs(sums.products["data"][..., : sums.features.plain])
    if not data.size:
        return [k]
    statistics = data.max(axis=2)
    clear = (adjusted(statistics) <= rejected.level) & ~learned[sums.chosen]
    order = np.argsort(-statistics[0], kind="stable")
    return list(dict.fromkeys([k, *(int(sums.chosen[j]) for j in order if clear[j])]))

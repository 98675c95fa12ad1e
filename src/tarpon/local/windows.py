"""Windows: the simulations that are nearest to places all over two features."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .._base.types import Array, Floats, Ints

MOST_MAPPED = 4  # features of which pairs are mapped
_MANY_PLACES, _FEW_PLACES = 36, 16  # windows per pair of features
_WINDOW, _FEWEST = 12, 40  # the share of the simulations that a window holds, and the fewest
_INNER = 0.42  # how far windows lie from the middle of all ranks; farther out they are the same


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows at many places of pairs of features.

    Arguments:
        pairs: The columns of both features of each window, `(n_windows, 2)`.
        members: Which simulations belong to each window, `(n_sims, n_windows)`.
    """

    pairs: Ints
    members: Array


def windows(values: Floats, *, fine: bool) -> Windows:
    """Return windows over pairs of the first features, chosen by their ranks.

    Arguments:
        values: The features, `(n_sims, n_features)`.
        fine: Whether there are to be many windows per pair.
    """
    from scipy.spatial import KDTree

    n_sims, n_features = values.shape
    size = min(max(n_sims // _WINDOW, _FEWEST), n_sims)
    pairs, members = [], [np.zeros((n_sims, 0), dtype=bool)]
    for pair in combinations(range(min(n_features, MOST_MAPPED)), 2):
        ranks = np.column_stack([_ranks(values[:, k]) for k in pair]) / n_sims
        inner = np.flatnonzero((abs(ranks - 0.5) <= _INNER).all(axis=1))
        inner = inner if len(inner) else np.arange(n_sims)
        middles = inner[_spread(ranks[inner], _MANY_PLACES if fine else _FEW_PLACES)]
        nearest = KDTree(ranks).query(ranks[middles], k=size)[1].reshape(len(middles), size)
        inside = np.zeros((n_sims, len(middles)), dtype=bool)
        np.put_along_axis(inside, nearest.T, values=True, axis=0)
        pairs += [pair] * len(middles)
        members.append(inside)
    return Windows(np.array(pairs, dtype=int).reshape(-1, 2), np.concatenate(members, axis=1))


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1 on, of equal values their mean."""
    order = np.sort(values)
    below, at_most = (np.searchsorted(order, values, side) for side in ("left", "right"))
    return (below + at_most + 1) / 2


def _spread(points: Floats, n: int) -> list[int]:
    """Return points that are far from each other, beginning in the middle of all."""
    chosen = [int(np.square(points - points.mean(axis=0)).sum(axis=1).argmin())]
    away = np.full(len(points), np.inf)
    while len(chosen) < min(n, len(points)):
        away = np.minimum(away, np.square(points - points[chosen[-1]]).sum(axis=1))
        if away.max() == 0:
            break
        chosen.append(int(away.argmax()))
    return chosen

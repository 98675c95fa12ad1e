"""Whether regions cover more truths for some observations than for others."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.types import Array, Floats
from ..local.groups import groups
from ..simulations import Simulations, neighbours, shapes

_PERMUTATIONS = 999
_MOST_LEADING = 4  # principal components of observations of many numbers
_FEWEST = 20  # simulations of a group whose coverage is worth a word


@dataclass(frozen=True)
class Difference:
    """Coverage by one common threshold in a part of data space, and in the rest.

    Arguments:
        where: The part, in words.
        inside: Share of the truths in it that are covered.
        outside: Share of the other truths that are covered.
        p_value: Exact p-value of coverage being the same for all observations.
    """

    where: str
    inside: float
    outside: float
    p_value: float


def difference(sims: Simulations, covered: Array, rng: Generator) -> Difference | None:
    """Return where coverage differs most from that elsewhere; None without observations.

    The p-value is that of the largest standardised difference of any group, by permuting
    simulations.

    Arguments:
        sims: Simulations.
        covered: Which truths are covered, `(n_sims,)`.
        rng: Generator of the permutations.
    """
    if sims.x is None:
        return None
    values, names = _features(sims.x)
    found = [
        group
        for group in groups(values, names, sims.n_dims)
        if group.sides and _FEWEST <= group.members.sum() <= sims.n_sims - _FEWEST
    ]
    if not found or covered.all() or not covered.any():
        return None
    members = np.stack([group.members for group in found], axis=1).astype(float)
    size, n = members.sum(axis=0), sims.n_sims
    unit = (members - size / n) / np.sqrt(size * (n - size) / n)
    orders = np.stack([covered, *(rng.permutation(covered) for _ in range(_PERMUTATIONS))])
    sums = abs(orders.astype(float) @ unit)
    largest = sums.max(axis=1)
    worst = found[int(sums[0].argmax())]
    return Difference(
        str(worst),
        float(covered[worst.members].mean()),
        float(covered[~worst.members].mean()),
        float((largest >= largest[0] - 1e-9).mean()),
    )


def _features(x: Array) -> tuple[Floats, list[str]]:
    """Return numbers of observations by which groups are made, and their names."""
    flat = np.asarray(x).reshape(len(x), -1).astype(float)
    columns = np.flatnonzero(flat.std(axis=0) > 0)
    if len(columns) <= neighbours.MOST_FEATURES:
        return flat[:, columns], [shapes.place(x.shape[1:], int(k), "x") for k in columns]
    leading = neighbours.principal(flat)[:, :_MOST_LEADING]
    return leading, [f"principal component {k + 1} of x" for k in range(_MOST_LEADING)]

"""Whether regions cover more truths for some observations than for others."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base.types import Array, Floats
from ..local.groups import groups
from ..simulations import Simulations, fields, neighbours, shapes
from ..simulations.views import chosen

_N_ROUNDS, _TOGETHER = 37, 27  # permutations, 999 in all
_MOST_LEADING = 4  # principal components of observations of many numbers
_MOST_SIMS, _MOST_NUMBERS = 10_000, 2**26  # of simulations, and of their observations
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
    """Return where coverage differs most from that elsewhere; None without observations, or
    if these have too many numbers.

    The p-value is that of the largest standardised difference of any group, by permuting
    simulations.

    Arguments:
        sims: Simulations.
        covered: Which truths are covered, `(n_sims,)`.
        rng: Generator of the permutations.
    """
    if sims.x is None:
        return None
    if sims.n_sims > _MOST_SIMS:
        some = np.sort(rng.choice(sims.n_sims, _MOST_SIMS, replace=False))
        sims, covered = chosen(sims, some), covered[some]
    x = shapes.needs_x(sims.x, "`cover`")
    if x.size > _MOST_NUMBERS or covered.all() or not covered.any():
        return None
    n = sims.n_sims
    found = [
        group
        for group in groups(*_features(x), sims.n_dims)
        if group.sides and _FEWEST <= group.members.sum() <= n - _FEWEST
    ]
    if not found:
        return None
    members = np.stack([group.members for group in found], axis=1).astype(float)
    size = members.sum(axis=0)
    unit = (members - size / n) / np.sqrt(size * (n - size) / n)
    sums = abs(covered @ unit)
    largest = [sums.max()]
    for _ in range(_N_ROUNDS):
        orders = rng.permuted(np.tile(covered.astype(float), (_TOGETHER, 1)), axis=1)
        largest += abs(orders @ unit).max(axis=1).tolist()
    worst = found[int(sums.argmax())]
    return Difference(
        str(worst),
        float(covered[worst.members].mean()),
        float(covered[~worst.members].mean()),
        float((np.array(largest) >= largest[0] - 1e-9).mean()),
    )


def _features(x: Array) -> tuple[Floats, list[str]]:
    """Return numbers of observations by which groups are made, and their names."""
    flat = x.reshape(len(x), -1).astype(float)
    columns = np.flatnonzero(flat.std(axis=0) > 0)
    if len(columns) <= neighbours.MOST_FEATURES:
        return flat[:, columns], [fields.place(x.shape[1:], int(k), "x") for k in columns]
    leading = neighbours.principal(flat)[:, :_MOST_LEADING]
    return leading, [f"principal component {k + 1} of x" for k in range(_MOST_LEADING)]

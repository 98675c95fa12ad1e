"""Ranks: where each truth stands among its draws. Nothing after this knows of posteriors."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from . import regions
from ._types import Floats, Ints
from .regions import Counted, Region
from .simulations import Simulations


@dataclass(frozen=True, eq=False)
class Ranks:
    r"""Ranks :math:`r_i \in \{0, \dots, n\}` of the truths among :math:`n` draws.

    Arguments:
        values: Of shape `(n_sims,)`, or `(n_sims, n_scores)` for several scores.
        n_draws: The number of draws :math:`n`.
    """

    values: Ints
    n_draws: int

    @property
    def n_sims(self) -> int:
        return len(self.values)

    def histogram(self) -> Ints:
        """Return how often each rank occurs, `(n_draws + 1,)` or `(n_draws + 1, n_scores)`."""
        columns = self.values.reshape(self.n_sims, -1).T
        counts = [np.bincount(column, minlength=self.n_draws + 1) for column in columns]
        return np.stack(counts, axis=-1).reshape(self.n_draws + 1, *self.values.shape[1:])

    def pit(self, rng: Generator) -> Floats:
        """Return the ranks spread over [0, 1], uniform if and only if the ranks are."""
        return (self.values + rng.uniform(size=self.values.shape)) / (self.n_draws + 1)


def rank(sims: Simulations, region: Region, rng: Generator) -> Ranks:
    r"""Rank each truth among its draws, with ties broken at random.

    .. math::
        r_i = \#\{j : s_{ij} < s^*_i\} + \mathrm{Uniform}\{0, \dots, \#\{j : s_{ij} = s^*_i\}\}
    """
    below, equal = (
        region.count(sims) if isinstance(region, Counted) else regions.count(region, sims)
    )
    return Ranks(below + rng.integers(equal, endpoint=True), n_draws=sims.n_draws)

"""Curves: expected coverage at the levels that the draws resolve."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ._base.types import Floats
from .ranks import Ranks


@dataclass(frozen=True, eq=False)
class Curve:
    r"""Expected coverage against credibility level, without bins.

    .. math:: c_k = \frac{k}{n + 1}, \qquad
              \mathrm{ecp}_k = \frac{1}{N} \#\{i : r_i \le k - 1\}, \qquad k = 0, \dots, n + 1

    The curve runs from (0, 0) to (1, 1). For an accurate posterior its expectation is exactly
    the diagonal, at any number of draws.

    Arguments:
        level: Credibility levels of shape `(n_draws + 2,)`.
        ecp: Expected coverage of shape `(n_draws + 2,)` or `(n_draws + 2, n_scores)`.
    """

    level: Floats
    ecp: Floats

    @classmethod
    def of(cls, ranks: Ranks) -> "Curve":
        """Return the curve of ranks."""
        counts = np.cumsum(ranks.histogram(), axis=0)
        start = np.zeros_like(counts[:1])
        level = np.arange(ranks.n_draws + 2) / (ranks.n_draws + 1)
        return cls(level, np.concatenate([start, counts]) / ranks.n_sims)


def bootstrap(ranks: Ranks, n: int, rng: Generator) -> Floats:
    """Return `n` curves of resampled simulations, `(n, n_draws + 2)` or with an axis of scores.

    Resampling simulations with replacement is a multinomial draw on the histogram of their
    ranks, so nothing is computed again from the draws.
    """
    histograms = np.atleast_2d(ranks.histogram().T)
    curves = np.zeros((n, ranks.n_draws + 2, len(histograms)))
    for k, counts in enumerate(histograms):
        seen = np.flatnonzero(counts)
        drawn = rng.multinomial(ranks.n_sims, counts[seen] / ranks.n_sims, size=n)
        # Ranks that do not occur add nothing: sum over those that do, then repeat the sums.
        steps = np.diff(np.append(seen, ranks.n_draws + 1))
        sums = np.cumsum(drawn, axis=1) / ranks.n_sims
        curves[:, seen[0] + 1 :, k] = np.repeat(sums, steps, axis=1)
    return curves.reshape(n, ranks.n_draws + 2, *ranks.values.shape[1:])

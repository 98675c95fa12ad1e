r"""Confounders: which flaws remain in the ranks after removing bias and width.

Truths that lie to one side of their draws, or scatter more widely, also inflate the statistic of
every other flaw. So before another flaw is named beside them, it is looked for again, in ranks
that are measured by what bias and width alone would do to them.

Where draws are standard normal, let truths be :math:`b + s t` with :math:`t` standard normal. Of
:math:`n` draws, a truth has a binomial number below it, so that a rank :math:`r` is as likely as

.. math:: P(r) = \int \mathrm{Bin}\big(r; n, \Phi(b + s t)\big)\, \varphi(t)\, dt,
          \qquad h_m(r) = \mathrm{E}\left[\frac{He_m(t)}{\sqrt{m!}} \,\middle|\, r\right].

All :math:`h_m` have mean zero under such truths. Setting the means of the first two to zero gives
the likeliest :math:`b` and :math:`s`; the third and fourth measure the skewness and tails that
remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._base import threads
from .._base.types import Array, Floats, Ints
from ..ranks import Ranks
from .parameters import Effects, correlations, fisher
from .swaps import Sums

_EDGES = np.concatenate([[-np.inf], np.arange(-8.0, 8.01, 0.05), [np.inf]])
_MIDDLES = np.concatenate([[-np.inf], 0.5 * (_EDGES[1:-2] + _EDGES[2:-1]), [np.inf]])
_MOST_DRAWS = 199  # with more, the places would have to be closer
_SCALES = (0.1, 20.0)  # beyond these, truths are all in the middle or all outside
_MOST_STEPS, _CLOSE = 100, 1e-3
_AT_ONCE = 64  # parameters
_LARGEST = 1e9  # moment: those of ranks that hardly occur are rounding errors
_HEAVY = 3.0  # standard errors from which the truths have heavy tails


@dataclass(frozen=True, eq=False)
class Shifted:
    """Ranks of truths that are shifted and scaled among normal draws, in several parameters.

    Arguments:
        shift: The shift :math:`b` of the truths, in sd of the draws, `(n_dims,)`.
        scale: The scatter :math:`s` of the truths, in the same units, `(n_dims,)`.
        places: The share of the truths at each place, `(n_places, n_dims)`.
        share: The share of the truths that have each rank, `(n_ranks, n_dims)`.
        moments: The moments :math:`h_m` of each rank, `(4, n_ranks, n_dims)`.
    """

    shift: Floats
    scale: Floats
    places: Floats
    share: Floats
    moments: Floats

    @classmethod
    def of(cls, chances: Floats, shift: Floats, scale: Floats) -> "Shifted":
        """Return the ranks whose `chances` at each place are `(n_ranks, n_places)`.

        Example:
            >>> ranks = Shifted.of(chances(20), shift=np.array([0.5]), scale=np.array([1.2]))
            >>> bool(abs(ranks.means(ranks.share)).max() < 1e-9)
            True
        """
        places, integrals = _places(shift, scale)
        share = chances @ places
        moments = chances @ integrals / np.maximum(share, 1e-300)
        moments = moments.clip(-_LARGEST, _LARGEST)
        return cls(shift, scale, places, share, moments)

    @classmethod
    def fitted(cls, chances: Floats, histogram: Ints) -> "Shifted":
        """Return the shift and scale that make ranks likeliest, by expectation maximisation."""
        n_dims = histogram.shape[1]
        fit = cls.of(chances, np.zeros(n_dims), np.ones(n_dims))
        for _ in range(_MOST_STEPS):
            mean, square, _, _ = fit.means(histogram)
            if max(abs(mean).max(), abs(square).max()) < _CLOSE:
                break
            wider = np.sqrt((1 + np.sqrt(2.0) * square - mean**2).clip(min=0.01))
            scale = (fit.scale * wider).clip(*_SCALES)
            fit = cls.of(chances, fit.shift + fit.scale * mean, scale)
        return fit

    def means(self, histogram: Array) -> Floats:
        """Return the means of the moments over ranks, `(4, n_dims)`."""
        return (self.moments * histogram).sum(axis=1) / histogram.sum(axis=0)

    @property
    def standard(self) -> Floats:
        """The moments of each rank, with variance one, `(4, n_ranks, n_dims)`."""
        return self.moments / np.sqrt((self.share * self.moments**2).sum(axis=1, keepdims=True))

    def outside(self, n_draws: int) -> Floats:
        """Return the share of truths that lie beyond all of some number of draws."""
        from scipy.special import ndtr

        return (ndtr(_MIDDLES) ** n_draws + ndtr(-_MIDDLES) ** n_draws) @ self.places


def chances(n_draws: int) -> Floats:
    """Return how likely each rank among normal draws is at each place, `(n_ranks, n_places)`."""
    # `scipy.stats` has this too, and takes longer to import than all else that is done here.
    from scipy.special import betaln, ndtr, xlogy

    below = np.arange(n_draws + 1)[:, None]
    above = n_draws - below
    ways = -betaln(above + 1, below + 1) - np.log(n_draws + 1)
    return np.exp(ways + xlogy(below, ndtr(_MIDDLES)) + xlogy(above, ndtr(-_MIDDLES)))


def _places(shift: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return the share of truths at each place, and the integrals of their components there.

    A Hermite polynomial times the density is minus the derivative of the one below it, times it.
    """
    from scipy.special import ndtr

    edges = ((_EDGES[:, None] - shift) / scale).clip(-38.0, 38.0)  # where the density vanishes
    falls = np.exp(-0.5 * edges**2) / np.sqrt(2 * np.pi)
    lower = np.stack(
        [falls, edges * falls, (edges**2 - 1) * falls, (edges**3 - 3 * edges) * falls]
    )
    lower /= np.sqrt([1.0, 2.0, 6.0, 24.0])[:, None, None]
    return np.diff(ndtr(edges), axis=0), -np.diff(lower, axis=1)


@dataclass(frozen=True, eq=False)
class Remaining:
    """What remains beside bias and width. Its p-values are approximate.

    Arguments:
        sums: The sums of the swap test.
        effects: What was measured of the draws.
        moments: The moments of each truth, beyond bias and width, `(4, n_sims, n_dims)`.
        outside: The share of truths that bias and width put beyond all draws, `(n_dims,)`.
    """

    sums: Sums
    effects: Effects
    moments: Floats
    outside: Floats

    @classmethod
    def of(cls, sums: Sums, effects: Effects) -> "Remaining":
        """Return the flaws that remain once every parameter is shifted and scaled to be right."""
        ranks = _among_fewer(effects.ranks)
        standard, outside = _fitted(ranks.histogram(), effects.ranks.n_draws)
        every = np.arange(ranks.values.shape[1])
        return cls(sums, effects, standard[:, ranks.values, every].astype(float), outside)

    @cached_property
    def skewed(self) -> float:
        """The p-value of the remaining skewness."""
        # Heavy tails on both sides also make the odd moments noisier.
        errors = [
            _error(third if tails < _HEAVY else _scaled(third))
            for third, tails in zip(self.moments[2].T, self._tails, strict=True)
        ]
        return _p_value(np.array(errors))

    @cached_property
    def tails(self) -> float:
        """The p-value of the remaining tails."""
        together = _error(_scaled(self.moments[3].sum(axis=1)))
        return _p_value(np.append(self._tails, together))

    @cached_property
    def _tails(self) -> Floats:
        return np.array([_error(fourth) for fourth in self.moments[3].T])

    @cached_property
    def bias_by_data(self) -> float:
        """The p-value of a remaining bias along the data, or along posterior means."""
        plain = self.sums.features.values[:, : self.sums.features.plain]
        chosen = set(self.sums.chosen.tolist())
        errors = []
        for k, first in enumerate(self.moments[0].T):
            errors.append(_errors(first, _centred(self.effects.mean[:, [k]])))
            if k in chosen:
                errors.append(_errors(first, plain))
        return _p_value(np.concatenate(errors))

    def bias_along(self, k: int, along: Floats, n_tests: int, *given: Floats) -> float:
        """Return the p-value of a bias of a parameter along numbers, beside given ones."""
        first, rest = self.moments[0][:, k], along
        if given:
            first, rest = _beside(np.column_stack([first, along]), *given).T
        return _p_value(_errors(first, _centred(rest)[:, None]), n_tests)

    def too_wide(self, ks: Sequence[int], *given: Floats) -> float:
        """Return the p-value of truths that scatter too widely, beside numbers that biases follow.

        Draws are moved along these. Of some parameters, or of all together if none is named.
        """
        effects = self.effects.beside(*given)
        sizes = [effects.width(k) for k in ks] or [effects.width()]
        errors = [
            2 * 1.96 * np.log(size.value) / np.log(size.high / size.low)
            for size in sizes
            if size.value > 1
        ]
        return _p_value(np.array(errors), len(sizes))

    def width_along(self, k: int | None, along: Floats, n_tests: int) -> float:
        """Return the p-value of a width error of a parameter, or of all, along numbers."""
        width = self.moments[1].sum(axis=1) if k is None else self.moments[1][:, k]
        return _p_value(_errors(_scaled(_centred(width)), _centred(along)[:, None]), n_tests)

    def correlations(self, ks: Sequence[int], *given: Floats) -> Floats:
        """Return the correlations of truths of several parameters, beside what biases follow."""
        left = _beside(self.moments[0][:, list(ks)], *given)
        return np.stack([correlations(one[:, None], left) for one in left.T])

    def correlation(self, a: int, b: int, right: float, n_tests: int, *given: Floats) -> float:
        """Return the p-value of a wrong correlation, beside numbers that biases follow."""
        found = self.correlations((a, b), *given)[0, 1]
        return _p_value(
            np.diff(fisher(np.array([found, right]))) * np.sqrt(max(len(self.moments[0]) - 3, 1)),
            n_tests,
        )

    def together(self, ks: Sequence[int], along: Floats, n_tests: int) -> float:
        """Return the p-value of a dependence of several parameters that follows numbers."""
        products = self.moments[0][:, list(ks)].prod(axis=1)
        return _p_value(_errors(_scaled(products), along[:, None]), n_tests)


def _fitted(histogram: Ints, n_draws: int) -> tuple[Floats, Floats]:
    """Return moments of ranks beyond bias and width, and the share of truths outside all draws."""
    fine = chances(len(histogram) - 1)
    coarse, standard, outside = _pooled(fine), [], []
    with threads.one_thread_each():  # which are too small to share
        for start in range(0, histogram.shape[1], _AT_ONCE):
            columns = histogram[:, start : start + _AT_ONCE]
            standard.append(Shifted.fitted(fine, columns).standard.astype(np.float32))
            outside.append(Shifted.fitted(coarse, _pooled(columns)).outside(n_draws))
    return np.concatenate(standard, axis=2), np.concatenate(outside)


def _among_fewer(ranks: Ranks) -> Ranks:
    """Return the ranks among a random few of the draws, which is quicker and enough."""
    if ranks.n_draws <= _MOST_DRAWS:
        return ranks
    among = np.random.default_rng(0).hypergeometric
    return Ranks(among(ranks.values, ranks.n_draws - ranks.values, _MOST_DRAWS), _MOST_DRAWS)


def _pooled(rows: Array) -> Array:
    """Return sums over the first and the last tenth of the ranks, and those between.

    A fit to them knows how many truths are near the ends, but not how many are outside.
    """
    n = -(-len(rows) // 10)
    return np.add.reduceat(rows, [0, *range(n, len(rows) - n + 1)], axis=0)


def _beside(values: Floats, *given: Floats) -> Floats:
    """Return what given numbers leave of each column of values."""
    known = np.column_stack([np.ones(len(values)), *given])
    left: Floats = values - known @ np.linalg.lstsq(known, values, rcond=None)[0]
    return left


def _centred(values: Floats) -> Floats:
    return values - values.mean(axis=0)


def _scaled(values: Floats) -> Floats:
    return values / (values.std() or 1.0)


def _error(values: Floats) -> float:
    """Return a sum over simulations in standard errors, of values with variance one."""
    return float(values.sum() / np.sqrt(len(values)))


def _errors(values: Floats, along: Floats) -> Floats:
    """Return the sums of products with each column of `along` in standard errors."""
    return values @ along / np.sqrt(np.square(along).sum(axis=0)).clip(min=1e-300)


def _p_value(errors: Floats, n_tests: int = 0) -> float:
    """Return the p-value of the largest of several errors, adjusted for their number."""
    from scipy.special import ndtr

    n_tests = n_tests or max(errors.size, 1)
    return float(min(1.0, 2 * ndtr(-abs(errors).max(initial=0.0)) * n_tests))

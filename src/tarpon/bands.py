r"""Exact simultaneous bands and p-values for one curve.

Let :math:`C_k = \#\{i : r_i \le k - 1\}` count the truths inside the regions of level
:math:`z_k = k / (n + 1)`. For an accurate posterior :math:`C_k \sim \mathrm{Bin}(N, z_k)`, and
the counts between cut points are multinomial. Every cut point gets the same local level
:math:`g` (Säilynoja, Bürkner and Vehtari, 2022),

.. math:: G = 2 \min_k \min\{F_k(C_k), \; 1 - F_k(C_k - 1)\}, \qquad p = P(G' \le G),

and the band of confidence :math:`1 - a` is made of the counts for which :math:`p > a`. So a
curve leaves the band if and only if its p-value is at most :math:`a`. Nothing is simulated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np

from ._base.types import Array, Floats, Ints
from .ranks import Ranks

_MOST_CUTS = 1000
# One minus a probability keeps about thirteen digits, so below this the union bound takes over.
_RESOLVED = 1e-9
_FEW = 32
_DIRECT = 100_000

Bounds = tuple[Ints, Ints]


@dataclass(frozen=True, eq=False)
class Band:
    """A band that contains the whole curve of an accurate posterior with a given confidence.

    Arguments:
        level: Credibility levels of shape `(n_levels,)`.
        low: Lowest expected coverage inside the band, `(n_levels,)`.
        high: Highest expected coverage inside the band, `(n_levels,)`.
        confidence: Probability that the whole curve lies inside the band.
    """

    level: Floats
    low: Floats
    high: Floats
    confidence: float


def p_values(ranks: Ranks) -> Floats:
    """Return the exact p-value of each score's curve, of shape `(n_scores,)`."""
    cuts = _cut_points(ranks.n_draws)
    counts = np.atleast_2d(ranks.histogram().T).cumsum(axis=1)[:, cuts - 1]
    tails = _Tails(ranks.n_sims, cuts, ranks.n_draws + 1)
    return np.array([_p_value(one, tails) for one in counts])


@lru_cache(maxsize=256)
def band(n_sims: int, n_draws: int, confidence: float) -> Band:
    """Return the exact band for curves of `n_sims` truths among `n_draws` draws each."""
    tails = _Tails(n_sims, _cut_points(n_draws), n_draws + 1)
    low, high = _narrowest(tails, _curve_inside, 1.0 - confidence)
    low, high = np.pad(low, 1), np.pad(high, 1)
    low[-1] = high[-1] = n_sims
    level = np.concatenate([[0.0], tails.z, [1.0]])
    return Band(level, low / n_sims, high / n_sims, confidence)


@lru_cache(maxsize=256)
def histogram_band(n_sims: int, sizes: tuple[int, ...], confidence: float) -> Bounds:
    """Return the exact lowest and highest counts of all bins simultaneously.

    Arguments:
        n_sims: Number of truths.
        sizes: Numbers of rank values per bin.
        confidence: Probability that the counts of all bins lie between lowest and highest.
    """
    tails = _Tails(n_sims, np.array(sizes), sum(sizes))
    return _narrowest(tails, _bins_inside, 1.0 - confidence)


@cache
def _cut_points(n_draws: int) -> Ints:
    """Return the cut points k: all of them, or a thousand that are symmetric about the middle."""
    if n_draws <= _MOST_CUTS:
        return np.arange(1, n_draws + 1)
    half = np.rint(np.linspace(1, (n_draws + 1) / 2, _MOST_CUTS // 2)).astype(np.int64)
    return np.unique(np.concatenate([half, n_draws + 1 - half]))


def _p_value(counts: Ints, tails: "_Tails") -> float:
    low, high = tails.bounds(tails.levels(counts).min())
    p_value = 1.0 - _curve_inside(tails, low, high)
    if p_value > _RESOLVED:
        return p_value
    union = float((tails.below(low - 1) + tails.above(high + 1)).sum())
    return min(max(union, np.finfo(float).tiny), _RESOLVED)


@dataclass(frozen=True, eq=False)
class _Tails:
    """Binomial tails of the counts of n simulations in regions of probability z = part / whole."""

    n: int
    part: Ints
    whole: int

    @cached_property
    def z(self) -> Floats:
        return self.part / self.whole

    @cached_property
    def rest(self) -> Floats:
        """Return 1 - z, rounded once, so that the two tails mirror each other bit by bit."""
        return (self.whole - self.part) / self.whole

    def below(self, counts: Ints) -> Floats:
        """Return P(C ≤ counts)."""
        return _cdf(counts, self.n, self.z)

    def above(self, counts: Ints) -> Floats:
        """Return P(C ≥ counts)."""
        return _cdf(self.n - counts, self.n, self.rest)

    def levels(self, counts: Ints) -> Floats:
        """Return the local level of each count, twice its smaller tail."""
        return 2.0 * np.minimum(self.below(counts), self.above(counts))

    def bounds(self, g: float) -> Bounds:
        """Return the smallest and largest counts whose tails exceed g / 2."""
        low = _first_above(g, self.n, self.z)
        mirrored = np.array_equal(self.rest, self.z[::-1])
        return low, self.n - (low[::-1] if mirrored else _first_above(g, self.n, self.rest))

    def levels_between(self, wide: Bounds, narrow: Bounds) -> Floats:
        """Return the local levels at which bounds change on the way from wide to narrow."""
        levels: set[float] = set()
        for share, inner, outer in (
            (self.z, narrow[0], wide[0]),
            (self.rest, self.n - narrow[1], self.n - wide[1]),
        ):
            for k in np.flatnonzero(inner > outer):
                counts = np.arange(outer[k], inner[k])
                levels.update((2.0 * _cdf(counts, self.n, share[k])).tolist())
        return np.array(sorted(levels))


def _cdf(counts: Ints, n: int, share: Floats) -> Floats:
    from scipy.special import bdtr

    return np.where(counts < 0, 0.0, bdtr(np.minimum(counts, n), n, share))


def _first_above(g: float, n: int, share: Floats) -> Ints:
    """Return, per share, the first count whose lower tail exceeds g / 2."""
    low = np.zeros(len(share), dtype=np.int64)
    high = np.full(len(share), n)
    while (low < high).any():
        middle = (low + high) // 2
        exceeds = 2.0 * _cdf(middle, n, share) > g
        low, high = (
            np.where(exceeds, low, np.minimum(middle + 1, high)),
            np.where(exceeds, middle, high),
        )
    return high


def _narrowest(
    tails: _Tails, inside: "Callable[[_Tails, Ints, Ints], float]", alpha: float
) -> Bounds:
    """Return the narrowest bounds of a common local level, left with probability ≤ alpha.

    False position on the logarithms brackets the level, until few attainable levels are left;
    a search among these is exact.
    """

    def excess(bounds: Bounds) -> float:
        return float(np.log(max(1.0 - inside(tails, *bounds), 1e-16) / alpha))

    # By the union bound, the widest bounds are left with probability alpha at most.
    levels = [alpha / (2 * len(tails.z)), 2.0]
    bounds = [tails.bounds(level) for level in levels]
    heights = [excess(ends) for ends in bounds]
    while heights[1] > heights[0] and levels[1] > 1.0001 * levels[0] and _changes(*bounds) > _FEW:
        share = np.clip(-heights[0] / (heights[1] - heights[0]), 0.05, 0.95)
        level = float(levels[0] ** (1 - share) * levels[1] ** share)
        trial = tails.bounds(level)
        height = excess(trial)
        side = int(height > 0)
        levels[side], bounds[side], heights[side] = level, trial, height
    candidates = tails.levels_between(*bounds)
    kept, beyond = -1, len(candidates)
    while beyond - kept > 1:
        middle = (kept + beyond) // 2
        good = excess(tails.bounds(candidates[middle])) <= 0
        kept, beyond = (middle, beyond) if good else (kept, middle)
    return bounds[0] if kept < 0 else tails.bounds(candidates[kept])


def _changes(wide: Bounds, narrow: Bounds) -> int:
    return int((narrow[0] - wide[0]).sum() + (wide[1] - narrow[1]).sum())


def _curve_inside(tails: _Tails, low: Ints, high: Ints) -> float:
    """Return P(low_k ≤ C_k ≤ high_k for all k), pushed from cut point to cut point.

    Multinomial counts are independent Poisson counts, given their total: the probability of
    each count so far is convolved with the next Poisson increment and cut to the bounds.
    """
    if (low > high).any():
        return 0.0
    so_far: Floats = np.ones(1)
    start = 0
    means = tails.n * np.diff(tails.part, prepend=0, append=tails.whole) / tails.whole
    for mean, bottom, top in zip(
        means, np.append(low, tails.n), np.append(high, tails.n), strict=True
    ):
        so_far, first = _add_poisson(so_far, mean)
        start += first
        so_far = so_far[max(bottom - start, 0) : max(top + 1 - start, 0)]
        start = max(start, bottom)
        if not len(so_far):
            return 0.0
    return float(so_far[0] / _poisson_at_mean(tails.n))


def _bins_inside(tails: _Tails, low: Ints, high: Ints) -> float:
    """Return P(low_b ≤ count_b ≤ high_b for all bins b) of multinomial counts."""
    if (low > high).any() or low.sum() > tails.n or high.sum() < tails.n:
        return 0.0
    so_far, start = np.ones(1), 0
    for mean, bottom, top in zip(tails.n * tails.z, low, high, strict=True):
        steps, first = _poisson(mean)
        steps = steps[max(bottom - first, 0) : max(top + 1 - first, 0)]
        if not len(steps):
            return 0.0
        so_far, start = np.convolve(so_far, steps), start + max(first, bottom)
    return float(so_far[tails.n - start] / _poisson_at_mean(tails.n))


@lru_cache(maxsize=4096)
def _poisson(mean: float) -> tuple[Floats, int]:
    """Return the Poisson probabilities that are not negligible, and the first of their counts."""
    from scipy.special import gammaln

    reach = 9.0 * np.sqrt(mean) + 40.0
    first = max(0, int(mean - reach))
    counts = np.arange(first, int(mean + reach) + 1)
    log_pmf = counts * np.log(mean) - mean - gammaln(counts + 1.0)
    pmf = np.exp(log_pmf)
    # The logarithms lose digits if the mean is large; the known sum restores them.
    return pmf / pmf.sum(), first


def _poisson_at_mean(n: int) -> float:
    """Return the Poisson probability of n at mean n, to full precision."""
    from scipy.special import gammaln

    if n < 30:
        return float(np.exp(n * np.log(n) - n - gammaln(n + 1.0)))
    stirling = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    return float(np.exp(-stirling) / np.sqrt(2 * np.pi * n))


def _add_poisson(so_far: Floats, mean: float) -> tuple[Floats, int]:
    """Return the probabilities after a Poisson increment, and the shift of the first count."""
    steps, first = _poisson(mean)
    n = len(so_far) + len(steps) - 1
    if len(so_far) * len(steps) < _DIRECT:
        return np.convolve(so_far, steps), first
    from scipy import fft

    size = fft.next_fast_len(n, real=True)
    both = fft.irfft(fft.rfft(so_far, size) * _poisson_spectrum(mean, size), size)[:n]
    return np.maximum(both, 0.0), first


@lru_cache(maxsize=256)
def _poisson_spectrum(mean: float, size: int) -> Array:
    from scipy import fft

    return fft.rfft(_poisson(mean)[0], size)

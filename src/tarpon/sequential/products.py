"""Products of parameters and features of the data: a score that learns which ones matter."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from .._base.types import Array, Floats, Ints

# A product, as the places of its parameters and of its features.
Term: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

_MOST_PAIRED = 32  # parameters of which products of two are made
_MOST_CROSSED = 10  # features of which products of two are made
_N_TELLING, _N_TRIED = 3, 30  # terms that are named, and those they are chosen from
_CHUNK = 2**22  # numbers that are computed together
# Shares and sizes of coefficients that are not zero: the grid of prior distributions.
_SHARES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
_SIZES = np.array([0.3, 1.0, 2.0, 4.0, 8.0])


@dataclass(frozen=True)
class Products:
    r"""A sum of products of parameters and features, most of whose coefficients are zero.

    With :math:`z` the points of a simulation in units of their own mean and sd, as `Folds` passes
    them, and :math:`g` the features of its data, the score is

    .. math:: f(\theta; x) = \sum_{ab} c_{ab}\, \phi_a(z)\, \psi_b(g), \qquad
              \phi \in \{z_k,\; z_k^2,\; z_k z_l\}, \quad \psi \in \{1,\; g_m,\; g_m g_n\}.

    For accurate posteriors the mean of each product over truths, less that over draws, is close to
    normal about zero with known variance. So each coefficient is a posterior mean, given a prior
    in which most coefficients are zero and the others normal. The share of the others and their
    size are averaged over by their likelihood, separately for each of the nine groups of products.
    Fits to thousands of simulations take less than a second.

    Pairs :math:`k < l` are made of the first 32 parameters, pairs :math:`m \le n` of the first ten
    features. It needs no further package.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, draws = rng.normal(size=(1000, 2)), rng.normal(size=(20, 1000, 3))
        >>> theta = rng.normal(size=(1000, 3))
        >>> theta[:, 2] += 0.5 * x[:, 0] * x[:, 1]  # missed by the draws
        >>> tarpon.adversaries.Products().fit(theta, draws, x).telling[0]
        ((2,), (0, 1))
    """

    def fit(self, theta: Array, samples: Array, x: Array | None) -> "ProductScore":
        """Return the score that distinguishes these truths from their draws."""
        terms = _Terms.of(theta.shape[1], x)
        products = terms.of_features(x, len(theta))
        gain = np.zeros((len(terms.powers), products.shape[1]))
        variance = np.zeros_like(gain)
        for where in _chunks(theta.shape[0], (1 + len(samples)) * len(terms.powers)):
            points = np.concatenate([theta[None, where], samples[:, where]])
            phi, psi = terms.of_points(points), products[where]
            about = phi - phi.mean(axis=0)
            gain += about[0].T @ psi
            variance += np.square(about).mean(axis=0).T @ np.square(psi)
        sd = np.sqrt(variance)
        sd[sd <= 1e-9 * sd.max()] = np.inf  # of products that never vary
        z = gain / sd
        mean = np.empty_like(z)
        for rows in terms.groups_of_points:
            for columns in terms.groups_of_features:
                mean[rows, columns] = posterior_mean(z[rows, columns])
        return ProductScore(terms, mean / sd, terms.telling(abs(mean), products))


@dataclass(frozen=True, eq=False)
class ProductScore:
    """A fitted sum of products.

    Arguments:
        terms: Factors of the products.
        coefficients: Coefficients, `(n_of_points, n_of_features)`.
        telling: The most important products, as places of their parameters and features.
    """

    terms: "_Terms"
    coefficients: Floats
    telling: tuple[Term, ...]

    def __call__(self, points: Array, x: Array | None) -> Floats:
        """Return scores `(n_points, n_sims)`."""
        n_points, n_sims = points.shape[:2]
        slopes = self.terms.of_features(x, n_sims) @ self.coefficients.T
        scores = np.empty((n_points, n_sims))
        for where in _chunks(n_sims, n_points * slopes.shape[1]):
            phi = self.terms.of_points(points[:, where])
            scores[:, where] = np.einsum("psa,sa->ps", phi, slopes[where])
        return scores


@dataclass(frozen=True, eq=False)
class _Terms:
    """The factors of products.

    Arguments:
        n_dims: Number of parameters.
        mean: Means of the features, `(n_features,)`.
        sd: Their standard deviations.
        offset: Means of the products of two features.
    """

    n_dims: int
    mean: Floats
    sd: Floats
    offset: Floats

    @classmethod
    def of(cls, n_dims: int, x: Array | None) -> "_Terms":
        """Return the factors for features of these simulations."""
        if x is None:
            return cls(n_dims, np.empty(0), np.empty(0), np.empty(0))
        columns = np.asarray(x, dtype=float).reshape(len(x), -1)
        sd = columns.std(axis=0)
        plain = cls(n_dims, columns.mean(axis=0), np.where(sd > 0, sd, np.inf), np.zeros(1))
        crossed = plain.of_features(x, len(x))[:, 1 + len(sd) :]
        return cls(n_dims, plain.mean, plain.sd, crossed.mean(axis=0))

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The pairs of parameters."""
        first, second = np.triu_indices(min(self.n_dims, _MOST_PAIRED), 1)
        return first, second

    @cached_property
    def crossed(self) -> tuple[Ints, Ints]:
        """The pairs of features."""
        first, second = np.triu_indices(min(len(self.mean), _MOST_CROSSED))
        return first, second

    @cached_property
    def powers(self) -> list[tuple[int, ...]]:
        """The parameters of each function of points, a square as twice the same."""
        single = [(k,) for k in range(self.n_dims)]
        return [*single, *((k, k) for (k,) in single), *_zipped(self.pairs)]

    @cached_property
    def data_powers(self) -> list[tuple[int, ...]]:
        """The features of each function of the data."""
        return [(), *((m,) for m in range(len(self.mean))), *_zipped(self.crossed)]

    @property
    def groups_of_points(self) -> list[slice]:
        """The places of parameters, of their squares, and of products of two."""
        return _consecutive(self.n_dims, self.n_dims, len(self.pairs[0]))

    @property
    def groups_of_features(self) -> list[slice]:
        """The places of the constant, of features, and of products of two."""
        return _consecutive(1, len(self.mean), len(self.crossed[0]))

    def of_points(self, z: Floats) -> Floats:
        """Return functions of points in their units, `(n_points, n_sims, n_of_points)`."""
        first, second = self.pairs
        products = z[..., first] * z[..., second]
        return np.concatenate([z, (z * z - 1) * 0.5**0.5, products], axis=-1)

    def of_features(self, x: Array | None, n_sims: int) -> Floats:
        """Return functions of the data, `(n_sims, n_of_features)`."""
        constant = np.ones((n_sims, 1))
        if x is None:
            return constant
        g = (np.asarray(x, dtype=float).reshape(n_sims, -1) - self.mean) / self.sd
        first, second = self.crossed
        return np.concatenate([constant, g, g[:, first] * g[:, second] - self.offset], axis=1)

    def telling(self, sizes: Floats, products: Floats) -> tuple[Term, ...]:
        """Return the terms with the largest of some `sizes`, less those that repeat another.

        Arguments:
            sizes: Sizes of the coefficients, `(n_of_points, n_of_features)`.
            products: Functions of the data, `(n_sims, n_of_features)`.
        """
        chosen: list[tuple[int, int]] = []
        for k in np.argsort(-sizes, axis=None, kind="stable")[:_N_TRIED]:
            a, b = divmod(int(k), sizes.shape[1])
            small = sizes[a, b] <= sizes.max() / 3 and len(chosen) > 0
            if small or sizes[a, b] == 0 or len(chosen) == _N_TELLING:
                break
            columns = (products[:, other] for same, other in chosen if same == a)
            if not any(_alike(products[:, b], column) for column in columns):
                chosen.append((a, b))
        return tuple((self.powers[a], self.data_powers[b]) for a, b in chosen)


def _alike(first: Floats, second: Floats) -> bool:
    """Return whether two columns are so correlated that one repeats the other."""
    size = np.sqrt((first @ first) * (second @ second))
    return bool(abs(first @ second) > 0.5 * size)


def posterior_mean(z: Floats) -> Floats:
    r"""Return the posterior means of coefficients, given their standardised estimates.

    With :math:`z \sim N(\delta, 1)`, where :math:`\delta` is zero with probability
    :math:`1 - \pi` and otherwise from :math:`N(0, \tau^2)`. The pairs :math:`(\pi, \tau)`, and no
    coefficient at all, are averaged over by their likelihood.
    """
    if not z.size:
        return z
    pairs = [(share, size) for share in _SHARES for size in _SIZES]
    logs = np.array([0.0, *(_likelihoods(z, *pair)[0].sum() for pair in pairs)])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = np.zeros_like(z)
    for weight, (share, size) in zip(weights[1:], pairs, strict=True):
        if weight > 1e-9:
            other = _likelihoods(z, share, size)[1]
            mean += weight * other * z * size**2 / (1 + size**2)
    return mean


def _likelihoods(z: Floats, share: float, size: float) -> tuple[Floats, Floats]:
    """Return log-likelihoods relative to no coefficient, and how likely each one is not zero."""
    ratio = 0.5 * z**2 * size**2 / (1 + size**2) - 0.5 * np.log1p(size**2) + np.log(share)
    total = np.logaddexp(np.log1p(-share), ratio) if share < 1 else ratio
    return total, np.exp(ratio - total)


def _zipped(pairs: tuple[Ints, Ints]) -> Iterator[tuple[int, int]]:
    return ((int(a), int(b)) for a, b in zip(*pairs, strict=True))


def _consecutive(*sizes: int) -> list[slice]:
    """Return ranges of these sizes, one after another."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(low, high) for low, high in pairwise(ends)]


def _chunks(n_sims: int, n_each: int) -> Iterator[slice]:
    """Yield ranges of simulations, each with a bounded number of numbers."""
    step = max(1, _CHUNK // n_each)
    return (slice(start, min(start + step, n_sims)) for start in range(0, n_sims, step))

r"""The second step of a repair: draws are kept with a probability.

With :math:`z` whitened points and :math:`g` features of the data, draws are accepted with
probability proportional to

.. math:: \min(e^{f(z, g)},\; 4\, \bar w), \qquad f = c \cdot \phi(z, g),

where the functions :math:`\phi` are bounded: cosines of :math:`\Phi(z_k)`, smooth steps in the
tails and of the radius, products of two parameters, and products with features. The coefficients
maximise the conditional likelihood of the truths among their draws,

.. math:: \sum_i \left( f(z^*_i) - \log \frac1n \sum_j e^{f(z_{ij})} \right)
          - \frac{\lambda}{2} |c|^2 ,

whose gain on simulations that were left out is a lower bound, in expectation, of the nats by which
the kept draws are closer to the truths' posterior.
"""

from dataclasses import dataclass
from math import log

import numpy as np

from .._base.types import Floats

CAP = log(4.0)  # weights are at most four times their mean
_N_COSINES = 6
_TAILS = (1.5, 2.0, 2.5, 3.0, 4.0)
_RADII = (0.5, 0.9, 0.99)
_SOFT = 0.2  # width of the steps
_FARTHEST = 40.0  # from which on steps are flat to all digits
# Penalties relative to those of functions that all parameters share.
_COST_OF_ONE, _COST_OF_PAIRS, _COST_OF_DATA = 2.0, 2.0, 3.0
_MOST_PAIRED = 4  # parameters, above which pairs have one product
_MOST_CROSSED = 32  # products of parameters and features
# Penalties that are tried with each family of functions, the largest first.
_RIDGES = ((30.0, 10.0, 3.0), (100.0, 30.0, 10.0), (300.0, 100.0, 30.0))


def terms(z: Floats, features: Floats) -> Floats:
    """Return the functions of whitened points, `(..., n_sims, n_terms)`.

    First those that all parameters share, then those of one parameter, then products. Functions
    are over the root of their relative penalty: products cost more than the others.

    Arguments:
        z: Whitened points, `(..., n_sims, n_dims)`.
        features: Features of the data, `(n_sims, n_features)`, without the constant.
    """
    n_dims = z.shape[-1]
    cosines, tails, sides = _singles(z)
    singles = [*cosines, *tails, *sides]
    columns = [np.stack([one.sum(axis=-1) / np.sqrt(n_dims) for one in singles], axis=-1)]
    if n_dims > 1:
        columns += [_rings(z), np.concatenate(singles, axis=-1) / np.sqrt(_COST_OF_ONE)]
        columns += _pairs(*cosines[:2])
    if 0 < n_dims * features.shape[1] <= _MOST_CROSSED:
        crossed = (one[..., None] * features[:, None] for one in (*cosines[:2], *sides))
        columns += [one.reshape(*z.shape[:-1], -1) / np.sqrt(_COST_OF_DATA) for one in crossed]
    return np.concatenate(columns, axis=-1)


def families(n_dims: int, n_features: int) -> list[list[tuple[int, float]]]:
    """Return what is tried, per family: how many of the first functions, and the penalty."""
    n_each = _N_COSINES + len(_TAILS) + len(_TAILS[::2])
    sizes = [n_each, n_each, n_terms(n_dims, n_features)]
    if n_dims > 1:
        sizes[0] += len(_RADII)
        sizes[1] = sizes[0] + n_each * n_dims
    return [
        [(size, ridge) for ridge in ridges]
        for k, (size, ridges) in enumerate(zip(sizes, _RIDGES, strict=True))
        if size not in sizes[:k]
    ]


def n_fitted(n_dims: int) -> int:
    """Return how many draws of a simulation are used for fitting."""
    return 40 if n_dims <= _MOST_PAIRED else 30


def n_terms(n_dims: int, n_features: int) -> int:
    """Return the number of functions."""
    return terms(np.zeros((1, n_dims)), np.zeros((1, n_features))).shape[-1]


def _singles(z: Floats) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Return functions of one parameter: cosines, both tails together, and their difference."""
    from scipy.special import ndtr

    first = np.cos(np.pi * ndtr(z))
    cosines = [np.sqrt(2) * first, np.sqrt(2) * (2 * first**2 - 1)]
    while len(cosines) < _N_COSINES:  # cos (j + 1) a = 2 cos a cos j a - cos (j - 1) a
        cosines.append(2 * first * cosines[-1] - cosines[-2])
    falling = np.exp(-np.clip(z, -_FARTHEST, _FARTHEST) / _SOFT)
    beyond = np.exp(np.array(_TAILS) / _SOFT)
    steps = [(1 / (1 + far * falling), falling / (falling + far)) for far in beyond]
    tails, sides = ([2 * (up + sign * down) for up, down in steps] for sign in (1, -1))
    return cosines, tails, sides[::2]


def _rings(z: Floats) -> Floats:
    """Return smooth steps of the radius at quantiles of its distribution for a normal one."""
    from scipy.special import expit, gammaincinv

    radius = np.sqrt(np.square(z).sum(axis=-1))[..., None]
    quantiles = np.sqrt(2 * gammaincinv(z.shape[-1] / 2, _RADII))
    return np.asarray(2 * expit((radius - quantiles) / _SOFT))


def _pairs(first: Floats, second: Floats) -> list[Floats]:
    """Return products of the first two cosines of different parameters."""
    i, j = np.triu_indices(first.shape[-1], 1)
    orders = [(first, first), (first, second), (second, first), (second, second)]
    some = orders if first.shape[-1] <= _MOST_PAIRED else orders[:1]
    return [a[..., i] * b[..., j] / np.sqrt(_COST_OF_PAIRS) for a, b in some]


@dataclass(frozen=True, eq=False)
class Keep:
    """A log-linear weight.

    Arguments:
        coefficients: Coefficients of the functions, `(n_terms,)`.
        top: Logarithm of the largest weight over its mean, at most that of four.
    """

    coefficients: Floats
    top: float

    @classmethod
    def fit(cls, truths: Floats, draws: Floats, ridge: float, n_used: int | None = None) -> "Keep":
        """Return the weight that tells truths from draws, both as `terms`.

        Arguments:
            truths: Functions of the truths.
            draws: Functions of the draws.
            ridge: Penalty.
            n_used: How many of the first functions are used, by default all.
        """
        from scipy.optimize import minimize

        n_terms = draws.shape[-1]
        truths, draws = truths[..., :n_used], np.ascontiguousarray(draws[..., :n_used])
        *shape, n_columns = draws.shape
        every = draws.reshape(-1, n_columns)  # one product of a matrix and a vector is quicker
        many = truths.size // draws[0].size
        wanted = truths.reshape(-1, n_columns).sum(axis=0) / many

        def loss(c: Floats) -> tuple[float, Floats]:
            scores = (every @ c).reshape(shape)
            largest = scores.max(axis=0)
            weights = np.exp(scores - largest)
            total = weights.sum(axis=0)
            likelihood = (truths @ c - largest - np.log(total)).sum() / many
            expected = (weights / total).ravel() @ every
            return (
                -float(likelihood) + 0.5 * ridge * float(c @ c),
                expected - wanted + ridge * c,
            )

        start = np.zeros(n_columns)
        c = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 80}).x
        scores = draws @ c
        over = scores - _log_mean(scores)
        whole = np.pad(c, (0, n_terms - n_columns))
        return cls(whole, min(CAP, float(np.quantile(over, 0.999))))

    def gains(self, truths: Floats, draws: Floats) -> Floats:
        """Return log-likelihood ratios of truths among their draws, in nats."""
        return truths @ self.coefficients - _log_mean(draws @ self.coefficients)

    def probabilities(self, held_out: Floats, draws: Floats) -> Floats:
        """Return acceptance probabilities of draws, normalised by held-out ones; all `terms`."""
        top = _log_mean(held_out @ self.coefficients) + self.top
        return np.exp(np.minimum(draws @ self.coefficients - top, 0))

    def lost(self, truths: Floats, draws: Floats) -> float:
        """Return the share of the posterior that the cap removes, as truths show it."""
        return float(np.maximum(1 - np.exp(CAP - self.gains(truths, draws)), 0).mean())


def _log_mean(scores: Floats) -> Floats:
    largest = scores.max(axis=0)
    return np.asarray(largest + np.log(np.exp(scores - largest).mean(axis=0)))

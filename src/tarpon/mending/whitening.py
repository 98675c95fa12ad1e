r"""Units of a posterior, from held-out draws and the data.

A repair may see a point only through :math:`(\theta, x, \omega)`, where :math:`\omega` are draws
of the same simulation that are held out and never published. They give a mean, standard deviations
and correlations. With few draws these are noisy, and what is moved or weighted by them inherits
the noise. So each is shrunk towards its regression on the data, as far as the two halves of
:math:`\omega` do not agree about its departure from it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._base.types import Array, Floats

_MOST_HELD_OUT = 200
_MOST_FEATURES = 32
_SIMS_PER_FEATURE = 40
_FAR = 4.0  # sd, beyond which features are clipped
_STEEP = 8.0  # inverse width of steps, in sd
_LIMIT = 2.5  # noise sd by which units may be shrunk away from the draws
_LEAST_SD = 1e-3  # of the part of a feature that the others do not explain


def n_held_out(n_draws: int) -> int:
    """Return how many draws are held out: the first third, at most 200."""
    return min(n_draws // 3, _MOST_HELD_OUT)


@dataclass(frozen=True, eq=False)
class Frame:
    """Units of posteriors, and features of their data.

    Arguments:
        mean: Means, `(n_sims, n_dims)`.
        sd: Standard deviations, `(n_sims, n_dims)`.
        root: Cholesky factors of the correlations, `(n_sims, n_dims, n_dims)`.
        features: Features of the data, `(n_sims, n_features)`, the first of them one.
    """

    mean: Floats
    sd: Floats
    root: Floats
    features: Floats

    def scaled(self, points: Floats) -> Floats:
        """Return points `(..., n_sims, n_dims)` less their mean, in units of the sd."""
        return (points - self.mean) / self.sd

    def whitened(self, scaled: Floats) -> Floats:
        """Return scaled points without their correlation."""
        return along(np.linalg.inv(self.root), scaled)

    def __getitem__(self, where: Array) -> "Frame":
        return Frame(self.mean[where], self.sd[where], self.root[where], self.features[where])


def along(matrices: Floats, points: Floats) -> Floats:
    """Return matrices `(n_sims, n, m)` times points `(..., n_sims, m)`."""
    return np.einsum("skl,...sl->...sk", matrices, points)


@dataclass(frozen=True, eq=False)
class Shrunk:
    r"""A number per simulation, shrunk towards its regression on the data.

    .. math:: \tilde v = \hat v(x) + r - \mathrm{clip}(B r, \pm 2.5\, \sigma), \qquad
              r = v_\omega - \hat v(x),

    with :math:`1 - B` the covariance of the residuals of both halves of :math:`\omega` over the
    variance of those of all, and :math:`\sigma` the noise of :math:`v_\omega`.

    Arguments:
        slopes: Regression on the features, `(n_features, n_numbers)`.
        factor: The factor :math:`B` per number.
        noise: The sd of the noise per number.
    """

    slopes: Floats
    factor: Floats
    noise: Floats

    @classmethod
    def fit(cls, features: Floats, whole: Floats, halves: tuple[Floats, Floats]) -> "Shrunk":
        """Return the shrinkage for numbers of all held-out draws and of their halves."""
        solve = np.linalg.pinv(features)
        slopes = solve @ whole
        first, second = (half - features @ (solve @ half) for half in halves)
        left = whole - features @ slopes
        total = np.maximum((left**2).mean(axis=0), 1e-300)
        signal = np.clip((first * second).mean(axis=0), 0, total)
        return cls(slopes, 1 - signal / total, np.sqrt(total - signal))

    def __call__(self, features: Floats, whole: Floats) -> Floats:
        left = whole - features @ self.slopes
        return whole - np.clip(self.factor * left, -_LIMIT * self.noise, _LIMIT * self.noise)


@dataclass(frozen=True, eq=False)
class DataFeatures:
    r"""Features of the data: directions, smooth steps along them, and their squares.

    Directions are the standardised numbers of :math:`x`, decorrelated symmetrically; the leading
    principal ones if there are many. If there are more of them than parameters, they are turned so
    that the first ones are those that the means of the draws follow.

    Arguments:
        mean: Means of the numbers, `(n_numbers,)`.
        turn: Matrix that decorrelates them, `(n_numbers, n_directions)`.
        slopes: Regression of steps and squares on directions.
        scale: Inverse sd of what that leaves, zero where nothing is left.
    """

    mean: Floats
    turn: Floats
    slopes: Floats
    scale: Floats

    @classmethod
    def fit(cls, x: Array | None, means: Floats) -> "DataFeatures":
        """Return the features of these data, for posteriors with these means."""
        n_sims = len(means)
        numbers = _flat(x, n_sims)
        most = int(np.clip(n_sims // _SIMS_PER_FEATURE, 1, _MOST_FEATURES))
        turn = _turn(numbers, most)
        turn = turn @ _leading((numbers - numbers.mean(axis=0)) @ turn, means)
        plain = cls(numbers.mean(axis=0), turn, np.zeros((0, 0)), np.zeros(0))
        first, second = plain._parts(x, n_sims)
        slopes = np.linalg.pinv(first) @ second
        sd = (second - first @ slopes).std(axis=0)
        return cls(plain.mean, plain.turn, slopes, inverse(sd, sd > _LEAST_SD))

    def __call__(self, x: Array | None, n_sims: int) -> Floats:
        first, second = self._parts(x, n_sims)
        return np.column_stack([first, (second - first @ self.slopes) * self.scale])

    @property
    def n_directions(self) -> int:
        """The number of directions."""
        return self.turn.shape[1]

    def _parts(self, x: Array | None, n_sims: int) -> tuple[Floats, Floats]:
        g = np.clip((_flat(x, n_sims) - self.mean) @ self.turn, -_FAR, _FAR)
        return np.column_stack([np.ones(n_sims), g]), np.column_stack([np.tanh(_STEEP * g), g**2])


def _flat(x: Array | None, n_sims: int) -> Floats:
    return np.zeros((n_sims, 0)) if x is None else np.asarray(x, dtype=float).reshape(n_sims, -1)


def inverse(sd: Floats, where: Array) -> Floats:
    """Return the inverse of numbers at some places, and zero elsewhere."""
    return np.divide(1.0, sd, where=where, out=np.zeros_like(sd))


def _turn(numbers: Floats, most: int) -> Floats:
    """Return a matrix that standardises and decorrelates columns, symmetrically if few."""
    sd = numbers.std(axis=0)
    scale = inverse(sd, sd > 1e-9 * np.maximum(abs(numbers).max(axis=0, initial=0), 1e-300))
    _, values, rows = np.linalg.svd((numbers - numbers.mean(axis=0)) * scale, full_matrices=False)
    keep = values > 1e-3 * values.max(initial=0)
    turn = rows[keep].T / values[keep] * np.sqrt(len(numbers))
    turn = turn @ rows[keep] if numbers.shape[1] <= most else turn[:, :most]
    return turn * scale[:, None]


def _leading(directions: Floats, means: Floats) -> Floats:
    """Return the rotation of directions, of which the first ones follow the means, one each."""
    n, n_dims = directions.shape[1], means.shape[1]
    if n <= n_dims:
        return np.eye(n)
    about = means - means.mean(axis=0)
    sd = about.std(axis=0)
    turned, _, back = np.linalg.svd(directions.T @ (about * inverse(sd, sd > 0)))
    return np.column_stack([turned[:, :n_dims] @ back, turned[:, n_dims:]])


@dataclass(frozen=True, eq=False)
class Whitening:
    """Units of posteriors, fitted to simulations.

    Arguments:
        data: Features of the data.
        means: Shrinkage of the means.
        log_sds: Shrinkage of the logarithms of sd.
        correlations: Shrinkage of Fisher's z of the correlations.
        own: Regression of shrunk means and logarithms of sd on the features.
        own_scale: Inverse sd of what that leaves, zero where nothing is left.
    """

    data: DataFeatures
    means: Shrunk
    log_sds: Shrunk
    correlations: Shrunk
    own: Floats
    own_scale: Floats

    @classmethod
    def fit(cls, held_out: Floats, x: Array | None) -> "Whitening":
        """Return units for simulations with these held-out draws and data."""
        n_sims = held_out.shape[1]
        whole, *halves = map(_moments, (held_out, held_out[::2], held_out[1::2]))
        data = DataFeatures.fit(x, whole[0])
        known = data(x, n_sims)
        means, log_sds = (
            Shrunk.fit(known, whole[k], (halves[0][k], halves[1][k])) for k in (0, 1)
        )
        constant = known[:, :1]
        correlations = Shrunk.fit(constant, whole[2], (halves[0][2], halves[1][2]))
        numbers = np.column_stack([means(known, whole[0]), log_sds(known, whole[1])])
        own = np.linalg.pinv(known) @ numbers
        sd, total = (numbers - known @ own).std(axis=0), numbers.std(axis=0)
        noise = np.concatenate([means.noise, log_sds.noise])
        scale = inverse(sd, sd > np.maximum(0.5 * noise, _LEAST_SD * total))
        return cls(data, means, log_sds, correlations, own, scale)

    def __call__(self, held_out: Floats, x: Array | None) -> Frame:
        n_sims, n_dims = held_out.shape[1:]
        known = self.data(x, n_sims)
        mean, log_sd, bent = _moments(held_out)
        mean, log_sd = self.means(known, mean), self.log_sds(known, log_sd)
        numbers = (np.column_stack([mean, log_sd]) - known @ self.own) * self.own_scale
        features = np.column_stack([known, np.clip(numbers, -_FAR, _FAR)])
        bent = self.correlations(known[:, :1], bent)
        return Frame(mean, np.exp(log_sd), cholesky(np.tanh(bent), n_dims), features)

    @property
    def n_features(self) -> int:
        """The number of features, the constant among them."""
        return 1 + 3 * self.data.n_directions + len(self.own_scale)

    @property
    def linear(self) -> slice:
        """The places of the directions among the features."""
        return slice(1, 1 + self.data.n_directions)

    @property
    def groups(self) -> list[slice]:
        """The places of the constant, of directions, steps, squares, means and widths."""
        n, d = self.data.n_directions, len(self.own_scale) // 2
        ends = np.cumsum([0, 1, n, n, n, d, d]).tolist()
        return [slice(a, b) for a, b in pairwise(ends) if b > a]

    @property
    def near(self) -> Array:
        """Which features are a parameter's own, `(n_features, n_dims)`.

        These are the constant, its mean and width, and functions of the direction of the data that
        its mean follows most.
        """
        d = self.means.slopes.shape[1]
        follows = abs(self.means.slopes[self.linear])
        closest = (follows == follows.max(axis=0, initial=0)) & (follows > 0)
        same = np.eye(d, dtype=bool)
        return np.concatenate([np.ones((1, d), dtype=bool), *[closest] * 3, same, same])


def _moments(draws: Floats) -> tuple[Floats, Floats, Floats]:
    """Return means, logarithms of sd, and Fisher's z of the correlations of draws."""
    n, _, n_dims = draws.shape
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    sd = np.maximum(sd, 1e-12 * np.maximum(sd.max(axis=0), 1e-300))
    z = (draws - mean) / sd
    i, j = np.triu_indices(n_dims, 1)
    r = np.einsum("nsk,nsl->skl", z, z)[:, i, j] / (n - 1)
    return mean, np.log(sd), np.arctanh(np.clip(r, -0.999, 0.999))


def cholesky(r: Floats, n_dims: int) -> Floats:
    """Return Cholesky factors of correlation matrices from their upper triangles."""
    whole = np.broadcast_to(np.eye(n_dims), (len(r), n_dims, n_dims)).copy()
    i, j = np.triu_indices(n_dims, 1)
    whole[:, i, j] = whole[:, j, i] = r
    return np.linalg.cholesky(_positive(whole))


def correlations(roots: Floats) -> Floats:
    """Return the upper triangles of correlation matrices from their Cholesky factors."""
    i, j = np.triu_indices(roots.shape[-1], 1)
    return np.asarray((roots @ roots.swapaxes(-1, -2))[..., i, j])


def _positive(matrices: Floats, least: float = 0.02) -> Floats:
    """Return correlation matrices whose eigenvalues are at least some number."""
    values, vectors = np.linalg.eigh(matrices)
    if values.min(initial=1.0) >= least:
        return matrices
    fixed = (vectors * np.maximum(values, least)[..., None, :]) @ vectors.swapaxes(-1, -2)
    sd = np.sqrt(np.diagonal(fixed, axis1=-2, axis2=-1))
    return fixed / sd[..., None, :] / sd[..., :, None]

"""A log-linear score: the components of `check`, each group with a penalty of its own."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .._base.arrays import power_of_two
from .._base.types import Array, Floats, Ints

_FAR = 5.0  # sd at which points are held, and observations at 3, so that no bet is extreme
_FAR_X = 3.0
_MOST_PAIRED = 32  # parameters of which products of two are made
_MOST_OBSERVED = 16  # numbers of an observation that are used
_MOST_CROSSED = 256  # products of parameters and observations
_ABOVE_NOISE = 2.0  # mean square of standardised estimates from which on a group takes part
_MOST_NUMBERS = 2**22  # that are learned from; fewer draws of each simulation if there are more
_FEWEST_DRAWS = 8
_N_ROUNDS, _N_STEPS = 3, 20
_ENOUGH = 1e-3  # gain of log-likelihood, in nats of all simulations, that is not worth a step


@dataclass(frozen=True)
class LogLinear:
    r"""A sum of the components that `check` looks at, with an empirical-Bayes penalty per group.

    With :math:`z` the standardised points of a simulation and :math:`g` its observation, the
    groups are biases :math:`z_k`, widths :math:`z_k^2`, their sum, skewness and tails (Hermite
    polynomials of degree 3 and 4), pairs :math:`z_k z_l`, and biases and widths that follow the
    data, :math:`z_k g_m` and :math:`z_k^2 g_m`. Coefficients are fitted by penalised likelihood to
    the truths among their draws. The penalty of a group is one over the mean square of its
    coefficients, as the data estimate it; groups that are not above noise are left out.

    Observations of more than 16 numbers are not used.

    Example:
        >>> sims = tarpon.problems.zoo("correlation_missed", n_sims=400, rng=0)
        >>> monitor = tarpon.Monitor(adversary=tarpon.adversaries.LogLinear(), rng=0)
        >>> monitor.add(sims).nats_low > 0.005
        True
    """

    def fit(self, theta: Array, samples: Array, x: Array | None) -> "LogLinearScore":
        """Return the score that distinguishes these truths from their draws."""
        return fitted(standardised(np.concatenate([theta[None], samples])), x)


@dataclass(frozen=True, eq=False)
class LogLinearScore:
    """A fitted log-linear score.

    Arguments:
        components: What it is a sum of.
        slope: Coefficients, 0 in groups that are left out.
    """

    components: "_Components"
    slope: Floats

    def __call__(self, points: Array, x: Array | None) -> Floats:
        """Return scores `(n_points, n_sims)` of points in any units."""
        return self.of_units(standardised(points), x)

    def of_units(self, z: Floats, x: Array | None) -> Floats:
        """Return scores of points in units of the mean and sd of their simulation."""
        if not self.slope.any():
            return np.zeros(z.shape[:2])
        return self.components(z, x) @ self.slope


def standardised(points: Array) -> Floats:
    """Return points in units of the mean and sd of their simulation."""
    about = points - points.mean(axis=0, dtype=float)
    about /= power_of_two(abs(about).max(axis=0))
    sd = np.sqrt(np.square(about).mean(axis=0))
    return about / np.where(sd > 0, sd, 1.0)


def fitted(z: Floats, x: Array | None) -> LogLinearScore:
    """Return the score that distinguishes the first point of each simulation from the others.

    Arguments:
        z: Points in units of their simulation, `(n_points, n_sims, n_dims)`.
        x: Observations `(n_sims, ...)`, or None.
    """
    components = _Components.of(z.shape[-1], x)
    n_kept = _MOST_NUMBERS // (z.shape[1] * len(components.groups))
    features = components(z[: 1 + max(n_kept, _FEWEST_DRAWS)], x)
    features -= features.mean(axis=0)
    slope = np.zeros(features.shape[-1])
    size = _sizes(features, components.groups)
    some = np.flatnonzero(size > 0)
    if len(some):
        slope[some] = _penalised(features[..., some], components.groups[some], size[some])
    return LogLinearScore(components, slope)


@dataclass(frozen=True, eq=False)
class _Components:
    """The functions of points and observations that are added up.

    Arguments:
        n_dims: Number of parameters.
        mean: Means of the numbers of observations; none if these are not used.
        sd: Their standard deviations.
    """

    n_dims: int
    mean: Floats = field(default_factory=lambda: np.empty(0))
    sd: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, n_dims: int, x: Array | None) -> "_Components":
        """Return the functions for these observations."""
        n_columns = 0 if x is None else int(np.prod(x.shape[1:]))
        if x is None or n_columns > _MOST_OBSERVED or n_dims * n_columns > _MOST_CROSSED:
            return cls(n_dims)
        columns = np.asarray(x, dtype=float).reshape(len(x), -1)
        sd = columns.std(axis=0)
        return cls(n_dims, columns.mean(axis=0), np.where(sd > 0, sd, np.inf))

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The pairs of parameters."""
        first, second = np.triu_indices(min(self.n_dims, _MOST_PAIRED), 1)
        return first, second

    @cached_property
    def groups(self) -> Ints:
        """The group of each component."""
        n, n_crossed = self.n_dims, self.n_dims * len(self.mean)
        sizes = [n, n, int(n > 1), n, n, len(self.pairs[0]), n_crossed, n_crossed]
        return np.repeat(np.arange(len(sizes)), sizes)

    def __call__(self, z: Floats, x: Array | None) -> Floats:
        """Return the components, `(n_points, n_sims, n_components)`."""
        z = np.clip(z, -_FAR, _FAR)
        square = z * z
        width = (square - 1) * 0.5**0.5
        first, second = self.pairs
        found = [z, width]
        if self.n_dims > 1:
            found.append(width.sum(axis=-1, keepdims=True) / np.sqrt(self.n_dims))
        found += [z * (square - 3) / 6**0.5, (square * (square - 6) + 3) / 24**0.5]
        found.append(z[..., first] * z[..., second])
        if len(self.mean) and x is not None:
            columns = np.asarray(x, dtype=float).reshape(len(x), -1)
            g = np.clip((columns - self.mean) / self.sd, -_FAR_X, _FAR_X)[:, None]
            found += [(one[..., None] * g).reshape(*z.shape[:2], -1) for one in (z, width)]
        return np.concatenate(found, axis=-1)


def _sizes(features: Floats, groups: Ints) -> Floats:
    """Return the mean square of the coefficients of each group, 0 where it is not above noise."""
    gain = features[0].sum(axis=0)
    information = np.square(features).mean(axis=0).sum(axis=0)
    varies = information > 1e-9 * information.max(initial=1e-300)
    z2 = np.where(varies, gain**2 / np.where(varies, information, 1.0), 0.0)
    size = np.zeros(len(groups))
    for group in np.unique(groups):
        here = (groups == group) & varies
        if here.any():
            size[here] = max(0.0, z2[here].mean() - _ABOVE_NOISE) / information[here].mean()
    return size


def _penalised(features: Floats, groups: Ints, size: Floats) -> Floats:
    """Return the coefficients, with penalties that are estimated from them in a few rounds."""
    slope: Floats = np.zeros(len(groups))
    for _ in range(_N_ROUNDS):
        slope, covariance = _likeliest(features, slope, 1 / size)
        square = slope**2 + np.diag(covariance)
        n = np.bincount(groups, minlength=groups.max() + 1)
        size = (np.bincount(groups, square) / np.maximum(n, 1))[groups]
    return slope


def _likeliest(features: Floats, slope: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients of the largest penalised likelihood, and their covariance."""
    value, gradient, curvature = _likelihood(features, slope, penalty)
    for _ in range(_N_STEPS):
        step = np.linalg.solve(curvature, gradient)
        for halving in range(30):
            tried = slope + step / 2**halving
            reached = _likelihood(features, tried, penalty)
            if reached[0] >= value:
                break
        gain, slope = reached[0] - value, tried
        value, gradient, curvature = reached
        if gain < _ENOUGH:
            break
    return slope, np.linalg.inv(curvature)


def _likelihood(features: Floats, slope: Floats, penalty: Floats) -> tuple[float, Floats, Floats]:
    """Return the penalised log-likelihood, its gradient, and its negative Hessian."""
    scores = features @ slope
    share = np.exp(scores - scores.max(axis=0))
    share /= share.sum(axis=0)
    mean = (share[..., None] * features).sum(axis=0)
    weighted = (np.sqrt(share)[..., None] * features).reshape(-1, len(slope))
    value = np.log(np.maximum(share[0], 1e-300)).sum() - 0.5 * (penalty * slope**2).sum()
    gradient = (features[0] - mean).sum(axis=0) - penalty * slope
    return float(value), gradient, weighted.T @ weighted - mean.T @ mean + np.diag(penalty)

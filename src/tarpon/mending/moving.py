r"""The first step of a repair: draws are moved.

In units of the posterior as `Whitening` gives them, with mean :math:`m`, sd :math:`s` and root
:math:`L` of the correlation, and features :math:`g` of the data,

.. math:: \theta' = m + s \odot \left(g B + e^{g S} \odot L' L^{-1}\, \frac{\theta - m}{s}\right) .

Location and log-scale are regressions on the features, of truths on their draws. :math:`L'` is the
root of correlations whose Fisher's z is larger by a constant :math:`\delta` per pair. Every
coefficient is a posterior mean under a prior in which most of them are zero, group by group, so
that nothing is moved that is not above noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._base.types import Array, Floats
from ..sequential.products import posterior_mean
from .whitening import Frame, Whitening, along, cholesky, correlations

_OUTLYING = 5.0  # sd, beyond which a truth counts as this far
_MEDIAN_OF_SQUARES = 0.455  # of a standard normal number
_STEEPEST = 3.0  # largest logarithm of a scale
_N_SCORING = 8
_LARGEST_Z = 4.0  # of Fisher, a correlation of 0.9993


@dataclass(frozen=True, eq=False)
class Move:
    """Location, scale and correlation, as functions of the data.

    Arguments:
        location: Coefficients of the location in sd, `(n_features, n_dims)`.
        log_scale: Coefficients of the logarithm of the scale, `(n_features, n_dims)`.
        bend: Change of Fisher's z of the correlations, `(n_pairs,)`.
    """

    location: Floats
    log_scale: Floats
    bend: Floats

    @classmethod
    def fit(cls, frame: Frame, truths: Floats, draws: Floats, whitening: Whitening) -> "Move":
        """Return the move that makes draws scatter as the truths.

        Arguments:
            frame: Units of the simulations.
            truths: Truths in these units, `(n_sims, n_dims)`.
            draws: Draws in these units, `(n_draws, n_sims, n_dims)`.
            whitening: How the units were made, which says what features are shrunk together.
        """
        centre = draws.mean(axis=0)
        variance = draws.var(axis=0, ddof=1).mean(axis=0)
        location = _location(frame.features, truths - centre, np.sqrt(variance), whitening)
        left = truths - centre - frame.features @ location
        ratio = left**2 / variance / (1 + 1 / len(draws))
        log_scale = _log_scale(frame.features, ratio, whitening.groups)
        plain = cls(location, log_scale, np.zeros(0))
        bare = (plain.undone(frame, truths - centre), draws - centre)
        return cls(location, log_scale, _bend(frame, *(one / np.sqrt(variance) for one in bare)))

    def __call__(self, frame: Frame, draws: Floats) -> Floats:
        """Return moved draws, all in units of the frame."""
        location, scale = self.at(frame)
        return location + scale * along(self.root(frame), frame.whitened(draws))

    def whitened(self, frame: Frame, points: Floats) -> Floats:
        """Return moved points, in units of the frame, without location, scale and correlation."""
        return along(np.linalg.inv(self.root(frame)), self.undone(frame, points))

    def undone(self, frame: Frame, points: Floats) -> Floats:
        """Return points less the location and over the scale."""
        location, scale = self.at(frame)
        return (points - location) / scale

    def at(self, frame: Frame) -> tuple[Floats, Floats]:
        """Return location and scale for the data of a frame, each `(n_sims, n_dims)`."""
        log_scale = np.clip(frame.features @ self.log_scale, -_STEEPEST, _STEEPEST)
        return frame.features @ self.location, np.exp(log_scale)

    def root(self, frame: Frame) -> Floats:
        """Return Cholesky factors of the correlations of moved draws."""
        if not self.bend.any():
            return frame.root
        return cholesky(
            np.tanh(np.arctanh(correlations(frame.root)) + self.bend), len(self.location.T)
        )


def _location(features: Floats, errors: Floats, sd: Floats, whitening: Whitening) -> Floats:
    """Return coefficients of the errors of draws, by least squares, shrunk.

    Errors that follow a parameter's own features are common, others are rare.
    """
    solve = np.linalg.pinv(features)
    found = solve @ errors
    left = np.clip(errors - features @ found, -_OUTLYING * sd, _OUTLYING * sd)
    spread = np.sqrt((solve**2) @ (left**2))
    near = whitening.near
    own = _shrunk(found, spread, whitening.groups, _few, near)
    return own + _shrunk(found, spread, whitening.groups, posterior_mean, ~near)


def _log_scale(features: Floats, ratio: Floats, groups: Sequence[slice]) -> Floats:
    """Return coefficients of the log-scale of standardised squares, by likelihood, shrunk.

    Those of single parameters are shrunk to their mean over parameters, and that to zero.
    """
    inverse = np.linalg.pinv(2 * features.T @ features)
    slopes = np.zeros((features.shape[1], ratio.shape[1]))
    largest = _OUTLYING**2 * np.median(ratio, axis=0) / _MEDIAN_OF_SQUARES
    slopes[0] = 0.5 * np.log(np.minimum(ratio, largest).mean(axis=0))
    for _ in range(_N_SCORING):
        excess = ratio * np.exp(-2 * np.clip(features @ slopes, -_STEEPEST, _STEEPEST)) - 1
        slopes = slopes + inverse @ (features.T @ np.clip(excess, -1, _OUTLYING**2))
    influence = inverse @ features.T  # of each simulation on each coefficient
    mean, spread_of_mean = (
        slopes.mean(axis=1, keepdims=True),
        np.sqrt((influence**2) @ np.square(excess.mean(axis=1, keepdims=True))),
    )
    common = _shrunk(mean, spread_of_mean, groups, _few)
    if ratio.shape[1] == 1:
        return common
    spread = np.sqrt((influence**2) @ (excess**2))
    return common + _shrunk(slopes - mean, spread, groups, posterior_mean)


def _shrunk(
    found: Floats,
    spread: Floats,
    groups: Sequence[slice],
    shrink: Callable[[Floats], Floats],
    where: Array | bool = True,
) -> Floats:
    """Return coefficients shrunk by their errors, group by group, and zero where not wanted."""
    out, usable = np.zeros_like(found), (spread > 0) & where
    for rows in groups:
        here = np.zeros_like(usable)
        here[rows] = usable[rows]
        out[here] = shrink(found[here] / spread[here]) * spread[here]
    return out


def _few(z: Floats) -> Floats:
    """Return standardised numbers shrunk as one group or one by one, whichever leaves more.

    The prior of `posterior_mean` expects nothing, which is too strict for constants and for widths
    that all parameters share: such errors are common. As a group they are shrunk by the factor of
    James and Stein, to zero unless their squares exceed what noise has by more than two standard
    deviations.
    """
    n, total = z.size, float((z**2).sum())
    factor = 1 - n / total if total > n + 2 * np.sqrt(2 * n) else 0.0
    alone = posterior_mean(z)
    return np.where(abs(alone) > factor * abs(z), alone, factor * z)


def _bend(frame: Frame, truths: Floats, draws: Floats) -> Floats:
    """Return the change of Fisher's z per pair that the truths ask for, beyond the draws."""
    r = correlations(frame.root)
    wanted, error = _fisher(truths, r)
    had = np.mean([_fisher(some, r)[0] for some in draws[:_N_SCORING]], axis=0)
    return _few((wanted - had) / error) * error


def _fisher(points: Floats, r: Floats) -> tuple[Floats, Floats]:
    r"""Return the constants that fit best when added to Fisher's z of correlations, and errors.

    By Fisher scoring of the likelihood of each pair of standardised numbers :math:`a, b`, with

    .. math:: \frac{\partial \ell}{\partial \delta}
              = \rho + \frac{(1 + \rho^2)\, ab - \rho\, (a^2 + b^2)}{1 - \rho^2}.
    """
    i, j = np.triu_indices(points.shape[-1], 1)
    clipped = np.clip(points, -_OUTLYING, _OUTLYING)
    a, b = clipped[:, i], clipped[:, j]
    most = np.tanh(_LARGEST_Z)
    base, delta = np.arctanh(np.clip(r, -most, most)), np.zeros(len(i))
    for _ in range(_N_SCORING):
        rho = np.tanh(np.clip(base + delta, -_LARGEST_Z, _LARGEST_Z))
        score = rho + ((1 + rho**2) * a * b - rho * (a**2 + b**2)) / (1 - rho**2)
        information = (1 + rho**2).mean(axis=0)
        # Far from the best constant, scoring would step beyond it.
        delta = delta + np.clip(score.mean(axis=0) / information, -1, 1)
    return delta, score.std(axis=0) / np.sqrt(len(points)) / information

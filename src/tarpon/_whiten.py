"""Points in units of the posterior that they come from."""

import numpy as np

from . import backends
from ._arrays import beside, single
from ._types import Array, Floats, Ints

_MOST_WHITENED = 256


def whiten(
    points: Array, n_points: int, centre: Floats, spread: Floats, weights: Floats | None = None
) -> Floats:
    """Return points about their centre, decorrelated and in units of their own spread.

    Arguments:
        points: Of shape `(n_all, n_sims, n_dims)`.
        n_points: How many of them, the first ones, define correlations.
        centre: Their mean, of shape `(n_sims, n_dims)`.
        spread: Their standard deviation, of shape `(n_sims, n_dims)`.
        weights: What each of those points weighs, `(n_points, n_sims)`, if not the same.
    """
    z = single((points - centre) / spread).swapaxes(0, 1)
    share = None
    if weights is not None:
        share = single(beside((weights / weights.mean(axis=0)).T[..., None], z))

    def correlation(where: slice) -> Floats:
        return _shrunk_correlation(z[where, :n_points], None if share is None else share[where])

    if 1 < z.shape[2] <= _MOST_WHITENED:
        z = backends.swaps(z).decorrelate(z, correlation)
    return z.swapaxes(0, 1)


def replaced(y: Floats, n_points: int, played: Ints) -> Floats:
    r"""Return whitened points as they are when extra ones replace those that they are played by.

    A point takes part in the covariance that it is measured with, which holds it in. With
    :math:`q` the squared length of an extra point :math:`y'` in the covariance of the others,

    .. math:: q = |y'|^2 + \frac{(y' \cdot y)^2}{n - |y|^2}, \qquad |y'|^2 \to \frac{q}{1 + q/n},

    which leaves a point that equals the one it replaces where it was.

    Arguments:
        y: Whitened points, of shape `(n_all, n_sims, n_dims)`.
        n_points: How many of them, the first ones, are pooled.
        played: The pooled points to replace, of shape `(n_all - n_points, n_sims)`.
    """
    own, extra = y[played, np.arange(y.shape[1])], y[n_points:]

    def total(numbers: Floats) -> Floats:
        # Without correlations every parameter has a covariance of its own.
        whole = 1 < y.shape[2] <= _MOST_WHITENED
        return numbers.sum(axis=-1, keepdims=True) if whole else numbers

    square = total(extra * extra)
    q = square + total(extra * own) ** 2 / (n_points - total(own * own)).clip(min=1.0)
    held = (q / (1 + q / n_points)).clip(max=n_points - 1)
    y[n_points:] *= (held / square.clip(min=1e-30)) ** 0.5
    return y


def _shrunk_correlation(z: Floats, share: Floats | None) -> Floats:
    """Return the correlations of standardised points (n_sims, n_points, n_dims), shrunk.

    After Schäfer and Strimmer (2005), and less so where there are many points a parameter: a
    thin direction is just what ought to be seen.
    """
    n_points, n_dims = z.shape[1:]
    weighed = z if share is None else z * share
    correlation = z.swapaxes(1, 2) @ weighed / n_points
    # Points that weigh differently are worth fewer.
    worth = n_points if share is None else n_points**2 / (share**2).sum(axis=(1, 2))
    diagonal = np.arange(n_dims)
    correlation[:, diagonal, diagonal] = 0
    square = correlation * correlation
    signal, quartic = square.sum(axis=(1, 2)), (square * square).sum(axis=(1, 2))
    noise = (n_dims * (n_dims - 1) - 2 * signal + quartic) / worth
    shrink = (noise / signal.clip(min=1e-12)).clip(0, 1)
    shrink *= 2 * n_dims / (worth + 0 * noise).clip(min=2 * n_dims)
    correlation *= (1 - shrink - 1e-4)[:, None, None]
    correlation[:, diagonal, diagonal] = 1
    return correlation

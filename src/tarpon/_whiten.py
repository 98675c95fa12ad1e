"""Points in units of the posterior that they come from."""

import numpy as np

from ._types import Array, Floats, Ints
from .backends import _threads

_MOST_WHITENED = 256


def whiten(points: Array, n_points: int, centre: Floats, spread: Floats) -> Floats:
    """Return points about their centre, decorrelated and in units of their own spread.

    Arguments:
        points: Of shape `(n_all, n_sims, n_dims)`.
        n_points: How many of them, the first ones, define correlations.
        centre: Their mean, of shape `(n_sims, n_dims)`.
        spread: Their standard deviation, of shape `(n_sims, n_dims)`.
    """
    z = ((points - centre) / spread).astype(np.float32).swapaxes(0, 1)
    if not 1 < z.shape[2] <= _MOST_WHITENED:
        return z.swapaxes(0, 1)
    _threads.each(lambda i, j: _solve(z[i:j], n_points), len(z), 8 * z.nbytes)
    return z.swapaxes(0, 1)


def _solve(z: Floats, n_points: int) -> None:
    """Decorrelate standardised points (n_sims, n_all, n_dims) in place."""
    from scipy.linalg.blas import strsm

    roots = np.linalg.cholesky(_shrunk_correlation(z[:, :n_points]))
    for i, root in enumerate(roots):
        # Transposed views are what Fortran wants, so this solves without a copy.
        z[i] = strsm(1.0, root.T, z[i].T, trans_a=1, overwrite_b=1).T


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

    square, most = total(extra * extra), np.float32(n_points - 1)
    q = square + total(extra * own) ** 2 / np.maximum(n_points - total(own * own), 1.0)
    held = np.minimum(q / (1 + q / n_points), most)
    y[n_points:] *= np.sqrt(held / np.maximum(square, np.float32(1e-30)))
    return y


def _shrunk_correlation(z: Floats) -> Floats:
    """Return the correlations of standardised points (n_sims, n_points, n_dims), shrunk.

    After Schäfer and Strimmer (2005), and less so where there are many points a parameter: a
    thin direction is just what ought to be seen.
    """
    n_points, n_dims = z.shape[1:]
    correlation = z.swapaxes(1, 2) @ z / np.float32(n_points)
    diagonal = np.arange(n_dims)
    correlation[:, diagonal, diagonal] = 0
    signal = np.square(correlation).sum(axis=(1, 2))
    quartic = np.square(np.square(correlation)).sum(axis=(1, 2))
    noise = (n_dims * (n_dims - 1) - 2 * signal + quartic) / n_points
    shrink = np.clip(noise / np.maximum(signal, 1e-12), 0, 1) * min(1.0, 2 * n_dims / n_points)
    correlation *= (1 - shrink - 1e-4)[:, None, None]
    correlation[:, diagonal, diagonal] = 1
    return correlation

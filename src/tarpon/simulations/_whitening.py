"""Points in units of the posterior that they come from."""

import numpy as np

from .. import backends
from .._base.arrays import single, to_device_of, zeros
from .._base.types import Array, Floats, Ints

_MOST_WHITENED = 256


def whiten(
    points: Array,
    n_points: int,
    centre: Floats,
    spread: Floats,
    weights: Floats | None = None,
    played: Ints | None = None,
) -> Floats:
    r"""Return points about their centre, decorrelated and in units of their own spread.

    A point takes part in the covariance that it is measured with, which holds it in. So an
    extra point that is to stand in the place of another is measured with itself instead of the
    other: parameter by parameter as far as correlations are shrunk, and otherwise with
    :math:`q` its squared length in the covariance of the others,

    .. math:: q = |y'|^2 + \frac{w (y' \cdot y)^2}{1 - w |y|^2}, \qquad
        |y'|^2 \to \frac{q}{1 + w q},

    where :math:`w` is what a point counts. One that equals the other stays where the other is.

    Arguments:
        points: Of shape `(n_all, n_sims, n_dims)`.
        n_points: How many of them, the first ones, define correlations.
        centre: Their mean, of shape `(n_sims, n_dims)`.
        spread: Their standard deviation, of shape `(n_sims, n_dims)`.
        weights: What each of those points weighs, `(n_points, n_sims)`, if not the same.
        played: In whose place each of the other points stands, `(n_all - n_points, n_sims)`,
            if there are any.
    """
    z = single((points - centre) / spread).swapaxes(0, 1)
    n_sims, _, n_dims = z.shape
    every = np.arange(n_sims)[:, None]
    places = np.zeros((n_sims, 0), dtype=int) if played is None else played.T
    share, counts = None, zeros((n_sims, 1, 1), z) + 1 / n_points
    if weights is not None:
        share = single(to_device_of((weights / weights.mean(axis=0)).T[..., None], z))
        counts = share[every, places] / n_points
    kept = zeros((n_sims, 1, 1), z)  # of the correlations, once they are known

    def hold_in(where: slice) -> None:
        own, extra = z[every[where], places[where]], z[where, n_points:]
        extra /= (1 + (1 - kept[where]) * counts[where] * (extra**2 - own**2)) ** 0.5

    def correlation(where: slice) -> Floats:
        correlations, kept[where] = _shrunk_correlation(
            z[where, :n_points], None if share is None else share[where]
        )
        hold_in(where)
        return correlations

    if 1 < n_dims <= _MOST_WHITENED:
        z = backends.swaps(z).decorrelate(z, correlation)
        _replace(z[every, places], z[:, n_points:], kept * counts)
    else:
        hold_in(slice(None))
    return z.swapaxes(0, 1)


def _replace(own: Floats, extra: Floats, count: Floats) -> None:
    """Bring extra points to the length that they have once they count, and the others do not."""
    square = (extra**2).sum(axis=-1, keepdims=True)
    left = 1 - count * (own**2).sum(axis=-1, keepdims=True)
    q = square + count * (extra * own).sum(axis=-1, keepdims=True) ** 2 / left.clip(min=1e-6)
    extra *= (q / (1 + count * q) / square.clip(min=1e-30)) ** 0.5


def _shrunk_correlation(z: Floats, share: Floats | None) -> tuple[Floats, Floats]:
    """Return the correlations of standardised points (n_sims, n_points, n_dims), shrunk.

    Also how much of them is kept, of shape `(n_sims, 1, 1)`.

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
    kept = (1 - shrink - 1e-4)[:, None, None]
    correlation *= kept
    correlation[:, diagonal, diagonal] = 1
    return correlation, kept

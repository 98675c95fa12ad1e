"""Statistics of labellings: moments of ranks, evidence against accuracy, and p-values.

Row 0 has the real labelling, the other rows random ones, and every fit here is to all of them
alike: so a p-value that counts rows is exact.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from .._base import arrays
from .._base.types import Array, Floats

_ALONE, _SECOND = 2.0, 0.7  # what single families count, and those of the second circle
_AT_ONCE = 2**22  # numbers
_SPIKE, _SLAB = 0.7, 5.0 / 11.0
_LOG_SLAB = float(np.log(0.3) - 0.5 * np.log(11.0))
MOMENTS = ("bias", "width", "skewness", "tails")


def components(n_points: int) -> Floats:
    """Return bias, width, skewness and tails of a rank, `(n_points, 4)`.

    Orthonormal polynomials of its normal score: mean 0 and variance 1 over uniform ranks, so
    their sums over simulations are standard normal in the long run.
    """
    from scipy.special import ndtri

    score = ndtri((np.arange(n_points) + 0.5) / n_points)
    powers = np.vander(score, len(MOMENTS) + 1, increasing=True)
    basis, _ = np.linalg.qr(powers)
    basis *= np.sign((basis * powers).sum(axis=0)) * np.sqrt(n_points)
    return np.ascontiguousarray(basis[:, 1:], dtype=np.float32)


def polynomials(table: Floats) -> Floats:
    """Return bias, width, skewness and tails as polynomials of the first of them, `(4, 5)`.

    Normal scores lie symmetrically about zero, so that every polynomial is even or odd.
    """
    score = arrays.double(table[:, 0])
    found = np.zeros((len(MOMENTS), len(MOMENTS) + 1))
    for m, moment in enumerate(table.T):
        powers = np.arange(1 - m % 2, m + 2, 2)
        found[m, powers] = np.linalg.lstsq(score[:, None] ** powers, moment, rcond=None)[0]
    return found.astype(np.float32)


def standardise(sums: Array, n_rows: int, *, copy: bool = True) -> Floats:
    """Return sums less their mean over the first rows, in units of the sd over those rows.

    Arguments:
        sums: The sums, `(n_all, ...)`.
        n_rows: The number of first rows.
        copy: Whether the sums are still needed; otherwise they are written over.
    """
    xp, centre = arrays.namespace(sums), sums[:n_rows].mean(axis=0)
    about = sums - centre if copy else sums
    if not copy:
        about -= centre
    sd = xp.einsum("i...,i...->...", about[:n_rows], about[:n_rows]) ** 0.5 / n_rows**0.5
    about /= xp.where(sd <= 1e-6 * abs(centre).clip(min=1.0), np.inf, sd)
    return about


def log_ratio(z: Floats) -> Floats:
    r"""Return how much likelier a standardised sum is if something is wrong, as a logarithm.

    .. math:: \log \frac{0.7\, N(z; 0, 1) + 0.3\, N(z; 0, 1 + 10)}{N(z; 0, 1)}
    """
    xp = arrays.namespace(z)
    slab = arrays.double(z) ** 2
    slab *= _SLAB
    slab += _LOG_SLAB
    # Beyond 50 the spike does not count, and the exponential would end up infinite.
    ratio = xp.exp(slab.clip(max=50))
    ratio += _SPIKE
    return xp.where(slab > 50, slab, xp.log(ratio))


def log_mean_exp(logs: Floats) -> Floats:
    """Return the logarithm of the mean over all axes but the first: any one of them is wrong."""
    xp, logs = arrays.namespace(logs), logs.reshape(len(logs), -1)
    top = xp.amax(logs, axis=1)
    return top + xp.log(xp.exp(logs - top[:, None]).mean(axis=1))


def any_of(*groups: Floats) -> Floats:
    """Return `log_mean_exp(log_ratio(z))` of groups of sums, each group with the same weight.

    The groups are `(n_rows, ...)`; in a group, all sums have the same weight. Empty groups say
    nothing.
    """
    xp = arrays.namespace(groups[0])
    logs = [_log_mean_slab(group) for group in groups if prod(group.shape[1:])]
    top = xp.amax(xp.stack(logs), axis=0).clip(min=0)
    mean = sum(xp.exp(log - top) for log in logs) / len(logs)
    return top + xp.log(_SPIKE * xp.exp(-top) + mean)


def _log_mean_slab(sums: Floats) -> Floats:
    """Return the logarithm of the mean ratio of the slab, some rows at a time."""
    xp, found = arrays.namespace(sums), []
    step = max(1, _AT_ONCE // prod(sums.shape[1:]))
    for first in range(0, len(sums), step):
        some = sums[first : first + step]
        slab = _SLAB * arrays.single(some.reshape(len(some), -1)) ** 2
        top = xp.amax(slab, axis=1)
        slab -= top[:, None]
        mean = arrays.double(xp.exp(slab).mean(axis=1))
        found.append(xp.log(mean) + arrays.double(top) + _LOG_SLAB)
    return xp.concatenate(found)


def row_p_values(statistics: Floats, n_rows: int) -> Floats:
    """Return a p-value for every row and statistic: its rank among the first rows.

    Beyond the largest tenth an exponential tail takes over, fitted to the same rows: ranks
    alone could not tell a clear failure from a clearer one. All of the first rows enter alike,
    so a combination of these p-values is as exact as one of the statistics.
    """
    out = np.empty(statistics.shape)
    cut = int(np.ceil(0.9 * n_rows)) - 1
    for k, column in enumerate(statistics.T):
        ordered = np.sort(column[:n_rows])
        p = (n_rows - np.searchsorted(ordered, column - 1e-9)) / n_rows
        scale = np.median(ordered[cut + 1 :] - ordered[cut]) / np.log(2) if cut + 1 < n_rows else 0
        if scale > 0:
            far = column > ordered[cut]
            p[far] = (n_rows - 1 - cut) / n_rows * np.exp((ordered[cut] - column[far]) / scale)
        out[:, k] = np.maximum(p, 1e-300)
    return out


def adjusted(statistics: Floats) -> Floats:
    """Return p-values of `(n_rows, n)` statistics, adjusted for their number.

    Each of the real ones, in row 0, is compared with the largest of every row (Westfall and
    Young, 1993), so all of them together alarm at the stated rate. Of several p-values, their
    negative logarithms are such statistics.
    """
    largest = np.sort(statistics.max(axis=1, initial=-np.inf))
    n_below = np.searchsorted(largest, statistics[0] - 1e-9)
    return (len(largest) - n_below) / len(largest)


@dataclass(frozen=True, eq=False)
class Combined:
    """The p-values of several families, together and alone.

    Arguments:
        p_value: The exact p-value of all families together.
        single: The exact p-value of each family on its own, `(n_families,)`.
        adjusted: The single p-values adjusted for their number (Westfall and Young, 1993).
    """

    p_value: float
    single: Floats
    adjusted: Floats


def totals(p_values: Floats, weights: Floats) -> Floats:
    r"""Return the evidence of p-values `(rows, n_families)` together.

    With the weights :math:`w_f`, which are 0 in the second circle,

    .. math:: \sum_f w_f \log\Big(1 + \frac{0.2}{p_f}\Big) + 2 \log\Big(
        0.3\, \mathrm{mean}_{w_f > 0} \frac{1}{p_f} +
        0.7\, \mathrm{mean}_{w_f = 0} \frac{1}{p_f}\Big) .

    The sum gains where several families see a flaw, as those of the first circle do. The
    harmonic means see what one family alone sees.
    """
    first = weights > 0
    means = (p_values[:, first], 1 - _SECOND), (p_values[:, ~first], _SECOND)
    harmonic = sum(share * (1 / p).mean(axis=1) for p, share in means if p.shape[1])
    return np.log1p(0.2 / p_values[:, first]) @ weights[first] + _ALONE * np.log(harmonic)


def combine(statistics: Floats, weights: Floats) -> Combined:
    """Combine families `(n_rows, n_families)`, the real labelling in row 0."""
    p = row_p_values(statistics, len(statistics))
    total = totals(p, weights)
    return Combined(
        p_value=float((total >= total[0] - 1e-9).mean()),
        single=(statistics >= statistics[0] - 1e-9).mean(axis=0),
        adjusted=adjusted(-np.log(p)),
    )

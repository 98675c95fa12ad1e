"""Lattices: which parameters are rounded or discrete, and which merely repeat."""

import numpy as np

from .._base import threads
from .._base.arrays import host, kind, power_of_two
from .._base.types import Array, Floats

_FEW = 128  # points that show whether a parameter is discrete
_REGULAR = 0.25  # the share of gaps, at least, that equal another gap if values are on a grid
_ROUNDING = 8  # times the precision of a number: gaps that differ by less are equal


def discrete(points: Array, there: Array | None = None) -> Array:
    r"""Return whether parameters take discrete values, per simulation, `(n_sims, n_dims)`.

    Rejected MCMC steps and resampling repeat whole points, whose values lie anywhere. Rounded and
    discrete values are shared by points that are otherwise different, and lie on a grid. So a
    parameter is discrete in a simulation if most of its values are integers, if a quarter of the
    gaps between its distinct values, or between their logarithms, equal another gap, or if there
    are very few values: no more than 3, or one in 16, each shared by 4 points or more. With one
    parameter every tie is a whole point, and this is all that tells rounding from repeats.

    All points are treated alike, so that the answer does not depend on which of them is the truth.

    Arguments:
        points: Points of shape `(n_points, n_sims, n_dims)`; the first 128 are looked at.
        there: Whether points weigh anything, `(n_points, n_sims)`; by default all do.
    """
    if kind(points) != "f":
        return np.ones(tuple(points.shape[1:]), dtype=bool)
    some = host(points[:_FEW])
    found = np.empty(some.shape[1:], dtype=bool)

    def run(first: int, last: int) -> None:
        sims = np.s_[:, first:last]
        known = None if there is None else there[:_FEW][sims]
        found[first:last] = _discrete(some[sims], known)

    threads.over_ranges(run, some.shape[1], 64 * some.nbytes)
    return found


def _discrete(points: Array, there: Array | None) -> Array:
    """Return the same of a few points, all of which are looked at."""
    precision = float(np.finfo(points.dtype).eps)
    some = np.array(points, dtype=float)
    some /= power_of_two(abs(some).max(axis=0, initial=0.0))
    if there is not None:
        some[~there] = np.nan
    n_points = (~np.isnan(some)).sum(axis=0)
    ordered = np.sort(some, axis=0)  # NaN come last
    n_values = 1 + (np.diff(ordered, axis=0) > 0).sum(axis=0)
    few = n_values <= np.minimum(n_points / 4, np.maximum(3, n_points / 16))
    whole = ((points == np.rint(points)) & ~np.isnan(some)).sum(axis=0) > n_points / 2
    one_sign = (ordered > 0).sum(axis=0) == n_points
    logs = np.log(np.where(one_sign, np.where(ordered > 0, ordered, np.nan), 1.0))
    return few | whole | _regular(ordered, precision) | (one_sign & _regular(logs, precision))


def _regular(ordered: Floats, precision: float) -> Array:
    """Return whether many gaps between ordered values, NaN last, equal another gap."""
    size = np.fmax(1.0, np.fmax.reduce(abs(ordered), axis=0, initial=1.0))
    close = _ROUNDING * precision * size
    gaps = np.diff(ordered, axis=0)
    gaps = np.sort(np.where(gaps > close, gaps, np.nan), axis=0)
    n_gaps = (~np.isnan(gaps)).sum(axis=0)
    n_equal = (np.diff(gaps, axis=0) <= close).sum(axis=0)
    return (n_equal > 0) & (n_equal >= _REGULAR * (n_gaps - 1))


def tied(points: Array, there: Array | None = None) -> Array:
    """Return where points equal another of their simulation, `(n_points, n_sims, n_dims)`."""
    order = np.argsort(points, axis=0, kind="stable")
    ordered = np.take_along_axis(points, order, axis=0)
    same = ordered[1:] == ordered[:-1]
    in_order = np.zeros(points.shape, dtype=bool)
    in_order[1:] |= same
    in_order[:-1] |= same
    found = np.zeros_like(in_order)
    np.put_along_axis(found, order, in_order, axis=0)
    return found if there is None else found & there[..., None]


def n_discrete_ties(points: Array, on_grid: Array, there: Array | None = None) -> Array:
    """Return in how many discrete parameters each point equals another, `(n_points, n_sims)`.

    Repeated points count once: they are told by equal values of a parameter that is continuous.

    Arguments:
        points: Points of shape `(n_points, n_sims, n_dims)`.
        on_grid: Whether parameters are `discrete`, `(n_sims, n_dims)`.
        there: Whether points weigh anything, `(n_points, n_sims)`; by default all do.
    """
    if there is not None:
        points = np.where(there[..., None], points, np.nan)
    equal = tied(points, there)
    n_tied = (equal & on_grid).sum(axis=2)
    repeated = np.asarray((equal & ~on_grid).any(axis=0))  # parameter by parameter
    for sim in np.flatnonzero(repeated.any(axis=1) & on_grid.any(axis=1)):
        own: Array = points[:, sim]
        values = own[:, int(repeated[sim].argmax())]
        _, first, of = np.unique(values, return_index=True, return_inverse=True)
        once = tied(own[first][:, None, on_grid[sim]])[:, 0].sum(axis=1)
        n_tied[:, sim] = once[of] * (1 if there is None else there[:, sim])
    return n_tied

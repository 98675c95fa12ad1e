"""Orders and units: mistakes that leave the draws right, but beside the wrong truths."""

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np

from .._base.arrays import double, host
from .._base.types import Floats, Ints
from ..simulations import Simulations
from ..simulations.fields import Places
from ..simulations.stored import Stored
from .mistakes import Cause, Mistake, standard_ranks
from .parameters import Effects
from .slopes import Slope, slope

_MOST_PARAMETERS = 128  # among which a wrong order is looked for
_SURE = 6  # standard errors by which a correlation must differ
_FARTHEST = 2  # cells by which fields may be moved
_CLEAR = 0.3  # the correlation, or gain in correlation, that makes a match


def order_of_simulations(sims: Simulations, effects: Effects) -> Iterator[Mistake]:
    """Yield the order in which the draws match the truths much better than in theirs."""
    n_sims = sims.n_sims
    own = _matches(effects.mean, effects.truth)
    least = max(_CLEAR, _SURE / np.sqrt(n_sims))
    for detail, means in _reordered(sims, effects.mean):
        match = _matches(means, effects.truth)
        k = int(match.argmax())
        if match[k] > least and match[k] - own[k] > least and match.mean() > own.mean():
            numbers = {"correlation": float(match[k]), "now": float(own[k])}
            yield Mistake(Cause.SIMULATIONS, (k,), numbers, detail)
            return


def _reordered(sims: Simulations, mean: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield means of the draws in other orders of the simulations, and what puts them right."""
    yield "samples = np.roll(samples, 1, axis=1)", np.roll(mean, 1, axis=0)
    yield "samples = np.roll(samples, -1, axis=1)", np.roll(mean, -1, axis=0)
    yield "samples = samples[:, ::-1]", mean[::-1]
    if isinstance(sims.samples, Stored) or sims.weighted:
        return
    draws, (n_draws, n_sims, n_dims) = sims.samples, sims.samples.shape
    if n_draws == n_sims:
        yield "samples = samples.swapaxes(0, 1)", host(double(draws).mean(axis=1))
    apart = draws.reshape(n_sims, n_draws, n_dims)
    fix = f"samples = samples.reshape({n_sims}, {n_draws}, {n_dims}).swapaxes(0, 1)"
    yield fix, host(double(apart).mean(axis=1))


def order_of_axes(sims: Simulations, effects: Effects) -> Iterator[Mistake]:
    """Yield how the axes of fields must be turned or flipped for draws to match the truths.

    For accurate posteriors the truths are the means plus noise, so that no other order has a
    larger sum of correlations.
    """
    if len(sims.shape) < 2 or sims.n_dims < 2:
        return
    ranks, truths = standard_ranks(effects.mean), standard_ranks(effects.truth)
    cells = np.arange(sims.n_dims).reshape(sims.shape)
    turned = {fix: of.ravel() for fix, of in _turned(cells)}
    match = {fix: (ranks[:, of] * truths).mean() for fix, of in turned.items()}
    best, own = max(match, key=lambda fix: match[fix]), match[""]
    least = max(_CLEAR, _SURE / np.sqrt(sims.n_sims))
    if match[best] > least and match[best] - own > least:
        numbers = {"correlation": float(match[best]), "now": float(own)}
        yield Mistake(Cause.AXES, (0,), numbers, best)


def _turned(cells: Ints) -> Iterator[tuple[str, Ints]]:
    """Yield fields with axes in all orders that fit, flipped or not, and what does that."""
    n = cells.ndim
    for order in permutations(range(n)):
        moved = cells.transpose(order)
        if moved.shape != cells.shape:
            continue
        axes = ", ".join(map(str, (0, 1, *(k + 2 for k in order))))
        fix = "samples" if order == tuple(range(n)) else f"samples.transpose({axes})"
        for flips in product((False, True), repeat=n):
            flipped = tuple(k for k in range(n) if flips[k])
            at = tuple(k + 2 for k in flipped)
            done = f"np.flip({fix}, axis={at})" if at else fix
            yield f"samples = {done}" * (done != "samples"), np.flip(moved, axis=flipped)


def moved(sims: Simulations, effects: Effects) -> Iterator[Mistake]:
    """Yield by how many cells the draws of fields must be moved to match the truths best.

    For accurate posteriors no other place has a larger sum of correlations, on average over
    simulations. Not looked for among blocks of cells, which may be larger than what is off.
    """
    blocks = isinstance(sims.names, Places) and sims.names.starts
    if len(sims.shape) < 2 or blocks:
        return
    shape = (-1, *sims.shape)
    ranks, truths = (standard_ranks(n).reshape(shape) for n in (effects.mean, effects.truth))
    axes = tuple(range(1, len(shape)))
    each = {
        by: (np.roll(ranks, by, axis=axes) * truths).mean(axis=axes)
        for by in product(range(-_FARTHEST, _FARTHEST + 1), repeat=len(axes))
    }
    best, own = max(each, key=lambda by: each[by].mean()), each[(0,) * len(axes)]
    gain = each[best] - own
    if gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)):
        numbers = {"correlation": float(each[best].mean()), "now": float(own.mean())}
        by, along = zip(*((n, k + 2) for k, n in enumerate(best) if n), strict=True)
        yield Mistake(
            Cause.MOVED, (0,), numbers, f"samples = np.roll(samples, {by}, axis={along})"
        )


def order_of_parameters(effects: Effects) -> Iterator[Mistake]:
    """Yield the parameters whose draws match the truths of each other.

    For accurate posteriors the truths are the means plus noise, so that no other order has a
    larger sum of correlations.
    """
    n_sims, n_dims = effects.truth.shape
    if not 1 < n_dims <= _MOST_PARAMETERS:
        return
    ranks, truths = standard_ranks(effects.mean), standard_ranks(effects.truth)
    match = ranks.T @ truths / n_sims
    least = max(_CLEAR, _SURE / np.sqrt(n_sims))
    if not ((match > least) & (match > match.diagonal()[:, None])).any():
        return
    from scipy.optimize import linear_sum_assignment

    of = linear_sum_assignment(match, maximize=True)[1]
    taken = [
        cycle
        for cycle in _cycles(of)
        if (match[cycle, of[cycle]] > least).all()
        and (match[cycle, of[cycle]] - match[cycle, cycle]).mean() > least
    ]
    if taken:
        first = taken[0]
        numbers = {
            "correlation": float(match[first, of[first]].min()),
            "now": float(match[first, first].min()),
        }
        yield Mistake(Cause.PARAMETERS, tuple(int(k) for cycle in taken for k in cycle), numbers)


def _cycles(of: Ints) -> Iterator[Ints]:
    """Yield the parameters that take each other's places, one cycle at a time."""
    left = {k for k, other in enumerate(of) if k != other}
    while left:
        cycle = [min(left)]
        while (following := int(of[cycle[-1]])) != cycle[0]:
            cycle.append(following)
        left -= set(cycle)
        yield np.array(cycle)


def _matches(means: Floats, truths: Floats) -> Floats:
    """Return the rank correlation of means with truths, per parameter."""
    return (standard_ranks(means) * standard_ranks(truths)).mean(axis=0)


def factors(effects: Effects) -> Iterator[Mistake]:
    """Yield parameters in other units, and those that are pulled towards the prior."""
    found: list[tuple[int, Slope]] = []
    for k in range(effects.truth.shape[1]):
        if k not in effects.few:
            found.append((k, slope(effects.truth[:, k], effects.mean[:, k], effects.sd[:, k])))
    for factor in dict.fromkeys(line.factor for _, line in found if line.factor is not None):
        lines = [(k, line) for k, line in found if line.factor == factor]
        interval = lines[0][1].estimate
        numbers = {
            "factor": factor,
            "slope": interval.value,
            "low": interval.low,
            "high": interval.high,
        }
        yield Mistake(Cause.UNITS, tuple(k for k, _ in lines), numbers)
    pulled = [(k, line.estimate) for k, line in found if line.pulled]
    if pulled:
        interval = pulled[0][1]
        numbers = {"slope": interval.value, "low": interval.low, "high": interval.high}
        yield Mistake(Cause.PULLED, tuple(k for k, _ in pulled), numbers)

r"""Mistakes: common causes of wrong posteriors that a few numbers give away.

Draws that are clipped or beyond the range of all truths, and truths beyond the range of all draws,
are looked for in every study, because these tests are exact. Let :math:`q_i` be the share of the
points of simulation :math:`i`, the truth among them, that lie above the largest truth :math:`t`.
If truths are points like all others,

.. math:: P\Big(\max_i \theta^*_i \le t\Big) = \prod_i (1 - q_i)

is the distribution of the largest truth at its own value, and so a p-value. If :math:`q_i` is the
share at the smallest of all draws, the product is the probability that no truth has that value.
That the :math:`k` largest points of all simulations are truths has a probability of at most
:math:`2^{-k}`, since at most half of the points of a simulation are truths.

The other mistakes are looked for in posteriors that the test has rejected. The draws of a quarter
are compared with those of another by the signs of :math:`n` differences :math:`d_i`: if the draws
of a simulation can come in any order, or in reverse, then
:math:`P(|\sum d_i| \ge t \sqrt{\sum d_i^2}) \le 2 e^{-t^2 / 2}` (Hoeffding, 1963).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np

from .._base import threads
from .._base.arrays import Results, double, host, joined, namespace, to_device_of
from .._base.types import Array, Floats
from ..simulations import Simulations, unit_of
from ..simulations.blocks import Block
from .parameters import Effects

LEVEL = 1e-5  # the largest false-alarm rate per study of the tests at the ends
_BURN_IN_LEVEL = 1e-6  # burn-in is either obvious or harmless
_DRAWS = 256  # draws per simulation that are looked at
_EDGE, _AT_EDGE, _FEWEST_AT_EDGE = 0.05, 0.02, 4  # of the truths' range, of the truths
# The share of one simulation counts as no more: all draws of a chain may lie on one side.
_MOST_BEYOND, MOST_PILED = 0.5, 0.9
FEWEST_CLIPPED = 5  # simulations with draws at the same end


class Cause(StrEnum):
    """Mistakes that are recognised."""

    SIMULATIONS = "order of simulations"
    AXES = "order of axes"
    MOVED = "moved"
    PARAMETERS = "order of parameters"
    UNITS = "units"
    CLIPPED = "clipped"
    LEAK = "prior leak"
    NARROW = "narrow prior"
    BURN_IN = "burn-in"
    PULLED = "pulled to the prior"


@dataclass(frozen=True)
class Mistake:
    """A mistake that was recognised.

    Arguments:
        cause: The mistake.
        parameters: The places of the parameters that show it.
        numbers: The numbers that show it, by name.
        detail: Which of several forms it has.
    """

    cause: Cause
    parameters: tuple[int, ...]
    numbers: dict[str, float]
    detail: str = ""


def measure(sims: Simulations, ends: tuple[Floats, Floats]) -> Results:
    """Return the ends, piles and quarters of some of the draws, per simulation.

    Arguments:
        sims: The simulations.
        ends: The smallest and the largest of all truths, per parameter.
    """
    return joined(threads.mapped(partial(_measure, ends=ends), sims.blocks()))


def ends(sims: Simulations) -> tuple[Floats, Floats]:
    """Return the smallest and the largest of all truths, per parameter."""
    truths = host(sims.theta)
    return truths.min(axis=0), truths.max(axis=0)


def _measure(block: Block, ends: tuple[Floats, Floats]) -> Results:
    every = block.sims.samples[:, block.here]
    step = slice(None, None, -(-len(every) // _DRAWS))
    draws = every[step]
    xp, n_quarter = namespace(draws), max(1, len(draws) // 4)
    share, own = _shares(block, step, draws)
    low, high = (to_device_of(end, draws) for end in ends)
    lowest, highest = xp.amin(draws, axis=0), xp.amax(draws, axis=0)
    measured = {
        "beyond_low": (share * (draws < low)).sum(axis=0),
        "beyond_high": (share * (draws > high)).sum(axis=0),
        "lowest": lowest,
        "highest": highest,
        "at_lowest": (share * (draws == lowest)).sum(axis=0),
        "at_highest": (share * (draws == highest)).sum(axis=0),
        "first": double(draws[:n_quarter]).mean(axis=0),
        "last": double(draws[-n_quarter:]).mean(axis=0),
        "own": own,
    }
    return {name: host(values) for name, values in measured.items()}


def _shares(block: Block, step: slice, draws: Array) -> tuple[Array | float, Floats]:
    """Return the shares of draws in the weight of their simulation, and those of the truths."""
    n_draws, n_block = draws.shape[:2]
    if not block.weighted:
        return 1 / n_draws, np.full(n_block, 1 / (n_draws + 1))
    weights = np.concatenate([block.weights[:1], block.weights[1:][step]])
    of_draws = weights[1:].sum(axis=0)
    shares = weights[1:] / np.where(of_draws > 0, of_draws, 1.0)
    own = weights[0] / np.maximum(weights.sum(axis=0), 1e-300)
    return to_device_of(shares[..., None], draws), own


def at_the_ends(
    sims: Simulations, effects: Effects, measured: Results, cells: Mistake | None = None
) -> Iterator[Mistake]:
    """Yield draws that are piled at an end, or points beyond the range of all others.

    One mistake of each kind, with the numbers of the parameter that is worst. If the `cells` of
    fields are clipped, of which parameters are means, that explains what is at their ends.
    """
    piled = clipped(sims, effects, measured, cells)
    yield from () if piled is None else (piled,)
    places = set() if piled is None else set(piled.parameters or range(sims.n_dims))
    for every in (_leaks(sims, effects, measured), _narrow(sims, effects, measured)):
        worst = _worst(mistake for mistake in every if not places.issuperset(mistake.parameters))
        yield from () if worst is None else (worst,)


def clipped(
    sims: Simulations, effects: Effects, measured: Results, cells: Mistake | None = None
) -> Mistake | None:
    """Return the mistake of draws that are piled at an end: in `cells` of fields, if there."""
    return cells or _worst(_clipped(sims, effects, measured))


def _worst(mistakes: Iterable[Mistake]) -> Mistake | None:
    """Return the mistake with the largest share, for the parameters of all."""
    found = sorted(mistakes, key=lambda mistake: -mistake.numbers["share"])
    places = dict.fromkeys(k for mistake in found for k in mistake.parameters)
    return replace(found[0], parameters=tuple(places)) if found else None


def _leaks(sims: Simulations, effects: Effects, measured: Results) -> Iterator[Mistake]:
    """Yield parameters with draws beyond all truths, where truths come close to their ends."""
    low, high = ends(sims)
    unit = unit_of(sims)
    for k in range(sims.n_dims):
        sides = [
            side
            for side, at_edge in (("low", -1), ("high", 1))
            if _has_edge(at_edge * effects.truth[:, k])
            and unlikely(
                measured[f"beyond_{side}"][:, k], measured["own"], sims.n_dims, _MOST_BEYOND
            )
        ]
        if sides:
            share = sum(measured[f"beyond_{side}"][:, k].mean() for side in sides)
            numbers = {"share": share, "low": low[k] * unit[k], "high": high[k] * unit[k]}
            yield Mistake(Cause.LEAK, (k,), {name: float(n) for name, n in numbers.items()})


def _narrow(sims: Simulations, effects: Effects, measured: Results) -> Iterator[Mistake]:
    """Yield parameters with truths beyond all draws of all simulations."""
    unit, fewest = unit_of(sims), np.log2(2 * sims.n_dims / LEVEL)
    for k in range(sims.n_dims):
        low, high = measured["lowest"][:, k].min(), measured["highest"][:, k].max()
        below, above = effects.truth[:, k] < low, effects.truth[:, k] > high
        share = sum(float(side.mean()) for side in (below, above) if side.sum() >= fewest)
        if share:
            numbers = {"share": share, "low": float(low * unit[k]), "high": float(high * unit[k])}
            yield Mistake(Cause.NARROW, (k,), numbers)


def _has_edge(truth: Floats) -> bool:
    """Return whether many truths are close to the largest, as those of a bounded prior are."""
    high = truth.max()
    near = (truth >= high - _EDGE * (high - truth.min())).sum()
    return bool(near >= max(_FEWEST_AT_EDGE, _AT_EDGE * len(truth)))


def unlikely(share: Floats, own: Floats, n_tests: int, most: float) -> bool:
    """Return whether truths would have avoided the places of so many draws by chance."""
    chance = np.minimum(share * (1 - own), most)
    return bool(np.log1p(-chance).sum() <= np.log(LEVEL / (2 * n_tests)))


def _clipped(sims: Simulations, effects: Effects, measured: Results) -> Iterator[Mistake]:
    """Yield parameters with many draws at exactly the smallest or the largest value of all."""
    if sims.weighted:
        return  # some draws may be padding
    unit = unit_of(sims)
    n_tests = sims.n_dims + (len(sims.shape) > 1)  # one more of all cells of a field together
    for k in range(sims.n_dims):
        if k in effects.few or _on_grid(measured, k, min(sims.n_draws, _DRAWS)):
            continue
        for side, end in (("lowest", np.min), ("highest", np.max)):
            value = end(measured[side][:, k])
            share = np.where(measured[side][:, k] == value, measured[f"at_{side}"][:, k], 0.0)
            n_piled = (share > 0).sum()
            if n_piled < FEWEST_CLIPPED or (effects.truth[:, k] == value).any():
                continue
            if unlikely(share, measured["own"], n_tests, MOST_PILED):
                numbers = {"share": float(share.mean()), "value": float(value * unit[k])}
                yield Mistake(Cause.CLIPPED, (k,), numbers)


def _on_grid(measured: Results, k: int, n_draws: int) -> bool:
    """Return whether the ends of simulations with other ends than most are often shared, too."""
    for side, end in (("lowest", np.min), ("highest", np.max)):
        inner = measured[side][:, k] != end(measured[side][:, k])
        if (n_draws * measured[f"at_{side}"][inner, k] > 1.5).sum() > 0.1 * max(inner.sum(), 1):
            return True
    return False


def burn_in(sims: Simulations, effects: Effects, measured: Results) -> Iterator[Mistake]:
    """Yield the parameters whose first draws differ from the last ones, as if on their way.

    They come from one side, or from the middle of all posterior means. Which of the quarters is
    the first changes neither the mean nor the sd of all draws, so that signs are random.
    """
    n_dims = sims.n_dims
    if sims.weighted or sims.n_draws < 8:
        return
    sd = np.where(effects.sd > 0, effects.sd, np.inf)
    drift = (measured["first"] - measured["last"]) / sd
    found: list[tuple[float, int, float]] = []
    for along in (np.ones_like(drift), -standard_ranks(effects.mean)):
        terms = drift * along
        norm = np.sqrt(np.square(terms).sum(axis=0))
        t = abs(terms.sum(axis=0)) / np.where(norm > 0, norm, np.inf)
        for k in np.flatnonzero(2 * np.exp(-(t**2) / 2) * 2 * n_dims <= _BURN_IN_LEVEL).tolist():
            found.append((float(t[k]), k, float((drift[:, k] * np.sign(along[:, k])).mean())))
    found = [one for one in found if not _sorted(sims, one[1])]
    if found:
        _, k, size = max(found)
        others = sorted({k for _, k, _ in found} - {k})
        yield Mistake(Cause.BURN_IN, (k, *others), {"drift": abs(size)})


def _sorted(sims: Simulations, k: int) -> bool:
    """Return whether the draws of the first simulation are in ascending or descending order."""
    steps = np.diff(host(sims.samples[:, :1])[:, 0, k].astype(float))
    return bool((steps >= 0).all() or (steps <= 0).all())


def standard_ranks(numbers: Floats) -> Floats:
    """Return ranks about their mean, in units of their sd; 0 where all are equal.

    Equal numbers share the mean of their ranks.
    """
    ranks = np.empty(numbers.shape)
    for k, column in enumerate(numbers.T):
        _, place, n_equal = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, k] = (n_equal.cumsum() - n_equal / 2)[place]
    ranks -= ranks.mean(axis=0)
    sd = ranks.std(axis=0)
    return ranks / np.where(sd > 0, sd, np.inf)

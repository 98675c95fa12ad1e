"""Shares: flaws that no other name fits, described by shares of the truths.

A share is compared with what it is of accurate posteriors. The intervals of all shares that are
looked at hold together. If none of them is off, no number describes the flaw.
"""

from collections.abc import Mapping

import numpy as np

from .. import ranks
from .._base import arrays
from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..simulations.stored import Stored
from . import waves
from .descriptions import Candidate, Rejected
from .flaws import Finding, Kind

_UNIT = "share of the truths"
_REGIONS = (0.2, 0.5, 0.8)  # shares of the draws, nearest to their centre
_FIFTHS = ("lowest", "second", "middle", "fourth", "highest")
_HALVES = ("lower", "upper", "middle", "outer")


def of_one(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the parameter whose shape is farthest off, by a fifth of its draws."""
    sums = rejected.sums
    k = int(sums.chosen[np.argmax(waves.of_one(sums.products)[0])])
    place = _bins(_shares_below(rejected)[:, k], len(_FIFTHS))
    counts = {f"the {name} fifth of the draws": int((place == j).sum())
              for j, name in enumerate(_FIFTHS)}  # fmt: skip
    where, size, expected = _worst(counts, dict.fromkeys(counts, 1 / len(_FIFTHS)), len(place))
    finding = Finding(
        Kind.SHAPE, rejected.names(k), p_value,
        size=size, unit=_UNIT, expected=expected, where=where,
    )  # fmt: skip
    return [Candidate(finding, last=True)]


def of_two(rejected: Rejected, p_value: float) -> list[Candidate]:
    """Describe the pair whose shape is farthest off, by halves of its draws."""
    sums = rejected.sums
    pair = waves.pairs(len(sums.chosen))[np.argmax(waves.of_two(sums.products)[0])]
    a, b = (int(k) for k in sums.chosen[pair])
    names, where, size, expected = rejected.names(a, b), None, None, None
    if (drawn := _drawn(rejected, a, b)) is not None:
        truths = _in_halves(_shares_below(rejected)[:, [a, b]])
        places = {
            f"where {names[0]} is in the {one} and {names[1]} in the {other} half of their draws":
            (j, k)
            for j, one in enumerate(_HALVES)
            for k, other in enumerate(_HALVES)
        }  # fmt: skip
        counts = {word: int(_both(truths, *at).sum()) for word, at in places.items()}
        shares = {word: float(_both(drawn, *at).mean()) for word, at in places.items()}
        where, size, expected = _worst(counts, shares, rejected.sims.n_sims)
    finding = Finding(
        Kind.DEPENDENCE, names, p_value, size=size, unit=_UNIT, expected=expected, where=where
    )
    return [Candidate(finding, last=True)]


def unnamed(rejected: Rejected, p_value: float) -> Finding:
    """Return a flaw without a name: regions around the centre with too many or too few truths."""
    values, n_draws = rejected.sums.ranks.get("centre"), rejected.effects.ranks.n_draws
    if values is None or rejected.sims.weighted:
        return Finding(Kind.SHAPE, (), p_value)
    u = (np.asarray(values).ravel() + 0.5) / (n_draws + 1)
    counts = {str(level): int((u < level).sum()) for level in _REGIONS}
    _, size, expected = _worst(counts, {str(level): level for level in _REGIONS}, len(u))
    return Finding(Kind.SHAPE, (), p_value, size=size, unit=_UNIT, expected=expected)


def _worst(
    counts: Mapping[str, int], expected: Mapping[str, float], n_sims: int
) -> tuple[str | None, Estimate | None, float | None]:
    """Return the place whose share of the truths is farthest off, with both shares, if any is."""
    error = 0.05 / len(counts)
    shares = {where: ranks.proportion(n, n_sims, error) for where, n in counts.items()}
    wrong = {
        abs(share.value - right) / np.sqrt(max(right * (1 - right), 1e-12)): where
        for where, share in shares.items()
        if _off(share, right := expected[where])
    }
    if not wrong:
        return None, None, None
    where = wrong[max(wrong)]
    return where, shares[where], expected[where]


def _off(share: Estimate, right: float) -> bool:
    """Return whether a share is off, also in whole percent, as it is printed."""
    low, right, high = (round(100 * number) for number in (share.low, right, share.high))
    return not low <= right <= high


def _shares_below(rejected: Rejected) -> Floats:
    """Return the share of the points below each truth, `(n_sims, n_dims)`."""
    from scipy.special import ndtr

    shares: Floats = ndtr(rejected.effects.scores)
    return shares


def _bins(shares: Floats, n: int) -> Ints:
    return np.minimum((shares * n).astype(np.int64), n - 1)


def _in_halves(shares: Floats) -> Array:
    """Return whether shares lie in the lower, upper, middle and outer half, along a new axis."""
    upper, middle = shares >= 0.5, (shares >= 0.25) & (shares < 0.75)
    return np.stack([~upper, upper, middle, ~middle])


def _both(halves: Array, one: int, other: int) -> Array:
    """Return what lies in a half of the first parameter and in a half of the second."""
    both: Array = halves[one, ..., 0] & halves[other, ..., 1]
    return both


def _drawn(rejected: Rejected, a: int, b: int) -> Array | None:
    """Return in which halves each draw lies among the others; None if draws are not at hand."""
    samples = rejected.sims.samples
    if isinstance(samples, Stored) or rejected.sims.weighted:
        return None
    draws: Array = arrays.host(samples[..., [a, b]])
    return _in_halves((draws.argsort(axis=0).argsort(axis=0) + 0.5) / len(draws))

"""Slopes: the line of the truths along the posterior means, and which factors it can be."""

from dataclasses import dataclass
from math import log, pi

import numpy as np

from .._base.text import Estimate
from .._base.types import Floats

# Truths over draws, with what may have been confused.
FACTORS: dict[float, str] = {
    -1.0: "sign",
    2.0: "half",
    0.5: "double",
    log(10): "ln for log10",
    1 / log(10): "log10 for ln",
    180 / pi: "radians for degrees",
    pi / 180: "degrees for radians",
} | {10.0**k: "power of ten" for k in (*range(-12, 0), *range(1, 13))}
_SURE = 5  # standard errors by which a slope must differ from 1,
_FEW = 20  # and twice as many for so few simulations
_FITS = 2.5  # standard errors by which it may differ from a factor
_STRONG, _SOME = 0.8, 0.3  # correlations of means and truths: for a factor, for a pull
_CLOSE = 0.06  # how much a slope may differ from its factor, as a share
_WIDTHS = 0.75, 1.33  # of truths about draws times a factor, in sd of those
_BIAS = 0.5  # the largest bias left after a factor, in posterior sd
_PULL = 1.1  # the smallest slope that is called a pull
_INNER = 0.3  # of the pull, at least, acts on the half of the means in the middle
_NARROW = 0.1  # of the median sd: narrower posteriors weigh no more than that


@dataclass(frozen=True)
class Slope:
    """The line of the truths of one parameter along the means of the draws.

    Arguments:
        estimate: The slope, with its 95 % interval.
        factor: The only factor that fits, None if there is none.
        pulled: Whether the draws are pulled towards the prior.
    """

    estimate: Estimate
    factor: float | None
    pulled: bool


def slope(truth: Floats, mean: Floats, sd: Floats) -> Slope:
    """Return the slope of truths along means, 1 for accurate posteriors of any shape.

    Arguments:
        truth: The truths, `(n_sims,)`.
        mean: The means of the draws, `(n_sims,)`.
        sd: Their standard deviations; narrow posteriors count more.
    """
    if not sd.any() or np.ptp(mean) == 0 or np.ptp(truth) == 0:
        return Slope(Estimate(1.0, 1.0, 1.0), None, pulled=False)
    value, error, fixed = _line(truth, mean, sd)
    estimate = Estimate(value, value - 1.96 * error, value + 1.96 * error)
    if abs(value - 1) <= _SURE * (1 + _FEW / len(truth)) * error:
        return Slope(estimate, None, pulled=False)
    strength = abs(np.corrcoef(mean, truth)[0, 1])
    factor = _factor(value, error, truth, mean, sd) if strength > _STRONG else None
    central = abs(fixed - truth.mean()) < truth.std()
    pulled = factor is None and value > _PULL and strength > _SOME and central
    return Slope(estimate, factor, bool(pulled) and _inside(truth, mean, sd, value))


def _line(truth: Floats, mean: Floats, sd: Floats) -> tuple[float, float, float]:
    """Return a slope, its standard error, and where the line crosses that of equal numbers."""
    weights = 1 / np.maximum(sd, _NARROW * np.median(sd[sd > 0])) ** 2
    weights /= weights.sum()
    centre, of_truth = weights @ mean, weights @ truth
    square = weights @ (mean - centre) ** 2
    value = float(weights @ ((mean - centre) * (truth - of_truth)) / square)
    rest = truth - of_truth - value * (mean - centre)
    error = float(np.sqrt(weights**2 @ ((mean - centre) * rest) ** 2) / square)
    return value, error, float((of_truth - value * centre) / ((1 - value) or np.inf))


def _inside(truth: Floats, mean: Floats, sd: Floats, value: float) -> bool:
    """Return whether the means in the middle are pulled, too: draws that are cut off are not."""
    low, high = np.quantile(mean, [0.25, 0.75])
    middle = (mean >= low) & (mean <= high) & (sd > 0)
    if middle.sum() < 3 or np.ptp(mean[middle]) == 0:
        return False
    return _line(truth[middle], mean[middle], sd[middle])[0] - 1 > _INNER * (value - 1)


def _factor(value: float, error: float, truth: Floats, mean: Floats, sd: Floats) -> float | None:
    """Return the only factor that a slope can be, if the draws times that factor fit."""
    possible = [
        factor
        for factor in FACTORS
        if abs(value - factor) <= max(_FITS * error, _CLOSE * abs(factor))
    ]
    if len(possible) != 1:
        return None
    z = (truth - possible[0] * mean) / (abs(possible[0]) * np.where(sd > 0, sd, np.inf))
    fits = _WIDTHS[0] < z.std() < _WIDTHS[1] and abs(z.mean()) < _BIAS
    return possible[0] if fits else None

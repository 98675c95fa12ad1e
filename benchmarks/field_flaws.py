"""Flaws of fields of other forms than `FIELD_FLAWS`, on which the words of `check` were chosen.

Each is a function of draws and truths of exact posteriors, and of a generator.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy import fft

from tarpon import Simulations
from tarpon._base.types import Floats
from tarpon.checks.flaws import Kind
from tarpon.checks.mistakes import Cause
from tarpon.problems import field

Arrays = tuple[Floats, Floats]
WIDE, COLLAPSED, CLIPPED, PIXELS, TILTED = 1.3, 0.5, -0.8, 0.15, 1.25


def _about_mean(samples: Floats, factor: Floats | float) -> Floats:
    """Return draws whose distance from their mean is multiplied by a factor, cell by cell."""
    mean = samples.mean(axis=0)
    return mean + np.float32(factor) * (samples - mean)


def _filtered(fields: Floats, factor: Floats) -> Floats:
    axes = tuple(range(-factor.ndim, 0))
    waves = fft.rfftn(fields, axes=axes)
    waves *= factor
    return fft.irfftn(waves, s=fields.shape[-factor.ndim :], axes=axes).astype(np.float32)


def _frequencies(shape: tuple[int, ...]) -> list[Floats]:
    """Return waves per cell along the two axes."""
    return np.meshgrid(np.fft.fftfreq(shape[0]), np.fft.rfftfreq(shape[1]), indexing="ij")


def _radius(shape: tuple[int, ...]) -> Floats:
    """Return the distance of cells from the centre, in sixteenths of the first axis."""
    rows, columns = np.indices(shape)
    centre = [(n - 1) / 2 for n in shape]
    return 16 / shape[0] * np.hypot(rows - centre[0], columns - centre[1])


def ring(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    radius = _radius(theta.shape[1:])
    return _about_mean(samples, np.where((radius >= 3) & (radius < 5.5), 1 / WIDE, 1.0)), theta


def edges(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    rows, columns = np.indices(shape := theta.shape[1:])
    near = np.minimum.reduce([rows, columns, shape[0] - 1 - rows, shape[1] - 1 - columns])
    return _about_mean(samples, np.where(near < shape[0] / 8, 1 / WIDE, 1.0)), theta


def tilted(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    """Truths and draws differ by a filter that favours waves at 30° from the first axis."""
    a, b = _frequencies(theta.shape[1:])
    angle = np.arctan2(b, a) - np.pi / 6
    return _filtered(samples, TILTED ** np.cos(2 * angle)), theta


def half_smooth(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    small = np.hypot(*_frequencies(theta.shape[1:])) > 1 / 4
    smooth = _filtered(samples, np.where(small, np.sqrt(0.8), 1.0))
    left = np.arange(theta.shape[2]) < theta.shape[2] // 2
    return np.where(left, smooth, samples), theta


def moved(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    return np.roll(samples, 1, axis=-1), theta


def clipped(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    return np.maximum(samples, np.float32(CLIPPED)), theta


def lognormal(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    """Draws are normal, with the mean and the covariance of the lognormal posterior."""
    exact, truths = np.exp(0.5 * samples), np.exp(0.5 * theta)
    mean, n = exact.mean(axis=0), len(exact)
    mixed = rng.normal(size=(n, n), scale=1 / np.sqrt(n - 1)).astype(np.float32)
    return mean + np.tensordot(mixed, exact - mean, axes=1), truths


def checkers(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    pattern = (-1.0) ** np.indices(theta.shape[1:]).sum(axis=0)
    amplitude = PIXELS * rng.normal(size=(*samples.shape[:2], 1, 1))
    return samples + (amplitude * pattern).astype(np.float32), theta


def grains(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    return samples + np.float32(PIXELS) * rng.standard_normal(samples.shape, np.float32), theta


def collapsed(samples: Floats, theta: Floats, rng: Generator) -> Arrays:
    return _about_mean(samples, COLLAPSED), theta


@dataclass(frozen=True)
class Flaw:
    """A flaw: in words, the findings or mistakes that name it, and a function that plants it."""

    about: str
    named: tuple[Kind | Cause, ...]
    plant: Callable[[Floats, Floats, Generator], Arrays]


BY_SCALE = (Kind.POWER, Kind.SCALES)
SHAPES = (Kind.SKEWED, Kind.CELLS, Kind.TAILS)
OTHER_FLAWS = {
    "ring": Flaw("a ring is 1.3 times too narrow", (Kind.OVERCONFIDENT,), ring),
    "edges": Flaw("an eighth at each edge is 1.3 times too narrow", (Kind.OVERCONFIDENT,), edges),
    "tilted": Flaw(
        "the draws have more power along 30° from the first axis, and less across, by up to 1.56",
        (Kind.ANISOTROPY,),
        tilted,
    ),
    "half_smooth": Flaw(
        "one half of the field lacks 20 % of its power at scales below 4 cells",
        BY_SCALE,
        half_smooth,
    ),
    "moved": Flaw("the draws are moved by one cell", (Kind.PHASES, Cause.MOVED), moved),
    "clipped": Flaw(
        "the draws are clipped below −0.8 sd of the field", (Cause.CLIPPED, *SHAPES), clipped
    ),
    "lognormal": Flaw("the posterior is lognormal, and the draws are normal", SHAPES, lognormal),
    "checkers": Flaw(
        "a chequered pattern of pixels with a random height of 0.15 sd is added to the draws",
        BY_SCALE,
        checkers,
    ),
    "grains": Flaw("white noise of 0.15 sd is added to the draws", BY_SCALE, grains),
    "collapsed": Flaw(
        "the draws scatter half as widely about their mean",
        (Kind.OVERCONFIDENT, Kind.SCALES),
        collapsed,
    ),
}


def planted(flaw: str, shape: tuple[int, ...], rng: Generator) -> Simulations:
    """Return exact posteriors of fields with a flaw."""
    exact = field(shape=shape, rng=rng)
    samples = np.asarray(exact.samples).reshape(*exact.samples.shape[:2], *shape)
    theta = np.asarray(exact.theta).reshape(-1, *shape)
    return Simulations(*OTHER_FLAWS[flaw].plant(samples, theta, rng), x=exact.x)

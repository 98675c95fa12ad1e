"""What a flaw is, and the study in which it is planted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ..._base.types import Array, Floats
from ...checks.flaws import Kind

# theta ~ N(0, I) and x = theta + 0.5 eps, so theta given x ~ N(0.8 x, 0.2 I).
SHRINK = 0.8
SD = np.sqrt(0.2)
SD_X = np.sqrt(1.25)
NOWHERE = -1e9  # the log-density of points outside the support

LogDensity = Callable[[Array], Array]


@dataclass(eq=False)
class Study:
    """Observations, and truths and draws z, so that the parameters are `mean + sd * z`."""

    x: Floats  # (n_sims, n_data), with n_data = n_dims unless a flaw replaces it
    mean: Floats  # (n_sims, n_dims)
    truths: Floats  # (n_sims, n_dims)
    draws: Floats  # (n_draws, n_sims, n_dims)
    rng: Generator
    sd: float = SD
    grid: float | None = None  # draws are rounded to its multiples, in parameter units

    @property
    def n_dims(self) -> int:
        return self.truths.shape[1]

    def column(self, k: int, values: Floats | float, elsewhere: float) -> Floats:
        """Return an array `(n_sims, n_dims)` with the values of one parameter."""
        array = np.full(self.truths.shape, elsewhere)
        array[:, k] = values
        return array


def normal(scale: Floats | float = 1.0, shift: Floats | float = 0.0) -> LogDensity:
    return lambda z: -0.5 * (((z - shift) / scale) ** 2).sum(axis=-1)


STANDARD = normal()


def two_normals(z: Array, centres: tuple[float, float], scale: float, weight: float) -> Array:
    """Return the log-density of a mixture, relative to a normal; `weight` is of the second."""
    first, second = (-0.5 * ((z - centre) / scale) ** 2 for centre in centres)
    return np.logaddexp(np.log(1 - weight) + first, np.log(weight) + second) - np.log(scale)


def correlated(rho: Floats | float, z: Array, other: Array) -> Array:
    """Return the log-density of z and another, correlated by rho, relative to independent ones."""
    squares = (z**2 - 2 * rho * z * other + other**2) / (1 - rho**2)
    return -0.5 * (squares - z**2 - other**2 + np.log1p(-(rho**2)))


@dataclass(frozen=True)
class Densities:
    """Log-densities of a study as functions of z.

    Arguments:
        estimator: Log-density of the draws, without its normalisation; None if not simple.
        exact: Normalised log-density of the truths, or None if the log-ratio of exact and
            estimated density does not describe the flaw.
        log_norm: Log of the integral of the estimator's density. This and `exact` are in units
            in which a standard normal's density is exp(-z²/2).
        reported: Whether the estimator gives its density to its users.
    """

    estimator: LogDensity | None
    exact: LogDensity | None = STANDARD
    log_norm: Floats | float = 0.0
    reported: bool = True

    def normalised(self, z: Array, sd: float) -> Array:
        """Return the normalised log-density of parameters with this sd, in the precision of z."""
        assert self.estimator is not None
        values = self.estimator(z)
        log_norm = self.log_norm + z.shape[-1] * np.log(np.sqrt(2 * np.pi) * sd)
        inside = values > NOWHERE / 2
        return np.where(inside, values - log_norm, -np.inf).astype(values.dtype)

    def log_ratio(self, z: Array) -> Array | None:
        """Return log p_exact - log p_estimator, or None if it has no closed form."""
        if self.estimator is None or self.exact is None:
            return None
        return self.exact(z) - self.estimator(z) + self.log_norm


@dataclass(frozen=True)
class Flaw:
    """An error of an estimator.

    Arguments:
        label: Description of the error.
        kinds: Kinds of findings that are correct; any of them counts.
        plant: Function that changes a study, and returns the log-densities that follow.
        fewest: Smallest number of parameters that can have the flaw.
        circle: 1 for the flaws on which `check` was first built, 2 for later ones, which leave
            every parameter right on average over the data.
    """

    label: str
    kinds: tuple[Kind, ...]
    plant: Callable[[Study], Densities]
    fewest: int = 1
    circle: int = 1

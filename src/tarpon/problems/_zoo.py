"""A zoo of labelled flaws: estimators with a known error, for a known exact posterior."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._base import arguments
from .._base.types import RNG, Array, Floats
from ..checks.findings import Kind
from ..simulations import Simulations

__all__ = ["FLAWS", "Flaw", "zoo"]

# theta ~ N(0, I) and x = theta + 0.5 eps, so theta given x ~ N(0.8 x, 0.2 I).
_SHRINK = 0.8
_SD = np.sqrt(0.2)
_NOWHERE = -1e9  # the log-density of points that the estimator excludes

LogDensity = Callable[[Array], Array]


@dataclass(eq=False)
class _Study:
    """Observations, and truths and draws in units of posterior sd from the posterior mean."""

    x: Floats  # (n_sims, n_dims)
    truths: Floats  # (n_sims, n_dims)
    draws: Floats  # (n_draws, n_sims, n_dims)
    rng: Generator
    grid: float | None = None  # draws are rounded to its multiples, in parameter units


@dataclass(frozen=True)
class Flaw:
    """An error of an estimator.

    Arguments:
        label: Description of the error.
        kinds: Kinds of findings that are correct; any of them counts.
        plant: Function that changes a study, and returns the estimator's log-density if it is
            simple.
    """

    label: str
    kinds: tuple[Kind, ...]
    plant: Callable[[_Study], LogDensity | None]


def zoo(
    flaw: str, *, n_sims: int = 200, n_draws: int = 100, n_dims: int = 2, rng: RNG = None
) -> Simulations:
    r"""Return simulations of an estimator with a known flaw.

    Truths follow :math:`N(0, I)`, observations are :math:`x = \theta + \epsilon / 2`, and the
    exact posterior is :math:`N(0.8\, x, 0.2\, I)`.

    Arguments:
        flaw: Name of a flaw in `problems.FLAWS`, or "exact" for none.
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        n_dims: Number of parameters, and of observations.
        rng: Seed or generator.

    Returns:
        `Simulations` with `x`, and with log-densities if the estimator's is simple.

    Example:
        >>> zoo("narrow", n_dims=10, rng=0)
        Simulations(200 simulations, 100 draws each, 10 parameters)
    """
    arguments.one_of("flaw", flaw, list(FLAWS))
    draw = np.random.default_rng(arguments.seed(rng))
    study = _Study(
        x=np.sqrt(1.25) * draw.standard_normal((n_sims, n_dims)),
        truths=draw.standard_normal((n_sims, n_dims)),
        draws=draw.standard_normal((n_draws, n_sims, n_dims), dtype=np.float32),
        rng=draw,
    )
    log_density = FLAWS[flaw].plant(study)
    mean = _SHRINK * study.x
    samples = (mean + _SD * study.draws).astype(np.float32)
    if study.grid is not None:
        samples = np.round(samples / study.grid).astype(np.float32) * study.grid
    return Simulations(
        samples,
        (mean + _SD * study.truths).astype(np.float32),
        x=study.x,
        log_prob_samples=None if log_density is None else log_density(study.draws),
        log_prob_theta=None if log_density is None else log_density(study.truths),
    )


def _normal(scale: Floats | float = 1.0, shift: Floats | float = 0.0) -> LogDensity:
    return lambda z: -0.5 * (((z - shift) / scale) ** 2).sum(axis=-1)


def _exact(study: _Study) -> LogDensity:
    return _normal()


def _scaled(factor: float) -> Callable[[_Study], LogDensity]:
    def plant(study: _Study) -> LogDensity:
        study.draws *= factor
        return _normal(factor)

    return plant


def _shift(study: _Study) -> LogDensity:
    shift = np.zeros(study.x.shape[1])
    shift[0] = 0.3
    study.draws += shift
    return _normal(shift=shift)


def _correlate(z: Array, rho: float) -> None:
    """Give the columns (0, 1), (2, 3), … of independent z the correlation rho."""
    even = z.shape[-1] // 2 * 2
    z[..., 1:even:2] = rho * z[..., 0:even:2] + np.sqrt(1 - rho**2) * z[..., 1:even:2]


def _correlation_missed(study: _Study) -> LogDensity:
    _correlate(study.truths, 0.4)
    return _normal()


def _correlation_invented(study: _Study) -> LogDensity:
    rho = 0.4
    _correlate(study.draws, rho)

    def log_density(z: Array) -> Array:
        even = z.shape[-1] // 2 * 2
        a, b, rest = z[..., 0:even:2], z[..., 1:even:2], z[..., even:]
        pairs = (a**2 - 2 * rho * a * b + b**2) / (1 - rho**2)
        return -0.5 * (pairs.sum(axis=-1) + (rest**2).sum(axis=-1))

    return log_density


def _student(study: _Study, shape: tuple[int, ...]) -> Floats:
    """Return draws of Student's t with four degrees of freedom and variance one."""
    return study.rng.standard_t(4, shape) / np.sqrt(2.0)


def _heavy_tails(study: _Study) -> LogDensity:
    study.draws[...] = _student(study, study.draws.shape)
    return lambda z: -2.5 * np.log1p(z**2 / 2.0).sum(axis=-1)


def _light_tails(study: _Study) -> LogDensity:
    study.truths[...] = _student(study, study.truths.shape)
    return _normal()


def _bias_by_x(study: _Study) -> LogDensity:
    shift = 0.3 * np.sign(study.x)
    study.draws += shift
    return _normal(shift=shift)


def _of_prior(study: _Study) -> Floats:
    noise = study.rng.standard_normal(study.draws.shape, dtype=np.float32)
    return (noise - _SHRINK * study.x) / _SD


def _prior_leak(study: _Study) -> LogDensity:
    leaks = study.rng.uniform(size=study.draws.shape[:2]) < 0.1
    study.draws[leaks] = _of_prior(study)[leaks]

    def log_density(z: Array) -> Array:
        prior = _prior_density(study)(z) + z.shape[-1] * np.log(_SD)
        return np.logaddexp(np.log(0.9) + _normal()(z), np.log(0.1) + prior)

    return log_density


def _prior(study: _Study) -> LogDensity:
    study.draws[...] = _of_prior(study)
    return _prior_density(study)


def _prior_density(study: _Study) -> LogDensity:
    return _normal(1 / _SD, -_SHRINK * study.x / _SD)


def _skew(study: _Study) -> LogDensity:
    study.draws[..., 0] = (study.rng.gamma(2.0, size=study.draws.shape[:2]) - 2) / np.sqrt(2.0)

    def log_density(z: Array) -> Array:
        g = z[..., 0] * np.sqrt(2.0) + 2
        first = np.where(g > 0, np.log(np.maximum(g, 1e-300)) - g, _NOWHERE + g)
        return first + _normal()(z[..., 1:])

    return log_density


def _mode_dropped(study: _Study) -> LogDensity:
    side = study.rng.choice([-1.5, 1.5], len(study.x), p=[0.1, 0.9])
    study.truths[:, 0] = 0.5 * study.truths[:, 0] + side
    study.draws[..., 0] = 0.5 * study.draws[..., 0] + 1.5
    return lambda z: _normal(0.5, 1.5)(z[..., :1]) + _normal()(z[..., 1:])


def _mode_invented(study: _Study) -> LogDensity:
    study.draws[..., 0] += 4 * (study.rng.uniform(size=study.draws.shape[:2]) < 0.15)

    def log_density(z: Array) -> Array:
        real, invented = _normal()(z[..., :1]), _normal(shift=4.0)(z[..., :1])
        first = np.logaddexp(np.log(0.85) + real, np.log(0.15) + invented)
        return first + _normal()(z[..., 1:])

    return log_density


def _truncated(study: _Study) -> LogDensity:
    from scipy.special import ndtr, ndtri

    mean = _SHRINK * study.x[:, 0]
    low, high = (-1 - mean) / _SD, (1 - mean) / _SD
    # Invert in the lower tail, where the quantile function is precise.
    sign = np.where(mean > 0, 1, -1)
    a = ndtr(np.where(sign > 0, low, -high))
    b = ndtr(np.where(sign > 0, high, -low))
    u = study.rng.uniform(size=study.draws.shape[:2])
    study.draws[..., 0] = sign * ndtri(a + (b - a) * u)

    def log_density(z: Array) -> Array:
        outside = (z[..., 0] < low) | (z[..., 0] > high)
        return np.where(outside, _NOWHERE, 0.0) + _normal()(z)

    return log_density


def _local_width(study: _Study) -> LogDensity:
    factor = np.where(study.x[:, :1] < 0, 1 / 1.2, 1.2)
    study.draws *= factor
    return _normal(factor)


def _weights_forgotten(study: _Study) -> LogDensity:
    """Draw from the likelihood N(x, 1/4), and omit the weights that contain the prior."""
    shift, factor = (1 - _SHRINK) * study.x / _SD, 0.5 / _SD
    study.draws[...] = factor * study.draws + shift
    return _normal(factor, shift)


def _autocorrelated(study: _Study) -> LogDensity:
    for j in range(1, len(study.draws)):
        study.draws[j] = 0.9 * study.draws[j - 1] + np.sqrt(1 - 0.9**2) * study.draws[j]
    return _normal()


def _swapped_axes(study: _Study) -> None:
    theta = _SHRINK * study.x + _SD * study.draws
    read = np.ascontiguousarray(theta.swapaxes(0, 1)).reshape(theta.shape)
    study.draws[...] = (read - _SHRINK * study.x) / _SD


def _swapped_parameters(study: _Study) -> None:
    theta = _SHRINK * study.x + _SD * study.draws
    study.draws[...] = (np.roll(theta, 1, axis=-1) - _SHRINK * study.x) / _SD


def _rounded(study: _Study) -> None:
    study.grid = 0.25


FLAWS: dict[str, Flaw] = {
    "exact": Flaw("the exact posterior", (), _exact),
    "narrow": Flaw("10 % too narrow", (Kind.OVERCONFIDENT,), _scaled(0.9)),
    "wide": Flaw("10 % too wide", (Kind.UNDERCONFIDENT,), _scaled(1.1)),
    "shift": Flaw("one parameter shifted by 0.3 sd", (Kind.BIASED,), _shift),
    "correlation_missed": Flaw(
        "correlation 0.4 in pairs missed", (Kind.CORRELATION,), _correlation_missed
    ),
    "correlation_invented": Flaw(
        "correlation 0.4 in pairs invented", (Kind.CORRELATION,), _correlation_invented
    ),
    "heavy_tails": Flaw("draws have heavier tails", (Kind.TAILS,), _heavy_tails),
    "light_tails": Flaw("draws have lighter tails", (Kind.TAILS,), _light_tails),
    "bias_by_x": Flaw("bias 0.3 sd with the sign of x", (Kind.BIAS_BY_DATA,), _bias_by_x),
    "prior_leak": Flaw(
        "10 % of draws from the prior",
        (Kind.UNDERCONFIDENT, Kind.TAILS, Kind.BIAS_BY_DATA),
        _prior_leak,
    ),
    "prior": Flaw("the prior for the posterior", (Kind.IGNORES_DATA,), _prior),
    "skew": Flaw("one parameter skewed", (Kind.SKEWED, Kind.SHAPE), _skew),
    "mode_dropped": Flaw(
        "a mode of weight 0.1 dropped",
        (Kind.OUTSIDE, Kind.SKEWED, Kind.SHAPE, Kind.TAILS),
        _mode_dropped,
    ),
    "mode_invented": Flaw(
        "a mode of weight 0.15 invented", (Kind.SKEWED, Kind.SHAPE, Kind.BIASED), _mode_invented
    ),
    "truncated": Flaw(
        "support cut in one parameter", (Kind.OUTSIDE, Kind.OVERCONFIDENT), _truncated
    ),
    "local_width": Flaw("too narrow here and too wide there", (Kind.WIDTH_BY_DATA,), _local_width),
    "weights_forgotten": Flaw(
        "importance weights forgotten",
        (Kind.UNDERCONFIDENT, Kind.BIAS_BY_DATA),
        _weights_forgotten,
    ),
    "autocorrelated": Flaw(
        "a chain taken for independent draws",
        (Kind.OVERCONFIDENT, Kind.OUTSIDE),
        _autocorrelated,
    ),
    "swapped_axes": Flaw("draws and simulations swapped", (Kind.IGNORES_DATA,), _swapped_axes),
    "swapped_parameters": Flaw(
        "parameters in the wrong order",
        (Kind.BIAS_BY_DATA, Kind.OVERCONFIDENT),
        _swapped_parameters,
    ),
    "rounded": Flaw("draws rounded to half an sd", (Kind.ROUNDED,), _rounded),
}

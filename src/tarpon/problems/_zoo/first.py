"""The flaws on which `check` was first built."""

from collections.abc import Callable

import numpy as np

from ..._base.types import Array, Floats
from ...checks.flaws import Kind
from .study import (
    NOWHERE,
    SD,
    SHRINK,
    STANDARD,
    Densities,
    Flaw,
    LogDensity,
    Study,
    normal,
    two_normals,
)


def _exact(study: Study) -> Densities:
    return Densities(STANDARD)


def _scaled(factor: float) -> Callable[[Study], Densities]:
    def plant(study: Study) -> Densities:
        study.draws *= factor
        return Densities(normal(factor), log_norm=study.n_dims * np.log(factor))

    return plant


def _shift(study: Study) -> Densities:
    shift = np.zeros(study.n_dims)
    shift[0] = 0.3
    study.draws += shift
    return Densities(normal(shift=shift))


def _correlate(z: Array, rho: float) -> None:
    """Give the columns (0, 1), (2, 3), … of independent z the correlation rho."""
    even = z.shape[-1] // 2 * 2
    z[..., 1:even:2] = rho * z[..., 0:even:2] + np.sqrt(1 - rho**2) * z[..., 1:even:2]


def _in_pairs(z: Array, rho: float) -> Array:
    """Return the log-density of such columns, without its normalisation."""
    even = z.shape[-1] // 2 * 2
    a, b, rest = z[..., 0:even:2], z[..., 1:even:2], z[..., even:]
    pairs = (a**2 - 2 * rho * a * b + b**2) / (1 - rho**2)
    return -0.5 * (pairs.sum(axis=-1) + (rest**2).sum(axis=-1))


def _log_norm_in_pairs(n_dims: int, rho: float) -> float:
    return n_dims // 2 * float(np.log1p(-(rho**2))) / 2


def _correlation_missed(study: Study) -> Densities:
    rho = 0.4
    _correlate(study.truths, rho)
    log_norm = _log_norm_in_pairs(study.n_dims, rho)
    return Densities(STANDARD, exact=lambda z: _in_pairs(z, rho) - log_norm)


def _correlation_invented(study: Study) -> Densities:
    rho = 0.4
    _correlate(study.draws, rho)
    log_norm = _log_norm_in_pairs(study.n_dims, rho)
    return Densities(lambda z: _in_pairs(z, rho), log_norm=log_norm)


_LOG_NORM_STUDENT = -np.log(3 / 8 * np.sqrt(4 * np.pi))


def _student(study: Study, shape: tuple[int, ...]) -> Floats:
    """Return draws of Student's t with four degrees of freedom and variance one."""
    return study.rng.standard_t(4, shape) / np.sqrt(2.0)


def _student_density(z: Array) -> Array:
    return -2.5 * np.log1p(z**2 / 2.0).sum(axis=-1)


def _heavy_tails(study: Study) -> Densities:
    study.draws[...] = _student(study, study.draws.shape)
    return Densities(_student_density, log_norm=study.n_dims * _LOG_NORM_STUDENT)


def _light_tails(study: Study) -> Densities:
    study.truths[...] = _student(study, study.truths.shape)
    log_norm = study.n_dims * _LOG_NORM_STUDENT
    return Densities(STANDARD, exact=lambda z: _student_density(z) - log_norm)


def _bias_by_x(study: Study) -> Densities:
    shift = 0.3 * np.sign(study.x)
    study.draws += shift
    return Densities(normal(shift=shift))


def _of_prior(study: Study) -> Floats:
    noise = study.rng.standard_normal(study.draws.shape, dtype=np.float32)
    return (noise - SHRINK * study.x) / SD


def _prior_leak(study: Study) -> Densities:
    leaks = study.rng.uniform(size=study.draws.shape[:2]) < 0.1
    study.draws[leaks] = _of_prior(study)[leaks]

    def log_density(z: Array) -> Array:
        prior = _prior_density(study)(z) + z.shape[-1] * np.log(SD)
        return np.logaddexp(np.log(0.9) + STANDARD(z), np.log(0.1) + prior)

    return Densities(log_density)


def _prior(study: Study) -> Densities:
    study.draws[...] = _of_prior(study)
    return Densities(_prior_density(study), log_norm=-study.n_dims * np.log(SD))


def _prior_density(study: Study) -> LogDensity:
    return normal(1 / SD, -SHRINK * study.x / SD)


def _skew(study: Study) -> Densities:
    study.draws[..., 0] = (study.rng.gamma(2.0, size=study.draws.shape[:2]) - 2) / np.sqrt(2.0)

    def log_density(z: Array) -> Array:
        g = z[..., 0] * np.sqrt(2.0) + 2
        first = np.where(g > 0, np.log(np.maximum(g, 1e-300)) - g, NOWHERE + g)
        return first + STANDARD(z[..., 1:])

    return Densities(log_density, log_norm=-np.log(4 * np.pi) / 2)


def _mode_dropped(study: Study) -> Densities:
    side = study.rng.choice([-1.5, 1.5], len(study.x), p=[0.1, 0.9])
    study.truths[:, 0] = 0.5 * study.truths[:, 0] + side
    study.draws[..., 0] = 0.5 * study.draws[..., 0] + 1.5
    return Densities(
        lambda z: normal(0.5, 1.5)(z[..., :1]) + STANDARD(z[..., 1:]),
        exact=lambda z: two_normals(z[..., 0], (-1.5, 1.5), 0.5, 0.9) + STANDARD(z[..., 1:]),
        log_norm=np.log(0.5),
    )


def _mode_invented(study: Study) -> Densities:
    study.draws[..., 0] += 4 * (study.rng.uniform(size=study.draws.shape[:2]) < 0.15)

    def log_density(z: Array) -> Array:
        real, invented = STANDARD(z[..., :1]), normal(shift=4.0)(z[..., :1])
        first = np.logaddexp(np.log(0.85) + real, np.log(0.15) + invented)
        return first + STANDARD(z[..., 1:])

    return Densities(log_density)


def _truncated(study: Study) -> Densities:
    from scipy.special import ndtr, ndtri

    mean = SHRINK * study.x[:, 0]
    low, high = (-1 - mean) / SD, (1 - mean) / SD
    # Invert in the lower tail, where the quantile function is precise.
    sign = np.where(mean > 0, 1, -1)
    a = ndtr(np.where(sign > 0, low, -high))
    b = ndtr(np.where(sign > 0, high, -low))
    u = study.rng.uniform(size=study.draws.shape[:2])
    study.draws[..., 0] = sign * ndtri(a + (b - a) * u)

    def log_density(z: Array) -> Array:
        outside = (z[..., 0] < low) | (z[..., 0] > high)
        return np.where(outside, NOWHERE, 0.0) + STANDARD(z)

    return Densities(log_density, log_norm=np.log(b - a))


def _local_width(study: Study) -> Densities:
    factor = np.where(study.x[:, :1] < 0, 1 / 1.2, 1.2)
    study.draws *= factor
    return Densities(normal(factor), log_norm=study.n_dims * np.log(factor[:, 0]))


def _weights_forgotten(study: Study) -> Densities:
    """Draw from the likelihood N(x, 1/4), and omit the weights that contain the prior."""
    shift, factor = (1 - SHRINK) * study.x / SD, 0.5 / SD
    study.draws[...] = factor * study.draws + shift
    return Densities(normal(factor, shift), log_norm=study.n_dims * np.log(factor))


def _autocorrelated(study: Study) -> Densities:
    for j in range(1, len(study.draws)):
        study.draws[j] = 0.9 * study.draws[j - 1] + np.sqrt(1 - 0.9**2) * study.draws[j]
    return Densities(STANDARD, exact=None)  # each draw is right, but they are not independent


def _swapped_axes(study: Study) -> Densities:
    theta = SHRINK * study.x + SD * study.draws
    read = np.ascontiguousarray(theta.swapaxes(0, 1)).reshape(theta.shape)
    study.draws[...] = (read - SHRINK * study.x) / SD
    return Densities(None)


def _swapped_parameters(study: Study) -> Densities:
    theta = SHRINK * study.x + SD * study.draws
    study.draws[...] = (np.roll(theta, 1, axis=-1) - SHRINK * study.x) / SD
    shift = (np.roll(study.mean, 1, axis=-1) - study.mean) / SD
    return Densities(normal(shift=shift), reported=False)


def _rounded(study: Study) -> Densities:
    study.grid = 0.25
    return Densities(None)


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

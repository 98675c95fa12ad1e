"""Flaws that leave every parameter right on average over the data."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ..._base.types import Array, Floats
from ...checks.flaws import Kind
from .study import NOWHERE, SD_X, STANDARD, Densities, Flaw, Study, correlated, normal, two_normals


def _missed(feature: Callable[[Floats], Floats]) -> Callable[[Study], Densities]:
    """Move the last parameter along a feature of the data, of which the estimator is unaware.

    The feature is standard normal, so the estimator is the exact posterior without it.
    """

    def plant(study: Study) -> Densities:
        effect = 0.5
        shift = effect * feature(study.x / SD_X)
        width = np.sqrt(1 + effect**2)
        study.truths[:, -1] += shift
        study.draws[..., -1] *= width
        return Densities(
            normal(study.column(-1, width, elsewhere=1.0)),
            exact=normal(shift=study.column(-1, shift, elsewhere=0.0)),
            log_norm=np.log(width),
        )

    return plant


def _product(u: Floats) -> Floats:
    """Return a product of two features, scaled to be exactly normal (Shepp, 1964)."""
    return 2 * u[:, 0] * u[:, 1] / np.hypot(u[:, 0], u[:, 1])


def _square(u: Floats) -> Floats:
    """Return a monotone function of the square of a feature that is exactly normal."""
    from scipy.special import ndtr, ndtri

    return ndtri(2 * ndtr(abs(u[:, 0])) - 1)


def _correlate_ends(z: Array, rho: Floats) -> None:
    """Correlate the first and the last of independent parameters."""
    z[..., -1] = rho * z[..., 0] + np.sqrt(1 - rho**2) * z[..., -1]


def _ends(rho: Floats) -> Callable[[Array], Array]:
    return lambda z: STANDARD(z) + correlated(rho, z[..., 0], z[..., -1])


def _correlation_by_x(study: Study) -> Densities:
    rho = np.tanh(study.x[:, -1])
    _correlate_ends(study.truths, rho)
    return Densities(STANDARD, exact=_ends(rho))


def _correlation_flipped(study: Study) -> Densities:
    rho = 0.35 * np.sign(study.x[:, 0])
    _correlate_ends(study.truths, rho)
    _correlate_ends(study.draws, -rho)
    return Densities(_ends(-rho), exact=_ends(rho))


def _half_ignored(study: Study) -> Densities:
    """Use the first half of many noisy columns, each of which measures one parameter.

    A half has half the information of the prior on each parameter, so the ignored half would
    reduce the variance from 1/1.5 to 1/2.
    """
    n_dims, information = study.n_dims, 0.5
    measured = np.arange(max(100, 2 * n_dims)) % n_dims  # the parameter of each column of a half
    members = np.equal.outer(measured, np.arange(n_dims))
    averaging = members / members.sum(axis=0)  # (n_columns, n_dims)
    noise = np.sqrt(members.sum(axis=0) / information)[measured]

    def observe(theta: Floats) -> Floats:
        return theta[:, measured] + noise * study.rng.standard_normal((len(theta), len(measured)))

    # The truths must follow from the posterior, so the first half is of other parameters from
    # the prior, and the truths are drawn given that half.
    first = observe(study.rng.standard_normal(study.truths.shape))
    study.mean = information * first @ averaging / (1 + information)
    study.sd = 1 / np.sqrt(1 + information)
    second = observe(study.mean + study.sd * study.truths)
    study.x = np.concatenate([first, second], axis=1)

    sd = 1 / np.sqrt(1 + 2 * information)
    mean = information * (first + second) @ averaging * sd**2
    exact = normal(sd / study.sd, (mean - study.mean) / study.sd)
    log_norm = n_dims * np.log(sd / study.sd)
    return Densities(STANDARD, exact=lambda z: exact(z) - log_norm)


def _one_width_by_x(study: Study) -> Densities:
    factor = np.where(study.x[:, -1] < 0, 1 / 1.35, 1.35)
    study.draws[..., 0] *= factor
    return Densities(normal(study.column(0, factor, elsewhere=1.0)), log_norm=np.log(factor))


def _narrow_direction(study: Study) -> Densities:
    """Narrow the sum of all parameters, and widen all to keep the width of every parameter."""
    factor, n_dims = 0.7, study.n_dims
    widened = 1 / np.sqrt(1 - (1 - factor**2) / n_dims)

    def stretched(z: Array, by: float) -> Array:
        return z + (by - 1) * z.mean(axis=-1, keepdims=True)

    study.draws[...] = widened * stretched(study.draws, factor)
    return Densities(
        lambda z: normal(widened)(stretched(z, 1 / factor)),
        log_norm=n_dims * np.log(widened) + np.log(factor),
    )


def _third_order(study: Study) -> Densities:
    """Give the last parameter a sign that more often than not follows from two others.

    All pairs are independent. Of two parameters, the sign follows from the size of the other,
    and they are uncorrelated.
    """
    from scipy.special import ndtri

    lean = 0.6

    def side(z: Array) -> Array:
        by_size = abs(z[..., 0]) - ndtri(0.75)
        return np.sign(by_size if study.n_dims == 2 else z[..., 0] * z[..., 1])

    follows = np.where(study.rng.uniform(size=len(study.truths)) < (1 + lean) / 2, 1, -1)
    study.truths[:, -1] = abs(study.truths[:, -1]) * side(study.truths) * follows
    return Densities(
        STANDARD, exact=lambda z: STANDARD(z) + np.log1p(lean * side(z) * np.sign(z[..., -1]))
    )


def _modes_blurred(study: Study) -> Densities:
    """Give the last parameter two modes, with mean 0 and variance 1 as the draws have."""
    centre = 0.85
    scale = np.sqrt(1 - centre**2)
    modes = partial(two_normals, centres=(-centre, centre), scale=scale, weight=0.5)
    side = study.rng.choice([-1, 1], len(study.truths))
    study.truths[:, -1] = centre * side + scale * study.truths[:, -1]
    return Densities(
        STANDARD,
        exact=lambda z: modes(z[..., -1]) + STANDARD(z[..., :-1]),
    )


def _edge_smoothed(study: Study) -> Densities:
    """Draw from normals with the mean and sd of posteriors that a bound of the prior cuts off."""
    from scipy.special import log_ndtr, ndtr, ndtri

    edge = (-0.5 - study.mean[:, 0]) / study.sd  # the bound, in units of z
    # The mean and the variance of a normal that is cut off.
    log_share = log_ndtr(-edge)
    mean = np.exp(-0.5 * edge**2 - log_share) / np.sqrt(2 * np.pi)
    width = np.sqrt(1 + edge * mean - mean**2)
    study.truths[:, 0] = -ndtri(np.exp(log_share) * ndtr(-study.truths[:, 0]))
    study.draws[..., 0] = mean + width * study.draws[..., 0]

    def exact(z: Array) -> Array:
        return STANDARD(z) + np.where(z[..., 0] < edge, NOWHERE, 0.0) - log_share

    scale, shift = study.column(0, width, elsewhere=1.0), study.column(0, mean, elsewhere=0.0)
    return Densities(normal(scale, shift), exact=exact, log_norm=np.log(width))


_flaw = partial(Flaw, circle=2)
FLAWS: dict[str, Flaw] = {
    "product_missed": _flaw(
        "a mean that follows a product of data missed",
        (Kind.BIAS_BY_DATA,), _missed(_product), fewest=2,
    ),
    "square_missed": _flaw(
        "a mean that follows a square of data missed", (Kind.BIAS_BY_DATA,), _missed(_square)
    ),
    "correlation_by_x": _flaw(
        "a correlation that follows x missed",
        (Kind.CORRELATION_BY_DATA,), _correlation_by_x, fewest=2,
    ),
    "correlation_flipped": _flaw(
        "correlation ±0.35 with the wrong sign for each x",
        (Kind.CORRELATION_BY_DATA,), _correlation_flipped, fewest=2,
    ),
    "half_ignored": _flaw(
        "half of 200 data ignored", (Kind.UNUSED_DATA, Kind.BIAS_BY_DATA), _half_ignored
    ),
    "one_width_by_x": _flaw(
        "one parameter too narrow here and too wide there",
        (Kind.WIDTH_BY_DATA,), _one_width_by_x,
    ),
    "narrow_direction": _flaw(
        "the sum of all parameters too narrow",
        (Kind.COMBINATION, Kind.CORRELATION, Kind.OVERCONFIDENT), _narrow_direction, fewest=2,
    ),
    "third_order": _flaw(
        "a dependence of third order missed",
        (Kind.DEPENDENCE, Kind.SHAPE), _third_order, fewest=2,
    ),
    "modes_blurred": _flaw(
        "two modes blurred into one", (Kind.SHAPE, Kind.TAILS), _modes_blurred
    ),
    "edge_smoothed": _flaw(
        "a sharp bound of the prior smoothed",
        (Kind.SKEWED, Kind.SHAPE, Kind.TAILS, Kind.OUTSIDE), _edge_smoothed,
    ),
}  # fmt: skip

"""Diagnostics: the front door. Arrays in, a `Result` out."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ._base import arrays
from ._base.arrays import Results
from ._base.types import RNG, Array, ArrayLike, Floats, Ints
from .engine import Engine
from .metrics import L2, Metric
from .ranks import Ranks, broken, counts, rank
from .references import Reference, Uniform
from .regions import Balls, HalfLines, HighestDensity, Region
from .results import Result
from .simulations import (
    Simulations,
    alerts,
    begin,
    densities_alone,
    dropping,
    given,
    place,
    points_alone,
    shapes,
)
from .verdict import Reading

__all__ = ["Result", "hpd", "sbc", "tarp"]


def tarp(
    samples: ArrayLike | Simulations,
    theta: ArrayLike | None = None,
    *,
    x: ArrayLike | None = None,
    reference: Reference = Uniform(),
    metric: Metric = L2(),
    rng: RNG = None,
    engine: Engine = Engine(),
) -> Result:
    r"""Test coverage with balls around reference points (Lemos et al., 2023, Algorithm 2).

    Each truth is ranked among its draws by the distance to a reference point
    :math:`\theta_r`. For an accurate posterior the ranks are uniform, whatever the reference.

    Arguments:
        samples: The posterior draws, draws first, `(n_draws, n_sims, n_dims)`; a list with one
            array a simulation; or `Simulations`.
        theta: The true parameters, `(n_sims, n_dims)`.
        x: The observations, `(n_sims, ...)`, for references that read them.
        reference: Where the balls are centred; see `tarpon.references`.
        metric: How distance is measured; see `tarpon.metrics`.
        rng: A seed or a generator; without one the result is different each time.
        engine: Where blocks are computed, and where their results are kept.

    Returns:
        A `Result`.

    Example:
        >>> sims = tarpon.problems.gaussian("overconfident", n_dims=2, rng=0)
        >>> tarpon.tarp(sims, rng=0).p_value < 1e-6
        True
    """
    sims = given(samples, theta, x=x)
    shapes.needs_parameters(sims.n_dims)
    alerts.warn_if_chained(sims.samples, sims.log_weights)
    settings = {"reference": repr(reference), "metric": repr(metric)}
    sims, seed = begin("TARP", sims, engine, rng, reference=reference, metric=metric)
    dropping.warn_if_not_random(sims)
    place, break_ties = np.random.default_rng(seed).spawn(2)
    region, left = Balls.at(reference, metric, sims, place)
    found = counts(points_alone(left), region, _Apart(max(1, left.n_sims // 100)))
    _warn_if_all_are_equal(found["equal"], 1 - 1e-9 if left.weighted else left.n_draws)
    return Result(
        "TARP",
        broken(found, left, break_ties),
        _ball_reading(found["apart"]),
        _names(found["below"]),
        seed,
        left.draws,
        sims.n_dropped,
        settings,
        dropping.of(sims),
    )


def hpd(
    log_prob_samples: ArrayLike | Simulations,
    log_prob_theta: ArrayLike | None = None,
    *,
    rng: RNG = None,
    engine: Engine = Engine(),
) -> Result:
    r"""Test coverage of the regions of highest density (Lemos et al., 2023, Algorithm 1).

    Each truth is ranked among its draws by the estimator's own density. Blind to an estimator
    that ignores the data, and to a bias that the width makes up for.

    Arguments:
        log_prob_samples: The estimator's log-density of its draws, `(n_draws, n_sims)`, up to a
            constant that may differ between simulations; or `Simulations` that hold both.
        log_prob_theta: The same of the truths, `(n_sims,)`.
        rng: A seed or a generator, for ties.
        engine: Where blocks are computed, and where their results are kept.

    Returns:
        A `Result`.

    Example:
        >>> sims = tarpon.problems.gaussian("underconfident", n_dims=2, rng=0)
        >>> tarpon.hpd(sims.log_prob_samples, sims.log_prob_theta, rng=0).p_value < 1e-6
        True
    """
    sims = (
        given(log_prob_samples, None, log_prob_theta=log_prob_theta)
        if isinstance(log_prob_samples, Simulations)
        else Simulations.of_densities(log_prob_samples, log_prob_theta)
    )
    sims, seed = begin("HPD", sims, engine, rng)
    dropping.warn_if_not_random(sims)
    ranks = rank(densities_alone(sims), HighestDensity(), np.random.default_rng(seed))
    return _result("HPD", ranks, Reading.OUTWARD, ("HPD",), seed, sims)


def sbc(
    samples: ArrayLike | Simulations,
    theta: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    rng: RNG = None,
    engine: Engine = Engine(),
) -> Result:
    r"""Test each parameter alone: simulation-based calibration (Talts et al., 2018).

    Each true :math:`\theta_k` is ranked among its draws. `p_values` has one exact p-value a
    parameter, and `p_value` their Bonferroni bound.

    Arguments:
        samples: The posterior draws, draws first, `(n_draws, n_sims, n_dims)`; a list with one
            array a simulation; or `Simulations`.
        theta: The true parameters, `(n_sims, n_dims)`.
        names: One name a parameter.
        rng: A seed or a generator, for ties.
        engine: Where blocks are computed, and where their results are kept.

    Returns:
        A `Result` with one curve a parameter.

    Example:
        >>> sims = tarpon.problems.gaussian("biased", n_dims=2, rng=0)
        >>> tarpon.sbc(sims, rng=0).ranks.values.shape
        (500, 2)
    """
    sims = given(samples, theta, names=names)
    shapes.needs_parameters(sims.n_dims)
    alerts.warn_if_chained(sims.samples, sims.log_weights)
    sims, seed = begin("SBC", sims, engine, rng)
    dropping.warn_if_not_random(sims)
    ranks = rank(points_alone(sims), HalfLines(), np.random.default_rng(seed))
    return _result("SBC", ranks, Reading.SIDE, tuple(sims.names or ()), seed, sims)


def _result(
    test: str, ranks: Ranks, reading: Reading, names: tuple[str, ...], seed: int, sims: Simulations
) -> Result:
    """Return the result of a test that has no settings."""
    lost, why = sims.n_dropped, dropping.of(sims)
    return Result(test, ranks, reading, names, seed, sims.draws, lost, dropping=why)


def _warn_if_all_are_equal(equal: Array, every: float) -> None:
    """Warn where all draws of all simulations are as far from a reference as the truth."""
    if (equal >= every).all():
        warnings.warn(
            "every draw is as far from its reference as the truth, so the ranks are random and "
            "the test cannot fail. Does the metric measure anything, and do the draws differ?",
            stacklevel=3,
        )


def _names(counts: Ints) -> tuple[str, ...]:
    """Return a name for each reference."""
    return (
        ("TARP",) if counts.ndim == 1 else tuple(f"reference {k}" for k in range(counts.shape[1]))
    )


@dataclass(frozen=True)
class _Apart:
    """Tells of a sample of simulations how far references and points lie apart.

    Arguments:
        every: The distance between simulations of the sample.
    """

    every: int

    def __call__(self, sims: Simulations, region: Region) -> Results:
        some = slice(-place(sims).start % self.every, None, self.every)
        few = slice(None, None, max(1, sims.n_draws // 20))
        centers = cast(Balls, region).centers[place(sims)][some]
        if centers.ndim == 3:  # of several references, the first tells how far they lie
            centers = centers[:, 0]
        sample = [arrays.host(sims.theta[None, some]), arrays.host(sims.samples[few, some])]
        points = np.concatenate(sample).astype(float)
        middle, ends = points.mean(axis=0), (points.min(axis=0), points.max(axis=0))
        unit = arrays.power_of_two(ends[1] - ends[0])
        own = unit * np.sqrt(np.square((points - middle) / unit).mean(axis=0))
        return {"apart": np.stack([abs(centers - middle), own, *ends], axis=1)}


def _ball_reading(apart: Floats) -> Reading:
    """Tell from a sample of simulations whether the references lie far from the posteriors.

    Compares the squared distance of the reference from the middle of the points with the mean
    squared distance of the points themselves.

    Arguments:
        apart: Their roots, parameter by parameter, and the ends of the points, `(n, 4, n_dims)`.
    """
    away, own, low, high = apart.swapaxes(0, 1)
    width = high.max(axis=0) - low.min(axis=0)
    unit = np.where(width > 0, width, 1.0)
    own = np.maximum(np.square(own / unit).sum(axis=-1), np.finfo(float).tiny)
    ratio = float(np.median(np.square(away / unit).sum(axis=-1) / own))
    return Reading.OUTWARD if ratio < 2 else Reading.FAR if ratio > 9 else Reading.MIXED

"""The classical tests: TARP, highest density and SBC. Arrays in, a `Result` out."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ._base import arguments, arrays
from ._base.arrays import Results
from ._base.types import RNG, Array, ArrayLike, Floats, Ints
from .engine import Engine
from .metrics import L2, Metric
from .ranks import Ranks, broken, counts, rank
from .references import Fixed, Normal, Reference, Uniform
from .regions import Balls, HalfLines, HighestDensity, Region
from .results import Result
from .simulations import (
    Deferred,
    Simulations,
    alerts,
    begin,
    given,
    range_of,
    shapes,
    warn_of_dropping,
)
from .simulations.stored import Stored
from .simulations.views import densities_alone, points_alone
from .verdict import Reading

__all__ = ["Result", "hpd", "sbc", "tarp"]

_DRAWS, _NUMBERS, _FEWEST = 20, 2**16, 10  # that show how far references are from the points


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
    :math:`\theta_r`. For an accurate posterior the ranks are uniform, for any reference.

    Arguments:
        samples: Posterior draws `(n_draws, n_sims, n_dims)`, draws first; a list with one array
            per simulation; or `Simulations`.
        theta: True parameters `(n_sims, n_dims)`.
        x: Observations `(n_sims, ...)`, for references that depend on them.
        reference: Reference that places the centres of the balls; see `tarpon.references`.
        metric: Metric that measures distances; see `tarpon.metrics`.
        rng: Seed or generator; without one, the result differs from call to call.
        engine: Engine that computes the blocks and stores their results.

    Returns:
        A `Result`.

    Example:
        >>> sims = tarpon.problems.gaussian("overconfident", n_dims=2, rng=0)
        >>> tarpon.tarp(sims, rng=0).p_value < 1e-6
        True
    """
    where = "a reference, an object with `draw(sims, rng)`, like `tarpon.references.Uniform()`"
    arguments.function("reference", reference, where, "draw")
    arguments.function("metric", metric, "a function of two points, like `tarpon.metrics.L2()`")
    sims = given(samples, theta, Deferred, x=x)
    shapes.needs_parameters(sims.n_dims)
    if not isinstance(reference, Uniform | Normal | Fixed):
        _ = sims.box  # validates: other references may read the points
    alerts.warn_if_chained(sims.samples, sims.log_weights)
    settings = {"reference": repr(reference), "metric": repr(metric)}
    sims, seed = begin("TARP", sims, engine, rng, reference=reference, metric=metric)
    warn_of_dropping(sims)
    place, break_ties = np.random.default_rng(seed).spawn(2)
    region, left = Balls.at(reference, metric, sims, place)
    counted = counts(points_alone(left), region, _Distances.of(left))
    _warn_if_all_are_equal(counted["equal"], 1 - 1e-9 if left.weighted else left.n_draws)
    return Result(
        "TARP",
        broken(counted, left, break_ties),
        _ball_reading(counted["distances"]),
        _names(counted["below"]),
        seed,
        left.draws,
        sims.n_dropped,
        settings,
        sims.dropping,
    )


def hpd(
    log_prob_samples: ArrayLike | Simulations,
    log_prob_theta: ArrayLike | None = None,
    *,
    rng: RNG = None,
    engine: Engine = Engine(),
) -> Result:
    r"""Test coverage of the regions of highest density (Lemos et al., 2023, Algorithm 1).

    Each truth is ranked among its draws by the estimator's own density. The test cannot detect
    an estimator that ignores the data, nor a bias that a wider posterior compensates.

    Arguments:
        log_prob_samples: Log-densities of the draws `(n_draws, n_sims)`, by the estimator, up to
            a constant per simulation; or `Simulations` that contain both log-densities.
        log_prob_theta: Log-densities of the truths `(n_sims,)`, up to the same constant.
        rng: Seed or generator, for ties.
        engine: Engine that computes the blocks and stores their results.

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
        else Deferred.of_densities(log_prob_samples, log_prob_theta)
    )
    sims, seed = begin("HPD", sims, engine, rng)
    warn_of_dropping(sims)
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

    Each true :math:`\theta_k` is ranked among its draws. `p_values` has one exact p-value per
    parameter, and `p_value` is their Bonferroni bound.

    Arguments:
        samples: Posterior draws `(n_draws, n_sims, n_dims)`, draws first; a list with one array
            per simulation; or `Simulations`.
        theta: True parameters `(n_sims, n_dims)`.
        names: Names, one per parameter.
        rng: Seed or generator, for ties.
        engine: Engine that computes the blocks and stores their results.

    Returns:
        A `Result` with one curve per parameter.

    Example:
        >>> sims = tarpon.problems.gaussian("biased", n_dims=2, rng=0)
        >>> tarpon.sbc(sims, rng=0).ranks.values.shape
        (500, 2)
    """
    sims = given(samples, theta, Deferred, names=names)
    shapes.needs_parameters(sims.n_dims)
    alerts.warn_if_chained(sims.samples, sims.log_weights)
    sims, seed = begin("SBC", sims, engine, rng)
    warn_of_dropping(sims)
    ranks = rank(points_alone(sims), HalfLines(), np.random.default_rng(seed))
    return _result("SBC", ranks, Reading.SIDE, tuple(sims.names or ()), seed, sims)


def _result(
    test: str, ranks: Ranks, reading: Reading, names: tuple[str, ...], seed: int, sims: Simulations
) -> Result:
    """Return the result of a test that has no settings."""
    lost, why = sims.n_dropped, sims.dropping
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
    """Return one name per reference."""
    return (
        ("TARP",) if counts.ndim == 1 else tuple(f"reference {k}" for k in range(counts.shape[1]))
    )


@dataclass(frozen=True)
class _Distances:
    """Returns how far references and points are from the mean, for every n-th simulation.

    Arguments:
        every: Step between the simulations that are used.
    """

    every: int

    @classmethod
    def of(cls, sims: Simulations) -> "_Distances":
        """Return distances of about a hundred simulations, of fewer in many parameters."""
        n_used = min(100, max(_FEWEST, _NUMBERS // (_DRAWS * sims.n_dims)))
        return cls(max(1, sims.n_sims // n_used))

    def __call__(self, sims: Simulations, region: Region) -> Results:
        used = slice(-range_of(sims).start % self.every, None, self.every)
        if used.start >= sims.n_sims:
            return {"distances": np.empty((0, 4, sims.n_dims))}
        step = max(1, sims.n_draws // _DRAWS)
        centres = cast(Balls, region).centres[range_of(sims)][used]
        if centres.ndim == 3:  # the first of several references
            centres = centres[:, 0]
        sample = [arrays.host(sims.theta[None, used]), _every(step, sims.samples, used)]
        points = np.concatenate(sample).astype(float)
        mean, ends = points.mean(axis=0), (points.min(axis=0), points.max(axis=0))
        unit = arrays.power_of_two(ends[1] - ends[0])
        own = unit * np.sqrt(np.square((points - mean) / unit).mean(axis=0))
        return {"distances": np.stack([abs(centres - mean), own, *ends], axis=1)}


def _every(step: int, samples: Array, sims: slice) -> Array:
    """Return every n-th draw of some simulations; of those on disk one after the other."""
    if not isinstance(samples, Stored):
        return arrays.host(samples[::step, sims])
    places = range(*sims.indices(samples.n_sims))
    return np.concatenate([samples[:, k : k + 1][::step] for k in places], axis=1)


def _ball_reading(distances: Floats) -> Reading:
    """Return how to read ranks by distance: are the references far from the posteriors?

    Compares the squared distance of the reference from the mean of the points with the mean
    squared distance of the points themselves.

    Arguments:
        distances: Both distances per parameter, and the smallest and largest of the points,
            `(n, 4, n_dims)`.
    """
    away, own, low, high = distances.swapaxes(0, 1)
    width = high.max(axis=0) - low.min(axis=0)
    unit = np.where(width > 0, width, 1.0)
    own = np.maximum(np.square(own / unit).sum(axis=-1), np.finfo(float).tiny)
    ratio = float(np.median(np.square(away / unit).sum(axis=-1) / own))
    return Reading.OUTWARD if ratio < 2 else Reading.FAR if ratio > 9 else Reading.MIXED

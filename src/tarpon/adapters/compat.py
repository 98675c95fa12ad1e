"""Compat: the function of the reference package, for scripts that call it."""

import numpy as np

from .._base import arguments
from .._base.types import ArrayLike, Floats
from ..diagnostics import tarp
from ..metrics import L1, L2, Metric
from ..references import Fixed, Reference, Uniform

__all__ = ["get_tarp_coverage"]

_METRICS: dict[str, type[L1] | type[L2]] = {"euclidean": L2, "manhattan": L1}
_FEWEST_TO_BIN, _FEWEST_BINS = 20, 10


def get_tarp_coverage(
    samples: ArrayLike,
    theta: ArrayLike,
    references: ArrayLike = "random",
    metric: str = "euclidean",
    num_alpha_bins: int | None = None,
    num_bootstrap: int = 100,
    norm: bool = False,
    bootstrap: bool = False,
    seed: int | None = None,
) -> tuple[Floats, Floats]:
    """Return expected coverage and credibility levels, called as in the package `tarp` 0.1.1.

    Change the import, and nothing else. Where the numbers differ:

    - The bootstrap draws as many simulations as there are, with replacement. The caller's
      arrays stay as they are, and so does the global random state. The same seed gives the
      same curves.
    - Random references are uniform in the box of all truths and draws. `tarp` draws them in the
      unit box, wherever the parameters are, and with `norm` in the box of the truths alone,
      which tells truths and draws apart.
    - References of your own are in the units of the parameters, also with `norm`.
    - Levels run from 0 to 1. `tarp` starts at the smallest fraction that occurs and ends at the
      largest. Between the levels that the draws resolve, coverage is interpolated, so that an
      accurate posterior's curve is the diagonal on average, at any number of draws.
    - Ties are broken at random.
    - Below 20 simulations there are 10 bins.
    - Values that are not finite, and shapes that do not fit, raise a `ValueError`.

    Use `tarpon.tarp` for a p-value, a band and a verdict.

    Arguments:
        samples: The posterior draws, `(n_draws, n_sims, n_dims)`.
        theta: The true parameters, `(n_sims, n_dims)`.
        references: "random", or points of shape `(n_sims, n_dims)`.
        metric: "euclidean" or "manhattan".
        num_alpha_bins: The number of steps between level 0 and level 1, by default a tenth of
            the number of simulations.
        num_bootstrap: The number of curves, with `bootstrap`.
        norm: Whether differences are divided by the sides of the box of truths and draws.
        bootstrap: Whether to return curves of resampled simulations.
        seed: A seed; without one the answer is different each time.

    Returns:
        The expected coverage, `(n_bins + 1,)`, or with `bootstrap` `(num_bootstrap, n_bins + 1)`;
        and the levels, `(n_bins + 1,)`, which `tarp` calls alpha.

    Example:
        >>> sims = tarpon.problems.gaussian("correct", rng=0)
        >>> ecp, alpha = tarpon.compat.get_tarp_coverage(sims.samples, sims.theta, seed=0)
        >>> ecp.shape, alpha.shape
        ((51,), (51,))
    """
    for name, number in (("num_alpha_bins", num_alpha_bins), ("num_bootstrap", num_bootstrap)):
        if number is not None:
            arguments.sizes(**{name: number})
    place, distance = _reference(references), _metric(metric, norm)
    resample, rng = arguments.flag("bootstrap", bootstrap), arguments.seed(seed, "seed")
    result = tarp(samples, theta, reference=place, metric=distance, rng=rng)
    level, n_sims = result.curve.level, result.ranks.n_sims
    if num_alpha_bins is None:
        num_alpha_bins = n_sims // 10 if n_sims >= _FEWEST_TO_BIN else _FEWEST_BINS
    alpha = np.linspace(0.0, 1.0, num_alpha_bins + 1)
    if not resample:
        return np.interp(alpha, level, result.curve.ecp), alpha
    arguments.sizes(num_bootstrap=num_bootstrap, num_alpha_bins=num_alpha_bins)
    curves = result.bootstrap(num_bootstrap, rng=result.seed)
    return np.stack([np.interp(alpha, level, ecp) for ecp in curves]), alpha


def _reference(references: ArrayLike) -> Reference:
    if isinstance(references, str):
        arguments.one_of("references", references, ["random"])
        return Uniform()
    return Fixed(references)


def _metric(metric: str, norm: bool) -> Metric:
    kind = _METRICS[arguments.one_of("metric", metric, list(_METRICS))]
    return kind() if arguments.flag("norm", norm) else kind(scale=1.0)

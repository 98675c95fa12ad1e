"""The function of the reference package `tarp`, for scripts that call it."""

import numpy as np

from ._base import arguments
from ._base.types import ArrayLike, Floats
from .diagnostics import tarp
from .metrics import L1, L2, Metric
from .references import Fixed, Reference, Uniform

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

    Change only the import. The numbers differ in these cases:

    - The bootstrap resamples all simulations, with replacement. It changes neither the caller's
      arrays nor the global random state. The same seed gives the same curves.
    - Random references are uniform in the box of all truths and draws. `tarp` draws them in the
      unit box, even if the parameters are elsewhere, and with `norm` in the box of the truths
      alone, which treats truths and draws differently.
    - Your own references are in parameter units, also with `norm`.
    - Levels run from 0 to 1. `tarp` starts at the smallest fraction that occurs and ends at the
      largest. Between the levels that the draws resolve, coverage is interpolated, so that the
      curve of an accurate posterior is the diagonal on average, at any number of draws.
    - Ties are broken at random.
    - There are 10 bins below 20 simulations.
    - NaN, infinite values and wrong shapes raise a `ValueError`.

    Use `tarpon.tarp` for a p-value, a band and a verdict.

    Arguments:
        samples: Posterior draws `(n_draws, n_sims, n_dims)`.
        theta: True parameters `(n_sims, n_dims)`.
        references: Points of shape `(n_sims, n_dims)`, or "random".
        metric: Distance, "euclidean" or "manhattan".
        num_alpha_bins: Number of steps between level 0 and level 1, by default a tenth of the
            number of simulations.
        num_bootstrap: Number of curves, with `bootstrap`.
        norm: Whether to divide differences by the sides of the box of truths and draws.
        bootstrap: Whether to return curves of resampled simulations.
        seed: Seed; without one, the answer differs from call to call.

    Returns:
        Expected coverage `(n_bins + 1,)`, or `(num_bootstrap, n_bins + 1)` with `bootstrap`; and
        levels `(n_bins + 1,)`, which `tarp` calls alpha.

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

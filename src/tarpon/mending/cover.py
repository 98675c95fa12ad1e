r"""`cover`: credible regions that contain the truth as often as they say.

A score :math:`s(\theta; x, \omega)` of a point, given some draws :math:`\omega` of its posterior,
is the same function for every simulation. So the scores :math:`s_i` of the truths of :math:`N`
simulations and that of a new truth are exchangeable, and with the :math:`k`-th smallest as
threshold, :math:`k = \lceil (N + 1) c \rceil`,

.. math:: P\big(s(\theta^*; x, \omega) \le s_{(k)}\big) \ge c ,

for posteriors that are wrong in any way. Given the calibration, the coverage follows
:math:`\mathrm{Beta}(k, N + 1 - k)` if scores are continuous, so that :math:`k` can be chosen for
a coverage of at least :math:`c` with a given confidence (Vovk, 2012).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np

from .._base import arguments
from .._base.arrays import joined
from .._base.types import RNG, Array, ArrayLike, Floats
from ..engine import Run
from ..ranks import proportion
from ..regions import Region
from ..simulations import Simulations, bound, passes, shapes
from ..simulations.views import equalised, without
from .differences import difference
from .labels import Labelling, labelled
from .scores import applies_elsewhere, of_truths
from .thresholds import ALL, Cover, Threshold

if TYPE_CHECKING:
    from ..local.places import Place
    from ..local.where import Where

_FEWEST = 2  # draws that centres and covariances can be made of


def cover(
    sims: Simulations,
    level: float = 0.9,
    *,
    sure: float | None = None,
    groups: "ArrayLike | Labelling | Where | Sequence[Place] | None" = None,
    region: Region | None = None,
    rng: RNG = None,
) -> Cover:
    """Calibrate credible regions so that they contain the truth as often as they say.

    A point belongs to the region if its distance from the centre of the draws, in units of their
    covariance, is at most a threshold. Centre and covariance are those of one half of the draws;
    the other half shows which credibility level the region has. The guarantee needs nothing of the
    posteriors, but that the new observation is like the simulated ones.

    Arguments:
        sims: Simulations. Draws with weights are resampled by weight.
        level: Probability of containing the truth.
        sure: Confidence with which the coverage is at least the level, for example 0.95. Without
            it, the coverage is at least the level on average over calibrations.
        groups: Groups in each of which the regions are to hold: labels `(n_sims,)`, a function of
            the observations that returns labels, or the answer of `tarpon.where` on other
            simulations. They must be fixed by the observations.
        region: Region of `tarpon.regions` with one score per point, instead of the distance.
        rng: Seed or generator.

    Returns:
        A `Cover`.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_sims=200, rng=0)
        >>> cover = tarpon.cover(sims, 0.9, rng=0)
        >>> cover.holds(sims.theta[0], sims.samples[:, 0])
        array([ True])
    """
    arguments.instance("sims", sims, Simulations, "`Simulations`: tarpon.Simulations(...)")
    level, seed = arguments.probability("level", level), arguments.seed(rng)
    sure = None if sure is None else arguments.probability("sure", sure)
    if region is None:
        shapes.needs_parameters(sims.n_dims)
    else:
        arguments.function("region", region, "one of `tarpon.regions`", "scores")
        applies_elsewhere(region)
    resample, permute = np.random.default_rng(seed).spawn(2)
    sims = equalised(without(bound(sims, Run()), "log_weights_theta"), resample)
    n_centre = sims.draws.fewest // 2
    if n_centre < _FEWEST:
        raise ValueError(
            f"each of `sims` must have at least {2 * _FEWEST} draws, equally weighted, but one "
            f"has {sims.draws.fewest}."
        )
    labels, labelling = labelled(sims, groups)
    scored = partial(of_truths, n_centre=n_centre, region=region)
    found = joined(passes.each(sims, "cover", scored))
    score, inside = found["score"], found["below"] < level
    labels = np.full(sims.n_sims, ALL) if labels is None else labels
    thresholds = tuple(
        _threshold(str(label), score[labels == label], inside[labels == label], level, sure)
        for label in np.unique(labels)
    )
    answer = Cover(
        level, sure, thresholds, n_centre, tuple(sims.names or ()), region, labelling,
        n_dropped=sims.n_dropped,
    )  # fmt: skip
    if groups is not None:
        return answer
    return replace(answer, difference=difference(sims, score <= thresholds[0].value, permute))


def place(n_sims: int, level: float, sure: float | None) -> int:
    """Return which of the sorted scores is the threshold, from 1; too large if there is none."""
    if sure is None:
        return ceil((n_sims + 1) * level - 1e-9)
    from scipy.special import betainc

    k = np.arange(1, n_sims + 1)
    return 1 + int((betainc(k, n_sims + 1 - k, level) > 1 - sure).sum())


def fewest_sims(level: float, sure: float | None) -> int:
    """Return the smallest number of simulations that have a threshold."""
    if sure is None:
        return ceil(level / (1 - level) - 1e-9)
    return ceil(log(1 - sure) / log(level) - 1e-9)


def _threshold(
    group: str, score: Floats, inside: Array, level: float, sure: float | None
) -> Threshold:
    n, whose = len(score), "" if group == ALL else f" in the group {group!r}"
    k = place(n, level, sure)
    if k > n:
        more = "" if sure is None else f" with confidence {sure:g}"
        raise ValueError(
            f"a coverage of {level:g}{more} needs at least {fewest_sims(level, sure)} "
            f"`sims`{whose}, but there are {n}: simulate more, or ask for less."
        )
    value = float(np.sort(score)[k - 1])
    if value == np.inf:
        raise ValueError(
            f"{int((score == np.inf).sum())} of {n} truths of `sims`{whose} lie infinitely far "
            f"from their draws, which are all equal or of density zero there: no region short of "
            f"everything has a coverage of {level:g}."
        )
    return Threshold(group, value, k, n, proportion(int(inside.sum()), n))

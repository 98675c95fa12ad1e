"""`check`: every angle at once, and one exact answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import bases, regions
from .._base import arguments, arrays
from .._base.tables import Table
from .._base.text import clean
from .._base.types import RNG, Array, ArrayLike, Floats
from ..bases import Basis
from ..engine import Engine
from ..regions import Region, Scores, Values
from ..simulations import Simulations, begin, dropping_warning, given, passes, shapes, units
from ..simulations.boxes import is_ordinary
from ..simulations.stored import Stored
from ..simulations.views import without
from . import comparing, families, fields, labellings, learned, mistakes, outliers, power, swaps
from .advice import advise
from .answers import CLEAR, Check, Family
from .evidence import Evidence, marginal_p_values
from .features import Features
from .findings import findings, warnings
from .fits import fitted
from .flaws import Finding
from .learned import Judge, Learned
from .parameters import Effects, measure
from .piles import clipped_cells
from .scoring import LogScores
from .statistics import Combined, combine
from .tolerances import Tolerance, margins
from .trends import label
from .values import Few

__all__ = ["Check", "Family", "check"]

Score = Region | Callable[[Array, Array | None], Array] | tuple[ArrayLike, ArrayLike] | Judge


def check(
    samples: ArrayLike | Simulations,
    theta: ArrayLike | None = None,
    *,
    x: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    scores: Mapping[str, Score] | None = None,
    summary: Callable[[Array], ArrayLike] | None = None,
    basis: Basis | None = None,
    tolerance: Tolerance | None = None,
    level: float = 0.05,
    n_swaps: int = 999,
    rng: RNG = None,
    engine: Engine = Engine(),
) -> Check:
    r"""Test posteriors from every angle, with one exact p-value.

    Marginals, correlations, distances from the centre, from the draws and from random points,
    dependence on the data, and the estimator's density are ranked together; swapping truths
    with draws gives the distribution of all of them under accuracy, whatever their dependence.

    Arguments:
        samples: The posterior draws, draws first, `(n_draws, n_sims, n_dims)`; a list with one
            array per simulation; or `Simulations`, which also take log-densities, weights, and
            what to do with invalid simulations.
        theta: The true parameters, `(n_sims, n_dims)`.
        x: The observations, `(n_sims, ...)`. Without them, an estimator that ignores the data
            cannot be told from one that uses them.
        names: Names, one per parameter.
        scores: More scores by name: a function of `theta` and `x`, a region, arrays of values
            for draws and truths, `tarpon.regions.Fit(...)`, which compares predictions with the
            data, or `tarpon.adversaries.Folds()`, which learns a score.
        summary: A function of the observations that returns what matters in them; of stored
            ones it is given a few simulations at a time.
        basis: What fields are made of, `tarpon.bases.Fourier()` unless told: errors are looked
            for at every scale or in every region of it. With a basis, a vector of parameters is a
            field with one axis.
        tolerance: The errors that do not matter, `tarpon.Tolerance()` or others. If all are shown
            to be smaller, the outcome is "within tolerance", whatever the p-value.
        level: The level of the test, and one minus the confidence that errors are tolerable.
        n_swaps: The number of swaps; the p-value is at least 1 / (n_swaps + 1).
        rng: A seed or a generator.
        engine: Where blocks are computed, and where their results are kept.

    Returns:
        A `Check`.

    Example:
        >>> sims = tarpon.problems.zoo("narrow", n_dims=10, rng=0)
        >>> tarpon.check(sims, rng=0).outcome
        'inaccurate'
    """
    level, own = arguments.probability("level", level), _named(scores)
    if tolerance is not None:
        arguments.instance("tolerance", tolerance, Tolerance, "`tarpon.Tolerance(bias=0.1, ...)`")
    judges = {name: score for name, score in own.items() if isinstance(score, Judge)}
    n_swaps = swaps.enough_swaps(n_swaps, level * learned.share_of_families(len(judges)))
    sims = given(samples, theta, x=x, names=names)
    shapes.needs_parameters(sims.n_dims)
    swaps.needs_at_least(sims.n_sims, sims.n_draws)
    basis = bases.fitting(basis, sims.shape)
    n_dims = fields.n_parameters(sims.shape) if basis else sims.n_dims
    labellings.affordable_swaps(n_swaps, sims, n_dims)
    settings = {"n_swaps": n_swaps, "scores": own, "summary": summary}
    settings |= {"basis": basis} if basis else {}
    sims, seed = begin("check", sims, engine, rng, **settings)
    data = _data(sims, summary)
    return _checked(sims, own, data, basis, tolerance, level=level, n_swaps=n_swaps, seed=seed)


def _checked(
    sims: Simulations, scores: Mapping[str, Score], data: Array | None, basis: Basis | None,
    tolerance: Tolerance | None, *, level: float, n_swaps: int, seed: int,
) -> Check:  # fmt: skip
    """Swap truths with draws, and return the answer."""
    swapping, plant, break_ties, learn = np.random.default_rng(seed).spawn(4)
    truths = comparing.fingerprint(sims)
    log_scores = LogScores.of(sims, truths)
    judges = {name: score for name, score in scores.items() if isinstance(score, Judge)}
    own = {name: _region(score, sims) for name, score in scores.items() if name not in judges}
    field, whole, ranked = None, sims, dict(own)
    if basis is not None:
        sims, field, ranked = fields.measured(sims, basis, own)
    fits, ranked = fitted(whole, own, ranked)
    sims = sims if is_ordinary(sims) else units.tamed(sims)
    share, judged = learned.share_of_families(len(judges)), list[Learned]()

    def judge(found: Features) -> None:
        known = learned.Features.of(found, data, label(sims, data))
        judged.extend(learned.judged(judges, sims, known, learn))

    few, energy = Few.of(sims), comparing.Energy.of(sims, truths)
    before = judge if judges else None
    outlying = outliers.are_there(sims)
    plants = power.Errors.of(sims.n_dims, plant, outlying=outlying)
    sums = families.swapped(
        sims if ranked else without(sims, "x"),
        ranked,
        data,
        n_swaps=n_swaps, rng=swapping, plants=plants, few=few, outlying=outlying, before=before,
        fields=field.parts() if field else None,
        measure=partial(_measured, few=few, energy=energy, ends=mistakes.ends(sims)),
    )  # fmt: skip
    by_product = families.product_families(sums)
    by_family = families.families(sums, by_product)
    combined = combine(np.column_stack(list(by_family.values())), families.weights(by_family))
    sums_here = sums.on_host()
    effects = Effects.of(sims, sums.measured, break_ties, few)
    p_value = min(1.0, combined.p_value / share)
    flaws: tuple[Finding, ...] = ()
    cells = clipped_cells(whole, field.piles) if field else None
    if p_value <= level:
        clipped = mistakes.clipped(sims, effects, sums.measured, cells)
        flaws = findings(
            sims, sums_here, by_family, effects, data, level * share, field, fits, clipped
        )
    found = Table([*flaws, *(score.finding for score in judged if score.adjusted <= level)])
    parameters = effects.parameters(sims.names or (), marginal_p_values(sums_here, few))
    p_value = min([p_value, *(score.adjusted for score in judged)])
    left = margins(effects, sims.names or (), sums.ranks, tolerance, level) if tolerance else None
    matters = p_value <= level / CLEAR and not (left and left.within)
    return Check(
        p_value=p_value,
        level=level,
        findings=found,
        families=_families(by_family, combined, share, judged),
        parameters=Table(parameters),
        detectable=power.detectable(sums, by_product, level * share),
        warnings=warnings(sims, effects, found, dropping_warning(sims)),
        n_sims=sims.n_sims,
        draws=sims.draws,
        n_dropped=sims.n_dropped,
        dropping=sims.dropping,
        n_swaps=n_swaps,
        seed=seed,
        evidence=Evidence.of(
            sims, sums_here, effects, data, energy,
            level=level, seed=seed, log_scores=log_scores, field=field, whole=whole,
        ),
        advice=advise(sims, effects, sums.measured, found if matters else (), cells),
        margins=left,
    )  # fmt: skip


def _measured(
    sims: Simulations, few: Few, energy: comparing.Energy, ends: tuple[Floats, Floats]
) -> arrays.Results:
    """Return the arrays per simulation that are not ranked."""
    return measure(sims, few) | energy.measure(sims) | mistakes.measure(sims, ends)


def _families(
    names: Iterable[str], combined: Combined, share: float, judged: Sequence[Learned]
) -> Table[Family]:
    """Return the families with their p-values, most telling first."""
    adjusted = np.minimum(combined.adjusted / share, 1.0)
    table = [
        Family(name, families.SEES.get(name, "your own score"), float(p), float(among_all))
        for name, p, among_all in zip(names, combined.single, adjusted, strict=True)
    ]
    table += [
        Family(score.family, learned.SEES, score.judgement.p_value, score.adjusted)
        for score in judged
    ]
    return Table(sorted(table, key=lambda family: (family.adjusted, family.p_value)))


def _named(scores: Mapping[str, Score] | None) -> dict[str, Score]:
    """Return the scores by name, each of which can be one; names are safe to print."""
    if scores is None:
        return {}
    wanted = "a dictionary of scores by name"
    found = {}
    for name, score in arguments.instance("scores", scores, Mapping, wanted).items():
        found[clean(arguments.instance("scores", name, str, f"{wanted}, which are text"))] = score
        pair = isinstance(score, tuple | list) and len(score) == 2
        known = callable(getattr(score, "scores", score)) or pair or isinstance(score, Judge)
        if isinstance(score, type) or not known:
            raise TypeError(
                f"each of the `scores` must be a function of theta and x, a region, or the arrays "
                f"of values (for draws, for truths), but got {arguments.shown(score)} for "
                f"{arguments.shown(name)}."
            )
    return found


def _region(score: Any, sims: Simulations) -> Region:
    if isinstance(score, Values):
        score = score.samples, score.theta
    if isinstance(score, Region):
        return regions.fitting(score, sims)
    if callable(score):
        return Scores(score)
    draws, truths = score
    draws = shapes.where_it_is("scores", draws, 1)
    truths = arrays.to_device_of(shapes.array("scores", truths), draws)
    regions.score_shapes(draws.shape, truths.shape, sims.n_draws, sims.n_sims)
    return Values(draws, truths)


def _data(sims: Simulations, summary: Callable[[Array], ArrayLike] | None) -> Array | None:
    if summary is not None:
        arguments.function("summary", summary, "a function of the observations")
    if sims.x is None or summary is None:
        return sims.x if summary is None else shapes.needs_x(None, "`summary`")
    if not isinstance(sims.x, Stored):
        return shapes.one_each(summary(sims.x), sims.n_sims)
    step = passes.step(sims)
    parts = (sims.x[start : start + step] for start in range(0, sims.n_sims, step))
    return np.concatenate([shapes.one_each(summary(part), len(part)) for part in parts])

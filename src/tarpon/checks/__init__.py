"""`check`: every angle at once, and one exact answer."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import regions
from .._base import arguments, arrays, optional
from .._base.tables import Table
from .._base.text import Estimate, clean, dropped, number, stated
from .._base.types import RNG, Array, ArrayLike, Floats
from .._version import __version__
from ..engine import Engine
from ..regions import Region, Scores, Values
from ..results import CITATION
from ..simulations import (
    Simulations,
    begin,
    dropping_warning,
    given,
    is_ordinary,
    passes,
    shapes,
    units,
    without,
)
from ..simulations.dropping import Dropping
from ..simulations.stored import Stored
from ..simulations.weights import Draws
from . import comparing, families, labellings, learned, mistakes, power, scoring, swaps
from .advice import Advice, advise
from .evidence import Evidence, marginal_p_values
from .features import Features
from .findings import findings, warnings
from .flaws import Finding, Kind
from .learned import Judge, Learned
from .parameters import Effects, Parameter, measure
from .power import Detectable
from .scoring import LogScores
from .statistics import Combined, combine
from .tolerances import Margins, Tolerance, margins
from .trends import label
from .values import Few, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_CLEAR = 5  # times below the level, evidence is no longer weak

Score = Region | Callable[[Array, Array | None], Array] | tuple[ArrayLike, ArrayLike] | Judge


@dataclass(frozen=True)
class Family:
    """One angle of the test.

    Arguments:
        name: The name of the angle.
        sees: The flaw that it sees.
        p_value: Its own exact p-value.
        adjusted: The p-value adjusted for the number of families.
    """

    name: str
    sees: str
    p_value: float
    adjusted: float

    def cells(self) -> dict[str, str]:
        """Return its row in the table that `check.families` prints, by column."""
        own, adjusted = number(self.p_value, 3), number(self.adjusted, 3)
        return {"family": self.name, "sees": self.sees, "p": own, "adjusted": adjusted}


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """The answer of all angles together.

    Findings, families and parameters are tuples that print as tables.

    Arguments:
        p_value: Exact for all families together, at any size of the study.
        level: The level of the test.
        findings: The flaws, worst first; empty unless the posteriors are inaccurate.
        families: Every angle with its p-values, most telling first.
        parameters: Bias, width and coverage, parameter by parameter.
        detectable: The smallest errors that this study would have caught.
        warnings: Warnings about the draws, whatever the test says.
        n_sims: The number of simulations.
        draws: The number of draws per simulation.
        n_dropped: The number of invalid simulations that were left out.
        dropping: Whether dropping depends on the simulations.
        n_swaps: The number of swaps.
        seed: The integer that reproduces this check, as `rng=`.
        evidence: The numbers behind the findings, for tables and figures.
        advice: What to do next: mistakes that were recognised, then usual causes of the findings.
        margins: The errors that the study leaves possible, if a tolerance was given.
    """

    p_value: float
    level: float
    findings: Table[Finding]
    families: Table[Family]
    parameters: Table[Parameter]
    detectable: Detectable
    warnings: tuple[str, ...]
    n_sims: int
    draws: Draws
    n_dropped: int
    dropping: Dropping
    n_swaps: int
    seed: int
    evidence: Evidence
    advice: tuple[Advice, ...]
    margins: Margins | None = None

    @property
    def outcome(self) -> str:
        """One of "inaccurate", "no evidence against" and "too few to say".

        With a tolerance also "within tolerance", whether or not there is evidence against.
        """
        if self.margins and self.margins.within:
            return "within tolerance"
        if self.p_value <= self.level:
            return "inaccurate"
        telling = self.detectable.telling(self.n_sims)
        return "no evidence against" if telling else "too few to say"

    @property
    def weak(self) -> bool:
        """Whether the evidence is weak, so that it should be looked for in fresh simulations."""
        clear = not self.level / _CLEAR < self.p_value <= self.level
        return not clear and self.outcome == "inaccurate"

    @property
    def exactness(self) -> str:
        """In which sense the p-values are exact, in words."""
        return self.dropping.exactness(self.n_dropped, approximate=self.draws.approximate)

    @property
    def log_score(self) -> Estimate | None:
        """The mean log-density of the truths in nats, if log-densities were given.

        It is the log score of the estimator if its densities are normalised, and -inf if the
        density of any truth is zero. It is None if the draws show that the densities are not
        normalised. To compare estimators, see `gain_over`.
        """
        scores = self.evidence.log_scores
        return None if scores is None or scores.excess > 0 else scores.mean

    def gain_over(self, other: "Check") -> Estimate:
        """Return how much larger the log score is than that of another check, in nats.

        A positive gain is the amount by which this estimator is closer to the exact posterior, as
        a Kullback-Leibler divergence averaged over observations. Differences are taken simulation
        by simulation, so both checks must be of the same simulations, in the same order.

        Arguments:
            other: A check of another estimator on the same simulations.

        Example:
            >>> checks = {
            ...     name: tarpon.check(tarpon.problems.conjugate(name, noise=5, rng=0), rng=0)
            ...     for name in ("posterior", "prior")
            ... }
            >>> print(checks["posterior"].gain_over(checks["prior"]))
            0.54 [0.46, 0.62]
        """
        arguments.instance("other", other, Check, "what `tarpon.check` returns")
        return scoring.gain(self.evidence.log_scores, other.evidence.log_scores)

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the bias and width of every parameter."""
        from .. import plots

        return plots.effects(self, ax=ax)

    def report(
        self,
        path: str | Path,
        *,
        name: str = "",
        where: Any = None,
        near: Any = None,
    ) -> None:
        """Write one HTML file with everything that the check found, for a browser or a mail.

        Arguments:
            path: The path of the file, which must end with `.html` or `.htm`.
            name: The name of what was checked, for the title.
            where: The answer of `tarpon.where`, for a section with maps.
            near: The answer of `tarpon.near`, for a section about an observation.
        """
        from .. import report

        arguments.instance("name", name, str, "text")
        report.write(path, self, names=[name] if name else None, where=where, near=near)

    @property
    def citation(self) -> str:
        """The papers behind the test, to cite with tarpon."""
        return CITATION

    def _repr_html_(self) -> str:
        from .. import report

        return report.card(self)

    def to_frame(self, table: str = "findings") -> "DataFrame":
        """Return one of the tables as a pandas DataFrame.

        Arguments:
            table: "findings", "families", "parameters" or "values", the calibration of
                parameters that take few values. A number with an interval has three columns, for
                example `bias`, `bias_low` and `bias_high`.

        Example:
            >>> check = tarpon.check(tarpon.problems.zoo("narrow", n_dims=2, rng=0), rng=0)
            >>> list(check.to_frame("families").columns)
            ['name', 'sees', 'p_value', 'adjusted']
        """
        record = _TABLES[arguments.one_of("table", table, list(_TABLES))]
        entries = self.evidence.values if table == "values" else getattr(self, table)
        rows = [_cells(entry) for entry in entries]
        columns = [column for field in fields(record) for column in _columns(field)]
        return optional.package("pandas").DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "schema": "tarpon-check-2",
            "outcome": self.outcome,
            "p_value": self.p_value,
            "level": self.level,
            "findings": [asdict(finding) | {"text": str(finding)} for finding in self.findings],
            "families": [asdict(family) for family in self.families],
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "detectable": {
                name: None if np.isinf(size) else size
                for name, size in asdict(self.detectable).items()
            },
            "log_score": scoring.to_dict(self.evidence.log_scores),
            "warnings": list(self.warnings),
            "advice": [asdict(advice) | {"text": str(advice)} for advice in self.advice],
            "n_sims": self.n_sims,
            "draws": asdict(self.draws),
            "n_dropped": self.n_dropped,
            "dropping": self.dropping.to_dict() if self.n_dropped else None,
            "n_swaps": self.n_swaps,
            "seed": self.seed,
            "evidence": self.evidence.to_dict(),
            "margins": asdict(self.margins) if self.margins else None,
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        flaws = f": {self.findings[0]}" if self.findings else ""
        return (
            f"check of {self.n_sims} simulations{dropped(self.n_dropped)} × {self.draws}, "
            f"{stated('p', self.p_value)}: {self.outcome}{flaws}{self.dropping.doubt}"
        )

    def __str__(self) -> str:
        from . import words

        return words.summary(self)


def check(
    samples: ArrayLike | Simulations,
    theta: ArrayLike | None = None,
    *,
    x: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    scores: Mapping[str, Score] | None = None,
    summary: Callable[[Array], ArrayLike] | None = None,
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
            array a simulation; or `Simulations`, which also take log-densities, weights, and
            what to do with invalid simulations.
        theta: The true parameters, `(n_sims, n_dims)`.
        x: The observations, `(n_sims, ...)`. Without them, an estimator that ignores the data
            cannot be told from one that uses them.
        names: Names, one per parameter.
        scores: More scores by name: a function of `theta` and `x`, a region, arrays of values
            for draws and truths, or `tarpon.adversaries.Folds()`, which learns a score.
        summary: A function of the observations that returns what matters in them; of stored
            ones it is given a few simulations at a time.
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
    labellings.affordable_swaps(n_swaps, sims)
    sims, seed = begin("check", sims, engine, rng, n_swaps=n_swaps, scores=own, summary=summary)
    data = _data(sims, summary)
    return _checked(sims, own, data, tolerance, level=level, n_swaps=n_swaps, seed=seed)


def _checked(
    sims: Simulations, scores: Mapping[str, Score], data: Array | None,
    tolerance: Tolerance | None, *, level: float, n_swaps: int, seed: int,
) -> Check:  # fmt: skip
    """Swap truths with draws, and return the answer."""
    swapping, plant, break_ties, learn = np.random.default_rng(seed).spawn(4)
    truths = comparing.fingerprint(sims)
    log_scores = LogScores.of(sims, truths)
    sims = sims if is_ordinary(sims) else units.tamed(sims)
    judges = {name: score for name, score in scores.items() if isinstance(score, Judge)}
    ranked = {name: score for name, score in scores.items() if name not in judges}
    share, judged = learned.share_of_families(len(judges)), list[Learned]()

    def judge(found: Features) -> None:
        known = learned.Features.of(found, data, label(sims, data))
        judged.extend(learned.judged(judges, sims, known, learn))

    few, energy = Few.of(sims), comparing.Energy.of(sims, truths)
    sums = families.swapped(
        sims if ranked else without(sims, "x"),
        {name: _region(score, sims) for name, score in ranked.items()},
        data,
        n_swaps=n_swaps,
        rng=swapping,
        plants=power.Errors(plant.integers(sims.n_dims, size=power.Errors.n_plays)),
        few=few,
        measure=partial(_measured, few=few, energy=energy, ends=mistakes.ends(sims)),
        before=judge if judges else None,
    )
    by_product = families.product_families(sums)
    by_family = families.families(sums, by_product)
    combined = combine(np.column_stack(list(by_family.values())), families.weights(by_family))
    sums_here = sums.on_host()
    effects = Effects.of(sims, sums.measured, break_ties, few)
    p_value = min(1.0, combined.p_value / share)
    flaws = (
        findings(sims, sums_here, by_family, effects, data, level * share)
        if p_value <= level
        else ()
    )
    found = Table([*flaws, *(score.finding for score in judged if score.adjusted <= level)])
    parameters = effects.parameters(sims.names or (), marginal_p_values(sums_here, few))
    p_value = min([p_value, *(score.adjusted for score in judged)])
    left = margins(effects, sims.names or (), sums.ranks, tolerance, level) if tolerance else None
    matters = p_value <= level / _CLEAR and not (left and left.within)
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
            sims, sums_here, effects, data, energy, level=level, seed=seed, log_scores=log_scores
        ),
        advice=advise(sims, effects, sums.measured, found if matters else ()),
        margins=left,
    )


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


_NO_COLUMNS = ("sizes", "trend")
_TABLES = {"findings": Finding, "families": Family, "parameters": Parameter, "values": Value}


def _columns(field: Field[Any]) -> list[str]:
    """Return the columns of a field in a table: three for a number with an interval."""
    if field.name in _NO_COLUMNS:
        return []
    if field.type in (Estimate, Estimate | None):
        return [field.name, f"{field.name}_low", f"{field.name}_high"]
    return [field.name]


def _cells(entry: Finding | Family | Parameter | Value) -> list[str | float | None]:
    """Return a row of a table."""
    cells: list[str | float | None] = []
    for field in fields(entry):
        value = getattr(entry, field.name)
        if field.name in _NO_COLUMNS:
            continue
        if isinstance(value, Estimate):
            cells += [value.value, value.low, value.high]
        elif isinstance(value, tuple):
            cells.append(", ".join(value))
        else:
            cells += [value.value if isinstance(value, Kind) else value] * len(_columns(field))
    return cells


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

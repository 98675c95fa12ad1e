"""Answers: what a check returns, as data, tables and words."""

import json
from dataclasses import Field, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments, optional
from .._base.tables import Table
from .._base.text import Estimate, dropped, number, stated
from .._version import __version__
from ..results import CITATION
from ..simulations.dropping import Dropping
from ..simulations.weights import Draws
from . import scoring
from .advice import Advice
from .evidence import Evidence
from .flaws import Finding, Kind
from .parameters import Parameter
from .power import Detectable
from .tolerances import Margins
from .values import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

CLEAR = 5  # times below the level, evidence is no longer weak


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
        clear = not self.level / CLEAR < self.p_value <= self.level
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

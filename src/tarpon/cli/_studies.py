"""Commands that need no files: plan a study, see a demo, reproduce the paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._base.progress import Bar
from ._app import (
    Command,
    a_count,
    a_figure,
    a_folder,
    a_level,
    a_seed,
    a_share,
    a_size,
    a_tolerance,
    an_option,
    as_json,
    in_options,
    say,
    show,
    where,
    write_figure,
)

# Everything else is imported where it is used, so that `tarpon --help` answers at once.
if TYPE_CHECKING:
    from rich.table import Table

    from ..experiments import Outcome
    from ..results import Result


@click.command(cls=Command)
@a_figure("--out", "The path of the figure.", default=Path("tarpon-demo.png"))
@a_count("--n-dims", "The number of parameters.", default=10)
@a_seed(0)
def demo(out: Path, n_dims: int, rng: int) -> None:
    """Run the paper's toy: four normal posteriors, TARP beside HPD.

    Example:  tarpon demo --n-dims 100
    """
    import matplotlib.pyplot as plt

    from .. import plots
    from ..diagnostics import hpd, tarp
    from ..problems import gaussian

    cases = ("correct", "overconfident", "underconfident", "biased")
    results: dict[str, dict[str, Result]] = {}
    for case in cases:
        sims = gaussian(case, n_dims=n_dims, rng=rng)
        results[case] = {"TARP": tarp(sims, rng=rng), "HPD": hpd(sims, rng=rng)}
    show(_demo_table(results, n_dims))
    with plt.rc_context({"font.size": 13}):  # legible on a phone
        write_figure(plots.panels(results, n_cols=2), out)
    say(f"figure: {where(out)}")


@click.command(cls=Command)
@click.argument("n_dims", type=click.IntRange(min=1))
@a_size("--bias", "A bias of one parameter, in posterior sd.")
@a_size("--width", "The fraction by which all widths are wrong.")
@a_count(
    "--n-sims", "The number of simulations, in place of an error: print what they see.", least=20
)
@a_tolerance
@a_count("--n-draws", "The number of draws per simulation; several are tried by default.", least=5)
@a_level
@a_share("--power", "The probability of detecting the error.", default=0.9)
@a_seed()
@as_json
def plan(n_dims: int, as_json: bool, **options: Any) -> None:
    """Print how many simulations it takes to detect an error.

    N_DIMS is the number of parameters, and the error a --bias, a --width or both. With --n-sims
    instead, print the smallest errors that so many simulations detect; with --tolerance, how many
    show that accurate posteriors are within it.

    \b
    Example:  tarpon plan 10 --bias 0.3
              tarpon plan 2 --width 0.1 --n-draws 200
              tarpon plan 2 --n-sims 30
              tarpon plan 2 --tolerance 0.1,0.1
    """
    from ..checks.plan import plan
    from ..checks.tolerances import Tolerance

    given = {name: value for name, value in options.items() if value is not None}
    if "tolerance" in given:
        given["tolerance"] = Tolerance(*given["tolerance"])
    try:
        made = plan(n_dims, **given)
    except ValueError as error:
        raise ValueError(in_options(str(error))) from error
    say(json.dumps(made.to_dict(), indent=2) if as_json else in_options(str(made)))


@click.command(cls=Command)
@click.argument("name")
@a_folder("--out", "The folder of figures, numbers and the page.", default=Path("figures"))
@click.option("--quick", is_flag=True, help="Run it small: all of them in a minute.")
@click.option(
    "--galaxies",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Pictures for lensing, a .npy array (n, 16, 16), in place of Hubble's.",
)
@an_option(
    "--device",
    "The device of the chains of lensing and steps: cpu, cuda, or auto.",
    default="auto",
    metavar="NAME",
)
@a_seed(2023)
def reproduce(
    name: str, out: Path, quick: bool, galaxies: Path | None, device: str, rng: int
) -> None:
    """Run an experiment of the paper, or all of them.

    NAME is one of method, gaussian, uninformative, lensing, connection, intuition, bias,
    references, metrics, blindspots, steps, errata; or all. Figures (PNG and PDF), numbers (JSON)
    and a page with both are written. The exit status is 1 if any number is not as expected.

    Example:  tarpon reproduce gaussian --quick
    """
    from ..experiments import EXPERIMENTS, Lab, reproduce

    names = list(EXPERIMENTS) if name == "all" else [name]
    hold = True
    with Bar() as bar:
        lab = Lab(out, quick, rng, galaxies, device, bar)
        if {"lensing", "steps", "errata"} & set(names):
            _ = lab.prior  # If anything is missing for it, fail now and not after an hour.
        for experiment in names:
            outcome = reproduce(experiment, lab)
            for table in _outcome_tables(experiment, outcome):
                show(table)
            hold &= all(claim.holds for claim in outcome.claims)
    say(f"page: {where(out / 'README.md')}")
    raise SystemExit(int(not hold))


COMMANDS = (plan, demo, reproduce)


def _demo_table(results: dict[str, dict[str, Result]], n_dims: int) -> Table:
    from rich.table import Table

    from .._base.text import number

    first = next(iter(results.values()))["TARP"].ranks
    table = Table(
        title=f"{first.n_sims} normal posteriors, {n_dims} parameters, {first.n_draws} draws each",
        title_justify="left",
    )
    for column in ("posterior", "test", "p-value", "what it says"):
        table.add_column(column, justify="right" if column == "p-value" else "left")
    for case, tests in results.items():
        for name, result in tests.items():
            posterior = case if name == "TARP" else ""
            table.add_row(posterior, name, number(result.p_value), result.verdict)
        table.add_section()
    return table


def _outcome_tables(name: str, outcome: Outcome) -> Iterator[Table]:
    from rich.table import Table

    from .._base.text import in_digits, stated

    claims = Table("number", "must be", "is", "", title=name, title_justify="left")
    for claim in outcome.claims:
        mark = "[green]✓[/]" if claim.holds else "[red]✗[/]"
        claims.add_row(claim.what, claim.wanted, in_digits(claim.value), mark)
    answers = Table("estimator", "the paper's tests", "check", "check says")
    for answer in outcome.answers:
        tests = "\n".join(f"{test}: {stated('p', p)}" for test, p in answer.tests.items())
        answers.add_row(answer.case, tests, stated("p", answer.check), answer.words)
    return (table for table in (claims, answers) if table.row_count)

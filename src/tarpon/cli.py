"""The command line: parses, calls, prints. Exit status 0: nothing found, 1: found, 2: misuse."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ._version import __version__

# Everything else is imported where it is used, so that `tarpon --help` answers at once.
if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from .checks import Check
    from .diagnostics import Result
    from .experiments import Outcome
    from .runner import Study

Command = TypeVar("Command", bound=Callable[..., Any])

_INTERRUPTED = 130  # the exit status of a program that ends with Ctrl-C
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Are these posterior samples accurate?

    \b
    Try it:         tarpon demo
    Test a file:    tarpon check draws.npz
    One test alone: tarpon tarp draws.npz --plot curve.png
    Plan a study:   tarpon plan 10 --bias 0.3
    Run one:        tarpon run problem.py
    The paper:      tarpon reproduce all --quick

    \b
    Larger than memory, and killed in between:
                    tarpon check draws.zarr --resume blocks
    On a cluster:   tarpon check draws.zarr --scheduler tcp://head:8786
    In a job array: tarpon check draws.zarr --resume blocks --shard 0/10
                    tarpon merge blocks

    A file (.npz, .h5, .nc, .zarr, a folder of .npy) holds `samples` (n_draws, n_sims, n_dims)
    and `theta` (n_sims, n_dims), or `log_prob_samples` and `log_prob_theta` for hpd. The exit
    status is 0 when nothing was found, 1 when the posteriors are inaccurate, 2 when the call was
    wrong.
    """


class _Shard(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`i/n`, the i-th of n shards, counted from 0."""

    name = "i/n"

    def convert(self, value: Any, *_: Any) -> tuple[int, int]:
        try:
            i, n = (int(number) for number in value.split("/"))
        except ValueError:
            i, n = 0, 0
        if not 0 <= i < n:
            self.fail(f"{value!r} is not i/n with i from 0 to n - 1, like 0/4.")
        return i, n


def _options(command: Command) -> Command:
    for option in (
        click.option("--shard", type=_Shard(), help="Compute this part of the blocks alone."),
        click.option("--resume", type=click.Path(path_type=Path, file_okay=False),
                     help="Keep the results of blocks here, and go on from those there are."),
        click.option("--scheduler", help="The address of a Dask scheduler to compute on."),
        click.option("--plot", type=click.Path(path_type=Path), help="Write a figure here."),
        click.option("--on-invalid", type=click.Choice(["raise", "drop"]), default="raise",
                     show_default=True, help="What to do with simulations that hold NaN."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON for a program."),
        click.option("--level", default=0.05, show_default=True,
                     type=click.FloatRange(0, 1, min_open=True, max_open=True),
                     help="Exit with 1 if the p-value is at most this."),
        click.option("--rng", type=click.IntRange(min=0), help="The seed."),
    ):  # fmt: skip
        command = option(command)
    return command


@main.command()
@_FILE
@_options
def tarp(file: Path, **options: Any) -> None:
    """Test coverage with balls around random points."""
    _test("tarp", file, **options)


@main.command()
@_FILE
@_options
def hpd(file: Path, **options: Any) -> None:
    """Test coverage of the regions of highest density."""
    _test("hpd", file, **options)


@main.command()
@_FILE
@_options
def sbc(file: Path, **options: Any) -> None:
    """Test each parameter alone (simulation-based calibration)."""
    _test("sbc", file, **options)


@main.command()
@_FILE
@_options
@click.option("--n-swaps", default=999, show_default=True, type=click.IntRange(min=1),
              help="The number of swaps; the p-value is at least 1 / (n_swaps + 1).")  # fmt: skip
def check(file: Path, **options: Any) -> None:
    """Test from every angle, with one exact p-value, findings and their sizes."""
    _test("check", file, **options)


@main.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--plot", type=click.Path(path_type=Path), help="Write a figure here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def merge(folders: tuple[Path, ...], **options: Any) -> None:
    """Say what a test found whose shards are done, from the FOLDERS given to --resume."""
    from .engine import about_folder

    try:
        note = about_folder(folders[0]).get("note", {})
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if "test" not in note:
        raise click.UsageError(
            f"{str(folders[0])!r} was written by a program: it gets the answer by calling the "
            f"same function with `Engine(resume=..., on_missing='raise')`."
        )
    _test(
        note["test"], Path(note["file"]), **note["options"] | options,
        resume=folders, on_missing="raise",
    )  # fmt: skip


@main.command()
@click.argument("problem")
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where simulations go.  [default: the name of the problem, .study]",
)
@click.option(
    "--n-sims",
    default=1000,
    show_default=True,
    type=click.IntRange(min=2),
    help="The most simulations to make.",
)
@click.option(
    "--n-draws",
    default=1000,
    show_default=True,
    type=click.IntRange(min=5),
    help="The number of draws of each posterior.",
)
@click.option(
    "--tolerance",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="The coverage error that is small enough to stop.",
)
@click.option(
    "--level",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="How often accurate posteriors may be called inaccurate.",
)
@click.option(
    "--n-workers",
    type=click.IntRange(min=1),
    help="The number of processes.  [default: one a processor]",
)
@click.option("--scheduler", help="The address of a Dask scheduler to compute on.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    help="Stop a simulation that takes longer than so many seconds.",
)
@click.option(
    "--retries",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    help="How often a simulation that failed is tried again.",
)
@click.option("--rng", type=click.IntRange(min=0), help="The seed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a figure here.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML page with all figures here.",
)
def run(problem: str, **options: Any) -> None:  # fmt: skip
    """Simulate, sample and test until the answer is in.

    PROBLEM is a Python file with three functions, `prior(rng)`, `simulate(theta, rng)` and
    `posterior(x, n_draws, rng)`, or with an object `problem` that has them; `file.py:name` is an
    object of another name. Every finished simulation is kept: after Ctrl-C, a crash or a power
    cut the same command goes on from there.

    \b
    Example:  tarpon run examples/conjugate.py
              tarpon run examples/conjugate.py:too_narrow --n-sims 500 --time-limit 60
    """
    path = Path(problem.replace(".py:", "-").removesuffix(".py"))
    store = options.pop("store") or Path(f"{path.name}.study")
    try:
        study = _study(problem, store, path.name, **options)
        click.echo(study.to_json() if options["as_json"] else _wrapped(str(study)))
        if options["plot"]:
            _write(study.check.plot().figure, options["plot"], quiet=options["as_json"])
        if options["report"]:
            _report(study.check, options["report"], quiet=options["as_json"])
    except KeyboardInterrupt:
        n_done = len([*store.glob("simulation-*.npz")])
        click.echo(
            f"\nstopped: {n_done} simulations are in {str(store)!r}. The same command goes on "
            f"from there.", err=True,
        )  # fmt: skip
        raise SystemExit(_INTERRUPTED) from None
    except (ValueError, TypeError, OSError, RuntimeError, ImportError) as error:
        raise click.UsageError(str(error)) from error
    raise SystemExit(int(study.outcome == "inaccurate"))


@main.command()
@click.argument("n_dims", type=click.IntRange(min=1))
@click.option("--bias", default=0.0, help="The bias of one parameter to be seen, in posterior sd.")
@click.option("--width", default=0.0, help="The fraction by which all widths are wrong.")
@click.option("--n-draws", type=click.IntRange(min=5), help="The number of draws.")
@click.option("--rng", type=click.IntRange(min=0), help="The seed.")
def plan(n_dims: int, **options: Any) -> None:
    """Say how many simulations it takes to see an error in N_DIMS dimensions."""
    from .planning import plan

    try:
        click.echo(plan(n_dims, **options))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@main.command()
@click.option("--out", default=Path("tarpon-demo.png"), show_default=True,
              type=click.Path(path_type=Path), help="Where the figure goes.")  # fmt: skip
@click.option("--n-dims", default=10, show_default=True, type=click.IntRange(min=1),
              help="The number of parameters.")  # fmt: skip
@click.option("--rng", default=0, show_default=True, type=click.IntRange(min=0), help="The seed.")
def demo(out: Path, n_dims: int, rng: int) -> None:
    """Run the paper's Gaussian toy: four posteriors, TARP against HPD."""
    from . import plots
    from .diagnostics import hpd, tarp
    from .problems import gaussian

    cases = ("correct", "overconfident", "underconfident", "biased")
    results: dict[str, dict[str, Result]] = {}
    for case in cases:
        sims = gaussian(case, n_dims=n_dims, rng=rng)
        results[case] = {"TARP": tarp(sims, rng=rng), "HPD": hpd(sims, rng=rng)}
    _print_demo(results, n_dims)
    _write(plots.panels(results), out)


@main.command()
@click.argument("name")
@click.option(
    "--out",
    default=Path("figures"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where everything goes.",
)
@click.option("--quick", is_flag=True, help="Run it small: all of them in three minutes.")
@click.option(
    "--galaxies",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Pictures for lensing, a .npy array (n, 16, 16), in place of Hubble's.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where the chains of lensing run: cpu, cuda, or auto.",
)
@click.option("--rng", default=2023, show_default=True, type=click.IntRange(min=0),
              help="The seed.")  # fmt: skip
def reproduce(
    name: str, out: Path, quick: bool, galaxies: Path | None, device: str, rng: int
) -> None:
    """Run an experiment of the paper, or all of them.

    NAME is one of method, gaussian, uninformative, lensing, connection, intuition, bias,
    references, metrics, blindspots, errata; or all. Figures (PNG and PDF), numbers (JSON) and a
    page with both are written. The exit status is 1 when a number is not what it must be.
    """
    from .experiments import EXPERIMENTS, Lab, reproduce

    names = list(EXPERIMENTS) if name == "all" else [name]
    hold = True
    try:
        with _Bar() as bar:
            lab = Lab(out, quick, rng, galaxies, device, partial(_tracked, bar))
            if {"lensing", "errata"} & set(names):
                _ = lab.prior  # What is missing for it is better said before an hour than after.
            for one in names:
                outcome = reproduce(one, lab)
                _print_outcome(one, outcome)
                hold &= all(claim.holds for claim in outcome.claims)
    except (ValueError, ImportError, OSError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"all of it: {out / 'README.md'}")
    raise SystemExit(int(not hold))


def _test(name: str, file: Path, **options: Any) -> NoReturn:
    """Run a test, print what it says, and leave with its exit status."""
    from .engine import Unfinished

    try:
        result = _result(name, file, **options)
        as_json = options["as_json"]
        click.echo(json.dumps(result.to_dict(), indent=2) if as_json else _wrapped(str(result)))
        if options["plot"]:
            _write(result.plot().figure, options["plot"], quiet=options["as_json"])
    except Unfinished as shard:
        click.echo(str(shard))
        raise SystemExit(0) from None
    except (ValueError, TypeError, OSError) as error:
        raise click.UsageError(str(error)) from error
    raise SystemExit(int(result.p_value <= options["level"]))


def _result(name: str, file: Path, **options: Any) -> Result | Check:
    from .adapters import files
    from .checks import check
    from .diagnostics import hpd, sbc, tarp
    from .engine import Engine

    depends_on = ("on_invalid", "level", "rng", "n_swaps")
    kept = {key: options[key] for key in depends_on if key in options}
    sims = files.load(file, on_invalid=options["on_invalid"])
    with _client(options.get("scheduler")) as executor, _Bar() as bar:
        engine = Engine(
            executor=executor,
            resume=options.get("resume"),
            shard=options.get("shard"),
            on_missing=options.get("on_missing", "compute"),
            progress=bar,
            note={"test": name, "file": str(file.absolute()), "options": kept},
        )
        if name == "check":
            more = {key: options[key] for key in ("n_swaps", "level")}
            return check(sims, rng=options["rng"], engine=engine, **more)
        tests: dict[str, Callable[..., Result]] = {"tarp": tarp, "hpd": hpd, "sbc": sbc}
        return tests[name](sims, rng=options["rng"], engine=engine)


def _study(problem: str, store: Path, label: str, **options: Any) -> Study:
    from ._live import View
    from .runner import run

    given = (
        "n_sims",
        "n_draws",
        "tolerance",
        "level",
        "n_workers",
        "time_limit",
        "retries",
        "rng",
    )
    with _client(options["scheduler"]) as executor, View(label) as view:
        return run(
            problem,
            store=store,
            executor=executor,
            progress=view,
            **{name: options[name] for name in given},
        )


def _report(check: Check, path: Path, *, quiet: bool) -> None:
    write: Callable[[Path], None] | None = getattr(check, "report", None)
    if write is None:
        raise click.UsageError("--report: this version of tarpon writes no reports.")
    write(path)
    if not quiet:
        click.echo(f"report: {path}")


def _client(address: str | None) -> AbstractContextManager[Any]:
    """Return a client of a Dask scheduler; without an address there is none."""
    if address is None:
        return nullcontext()
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise ValueError(
            "--scheduler needs Dask: install it with `pip install tarpon[dask]`."
        ) from error
    connect: Callable[[str], AbstractContextManager[Any]] = Client
    return connect(address)


class _Bar:
    """A progress bar on a terminal, for what takes longer than a second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.bar: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bar | None:
        return self if sys.stderr.isatty() else None

    def __call__(self, name: str, n_done: int, n_blocks: int) -> None:
        if self.bar is None and time.monotonic() - self.start > 1:
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.bar.start()
        if self.bar is not None:
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(name)
            self.bar.update(self.tasks[name], completed=n_done, total=n_blocks)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _wrapped(text: str) -> str:
    """Break lines between words on a terminal; a pipe gets them whole."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    fill = partial(textwrap.fill, width=width, subsequent_indent="     ")
    return "\n".join(fill(line) for line in text.splitlines())


def _print_demo(results: dict[str, dict[str, Result]], n_dims: int) -> None:
    from rich.console import Console
    from rich.table import Table

    first = next(iter(results.values()))["TARP"].ranks
    table = Table(
        title=f"{first.n_sims} normal posteriors, {n_dims} parameters, {first.n_draws} draws each",
        title_justify="left",
    )
    for column in ("posterior", "test", "p-value", "what it says"):
        table.add_column(column, justify="right" if column == "p-value" else "left")
    for case, tests in results.items():
        for name, result in tests.items():
            where = case if name == "TARP" else ""
            table.add_row(where, name, f"{result.p_value:.2g}", result.verdict)
        table.add_section()
    Console(width=None).print(table)


def _print_outcome(name: str, outcome: Outcome) -> None:
    from rich.console import Console
    from rich.table import Table

    claims = Table("number", "must be", "is", "", title=name, title_justify="left")
    for claim in outcome.claims:
        mark = "[green]✓[/]" if claim.holds else "[red]✗[/]"
        claims.add_row(claim.what, claim.wanted, f"{claim.value:.3g}", mark)
    answers = Table("estimator", "the paper's tests", "check", "check says")
    for answer in outcome.answers:
        tests = "\n".join(f"{test}: p = {p:.2g}" for test, p in answer.tests.items())
        answers.add_row(answer.case, tests, f"p = {answer.check:.2g}", answer.words)
    for table in (claims, answers):
        if table.row_count:
            Console().print(table)


def _tracked(bar: _Bar | None, items: Iterable[Any], total: int, label: str) -> Iterator[Any]:
    """Yield items, and tell the bar, if there is one, how many were had."""
    for n_done, item in enumerate(items, 1):
        yield item
        if bar is not None:
            bar(label, n_done, total)


def _write(figure: Any, path: Path, *, quiet: bool = False) -> None:
    try:
        figure.savefig(path, dpi=200)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the figure cannot be written: {error}") from error
    if not quiet:
        click.echo(f"figure: {path}")

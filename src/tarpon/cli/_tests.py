"""Commands that test files: tarp, hpd, sbc, check, inspect and merge."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from .._base.progress import Bar
from ._app import (
    Command,
    Misuse,
    a_count,
    a_figure,
    a_file,
    a_folder,
    a_level,
    a_scheduler,
    a_seed,
    a_size,
    an_option,
    an_output,
    as_json,
    client,
    options,
    say,
    show,
    wrapped,
    write_figure,
)

# Everything else is imported where it is used, so that `tarpon --help` answers at once.
if TYPE_CHECKING:
    from ..checks import Check
    from ..diagnostics import Result

_MOST_ROWS = 12
_COLUMNS = (
    "bias: how far the draws lie above the truths; width: scatter of the truths / width of the "
    "draws; in 68%: truths in the central 68% of the draws"
)


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


class _Named(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`ROLE=NAME`, what an array is called in the file; without a name it is left out."""

    name = "role=name"

    def convert(self, value: Any, *_: Any) -> tuple[str, str | None]:
        role, equals, name = value.partition("=")
        if not equals:
            self.fail(f"{value!r} is not ROLE=NAME, like samples=post/draws.")
        return role, name or None


_FILE = click.argument("file", type=click.Path(path_type=Path))
_plot = a_figure("--plot", "Write a figure here.")
_from_file = options(
    a_file("--theta", "A second file, if the truths are in one of their own."),
    click.option(
        "--array",
        "arrays",
        type=_Named(),
        multiple=True,
        help="What an array is called in the file, like samples=post/draws.",
    ),
    a_count("--most-bytes", "How much memory the file may take at once."),
)
_of_a_test = options(
    a_level,
    a_seed(),
    as_json,
    _plot,
    an_option(
        "--on-invalid",
        "What to do with simulations that hold NaN.",
        type=click.Choice(["raise", "drop"]),
        default="raise",
    ),
    _from_file,
    a_folder("--resume", "Keep the results of blocks here, and go on from those there are."),
    an_option(
        "--shard", "Compute the i-th of n parts alone, from 0/n on; needs --resume.", type=_Shard()
    ),
    a_scheduler,
)


@click.command(cls=Command)
@_FILE
@_of_a_test
def tarp(file: Path, **given: Any) -> None:
    """Test coverage with balls around random points.

    Example:  tarpon tarp draws.npz --plot curve.png
    """
    _test("tarp", file, **given)


@click.command(cls=Command)
@_FILE
@_of_a_test
def hpd(file: Path, **given: Any) -> None:
    """Test coverage of the regions of highest density.

    Example:  tarpon hpd draws.npz --json
    """
    _test("hpd", file, **given)


@click.command(cls=Command)
@_FILE
@_of_a_test
def sbc(file: Path, **given: Any) -> None:
    """Test each parameter alone (simulation-based calibration).

    Example:  tarpon sbc draws.npz --plot ranks.png
    """
    _test("sbc", file, **given)


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@an_output("--report", "Write an HTML page with all figures here; several files are compared.")
@an_option(
    "--fail-on",
    "When to exit with 1: doubt is also when there are too few simulations to say.",
    type=click.Choice(["inaccurate", "doubt", "never"]),
    default="inaccurate",
)
@a_size("--max-bias", "Exit with 1 if a parameter is clearly off by more, in posterior sd.")
@a_size("--max-width-error", "Exit with 1 if a width is clearly off by more, as a fraction.")
@a_count(
    "--n-swaps", "The number of swaps; the p-value is at least 1 / (n_swaps + 1).", default=999
)
@_of_a_test
def check(files: tuple[Path, ...], **given: Any) -> None:
    """Test from every angle; say what is wrong, and by how much.

    All angles together have one exact p-value.

    \b
    Example:  tarpon check draws.npz --report report.html
              tarpon check flow.npz diffusion.npz --report report.html
              tarpon check draws.npz --quiet --max-width-error 0.2
    """
    _check_all(files, **given)


@click.command(cls=Command)
@_FILE
@_from_file
@as_json
def inspect(file: Path, as_json: bool, **given: Any) -> None:
    """Say what is in FILE, and what each array is taken for.

    It also says what is missing. The exit status is 2 when it cannot be tested.

    \b
    Example:  tarpon inspect draws.h5
              tarpon inspect draws.h5 --array samples=post/draws
    """
    from ..adapters import files

    contents = files.inspect(file, **given | {"arrays": dict(given["arrays"])})
    say(json.dumps(contents.to_dict(), indent=2) if as_json else wrapped(str(contents)))
    raise SystemExit(2 if contents.problem else 0)


@click.command(cls=Command)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@_plot
@as_json
def merge(folders: tuple[Path, ...], **given: Any) -> None:
    """Say what a test found, once all of its shards are done.

    FOLDERS are those that were given to --resume.

    Example:  tarpon merge blocks
    """
    from .._base.folders import about_folder

    note = about_folder(folders[0])["note"]
    if "test" not in note:
        raise Misuse(
            f"{str(folders[0])!r} was written by a program: it gets the answer by calling the "
            f"same function with `Engine(resume=..., on_missing='raise')`."
        )
    _test(
        note["test"], Path(note["file"]), **note["options"] | given,
        resume=folders, on_missing="raise",
    )  # fmt: skip


COMMANDS = (check, tarp, hpd, sbc, inspect, merge)


def _test(name: str, file: Path, **given: Any) -> NoReturn:
    """Run a test, print what it says, and leave with its exit status."""
    result = _finished(name, file, **given)
    in_words = json.dumps(result.to_dict(), indent=2) if given["as_json"] else None
    say(in_words or wrapped(str(result)))
    _draw(result, given["plot"], quiet=given["as_json"])
    raise SystemExit(int(result.p_value <= given["level"]))


def _check_all(files: tuple[Path, ...], report: Path | None, **given: Any) -> NoReturn:
    """Check files, print what is said of each, write a report of all, and leave."""
    from ..gate import Gate

    gate = Gate(given["fail_on"], given["max_bias"], given["max_width_error"])
    alone = [f"--{name}" for name in ("plot", "resume", "shard") if given.get(name)]
    if len(files) > 1 and alone:
        raise Misuse(f"{alone[0]} takes one file, but {len(files)} came.")
    checks = [cast("Check", _finished("check", file, **given)) for file in files]
    failures = [gate.failures(one) for one in checks]
    if given["as_json"]:
        said = [
            one.to_dict() | {"failures": why} for one, why in zip(checks, failures, strict=True)
        ]
        named = {str(file): each for file, each in zip(files, said, strict=True)}
        say(json.dumps(said[0] if len(said) == 1 else named, indent=2))
    else:
        for file, one, why in zip(files, checks, failures, strict=True):
            _say_check(one, why, f"{file}:" if len(files) > 1 else "")
    _draw(checks[0], given["plot"], quiet=given["as_json"])
    if report:
        _write_report(report, files, checks, **given)
    raise SystemExit(int(any(failures)))


def _say_check(check: Check, failures: tuple[str, ...], heading: str) -> None:
    """Print what a check says; on a terminal with a table of its parameters."""
    if heading:
        say(heading)
    say(wrapped(str(check)))
    if sys.stdout.isatty():
        show(_parameters(check))
    for why in failures:
        if not why.startswith("inaccurate"):
            say(wrapped(f"  Not let through: {why}."))


def _parameters(check: Check) -> Any:
    from rich.markup import escape
    from rich.table import Table

    from .._base.text import number

    table = Table("parameter", box=None, caption_justify="left")
    for column in ("bias / sd", "width", "in 68%", "in 95%", "p"):
        table.add_column(column, justify="right")
    worst = sorted(check.parameters, key=lambda parameter: parameter.p_value)
    for one in worst[:_MOST_ROWS]:
        fails = one.p_value <= check.level
        cells = [str(one.bias), str(one.width), f"{one.coverage_68.value:.0%}",
                 f"{one.coverage_95.value:.0%}", number(one.p_value, 3)]  # fmt: skip
        table.add_row(escape(one.name), *cells, style="bold" if fails else None)
    if len(worst) > _MOST_ROWS:
        table.add_row(f"and {len(worst) - _MOST_ROWS} more")
    table.caption = _COLUMNS
    return table


def _draw(result: Result | Check, path: Path | None, *, quiet: bool) -> None:
    if path is not None:
        write_figure(result.plot().figure, path)
        if not quiet:
            say(f"figure: {path}")


def _write_report(path: Path, files: tuple[Path, ...], checks: list[Check], **given: Any) -> None:
    from ..report import write

    more = "" if given["on_invalid"] == "raise" else f" --on-invalid {given['on_invalid']}"
    commands = [
        f"tarpon check {shlex.quote(str(file))} --rng {one.seed} --level {one.level} "
        f"--n-swaps {one.n_swaps}{more}"
        for file, one in zip(files, checks, strict=True)
    ]
    write(path, *checks, names=_names(files), commands=commands)
    if not given["as_json"]:
        say(f"report: {path}")


def _names(files: tuple[Path, ...]) -> list[str]:
    """Return what the files are called, with their folders where that is not enough."""
    names = [file.name for file in files]
    return names if len(set(names)) == len(names) else [str(file) for file in files]


def _finished(name: str, file: Path, **given: Any) -> Result | Check:
    """Return what a test says; a shard whose work is done leaves here."""
    from ..engine import Unfinished

    try:
        return _result(name, file, **given)
    except Unfinished as shard:
        say(str(shard))
        raise SystemExit(0) from None


def _result(name: str, file: Path, **given: Any) -> Result | Check:
    from ..adapters import files
    from ..checks import check
    from ..diagnostics import hpd, sbc, tarp
    from ..engine import Engine

    if given.get("shard") and not given.get("resume"):
        raise Misuse("shards need a folder that holds what they have done: add --resume FOLDER.")
    depends_on = (
        "on_invalid", "level", "rng", "n_swaps", "arrays", "most_bytes",
        "fail_on", "max_bias", "max_width_error",
    )  # fmt: skip
    kept = {key: given[key] for key in depends_on if key in given}
    theta = given["theta"] and str(Path(given["theta"]).absolute())
    sims = files.load(
        file,
        theta=theta,
        arrays=dict(given["arrays"]),
        most_bytes=given["most_bytes"],
        on_invalid=given["on_invalid"],
    )
    with client(given.get("scheduler")) as executor, Bar() as bar:
        engine = Engine(
            executor=executor,
            resume=given.get("resume"),
            shard=given.get("shard"),
            on_missing=given.get("on_missing", "compute"),
            progress=bar,
            note={"test": name, "file": str(file.absolute()), "options": kept | {"theta": theta}},
        )
        if name == "check":
            more = {key: given[key] for key in ("n_swaps", "level")}
            return check(sims, rng=given["rng"], engine=engine, **more)
        tests: dict[str, Callable[..., Result]] = {"tarp": tarp, "hpd": hpd, "sbc": sbc}
        return tests[name](sims, rng=given["rng"], engine=engine)

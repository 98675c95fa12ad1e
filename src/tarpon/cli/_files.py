"""Commands that take files: check, tarp, hpd, sbc, inspect and merge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ._answers import Options, run_check, run_test
from ._app import (
    Command,
    Misuse,
    a_count,
    a_figure,
    a_file,
    a_folder,
    a_level,
    a_page,
    a_scheduler,
    a_seed,
    a_size,
    a_tolerance,
    an_option,
    as_json,
    options,
    say,
    wrapped,
)


class _Shard(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The i-th of n shards as `i/n`, counted from 0."""

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
    """The name of an array in the file as `ROLE=NAME`; without a name it is left out."""

    name = "role=name"

    def convert(self, value: Any, *_: Any) -> tuple[str, str | None]:
        role, equals, name = value.partition("=")
        if not equals:
            self.fail(f"{value!r} is not ROLE=NAME, like samples=post/draws.")
        return role, name or None


class _Names(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Names with commas between them."""

    name = "a,b,..."

    def convert(self, value: Any, *_: Any) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name: give one per parameter, like mu,sigma.")
        return names


_FILE = click.argument("file", type=click.Path(path_type=Path))
_plot = a_figure("--plot", "Write a figure here.")
_from_file = options(
    a_file("--theta", "A second file with the truths, if they are not in the first."),
    click.option(
        "--array",
        "arrays",
        type=_Named(),
        multiple=True,
        help="The name of an array in the file, like samples=post/draws.",
    ),
    a_count("--most-bytes", "The most memory that the file may take at once."),
)
_of_a_test = options(
    a_level,
    a_seed(),
    as_json,
    _plot,
    an_option(
        "--on-invalid",
        "What to do with simulations that contain NaN or infinities.",
        type=click.Choice(["raise", "drop"]),
        default="raise",
    ),
    an_option("--names", "The names of the parameters, like mu,sigma.", type=_Names()),
    _from_file,
    a_folder("--resume", "Keep the results of blocks here, and resume from them."),
    an_option(
        "--shard",
        "Compute only the i-th of n parts, counted from 0; needs --resume.",
        type=_Shard(),
    ),
    a_scheduler,
)


def _classical(name: str, about: str, more: str) -> click.Command:
    """Return the command of one of the classical tests."""

    @click.command(name, cls=Command, help=f"{about}\n\nExample:  tarpon {name} draws.npz {more}")
    @_FILE
    @_of_a_test
    def command(file: Path, **given: Any) -> None:
        run_test(name, file, Options(**given))

    return command


tarp = _classical("tarp", "Test coverage with balls around random points.", "--plot curve.png")
hpd = _classical("hpd", "Test coverage of the regions of highest density.", "--json")
sbc = _classical(
    "sbc", "Test each parameter alone (simulation-based calibration).", "--plot ranks.png"
)


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@a_page("--report", "Write an HTML page with all figures here; several files are compared.")
@a_file(
    "--at",
    "An observation for the report, which then says where posteriors are wrong: a .npy file, or a "
    ".npz file with `x` and perhaps `samples`, the draws of its posterior.",
)
@an_option(
    "--fail-on",
    "When to exit with 1: doubt includes too few simulations to say.",
    type=click.Choice(["inaccurate", "doubt", "not within tolerance", "never"]),
    default="inaccurate",
)
@a_tolerance
@a_size("--max-bias", "Exit with 1 if a parameter is clearly off by more, in posterior sd.")
@a_size("--max-width-error", "Exit with 1 if a width is clearly off by more, as a fraction.")
@a_count(
    "--n-swaps", "The number of swaps; the p-value is at least 1 / (n_swaps + 1).", default=999
)
@_of_a_test
def check(files: tuple[Path, ...], **given: Any) -> None:
    """Test from every angle; print what is wrong, and by how much.

    All angles together have one exact p-value.

    \b
    Example:  tarpon check draws.npz --report report.html
              tarpon check flow.npz diffusion.npz --report report.html
              tarpon check draws.npz --quiet --max-width-error 0.2
              tarpon check draws.npz --tolerance 0.1,0.1
              tarpon check draws.npz --report report.html --at observation.npy
    """
    run_check(files, Options(**given))


@click.command(cls=Command)
@_FILE
@_from_file
@as_json
def inspect(
    file: Path,
    theta: Path | None,
    arrays: tuple[tuple[str, str | None], ...],
    most_bytes: int | None,
    as_json: bool,
) -> None:
    """Print the contents of FILE, and the role of each array.

    It also prints what is missing. The exit status is 2 if FILE cannot be tested.

    \b
    Example:  tarpon inspect draws.h5
              tarpon inspect draws.h5 --array samples=post/draws
    """
    from ..adapters import files

    contents = files.inspect(file, theta=theta, arrays=dict(arrays), most_bytes=most_bytes)
    say(json.dumps(contents.to_dict(), indent=2) if as_json else wrapped(str(contents)))
    raise SystemExit(2 if contents.problem else 0)


@click.command(cls=Command)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@_plot
@as_json
def merge(folders: tuple[Path, ...], plot: Path | None, as_json: bool) -> None:
    """Print the answer of a test once all of its shards are done.

    FOLDERS are the folders given to --resume.

    Example:  tarpon merge blocks
    """
    from .._base.folders import about_folder

    note: Any = about_folder(folders[0]).get("note")
    kinds = {"test": str, "file": str, "options": dict}
    known = isinstance(note, dict) and all(isinstance(note.get(k), t) for k, t in kinds.items())
    if not known or note["test"] not in ("tarp", "hpd", "sbc", "check"):
        raise Misuse(
            f"{str(folders[0])!r} was written from Python: get the answer with the same call and "
            f"`Engine(resume=..., on_missing='raise')`."
        )
    test, file = note["test"], Path(note["file"])
    kept = Options(
        **note["options"], plot=plot, as_json=as_json, resume=folders, on_missing="raise"
    )
    if test == "check":
        run_check((file,), kept)
    run_test(test, file, kept)


COMMANDS = (check, tarp, hpd, sbc, inspect, merge)

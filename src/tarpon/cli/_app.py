"""Shared by all commands: options, errors, and output."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._base.progress import hidden
from .._base.text import clean

if TYPE_CHECKING:
    from rich.table import Table

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_QUIET, _DEBUG = "tarpon.quiet", "tarpon.debug"
_LONGEST = 4096  # characters of a message or a path that are printed
_INTERRUPTED = 130  # the exit status of a program that ends with Ctrl-C
_EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError)


class _Count(click.IntRange):
    """Whole numbers, named "integer" in help and errors."""

    name = "integer"


class _Number(click.FloatRange):
    """Numbers, named "number" in help and errors."""

    name = "number"


class _Limits(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The largest bias, width error and perhaps coverage error as `0.1,0.1,0.05`."""

    name = "bias,width[,coverage]"

    def convert(self, value: Any, *_: Any) -> tuple[float, ...]:
        try:
            limits = tuple(float(number) for number in value.split(","))
        except ValueError:
            limits = ()
        if len(limits) not in (2, 3) or not min(limits) > 0:
            self.fail(f"{value!r} is not BIAS,WIDTH or BIAS,WIDTH,COVERAGE, like 0.1,0.1,0.05.")
        return limits


class Misuse(click.ClickException):
    """A wrong call; the message is one sentence."""

    exit_code = 2


class Command(click.Command):
    """A command with `--quiet` and `--debug`, and errors of one sentence."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += [
            _flag("--quiet", "-q", _QUIET, "Print nothing; only set the exit status."),
            _flag("--debug", None, _DEBUG, "Show the traceback of an error."),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print one sentence if it fails."""
        quiet = hidden() if ctx.meta.get(_QUIET) else nullcontext()
        with _one_sentence(ctx), quiet:
            return super().invoke(ctx)


class Group(click.Group):
    """A group of commands, listed in the order of their addition."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Read the options; what is wrong with them is said in words that are safe to print."""
        with _clean_words():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, the words of whose errors are safe to print."""
        with _clean_words():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, unsorted."""
        return list(self.commands)


def _flag(name: str, short: str | None, key: str, text: str) -> click.Option:
    def keep(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[key] = value

    names = [name] if short is None else [name, short]
    return click.Option(names, is_flag=True, expose_value=False, callback=keep, help=text)


@contextmanager
def _one_sentence(ctx: click.Context) -> Iterator[None]:
    """Turn errors into one sentence, unless `--debug` is given."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        raise interrupted() from None
    except _EXPECTED as error:
        if ctx.meta.get(_DEBUG):
            raise
        said = clean(" ".join(str(error).split()), _LONGEST)
        raise Misuse(said or type(error).__name__) from error


def interrupted() -> SystemExit:
    """Return the end of a program after Ctrl-C."""
    # Where Ctrl-C meets code that Python has read from a string, such as that of dataclasses,
    # Python ends by the signal whatever the program does; more such code takes that back.
    exec("")
    return SystemExit(_INTERRUPTED)


@contextmanager
def _clean_words() -> Iterator[None]:
    """Escape what was given on the command line where an error repeats it."""
    try:
        yield
    except click.ClickException as error:
        listed = "\n\t"  # begins a line of what may be chosen
        lines = (clean(line, _LONGEST) for line in error.message.split(listed))
        vars(error)["message"] = listed.join(lines)
        raise


def say(text: str) -> None:
    """Print a text, unless `--quiet` is given."""
    if not click.get_current_context().meta.get(_QUIET):
        click.echo("\n".join(clean(line, len(line)) for line in text.split("\n")))


def in_shell(text: str) -> str:
    """Return a text whose lines of Python are commands."""
    text = re.sub(r"`check\(\.\.\., n_swaps=(\d+)\)`", r"`tarpon check --n-swaps \1`", text)
    return re.sub(r"tarpon\.plan\((\d+), bias=([\d.]+)\)", r"`tarpon plan \1 --bias \2`", text)


def in_options(text: str) -> str:
    """Return a text that calls the options of this command as they are typed."""
    for given in click.get_current_context().command.params:
        own = given.opts[0] if given.param_type_name == "option" else given.human_readable_name
        text = text.replace(f"`{given.name}`", own)
    return in_shell(text)


def where(path: Path) -> str:
    """Return a path as it may be printed."""
    return clean(path, _LONGEST)


def show(table: Table) -> None:
    """Print a table of rich, unless `--quiet` is given."""
    from rich.console import Console

    if not click.get_current_context().meta.get(_QUIET):
        Console().print(table)


def wrapped(text: str) -> str:
    """Wrap lines on a terminal, and leave them unchanged in a pipe."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    fill = partial(textwrap.fill, width=width, subsequent_indent="     ")
    return "\n".join(fill(line) for line in text.splitlines())


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure completely, or not at all."""
    from .._base.disk import replacing

    try:
        with replacing(path) as file:
            figure.savefig(file, dpi=200, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the figure cannot be written: {str(error).removesuffix('.')}."
        ) from error


def client(address: str | None) -> AbstractContextManager[Any]:
    """Return a client of a Dask scheduler, or nothing without an address."""
    if address is None:
        return nullcontext()
    from .._base import optional

    found: AbstractContextManager[Any]
    found = optional.package("dask.distributed", user="--scheduler").Client(address)
    return found


def options(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return several options as one decorator, in the order of the help."""

    def decorate(command: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def an_option(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option, with its default in the help if it has one."""
    return click.option(name, help=text, show_default=more.get("default") is not None, **more)


def a_count(
    name: str, text: str, *, least: int = 1, **more: Any
) -> Callable[[Decorated], Decorated]:
    """Return an option for whole numbers."""
    return an_option(name, text, type=_Count(min=least), **more)


def a_share(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for numbers between 0 and 1."""
    return an_option(name, text, type=_Number(0, 1, min_open=True, max_open=True), **more)


def a_size(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for positive numbers."""
    return an_option(name, text, type=_Number(0, min_open=True), **more)


def a_file(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for the path of a file."""
    return an_option(name, text, type=click.Path(path_type=Path, dir_okay=False), **more)


def a_page(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for the path of an HTML file to write."""
    return a_file(name, text, callback=_a_page, **more)


def a_figure(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for the path of a figure to write."""
    return a_file(name, text, callback=_a_picture, **more)


def _a_page(ctx: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path that does not end like an HTML file, or has no folder."""
    from .._base import arguments

    if path is not None and (why := arguments.why_no_page(path)):
        raise click.BadParameter(f"the path {why}")
    return _in_a_folder(ctx, option, path)


def _a_picture(ctx: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path that does not end like a picture, or has no folder."""
    if path is not None and path.suffix:
        from matplotlib.backend_bases import FigureCanvasBase

        if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
            raise click.BadParameter(
                f"a figure must end with .png, .pdf or .svg, but got {path.name!r}."
            )
    return _in_a_folder(ctx, option, path)


def _in_a_folder(ctx: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file in a folder that does not exist, before anything is computed."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}: make it first.")
    return path


def a_folder(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """Return an option for the path of a folder."""
    return an_option(name, text, type=click.Path(path_type=Path, file_okay=False), **more)


def a_seed(default: int | None = None) -> Callable[[Decorated], Decorated]:
    """Return the option of the seed."""
    return a_count("--rng", "Seed of the random numbers.", least=0, default=default)


a_level = a_share(
    "--level", "False-alarm rate: how often accurate posteriors may be rejected.", default=0.05
)
a_scheduler = an_option(
    "--scheduler", "Address of a Dask scheduler to compute on.", metavar="ADDRESS"
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
a_tolerance = an_option(
    "--tolerance",
    "The largest bias in posterior sd, and errors of widths and coverage as fractions, that do "
    "not matter.",
    type=_Limits(),
)

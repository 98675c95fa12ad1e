"""What all commands share: how they speak, how they fail, and how they write."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_QUIET, _DEBUG = "tarpon.quiet", "tarpon.debug"
INTERRUPTED = 130  # the exit status of a program that ends with Ctrl-C
_EXPECTED = (ValueError, TypeError, OSError, ImportError, RuntimeError)


class Misuse(click.ClickException):
    """What was asked for cannot be done; says why, in a sentence."""

    exit_code = 2


class Command(click.Command):
    """A command with `--quiet` and `--debug`, whose errors are one sentence."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += [
            _flag("--quiet", "-q", _QUIET, "Print nothing; the exit status says it."),
            _flag("--debug", None, _DEBUG, "Show where in the code an error comes from."),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        with _one_sentence(ctx):
            return super().invoke(ctx)


class Group(click.Group):
    """A group of such commands, listed in the order in which they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _flag(name: str, short: str | None, key: str, text: str) -> click.Option:
    def keep(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[key] = value

    names = [name] if short is None else [name, short]
    return click.Option(names, is_flag=True, expose_value=False, callback=keep, help=text)


@contextmanager
def _one_sentence(ctx: click.Context) -> Iterator[None]:
    """Turn errors into one sentence, unless the whole story is asked for."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        raise SystemExit(INTERRUPTED) from None
    except _EXPECTED as error:
        if ctx.meta.get(_DEBUG):
            raise
        raise Misuse(" ".join(str(error).split()) or type(error).__name__) from error


def say(text: str) -> None:
    """Print, unless nothing is to be printed."""
    if not click.get_current_context().meta.get(_QUIET):
        click.echo(text)


def show(table: Any) -> None:
    """Print a table of rich, unless nothing is to be printed."""
    from rich.console import Console

    if not click.get_current_context().meta.get(_QUIET):
        Console().print(table)


def wrapped(text: str) -> str:
    """Break lines between words on a terminal; a pipe gets them whole."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    fill = partial(textwrap.fill, width=width, subsequent_indent="     ")
    return "\n".join(fill(line) for line in text.splitlines())


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure whole, or not at all."""
    from ..engine import replacing

    try:
        with replacing(path, private=False) as file:
            figure.savefig(file, dpi=200, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise ValueError(f"the figure cannot be written: {error}.") from error


def options(*several: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return several options as one decorator, in the order in which help shows them."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(several):
            command = option(command)
        return command

    return decorate


def a_seed(default: int | None = None) -> Callable[[Decorated], Decorated]:
    return click.option(
        "--rng",
        default=default,
        show_default=default is not None,
        type=click.IntRange(min=0),
        help="The seed.",
    )


def a_file(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    return click.option(name, type=click.Path(path_type=Path, dir_okay=False), help=text, **more)


a_level = click.option(
    "--level",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="How often accurate posteriors may be called inaccurate.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")

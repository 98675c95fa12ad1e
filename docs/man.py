"""Write the man page of the command line, from the help of its commands.

python docs/man.py
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from tarpon import __version__
from tarpon.cli import main

PAGE = Path(__file__).with_name("tarpon.1")
_VERBATIM = "\b"  # begins a paragraph whose lines are kept, for click


def page() -> str:
    """Return the man page, in roff."""
    root = click.Context(main, info_name="tarpon", **main.context_settings)
    whole = "tarpon [OPTIONS] COMMAND [ARGS]..."
    lines = [
        f'.TH TARPON 1 "" "tarpon {__version__}" "User Commands"',
        *(".SH NAME", rf"tarpon \- {_escaped(main.get_short_help_str().lower().rstrip('?'))}"),
        *(".SH SYNOPSIS", rf"\fB{_escaped(whole)}\fR"),
        *(".SH DESCRIPTION", *_paragraphs(main.help or "")),
        *(".SH OPTIONS", *_options(root)),
        ".SH COMMANDS",
        *(line for name in main.commands for line in _command(name, root)),
    ]
    return "\n".join(lines) + "\n"


def _command(name: str, root: click.Context) -> Iterator[str]:
    command = main.commands[name]
    ctx = click.Context(command, root, name)
    usage = " ".join(["tarpon", name, *command.collect_usage_pieces(ctx)])
    yield f".SS {_escaped(usage)}"
    yield from _paragraphs(command.help or "")
    yield from _options(ctx)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; those that click leaves unfilled are left so."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.split("\n")
        kept = lines[0] == _VERBATIM
        yield ".PP"
        yield from (".nf",) * kept
        yield from map(_escaped, lines[kept:])
        yield from (".fi",) * kept


def _options(ctx: click.Context) -> Iterator[str]:
    for option in ctx.command.get_params(ctx):
        names, text = option.get_help_record(ctx) or ("", "")
        if text:
            yield from (".TP", rf"\fB{_escaped(names)}\fR", _escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """Return a line in which roff sees no commands."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Report: one HTML file about one or more checks. It needs no network and no scripts."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from .._base import arguments
from .._base.disk import replacing, versions
from .._base.formulas import plain
from .._base.tables import Table
from .._base.text import number, stated
from ..checks import Check, words
from ..local.near import Near
from ..local.where import Where
from ..results import Result
from . import _compared
from ._chapter import Chapter
from ._repaired import Repaired
from ._svg import NOT_XML

__all__ = ["Repaired", "card", "html", "write"]

_HERE = Path(__file__).parent
_CARD = "tarpon-card"  # the beginning of ids in a card
_MOST_DRAWN = 50


def write(
    path: str | Path,
    *checks: Check,
    names: Sequence[str] | None = None,
    commands: Sequence[str] | None = None,
    where: Where | None = None,
    near: Near | None = None,
    repaired: Repaired | None = None,
) -> None:
    """Write one HTML file about checks; several are compared, the best first.

    Checks of the same simulations are ranked by the energy scores of their draws, and each is
    tested against the next (`checks.comparing.paired`).

    The file is whole or not there at all: it is written beside its place and then moved.

    Arguments:
        path: The path of the file, which must end with `.html` or `.htm`.
        checks: One or more checks.
        names: The name of what was checked, per check.
        commands: The command that reproduces each check; by default a line of Python.
        where: The answer of `tarpon.where`, for a section with maps; of one check only.
        near: The answer of `tarpon.near`, for a section about an observation; of one check only.
        repaired: A repair whose checks these are, for a section about it.

    Example:
        >>> check = tarpon.check(tarpon.problems.zoo("narrow", rng=0), rng=0)
        >>> tarpon.report.write("report.html", check, names=["my flow"])
    """
    path = arguments.new_page(path)
    text = html(*checks, names=names, commands=commands, where=where, near=near, repaired=repaired)
    with replacing(path) as file:
        file.write(text.encode())


def html(
    *checks: Check,
    names: Sequence[str] | None = None,
    commands: Sequence[str] | None = None,
    where: Where | None = None,
    near: Near | None = None,
    repaired: Repaired | None = None,
) -> str:
    """Return the text of the file that `write` writes."""
    if not checks:
        raise ValueError("`checks` must be at least one check, but got none.")
    for check in checks:
        arguments.instance("checks", check, Check, "what `tarpon.check` returns")
    _local(len(checks), where, near)
    called, made = _names(checks, names), _commands(checks, commands)
    chapters = [
        Chapter(
            checks[k], called[k], f"s{place}", made[k],
            above=_compared.above(place, checks[k]) if len(checks) > 1 else None,
            where=where, near=near,
        )
        for place, k in enumerate(_compared.best_first(checks))
    ]  # fmt: skip
    script = (_HERE / "script.js").read_text(encoding="utf-8")
    text = _environment().get_template("report.html.jinja").render(
        chapters=chapters,
        compared=_compared.Compared(chapters) if len(chapters) > 1 else None,
        repaired=repaired,
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        versions=versions(),
    )  # fmt: skip
    return NOT_XML.sub("\ufffd", text)


def card(shown: Check | Result) -> str:
    """Return a check or a result as a notebook shows it: outcome, words, and the figure."""
    wanted = "what `check`, `tarp`, `sbc` or `hpd` return"
    arguments.instance("shown", shown, (Check, Result), wanted)
    from ._svg import drawn

    is_check = isinstance(shown, Check)
    part, n_all = _worst(shown)
    figure, _ = drawn(lambda ax: part.plot(ax=ax), _CARD, (4.0, 2.9) if is_check else (3.2, 3.0))
    # Ids must differ from those of other cards in the notebook.
    digest = sha256(figure.encode()).hexdigest()[:12]
    text = _environment().get_template("card.html.jinja").render(
        kind="check" if is_check else "result",
        shown=shown,
        figure=Markup(figure.replace(_CARD, f"{_CARD}-{digest}")),
        left_out=f"{_MOST_DRAWN} of {n_all}, with the smallest p-values"
        if n_all > _MOST_DRAWN
        else "",
    )  # fmt: skip
    return NOT_XML.sub("\ufffd", text)


def _worst(shown: Check | Result) -> tuple[Check | Result, int]:
    """Return a check or result of its worst parameters, and the number of all.

    A figure of a thousand would make a notebook large.
    """
    if isinstance(shown, Check):
        parameters = sorted(shown.parameters, key=lambda parameter: parameter.p_value)
        few = Table(parameters[:_MOST_DRAWN])
        return replace(shown, parameters=few), len(parameters)
    if len(shown.names) <= _MOST_DRAWN:
        return shown, len(shown.names)
    from ._figures import single

    return single(shown, *shown.p_values.argsort()[:_MOST_DRAWN]), len(shown.names)


def _local(n_checks: int, where: Where | None, near: Near | None) -> None:
    """Raise unless local answers are some, and of one check."""
    if where is not None:
        arguments.instance("where", where, Where, "what `tarpon.where` returns")
    if near is not None:
        wanted = "what `tarpon.near` returns for one observation"
        arguments.instance("near", near, Near, wanted)
    if n_checks > 1 and (where is not None or near is not None):
        raise ValueError(
            f"`where` and `near` belong to one check, but got {n_checks}: write a report of each."
        )


def _names(checks: Sequence[Check], names: Sequence[str] | None) -> list[str]:
    if names is None:
        return [""] if len(checks) == 1 else [f"check {k + 1}" for k in range(len(checks))]
    return list(arguments.words("names", names, len(checks), "check"))


def _commands(checks: Sequence[Check], commands: Sequence[str] | None) -> list[str]:
    if commands is not None:
        return list(arguments.words("commands", commands, len(checks), "check", most=2000))
    return [
        f"tarpon.check(samples, theta, ..., level={check.level}, n_swaps={check.n_swaps}, "
        f"rng={check.seed})"
        for check in checks
    ]


def _number(value: float, how: str) -> str:
    """Return a number with a real minus, and no minus before nothing."""
    text = format(value, how)
    return (text if float(text) else format(0.0, how)).replace("-", "\u2212")


def _stated(p_value: float) -> str:
    """Return `p = 0.012`, say, in one line."""
    return stated("p", p_value, 3).replace(" ", "\N{NO-BREAK SPACE}")


def _code(words: object) -> Markup:
    """Return words with what stands between backticks as code, everything escaped."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(str(words)))))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "p": partial(number, digits=3),
        "stated": _stated,
        "number": _number,
        "plain": plain,
        "code": _code,
        "power": words.power,
        "log_score": words.log_score,
        "needed": words.needed,
    }
    return environment

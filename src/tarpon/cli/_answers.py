"""Answers of tests of files: computed, printed, drawn and written."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .._base.progress import Bar
from .._base.text import clean
from ._app import Misuse, client, in_shell, say, show, where, wrapped, write_figure
from ._local import arrays, near_one

# Everything else is imported where it is used, so that `tarpon --help` answers at once.
if TYPE_CHECKING:
    from rich.table import Table

    from ..checks import Check
    from ..engine import Engine
    from ..gate import Failure
    from ..results import Result
    from ..simulations import Simulations

_MOST_ROWS = 12
_COLUMNS = (
    "bias: how far the draws lie above the truths; width: scatter of the truths / width of the "
    "draws; in 68%: truths in the central 68% of the draws"
)


@dataclass(frozen=True)
class Options:
    """The options of a test, by the names of their flags; those of `check` come last."""

    level: float
    rng: int | None
    as_json: bool
    plot: Path | None
    on_invalid: str
    theta: str | Path | None
    arrays: tuple[tuple[str, str | None], ...]
    most_bytes: int | None
    names: tuple[str, ...] | None = None
    resume: Path | tuple[Path, ...] | None = None
    shard: tuple[int, int] | None = None
    scheduler: str | None = None
    on_missing: str = "compute"
    report: Path | None = None
    at: Path | None = None
    n_swaps: int = 999
    fail_on: str = "inaccurate"
    max_bias: float | None = None
    max_width_error: float | None = None
    tolerance: tuple[float, ...] | None = None

    @property
    def lasting(self) -> dict[str, Any]:
        """The options that `merge` takes from the folder of a test."""
        names = (
            "level", "rng", "on_invalid", "arrays", "most_bytes", "n_swaps", "fail_on", "max_bias",
            "max_width_error", "tolerance", "names",
        )  # fmt: skip
        theta = None if self.theta is None else str(Path(self.theta).absolute())
        return {name: getattr(self, name) for name in names} | {"theta": theta}


def run_test(name: str, file: Path, options: Options) -> NoReturn:
    """Run a classical test, print its answer, and leave with its exit status."""
    from ..diagnostics import hpd, sbc, tarp

    tests: dict[str, Callable[..., Result]] = {"tarp": tarp, "hpd": hpd, "sbc": sbc}
    sims = _loaded(file, options)
    with _engine(name, file, options) as engine:
        result = tests[name](sims, rng=options.rng, engine=engine)
    say(json.dumps(result.to_dict(), indent=2) if options.as_json else wrapped(str(result)))
    _draw(result, options)
    raise SystemExit(int(result.p_value <= options.level))


def run_check(files: tuple[Path, ...], options: Options) -> NoReturn:
    """Check files, print the answer of each, write a report of all, and leave."""
    from ..gate import Gate

    gate = Gate(options.fail_on, options.max_bias, options.max_width_error)
    alone = [f"--{name}" for name in ("plot", "at", "resume", "shard") if getattr(options, name)]
    if len(files) > 1 and alone:
        raise Misuse(f"{alone[0]} takes one file, but got {len(files)}.")
    if options.at and not options.report:
        raise Misuse("--at is for a report: add --report report.html, or use `tarpon near`.")
    checks = {file: _checked(file, options) for file in files}
    failures = {file: gate.failures(check) for file, check in checks.items()}
    if options.as_json:
        answers = {
            str(file): check.to_dict()
            | {"failures": [asdict(why) for why in failures[file]]}
            | {"gain": _gain(check, checks[files[0]])}
            for file, check in checks.items()
        }
        (answer,) = answers.values() if len(answers) == 1 else (answers,)
        say(json.dumps(answer, indent=2))
    else:
        for file, check in checks.items():
            if len(files) > 1:
                say(f"{where(file)}:")
            _say_check(check, failures[file])
        _say_gains(checks)
    _draw(checks[files[0]], options)
    if options.report:
        _write_report(options.report, checks, options)
    raise SystemExit(int(any(failures.values())))


def _checked(file: Path, options: Options) -> Check:
    from ..checks import check
    from ..checks.tolerances import Tolerance

    sims = _loaded(file, options)
    tolerance = None if options.tolerance is None else Tolerance(*options.tolerance)
    with _engine("check", file, options) as engine:
        return check(
            sims, tolerance=tolerance, level=options.level, n_swaps=options.n_swaps,
            rng=options.rng, engine=engine,
        )  # fmt: skip


def _loaded(file: Path, options: Options) -> Simulations:
    from ..adapters import files

    if options.shard and not options.resume:
        raise Misuse("shards need a folder that holds their results: add --resume FOLDER.")
    return files.load(
        file,
        theta=options.lasting["theta"],
        arrays=dict(options.arrays),
        most_bytes=options.most_bytes,
        on_invalid=options.on_invalid,
        names=options.names,
    )


@contextmanager
def _engine(name: str, file: Path, options: Options) -> Iterator[Engine]:
    """Yield the engine of a test; a shard whose work is done leaves here."""
    from ..engine import Engine, Unfinished

    note = {"test": name, "file": str(file.absolute()), "options": options.lasting}
    with client(options.scheduler) as executor, Bar() as bar:
        try:
            yield Engine(
                executor=executor,
                resume=options.resume,
                shard=options.shard,
                on_missing=options.on_missing,
                progress=bar,
                note=note,
            )
        except Unfinished as shard:
            say(str(shard))
            raise SystemExit(0) from None


def _say_check(check: Check, failures: tuple[Failure, ...]) -> None:
    """Print the answer of a check; on a terminal with a table of its parameters."""
    say(wrapped(in_shell(str(check))))
    if sys.stdout.isatty():
        show(_parameters(check))
    for failure in failures:
        if failure.kind != "inaccurate":  # which the first line says
            say(wrapped(f"  Gate failed: {failure}."))


def _gain(check: Check, first: Check) -> dict[str, float] | None:
    """Return the gain in log score over the first check, if it is a finite number."""
    try:
        gain = asdict(check.gain_over(first))
    except ValueError:
        return None
    return gain if check is not first and all(map(isfinite, gain.values())) else None


def _say_gains(checks: dict[Path, Check]) -> None:
    """Print how much more each check scores than the first, where there are log-densities."""
    from ..checks import words

    (first, baseline), *others = zip(_names(tuple(checks)), checks.values(), strict=True)
    for name, check in others:
        if said := words.gain(check, baseline, clean(name), clean(first)):
            say(wrapped(said))


def _parameters(check: Check) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from .._base.text import number

    table = Table("parameter", box=None, caption_justify="left", caption=_COLUMNS)
    for column in ("bias / sd", "width", "in 68%", "in 95%", "p"):
        table.add_column(column, justify="right")
    worst = sorted(check.parameters, key=lambda parameter: parameter.p_value)
    for row in worst[:_MOST_ROWS]:
        fails = row.p_value <= check.level
        cells = [str(row.bias), str(row.width), f"{row.coverage_68.value:.0%}",
                 f"{row.coverage_95.value:.0%}", number(row.p_value, 3)]  # fmt: skip
        table.add_row(escape(row.name), *cells, style="bold" if fails else None)
    if len(worst) > _MOST_ROWS:
        table.add_row(f"and {len(worst) - _MOST_ROWS} more")
    return table


def _draw(answer: Result | Check, options: Options) -> None:
    if options.plot is not None:
        write_figure(answer.plot().figure, options.plot)
        if not options.as_json:
            say(f"figure: {where(options.plot)}")


def _write_report(path: Path, checks: dict[Path, Check], options: Options) -> None:
    from ..report import write

    more = ["--on-invalid", options.on_invalid] * (options.on_invalid != "raise")
    if options.tolerance is not None:
        more += ["--tolerance", ",".join(f"{limit:g}" for limit in options.tolerance)]
    more += ["--names", ",".join(options.names)] if options.names else []
    more += ["--theta", str(options.theta)] if options.theta else []
    more += ["--at", str(options.at), "--report", str(path)] if options.at else []
    for role, name in options.arrays:
        more += ["--array", f"{role}={name or ''}"]
    commands = [
        f"tarpon check {shlex.quote(str(file))} --rng {check.seed} --level {check.level} "
        f"--n-swaps {check.n_swaps} {shlex.join(more)}".rstrip()
        for file, check in checks.items()
    ]
    write(
        path, *checks.values(), names=_names(tuple(checks)), commands=commands,
        **_local(*checks.items(), options=options),
    )  # fmt: skip
    if not options.as_json:
        say(f"report: {where(path)}")


def _local(*checks: tuple[Path, Check], options: Options) -> dict[str, Any]:
    """Return the answers of `where` and `near`, if an observation was given."""
    from ..local.where import where as find

    if options.at is None:
        return {}
    ((file, check),) = checks
    sims, x_o = _loaded(file, options), arrays(options.at)["x"]
    how: dict[str, Any] = {"level": options.level, "n_swaps": options.n_swaps, "rng": check.seed}
    near = near_one(sims, options.at, **how)
    return {"near": near, "where": find(sims, x_o=x_o, **how)}


def _names(files: tuple[Path, ...]) -> list[str]:
    """Return the names of files, with their folders where names alone are not enough."""
    names = [file.name for file in files]
    return names if len(set(names)) == len(names) else [str(file) for file in files]

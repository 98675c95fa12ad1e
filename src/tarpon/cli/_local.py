"""Commands for one observation, and for parts of data space: near and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._app import (
    Command,
    Misuse,
    a_count,
    a_figure,
    a_file,
    a_level,
    a_page,
    a_seed,
    an_option,
    as_json,
    options,
    say,
    wrapped,
    write_figure,
)
from ._app import where as shown

if TYPE_CHECKING:
    from .._base.types import Array
    from ..local.near import Near
    from ..simulations import Simulations

_FILE = click.argument("file", type=click.Path(path_type=Path))
_of_simulations = options(
    a_file("--theta", "A second file with the truths, if they are not in the first."),
    an_option(
        "--on-invalid",
        "What to do with simulations that contain NaN or infinities.",
        type=click.Choice(["raise", "drop"]),
        default="raise",
    ),
    a_level,
    a_count("--n-swaps", "The number of swaps.", default=999),
    a_seed(),
    as_json,
)


@click.command(cls=Command)
@_FILE
@a_file("--at", "The observation: a .npy file, or a .npz file with `x` and perhaps `samples`.",
        required=True)  # fmt: skip
@a_file("--draws", "The draws of its posterior, (n_draws, n_dims), in a .npy file.")
@a_count("--n", "The number of simulations to test.", default=100)
@a_figure("--plot", "Write a figure of the observation and the nearest simulations here.")
@a_page("--report", "Write an HTML page about the nearest simulations here.")
@_of_simulations
def near(
    file: Path, at: Path, draws: Path | None, n: int, plot: Path | None, report: Path | None,
    theta: Path | None, on_invalid: str, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Test the simulations that are most like an observation.

    FILE contains simulations with observations `x`. The exit status is 1 if the posteriors are
    inaccurate near the observation, or if it is unlike all simulations.

    \b
    Example:  tarpon near draws.npz --at observation.npy
              tarpon near draws.npz --at observation.npz --n 200 --report near.html
              tarpon near draws.npz --at observation.npy --plot near.png
    """
    from ..adapters import files

    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    answer = near_one(sims, at, draws, n=n, **given)
    say(answer.to_json() if as_json else wrapped(str(answer)))
    if plot is not None:
        _write("figure", plot, as_json, lambda: write_figure(answer.plot(), plot))
    if report is not None:
        _write("report", report, as_json, lambda: answer.report(report))
    raise SystemExit(int(answer.outcome in ("inaccurate here", "outside the simulations")))


@click.command(cls=Command)
@_FILE
@an_option("--names-x", "The names of the numbers of an observation, like flux,colour.")
@a_file("--at", "An observation to mark: a .npy file, or a .npz file with `x`.")
@a_figure("--plot", "Write maps of bias and width here.")
@a_page("--report", "Write an HTML page about a check of FILE, with maps, here.")
@_of_simulations
def where(
    file: Path, names_x: str | None, at: Path | None, plot: Path | None, report: Path | None,
    theta: Path | None, on_invalid: str, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Print in which part of data space posteriors are wrong.

    \b
    Example:  tarpon where draws.npz
              tarpon where draws.npz --names-x flux,colour --plot map.png
              tarpon where draws.npz --at observation.npy --report where.html
    """
    from ..adapters import files
    from ..checks import check
    from ..local.where import where

    names: Sequence[str] | None = None if names_x is None else names_x.split(",")
    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    x_o = None if at is None else arrays(at)["x"]
    answer = where(sims, names_x=names, x_o=x_o, **given)
    say(answer.to_json() if as_json else wrapped(str(answer)))
    if plot is not None:
        _write("figure", plot, as_json, lambda: write_figure(answer.plot(), plot))
    if report is not None:
        of_all = check(sims, **given | {"rng": answer.seed})
        _write("report", report, as_json, lambda: of_all.report(
            report, name=file.name, where=answer
        ))  # fmt: skip
    raise SystemExit(int(answer.outcome != "nothing found"))


def near_one(sims: Simulations, at: Path, draws: Path | None = None, **given: Any) -> Near:
    """Return the answer at the observation of a file, which must be one."""
    from ..local.near import near

    observed = arrays(at)
    samples = observed.get("samples") if draws is None else arrays(draws)["x"]
    answer = near(sims, observed["x"], samples=samples, **given)
    if isinstance(answer, tuple):
        raise Misuse(
            f"{str(at)!r} holds {len(answer)} observations, {observed['x'].shape}: pass one, of "
            f"shape {observed['x'].shape[1:]}."
        )
    return answer


def _write(what: str, path: Path, as_json: bool, write: Callable[[], None]) -> None:
    """Write a figure or a report, and print where it is."""
    write()
    if not as_json:
        say(f"{what}: {shown(path)}")


def arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file, or that of a .npy file as `x`; objects are refused."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise Misuse(
            f"{str(path)!r} cannot be read as a .npy or .npz file of numbers: {error}."
        ) from error
    if isinstance(found, np.ndarray):
        return {"x": found}
    with found:
        if "x" not in found.files:
            raise Misuse(f"{str(path)!r} has no array `x`, only {', '.join(found.files)}.")
        return {name: found[name] for name in ("x", "samples") if name in found.files}


COMMANDS = (near, where)

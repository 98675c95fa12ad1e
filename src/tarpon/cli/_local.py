"""Commands for one observation, and for parts of data space: near and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._app import (
    Command,
    Misuse,
    a_count,
    a_file,
    a_level,
    a_page,
    a_seed,
    an_option,
    as_json,
    options,
    say,
    wrapped,
)
from ._app import where as shown

if TYPE_CHECKING:
    from .._base.types import Array

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
@a_page("--report", "Write an HTML page about the nearest simulations here.")
@_of_simulations
def near(
    file: Path, at: Path, draws: Path | None, n: int, report: Path | None, theta: Path | None,
    on_invalid: str, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Test the simulations that are most like an observation.

    FILE contains simulations with observations `x`. The exit status is 1 if the posteriors are
    inaccurate near the observation, or if it is unlike all simulations.

    \b
    Example:  tarpon near draws.npz --at observation.npy
              tarpon near draws.npz --at observation.npz --n 200 --report near.html
    """
    from ..adapters import files
    from ..local.near import near

    observed = arrays(at)
    samples = observed.get("samples") if draws is None else arrays(draws)["x"]
    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    answer = near(sims, observed["x"], samples=samples, n=n, **given)
    if isinstance(answer, tuple):
        raise Misuse(
            f"{str(at)!r} holds {len(answer)} observations, {observed['x'].shape}: pass one, of "
            f"shape {observed['x'].shape[1:]}."
        )
    say(answer.to_json() if as_json else wrapped(str(answer)))
    if report is not None:
        answer.report(report)
        if not as_json:
            say(f"report: {shown(report)}")
    raise SystemExit(int(answer.outcome in ("inaccurate here", "outside the simulations")))


@click.command(cls=Command)
@_FILE
@an_option("--names-x", "The names of the numbers of an observation, like flux,colour.")
@_of_simulations
def where(
    file: Path, names_x: str | None, theta: Path | None, on_invalid: str, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Print in which part of data space posteriors are wrong.

    \b
    Example:  tarpon where draws.npz
              tarpon where draws.npz --names-x flux,colour
    """
    from ..adapters import files
    from ..local.where import where

    names: Sequence[str] | None = None if names_x is None else names_x.split(",")
    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    answer = where(sims, names_x=names, **given)
    say(answer.to_json() if as_json else wrapped(str(answer)))
    raise SystemExit(int(answer.outcome != "nothing found"))


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

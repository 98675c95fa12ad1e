"""Commands for posteriors that are wrong: cover."""

from __future__ import annotations

from pathlib import Path

import click

from ._app import Command, a_file, a_seed, a_share, an_option, as_json, options, say, wrapped
from ._app import where as shown

_FILE = click.argument("file", type=click.Path(path_type=Path))
_of_simulations = options(
    a_file("--theta", "A second file with the truths, if they are not in the first."),
    an_option(
        "--on-invalid",
        "What to do with simulations that contain NaN or infinities.",
        type=click.Choice(["raise", "drop"]),
        default="raise",
    ),
    a_seed(),
    as_json,
)


@click.command(cls=Command)
@_FILE
@a_share("--level", "The probability of containing the truth.", default=0.9)
@a_share("--sure", "The confidence with which the coverage is at least the level.")
@a_file("--out", "Write the calibrated regions here, a .npz file for `tarpon.load`.")
@_of_simulations
def cover(
    file: Path, level: float, sure: float | None, out: Path | None, theta: Path | None,
    on_invalid: str, rng: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Calibrate regions that contain the truth as often as they say.

    \b
    Example:  tarpon cover draws.npz --level 0.9
              tarpon cover draws.npz --level 0.9 --sure 0.95 --out cover.npz
    """
    from ..adapters import files
    from ..mending.cover import cover

    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    answer = cover(sims, level, sure=sure, rng=rng)
    say(answer.to_json() if as_json else wrapped(str(answer)))
    if out is not None:
        answer.save(out)
        if not as_json:
            say(f"regions: {shown(out)}")


COMMANDS = (cover,)

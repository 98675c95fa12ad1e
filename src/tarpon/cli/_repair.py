"""The command that mends posteriors: repair."""

from __future__ import annotations

from pathlib import Path

import click

from ._app import (
    Command,
    Misuse,
    a_count,
    a_file,
    a_level,
    a_seed,
    a_share,
    an_option,
    as_json,
    say,
    wrapped,
)
from ._app import where as shown
from ._local import arrays


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@a_file(
    "--apply", "An observation: a .npz file with `x` and the draws `samples` of its posterior."
)
@a_file("--out", "Write the repaired draws of the observation here, a .npz file.")
@a_file("--save", "Write the repair here, a .npz file for `tarpon.load`.")
@click.option("--outside", is_flag=True, help="Repair an observation unlike the simulated ones.")
@a_share("--share", "The share of simulations that the repair is fitted on.", default=0.8)
@a_file("--theta", "A second file with the truths, if they are not in the first.")
@an_option(
    "--on-invalid",
    "What to do with simulations that contain NaN or infinities.",
    type=click.Choice(["raise", "drop"]),
    default="raise",
)
@a_level
@a_count("--n-swaps", "The number of swaps.", default=999)
@a_seed()
@as_json
def repair(
    file: Path, apply: Path | None, out: Path | None, save: Path | None, outside: bool,
    share: float, theta: Path | None, on_invalid: str, level: float, n_swaps: int,
    rng: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Repair posteriors, and prove it on unseen simulations.

    FILE contains simulations. The exit status is 1 if posteriors are still inaccurate, or cannot
    be repaired; draws of posteriors that cannot be repaired are not written.

    \b
    Example:  tarpon repair draws.npz
              tarpon repair draws.npz --apply observation.npz --out repaired.npz
    """
    from ..adapters import files
    from ..mending.repair import repair

    if (apply is None) != (out is None):
        raise Misuse("--apply and --out belong together: an observation, and its repaired draws.")
    observed = {} if apply is None else arrays(apply)
    if apply is not None and "samples" not in observed:
        raise Misuse(f"{str(apply)!r} has no array `samples`, the draws of its posterior.")
    sims = files.load(file, theta=theta, on_invalid=on_invalid)
    answer = repair(sims, share=share, level=level, n_swaps=n_swaps, rng=rng)
    say(answer.to_json() if as_json else wrapped(str(answer)))
    written = {}
    if save is not None:
        answer.save(save)
        written["repair"] = save
    failed = answer.outcome in ("improved, still inaccurate", "cannot be repaired")
    if out is not None and answer.outcome != "cannot be repaired":
        x = None if sims.x is None else observed["x"]
        draws = answer(observed["samples"], x, outside=outside, rng=rng)
        _write(out, samples=draws, x=observed["x"])
        written["repaired draws"] = out
    for what, path in written.items():
        if not as_json:
            say(f"{what}: {shown(path)}")
    raise SystemExit(int(failed))


def _write(path: Path, **found: object) -> None:
    """Write arrays completely or not at all."""
    import numpy as np

    from .._base import disk

    with disk.replacing(path) as file:
        np.savez(file, **found)  # type: ignore[arg-type,unused-ignore]


COMMANDS = (repair,)

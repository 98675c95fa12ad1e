"""The command that makes a study: simulate, sample and test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._app import (
    Command,
    a_count,
    a_figure,
    a_file,
    a_folder,
    a_level,
    a_page,
    a_scheduler,
    a_seed,
    a_share,
    a_size,
    as_json,
    client,
    interrupted,
    say,
    where,
    wrapped,
    write_figure,
)
from ._local import arrays

# Everything else is imported where it is used, so that `tarpon --help` answers at once.
if TYPE_CHECKING:
    from ..runner import Study

_GIVEN = (
    "n_sims", "n_draws", "tolerance", "level", "n_workers", "time_limit", "retries", "rng",
)  # fmt: skip


@click.command(cls=Command)
@click.argument("problem")
@a_folder("--store", "Folder for the simulations.  [default: PROBLEM.study]")
@a_count("--n-sims", "Largest number of simulations.", least=2, default=1000)
@a_count("--n-draws", "Number of draws of each posterior.", least=5, default=1000)
@a_file("--near", "Simulate around this observation, in a .npy file; needs `log_prior(theta)`.")
@a_share("--tolerance", "Coverage error that is small enough to stop.", default=0.1)
@a_level
@a_count("--n-workers", "Number of processes.  [default: one per processor]")
@a_scheduler
@a_size("--time-limit", "Seconds after which a simulation is stopped.")
@a_count("--retries", "Number of further attempts after a failure.", least=0, default=1)
@a_seed()
@as_json
@a_figure("--plot", "Write a figure here.")
@a_page("--report", "Write an HTML page with all figures here.")
def run(problem: str, **given: Any) -> None:
    """Simulate, sample and test until the answer is clear.

    PROBLEM is a Python file with three functions, `prior(rng)`, `simulate(theta, rng)` and
    `posterior(x, n_draws, rng)`, or with an object `problem` that has them as methods;
    `file.py:name` is an object of another name. Finished simulations are kept: after Ctrl-C, a
    crash or a power cut the same command resumes.

    \b
    Example:  tarpon run examples/conjugate.py
              tarpon run examples/conjugate.py:too_narrow --n-sims 500 --time-limit 60
              tarpon run examples/conjugate.py --near observation.npy --n-sims 500
    """
    path = Path(problem.replace(".py:", "-").removesuffix(".py"))
    store = given.pop("store") or Path(f"{path.name}.study")
    try:
        study = _study(problem, store, **given)
    except KeyboardInterrupt:
        from ..runner.store import n_kept

        click.echo(
            f"\nstopped: {n_kept(store)} simulations are in {str(store)!r}. The same command "
            f"resumes from there.", err=True,
        )  # fmt: skip
        raise interrupted() from None
    say(study.to_json() if given["as_json"] else wrapped(str(study)))
    _write(study, path.name, **given)
    wrong = ("inaccurate", "inaccurate here", "outside the simulations")
    raise SystemExit(int(study.outcome in wrong))


def _write(study: Study, name: str, plot: Path | None, report: Path | None, **given: Any) -> None:
    """Write the figure and the report if they were asked for, and print their paths."""
    if plot:
        write_figure(study.check.plot().figure, plot)
    if report:
        study.check.report(report, name=name)
    for what, path in (("figure", plot), ("report", report)):
        if path and not given["as_json"]:
            say(f"{what}: {where(path)}")


def _study(problem: str, store: Path, **given: Any) -> Study:
    from ..runner import run

    near = given.pop("near")
    observed = None if near is None else arrays(near)["x"]
    with client(given["scheduler"]) as executor:
        more = {name: given[name] for name in _GIVEN}
        return run(problem, store=store, near=observed, executor=executor, **more)

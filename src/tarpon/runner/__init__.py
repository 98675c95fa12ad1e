"""`run`: simulate, sample and test until the answer is in."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .._base import arguments, threads
from .._base.progress import Progress, shown
from .._base.types import RNG
from .._version import __version__
from ..checks import Check, check, swaps
from ..sequential.monitor import Monitor
from ..simulations import Simulations
from . import store as stores
from .ledger import Book
from .problem import Problem, source
from .stopping import Watch
from .store import Failure
from .workers import Borrowed, Crew, Processes, Task

__all__ = ["Failure", "Problem", "Study", "run"]

_SECONDS = 0.1  # between two looks at what the disk has done
_MOST_PRINTED = 3


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """What a run has found.

    Arguments:
        stopped: Why it ended: "inaccurate", "within tolerance", or "all done".
        monitor: The sequential test, which decides when to stop.
        check: The check of all simulations up to there: what is wrong, and by how much.
        level: The level of both together, half of it for each.
        n_sims: How many simulations were asked for at most.
        failures: Those of them that gave no result.
        notes: What else happened on the way.
        store: Where the simulations are.
        seed: The seed of the simulations.
    """

    stopped: str
    monitor: Monitor
    check: Check
    level: float
    n_sims: int
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    store: Path
    seed: int

    @property
    def outcome(self) -> str:
        """One of "inaccurate", "within tolerance", "no evidence against", "too few to say".

        The check counts only if all simulations were done: it is not made for a number of
        simulations that depends on what they show.
        """
        return self.check.outcome if self.stopped == "all done" else self.stopped

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "outcome": self.outcome,
            "stopped": self.stopped,
            "level": self.level,
            "e_value": self.monitor.e_value,
            "p_value": self.monitor.p_value,
            "within": self.monitor.within,
            "n_done": self.check.n_sims,
            "n_sims": self.n_sims,
            "failures": [asdict(failure) for failure in self.failures],
            "notes": list(self.notes),
            "store": str(self.store),
            "seed": self.seed,
            "check": self.check.to_dict(),
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        return f"study of {self.check.n_sims} simulations, {self.stopped}: {self.outcome}"

    def __str__(self) -> str:
        return "\n".join([_why(self), str(self.check), *_failed(self), *self.notes])


def run(
    problem: Problem | str | Path,
    *,
    store: str | Path,
    n_sims: int = 1000,
    n_draws: int = 1000,
    tolerance: float = 0.1,
    level: float = 0.05,
    executor: Any = None,
    n_workers: int | None = None,
    time_limit: float | None = None,
    retries: int = 1,
    rng: RNG = None,
    progress: Progress | None = None,
) -> Study:
    """Simulate, sample and test, until the answer is in.

    Every finished simulation is in the store before it counts. A run that was stopped with Ctrl-C
    loses what was being computed, and one that was killed also what was not on the disk yet, and
    nothing else: call it again, and it goes on.
    The random numbers of a simulation hang on its index, so that the answer is the same whoever
    computes, in whichever order, and however often it was interrupted.

    Simulations enter the sequential test in the order of their indices: those that are slow are
    waited for, since they may be slow for a reason. What others have finished by the time it stops
    stays in the store and does not count, so that the number of simulations hangs on the seed, and
    not on how fast they were.

    Arguments:
        problem: An object with `prior(rng)`, `simulate(theta, rng)` and
            `posterior(x, n_draws, rng)`; or the path of a file that defines `problem` or these
            functions, `"file.py"`, or an object of another name, `"file.py:name"`.
        store: The folder for the simulations. One of another problem is refused.
        n_sims: The most simulations to make. A later call may ask for more.
        n_draws: The number of draws of each posterior.
        tolerance: The coverage error that is small enough to stop.
        level: The probability of calling accurate posteriors inaccurate is at most this.
        executor: Any executor of `concurrent.futures`, or a Dask client; without one, processes.
        n_workers: The number of processes; without it, one a processor.
        time_limit: The seconds that a simulation may take; its process is then killed. Not with
            an executor, whose work nobody can stop from outside.
        retries: How often a simulation that failed is tried again, with the same random numbers.
        rng: The seed; without one, that of the store.
        progress: Called as `progress(stage, n_done, n_total)` several times a second, where
            `stage` states the evidence and the coverage so far; without it a bar is shown, on a
            terminal or in a notebook.

    Returns:
        A `Study`.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> class TooNarrow:
        ...     def prior(self, rng):
        ...         return rng.normal(size=1)
        ...     def simulate(self, theta, rng):
        ...         return theta + rng.normal(size=1)
        ...     def posterior(self, x, n_draws, rng):
        ...         return x / 2 + 0.4 * rng.normal(size=(n_draws, 1))
        >>> tarpon.run(TooNarrow(), store="study", executor=ThreadPoolExecutor(2), rng=0).outcome
        'inaccurate'
    """
    _refuse(executor, n_workers, time_limit, retries)
    swaps.needs_at_least(n_sims, n_draws)
    level = arguments.probability("level", level)
    found = source(problem)
    with stores.opened(store, {**found.identity(), "n_draws": n_draws}, rng) as kept:
        names = getattr(found(), "names", None)
        book = Book(kept, n_sims, retries)
        watch = Watch(level / 2, tolerance, kept.seed, names)
        watch.follow(book)
        if book.waiting and not watch.settled:
            task = Task(found, kept.seed, n_draws)
            with shown(progress) as tell:
                _simulate(_crew(task, executor, n_workers, time_limit), book, watch, tell)
        counted = book.simulations(watch.place, names)
        return Study(
            stopped=watch.settled or "all done",
            monitor=watch.monitor,
            check=_described(counted, level / 2, kept.seed, watch.settled),
            level=level,
            n_sims=n_sims,
            failures=tuple(one for k, one in sorted(book.failures.items()) if k < watch.place),
            notes=tuple(book.notes),
            store=kept.path,
            seed=kept.seed,
        )


def _crew(task: Task, executor: Any, n_workers: int | None, time_limit: float | None) -> Crew:
    """Return those who simulate: processes of our own, unless an executor was given."""
    if executor is None:
        return Processes(task, n_workers or threads.n_allowed(), time_limit)
    return Borrowed(task, executor)


def _described(sims: Simulations, level: float, seed: int, settled: str) -> Check:
    """Return what `check` says of the simulations, and what it cannot say after an early stop."""
    found = check(sims, level=level, rng=seed)
    if not settled:
        return found
    when = "the evidence was in" if settled == "inaccurate" else "coverage was within tolerance"
    said = (
        f"The run stopped as soon as {when}, and that decides. The p-values here take the number "
        "of simulations as fixed beforehand: read them as a description."
    )
    return replace(found, warnings=(*found.warnings, said))


def _refuse(executor: Any, n_workers: int | None, time_limit: float | None, retries: int) -> None:
    if executor is not None and n_workers is not None:
        raise ValueError("the executor has workers of its own: leave `n_workers` out.")
    if executor is not None and time_limit is not None:
        raise ValueError(
            "`time_limit` needs processes that can be killed, and nobody can stop from outside "
            "what an executor runs: leave `executor` out, or limit the time within the problem."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"`time_limit` must be positive, but got {time_limit!r}.")
    if n_workers is not None:
        arguments.positive("n_workers", n_workers)
    if retries < 0:
        raise ValueError(f"`retries` must not be negative, but got {retries}.")


def _simulate(crew: Crew, book: Book, watch: Watch, progress: Progress | None) -> None:
    """Let workers simulate until the answer is in, or all is done."""
    with book, crew:
        while book.open and not watch.settled:
            for index, outcome in crew.finished(_SECONDS):
                book.enter(index, outcome)
                _hand_out(crew, book)
            _hand_out(crew, book)
            book.commit()
            watch.follow(book)
            if progress is not None:
                progress(watch.stage(book), len(book.results), book.n_sims)


def _hand_out(crew: Crew, book: Book) -> None:
    while book.waiting and crew.n_free:
        crew.start(book.next())


def _why(study: Study) -> str:
    """Return why a run ended, in a sentence."""
    evidence = (
        f"evidence {study.monitor.e_value:.3g} to 1, of {2 / study.level:.3g} that settle it"
    )
    if study.stopped == "inaccurate":
        why = f"the evidence is in ({study.monitor.e_value:.3g} to 1)"
    elif study.stopped == "within tolerance":
        why = f"coverage is off by at most {study.monitor.within:.2g}"
    else:
        why = f"all are done ({evidence})"
    return f"Stopped after {study.check.n_sims} of {study.n_sims} simulations: {why}."


def _failed(study: Study) -> list[str]:
    """Return which simulations failed, in sentences."""
    failures = study.failures
    if not failures:
        return []
    rest = len(failures) - _MOST_PRINTED
    return [
        f"{len(failures)} simulations failed and are not in the test. Failures are rarely random: "
        f"look at them in {str(study.store)!r}. The same call tries them again.",
        *(f"  {failure}" for failure in failures[:_MOST_PRINTED]),
        *([f"  and {rest} more"] if rest > 0 else []),
    ]

"""`run`: simulate, sample and test until the answer is clear."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from .._base import arguments, interrupts, threads
from .._base.fingerprint import of_array
from .._base.progress import Progress, shown
from .._base.types import RNG, ArrayLike, Floats
from .._version import __version__
from ..checks import Check, check, swaps
from ..checks.tolerances import Tolerance
from ..local.near import Near
from ..local.near import near as tested_near
from ..sequential.monitor import Monitor
from ..simulations import Simulations, shapes
from . import store as stores
from .ledger import Book
from .problem import Problem, source
from .proposal import Proposal, needs_density, outside, proposed
from .stopping import Patience, Watch
from .store import Failure
from .workers import Borrowed, Crew, Processes, Task

__all__ = ["Failure", "Problem", "Study", "run"]

_SECONDS = 0.1  # between two looks at what the disk has done
_MOST_PRINTED = 3
_N_NEAREST = 150  # simulations that are tested near an observation


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Answer of a run.

    Arguments:
        stopped: Reason for the end: "inaccurate", "within tolerance", or "all done".
        monitor: Sequential test, which decides when to stop; without simulations if the run was
            near an observation.
        check: Check of all simulations up to the stop; of the nearest ones if the run was near an
            observation.
        level: Level of both tests together, half of it for each; all of it for the check if the
            run was near an observation.
        n_sims: Largest number of simulations.
        failures: Simulations without a result.
        notes: Sentences about damaged files.
        store: Path of the store.
        seed: Seed of the simulations.
        near: Answer at the observation, if the run was near one.
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
    near: Near | None = None

    @property
    def outcome(self) -> str:
        """One of "inaccurate", "within tolerance", "no evidence against", "too few to say".

        The check decides only if all simulations were done: its p-value is not valid if the
        number of simulations depends on their results. Near an observation it is the outcome of
        `Near`, for example "inaccurate here".
        """
        if self.near is not None:
            return self.near.outcome
        return self.check.outcome if self.stopped == "all done" else self.stopped

    @property
    def n_done(self) -> int:
        """The number of simulations that count."""
        return self.check.n_sims if self.near is None else self.near.n_sims

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a program or a log would keep."""
        return {
            "outcome": self.outcome,
            "stopped": self.stopped,
            "level": self.level,
            "e_value": self.monitor.e_value,
            "p_value": self.monitor.p_value,
            "within": self.monitor.within,
            "n_done": self.n_done,
            "n_sims": self.n_sims,
            "failures": [asdict(failure) for failure in self.failures],
            "notes": list(self.notes),
            "store": str(self.store),
            "seed": self.seed,
            "check": self.check.to_dict(),
            "near": None if self.near is None else self.near.to_dict(),
            "version": __version__,
        }

    def to_json(self) -> str:
        """Return the same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        return f"study of {self.n_done} simulations, {self.stopped}: {self.outcome}"

    def __str__(self) -> str:
        answer = str(self.check if self.near is None else self.near)
        return "\n".join([_why(self), answer, *_failed(self), *self.notes])


def run(
    problem: Problem | str | Path,
    *,
    store: str | Path,
    n_sims: int = 1000,
    n_draws: int = 1000,
    near: ArrayLike | None = None,
    tolerance: float | Tolerance = 0.1,
    level: float = 0.05,
    executor: Any = None,
    n_workers: int | None = None,
    time_limit: float | None = None,
    retries: int = 1,
    rng: RNG = None,
    progress: Progress | None = None,
) -> Study:
    """Simulate, sample and test until the answer is clear.

    Every finished simulation is in the store before it counts, so the same call resumes after an
    interruption. Ctrl-C loses the simulations in progress; a kill also loses results that had not
    reached the disk. The random numbers of a simulation depend on the seed and its index only, so
    the answer does not depend on workers, order and interruptions.

    Simulations enter the sequential test in the order of their indices, so it waits for slow ones.
    Later simulations that are done when the run stops stay in the store but do not count.

    Arguments:
        problem: Object with `prior(rng)`, `simulate(theta, rng)` and
            `posterior(x, n_draws, rng)`; or path of a file that defines `problem` or these
            functions, `"file.py"`, or another object, `"file.py:name"`.
        store: Folder for the simulations. A folder of another problem is refused.
        n_sims: Largest number of simulations. A later call may increase it.
        n_draws: Number of draws of each posterior.
        near: Observation to simulate around: truths scatter 1.5 times as widely as its posterior,
            weights correct for that, and the nearest 150 simulations are tested. The problem
            needs `log_prior(theta)`, the prior's log-density `(n,)` of parameters `(n, n_dims)`.
            All `n_sims` simulations are done: which are nearest is known only at the end.
        tolerance: Coverage error that is small enough to stop; of a `tarpon.Tolerance`, `coverage`
            is, and if all simulations are done, `check` judges by all of it.
        level: False-alarm rate: the probability of calling accurate posteriors inaccurate.
        executor: Executor of `concurrent.futures`, or Dask client; by default processes are used.
        n_workers: Number of processes; by default one per processor.
        time_limit: Seconds per simulation, after which its process is killed. Not with an
            executor, whose calls cannot be stopped.
        retries: Number of further attempts after a failure, with the same random numbers.
        rng: Seed or generator; by default the seed of the store.
        progress: Function called as `progress(stage, n_done, n_total)` several times a second,
            where `stage` contains evidence and coverage so far; by default a progress bar.

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
    identity = {**found.identity(), "n_draws": n_draws}
    if near is not None:
        _refuse_near(found(), tolerance)
        identity["near"] = of_array(shapes.array("near", near))
    with stores.opened(store, identity, rng) as kept:
        names = getattr(found(), "names", None)
        book = Book(kept, n_sims, retries)
        crew = partial(_crew, executor=executor, n_workers=n_workers, time_limit=time_limit)
        task = Task(found, kept.seed, n_draws)
        if near is not None:
            proposal, samples = proposed(found(), near, n_draws, kept.seed)
            everything = Patience(n_sims)
            _simulate(partial(crew, replace(task, proposal=proposal)), book, everything, progress)
            counted = book.simulations(n_sims, names)
            return _study_near(counted, proposal, samples, book, level)
        watch = Watch(level / 2, tolerance, kept.seed, names)
        watch.follow(book)
        _simulate(partial(crew, task), book, watch, progress)
        counted = book.simulations(watch.place, names)
        return Study(
            stopped=watch.settled or "all done",
            monitor=watch.monitor,
            check=_described(counted, tolerance, level / 2, kept.seed, watch.settled),
            level=level,
            n_sims=n_sims,
            failures=tuple(one for k, one in sorted(book.failures.items()) if k < watch.place),
            notes=tuple(book.notes),
            store=kept.path,
            seed=kept.seed,
        )


def _study_near(
    sims: Simulations, proposal: Proposal, samples: Floats, book: Book, level: float
) -> Study:
    """Return the answer at the observation of a proposal, whose weighted posterior is known."""
    seed = book.store.seed
    found = tested_near(sims, proposal.x, samples=samples, n=_N_NEAREST, level=level, rng=seed)
    assert isinstance(found, Near)
    here = replace(found, around=True)
    return Study(
        stopped="all done",
        monitor=Monitor(level=level, rng=seed),
        check=here.check,
        level=level,
        n_sims=book.n_sims,
        failures=tuple(one for _, one in sorted(book.failures.items())),
        notes=(*book.notes, *outside(sims)),
        store=book.store.path,
        seed=seed,
        near=here,
    )


def _refuse_near(problem: Problem, tolerance: float | Tolerance) -> None:
    needs_density(problem)
    if isinstance(tolerance, Tolerance):
        raise ValueError(
            "`near` and a `Tolerance` cannot be used together, since a run near an observation "
            "neither stops early nor bounds errors: remove one of them."
        )


def _crew(task: Task, executor: Any, n_workers: int | None, time_limit: float | None) -> Crew:
    """Return the executor of the user, or else processes."""
    if executor is None:
        return Processes(task, n_workers or threads.n_allowed(), time_limit)
    return Borrowed(task, executor)


def _described(
    sims: Simulations, tolerance: float | Tolerance, level: float, seed: int, settled: str
) -> Check:
    """Return the check of the simulations, with a warning after an early stop."""
    tolerated = tolerance if isinstance(tolerance, Tolerance) and not settled else None
    found = check(sims, tolerance=tolerated, level=level, rng=seed)
    if not settled:
        return found
    when = "the evidence sufficed" if settled == "inaccurate" else "coverage was within tolerance"
    early = (
        f"The run stopped when {when}, and that is the answer. The p-values of `check` assume a "
        f"fixed number of simulations, so they only describe the flaw."
    )
    return replace(found, warnings=(*found.warnings, early))


def _refuse(executor: Any, n_workers: int | None, time_limit: float | None, retries: int) -> None:
    if executor is not None and n_workers is not None:
        raise ValueError("`n_workers` cannot be used with `executor`: remove one of them.")
    if executor is not None and time_limit is not None:
        raise ValueError(
            "`time_limit` cannot be used with `executor`, whose calls cannot be stopped: remove "
            "one of them, or limit the time inside the problem."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"`time_limit` must be positive, but got {time_limit!r}.")
    if n_workers is not None:
        arguments.positive("n_workers", n_workers)
    if retries < 0:
        raise ValueError(f"`retries` must not be negative, but got {retries}.")


def _simulate(
    hired: Callable[[], Crew], book: Book, watch: Watch | Patience, progress: Progress | None
) -> None:
    """Run simulations until the answer is clear or all are done."""
    if not book.waiting or watch.settled:
        return
    with shown(progress) as tell, interrupts.remembered() as stop_if_asked, book, hired() as crew:
        while book.open and not watch.settled:
            stop_if_asked()
            for index, outcome in crew.finished(_SECONDS):
                book.enter(index, outcome)
                _hand_out(crew, book)
            _hand_out(crew, book)
            book.commit()
            watch.follow(book)
            if tell is not None:
                tell(watch.stage(book), len(book.results), book.n_sims)
        stop_if_asked()


def _hand_out(crew: Crew, book: Book) -> None:
    while book.waiting and crew.n_free:
        crew.start(book.next())


def _why(study: Study) -> str:
    """Return a sentence with the reason for the end of a run."""
    if study.near is not None:
        return (
            f"{study.n_done} of {study.n_sims} simulations around the observation are done, with "
            f"{study.check.draws}. Findings describe weighted draws: errors look smaller than "
            f"they are, and draws that are too narrow also look biased, since weights move them "
            f"less."
        )
    evidence = f"evidence {study.monitor.e_value:.3g}:1"
    if study.stopped == "inaccurate":
        why = evidence
    elif study.stopped == "within tolerance":
        why = f"coverage is off by at most {study.monitor.within:.2g}"
    else:
        why = f"all are done ({evidence}, stops at {2 / study.level:.3g}:1)"
    return f"Stopped after {study.check.n_sims} of {study.n_sims} simulations: {why}."


def _failed(study: Study) -> list[str]:
    """Return sentences about failures."""
    failures = study.failures
    if not failures:
        return []
    rest = len(failures) - _MOST_PRINTED
    return [
        f"{len(failures)} simulations failed and are not tested. Failures are rarely random: look "
        f"at them in {str(study.store)!r}. The same call tries them again.",
        *(f"  {failure}" for failure in failures[:_MOST_PRINTED]),
        *([f"  and {rest} more"] if rest > 0 else []),
    ]

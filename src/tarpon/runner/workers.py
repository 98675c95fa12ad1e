"""Workers: processes that can be killed, or an executor of the user."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, Self

from threadpoolctl import threadpool_limits

from .._base import interrupts, optional
from .._base.arrays import Results
from .._base.pools import Pool
from .problem import Source, simulated, where
from .proposal import Proposal

_MOST_STARTS = 3  # failed starts of workers in a row
_BRIEF_SECONDS = 1.0  # simulations that take less get their successor in advance
_SECONDS_TO_END = 2.0
_FOREVER = float("inf")
_GROUPS = hasattr(os, "killpg")  # of processes, which Windows lacks


@dataclass(frozen=True)
class Fault:
    """Reason why an attempt at a simulation failed."""

    message: str
    details: str = ""


Attempt = Results | Fault


@dataclass(frozen=True, eq=False)
class Task:
    """Function from the index of a simulation to its result, run by workers.

    Arguments:
        source: Source of the problem.
        seed: Seed of all simulations.
        n_draws: Number of draws.
        proposal: Distribution of truths; by default the prior.
    """

    source: Source
    seed: int
    n_draws: int
    proposal: Proposal | None = None

    def __call__(self, index: int) -> Any:
        """Return the result of a simulation, or a `Fault`."""
        try:
            return simulated(self.source(), index, self.seed, self.n_draws, self.proposal)
        except Exception as error:
            return Fault(where(error), traceback.format_exc())


class Crew(Protocol):
    """Workers, of either kind."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def n_free(self) -> int:
        """Number of simulations that can be started now."""
        ...

    def start(self, index: int) -> None:
        """Start a simulation."""
        ...

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield the index and result of simulations that have ended, after at most a timeout.

        The result is None if a simulation never began.
        """
        ...


class Processes:
    """Worker processes, one simulation each at a time.

    If simulations are short, each process gets its next one in advance. Processes that die or take
    too long are replaced. All of them end with this program, even if it is killed.

    Arguments:
        task: Function to run.
        n_workers: Number of processes.
        time_limit: Seconds after which a simulation is stopped.
    """

    def __init__(self, task: Task, n_workers: int, time_limit: float | None = None) -> None:
        self.task = _pickled(task)
        self.n_workers = n_workers
        self.time_limit = _FOREVER if time_limit is None else time_limit
        self.n_failed_starts = 0
        self.workers: list[_Worker] = []

    def __enter__(self) -> "Processes":
        try:
            while len(self.workers) < self.n_workers:
                self.workers.append(_Worker(self.task))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()

    @property
    def n_free(self) -> int:
        """Number of simulations that can be started now."""
        return sum(worker.n_free for worker in self.workers)

    def start(self, index: int) -> None:
        """Start a simulation in the least busy process."""
        free = (worker for worker in self.workers if worker.n_free)
        min(free, key=lambda worker: len(worker.given)).start(index)

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield simulations that have ended, and replace processes that died or timed out."""
        now = time.monotonic()
        ends = [worker.since + self.time_limit for worker in self.workers if worker.busy]
        rest = max(min([timeout, *(end - now for end in ends)]), 0)
        ready = connection.wait([worker.pipe for worker in self.workers], rest)
        for k, worker in enumerate(self.workers):
            if worker.pipe in ready:
                yield from worker.receive()
            elif worker.busy and time.monotonic() - worker.since > self.time_limit:
                worker.stop()
                yield from worker.left(f"took longer than {self.time_limit:g} s and was stopped")
            if not worker.alive:
                self.workers[k] = self._another(worker)

    def _another(self, dead: "_Worker") -> "_Worker":
        self.n_failed_starts = 0 if dead.began else self.n_failed_starts + 1
        if self.n_failed_starts >= _MOST_STARTS:
            raise RuntimeError(
                f"the worker processes fail to start: {dead.last_words}. Call `tarpon.run` under "
                f"`if __name__ == '__main__':`, since every worker imports the program. Problems "
                f"that cannot be imported need cloudpickle: `pip install tarpon[run]`."
            )
        return _Worker(self.task)


class _Worker:
    """Worker process, and the pipe to it."""

    def __init__(self, task: bytes) -> None:
        # A forked process could inherit a lock that another thread holds, and wait for ever.
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(there, task))
        with interrupts.held_back():
            self.process.start()
        there.close()
        self.began, self.alive = False, True
        self.given: deque[int] = deque()  # the first one is running
        self.n_places = 1
        self.since = 0.0
        self.last_words = ""

    @property
    def busy(self) -> bool:
        return bool(self.given)

    @property
    def n_free(self) -> int:
        return self.n_places - len(self.given) if self.began and self.alive else 0

    def start(self, index: int) -> None:
        self.since = self.since if self.busy else time.monotonic()
        self.given.append(index)
        with suppress(BrokenPipeError):  # it has died, which `receive` will notice
            self.pipe.send(index)

    def receive(self) -> Iterator[tuple[int, Attempt | None]]:
        """Yield the simulation that has ended, if the message is about one."""
        try:
            said = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.stop()
            self.last_words = self.last_words or _how_it_ended(self.process.exitcode)
            yield from self.left(f"its process died: {self.last_words}")
            return
        if not self.began:
            self.began, self.last_words = said is None, said or ""
            return
        now = time.monotonic()
        self.n_places = 2 if now - self.since < _BRIEF_SECONDS else 1
        self.since = now
        yield self.given.popleft(), said

    def left(self, why: str) -> Iterator[tuple[int, Attempt | None]]:
        """Yield the simulations of a process that has ended."""
        for k, index in enumerate(self.given):
            yield index, None if k else Fault(why)

    def stop(self) -> None:
        """End the process: an idle one by closing its pipe, a busy one by a kill."""
        if not self.busy and self.began:
            self.pipe.close()
            self.process.join(_SECONDS_TO_END)
        _kill(self.process)
        self.pipe.close()
        self.alive = False


def _kill(process: BaseProcess) -> None:
    """Kill a process, and all processes that it has started if the system has groups."""
    if _GROUPS and process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _work(pipe: Connection, task: bytes) -> None:
    """Run the simulations that the pipe delivers until it closes, in a worker process."""
    interrupts.forget()  # Ctrl-C must reach the main program only
    if _GROUPS:
        os.setpgid(0, 0)
    os.dup2(2, 1)  # the output is for the main program only, too
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # the other processors run other simulations
    try:
        run: Task = pickle.loads(task)
        run.source()
    except Exception as error:
        pipe.send(where(error))
        return
    with threadpool_limits(1), suppress(EOFError, OSError):  # the main program has ended
        pipe.send(None)
        while True:
            pipe.send(run(pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if _GROUPS:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _pickled(task: Task) -> bytes:
    """Return a pickled task; definitions of a notebook need cloudpickle."""
    cloudpickle = optional.installed("cloudpickle")
    hint = "" if cloudpickle else " Or install cloudpickle: `pip install tarpon[run]`."
    try:
        done: bytes = (cloudpickle or pickle).dumps(task)
    except Exception as error:
        raise ValueError(
            f"the problem cannot be sent to other processes: {where(error)}. Write it to a file "
            f"and pass its path, or use threads, `executor=ThreadPoolExecutor()`.{hint}"
        ) from error
    return done


def _how_it_ended(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        memory = ", as when memory runs out" if name == "SIGKILL" else ""
        return f"killed by {name}{memory}"
    return f"exit status {exitcode}"


class Borrowed:
    """Executor of the user, whose calls cannot be stopped."""

    def __init__(self, task: Task, executor: Any) -> None:
        self.task = task
        self.pool = Pool.of(executor)
        self.running: dict[Future[Any], int] = {}

    def __enter__(self) -> "Borrowed":
        return self

    def __exit__(self, *_: object) -> None:
        for future in self.running:
            future.cancel()

    @property
    def n_free(self) -> int:
        """Number of simulations that can be submitted now."""
        return self.pool.n_at_once - len(self.running)

    def start(self, index: int) -> None:
        """Submit a simulation to the executor."""
        self.running[self.pool.submit(self.task, index)] = index

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield simulations that have ended; a broken executor ends the run."""
        done, _ = wait(self.running, timeout, FIRST_COMPLETED)
        for future in done:
            index = self.running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise RuntimeError(f"the executor broke: {where(error)}.") from error
            outcome: Attempt = future.result() if error is None else Fault(where(error))
            yield index, outcome

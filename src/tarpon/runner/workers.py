"""Workers: processes of our own, which can be stopped, or whatever executor there is."""

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

from .._base import optional
from .._base.arrays import Results
from .._base.pools import Pool
from .problem import Source, simulated, where

_MOST_STARTS = 3  # of a worker that dies before it has begun
_BRIEF_SECONDS = 1.0  # of a simulation whose successor is handed out ahead
_SECONDS_TO_END = 2.0
_FOREVER = float("inf")
_GROUPS = hasattr(os, "killpg")  # of processes, which Windows lacks


@dataclass(frozen=True)
class Fault:
    """Why a simulation gave no result this time."""

    message: str
    details: str = ""


Attempt = Results | Fault


@dataclass(frozen=True, eq=False)
class Task:
    """What workers are to do with every index that they are handed.

    Arguments:
        source: Where the problem comes from.
        seed: The seed of all simulations.
        n_draws: The number of draws.
    """

    source: Source
    seed: int
    n_draws: int

    def __call__(self, index: int) -> Any:
        """Return the results of a simulation, or a `Fault`."""
        try:
            return simulated(self.source(), index, self.seed, self.n_draws)
        except Exception as error:
            return Fault(where(error), traceback.format_exc())


class Crew(Protocol):
    """Those who simulate."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def n_free(self) -> int:
        """How many simulations they can take on now."""
        ...

    def start(self, index: int) -> None:
        """Hand out a simulation."""
        ...

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield what has ended, after waiting for it for so many seconds at most.

        What comes without an outcome was never begun.
        """
        ...


class Processes:
    """Processes of our own, one simulation each at a time.

    Where simulations are brief, each has its next one already, so that none waits for this
    program. One that dies or takes too long is replaced. They end with this program, however it
    ends.

    Arguments:
        task: What they do.
        n_workers: How many there are.
        time_limit: The seconds after which a simulation is stopped.
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
        """How many simulations they can take on now."""
        return sum(worker.n_free for worker in self.workers)

    def start(self, index: int) -> None:
        """Hand a simulation to the process that has the fewest."""
        free = (worker for worker in self.workers if worker.n_free)
        min(free, key=lambda worker: len(worker.given)).start(index)

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield what has ended, and replace processes that died or took too long."""
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
                f"the worker processes die before they begin: {dead.last_words}. A program that "
                f"calls `tarpon.run` must do so under `if __name__ == '__main__':`, since every "
                f"worker imports it; what it defines must be importable, too, or else install "
                f"cloudpickle, `pip install tarpon[run]`."
            )
        return _Worker(self.task)


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, task: bytes) -> None:
        # Forked processes inherit locks that threads of this one may hold, and never get them.
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(there, task))
        self.process.start()
        there.close()
        self.began, self.alive = False, True
        self.given: deque[int] = deque()  # the first is under way
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
        with suppress(BrokenPipeError):  # it has died, and the next to listen will know
            self.pipe.send(index)

    def receive(self) -> Iterator[tuple[int, Attempt | None]]:
        """Yield how a simulation ended, if that is what the process has to say."""
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
        """Yield what a process that has ended leaves behind."""
        for k, index in enumerate(self.given):
            yield index, None if k else Fault(why)

    def stop(self) -> None:
        """End the process: one that waits is told to, one that works is killed."""
        if not self.busy and self.began:
            self.pipe.close()
            self.process.join(_SECONDS_TO_END)
        _kill(self.process)
        self.pipe.close()
        self.alive = False


def _kill(process: BaseProcess) -> None:
    """Kill a process, and where the system has groups all that it has started."""
    if _GROUPS and process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _work(pipe: Connection, task: bytes) -> None:
    """Simulate what comes through the pipe until it closes; this is a process of its own."""
    if _GROUPS:
        os.setpgid(0, 0)  # Ctrl-C is for the program that we work for
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # and so is its output
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # the other processors have simulations of their own
    try:
        run: Task = pickle.loads(task)
        run.source()
    except Exception as error:
        pipe.send(where(error))
        return
    with threadpool_limits(1), suppress(EOFError, OSError):  # nobody is at the other end
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
    """Return a task as bytes; with cloudpickle also what a notebook defines."""
    cloudpickle = optional.installed("cloudpickle")
    hint = "" if cloudpickle else " Or install cloudpickle: `pip install tarpon[run]`."
    try:
        done: bytes = (cloudpickle or pickle).dumps(task)
    except Exception as error:
        raise ValueError(
            f"the problem cannot be sent to other processes: {where(error)}. Write it to a file "
            f"and give its path, or use threads, `executor=ThreadPoolExecutor()`.{hint}"
        ) from error
    return done


def _how_it_ended(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        memory = ", as when memory runs out" if name == "SIGKILL" else ""
        return f"killed by {name}{memory}"
    return f"exit status {exitcode}"


class Borrowed:
    """An executor of somebody else's: nothing that runs there can be stopped from here."""

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
        """How many simulations the executor can take on now."""
        return self.pool.n_at_once - len(self.running)

    def start(self, index: int) -> None:
        """Hand a simulation to the executor."""
        self.running[self.pool.submit(self.task, index)] = index

    def finished(self, timeout: float) -> Iterator[tuple[int, Attempt | None]]:
        """Yield what has ended; an executor that broke ends the run."""
        done, _ = wait(self.running, timeout, FIRST_COMPLETED)
        for future in done:
            index = self.running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise RuntimeError(f"the executor broke: {where(error)}.") from error
            outcome: Attempt = future.result() if error is None else Fault(where(error))
            yield index, outcome

"""Engines: where the blocks of a test are computed, and where their results are kept.

A test calls a function on every block of simulations and combines the results in the order of the
blocks. Blocks depend on the sizes of the data only, and random numbers on the block only. So an
engine changes when and where blocks are computed, never the answer.
"""

import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ._base import arguments, fingerprint, threads
from ._base.arrays import Results
from ._base.folders import Folder, about_folder
from ._base.pools import Pool
from ._base.progress import Progress, shown
from ._base.types import RNG
from ._version import __version__

__all__ = ["Engine", "Unfinished"]

Task: TypeAlias = Callable[[int], Any]


class Unfinished(Exception):
    """A shard is done; the answer needs the other shards, too."""


@dataclass(frozen=True, eq=False)
class Engine:
    """Where blocks are computed, and where their results are kept.

    Arguments:
        executor: Executor of `concurrent.futures`, or Dask client; by default blocks are computed
            one after the other, each on all processors, or one per processor where they are read
            from files of plain numbers.
        resume: Folder for the results of blocks. The same call with the same folder computes
            only blocks that are missing or damaged. A folder of other data, settings or another
            seed is refused.
        shard: Pair `(i, n)`: compute part `i` of `n` parts of the blocks, counted from 0, and
            raise `Unfinished`; needs `resume`.
        on_missing: `"raise"` an error if `resume`, one folder or several, lacks any block.
        progress: Function called as `progress(stage, n_done, n_total)` after every block; by
            default a progress bar.
        note: Dictionary to write into the folder.

    Example:
        >>> sims = tarpon.problems.gaussian("correct", n_sims=50, rng=0)
        >>> engine = tarpon.Engine(resume="blocks")
        >>> first = tarpon.tarp(sims, rng=0, engine=engine)
        >>> tarpon.tarp(sims, engine=engine).seed  # read from the folder
        0
    """

    executor: Any = None
    resume: str | Path | Sequence[str | Path] | None = None
    shard: tuple[int, int] | None = None
    on_missing: str = "compute"
    progress: Progress | None = None
    note: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments.one_of("on_missing", self.on_missing, ("compute", "raise"))
        if self.executor is not None and not hasattr(self.executor, "get_executor"):
            wanted = "an executor of `concurrent.futures` or a Dask client"
            arguments.function("executor", self.executor, wanted, "submit")
        if self.progress is not None:
            arguments.function("progress", self.progress, "a function (stage, n_done, n_total)")
        arguments.instance("note", self.note, Mapping, "a dictionary")
        _ = self._folders
        if self.resume is None and (self.shard is not None or self.on_missing == "raise"):
            raise ValueError(
                f"`shard` and `on_missing='raise'` need a folder of results, but `resume` is None "
                f"and `shard` is {arguments.shown(self.shard)}: pass `resume=`."
            )
        if self.shard is not None and not _is_shard(self.shard):
            wanted = "two whole numbers (i, n) with i from 0 to n - 1"
            raise ValueError(arguments.wrong("shard", wanted, self.shard))

    @property
    def _folders(self) -> tuple[Path, ...]:
        """The folders of results; empty if none is kept."""
        if self.resume is None:
            return ()
        given: Any = self.resume if isinstance(self.resume, list | tuple) else [self.resume]
        if not given:
            raise ValueError(arguments.wrong("resume", "one folder or several", given))
        return tuple(arguments.path(folder, "resume") for folder in given)

    def start(self, identity: Callable[[], Mapping[str, Any]], rng: RNG) -> "Run":
        """Begin a test: open the folder, if there is one, and choose the seed.

        Arguments:
            identity: Function that returns everything that the results depend on but the seed.
            rng: Seed or generator; by default the seed of the folder.
        """
        if self.resume is None:
            return Run(self, arguments.seed(rng))
        paths = self._folders
        if self.on_missing == "raise":
            for path in paths:
                about_folder(path)
        about = {"tarpon": __version__, **fingerprint.of_settings(identity())}
        folders = [Folder.opened(path, about, rng, note=self.note) for path in paths]
        seeds = {folder.seed for folder in folders}
        if len(seeds) > 1:
            raise ValueError(
                f"the folders have different seeds, {sorted(seeds)}: give all shards the same "
                f"seed, or one folder."
            )
        return Run(self, seeds.pop(), tuple(folders))


def _is_shard(given: object) -> bool:
    if not isinstance(given, tuple | list) or len(given) != 2:
        return False
    i, n = given
    return isinstance(i, int) and isinstance(n, int) and 0 <= i < n


@dataclass(frozen=True, eq=False)
class Run:
    """An engine at work on one test."""

    engine: Engine = Engine()
    seed: int = 0
    folders: tuple[Folder, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether blocks are computed here, without a folder and without a callback."""
        return self.engine.executor is None and not self.folders and not self.engine.progress

    def compute(
        self,
        name: str,
        function: Callable[[Any], Results],
        task: Task,
        n_blocks: int,
        *,
        final: bool = False,
        in_threads: bool = False,
    ) -> Iterator[Results]:
        """Yield `function(task(k))` for every block `k`, in order.

        Arguments:
            name: Name of the stage, under which results are kept.
            function: Function of a task that returns arrays by name.
            task: Function of the number of a block that returns its task.
            n_blocks: Number of blocks.
            final: Whether a shard stops after its own blocks.
            in_threads: Whether threads of this process may compute a block each.
        """
        executor = self.engine.executor
        pool = None if executor is None else Pool.of(executor)
        in_threads = in_threads and pool is None and threads.n_allowed() > 1
        if self.engine.on_missing == "raise":
            self._refuse_missing(name, n_blocks)
        if self.engine.shard is not None:
            i, n = self.engine.shard
            own = range(n_blocks * i // n, n_blocks * (i + 1) // n)
            others = (k for k in range(n_blocks) if k not in own)
            # All shards need these blocks: each begins with its own, then computes what is left.
            order = own if final else [*own, *others]
            for _ in self._computed(name, function, task, order, pool, in_threads):
                pass
            if final:
                done = "is done" if own else "has nothing to do, there are more shards than blocks"
                raise Unfinished(f"shard {i}/{n} {done}: {self._there(name, n_blocks)}")
        yield from self._computed(name, function, task, range(n_blocks), pool, in_threads)

    def _computed(
        self,
        name: str,
        function: Callable[[Any], Results],
        task: Task,
        order: Sequence[int],
        pool: Pool | None,
        in_threads: bool,
    ) -> Iterator[Results]:
        """Yield the results of some blocks in the order given, here or on a pool."""
        with shown(self.engine.progress) as progress:
            tell: Progress = progress or _silence
            if pool is not None:
                yield from self._computed_elsewhere(name, function, task, order, pool, tell)
            elif in_threads:
                yield from self._computed_in_threads(name, function, task, order, tell)
            else:
                for n_done, k in enumerate(order, 1):
                    results = self._computed_here(name, function, task, k)
                    tell(name, n_done, len(order))
                    yield results

    def _computed_here(
        self, name: str, function: Callable[[Any], Results], task: Task, k: int
    ) -> Results:
        """Return the results of a block, computed unless a folder has them."""
        results = self._known(name, k)
        if results is None:
            results = function(task(k))
            self._keep(name, k, results)
        return results

    def _computed_in_threads(
        self,
        name: str,
        function: Callable[[Any], Results],
        task: Task,
        order: Sequence[int],
        tell: Progress,
    ) -> Iterator[Results]:
        """Yield the same, all at the end: threads that take blocks themselves seldom wait."""
        found: dict[int, Results] = {}
        caller, n_told = threading.current_thread(), 0

        def told() -> None:
            nonlocal n_told
            if n_told < len(found):
                n_told = len(found)
                tell(name, n_told, len(order))

        def run(first: int, last: int, _: None) -> None:
            with threads.at_most(1):
                for k in order[first:last]:
                    found[k] = self._computed_here(name, function, task, k)
                    if threading.current_thread() is caller:
                        told()

        # The limit of linear algebra is that of the process: blocks that set it, too, may overlap.
        with threads.one_thread_each():
            threads.share(run, len(order), threads.n_allowed(), [None], at_once=1)
        told()
        for k in order:
            yield found.pop(k)

    def _computed_elsewhere(
        self,
        name: str,
        function: Callable[[Any], Results],
        task: Task,
        order: Sequence[int],
        pool: Pool,
        tell: Progress,
    ) -> Iterator[Results]:
        """Yield the same, as many blocks at a time as there are workers."""
        running: dict[Future[Results], int] = {}
        ready: dict[int, Results] = {}
        waiting = iter(order)
        n_done = 0
        try:
            for k in order:
                while k not in ready:
                    while len(running) + len(ready) < pool.n_at_once:
                        j = next(waiting, None)
                        if j is None:
                            break
                        known = self._known(name, j)
                        if known is None:
                            running[pool.submit(function, task(j))] = j
                        else:
                            ready[j], n_done = known, n_done + 1
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        j = running.pop(future)
                        ready[j], n_done = future.result(), n_done + 1
                        self._keep(name, j, ready[j])
                    tell(name, n_done, len(order))
                yield ready.pop(k)
        finally:
            for future in running:
                future.cancel()

    def _known(self, name: str, k: int) -> Results | None:
        """Return the results of a block, None if no folder has an intact file."""
        for folder in self.folders:
            with suppress(ValueError, FileNotFoundError):
                return folder.load(_file(name, k))
        return None

    def _keep(self, name: str, k: int, results: Results) -> None:
        if self.folders:
            self.folders[0].save(_file(name, k), results)

    def _missing(self, name: str, n_blocks: int) -> list[int]:
        """Return the blocks that no folder has a file of."""
        return [
            k
            for k in range(n_blocks)
            if not any((folder.path / _file(name, k)).exists() for folder in self.folders)
        ]

    def _there(self, name: str, n_blocks: int) -> str:
        """Return how many blocks are done, and what to do when all are."""
        n_there, folder = n_blocks - len(self._missing(name, n_blocks)), str(self.folders[0].path)
        merged = f"`tarpon merge {shlex.quote(folder)}` gives the answer."
        if n_there == n_blocks:
            return f"all blocks are in {folder!r}. {merged}"
        return f"{n_there} of {n_blocks} blocks are in {folder!r}. When all are, {merged}"

    def _refuse_missing(self, name: str, n_blocks: int) -> None:
        missing = self._missing(name, n_blocks)
        if missing:
            raise ValueError(
                f"{len(missing)} of {n_blocks} blocks of {name!r} are missing, the first is "
                f"{missing[0]}. Wait for the other shards, or run those that failed again."
            )


def _silence(stage: str, n_done: int, n_total: int) -> None:
    """Report no progress."""


def _file(name: str, k: int) -> str:
    return f"{name}-{k:06d}.npz"

"""The cost of `tarpon run`: its use of two processors, and its overhead per simulation.

python benchmarks/runner.py --write     # writes runner.md
"""

import argparse
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import tarpon
from tarpon.runner.problem import simulated
from tarpon.runner.stopping import Watch

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"
N_WORKERS = 2
SECONDS = 0.05
N_DRAWS = 1000


@dataclass(frozen=True)
class Costly:
    """A normal mean with a slow posterior: processor time, or sleep."""

    work: str

    def prior(self, rng):
        return rng.normal(size=2)

    def simulate(self, theta, rng):
        return theta + rng.normal(size=2)

    def posterior(self, x, n_draws, rng):
        if self.work == "sleep":
            time.sleep(SECONDS)
        start = time.thread_time()
        while self.work == "compute" and time.thread_time() - start < SECONDS:
            pass
        return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, 2))


def bare(work: str, index: int) -> None:
    simulated(Costly(work), index, 0, N_DRAWS)


def warm(_: int) -> None:
    simulated(Costly("instant"), 0, 0, N_DRAWS)
    time.sleep(0.2)  # so that every process gets a task


def bare_seconds(work: str, n_sims: int) -> float:
    """Return the time of bare processes, without store and test."""
    with get_context("spawn").Pool(N_WORKERS) as pool:
        pool.map(warm, range(2 * N_WORKERS), chunksize=1)
        start = time.perf_counter()
        pool.starmap(bare, [(work, index) for index in range(n_sims)], chunksize=1)
        return time.perf_counter() - start


def run_seconds(work: str, n_sims: int) -> tuple[float, float]:
    """Return the time from the first simulation to the last, and the caller's processor time."""
    seen: list[tuple[float, float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        tarpon.run(
            Costly(work),
            store=folder,
            n_sims=n_sims + 10,
            n_draws=N_DRAWS,
            tolerance=0.001,
            level=1e-6,
            n_workers=N_WORKERS,
            rng=0,
            progress=lambda _, n_done, __: seen.append(
                (time.perf_counter(), time.process_time(), n_done)
            ),
        )
    first = next(look for look in seen if look[2])
    last = next(look for look in seen if look[2] >= n_sims)
    scale = n_sims / (last[2] - first[2])
    return (last[0] - first[0]) * scale, (last[1] - first[1]) * scale


def efficiency(work: str, n_sims: int, n_turns: int) -> tuple[float, float]:
    """Return the speed of the best turn, relative to the ideal and to bare processes."""
    ideal = n_sims * SECONDS / N_WORKERS
    turns = [(run_seconds(work, n_sims)[0], bare_seconds(work, n_sims)) for _ in range(n_turns)]
    ran, alone = (min(turn[k] for turn in turns) for k in (0, 1))
    return ideal / ran, alone / ran


def children_seconds() -> float:
    """Return the processor time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def overhead(work: str, n_sims: int) -> float:
    """Return the overhead per simulation, in milliseconds of processor time."""
    here, workers = {}, {}
    for n in (n_sims, 4 * n_sims):
        before = children_seconds()
        here[n] = run_seconds(work, n)[1]
        workers[n] = children_seconds() - before
    # The start of workers costs nearly the same for both.
    whole = (workers[4 * n_sims] - workers[n_sims]) / (3 * n_sims) + here[4 * n_sims] / (
        4 * n_sims
    )
    start = time.process_time()
    for index in range(n_sims):
        simulated(Costly(work), index, 0, N_DRAWS)
    return 1e3 * (whole - (time.process_time() - start) / n_sims)


def tested(n_sims: int) -> float:
    """Return milliseconds per simulation of the sequential test, without reading them."""
    results = {k: simulated(Costly("instant"), k, 0, N_DRAWS) for k in range(n_sims)}
    watch = Watch(1e-6, 0.001, 0, None)
    start = time.process_time()
    watch.follow(SimpleNamespace(results=results, failures={}))
    return 1e3 * (time.process_time() - start) / n_sims


def lines(n_sims: int, n_turns: int) -> list[str]:
    rows = []
    for work, what in (("compute", "50 ms of processor time"), ("sleep", "50 ms of sleep")):
        ideal, against = efficiency(work, n_sims, n_turns)
        rows.append(f"| {what} | {ideal:.0%} | {against:.0%} |")
        print(rows[-1], flush=True)
    costs = {}
    for work, what in (("instant", "no time"), ("sleep", "50 ms of sleep")):
        costs[what] = min(overhead(work, n_sims) for _ in range(n_turns))
        print(what, costs[what], flush=True)
    test = min(tested(n_sims) for _ in range(n_turns))
    load = os.getloadavg()[0]
    return [
        "# The cost of `tarpon run`",
        "",
        f"Written by `python benchmarks/runner.py --write` with {N_WORKERS} processes and "
        f"{N_DRAWS} draws of two parameters, on {os.cpu_count()} cores of a shared server under a "
        f"load of {load:.0f}. Best of {n_turns} turns of {n_sims} simulations, timed from the "
        "first simulation to the last. Bare processes compute the same simulations without store "
        "and test, in turns with the run.",
        "",
        "| a simulation takes | of the ideal speed | of the speed of bare processes |",
        "|---|--:|--:|",
        *rows,
        "",
        "Processor time of all processes per simulation, beyond the simulation itself, the "
        f"smallest of {n_turns} turns. The sequential test takes {test:.2f} ms of it.",
        "",
        "| a simulation takes | ms |",
        "|---|--:|",
        *(f"| {what} | {cost:.2f} |" for what, cost in costs.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-sims", type=int, default=200)
    parser.add_argument("--n-turns", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write runner.md")
    options = parser.parse_args()
    text = "\n".join(lines(options.n_sims, options.n_turns)) + "\n"
    print(text)
    if options.write:
        (PAGES / "runner.md").write_text(text)


if __name__ == "__main__":
    main()

"""What `tarpon.repair` mends, by fresh simulations of a zoo of flaws.

    python benchmarks/repair.py --studies 40 10     # in 2 and in 10 dimensions
    python benchmarks/repair.py --write             # the tables of docs/repair.md

Each study repairs posteriors by 500 simulations (1250 in ten dimensions), of which four fifths are
fitted. Then fresh simulations are checked as they are and repaired. Every study is appended to
docs/benchmarks/repair.jsonl, so that a run that was killed goes on where it was.
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from repair_nats import divergence
from scipy.stats import binomtest

import tarpon

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULTS, TITLE = DOCS / "repair.md", DOCS / "benchmarks" / "repair.jsonl", "## Measured"
N_SIMS, N_FRESH = {2: 500, 10: 1250}, {2: 200, 10: 250}
FIRST_SEED = 5000  # of the studies that are reported; smaller ones were used to choose penalties
FLAWS = {
    2: (
        "exact", "narrow", "wide", "shift", "correlation_missed", "correlation_invented",
        "heavy_tails", "light_tails", "bias_by_x", "local_width", "weights_forgotten",
        "prior_leak", "mode_invented", "prior", "skew", "mode_dropped", "truncated",
    ),
    10: (
        "exact", "narrow", "wide", "shift", "correlation_missed", "correlation_invented",
        "heavy_tails", "light_tails", "bias_by_x", "local_width", "weights_forgotten",
        "mode_dropped",
    ),
}  # fmt: skip
ABOUT = """\
By `python benchmarks/repair.py --studies 40 10 --write`, which appends every study to
`docs/benchmarks/repair.jsonl` and goes on where it was. Posteriors have 100 draws. A repair is
fitted on four fifths of the simulations of a study. `check` then tests *fresh* simulations at
level 0.05, with draws as they are (*before*) and repaired (*after*, with 95 % intervals). *After*
counts the studies that were not refused. *Kept* is the share of draws that are kept, *refused* the
share of studies that end with "cannot be repaired", *idle* with "nothing to repair".

*Nats* are the mean divergence of the exact posterior from that of the draws. The density of
repaired draws is known, because that of the draws is: it is moved by a known map, and multiplied
by the probability of keeping over its mean, which other draws estimate
(`benchmarks/repair_nats.py`). Penalties and limits were chosen with other seeds (100 to 307) than
those of these tables (from 5000)."""
SIZES = """\
**{dims} parameters**, {sims} simulations, of which {fitted} are fitted, and {fresh} fresh ones:"""
HEADER = "| flaw | studies | before | after | kept | refused | idle | nats before | nats left |"


@dataclass(frozen=True)
class Study:
    """What one study found; p-values, share of draws, and nats."""

    flaw: str
    n_dims: int
    seed: int
    outcome: str
    before: float
    after: float | None = None
    kept: float | None = None
    nats: tuple[float, float] | None = None


def study(task: tuple[int, str, int]) -> Study:
    """Repair posteriors, and check fresh ones."""
    n_dims, flaw, seed = task
    # Flaws do not share their truths.
    own = [3 * (10**5 * FLAWS[n_dims].index(flaw) + seed) + k for k in range(3)]
    simulated = partial(tarpon.problems.zoo, flaw, n_dims=n_dims)
    sims = simulated(n_sims=N_SIMS[n_dims], rng=own[0])
    fresh = simulated(n_sims=N_FRESH[n_dims], rng=own[1])
    repair = tarpon.repair(sims, n_swaps=99, rng=seed)
    before = tarpon.check(fresh, n_swaps=99, rng=seed).p_value
    found = Study(flaw, n_dims, seed, repair.outcome, before)
    if repair.outcome == "cannot be repaired":
        return found
    mended = repair.applied(fresh, rng=seed)
    after = tarpon.check(mended, n_swaps=99, rng=seed).p_value
    nothing = replace(repair._map, move=None, keep=None)
    used = nothing if repair.outcome == "nothing to repair" else repair._map
    left = partial(divergence, flaw=flaw, n_dims=n_dims, rng=own[2])
    return replace(found, after=after, kept=repair.kept, nats=(left(nothing), left(used)))


def share(which: list[bool]) -> str:
    if not which:
        return "–"
    low, high = binomtest(sum(which), len(which)).proportion_ci(0.95, method="wilson")
    return f"{np.mean(which):.2f} [{low:.2f}, {high:.2f}]"


def mean(values: list[float]) -> str:
    return "–" if not values else "∞" if max(values) > 1e3 else f"{np.mean(values):.3f}"


def row(flaw: str, found: list[Study]) -> str:
    used = [one for one in found if one.after is not None]
    before, left = zip(*(one.nats for one in used), strict=True) if used else ((), ())
    kept = f"{np.mean([one.kept for one in used]):.0%}" if used else "–"
    idle = [one.outcome == "nothing to repair" for one in found]
    return (
        f"| {flaw} | {len(found)} | {np.mean([one.before <= 0.05 for one in found]):.2f} | "
        f"{share([one.after <= 0.05 for one in used])} | {kept} | "
        f"{1 - len(used) / len(found):.2f} | {np.mean(idle):.2f} | "
        f"{mean(list(before))} | {mean(list(left))} |"
    )


def tables(studies: list[Study]) -> Iterator[str]:
    for n_dims, flaws in FLAWS.items():
        rows = [
            row(flaw, found)
            for flaw in flaws
            if (found := [one for one in studies if (one.n_dims, one.flaw) == (n_dims, flaw)])
        ]
        sizes = {"sims": N_SIMS[n_dims], "fitted": N_SIMS[n_dims] * 4 // 5}
        about = SIZES.format(**sizes, fresh=N_FRESH[n_dims], dims=n_dims)
        yield "\n".join(["", about, "", HEADER, "|---|" + "--:|" * 8, *rows])


def read() -> list[Study]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [Study(**json.loads(line)) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, nargs=2, default=(0, 0), help="in 2 and 10 dims")
    parser.add_argument("--flaws", nargs="+", help="only these")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="replace the tables of the page")
    given = parser.parse_args()
    done = {(one.n_dims, one.flaw, one.seed) for one in read()}
    tasks = [
        (n_dims, flaw, FIRST_SEED + k)
        for n_dims, n in zip(FLAWS, given.studies, strict=True)
        for k, flaw in product(range(n), FLAWS[n_dims])
        if not given.flaws or flaw in given.flaws
    ]
    with ProcessPoolExecutor(given.processes) as pool, RESULTS.open("a") as file:
        for one in pool.map(study, [task for task in tasks if task not in done]):
            print(json.dumps(asdict(one)), file=file, flush=True)
    lines = "\n".join(tables(read()))
    print(lines)
    if given.write:
        before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
        _, heading, rest = after.partition("\n## ")
        PAGE.write_text(f"{before}{TITLE}\n\n{ABOUT}\n{lines}\n{heading}{rest}")


if __name__ == "__main__":
    main()

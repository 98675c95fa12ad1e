"""What `tarpon.repair` mends, by fresh simulations of a zoo of flaws.

    python benchmarks/repair.py --write     # the table of docs/repair.md, about half an hour

Each study repairs posteriors by 500 simulations (1250 in ten dimensions), of which four fifths are
fitted. Then fresh simulations are checked as they are and repaired.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import tarpon

PAGE, TITLE = Path(__file__).parents[1] / "docs" / "repair.md", "## Measured"
N_SIMS, N_FRESH = {2: 500, 10: 1250}, {2: 100, 10: 250}
NORMAL = (
    "exact", "narrow", "wide", "shift", "correlation_invented", "bias_by_x", "local_width",
    "weights_forgotten", "prior",
)  # fmt: skip
FLAWS = {
    2: (
        *NORMAL, "correlation_missed", "heavy_tails", "light_tails", "prior_leak", "mode_invented",
        "skew", "mode_dropped", "truncated",
    ),
    10: ("exact", "narrow", "shift", "correlation_missed", "bias_by_x", "heavy_tails"),
}  # fmt: skip
ABOUT = """\
By `python benchmarks/repair.py --write`. Each study has {sims} simulations of {dims} parameters
with 100 draws, and a repair is fitted on four fifths of them. `check` then tests {fresh} *fresh*
simulations at level 0.05, with draws as they are (*before*) and repaired (*after*), in {studies}
studies, with 95 % intervals. *After* counts the studies that were not refused. *Kept* is the
share of draws that are kept, *refused* the share of studies that end with "cannot be repaired",
*idle* with "nothing to repair". *Nats* are the mean divergence of the exact posterior from that of
the draws by location, width and correlation, where both are normal."""
HEADER = "| flaw | before | after | kept | refused | idle | nats before | nats left |"


@dataclass(frozen=True)
class Study:
    """What one study found."""

    before: bool
    after: bool | None
    kept: float
    idle: bool
    nats: tuple[float, float] | None


def nats(sims: tarpon.Simulations) -> float:
    """Return the divergence of N(0.8 x, 0.2) by moments, unbiased by using two halves of draws."""
    z = (np.asarray(sims.samples, float) - 0.8 * sims.x) / np.sqrt(0.2)
    moments = []
    for half in (z[::2], z[1::2]):
        about = half - half.mean(axis=0)
        i, j = np.triu_indices(z.shape[-1], 1)
        variance = (about**2).sum(axis=0) / (len(half) - 1)
        log_sd = 0.5 * np.log(variance) + 0.5 / (len(half) - 1)
        products = (about[..., i] * about[..., j]).sum(axis=0) / (len(half) - 1)
        moments.append(
            (half.mean(axis=0), log_sd, products / np.sqrt(variance[:, i] * variance[:, j]))
        )
    both = zip(*moments, strict=True)
    shift, width, correlation = (np.multiply(a, b).sum(axis=1).mean() for a, b in both)
    return float(shift / 2 + width + correlation / 2)


def study(seed: int, *, flaw: str, n_dims: int) -> Study:
    """Repair posteriors, and check fresh ones."""
    seed += 1000 * FLAWS[n_dims].index(flaw)  # flaws do not share their truths
    sims = tarpon.problems.zoo(flaw, n_dims=n_dims, n_sims=N_SIMS[n_dims], rng=seed)
    fresh = tarpon.problems.zoo(flaw, n_dims=n_dims, n_sims=N_FRESH[n_dims], rng=10**6 + seed)
    repair = tarpon.repair(sims, n_swaps=199, rng=seed)
    before = tarpon.check(fresh, n_swaps=199, rng=seed).p_value <= 0.05
    if repair.outcome == "cannot be repaired":
        return Study(before, None, np.nan, False, None)
    mended = repair.applied(fresh, rng=seed)
    after = tarpon.check(mended, n_swaps=199, rng=seed).p_value <= 0.05
    left = (nats(fresh), nats(mended)) if flaw in NORMAL else None
    return Study(before, after, repair.kept, repair.outcome == "nothing to repair", left)


def share(which: list[bool]) -> str:
    if not which:
        return "–"
    low, high = binomtest(sum(which), len(which)).proportion_ci(0.95, method="wilson")
    return f"{np.mean(which):.2f} [{low:.2f}, {high:.2f}]"


def row(flaw: str, found: list[Study]) -> str:
    used = [one for one in found if one.after is not None]
    known = [one.nats for one in used if one.nats is not None]
    before, left = (f"{value:.3f}" for value in np.mean(known, axis=0)) if known else "––"
    kept = f"{np.mean([one.kept for one in used]):.0%}" if used else "–"
    return (
        f"| {flaw} | {np.mean([one.before for one in found]):.2f} | "
        f"{share([bool(one.after) for one in used])} | {kept} | "
        f"{1 - len(used) / len(found):.2f} | {np.mean([one.idle for one in found]):.2f} | "
        f"{before} | {left} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, nargs=2, default=(40, 10), help="in 2 and 10 dims")
    parser.add_argument("--flaws", nargs="+", help="only these")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="replace the section of the page")
    given = parser.parse_args()
    lines = [TITLE]
    with ProcessPoolExecutor(given.processes) as pool:
        for n_dims, n in zip(FLAWS, given.studies, strict=True):
            flaws = [one for one in FLAWS[n_dims] if one in (given.flaws or FLAWS[n_dims])]
            if not n or not flaws:
                continue
            sizes = {"sims": N_SIMS[n_dims], "fresh": N_FRESH[n_dims], "dims": n_dims}
            lines += ["", ABOUT.format(**sizes, studies=n), "", HEADER, "|---|" + "--:|" * 7]
            for flaw in flaws:
                job = partial(study, flaw=flaw, n_dims=n_dims)
                lines.append(row(flaw, list(pool.map(job, range(n)))))
                print(lines[-1], flush=True)
    print("\n".join(lines))
    if given.write:
        before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
        _, heading, rest = after.partition("\n## ")
        section = "\n".join(lines)
        PAGE.write_text(f"{before.rstrip()}\n\n{section}\n{heading}{rest}")


if __name__ == "__main__":
    main()

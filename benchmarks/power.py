"""Power and level of `check`, of an oracle and of other tests, on the zoo of flaws.

    python benchmarks/power.py               # power at 200 simulations
    python benchmarks/power.py --needed      # simulations that `check` and the oracle need
    python benchmarks/power.py --write       # docs/power.md and docs/images/power.png

All p-values are kept in docs/benchmarks/power.json, cell by cell, so that a run that was killed
goes on, and parts from several machines can be merged. The last command only reads that file. Run
the first in the environment of `make peers` to include the tests of other packages.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from power_results import (
    COLUMNS,
    DIMS,
    DOCS,
    LEVEL,
    N_C2ST,
    N_SIMS,
    POWER,
    SIZES,
    WORDS,
    Results,
    write,
)
from scipy.special import ndtr

import tarpon
from tarpon import Simulations
from tarpon.problems import FLAWS, oracle


def tarp(sims: Simulations, seed: int) -> float:
    return tarpon.tarp(sims, rng=seed).p_value


def hpd(sims: Simulations, seed: int) -> float:
    return np.nan if sims.log_prob_samples is None else tarpon.hpd(sims, rng=seed).p_value


def sbc(sims: Simulations, seed: int) -> float:
    return tarpon.sbc(sims, rng=seed).p_value


def c2st(sims: Simulations, seed: int) -> float:
    """Return the p-value of a classifier that distinguishes truths from draws, given x."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_score

    if seed >= N_C2ST:
        return np.nan
    truth, draw = (np.concatenate([a, sims.x], axis=1) for a in (sims.theta, sims.samples[0]))
    labels = np.repeat([0, 1], sims.n_sims)
    model = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    points = np.concatenate([truth, draw])[order]
    accuracy = cross_val_score(model, points, labels[order], cv=3).mean()
    return float(1 - ndtr((accuracy - 0.5) * 2 * np.sqrt(len(labels))))


def sbi_check(sims: Simulations, seed: int) -> float:
    """Return the p-value of sbi's `check_tarp` with its own defaults."""
    try:
        import torch
        from sbi.diagnostics.tarp import _run_tarp, check_tarp, get_tarp_references
    except ImportError:
        return np.nan
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    theta = torch.as_tensor(sims.theta)
    references = get_tarp_references(theta)
    ecp, alpha = _run_tarp(torch.as_tensor(sims.samples), theta, references)
    return float(check_tarp(ecp, alpha)[1])


TESTS: dict[str, Callable[[Simulations, int], float]] = {
    "TARP": tarp,
    "HPD": hpd,
    "SBC": sbc,
    "C2ST": c2st,
    "sbi": sbi_check,
}
PEERS = ("C2ST", "sbi")


def study(
    flaw: str, n_dims: int, n_sims: int, columns: list[str], n_swaps: int, seed: int
) -> dict[str, float]:
    """Return the p-values of tests, and how well `check` named the flaw if it rejected.

    That is, whether one of its names was right, and how many were wrong.
    """
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, n_dims, list(FLAWS).index(flaw)])
    known = oracle(flaw, n_sims=n_sims, n_dims=n_dims, rng=rng)
    values = {name: test(known.sims, seed) for name, test in TESTS.items() if name in columns}
    if "oracle" in columns:
        values["oracle"] = np.nan if known.log_ratio_theta is None else known.p_value(rng=seed)
    if "check" in columns:
        check = tarpon.check(known.sims, n_swaps=n_swaps, rng=seed)
        named, right = {finding.kind for finding in check.findings}, set(FLAWS[flaw].kinds)
        told = check.p_value <= LEVEL and right
        words = (int(bool(named & right)), len(named - right)) if told else (np.nan, np.nan)
        values |= {
            "check": check.p_value,
            "swaps": n_swaps,
            **dict(zip(WORDS, words, strict=True)),
        }
    return values


def measure(
    results: Results, pool: ProcessPoolExecutor, options: argparse.Namespace,
    flaw: str, n_dims: int, columns: list[str], n_sims: int,
) -> float:  # fmt: skip
    """Run the studies of a cell that the results lack, and return the power of the first test."""
    cell = results.cell(flaw, n_dims, n_sims)
    lacking = [name for name in columns if len(cell.get(name, [])) < options.runs]
    if lacking:
        run = partial(study, flaw, n_dims, n_sims, lacking, options.swaps)
        done = list(pool.map(run, range(options.runs)))
        cell = {k: [None if np.isnan(p[k]) else round(p[k], 6) for p in done] for k in done[0]}
        results.merge({f"{flaw} {n_dims} {n_sims}": cell})
        powers = (f"{name} {results.mean(flaw, n_dims, name, n_sims):.2f}" for name in lacking)
        print(f"{flaw}, {n_dims} parameters, {n_sims} simulations:", *powers, flush=True)
    return results.mean(flaw, n_dims, columns[0], n_sims)


def search(power: Callable[[int], float]) -> None:
    """Measure powers at sizes from 200 on, down or up, until one is below 0.8 and one above."""
    k, start = SIZES.index(N_SIMS), power(N_SIMS)
    if np.isnan(start):
        return
    for n_sims in SIZES[k + 1 :] if start < POWER else reversed(SIZES[:k]):
        if (power(n_sims) >= POWER) != (start >= POWER):
            return


def chosen(only: list[str]) -> list[str]:
    """Return the flaws with a name, or of the first or second circle ("old" or "new")."""
    circles = {"old": 1, "new": 2}
    if unknown := set(only) - set(FLAWS) - set(circles):
        raise SystemExit(f"There is no flaw {', '.join(sorted(unknown))}.")
    wanted = {circles.get(word, word) for word in only}
    return [flaw for flaw in FLAWS if not only or {flaw, FLAWS[flaw].circle} & wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/power.md and a figure")
    parser.add_argument("--needed", action="store_true", help="search for the simulations needed")
    parser.add_argument("--runs", type=int, default=100, help="studies per cell")
    parser.add_argument("--swaps", type=int, default=499, help="swaps of `check`")
    parser.add_argument("--processes", type=int, help="processes, one per core unless given")
    parser.add_argument("--only", nargs="+", default=[], help="old, new, or names of flaws")
    parser.add_argument("--dims", nargs="+", type=int, default=DIMS, help="numbers of parameters")
    parser.add_argument("--skip-peers", action="store_true", help="without C2ST and sbi")
    parser.add_argument("--results", type=Path, default=DOCS / "benchmarks" / "power.json")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="files to merge")
    options = parser.parse_args()
    results = Results(options.results)
    for path in options.merge:
        results.merge(json.loads(path.read_text()))
    if options.write:
        write(results)
    if options.write or options.merge:
        return
    columns = [name for name in COLUMNS if not (options.skip_peers and name in PEERS)]
    with ProcessPoolExecutor(options.processes) as pool:
        for flaw in chosen(options.only):
            for n_dims in options.dims:
                ask = partial(measure, results, pool, options, flaw, n_dims)
                if not options.needed:
                    ask(columns, N_SIMS)
                elif flaw != "exact":
                    search(partial(ask, ["oracle"]))
                    search(partial(ask, ["check"]))


if __name__ == "__main__":
    main()

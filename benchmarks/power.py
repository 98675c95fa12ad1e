"""Power and level of `check` and of other tests, on the zoo of flaws.

    python benchmarks/power.py --write       # writes docs/power.md and docs/images/power.png

Every cell is the share of studies of 200 simulations × 100 draws in which a test rejects at 5 %.
Run it in the environment of `make peers` to include the tests of other packages.
"""

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import ndtr

import tarpon
from tarpon import Simulations
from tarpon.problems import FLAWS, zoo

DOCS = Path(__file__).parents[1] / "docs"
DIMS = (2, 10, 50)
LEVEL = 0.05
N_C2ST = 10  # studies for classifiers, which are slow to train


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


def study(flaw: str, n_dims: int, n_swaps: int, seed: int) -> tuple[list[float], bool, int]:
    """Return the p-values of all tests, `check` first, and how well `check` named the flaw.

    That is, whether one of its names was right, and how many were wrong.
    """
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, n_dims, list(FLAWS).index(flaw)])
    sims = zoo(flaw, n_dims=n_dims, rng=rng)
    check = tarpon.check(sims, n_swaps=n_swaps, rng=seed)
    named = {finding.kind for finding in check.findings}
    others = [test(sims, seed) for test in TESTS.values()]
    right = set(FLAWS[flaw].kinds)
    return [check.p_value, *others], bool(named & right), len(named - right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/power.md and a figure")
    parser.add_argument("--runs", type=int, default=100, help="studies per cell")
    parser.add_argument("--swaps", type=int, default=499, help="swaps of `check`")
    options = parser.parse_args()
    names = ["check", *TESTS]
    lines = [f"| flaw | parameters | {' | '.join(names)} | right word | other words |"]
    lines += ["|---|--:|" + "--:|" * (len(names) + 2)]
    powers = {}
    with ProcessPoolExecutor() as pool:
        for flaw, about in FLAWS.items():
            for n_dims in DIMS:
                run = partial(study, flaw, n_dims, options.swaps)
                done = list(pool.map(run, range(options.runs), chunksize=5))
                p = np.array([values for values, _, _ in done])
                rejected = p <= LEVEL
                seen = ~np.isnan(p)
                power = np.where(seen.any(axis=0), rejected.sum(axis=0), np.nan)
                power = power / np.maximum(seen.sum(axis=0), 1)
                powers[flaw, n_dims] = power
                counted = zip(done, rejected[:, 0], strict=True)
                words = [naming for (_, *naming), hit in counted if hit]
                named = np.mean(words, axis=0) if words and about.kinds else [np.nan] * 2
                row = [*power, *named]
                cells = " | ".join("" if np.isnan(value) else f"{value:.2f}" for value in row)
                lines.append(f"| {about.label} | {n_dims} | {cells} |")
                print(lines[-1], flush=True)
    flawed = np.array([power for (flaw, _), power in powers.items() if flaw != "exact"])
    mean = " | ".join(f"{value:.2f}" for value in np.nanmean(flawed, axis=0))
    lines.append(f"| **mean over flaws** | | {mean} | | |")
    print(lines[-1])
    if options.write:
        _write(lines, powers, names, options)


def _write(lines: list[str], powers: dict, names: list[str], options: argparse.Namespace) -> None:
    head = [
        "# Power on the zoo of flaws",
        "",
        f"Written by `python benchmarks/power.py --write`: {options.runs} studies per cell, 200 "
        f"simulations × 100 draws each, level 5 %, {options.swaps} swaps. The cells are the "
        "shares of studies that each test rejects. The first rows are exact posteriors, where "
        "every test should reject in 5 % of studies. `check` uses the observations and, like HPD, "
        "the estimator's density where it has one; TARP has one uniform reference, as in the "
        "paper; SBC is adjusted by Bonferroni; C2ST is a boosted classifier of truths against "
        f"draws and observations ({N_C2ST} studies); sbi is the result of its `check_tarp`. The "
        "last columns are over the studies that `check` rejects: the share in which it named the "
        "flaw correctly, and the mean number of other flaws that it named.",
        "",
        "![Power of every test on every flaw](images/power.png)",
        "",
    ]
    (DOCS / "power.md").write_text("\n".join(head + lines) + "\n")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(DIMS), figsize=(11, 6.5), sharey=True, layout="constrained")
    flaws = [flaw for flaw in FLAWS if flaw != "exact"]
    for ax, n_dims in zip(axes, DIMS, strict=True):
        image = np.array([powers[flaw, n_dims] for flaw in flaws])
        shown = ax.imshow(image, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
        ax.set_yticks(range(len(flaws)), [FLAWS[flaw].label for flaw in flaws])
        ax.set_title(f"{n_dims} parameters")
    figure.colorbar(shown, ax=axes, label="Share of studies in which the flaw is found")
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / "power.png", dpi=150)


if __name__ == "__main__":
    main()

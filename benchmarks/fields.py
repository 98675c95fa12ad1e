"""Power, words and level of `check` on fields whose exact posterior is known.

    python benchmarks/fields.py --runs 20            # power and words, at 16 x 16 and 64 x 64
    python benchmarks/fields.py --other --runs 20    # flaws of other forms
    python benchmarks/fields.py --level --runs 400   # false alarms of exact posteriors
    python benchmarks/fields.py --memory             # 200 x 100 fields of 256 x 256 from Zarr
    python benchmarks/fields.py --write              # tables in docs/fields.md

Every study is appended to docs/benchmarks/fields.json when it is done, so that a run that was
killed goes on where it was. The last command only reads that file.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from field_flaws import OTHER_FLAWS, planted
from scipy.stats import binomtest

import tarpon
from tarpon.checks.flaws import Kind
from tarpon.checks.mistakes import Cause
from tarpon.problems import FIELD_FLAWS, field
from tarpon.regions import Fit

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULTS = DOCS / "fields.md", DOCS / "benchmarks" / "fields.json"
LEVEL = 0.05
SHAPES = {"16 × 16": (16, 16), "64 × 64": (64, 64)}
SMALL = {"8 × 8": (8, 8), "64": (64,), "40 × 40": (40, 40)}
Study = dict[str, float]


def power(flaw: str, shape: tuple[int, ...], seed: int) -> Study:
    """Return the p-value of a study, whether a right word was said, and how many wrong ones."""
    rng = np.random.default_rng([seed, *shape, list(FIELD_FLAWS).index(flaw)])
    right = FIELD_FLAWS[flaw].kinds
    scores = {"fit": Fit(lambda theta: theta)} if Kind.FIT in right else None
    check = tarpon.check(field(flaw, shape=shape, rng=rng), scores=scores, n_swaps=499, rng=seed)
    return _said(check, right)


def other(flaw: str, shape: tuple[int, ...], seed: int) -> Study:
    """Return the same for a flaw of another form."""
    rng = np.random.default_rng([seed, *shape, list(OTHER_FLAWS).index(flaw), 1])
    check = tarpon.check(planted(flaw, shape, rng), n_swaps=499, rng=seed)
    return _said(check, OTHER_FLAWS[flaw].named)


def _said(check: tarpon.Check, right: tuple[Kind | Cause, ...]) -> Study:
    named = {finding.kind for finding in check.findings}
    mistakes = {advice.cause for advice in check.advice if advice.recognised}
    return {
        "p": check.p_value,
        "right": bool(set(right) & (named | mistakes)),
        "wrong": len(named - set(right)),
    }


def level(shape: tuple[int, ...], seed: int, *, unpooled: bool = False) -> Study:
    """Return the p-value of an exact study: small, so that nothing is due to large numbers.

    The twin that must fail adds noise to the truths, which the draws do not have.
    """
    sims = field("exact", shape=shape, n_sims=20, n_draws=19, rng=seed)
    if unpooled:
        noise = np.random.default_rng(seed).normal(size=sims.theta.shape)
        sims = tarpon.Simulations(
            sims.samples.reshape(*sims.samples.shape[:2], *shape),
            (sims.theta + 0.5 * noise).reshape(-1, *shape),
            x=sims.x,
        )
    basis = tarpon.bases.Fourier()
    return {"p": tarpon.check(sims, basis=basis, n_swaps=99, rng=seed).p_value}


def kept() -> dict[str, list[Study]]:
    """Return all studies, by cell."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def run(cell: str, study: Callable[[int], Study], n_runs: int) -> None:
    """Do the studies that a cell lacks, one after another, and keep each."""
    for seed in range(len(kept().get(cell, [])), n_runs):
        found = study(seed)
        results = kept()
        results.setdefault(cell, []).append(found)
        RESULTS.write_text(json.dumps(results, indent=1).replace("\n  ", " ") + "\n")
    p = [found["p"] for found in kept()[cell]]
    print(f"{cell}: rejected {np.mean(np.array(p) <= LEVEL):.3f} of {len(p)}", flush=True)


def memory(side: int = 256, n_sims: int = 200, n_draws: int = 100) -> None:
    """Print the memory and the time that a check of stored fields takes, beyond imports."""
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        root = zarr.open_group(folder, mode="w")
        shape = (side, side)
        samples = root.create_array(
            "samples",
            shape=(n_draws, n_sims, *shape),
            chunks=(n_draws, 1, *shape),
            dtype="f4",
            compressors=None,
        )
        theta = root.create_array("theta", shape=(n_sims, *shape), chunks=(1, *shape), dtype="f4")
        for i in range(n_sims):
            one = field("oversmoothed", shape=shape, n_sims=1, n_draws=n_draws, rng=i)
            samples[:, i] = np.asarray(one.samples).reshape(n_draws, *shape)
            theta[i] = np.asarray(one.theta).reshape(shape)
        command = [sys.executable, __file__, "--measure", folder]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(folder: str) -> None:
    """Print what a check of a Zarr store takes, in a process of its own."""
    import zarr

    root = zarr.open_group(folder, mode="r")
    tarpon.check(field(shape=(16, 16), n_sims=20, n_draws=9, rng=0), rng=0)  # compiles
    before, start = _peak(), time.perf_counter()
    check = tarpon.check(root["samples"], root["theta"], rng=0)
    took = time.perf_counter() - start
    start = time.perf_counter()
    for i in range(root["theta"].shape[0]):
        np.asarray(root["samples"][:, i])
    read = time.perf_counter() - start
    print(f"{check!r}\npeak {(_peak() - before) / 2**20:.0f} MiB beyond imports")
    print(f"{took / (2 * read):.1f} times as long as reading the store twice")


def _peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _interval(p: list[float]) -> str:
    n_rejected = int(sum(value <= LEVEL for value in p))
    low, high = binomtest(n_rejected, len(p)).proportion_ci(0.99, method="exact")
    return f"{n_rejected / len(p):.3f} [{low:.3f}, {high:.3f}] | {len(p)}"


def tables(results: dict[str, list[Study]]) -> dict[str, str]:
    """Return the tables of the page, by the mark that they follow."""
    rows = [
        "| flaw | field | power | right word | wrong words | studies |",
        "|---|---|--:|--:|--:|--:|",
    ]
    flaws = {flaw: of.about for flaw, of in FIELD_FLAWS.items() if flaw != "exact"}
    others = {f"other {flaw}": of.about for flaw, of in OTHER_FLAWS.items()}
    levels = ["| posteriors | field | rejected at 5 % | studies |", "|---|---|--:|--:|"]
    cells = {f"exact, {name}": ("exact", name) for name in SHAPES}
    cells |= {f"level, {name}": ("exact, 20 × 19", name) for name in SMALL}
    cells |= {f"twin, {name}": ("noise added to truths", name) for name in SMALL}
    for cell, (what, name) in cells.items():
        if studies := results.get(cell, []):
            levels.append(f"| {what} | {name} | {_interval([one['p'] for one in studies])} |")
    found = {"power": [*rows, *_rows(flaws, results)], "other": [*rows, *_rows(others, results)]}
    return {name: "\n".join(lines) for name, lines in (found | {"level": levels}).items()}


def _rows(flaws: dict[str, str], results: dict[str, list[Study]]) -> Iterator[str]:
    """Yield the rows of flaws, each with what it is."""
    for flaw, about in flaws.items():
        for name in SHAPES:
            if not (studies := results.get(f"{flaw}, {name}", [])):
                continue
            rejected = [one for one in studies if one["p"] <= LEVEL]
            right = np.mean([one["right"] for one in rejected]) if rejected else np.nan
            wrong = np.mean([one["wrong"] for one in rejected]) if rejected else np.nan
            yield (
                f"| {about} | {name} | {len(rejected) / len(studies):.2f} | {right:.2f} "
                f"| {wrong:.2f} | {len(studies)} |"
            )


def write() -> None:
    """Write the tables into the page, each between its marks."""
    text = PAGE.read_text()
    for name, table in tables(kept()).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="studies per cell")
    parser.add_argument("--only", nargs="+", help="names of flaws")
    parser.add_argument("--other", action="store_true", help="flaws of other forms")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), help="shapes of fields")
    parser.add_argument("--level", action="store_true", help="false alarms of small studies")
    parser.add_argument("--memory", action="store_true", help="memory of a large store")
    parser.add_argument("--side", type=int, default=256, help="cells along each axis of it")
    parser.add_argument("--sims", type=int, default=200, help="simulations of it")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="write tables into docs/fields.md")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
    elif options.memory:
        memory(options.side, options.sims)
    elif options.write:
        write()
    elif options.level:
        for name, shape in SMALL.items():
            run(f"level, {name}", lambda seed, s=shape: level(s, seed), options.runs)
            twin = min(options.runs, 20)
            run(f"twin, {name}", lambda seed, s=shape: level(s, seed, unpooled=True), twin)
    else:
        study, called = (other, "other ") if options.other else (power, "")
        for name in options.shapes:
            for flaw in options.only or (OTHER_FLAWS if options.other else FIELD_FLAWS):
                cell = SHAPES[name]
                run(
                    f"{called}{flaw}, {name}",
                    lambda s, f=flaw, c=cell: study(f, c, s),
                    options.runs,
                )


if __name__ == "__main__":
    main()

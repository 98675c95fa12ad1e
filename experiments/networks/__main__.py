"""Train estimators, test them, and write what was found.

    python experiments/networks                 # trains what is not in networks.json yet
    python experiments/networks --page          # only writes the page
    python experiments/networks --draws FOLDER  # also keeps the draws of the 300 simulations

A record is appended to `networks.json` after each network, so that a run can be resumed.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import page
from problems import PROBLEMS, Problem

if TYPE_CHECKING:
    from estimators import Sampler

RECORDS = Path(__file__).with_name("networks.json")
EPOCHS = {1000: 150, 10_000: 50}


ORDER = (
    ("sbi nsf", 1000), ("LAMPE nsf", 1000), ("exact", 0), ("sbi maf", 1000), ("sbi nsf", 10_000),
    ("BayesFlow", 1000), ("5 × sbi maf", 1000), ("LAMPE nsf", 10_000), ("sbi maf", 10_000),
    ("BayesFlow", 10_000), ("5 × sbi maf", 10_000), ("sbi fmpe", 1000),
)  # fmt: skip
DEEP = {("sbi nsf", "two_moons"), ("sbi nsf", "gaussian_linear")}  # 3000 simulations, and repair


def plan() -> list[tuple[str, str, int]]:
    """Return estimators, problems and numbers of training simulations, in order."""
    return [(estimator, problem, n) for estimator, n in ORDER for problem in PROBLEMS]


def record(estimator: str, problem: str, n_train: int, draws: Path | None) -> dict[str, Any]:
    """Train one network, and return what was found."""
    from estimators import trained
    from judging import judged

    about = PROBLEMS[problem]
    keep = draws and draws / f"{problem}-{estimator.replace(' ', '-')}-{n_train}.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = (
            trained(estimator, about, n_train, epochs=EPOCHS[n_train]) if n_train else exact(about)
        )
        deep = (estimator, problem) in DEEP
        found = judged(about, sample, many=deep, repairs=deep, keep=keep)
    return {"estimator": estimator, "problem": problem, "n_train": n_train, **found}


def exact(problem: Problem) -> "Sampler":
    """Return the sampler of the exact posterior."""
    import tarpon

    rng = np.random.default_rng(8)
    return lambda theta, x, n: tarpon.Simulations(problem.draw(x, n, rng), theta, x=x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--draws", type=Path, help="folder for draws")
    given = parser.parse_args()
    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    done = {(one["estimator"], one["problem"], one["n_train"]) for one in records}
    for todo in [] if given.page else plan():
        if todo not in done:
            records.append(record(*todo, given.draws))
            RECORDS.write_text(json.dumps(records, indent=1) + "\n")
            print(*todo, records[-1]["true"], records[-1]["at_300"]["p"], flush=True)
    page.write(records)


if __name__ == "__main__":
    main()

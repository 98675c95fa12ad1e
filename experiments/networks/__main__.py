"""Train estimators, test them, and write what was found.

    python experiments/networks            # trains and judges what is not in networks.json yet
    python experiments/networks --kept     # trains nothing: judges draws that are kept
    python experiments/networks --again    # judges again what is in networks.json
    python experiments/networks --page     # only writes the page and its figures

Draws are kept in `.draws/`. A record is added to `networks.json` after each network, so that a run
can be resumed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import drawing
import page
from problems import PROBLEMS

RECORDS = Path(__file__).with_name("networks.json")
CLOSED = ("two_moons", "gaussian_linear", "gaussian_mixture", "slcp")
PLANE = ("two_moons", "gaussian_mixture")
OTHERS = ("blob", "sir", "lotka_volterra")
PLAN = (
    ("exact", 0, (*CLOSED, *OTHERS)),
    ("sbi nsf", 1000, CLOSED),
    ("sbi nsf", 10_000, CLOSED),
    ("LAMPE nsf", 1000, CLOSED),
    ("sbi nsf", 1000, OTHERS),
    ("sbi nle", 1000, PLANE),
    ("sbi nre", 1000, PLANE),
    ("BayesFlow", 1000, CLOSED),
    ("sbi maf", 1000, CLOSED),
    ("5 × sbi nsf", 1000, CLOSED),
    ("sbi nsf", 10_000, OTHERS),
    ("sbi fmpe", 1000, PLANE),
    ("sbi nsf", 100_000, PLANE),
    ("LAMPE nsf", 10_000, CLOSED),
    ("BayesFlow", 10_000, CLOSED),
    ("sbi maf", 10_000, CLOSED),
)
LOCAL = {  # LC2ST takes many times as long as all other tests
    ("sbi nsf", "two_moons", 1000),
    ("sbi nsf", "gaussian_linear", 1000),
}
Todo = tuple[str, str, int]


def plan() -> list[Todo]:
    """Return estimators, problems and numbers of training simulations, in order."""
    return [(estimator, problem, n) for estimator, n, problems in PLAN for problem in problems]


def record(estimator: str, problem: str, n_train: int) -> dict[str, Any]:
    """Train one network if its draws are not kept, and return what was found."""
    from judging import judged

    drawn = drawing.drawn(estimator, problem, n_train)
    local = (estimator, problem, n_train) in LOCAL
    found = judged(PROBLEMS[problem], drawn, local=local)
    return {"estimator": estimator, "problem": problem, "n_train": n_train, **found}


def ordered(records: dict[Todo, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records in the order of the plan."""
    return [records[todo] for todo in plan() if todo in records]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kept", action="store_true", help="train nothing")
    parser.add_argument("--again", action="store_true", help="judge again what has a record")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    every = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    records = {(one["estimator"], one["problem"], one["n_train"]): one for one in every}
    for todo in [] if given.page else plan():
        possible = drawing.path(*todo).exists() or not given.kept
        if possible and (given.again or todo not in records):
            records[todo] = record(*todo)
            RECORDS.write_text(json.dumps(ordered(records), indent=1) + "\n")
            print(*todo, records[todo]["at_300"]["p"], flush=True)
    page.write(ordered(records))


if __name__ == "__main__":
    main()

"""The files of an experiment: figures, numbers, and one page for all experiments."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from .._base.text import in_digits, number
from .._version import __version__
from ._lab import Lab, Outcome

_INTRODUCTION = """\
# Experiments

Every figure of Lemos, Coogan, Hezaveh and Perreault-Levasseur (2023), "Sampling-based accuracy
testing of posterior estimators for general inference", and some errors that its tests miss. The
commands below write this page; `tarpon reproduce all` runs all of them. Errors of the paper are in
[docs/errata.md](../docs/errata.md).

"Distance" is the largest distance of a curve from the diagonal. All p-values are exact: accurate
posteriors give p ≤ 0.01 in 1 % of studies. Seeds were fixed before any result was seen.
"""


def write(outcome: Outcome, name: str, figure: str, lab: Lab) -> None:
    """Write the figures as PNG and PDF, and everything else as JSON."""
    lab.out.mkdir(parents=True, exist_ok=True)
    for title, drawn in outcome.figures.items():
        # Without the date, equal numbers give equal files.
        drawn.savefig(lab.out / f"{title}.png", dpi=150)
        drawn.savefig(lab.out / f"{title}.pdf", metadata={"CreationDate": None})
        plt.close(drawn)
    record = {
        "experiment": name,
        "figure": figure,
        "figures": list(outcome.figures),
        "quick": lab.quick,
        "seed": lab.seed,
        "version": __version__,
        "claims": [
            asdict(claim) | {"wanted": claim.wanted, "holds": claim.holds}
            for claim in outcome.claims
        ],
        "answers": [asdict(answer) for answer in outcome.answers],
        "tables": outcome.tables,
        "numbers": outcome.numbers,
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (lab.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def write_page(out: Path, names: Sequence[str]) -> None:
    """Write the page of all experiments with numbers in a folder."""
    paths = [out / f"{name}.json" for name in names]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    lines = [_INTRODUCTION, *_summary(records)]
    for record in records:
        lines += ["", f"## {record['experiment']}: {record['figure']}", "", *_section(record)]
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _summary(records: list[dict[str, Any]]) -> Iterator[str]:
    yield from _table(
        ("figure", "command", "claims", "that hold"),
        [
            (
                f"[{record['figure']}](#{record['experiment']}-{_anchor(record['figure'])})",
                _command(record),
                str(len(record["claims"])),
                str(sum(claim["holds"] for claim in record["claims"])),
            )
            for record in records
        ],
    )


def _section(record: dict[str, Any]) -> Iterator[str]:
    yield f"`{_command(record).strip('`')}`"
    for title in record["figures"]:
        yield from ("", f"![{title}]({title}.png)")
    yield ""
    yield from _table(
        ("number", "must be", "is", ""),
        [
            (
                claim["what"],
                claim["wanted"],
                in_digits(claim["value"]),
                "✓" if claim["holds"] else "✗",
            )
            for claim in record["claims"]
        ],
    )
    for title, rows in record["tables"].items():
        cells = [tuple(_cell(value) for value in row.values()) for row in rows]
        yield from ("", f"{title}:", "", *_table(tuple(rows[0]), cells))
    if record["answers"]:
        yield from ("", "The paper's tests and `check`, side by side:", "")
        yield from _table(
            ("estimator", "p-values of the paper's tests", "p-value of `check`", "`check` says"),
            [
                (
                    answer["case"],
                    ", ".join(f"{name} {number(p)}" for name, p in answer["tests"].items()),
                    number(answer["check"], 3),
                    answer["words"],
                )
                for answer in record["answers"]
            ],
        )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', '∣') for cell in row)} |"


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _command(record: dict[str, Any]) -> str:
    quick = " --quick" if record["quick"] else ""
    return f"`tarpon reproduce {record['experiment']}{quick}`"


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")

"""The tables of `docs/networks.md`, drawn from the records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
TITLE = "## Measured"
LEVEL = 0.05
WRONG = 0.05  # nats above which a network counts as wrong

Record = dict[str, Any]


def write(records: Sequence[Record]) -> None:
    """Replace the section of the page."""
    before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
    _, heading, rest = after.partition("\n## ")
    PAGE.write_text(f"{before.rstrip()}\n\n{section(records)}\n{heading}{rest}")


def section(records: Sequence[Record]) -> str:
    """Return the section, from its title to the last table."""
    parts = [
        TITLE, counted(records), "### What is truly wrong", truths(records),
        "### What tests say at 300 simulations", few(records),
        "### What `check` says", said(records),
        "### What 3000 simulations add", many(records), "### Repair", repairs(records),
    ]  # fmt: skip
    return "\n\n".join(parts)


def table(header: str, rows: Sequence[str]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|---|---|" + "--:|" * (columns - 2), *rows])


def name(one: Record) -> str:
    trained = f", {one['n_train']}" if one["n_train"] else ""
    return f"| {one['problem'].replace('_', ' ')} | {one['estimator']}{trained} |"


def p(value: float | None) -> str:
    """Return a p-value, bold if it rejects."""
    if value is None:
        return "–"
    text = f"{value:.3f}" if value >= 0.001 else "< 0.001"
    return f"**{text}**" if value <= LEVEL else text


TESTS: dict[str, Callable[[Record], float | None]] = {
    "`check`": lambda one: one["at_300"]["p"],
    "`check` without densities": lambda one: one["at_300"]["without_densities"],
    "`hpd`": lambda one: one["at_300"].get("hpd"),
    "`sbc`": lambda one: one["at_300"]["sbc"],
    "`tarp`": lambda one: one["at_300"]["tarp"],
    "sbi's SBC": lambda one: one["sbi"]["sbc"],
    "sbi's TARP": lambda one: one["sbi"]["tarp"],
}


def counted(records: Sequence[Record]) -> str:
    """Return how many wrong networks each test rejects."""
    wrong = [one for one in records if one["n_train"] and one["true"].get("nats", 0) > WRONG]
    rejected = {
        test: sum((of(one) or 1.0) <= LEVEL for one in wrong if of(one) is not None)
        for test, of in TESTS.items()
    }
    each = ", ".join(f"{test} {n}" for test, n in rejected.items())
    least, most = (f(one["true"]["nats"] for one in wrong) for f in (min, max))
    n_trained = sum(bool(one["n_train"]) for one in records)
    return (
        f"{n_trained} networks were trained. {len(wrong)} are wrong by more than {WRONG} nats "
        f"({least:.2f} to {most:.2f}). With 300 simulations of 300 draws, these tests reject at "
        f"5 %: {each}."
    )


def truths(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        true = one["true"]
        nats = f"{true['nats']:.2f} ± {true['nats_error']:.2f}" if "nats" in true else "–"
        bias, width = max(true["bias"]), true["width"]
        rows.append(f"{name(one)} {nats} | {bias:.2f} | {min(width):.2f} to {max(width):.2f} |")
    return table("| problem | estimator | nats | bias | width |", rows)


def few(records: Sequence[Record]) -> str:
    rows = [f"{name(one)} {' | '.join(p(of(one)) for of in TESTS.values())} |" for one in records]
    return table(f"| problem | estimator | {' | '.join(TESTS)} |", rows)


def said(records: Sequence[Record]) -> str:
    rows = [
        f"{name(one)} {', '.join(dict.fromkeys(one['at_300']['kinds'])) or 'nothing'} |"
        for one in records
    ]
    return "\n".join(
        ["| problem | estimator | findings, strongest first |", "|---|---|---|", *rows]
    )


def many(records: Sequence[Record]) -> str:
    rows = [
        f"{name(one)} {p(one['at_3000']['p'])} | {len(one['at_3000']['kinds'])} | "
        f"{one['at_3000']['nats_low']:.2f} | {one['true'].get('nats', 0):.2f} | "
        f"{'yes' if one['at_3000']['within'] else 'no'} |"
        for one in records
        if "at_3000" in one
    ]
    header = "`check` | findings | `nats`, at least | nats, true | within tolerance"
    return table(f"| problem | estimator | {header} |", rows)


def repairs(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        if found := one.get("repair"):
            numbers = "– | – | – | – |"
            if "p_after" in found:
                numbers = (
                    f"{p(found['p_before'])} | {p(found['p_after'])} | "
                    f"{found['nats_before']:.2f} | {found['nats_after']:.2f} |"
                )
            rows.append(f"{name(one)} {found['outcome']} | {found['kept']:.0%} | {numbers}")
    header = "outcome | kept | p before | p after | nats before | nats after"
    return table(f"| problem | estimator | {header} |", rows)

"""The tables of `docs/networks.md`, drawn from the records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import answers
from answers import LEVEL, Record, wrong

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
IMAGES = PAGE.parent / "images"
TITLE = "## Measured"


def write(records: Sequence[Record]) -> None:
    """Replace the section of the page, and draw the figures whose draws are kept."""
    import figures

    for problem in dict.fromkeys(one["problem"] for one in records):
        figures.write(IMAGES, problem, [one for one in records if one["problem"] == problem])
    before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
    _, heading, rest = after.partition("\n## ")
    PAGE.write_text(f"{before.rstrip()}\n\n{section(records)}\n{heading}{rest}")


def section(records: Sequence[Record]) -> str:
    """Return the section, from its title to the last table."""
    parts = [TITLE, counted(records)]
    for problem in dict.fromkeys(one["problem"] for one in records):
        parts += one_problem(problem, [one for one in records if one["problem"] == problem])
    parts += [
        "### What `check` says", said(records),
        "### Which families see it", families(records),
        "### What 3000 simulations add", many(records),
        "### At ten observations", local(records),
        "### Ensembles", ensembles(records),
        "### Repair", repairs(records),
        "### Times", times(records),
        "### Answers", answers.text(records),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def one_problem(problem: str, records: Sequence[Record]) -> list[str]:
    """Return title, figure and table of a problem."""
    image = f"![Draws of each estimator for one observation](images/networks-{problem}.png)"
    shown = [image] if (IMAGES / f"networks-{problem}.png").exists() else []
    return [f"### {TITLES[problem]}", *shown, who_saw_it(records)]


TITLES = {
    "two_moons": "Two moons",
    "gaussian_linear": "Gaussian linear",
    "gaussian_mixture": "Gaussian mixture",
    "slcp": "SLCP",
    "sir": "SIR",
    "lotka_volterra": "Lotka–Volterra",
    "blob": "Blob",
}


def table(header: str, rows: Sequence[str], n_left: int = 2) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|---" * n_left + "|" + "--:|" * (columns - n_left), *rows])


def estimator(one: Record) -> str:
    return f"{one['estimator']}, {one['n_train']}" if one["n_train"] else one["estimator"]


def name(one: Record) -> str:
    return f"| {one['problem'].replace('_', ' ')} | {estimator(one)} |"


def p(value: float | None) -> str:
    """Return a p-value, bold if it rejects."""
    if value is None:
        return "–"
    text = f"{value:.3f}" if value >= 0.001 else "< 0.001"
    return f"**{text}**" if value <= LEVEL else text


def at_3000(one: Record) -> float | None:
    return one["at_3000"]["p"] if "at_3000" in one else None


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
    found = wrong(records)
    each = []
    for test, of in TESTS.items():
        values = [value for one in found if (value := of(one)) is not None]
        each.append(f"{test} {sum(value <= LEVEL for value in values)} of {len(values)}")
    sizes = [one["true"]["nats"] for one in found if "nats" in one["true"]]
    n_trained = sum(bool(one["n_train"]) for one in records)
    return (
        f"{n_trained} estimators were trained; {len(found)} are wrong by more than "
        f"{answers.WRONG} nats ({min(sizes):.2f} to {max(sizes):.2f}) or, without a density, by "
        f"a C2ST of more than {answers.APART}. With 300 simulations of 300 draws, these tests "
        f"reject at 5 %: {', '.join(each)}."
    )


def truth(one: Record) -> str:
    """Return the columns of what is truly wrong."""
    true = one["true"]
    nats = f"{true['nats']:.2f} ± {true['nats_error']:.2f}" if "nats" in true else "–"
    width = f"{min(true['width']):.2f} to {max(true['width']):.2f}"
    return f"{nats} | {max(true['bias']):.2f} | {width} | {mean(true['c2st']):.2f}"


def who_saw_it(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        values = [of(one) for of in TESTS.values()]
        values.insert(1, at_3000(one))
        rows.append(f"| {estimator(one)} | {truth(one)} | {' | '.join(map(p, values))} |")
    first, *others = TESTS
    tests = " | ".join([f"{first}, 300", f"{first}, 3000", *others])
    return table(f"| estimator | nats | bias | width | C2ST | {tests} |", rows, 1)


def listed(kinds: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(kinds)) or "nothing"


def said(records: Sequence[Record]) -> str:
    rows = [
        f"{name(one)} {listed(one['at_300']['kinds'])} | "
        f"{listed(one['at_3000']['kinds']) if 'at_3000' in one else '–'} |"
        for one in records
    ]
    head = "| problem | estimator | with 300 simulations | with 3000 |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def families(records: Sequence[Record]) -> str:
    """Return how many wrong networks each family of `check` rejects alone."""
    found = wrong(records)
    many_ = [one for one in found if "at_3000" in one]
    names = dict.fromkeys(
        family for one in found for at in ("at_300", "at_3000") if at in one
        for family in one[at]["families"]
    )  # fmt: skip
    counts = {
        family: tuple(
            sum(family in one[at]["families"] for one in some)
            for at, some in (("at_300", found), ("at_3000", many_))
        )
        for family in names
    }
    order = sorted(counts, key=lambda family: counts[family], reverse=True)
    rows = [f"| {family} | {counts[family][0]} | {counts[family][1]} |" for family in order]
    head = f"| family | 300 simulations, of {len(found)} | 3000, of {len(many_)} |"
    return table(head, rows, 1)


def many(records: Sequence[Record]) -> str:
    rows = [
        f"{name(one)} {p(one['at_3000']['p'])} | {len(one['at_3000']['kinds'])} | "
        f"{one['at_3000']['nats_low']:.2f} | {answers.nats(one)} | "
        f"{'yes' if one['at_300']['within'] else 'no'} | "
        f"{'yes' if one['at_3000']['within'] else 'no'} |"
        for one in records
        if "at_3000" in one
    ]
    header = (
        "`check` | findings | `nats`, at least | nats, true | within tolerance, 300 | "
        "within tolerance, 3000"
    )
    return table(f"| problem | estimator | {header} |", rows)


def local(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        if "near" in one:
            apart, found = one["true"]["c2st"], one["near"]
            rejected = sum(there["p"] <= LEVEL for there in found)
            outside = sum(there["outcome"] == "outside the simulations" for there in found)
            lc2st = one.get("lc2st")
            theirs = "–" if lc2st is None else str(sum(value <= LEVEL for value in lc2st))
            rows.append(
                f"{name(one)} {min(apart):.2f} to {max(apart):.2f} | {len(found)} | "
                f"{rejected} | {outside} | {theirs} |"
            )
    header = "C2ST | observations | `near` rejects | outside the simulations | LC2ST rejects"
    return table(f"| problem | estimator | {header} |", rows)


def ensembles(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        single = answers.single(one, records)
        if single:
            both = [single, one]
            c2st = " | ".join(f"{mean(each['true']['c2st']):.2f}" for each in both)
            values = " | ".join(p(each["at_300"]["p"]) for each in both)
            nats = " | ".join(answers.nats(each) for each in both)
            rows.append(f"{name(one)} {nats} | {c2st} | {values} |")
    header = (
        "nats of one | nats of five | C2ST of one | C2ST of five | `check` of one | "
        "`check` of five"
    )
    return table(f"| problem | estimator | {header} |", rows) if rows else ""


def repairs(records: Sequence[Record]) -> str:
    rows = []
    for one in records:
        if found := one.get("repair"):
            numbers = "– | – | – | – | – | – |"
            if "p_after" in found:
                numbers = (
                    f"{p(found['p_before'])} | {p(found['p_after'])} | "
                    f"{found['nats_before']:.2f} | {found['nats_after']:.2f} | "
                    f"{found['c2st_before']:.2f} | {found['c2st_after']:.2f} |"
                )
            rows.append(f"{name(one)} {found['outcome']} | {found['kept']:.0%} | {numbers}")
    header = (
        "outcome | kept | p before | p after | nats before | nats after | C2ST before | C2ST after"
    )
    return table(f"| problem | estimator | {header} |", rows)


STEPS = {
    "train": "training", "few": "draws, 300 × 300", "many": "draws, 3000 × 50",
    "check": "`check`, 300 × 300", "check_3000": "`check`, 3000 × 50", "tarp": "`tarp`",
    "sbc": "`sbc`", "hpd": "`hpd`", "near": "`near`, ten observations", "repair": "`repair`",
    "sbi_tarp": "sbi's TARP", "sbi_sbc": "sbi's SBC", "lc2st": "sbi's LC2ST, ten observations",
}  # fmt: skip


def times(records: Sequence[Record]) -> str:
    rows = []
    for step, label in STEPS.items():
        seconds = [
            one["seconds"][step] for one in records if one["n_train"] and step in one["seconds"]
        ]
        if seconds:
            both = " | ".join(_seconds(of(seconds)) for of in (median, max))
            rows.append(f"| {label} | {both} | {len(seconds)} |")
    return table("| step | median | most | of |", rows, 1)


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else "< 0.01"

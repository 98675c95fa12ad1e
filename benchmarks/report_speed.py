"""Time to write a report, and its size.

python benchmarks/report_speed.py --write     # writes report_speed.md
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tarpon
from tarpon import report
from tarpon.problems import zoo

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"


def studies() -> Iterator[tuple[str, list[tarpon.Check]]]:
    """Yield reports by name, each with its checks."""
    narrow = tarpon.check(zoo("narrow", n_sims=500, n_draws=200, n_dims=20, rng=0), rng=0)
    exact = tarpon.check(zoo("exact", n_sims=500, n_draws=200, n_dims=20, rng=0), rng=0)
    many = tarpon.check(zoo("narrow", n_sims=300, n_draws=100, n_dims=300, rng=0), rng=0)
    yield "20 parameters, inaccurate", [narrow]
    yield "20 parameters, no evidence against", [exact]
    yield "300 parameters, inaccurate", [many]
    yield "two checks of 20 parameters, compared", [narrow, exact]


def lines() -> Iterator[str]:
    yield "| report | s | s of processor time | KB |"
    yield "|---|--:|--:|--:|"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        for name, checks in studies():
            start, busy = time.perf_counter(), time.process_time()
            report.write(path, *checks)
            took, busy = time.perf_counter() - start, time.process_time() - busy
            yield f"| {name} | {took:.1f} | {busy:.1f} | {path.stat().st_size / 1000:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write report_speed.md")
    write = parser.parse_args().write
    text = "\n".join(lines())
    print(text)
    if write:
        head = (
            "# The time of a report\n\n"
            "`python benchmarks/report_speed.py --write` on two cores. The goals are 5 s for 20 "
            "parameters and\n20 s for 300. The first report loads matplotlib.\n\n"
        )
        (PAGES / "report_speed.md").write_text(head + text + "\n")


if __name__ == "__main__":
    main()

"""Tables of benchmarks: printed while they are measured, then written to a page."""

from collections.abc import Iterable
from pathlib import Path


def printed(lines: Iterable[str]) -> list[str]:
    """Return lines, each printed as soon as it is known."""
    known = []
    for line in lines:
        print(line, flush=True)
        known.append(line)
    return known


def write_page(page: Path, lines: Iterable[str]) -> None:
    page.write_text("\n".join(lines) + "\n")


def write_section(page: Path, title: str, lines: Iterable[str]) -> None:
    """Replace a section of a page, from its title to the next."""
    before, _, after = page.read_text().partition(f"{title}\n")
    _, heading, rest = after.partition("\n## ")
    section = "\n".join(lines)
    page.write_text(f"{before.rstrip()}\n\n{section}\n{heading}{rest}")

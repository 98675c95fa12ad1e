"""The live view of a run: one line on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from . import Progress

_SECONDS = 0.1  # between two looks


class View:
    """A bar on a terminal: what is done, how fast, and how strong the evidence is.

    Arguments:
        label: What is run.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.bar: Bar | None = None
        self.line: TaskID | None = None
        self.last = 0.0

    def __enter__(self) -> View | None:
        return self if sys.stderr.isatty() else None

    def __call__(self, now: Progress) -> None:
        """Show where a run stands."""
        if self.bar is None or self.line is None:
            self.bar, self.line = _bar(self.label)
        if time.monotonic() - self.last >= _SECONDS:
            self.bar.update(self.line, completed=now.n_done, total=now.n_sims, said=said(now))
            self.last = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def said(now: Progress) -> str:
    """Return where a run stands, in words."""
    words = [
        f"{now.rate:.3g}/s",
        f"evidence {now.e_value:.2g} of {now.enough:.3g}",
        f"coverage ±{now.within:.2g}",
        f"about {now.expected} more",
    ]
    return " · ".join(words + ([f"{now.n_failed} failed"] if now.n_failed else []))


def _bar(label: str) -> tuple[Bar, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    bar = Progress(
        # Where a terminal is narrow, names and words are cut: the count is what one looks for.
        TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=16)),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
        TextColumn("{task.fields[said]}", table_column=Column(no_wrap=True)),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar, bar.add_task(label, said="")

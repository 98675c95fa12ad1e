"""Progress: a bar on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar on a terminal, for what takes longer than a second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.bar: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bar | None:
        return self if sys.stderr.isatty() else None

    def __call__(self, name: str, n_done: int, n_blocks: int) -> None:
        if self.bar is None and time.monotonic() - self.start > 1:
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.bar.start()
        if self.bar is not None:
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(name)
            self.bar.update(self.tasks[name], completed=n_done, total=n_blocks)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

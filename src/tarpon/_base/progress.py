"""Progress: one form of callback, and one bar for terminals and notebooks."""

import importlib
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Self, TypeAlias, TypeVar

Item = TypeVar("Item")
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called as `progress(stage, n_done, n_total)`."""

_PATIENCE = 1.0  # seconds before anything is shown
_SECONDS = 0.1  # from one update to the next


class _Screen:
    """The terminal or notebook of this process, which shows at most one bar at a time."""

    hidden = False
    bar: "Bar | None" = None


def _visible() -> bool:
    """Return whether anyone would see progress: not in a pipe, a worker or a quiet command."""
    if _Screen.hidden or multiprocessing.parent_process() is not None:
        return False
    return _in_notebook() or sys.stderr.isatty()


@contextmanager
def hidden() -> Iterator[None]:
    """Show no progress meanwhile, in any thread."""
    before, _Screen.hidden = _Screen.hidden, True
    try:
        yield
    finally:
        _Screen.hidden = before


class Bar:
    """Bar with counts, rate and stage, shown after a second on a terminal or in a notebook.

    Inside another bar it is not shown.
    """

    def __init__(self) -> None:
        self.line: _Terminal | _Notebook | None = None
        self.last = time.monotonic() + _PATIENCE - _SECONDS
        self.began = time.monotonic()
        self.counts = (0, 0)  # done when the stage began, and in total
        self.n_done = 0

    def __enter__(self) -> Self | None:
        if _Screen.bar is not None or not _visible():
            return None
        _Screen.bar = self
        return self

    def __call__(self, stage: str, n_done: int, n_total: int) -> None:
        """Show the progress of a stage."""
        now = time.monotonic()
        if n_done < self.n_done or n_total != self.counts[1]:
            self.began, self.counts = now, (n_done, n_total)
        self.n_done = n_done
        if now - self.last < _SECONDS:
            return
        self.last = now
        if self.line is None:
            self.line = _Notebook() if _in_notebook() else _Terminal()
        rate = (n_done - self.counts[0]) / max(now - self.began, 1e-9)
        self.line.show(f"{rate:.3g}/s  {stage}" if rate else stage, n_done, n_total)

    def __exit__(self, *_: object) -> None:
        if _Screen.bar is self:
            _Screen.bar = None
        if self.line is not None:
            self.line.clear()


class Announcement:
    """One line about work without a bar, printed once after a second of it.

    Arguments:
        line: The line.
    """

    def __init__(self, line: str) -> None:
        self.line = line
        self.timer: threading.Timer | None = None
        self.began = self.spent = 0.0

    def begin(self) -> None:
        """Count from now; print the line once the work has taken a second in all."""
        self.began = time.monotonic()
        self.timer = threading.Timer(max(0.0, _PATIENCE - self.spent), self._say)
        self.timer.daemon = True
        self.timer.start()

    def end(self) -> None:
        """Stop counting."""
        self.spent += time.monotonic() - self.began
        if self.timer is not None:
            self.timer.cancel()

    def _say(self) -> None:
        line, self.line = self.line, ""
        if line and _visible():
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


class _Terminal:
    """Bar on a terminal. On a narrow one words are cut off, counts are not."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Line
        from rich.table import Column

        self.line = Line(
            BarColumn(bar_width=12),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TaskProgressColumn(table_column=Column(no_wrap=True, min_width=4)),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
        )
        self.task: Any = None

    def show(self, words: str, n_done: int, n_total: int) -> None:
        if self.task is None:
            self.task = self.line.add_task(words, completed=n_done, total=n_total)
            self.line.start()
        self.line.update(self.task, description=words, completed=n_done, total=n_total)

    def clear(self) -> None:
        self.line.stop()


class _Notebook:
    """Output of a notebook's cell, updated in place."""

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display
        self.output: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, words: str, n_done: int, n_total: int) -> None:
        line = f"{n_done}/{n_total}  {words}"
        bar = f'<progress value="{n_done}" max="{n_total}"></progress> {escape(line)}'
        self.output.update({"text/plain": line, "text/html": bar}, raw=True)

    def clear(self) -> None:
        self.output.update({"text/plain": ""}, raw=True)


def _in_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def shown(progress: Progress | None) -> Iterator[Progress | None]:
    """Return the callback of the user, or a bar if there is none."""
    if progress is not None:
        yield progress
        return
    with Bar() as bar:
        yield bar


def tracked(
    items: Iterable[Item], stage: str, n_total: int, progress: Progress | None
) -> Iterator[Item]:
    """Yield items, and report to the callback how many are done."""
    for n_done, item in enumerate(items, 1):
        yield item
        if progress is not None:
            progress(stage, n_done, n_total)

"""Progress: a line on a terminal, nothing in a pipe, and one form of callback."""

import io
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import tarpon
from tarpon._base import progress
from tarpon._base.progress import Bar, shown, tracked

SLOWLY = """
import sys, time
import numpy as np, tarpon

class Problem:
    names = ["[red]"]
    def prior(self, rng): return rng.normal(size=1)
    def simulate(self, theta, rng): return theta + rng.normal(size=1)
    def posterior(self, x, n_draws, rng):
        time.sleep(pause)
        return x / 2 + 0.5**0.5 * rng.normal(size=(n_draws, 1))

pause = float(sys.argv[2])
if sys.argv[1] == "run":
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(2)
    print(tarpon.run(Problem(), store="a", n_sims=20, n_draws=20, executor=pool, rng=1).outcome)
else:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(20, 1))
    sims = tarpon.from_sampler(Problem().posterior, theta, theta, 20, rng=0, n_workers=2)
    print(sims.n_sims)
"""


def on_terminal(*words, columns=120):
    """Return what a program writes to a terminal, and what to a pipe."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns)}
    Path("slowly.py").write_text(SLOWLY)
    shutil.rmtree("a", ignore_errors=True)
    program = [sys.executable, "slowly.py", *words]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=theirs, env=env)
    os.close(theirs)
    lines = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                lines += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    # Without colours and moves of the cursor.
    return re.sub(r"\x1b\[[\d;?]*\w", "", lines.decode()), process.communicate()[0].decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "line", "answer"),
    [
        ("run", r"\d+/20 +\d+% [\d.]+/s +evidence [\d.]+:1 \(stops at 40:1\), cov", "too few"),
        ("sampler", r"\d+/20 +\d+% [\d.]+/s +draws", "20"),
    ],
)
def test_a_line_on_a_terminal_for_what_takes_long(what, line, answer):
    lines, said = on_terminal(what, "0.2")
    assert re.search(line, lines), lines
    assert said.startswith(answer)


def test_nothing_on_a_terminal_for_what_does_not():
    assert on_terminal("sampler", "0") == ("", "20\n")


@pytest.mark.slow
def test_counts_stay_where_a_terminal_is_narrow():
    lines, _ = on_terminal("run", "0.2", columns=40)
    assert re.search(r"\d+/20 .*/s  evidence", lines)
    assert "100" not in lines
    assert all(len(line) <= 40 for line in re.split(r"[\r\n]+", lines))


class Recorder:
    """Takes the place of a line."""

    def __init__(self):
        self.shown = []

    def show(self, *words):
        self.shown.append(words)

    def clear(self):
        self.shown.append("clear")


def test_rates_count_what_was_done_meanwhile(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    recorder = Recorder()
    monkeypatch.setattr(progress, "_Terminal", lambda: recorder)
    bar = Bar()
    for n_done in (500, 501, 502, 510):  # 500 were done before
        bar("simulations", n_done, 1000)
        now[0] += 2.0
    bar("counts", 1, 3)
    now[0] += 2.0
    bar("counts", 2, 3)
    bar("counts", 3, 3)  # too soon after the last
    bar.__exit__()
    assert recorder.shown == [
        ("0.5/s  simulations", 501, 1000),
        ("0.5/s  simulations", 502, 1000),
        ("1.67/s  simulations", 510, 1000),
        ("counts", 1, 3),
        ("0.5/s  counts", 2, 3),
        "clear",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a terminal on which everything is shown at once, with the `bars` that it shows."""
    recorder, screen = Recorder(), Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    monkeypatch.setattr(progress, "_Terminal", lambda: recorder)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    screen.bars = recorder.shown
    return screen


def test_tests_show_a_bar_unless_they_have_a_callback(terminal):
    sims = tarpon.problems.gaussian("correct", n_sims=20, n_draws=9, n_dims=1, rng=0)
    tarpon.check(sims, n_swaps=19, rng=0)
    assert any("swaps" in words[0] for words in terminal.bars)
    assert terminal.bars[-1] == "clear"
    terminal.bars.clear()
    told = []
    engine = tarpon.Engine(progress=lambda *words: told.append(words))
    tarpon.check(sims, n_swaps=19, rng=0, engine=engine)
    assert told
    assert terminal.bars == []


def test_a_bar_inside_another_is_not_shown(terminal):
    with Bar() as outer:
        with Bar() as inner:
            assert inner is None
        outer("letters", 1, 2)
    assert terminal.bars == [("letters", 1, 2), "clear"]
    with Bar() as again:
        assert again is not None


def test_nothing_is_shown_where_progress_is_hidden(terminal):
    with progress.hidden():
        with Bar() as bar:
            assert bar is None
        announced("kernels")
    assert terminal.bars == []
    assert terminal.getvalue() == ""


def announced(line, n=1):
    """Announce work that takes a moment, and wait for the line."""
    announcement = progress.Announcement(line)
    for _ in range(n):
        announcement.begin()
        announcement.timer.join()
        announcement.end()


def test_work_that_takes_long_is_announced_once(terminal):
    announced("kernels", n=3)
    assert terminal.getvalue() == "kernels\n"


def test_work_that_takes_a_moment_is_not_announced(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)
    announcement = progress.Announcement("kernels")
    announcement.begin()
    announcement.end()
    announcement.timer.join()
    assert terminal.getvalue() == ""


def test_moments_add_up(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)
    announcement = progress.Announcement("kernels")
    announcement.spent = 600.0
    announcement.begin()
    announcement.timer.join()
    assert terminal.getvalue() == "kernels\n"


def test_work_is_not_announced_in_a_pipe(capsys):
    announced("kernels")
    assert capsys.readouterr().err == ""


def test_a_callback_takes_the_place_of_the_bar(capsys):
    told = []
    with shown(lambda *words: told.append(words)) as tell:
        assert list(tracked("abc", "letters", 3, tell)) == ["a", "b", "c"]
    assert told == [("letters", k, 3) for k in (1, 2, 3)]
    with shown(None) as nothing:
        assert nothing is None
        assert list(tracked("abc", "letters", 3, nothing)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")

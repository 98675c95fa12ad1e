"""What the README shows is what a user gets."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tarpon import experiments
from tarpon.experiments._record import write_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[bde]*/*.md"))]
FENCES = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
EXPERIMENTS = ROOT / "experiments"


def test_python_runs_and_prints_what_is_shown():
    names, printed = {}, []
    for kind, text in FENCES:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, "README.md", "exec"), names)
            if out.getvalue():
                printed.append(out.getvalue())
    shown = [text for kind, text in FENCES if not kind and not text.startswith("$")]
    assert len(printed) == len(shown) == 4
    for ours, theirs in zip(printed, shown, strict=True):
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
        # Sums round differently on other processors, which may turn a last digit.
        assert [float(n) for n in NUMBER.findall(ours)] == pytest.approx(
            [float(n) for n in NUMBER.findall(theirs)], rel=0.05
        )


def test_the_migration_page_runs_where_it_needs_no_other_package():
    page = (ROOT / "docs" / "migrate.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    ours = [block for block in blocks if not block.startswith(("# before", "# needs"))]
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for block in ours:
            exec(compile(block, "migrate.md", "exec"), names)
    assert len(ours) == 11
    assert "INACCURATE" in out.getvalue()
    assert names["curves"].shape == (100, 102)


def test_the_demo_prints_what_is_shown(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-m", "tarpon", "demo"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    shown = next(text for _, text in FENCES if "make demo" in text)
    for line in answer.stdout.splitlines():
        assert line.rstrip() in shown


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_page_of_experiments_is_what_the_command_writes(tmp_path):
    for path in EXPERIMENTS.glob("*.json"):
        shutil.copy(path, tmp_path)
    write_page(tmp_path, list(experiments.EXPERIMENTS))
    assert (tmp_path / "README.md").read_text() == (EXPERIMENTS / "README.md").read_text()


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_committed_experiments_are_whole_and_give_their_numbers(name):
    record = json.loads((EXPERIMENTS / f"{name}.json").read_text())
    assert not record["quick"]
    assert all(claim["holds"] for claim in record["claims"])
    assert all((EXPERIMENTS / f"{figure}.png").exists() for figure in record["figures"])


def test_errata_quote_the_numbers_of_their_experiment():
    page = (ROOT / "docs" / "errata.md").read_text()
    record = json.loads((EXPERIMENTS / "errata.json").read_text())
    for claim in record["claims"]:
        assert f"{claim['value']:.3g}" in page, claim["what"]

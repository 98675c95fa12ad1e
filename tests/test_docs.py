"""What the README shows is what a user gets."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[bd]*/*.md"))]
FENCES = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


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
    assert len(printed) == len(shown) == 2
    for ours, theirs in zip(printed, shown, strict=True):
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
        # Sums round differently on other processors, which may turn a last digit.
        assert [float(n) for n in NUMBER.findall(ours)] == pytest.approx(
            [float(n) for n in NUMBER.findall(theirs)], rel=0.05
        )


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

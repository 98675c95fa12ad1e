"""Pages whose code needs the packages that draws come from."""

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
needs = runpy.run_path(str(DOCS / "pages.py"))["needs"]


@pytest.mark.parametrize("name", ["migrate", "tutorials/sbi", "tutorials/chains"])
def test_code_runs_and_prints_what_is_shown(name):
    page = DOCS / f"{name}.md"
    needed = needs(page)
    assert needed
    assert [package for package in needed if importlib.util.find_spec(package) is None] == []
    # In a process of its own: BayesFlow switches the gradients of torch off for all others.
    answer = subprocess.run(
        [sys.executable, DOCS / "pages.py", page], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr

"""Pages whose code needs the packages that draws come from."""

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
pages = sys.modules["pages"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)


@pytest.mark.parametrize("name", ["migrate", "tutorials/sbi", "tutorials/chains"])
def test_code_runs_and_prints_what_is_shown(name):
    page = DOCS / f"{name}.md"
    assert pages.needs(page)
    for package in pages.needs(page):
        assert importlib.util.find_spec(package), package
    shown = list(pages.run(page))
    assert shown
    assert [one.printed for one in shown if not one.agrees] == []

"""What the pages show is what a user gets."""

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

import tarpon
from tarpon import experiments
from tarpon._base.text import in_digits
from tarpon.experiments._record import write_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXPERIMENTS = ROOT / "experiments"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted(EXPERIMENTS.glob("*.md")),
]
PAGES = [page for page in PAGES if "_build" not in page.parts]
OUTSIDE = re.compile(r"^(https?:)?//")
pages = SimpleNamespace(**runpy.run_path(str(DOCS / "pages.py")))
NOTEBOOK = DOCS / "tutorials/transit.md"  # run as a notebook, in test_notebook.py
RUN = [page for page in PAGES if pages.has_code(page)]
FAST = DOCS / "index.md"


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [
        page if page == FAST else pytest.param(page, marks=pytest.mark.slow)
        for page in RUN
        if page != NOTEBOOK
    ],
    ids=name,
)
def test_code_runs_and_prints_what_is_shown(page):
    n_shown = 0
    for shown in pages.run(page):
        n_shown += 1
        assert shown.agrees, f"shown:\n{shown.shown}\nprinted:\n{shown.printed}"
    if missing := [name for name in pages.needs(page) if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{n_shown} parts agree; some need {', '.join(missing)}: make test-interop")
    for picture in Path("images").rglob("*.*"):
        assert (page.parent / picture).exists(), "python docs/pages.py --write makes it"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_that_is_not_run_says_why(page):
    """Code stands in fences that are run, and not in others or in indented lines."""
    text = re.sub(
        r"^```.*?^```$|^<!--.*?-->$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    assert not re.search(r"^    .*(=|import|tarpon )", text, re.MULTILINE)
    fences = re.findall(r"^```(\S*)", page.read_text(), re.MULTILINE)[::2]
    known = {"python", "text", "console"}
    assert all(fence in known or fence.startswith("{") for fence in fences), fences


@pytest.mark.parametrize("page", [page for page in RUN if pages.needs(page)], ids=name)
def test_what_pages_need_is_in_an_environment_that_tests_them(page):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    named = {
        re.split(r"[^\w-]", package)[0].replace("-", "_").replace("scikit_learn", "sklearn")
        for package in [*groups["dev"], *groups["interop"]]
        if isinstance(package, str)
    }
    assert pages.needs(page) <= named


class TestTheRunner:
    def page(self, tmp_path, text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return list(pages.run(path))

    def test_pages_with_a_wrong_number_fail(self, tmp_path):
        right, wrong = (
            "```python\nprint(1.23)\n```\n\n```text\n1.23\n```\n",
            "```text\n1.35\n```\n",
        )
        (found,) = self.page(tmp_path, right)
        assert found.agrees
        (found,) = self.page(tmp_path, right.split("\n\n")[0] + "\n\n" + wrong)
        assert not found.agrees

    def test_pages_with_a_wrong_word_of_a_command_fail(self, tmp_path):
        (right,) = self.page(tmp_path, "```console\n$ echo one; echo two\n...\ntwo\n```\n")
        assert right.same_words
        (wrong,) = self.page(tmp_path, "```console\n$ echo one\ntwo\n```\n")
        assert not wrong.same_words

    @pytest.mark.parametrize("printed", ["bias of +0.31 sd in 2", "2 parameters: 0.30 sd", "none"])
    def test_sees_a_number_that_changed_its_size_sign_or_place(self, printed):
        for words in (True, False):
            assert not pages.Shown((0, 0), "bias of -0.30 sd in 2\n", printed, words).agrees

    def test_compares_words_on_three_pages_and_numbers_on_all_others(self, tmp_path):
        shown, printed = "off by 0.30 sd, in 2\n...\nseed 7\n", "wrong: 0.31 (2)\n9\nseed: 7\n"
        assert pages.Shown((0, 0), shown, printed, words=False).agrees
        assert not pages.Shown((0, 0), shown, printed, words=True).agrees
        (elsewhere,) = self.page(tmp_path, "```python\nprint(1)\n```\n\n```text\n1\n```\n")
        assert not elsewhere.words
        exact = {str(page.relative_to(ROOT)) for page in RUN if page in pages.WORD_FOR_WORD}
        assert exact == {"README.md", "docs/start.md", "docs/check.md"}

    def test_passes_reworded_output_and_writes_it_when_asked(self, tmp_path):
        path = tmp_path / "page.md"
        path.write_text("```python\nprint('off by 2')\n```\n\n```text\nwrong by 2\n```\n")
        command = [sys.executable, DOCS / "pages.py", path]
        subprocess.run(command, check=True)
        assert "wrong by 2" in path.read_text()
        subprocess.run([*command, "--write"], check=True)
        assert "wrong by 2" not in path.read_text()
        assert "```text\noff by 2\n```" in path.read_text()

    def test_compares_true_and_false_as_it_does_numbers(self):
        assert not pages.Shown((0, 0), "True\n", "False\n", words=False).agrees
        assert pages.Shown((0, 0), "same: True\n", "equal: True\n", words=False).agrees

    def test_pages_must_show_what_is_printed(self, tmp_path):
        with pytest.raises(AssertionError, match="does not show"):
            self.page(tmp_path, "```python\nprint(1)\n```\n")

    def test_files_of_pages_are_written_and_not_run(self, tmp_path):
        text = "<!-- file: one.py -->\n```python\nprint(1)\n```\n"
        (shown,) = self.page(tmp_path, f"{text}```console\n$ python one.py\n1\n```\n")
        assert shown.agrees

    def test_pages_continue_after_code_that_is_not_run(self, tmp_path):
        left_out = "<!-- not run: why not -->\n```python\nprint(1)\n```\n\n"
        (shown,) = self.page(tmp_path, f"{left_out}```python\nprint(2)\n```\n\n```text\n3\n```\n")
        assert (shown.shown, shown.printed) == ("3\n", "2\n")

    def test_pages_skip_code_that_needs_a_missing_package(self, tmp_path):
        fence = "```python\nimport no_such_package\n```\n\n```text\n1\n```\n"
        assert self.page(tmp_path, f"<!-- needs: no_such_package -->\n{fence}") == []
        with pytest.raises(ModuleNotFoundError):
            self.page(tmp_path, f"<!-- needs: numpy -->\n{fence}")


@pytest.mark.slow
def test_the_demo_prints_what_is_shown():
    answer = subprocess.run(
        [sys.executable, "-m", "tarpon", "demo"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    shown = (ROOT / "README.md").read_text()
    assert len(answer.stdout.splitlines()) > 20
    for line in answer.stdout.splitlines():
        assert line.rstrip() in shown


def test_readme_has_at_most_150_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        *(DOCS / f"{page}.md" for page in ("start", "choose", "read", "check", "math")),
        *sorted(set((DOCS / "tutorials").glob("*.md")) - {DOCS / "tutorials" / "index.md"}),
    ],
    ids=name,
)
def test_main_pages_link_to_words_of_the_glossary(page):
    words = re.findall(r"^### (.*)$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    anchors = {word.lower().replace(" ", "-") for word in words}
    linked = set(re.findall(r"glossary\.md#([\w-]+)\)", page.read_text()))
    assert linked
    assert linked <= anchors


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


class _Links(HTMLParser):
    """What a page of the site links to, what it loads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids = [], [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        elif tag in ("link", "script", "img"):
            self.loads.append(attrs.get("href") or attrs.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    answer = subprocess.run(
        [sys.executable, "-m", "sphinx", "-E", "-n", "-W", "--keep-going", "-q", "-b", "html",
         "-d", f"{out}/.trees", DOCS, out],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return out, {path: _Links(path) for path in out.rglob("*.html")}


@pytest.mark.slow
class TestTheSite:
    def test_site_has_no_broken_link(self, site):
        _, found = site
        assert len(found) > 40
        for path, page in found.items():
            for link in page.links:
                to = urlsplit(link)
                if to.scheme in ("http", "https", "mailto") or path.name == "genindex.html":
                    continue
                target = (path.parent / unquote(to.path)).resolve() if to.path else path
                assert target.exists(), f"{path.name}: {link}"
                if target in found:
                    assert unquote(to.fragment) in found[target].ids, f"{path.name}: {link}"

    def test_site_loads_nothing_from_the_network(self, site):
        for path, page in site[1].items():
            outside = [load for load in page.loads if OUTSIDE.match(load)]
            assert not outside, f"{path.name}: {outside}"

    def test_site_describes_every_public_name(self, site):
        places = set().union(*(page.ids for page in site[1].values()))
        for exported in set(tarpon.__all__) - {"__version__"}:
            value = getattr(tarpon, exported)
            for public in getattr(value, "__all__", [""]):
                full = f"tarpon.{exported}.{public}".rstrip(".")
                made = getattr(value, public, value)
                home = f"{getattr(made, '__module__', '')}.{getattr(made, '__name__', '')}"
                assert full in places or home in places or not callable(made), full


def test_page_of_experiments_is_what_the_command_writes(tmp_path):
    for path in EXPERIMENTS.glob("*.json"):
        shutil.copy(path, tmp_path)
    write_page(tmp_path, list(experiments.EXPERIMENTS))
    assert (tmp_path / "README.md").read_text() == (EXPERIMENTS / "README.md").read_text()


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_committed_experiments_are_whole_and_give_their_numbers(name):
    record = json.loads((EXPERIMENTS / f"{name}.json").read_text())
    assert not record["quick"]
    assert {claim["holds"] for claim in record["claims"]} == {True}
    assert all((EXPERIMENTS / f"{figure}.png").exists() for figure in record["figures"])


def test_errata_quote_the_numbers_of_their_experiment():
    page = (DOCS / "errata.md").read_text()
    record = json.loads((EXPERIMENTS / "errata.json").read_text())
    for claim in record["claims"]:
        assert in_digits(claim["value"]) in page, claim["what"]

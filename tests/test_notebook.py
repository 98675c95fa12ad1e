"""A notebook, run by a kernel of its own: what its cells show, and what they show meanwhile."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
pytestmark = pytest.mark.slow

START = """
import numpy as np, tarpon
from tarpon._base import progress
progress._PATIENCE = progress._SECONDS = 0.0  # show at once what is shown after a second

rng = np.random.default_rng(0)
theta = rng.normal(size=(60, 2))
x = theta + rng.normal(size=(60, 2))

def sampler(x, n_draws, rng):
    return x / 2 + 1.0 + 0.5**0.5 * rng.normal(size=(n_draws, 2))
"""
DRAW = "sims = tarpon.from_sampler(sampler, theta, x, 50, names=['mass', '<b>'], rng=0)"
CHECK = "check = tarpon.check(sims, rng=0)"
TARP = "tarpon.tarp(sims, rng=0);"
CELLS = {
    "start": START,
    "draw": DRAW,
    "check": CHECK,
    "tarp": TARP,
    "again": TARP,
    "card": "check",
    "result": "tarpon.sbc(sims, rng=0)",
    "parameters": "check.parameters",
    "families": "check.families",
    "findings": "check.findings",
    "plan": "tarpon.plan(2, n_sims=30, rng=0)",
    "own": "tarpon.check(sims, n_swaps=19, engine=tarpon.Engine(progress=lambda *_: None));",
    "hidden": "with progress.hidden(): tarpon.check(sims, n_swaps=19, rng=0)",
}


class Client(nbclient.NotebookClient):
    """Remembers what cells show one after the other, which a notebook does not keep."""

    def process_message(self, message, cell, index):
        kind, content = message["msg_type"], message["content"]
        if kind in ("display_data", "update_display_data"):
            self.meanwhile.append((index, content["data"]))
        return super().process_message(message, cell, index)


class Run:
    """A notebook that was run."""

    def __init__(self, cells, folder):
        code = [nbformat.v4.new_code_cell(cell) for cell in cells.values()]
        self.names, self.notebook = list(cells), nbformat.v4.new_notebook(cells=code)
        client = Client(self.notebook, timeout=300, kernel_name="python3")
        client.meanwhile = []
        client.execute(cwd=str(folder))
        self.meanwhile = client.meanwhile

    def shown(self, name):
        """Return what a cell shows one after the other."""
        at = self.names.index(name)
        return [data for index, data in self.meanwhile if index == at]

    def answer(self, name):
        """Return what the last line of a cell gives."""
        (output,) = self._of(name, "execute_result")
        return output["data"]

    def printed(self, name):
        """Return what a cell writes to its streams."""
        return [(output["name"], output["text"]) for output in self._of(name, "stream")]

    def _of(self, name, kind):
        outputs = self.notebook.cells[self.names.index(name)].outputs
        return [output for output in outputs if output["output_type"] == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for kernels, compiled and Jupyter's, that is empty at first."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(folder / "compiled"))
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
            patch.setenv(name, str(folder / name))
        yield folder


@pytest.fixture(scope="module")
def run(folder):
    return Run(CELLS, folder)


@pytest.mark.parametrize(("name", "stage"), [("draw", "draws"), ("check", "swaps")])
def test_progress_is_one_output_that_is_empty_in_the_end(run, name, stage):
    first, *bars, last = run.shown(name)
    assert first == last == {"text/plain": ""}
    assert any(
        re.fullmatch(rf"\d+/\d+  .*{stage}", bar.get("text/plain", ""))
        and bar["text/html"].startswith('<progress value="')
        for bar in bars
    )


def test_a_callback_takes_the_place_of_progress(run):
    assert run.shown("own") == run.shown("hidden") == []


def test_compiling_is_announced_once(run, folder):
    assert run.printed("draw") + run.printed("check") == []  # so few need no kernels
    ((stream, line),) = run.printed("tarp")
    assert stream == "stderr"
    assert (
        line
        == "tarpon is compiling its kernels: some seconds, and they are kept for later calls.\n"
    )
    assert run.printed("again") == []
    kept = Run({"start": START, "draw": DRAW, "tarp": TARP}, folder)
    assert kept.printed("tarp") == []


def test_a_check_is_a_card_with_its_figure(run):
    card = run.answer("card")
    assert card["text/plain"].startswith("check of 60 simulations × 50 draws, p = 0.001")
    html = card["text/html"]
    assert "<strong>Inaccurate</strong>" in html
    assert "<svg" in html
    assert "Bias of the draws / posterior sd" in html
    assert ".report(&#34;report.html&#34;)" in html or '.report("report.html")' in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_a_result_is_a_card_with_its_figure(run):
    html = run.answer("result")["text/html"]
    assert "<strong>SBC</strong>" in html
    assert "<svg" in html
    assert "Expected coverage" in html


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("parameters", ["parameter", "bias / sd", "width", "contraction", "recovery", "in 68%",
                        "in 95%", "p"]),
        ("families", ["family", "sees", "p", "adjusted"]),
        ("findings", ["finding", "p"]),
        ("plan", ["draws", "bias", "widths off by"]),
    ],
)  # fmt: skip
def test_tables_are_tables(run, name, columns):
    answer = run.answer(name)
    assert re.findall("<th [^>]*>(.*?)</th>", answer["text/html"]) == columns
    assert "<b>" not in answer["text/html"]
    (header,) = (line for line in answer["text/plain"].splitlines() if columns[-1] in line[-15:])
    assert re.split("  +", header.strip()) == columns


PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "transit.md"
pages = SimpleNamespace(**runpy.run_path(str(PAGE.parents[1] / "pages.py")))


def test_the_notebook_of_a_tutorial_is_that_of_its_page():
    made = runpy.run_path(str(PAGE.parents[1] / "notebook.py"))["notebook"](PAGE.read_text())
    kept = nbformat.read(PAGE.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(kept)
    assert made == kept, "python docs/notebook.py docs/tutorials/transit.md writes it"


def _printed(cell):
    return "".join(out["text"] for out in cell.outputs if out.get("name") == "stdout")


def test_the_notebook_of_a_tutorial_runs_and_prints_what_its_page_shows(folder, monkeypatch):
    """The page has the same code, which is run here alone, and whose outputs it shows."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")  # which kernels are compiled is no matter here
    notebook = nbformat.read(PAGE.with_suffix(".ipynb"), as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(folder))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = iter([_printed(cell) for cell in cells])
    every = list(pages.run(PAGE, lambda *_: next(printed)))
    assert len(every) == PAGE.read_text().count("```text\n")
    for shown in every:
        assert shown.agrees, f"shown:\n{shown.shown}\nprinted:\n{shown.printed}"
    assert next(printed, None) is None
    outputs = [out for cell in cells for out in cell.outputs]
    assert sum("image/png" in out.get("data", {}) for out in outputs) == 1

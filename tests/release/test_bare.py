"""The wheel in a bare environment, without extras: what a new user has after `pip install`."""

import re
from pathlib import Path

import pytest

import tarpon

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("core")  # which is built once for all
bare = pytest.mark.parametrize("environment", ["core"], indirect=True)
# What `import tarpon` must not import: it is done in a hundredth of a second without.
HEAVY = "click dask jax jinja2 matplotlib numba numpy pandas rich scipy sklearn torch xarray"

ARCHIVE = """
import numpy as np
from tarpon.problems import gaussian
sims = gaussian("correct", n_sims=100, n_draws=50, rng=0)
np.savez("draws.npz", samples=sims.samples, theta=sims.theta)
"""

# What asks for an extra that is not there. Nothing asks for `cuda`, `jax` or `test`: the first
# makes GPUs faster, and arrays and tests of the other two cannot be there without their package.
ASKS = {
    "arviz": """
from tarpon.adapters.chains import thin
thin(np.zeros((2, 50, 5, 1)), np.zeros((5, 1)))
""",
    "dask": """
import tarpon.cli
np.savez("draws.npz", samples=np.zeros((9, 5, 1)), theta=np.zeros((5, 1)))
tarpon.cli.main(["check", "draws.npz", "--scheduler", "tcp://localhost:8786"])
""",
    "io": """
Path("draws.h5").write_bytes(b"\\x89HDF\\r\\n\\x1a\\n" + bytes(100))
tarpon.adapters.files.load("draws.h5")
""",
    "learn": """
rng = np.random.default_rng(0)
pool, theta = rng.normal(size=(50, 1)), rng.normal(size=(20, 1))
learned = tarpon.references.Learned(pool, pool)
tarpon.tarp(rng.normal(size=(9, 20, 1)), theta, x=theta, reference=learned)
""",
    "lensing": """
from tarpon.problems import pictures
pictures()
""",
    "run": """
def local():
    class Problem:
        prior = simulate = posterior = lambda *given: given

    return Problem()


tarpon.run(local(), store="study", n_sims=20, n_draws=20)
""",
    "torch": """
import zipfile
zipfile.ZipFile("draws.pt", "w").close()
tarpon.adapters.files.load("draws.pt")
""",
}


@bare
class TestBare:
    def test_import_takes_nothing_along(self, environment, tmp_path):
        code = "import sys, tarpon; print(*{n.partition('.')[0] for n in sys.modules})"
        assert not set(environment.run("-c", code, cwd=tmp_path).split()) & set(HEAVY.split())

    def test_says_its_version(self, environment, tmp_path):
        said = environment.run("-m", "tarpon", "--version", cwd=tmp_path)
        assert tarpon.__version__ in said
        assert said == environment.run(
            environment.folder / "bin/tarpon", "--version", cwd=tmp_path
        )

    def test_the_demo_runs(self, environment, tmp_path):
        assert "underconfident" in environment.run("-m", "tarpon", "demo", cwd=tmp_path)
        assert (tmp_path / "tarpon-demo.png").stat().st_size > 10_000

    def test_a_file_is_checked_and_reported(self, environment, tmp_path):
        environment.run("-c", ARCHIVE, cwd=tmp_path)
        words = ["-m", "tarpon", "check", "draws.npz", "--rng", 0, "--report", "page.html"]
        assert "NO EVIDENCE AGAINST" in environment.run(*words, cwd=tmp_path)
        page = (tmp_path / "page.html").read_text()
        assert "<svg" in page
        assert "<script" in page

    def test_the_first_example_prints_what_is_shown(self, environment, tmp_path):
        fences = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        first = next(i for i, (kind, _) in enumerate(fences) if kind == "python")
        (_, code), (_, shown) = fences[first : first + 2]
        assert environment.run("-c", code, cwd=tmp_path) == shown

    @pytest.mark.parametrize("extra", ASKS)
    def test_what_is_missing_is_named(self, environment, extra, tmp_path):
        start = "from pathlib import Path\nimport numpy as np\nimport tarpon\n"
        (tmp_path / "ask.py").write_text(start + ASKS[extra])
        said = environment.run("ask.py", cwd=tmp_path, status=2 if extra == "dask" else 1)
        assert f"pip install tarpon[{extra}]" in " ".join(said.split())

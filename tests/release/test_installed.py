"""The wheel, installed: bare, as a new user has it, and with each extra alone."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tarpon

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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
    "wavelets": """
tarpon.bases.Wavelet()
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

START = """
from pathlib import Path
import numpy as np
import tarpon
from tarpon.problems import gaussian

sims = gaussian("overconfident", n_sims=100, n_draws=50, n_dims=2, rng=0)
arrays = {"samples": sims.samples, "theta": sims.theta}


expected = tarpon.tarp(sims, rng=0).ranks.values


def same(*data, near_ties=0, **options):
    found = tarpon.tarp(*data, rng=0, **options).ranks.values
    return abs(found - expected).sum() <= near_ties
"""

FOR = {
    "arviz": """
from tarpon.adapters.chains import thin
steps = np.random.default_rng(0).normal(size=(2, 500, 20, 1))
steps += np.roll(steps, 1, axis=1) + np.roll(steps, 2, axis=1)
assert thin(steps, np.zeros((20, 1))).draws.most < 300
""",
    "cuda": """
import torch
from tarpon.backends import _torch, _triton
tensors = {name: torch.as_tensor(values) for name, values in arrays.items()}
if torch.cuda.is_available():
    tensors = {name: tensor.cuda() for name, tensor in tensors.items()}
else:  # the kernels are interpreted
    _torch._fused = lambda samples: _triton
assert same(*tensors.values(), near_ties=2)
""",
    "dask": """
import dask.array
from dask.distributed import Client
with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False) as client:
    assert same(sims, engine=tarpon.Engine(executor=client))
assert same(*map(dask.array.from_array, arrays.values()))
""",
    "io": """
import h5netcdf, h5py, pandas, xarray, zarr
with h5py.File("draws.h5", "w") as file:
    file.update(arrays)
dims = {"samples": ("draw", "sim", "dim"), "theta": ("sim", "dim")}
data = xarray.Dataset({name: (dims[name], values) for name, values in arrays.items()})
data.to_netcdf("draws.nc", engine="h5netcdf")
group = zarr.create_group("draws.zarr")
for name, values in arrays.items():
    group.create_array(name, data=values)
for path in ("draws.h5", "draws.nc", "draws.zarr"):
    assert same(tarpon.adapters.files.load(path)), path
sim, table = pandas.RangeIndex(100, name="sim"), pandas.DataFrame(sims.theta, columns=["a", "b"])
table.set_index(sim).reset_index().to_parquet("theta.parquet")
draws = pandas.DataFrame(sims.samples.reshape(-1, 2), columns=["a", "b"])
draws.assign(sim=np.tile(sim, 50)).to_parquet("draws.parquet")
assert same(tarpon.adapters.files.load("draws.parquet", theta="theta.parquet"))
assert len(tarpon.check(sims, rng=0, n_swaps=99).to_frame())
""",
    "jax": """
import jax
jax.config.update("jax_enable_x64", True)
assert same(*map(jax.numpy.asarray, arrays.values()))
""",
    "learn": """
pool = np.random.default_rng(1).normal(size=(200, 2))
learned = tarpon.references.Learned(pool, pool)
assert tarpon.tarp(**arrays, x=sims.theta, reference=learned, rng=0).p_value < 0.01
""",
    "lensing": """
from tarpon.problems import pictures
assert pictures().shape[1:] == (16, 16)
""",
    "run": """
def local():  # as in a notebook: other processes cannot import it
    class Problem:
        def prior(self, rng):
            return rng.normal(size=1)

        def simulate(self, theta, rng):
            return theta + rng.normal(size=1)

        def posterior(self, x, n_draws, rng):
            return x / 2 + 0.5**0.5 * rng.normal(size=(n_draws, 1))

    return Problem()


if __name__ == "__main__":
    study = tarpon.run(local(), store="study", n_sims=20, n_draws=20, n_workers=1, rng=0)
    assert "20 simulations" in str(study), study
""",
    "test": """
Path("test_it.py").write_text('''
import numpy as np

def test_it(accurate):
    with np.load("draws.npz") as file:
        accurate(**file)
''')
np.savez("draws.npz", **arrays)
import pytest
assert pytest.main(["-q", "--tarpon-report=pages"]) == 1
assert "INACCURATE" in Path("pages/test_it-test_it.html").read_text().upper()
""",
    "torch": """
import torch
tensors = {name: torch.as_tensor(values) for name, values in arrays.items()}
assert same(*tensors.values(), near_ties=2)
torch.save(tensors, "draws.pt")
assert same(tarpon.adapters.files.load("draws.pt"))
""",
    "wavelets": """
fields = tarpon.problems.field(shape=(8, 8), n_sims=20, n_draws=19, rng=0)
check = tarpon.check(fields, basis=tarpon.bases.Wavelet("haar"), n_swaps=99, rng=0)
assert [band.name for band in check.evidence.bands] == ["2–4", "4–8", "8 and more"]
""",
}


def test_pipx_runs_the_demo_from_the_wheel(archives, tmp_path):
    limits = f"--no-compile -c {ROOT / 'constraints.txt'}"
    words = ["-m", "pipx", "run", "--spec", archives[0], f"--pip-args={limits}", "tarpon", "demo"]
    folders = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR")}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=os.environ | folders, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    assert "underconfident" in done.stdout
    assert (tmp_path / "tarpon-demo.png").stat().st_size > 10_000


@bare
class TestBare:
    def test_import_loads_no_extras(self, environment, tmp_path):
        code = "import sys, tarpon; print(*{n.partition('.')[0] for n in sys.modules})"
        assert not set(environment.run("-c", code, cwd=tmp_path).split()) & set(HEAVY.split())

    def test_command_prints_its_version(self, environment, tmp_path):
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


def test_every_extra_is_tried():
    assert set(FOR) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("environment", [*FOR, "jax-oldest"], indirect=True)
def test_works_alone(environment, tmp_path):
    extra = environment.folder.name.removesuffix("-oldest")
    (tmp_path / "try.py").write_text(START + FOR[extra])
    interpreted = extra == "cuda" and not has_gpu(environment, tmp_path)
    environment.run("try.py", cwd=tmp_path, **{"TRITON_INTERPRET": "1"} if interpreted else {})


@pytest.mark.parametrize("environment", ["cuda"], indirect=True)
def test_works_on_a_gpu(environment, tmp_path):
    if not has_gpu(environment, tmp_path):
        pytest.skip("no GPU that torch can use: the kernels were interpreted, not compiled")


def has_gpu(environment, folder):
    code = "import torch; print(torch.cuda.is_available())"
    return "True" in environment.run("-c", code, cwd=folder)

"""What the tests of a release share: the archives, and environments that they are installed in."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST, NEWEST = "constraints-minimal.txt", "constraints.txt"
# Old versions of the rest do not go with the oldest NumPy, or have builds for GPUs alone.
TOGETHER = "dask,io,learn,lensing,run,test"
WITHOUT_SEP = TOGETHER.replace("lensing,", "")  # it has no wheel for Python 3.14 yet


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of: extras and packages, on top of those of others."""

    extras: str = ""
    more: tuple[str, ...] = ()
    python: str = "3.11"
    constraints: str = NEWEST
    on: tuple[str, ...] = ("core",)


TESTERS = ("hypothesis", "netCDF4", "safetensors")
RECIPES = {
    "core": Recipe(on=()),
    "cuda": Recipe("cuda", on=("core", "torch")),  # which is large, and a part of it
    "jax-oldest": Recipe("jax", ("jax==0.8.0",), constraints=""),
    "oldest": Recipe(TOGETHER, TESTERS, constraints=OLDEST, on=()),
    "python3.12": Recipe(TOGETHER, TESTERS, python="3.12", on=()),
    "python3.13": Recipe(TOGETHER, TESTERS, python="3.13", on=()),
    "python3.14": Recipe(WITHOUT_SEP, TESTERS, python="3.14", on=()),
}


def recipe(name):
    return RECIPES.get(name, Recipe(extras=name))


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def run(self, *words, cwd, status=0, **variables):
        """Run Python there, and return what it printed."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.python, *map(str, words)],
            cwd=cwd,
            env=kept | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"} | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout + done.stderr


def interpreter(version):
    """Return the path of a Python, None where there is none."""
    try:
        # The variable lets pyenv choose that version, where pyenv is what answers to the name.
        found = subprocess.run(
            [f"python{version}", "-c", "import sys; print(sys.executable)"],
            env=os.environ | {"PYENV_VERSION": version},
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def built(folder, recipe, wheel, others):
    """Build an environment, on top of the packages of others if there are any."""
    python = interpreter(recipe.python)
    if python is None:
        assert recipe.python != "3.11", "Python 3.11 must be there, and is not"
        return None
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    made = Environment(folder)
    (made.packages / "others.pth").write_text("\n".join(str(one.packages) for one in others))
    # Modules are compiled when they are imported.
    pip("--python", made.python, "install", "--no-compile", *wanted(recipe, wheel))
    return made


def wanted(recipe, wheel):
    """Return what pip installs. Wheels alone: nobody should need a compiler."""
    extras = f"[{recipe.extras}]" if recipe.extras else ""
    limits = ["-c", ROOT / recipe.constraints] if recipe.constraints else []
    return ["--only-binary", ":all:", *limits, f"tarpon{extras} @ {wheel.as_uri()}", *recipe.more]


def pip(*words):
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="session")
def resolved(archives, tmp_path_factory):
    """Return a function that names what pip would install, for a Python that may be missing."""
    folder = tmp_path_factory.mktemp("resolved")

    def of(name):
        one = recipe(name)
        elsewhere = ["--target", folder, "--python-version", one.python, "--ignore-installed"]
        report = folder / "report.json"
        dry = ["--dry-run", "--report", report]
        pip("install", *dry, *elsewhere, *wanted(one, archives[0]))
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
        return {one["metadata"]["name"].lower() for one in found}

    return of


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """Return the wheel and the source archive, built once."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder]
    done = subprocess.run([*build, ROOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="session")
def unpacked(archives, tmp_path_factory):
    """Return the folder that the source archive holds."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(archives[1]) as archive:
        archive.extractall(folder, filter="data")
    (inside,) = folder.iterdir()
    return inside


@pytest.fixture(scope="session")
def environments(archives, tmp_path_factory):
    """Return a function that gives the environment of a name, built when it is first asked for."""
    folder = tmp_path_factory.mktemp("environments")

    @cache
    def of(name):
        others = [of(other) for other in recipe(name).on]
        return built(folder / name, recipe(name), archives[0], others)

    yield of
    shutil.rmtree(folder)


@pytest.fixture
def environment(request, environments):
    """Return the environment of a name."""
    made = environments(request.param)
    if made is None:
        pytest.skip(f"{request.param} is not on this machine: nothing was tested with it")
    return made

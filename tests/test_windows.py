"""What only POSIX has is missing, text is cp1252 unless told otherwise: as on Windows."""

import os
import subprocess
import sys

import pytest

# Runs when each process starts. What the interpreter itself needs stays: it is one of POSIX.
LACKING = """
import os, signal, sys, warnings

MODULES = "crypt fcntl grp nis pty pwd readline resource spwd syslog termios tty".split()
FUNCTIONS = (
    "O_DIRECTORY chown fchmod fork forkpty getegid geteuid getgid getloadavg getpgid getpgrp "
    "getuid killpg mkfifo nice posix_fadvise posix_fallocate pread pwrite register_at_fork "
    "sched_getaffinity sched_setaffinity setpgid setsid sysconf wait3 wait4"
).split()
SIGNALS = "SIGALRM SIGHUP SIGUSR1 SIGUSR2 alarm pthread_kill pthread_sigmask setitimer sigwait"

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for name in MODULES:
    sys.modules.pop(name, None)
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in SIGNALS.split():
    delattr(signal, name)
warnings.filterwarnings("ignore", "only soft file lock is available")
warnings.filterwarnings("error", category=EncodingWarning, module=r"tarpon(\\.|$)")
"""
PROBLEM = """
import numpy as np

def prior(rng):
    return rng.normal(size=2)

def simulate(theta, rng):
    return theta + rng.normal(size=2)

def posterior(x, n_draws, rng):
    return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, 2))
"""
PROGRAM = """
import importlib, pkgutil, sys
from pathlib import Path

import numpy as np

import tarpon
from tarpon import cli

ABSENT = {"jax", "torch", "triton"}

def imported():
    for module in pkgutil.walk_packages(tarpon.__path__, "tarpon."):
        try:
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert error.name in ABSENT, error

def said(*words, status):
    try:
        cli.main([str(word) for word in words], prog_name="tarpon")
    except SystemExit as end:
        assert end.code == status, (words, end.code)

if __name__ == "__main__":
    imported()
    sims = tarpon.problems.gaussian("overconfident", n_sims=100, n_draws=50, rng=0)
    np.savez("draws.npz", samples=sims.samples, theta=sims.theta)
    loaded = tarpon.adapters.files.load("draws.npz")
    result = tarpon.tarp(loaded, rng=0)
    assert result.p_value < 0.01
    result.save("result.npz")
    assert tarpon.load("result.npz").p_value == result.p_value
    check = tarpon.check(loaded, n_swaps=99, rng=0)
    assert check.p_value == 0.01
    check.report("page.html", name="Σ of ρ ≥ 1")
    assert "Σ of ρ ≥ 1" in Path("page.html").read_text(encoding="utf-8")
    study = tarpon.run("problem.py", store="store", n_sims=20, n_draws=20, n_workers=1, rng=0)
    assert study.failures == ()
    said("check", "draws.npz", "--rng", 0, "--report", "again.html", status=1)
    said("inspect", "draws.npz", status=0)
    said("demo", status=0)
    said("run", "problem.py", "--store", "store", "--n-sims", 20, "--n-draws", 20, "--rng", 0,
         "--n-workers", 1, status=0)
"""


@pytest.fixture
def windows(tmp_path):
    """Return a function that runs a program without POSIX, also in the processes it starts."""
    (tmp_path / "sitecustomize.py").write_text(LACKING)
    (tmp_path / "problem.py").write_text(PROBLEM)
    env = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),  # locks of other systems are no good
        "PYTHONIOENCODING": "cp1252",
        "PYTHONPATH": str(tmp_path),
        "PYTHONUTF8": "0",
        "PYTHONWARNDEFAULTENCODING": "1",
    }

    def run(text):
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True,
            encoding="cp1252", timeout=600, check=False,
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_every_module_is_imported_and_every_layer_answers(windows):
    done = windows(PROGRAM)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "overconfident" in done.stdout
    assert "tarpon-demo.png" in done.stdout


@pytest.mark.parametrize(
    "code",
    ["import fcntl", "import os; os.fork()", "import tarpon; open(tarpon.__file__).read()"],
)
def test_what_posix_alone_has_fails(windows, code):
    """The twin: code that would not run on Windows does not run here."""
    if "open" in code:  # a default encoding is an error inside the package alone
        code = f"__name__ = 'tarpon.cli'\n{code}"
    assert windows(code).returncode == 1

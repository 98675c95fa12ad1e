"""Packages that are missing are named, with the command that brings them."""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import tarpon
from tarpon import adapters, references
from tarpon._base import optional
from tarpon.adapters import chains, files
from tarpon.cli import main
from tarpon.experiments import _lensing as lensing
from tarpon.problems import Galaxies, pictures, zoo

SIMS, POOL = zoo("exact", n_sims=9, rng=0), zoo("exact", n_sims=30, rng=1)


def learned(path):
    tarpon.tarp(SIMS, reference=references.Learned(POOL.theta, POOL.x), rng=0)


def thinned(path):
    chains.thin(np.random.default_rng(0).normal(size=(100, 2, 1)), np.zeros((2, 1)))


def flow(path):
    adapters.from_flow(lambda x: None, SIMS.theta, SIMS.x)


def posterior(path):
    adapters.from_sbi(SimpleNamespace(sample=print), SIMS.theta, SIMS.x)


def walkers(path):
    (path / "a.h5").touch()
    adapters.from_emcee([path / "a.h5"], [[0.0]], discard=0)


def prior(path):
    Galaxies.fit(np.ones((9, 16, 16)))


def hubble(path):
    pictures(None)


def frame(path):
    tarpon.sbc(SIMS, rng=0).to_frame()


def device(path):
    lensing._beside_chains(SIMS.samples, "cuda")


def wavelet(path):
    tarpon.bases.Wavelet()


NEEDS = [
    ("sklearn.preprocessing", learned, "`Learned` needs scikit-learn", "learn"),
    ("arviz_stats.base", thinned, "the effective sample size needs arviz-stats", "arviz"),
    ("pywt", wavelet, "`Wavelet` needs PyWavelets", "wavelets"),
    ("torch", flow, "this needs torch", "torch"),
    ("torch", posterior, "this needs torch", "torch"),
    ("torch", device, "this needs torch", "torch"),
    ("h5py", walkers, "this needs h5py", "io"),
    ("pandas", frame, "this needs pandas", "io"),
    ("sklearn.covariance", prior, "the prior of galaxies needs scikit-learn", "lensing"),
    ("sep", hubble, "the prior of galaxies needs sep", "lensing"),
    ("skimage.data", hubble, "the prior of galaxies needs scikit-image", "lensing"),
]


@pytest.mark.parametrize(("module", "use", "needs", "extra"), NEEDS)
def test_by_those_who_need_them(tmp_path, monkeypatch, module, use, needs, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"^{needs}: .* `pip install tarpon\[{extra}\]`\.$"):
        use(tmp_path)


def in_hdf5(path):
    with h5py.File(path, "w") as file:
        file["samples"], file["theta"] = SIMS.samples, SIMS.theta


def in_zarr(path):
    group = zarr.create_group(path)
    for name in ("samples", "theta"):
        group.create_array(name, data=getattr(SIMS, name))


FORMATS = {
    "a.h5": ("h5py", in_hdf5, "io"),
    "a.nc": ("h5netcdf", in_hdf5, "io"),
    "b.nc": ("xarray", in_hdf5, "io"),
    "a.zarr": ("zarr", in_zarr, "io"),
    "a.parquet": ("pyarrow.parquet", lambda path: path.write_bytes(b"PAR1"), "io"),
    "a.pt": ("torch", lambda path: path.write_bytes(b"PK"), "torch"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_by_files(tmp_path, name):
    module, write, extra = FORMATS[name]
    write(tmp_path / name)
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=rf"{name}' cannot be .* tarpon\[{extra}\]"):
            files.load(tmp_path / name)


def test_a_package_that_is_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "sep.py").write_text("import nothing_of_this_name")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sep", raising=False)
    with pytest.raises(ImportError, match=r"sep, which cannot be imported \(No module named 'not"):
        optional.package("sep")
    assert optional.installed("sep") is None
    assert optional.installed("json") is json


def test_nobody_else_imports_them():
    """Where samples are tensors, torch is there: a backend imports what its arrays are of."""
    backends = {"_jax", "_torch", "_torch_swaps", "_triton", "_triton_kernels"}
    own = {Path(tarpon.__file__).parent / "backends" / f"{name}.py" for name in backends}
    for path in sorted(Path(tarpon.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        found = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            if node not in for_types
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            )
        }  # fmt: skip
        known = set(sys.stdlib_module_names) | {
            "click", "filelock", "jinja2", "llvmlite", "markupsafe", "matplotlib", "numba",
            "numpy", "pytest", "rich", "scipy", "threadpoolctl",
        }  # fmt: skip
        assert path in own or found <= known, f"{path}: {found - known}"


def test_on_the_command_line(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", samples=SIMS.samples, theta=SIMS.theta)
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    words = ["sbc", str(tmp_path / "a.npz"), "--scheduler", "tcp://nowhere:8786"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 2
    assert "pip install tarpon[dask]" in " ".join(said.stderr.split())

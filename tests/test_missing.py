"""Packages that are missing are named, with the command that brings them."""

import sys

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon import references
from tarpon.adapters import chains, files
from tarpon.cli import main
from tarpon.problems import Galaxies, zoo

SIMS, POOL = zoo("exact", n_sims=9, rng=0), zoo("exact", n_sims=30, rng=1)


def learned(path):
    tarpon.tarp(SIMS, reference=references.Learned(POOL.theta, POOL.x), rng=0)


def thinned(path):
    chains.thin(np.random.default_rng(0).normal(size=(100, 2, 1)), np.zeros((2, 1)))


def read(path):
    with h5py.File(path / "a.h5", "w") as file:
        file["samples"], file["theta"] = SIMS.samples, SIMS.theta
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, "h5py", None)
        files.load(path / "a.h5")


def prior(path):
    Galaxies.fit(np.ones((9, 16, 16)))


@pytest.mark.parametrize(
    ("module", "use", "error", "extra"),
    [
        ("sklearn.linear_model", learned, ImportError, "learn"),
        ("arviz_stats.base", thinned, ImportError, "arviz"),
        ("", read, ValueError, "io"),
        ("sklearn.covariance", prior, ImportError, "lensing"),
    ],
)
def test_by_those_who_need_them(tmp_path, monkeypatch, module, use, error, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(error, match=rf"pip install tarpon\[{extra}\]"):
        use(tmp_path)


def test_on_the_command_line(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", samples=SIMS.samples, theta=SIMS.theta)
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    words = ["sbc", str(tmp_path / "a.npz"), "--scheduler", "tcp://nowhere:8786"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 2
    assert "pip install tarpon[dask]" in " ".join(said.stderr.split())

import gc
import importlib.util
import os
import signal

import matplotlib
import numpy as np
import pytest

import tarpon

matplotlib.use("Agg")

# What a shell starts in the background ignores Ctrl-C, and so do its children: tests that send it
# to theirs would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def has_gpu():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


# Without a GPU, Triton interprets kernels, if it is told so before anything imports it.
if importlib.util.find_spec("triton") is not None and not has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"

# Modules of packages that are not installed have no examples to run.
_NEEDS = {
    "adapters/flows": "torch",
    "backends/_jax": "jax",
    "backends/_torch": "torch",
    "backends/_torch_swaps": "torch",
    "backends/_triton": "triton",
    "backends/_triton_kernels": "triton",
}
collect_ignore = [
    f"src/tarpon/{module}.py"
    for module, package in _NEEDS.items()
    if importlib.util.find_spec(package) is None
]


# Tests that share what takes seconds to make: where several processes run tests, one runs these.
_TOGETHER = (
    "test_browser.py",
    "test_check.py",
    "test_cluster.py",
    "test_comparing.py",
    "test_docs.py::TestTheSite",
    "test_field_plots.py",
    "test_gate.py",
    "test_maps.py",
    "test_networks.py",
    "test_notebook.py",
    "test_out_of_core.py::test_memory",
    "test_repair.py",
    "test_report.py",
    "test_scoring.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((part for part in _TOGETHER if part in nodeid), nodeid)

    return Together(config, log)


@pytest.fixture(autouse=True)
def examples(doctest_namespace, tmp_path, monkeypatch):
    """Give the examples of docstrings their names, and a folder of their own to write to."""
    doctest_namespace["np"] = np
    doctest_namespace["tarpon"] = tarpon
    monkeypatch.chdir(tmp_path)


def pytest_addoption(parser):
    parser.addoption("--peers", action="store_true", help="run the tests against other packages")
    parser.addoption("--interop", action="store_true", help="run the tests of adapters")
    parser.addoption("--release", action="store_true", help="run the tests of a release")


def pytest_ignore_collect(collection_path, config):
    # Packages that these tests need and miss are errors, so that none is left out in silence.
    name = collection_path.name
    return True if name in ("interop", "release") and not config.getoption(f"--{name}") else None


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--peers"):
        why = pytest.mark.skip(reason="needs other packages of the field: make peers")
        for item in items:
            if "peers" in item.keywords:
                item.add_marker(why)
    if not config.getoption("--interop"):
        why = pytest.mark.skip(reason="needs other tools of the field: make test-interop")
        for item in items:
            if "interop" in item.keywords:
                item.add_marker(why)
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not has_gpu():
        why = pytest.mark.skip(reason="needs torch and a CUDA device")
        for item in on_gpu:
            item.add_marker(why)


def pytest_collection_finish():
    # Modules and tests stay to the end: those who search for garbage need not visit them.
    gc.freeze()

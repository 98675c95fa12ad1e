import matplotlib
import numpy as np
import pytest

import tarpon

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def examples(doctest_namespace, tmp_path, monkeypatch):
    """Give the examples of docstrings their names, and a folder of their own to write to."""
    doctest_namespace["np"] = np
    doctest_namespace["tarpon"] = tarpon
    monkeypatch.chdir(tmp_path)


def pytest_addoption(parser):
    parser.addoption("--peers", action="store_true", help="run the tests against other packages")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--peers"):
        why = pytest.mark.skip(reason="needs other packages of the field: make peers")
        for item in items:
            if "peers" in item.keywords:
                item.add_marker(why)

"""What the tests of adapters share: the problem, and the lines of the documentation."""

import contextlib
import os
import re
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
import pytest
import torch

import tarpon

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
torch.set_num_threads(1)  # On two of a busy machine, small networks are many times as slow.


@pytest.fixture(scope="session", autouse=True)
def elsewhere(tmp_path_factory):
    """Run where packages may write their logs."""
    with contextlib.chdir(tmp_path_factory.mktemp("interop")):
        yield


@pytest.fixture(scope="module")
def gradients():
    """Let networks learn: BayesFlow turns gradients off for the whole process."""
    with torch.enable_grad():
        yield


@pytest.fixture
def shown():
    """Run the lines that the page shows for a tool, and return the names that they leave."""

    def run(tool, **names):
        section = PAGE.read_text().partition(f"## {tool}\n")[2].partition("\n## ")[0]
        (lines,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        names = {"tarpon": tarpon, **names}
        exec(compile(lines, f"frameworks.md, {tool}", "exec"), names)
        return names

    return run


@pytest.fixture
def study():
    """Return truths from N(0, 1) and observations that are off by N(0, 1), for two parameters.

    Posteriors are normal with mean x/2 and variance 1/2.
    """

    def make(n_sims, seed=0):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(n_sims, 2)).astype("f4")
        return theta, theta + rng.normal(size=theta.shape).astype("f4")

    return make

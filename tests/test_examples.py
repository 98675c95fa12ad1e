"""The example problems: those that are right pass, and their twins do not."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tarpon

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("problem", "n_sims", "stopped"),
    [
        ("conjugate.py", 60, "all done"),
        ("conjugate.py:too_narrow", 300, "inaccurate"),
        pytest.param("lensing.py", 6, "all done", marks=pytest.mark.slow),
        pytest.param("lensing.py:biased", 30, "inaccurate", marks=pytest.mark.slow),
    ],
)
def test_examples(tmp_path, problem, n_sims, stopped):
    with ThreadPoolExecutor(2) as pool:
        study = tarpon.run(
            str(EXAMPLES / problem), store=tmp_path / "a", n_sims=n_sims, n_draws=50, rng=1,
            executor=pool,
        )  # fmt: skip
    assert study.stopped == stopped
    assert (study.outcome == "inaccurate") == (stopped == "inaccurate")
    assert not study.failures

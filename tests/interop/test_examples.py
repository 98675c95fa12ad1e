"""The example problems that need other packages: their twins are found out."""

import shutil
from pathlib import Path

import pytest

import tarpon

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.interop
@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(
    ("problem", "n_sims", "wrong"),
    [
        ("numpyro_nuts.py", 10, False),
        ("numpyro_nuts.py:wrong_prior", 60, True),
        ("sbi_npe.py", 10, False),
        ("sbi_npe.py:barely_trained", 200, True),
    ],
)
def test_examples(tmp_path, problem, n_sims, wrong):
    # The network is written beside the file.
    shutil.copy(EXAMPLES / problem.partition(":")[0], tmp_path)
    study = tarpon.run(
        str(tmp_path / problem), store=tmp_path / "a", n_sims=n_sims, n_draws=100, rng=1,
        n_workers=2 if wrong else 1,  # each compiles for itself
    )  # fmt: skip
    assert (study.outcome == "inaccurate") == wrong
    assert not study.failures

"""The reference package's own tests, run on our function in its place."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

SDIST = Path(sys.prefix) / "sdists" / "tarp-0.1.1.tar.gz"
# Their tests take no seed, so a package of their name passes one on.
IN_ITS_PLACE = """
from functools import partial
import numpy
from tarpon import compat
numpy.random.seed(0)
get_tarp_coverage = partial(compat.get_tarp_coverage, seed=0)
"""


def test_the_reference_packages_own_tests_pass(tmp_path):
    assert SDIST.exists(), f"{SDIST} is missing: run `make test-interop`, which downloads it"
    with tarfile.open(SDIST) as sdist:
        theirs = sdist.extractfile("tarp-0.1.1/tests/test_drp.py").read()
    (tmp_path / "test_drp.py").write_bytes(theirs)
    (tmp_path / "tarp.py").write_text(IN_ITS_PLACE)
    answer = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", "test_drp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "Ran 3 tests" in answer.stderr

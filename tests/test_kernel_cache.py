"""Compiled kernels are kept where that is possible, and nothing depends on it."""

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tarpon._base.compiling import _Kept

pytestmark = pytest.mark.slow
CODE = """
import tarpon
sims = tarpon.problems.zoo("narrow", n_sims=20, n_draws=20, rng=0)
print(tarpon.tarp(sims, rng=0).p_value)
"""


def said(folder, environment=os.environ, **more):
    """Return what a program prints that keeps its kernels in a folder."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE],
        env=environment | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=False, **more,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    return folder, said(folder)


def test_kernels_are_kept_and_used_again(kept):
    folder, answer = kept
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}
    assert len(times) >= 2
    assert said(folder) == answer
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")} == times


def test_a_folder_that_cannot_be_written_is_done_without(kept, tmp_path):
    (tmp_path / "file").touch()
    assert said(tmp_path / "file" / "kernels") == kept[1]


def test_a_full_disk_is_done_without(kept, tmp_path):
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    # Coverage of this process could not be written, and would be complained about.
    quiet = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    assert said(tmp_path, environment=quiet, preexec_fn=limit) == kept[1]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.rglob("*.nb?"))
    assert said(tmp_path) == kept[1]  # what is half there is written anew
    assert any(path.stat().st_size > 1000 for path in tmp_path.rglob("*.nb?"))


def test_damaged_kernels_are_compiled_again(kept):
    folder, answer = kept
    files = list(folder.rglob("*.nb?"))
    for path in files:
        path.write_bytes(path.read_bytes()[:100])
    assert said(folder) == answer
    assert all(path.stat().st_size > 100 for path in files)


class Slow:
    """Cache that reads its index, takes its time, and writes it, as that of Numba does."""

    def __init__(self, folder):
        self.cache_path = folder

    def save_overload(self, name, _):
        index = self.cache_path / "index"
        names = json.loads(index.read_text()) if index.exists() else []
        time.sleep(0.3)
        index.write_text(json.dumps([*names, name]))


@pytest.mark.parametrize("locked", [True, False])
def test_kernels_of_two_processes_do_not_replace_each_other(tmp_path, locked):
    """Without the lock, which is the twin, the second loses what the first has written."""
    caches = [_Kept(Slow(tmp_path)) if locked else Slow(tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(c.save_overload, k, None) for k, c in enumerate(caches)]:
            done.result()
    kept = json.loads((tmp_path / "index").read_text())
    assert sorted(kept) == [0, 1] if locked else len(kept) == 1

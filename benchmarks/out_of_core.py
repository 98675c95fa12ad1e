"""Tests on a Zarr store larger than memory, against the speed at which its files can be read.

    python benchmarks/out_of_core.py                    # 2 GB, printed
    python benchmarks/out_of_core.py --gb 20 --write    # writes docs/benchmarks/out_of_core.md

The store is written once, float32 in chunks of 32 simulations with 1000 draws of 100 parameters,
and removed at the end. Several times in turn, one program reads all files into a buffer of 16 MB
and does nothing else, and each test runs in a separate process that reports its peak memory,
interpreter and mapped files included. "Cold" means that the files were dropped from the page
cache first.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import zarr
from tables import printed, write_page

from tarpon._base.threads import n_allowed

N_DRAWS, CHUNK, N_DIMS = 1000, 32, 100
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "out_of_core.md"
TESTS = {
    "`tarp`": "tarpon.tarp(sims, rng=0)",
    "`tarp`, box given": (
        "tarpon.tarp(sims, rng=0, reference=tarpon.references.Uniform(-5, 5), "
        "metric=tarpon.metrics.L2(1.0))"
    ),
    "`sbc`": "tarpon.sbc(sims, rng=0)",
}
CODE = """
import json, resource, sys, time
import numpy as np, tarpon, zarr
few = tarpon.Simulations(np.random.default_rng(0).normal(size=(1000, 32, 100)).astype("f4"),
                         np.zeros((32, 100), "f4"))
tarpon.tarp(few, rng=0)  # which loads the kernels, or a few numbers would be NumPy's
sims = few
{call}  # compiles
start = time.perf_counter()
sims = tarpon.adapters.files.load(sys.argv[1])
{call}
took = time.perf_counter() - start
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def write_store(path: Path, gb: float) -> None:
    n_sims = CHUNK * max(1, round(gb * 1e9 / (4 * N_DRAWS * N_DIMS * CHUNK)))
    rng = np.random.default_rng(0)
    group = zarr.create_group(path)
    group.create_array("theta", data=rng.standard_normal((n_sims, N_DIMS), dtype="f4"))
    samples = group.create_array(
        "samples", shape=(N_DRAWS, n_sims, N_DIMS), chunks=(N_DRAWS, CHUNK, N_DIMS), dtype="f4",
        compressors=None,
    )  # fmt: skip
    for start in range(0, n_sims, CHUNK):
        block = rng.standard_normal((N_DRAWS, CHUNK, N_DIMS), dtype="f4")
        samples[:, start : start + CHUNK] = block


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def forget(path: Path) -> None:
    """Drop the files from the page cache."""
    for file in files(path):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_seconds(path: Path) -> float:
    buffer = bytearray(16 * 2**20)
    start = time.perf_counter()
    for file in files(path):
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
    return time.perf_counter() - start


def run(path: Path, call: str) -> tuple[float, float]:
    """Return the seconds of a test, and the peak megabytes of its process."""
    code = CODE.replace("{call}", call)
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    took, peak = json.loads(done.stdout)
    return took, peak


def table(path: Path, repeats: int, cold: bool) -> Iterator[str]:
    size = sum(file.stat().st_size for file in files(path)) / 1e9
    times: dict[str, list[float]] = {name: [] for name in ("files alone", *TESTS)}
    peaks: dict[str, float] = {}
    for _ in range(repeats):
        for name in times:
            if cold:
                forget(path)
            if name == "files alone":
                times[name].append(read_seconds(path))
            else:
                took, peaks[name] = run(path, TESTS[name])
                times[name].append(took)
    limit = size / min(times["files alone"])
    kind = "cold" if cold else "warm"
    yield f"| {size:.1f} | {kind} | files alone | {size / limit:.2f} | {limit:.2f} | | |"
    for name in TESTS:
        took = min(times[name])
        rate = size / took
        yield (
            f"| {size:.1f} | {kind} | {name} | {took:.2f} | {rate:.2f} | {rate / limit:.0%} | "
            f"{peaks[name]:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=2.0, help="size of the store")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--write", action="store_true", help="write out_of_core.md")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    lines = [
        "# Draws on disk",
        "",
        f"Written by `python benchmarks/out_of_core.py --gb {options.gb:g} --write` on "
        f"{n_allowed()} cores of a shared server. A Zarr store of float32, "
        f"uncompressed, {N_DRAWS} draws of {N_DIMS} parameters, {CHUNK} simulations per "
        "chunk. Warm: in the page cache, as far as it fits; cold: dropped from it before every "
        "run. Each test runs in its own process, and its memory is the peak of this process, "
        f"mapped files included. Best of {options.repeats}. Tests read the store once; for the "
        "box, `tarp` reads some of the simulations before.",
        "",
        "| GB | cache | what | s | GB/s | of files alone | peak MB |",
        "|--:|---|---|--:|--:|--:|--:|",
    ]
    try:
        write_store(store := folder / "store.zarr", options.gb)
        tables = (table(store, options.repeats, cold) for cold in (False, True))
        lines = printed(chain(lines, *tables))
    finally:
        shutil.rmtree(folder)
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()

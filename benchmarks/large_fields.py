"""`check` on fields that do not fit into memory, against reading their store.

    python benchmarks/large_fields.py                     # 5.2 GB, printed
    python benchmarks/large_fields.py --sims 40           # 1.0 GB
    python benchmarks/large_fields.py --write             # writes docs/benchmarks/large_fields.md

The store is written once to a temporary folder, and removed at the end: 200 simulations of 100
draws of 256 x 256 cells in single precision, uncompressed, a chunk per simulation. Then, several
times in turn, each in a separate process: all simulations are read twice by Zarr, on as many
threads as there are cores; all files are read twice into one buffer; and `check` runs. The files
are in the page cache, as far as they fit. `check` reports its peak memory, interpreter and mapped
files included.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import zarr
from tables import printed, write_page

from tarpon._base.threads import n_allowed

N_DRAWS, SIDE = 100, 256
WIDTH = 0.97  # of the draws, where 1 is right
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "large_fields.md"
BY_ZARR = """
import json, sys, time, zarr
from concurrent.futures import ThreadPoolExecutor
from tarpon._base.threads import n_allowed
samples = zarr.open_group(sys.argv[1], mode="r")["samples"]
start, busy = time.perf_counter(), time.process_time()
with ThreadPoolExecutor(n_allowed()) as pool:
    for _ in range(2):
        list(pool.map(lambda i: samples[:, i].size, range(samples.shape[1])))
print(json.dumps([time.perf_counter() - start, time.process_time() - busy]))
"""
FILES = """
import json, sys, time
from pathlib import Path
files = [path for path in Path(sys.argv[1]).rglob("*") if path.is_file()]
buffer = bytearray(2**24)
start, busy = time.perf_counter(), time.process_time()
for path in 2 * files:
    with path.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass
print(json.dumps([time.perf_counter() - start, time.process_time() - busy]))
"""
CHECK = """
import json, resource, sys, time
from pathlib import Path
import numpy as np, tarpon, zarr
few = np.memmap(sys.argv[2], "f4", "r", shape=(21, 12, 64, 64))
tarpon.check(few[1:], few[0], rng=0, n_swaps=19)  # loads kernels
start, busy = time.perf_counter(), time.process_time()
check = tarpon.check(tarpon.adapters.files.load(sys.argv[1]), rng=0)
took, busy = time.perf_counter() - start, time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
path = Path(sys.argv[2]).with_suffix(".html")
check.report(path)
words = (*map(str, check.findings), check.outcome)[0]
print(json.dumps([took, busy, peak, path.stat().st_size / 1e6, words]))
"""


def write_store(path: Path, n_sims: int) -> None:
    """Write fields of white noise, and draws of their posterior that are a little too narrow."""
    group = zarr.create_group(path)
    cells = ("row", "column")
    samples = group.create_array(
        "samples", shape=(N_DRAWS, n_sims, SIDE, SIDE), chunks=(N_DRAWS, 1, SIDE, SIDE),
        dtype="f4", compressors=None, dimension_names=("draw", "sim", *cells),
    )  # fmt: skip
    theta = group.create_array(
        "theta", shape=(n_sims, SIDE, SIDE), chunks=(1, SIDE, SIDE), dtype="f4",
        compressors=None, dimension_names=("sim", *cells),
    )  # fmt: skip

    def write(i: int) -> None:
        rng = np.random.Generator(np.random.SFC64([0, i]))
        truth, noise = rng.standard_normal((2, SIDE, SIDE), dtype="f4")
        draws = rng.standard_normal((N_DRAWS, SIDE, SIDE), dtype="f4")
        draws *= np.float32(WIDTH * 0.5**0.5)
        draws += (truth + noise) / 2
        theta[i], samples[:, i] = truth, draws

    with ThreadPoolExecutor(n_allowed()) as pool:
        list(pool.map(write, range(n_sims)))


def run(code: str, *args: Path) -> list[float]:
    """Return what a program prints, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


def table(folder: Path, n_sims: int, repeats: int) -> Iterator[str]:
    store, few = folder / "store.zarr", folder / "few.f4"
    write_store(store, n_sims)
    np.random.default_rng(0).standard_normal((21, 12, 64, 64), dtype="f4").tofile(few)
    run(CHECK, store, few)  # compiles kernels, and keeps them
    programs = {"Zarr": (BY_ZARR, store), "files": (FILES, store), "check": (CHECK, store, few)}
    times = [{name: run(*how) for name, how in programs.items()} for _ in range(repeats)]
    best = {name: min(one[name][0] for one in times) for name in programs}
    busy = {name: min(one[name][1] for one in times) for name in programs}
    *_, size, words = times[-1]["check"]
    peak = max(one["check"][2] for one in times)
    yield "| what | s | s of processor time | of reading twice by Zarr |"
    yield "|---|--:|--:|--:|"
    for name, what in (
        ("files", "reading all files twice into one buffer"),
        ("Zarr", "reading all simulations twice by Zarr"),
        ("check", "`check`"),
    ):
        ratio = best[name] / best["Zarr"]
        yield f"| {what} | {best[name]:.2f} | {busy[name]:.2f} | {ratio:.2f} |"
    yield ""
    yield f"Peak memory of `check`: {peak:.0f} MiB. Its report: {size:.2f} MB. It says: {words}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sims", type=int, default=200, help="number of simulations")
    parser.add_argument("--repeats", type=int, default=2, help="runs, of which the best counts")
    parser.add_argument("--write", action="store_true", help="write large_fields.md")
    options = parser.parse_args()
    gb = 4 * options.sims * N_DRAWS * SIDE**2 / 1e9
    folder = Path(tempfile.mkdtemp())
    lines = [
        "# Fields larger than memory",
        "",
        f"Written by `python benchmarks/large_fields.py --write` on {n_allowed()} cores of a "
        f"shared server: {options.sims} simulations of {N_DRAWS} draws of {SIDE} × {SIDE} cells "
        f"in single precision, {gb:.1f} GB, in an uncompressed Zarr store with a chunk per "
        "simulation. Each row ran in a process of its own, with the files in the page cache; best "
        f"of {options.repeats}. `check` reads the store once, and the goal is 3 times the time "
        "in which Zarr reads it twice. Memory is the peak of the process, interpreter and mapped "
        f"files included. The draws are {1 - WIDTH:.0%} too narrow.",
        "",
    ]
    try:
        lines = printed(chain(lines, table(folder, options.sims, options.repeats)))
    finally:
        shutil.rmtree(folder)
    if options.write:
        write_page(PAGE, lines)


if __name__ == "__main__":
    main()

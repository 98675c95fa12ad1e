"""How long a billion numbers take: 10⁴ simulations, 10³ draws each, 100 parameters.

    python benchmarks/billion.py --write        # writes docs/billion.md

Measures a part of such a study in a Zarr store on this machine, separates the time per simulation
from the fixed time, and computes the time of the whole study on one node and on ten. The time on a
GPU is quoted from gpu.md.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import zarr

import tarpon
from tarpon import Simulations
from tarpon._base.threads import at_most, n_allowed
from tarpon.adapters import files

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "billion.md"
N_SIMS, N_DRAWS, N_DIMS = 10_000, 1000, 100
SMALL, LARGE = 128, 384  # simulations that are timed
NODES = 10


def store(path: Path, n_sims: int) -> Simulations:
    rng = np.random.default_rng(0)
    group = zarr.create_group(path / f"{n_sims}.zarr")
    group.create_array("theta", data=rng.standard_normal((n_sims, N_DIMS), dtype="f4"))
    samples = rng.standard_normal((N_DRAWS, n_sims, N_DIMS), dtype="f4")
    group.create_array("samples", data=samples, chunks=(N_DRAWS, 32, N_DIMS), compressors=None)
    return files.load(path / f"{n_sims}.zarr")


def seconds(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def line(test: Callable[[Simulations], object], sims: list[Simulations], repeats: int) -> float:
    """Return the seconds per simulation, without the fixed time."""
    small, large = (seconds(lambda s=part: test(s), repeats) for part in sims)
    return max(large - small, 1e-9) / (LARGE - SMALL)


def once(test: Callable[[Simulations], object], small: Simulations, per_sim: float) -> float:
    """Return the fixed time, in seconds."""
    return max(0.0, seconds(lambda: test(small), 1) - SMALL * per_sim)


def gpu() -> str:
    """Return the time of a billion numbers in gpu.md, in words."""
    page = DOCS / "benchmarks" / "gpu.md"
    match = page.exists() and re.search(
        r"^\| 100 \| float32 \| draws first \| 1 \| ([\d.]+) \|", page.read_text(), re.MULTILINE
    )
    if not match:
        return "There is no measurement on a GPU yet."
    device = re.search(r" on one ([^,]+),", page.read_text())
    name = device.group(1) if device else "GPU"
    return (
        f"On one {name}, with the draws in its memory, counting the same number of values for "
        f"`tarp` takes {float(match.group(1)):.2f} ms ([gpu.md](benchmarks/gpu.md))."
    )


def rows() -> Iterator[str]:
    tests: dict[str, tuple[Callable[[Simulations], object], int]] = {
        "`tarp`": (lambda sims: tarpon.tarp(sims, rng=0).ranks, 5),
        "`check`": (lambda sims: tarpon.check(sims, rng=0), 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        sims = [store(Path(folder), n) for n in (SMALL, LARGE)]
        for name, (test, repeats) in tests.items():
            test(sims[0])  # compiles, and brings the files into the page cache
            for n_threads in (1, n_allowed()):
                with at_most(n_threads):
                    per_sim = line(test, sims, repeats)
                    fixed = once(test, sims[0], per_sim)
                    whole, ten = (fixed + per_sim * N_SIMS / nodes for nodes in (1, NODES))
                yield (
                    f"| {name} | {n_threads} | {1e3 * per_sim:.2f} | {fixed:.1f} | {whole:.0f} | "
                    f"{ten:.1f} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/billion.md")
    options = parser.parse_args()
    size = 4 * N_SIMS * N_DRAWS * N_DIMS / 1e9
    lines = [
        "# A billion numbers",
        "",
        f"{N_SIMS:,} simulations × {N_DRAWS:,} draws × {N_DIMS} parameters are {size:.0f} GB in "
        "single precision. Written by `python benchmarks/billion.py --write`, which measures "
        f"studies of {SMALL} and {LARGE} such simulations in a Zarr store, in the page cache, on "
        "a shared server. Their difference gives the time per simulation, the rest is done once. "
        "Everything else on this page is computed from these two.",
        "",
        "| test | cores per node | measured: ms per simulation | measured: s once | computed: s "
        f"on one node | computed: s on {NODES} nodes |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    print("\n".join(lines))
    for row in rows():
        print(row, flush=True)
        lines.append(row)
    lines += [
        "",
        f"For {NODES} nodes, everything per block, reading included, is assumed {NODES} times as "
        "fast, because blocks are independent; what is done once is not faster. Nodes that read "
        "from one disk share its speed. For `check` each block of simulations sends back its "
        "sums, at most an eighth of the draws that it has read; for `tarp` two integers per "
        "simulation.",
        "",
        gpu(),
        "",
        "The commands are on the page of [large studies](large.md): on one node `tarpon check "
        "draws.zarr --resume blocks`, on ten the same with `--scheduler ADDRESS`, or a job array "
        "with `--shard i/10` and then `tarpon merge blocks`.",
    ]
    if options.write:
        PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

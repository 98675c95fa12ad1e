"""The first minute: processor time of what a new user waits for.

python benchmarks/first_minute.py

Every row is a process of its own, the best of three. On a fresh machine there are no compiled
kernels; in a second process there are.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

DRAWS = """
import sys, numpy as np, tarpon
n_sims, n_draws, n_dims = map(int, sys.argv[2:])
sims = tarpon.problems.zoo("exact", n_sims=n_sims, n_draws=n_draws, n_dims=n_dims, rng=0)
np.savez(sys.argv[1], samples=sims.samples, theta=sims.theta)
"""
SIZES = {"small": (200, 100, 2), "large": (2000, 500, 20)}  # simulations, draws, parameters


def busy(words: list[str], variables: Mapping[str, str] | None = None) -> float:
    """Return the processor time of a Python process in seconds."""
    before = os.times()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, *words], env=env | dict(variables or {}), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    after = os.times()
    user, system = "children_user", "children_system"
    return sum(getattr(after, name) - getattr(before, name) for name in (user, system))


def lines(n_times: int) -> Iterator[str]:
    """Yield the rows of the table."""
    yield "| what | s of processor time |"
    yield "|---|--:|"

    def row(what: str, times: list[float]) -> str:
        return f"| {what} | {min(times):.2f} |"

    with tempfile.TemporaryDirectory() as folder:
        busy(["-m", "tarpon", "--version"])  # compiles the modules
        yield row("`import tarpon`", [busy(["-c", "import tarpon"]) for _ in range(n_times)])
        yield row("`import numpy`", [busy(["-c", "import numpy"]) for _ in range(n_times)])
        for name, size in SIZES.items():
            path = Path(folder) / f"{name}.npz"
            busy(["-c", DRAWS, str(path), *map(str, size)])
            check, shape = (
                ["-m", "tarpon", "check", str(path), "--rng", "0"],
                " × ".join(map(str, size)),
            )
            fresh = [
                busy(check, {"NUMBA_CACHE_DIR": f"{folder}/{name}-{k}"}) for k in range(n_times)
            ]
            kept = {"NUMBA_CACHE_DIR": f"{folder}/{name}-0"}
            yield row(f"`tarpon check`, {shape}, fresh machine", fresh)
            yield row(
                f"`tarpon check`, {shape}, second process",
                [busy(check, kept) for _ in range(n_times)],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="processes per row")
    for line in lines(parser.parse_args().times):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""The first minute: processor time of what a new user waits for.

python benchmarks/first_minute.py --write     # writes first_minute.md

Every row is a process of its own, the best of three. On a fresh machine there are no compiled
kernels; in a second process there are. `make demo` runs once per installer, in a copy of what git
tracks, with the cache of packages that the installer has.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "benchmarks"
DRAWS = """
import sys, numpy as np, tarpon
n_sims, n_draws, n_dims = map(int, sys.argv[3:])
sims = tarpon.problems.zoo(sys.argv[2], n_sims=n_sims, n_draws=n_draws, n_dims=n_dims, rng=0)
np.savez(sys.argv[1], samples=sims.samples, theta=sims.theta)
"""
# Runs after the libraries that any program has loaded, so that only the package's work is left.
IMPORT = """
import collections.abc, importlib, pathlib, time
start = time.process_time_ns()
import tarpon
print((time.process_time_ns() - start) / 1e6)
"""
SIZES = {"small": (200, 100, 2), "large": (2000, 500, 20)}  # simulations, draws, parameters


def took(
    words: list[str], variables: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[float, float]:
    """Return the processor time of a process and its children, and the time by the clock."""
    before = os.times()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        words, env=env | dict(variables or {}), cwd=cwd, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    after = os.times()
    user, system = "children_user", "children_system"
    busy = sum(getattr(after, name) - getattr(before, name) for name in (user, system))
    return busy, after.elapsed - before.elapsed


def own_import() -> float:
    """Return the milliseconds that the package itself takes to be imported."""
    said = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True)
    return float(said.stdout)


def row(what: str, *times: tuple[float, float]) -> str:
    """Return a row with the least of several times, of each kind."""
    least = (min(each) for each in zip(*times, strict=True))
    return f"| {what} | " + " | ".join(f"{seconds:.2f} s" for seconds in least) + " |"


def imports(n_times: int) -> Iterator[str]:
    """Yield the rows of imports."""
    python = sys.executable
    took([python, "-m", "tarpon", "--version"])  # compiles the modules
    own = min(own_import() for _ in range(10 * n_times))
    yield f"| `import tarpon`, without the standard library | {own:.2f} ms | |"
    for name in ("tarpon", "numpy"):
        words = [python, "-c", f"import {name}"]
        yield row(f"`python -c 'import {name}'`", *(took(words) for _ in range(n_times)))


def checks(folder: Path, n_times: int) -> Iterator[str]:
    """Yield the rows of `tarpon check`."""
    for name, size in SIZES.items():
        path = folder / f"{name}.npz"
        took([sys.executable, "-c", DRAWS, str(path), "exact", *map(str, size)])
        words = [sys.executable, "-m", "tarpon", "check", str(path), "--rng", "0"]
        what = f"`tarpon check`, {' × '.join(map(str, size))}"
        fresh = [{"NUMBA_CACHE_DIR": f"{folder}/{name}-{k}"} for k in range(n_times)]
        yield row(f"{what}, fresh machine", *(took(words, one) for one in fresh))
        again = (took(words, fresh[0]) for _ in range(n_times))
        yield row(f"{what}, second process", *again)


def repairs(folder: Path, n_times: int) -> Iterator[str]:
    """Yield the row of `tarpon repair`."""
    path, size = folder / "wrong.npz", (500, 100, 2)
    took([sys.executable, "-c", DRAWS, str(path), "heavy_tails", *map(str, size)])
    words = [sys.executable, "-m", "tarpon", "repair", str(path), "--rng", "0"]
    what = f"`tarpon repair`, {' × '.join(map(str, size))}"
    yield row(what, *(took(words) for _ in range(n_times)))


def demos(folder: Path) -> Iterator[str]:
    """Yield the rows of `make demo`, with pip and with uv where it is there."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for installer in ["pip", *(["uv"] if shutil.which("uv") else [])]:
        there = folder / installer
        for name in filter(None, tracked.split("\0")):
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there / name)
        choice = [] if installer == "uv" else ["UV="]
        times = took(["make", "demo", *choice], {"NUMBA_CACHE_DIR": f"{there}/kernels"}, there)
        assert (there / "tarpon-demo.png").exists(), "the demo has failed"
        files = (path for path in (there / ".venv-demo").rglob("*") if path.is_file())
        n_bytes = sum(path.stat().st_size for path in files)
        yield row(f"`make demo` with {installer}, {n_bytes / 1e6:.0f} MB installed", times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="processes per row")
    parser.add_argument("--write", action="store_true", help="write first_minute.md")
    given = parser.parse_args()
    lines = ["| what | processor time | by the clock |", "|---|--:|--:|"]
    with tempfile.TemporaryDirectory() as folder:
        lines += imports(given.times)
        lines += checks(Path(folder), given.times)
        lines += repairs(Path(folder), given.times)
        lines += demos(Path(folder))
    text = "\n".join(lines)
    print(text)
    if given.write:
        head = (
            "# The first minute\n\n`python benchmarks/first_minute.py --write`: processor time of "
            "processes of their own, and time by\nthe clock on two processors, the best of three. "
            "On a fresh machine there are no compiled kernels;\nin a second process there are. "
            "Sizes of files are simulations × draws × parameters. `make demo` builds\nan "
            "environment from packages that the installer has in its cache, installs tarpon, and "
            "runs the demo.\n\n"
        )
        (PAGES / "first_minute.md").write_text(head + text + "\n")


if __name__ == "__main__":
    main()

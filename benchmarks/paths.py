"""How many modules, functions and calls across modules a user's call enters.

    python benchmarks/paths.py            # a table
    python benchmarks/paths.py --names    # and the modules by name

Each call runs in a separate process, with all modules imported beforehand. A module counts if one
of its functions is called; compiled kernels are not counted.
"""

import argparse
import importlib
import pkgutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

CALLS = {
    "tarp(samples, theta)": "tarpon.tarp(samples, theta, rng=0)",
    "check(samples, theta, x=x)": "tarpon.check(samples, theta, x=x, rng=0)",
    "tarpon check f.zarr": "main(['check', 'f.zarr', '--quiet'], standalone_mode=False)",
}


def entered(call: str) -> tuple[Counter[str], set[tuple[str, str]], int]:
    """Return the modules that a call enters, its functions, and its calls across modules."""
    import numpy as np
    import zarr

    import tarpon
    from tarpon.cli import main

    rng = np.random.default_rng(0)
    theta = rng.normal(size=(60, 2))
    x = theta + rng.normal(size=(60, 2))
    samples = x / 2 + rng.normal(size=(50, 60, 2))
    group = zarr.open_group("f.zarr", mode="w")
    for name, array in {"samples": samples, "theta": theta, "x": x}.items():
        group.create_array(name, data=array)
    root = str(Path(tarpon.__file__).parent)
    for module in pkgutil.walk_packages(tarpon.__path__, "tarpon."):
        with suppress(ImportError):  # extras that are not installed
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in tarpon.__all__:
        setattr(tarpon, name, getattr(tarpon, name))  # or the first use would look it up
    modules: Counter[str] = Counter()
    functions: set[tuple[str, str]] = set()
    n_across = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal n_across
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event != "call" or not path.startswith(root) or name in ("<module>", "__getattr__"):
            return
        modules[str(Path(path).relative_to(root))] += 1
        functions.add((path, name))
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        n_across += caller.startswith(root) and caller != path

    names = {"tarpon": tarpon, "main": main, "samples": samples, "theta": theta, "x": x}
    run = compile(call, "call", "exec")
    sys.setprofile(look)
    try:
        with suppress(SystemExit):
            exec(run, names)
    finally:
        sys.setprofile(None)
    return modules, functions, n_across


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true", help="list the modules")
    parser.add_argument("--call", help="the call to measure, in this process and folder")
    options = parser.parse_args()
    if options.call:
        modules, functions, n_across = entered(CALLS[options.call])
        print(f"| `{options.call}` | {len(modules)} | {len(functions)} | {n_across} |")
        if options.names:
            print("\n".join(f"    {n:6d}  {name}" for name, n in modules.most_common()))
        return
    print("| call | modules entered | functions | calls across modules |")
    print("|---|--:|--:|--:|", flush=True)
    for call in CALLS:
        with tempfile.TemporaryDirectory() as folder:
            again = [sys.executable, str(Path(__file__).absolute()), "--call", call]
            names = ["--names"] if options.names else []
            subprocess.run(again + names, check=True, cwd=folder)


if __name__ == "__main__":
    main()

"""Change the exact parts of the code in every small way, and see whether a test notices.

`make mutants` runs this. mutmut makes the changes: a sign, a number, an argument left out, one at
a time. Each is tried with the quick tests that reach it. What no test notices is printed, and the
table goes to `docs/mutants.md` with `--write`.

mutmut leaves decorated functions alone, so the copy that is changed has no decorators: caches are
left out, properties are made of plain functions, and kernels run as Python.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".mutants"
PAGE = ROOT / "docs" / "mutants.md"
LEFT_OUT = ("cache", "lru_cache", "compiled")
PROPERTIES = ("property", "cached_property")
# What becomes of a mutant, by the exit status of its tests.
FATES = {None: "not tried", 0: "survived", 33: "not reached", -24: "timeout", 36: "timeout"}
FATES |= dict.fromkeys((1, 3, -11), "killed")
# Studies of failures cost more than the failure itself, and must be the same in every run.
HYPOTHESIS = """
import hypothesis

hypothesis.settings.register_profile(
    "mutants", derandomize=True, database=None, phases=[hypothesis.Phase.generate]
)
hypothesis.settings.load_profile("mutants")
"""


@dataclass(frozen=True)
class Study:
    """Modules that are changed together, and the tests that have to notice.

    Arguments:
        mutants: By name of the module, patterns of the names of functions that are changed.
        tests: Files of tests.
        without: What the names of tests must not hold: those that repeat a study many times.
        kernels: Whether kernels of the modules run as Python, to be changed.
    """

    mutants: dict[str, tuple[str, ...]]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    kernels: bool = False


STUDIES = {
    "ranks": Study(
        {
            "ranks": ("*",),
            "curves": ("*",),
            "regions": ("x_count__*", "x_standing__*", "x__scores__*"),
        },
        ("tests/test_ranks_and_curves.py",),
    ),
    "bands": Study(
        {"bands": ("*",)},
        ("tests/test_bands.py",),
        ("any_size", "only_then", "stated", "without_force", "long_convolutions", "jump_where"),
    ),
    "statistics": Study(
        {"checks.statistics": ("*",)}, ("tests/test_statistics.py",), ("uniform", "rate")
    ),
    "swaps": Study(
        {"checks.swaps": ("*",), "checks.labellings": ("*",)},
        ("tests/test_swaps.py",),
        ("threads", "Whitening"),
    ),
    "weights": Study(
        {
            "simulations.weights": ("*",),
            "simulations.blocks": (
                "*hidden__*",
                "*labels__*",
                "*weights_of__*",
                "*_mean__*",
                "*spread_of__*",
            ),
        },
        ("tests/test_unequal.py", "tests/test_ranks_and_curves.py"),
        (
            "Chains",
            "level",
            "errors",
            "close_to",
            "pile_up",
            "ignored",
            "equal_change",
            "constant",
        ),
    ),
    "kernels": Study(
        {
            "backends._swaps": (
                "*_ranks__*",
                "*_kernel__*",
                "*_comparable__*",
                "x__place__*",
                "x_add_*",
            )
        },
        ("tests/test_swaps.py", "tests/test_unequal.py"),
        (
            "Whitening",
            "Parts",
            "Plants",
            "Spread",
            "posteriors",
            "number_of_threads",
            "Ragged",
            "Chains",
            "Resampled",
            "Dense",
            "Draws",
            "Blocks",
            "Labels",
            "stored",
            "TestWeights",
        ),
        kernels=True,
    ),
}


def main(given: list[str]) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("studies", nargs="*", help=f"some of: {', '.join(STUDIES)}; or all")
    options.add_argument("--again", action="store_true", help="try those again that live")
    options.add_argument("--write", action="store_true", help=f"write the table to {PAGE.name}")
    chosen = options.parse_args(given)
    if chosen.write and chosen.studies:
        options.error("the table has all studies: leave their names out, or `--write`.")
    names = chosen.studies or list(STUDIES)
    for name in names:
        again(STUDIES[name], WORK / name) if chosen.again else whole(STUDIES[name], WORK / name)
    fates = {key: fate for name in names for key, fate in fates_of(STUDIES[name], WORK / name)}
    for key, fate in sorted(fates.items()):
        if fate != "killed":
            print(f"{fate}: {key}")
    print("\n".join(table(fates)))
    if chosen.write:
        write(table(fates))


def whole(study: Study, folder: Path) -> None:
    """Try all mutants."""
    shutil.rmtree(folder, ignore_errors=True)
    prepare(study, folder)
    run(folder, patterns(study))


def again(study: Study, folder: Path) -> None:
    """Try the mutants that live, and those of code that has changed since."""
    living = [key for key, fate in fates_of(study, folder) if fate != "killed"]
    prepare(study, folder)
    # Which test reaches what may have changed too.
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    run(folder, living or patterns(study))  # without names, mutmut tries those of no study too
    new = [key for key, fate in fates_of(study, folder) if fate == "not tried"]
    if new:
        run(folder, new)


def prepare(study: Study, folder: Path) -> None:
    """Copy the code and its tests, without decorators where code is to be changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    left_out = LEFT_OUT if study.kernels else LEFT_OUT[:-1]
    for path in files(study):
        (folder / path).write_text(undecorated((ROOT / path).read_text(), left_out))
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text() + HYPOTHESIS)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [str(path) for path in files(study)],
        "also_copy": ["conftest.py"],
        "pytest_add_cli_args_test_selection": list(study.tests),
        "pytest_add_cli_args": [
            *("-p", "no:cacheprovider"),
            *("-k", " and ".join(f"not {name}" for name in ("slow", *study.without))),
        ],
        "timeout_multiplier": 3.0,
        "timeout_constant": 2.0,
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    plain = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([plain, "[tool.mutmut]", *lines, ""]))


def files(study: Study) -> list[Path]:
    return [Path("src", "tarpon", *name.split(".")).with_suffix(".py") for name in study.mutants]


def undecorated(source: str, left_out: Iterable[str]) -> str:
    """Return code with the same functions, the decorators of which stand elsewhere or nowhere."""
    lines = source.splitlines()
    for node in reversed(list(decorated(ast.parse(source)))):
        (decorator,) = node.decorator_list
        call = ast.unparse(decorator)
        indent = " " * node.col_offset
        if call in PROPERTIES:
            plain = f"_{node.name}_of"
            lines.insert(node.end_lineno or 0, f"{indent}{node.name} = {call}({plain})")
            lines[node.lineno - 1] = (
                f"{indent}def {plain}{lines[node.lineno - 1].partition(node.name)[2]}"
            )
        if call in PROPERTIES or call.partition("(")[0] in left_out:
            del lines[decorator.lineno - 1]
    return "\n".join([*lines, ""])


def decorated(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield functions and methods with one decorator, in the order of their lines."""
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and len(inner.decorator_list) == 1:
                yield inner


def run(folder: Path, mutants: Iterable[str]) -> None:
    """Let mutmut try some mutants."""
    alone = {"OMP_NUM_THREADS": "1", "TARPON_THREADS": "1", "NUMBA_CACHE_DIR": str(WORK / "numba")}
    command = [sys.executable, "-m", "mutmut", "run", *mutants]
    subprocess.run(command, cwd=folder, env=os.environ | alone, check=True)


def patterns(study: Study) -> Iterator[str]:
    for module, names in study.mutants.items():
        yield from (f"tarpon.{module}.{name}" for name in names)


def fates_of(study: Study, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of every mutant and what became of it."""
    for path in files(study):
        tried = json.loads((folder / "mutants" / f"{path}.meta").read_text())["exit_code_by_key"]
        for key, status in tried.items():
            if any(fnmatch(key, pattern) for pattern in patterns(study)):
                yield key, FATES.get(status, f"status {status}")


def table(fates: dict[str, str]) -> list[str]:
    """Return lines of a table, a module each and all together."""
    modules = dict.fromkeys(module for study in STUDIES.values() for module in study.mutants)
    rows = {
        f"`{name}`": Counter(v for k, v in fates.items() if k.startswith(f"tarpon.{name}.x"))
        for name in modules
    }
    rows["all"] = Counter(fates.values())
    columns = ("killed", "timeout", "survived", "not reached")
    head = "| module | mutants | killed | timeouts | survived | not reached | score |"
    return [head, "|---|--:|--:|--:|--:|--:|--:|"] + [
        f"| {name} | {counts.total()} | {' | '.join(str(counts[c]) for c in columns)} "
        f"| {(counts['killed'] + counts['timeout']) / counts.total():.1%} |"
        for name, counts in rows.items()
        if counts
    ]


def write(lines: list[str]) -> None:
    """Put the table into the page, in place of the one that is there."""
    page = PAGE.read_text()
    start, end = page.index("| module |"), page.index("\n\n", page.index("| module |"))
    PAGE.write_text(page[:start] + "\n".join(lines) + page[end:])


if __name__ == "__main__":
    main(sys.argv[1:])

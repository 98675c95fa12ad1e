import ast
import graphlib
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tarpon

SRC = Path(tarpon.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "design.md"
MODULES = sorted(SRC.rglob("*.py"))
MOST_AT_THE_ROOT = 32
SHOWN = ("results", "checks", "sequential", "local", "mending")


def rooms() -> list[list[str]]:
    """Return the entries of the package by storey, as the table of the design page lists them."""
    rows = re.findall(r"^\| \d \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    return [[name.rstrip("/") for name in re.findall(r"`([^`]+)`", row)] for row in rows]


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def only_for_types(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes below `if TYPE_CHECKING:`."""
    blocks = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    return {inner for block in blocks for inner in ast.walk(block)}


def imports(path: Path) -> Iterator[tuple[ast.ImportFrom, Path, bool]]:
    """Yield every import of a module of the package, its file, and whether it is for types."""
    tree = ast.parse(path.read_text())
    for_types = only_for_types(tree)
    home = path.relative_to(SRC).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = node.module.split(".") if node.module else []
            base = SRC.joinpath(*home[: len(home) - node.level + 1], *module)
            for alias in node.names:
                # A name is a module of its own, or else stands in the module that it is from.
                places = (base / alias.name, base)
                files = [f for p in places for f in (p.with_suffix(".py"), p / "__init__.py")]
                file = next(file for file in files if file.exists())
                if file != path:
                    yield node, file, node in for_types


def test_every_entry_of_the_package_has_a_storey():
    listed = [name for storey in rooms() for name in storey]
    assert len(listed) == len(set(listed))
    assert {room(path) for path in MODULES} == set(listed)


def test_few_entries_stand_at_the_root_and_none_is_private():
    entries = [path.name for path in SRC.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_AT_THE_ROOT
    private = [name for name in entries if name.startswith("_") and not name.startswith("__")]
    assert sorted(private) == ["_base", "_version.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_modules_import_only_from_lower_storeys_or_earlier_in_their_own(path):
    order = [name for storey in rooms() for name in storey]
    # A result shows itself through the storeys above it, when asked to and not before.
    late = {"plots", "report"} if room(path) in SHOWN else set()
    for node, file, _ in imports(path):
        name = room(file)
        allowed = order.index(name) <= order.index(room(path)) or name in late
        assert allowed, f"line {node.lineno} imports {name}, which stands above {room(path)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_nobody_imports_a_private_module_of_another_folder(path):
    for node, file, _ in imports(path):
        inner = file.relative_to(SRC).parts[1:]
        private = any(name.startswith("_") and name != "__init__.py" for name in inner)
        assert not private or room(file) == room(path), f"line {node.lineno}: {file}"


def test_modules_name_each_other_by_their_place():
    """Or the tests of the import order would not see it."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("tarpon") for alias in node.names), path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert not node.module.startswith("tarpon"), path


def in_functions(tree: ast.AST) -> set[ast.AST]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    outer = (node for node in ast.walk(tree) if isinstance(node, functions))
    return {inner for function in outer for inner in ast.walk(function)}


def test_no_module_needs_itself():
    """Imports for types alone may be cyclic inside a folder; what runs may not."""
    graph = {}
    for path in MODULES:
        lines = {node.lineno for node in in_functions(ast.parse(path.read_text()))
                 if isinstance(node, ast.ImportFrom)}  # fmt: skip
        graph[path] = {
            file
            for node, file, for_types in imports(path)
            # A module of a folder may take names from the folder, but only for types.
            if node.lineno not in lines and not for_types
        }
    assert len(graph[SRC / "checks" / "__init__.py"]) > 10
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "package", [tarpon, tarpon.adapters], ids=lambda package: package.__name__
)
def test_every_name_of_a_stub_is_there(package):
    stub = Path(package.__file__).with_suffix(".pyi")
    nodes = ast.parse(stub.read_text()).body
    assert set(package.__all__) == {node.names[0].asname for node in nodes}
    for node in nodes:
        (name,) = node.names
        assert name.name == name.asname
        home = importlib.import_module(f".{node.module or name.name}", package.__name__)
        found = getattr(package, name.name)
        assert found is getattr(home, name.name, home)


def test_simulations_show_what_users_need_and_no_more():
    shown = {name for name in dir(tarpon.Simulations) if not name.startswith("_")}
    arrays = {"x", "log_prob_samples", "log_prob_theta", "log_weights", "log_weights_theta"}
    about = {"names", "on_invalid", "offsets", "of_densities", "n_dropped", "draws", "weighted"}
    sizes = {"n_sims", "n_draws", "n_dims", "shape", "box", "width", "centres"}
    does = {"blocks", "dropping", "hold_out", "log_probs", "near"}
    assert shown == arrays | about | sizes | does


def test_check_has_at_most_twelve_arguments():
    assert len(inspect.signature(tarpon.check).parameters) <= 12


def test_exported_names_are_sorted_and_nothing_else_is_shown():
    assert list(tarpon.__all__) == sorted(tarpon.__all__)
    assert set(dir(tarpon)) == set(tarpon.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tarpon.nothing


@pytest.mark.parametrize("heavy", ["matplotlib", "torch", "jax", "dask", "xarray", "numba"])
def test_importing_tarpon_leaves_heavy_packages_alone(heavy):
    code = f"import sys, tarpon; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_neither_numpy_nor_scipy():
    code = (
        "import sys\nfrom tarpon.cli import main\nmain(['--help'], standalone_mode=False)\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'rich', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=-3).returncode == 0

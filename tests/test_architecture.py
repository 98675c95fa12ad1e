import ast
import graphlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tarpon

SRC = Path(tarpon.__file__).parent
_LAYERS = """
    _version _lazy _progress _types _arrays _sources _stored _check _shapes _suspicions _unequal
    backends engine _whiten blocks _validity _held _passes simulations _begin metrics references
    regions ranks curves inference adversaries verdict effects beyond findings results diagnostics
    compat evidence checks gate monitors planning problems adapters plots report experiments
    _running runner _live cli pytest_plugin __main__ __init__
"""
LAYERS = _LAYERS.split()


def layer(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported(path: Path):
    """Yield (line, layer) of every import from within the package."""
    depth = len(path.relative_to(SRC).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                yield node.lineno, name.partition(".")[0]


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_modules_import_only_from_above(path):
    above = LAYERS[: LAYERS.index(layer(path))]
    # A result shows itself through the modules below it, when asked to and not before.
    shows_itself = layer(path) in ("results", "checks", "monitors")
    late = {"plots", "report"} if shows_itself else set()
    for line, name in imported(path):
        assert name in above or name == layer(path) or name in late, f"line {line} looks down"


def test_modules_name_each_other_by_their_place():
    """Or the tests of the import order would not see it."""
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("tarpon") for alias in node.names), path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert not node.module.startswith("tarpon"), path


def modules(name: str) -> list[Path]:
    place = SRC.joinpath(*name.split("."))
    return list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def test_the_picture_of_the_path_of_data_is_true():
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text()
    drawn = page[page.index("ARROWS = [") : page.index("figure, ax")]
    arrows = ast.literal_eval(drawn.removeprefix("ARROWS = "))
    assert len(arrows) > 20
    for start, end in arrows:
        name = start.rpartition(".")[2]
        found = {
            (*(node.module or "").split("."), alias.name)
            for path in modules(end)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.level
            for alias in node.names
        }
        assert any(name in names for names in found), f"{end} gets nothing from {start}"


def test_every_module_has_a_layer():
    assert {layer(path) for path in SRC.rglob("*.py")} == set(LAYERS)


def at_once(node: ast.AST):
    """Yield the imports of a module that do not wait for a function to be called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and child.level:
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_once(child)


def needed(path: Path):
    """Yield the modules that a module names outside its functions, for types alone or not."""
    home = path.relative_to(SRC).parts[:-1]
    for node in at_once(ast.parse(path.read_text())):
        module = node.module.split(".") if node.module else []
        base = SRC.joinpath(*home[: len(home) - node.level + 1], *module)
        for place in (base, *(base / alias.name for alias in node.names)):
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                # A package may take what it needs from itself.
                if file.exists() and file != path:
                    yield file


def test_no_module_needs_itself():
    graph = {path: set(needed(path)) for path in SRC.rglob("*.py")}
    assert len(graph[SRC / "checks.py"]) > 10
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "package", [tarpon, tarpon.adapters], ids=lambda package: package.__name__
)
def test_type_checkers_read_the_names_that_are_there(package):
    stub = Path(package.__file__).with_suffix(".pyi")
    homes = {
        alias.asname: importlib.import_module(f".{node.module or alias.name}", package.__name__)
        for node in ast.parse(stub.read_text()).body
        for alias in node.names
    }
    assert set(homes) == set(package.__all__)
    for name, home in homes.items():
        assert getattr(package, name) is getattr(home, name, home)


def test_exported_names_exist_and_are_sorted():
    assert list(tarpon.__all__) == sorted(tarpon.__all__)
    for name in tarpon.__all__:
        assert getattr(tarpon, name) is not None
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

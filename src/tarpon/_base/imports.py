"""Modules that a source imports from its own folder, and versions of all others."""

import ast
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import accumulate
from pathlib import Path
from types import ModuleType

from .._version import __version__

PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_OURS = __name__.partition(".")[0]
_PACKAGES = ("site-packages", "dist-packages")


def imported(path: Path, text: str, loaded: Iterable[str] = ()) -> dict[str, str]:
    """Return the sources of all modules that a source imports from its folder, by name.

    Imports by such modules and imports inside functions are included. The entry of a compiled
    module is a digest.

    Arguments:
        path: Path of the source.
        text: Content of the source.
        loaded: Names of more modules that it has imported.
    """
    found: dict[str, str] = {}
    waiting = [*_names(text, ""), *loaded]
    while waiting:
        name = waiting.pop()
        file = None if name in found else _file(path.parent, name)
        if file is None or file == path:
            continue
        if file.suffix != ".py":
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
            continue
        found[name] = file.read_text(encoding="utf-8", errors="replace")
        package = name if file.stem == "__init__" else name.rpartition(".")[0]
        waiting += _names(found[name], package)
    return dict(sorted(found.items()))


def described(module: ModuleType) -> str:
    """Return name and version of a module, or a digest of its source and imports."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if (version_ := version(name)) or file is None or not Path(file).is_file():
        return f"{name} {version_}".strip()
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    texts = json.dumps([text, imported(Path(file), text)])
    return f"{name} {hashlib.sha256(texts.encode()).hexdigest()[:16]}"


def version(name: str | None) -> str:
    """Return the version of the package of a module; "" if it is not installed."""
    top = str(name).partition(".")[0]
    if top == _OURS:
        return __version__
    module = sys.modules.get(str(name))
    if module is None or name == "__main__":
        return ""
    file = getattr(module, "__file__", None)
    if file is None:
        return PYTHON if top in sys.builtin_module_names else ""
    if any(part in _PACKAGES for part in Path(file).parts):
        return str(getattr(sys.modules.get(top), "__version__", "installed"))
    return PYTHON if Path(file).is_relative_to(sysconfig.get_path("stdlib")) else ""


def _names(text: str, package: str) -> Iterator[str]:
    """Yield the names of all modules that a source in a package may import."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):  # it cannot be imported
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from accumulate(alias.name.split("."), "{}.{}".format)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".") if node.level else []
            above = above[: len(above) - node.level + 1]
            parts = [*above, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield from accumulate([*parts, alias.name], "{}.{}".format)


def _file(folder: Path, name: str) -> Path | None:
    """Return the file of a module in a folder; None if it is imported from elsewhere."""
    base = folder.joinpath(*name.split("."))
    places = [
        base / "__init__.py",
        *(Path(f"{base}{end}") for end in (".py", *EXTENSION_SUFFIXES)),
    ]
    file = next((place for place in places if place.is_file()), None)
    elsewhere = getattr(sys.modules.get(name), "__file__", None)
    if file is None or elsewhere is None:
        return file
    return file if Path(elsewhere).resolve() == file.resolve() else None

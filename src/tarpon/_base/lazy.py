"""Names that are imported when they are first used, so that `tarpon --help` answers at once."""

import importlib
from collections.abc import Callable
from pathlib import Path


def attached(package: str, file: str) -> tuple[Callable[[str], object], list[str]]:
    """Return `__getattr__` and `__all__` of a package, as its stub lists them.

    The stub stands beside `__init__.py` and has one line per name, `from .home import name as
    name`, so that names are listed once, for type checkers and at run time alike.

    Arguments:
        package: Its name.
        file: Its `__file__`.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = (line.split() for line in stub.splitlines())
    homes = {words[3]: words[1] for words in lines if words[:1] == ["from"]}

    def attribute(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == ".":
            return importlib.import_module(f".{name}", package)
        home = importlib.import_module(homes[name], package)
        if hasattr(home, name):
            return getattr(home, name)
        return importlib.import_module(f"{homes[name]}.{name}", package)

    return attribute, sorted(homes)

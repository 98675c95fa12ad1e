"""Names that are imported when they are first used, so that `tarpon --help` answers at once."""

import importlib
from collections.abc import Callable, Mapping, Sequence


def attached(
    package: str, names: Sequence[str], home: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], Sequence[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Arguments:
        package: Its name.
        names: What it exports.
        home: The module of each name that is no module itself.
    """

    def attribute(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{home.get(name, name)}", package)
        return getattr(module, name) if name in home else module

    return attribute, lambda: names

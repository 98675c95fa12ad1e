"""Packages that not everybody has: the only importer of extras."""

import importlib
from typing import Any


def package(name: str, extra: str) -> Any:
    """Return an optional package, or say how to get it.

    Arguments:
        name: Its name.
        extra: The extra of tarpon that brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this needs {name}: install it with `pip install tarpon[{extra}]`."
        ) from error

"""Adapters: `Simulations` from the files and objects of other tools."""

from .._base import lazy

__getattr__, __all__ = lazy.attached(__name__, __file__)


def __dir__() -> list[str]:
    return __all__

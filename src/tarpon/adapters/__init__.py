"""Adapters: from what other tools write to `Simulations`."""

from . import files

__all__ = ["files"]

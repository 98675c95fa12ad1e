"""Adapters: from what other tools write to `Simulations`."""

from . import chains, files

__all__ = ["chains", "files"]

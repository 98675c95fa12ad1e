"""What simulations hold, array by array, in memory or stored."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base import arrays
from .._base.types import Array
from .stored import Stored

AXES = {
    "samples": 1,
    "theta": 0,
    "x": 0,
    "log_prob_samples": 1,
    "log_prob_theta": 0,
    "log_weights": 1,
    "log_weights_theta": 0,
}
"""The arrays by name, with the axis that counts the simulations."""


def read(held: Mapping[str, Any]) -> dict[str, Array]:
    """Return those that are stored, read."""
    return {name: array.read() for name, array in held.items() if isinstance(array, Stored)}


def cut(held: Mapping[str, Any], where: slice) -> dict[str, Any]:
    """Return a range of the simulations; what is stored is not read."""
    return {
        name: array.window(where) if isinstance(array, Stored) else _along(name, array, where)
        for name, array in held.items()
    }


def kept(held: Mapping[str, Any], keep: Array) -> dict[str, Any]:
    """Return the simulations for which `keep` is true; what is stored is not read."""
    every = np.flatnonzero(keep)
    return {
        name: array.keep(keep) if isinstance(array, Stored) else _along(name, array, every)
        for name, array in held.items()
    }


def without_last(array: Any, n: int) -> Any:
    """Return numbers of the draws without the last `n`; what is stored is not read."""
    if isinstance(array, Stored):
        return array.first(array.shape[0] - n)
    return array[:-n]


def digest(held: Mapping[str, Any], about: object) -> str:
    """Return a fingerprint: shapes, all truths, and three of the simulations.

    Arguments:
        held: The arrays.
        about: What else to mix in, as it prints.
    """
    n_sims = held["samples"].shape[1]
    some = [slice(i, i + 1) for i in sorted({0, n_sims // 2, n_sims - 1})]
    hashed = hashlib.sha256(repr(about).encode())
    for name, array in held.items():
        hashed.update(repr((array.shape, str(array.dtype))).encode())
        for where in some if AXES[name] or name == "x" else [slice(None)]:
            numbers = arrays.host(_along(name, array, where))
            hashed.update(np.ascontiguousarray(numbers).tobytes())
    return hashed.hexdigest()


def _along(name: str, array: Any, where: Any) -> Any:
    return array[:, where] if AXES[name] else array[where]

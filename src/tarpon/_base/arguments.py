"""Checks of what users hand in, and the messages they read when one fails.

A message says what was wanted, what came, and what to do about it. Those about the shapes of
simulations are in `_shapes`.
"""

import operator
import secrets
from collections.abc import Sequence

import numpy as np

from .types import RNG


def seed(rng: RNG) -> int:
    """Return the integer from which everything random of one call follows.

    A generator gives up 64 of its bits, so a second call with it goes on differently.
    """
    if rng is None:
        return secrets.randbits(64)
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**64, dtype=np.uint64))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        raise TypeError(
            f"`rng` must be a non-negative integer, a `numpy.random.Generator` or None, "
            f"but got {rng!r}."
        )
    if rng < 0:
        raise ValueError(f"`rng` must not be negative, but got {rng}.")
    return int(rng)


def positive(name: str, value: int, least: int = 1) -> int:
    """Return a number of things of which there must be some."""
    whole = _whole(name, value)
    if whole < least:
        raise ValueError(f"`{name}` must be at least {least}, but got {whole}.")
    return whole


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` must be a whole number, but got {value!r}.") from None


def probability(name: str, value: float) -> float:
    """Return a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must lie between 0 and 1, but got {value!r}.")
    return float(value)


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Return a word that is known."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        raise ValueError(f"`{name}` must be one of {words}, but got {value!r}.")
    return value

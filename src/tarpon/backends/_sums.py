"""Whether all numbers that were counted are finite.

NaN and infinities make a sum NaN or infinite, so that kernels notice them in the pass that counts
draws, and nothing need be read twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Sums:
    """What kernels have seen.

    Arguments:
        finite: Whether all sums are finite; None as long as no kernel has looked.
    """

    finite: bool | None = None


_seen: ContextVar[Sums | None] = ContextVar("_seen", default=None)


@contextmanager
def watched() -> Iterator[Sums]:
    """Remember whether the sums of all kernels that are called inside are finite."""
    sums = Sums()
    before = _seen.set(sums)
    try:
        yield sums
    finally:
        _seen.reset(before)


def saw(finite: bool) -> None:
    """Note whether the sums of a kernel are finite."""
    sums = _seen.get()
    if sums is not None:
        sums.finite = finite and sums.finite is not False

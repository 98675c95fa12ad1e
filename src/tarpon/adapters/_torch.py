"""Tensors for adapters, and seeds that leave the global random state unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from .._base import optional
from .._base.types import ArrayLike

if TYPE_CHECKING:
    from torch import Tensor


def tensor(numbers: ArrayLike) -> "Tensor":
    """Return a tensor unchanged, and other numbers as a tensor in single precision."""
    torch = optional.package("torch")
    if isinstance(numbers, torch.Tensor):
        return numbers
    return torch.as_tensor(np.asarray(numbers), dtype=torch.float32)


@contextmanager
def seeded(seed: int, *place: int) -> Iterator[None]:
    """Seed the global generators of torch and NumPy, and restore their state at the end.

    Arguments:
        seed: Seed of the whole call.
        place: Integers that make the seed of this block its own.
    """
    torch = optional.package("torch")
    state = np.random.get_state()  # noqa: NPY002  other packages draw from it
    words = np.random.SeedSequence(seed, spawn_key=place).generate_state(2)
    with torch.random.fork_rng():
        torch.manual_seed(int(words[0]))
        np.random.seed(words[1])  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002

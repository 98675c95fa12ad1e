"""Torch: random numbers of its own that leave the global ones as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._base import optional
from .._base.types import ArrayLike


def tensor(numbers: ArrayLike) -> Any:
    """Return numbers as a tensor: one that is given as it is, others in single precision."""
    torch = optional.package("torch")
    if isinstance(numbers, torch.Tensor):
        return numbers
    return torch.as_tensor(np.asarray(numbers), dtype=torch.float32)


@contextmanager
def seeded(seed: int, *place: int) -> Iterator[None]:
    """Seed the global generators of torch and NumPy, and put them back as they were.

    Arguments:
        seed: The seed of all.
        place: What these numbers are for.
    """
    torch = optional.package("torch")
    state = np.random.get_state()  # noqa: NPY002  what other packages draw from
    words = np.random.SeedSequence(seed, spawn_key=place).generate_state(2)
    with torch.random.fork_rng():
        torch.manual_seed(int(words[0]))
        np.random.seed(words[1])  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002

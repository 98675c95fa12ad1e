"""A problem: its prior, its simulator, and its exact posterior."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator, and the exact posterior.

    Arguments:
        name: The name.
        prior: Function of a number and a generator that returns truths.
        simulate: Function of truths and a generator that returns observations.
        log_posterior: Function of truths `(n_sims, n_dims)` and observations that returns the
            normalised log-density of the exact posterior, `(n_sims,)`.
        draw: Function of observations, a number of draws and a generator that returns draws of
            the exact posterior.
        half_width: Half the width of the box in which the prior is uniform; None if it is normal.
        sd: Standard deviation of a normal prior.
        n_dims: Number of parameters.
        shape: Shape of observations that are images; they are stored flat.
        slow: Whether exact draws and densities take seconds per hundred observations.
    """

    name: str
    prior: Callable[[int, Generator], Array]
    simulate: Callable[[Array, Generator], Array]
    log_posterior: Callable[[Array, Array], Array]
    draw: Callable[[Array, int, Generator], Array]
    half_width: float | None = None
    sd: float | None = None
    n_dims: int = 2
    shape: tuple[int, int] | None = None
    slow: bool = False

    def study(self, n_sims: int, seed: int) -> tuple[Array, Array]:
        """Return truths and observations."""
        rng = np.random.default_rng(seed)
        theta = self.prior(n_sims, rng)
        return theta, self.simulate(theta, rng)


def box(half_width: float, n_dims: int) -> Callable[[int, Generator], Array]:
    """Return a prior that is uniform in a box."""
    return lambda n, rng: rng.uniform(-half_width, half_width, (n, n_dims))


def normal(n_dims: int) -> Callable[[int, Generator], Array]:
    """Return a prior that is standard normal."""
    return lambda n, rng: rng.normal(size=(n, n_dims))

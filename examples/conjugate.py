"""A normal mean with a normal prior: the posterior is known in closed form.

tarpon run examples/conjugate.py
tarpon run examples/conjugate.py:too_narrow
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Conjugate:
    """Two means, five noisy observations of each.

    Arguments:
        width: The width of the posterior, relative to the right one.
    """

    width: float = 1.0
    names = ("mu_0", "mu_1")

    def prior(self, rng):
        return rng.normal(size=2)

    def simulate(self, theta, rng):
        return theta + rng.normal(size=(5, 2))

    def posterior(self, x, n_draws, rng):
        mean, sd = self._moments(x)
        return mean + sd * rng.normal(size=(n_draws, 2))

    def log_prob(self, theta, x):
        mean, sd = self._moments(x)
        return -0.5 * (((theta - mean) / sd) ** 2).sum(axis=-1)

    def _moments(self, x):
        return x.sum(axis=0) / 6, self.width * np.sqrt(1 / 6)


problem = Conjugate()
too_narrow = Conjugate(width=0.7)

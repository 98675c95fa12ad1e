"""The source of a gravitationally lensed galaxy, drawn by a diffusion sampler.

tarpon run examples/lensing.py --n-draws 200
tarpon run examples/lensing.py:biased --n-draws 200

Needs `pip install tarpon[lensing]`.
"""

from dataclasses import dataclass
from functools import cached_property

from tarpon.problems import Lensing


@dataclass(frozen=True)
class Lensed:
    """The parameters are an image of 16 × 16 pixels, observed as a lensed image of 32 × 32.

    Arguments:
        sampler: "exact", or "biased", which uses the usual approximation of the likelihood.
        n_steps: The number of steps of the diffusion.
    """

    sampler: str = "exact"
    n_steps: int = 300

    @cached_property
    def lensing(self):
        return Lensing()

    @cached_property
    def draw(self):
        return self.lensing.sampler(self.sampler, n_steps=self.n_steps)

    def prior(self, rng):
        return self.lensing.prior(1, rng)[0]

    def simulate(self, theta, rng):
        image = self.lensing.matrix @ theta
        return image + self.lensing.noise * rng.standard_normal(image.shape)

    def posterior(self, x, n_draws, rng):
        return self.draw(x[None], n_draws, rng)[self.sampler][0]


problem = Lensed()
biased = Lensed("biased")

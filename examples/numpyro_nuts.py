"""The mean and scale of a few numbers, sampled with NumPyro's NUTS.

tarpon run examples/numpyro_nuts.py --n-draws 200
tarpon run examples/numpyro_nuts.py:wrong_prior --n-draws 200
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS

N_SEEN = 8
THINNING = 10  # steps of a chain are alike; ranks need draws that are not


@dataclass(frozen=True)
class Normal:
    """Numbers from a normal distribution of unknown mean and scale.

    Arguments:
        spread: The standard deviation of the prior in the sampler; 1 is right.
    """

    spread: float = 1.0
    names = ("mean", "log_scale")

    def prior(self, rng):
        return rng.normal(size=2)

    def simulate(self, theta, rng):
        return theta[0] + np.exp(theta[1]) * rng.normal(size=N_SEEN)

    def model(self, x):
        mean = numpyro.sample("mean", dist.Normal(0.0, self.spread))
        log_scale = numpyro.sample("log_scale", dist.Normal(0.0, self.spread))
        numpyro.sample("x", dist.Normal(mean, jax.numpy.exp(log_scale)), obs=x)

    @cached_property
    def chains(self):
        return {}

    def posterior(self, x, n_draws, rng):
        if n_draws not in self.chains:  # compiled once, and used for every observation
            self.chains[n_draws] = MCMC(
                NUTS(self.model), num_warmup=300, num_samples=THINNING * n_draws,
                thinning=THINNING, progress_bar=False, jit_model_args=True,
            )  # fmt: skip
        chain = self.chains[n_draws]
        chain.run(jax.random.key(int(rng.integers(2**31))), x)
        found = chain.get_samples()
        return np.stack([found[name] for name in self.names], axis=1)


problem = Normal()
wrong_prior = Normal(spread=0.3)

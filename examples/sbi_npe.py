"""Neural posterior estimation with sbi: a network is trained once, and then tested.

tarpon run examples/sbi_npe.py
tarpon run examples/sbi_npe.py:barely_trained

The network is saved beside this file. Its weights are part of the problem: a run with other
weights is refused in the same store.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from sbi.inference import NPE
from sbi.neural_nets import posterior_nn

torch.set_num_threads(1)  # every process has one processor
PRIOR = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))


def observed(theta, noise):
    """Return the sum and the product of two parameters, with noise."""
    return np.stack([theta.sum(axis=-1), theta.prod(axis=-1)], axis=-1) + 0.5 * noise


def trained(n_sims, path):
    """Return a network with the weights in a file; if there is no file, train and write it."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    theta = rng.normal(size=(n_sims, 2))
    x = observed(theta, rng.normal(size=(n_sims, 2)))
    pair = [torch.tensor(each, dtype=torch.float32) for each in (theta, x)]
    if path.exists():
        network = posterior_nn("maf")(*pair)
        network.load_state_dict(torch.load(path, weights_only=True))
        return network
    network = NPE(PRIOR, density_estimator="maf").append_simulations(*pair)
    network = network.train(show_train_summary=False)
    torch.save(network.state_dict(), path)
    return network


@dataclass(frozen=True)
class Estimated:
    """The posterior of a network.

    Arguments:
        n_train: Number of simulations that the network was trained on.
        network: The trained network.
    """

    n_train: int
    network: torch.nn.Module

    @cached_property
    def estimate(self):
        return NPE(PRIOR).build_posterior(self.network, prior=PRIOR)

    def prior(self, rng):
        return rng.normal(size=2)

    def simulate(self, theta, rng):
        return observed(theta, rng.normal(size=2))

    def posterior(self, x, n_draws, rng):
        torch.manual_seed(int(rng.integers(2**62)))
        seen = torch.tensor(x, dtype=torch.float32)
        return self.estimate.sample((n_draws,), x=seen, show_progress_bars=False)


def estimated(n_train):
    return Estimated(n_train, trained(n_train, Path(__file__).with_name(f"npe_{n_train}.pt")))


def __getattr__(name):
    # Only the network that is asked for is trained.
    if name in ("problem", "barely_trained"):
        return estimated(3000 if name == "problem" else 50)
    raise AttributeError(name)

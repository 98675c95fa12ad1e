"""sbi: posteriors of every kind, trained here."""

import numpy as np
import pytest
import torch
from sbi.inference import NLE, NPE, EnsemblePosterior
from sbi.inference.posteriors import DirectPosterior
from sbi.inference.posteriors.posterior_parameters import MCMCPosteriorParameters
from sbi.neural_nets import posterior_nn
from sbi.utils import BoxUniform
from torch.distributions import MultivariateNormal

import tarpon
from tarpon.adapters import from_sbi

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("gradients"),
    # sbi says so of every training that is stopped, as those here are on purpose.
    pytest.mark.filterwarnings("ignore:Maximum number of epochs"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sbi"),
]
PRIOR = MultivariateNormal(torch.zeros(2), torch.eye(2))


def trained(n_epochs):
    """Return a posterior for the problem of `study`, trained for so many epochs at most."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theta = PRIOR.sample((5000,))
        network = posterior_nn("mdn", hidden_features=20, num_components=2)
        inference = NPE(prior=PRIOR, density_estimator=network, show_progress_bars=False)
        inference.append_simulations(theta, theta + torch.randn_like(theta))
        inference.train(max_num_epochs=n_epochs, training_batch_size=200, learning_rate=2e-3)
    return inference.build_posterior()


@pytest.fixture(scope="module")
def good():
    return trained(100)


def test_a_trained_network_passes_and_one_stopped_early_does_not(good, study, shown):
    theta, x = study(200)
    # Its mean is 0.1 sd off, where this many simulations see 0.3: p is nearly uniform, seed fixed.
    assert shown("sbi", posterior=good, theta=theta, x=x)["check"].p_value > 0.01
    assert shown("sbi", posterior=trained(1), theta=theta, x=x)["check"].p_value == 0.001


def test_densities_are_those_of_sbi_up_to_a_constant(good, study):
    theta, x = (torch.as_tensor(array[:5]) for array in study(5))
    sims = from_sbi(good, theta, x, n_draws=50, batch_size=2, rng=0)
    for k in range(5):
        points = np.concatenate([sims.theta[k][None], sims.samples[:, k]])
        theirs = good.log_prob(torch.as_tensor(points), x=x[k], norm_posterior=False).numpy()
        ours = np.append(sims.log_prob_theta[k], sims.log_prob_samples[:, k])
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert tarpon.hpd(sims, rng=0).p_value > 1e-6


def test_draws_hang_on_the_seed_and_leave_that_of_torch_alone(good, study):
    theta, x = study(7)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (from_sbi(good, theta, x, 20, rng=seed).samples for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).all()
    assert (torch.get_rng_state() == before[0]).all()
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


@pytest.mark.filterwarnings("ignore:Only .* proposal samples")
@pytest.mark.filterwarnings("ignore:.* of the network.s mass lies outside")
def test_observations_that_never_end_are_named(good):
    # Posteriors of x = 20 lie at 10, and the prior ends at 0.5: no draw is ever accepted.
    prior = BoxUniform(torch.tensor([-9.0, -9.0]), torch.tensor([0.5, 9.0]))
    leaky = DirectPosterior(good.posterior_estimator, prior)
    x = torch.tensor([[-1.0, 0.0], [20.0, 0.0], [-1.0, 1.0], [20.0, 1.0]])
    theta = torch.tensor([[-0.5, 0.0]]).expand(4, 2)
    stuck = r"2 of 4 simulations have no draws: 1, 3 \(took longer than 3 s\). They are dropped"
    with pytest.warns(UserWarning, match=stuck):
        sims = from_sbi(leaky, theta, x, 50, time_limit=3, on_invalid="drop", rng=0)
    assert (sims.n_sims, sims.n_dropped) == (2, 2)
    assert np.isfinite(sims.log_prob_samples).all()


def test_a_leak_out_of_the_prior_is_measured_and_warned_of(good):
    # Truths of a prior that ends at 0, known to the simulator but not to the network: of the
    # observation x, a share of Phi(-x / sqrt(2)) of its mass lies inside.
    prior = BoxUniform(torch.tensor([-4.0, -4.0]), torch.tensor([0.0, 4.0]))
    leaky = DirectPosterior(good.posterior_estimator, prior)
    generator = torch.Generator().manual_seed(0)
    theta = torch.rand((200, 2), generator=generator) * torch.tensor([4.0, 8.0]) - 4
    x = theta + torch.randn((200, 2), generator=generator)
    with pytest.warns(UserWarning, match="of the network's mass lies outside of the prior"):
        sims = from_sbi(leaky, theta, x, 400, rng=0)
    points = torch.as_tensor(sims.theta)[None]
    network = leaky.log_prob_batched(points, x=x, norm_posterior=False)[0].numpy()
    inside = np.exp(network - sims.log_prob_theta)  # 20 draws of the network per observation
    exact = torch.distributions.Normal(0, 1).cdf(-x[:, 0] / 2**0.5).numpy()
    # The mean of 4000 draws has a standard error of at most 0.008; the network itself is good to
    # about 0.02: the bound is six standard errors beyond that.
    assert abs(inside.mean() - exact.mean()) < 0.07
    assert np.corrcoef(inside, exact)[0, 1] > 0.8
    (warning,) = (said for said in tarpon.check(sims, rng=0).warnings if "network" in said)
    worst = int(warning.split("at simulation ")[1].split(":")[0])
    assert exact[worst] < np.quantile(exact, 0.1)


def test_a_network_that_does_not_leak_is_not_warned_of(good, study):
    theta, x = study(20)
    wide = BoxUniform(-20 * torch.ones(2), 20 * torch.ones(2))
    sims = from_sbi(DirectPosterior(good.posterior_estimator, wide), theta, x, 40, rng=0)
    assert not tarpon.check(sims, n_swaps=99, rng=0).warnings
    sampled = torch.as_tensor(sims.theta)[None], torch.as_tensor(x)
    network = good.log_prob_batched(sampled[0], x=sampled[1], norm_posterior=False)[0]
    np.testing.assert_allclose(sims.log_prob_theta, network.numpy(), rtol=1e-5, atol=1e-5)


class Shifted(DirectPosterior):
    """A posterior whose draws are moved."""

    def sample(self, *shape, **more):
        return super().sample(*shape, **more) + self.shift


def test_members_of_an_ensemble_are_mixed(good, study):
    theta, x = study(10)
    members = [Shifted(good.posterior_estimator, PRIOR) for _ in range(2)]
    members[0].shift, members[1].shift = -100.0, 100.0
    samples = from_sbi(EnsemblePosterior(members), theta, x, 400, rng=0).samples
    # sbi gives the draws of one member after those of the other. The share of one in a random
    # half has a standard deviation of 0.025: 0.3 is eight of them away.
    share = (samples[:200] > 0).mean(axis=(0, 2))
    assert abs(share - 0.5).max() < 0.3


@pytest.fixture(scope="module")
def likelihood():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theta = PRIOR.sample((500,))
        inference = NLE(prior=PRIOR, density_estimator="mdn", show_progress_bars=False)
        inference.append_simulations(theta, theta + torch.randn_like(theta))
        inference.train(max_num_epochs=20)
    return inference


def test_chains_are_thinned(likelihood, study):
    theta, x = study(3)
    settings = MCMCPosteriorParameters(num_chains=3, warmup_steps=5, thin=1)
    posterior = likelihood.build_posterior(posterior_parameters=settings)
    first, again = (from_sbi(posterior, theta, x, 40, rng=0) for _ in range(2))
    assert first.draws.most <= 42  # a multiple of the number of chains
    np.testing.assert_array_equal(first.samples, again.samples)
    # The observation that they were drawn for is where they are: no axis is swapped.
    centres = np.stack([first.samples[:, k].mean(axis=0) for k in range(3)])
    assert abs(centres - x / 2).max() < 1.5


def test_a_posterior_of_one_observation_says_so(likelihood, study):
    theta, x = study(3)
    with pytest.raises(RuntimeError, match=r"3 of 3 .* was not fit on the specified observation"):
        from_sbi(likelihood.build_posterior(sample_with="vi"), theta, x, 9)

"""Estimators of posteriors, trained as their documentation says, and drawn from with tarpon.

An estimator is a function of a problem, truths, observations and the largest number of epochs. It
returns a function of truths, observations and the number of draws that returns `Simulations`:
without the observations for which nearly all of a network's mass lies outside of the prior.
"""

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import torch
from problems import Array, Problem
from problems.importance import gridded

import tarpon
from tarpon.adapters import from_flow, from_sbi, from_workflow

Sampler = Callable[[Array, Array, int], tarpon.Simulations]
Estimator = Callable[[Problem, Array, Array, int], Sampler]

torch.set_num_threads(1)


def _tensors(*arrays: Array) -> list[torch.Tensor]:
    return [torch.as_tensor(array, dtype=torch.float32) for array in arrays]


def _silent(stage: str, n_done: int, n_total: int) -> None:
    """Show no progress."""


def _prior(problem: Problem) -> Any:
    from sbi.utils import BoxUniform

    ones = torch.ones(problem.n_dims)
    if problem.half_width is None:
        return torch.distributions.MultivariateNormal(0 * ones, problem.sd**2 * torch.diag(ones))
    return BoxUniform(-problem.half_width * ones, problem.half_width * ones)


def _npe(problem: Problem, theta: Array, x: Array, epochs: int, *, network: str) -> Any:
    from sbi.inference import NPE

    builder: Any = network
    if problem.shape:
        from sbi.neural_nets import posterior_nn
        from sbi.neural_nets.embedding_nets import CNNEmbedding

        builder = posterior_nn(network, embedding_net=CNNEmbedding(problem.shape, output_dim=10))
    inference = NPE(prior=_prior(problem), density_estimator=builder, show_progress_bars=False)
    return _fitted(inference, theta, x, epochs).build_posterior()


def _fitted(inference: Any, theta: Array, x: Array, epochs: int) -> Any:
    inference.append_simulations(*_tensors(theta, x))
    inference.train(max_num_epochs=epochs, training_batch_size=200 if len(theta) < 10**5 else 1000)
    return inference


def sbi(problem: Problem, theta: Array, x: Array, epochs: int, *, network: str) -> Sampler:
    """Train NPE of sbi with its defaults; images are compressed by its convolutional network."""
    posterior = _npe(problem, theta, x, epochs, network=network)

    def sample(theta: Array, x: Array, n_draws: int) -> tarpon.Simulations:
        some = reachable(posterior, x)
        return from_sbi(posterior, theta[some], x[some], n_draws, rng=0, progress=_silent)

    return sample


def reachable(posterior: Any, x: Array) -> Array:
    """Return for which observations a tenth of the network's mass lies inside of the prior.

    For the others, sbi's search for draws inside of it may not end.
    """
    from sbi.utils import within_support

    inside = []
    for some in _tensors(x)[0].split(100):
        draw = {"x": some, "reject_outside_prior": False, "show_progress_bars": False}
        draws = posterior.sample_batched((50,), **draw)
        within = within_support(posterior.prior, draws.flatten(0, 1)).reshape(50, -1)
        inside.append(within.float().mean(dim=0).numpy())
    return np.concatenate(inside) > 0.1


def fmpe(problem: Problem, theta: Array, x: Array, epochs: int) -> Sampler:
    """Train flow matching of sbi with its defaults. Its log-densities are left out: too slow."""
    from sbi.inference import FMPE

    inference = FMPE(prior=_prior(problem), show_progress_bars=False)
    posterior = _fitted(inference, theta, x, epochs).build_posterior()

    def sample(theta: Array, x: Array, n_draws: int) -> tarpon.Simulations:
        draws = posterior.sample_batched((n_draws,), x=_tensors(x)[0], show_progress_bars=False)
        return tarpon.Simulations(draws.numpy(), theta, x=x)

    return sample


def nle(problem: Problem, theta: Array, x: Array, epochs: int) -> Sampler:
    """Train a likelihood of sbi with its defaults; posteriors are drawn on a refined grid."""
    from sbi.inference import NLE

    network = NLE(prior=_prior(problem), show_progress_bars=False)
    likelihood = _fitted(network, theta, x, epochs)._neural_net

    def log_likelihood(points: Array, one: Array) -> Array:
        at, given = _tensors(points, one[None])
        with torch.no_grad():
            return likelihood.log_prob(given.expand(len(at), -1)[None], at)[0].double().numpy()

    return partial(_on_grid, problem, log_likelihood)


def nre(problem: Problem, theta: Array, x: Array, epochs: int) -> Sampler:
    """Train a ratio of sbi with its defaults; posteriors are drawn on a refined grid."""
    from sbi.inference import NRE

    network = NRE(prior=_prior(problem), show_progress_bars=False)
    ratio = _fitted(network, theta, x, epochs)._neural_net

    def log_likelihood(points: Array, one: Array) -> Array:
        at, given = _tensors(points, one[None])
        with torch.no_grad():
            return ratio(at, given.expand(len(at), -1)).double().numpy().ravel()

    return partial(_on_grid, problem, log_likelihood)


def _on_grid(
    problem: Problem, log_likelihood: Any, theta: Array, x: Array, n_draws: int
) -> tarpon.Simulations:
    rng = np.random.default_rng(0)
    each = [
        gridded(problem, partial(log_likelihood, one=one), n_draws, rng, at=truth)
        for truth, one in zip(theta, x, strict=True)
    ]
    samples, log_samples, log_theta = (np.stack(part, axis=-1) for part in zip(*each, strict=True))
    return tarpon.Simulations(
        np.moveaxis(samples, -1, 1), theta, x=x,
        log_prob_samples=log_samples, log_prob_theta=log_theta,
    )  # fmt: skip


def ensemble(problem: Problem, theta: Array, x: Array, epochs: int, *, network: str) -> Sampler:
    """Train five networks of sbi on the same simulations; their mixture is the posterior."""
    members = [_npe(problem, theta, x, epochs, network=network) for _ in range(5)]

    def sample(theta: Array, x: Array, n_draws: int) -> tarpon.Simulations:
        some = np.all([reachable(one, x) for one in members], axis=0)
        theta, x = theta[some], x[some]
        drawn = [from_sbi(one, theta, x, n_draws, rng=0, progress=_silent) for one in members]
        chosen = np.random.default_rng(0).integers(len(members), size=(n_draws, len(theta), 1))
        samples = np.choose(chosen, [sims.samples for sims in drawn])
        points, observed = _tensors(np.concatenate([theta[None], samples]), x)
        log_probs = []
        for one, sims in zip(members, drawn, strict=True):
            raw = one.log_prob_batched(points, x=observed, norm_posterior=False).numpy()
            # What `from_sbi` adds for mass outside of the prior is the same for all points.
            log_probs.append(raw + sims.log_prob_theta - raw[0])
        mixed = np.logaddexp.reduce(log_probs) - np.log(len(members))
        return tarpon.Simulations(
            samples, theta, x=x, log_prob_samples=mixed[1:], log_prob_theta=mixed[0]
        )

    return sample


def lampe(problem: Problem, theta: Array, x: Array, epochs: int) -> Sampler:
    """Train NPE of LAMPE with splines of zuko; a tenth of the simulations stops it."""
    import zuko
    from lampe.inference import NPE, NPELoss
    from torch.distributions import AffineTransform, TransformedDistribution

    scales = [(array.mean(axis=0), array.std(axis=0)) for array in _tensors(theta, x)]
    pair = [(a - mean) / sd for a, (mean, sd) in zip(_tensors(theta, x), scales, strict=True)]
    network = NPE(problem.n_dims, x.shape[1], build=zuko.flows.NSF, hidden_features=(64, 64))
    loss, n_fit = NPELoss(network), len(theta) * 9 // 10
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    best, kept, patience = np.inf, network.state_dict(), 0
    for _ in range(epochs):
        for some in torch.randperm(n_fit).split(200):
            optimizer.zero_grad()
            loss(*(a[some] for a in pair)).backward()
            optimizer.step()
        with torch.no_grad():
            held_out = float(loss(*(a[n_fit:] for a in pair)))
        patience = 0 if held_out < best else patience + 1
        if held_out < best:
            best, kept = held_out, {name: w.clone() for name, w in network.state_dict().items()}
        if patience == 20:
            break
    network.load_state_dict(kept)
    (centre, spread), (mean, sd) = scales
    units = AffineTransform(centre, spread, event_dim=1)

    def flow(x: torch.Tensor) -> torch.distributions.Distribution:
        return TransformedDistribution(network.flow((x - mean) / sd), [units])

    return lambda theta, x, n: from_flow(flow, *_tensors(theta, x), n, rng=0, progress=_silent)


def bayesflow(problem: Problem, theta: Array, x: Array, epochs: int) -> Sampler:
    """Train a workflow of BayesFlow with its default coupling flow."""
    import bayesflow
    import keras

    keras.utils.set_random_seed(int(torch.randint(2**31, ())))
    workflow = bayesflow.BasicWorkflow(
        inference_network=bayesflow.networks.CouplingFlow(),
        inference_variables=["theta"],
        inference_conditions=["x"],
    )
    data = {"theta": theta.astype("f4"), "x": x.astype("f4")}
    with torch.enable_grad():
        workflow.fit_offline(data, epochs=epochs, batch_size=64, verbose=0)

    def sample(theta: Array, x: Array, n_draws: int) -> tarpon.Simulations:
        given = {"theta": theta.astype("f4"), "x": x.astype("f4")}
        sims = from_workflow(
            workflow, {"theta": given["theta"]}, {"x": given["x"]}, n_draws, rng=0
        )

        def log_prob(points: Array) -> Array:
            return np.asarray(workflow.approximator.log_prob(given | {"theta": points})).ravel()

        return tarpon.Simulations(
            sims.samples, theta, x=x,
            log_prob_samples=np.stack([log_prob(np.asarray(draw)) for draw in sims.samples]),
            log_prob_theta=log_prob(given["theta"]),
        )  # fmt: skip

    return sample


ESTIMATORS: dict[str, Estimator] = {
    "sbi nsf": partial(sbi, network="nsf"),
    "sbi maf": partial(sbi, network="maf"),
    "5 × sbi nsf": partial(ensemble, network="nsf"),
    "sbi fmpe": fmpe,
    "sbi nle": nle,
    "sbi nre": nre,
    "LAMPE nsf": lampe,
    "BayesFlow": bayesflow,
}
SLOW = {"5 × sbi nsf", "sbi fmpe", "sbi nle", "sbi nre"}  # many evaluations per draw
EPOCHS = {1000: 150, 10_000: 30, 100_000: 10}


def trained(
    name: str, problem: Problem, n_train: int, *, epochs: int | None = None, seed: int = 0
) -> Sampler:
    """Train an estimator, and return its sampler."""
    theta, x = problem.study(n_train, 10**6 + seed)
    torch.manual_seed(seed)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        return ESTIMATORS[name](problem, theta, x, epochs or EPOCHS[n_train])

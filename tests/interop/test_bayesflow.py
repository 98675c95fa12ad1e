"""BayesFlow: dictionaries, simulations first, from a workflow trained here."""

import bayesflow
import numpy as np
import pytest

import tarpon
from tarpon.adapters import from_bayesflow, from_workflow

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def simulate(n, rng):
    mu, beta = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    x = np.concatenate([mu, beta], axis=1) + rng.normal(size=(n, 2))
    return {name: a.astype("f4") for name, a in {"mu": mu, "beta": beta, "x": x}.items()}


@pytest.fixture(scope="module")
def workflow():
    import keras

    keras.utils.set_random_seed(0)
    workflow = bayesflow.BasicWorkflow(
        inference_network=bayesflow.networks.CouplingFlow(depth=2, transform="affine"),
        inference_variables=["mu", "beta"],
        inference_conditions=["x"],
    )
    data = simulate(8000, np.random.default_rng(0))
    workflow.fit_offline(data, epochs=25, batch_size=200, verbose=0)
    return workflow


def test_a_workflow_passes_and_one_with_half_the_width_does_not(workflow, shown):
    data = simulate(200, np.random.default_rng(1))
    theta = {name: data[name] for name in ("mu", "beta")}
    names = shown("BayesFlow", workflow=workflow, theta=theta, x={"x": data["x"]})
    assert names["check"].p_value > 0.01
    assert names["sims"].names == ("mu", "beta")
    narrow = {
        name: (draws + draws.mean(axis=1, keepdims=True)) / 2
        for name, draws in workflow.sample(conditions={"x": data["x"]}, num_samples=500).items()
    }
    check = tarpon.check(from_bayesflow(narrow, theta, x=data["x"]), rng=0)
    assert check.p_value == 0.001


def test_axes_and_names_are_those_of_bayesflow(workflow):
    data = simulate(6, np.random.default_rng(2))
    sims = from_workflow(workflow, data, {"x": data["x"]}, 40, rng=3)
    again = from_workflow(workflow.approximator, data, {"x": data["x"]}, 40, rng=3)
    assert (sims.samples == again.samples).all()
    assert sims.samples.shape == (40, 6, 2)
    assert (sims.theta == np.concatenate([data["mu"], data["beta"]], axis=1)).all()

"""Nested sampling: runs of dynesty, and results as bilby writes them."""

import bilby
import dynesty
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import tarpon
from tarpon.adapters import from_bilby, from_dynesty

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def run(x, sd, seed):
    """Return dynesty's results for the problem of `study`, with a prior of some width."""
    sampler = dynesty.NestedSampler(
        lambda t: -0.5 * float(((t - x) ** 2).sum()), lambda u: sd * ndtri(u), 2,
        nlive=60, bound="single", sample="unif", rstate=np.random.default_rng(seed),
    )  # fmt: skip
    sampler.run_nested(print_progress=False, dlogz=0.1)
    return sampler.results


@pytest.fixture(scope="module")
def runs():
    """Return truths, observations, and runs with the right prior and with one that is wide."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(50, 2))
    x = theta + rng.normal(size=theta.shape)
    found = [[run(one, sd, k) for k, one in enumerate(x)] for sd in (1.0, 5.0)]
    return theta, x, *found


def test_dynesty(runs, shown):
    theta, x, right, wrong = runs
    # Nested sampling is exact up to its resolution, so p is nearly uniform; seeds are fixed.
    good = shown("dynesty", results=right, theta=theta, x=x)
    assert good["check"].p_value > 0.01
    assert "approximate" in str(good["check"])
    assert shown("dynesty", results=wrong, theta=theta, x=x)["check"].p_value == 0.001


def test_weights_are_those_of_dynesty(runs):
    theta, _, right, _ = runs
    sims = from_dynesty(right[:2], theta[:2])
    for k in range(2):
        n = len(right[k].samples)
        theirs = right[k].importance_weights()
        ours = np.exp(sims.log_weights[:n, k])
        np.testing.assert_allclose(ours / ours.sum(), theirs / theirs.sum(), rtol=1e-3, atol=1e-9)


def written(folder, results, theta):
    """Let bilby write down draws of equal weight: each is kept as often as it weighs."""
    normal = bilby.core.prior.Normal(0, 1)
    for k, (result, truth) in enumerate(zip(results, theta, strict=True)):
        weights = result.importance_weights()
        kept = np.random.default_rng(k).uniform(size=len(weights)) < weights / weights.max()
        posterior = pd.DataFrame(result.samples[kept], columns=["a", "b"])
        bilby.core.result.Result(
            label=f"sim{k}",
            outdir=str(folder),
            search_parameter_keys=["a", "b"],
            injection_parameters={"a": truth[0], "b": truth[1], "fixed": 3.0},
            priors=bilby.core.prior.PriorDict({"a": normal, "b": normal}),
            posterior=posterior.assign(log_likelihood=0.0),
        ).save_to_file(extension="json")
    return [folder / f"sim{k}_result.json" for k in range(len(theta))]


def test_bilby(runs, shown, tmp_path):
    theta, _, right, wrong = runs
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    files = written(tmp_path / "right", right, theta)
    good = shown("bilby", files=files)
    assert good["check"].p_value > 0.01
    assert good["sims"].names == ("a", "b")
    np.testing.assert_allclose(good["sims"].theta, theta)
    assert shown("bilby", files=written(tmp_path / "wrong", wrong, theta))["check"].p_value < 0.01
    theirs = bilby.result.read_in_result(str(files[3])).posterior
    ours = from_bilby(files[3:4], variables=["b"])
    np.testing.assert_array_equal(ours.samples[:, 0, 0], theirs["b"])
    assert isinstance(ours, tarpon.Simulations)

"""Chains of PyMC, NumPyro, emcee, CmdStan and GetDist, of the right posterior and of a wrong one.

The wrong one takes the prior to have a mean of 2 in place of 0, which moves every posterior by
1.4 of its standard deviations. The right one is exact but for what is left of the chains'
correlation after thinning, so its p is uniform; seeds are fixed.
"""

import logging
import warnings

import cmdstanpy
import emcee
import getdist
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray
from numpyro.infer import MCMC, NUTS

from tarpon.adapters import from_cmdstan, from_emcee, from_mcmc

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="\\s*ArviZ is undergoing a major refactor")
    import pymc

pytestmark = pytest.mark.interop
WRONG = 2.0


def verdicts(shown, tool, fits, theta, **more):
    """Return the p-values of right and wrong fits."""
    return [
        shown(tool, theta=theta, **{name: made(mean) for name, made in fits.items()}, **more)[
            "check"
        ].p_value
        for mean in (0.0, WRONG)
    ]


class TestPyMC:
    @staticmethod
    def fits(x, mean):
        logging.getLogger("pymc").setLevel(logging.ERROR)
        with pymc.Model():
            data = pymc.Data("data", x[0])
            mu = pymc.Normal("mu", mean, 1, shape=2)
            pymc.Deterministic("twice", 2 * mu)
            pymc.Normal("x", mu, 1, observed=data)
            for k, observed in enumerate(x):
                pymc.set_data({"data": observed})
                yield pymc.sample(
                    draws=100, tune=100, chains=2, cores=1, progressbar=False, random_seed=k,
                    compute_convergence_checks=False,
                )  # fmt: skip

    def test_pymc_verdicts(self, study, shown):
        theta, x = study(30)
        fits = {"fits": lambda mean: self.fits(x, mean)}
        right, wrong = verdicts(shown, "PyMC and ArviZ", fits, {"mu": theta}, x=x)
        assert right > 0.01
        assert wrong == 0.001

    def test_trees_of_either_generation_are_the_same(self, study):
        theta, x = study(2)
        old = list(self.fits(x, 0.0))
        new = [xarray.DataTree.from_dict({"posterior": one.posterior}) for one in old]
        first, second = (from_mcmc(fits, {"mu": theta}) for fits in (old, new))
        assert first.names == second.names == ("mu[0]", "mu[1]")
        np.testing.assert_array_equal(first.samples, second.samples)
        both = from_mcmc(new, [{"twice": 2 * t, "mu": t} for t in theta])
        assert both.names == ("twice[0]", "twice[1]", "mu[0]", "mu[1]")
        with pytest.raises(ValueError, match="fit 0 has no draws of nu: it contains mu, twice"):
            from_mcmc(old, {"nu": theta})


class TestNumPyro:
    @staticmethod
    def run(key, x, mean):
        def model(x):
            mu = numpyro.sample("mu", dist.Normal(mean, 1).expand([2]).to_event(1))
            numpyro.sample("x", dist.Normal(mu, 1).to_event(1), obs=x)

        fit = MCMC(NUTS(model), num_warmup=100, num_samples=200, progress_bar=False)
        fit.run(key, x)
        return fit

    def fits(self, x, mean):
        """Fit all observations at once, which compiles but once."""

        def one(key, x):
            return self.run(key, x, mean).get_samples(group_by_chain=True)

        chains = jax.vmap(one)(jax.random.split(jax.random.PRNGKey(0), len(x)), x)
        return [{"mu": chain} for chain in chains["mu"]]

    def test_numpyro_verdicts(self, study, shown):
        theta, x = study(100)
        fits = {"fits": lambda mean: self.fits(x, mean)}
        right, wrong = verdicts(shown, "NumPyro", fits, {"mu": theta}, x=x)
        assert right > 0.01
        assert wrong == 0.001

    def test_numpyro_fits_are_read_directly(self, study):
        theta, x = study(1)
        fit = self.run(jax.random.PRNGKey(1), x[0], 0.0)
        chains = fit.get_samples(group_by_chain=True)["mu"]
        sims = from_mcmc([fit], {"mu": theta})
        assert {*sims.samples[:, 0, 0]} <= {*np.asarray(chains)[0, :, 0]}


class TestEmcee:
    def files(self, folder, x, mean):
        for k, observed in enumerate(x):
            path = folder / f"{mean}-{k}.h5"
            backend = emcee.backends.HDFBackend(path)
            backend.reset(16, 2)
            sampler = emcee.EnsembleSampler(
                16, 2, lambda t, x=observed: -0.5 * (((t - mean) ** 2 + (t - x) ** 2).sum(axis=1)),
                vectorize=True, backend=backend,
            )  # fmt: skip
            sampler.random_state = np.random.RandomState(k).get_state()
            start = np.random.default_rng(k).normal(size=(16, 2))
            sampler.run_mcmc(start, 50, thin_by=6)  # emcee opens the file for every step it keeps
            yield path

    def test_emcee_verdicts(self, study, shown, tmp_path):
        theta, x = study(25)
        files = {"files": lambda mean: self.files(tmp_path, x, mean)}
        right, wrong = verdicts(shown, "emcee", files, theta, x=x)
        assert right > 0.01
        assert wrong == 0.001

    def test_steps_are_those_of_emcee(self, study, tmp_path):
        theta, x = study(1)
        (path,) = self.files(tmp_path, x, 0.0)
        steps = emcee.backends.HDFBackend(path, read_only=True).get_chain(discard=20)
        sims = from_emcee([path], theta, discard=20)
        assert {*sims.samples[:, 0, 1]} <= {*steps[..., 1].ravel()}


def cmdstan_csv(path, mu, warmup=False):
    """Write steps of `mu` (n_steps, 2, 1) as CmdStan does."""
    head = [
        "# stan_version_major = 2", "# stan_version_minor = 33", "# stan_version_patch = 0",
        "# model = test_model", "# method = sample (Default)", "#   sample",
        f"#     num_samples = {len(mu) - 50 * warmup}", "#     num_warmup = 50",
        f"#     save_warmup = {int(warmup)}", "#     thin = 1 (Default)",
        "#     adapt", "#       engaged = 1 (Default)", "#     algorithm = hmc (Default)",
        "#       hmc", "#         engine = nuts (Default)", "#           nuts",
        "#             max_depth = 10 (Default)", "#         metric = diag_e (Default)",
        "# id = 1 (Default)", "# data", "#   file = ",
        "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,"
        "mu.1.1,mu.2.1",
    ]  # fmt: skip
    own = "-1.5,0.9,0.8,2,3,0,2.5"
    rows = [f"{own},{a[0]:.8g},{b[0]:.8g}" for a, b in mu]
    adapted = ["# Adaptation terminated", "# Step size = 0.8",
               "# Diagonal elements of inverse mass matrix:", "# 1, 1"]  # fmt: skip
    body = rows[: 50 * warmup] + adapted + rows[50 * warmup :]
    tail = ["# ", "#  Elapsed Time: 0.01 seconds (Warm-up)", "# "]
    path.write_text("\n".join([*head, *body, *tail]) + "\n")
    return path


class TestCmdStan:
    def fits(self, folder, x, mean):
        for k, observed in enumerate(x):
            rng = np.random.default_rng(k)
            steps = (mean + observed) / 2 + rng.normal(size=(2, 100, 2)) * 0.5**0.5
            yield [
                cmdstan_csv(folder / f"{mean}-{k}_{chain}.csv", steps[chain, ..., None])
                for chain in range(2)
            ]

    def test_cmdstan_verdicts(self, study, shown, tmp_path):
        theta, x = study(60)
        fits = {"fits": lambda mean: self.fits(tmp_path, x, mean)}
        right, wrong = verdicts(shown, "CmdStan", fits, {"mu": theta[..., None]}, x=x)
        assert right > 0.01
        assert wrong == 0.001

    @pytest.mark.parametrize("warmup", [False, True])
    def test_steps_are_those_of_cmdstanpy(self, tmp_path, warmup):
        steps = np.random.default_rng(0).normal(size=(150, 2, 1))
        path = cmdstan_csv(tmp_path / "one.csv", steps, warmup=warmup)
        theirs = cmdstanpy.from_csv(str(path)).stan_variable("mu")
        sims = from_cmdstan([path], [{"mu": [[0.0], [0.0]]}])
        assert sims.names == ("mu[0,0]", "mu[1,0]")
        every = theirs.reshape(-1, 2)
        assert sims.n_draws <= len(every) == 150 - 50 * warmup
        assert {*sims.samples[:, 0, 1]} <= {*every[:, 1]}


class TestGetDist:
    def roots(self, folder, x, mean):
        """Let two walks of Metropolis go on for a while, and GetDist write them down."""
        for k, observed in enumerate(x):
            rng, root = np.random.default_rng(k), folder / f"{mean}-{k}"
            for chain in range(2):
                steps, weights = self.walk(rng, observed, mean)
                samples = getdist.MCSamples(
                    samples=steps, weights=weights, names=["a", "b"], ignore_rows=0
                )
                samples.saveAsText(str(root), chain_index=chain)
            yield root

    @staticmethod
    def walk(rng, x, mean, n_steps=600):
        here, steps, weights = x / 2, [], []
        for _ in range(n_steps):
            there = here + rng.normal(size=2)
            rise = (here - mean) ** 2 + (here - x) ** 2 - (there - mean) ** 2 - (there - x) ** 2
            if not steps or np.log(rng.uniform()) < rise.sum() / 2:
                here = there if steps else here
                steps.append(here)
                weights.append(0)
            weights[-1] += 1
        return np.array(steps), np.array(weights)

    def test_getdist_verdicts(self, study, shown, tmp_path):
        theta, x = study(30)
        roots = {"roots": lambda mean: self.roots(tmp_path, x, mean)}
        truths = {"a": theta[:, 0], "b": theta[:, 1]}
        right, wrong = verdicts(shown, "GetDist", roots, truths, x=x)
        assert right > 0.01
        assert wrong == 0.001

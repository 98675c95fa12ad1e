"""The zoo of flaws: marginals that are right on average, and an oracle that finds every flaw."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare, norm

import tarpon
from tarpon.problems import FLAWS, oracle, zoo

FALSE_ALARM = 1e-6  # of each statistical test, should a seed or a stream ever change
LIMIT = norm.isf(FALSE_ALARM / 2)
NO_RATIO = {"autocorrelated", "swapped_axes", "rounded"}
SUBTLE = [flaw for flaw, about in FLAWS.items() if about.circle == 2]
WRONG_SHAPE = {"edge_smoothed", "modes_blurred", "one_width_by_x"}


def z_score(values):
    """Return the mean of values that should be zero on average, in standard errors."""
    return values.mean(axis=0) / values.std(axis=0) * np.sqrt(len(values))


class TestMarginals:
    @pytest.mark.parametrize("n_dims", [2, 3])
    @pytest.mark.parametrize("flaw", sorted(set(SUBTLE) - WRONG_SHAPE))
    def test_ranks_of_every_parameter_are_uniform(self, flaw, n_dims):
        sims = zoo(flaw, n_sims=4000, n_draws=19, n_dims=n_dims, rng=0)
        assert tarpon.sbc(sims, rng=0).p_value > FALSE_ALARM

    @pytest.mark.parametrize("flaw", SUBTLE)
    def test_means_are_right_on_average(self, flaw):
        sims = zoo(flaw, n_sims=4000, n_draws=19, n_dims=3, rng=0)
        assert (abs(z_score(sims.theta - sims.samples.mean(axis=0))) < LIMIT).all()

    @pytest.mark.parametrize("flaw", sorted(set(SUBTLE) - {"one_width_by_x"}))
    def test_widths_are_right_on_average(self, flaw):
        sims = zoo(flaw, n_sims=4000, n_draws=19, n_dims=3, rng=0)
        errors = sims.theta - sims.samples.mean(axis=0)
        # The mean of n draws adds 1/n to the variance, of which theirs is (n - 1)/n.
        expected = sims.samples.var(axis=0) * 20 / 18
        assert (abs(z_score(errors**2 - expected)) < LIMIT).all()

    def test_a_wrong_width_is_noticed_by_these_tests(self):
        sims = zoo("narrow", n_sims=4000, n_draws=19, n_dims=3, rng=0)
        errors = sims.theta - sims.samples.mean(axis=0)
        assert (z_score(errors**2 - sims.samples.var(axis=0) * 20 / 18) > LIMIT).all()


class TestLogRatios:
    @staticmethod
    def balance(known, off=0.0):
        """Return a z-score of E[p / (p + q)] over q less E[q / (p + q)] over p, that is zero."""
        samples, theta = known.log_ratio_samples + off, known.log_ratio_theta + off
        return z_score(expit(samples).mean(axis=0) - expit(-theta))

    @pytest.mark.parametrize("n_dims", [2, 5])
    @pytest.mark.parametrize("flaw", sorted(set(FLAWS) - NO_RATIO - {"exact"}))
    def test_ratios_are_those_of_normalised_densities(self, flaw, n_dims):
        known = oracle(flaw, n_sims=4000, n_draws=19, n_dims=n_dims, rng=0)
        assert known.log_ratio_samples.shape == (19, 4000)
        assert known.log_ratio_theta.shape == (4000,)
        assert abs(self.balance(known)) < LIMIT

    def test_a_ratio_that_is_off_is_noticed(self):
        known = oracle("narrow", n_sims=4000, n_draws=19, rng=0)
        assert abs(self.balance(known, off=0.1)) > LIMIT

    @pytest.mark.parametrize("flaw", sorted(NO_RATIO))
    def test_some_flaws_have_none(self, flaw):
        known = oracle(flaw, n_sims=5, n_draws=3, rng=0)
        assert known.log_ratio_samples is None
        assert known.log_ratio_theta is None
        with pytest.raises(ValueError, match="no closed form: use `check` instead"):
            known.p_value()

    @pytest.mark.parametrize("flaw", ["narrow", "rounded", "half_ignored"])
    def test_the_simulations_are_those_of_the_zoo(self, flaw):
        size = {"n_sims": 7, "n_draws": 5, "n_dims": 3}
        ours, theirs = oracle(flaw, **size, rng=4).sims, zoo(flaw, **size, rng=4)
        for name in ("samples", "theta", "x"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


class TestTheOracle:
    def test_an_exact_posterior_leaves_nothing_to_find(self):
        assert oracle("exact", rng=0).p_value(rng=0) == 1

    @pytest.mark.parametrize("n_dims", [2, 10])
    @pytest.mark.parametrize("flaw", SUBTLE)
    def test_flaws_are_found_in_400_simulations(self, flaw, n_dims):
        known = oracle(flaw, n_sims=400, n_draws=50, n_dims=n_dims, rng=0)
        assert known.p_value(rng=0) <= 0.002

    def test_p_values_are_uniform_if_any_point_may_be_the_truth(self):
        n_sims, n_draws = 20, 9
        p = []
        for seed in range(1000):
            known = oracle("narrow", n_sims=n_sims, n_draws=n_draws, rng=seed)
            points = np.vstack([known.log_ratio_theta, known.log_ratio_samples])
            points = np.random.default_rng(seed).permuted(points, axis=0)
            known = replace(known, log_ratio_theta=points[0], log_ratio_samples=points[1:])
            p.append(known.p_value(n_swaps=19, rng=seed))
        counts = np.bincount(np.rint(20 * np.array(p)).astype(int), minlength=21)
        assert counts[0] == 0
        assert chisquare(counts[1:]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("flaw", sorted(FLAWS))
def test_a_flaw_needs_enough_parameters(flaw):
    fewest = FLAWS[flaw].fewest
    assert zoo(flaw, n_sims=5, n_draws=4, n_dims=fewest, rng=0).n_dims == fewest
    if fewest > 1:
        with pytest.raises(ValueError, match=f"`n_dims` must be at least {fewest} for the flaw '"):
            zoo(flaw, n_dims=fewest - 1)


@pytest.mark.parametrize(("n_dims", "n_data"), [(1, 200), (3, 200), (150, 600)])
def test_every_parameter_is_measured_by_several_of_many_data(n_dims, n_data):
    sims = zoo("half_ignored", n_sims=5, n_draws=4, n_dims=n_dims, rng=0)
    assert sims.x.shape == (5, n_data)

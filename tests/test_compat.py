"""The function of the reference package: called the same, without its faults."""

import numpy as np
import pytest
from scipy.stats import kstest

import tarpon
from tarpon.compat import get_tarp_coverage
from tarpon.problems import gaussian

FALSE_ALARM = 1e-6
SIMS = gaussian("correct", n_sims=300, n_draws=99, n_dims=2, rng=0)
DATA = SIMS.samples, SIMS.theta


def test_it_is_the_curve_of_tarp():
    ecp, alpha = get_tarp_coverage(*DATA, norm=True, num_alpha_bins=100, seed=5)
    curve = tarpon.tarp(SIMS, rng=5).curve
    np.testing.assert_allclose(alpha, curve.level, atol=1e-15)
    np.testing.assert_allclose(ecp, curve.ecp, atol=1e-12)


def test_arguments_may_come_by_position():
    by_position = get_tarp_coverage(*DATA, "random", "manhattan", 20, 7, True, True, 3)
    by_name = get_tarp_coverage(
        samples=DATA[0], theta=DATA[1], references="random", metric="manhattan",
        num_alpha_bins=20, num_bootstrap=7, norm=True, bootstrap=True, seed=3,
    )  # fmt: skip
    for ours, theirs in zip(by_position, by_name, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert by_position[0].shape == (7, 21)
    assert by_position[1].shape == (21,)


@pytest.mark.parametrize(("n_sims", "n_bins"), [(300, 30), (25, 2), (19, 10), (1, 10)])
def test_there_are_as_many_bins_as_tarp_takes_where_that_shows_anything(n_sims, n_bins):
    ecp, alpha = get_tarp_coverage(DATA[0][:, :n_sims], DATA[1][:n_sims], seed=0)
    assert ecp.shape == alpha.shape == (n_bins + 1,)
    assert (ecp[0], ecp[-1]) == (alpha[0], alpha[-1]) == (0, 1)
    assert (np.diff(ecp) >= 0).all()


@pytest.mark.parametrize("n_draws", [1, 3, 50])
def test_an_accurate_posterior_is_on_the_diagonal_at_any_number_of_draws(n_draws):
    sims = gaussian("correct", n_sims=20_000, n_draws=n_draws, n_dims=1, rng=1)
    ecp, alpha = get_tarp_coverage(sims.samples, sims.theta, num_alpha_bins=10, seed=0)
    atol = np.sqrt(np.log(2 * 9 / FALSE_ALARM) / (2 * sims.n_sims))  # Hoeffding, nine levels
    np.testing.assert_allclose(ecp, alpha, atol=atol)


class TestBootstrap:
    def test_curves_spread_as_those_of_new_simulations_would(self):
        ecp, alpha = get_tarp_coverage(*DATA, bootstrap=True, num_bootstrap=4000, seed=0)
        mean, _ = get_tarp_coverage(*DATA, seed=0)
        np.testing.assert_allclose(ecp.mean(axis=0), mean, atol=3e-3)
        # Coverage between two ranks is interpolated, which takes a little off the spread.
        expected = np.sqrt(mean * (1 - mean) / SIMS.n_sims)
        np.testing.assert_allclose(ecp.std(axis=0), expected, atol=2e-3)
        assert len(np.unique(ecp, axis=0)) == 4000
        assert alpha.shape == (31,)

    def test_a_seed_gives_the_same_curves_again(self):
        first, second = (get_tarp_coverage(*DATA, bootstrap=True, seed=1)[0] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        other, _ = get_tarp_coverage(*DATA, bootstrap=True, seed=2)
        assert (first != other).any()

    def test_arrays_and_global_state_are_left_alone(self):
        samples, theta = (numbers.copy() for numbers in DATA)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        for seed in (None, 3):
            get_tarp_coverage(samples, theta, bootstrap=True, seed=seed)
        assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
        np.testing.assert_array_equal(samples, DATA[0])
        np.testing.assert_array_equal(theta, DATA[1])


class TestScaling:
    @pytest.mark.parametrize("norm", [False, True])
    def test_random_references_are_where_the_parameters_are(self, norm):
        far = DATA[0] + 2.0**20, DATA[1] + 2.0**20
        here, there = (get_tarp_coverage(*data, norm=norm, seed=0)[0] for data in (DATA, far))
        np.testing.assert_allclose(here, there, atol=2 / SIMS.n_sims)

    def test_references_of_the_user_are_scaled_along(self):
        references = np.random.default_rng(0).normal(size=SIMS.theta.shape)
        units = np.array([2.0**10, 2.0**-10])
        here, _ = get_tarp_coverage(*DATA, references=references, norm=True, seed=0)
        there, _ = get_tarp_coverage(
            DATA[0] * units, DATA[1] * units, references=references * units, norm=True, seed=0
        )
        np.testing.assert_allclose(here, there, atol=2 / SIMS.n_sims)

    def test_exact_posteriors_of_lognormal_parameters_do_not_alarm(self):
        # The box of the truths alone fails this: see the migration page.
        f = []
        for seed in range(40):
            sims = gaussian("correct", n_sims=25, n_draws=49, n_dims=50, rng=seed)
            data = np.exp(sims.samples), np.exp(sims.theta)
            ecp, _ = get_tarp_coverage(*data, norm=True, num_alpha_bins=50, seed=seed)
            f.append(np.repeat(np.arange(50), np.round(25 * np.diff(ecp)).astype(int)))
        smooth = np.random.default_rng(0).uniform(size=1000)
        assert kstest((np.concatenate(f) + smooth) / 50, "uniform").pvalue > FALSE_ALARM


class TestErrors:
    def test_unknown_words_are_refused(self):
        with pytest.raises(ValueError, match=r"'euclidean', 'manhattan', but got 'cosine'"):
            get_tarp_coverage(*DATA, metric="cosine")
        with pytest.raises(ValueError, match=r"`references` must be one of 'random', but got"):
            get_tarp_coverage(*DATA, references="prior")

    def test_wrong_shapes_are_refused(self):
        with pytest.raises(ValueError, match=r"`samples` must be \(n_draws, 300, 2\)"):
            get_tarp_coverage(DATA[0][:, :10], DATA[1])
        with pytest.raises(ValueError, match=r"needs points of shape \(2,\) or \(300, 2\)"):
            get_tarp_coverage(*DATA, references=np.zeros((10, 2)))

    @pytest.mark.parametrize("wrong", [{"num_alpha_bins": 0}, {"num_bootstrap": 0}])
    def test_numbers_below_one_are_refused(self, wrong):
        with pytest.raises(ValueError, match=rf"`{next(iter(wrong))}` must be at least 1"):
            get_tarp_coverage(*DATA, bootstrap=True, **wrong)

    def test_nan_is_refused(self):
        theta = DATA[1].copy()
        theta[17, 0] = np.nan
        with pytest.raises(ValueError, match="first at index 17"):
            get_tarp_coverage(DATA[0], theta)

"""Level and power of the tests, end to end."""

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import bands
from tarpon.problems import conjugate, gaussian
from tarpon.references import Around

FALSE_ALARM = 1e-6
LEVELS = (0.01, 0.05, 0.1)
# Simulations, draws and parameters: every two of their numbers meet.
N_STUDIES = 200  # of every size
SIZES = [(20, 9, 5), (20, 99, 1), (100, 9, 1), (100, 99, 5), (500, 9, 5), (500, 99, 1)]


def study(test, n_sims, n_draws, n_dims, seed):
    """Return the p-value of a test on exact posteriors N(x/2, 1/2)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims))
    middle = (theta + rng.normal(size=theta.shape)) / 2
    z = rng.normal(size=(n_draws, *theta.shape))
    samples = middle + np.sqrt(0.5) * z
    if test is tarpon.hpd:
        return test(-0.5 * (z**2).sum(-1), -((theta - middle) ** 2).sum(-1), rng=seed).p_value
    return test(samples, theta, rng=seed).p_value


def attained(n_sims, n_draws, level):
    """Return the exact P(p ≤ level) of one curve; ranks are discrete, so it is a little less."""
    tails = bands._Tails(n_sims, bands._cut_points(n_draws), n_draws + 1)
    band = bands.band(n_sims, n_draws, 1 - level)
    low, high = (np.rint(n_sims * side[1:-1]).astype(int) for side in (band.low, band.high))
    return 1 - bands._curve_inside(tails, low, high)


def may_be(rates, n_studies):
    """Return the fewest and the most rejections of so many studies at each of several rates."""
    chances = np.ones(1)
    for rate in rates:
        chances = np.convolve(chances, binom.pmf(np.arange(n_studies + 1), n_studies, rate))
    share = FALSE_ALARM / (2 * len(LEVELS) * (len(SIZES) + 1))  # of every bound
    fewest = np.searchsorted(chances.cumsum(), share, side="right")
    most = len(chances) - 1 - np.searchsorted(chances[::-1].cumsum(), share, side="right")
    return fewest, most


@pytest.mark.slow
@pytest.mark.parametrize("test", [tarpon.tarp, tarpon.hpd, tarpon.sbc], ids=lambda t: t.__name__)
def test_exact_posteriors_are_rejected_at_the_level(test):
    """At every size, and over all sizes: 10.5 % of rejections in place of 5 % are then seen."""
    n_studies = N_STUDIES
    rejected, rates = np.zeros((2, len(SIZES), len(LEVELS)))
    for i, (n_sims, n_draws, n_dims) in enumerate(SIZES):
        seeds = range(i * n_studies, (i + 1) * n_studies)
        p = np.array([study(test, n_sims, n_draws, n_dims, seed) for seed in seeds])
        n_scores = n_dims if test is tarpon.sbc else 1
        for k, level in enumerate(LEVELS):
            # The parameters are independent here, so the familywise rate is known exactly too.
            rates[i, k] = 1 - (1 - attained(n_sims, n_draws, level / n_scores)) ** n_scores
            rejected[i, k] = (p <= level).sum()
    assert (rates <= LEVELS).all()
    for k in range(len(LEVELS)):
        for some in [*np.eye(len(SIZES), dtype=bool), np.ones(len(SIZES), dtype=bool)]:
            least, most = may_be(rates[some, k], n_studies)
            assert least <= rejected[some, k].sum() <= most


def test_rejections_of_another_level_are_out_of_bounds():
    for level, twin in [(0.01, 0.0425), (0.05, 0.105), (0.1, 0.17)]:
        _, most = may_be([level] * len(SIZES), N_STUDIES)
        assert binom.sf(most, N_STUDIES * len(SIZES), twin) > 0.9
        least, _ = may_be([twin] * len(SIZES), N_STUDIES)
        assert binom.cdf(least - 1, N_STUDIES * len(SIZES), level) > 0.9


@pytest.mark.parametrize("n_sims", [20, 100, 500])
@pytest.mark.parametrize("n_draws", [9, 99])
def test_the_attained_level_is_not_far_below_the_stated_one(n_sims, n_draws):
    for level in LEVELS:
        assert 0.6 * level < attained(n_sims, n_draws, level) <= level


@pytest.mark.parametrize("n_dims", [1, 2, 10, 100, pytest.param(1000, marks=pytest.mark.slow)])
class TestThePapersToy:
    def run(self, case, n_dims, seed=11):
        sims = gaussian(case, n_draws=100, n_dims=n_dims, dtype=np.float32, rng=seed)
        return tarpon.tarp(sims, rng=seed), tarpon.hpd(sims, rng=seed)

    def test_correct_posteriors_pass(self, n_dims):
        for result in self.run("correct", n_dims):
            assert result.p_value > FALSE_ALARM

    @pytest.mark.parametrize("case", ["overconfident", "underconfident"])
    def test_wrong_widths_are_found_by_both(self, case, n_dims):
        for result in self.run(case, n_dims):
            assert result.p_value < 1e-4
            assert case in result.verdict

    def test_bias_is_found_by_tarp_alone(self, n_dims):
        tarp, hpd = self.run("biased", n_dims)
        assert tarp.p_value < FALSE_ALARM
        assert "biased" in tarp.verdict
        assert hpd.p_value > FALSE_ALARM


def test_unknown_cases_are_refused():
    with pytest.raises(ValueError, match=r"`case` must be one of 'correct', .*but got 'perfect'"):
        gaussian("perfect")
    with pytest.raises(ValueError, match=r"`estimator` must be .*but got 'perfect'"):
        conjugate("perfect")


@pytest.mark.slow
def test_full_covariances_are_exact_too():
    sims = gaussian("correct", n_dims=20, n_sims=2000, full=True, rng=0)
    assert tarpon.tarp(sims, rng=0).p_value > FALSE_ALARM
    assert tarpon.hpd(sims, rng=0).p_value > FALSE_ALARM
    wrong = gaussian("overconfident", n_dims=20, full=True, rng=0)
    assert tarpon.tarp(wrong, rng=0).p_value < FALSE_ALARM


class TestTheUninformativeEstimator:
    offset = np.random.default_rng(5).uniform(size=(500, 1))

    def test_only_a_reference_that_follows_the_data_sees_it(self):
        sims = conjugate("prior", rng=0)
        assert tarpon.hpd(sims, rng=0).p_value > FALSE_ALARM
        assert tarpon.tarp(sims, rng=0).p_value > FALSE_ALARM
        seen = tarpon.tarp(sims, reference=Around(lambda x: x[:, :1] + self.offset), rng=0)
        assert seen.p_value < FALSE_ALARM

    def test_the_posterior_passes_all_three(self):
        sims = conjugate("posterior", rng=0)
        reference = Around(lambda x: x[:, :1] + self.offset)
        for result in (
            tarpon.hpd(sims, rng=0),
            tarpon.tarp(sims, rng=0),
            tarpon.tarp(sims, reference=reference, rng=0),
        ):
            assert result.p_value > FALSE_ALARM

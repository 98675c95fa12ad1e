"""What bias and width explain is not named again, and what they do not is."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import tarpon
from tarpon.checks.confounders import _MIDDLES, Shifted, chances
from tarpon.checks.flaws import Kind
from tarpon.problems import zoo

FALSE_ALARM = 1e-6


def resized(factor, shift=0.0, *, seed, n_dims=3, n_sims=300):
    """An exact posterior whose draws are scaled about their mean and shifted in one parameter."""
    exact = zoo("exact", n_dims=n_dims, n_sims=n_sims, n_draws=100, rng=seed)
    mean, sd = exact.samples.mean(axis=0), exact.samples.std(axis=0)
    draws = mean + factor * (exact.samples - mean)
    draws[..., 0] += shift * sd[..., 0]
    return tarpon.Simulations(draws, exact.theta, x=exact.x)


def kinds(sims, seed):
    check = tarpon.check(sims, rng=seed, n_swaps=199)
    return [finding.kind for finding in check.findings]


class TestShifted:
    @pytest.mark.parametrize("n_draws", [5, 100, 199])
    def test_chances_are_binomial(self, n_draws):
        wanted = binom.pmf(np.arange(n_draws + 1)[:, None], n_draws, ndtr(_MIDDLES))
        np.testing.assert_allclose(chances(n_draws), wanted, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.5, 1.7), (-1.0, 0.4), (3.0, 5.0)])
    def test_shifted_scores_have_mean_zero(self, shift, scale):
        ranks = Shifted.of(chances(60), np.array([shift]), np.array([scale]))
        assert ranks.share.sum() == pytest.approx(1)
        assert abs(ranks.means(ranks.share)).max() < 1e-9

    def test_shifted_ranks_are_those_of_shifted_truths(self):
        rng = np.random.default_rng(0)
        truths = rng.normal(size=(200_000, 1))
        draws = rng.normal(size=(200_000, 9))
        rank = (draws < 0.5 + 1.6 * truths).sum(axis=1)
        ranks = Shifted.of(chances(9), np.array([0.5]), np.array([1.6]))
        polynomials = np.hstack(
            [truths, truths**2 - 1, truths**3 - 3 * truths, truths**4 - 6 * truths**2 + 3]
        ) / np.sqrt([1, 2, 6, 24])
        for r in range(10):
            here = polynomials[rank == r]
            noise = here.std(axis=0) / np.sqrt(len(here))
            assert (abs(ranks.moments[:, r, 0] - here.mean(axis=0)) < 6 * noise).all()
            assert ranks.share[r, 0] == pytest.approx(
                len(here) / 200_000, abs=6 / np.sqrt(200_000)
            )
        assert ranks.outside(9) == pytest.approx(ranks.share[0] + ranks.share[9], rel=1e-6)

    def test_draws_like_the_truths_give_uniform_ranks(self):
        ranks = Shifted.of(chances(199), np.zeros(1), np.ones(1))
        assert ranks.share[:, 0] == pytest.approx(np.full(200, 1 / 200), rel=1e-3)

    def test_shift_is_fitted_to_the_ranks_that_it_made(self):
        shift, scale = np.array([0.0, 0.5, -1.0]), np.array([1.0, 2.0, 0.5])
        found = Shifted.fitted(chances(100), Shifted.of(chances(100), shift, scale).share)
        assert found.shift == pytest.approx(shift, abs=0.01)
        assert found.scale == pytest.approx(scale, abs=0.01)

    def test_truths_that_are_all_outside_have_an_end(self):
        found = Shifted.fitted(chances(9), np.eye(10, dtype=int)[:, 9:])
        assert np.isfinite(found.moments[:, 9]).all()


class TestFindings:
    @pytest.mark.slow
    @pytest.mark.parametrize(("factor", "shift"), [(0.5, 0.0), (0.7, 0.5), (1.5, 0.5)])
    def test_words_of_bias_and_width_are_alone(self, factor, shift):
        right = {Kind.OVERCONFIDENT if factor < 1 else Kind.UNDERCONFIDENT}
        if shift:
            right.add(Kind.BIASED)
        named = Counter(
            kind for seed in range(8) for kind in {*kinds(resized(factor, shift, seed=seed), seed)}
        )
        assert all(named[kind] == 8 for kind in right)
        # Five other kinds, each with a chance of a hundredth at most in a study.
        others = sum(count for kind, count in named.items() if kind not in right)
        assert others <= binom.isf(FALSE_ALARM, 8 * 5, 0.01)

    def test_words_of_another_flaw_stay(self):
        """The twin: here the truths are skewed, too."""
        sims = resized(0.7, seed=0)
        skew = np.random.default_rng(0).exponential(size=sims.n_sims) - 1
        theta, draws = sims.theta.copy(), sims.samples[..., 1]
        theta[:, 1] = draws.mean(axis=0) + 1.5 * draws.std(axis=0) * skew
        named = kinds(tarpon.Simulations(sims.samples, theta, x=sims.x), 0)
        assert Kind.OVERCONFIDENT in named
        assert Kind.SKEWED in named

    def test_words_of_draws_with_an_end_stay(self):
        sims = zoo("truncated", n_dims=3, n_sims=300, rng=0)
        check = tarpon.check(sims, rng=0, n_swaps=199)
        (outside,) = [finding for finding in check.findings if finding.kind is Kind.OUTSIDE]
        low, high = sims.samples.min(axis=0), sims.samples.max(axis=0)
        beyond = (sims.theta < low) | (sims.theta > high)
        assert outside.parameters == ("theta_0",)
        assert outside.size.value == beyond[:, 0].mean()
        assert outside.size.low > 4 * outside.expected == 4 * 2 / 101


def test_no_combination_is_named_along_which_truths_cannot_scatter():
    # Of 40 parameters, 30 truths span 30 combinations at most. The level is so high that exact
    # posteriors fail, by chance in the family of combinations.
    rng = np.random.default_rng(15)

    def rare(*shape):
        return np.where(rng.uniform(size=shape) < 0.03, rng.normal(size=shape), 0.0)

    check = tarpon.check(rare(19, 30, 40), rare(30, 40), rng=0, n_swaps=99, level=0.5)
    assert check.p_value < 0.5
    assert Kind.COMBINATION not in {finding.kind for finding in check.findings}


def shifted(n_dims, shift, *, seed, follows_x=False, correlated=0.0, n_sims=200):
    """An exact posterior whose draws are shifted in all parameters, by as much as `x` if asked."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky((1 - correlated) * np.eye(n_dims) + correlated)
    x = rng.normal(size=(n_sims, 1))
    points = x + 0.5 * rng.normal(size=(51, n_sims, n_dims)) @ root.T
    draws = points[1:] + 0.5 * shift * (x if follows_x else 1.0)
    return tarpon.Simulations(draws, points[0], x=x)


class TestTruthsAboutTheirMean:
    @pytest.mark.parametrize("shift", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
    def test_biases_of_many_parameters_are_nothing_else(self, shift):
        named = Counter(
            kind for seed in range(8) for kind in {*kinds(shifted(10, shift, seed=seed), seed)}
        )
        assert named.pop(Kind.BIASED) == 8
        # Five other kinds, each with a chance of a hundredth at most in a study.
        assert sum(named.values()) <= binom.isf(FALSE_ALARM, 8 * 5, 0.01)

    def test_correlations_of_biased_parameters_are_named_with_their_size(self):
        """The twin: here truths are correlated, and draws are not."""
        sims = shifted(4, 0.6, seed=0, correlated=0.6, n_sims=2000)
        alone = np.random.default_rng(1).permuted(sims.samples, axis=0)
        check = tarpon.check(alone, sims.theta, x=sims.x, n_swaps=199, rng=0)
        found = {finding.kind: finding for finding in check.findings}
        assert {Kind.BIASED, Kind.CORRELATION} <= found.keys()
        # Within 5.5 standard errors; about zero they would correlate by 0.71.
        assert found[Kind.CORRELATION].size.value == pytest.approx(0.6, abs=0.08)

    def test_correlations_that_draws_have_too_are_right_beside_a_bias(self):
        sims = shifted(3, 1.0, seed=1, correlated=0.5, n_sims=2000)
        for pair in tarpon.check(sims, n_swaps=199, rng=0).evidence.pairs.worst:
            assert pair.truths == pytest.approx(0.5, abs=0.1)  # 5.5 standard errors
            assert pair.draws == pytest.approx(0.5, abs=0.1)

    def test_biases_that_follow_the_same_data_are_no_wrong_correlation(self):
        sims = shifted(4, -0.6, seed=0, follows_x=True, n_sims=300)
        assert kinds(sims, 0)[0] is Kind.BIAS_BY_DATA
        assert not {Kind.CORRELATION, Kind.COMBINATION} & {*kinds(sims, 0)}

    @pytest.mark.parametrize("n_dims", [1, 4])
    def test_biases_that_follow_the_data_are_no_wrong_width(self, n_dims):
        named = Counter(
            kind
            for seed in range(8)
            for kind in {*kinds(shifted(n_dims, -0.6, seed=seed, follows_x=True), seed)}
        )
        assert named.pop(Kind.BIAS_BY_DATA) == 8
        # Four other kinds, each with a chance of a hundredth at most in a study.
        assert sum(named.values()) <= binom.isf(FALSE_ALARM, 8 * 4, 0.01)

    def test_and_neither_are_those_that_follow_posterior_means(self):
        rng = np.random.default_rng(0)
        theta = rng.normal(size=(400, 2))
        mean = (theta + 0.5 * rng.normal(size=theta.shape)) / 1.25
        draws = 1.3 * mean + np.sqrt(0.2) * rng.normal(size=(60, 400, 2))
        assert kinds(tarpon.Simulations(draws, theta), 0) == [Kind.BIAS_BY_DATA]

    @pytest.mark.parametrize("factor", [0.7, 1.4])
    def test_a_wrong_width_beside_such_a_bias_is_named(self, factor):
        """The twin: here draws are also too narrow, or so wide that the bias hardly shows."""
        sims = shifted(2, -0.6, seed=0, follows_x=True, n_sims=600)
        middle = sims.samples.mean(axis=0)
        draws = middle + factor * (sims.samples - middle)
        named = kinds(tarpon.Simulations(draws, sims.theta, x=sims.x), 0)
        width = Kind.OVERCONFIDENT if factor < 1 else Kind.UNDERCONFIDENT
        assert {*named} == {Kind.BIAS_BY_DATA, width}

    @pytest.mark.parametrize("sd", [5, 50])
    def test_of_truths_far_beyond_all_draws_nothing_else_is_said(self, sd):
        assert kinds(shifted(4, sd, seed=0), 0) == [Kind.BIASED]

    def test_but_of_other_parameters_it_is(self):
        """The twin: here two parameters among the draws are correlated, and not among truths."""
        sims = shifted(3, 0.0, seed=0, n_sims=400)
        draws = sims.samples.copy()
        draws[..., 0] += 5.0
        noise = draws - sims.x
        draws[..., 2] = sims.x[..., 0] + 0.6 * noise[..., 1] + 0.8 * noise[..., 2]
        named = kinds(tarpon.Simulations(draws, sims.theta, x=sims.x), 0)
        assert {*named} == {Kind.BIASED, Kind.CORRELATION}

    @pytest.mark.slow
    def test_patches_that_are_biased_have_no_wrong_width(self):
        named = Counter(
            finding.kind
            for seed in range(6)
            for finding in tarpon.check(
                tarpon.problems.field("biased_patch", shape=(5, 5, 5), n_draws=50, rng=seed),
                n_swaps=99,
                rng=0,
            ).findings
        )
        assert named.pop(Kind.BIASED) == 6
        assert sum(named.values()) <= binom.isf(FALSE_ALARM, 6 * 5, 0.01)

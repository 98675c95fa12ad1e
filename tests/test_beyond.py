"""What bias and width explain is not named again, and what they do not is."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom, norm

import tarpon
from tarpon.beyond import Cells
from tarpon.problems import zoo

FALSE_ALARM = 1e-6


def resized(factor, shift=0.0, *, seed, n_dims=3, n_sims=300):
    """An exact posterior whose draws are scaled about their mean and shifted in one parameter."""
    exact = zoo("exact", n_dims=n_dims, n_sims=n_sims, n_draws=200, rng=seed)
    mean, sd = exact.samples.mean(axis=0), exact.samples.std(axis=0)
    draws = mean + factor * (exact.samples - mean)
    draws[..., 0] += shift * sd[..., 0]
    return tarpon.Simulations(draws, exact.theta, x=exact.x)


def words(sims, seed):
    found = tarpon.check(sims, rng=seed, n_swaps=199)
    return [finding.flaw for finding in found.findings]


class TestCells:
    @pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.5, 1.7), (-1.0, 0.4), (3.0, 5.0)])
    def test_components_have_mean_zero_under_their_truths(self, shift, scale):
        cells = Cells.of(np.linspace(0, 1, 301), shift, scale)
        assert cells.share.sum() == pytest.approx(1)
        assert abs(cells.share @ cells.moments).max() < 1e-9

    def test_components_are_means_over_a_cell(self):
        levels = np.array([0.0, 0.2, 0.7, 1.0])
        truths = norm(0.3, 1.5).ppf((np.arange(400_000) + 0.5) / 400_000)
        cell = np.searchsorted(norm.ppf(levels[1:-1]), truths)
        z = (truths - 0.3) / 1.5
        polynomials = [z, z**2 - 1, z**3 - 3 * z, z**4 - 6 * z**2 + 3]
        cells = Cells.of(levels, 0.3, 1.5)
        for k, (values, size) in enumerate(zip(polynomials, [1, 2, 6, 24], strict=True)):
            means = [values[cell == c].mean() / np.sqrt(size) for c in range(3)]
            assert cells.moments[:, k] == pytest.approx(means, abs=1e-3)

    @pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.5, 2.0), (-1.0, 0.5)])
    def test_are_fitted_to_what_made_the_ranks(self, shift, scale):
        levels = np.linspace(0, 1, 102)
        expected = Cells.of(levels, shift, scale).share
        cells = Cells.fitted(levels, expected)
        assert cells.shift == pytest.approx(shift, abs=0.01)
        assert cells.scale == pytest.approx(scale, abs=0.01)

    def test_truths_that_are_all_in_one_cell_have_an_end(self):
        cells = Cells.fitted(np.linspace(0, 1, 11), np.eye(10, dtype=int)[9])
        assert np.isfinite(cells.moments[9]).all()


class TestWords:
    @pytest.mark.slow
    @pytest.mark.parametrize(("factor", "shift"), [(0.5, 0.0), (0.7, 0.5), (1.5, 0.5)])
    def test_of_bias_and_width_come_alone(self, factor, shift):
        right = {"overconfident" if factor < 1 else "underconfident"}
        if shift:
            right.add("biased")
        named = Counter(
            word for seed in range(12) for word in words(resized(factor, shift, seed=seed), seed)
        )
        assert all(named[word] == 12 for word in right)
        # Five other words, each with a chance of a hundredth at most in a study.
        others = sum(count for word, count in named.items() if word not in right)
        assert others <= binom.isf(FALSE_ALARM, 12 * 5, 0.01)

    def test_of_another_flaw_stay(self):
        """The twin: here the truths are skewed, too."""
        sims = resized(0.7, seed=0)
        skew = np.random.default_rng(0).exponential(size=sims.n_sims) - 1
        theta, draws = sims.theta.copy(), sims.samples[..., 1]
        theta[:, 1] = draws.mean(axis=0) + 1.5 * draws.std(axis=0) * skew
        found = words(tarpon.Simulations(sims.samples, theta, x=sims.x), 0)
        assert "overconfident" in found
        assert "skewed" in found

    def test_of_draws_with_an_end_stay(self):
        assert "outside the draws" in words(zoo("truncated", n_dims=3, n_sims=300, rng=0), 0)

"""Outliers: a few draws far away move no size, and are named where truths are too few of them."""

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon.checks import families, outliers
from tarpon.checks.flaws import Kind
from tarpon.gate import Gate

FAR = 100.0


def normal(n_sims, n_draws, *, share=0.0, width=1.0, n_dims=2, rng=0):
    """Return exact normal posteriors, with a share of the draws of the first parameter far off."""
    rng = np.random.default_rng(rng)
    theta = rng.normal(size=(n_sims, n_dims))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + width * np.sqrt(0.5) * rng.normal(size=(n_draws, n_sims, n_dims))
    far = rng.uniform(size=samples.shape[:2]) < share
    samples[far, 0] += FAR * rng.choice([-1, 1], size=far.sum())
    return tarpon.Simulations(samples, theta, x=x)


def heavy(n_sims, n_draws, rng):
    """Return exact posteriors with the tails of Student's t with two degrees of freedom."""
    rng = np.random.default_rng(rng)
    scale = np.exp(rng.normal(size=(n_sims, 1)))
    points = scale * rng.standard_t(2, size=(n_draws + 1, n_sims, 1))
    return tarpon.Simulations(points[1:], points[0], x=scale)


class TestSizes:
    def test_few_draws_move_no_size(self):
        """Seven draws in a thousand, 100 sd away: the same sizes as without them."""
        clean, found = (tarpon.check(normal(300, 200, share=q), rng=0) for q in (0.0, 0.007))
        assert found.outcome == "no evidence against"
        for right, one in zip(clean.parameters, found.parameters, strict=True):
            assert one.bias.value == pytest.approx(right.bias.value, abs=0.02)
            assert one.width.value == pytest.approx(right.width.value, rel=0.02)
            assert one.recovery == pytest.approx(right.recovery, abs=0.01)
        assert found.detectable.bias == pytest.approx(clean.detectable.bias, rel=0.2)
        assert not Gate(max_bias=0.3, max_width_error=0.2).failures(found)

    def test_they_are_warned_of_with_the_truths_that_are(self):
        found = tarpon.check(normal(300, 200, share=0.007), rng=0)
        (said,) = (said for said in found.warnings if "interquartile" in said)
        assert said.startswith("0.75% of the draws of theta_0 lie beyond 10 of their own")
        assert "in 76% of the posteriors, and 0 of 300 truths do (expected: 2.2)" in said
        clean = tarpon.check(normal(300, 200), rng=0)
        assert not any("interquartile" in said for said in clean.warnings)

    def test_truths_far_from_all_draws_still_count(self):
        """Draws that are 30 times too narrow have no outliers, so no truth is left out."""
        width = tarpon.check(normal(300, 200, width=1 / 30), rng=0).parameters[0].width
        assert width.low < 30 < width.high

    def test_weights_are_repeated_draws(self):
        sims = normal(40, 100, share=0.01)
        draws = np.asarray(sims.samples)
        weights = np.random.default_rng(0).integers(1, 4, size=draws.shape[:2])
        for k in range(5):
            twice = np.repeat(draws[:, k : k + 1], weights[:, k], axis=0)
            one, other = (
                outliers.Windows.of(points, points.mean(axis=0), points.std(axis=0), by)
                for points, by in ((draws[:, k : k + 1], weights[:, k : k + 1]), (twice, None))
            )
            far = abs(draws[:, k, 0] - np.median(draws[:, k, 0])) > FAR / 2
            assert ((one.distance(draws[:, k : k + 1]) > 1).any(axis=1) == far).all()
            assert len(other.sims) == len(one.sims)
            np.testing.assert_allclose(one.middle, other.middle, atol=0.05)
            np.testing.assert_allclose(one.reach, other.reach, rtol=0.1)

    def test_points_that_are_mostly_equal_have_no_window(self):
        points = np.zeros((100, 1, 1))
        points[:2] = 5.0
        windows = outliers.Windows.of(points, points.mean(axis=0), points.std(axis=0), None)
        assert not (windows.distance(points) > 1).any()


class TestFinding:
    def test_named_where_truths_are_too_few(self):
        """Of 2000 truths 14 should be outliers; that none is has a probability of 1e-6."""
        found = tarpon.check(normal(2000, 200, share=0.007), rng=0)
        (finding,) = found.findings
        assert finding.kind is Kind.OUTLIERS
        assert finding.parameters == ("theta_0",)
        assert finding.size.high < finding.expected == pytest.approx(0.007, abs=0.0005)
        assert str(finding) == (
            "outliers in theta_0: 0.69% of the draws lie beyond 10 of their own interquartile "
            "widths, in 74% of the posteriors, and 0.0% [0.0%, 0.2%] of the truths do; means and "
            "sds of such draws are wrong"
        )
        assert not any("interquartile" in said for said in found.warnings)

    def test_truths_that_are_outliers_are_no_fault_of_the_draws(self):
        """The twin: as many truths as draws, which is what accurate posteriors have."""
        sims = normal(2000, 200, share=0.007)
        theta = np.array(sims.theta)
        theta[:14, 0] += FAR
        found = tarpon.check(np.asarray(sims.samples), theta, x=sims.x, rng=0)
        assert not any(finding.kind is Kind.OUTLIERS for finding in found.findings)
        (said,) = (said for said in found.warnings if "interquartile" in said)
        assert "14 of 2000 truths do (expected: 13.8)" in said

    @pytest.mark.slow
    @pytest.mark.usefixtures("nothing_planted")
    def test_level_of_the_family(self):
        """At 10 % in 150 exact studies with heavy tails, within limits of 1e-6."""
        p_values = []
        for seed in range(150):
            check = tarpon.check(heavy(60, 30, seed), n_swaps=19, rng=seed)
            p_values += [one.p_value for one in check.families if one.name == "outliers"]
        assert len(p_values) > 135
        n_small = int((np.array(p_values) <= 0.1).sum())
        low, high = binom.ppf([5e-7, 1 - 5e-7], len(p_values), 0.1)
        assert low <= n_small <= high

    def test_there_is_no_family_without_outliers(self):
        assert not outliers.are_there(normal(300, 200))
        assert outliers.are_there(normal(300, 200, share=0.007))
        assert "outliers" in families.SEES
        names = [family.name for family in tarpon.check(normal(300, 200), rng=0).families]
        assert "outliers" not in names

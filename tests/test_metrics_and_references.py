"""What single metrics and references promise, and how they refuse."""

import numpy as np
import pytest

import tarpon
from tarpon import Simulations, metrics, references

RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(40, 2)) * [1.0, 1000.0]
SIMS = Simulations(THETA + RNG.normal(size=(30, 40, 2)) * [0.1, 100.0], THETA, x=THETA)


def points(reference):
    return reference.draw(SIMS, np.random.default_rng(1))


class TestReferences:
    def test_uniform_fills_the_box_or_its_part(self):
        low, high = SIMS.box
        assert (
            (points(references.Uniform()) >= low) & (points(references.Uniform()) <= high)
        ).all()
        half = points(references.Uniform(part=(0.0, 0.5)))
        assert (half <= (low + high) / 2).all()
        own = points(references.Uniform(low=[0, 0], high=[1, 2]))
        assert (own.max(axis=0) <= [1, 2]).all()
        with pytest.raises(ValueError, match="`low` must not exceed `high`"):
            points(references.Uniform(low=1.0, high=0.0))

    def test_normal_stands_at_the_centre_of_the_box(self):
        drawn = points(references.Normal(sd=0.0))
        np.testing.assert_allclose(drawn, np.broadcast_to(np.mean(SIMS.box, axis=0), (40, 2)))

    def test_fixed_accepts_one_point_or_one_per_simulation(self):
        assert points(references.Fixed([1.0, 2.0])).shape == (40, 2)
        assert points(references.Fixed(np.ones((40, 2)))).shape == (40, 2)
        with pytest.raises(ValueError, match=r"shape \(2,\) or \(40, 2\), but got \(3,\)"):
            points(references.Fixed([1.0, 2.0, 3.0]))
        assert repr(references.Fixed(np.ones((40, 2)))) == "Fixed(points of shape (40, 2))"

    def test_prior_refuses_the_truths_under_test(self):
        with pytest.raises(ValueError, match="`Prior` contains simulations that are under test"):
            points(references.Prior(THETA))
        assert points(references.Prior(THETA + 1e-9)).shape == (40, 2)
        assert points(references.Prior(lambda n, rng: rng.normal(size=(n, 2)))).shape == (40, 2)
        with pytest.raises(ValueError, match=r"points of shape \(n, 2\), but got \(5, 3\)"):
            points(references.Prior(np.ones((5, 3))))
        assert repr(references.Prior(np.ones((5, 2)))) == "Prior(points of shape (5, 2))"
        assert repr(references.Prior(len)) == "Prior(sampler)"

    def test_posterior_holds_a_draw_out(self):
        result = tarpon.tarp(SIMS, reference=references.Posterior(), rng=0)
        assert result.ranks.n_draws == 29
        with pytest.raises(ValueError, match="leaves none to rank"):
            tarpon.tarp(np.ones((1, 5, 1)), np.ones((5, 1)), reference=references.Posterior())

    def test_centre_treats_truth_and_draws_alike(self):
        pooled = np.concatenate([SIMS.theta[None], SIMS.samples])
        np.testing.assert_allclose(points(references.Centre()), pooled.mean(axis=0))

    def test_around_reads_the_observations(self):
        np.testing.assert_array_equal(points(references.Around(lambda x: x)), THETA)
        with pytest.raises(ValueError, match="`Around` reads the observations: pass `x=`"):
            tarpon.tarp(SIMS.samples, THETA, reference=references.Around(lambda x: x))

    def test_a_reference_may_be_any_object_that_draws(self):
        class Origin:
            def draw(self, sims, rng):
                return np.zeros(sims.theta.shape)

        assert 0 < tarpon.tarp(SIMS, reference=Origin(), rng=0).p_value <= 1

    @pytest.mark.parametrize(
        ("bad", "text"),
        [(np.zeros(3), "one point per simulation"), (np.full((40, 2), np.nan), "finite")],
    )
    def test_bad_reference_points_are_refused(self, bad, text):
        class Bad:
            def draw(self, sims, rng):
                return bad

        with pytest.raises(ValueError, match=text):
            tarpon.tarp(SIMS, reference=Bad())


class TestMetrics:
    a, b = np.array([1.0, 2.0]), np.array([4.0, -2.0])

    def test_formulas_of_metrics(self):
        assert metrics.L2()(self.a, self.b) == 25
        assert metrics.L2(scale=[3.0, 4.0])(self.a, self.b) == 2
        assert metrics.L1()(self.a, self.b) == 7
        assert metrics.Lp(2)(self.a, self.b) == 25
        assert metrics.Weighted([2.0, 1.0])(self.a, self.b) == 34
        assert metrics.Periodic(5.0)(self.a, self.b) == 4 + 1
        assert metrics.Periodic([np.inf, 5.0])(self.a, self.b) == 9 + 1
        assert metrics.Mahalanobis(np.diag([9.0, 16.0]))(self.a, self.b) == pytest.approx(2)
        assert metrics.Sphere()(np.array([0.0, 0.0]), np.array([np.pi, 0.0])) == pytest.approx(1)

    def test_scale_comes_from_the_box_unless_it_is_given(self):
        np.testing.assert_array_equal(metrics.L2().fit(SIMS).scale, SIMS.width())
        assert metrics.L1(scale=2.0).fit(SIMS).scale == 2.0
        fitted = metrics.Periodic([360.0, np.inf]).fit(SIMS)
        np.testing.assert_array_equal(fitted.scale, [360.0, SIMS.width()[1]])

    def test_mahalanobis_leaves_flat_directions_out(self):
        flat = metrics.Mahalanobis([[1.0, 1.0], [1.0, 1.0]])
        assert flat(np.array([1.0, -1.0]), np.zeros(2)) == pytest.approx(0, abs=1e-9)
        assert flat(np.array([1.0, 1.0]), np.zeros(2)) == pytest.approx(1)

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda: metrics.L2(scale=0.0), "`scale` must be positive"),
            (lambda: metrics.Lp(-1), "`p` must be positive"),
            (lambda: metrics.Weighted([-1.0]), "`weights` must be finite and not negative"),
            (lambda: metrics.Periodic(0.0), "`period` must be positive"),
            (lambda: metrics.Mahalanobis([1.0, 2.0]), "must be a square matrix"),
            (lambda: metrics.Sphere()(np.zeros(3), np.zeros(3)), "got 3 parameters"),
        ],
    )
    def test_wrong_settings_of_metrics_are_refused(self, make, text):
        with pytest.raises(ValueError, match=text):
            make()

    def test_a_callable_metric_gets_parameter_units_and_must_reduce_the_last_axis(self):
        seen = []

        def metric(a, b):
            seen.append(abs(a).max())
            return abs(a - b).max(-1)

        tarpon.tarp(SIMS, metric=metric, rng=0)
        assert max(seen) > 100
        with pytest.raises(ValueError, match="must reduce the last axis alone"):
            tarpon.tarp(SIMS, metric=lambda a, b: abs(a - b).sum(axis=(0, -1)), rng=0)
        with pytest.raises(ValueError, match="finite numbers, but some are NaN"):
            tarpon.tarp(SIMS, metric=lambda a, b: (a - b).sum(-1) * np.nan, rng=0)


def test_covariances_count_draws_by_their_weight():
    """Weighted draws of N(0, 2²) are draws of N(0, 1): their variance is off by 0.4 % or so."""
    rng = np.random.default_rng(0)
    theta, samples = rng.normal(size=(2000, 2)), rng.normal(size=(200, 2000, 2))
    weights = [-0.375 * (points**2).sum(-1) for points in (2 * samples, theta)]
    weighted = Simulations(
        2 * samples, theta, log_weights=weights[0], log_weights_theta=weights[1]
    )
    for sims, factor in ((weighted, 1), (Simulations(2 * samples, theta), 1 / 4)):
        ours, theirs = (
            metrics.fit(metrics.Mahalanobis(), one)(np.eye(2), np.zeros(2))
            for one in (sims, Simulations(samples, theta))
        )
        np.testing.assert_allclose(ours, factor * theirs, rtol=0.04)


def test_several_references_give_several_curves():
    sims = tarpon.problems.gaussian("biased", n_sims=200, n_dims=5, rng=0)
    result = tarpon.tarp(sims, reference=references.Several(references.Uniform(), n=4), rng=0)
    assert result.ranks.values.shape == (200, 4)
    assert result.names == ("reference 0", "reference 1", "reference 2", "reference 3")
    assert result.p_value == pytest.approx(min(1, 4 * result.p_values.min()))
    assert "in 4 of 4 references, worst in reference" in result.verdict
    points = references.Several(n=4).draw(sims, np.random.default_rng(1))
    metric = metrics.L2(sims.width())
    both = tarpon.tarp(sims, reference=references.Fixed(points[:, 2]), metric=metric, rng=0)
    region = tarpon.regions.Balls(points, metric)
    below, _ = region.count(sims)
    np.testing.assert_array_equal(below[:, 2], both.ranks.values)
    slow = tarpon.tarp(sims, metric=lambda a, b: ((a - b) ** 2).sum(-1),
                       reference=references.Several(n=3), rng=0)  # fmt: skip
    assert slow.ranks.values.shape == (200, 3)
    with pytest.raises(ValueError, match="cannot wrap a reference that holds draws out"):
        tarpon.tarp(sims, reference=references.Several(references.Posterior()), rng=0)

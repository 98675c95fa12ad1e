"""What must hold for every region, metric, reference and backend."""

import numpy as np
import pytest
from scipy.stats import chisquare

import tarpon
from tarpon import Simulations, metrics, references
from tarpon.ranks import rank
from tarpon.regions import Balls, Fit, HalfLines, HighestDensity, Scores, count

FALSE_ALARM = 1e-6  # of each statistical test, should a seed or a stream ever change

METRICS = {
    "L2": metrics.L2(),
    "L1": metrics.L1(),
    "Lp": metrics.Lp(3.0),
    "maximum": metrics.Lp(np.inf),
    "Weighted": metrics.Weighted([1.0, 3.0]),
    "Periodic": metrics.Periodic([np.inf, 8.0]),
    "Mahalanobis": metrics.Mahalanobis(),
    "Sphere": metrics.Sphere(),
    "callable": lambda a, b: abs(a - b).min(-1),
}
REFERENCES = {
    "Uniform": references.Uniform(),
    "half": references.Uniform(part=(0.0, 0.5)),
    "Normal": references.Normal(),
    "Fixed": references.Fixed([0.1, 0.2]),
    "Prior": references.Prior(lambda n, rng: rng.normal(size=(n, 2))),
    "Posterior": references.Posterior(),
    "Centre": references.Centre(),
    "Around": references.Around(lambda x: x, spread=0.1),
}


def exact(n_sims=400, n_draws=20, seed=0, n_dims=2):
    """Truths and draws of the same posterior, N(x/2, 1/2)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *theta.shape))
    return samples, theta, x


def tarp_ranks(samples, theta, x=None, **more):
    return tarpon.tarp(samples, theta, x=x, rng=0, **more).ranks.values


every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
every_reference = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)


def regions(sims, rng):
    log_prob = lambda theta, x: (theta**2).sum(axis=-1)  # noqa: E731
    yield "half-lines", HalfLines()
    yield "scores", Scores(log_prob)
    yield "density", HighestDensity()
    yield "fit", Fit(lambda theta: theta**3 - theta)
    for name, metric in METRICS.items():
        yield name, Balls.at(references.Uniform(), metric, sims, rng)[0]


def every_region(samples, theta, x):
    density = -0.5 * ((samples - x / 2) ** 2).sum(-1), -0.5 * ((theta - x / 2) ** 2).sum(-1)
    sims = Simulations(samples, theta, x=x, log_prob_samples=density[0], log_prob_theta=density[1])
    return sims, list(regions(sims, np.random.default_rng(1)))


def test_exact_posteriors_rank_uniformly_in_every_region():
    sims, named = every_region(*exact(n_sims=4000, n_draws=7))
    for name, region in named:
        values = rank(sims, region, np.random.default_rng(2)).values.reshape(4000, -1)
        for column in values.T:
            assert chisquare(np.bincount(column, minlength=8)).pvalue > FALSE_ALARM, name


@every_metric
@every_reference
def test_exact_posteriors_rank_uniformly_for_every_reference(reference, metric):
    samples, theta, x = exact(n_sims=4000, n_draws=8, seed=3)
    result = tarpon.tarp(samples, theta, x=x, reference=reference, metric=metric, rng=4)
    counts = np.bincount(result.ranks.values, minlength=result.ranks.n_draws + 1)
    assert chisquare(counts).pvalue > FALSE_ALARM


@every_reference
def test_wrong_widths_are_seen_from_every_reference(reference):
    samples, theta, x = exact(n_sims=4000, n_draws=50)
    middle = x / 2
    result = tarpon.tarp(middle + 0.5 * (samples - middle), theta, x=x, reference=reference, rng=0)
    assert result.p_value < FALSE_ALARM


def test_copies_of_the_truth_rank_uniformly_in_every_region():
    theta = np.random.default_rng(0).standard_normal((20_000, 2))
    sims, named = every_region(np.repeat(theta[None], 4, axis=0), theta, theta)
    for name, region in named:
        ranks = rank(sims, region, np.random.default_rng(1)).values.reshape(20_000, -1)
        for column in ranks.T:
            assert chisquare(np.bincount(column, minlength=5)).pvalue > FALSE_ALARM, name


@every_metric
def test_the_order_of_draws_is_forgotten(metric):
    samples, theta, _x = exact()
    shuffled = np.random.default_rng(5).permutation(samples, axis=0)
    np.testing.assert_array_equal(
        tarp_ranks(samples, theta, metric=metric), tarp_ranks(shuffled, theta, metric=metric)
    )


@every_metric
def test_a_simulation_does_not_depend_on_the_others_once_its_scale_is_given(metric):
    samples, theta, _x = exact()
    fixed = references.Fixed([0.3, -0.2])
    metric = metrics.fit(metric, Simulations(samples, theta))
    some = tarp_ranks(samples[:, :50], theta[:50], metric=metric, reference=fixed)
    np.testing.assert_array_equal(
        some, tarp_ranks(samples, theta, metric=metric, reference=fixed)[:50]
    )


@pytest.mark.parametrize("name", ["L2", "L1", "Lp", "maximum", "Weighted", "Mahalanobis"])
@pytest.mark.parametrize(
    "reference", ["Uniform", "half", "Normal", "Posterior", "Centre", "Fixed"]
)
def test_a_change_of_units_changes_no_rank(name, reference):
    samples, theta, _x = exact()
    scale, shift = np.array([1e-6, 4e5]), np.array([3.0, -1e6])
    move = lambda points: points * scale + shift  # noqa: E731
    there = references.Fixed([0.3, -0.2]) if reference == "Fixed" else REFERENCES[reference]
    here = references.Fixed(move(np.array([0.3, -0.2]))) if reference == "Fixed" else there
    # A shift that is large against the width rounds the points, so a few near-ties may turn.
    before = tarp_ranks(samples, theta, metric=METRICS[name], reference=there)
    after = tarp_ranks(move(samples), move(theta), metric=METRICS[name], reference=here)
    assert (before != after).mean() < 0.005
    assert abs(before - after).max() <= 1


def test_angles_may_be_given_in_any_unit_and_turn():
    samples, theta, _ = exact(n_dims=1)
    degrees = tarp_ranks(samples, theta, metric=metrics.Periodic(8.0),
                         reference=references.Fixed([0.5]))  # fmt: skip
    turned = tarp_ranks(samples * 45 + 360, theta * 45, metric=metrics.Periodic(360.0),
                        reference=references.Fixed([22.5]))  # fmt: skip
    np.testing.assert_array_equal(degrees, turned)


def test_balls_do_not_see_rotations():
    samples, theta, x = exact()
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    metric = metrics.L2(scale=1.0)
    before = tarp_ranks(samples, theta, x, metric=metric, reference=references.Around(lambda x: x))
    after = tarp_ranks(samples @ turn, theta @ turn, x @ turn, metric=metric,
                       reference=references.Around(lambda x: x))  # fmt: skip
    np.testing.assert_array_equal(before, after)


def test_half_lines_do_not_see_monotone_maps():
    samples, theta, _ = exact()
    np.testing.assert_array_equal(
        tarpon.sbc(samples, theta, rng=0).ranks.values,
        tarpon.sbc(np.exp(samples), np.exp(theta), rng=0).ranks.values,
    )


def test_blocks_change_nothing(monkeypatch):
    sims, named = every_region(*exact())
    assert len(list(sims.blocks())) == 1
    whole = {name: count(region, sims) for name, region in named}
    monkeypatch.setattr("tarpon.simulations.passes._BLOCK_BYTES", 1)
    assert len(list(sims.blocks())) == sims.n_sims
    for name, region in named:
        np.testing.assert_array_equal(whole[name], count(region, sims), err_msg=name)


def test_fused_counts_are_those_of_the_scores():
    sims, named = every_region(*exact(n_draws=101))
    regions = dict(named)
    fused = {name for name, metric in METRICS.items() if isinstance(metric, metrics.Fused)}
    assert fused == {"L2", "L1", "Weighted", "Periodic"}
    for name in ("half-lines", "density", *fused):
        below, equal = regions[name].count(sims)
        slow = count(regions[name], sims)
        assert (below != slow[0]).sum() <= 1, name
        np.testing.assert_array_equal(equal, slow[1])

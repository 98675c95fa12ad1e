"""The fit of draws to the data: exact, in parts of the data, for any forward model."""

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations, bases
from tarpon.checks.flaws import Kind
from tarpon.problems import field
from tarpon.regions import Fit

FALSE_ALARM = 1e-6
GRID = np.linspace(-3, 3, 301)
PARTS = bases.Regions([0, 0, 0, 1, 1, 1])


def forward(theta):
    """Return six data of a parameter, three of which see its square only."""
    return np.concatenate([theta**2 * [0.5, 1.0, 1.5], np.sin(theta) * [1.0, 2.0, 3.0]], axis=-1)


def study(seed, n_sims=30, n_draws=19, *, noise=0.5, used=6, assumed=0.5):
    """Return draws of posteriors on a grid, which are exact, or see less data or other noise."""
    rng = np.random.default_rng(seed)
    weight = np.exp(-(GRID**2) / 2)
    theta = rng.choice(GRID, p=weight / weight.sum(), size=(n_sims, 1))
    x = forward(theta) + noise * rng.normal(size=(n_sims, 6))
    gaps = (x[:, None] - forward(GRID[:, None])[None])[..., :used]
    posterior = np.exp(-(gaps**2).sum(axis=-1) / (2 * assumed**2)) * weight
    rows = [rng.choice(GRID, p=p / p.sum(), size=n_draws) for p in posterior]
    return Simulations(np.transpose(rows)[..., None], theta, x=x)


def p_of_fit(seed, **given):
    scores = {"fit": Fit(forward, noise=0.5, basis=PARTS)}
    check = tarpon.check(study(seed, **given), scores=scores, n_swaps=19, level=0.2, rng=seed)
    return next(family.p_value for family in check.families if family.name == "score: fit")


@pytest.mark.usefixtures("nothing_planted")
def test_the_level_of_the_fit_of_a_nonlinear_model_is_exact():
    n = 100
    p = np.array([p_of_fit(seed) for seed in range(n)])
    for level in (0.1, 0.2, 0.5, 0.8):
        low, high = binom.ppf([FALSE_ALARM / 8, 1 - FALSE_ALARM / 8], n, level)
        assert low <= (p <= level + 1e-9).sum() <= high


@pytest.mark.usefixtures("nothing_planted")
def test_posteriors_that_use_less_data_fit_worse():
    assert sum(p_of_fit(seed, used=3) <= 0.05 for seed in range(20)) >= 18


def test_data_that_are_not_used_are_named():
    scores = {"fit": Fit(forward, noise=0.5, basis=PARTS)}
    check = tarpon.check(study(0, n_sims=200, used=3), scores=scores, n_swaps=199, rng=0)
    finding = next(finding for finding in check.findings if finding.kind is Kind.FIT)
    assert (finding.where, finding.direction) == ("region 1", "worse")
    assert finding.size.low > 3
    said = "the draws fit the data worse than the truths (region 1): their chi² is "
    assert str(finding).startswith(said)
    assert finding.page == "docs/flaws/fit.md"


def test_draws_that_assume_little_noise_fit_better():
    sims = study(1, n_sims=300, n_draws=60, assumed=0.2)
    check = tarpon.check(sims, scores={"fit": Fit(forward)}, n_swaps=199, rng=0)
    finding = next(finding for finding in check.findings if finding.kind is Kind.FIT)
    assert (finding.where, finding.direction) == (None, "better")
    assert finding.size.high < 1


def same(theta):
    return theta


@pytest.mark.parametrize("shape", [(12, 12), (40, 40)])
def test_fields_that_ignore_small_scales_of_the_data_are_seen_by_their_fit_alone(shape):
    sims = field("data_unused", shape=shape, n_sims=100, n_draws=20, rng=2)
    check = tarpon.check(sims, scores={"fit": Fit(same)}, n_swaps=99, rng=2)
    (finding,) = check.findings
    assert (finding.kind, finding.where) == (Kind.FIT, "scales below 4 cells")
    assert tarpon.check(sims, n_swaps=99, rng=2).p_value > 0.01
    exact = field(shape=shape, n_sims=100, n_draws=20, rng=2)
    assert tarpon.check(exact, scores={"fit": Fit(same)}, n_swaps=99, rng=2).p_value > 0.01


def test_fits_are_computed_once_for_every_point():
    seen = []

    def counted(theta):
        seen.append(theta.shape[0] * theta.shape[1])
        return theta

    for shape in ((8, 8), (40, 40)):
        sims = field(shape=shape, n_sims=20, n_draws=9, rng=2)
        tarpon.check(sims, scores={"fit": Fit(counted)}, n_swaps=99, rng=2)
        assert sum(seen) == 20 * 10
        seen.clear()


def test_truths_and_draws_are_scored_alike():
    sims = study(3, n_sims=5)
    samples, theta = sims.samples.copy(), sims.theta.copy()
    samples[4], theta[:] = sims.theta, sims.samples[4]
    other = Simulations(samples, theta, x=sims.x)
    one, two = (next(iter(each.blocks())) for each in (sims, other))
    assert np.allclose(
        np.sort(Fit(forward).scores(one), axis=0), np.sort(Fit(forward).scores(two), axis=0)
    )


def test_stored_and_weighted_draws(tmp_path):
    sims = study(4, n_sims=60, used=3)
    scores = {"fit": Fit(forward, noise=0.5, basis=PARTS)}
    for name in ("samples", "theta", "x"):
        np.save(tmp_path / f"{name}.npy", np.asarray(getattr(sims, name)))
    stored = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("samples", "theta"))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    here, there = (
        tarpon.check(each, scores=scores, n_swaps=99, rng=4)
        for each in (sims, Simulations(*stored, x=x))
    )
    assert here.findings == there.findings
    weights = np.where(np.arange(19) < 12, 0.0, -np.inf)[:, None] + np.zeros((19, 60))
    weighted = Simulations(
        sims.samples, sims.theta, x=sims.x, log_weights=weights, log_weights_theta=np.zeros(60)
    )
    check = tarpon.check(weighted, scores=scores, n_swaps=99, rng=4)
    assert Kind.FIT in {finding.kind for finding in check.findings}


def test_many_predictions_are_made_a_few_at_a_time(monkeypatch):
    sims = study(5)
    whole = Fit(forward).scores(next(iter(sims.blocks())))
    monkeypatch.setattr(tarpon.regions, "_MOST_PREDICTED", 500)
    assert np.array_equal(Fit(forward).scores(next(iter(sims.blocks()))), whole)


def test_without_observations_there_is_nothing_to_fit():
    sims = Simulations(np.zeros((9, 20, 2)) + np.arange(9)[:, None, None], np.zeros((20, 2)))
    with pytest.raises(ValueError, match="`Fit` reads the observations"):
        tarpon.check(sims, scores={"fit": Fit(same)}, n_swaps=99, rng=0)

"""Comparing estimators on the same simulations: exact, proper, and in words."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom

import tarpon
from tarpon.checks import comparing, words
from tarpon.checks.comparing import Energy, Scores, fingerprint, paired, ranked
from tarpon.problems import zoo

FALSE_ALARM = 1e-6
LEVEL, N_STUDIES, N_FLIPS = 0.05, 4000, 19


def per_study(rng, n_sims=12, n_dims=4):
    """Return scores by parameter of two equal estimators, `(2, n_sims, n_dims)`.

    Simulations differ in difficulty, scores have heavy tails, and parameters are wrong together.
    """
    hard = 10 * rng.exponential(size=(1, n_sims, 1))
    together = rng.standard_t(3, size=(2, n_sims, 1))
    return hard + together + 0.1 * rng.normal(size=(2, n_sims, n_dims))


def p_of(statistic, of_flip):
    """Return the p-value of a statistic among those of random exchanges."""
    return (1 + sum(of_flip() >= statistic for _ in range(N_FLIPS))) / (N_FLIPS + 1)


def by_parameter(scores, rng):
    """The first twin: exchanges the parameters of a simulation independently."""
    gap = scores[1] - scores[0]
    return p_of(abs(gap.sum()), lambda: abs((rng.choice([-1, 1], size=gap.shape) * gap).sum()))


def unpaired(scores, rng):
    """The second twin: shuffles the scores of all simulations."""
    pool, n = scores.sum(axis=2).ravel(), scores.shape[1]

    def gap(values):
        return abs(values[:n].sum() - values[n:].sum())

    return p_of(gap(pool), lambda: gap(rng.permutation(pool)))


def of_simulations(scores, rng):
    return paired(*scores.sum(axis=2), n_flips=N_FLIPS, rng=rng).p_value


@cache
def n_alarms(test):
    rng = np.random.default_rng(0)
    return sum(test(per_study(rng), rng) <= LEVEL for _ in range(N_STUDIES))


def test_equal_estimators_differ_at_the_level():
    """Outside of these ends in less than 2e-6 of all streams of random numbers."""
    least, most = (
        binom.ppf(FALSE_ALARM, N_STUDIES, LEVEL),
        binom.isf(FALSE_ALARM, N_STUDIES, LEVEL),
    )
    assert least <= n_alarms(of_simulations) <= most


def test_tests_that_forget_the_pairs_or_split_simulations_miss_the_level():
    assert n_alarms(by_parameter) > binom.isf(FALSE_ALARM, N_STUDIES, LEVEL)
    assert n_alarms(unpaired) < binom.ppf(FALSE_ALARM, N_STUDIES, LEVEL)


def test_a_better_estimator_is_found_and_its_gain_is_measured():
    rng = np.random.default_rng(0)
    hard, noise = 10 * rng.exponential(size=500), rng.normal(size=(2, 500))
    found = paired(hard + noise[0], hard + noise[1] + 0.5)
    assert found.p_value == 1e-4
    assert found.difference.low < 0.5 < found.difference.high
    assert 0.55 < found.share < 0.75
    back = paired(hard + noise[1] + 0.5, hard + noise[0])
    assert back.p_value == found.p_value
    assert back.difference.value == -found.difference.value


def test_the_same_scores_are_no_better():
    found = paired(np.arange(5.0), np.arange(5.0))
    assert (found.p_value, found.share, found.difference.value) == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (np.zeros(3), np.zeros(4), "same simulations, but got 3 and 4 of them"),
        (np.zeros((3, 2)), np.zeros(3), "`first` must be finite scores"),
        (np.zeros(3), [0.0, np.nan, 1.0], "`second` must be finite scores"),
        (np.zeros(1), np.zeros(1), "at least two simulations"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        paired(first, second)


def energy(sims):
    return Energy.of(sims, fingerprint(sims)).measure(sims)["energy"]


@pytest.mark.parametrize("flaw", ["narrow", "wide", "shift"])
def test_the_exact_posterior_scores_best(flaw):
    """The p-value of a sign-flip test of 2000 simulations; the flaws are far beyond its noise."""
    exact, other = (
        energy(zoo(f, n_sims=2000, n_draws=200, n_dims=2, rng=0)) for f in ("exact", flaw)
    )
    found = paired(exact, other)
    assert found.difference.low > 0
    assert found.p_value < 0.01


def test_scores_are_those_of_all_pairs_of_whitened_draws():
    sims = zoo("exact", n_sims=200, n_draws=64, n_dims=3, rng=0)
    root = np.linalg.cholesky(np.cov(sims.theta.T, bias=True))
    white = np.linalg.solve(root, sims.samples.reshape(-1, 3).T).T.reshape(sims.samples.shape)
    truth = np.linalg.solve(root, sims.theta.T).T
    near = np.linalg.norm(white - truth, axis=-1).mean(axis=0)
    apart = [cdist(one, one).sum() / (64 * 63) for one in white.swapaxes(0, 1)]
    exact, found = near - np.array(apart) / 2, energy(sims)
    # Pairs of draws are a part of all pairs: some noise, without a bias.
    gap = found - exact
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(len(gap))
    assert gap.std() < 0.1 * exact.std()


def test_scores_do_not_depend_on_units():
    sims = zoo("narrow", n_sims=50, n_draws=40, n_dims=3, rng=0)
    turn = np.array([[1e3, 0, 1], [500, 1e-3, 0], [0, 1e-3, 1]])
    turned = tarpon.Simulations(sims.samples @ turn, sims.theta @ turn)
    np.testing.assert_allclose(energy(turned), energy(sims), rtol=2e-3)


def test_weights_count_as_repeated_draws():
    rng = np.random.default_rng(0)
    samples, theta = rng.normal(size=(4000, 20, 2)), rng.normal(size=(20, 2))
    share = np.exp(samples[..., 0]) / np.exp(samples[..., 0]).max()
    weighted = tarpon.Simulations(
        samples, theta, log_weights=np.log(share), log_weights_theta=np.zeros(20)
    )
    shifted = tarpon.Simulations(
        samples + np.array([1.0, 0.0]), theta
    )  # what such weights amount to
    np.testing.assert_allclose(energy(weighted), energy(shifted), atol=0.25)
    assert abs((energy(weighted) - energy(shifted)).mean()) < 0.06


def test_one_parameter_and_a_constant_one_have_scores():
    one = zoo("exact", n_sims=30, n_draws=30, n_dims=1, rng=0)
    assert np.isfinite(energy(one)).all()
    constant = tarpon.Simulations(np.ones((5, 6, 2)), np.ones((6, 2)))
    np.testing.assert_array_equal(energy(constant), np.zeros(6))


def test_checks_of_the_same_simulations_are_ranked():
    checks = {
        flaw: tarpon.check(zoo(flaw, n_sims=300, n_draws=50, n_dims=2, rng=0), n_swaps=19, rng=0)
        for flaw in ("shift", "exact")
    }
    scores = [check.evidence.energy for check in checks.values()]
    assert ranked(scores) == [1, 0]
    single = zoo("exact", n_sims=300, n_draws=50, n_dims=2, rng=0)
    single = tarpon.Simulations(single.samples, single.theta.astype(np.float32))
    assert fingerprint(single) == scores[1].truths
    other = zoo("exact", n_sims=300, n_draws=50, n_dims=2, rng=1)
    assert ranked([*scores, Scores(np.zeros(300), fingerprint(other))]) is None


def test_the_winner_is_named_first():
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=100), rng.normal(size=100) + 1
    sentence = words.better(paired(good, bad), "A", "B")
    assert sentence.startswith("the draws of A score better than those of B in ")
    assert sentence.endswith("p = 0.0001 (exact)")
    assert words.better(paired(bad, good), "B", "A") == sentence
    assert "(exact, adjusted for 3 pairs)" in words.better(paired(good, bad), "A", "B", 3)


def test_a_part_of_many_draws_is_enough(monkeypatch):
    sims = zoo("exact", n_sims=200, n_draws=2000, n_dims=2, rng=0)
    few = energy(sims)
    monkeypatch.setattr(comparing, "_MOST_DRAWS", 2000)
    gap = few - energy(sims)
    assert gap.any()
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(len(gap))  # 6e-7 of all streams are beyond
    assert gap.std() < 0.2 * few.std()

"""How wrong at least. Random tests fail with a probability of at most 1e-6 if bounds are right."""

import json
from math import log

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

import tarpon
from tarpon.mending.nats import Nats
from tarpon.sequential.adversaries import LogLinear, Quadratic
from tarpon.sequential.floors import NATS, Floor
from tarpon.sequential.loglinear import fitted, standardised

LIMIT = 1e-6
# The divergence of two parameters of the zoo, in closed form.
TRUE = {
    "exact": 0.0,
    "shift": 0.3**2 / 2,
    "correlation_missed": -0.5 * log(1 - 0.4**2),
    "weights_forgotten": 2 * (0.5 * log(1.25) + (1 + 0.25) / 2.5 - 0.5),
}


def most(n, level=0.05):
    """Return the largest number of bounds that may be too large."""
    return binom(n, level).ppf(1 - LIMIT)


@pytest.mark.parametrize("size", [0.02, 0.2, 1.5])
def test_a_floor_exceeds_the_divergence_rarely_even_for_the_best_bet(size):
    rng, n_above = np.random.default_rng(0), 0
    for _ in range(200):
        payments = size + np.sqrt(2 * size) * rng.normal(size=300)  # the true log-ratio
        n_above += Floor().paid(payments).low(0.05) > size
    assert n_above <= most(200)


def test_a_floor_approaches_the_gain_of_careful_bets():
    rng = np.random.default_rng(1)
    payments = 0.2 + np.sqrt(0.4) * rng.normal(size=20_000)
    careful = np.log(0.25 + 0.75 * np.exp(payments)).mean()
    assert 0.82 * careful < Floor().paid(payments).low(0.05) < careful


def test_a_floor_is_the_same_one_by_one_and_of_two_halves():
    payments = np.random.default_rng(2).normal(0.1, 0.4, size=300)
    whole, single = Floor().paid(payments), Floor()
    for one in payments:
        single = single.paid(np.array([one]))
    np.testing.assert_allclose(single.highest, whole.highest, atol=1e-9)
    halves = Floor().paid(payments[:150]).joined(Floor().paid(payments[150:]))
    np.testing.assert_allclose(halves.log_capital, whole.log_capital, atol=1e-9)
    assert halves.low(0.05) <= whole.low(0.05)


def test_a_floor_is_rounded_down_and_stays_on_its_grid():
    assert Floor().low(0.05) == 0
    assert Floor().paid(np.full(5000, 30.0)).low(0.05) == NATS[-1]
    assert Floor().paid(np.full(5000, -700.0)).low(0.05) == 0
    lows = [Floor().paid(np.full(n, 0.2)).low(0.05) for n in (20, 100, 500, 5000)]
    assert lows == sorted(lows)
    assert lows[-1] < log(0.25 + 0.75 * np.exp(0.2))


@pytest.mark.parametrize("flaw", TRUE)
def test_bounds_lie_below_the_divergence_and_above_nothing(flaw):
    lows = np.array(
        [
            tarpon.nats(tarpon.problems.zoo(flaw, n_sims=600, rng=seed), rng=seed).low
            for seed in range(20)
        ]
    )
    assert (lows > TRUE[flaw]).sum() <= most(20)
    if flaw == "exact":
        assert not lows.any()
    else:
        assert (
            lows.mean() > {"shift": 0.1, "correlation_missed": 0.25}.get(flaw, 0.45) * TRUE[flaw]
        )


def test_an_adversary_that_bets_on_what_it_learned_from_exceeds_the_divergence():
    def low(theta, samples, x, first):
        """Fit to the simulations up to `first`, and bet on those from `first` on, or on all."""
        score = Quadratic(penalty=0.01).fit(theta[:first], samples[:, :first], x[:first])
        rest = slice(first % len(theta), None)
        values = score(np.concatenate([theta[None, rest], samples[:, rest]]), x[rest])
        paid = values[0] - logsumexp(values, axis=0, b=1 / len(values))
        return Floor().paid(paid).low(0.05)

    rng, twins, honest = np.random.default_rng(3), 0, 0
    for _ in range(30):
        theta, x = rng.normal(size=(400, 6)), rng.normal(size=(400, 6))
        samples = rng.normal(size=(50, 400, 6))
        twins += low(theta[:200], samples[:, :200], x[:200], 200) > 0
        honest += low(theta, samples, x, 200) > 0
    assert twins > 25
    assert honest <= most(30)


def test_the_score_finds_the_log_ratio():
    rng = np.random.default_rng(4)
    theta, samples = rng.normal(size=(20_000, 2)), rng.normal(size=(32, 20_000, 2))
    theta[:, 0] += 0.3
    score = LogLinear().fit(theta, samples, None)
    np.testing.assert_allclose(score.slope[:2], [0.3, 0.0], atol=0.04)
    assert abs(score.slope[2:]).max() < 0.04


def test_groups_that_are_noise_are_left_out():
    rng = np.random.default_rng(5)
    theta, samples = rng.normal(size=(500, 3)), rng.normal(size=(32, 500, 3))
    theta[:, 1] *= 1.5
    score = fitted(standardised(np.concatenate([theta[None], samples])), rng.normal(size=(500, 4)))
    by_group = np.bincount(score.components.groups, score.slope != 0)
    assert by_group[1] == 3  # widths
    assert (by_group == 0).sum() >= 3


@pytest.mark.parametrize("n_sims", [1, 40, 51])
def test_few_simulations_size_nothing(n_sims):
    answer = tarpon.nats(tarpon.problems.zoo("prior", n_sims=n_sims, rng=0), rng=0)
    assert answer.low == 0
    assert str(answer) == f"Errors are too small to size with {n_sims} simulations."


def test_weighted_unequal_and_data_without_x():
    rng = np.random.default_rng(6)
    n = 500
    centre = rng.normal(size=(n, 2))
    truths = centre + rng.normal(size=(n, 2))
    proposed = centre + 1.3 * rng.normal(size=(60, n, 2))

    def log_weight(points):
        about = np.square(points - centre).sum(axis=-1)
        return -0.5 * about + 0.5 * about / 1.69

    both = log_weight(proposed), log_weight(truths)
    right = tarpon.Simulations(proposed, truths, log_weights=both[0], log_weights_theta=both[1])
    assert tarpon.nats(right, rng=0).low == 0
    forgotten = tarpon.Simulations(proposed, truths)
    assert tarpon.nats(forgotten, rng=0).low > 0.01
    resampled = tarpon.Simulations(proposed, truths, log_weights=both[0])
    answer = tarpon.nats(resampled, rng=0)
    assert (answer.exact, answer.low) == (False, 0)
    listed = [draws[: 20 + i % 30] for i, draws in enumerate(np.swapaxes(proposed, 0, 1))]
    assert tarpon.nats(tarpon.Simulations(listed, truths), rng=0).low > 0.01


def test_constant_parameters_and_images():
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(30, 300, 2))
    draws[..., 1] = 1.0
    truths = 2 * rng.normal(size=(300, 2))
    truths[:, 1] = 1.0
    sims = tarpon.Simulations(draws, truths, x=rng.normal(size=(300, 8, 8)))
    assert 0.05 < tarpon.nats(sims, rng=0).low < 1.5 - log(2) + 0.3


def test_stored_arrays_give_the_same(tmp_path):
    sims = tarpon.problems.zoo("shift", n_sims=200, rng=0)
    every = {name: getattr(sims, name) for name in ("samples", "theta", "x")}
    for name, array in every.items():
        np.save(tmp_path / f"{name}.npy", array)
    stored = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in every}
    first, second = (
        tarpon.nats(tarpon.Simulations(**arrays), rng=0) for arrays in (every, stored)
    )
    assert first == second


def test_words_and_json():
    answer = Nats(0.12, 0.21, 0.05, 1000, True, 0)
    assert str(answer) == (
        "Wrong by at least 0.12 nats per observation (95%, exact), about 0.21; as bad as a shift "
        "of 0.49 sd."
    )
    assert "about" not in str(Nats(0.12, 0.11, 0.05, 1000, True, 0))
    assert "(99%, approximate)" in str(Nats(0.12, 0.21, 0.01, 1000, False, 0))
    assert json.loads(answer.to_json())["schema"] == "tarpon-nats-1"
    sims = tarpon.problems.zoo("shift", n_sims=200, rng=0)
    first = tarpon.nats(sims, rng=3)
    assert first == tarpon.nats(sims, rng=first.seed)
    with pytest.raises(TypeError, match="`sims` must be `Simulations`"):
        tarpon.nats(sims.samples)


class TestMonitor:
    def test_without_an_adversary_there_is_no_bound(self):
        assert tarpon.Monitor(rng=0).nats_low is None
        assert tarpon.Monitor(adversary=LogLinear(), rng=0).nats_low == 0

    def test_saved_loaded_and_merged(self, tmp_path):
        sims = tarpon.problems.zoo("weights_forgotten", n_sims=400, n_draws=40, rng=0)
        monitor = tarpon.Monitor(adversary=LogLinear(), rng=0).add(sims)
        assert 0.03 < monitor.nats_low < TRUE["weights_forgotten"]
        monitor.save(tmp_path / "monitor.npz")
        again = tarpon.load(tmp_path / "monitor.npz", adversary=LogLinear())
        assert again.nats_low == monitor.nats_low
        more = tarpon.problems.zoo("weights_forgotten", n_sims=300, n_draws=40, rng=1)
        other = tarpon.Monitor(adversary=LogLinear(), rng=1).add(more)
        assert monitor.nats_low < monitor.merge(other).nats_low < TRUE["weights_forgotten"]

    def test_exact_posteriors_have_no_bound_above_zero(self):
        rng, n_above = np.random.default_rng(8), 0
        for seed in range(20):
            sims = tarpon.Simulations(rng.normal(size=(20, 60, 2)), rng.normal(size=(60, 2)))
            monitor = tarpon.Monitor(adversary=Quadratic(), rng=seed).add(sims)
            n_above += monitor.nats_low > 0
        assert n_above <= most(20)

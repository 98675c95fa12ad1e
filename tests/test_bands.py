"""Bands and p-values against brute force, and against each other."""

from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarpon.curves import Curve
from tarpon.inference import bands
from tarpon.ranks import Ranks


def every_histogram(n_sims, n_values):
    """Yield each histogram of ranks and its exact probability when ranks are uniform."""
    for counts in product(range(n_sims + 1), repeat=n_values):
        if sum(counts) == n_sims:
            ways = factorial(n_sims) // prod(map(factorial, counts))
            yield np.array(counts), ways / n_values**n_sims


def ranks_of(histogram):
    return Ranks(np.repeat(np.arange(len(histogram)), histogram), n_draws=len(histogram) - 1)


def leaves(ranks, confidence):
    curve, band = Curve.of(ranks), bands.band(ranks.n_sims, ranks.n_draws, confidence)
    at = np.searchsorted(curve.level, band.level - 1e-12)
    return bool(((curve.ecp[at] < band.low) | (curve.ecp[at] > band.high)).any())


@pytest.mark.parametrize(("n_sims", "n_draws"), [(1, 1), (2, 3), (5, 1), (6, 3), (8, 2), (4, 4)])
class TestAgainstEveryPossibleStudy:
    def test_p_value_is_the_probability_of_a_value_as_small(self, n_sims, n_draws):
        studies = [
            (bands.p_values(ranks_of(counts))[0], probability)
            for counts, probability in every_histogram(n_sims, n_draws + 1)
        ]
        p, probability = map(np.array, zip(*studies, strict=True))
        for value in p:
            assert probability[p <= value + 1e-12].sum() == pytest.approx(value, abs=1e-12)

    @pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
    def test_a_curve_leaves_the_band_when_p_is_small_and_only_then(
        self, n_sims, n_draws, confidence
    ):
        for counts, _ in every_histogram(n_sims, n_draws + 1):
            ranks = ranks_of(counts)
            assert leaves(ranks, confidence) == (bands.p_values(ranks)[0] <= 1 - confidence)

    @pytest.mark.parametrize("confidence", [0.5, 0.9])
    def test_histogram_band_holds_with_its_confidence(self, n_sims, n_draws, confidence):
        low, high = bands.histogram_band(n_sims, (1,) * (n_draws + 1), confidence)
        inside = sum(
            probability
            for counts, probability in every_histogram(n_sims, n_draws + 1)
            if (counts >= low).all() and (counts <= high).all()
        )
        assert inside >= confidence - 1e-12


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 1500), st.integers(0, 2**32), st.floats(-1.5, 1.5))
def test_band_and_p_value_agree_at_any_size(n_sims, n_draws, seed, tilt):
    rng = np.random.default_rng(seed)
    u = rng.beta(np.exp(tilt), np.exp(-tilt), size=n_sims)
    ranks = Ranks(np.floor(u * (n_draws + 1)).astype(np.int64).clip(0, n_draws), n_draws)
    p_value = bands.p_values(ranks)[0]
    assert 0 < p_value <= 1
    for confidence in (0.8, 0.95):
        assert leaves(ranks, confidence) == (p_value <= 1 - confidence)


@pytest.mark.parametrize(("n_sims", "n_draws"), [(500, 100), (1000, 1000), (100_000, 99)])
def test_band_is_left_with_just_the_stated_probability(n_sims, n_draws):
    band = bands.band(n_sims, n_draws, 0.95)
    cuts = bands._cut_points(n_draws)
    low, high = (np.rint(n_sims * side[1:-1]).astype(int) for side in (band.low, band.high))
    inside = bands._curve_inside(bands._Tails(n_sims, cuts, n_draws + 1), low, high)
    assert 0.95 <= inside < 0.951


def test_bounds_without_force_are_kept_with_probability_one():
    tails = bands._Tails(10_000, bands._cut_points(1000), 1001)
    nothing, everything = np.zeros(1000, dtype=int), np.full(1000, 10_000)
    assert bands._curve_inside(tails, nothing, everything) == pytest.approx(1, abs=1e-11)


def test_long_convolutions_agree_with_short_ones(monkeypatch):
    tails = bands._Tails(200_000, bands._cut_points(99), 100)
    low, high = tails.bounds(1e-3)
    fast = bands._curve_inside(tails, low, high)
    monkeypatch.setattr(bands, "_DIRECT", np.inf)
    assert bands._curve_inside(tails, low, high) == pytest.approx(fast, abs=1e-12)


def test_band_is_the_same_seen_from_both_ends():
    band = bands.band(137, 50, 0.9)
    np.testing.assert_allclose(band.low, 1 - band.high[::-1], atol=1e-15)


def test_many_draws_are_cut_at_a_thousand_levels():
    cuts = bands._cut_points(10**5)
    assert len(cuts) <= 1000
    assert set(cuts) == {10**5 + 1 - k for k in cuts}
    assert cuts[0] == 1


def test_p_value_of_an_impossible_curve_is_tiny_but_not_zero():
    p_value = bands.p_values(Ranks(np.zeros(5000, dtype=np.int64), n_draws=99))[0]
    assert 0 < p_value < 1e-200


def test_small_p_values_do_not_jump_where_the_union_bound_takes_over():
    n_sims, n_draws = 400, 99
    p = []
    for extra in range(0, 80, 4):
        values = np.arange(n_sims) * (n_draws + 1) // n_sims
        values[n_sims - extra :] = 0
        p.append(bands.p_values(Ranks(np.sort(values), n_draws))[0])
    assert (np.diff(p) <= 0).all()
    assert p[0] > 0.9
    assert p[-1] < 1e-9

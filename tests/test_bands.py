"""Bands and p-values against brute force, and against each other."""

from decimal import Decimal
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial, poisson

from tarpon import bands
from tarpon.curves import Curve
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
@pytest.mark.slow
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


class Every:
    """All that counts can be, and how likely that is."""

    def __init__(self, tails, sizes, counts_of):
        every = [c for c in product(range(tails.n + 1), repeat=len(sizes)) if sum(c) == tails.n]
        self.tails, self.counts = tails, counts_of(every)[:, : len(tails.part)]
        self.probability = multinomial.pmf(every, tails.n, np.array(sizes) / tails.whole)

    def inside(self, low, high):
        within = (self.counts >= low) & (self.counts <= high)
        return self.probability[within.all(axis=1)].sum()


def sums(counts):
    return np.cumsum(counts, axis=1)


CURVE = Every(bands._Tails(6, np.array([1, 3, 4]), 7), (1, 2, 1, 3), sums)
BINS = Every(bands._Tails(6, np.array([1, 3, 2]), 6), (1, 3, 2), np.array)


class TestProbabilities:
    @pytest.mark.parametrize("seed", range(12))
    def test_probabilities_of_curves_are_those_of_all_histograms(self, seed):
        low, high = np.sort(np.random.default_rng(seed).integers(7, size=(2, 3)), axis=0)
        expected = CURVE.inside(low, high)
        assert bands._curve_inside(CURVE.tails, low, high) == pytest.approx(expected, abs=1e-14)

    @pytest.mark.parametrize("seed", range(12))
    def test_probabilities_of_bins_are_those_of_all_histograms(self, seed):
        low, high = np.sort(np.random.default_rng(seed).integers(5, size=(2, 3)), axis=0)
        expected = BINS.inside(low, high)
        assert bands._bins_inside(BINS.tails, low, high) == pytest.approx(expected, abs=1e-14)

    @pytest.mark.parametrize(
        ("low", "high"),
        [
            ([3, 0, 0], [2, 6, 6]),
            ([0, 0, 3], [6, 6, 2]),
            ([4, 0, 0], [6, 2, 6]),
            ([0] * 3, [6] * 3),
        ],
    )
    def test_probabilities_of_curves_are_zero_if_no_curve_fits(self, low, high):
        expected = CURVE.inside(low, high)
        found = bands._curve_inside(CURVE.tails, np.array(low), np.array(high))
        assert found == pytest.approx(expected, abs=1e-14)

    @pytest.mark.parametrize(
        ("low", "high"),
        [
            ([3, 0, 0], [2, 6, 6]),
            ([3, 3, 1], [6, 6, 6]),
            ([2, 2, 2], [6, 6, 6]),
            ([0, 0, 0], [1, 2, 2]),
            ([0, 0, 0], [2, 2, 2]),
            ([0, 0, 0], [6, 6, 6]),
        ],
    )
    def test_probabilities_of_bins_are_zero_if_none_fits(self, low, high):
        expected = BINS.inside(low, high)
        found = bands._bins_inside(BINS.tails, np.array(low), np.array(high))
        assert found == pytest.approx(expected, abs=1e-14)

    def test_probabilities_of_bins_are_zero_far_from_their_means(self):
        tails = bands._Tails(100_000, np.array([3, 7]), 10)
        for low, high in (([0, 0], [9, 100_000]), ([99_000, 0], [100_000, 100_000])):
            assert bands._bins_inside(tails, np.array(low), np.array(high)) == 0

    def test_probabilities_of_bins_with_large_counts_are_binomial(self):
        tails = bands._Tails(100_000, np.array([3, 7]), 10)
        low, high = np.array([29_900, 0]), np.array([30_200, 100_000])
        expected = binom.cdf(30_200, 100_000, 0.3) - binom.cdf(29_899, 100_000, 0.3)
        assert bands._bins_inside(tails, low, high) == pytest.approx(expected, abs=1e-12)
        one = bands._Tails(100_000, np.array([3]), 10)
        found = bands._curve_inside(one, low[:1], high[:1])
        assert found == pytest.approx(expected, abs=1e-12)


class TestNarrowest:
    def definition(self, every, alpha):
        """Return the bounds of the largest local level that are left with probability ≤ alpha."""
        tails = every.tails
        counts = np.arange(tails.n + 1)[:, None]
        levels = 2 * np.minimum(
            binom.cdf(counts, tails.n, tails.z), binom.sf(counts - 1, tails.n, tails.z)
        )
        best = None
        for g in np.unique(np.append(levels.round(12), 0.0)):
            kept = levels > g + 1e-11
            if not kept.any(axis=0).all():
                break
            low, high = kept.argmax(axis=0), tails.n - kept[::-1].argmax(axis=0)
            if 1 - every.inside(low, high) > alpha + 1e-12:
                break
            best = low.tolist(), high.tolist()
        return best

    @pytest.mark.parametrize("alpha", [0.02, 0.05, 0.2, 0.5, 0.7])
    def test_narrowest_bounds_of_curves(self, alpha):
        low, high = bands._narrowest(CURVE.tails, bands._curve_inside, alpha)
        assert (low.tolist(), high.tolist()) == self.definition(CURVE, alpha)

    @pytest.mark.parametrize("alpha", [0.02, 0.05, 0.2, 0.5, 0.7])
    def test_narrowest_bounds_of_bins(self, alpha):
        low, high = bands.histogram_band(6, (1, 3, 2), 1 - alpha)
        assert (low.tolist(), high.tolist()) == self.definition(BINS, alpha)

    def test_bounds_do_not_depend_on_how_they_are_searched(self, monkeypatch):
        tails = bands._Tails(300, np.arange(1, 60), 60)
        found = bands._narrowest(tails, bands._curve_inside, 0.1)
        monkeypatch.setattr(bands, "_FEW", 10**9)
        np.testing.assert_array_equal(bands._narrowest(tails, bands._curve_inside, 0.1), found)

    @pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
    def test_a_search_takes_few_steps(self, confidence, monkeypatch):
        steps, bounds, among = [], bands._Tails.bounds, bands._Tails.levels_between
        n_changes = []

        def levels_between(tails, wide, narrow):
            n_changes.append(bands._changes(wide, narrow))
            return among(tails, wide, narrow)

        monkeypatch.setattr(
            bands._Tails, "bounds", lambda tails, g: steps.append(g) or bounds(tails, g)
        )
        monkeypatch.setattr(bands._Tails, "levels_between", levels_between)
        tails = bands._Tails(1000, np.arange(1, 100), 100)
        bands._narrowest(tails, bands._curve_inside, 1 - confidence)
        assert len(steps) <= 12
        assert n_changes[0] <= bands._FEW
        assert steps[:2] == [pytest.approx((1 - confidence) / 198), 2.0]


class TestTails:
    parts = np.array([1, 2, 9, 14])
    tails = bands._Tails(12, parts, 15)

    def test_tails_are_those_of_the_binomial(self):
        z = self.parts / 15
        for count in range(-1, 14):
            counts = np.full(4, count)
            np.testing.assert_allclose(
                self.tails.below(counts), binom.cdf(count, 12, z), rtol=1e-12
            )
            np.testing.assert_allclose(
                self.tails.above(counts), binom.sf(count - 1, 12, z), rtol=1e-12
            )
            smaller = np.minimum(binom.cdf(count, 12, z), binom.sf(count - 1, 12, z))
            np.testing.assert_allclose(self.tails.levels(counts), 2 * smaller, rtol=1e-12)

    @pytest.mark.parametrize("g", [1e-9, 1e-3, 0.05, 0.3, 0.8, 1.5])
    @pytest.mark.parametrize("parts", [parts, np.array([3, 7, 8, 12])], ids=["uneven", "mirrored"])
    def test_bounds_hold_the_counts_whose_tails_exceed_the_level(self, g, parts):
        low, high = bands._Tails(12, parts, 15).bounds(g)
        for k, z in enumerate(parts / 15):
            counts = np.arange(13)
            assert low[k] == counts[2 * binom.cdf(counts, 12, z) > g].min()
            assert high[k] == counts[2 * binom.sf(counts - 1, 12, z) > g].max()

    @pytest.mark.parametrize(("parts", "n_searches"), [((3, 7, 8, 12), 1), ((1, 2, 9, 14), 2)])
    def test_bounds_that_mirror_each_other_are_searched_once(self, parts, n_searches, monkeypatch):
        searched, first_above = [], bands._first_above
        monkeypatch.setattr(
            bands, "_first_above", lambda *given: searched.append(given) or first_above(*given)
        )
        bands._Tails(12, np.array(parts), 15).bounds(0.3)
        assert len(searched) == n_searches

    def test_bounds_of_a_level_of_their_own_leave_its_count_out(self):
        for count, k in product(range(5), range(4)):
            g = self.tails.levels(np.full(4, count))[k]
            low, high = self.tails.bounds(g)
            assert not low[k] <= count <= high[k]

    def test_levels_between_are_all_at_which_bounds_change(self):
        wide, narrow = self.tails.bounds(1e-3), self.tails.bounds(0.6)
        between = self.tails.levels_between(wide, narrow)
        counts = np.arange(13)[:, None]
        z = self.parts / 15
        every = 2 * np.stack([binom.cdf(counts, 12, z), binom.sf(counts - 1, 12, z)])
        expected = np.unique(every[(every > 1e-3) & (every <= 0.6)].round(12))
        np.testing.assert_allclose(np.unique(between.round(12)), expected)
        assert (np.diff(between) > 0).all()
        assert bands._changes(wide, narrow) == sum(
            (abs(a - b)).sum() for a, b in zip(wide, narrow, strict=True)
        )


class TestPoisson:
    @pytest.mark.parametrize("mean", [0.01, 0.5, 3.0, 47.0, 5000.0, 1e6])
    def test_poisson_probabilities_are_those_of_the_definition(self, mean):
        probabilities, first = bands._poisson(mean)
        counts = first + np.arange(len(probabilities))
        np.testing.assert_allclose(
            probabilities, poisson.pmf(counts, mean), rtol=1e-8, atol=1e-300
        )
        assert probabilities.sum() == pytest.approx(1, abs=1e-14)
        assert poisson.cdf(first - 1, mean) + poisson.sf(counts[-1], mean) < 1e-17
        if first:  # as far below the mean as above it
            assert abs((mean - first) - (counts[-1] - mean)) <= 1
        assert len(probabilities) <= 18 * np.sqrt(mean) + 82

    @pytest.mark.parametrize("n", [1, 2, 10, 29, 30, 31, 100, 1000])
    def test_poisson_probability_of_the_mean_has_all_digits(self, n):
        exact = Decimal(n) ** n / Decimal(factorial(n)) * Decimal(-n).exp()
        assert bands._poisson_at_mean(n) == pytest.approx(float(exact), rel=4e-14, abs=0)

    @pytest.mark.parametrize(("direct", "n_transforms"), [(300 * 40, 1), (300 * 40 + 1, 0)])
    def test_long_increments_are_transformed(self, direct, n_transforms, monkeypatch):
        sizes, steps = [], np.full(40, 1 / 40)

        def spectrum(mean, size):
            sizes.append(size)
            return np.fft.rfft(steps, size)

        monkeypatch.setattr(bands, "_DIRECT", direct)
        monkeypatch.setattr(bands, "_poisson", lambda mean: (steps, 0))
        monkeypatch.setattr(bands, "_poisson_spectrum", spectrum)
        found, _ = bands._add_poisson(np.ones(300), 3.25)
        np.testing.assert_allclose(found, np.convolve(np.ones(300), steps), atol=1e-12)
        assert sizes == [360][:n_transforms]

    def test_transforms_of_real_numbers_have_a_quick_size(self, monkeypatch):
        """Factors of 2, 3 and 5 alone are quickest, of real numbers as they are of no others."""
        sizes, spectrum = [], bands._poisson_spectrum
        monkeypatch.setattr(bands, "_DIRECT", 0)
        monkeypatch.setattr(
            bands, "_poisson_spectrum", lambda *given: sizes.append(given[1]) or spectrum(*given)
        )
        n_steps = len(bands._poisson(0.3)[0])
        bands._add_poisson(np.ones(770 - n_steps + 1), 0.3)  # 770 = 2 × 5 × 7 × 11
        assert sizes == [800]

    @pytest.mark.parametrize("direct", [0, 10**9], ids=["transforms", "sums"])
    @pytest.mark.parametrize(("mean", "n"), [(0.3, 300), (0.3, 630), (20.0, 300), (4000.0, 300)])
    def test_poisson_increments_are_convolved(self, mean, n, direct, monkeypatch):
        monkeypatch.setattr(bands, "_DIRECT", direct)
        so_far = np.random.default_rng(0).uniform(size=n)
        so_far /= so_far.sum()
        found, moved = bands._add_poisson(so_far, mean)
        steps, first = bands._poisson(mean)
        expected = np.zeros(len(so_far) + len(steps) - 1)
        for k, probability in enumerate(so_far):
            expected[k : k + len(steps)] += probability * steps
        assert moved == first
        assert found.min() >= 0
        np.testing.assert_allclose(found, expected, atol=1e-15)


class TestPValues:
    def test_every_score_has_a_p_value(self):
        values = np.random.default_rng(0).integers(10, size=(40, 3))
        values[:, 2] //= 2
        p = bands.p_values(Ranks(values, n_draws=9))
        assert p.shape == (3,)
        for k in range(3):
            assert p[k] == bands.p_values(Ranks(values[:, k], n_draws=9))[0]
        assert p[2] < 1e-6 < p[0]

    @pytest.mark.parametrize("n_sims", [10, 29, 31, 40, 200])
    def test_p_values_of_one_draw_are_two_sided_binomial(self, n_sims):
        found = bands.p_values(Ranks(np.zeros(n_sims, dtype=np.int64), n_draws=1))[0]
        assert found == pytest.approx(2 * 0.5**n_sims, rel=1e-5)

    def test_p_values_are_never_zero_and_never_jump_up(self):
        assert bands.p_values(Ranks(np.zeros(5000, dtype=np.int64), 1))[0] == np.finfo(float).tiny
        p = [bands.p_values(Ranks(np.zeros(n, dtype=np.int64), 9))[0] for n in range(2, 30)]
        assert (np.diff(p) < 0).all()

    def test_p_value_of_the_flattest_histogram_is_one(self):
        assert bands.p_values(Ranks(np.arange(10).repeat(4), n_draws=9))[0] == 1.0


class TestBand:
    def test_band_runs_from_corner_to_corner(self):
        band = bands.band(20, 5, 0.9)
        np.testing.assert_allclose(band.level, np.arange(7) / 6)
        assert (band.low[0], band.high[0], band.low[-1], band.high[-1]) == (0, 0, 1, 1)
        assert (band.low <= band.high).all()
        assert band.confidence == 0.9
        tails = bands._Tails(20, np.arange(1, 6), 6)
        low, high = bands._narrowest(tails, bands._curve_inside, 0.1)
        np.testing.assert_allclose(20 * band.low[1:-1], low)
        np.testing.assert_allclose(20 * band.high[1:-1], high)

    def test_band_of_few_draws_is_cut_everywhere(self):
        np.testing.assert_array_equal(bands._cut_points(4), [1, 2, 3, 4])
        np.testing.assert_array_equal(bands._cut_points(1000), np.arange(1, 1001))

    def test_band_of_many_draws_is_cut_evenly(self):
        for n_draws in (1001, 5000, 10**6):
            cuts = bands._cut_points(n_draws)
            assert 999 <= len(cuts) <= 1000
            assert (cuts[0], cuts[-1]) == (1, n_draws)
            gaps = np.diff(cuts)
            assert gaps.max() - gaps.min() <= max(2, 0.002 * n_draws)
            assert gaps.max() <= n_draws / 999 + 2
        assert 501 in bands._cut_points(1001)

    def test_band_of_many_draws_distinguishes_even_from_crowded_ranks(self):
        even = 15 + 30 * np.arange(50)
        assert bands.p_values(Ranks(even, n_draws=1500))[0] > 0.99
        assert bands.p_values(Ranks(even // 4, n_draws=1500))[0] < 1e-9

"""Statistics of labellings: moments of ranks, evidence, and p-values, each by its definition."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, kstest, norm, rankdata

from tarpon.checks import statistics

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("n_points", [6, 11, 101])
def test_moments_are_orthonormal_over_uniform_ranks(n_points):
    table = statistics.components(n_points).astype(float)
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(table.T @ table / n_points, np.eye(4), atol=1e-4)
    assert (np.diff(table[:, 0]) > 0).all()
    assert table[0, 1] > 0 > table[n_points // 2, 1]


class TestRowPValues:
    def test_row_p_values_are_ranks_below_the_tail(self):
        numbers = np.random.default_rng(0).normal(size=(200, 3))
        p = statistics.row_p_values(numbers, 200)
        expected = 1 - (rankdata(numbers, axis=0) - 1) / 200
        body = expected > 0.1
        np.testing.assert_allclose(p[body], expected[body])
        assert (np.diff(p[np.argsort(numbers[:, 0]), 0]) <= 0).all()

    def test_all_rows_are_treated_alike(self):
        numbers = np.random.default_rng(0).normal(size=(50, 2))
        order = np.random.default_rng(1).permutation(50)
        np.testing.assert_array_equal(
            statistics.row_p_values(numbers[order], 50),
            statistics.row_p_values(numbers, 50)[order],
        )

    def test_combined_p_values_are_uniform(self):
        rng = np.random.default_rng(2)
        p = []
        for _ in range(2000):
            shared = rng.normal(size=(40, 1))
            p.append(statistics.combine(shared + rng.normal(size=(40, 5)), np.ones(5)).p_value)
        assert (
            kstest(np.array(p) - rng.uniform(0, 1 / 40, size=2000), "uniform").pvalue > FALSE_ALARM
        )

    @pytest.mark.slow
    def test_adjusted_p_values_keep_the_familywise_rate(self):
        rng = np.random.default_rng(3)
        alarms = sum(
            (statistics.combine(rng.normal(size=(40, 8)), np.ones(8)).adjusted <= 0.05).any()
            for _ in range(2000)
        )
        assert alarms <= binom.isf(FALSE_ALARM, 2000, 0.05)

    def test_tiny_numbers_of_swaps_work(self):
        for n_rows in (2, 3, 9):
            combined = statistics.combine(
                np.random.default_rng(0).normal(size=(n_rows, 3)), np.ones(3)
            )
            assert 1 / n_rows <= combined.p_value <= 1


@pytest.mark.parametrize("n_points", [5, 8, 31])
def test_moments_are_polynomials_of_the_normal_score(n_points):
    score = ndtri((np.arange(n_points) + 0.5) / n_points)
    known = [np.ones(n_points)]
    for power in range(1, 5):
        rest = score**power
        for _ in range(2):  # Gram and Schmidt, twice is enough
            rest = rest - sum((rest @ basis) / n_points * basis for basis in known)
        known.append(rest / np.sqrt((rest @ rest) / n_points))
    table = statistics.components(n_points)
    assert table.dtype == np.float32
    assert table.flags.c_contiguous
    np.testing.assert_allclose(table, np.column_stack(known[1:]), atol=1e-5)


class TestPolynomials:
    @pytest.mark.parametrize("n_points", [6, 7, 8, 20, 101, 1000, 4097])
    def test_polynomials_of_the_normal_score_are_the_moments(self, n_points):
        table = statistics.components(n_points)
        moments = statistics.polynomials(table)
        assert moments.shape == (4, 5)
        assert moments.dtype == np.float32
        powers = table[:, :1].astype(float) ** np.arange(5)
        np.testing.assert_allclose(powers @ moments.T, table, rtol=1e-5, atol=2e-5)

    @pytest.mark.parametrize("n_points", [6, 7, 4097])
    def test_polynomials_are_even_or_odd(self, n_points):
        """The kernels evaluate no other powers than these."""
        moments = statistics.polynomials(statistics.components(n_points))
        powers = [set(np.flatnonzero(moment).tolist()) for moment in moments]
        assert powers[0] == {1}
        for had, may in zip(powers, [{1}, {0, 2}, {1, 3}, {0, 2, 4}], strict=True):
            assert had <= may
        assert moments[0, 1] == pytest.approx(1, rel=1e-6)


class TestStandardise:
    def test_the_first_rows_have_mean_zero_and_sd_one(self):
        sums = 5 + 3 * np.random.default_rng(0).normal(size=(40, 2, 3))
        out = statistics.standardise(sums, 30)
        np.testing.assert_allclose(out[:30].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(out[:30].std(axis=0), 1)
        np.testing.assert_allclose(
            out[30:], (sums[30:] - sums[:30].mean(axis=0)) / sums[:30].std(axis=0)
        )

    @pytest.mark.parametrize("more", [{}, {"copy": True}, {"copy": False}])
    def test_sums_are_written_over_only_if_nobody_needs_them(self, more):
        sums = 5 + 3 * np.random.default_rng(0).normal(size=(40, 2))
        given = sums.copy()
        wanted = (sums - sums[:30].mean(axis=0)) / sums[:30].std(axis=0)
        out = statistics.standardise(given, 30, **more)
        np.testing.assert_allclose(out, wanted)
        assert (out is given) == ("copy" in more and not more["copy"])
        np.testing.assert_array_equal(given, out if out is given else sums)

    def test_what_varies_no_more_than_rounding_is_zero(self):
        wave = np.array([1.0, -1.0, 1.0, -1.0, 7.0])
        sums = np.column_stack([
            0.0 * wave, 1e-6 * wave, 1.1e-6 * wave, 100 + 1e-5 * wave, 100 + 1e-3 * wave,
            -100 + 1e-5 * wave,
        ])  # fmt: skip
        out = statistics.standardise(sums, 4)
        for k in (0, 1, 3, 5):
            assert not out[:, k].any()
        np.testing.assert_allclose(out[:, [2, 4]], wave[:, None].repeat(2, axis=1), rtol=1e-6)


class TestEvidence:
    def test_log_ratio_is_that_of_a_mixture_to_the_normal(self):
        z = np.array([-9.0, -3.0, -1.0, 0.0, 0.5, 2.0, 6.0])
        mixture = 0.7 * norm.pdf(z) + 0.3 * norm.pdf(z, scale=np.sqrt(11))
        np.testing.assert_allclose(statistics.log_ratio(z), np.log(mixture / norm.pdf(z)))

    def test_log_ratio_of_huge_numbers_is_finite(self):
        z = np.array([10.8, 11.0, 100.0, 1e6])
        slab = np.log(0.3) - 0.5 * np.log(11) + 5 / 11 * z**2
        np.testing.assert_allclose(statistics.log_ratio(z), slab, rtol=1e-14)

    def test_log_ratio_keeps_its_digits_in_single_precision(self):
        z = np.array([1.25, 3.5], dtype=np.float32)
        ratio = statistics.log_ratio(z)
        assert ratio.dtype == np.float64
        np.testing.assert_allclose(ratio, statistics.log_ratio(z.astype(float)), rtol=1e-15)

    def test_log_mean_exp_is_the_mean_over_all_but_rows(self):
        logs = np.random.default_rng(0).normal(size=(5, 2, 3))
        expected = np.log(np.exp(logs).mean(axis=(1, 2)))
        np.testing.assert_allclose(statistics.log_mean_exp(logs), expected)
        np.testing.assert_allclose(statistics.log_mean_exp(logs + 5000), expected + 5000)
        np.testing.assert_allclose(statistics.log_mean_exp(logs - 5000), expected - 5000)


def test_statistics_stay_where_the_sums_are(elsewhere):
    sums = 5 + 3 * np.random.default_rng(0).normal(size=(40, 2, 3))
    for function, *given in (
        (statistics.standardise, sums, 30),
        (statistics.log_ratio, sums),
        (statistics.log_mean_exp, sums),
        (statistics.any_of, sums, sums[:, 0]),
    ):
        there = function(*(elsewhere(one) if np.ndim(one) else one for one in given))
        assert isinstance(there, elsewhere)
        np.testing.assert_array_equal(there.numbers, function(*given))


def groups(n_rows=6, scale=1.0):
    rng = np.random.default_rng(3)
    return [scale * rng.normal(size=(n_rows, *shape)) for shape in ((5,), (3, 4), (), (1, 2, 2))]


class TestAnyOf:
    def test_of_one_group_is_the_mean_of_its_ratios(self):
        for z in groups():
            wanted = statistics.log_mean_exp(statistics.log_ratio(z))
            np.testing.assert_allclose(statistics.any_of(z), wanted, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_every_group_counts_the_same(self, dtype):
        z = [group.astype(dtype) for group in groups(scale=3.0)]
        means = [np.exp(statistics.log_mean_exp(statistics.log_ratio(group))) for group in z]
        found = statistics.any_of(*z)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, np.log(np.mean(means, axis=0)), rtol=1e-5)

    @pytest.mark.parametrize(("most", "n_rows"), [(1, 1), (12, 2), (13, 2), (10**6, 5)])
    def test_a_few_rows_are_read_at_a_time(self, most, n_rows, monkeypatch):
        sums, read = groups(5)[1][:, :2, :3], []
        wanted, single = statistics.any_of(sums), statistics.arrays.single
        monkeypatch.setattr(statistics, "_AT_ONCE", most)
        monkeypatch.setattr(
            statistics.arrays, "single", lambda some: read.append(len(some)) or single(some)
        )
        np.testing.assert_array_equal(statistics.any_of(sums), wanted)
        assert sum(read) == 5
        assert read[0] == max(read) == n_rows

    def test_empty_groups_say_nothing(self):
        first, second, *_ = groups()
        found = statistics.any_of(first, np.empty((6, 0)), np.empty((6, 3, 0)), second)
        np.testing.assert_array_equal(found, statistics.any_of(first, second))

    @pytest.mark.parametrize("huge", [20.0, 300.0, 1e6])
    def test_huge_sums_have_finite_logarithms(self, huge):
        """Where the exponential of one sum alone would be infinite."""
        small, large = np.zeros((2, 10)), np.zeros((2, 4))
        large[1, 2] = -huge
        found = statistics.any_of(small, large)
        wanted = statistics.log_ratio(np.array(huge)) - np.log(2 * 4)
        np.testing.assert_allclose(found[1], wanted, rtol=1e-6)
        np.testing.assert_allclose(found[0], statistics.log_ratio(np.array(0.0)), rtol=1e-6)


class TestTails:
    def test_tail_beyond_the_largest_tenth_is_exponential(self):
        ordered = np.arange(20.0)  # the tenth begins beyond 17, and 18, 19 exceed it by 1.5
        column = np.concatenate([ordered, [17.0, 17.5, 30.0]])[:, None]
        p = statistics.row_p_values(column, 20)[:, 0]
        np.testing.assert_allclose(p[:18], 1 - np.arange(18) / 20)
        scale = 1.5 / np.log(2)
        far = 0.1 * np.exp((17 - np.array([18.0, 19.0, 17.5, 30.0])) / scale)
        np.testing.assert_allclose(p[[18, 19, 21, 22]], far)
        assert p[20] == p[17] == 3 / 20

    def test_tail_has_the_same_shape_in_other_units(self):
        column = np.concatenate([np.arange(20.0), [17.5, 30.0]])[:, None]
        p = statistics.row_p_values(column, 20)
        np.testing.assert_allclose(statistics.row_p_values(column / 64, 20), p)

    def test_one_row_beyond_the_tail_is_enough(self):
        column = np.concatenate([np.arange(10.0), [11.0]])[:, None]  # 9 lies beyond 8
        p = statistics.row_p_values(column, 10)[:, 0]
        np.testing.assert_allclose(p[[8, 9, 10]], [0.2, 0.1 / 2, 0.1 / 8])

    def test_equal_numbers_have_the_larger_p_value(self):
        column = np.array([[0.0], [1.0], [1.0], [1.0 + 1e-10], [2.0]])
        p = statistics.row_p_values(column, 5)[:, 0]
        np.testing.assert_allclose(p, [1.0, 0.8, 0.8, 0.8, 0.2])

    def test_without_a_tail_ranks_are_all_there_is(self):
        column = np.array([0.0] * 2 + [5.0] * 18)[:, None]
        p = statistics.row_p_values(column, 20)[:, 0]
        np.testing.assert_allclose(p, [1.0] * 2 + [0.9] * 18)

    def test_no_tail_is_fitted_to_few_rows(self):
        column = np.array([[0.0], [1.0], [99.0]])
        np.testing.assert_allclose(statistics.row_p_values(column, 2), [[1.0], [0.5], [1e-300]])

    def test_no_p_value_is_zero(self):
        column = np.append(np.arange(20.0), 1e6)[:, None]
        assert statistics.row_p_values(column, 20)[20, 0] == 1e-300


def test_adjusted_p_values_compare_with_the_largest_of_every_row():
    numbers = np.random.default_rng(0).integers(5, size=(30, 4)).astype(float)
    largest = numbers.max(axis=1)
    expected = [(largest >= own).mean() for own in numbers[0]]
    np.testing.assert_allclose(statistics.adjusted(numbers), expected)
    np.testing.assert_allclose(statistics.adjusted(numbers + 1e-10 * np.arange(4)), expected)
    assert statistics.adjusted(np.empty((30, 0))).shape == (0,)


class TestCombine:
    numbers = np.random.default_rng(4).normal(size=(25, 3)).round(1)
    weights = np.array([1.0, 2.0, 0.5])

    def test_totals_are_sums_of_logarithms(self):
        p = np.array([[1.0, 0.5, 0.01], [0.2, 0.2, 0.2]])
        expected = [
            np.log(1.2) + 2 * np.log(1.4) + 0.5 * np.log(21) + 2 * np.log(0.3 * 103 / 3),
            3.5 * np.log(2) + 2 * np.log(0.3 * 5),
        ]
        np.testing.assert_allclose(statistics.totals(p, self.weights), expected)

    def test_families_of_the_second_circle_count_in_the_mean_alone(self):
        p = np.array([[1.0, 0.5, 0.01, 0.1], [0.2, 0.2, 0.2, 0.001]])
        expected = [
            np.log(1.2) + 2 * np.log(21) + 2 * np.log(0.3 * 101 / 2 + 0.7 * 12 / 2),
            3 * np.log(2) + 2 * np.log(0.3 * 5 + 0.7 * 1005 / 2),
        ]
        weights = np.array([1.0, 0.0, 2.0, 0.0])
        np.testing.assert_allclose(statistics.totals(p, weights), expected)
        alone = statistics.totals(p[:, 1::2], np.zeros(2))
        np.testing.assert_allclose(alone, 2 * np.log(0.7 * np.array([6, 502.5])))

    @pytest.mark.parametrize("real", range(25))
    def test_every_row_may_be_the_real_one(self, real):
        numbers = np.roll(self.numbers, -real, axis=0)
        combined = statistics.combine(numbers, self.weights)
        p = statistics.row_p_values(numbers, 25)
        total = np.log1p(0.2 / p) @ self.weights + 2 * np.log(0.3 * (1 / p).mean(axis=1))
        assert combined.p_value == (total >= total[0] - 1e-9).sum() / 25
        assert combined.single.tolist() == [(c >= c[0]).sum() / 25 for c in numbers.T]
        smallest = p.min(axis=1)
        assert combined.adjusted.tolist() == [
            sum(smallest <= own * (1 + 1e-9)) / 25 for own in p[0]
        ]

    def test_rounding_does_not_decide(self):
        """Rows that are equal but for the last digits count as equal."""
        numbers = np.concatenate([np.zeros(20), np.arange(1.0, 11.0)])[:, None].repeat(2, axis=1)
        numbers[0] += 1e-12
        combined = statistics.combine(numbers, np.ones(2))
        assert combined.p_value == 1
        assert combined.single.tolist() == combined.adjusted.tolist() == [1, 1]
        numbers[0] = 1e-9
        assert statistics.combine(numbers, np.ones(2)).single.tolist() == [1, 1]

    def test_p_values_of_all_rows_are_the_ranks_of_their_totals(self):
        every = [
            statistics.combine(np.roll(self.numbers, -real, axis=0), self.weights).p_value
            for real in range(25)
        ]
        for p in every:
            assert p == np.mean(np.array(every) <= p)

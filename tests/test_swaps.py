"""The swap engine: pooled ranks, labellings, and p-values that are exact by construction."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom, kstest, rankdata

from tarpon import Simulations
from tarpon._whiten import replaced, whiten
from tarpon.backends import _swaps
from tarpon.inference import portfolio, swaps

FALSE_ALARM = 1e-6


def none_played(n_sims):
    return np.empty((n_sims, 0), dtype=np.int64)


class TestPooledRanks:
    def test_are_ordinary_ranks_where_nothing_ties(self):
        scores = np.random.default_rng(0).normal(size=(5, 30, 4))
        ranks, tied = _swaps.pooled_ranks(scores, 30, none_played(5))
        np.testing.assert_array_equal(ranks, rankdata(scores, axis=1) - 1)
        assert not tied.any()

    @pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
    def test_of_equal_scores_the_earlier_ranks_lower(self, dtype):
        scores = np.random.default_rng(0).integers(4, size=(6, 25, 3)).astype(dtype)
        ranks, tied = _swaps.pooled_ranks(scores, 25, none_played(6))
        expected = np.argsort(np.argsort(scores, axis=1, kind="stable"), axis=1, kind="stable")
        np.testing.assert_array_equal(ranks, expected)
        assert (tied == 3).all()

    def test_extra_points_rank_as_if_they_stood_for_the_played_ones(self):
        rng = np.random.default_rng(1)
        scores, extra = rng.normal(size=(4, 20, 2)), rng.normal(size=(4, 7, 2))
        played = rng.integers(20, size=(4, 7))
        ranks, _ = _swaps.pooled_ranks(np.concatenate([scores, extra], axis=1), 20, played)
        for i in range(4):
            for e in range(7):
                others = np.delete(scores[i], played[i, e], axis=0)
                np.testing.assert_array_equal(ranks[i, 20 + e], (others < extra[i, e]).sum(axis=0))

    def test_a_copy_of_the_played_point_changes_nothing(self):
        scores = np.random.default_rng(1).normal(size=(4, 20, 2))
        played = np.array([[3], [0], [19], [7]])
        copies = scores[np.arange(4), played[:, 0]][:, None]
        ranks, _ = _swaps.pooled_ranks(np.concatenate([scores, copies], axis=1), 20, played)
        np.testing.assert_array_equal(ranks[:, 20], ranks[np.arange(4), played[:, 0]])


def test_sums_are_those_of_their_definition():
    rng = np.random.default_rng(0)
    ranks = rng.integers(11, size=(6, 11, 3)).astype(np.uint16)
    slots, table = rng.integers(11, size=(5, 6)), rng.normal(size=(11, 4)).astype("f4")
    every = np.arange(6)
    moments = np.zeros((5, 4, 3), dtype="f4")
    _swaps.add_moments(ranks, slots, table, moments)
    expected = table[ranks[every, slots]].sum(axis=1).swapaxes(1, 2)
    np.testing.assert_allclose(moments, expected, rtol=1e-4, atol=1e-5)
    values, others = rng.normal(size=(6, 11, 3)).astype("f4"), rng.normal(size=(6, 2)).astype("f4")
    sums = np.zeros((5, 3), dtype="f4")
    _swaps.add_values(values, slots, sums)
    np.testing.assert_allclose(sums, values[every, slots].sum(axis=1), rtol=1e-4, atol=1e-5)
    pairs, crossed = np.zeros((5, 3, 3), dtype="f4"), np.zeros((5, 3, 2), dtype="f4")
    _swaps.add_products(values, slots, others, pairs, crossed)
    chosen = values[every, slots]
    upper = np.triu(np.einsum("bik,bil->bkl", chosen, chosen), 1)
    np.testing.assert_allclose(pairs, upper, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        crossed, np.einsum("bik,il->bkl", chosen, others), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("n_points", [6, 11, 101])
def test_moments_are_orthonormal_over_uniform_ranks(n_points):
    table = swaps.components(n_points).astype(float)
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(table.T @ table / n_points, np.eye(4), atol=1e-4)
    assert (np.diff(table[:, 0]) > 0).all()
    assert table[0, 1] > 0 > table[n_points // 2, 1]


class TestRowPValues:
    def test_ranks_below_the_tail(self):
        statistics = np.random.default_rng(0).normal(size=(200, 3))
        p = swaps.row_p_values(statistics, 200)
        expected = 1 - (rankdata(statistics, axis=0) - 1) / 200
        body = expected > 0.1
        np.testing.assert_allclose(p[body], expected[body])
        assert (np.diff(p[np.argsort(statistics[:, 0]), 0]) <= 0).all()

    def test_all_rows_are_treated_alike(self):
        statistics = np.random.default_rng(0).normal(size=(50, 2))
        order = np.random.default_rng(1).permutation(50)
        np.testing.assert_array_equal(
            swaps.row_p_values(statistics[order], 50), swaps.row_p_values(statistics, 50)[order]
        )

    def test_combined_p_values_are_uniform(self):
        rng = np.random.default_rng(2)
        p = []
        for _ in range(2000):
            shared = rng.normal(size=(40, 1))
            p.append(swaps.combine(shared + rng.normal(size=(40, 5)), np.ones(5)).p_value)
        assert (
            kstest(np.array(p) - rng.uniform(0, 1 / 40, size=2000), "uniform").pvalue > FALSE_ALARM
        )

    def test_adjusted_p_values_keep_the_familywise_rate(self):
        rng = np.random.default_rng(3)
        alarms = sum(
            (swaps.combine(rng.normal(size=(40, 8)), np.ones(8)).adjusted <= 0.05).any()
            for _ in range(2000)
        )
        assert alarms <= binom.isf(FALSE_ALARM, 2000, 0.05)

    def test_tiny_numbers_of_swaps_work(self):
        for n_rows in (2, 3, 9):
            combined = swaps.combine(np.random.default_rng(0).normal(size=(n_rows, 3)), np.ones(3))
            assert 1 / n_rows <= combined.p_value <= 1


class TestWhitening:
    def test_points_come_out_uncorrelated(self):
        rng = np.random.default_rng(0)
        mix = np.array([[1.0, 0.9, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 2.0]])
        points = rng.normal(size=(4000, 3, 3)) @ mix
        y = whiten(points, 4000, points.mean(axis=0), points.std(axis=0))
        for i in range(3):
            np.testing.assert_allclose(np.cov(y[:, i].T), np.eye(3), atol=0.02)

    def test_more_parameters_than_points_work(self):
        points = np.random.default_rng(0).normal(size=(11, 4, 60))
        y = whiten(points, 11, points.mean(axis=0), points.std(axis=0))
        assert np.isfinite(y).all()

    def test_replacing_a_point_by_itself_changes_nothing(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(30, 5, 4))
        played = rng.integers(30, size=(3, 5))
        both = np.concatenate([points, points[played, np.arange(5)]])
        y = whiten(both, 30, points.mean(axis=0), points.std(axis=0))
        out = replaced(y.copy(), 30, played)
        np.testing.assert_allclose(out, y, rtol=1e-4, atol=1e-5)


def exact(seed, n_sims=100, n_draws=50, n_dims=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_sims, n_dims))
    points = 0.8 * x + np.sqrt(0.2) * rng.normal(size=(n_draws + 1, n_sims, n_dims))
    return points[1:], points[0], x


def p_value(samples, theta, x, seed, n_swaps=39):
    sums = portfolio.swapped(
        Simulations(samples, theta), {}, x, n_swaps=n_swaps, rng=np.random.default_rng(seed)
    )
    families = portfolio.families(sums)
    return swaps.combine(
        np.column_stack(list(families.values())), portfolio.weights(families)
    ).p_value


def plain(points):
    return points


def correlated(points):
    mix = np.full((points.shape[-1],) * 2, 0.9) + 0.1 * np.eye(points.shape[-1])
    return points @ mix


def heavy_tailed(points):
    return np.sinh(3 * points)


def integers(points):
    return np.rint(2 * points).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("with_x", [True, False])
@pytest.mark.parametrize(
    ("n_dims", "n_sims", "n_draws", "shape"),
    [
        (1, 20, 10, plain),
        (5, 20, 10, plain),
        (5, 100, 50, correlated),
        (5, 20, 10, heavy_tailed),
        (2, 100, 10, integers),
        (50, 20, 10, plain),
    ],
)
def test_exact_posteriors_are_rejected_at_the_level(n_dims, n_sims, n_draws, shape, with_x):
    n_studies, levels = 400, (0.05, 0.1, 0.5)
    p = []
    for seed in range(n_studies):
        samples, theta, x = exact(seed, n_sims, n_draws, n_dims)
        p.append(p_value(shape(samples), shape(theta), x if with_x else None, seed))
    for level in levels:
        rejected = int((np.array(p) <= level).sum())
        low, high = binom.ppf([FALSE_ALARM / 6, 1 - FALSE_ALARM / 6], n_studies, level)
        assert low <= rejected <= high


def test_wrong_posteriors_are_rejected_beyond_the_level():
    rejected = 0
    for seed in range(10):
        samples, theta, x = exact(seed)
        rejected += p_value(0.8 * x + 0.6 * (samples - 0.8 * x), theta, x, seed) <= 0.05
    assert rejected == 10


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    code = (
        "import tarpon\n"
        "sims = tarpon.problems.zoo('narrow', n_sims=150, n_draws=120, n_dims=20, rng=0)\n"
        "print(tarpon.check(sims, n_swaps=199, rng=0).to_json())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"TARPON_THREADS": str(n)},
            capture_output=True,
            check=True,
        ).stdout
        for n in (1, 2)
    }
    assert len(said) == 1

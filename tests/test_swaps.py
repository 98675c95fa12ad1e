"""The swap engine: pooled ranks, labellings, and p-values that are exact by construction."""

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm, rankdata

import tarpon
from tarpon import Simulations
from tarpon._base import threads
from tarpon.backends import _swap_kernels, _swaps
from tarpon.checks import families, features, labellings, products, statistics, swaps
from tarpon.checks.labellings import Part
from tarpon.engine import Unfinished
from tarpon.regions import FromCentre, HalfLines, Scores, Values
from tarpon.simulations import bound, passes
from tarpon.simulations.blocks import whiten

FALSE_ALARM = 1e-6


def none_played(n_sims):
    return np.empty((n_sims, 0), dtype=np.int64)


def pooled_ranks(scores, n_points, played):
    """Return the ranks themselves: a table in which every rank stands for itself."""
    return _swaps.pooled_scores(scores, n_points, played, np.arange(n_points, dtype="f4"))


def between(table, ranks):
    """Return the numbers of ranks, the mean of two for those between."""
    low, high = (table[of(ranks).astype(int)] for of in (np.floor, np.ceil))
    return np.float32(0.5) * (low + high)


def weighted_ranks(scores, weights, played, n_levels):
    return _swaps.weighted_scores(scores, weights, played, np.arange(n_levels, dtype="f4"))


@pytest.fixture(params=["NumPy", "kernels"])
def way(request, monkeypatch):
    """Let NumPy or the compiled kernels compute, however few the numbers are."""
    few = 2**62 if request.param == "NumPy" else -1
    monkeypatch.setattr(_swaps, "_FEW_ADDED", few)
    monkeypatch.setattr(_swaps, "_FEW_RANKED", few)
    monkeypatch.setattr(_swaps, "_ranks", _swaps._Ranks())
    return request.param


@pytest.mark.usefixtures("way")
class TestPooledRanks:
    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_pooled_ranks_are_ordinary_ranks_without_ties(self, dtype):
        scores = np.random.default_rng(0).normal(size=(5, 30, 4)).astype(dtype)
        ranks, tied = pooled_ranks(scores, 30, none_played(5))
        np.testing.assert_array_equal(ranks, rankdata(scores, axis=1) - 1)
        assert not tied.any()

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_numbers_of_the_table_stand_for_the_ranks(self, dtype):
        rng = np.random.default_rng(0)
        scores = rng.integers(9, size=(5, 34, 4)).astype(dtype)
        played, weights = rng.integers(30, size=(5, 4)), rng.uniform(size=(5, 30))
        table = statistics.components(30)[:, 0]
        ranks, _ = pooled_ranks(scores, 30, played)
        found, _ = _swaps.pooled_scores(scores, 30, played, table)
        assert (found.dtype, found.shape) == (np.float32, scores.shape)
        np.testing.assert_array_equal(found, between(table, ranks))
        levels, _ = weighted_ranks(scores, weights, played, 30)
        found, _ = _swaps.weighted_scores(scores, weights, played, table)
        np.testing.assert_array_equal(found, between(table, levels))

    @pytest.mark.parametrize("n_threads", ["1", "2", "3"])
    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_pooled_ranks_do_not_depend_on_threads_that_share_the_work(
        self, dtype, n_threads, monkeypatch
    ):
        monkeypatch.setenv("TARPON_THREADS", n_threads)
        monkeypatch.setattr(threads, "_THREAD_BYTES", 1)
        scores = np.random.default_rng(0).normal(size=(9, 30, 4)).astype(dtype)
        played = (np.arange(18) % 28).reshape(9, 2)
        ranks, _ = pooled_ranks(scores, 28, played)
        weighted, _ = weighted_ranks(scores, np.ones((9, 28)), played, 28)
        np.testing.assert_array_equal(ranks[:, :28], rankdata(scores[:, :28], axis=1) - 1)
        np.testing.assert_array_equal(weighted, ranks)

    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8"])
    def test_equal_scores_share_the_middle_of_their_ranks(self, dtype):
        scores = np.random.default_rng(0).integers(4, size=(6, 25, 3)).astype(dtype)
        ranks, tied = pooled_ranks(scores, 25, none_played(6))
        np.testing.assert_array_equal(ranks, rankdata(scores, axis=1) - 1)
        assert (tied == 3).all()

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_extra_points_rank_as_if_they_stood_for_the_played_ones(self, dtype):
        rng = np.random.default_rng(1)
        scores, extra = (rng.normal(size=(4, n, 2)).astype(dtype) for n in (20, 7))
        played = rng.integers(20, size=(4, 7))
        ranks, _ = pooled_ranks(np.concatenate([scores, extra], axis=1), 20, played)
        for i in range(4):
            for e in range(7):
                others = np.delete(scores[i], played[i, e], axis=0)
                np.testing.assert_array_equal(ranks[i, 20 + e], (others < extra[i, e]).sum(axis=0))

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_a_copy_of_the_played_point_changes_nothing(self, dtype):
        scores = np.random.default_rng(1).normal(size=(4, 20, 2)).astype(dtype)
        played = np.array([[3], [0], [19], [7]])
        copies = scores[np.arange(4), played[:, 0]][:, None]
        ranks, _ = pooled_ranks(np.concatenate([scores, copies], axis=1), 20, played)
        np.testing.assert_array_equal(ranks[:, 20], ranks[np.arange(4), played[:, 0]])

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_an_extra_point_among_equal_ones_takes_the_place_that_it_plays(self, dtype):
        rng = np.random.default_rng(0)
        scores = rng.integers(5, size=(4, 30, 3)).astype(dtype)
        played = rng.integers(30, size=(4, 6))
        extra = rng.integers(5, size=(4, 6, 3)).astype(dtype)
        both = np.concatenate([scores, extra], axis=1)
        ranks, _ = pooled_ranks(both, 30, played)
        weighted, _ = weighted_ranks(both, np.ones((4, 30)), played, 30)
        for i, e in np.ndindex(4, 6):
            there = scores[i : i + 1].copy()
            there[0, played[i, e]] = extra[i, e]
            wanted, _ = pooled_ranks(there, 30, none_played(1))
            assert ranks[i, 30 + e].tolist() == wanted[0, played[i, e]].tolist()
            assert weighted[i, 30 + e].tolist() == ranks[i, 30 + e].tolist()

    @pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
    def test_extra_points_are_tied_where_the_played_ones_are(self, dtype):
        rng = np.random.default_rng(2)
        scores, played = rng.integers(4, size=(3, 9, 5)), rng.integers(6, size=(3, 3))
        ranks, tied = pooled_ranks(scores.astype(dtype), 6, played)
        for i in range(3):
            for j in range(6):
                alone = [(scores[i, :6, k] == scores[i, j, k]).sum() == 1 for k in range(5)]
                assert tied[i, j] == 5 - sum(alone)
            assert tied[i, 6:].tolist() == tied[i, played[i]].tolist()
        assert (ranks.dtype, tied.dtype) == (np.float32, np.int32)

    @pytest.mark.parametrize("dtype", ["f4", "i8"])
    def test_pooled_ranks_of_very_many_points_fit(self, dtype):
        scores = np.arange(2**16 + 1)[None, ::-1, None].astype(dtype)
        ranks, tied = pooled_ranks(scores, 2**16, np.array([[5]]))
        np.testing.assert_array_equal(ranks[0, : 2**16, 0], np.arange(2**16)[::-1])
        assert ranks[0, 2**16, 0] == 0
        assert not tied.any()

    @pytest.mark.parametrize(
        ("given", "kept"),
        [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("?", "i8"), ("i2", "i8"), ("u8", "u8")],
    )
    def test_pooled_ranks_compare_numbers_as_they_are(self, given, kept):
        assert _swaps._comparable(np.dtype(given)) == np.dtype(kept)

    @pytest.mark.parametrize("dtype", ["f8", "i8"])
    def test_pooled_ranks_distinguish_numbers_that_are_close(self, dtype):
        scores = np.array([2**53 - 1, 2**53 - 3, 2**53 - 2]).astype(dtype)[None, :, None]
        assert pooled_ranks(scores, 3, none_played(1))[0].ravel().tolist() == [2, 0, 1]
        ranks, _ = weighted_ranks(scores, np.ones((1, 3)), none_played(1), 3)
        assert ranks.ravel().tolist() == [2, 0, 1]


def hostile(dtype, shape, seed=0):
    """Return numbers with ties, zeros of both signs, infinities, denormals and neighbours."""
    limits = np.finfo(dtype)
    some = [0, limits.smallest_subnormal, 3 * limits.smallest_subnormal, limits.tiny, limits.max]
    some += [np.inf, 1, np.nextafter(np.array(1, dtype), np.array(2, dtype)), limits.tiny / 2]
    some = np.array(some, dtype=dtype)
    rng = np.random.default_rng(seed)
    return np.where(
        rng.uniform(size=shape) < 0.8,
        rng.choice(np.concatenate([some, -some]), size=shape),
        rng.normal(size=shape).astype(dtype),
    )


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", ["f2", "f4"])
class TestPackedKeys:
    """32-bit floats are ranked by sorting their bits, 64-bit ones by comparing them."""

    def test_packed_keys_sort_as_numbers_do(self, dtype):
        numbers = hostile(dtype, 300).astype("f4")
        _, keys = _swaps._packed(numbers[None, None], none_played(1), 0)
        order = np.argsort(keys[0, 0])
        np.testing.assert_array_equal(order, np.argsort(numbers, kind="stable"))
        np.testing.assert_array_equal(keys[0, 0] & np.uint64(2**32 - 1), np.arange(300))
        of_zeros = keys[0, 0, numbers == 0] >> np.uint64(32)
        assert np.signbit(numbers[numbers == 0]).any()
        assert len(set(of_zeros.tolist())) == 1

    @pytest.mark.parametrize("n_extra", [1, 3, 4])
    def test_copies_of_points_come_just_before_them(self, dtype, n_extra):
        numbers, played = hostile(dtype, 50).astype("f4"), 7 * np.arange(n_extra)[None]
        both = np.append(numbers, numbers[played[0]])
        bits, keys = _swaps._packed(both[None, None], played, n_extra.bit_length())
        assert bits.shape == keys.shape == (1, 1, 50 + n_extra)
        order = np.argsort(keys[0, 0]).tolist()
        for e, place in enumerate(played[0].tolist()):
            assert order[order.index(50 + e) + 1] == place

    def test_points_that_keys_have_no_room_for_are_compared(self, dtype, monkeypatch):
        scores, played = hostile(dtype, (5, 24, 3)), np.arange(20).reshape(5, 4)
        packed = pooled_ranks(scores, 20, played)
        monkeypatch.setattr(_swaps, "_PLACES", 20 << 3)
        for one, other in zip(pooled_ranks(scores, 20, played), packed, strict=True):
            np.testing.assert_array_equal(one, other)
        monkeypatch.setattr(_swaps, "_PLACES", (20 << 3) - 1)
        monkeypatch.delattr(_swap_kernels, "rank_packed")
        for one, other in zip(pooled_ranks(scores, 20, played), packed, strict=True):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("n_points", [1, 2, 6, 40])
    def test_packed_keys_rank_as_comparing_does(self, dtype, n_points):
        rng = np.random.default_rng(4)
        scores = hostile(dtype, (30, n_points + 5, 4))
        played = rng.integers(n_points, size=(30, 5))
        ranks, tied = pooled_ranks(scores, n_points, played)
        by_comparing, tied_too = pooled_ranks(scores.astype("f8"), n_points, played)
        np.testing.assert_array_equal(ranks, by_comparing)
        np.testing.assert_array_equal(tied, tied_too)
        if n_points == 40:
            assert tied.any()
            assert not tied.all()

    def test_packed_keys_rank_by_the_definition(self, dtype):
        scores = hostile(dtype, (5, 20, 3))
        ranks, tied = pooled_ranks(scores, 20, none_played(5))
        for i in range(5):
            wanted, wanted_tied = ranked(scores[i], None)
            np.testing.assert_array_equal(ranks[i], wanted)
            np.testing.assert_array_equal(tied[i], wanted_tied)

    def test_planted_points_rank_as_if_they_had_been_there(self, dtype):
        rng = np.random.default_rng(5)
        scores, played = hostile(dtype, (6, 18, 3)), rng.integers(12, size=(6, 6))
        ranks, _ = pooled_ranks(scores, 12, played)
        for i, e in np.ndindex(6, 6):
            there = scores[i, :12].copy()
            there[played[i, e]] = scores[i, 12 + e]
            assert ranks[i, 12 + e].tolist() == ranked(there, None)[0][played[i, e]].tolist()


def in_threads(monkeypatch, n_threads):
    """Let so many threads share all work, however little, and return how many did each time."""
    used, share = [], threads.share

    def counted(run, n_items, n_threads, results):
        used.append(n_threads)
        share(run, n_items, n_threads, results)

    monkeypatch.setenv("TARPON_THREADS", str(n_threads))
    monkeypatch.setattr(threads, "_THREAD_BYTES", 1)
    monkeypatch.setattr(threads, "share", counted)
    monkeypatch.setattr(_swaps, "_ROWS_SHARED", 16)
    return used


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_sums_are_those_of_their_definition(n_threads, monkeypatch, way):
    used = in_threads(monkeypatch, n_threads)
    rng = np.random.default_rng(0)
    table = statistics.components(11)
    moments = statistics.polynomials(table)
    ranks, slots = rng.integers(11, size=(6, 14, 3)), rng.integers(14, size=(50, 6))
    scores, every = table[ranks, 0], np.arange(6)
    of_rows = table[ranks[every, slots]].astype(float)  # (n_rows, n_sims, n_scores, 4)
    sums = np.ones((50, 4, 3), dtype="f4")
    _swaps.add_moments(scores, slots, moments, sums)
    np.testing.assert_allclose(sums - 1, of_rows.sum(axis=1).swapaxes(1, 2), atol=1e-4)
    means = _swaps.mean_moments(scores, moments)
    np.testing.assert_allclose(means, table[ranks].mean(axis=2), atol=1e-5)
    along, sums = rng.normal(size=(6, 2, 3)).astype("f4"), np.ones((50, 2, 2, 3), dtype="f4")
    _swaps.add_along(scores, slots, moments, along, sums)
    wanted = np.einsum("bikm,iwk->bmwk", of_rows[..., :2], along)
    np.testing.assert_allclose(sums - 1, wanted, atol=1e-4)
    values, sums = rng.normal(size=(6, 14, 3)).astype("f4"), np.ones((50, 3), dtype="f4")
    _swaps.add_values(values, slots, sums)
    np.testing.assert_allclose(sums - 1, values[every, slots].sum(axis=1), rtol=1e-4, atol=1e-5)
    assert max(used, default=n_threads if way == "NumPy" else 0) == n_threads


@pytest.mark.parametrize(
    ("name", "moments", "along", "n_looked_up", "n_added"),
    [
        ("add_moments", 4, None, 50 * 3, 50 * 4 * 3),
        ("add_along", 4, (1, 5, 3), 50 * 5 * 3, 50 * 2 * 5 * 3),
        ("add_values", None, None, 50 * 3, 50 * 3),
    ],
)
def test_numpy_adds_few_numbers_and_threads_share_what_is_read(
    name, moments, along, n_looked_up, n_added, monkeypatch
):
    """One simulation of three scores, in single precision, and fifty labellings."""
    by_numpy, n_bytes = [], []
    monkeypatch.setattr(_swaps._few_swaps, name, lambda *given: by_numpy.append(given))
    monkeypatch.setattr(_swaps, "over_ranges", lambda run, n, size: n_bytes.append(size))
    given = [np.zeros((1, 8, 3), "f4"), np.zeros((50, 1), int)]
    given += [np.zeros((moments, 5), "f4")] if moments else []
    given += [np.zeros(along, "f4")] if along else []
    for few in (n_added, n_added + 1):
        monkeypatch.setattr(_swaps, "_FEW_ADDED", few)
        getattr(_swaps, name)(*given, np.zeros(0))
    assert len(by_numpy) == 1
    assert n_bytes == [4 * n_looked_up]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_products_are_those_of_their_definition(n_threads, monkeypatch):
    """Also of features with a mean, which those of the data have not."""
    used = in_threads(monkeypatch, n_threads)
    monkeypatch.setattr(_swaps, "_SIMS_CACHED", 4)
    monkeypatch.setattr(_swaps, "_CACHED", 500)
    rng = np.random.default_rng(0)
    found = few_features(small(), 3)
    found = replace(found, values=found.values + 2, means=found.means - 1)
    t, slots = rng.normal(size=(21, 8, 3)).astype("f4"), rng.integers(8, size=(50, 21))
    shapes = products.Sizes.of(3, found).shapes()
    sums = {name: np.ones((50, *shape), "f4") for name, shape in shapes.items()}
    products.add(sums, t, slots, found, np.array([0, 1, 2]), np.array([0.7, -0.4]))
    t = t[np.arange(21), slots].astype(float)  # (n_rows, n_sims, n_chosen)
    both, a, b = np.einsum("bik,bim->bikm", t, t), [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
    cubes = np.einsum("bikm,bin->bkmn", both, t)
    wanted = {
        "data": np.einsum("bik,if->bkf", t, found.values),
        "data_width": np.einsum("bik,if->bkf", 0.7 * t**2 - 0.4, found.values[:, :3]),
        "pairs": both.sum(axis=1)[:, a, b],
        "pairs_by_own": np.einsum("bikm,im->bkm", both, found.means),
        "pairs_by_data": np.einsum("bip,if->bfp", both[..., a, b], found.values[:, found.leading]),
        "triples": np.stack([cubes[:, k, m, n] for k, m, n in products.triples(3)], axis=1),
    }
    assert list(wanted) == list(products.PRODUCTS)
    for name, values in wanted.items():
        np.testing.assert_allclose(sums[name] - 1, values, rtol=1e-4, atol=1e-3, err_msg=name)
    assert max(used) == n_threads


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("n_rows", "n_sims", "n_numbers"), [(1, 1, 1), (50, 30, 7), (9, 8, 10**6)]
)
def test_rows_are_cut_so_that_caches_hold_them(n_rows, n_sims, n_numbers, n_threads, monkeypatch):
    in_threads(monkeypatch, n_threads)
    monkeypatch.setattr(_swaps, "_SIMS_CACHED", 8)
    monkeypatch.setattr(_swaps, "_CACHED", 200)
    rng = np.random.default_rng(0)
    values, slots = rng.normal(size=(n_sims, 6, 2)), rng.integers(6, size=(n_rows, n_sims))
    seen = np.zeros((n_rows, n_sims), int)
    parts = []

    def run(rows, sims, of_slots):
        seen[rows, sims] += 1
        wanted = values[np.arange(n_sims), slots][rows, sims].swapaxes(1, 2)
        np.testing.assert_array_equal(of_slots, wanted)
        parts.append((rows.stop - rows.start) * (sims.stop - sims.start) * n_numbers)

    _swaps.over_rows(run, values, slots, n_numbers)
    assert (seen == 1).all()
    assert max(parts) <= max(200, 8 * n_numbers)


@pytest.mark.usefixtures("way")
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
        y = whiten(both, 30, points.mean(axis=0), points.std(axis=0), None, played)
        np.testing.assert_allclose(y[30:], y[played, np.arange(5)], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("correlated", [False, True])
    @pytest.mark.parametrize(
        ("n_dims", "n_points"), [(1, 20), (3, 20), (30, 20), (30, 90), (300, 20)]
    )
    def test_replaced_points_are_as_long_as_if_they_had_been_there(
        self, n_dims, n_points, correlated
    ):
        rng = np.random.default_rng(0)
        mix = rng.normal(size=(n_dims, n_dims)) if correlated else np.eye(n_dims)
        points = rng.normal(size=(n_points, 8, n_dims)) @ mix
        moved = points[0] + 0.3 * (points[0] - points.mean(axis=0))
        moved[:, 0] += 0.8 * points[..., 0].std(axis=0)
        y = whiten(
            np.concatenate([points, moved[None]]),
            n_points,
            points.mean(axis=0),
            points.std(axis=0),
            None,
            np.zeros((1, 8), dtype=int),
        )
        there = np.concatenate([moved[None], points[1:]])
        truly = whiten(there, n_points, there.mean(axis=0), there.std(axis=0))
        before, ours, wanted = (
            (one**2).sum(axis=-1).mean() for one in (y[0], y[n_points], truly[0])
        )
        assert wanted > 1.05 * before
        assert abs(ours - wanted) < 0.2 * (wanted - before) + 0.05 * wanted


def exact(seed, n_sims=100, n_draws=50, n_dims=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_sims, n_dims))
    points = 0.8 * x + np.sqrt(0.2) * rng.normal(size=(n_draws + 1, n_sims, n_dims))
    return points[1:], points[0], x


def p_value(samples, theta, x, seed, n_swaps=19):
    sums = families.swapped(
        Simulations(samples, theta), {}, x, n_swaps=n_swaps, rng=np.random.default_rng(seed)
    )
    by_family = families.families(sums)
    return statistics.combine(
        np.column_stack(list(by_family.values())), families.weights(by_family)
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
def test_exact_posteriors_are_rejected_at_the_level():
    """Of every shape, with observations or not, and over all: 12 % in place of 5 % is seen."""
    n_studies, levels = 60, {0.05: 0.12, 0.1: 0.2, 0.5: 1.0}
    sizes = [
        (1, 20, 10, plain),
        (5, 20, 10, plain),
        (5, 30, 25, correlated),
        (5, 20, 10, heavy_tailed),
        (2, 50, 10, integers),
        (30, 20, 10, plain),
    ]
    p = np.empty((len(sizes), 2, n_studies))
    for i, (n_dims, n_sims, n_draws, shape) in enumerate(sizes):
        for with_x, k in np.ndindex(2, n_studies):
            seed = np.ravel_multi_index((i, with_x, k), p.shape)
            samples, theta, x = exact(seed, n_sims, n_draws, n_dims)
            p[i, with_x, k] = p_value(shape(samples), shape(theta), x if with_x else None, seed)
    for some in [p, *p.reshape(-1, n_studies)]:
        for level, seen in levels.items():
            share = FALSE_ALARM / (2 * len(levels) * (1 + 2 * len(sizes)))
            low, high = binom.ppf([share, 1 - share], some.size, level)
            assert low <= (some <= level).sum() <= high
            assert binom.sf(high, p.size, seen) > 0.9 or some is not p


def test_wrong_posteriors_are_rejected_beyond_the_level():
    rejected = 0
    for seed in range(10):
        samples, theta, x = exact(seed)
        rejected += p_value(0.8 * x + 0.6 * (samples - 0.8 * x), theta, x, seed) <= 0.05
    assert rejected == 10


def sums_of(study, seed):
    """Return the sums of 19 swaps of a small study."""
    samples, theta, x = study(seed)
    rng = np.random.default_rng(seed)
    return families.swapped(Simulations(samples, theta), {}, x, n_swaps=19, rng=rng)


def tiny(seed):
    """Return 20 exact posteriors of three parameters, for data with five columns."""
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=(20, 5))
    mean = 0.6 * x[:, :3] + 0.3 * x[:, 2:]
    points = mean + np.exp(0.3 * x[:, :1]) * rng.normal(size=(10, 20, 3))
    return points[1:], points[0], x


class TestEveryFamily:
    # `products`, `triples` and the like, which `SEES` describes, are all there; `test_scales` has
    # the families of fields.
    NAMES = set(families.SEES) - {"density", "ties", "values", "outliers", "maps"}
    NAMES = NAMES - set(families.FIELDS) | {"all together"}

    def test_p_values_of_exact_posteriors_are_uniform(self, of_every_family, not_uniform):
        p = of_every_family(partial(sums_of, tiny), 300)
        assert set(p) == self.NAMES
        assert [name for name in p if not_uniform(p[name])] == []

    def test_p_values_of_narrow_posteriors_are_not(self, of_every_family, not_uniform):
        def narrow(seed):
            samples, theta, x = tiny(seed)
            return samples.mean(axis=0) + 0.5 * (samples - samples.mean(axis=0)), theta, x

        p = of_every_family(partial(sums_of, narrow), 60)
        flawed = {name for name in p if not_uniform(p[name])}
        assert flawed >= {"width", "scale", "centre", "all together"}

    def test_p_values_are_not_if_features_know_the_truths(self, of_every_family, not_uniform):
        """The twin that must fail: exact posteriors, but data that were made of the truths."""

        def told(seed):
            samples, theta, _ = tiny(seed)
            error = theta - samples.mean(axis=0)
            return samples, theta, np.column_stack([error, error[:, :1] * error[:, 1:]])

        p = of_every_family(partial(sums_of, told), 60)
        flawed = {name for name in p if not_uniform(p[name])}
        assert flawed >= {"data", "all data", "all together"}
        assert not flawed & {"bias", "width", "marginals", "pairs", "triples"}  # see no data


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [None, 2])
@pytest.mark.parametrize("n_sims", [60, 300])
def test_planted_errors_change_no_p_value(request, n_sims, levels, weighted):
    """Whether few simulations or many, of continuous or of discrete parameters, weighted or not.

    Studies that measure the level leave planted errors out.
    """
    sims = small(n_sims, weighted=weighted, levels=levels)
    sims = Simulations(
        sims.samples, sims.theta, x=np.roll(sims.theta, 1),
        log_weights=sims.log_weights, log_weights_theta=sims.log_weights_theta,
    )  # fmt: skip
    planted = tarpon.check(sims, n_swaps=99, rng=0)
    request.getfixturevalue("nothing_planted")
    plain = tarpon.check(sims, n_swaps=99, rng=0)
    assert plain.families == planted.families
    assert plain.p_value == planted.p_value
    assert plain.detectable != planted.detectable


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing(monkeypatch):
    said = set()
    for n_threads in ("1", "2"):
        monkeypatch.setenv("TARPON_THREADS", n_threads)
        sims = tarpon.problems.zoo("narrow", n_sims=150, n_draws=120, n_dims=20, rng=0)
        said.add(tarpon.check(sims, n_swaps=199, rng=0).to_json())
    assert len(said) == 1


def small(n_sims=21, n_draws=7, n_dims=3, *, seed=0, weighted=False, levels=None, dtype="f8"):
    """Return a few simulations, weighted or not, full of ties if there are but few levels."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_draws + 1, n_sims, n_dims)) + rng.normal(size=(n_sims, n_dims))
    if levels:
        points = np.floor(levels * points)
    points = points.astype(dtype)
    own, weights = rng.normal(size=n_sims), rng.normal(size=(n_draws, n_sims))
    weights[0, ::3] = -np.inf
    more = {"log_weights": weights, "log_weights_theta": own} if weighted else {}
    return Simulations(points[1:], points[0], **more)


def pixels(theta, x):
    """Return two scores of each of two indicators."""
    return 2 * theta[..., [0, 1, 1, 2]] ** 2


def few_parts(n_sims, n_draws, seed=1):
    scores = np.random.default_rng(seed).normal(size=(n_draws + 1, n_sims, 2))
    return {
        "marginals": Part(HalfLines()),
        "total": Part(Scores(lambda theta, x: theta.sum(axis=-1))),
        "views": Part(Scores(lambda theta, x: np.abs(theta)), pooled=True),
        "known": Part(Values(scores[1:], scores[0])),
    }


def ranked(scores, weights):
    """Return ranks of scores `(n_points, n_scores)`, and in how many each point is tied."""
    ranks, tied = np.zeros(scores.shape), np.zeros(len(scores), int)
    heavy, n_levels = (np.ones(len(scores)), len(scores)) if weights is None else (weights, 1000)
    for k, column in enumerate(scores.T):
        for j, own in enumerate(column):
            same = column == own
            middle = heavy[column < own].sum() + heavy[same].sum() / 2
            middle *= n_levels / heavy.sum()
            ranks[j, k] = min((np.ceil(middle) - 1 + np.floor(middle)) / 2, n_levels - 1)
            tied[j] += heavy[j] > 0 and (same & (heavy > 0)).sum() > 1
    return ranks, tied


class ByHand:
    """The sums of the swap test, added up one simulation and labelling at a time."""

    def __init__(self, sims, parts, features, chosen, n_swaps, seed, block_bytes):
        seed = int(np.random.default_rng(seed).integers(2**63))
        self.table = statistics.components(1000 if sims.weighted else sims.n_draws + 1)
        self.polynomials = statistics.polynomials(self.table).astype(float)
        self.features, self.chosen = features, chosen
        self.n_rows, self.n_sims, n_dims = n_swaps + 1, sims.n_sims, sims.n_dims
        self.moments, self.truths = {}, {name: [] for name in parts}
        self.ties, self.own_shares = np.zeros(self.n_rows), []
        # Normal scores and widths of whoever plays the truth, and what errors are followed along.
        self.scores = np.zeros((self.n_rows, self.n_sims, n_dims))
        self.widths, self.along_of = np.zeros_like(self.scores), np.zeros((self.n_sims, 3, n_dims))
        self.along_of[:, 0] = standard(sims.centres())
        self.along_of[:, 1] = features.guides
        for block in sims.blocks(block_bytes):
            hide, label, _ = np.random.default_rng([seed, block.where.start]).spawn(3)
            block = block.hidden(hide)
            slots = np.concatenate([block.truth[None], block.labels(n_swaps, label)])
            for i, where in enumerate(range(block.where.start, block.where.stop)):
                weights = block.weights[:, i] if sims.weighted else None
                self.along_of[where, 2] = np.log(sd(block.points[:, i].astype(float), weights))
                for name, part in parts.items():
                    scores = part.region.scores(block)[:, i]
                    if not part.ranked:
                        none = np.zeros((self.n_rows, 2, scores.shape[1] // 2))
                        sums = self.moments.setdefault(name, none)
                        sums += scores[slots[:, i]].reshape(none.shape)
                        continue
                    if name == "total":
                        same = scores.ravel() == scores.ravel()[block.truth[i]]
                        heavy = np.ones(len(same)) if weights is None else weights
                        self.own_shares.append(heavy[same].sum() / heavy.sum())
                    found = ranked(scores.reshape(len(scores), -1), weights)
                    self.add(name, part.pooled, found, slots[:, i], where)

    def add(self, name, pooled, found, slots, where):
        for b, slot in enumerate(slots):
            ranks, tied = found[0][slot], found[1][slot]
            normal = between(self.table[:, 0], ranks)
            moments = self.polynomials @ normal ** np.arange(5)[:, None]
            moments = moments.mean(axis=1, keepdims=True) if pooled else moments
            sums = self.moments.setdefault(name, np.zeros((self.n_rows, *moments.shape)))
            sums[b] += moments
            if b == 0:
                self.truths[name].append(ranks)
            if name == "marginals":
                self.scores[b, where], self.widths[b, where] = moments[:2]
                self.ties[b] += tied

    @property
    def gauge(self):
        """One over the root mean square of the normal scores, row by row."""
        return (self.scores**2).mean(axis=1) ** -0.5

    def along(self):
        """Return bias and width along the mean, the guide and the log spread, all centred."""
        gauge, about = self.gauge, self.along_of - self.along_of.mean(axis=0)
        sums = np.zeros((self.n_rows, 2, *about.shape[1:]))
        for b, i, way, k in np.ndindex(self.n_rows, *about.shape):
            sums[b, 0, way, k] += self.scores[b, i, k] * gauge[b, k] * about[i, way, k]
            sums[b, 1, way, k] += self.widths[b, i, k] * about[i, way, k]
        return sums

    def products(self):
        """Return the sums of products by name, of normal scores with a mean square of one."""
        scores = (self.scores * self.gauge[:, None])[..., self.chosen]
        widths = (self.widths * self.gauge[:, None] ** 2)[..., self.chosen]
        f, means, n = self.features, self.features.means[:, self.chosen], len(self.chosen)
        leading = f.leading[: products.most_leading(n)]
        pairs = [(k, k) for k in range(n)] + [(k, m) for k in range(n) for m in range(k + 1, n)]
        triples = [(k, m, o) for k in range(n) for m in range(k, n) for o in range(m, n) if k < o]
        sums = {
            "data": np.zeros((self.n_rows, n, f.values.shape[1])),
            "data_width": np.zeros((self.n_rows, n, f.plain)),
            "pairs": np.zeros((self.n_rows, len(pairs))),
            "pairs_by_own": np.zeros((self.n_rows, n, n)),
            "pairs_by_data": np.zeros((self.n_rows, len(leading), len(pairs))),
            "triples": np.zeros((self.n_rows, len(triples))),
        }
        for b, i in np.ndindex(self.n_rows, self.n_sims):
            t, values = scores[b, i], f.values[i]
            for k in range(n):
                sums["data"][b, k] += t[k] * values
                sums["data_width"][b, k] += widths[b, i, k] * values[: f.plain]
                for m in range(n):
                    sums["pairs_by_own"][b, k, m] += t[k] * t[m] * means[i, m]
            for place, (k, m) in enumerate(pairs):
                sums["pairs"][b, place] += t[k] * t[m]
                sums["pairs_by_data"][b, :, place] += t[k] * t[m] * values[leading]
            for place, (k, m, o) in enumerate(triples):
                sums["triples"][b, place] += t[k] * t[m] * t[o]
        return sums

    def waves(self):
        """Return the sums of waves by name, of ranks as shares between 0 and 1."""
        u, n = norm.cdf(self.scores[..., self.chosen]), len(self.chosen)
        each = np.cos(np.pi * np.arange(1, 9) * u[..., None])  # (n_rows, n_sims, n, 8)
        pairs = [each[:, :, k, :3, None] * each[:, :, m, None, :3]
                 for k in range(n) for m in range(k + 1, n)]  # fmt: skip
        of_pairs = np.stack(pairs, axis=2) if pairs else np.zeros((*u.shape[:2], 0, 3, 3))
        return {"waves": each.sum(axis=1), "pair_waves": of_pairs.sum(axis=1)}


def sd(points, weights):
    """Return the standard deviation of points `(n_points, n_dims)`, 1 where they do not vary."""
    share = np.full(len(points), 1 / len(points)) if weights is None else weights / weights.sum()
    found = np.sqrt(share @ (points - share @ points) ** 2)
    return np.where(found > 0, found, 1)


def standard(sums):
    sd = sums.std(axis=0)
    return np.where(sd > 1e-6, (sums - sums.mean(axis=0)) / np.where(sd > 1e-6, sd, 1), 0)


def few_features(sims, n_chosen, n_columns=3, seed=5):
    """Return features of data that go with the parameters."""
    rng = np.random.default_rng(seed)
    centres = sims.centres()
    x = centres @ rng.normal(size=(sims.n_dims, n_columns))
    x += rng.normal(size=x.shape)
    return features.features(x, centres, n_chosen, rng)


SMALL = {
    "plain": small(),
    "ties": small(levels=2),
    "single": small(dtype="f4"),
    "single ties": small(levels=2, dtype="f4"),
    "weighted": small(weighted=True),
    "weighted ties": small(weighted=True, levels=2),
}


def one_discrete():
    """Return simulations of one discrete and two continuous parameters."""
    samples, theta = (np.array(points) for points in (small().samples, small().theta))
    samples[..., 0], theta[:, 0] = np.floor(samples[..., 0]), np.floor(theta[:, 0])
    return Simulations(samples, theta)


@pytest.mark.parametrize("block_bytes", [1500, 10**6], ids=["blocks", "one block"])
@pytest.mark.parametrize("sims", SMALL.values(), ids=SMALL)
class TestSumsByHand:
    def sums(self, sims, block_bytes, monkeypatch, chosen=(0, 2), **more):
        monkeypatch.setattr(labellings, "_BLOCK_BYTES", block_bytes)
        if block_bytes < 10**6:  # a few rows and simulations at a time, the last ones fewer
            monkeypatch.setattr(_swaps, "_SIMS_CACHED", 4)
            monkeypatch.setattr(_swaps, "_CACHED", 200)
        chosen, parts = np.array(chosen), few_parts(sims.n_sims, sims.n_draws) | more
        found = few_features(sims, len(chosen))
        given = sims, parts, found, chosen
        sums = swaps.swap(*given, n_swaps=9, rng=np.random.default_rng(7))
        return sums, ByHand(*given, 9, 7, block_bytes)

    def test_sums_of_moments_by_hand(self, sims, block_bytes, monkeypatch):
        found, wanted = self.sums(sims, block_bytes, monkeypatch)
        assert (found.n_sims, found.n_rows, found.n_plays) == (21, 10, 0)
        assert list(found.moments) == ["marginals", "total", "views", "known"]
        for name in ("total", "views", "known"):
            np.testing.assert_allclose(
                found.moments[name], standard(wanted.moments[name]), atol=1e-3
            )
        marginals = wanted.moments["marginals"]
        known = standard(marginals) if sims.weighted else marginals / np.sqrt(21)
        known[:, 0] *= wanted.gauge
        np.testing.assert_allclose(found.moments["marginals"], known, atol=1e-3)

    @pytest.mark.parametrize("size", [1.0, 1e-2, 1e-4])
    def test_sums_of_scores_that_are_not_ranked_by_hand(
        self, sims, block_bytes, size, monkeypatch
    ):
        def biases_and_squares(theta, x):
            return np.concatenate([size * theta, (size * theta) ** 2], axis=-1)

        def counts(theta, x):
            return np.concatenate([theta > 0, np.ones_like(theta), abs(theta), theta], axis=-1)

        more = {name: Part(Scores(counts), ranked=False) for name in ("values", "outliers")}
        more |= {"maps": Part(Scores(biases_and_squares), ranked=False)}
        found, wanted = self.sums(sims, block_bytes, monkeypatch, **more)
        for name in ("values", "outliers"):
            sums = wanted.moments[name]
            variance = sums[:, 0].var(axis=0)  # that of a number of truths
            assert sorted(variance > 0) == [False] * 3 + [True] * 3
            rare = np.sqrt(variance / (variance + 3))
            np.testing.assert_allclose(found.moments[name], rare * standard(sums), atol=1e-3)
        bias, square = wanted.moments["maps"].swapaxes(0, 1)
        scatter = np.maximum(square.mean(axis=1, keepdims=True) / 21, 1e-6)
        maps = np.stack([bias / np.sqrt(scatter), square], axis=1)
        np.testing.assert_allclose(found.moments["maps"], standard(maps), atol=2e-3)

    def test_sums_along_numbers_of_a_parameter_by_hand(self, sims, block_bytes, monkeypatch):
        found, wanted = self.sums(sims, block_bytes, monkeypatch)
        assert found.along.shape == (10, 2, 3, 3)
        np.testing.assert_allclose(found.along, standard(wanted.along()), atol=1e-3)
        assert np.abs(found.along).min(axis=(1, 2, 3)).max() > 0  # guides have sums too
        np.testing.assert_allclose(wanted.along_of[:, 0], found.features.means, atol=1e-5)

    @pytest.mark.parametrize("chosen", [(0, 2), (0, 1, 2), (1,)], ids=str)
    def test_sums_of_products_by_hand(self, sims, block_bytes, chosen, monkeypatch):
        found, wanted = self.sums(sims, block_bytes, monkeypatch, chosen)
        np.testing.assert_array_equal(found.chosen, chosen)
        by_hand = wanted.products()
        assert list(by_hand) == list(products.PRODUCTS)
        by_hand |= wanted.waves()
        assert list(found.products) == list(by_hand)
        for name, sums in by_hand.items():
            np.testing.assert_allclose(found.products[name], standard(sums), atol=2e-3)
        assert by_hand["pairs_by_data"].shape[1] == (3 if len(chosen) > 1 else 0)
        np.testing.assert_allclose(found.correlations, by_hand["pairs"] / 21, atol=1e-4)

    def test_sums_of_ties_by_hand(self, sims, block_bytes, monkeypatch):
        found, wanted = self.sums(sims, block_bytes, monkeypatch)
        np.testing.assert_allclose(found.ties, standard(wanted.ties), atol=1e-4)
        assert found.share_tied == pytest.approx(wanted.ties.mean() / (21 * 3))

    def test_sums_of_one_score_by_hand(self, sims, block_bytes, monkeypatch):
        found, wanted = self.sums(sims, block_bytes, monkeypatch)
        assert list(found.ranks) == ["total"]
        assert not found.measured
        ranks, middle = found.ranks["total"], np.array(wanted.truths["total"])[:, 0]
        reach = len(wanted.table) / 2 * np.array(wanted.own_shares)
        assert (abs(ranks - middle) <= reach + sims.weighted).all()
        assert (ranks != middle).any() == (sims.weighted or wanted.ties.any())


def every_sum(sums):
    """Return all sums by name, those of every part and product apart."""
    found = {"along": sums.along, "ties": sums.ties, "correlations": sums.correlations}
    return (
        found
        | {f"moments of {name}": values for name, values in sums.moments.items()}
        | {f"products: {name}": values for name, values in sums.products.items()}
    )


@pytest.mark.parametrize("sims", SMALL.values(), ids=SMALL)
def test_all_sums_are_the_same_bits_for_any_number_of_threads(sims, monkeypatch):
    x = np.random.default_rng(2).normal(size=(21, 4))
    found = []
    for n_threads in (1, 2, 3):
        with monkeypatch.context() as patch:
            used = in_threads(patch, n_threads)
            patch.setattr(_swaps, "_SIMS_CACHED", 4)
            patch.setattr(_swaps, "_CACHED", 2000)
            rng = np.random.default_rng(0)
            found.append(every_sum(families.swapped(sims, {}, x, n_swaps=99, rng=rng)))
            assert max(used) == n_threads
    for name, wanted in found[0].items():
        assert all(other[name].tobytes() == wanted.tobytes() for other in found[1:]), name


def test_truths_that_are_always_in_the_middle_have_sums():
    """Their normal scores are zero, and so is what bias and products are measured in."""
    rng = np.random.default_rng(0)
    draws = rng.uniform(1, 2, size=(6, 30, 2)) * np.array([1, -1] * 3)[:, None, None]
    sims, parts = Simulations(draws, np.zeros((30, 2))), {"marginals": Part(HalfLines())}
    found = swaps.swap(sims, parts, few_features(sims, 2), np.arange(2), n_swaps=9, rng=rng)
    assert all(np.isfinite(sums).all() for sums in every_sum(found).values())
    np.testing.assert_allclose(found.moments["marginals"][0, 0], 0, atol=1e-4)


def test_totals_are_the_same_after_they_were_packed():
    """Names may hold what separates them from the names of fields."""
    totals = labellings.Totals(
        moments={"score: a/b": np.ones(2), "ranks": np.zeros(1)},
        products={"along": np.arange(3)},
        ranks=[{"score: a/b": np.arange(2)}, {"score: a/b": np.arange(3)}],
        measured=[{"ranks/x": np.ones(1)}, {"ranks/x": np.zeros(1)}],
    )
    packed = totals.packed()
    assert packed.keys() == {
        *("moments/score: a/b", "moments/ranks", "products/along"),
        *("ranks/score: a/b", "measured/ranks/x"),
    }
    again = labellings.Totals.unpacked(packed)
    for name in ("moments", "products"):
        ours, wanted = getattr(again, name), getattr(totals, name)
        assert list(ours) == list(wanted)
        assert all((ours[key] == wanted[key]).all() for key in wanted)
    ((ranks,), (measured,)) = again.ranks, again.measured
    assert ranks["score: a/b"].tolist() == [0, 1, 0, 1, 2]
    assert measured["ranks/x"].tolist() == [1, 0]
    assert totals.joined_measured()["ranks/x"].tolist() == [1, 0]


def test_rows_are_changed_when_they_are_asked_for():
    sims, asked = small(), []
    found = swaps.swap(
        sims, few_parts(21, 7), few_features(sims, 2), np.array([0, 2]), n_swaps=9,
        rng=np.random.default_rng(7),
    )  # fmt: skip

    def first_three(values):
        asked.append(values)
        return values[:3]

    fewer = found.with_rows(first_three)
    assert list(fewer.moments) == list(found.moments)
    assert len(fewer.moments) == 4
    assert not any(one is values for one in asked for values in found.moments.values())
    np.testing.assert_array_equal(fewer.moments["total"], found.moments["total"][:3])
    np.testing.assert_array_equal(fewer.along, found.along[:3])
    np.testing.assert_array_equal(fewer.ties, found.ties[:3])
    assert fewer.products is found.products


def test_parts_of_large_sums_are_larger():
    assert swaps._part_bytes(1000) == 2000
    assert swaps._part_bytes(2**26 - 1) == 2 * (2**26 - 1)
    assert swaps._part_bytes(2**26) == 8 * 2**26


class TestRepeats:
    """Ties of whole points say nothing, those of a discrete parameter do."""

    def points(self):
        """Return four simulations of 20 points: the first parameter of two is discrete."""
        points = np.random.default_rng(0).normal(size=(20, 4, 2))
        points[:, [0, 3], 0] = np.rint(6 * points[:, [0, 3], 0])
        points[4, 1], points[6, 3] = points[3, 1], points[5, 3]  # two points repeat as a whole
        points[[5, 6], 3, 0] = 99
        return points

    def found(self, points, there=None, played=None):
        more = {}
        if there is not None:
            weights = np.where(there, 0.0, -np.inf)
            more = {"log_weights": weights[:-1], "log_weights_theta": weights[-1]}
        sims = Simulations(points[:-1], points[-1], **more)
        block = replace(next(sims.blocks()), truth=np.full(4, 19))  # points stay in their order
        given = HalfLines(), block, none_played(4).T, np.arange(1000.0)
        _, tied = labellings._normal_scores(*given)
        played = none_played(4).T if played is None else played
        return tied, labellings._without_repeats(tied, block, played)

    def wanted(self, points, there):
        """Return whether the first parameter equals that of a point that is another."""
        wanted = np.zeros((4, 20), int)
        for i, j in np.ndindex(4, 20):
            own, others = points[j, i], points[there[:, i], i]
            apart = others[others[:, 1] != own[1], 0]
            wanted[i, j] = there[j, i] and i in (0, 3) and (apart == own[0]).any()
        return wanted

    def test_repeats_of_whole_points_are_no_ties(self):
        points = self.points()
        tied, found = self.found(points)
        wanted = self.wanted(points, np.ones((20, 4), bool))
        np.testing.assert_array_equal(found, wanted)
        assert (tied != wanted).any(axis=1).tolist() == [False, True, False, True]
        assert not wanted[3, 5:7].any()

    def test_ties_of_planted_points_are_those_of_the_points_they_replace(self):
        played = np.array([[1, 3, 0, 5], [2, 4, 0, 7]])
        _, found = self.found(self.points(), played=played)
        assert found.shape == (4, 22)
        np.testing.assert_array_equal(found[:, 20:], np.take_along_axis(found, played.T, axis=1))

    def test_points_without_weight_are_no_ties(self):
        """Most of them lie between the values of a parameter, and one at a value."""
        points, there = self.points(), np.ones((20, 4), bool)
        there[8:, [0, 3]] = False
        points[8:, [0, 3], 0] += np.random.default_rng(1).uniform(0.1, 0.9, size=(12, 2))
        points[:8, 0, 0] = [1, 2, 4, 4, 7, 11, 16, 22]
        points[8, 0, 0] = 7
        tied, found = self.found(points, there)
        np.testing.assert_array_equal(found, self.wanted(points, there))
        assert found[0].tolist() == [0, 0, 1, 1] + [0] * 16
        assert tied[1].any()
        assert not found[1].any()


def test_sums_from_a_folder_are_added_where_the_others_are(elsewhere):
    totals, others = labellings.Totals({"total": elsewhere(np.ones(2))}), np.array([1, 3])
    totals.add(labellings.Totals({"total": others}, {"ties": others}))
    assert isinstance(totals.moments["total"], elsewhere)
    assert totals.moments["total"].tolist() == [2, 4]
    assert totals.products["ties"].tolist() == [1, 3]


def test_width_is_that_of_the_squared_normal_score_and_one():
    table = statistics.components(30)
    of_square, of_one = labellings.Recipe(table, np.arange(2), 5, 0, None, None).width
    np.testing.assert_allclose(of_square * table[:, 0] ** 2 + of_one, table[:, 1], atol=1e-5)


class TestMemory:
    """What sums of three parameters take, added up by hand."""

    # The products of 3 parameters with 41 features (3 plain, 6 products, 32 waves), with the 3
    # plain ones, of the 6 pairs, by own means, of the pairs with 3 leading ones, of the 7
    # triples, and the waves of one and of two.
    n_products = 3 * 41 + 3 * 3 + 6 + 3 * 3 + 3 * 6 + 7 + 3 * 8 + 3 * 3 * 3
    # Moments of 10 scores, bias and width along 3 ways, ties.
    n_moments = 4 * 10 + 2 * 3 * 3 + 1

    def said(self, monkeypatch, *given):
        said = []
        monkeypatch.setattr(labellings.arguments, "affordable", lambda *told: said.extend(told))
        labellings.affordable_swaps(*given)
        return said

    def test_sizes_of_sums_of_few_parameters(self):
        assert labellings.most_sums(3) == products.Sizes(3, 3 + 6 + 32, 3, 3)
        x = np.zeros((21, 2, 4))
        assert labellings.most_sums(3, x) == products.Sizes(3, 8 + 36 + 32, 8, 8)
        assert labellings.most_sums(1, x).n_leading == 0
        assert labellings.most_sums(200).n_chosen == 128

    def test_sums_that_are_planted_have_no_products(self):
        sizes = labellings.most_sums(3)
        n_bytes = labellings.sums_bytes(100, 130, 3, sizes)
        assert n_bytes == 4 * (130 * self.n_moments + 100 * self.n_products)

    @pytest.mark.parametrize(("block_bytes", "n_labels"), [(2**25, 21), (1600, 8)])
    def test_bytes_of_a_swap_by_hand(self, block_bytes, n_labels, monkeypatch):
        monkeypatch.setattr(labellings, "_BLOCK_BYTES", block_bytes)
        n_bytes, what, _ = self.said(monkeypatch, 1000, small(), 3)
        each = 4 * (self.n_moments + self.n_products)
        assert n_bytes == 1000 * (3 * each + 20 * n_labels + 600)
        assert what == "`n_swaps` = 1000"
        sims = Simulations(small().samples, small().theta, x=np.zeros((21, 2, 4)))
        more = 3 * 35 + 3 * 5 + 5 * 6  # features, plain ones and leading ones
        assert self.said(monkeypatch, 1000, sims, 3)[0] - n_bytes == 1000 * 3 * 4 * more

    def test_too_many_swaps_are_refused(self, monkeypatch):
        monkeypatch.setattr(labellings.arguments, "memory", lambda: 1000)
        message = (
            r"^`n_swaps` = 1000 would take about 4\.4 MB of memory, and 500 B may be used\. "
            r"The smallest p-value is 1 / \(n_swaps \+ 1\), so 9999 are enough for most levels: "
            r"ask for fewer\.$"
        )
        with pytest.raises(ValueError, match=message):
            labellings.affordable_swaps(1000, small(), 3)


class TestEnough:
    @pytest.mark.parametrize(("n_sims", "n_draws"), [(1, 5), (2, 4), (1, 100), (100, 4)])
    def test_too_few_simulations_or_draws_are_refused(self, n_sims, n_draws):
        message = (
            "`check` needs at least 2 simulations of 5 draws, but got "
            f"{n_sims} of {n_draws}. Use `sbc` or `tarp`, which work with one."
        )
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            swaps.needs_at_least(n_sims, n_draws)
        assert str(refused.value) == message

    def test_just_enough_simulations_and_draws_are_taken(self):
        swaps.needs_at_least(2, 5)

    @pytest.mark.parametrize(
        ("level", "n_at_level", "fewest"),
        [
            *((0.05, 1, 19), (0.05, 2, 39), (0.3, 1, 3), (0.9, 1, 1), (1.0, 1, 1)),
            *((0.4, 1, 2), (1 / 49, 1, 48), (1e-30, 1, 10**18 - 1)),
            (1 / (20 + 3e-10), 1, 19),  # what rounding may have done does not count
        ],
    )
    def test_fewest_swaps_make_the_level(self, level, n_at_level, fewest):
        assert swaps.fewest_swaps(level, n_at_level) == fewest
        if n_at_level == 1:
            assert swaps.fewest_swaps(level) == fewest

    @pytest.mark.parametrize("n_swaps", [0, 18])
    def test_swaps_that_cannot_reach_the_level_are_refused(self, n_swaps):
        assert swaps.enough_swaps(19, 0.05) == 19
        message = (
            f"`n_swaps` must be at least 19 at level 0.05, but got {n_swaps}: "
            "the p-value is never below 1 / (n_swaps + 1)."
        )
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            swaps.enough_swaps(n_swaps, 0.05)
        assert str(refused.value) == message

    def test_negative_numbers_of_swaps_are_refused(self):
        with pytest.raises(ValueError, match=r"^`n_swaps` must be at least 0, but got -1"):
            swaps.enough_swaps(-1, 0.05)


def test_rare_truths_count_less():
    """A variance of 3 counts half, and what never varies not at all."""
    counts = np.array([[0.0, 1.0, 5.0], [2 * np.sqrt(3), 1.0, 6.0]])
    wanted = np.sqrt([0.5, 0.0, 0.25 / 3.25])
    np.testing.assert_allclose(swaps._frequent(counts), wanted)


def test_products_of_small_blocks_are_added_together(monkeypatch):
    monkeypatch.setattr(labellings, "_BLOCK_BYTES", 4 * 8 * 8 * 3)
    monkeypatch.setattr(labellings, "_FEWEST_TOGETHER", 8)
    sizes, add = [], products.add

    def noted(sums, scores, *more):
        sizes.append(len(scores))
        add(sums, scores, *more)

    monkeypatch.setattr(products, "add", noted)
    sims = small()
    given = sims, few_parts(21, 7), few_features(sims, 2), np.array([0, 2])
    swaps.swap(*given, n_swaps=9, rng=np.random.default_rng(7))
    assert sizes == [8, 8, 5]


def test_products_are_brought_to_their_units_where_they_are():
    """They are the largest of all sums: memory holds them once."""
    sims, chosen = small(), np.array([0, 2])
    found, rng = few_features(sims, 2), np.random.default_rng(7)
    totals, recipe = swaps.added(sims, few_parts(21, 7), found, chosen, n_swaps=9, rng=rng)
    sums = swaps._in_units(totals, recipe, sims, found, {})
    for name, values in sums.products.items():
        assert np.shares_memory(values, totals.products[name]), name


def test_units_of_products_are_shared_out_on_the_host_alone(elsewhere, monkeypatch):
    shapes = products.Sizes(2, 9, 3, 3).shapes()
    sizes, unit = [], np.random.default_rng(0).uniform(size=(10, 2))

    def noted(run, n, size):
        sizes.append(size)
        run(0, n // 2)
        run(n // 2, n)

    monkeypatch.setattr(swaps.threads, "over_ranges", noted)
    for put in (np.array, elsewhere):
        sums = {name: put(np.ones((10, *shape))) for name, shape in shapes.items()}
        swaps._in_unit(sums, put(unit))
        assert sums["pairs"].tolist() == [[u * u, v * v, u * v] for u, v in unit.tolist()]
    assert sizes == [sum(values.size for values in sums.values()), 0]


def test_scores_of_the_users_own_are_known_by_their_names():
    sims = small()
    own = {"marginals": HalfLines(), "total": Scores(lambda theta, x: theta.sum(axis=-1))}
    sums = families.swapped(sims, own, None, n_swaps=9, rng=np.random.default_rng(0))
    assert sums.own == {"score: marginals": "marginals", "score: total": "total"}
    assert sums.ranks.keys() == {"centre", "score: total"}  # the others have several scores
    assert sums.own.keys() <= families.families(sums).keys()
    assert not families.swapped(sims, {}, None, n_swaps=9, rng=np.random.default_rng(0)).own


def test_parts_take_along_what_their_simulations_need():
    region = Values(np.arange(40).reshape(4, 10), np.arange(10))
    part = Part(region, pooled=True, own="mine").cut(slice(3, 5))
    assert part.pooled
    assert part.own == "mine"
    assert part.region.theta.array.tolist() == part.region.theta[3:5].tolist() == [3, 4]
    assert part.region.samples.array.shape == (4, 2)


class TestPartsOfSimulations:
    data = np.random.default_rng(5).normal(size=(64, 2))

    def swap(self, sims, **more):
        rng, chosen = np.random.default_rng(7), np.array([0, 2])
        found = features.features(self.data, sims.centres(), 2, np.random.default_rng(6))
        return swaps.swap(sims, few_parts(64, 7), found, chosen, n_swaps=9, rng=rng, **more)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_parts_add_up_to_the_whole(self, weighted, monkeypatch):
        monkeypatch.setattr(swaps, "_DATA_PER_SUM", 0)
        monkeypatch.setattr(labellings, "_BLOCK_BYTES", 1600)
        sims = small(64, weighted=weighted)
        whole = self.swap(sims)
        sims._set(_part_bytes=3200)
        parts = self.swap(sims)
        added = every_sum(parts)
        for name, sums in every_sum(whole).items():
            np.testing.assert_allclose(added[name], sums, atol=2e-3, err_msg=name)
        np.testing.assert_array_equal(parts.features.values, whole.features.values)
        assert list(parts.ranks) == list(whole.ranks) == ["total"]
        np.testing.assert_array_equal(parts.ranks["total"], whole.ranks["total"])

    def test_parts_include_extra_arrays(self, monkeypatch):
        monkeypatch.setattr(swaps, "_DATA_PER_SUM", 0)
        sims = small(64)
        sims._set(_part_bytes=3200)
        found = self.swap(
            sims, measure=lambda piece: {"first": piece.theta[:, 0], "total": piece.theta[:, 1]}
        )
        assert (set(found.measured), set(found.ranks)) == ({"first", "total"}, {"total"})
        np.testing.assert_array_equal(found.measured["first"], sims.theta[:, 0])
        np.testing.assert_array_equal(found.measured["total"], sims.theta[:, 1])

    def test_size_of_parts_follows_that_of_their_sums(self):
        """A part of the draws is twice as large as the sums made of it, at least."""
        sims, said = small(64), []
        sims._set(_part_bytes=1)
        engine = tarpon.Engine(progress=lambda *told: said.append(told))
        rng = np.random.default_rng(0)
        families.swapped(bound(sims, engine.start(dict, 0)), {}, self.data, n_swaps=4, rng=rng)
        plain = labellings.Recipe(statistics.components(8), np.arange(3), 5, 0, None, None)
        parts = families.parts(sims, {}, rng)
        found = features.features(self.data, sims.centres(), 3, np.random.default_rng(6))
        sums = plain.sums(sims, parts=parts, features=found, start=0)
        totals = labellings.Totals.unpacked(sums)
        del totals.products["total_along"]  # the only one without rows
        added = [*totals.moments.values(), *totals.products.values()]
        n_bytes = sum(values.nbytes for values in added)
        assert plain.n_bytes(3, found) == n_bytes
        step = passes.step(sims, 2 * n_bytes)
        assert [told for told in said if told[0] == "swaps"] == [
            ("swaps", k + 1, -(-64 // step)) for k in range(-(-64 // step))
        ]
        planted = labellings.Recipe(statistics.components(8), np.arange(3), 5, 0, Moved(0.0), None)
        assert planted.n_all == 5 + 3 + 6
        assert planted.n_bytes(3, found) - n_bytes == 4 * 9 * (4 * 10 + 2 * 3 * 3 + 1)

    def test_parts_may_be_sharded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(swaps, "_DATA_PER_SUM", 0)
        sims = small(64)
        sims._set(_part_bytes=3200)
        whole = self.swap(sims)
        for i in range(2):
            engine = tarpon.Engine(resume=tmp_path, shard=(i, 2))
            with pytest.raises(Unfinished, match=f"shard {i}/2"):
                self.swap(bound(sims, engine.start(dict, 0)))
        assert len(list(tmp_path.glob("swaps-*.npz"))) == 4
        merged = self.swap(
            bound(sims, tarpon.Engine(resume=tmp_path, on_missing="raise").start(dict, 0))
        )
        again = every_sum(merged)
        for name, sums in every_sum(whole).items():
            np.testing.assert_array_equal(again[name], sums, err_msg=name)


@dataclass(frozen=True)
class Moved:
    """Plants points that are moved."""

    by: float
    n_plays: int = 3
    n_extra: int = 6

    def points(self, block, played):
        return block.pooled[played, np.arange(played.shape[1])] + self.by


class TestPlants:
    def swap(self, sims, by=None, parts=None):
        parts, chosen = few_parts(21, 7) | (parts or {}), np.array([0, 2])
        return swaps.swap(
            sims, parts, few_features(sims, 2), chosen, n_swaps=9, rng=np.random.default_rng(7),
            plants=None if by is None else Moved(by),
        )  # fmt: skip

    @pytest.mark.parametrize("sims", [*SMALL.values(), one_discrete()], ids=[*SMALL, "mixed"])
    def test_plants_that_change_nothing_give_the_sums_of_their_plays(self, sims):
        found = self.swap(sims, 0.0)
        assert (found.n_rows, found.n_plays) == (10, 3)
        for sums in (*found.moments.values(), found.along, found.ties):
            assert len(sums) == 10 + 3 + 6
            np.testing.assert_allclose(sums[13:16], sums[10:13], atol=1e-5)
            np.testing.assert_allclose(sums[16:], sums[10:13], atol=1e-5)
        assert all(len(sums) == 10 for sums in found.products.values())
        # Plays are no truths: they differ from each other, and from the real labelling.
        bias = found.moments["total"][:, 0, 0]
        assert len(set(bias[[0, 10, 11, 12]].round(6))) == 4

    def test_plants_are_measured_in_units_of_the_swaps(self):
        found = self.swap(small(levels=2), 50.0)
        for sums in (found.along, found.ties, found.moments["total"], found.moments["views"]):
            np.testing.assert_allclose(sums[:10].mean(axis=0), 0, atol=1e-5)
            np.testing.assert_allclose(sums[:10].std(axis=0), 1, atol=1e-4)

    def test_plants_that_change_nothing_are_as_far_from_the_centre_as_their_plays(self):
        sums = self.swap(small(), 0.0, {"centre": Part(FromCentre())}).moments["centre"]
        np.testing.assert_allclose(sums[13:], np.tile(sums[10:13], (2, 1, 1)), atol=1e-5)

    @pytest.mark.parametrize("sims", SMALL.values(), ids=SMALL)
    def test_plants_leave_the_swaps_unchanged(self, sims):
        found, other = every_sum(self.swap(sims, 0.0)), every_sum(self.swap(sims, 50.0))
        for name, sums in found.items():
            np.testing.assert_allclose(other[name][:13], sums[:13], atol=1e-5, err_msg=name)
        for name, sums in every_sum(self.swap(sims)).items():
            np.testing.assert_allclose(found[name][:10], sums, atol=1e-5, err_msg=name)

    def test_plants_beyond_all_others_rank_highest(self):
        found = self.swap(small(), 50.0)
        highest = statistics.components(8)[-1]
        tails = np.sqrt(21) * highest[2]
        np.testing.assert_allclose(found.moments["marginals"][13:, 2], tails, rtol=1e-4)
        # What came with the draws is not known of them: there they stand for themselves.
        np.testing.assert_allclose(found.moments["known"][13:16], found.moments["known"][10:13])

    def test_scores_of_plants_of_a_wrong_shape_are_refused(self):
        bad = {"bad": Part(Scores(lambda theta, x: theta[:3, :, 0]))}
        with pytest.raises(ValueError, match=r"`scores` must be \(14, 21\) .*but got \(3, 21\)"):
            self.swap(small(), 0.0, bad)

    def test_scores_of_plants_that_are_nan_are_refused(self):
        bad = {"bad": Part(Scores(lambda theta, x: theta[..., 0] + 1j))}
        with pytest.raises(TypeError, match="`scores` must hold real numbers, but got complex128"):
            self.swap(small(), None, bad)


def test_sums_on_the_host_are_the_same():
    sims = small()
    found = swaps.swap(
        sims, few_parts(21, 7), few_features(sims, 2), np.array([0, 2]), n_swaps=9,
        rng=np.random.default_rng(7),
    )  # fmt: skip
    host = found.on_host()
    for field in fields(found):
        here, there = getattr(found, field.name), getattr(host, field.name)
        for name in here if isinstance(here, dict) else ():
            np.testing.assert_array_equal(there[name], here[name])
        if field.name == "features":
            assert there is here
        elif not isinstance(here, dict):
            np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("n_block", [4, 32])
@pytest.mark.parametrize("sims", [*SMALL.values(), one_discrete()], ids=[*SMALL, "mixed"])
def test_sums_stay_where_the_samples_are(sims, n_block, elsewhere, monkeypatch):
    """A stand-in for a device finds what would end up in two places."""
    monkeypatch.setattr(labellings, "_BLOCK_BYTES", n_block * 8 * 8 * 3)
    chosen, found = np.array([0, 2]), few_features(sims, 2)

    def swap(sims, put=np.array):
        rng, scores = np.random.default_rng(7), np.random.default_rng(8).normal(size=(8, 21))
        parts = few_parts(21, 7) | {"added": Part(Scores(pixels), ranked=False)}
        parts["known there"] = Part(Values(put(scores[1:]), put(scores[0])))
        return swaps.swap(sims, parts, found, chosen, n_swaps=9, rng=rng, plants=Moved(0.5))

    wanted, there = swap(sims), Simulations(*(sims.samples, sims.theta))
    there._set(
        samples=elsewhere(sims.samples), theta=elsewhere(sims.theta),
        log_weights=sims.log_weights, log_weights_theta=sims.log_weights_theta,
    )  # fmt: skip
    there._known.checked = True
    sums = swap(there, elsewhere)
    assert all(isinstance(one, elsewhere) for one in every_sum(sums).values())
    host = sums.on_host()
    for name, one in every_sum(host).items():
        np.testing.assert_allclose(one, every_sum(wanted)[name], atol=1e-5, err_msg=name)
    assert all(isinstance(one, np.ndarray) for one in vars(host).values() if hasattr(one, "ndim"))
    np.testing.assert_array_equal(host.ranks["total"], wanted.ranks["total"])


class TestRanksOfTruths:
    table = np.arange(1000, dtype="f4")

    def spread(self, ranks, seed=0):
        n = len(ranks)
        own = np.log(np.where(np.arange(n) % 2, 2.0, 5.0))
        sims = Simulations(
            np.zeros((3, n, 1)), np.zeros((n, 1)),
            log_weights=np.log(np.full((3, n), 5 / 3)), log_weights_theta=own,
        )  # fmt: skip
        block = next(sims.blocks()).hidden(np.random.default_rng(1))
        numbers = -1.0 - np.tile(np.arange(4), (n, 1))
        numbers[np.arange(n), block.truth] = ranks
        return labellings._ranks(numbers, block, self.table, np.random.default_rng(seed))

    @pytest.mark.parametrize(("n_same", "first"), [(1, 0), (2, 0), (3, 2), (4, 1), (5, 0)])
    def test_ranks_of_ties_are_uniform_over_all_of_theirs(self, n_same, first):
        n = 20_000
        sims = Simulations(np.zeros((5, n, 1)), np.zeros((n, 1)))
        block = next(sims.blocks(2**30)).hidden(np.random.default_rng(1))
        ranks = np.arange(6, dtype=float)
        ranks[first : first + n_same] = ranks[first : first + n_same].mean()
        numbers = np.array([np.roll(ranks, truth - first) for truth in block.truth])
        table, rng = np.arange(6, dtype="f4"), np.random.default_rng(0)
        found = np.bincount(labellings._ranks(numbers, block, table, rng), minlength=6)
        assert found[:first].sum() + found[first + n_same :].sum() == 0
        # Each is within six standard errors of its share: false alarm 2e-9 each.
        share = 1 / n_same
        assert abs(found[first : first + n_same] / n - share).max() <= 6 * np.sqrt(
            share * (1 - share) / n
        )

    def test_spread_goes_over_the_weight_of_the_truth_and_no_further(self):
        ranks = np.full(40_000, 500)
        spread = self.spread(ranks)
        assert spread.dtype == np.int64
        half, seventh = spread[::2], spread[1::2]
        assert (half.min(), half.max()) == (250, 750)
        assert (seventh.min(), seventh.max()) == (357, 643)
        # Uniform, so the mean lies within six standard errors: false alarm 2e-9.
        assert abs(half.mean() - 500) < 6 * 500 / np.sqrt(12 * 20_000)

    def test_spread_ends_where_levels_do(self):
        assert self.spread(np.zeros(2000, int)).min() == 0
        assert self.spread(np.full(2000, 999)).max() == 999

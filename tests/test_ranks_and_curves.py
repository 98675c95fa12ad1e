"""Ranks and curves by their definitions, wherever the draws are."""

import threading
from itertools import product

import numpy as np
import pytest

import tarpon
from tarpon import Simulations, curves
from tarpon import ranks as ranking
from tarpon.curves import Curve
from tarpon.engine import Unfinished
from tarpon.metrics import L2
from tarpon.ranks import Ranks, held, proportion
from tarpon.regions import Balls, HalfLines, HighestDensity, Scores, Values
from tarpon.simulations import passes
from tarpon.simulations.stored import Stored


def integers(n_sims=40, n_draws=9, n_dims=2, seed=0):
    """Return simulations of small integers, full of ties."""
    points = np.random.default_rng(seed).integers(5, size=(n_draws + 1, n_sims, n_dims))
    return Simulations(points[1:].astype(float), points[0].astype(float))


def weighted(n_sims=30, n_draws=7, n_dims=2, seed=0):
    rng = np.random.default_rng(seed)
    sims = integers(n_sims, n_draws, n_dims, seed)
    return Simulations(
        sims.samples,
        sims.theta,
        log_weights=rng.normal(size=(n_draws, n_sims)),
        log_weights_theta=rng.normal(size=n_sims),
    )


def stored(sims, folder):
    """Return the same simulations with draws on disk."""
    np.save(folder / "samples.npy", sims.samples)
    return Simulations(
        np.load(folder / "samples.npy", mmap_mode="r"),
        sims.theta,
        log_weights=sims.log_weights,
        log_weights_theta=sims.log_weights_theta,
    )


class TestRanks:
    def test_histogram_counts_every_rank(self):
        ranks = Ranks(np.array([0, 3, 3, 1, 0, 0]), n_draws=4)
        assert ranks.n_sims == 6
        assert ranks.histogram().tolist() == [3, 1, 0, 2, 0]

    def test_histogram_of_several_scores_has_a_column_each(self):
        values = np.random.default_rng(0).integers(6, size=(50, 3))
        histogram = Ranks(values, n_draws=5).histogram()
        assert histogram.shape == (6, 3)
        for rank, score in product(range(6), range(3)):
            assert histogram[rank, score] == (values[:, score] == rank).sum()

    def test_pit_spreads_each_rank_over_its_own_interval(self):
        ranks = Ranks(np.arange(5).repeat(2000).reshape(-1, 2), n_draws=4)
        pit = ranks.pit(np.random.default_rng(0))
        assert pit.shape == ranks.values.shape
        np.testing.assert_array_equal(np.floor(5 * pit), ranks.values)
        within = 5 * pit - ranks.values
        assert within.min() < 0.01
        assert within.max() > 0.99


class TestRank:
    def test_rank_without_ties_is_the_number_of_draws_below(self):
        rng = np.random.default_rng(0)
        samples, theta = rng.normal(size=(20, 30, 3)), rng.normal(size=(30, 3))
        ranks = ranking.rank(Simulations(samples, theta), HalfLines(), rng)
        np.testing.assert_array_equal(ranks.values, (samples < theta).sum(axis=0))
        assert ranks.n_draws == 20

    def test_rank_with_ties_is_any_that_they_allow(self):
        sims = integers(3000)
        ranks = ranking.rank(sims, HalfLines(), np.random.default_rng(0))
        below = (sims.samples < sims.theta).sum(axis=0)
        equal = (sims.samples == sims.theta).sum(axis=0)
        within = ranks.values - below
        assert (within >= 0).all()
        assert (within <= equal).all()
        for n in range(4):
            assert set(within[equal == n]) == set(range(n + 1))

    def test_ranks_of_ties_take_random_numbers_and_others_do_not(self):
        found = {"below": np.array([3, 0, 5, 1]), "equal": np.array([0, 4, 0, 2])}
        rng, same = np.random.default_rng(0), np.random.default_rng(0)
        ranks = ranking.broken(found, integers(), rng)
        more = same.integers([4, 2], endpoint=True)
        assert ranks.values.tolist() == [3, more[0], 5, 1 + more[1]]
        assert ranks.values.dtype == np.int64
        assert rng.bit_generator.state == same.bit_generator.state

    def test_rank_of_weighted_draws_is_a_level_of_the_weight_below(self):
        found = {"below": np.array([0.0, 0.25, 1.0, 0.9995]), "equal": np.array([1.0, 0.5, 0, 0])}
        rng, same = np.random.default_rng(0), np.random.default_rng(0)
        ranks = ranking.broken(found, weighted(), rng)
        u = found["below"] + same.uniform(size=4) * found["equal"]
        assert ranks.values.tolist() == [int(1000 * u[0]), int(1000 * u[1]), 999, 999]
        assert ranks.n_draws == 999
        assert ranks.values.dtype == np.int64

    def test_rank_of_weighted_draws_lies_between_their_sums(self):
        sims = weighted(500)
        ranks = ranking.rank(sims, HalfLines(), np.random.default_rng(0))
        log_weights = np.concatenate([sims.log_weights_theta[None], sims.log_weights])
        w = np.exp(log_weights - log_weights.max(axis=0))
        w /= w.sum(axis=0)
        points = np.concatenate([sims.theta[None], sims.samples])
        below = (w[..., None] * (points < sims.theta)).sum(axis=0)
        equal = (w[..., None] * (points == sims.theta)).sum(axis=0)
        assert (ranks.values + 1 >= 1000 * below - 1e-9).all()
        assert (ranks.values <= 1000 * (below + equal) + 1e-9).all()
        spread = (ranks.values + 0.5 - 1000 * below) / (1000 * equal)
        assert spread.min() < 0.01
        assert spread.max() > 0.99


def shares(sims, region, weights):
    """Return the counts or shares of a region with its scores laid out one by one."""
    (block,) = sims.blocks()
    scores = region.scores(block)
    scores = scores.reshape(*scores.shape[:2], -1)
    below, equal = np.zeros((2, sims.n_sims, scores.shape[2]))
    for i, k in product(range(sims.n_sims), range(scores.shape[2])):
        for j in range(1, sims.n_draws + 1):
            below[i, k] += weights[j, i] * (scores[j, i, k] < scores[0, i, k])
            equal[i, k] += weights[j, i] * (scores[j, i, k] == scores[0, i, k])
    return below, equal


class TestCounts:
    regions = pytest.mark.parametrize(
        "region",
        [
            HalfLines(),
            Scores(lambda theta, x: theta.sum(axis=-1)),
            Scores(lambda theta, x: theta),
            Balls(np.random.default_rng(1).integers(5, size=(40, 2)).astype(float)),
            Balls(np.ones((40, 3, 2)), L2()),
            Values(np.arange(360).reshape(9, 40) % 7, np.arange(40) % 7),
        ],
        ids=["half-lines", "score", "scores", "balls", "several balls", "values"],
    )

    @regions
    def test_counts_are_those_of_the_definition(self, region):
        sims = integers()
        found = ranking.counts(sims, region)
        below, equal = shares(sims, region, np.ones((10, 40)))
        np.testing.assert_array_equal(found["below"].reshape(below.shape), below)
        np.testing.assert_array_equal(found["equal"].reshape(equal.shape), equal)

    @regions
    def test_counts_of_weights_are_sums_with_that_of_the_truth(self, region):
        sims = weighted(40, 9)
        found = ranking.counts(sims, region)
        # A block has the truth first, and the draw that was there at the end.
        draws = np.roll(sims.log_weights, -1, axis=0)
        w = np.exp(np.concatenate([sims.log_weights_theta[None], draws]))
        w /= w.sum(axis=0)
        below, equal = shares(sims, region, w)
        equal += w[0][:, None]
        np.testing.assert_allclose(found["below"].reshape(below.shape), below, atol=1e-12)
        np.testing.assert_allclose(found["equal"].reshape(equal.shape), equal, atol=1e-12)

    @regions
    @pytest.mark.parametrize("make", [integers, weighted])
    def test_counts_of_stored_draws_are_the_same(self, region, make, tmp_path):
        sims = make(40, 9)
        elsewhere = stored(sims, tmp_path)
        elsewhere._set(_part_bytes=2000)  # eight simulations at a time
        found, wanted = ranking.counts(elsewhere, region), ranking.counts(sims, region)
        assert set(found) == set(wanted) == {"below", "equal"}
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name])

    @pytest.mark.parametrize("at_hand", [True, False])
    def test_counts_include_extra_arrays(self, at_hand, tmp_path):
        sims = integers() if at_hand else stored(integers(), tmp_path)
        sims._set(_part_bytes=2000)
        region, seen = HalfLines(), []

        def largest(part, region):
            seen.append(region)
            return {"largest": part.samples.max(axis=(0, 2))}

        found = ranking.counts(sims, region, largest)
        assert list(found) == ["below", "equal", "largest"]
        np.testing.assert_array_equal(found["largest"], sims.samples[:].max(axis=(0, 2)))
        assert all(one is region for one in seen)
        assert (len(seen) > 1) != at_hand

    def test_stored_draws_are_counted_a_block_at_a_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr(passes, "_BLOCK_BYTES", 2000)
        sizes = []

        def noted(part, region):
            sizes.append(part.n_sims)
            return {}

        ranking.counts(stored(integers(), tmp_path), HalfLines(), noted)
        assert sizes == [8] * 5

    def test_threads_read_a_part_of_plain_files_each(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TARPON_THREADS", "2")
        monkeypatch.setattr(Stored, "plain", True)
        sims, seen = stored(integers(), tmp_path), []
        sims._set(_part_bytes=2000)

        together = threading.Barrier(2, timeout=20)

        def noted(part, region):
            seen.append(threading.current_thread())
            if len(seen) <= 2:
                together.wait()
            return {}

        ranking.counts(sims, HalfLines(), noted)
        assert len(seen) == 5
        assert len(set(seen)) == 2

    @pytest.mark.parametrize("at_hand", [True, False])
    @pytest.mark.parametrize("make", [integers, weighted])
    def test_draws_that_kernels_count_are_not_looked_at_before(
        self, make, at_hand, tmp_path, monkeypatch
    ):
        looked = []
        monkeypatch.setattr(passes, "refuse", lambda sims, **more: looked.append(sims))
        for region in (HalfLines(), Scores(lambda theta, x: theta)):
            sims = make(40, 9) if at_hand else stored(make(40, 9), tmp_path)
            sims._known.checked = False
            looked.clear()
            ranking.counts(sims, region)
            assert bool(looked) == (sims.weighted or isinstance(region, Scores))

    @pytest.mark.parametrize("region", [HalfLines(), Scores(lambda theta, x: theta[..., 0])])
    @pytest.mark.parametrize("make", [integers, weighted])
    def test_draws_that_are_not_finite_are_refused(self, make, region):
        sims = make(40, 9)
        sims._known.checked = False
        sims.samples[2, 7, 1] = np.nan
        with pytest.raises(ValueError, match="1 of 40 simulations hold NaN"):
            ranking.counts(sims, region)

    def test_counts_are_stored_by_name_and_may_be_sharded(self, tmp_path):
        sims = integers()
        sims._set(_part_bytes=2000)
        whole = tarpon.sbc(sims, rng=0)
        for i in range(2):
            with pytest.raises(Unfinished, match=f"shard {i}/2"):
                tarpon.sbc(sims, rng=0, engine=tarpon.Engine(resume=tmp_path, shard=(i, 2)))
        assert len(list(tmp_path.glob("counts-*.npz"))) == 5
        merged = tarpon.sbc(sims, engine=tarpon.Engine(resume=tmp_path, on_missing="raise"))
        np.testing.assert_array_equal(merged.ranks.values, whole.ranks.values)

    def test_progress_of_counts_is_reported_by_name(self):
        said = []
        sims = integers()
        sims._set(_part_bytes=2000)
        engine = tarpon.Engine(progress=lambda *told: said.append(told))
        tarpon.sbc(sims, rng=0, engine=engine)
        assert said == [("counts", k, 5) for k in range(1, 6)]

    def test_counts_of_densities_are_of_higher_ones(self):
        sims = integers()
        log_prob = np.random.default_rng(2).integers(4, size=(10, 40)).astype(float)
        sims = Simulations(
            sims.samples, sims.theta, log_prob_samples=log_prob[1:], log_prob_theta=log_prob[0]
        )
        found = ranking.counts(sims, HighestDensity())
        np.testing.assert_array_equal(found["below"], (log_prob[1:] > log_prob[0]).sum(axis=0))
        np.testing.assert_array_equal(found["equal"], (log_prob[1:] == log_prob[0]).sum(axis=0))

    def test_scores_of_a_wrong_shape_are_refused(self):
        region = Scores(lambda theta, x: theta[:-1, :, 0])
        with pytest.raises(ValueError, match=r"`scores` must be \(10, 40\) .*but got \(9, 40\)"):
            ranking.counts(integers(), region)


class TestCurve:
    def test_curve_is_the_share_of_truths_inside(self):
        values = np.random.default_rng(0).integers(6, size=(17, 2))
        curve = Curve.of(Ranks(values, n_draws=5))
        np.testing.assert_allclose(curve.level, np.arange(7) / 6)
        assert curve.ecp.shape == (7, 2)
        for k in range(7):
            np.testing.assert_allclose(curve.ecp[k], (values < k).mean(axis=0))

    def test_curve_of_one_score_has_one_axis(self):
        curve = Curve.of(Ranks(np.array([0, 0, 2, 1]), n_draws=2))
        assert curve.ecp.tolist() == [0, 0.5, 0.75, 1]


class TestBootstrap:
    def test_bootstrap_curves_are_those_of_resampled_histograms(self):
        values = np.random.default_rng(0).choice([1, 2, 5, 8], size=(12, 2))
        ranks = Ranks(values, n_draws=9)
        found = curves.bootstrap(ranks, 7, np.random.default_rng(3))
        assert found.shape == (7, 11, 2)
        rng = np.random.default_rng(3)
        for score in range(2):
            seen, counts = np.unique(values[:, score], return_counts=True)
            drawn = rng.multinomial(12, counts / 12, size=7)
            for again, k in product(range(7), range(11)):
                inside = drawn[again, seen < k].sum() / 12
                assert found[again, k, score] == pytest.approx(inside, abs=1e-15)

    def test_bootstrap_curves_of_one_score_have_one_axis(self):
        found = curves.bootstrap(Ranks(np.arange(5), n_draws=4), 3, np.random.default_rng(0))
        assert found.shape == (3, 6)
        assert not found[:, 0].any()
        assert (found[:, -1] == 1).all()
        assert (np.diff(found, axis=1) >= 0).all()

    def test_bootstrap_spread_is_that_of_resampled_simulations(self):
        """Means and variances within six standard errors: false alarm 2e-9 a number."""
        values = np.random.default_rng(0).integers(6, size=50)
        ranks, n = Ranks(values, n_draws=5), 20_000
        found = curves.bootstrap(ranks, n, np.random.default_rng(1))
        ecp = Curve.of(ranks).ecp
        variance = ecp * (1 - ecp) / 50
        assert (abs(found.mean(axis=0) - ecp) <= 6 * np.sqrt(variance / n) + 1e-12).all()
        assert (abs(found.var(axis=0) - variance) <= 6 * variance * np.sqrt(2.1 / n)).all()


class TestHeld:
    ranks = np.array([0, 1, 4, 4, 5, 6, 9])  # among 9 draws, that is at 0.05, 0.15, 0.45, ...

    @pytest.mark.parametrize(
        ("level", "central", "inside"),
        [(0.5, False, 4), (0.6, False, 5), (0.2, False, 2), (0.2, True, 3), (0.8, True, 5)],
    )
    def test_counts_the_first_ranks_or_those_in_the_middle(self, level, central, inside):
        assert held(self.ranks, 9, level, central=central).value == inside / 7

    @pytest.mark.parametrize(("level", "central", "inside"), [(0.45, False, 2), (0.1, True, 0)])
    def test_ranks_at_the_border_of_a_level_are_outside(self, level, central, inside):
        assert held(self.ranks, 9, level, central=central).value == inside / 7

    def test_intervals_miss_as_often_as_they_may(self):
        few = held(self.ranks, 9, 0.5, central=False)
        assert few == held(self.ranks, 9, 0.5, central=False, error=0.05) == proportion(4, 7)
        assert held(self.ranks, 9, 0.5, central=False, error=0.3) == proportion(4, 7, 0.3)
        assert few.low < proportion(4, 7, 0.3).low

    @pytest.mark.parametrize("n_inside", [0, 1, 30, 99, 100])
    def test_intervals_are_exact(self, n_inside):
        from scipy.stats import binomtest

        expected = binomtest(n_inside, 100).proportion_ci(method="exact")
        share = proportion(n_inside, 100)
        assert (share.low, share.high) == pytest.approx((expected.low, expected.high))
        assert share.value == n_inside / 100

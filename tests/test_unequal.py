"""Draws of unequal weight and number, and chains: exact where the others are."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.sparse import csr_array
from scipy.stats import binom

import tarpon
from tarpon import Simulations
from tarpon.adapters import chains
from tarpon.backends._swaps import pooled_scores, weighted_scores
from tarpon.checks.flaws import Kind
from tarpon.references import Posterior
from tarpon.simulations import alerts, weights
from tarpon.simulations.views import without
from tarpon.simulations.weights import Draws, accepted, effective


def weighted(n_sims, n_draws, n_dims=2, *, shift=0.4, wide=1.5, seed=0, known=True, error=0.0):
    """Return draws of a proposal with weights to a normal posterior, off by an error."""
    rng = np.random.default_rng(seed)
    mean = 3 * rng.normal(size=(n_sims, n_dims))
    theta = mean + rng.normal(size=mean.shape)
    draws = mean + error + shift + wide * rng.normal(size=(n_draws, *mean.shape))
    constant = 100 * rng.normal(size=n_sims)

    def log_prob(points):
        return -0.5 * ((points - mean - error) ** 2).sum(axis=-1)

    def log_weights(points):
        proposed = ((points - mean - error - shift) / wide) ** 2
        return log_prob(points) + 0.5 * proposed.sum(axis=-1) + constant

    return Simulations(
        draws,
        theta,
        x=mean,
        log_prob_samples=log_prob(draws),
        log_prob_theta=log_prob(theta),
        log_weights=log_weights(draws),
        log_weights_theta=log_weights(theta) if known else None,
    )


def ragged(n_sims=60, n_dims=2, *, seed=0, width=1.0, fewest=1, most=40):
    rng = np.random.default_rng(seed)
    mean = 3 * rng.normal(size=(n_sims, n_dims))
    number = rng.integers(fewest, most, size=n_sims)
    rows = [m + width * rng.normal(size=(n, n_dims)) for n, m in zip(number, mean, strict=True)]
    return Simulations(rows, mean + rng.normal(size=mean.shape), x=mean)


def chain(n_steps, n_sims, n_dims=1, *, rho=0.9, seed=0):
    """Return draws of a normal posterior that follow each other in a chain, and truths."""
    rng = np.random.default_rng(seed)
    mean = 3 * rng.normal(size=(n_sims, n_dims))
    noise = np.sqrt(1 - rho**2) * rng.normal(size=(n_steps + 200, n_sims, n_dims))
    steps = lfilter([1.0], [1.0, -rho], noise, axis=0)[200:]
    return mean + steps, mean + rng.normal(size=mean.shape)


def quick_check(sims, rng):
    return tarpon.check(sims, rng=rng, n_swaps=99)


def at_level(p_values, level):
    """Return whether p-values reject as often as they may: false alarm 1e-7 a call."""
    return (p_values <= level).sum() <= binom.isf(1e-7, len(p_values), level)


REPEATS = {"tarp": 300, "sbc": 300, "hpd": 300, "check": 100}
TESTS = {"tarp": tarpon.tarp, "sbc": tarpon.sbc, "hpd": tarpon.hpd, "check": quick_check}


class TestWeights:
    @pytest.mark.slow
    @pytest.mark.parametrize("test", TESTS)
    @pytest.mark.usefixtures("nothing_planted")
    def test_weighted_draws_keep_the_level(self, test):
        """Over few draws of narrow proposals and more draws of wide ones, half of each."""
        p = []
        for seed in range(REPEATS[test]):
            n_draws, wide = ((20, 2.0), (50, 3.0))[seed % 2]
            sims = weighted(20, n_draws, 1 + (test != "sbc"), wide=wide, seed=seed)
            p.append(TESTS[test](sims, rng=seed).p_value)
        assert all(at_level(np.array(p), level) for level in (0.01, 0.05, 0.1))

    def test_without_the_weight_of_the_truth_ranks_pile_up_at_the_ends(self):
        """The naive weighted rank leaves the uniform one; the exact one does not."""
        sims = weighted(20_000, 20, 1, wide=3.0)
        w = np.exp(sims.log_weights - sims.log_weights.max(axis=0))
        naive = (w * (sims.samples < sims.theta)[..., 0]).sum(axis=0) / w.sum(axis=0)
        ends = int(((naive < 0.025) | (naive > 0.975)).sum())
        assert ends > binom.isf(1e-12, 20_000, 0.05)
        exact = tarpon.sbc(sims, rng=0).ranks.values[:, 0]
        ends = int(((exact < 25) | (exact > 974)).sum())
        assert binom.ppf(1e-7, 20_000, 0.05) <= ends <= binom.isf(1e-7, 20_000, 0.05)

    @pytest.mark.parametrize("test", TESTS)
    def test_errors_of_weighted_draws_are_detected(self, test):
        sims = weighted(400, 50, error=1.0)
        assert TESTS[test](sims, rng=0).p_value <= 0.01

    def test_weights_that_are_ignored_are_detected(self):
        sims = weighted(400, 50)
        assert tarpon.check(sims.samples, sims.theta, rng=0).outcome == "inaccurate"

    @pytest.mark.parametrize("test", [tarpon.tarp, tarpon.sbc, tarpon.hpd])
    def test_weights_that_are_equal_change_nothing(self, test):
        """Weighted ranks of equal draws are those of equal draws, spread over more levels."""
        sims = weighted(50, 30)
        equal = Simulations(
            sims.samples, sims.theta, log_prob_samples=sims.log_prob_samples,
            log_prob_theta=sims.log_prob_theta, log_weights=np.full((30, 50), 7.0),
            log_weights_theta=np.full(50, 7.0),
        )  # fmt: skip
        plain = without(sims, "log_weights", "log_weights_theta")
        found, wanted = test(equal, rng=0).ranks, test(plain, rng=0).ranks
        assert found.n_draws == 999
        assert (wanted.values / 31 < (found.values + 1) / 1000).all()
        assert (found.values / 1000 < (wanted.values + 1) / 31).all()

    def test_weights_may_have_any_constant(self):
        sims = weighted(30, 20)
        other = without(sims)
        shift = np.linspace(-900, 900, 30)
        other._set(
            log_weights=sims.log_weights + shift, log_weights_theta=sims.log_weights_theta + shift
        )
        for test in TESTS.values():
            assert test(other, rng=0).p_value == test(sims, rng=0).p_value

    def test_a_draw_of_weight_zero_counts_nothing(self):
        sims = ragged(30, most=20)
        values = tarpon.sbc(sims, rng=0).ranks.values
        other = without(sims)
        noise = 50 * np.random.default_rng(1).normal(size=sims.samples.shape)
        gone = (sims.log_weights == -np.inf)[..., None]
        other._set(samples=np.where(gone, noise, sims.samples))
        np.testing.assert_array_equal(tarpon.sbc(other, rng=0).ranks.values, values)

    def test_weights_give_the_effective_sample_size(self):
        sims = weighted(30, 20)
        worth = effective(sims.log_weights)
        assert sims.draws == Draws(20, 20, (worth.min(), worth.max()))
        assert "20 weighted draws worth" in repr(tarpon.sbc(sims, rng=0))
        assert "20 weighted draws worth" in str(quick_check(sims, 0))

    def test_weights_are_stored_in_files(self, tmp_path):
        result = tarpon.sbc(weighted(30, 20), rng=0)
        result.save(tmp_path / "result.npz")
        again = tarpon.load(tmp_path / "result.npz")
        assert str(again.draws) == str(result.draws)
        assert again.p_value == result.p_value

    def test_weights_hold_for_references_that_are_draws(self):
        sims = weighted(40, 20)
        left, held = sims.hold_out(1)
        np.testing.assert_array_equal(held[0], sims.samples[-1])
        assert left.draws.most == 19
        assert tarpon.tarp(sims, reference=Posterior(), rng=0).draws.most == 19

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"log_weights": np.zeros((3, 5))}, r"must be \(5, 3\).*axes look swapped"),
            ({"log_weights": np.zeros((5, 4))}, r"must be \(5, 3\), but got \(5, 4\)"),
            ({"log_weights_theta": np.zeros(3)}, "came without `log_weights`"),
            (
                {"log_weights": np.zeros((5, 3)), "log_weights_theta": np.zeros(4)},
                r"`log_weights_theta` must be \(3,\)",
            ),
            ({"log_weights": np.full((5, 3), np.nan)}, "3 of 3 simulations hold NaN"),
            ({"log_weights": np.full((5, 3), -np.inf)}, "3 of 3 simulations hold NaN"),
        ],
    )
    def test_wrong_weights_are_refused(self, more, message):
        with pytest.raises(ValueError, match=message):
            Simulations(np.zeros((5, 3, 2)), np.zeros((3, 2)), **more)

    def test_ranks_of_all_parameters_together_are_uniform(self):
        """By the distance from the centre, of 2000 truths; the band is left with chance 1e-6."""
        found = quick_check(weighted(2000, 20, wide=3.0), 0)
        for result in found.evidence.joint:
            assert result.ranks.n_draws == 999
            assert result.p_value > 1e-6


class TestResampled:
    def test_resampling_is_reported_everywhere(self):
        sims = weighted(60, 50, known=False)
        result, found = tarpon.tarp(sims, rng=0), quick_check(sims, 0)
        for said in (repr(result), str(found)):
            assert "approximate" in said
        assert result.to_dict()["draws"]["approximate"]
        assert found.to_dict()["draws"]["approximate"]
        assert "exact" not in str(found).splitlines()[0]

    def test_resampling_keeps_draws_in_proportion_to_weight(self):
        log_weights = np.log(np.array([[1.0], [0.5], [0.1], [0.0001]])).repeat(20_000, axis=1)
        kept = (accepted(log_weights, np.random.default_rng(0)) == 0).mean(axis=1)
        assert kept[0] == 1
        # Within six standard errors: false alarm 1e-8.
        assert abs(kept[1:] - [0.5, 0.1, 0.0001]).max() < 6 * 0.5 / np.sqrt(20_000)

    def test_errors_of_resampled_draws_are_detected(self):
        assert tarpon.sbc(weighted(400, 80, known=False, error=0.5), rng=0).p_value < 1e-4

    @pytest.mark.slow
    def test_resampling_is_close_to_exact(self):
        """Of 250 studies with many draws, few are rejected: false alarm 1e-7."""
        seeds = range(250)
        sims = (weighted(20, 300, 1, known=False, seed=seed) for seed in seeds)
        p = np.array([tarpon.sbc(s, rng=k).p_value for k, s in enumerate(sims)])
        assert at_level(p, 0.05)


class TestRagged:
    @pytest.mark.slow
    @pytest.mark.parametrize("test", ["tarp", "sbc", "check"])
    @pytest.mark.usefixtures("nothing_planted")
    def test_ragged_draws_keep_the_level(self, test):
        p = [TESTS[test](ragged(20, seed=seed), rng=seed).p_value for seed in range(REPEATS[test])]
        assert all(at_level(np.array(p), level) for level in (0.01, 0.05, 0.1))

    @pytest.mark.parametrize("test", ["tarp", "sbc", "check"])
    def test_errors_of_ragged_draws_are_detected(self, test):
        assert TESTS[test](ragged(400, width=0.6, fewest=10), rng=0).p_value <= 0.01

    def test_lists_and_offsets_of_ragged_draws_are_the_same(self):
        rng = np.random.default_rng(0)
        rows = [rng.normal(size=(n, 2)) for n in (4, 9, 6)]
        log_prob = [rng.normal(size=n) for n in (4, 9, 6)]
        theta = rng.normal(size=(3, 2))
        more = {"log_prob_theta": np.zeros(3)}
        a = Simulations(rows, theta, log_prob_samples=log_prob, **more)
        b = Simulations(np.concatenate(rows), theta, log_prob_samples=np.concatenate(log_prob),
                        offsets=[0, 4, 13, 19], **more)  # fmt: skip
        for name in ("samples", "log_prob_samples", "log_weights", "log_weights_theta"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert repr(a) == "Simulations(3 simulations, 4 to 9 draws each, 2 parameters)"

    def test_padding_changes_neither_box_nor_centre(self):
        sims = ragged(10)
        rows = [
            np.vstack([sims.samples[there, i], sims.theta[i]])
            for i, there in enumerate((sims.log_weights > -np.inf).T)
        ]
        np.testing.assert_allclose(sims.centres(), [row.mean(axis=0) for row in rows])
        every = np.vstack(rows)
        np.testing.assert_array_equal(sims.box, [every.min(axis=0), every.max(axis=0)])

    def test_ranks_of_ragged_draws_are_those_of_each_simulation_alone(self):
        sims = ragged(50)
        u = tarpon.sbc(sims, rng=0).ranks.values / 1000
        for i in range(50):
            there = sims.log_weights[:, i] > -np.inf
            below = (sims.samples[there, i] < sims.theta[i]).sum(axis=0)
            n = there.sum() + 1
            assert (np.floor(1000 * below / n) / 1000 <= u[i]).all()
            assert (u[i] <= (below + 1) / n).all()

    def test_ragged_draws_of_equal_numbers_are_plain(self):
        rng = np.random.default_rng(0)
        sims = Simulations([rng.normal(size=(7, 2)) for _ in range(4)], rng.normal(size=(4, 2)))
        assert sims.samples.shape == (7, 4, 2)
        assert not sims.weighted

    def test_ragged_densities_may_be_given_alone(self):
        rng = np.random.default_rng(0)
        rows = [rng.normal(size=n) for n in rng.integers(5, 30, size=40)]
        theta = rng.normal(size=40)
        listed = tarpon.hpd(rows, theta, rng=0)
        assert str(listed.draws) == "5 to 29 draws"
        offsets = np.cumsum([0, *map(len, rows)])
        flat = Simulations.of_densities(np.concatenate(rows), theta, offsets=offsets)
        np.testing.assert_array_equal(tarpon.hpd(flat, rng=0).ranks.values, listed.ranks.values)

    def test_ragged_draws_of_one_parameter_need_no_axis(self):
        sims = Simulations([np.arange(3.0), np.arange(5.0)], np.array([1.5, 2.5]))
        assert repr(sims) == "Simulations(2 simulations, 3 to 5 draws each, 1 parameter)"

    @pytest.mark.parametrize(
        ("samples", "more", "message"),
        [
            ([np.zeros((4, 2)), np.zeros((0, 2))], {}, r"simulation 1 must be.*one draw at least"),
            ([np.zeros((4, 2)), np.zeros((3, 5))], {}, r"simulation 1 must be \(n_draws, 2\)"),
            (np.zeros((7, 2)), {"offsets": [0, 9, 7]}, "start at 0 and rise"),
            (np.zeros((7, 2)), {"offsets": [0, 7]}, "must be 3 integers"),
            (np.zeros((7, 2)), {"offsets": [0, 4, 8]}, "end at 8"),
            (
                [np.zeros((4, 2)), np.zeros((3, 2))],
                {"log_weights": [np.zeros(4), np.zeros(4)]},
                "as long as those of `samples`.*but got",
            ),
            ([np.zeros((4, 2))] * 2 + [np.zeros((3, 2))], {}, "list with one array"),
        ],
    )
    def test_wrong_ragged_draws_are_refused(self, samples, more, message):
        with pytest.raises(ValueError, match=message):
            Simulations(samples, np.zeros((2, 2)), **more)


class TestChains:
    def test_raw_chains_trigger_a_warning(self):
        steps, theta = chain(200, 50)
        for test in (tarpon.tarp, tarpon.sbc):
            with pytest.warns(UserWarning, match=r"neighbouring draws correlate by 0\.\d+"):
                test(steps, theta, rng=0)
        assert "chains.thin" in tarpon.check(steps, theta, rng=0, n_swaps=99).warnings[0]

    def test_independent_draws_trigger_no_warning(self):
        for seed in range(200):  # false alarm 3e-7 each
            steps, theta = chain(20 + seed, 1 + seed % 7, rho=0.0, seed=seed)
            tarpon.sbc(steps, theta, rng=0)

    def test_widths_that_differ_are_not_taken_for_chains(self):
        rng = np.random.default_rng(0)
        for seed in range(300):  # false alarm 3e-7 each
            widths = np.exp(rng.uniform(-9, 0, size=(100, 1)))
            draws = 1 + widths * rng.normal(size=(20, 100, 1))
            tarpon.sbc(draws, 1 + widths * rng.normal(size=(100, 1)), rng=seed)

    @pytest.mark.slow
    def test_chains_keep_the_level_once_thinned_and_not_before(self):
        """False alarm 1e-7: the end ranks of 3000 truths, thinned and raw."""
        steps, theta = chain(400, 1000)
        thinned = chains.thin(steps, theta)
        ranks = tarpon.sbc(thinned, rng=0).ranks.values
        ends = int(((ranks < 50) | (ranks > 949)).sum())
        assert ends <= binom.isf(1e-7, 1000, 0.1)
        steps, theta = chain(100, 3000)
        with pytest.warns(UserWarning, match="neighbouring draws"):
            raw = tarpon.sbc(steps, theta, rng=0)
        ends = int(((raw.fractions < 0.05) | (raw.fractions > 0.95)).sum())
        assert ends > binom.isf(1e-12, 3000, 0.1)
        assert raw.p_value < 1e-6

    def test_layouts_of_chains_are_the_same(self):
        steps, theta = chain(120, 5, 2, rho=0.3)
        whole = chains.thin(steps.reshape(2, 60, 5, 2), theta)
        listed = chains.thin([steps[:, i].reshape(2, 60, 2) for i in range(5)], theta)
        np.testing.assert_array_equal(whole.samples, listed.samples)
        assert chains.thin(steps, theta).n_sims == 5
        assert chains.thin([steps[:, i] for i in range(5)], theta).n_sims == 5

    def test_densities_are_thinned_along(self):
        steps, theta = chain(120, 5, 2, rho=0.3)
        log_prob = -np.square(steps).sum(axis=-1)
        sims = chains.thin(steps, theta, log_prob_chains=log_prob, log_prob_theta=np.zeros(5))
        there = sims.log_weights > -np.inf
        wanted = -np.square(sims.samples).sum(axis=-1)
        np.testing.assert_allclose(sims.log_prob_samples[there], wanted[there])

    def test_independent_steps_are_nearly_all_kept(self):
        steps, theta = chain(400, 10, rho=0.0)
        assert chains.thin(steps, theta).draws.fewest >= 70

    def test_parameters_that_never_vary_do_no_harm(self):
        steps, theta = chain(100, 5, 2, rho=0.3)
        steps[..., 1] = theta[:, 1]
        assert chains.thin(steps, theta).draws.most > 1

    def test_a_chain_thinned_to_a_single_draw(self):
        one = tarpon.Simulations(np.zeros((1, 3, 2)), np.ones((3, 2)))
        assert "1 draw each" in repr(one)

    def test_chains_of_small_ess_trigger_a_warning(self):
        with pytest.warns(UserWarning, match="size of about 7, .* Run them at least 3 times"):
            chains.thin(*chain(100, 20))

    @pytest.mark.parametrize("rho", [0.0, 0.99])
    def test_chains_too_short_to_estimate_the_ess_trigger_a_warning(self, rho):
        steps, theta = chain(9, 20, rho=rho)
        with pytest.warns(UserWarning, match="9 steps are too short .* at least 10 steps"):
            chains.thin(np.stack([steps] * 20), theta)

    def test_chains_that_are_too_short_are_refused(self):
        with pytest.raises(ValueError, match=r"simulation 0 must be.*at least 4 steps"):
            chains.thin(np.zeros((3, 5, 2)), np.zeros((5, 2)))

    def test_chains_of_other_shapes_are_refused(self):
        with pytest.raises(ValueError, match=r"n_steps, n_sims, n_dims\), .* got \(20, 5\)"):
            chains.thin(np.zeros((20, 5)), np.zeros((5, 2)))
        with pytest.raises(ValueError, match="the 5 simulations of `theta`, but got 20"):
            chains.thin(np.zeros((5, 20, 2)), np.zeros((5, 2)))


def levels(n):
    """Return the numbers that stand for ranks, which are the ranks themselves."""
    return np.arange(n, dtype=np.float32)


class TestWeightedRanks:
    def test_weighted_ranks_of_equal_weights_are_pooled_ranks(self):
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(6, 40, 3)).round(1)
        played = rng.integers(33, size=(6, 7))
        ranks, tied = weighted_scores(scores, np.ones((6, 33)), played, levels(33))
        wanted, ties = pooled_scores(scores, 33, played, levels(33))
        np.testing.assert_array_equal(ranks, wanted)
        np.testing.assert_array_equal(tied, ties)

    def test_weighted_ranks_count_the_weight_below(self):
        scores = np.array([3.0, 1.0, 2.0, 2.0])[None, :, None]
        weights = np.array([[4.0, 2.0, 1.0, 3.0]])
        nothing = np.empty((1, 0), int)
        ranks, tied = weighted_scores(scores, weights, nothing, levels(1000))
        assert ranks[0, :, 0].tolist() == [799.5, 99.5, 399.5, 399.5]  # each between two levels
        assert tied[0].tolist() == [0, 0, 1, 1]
        assert (ranks.dtype, tied.dtype) == (np.float32, np.int32)

    def test_weighted_ranks_of_extra_points_are_those_of_the_replaced(self):
        rng = np.random.default_rng(0)
        scores, weights = rng.normal(size=(5, 12, 2)).round(1), rng.uniform(size=(5, 8))
        played = rng.integers(8, size=(5, 4))
        scores[:, 8:10] = scores[np.arange(5)[:, None], played[:, :2]]
        ranks, tied = weighted_scores(scores, weights, played, levels(1000))
        for i, e, k in np.ndindex(5, 4, 2):
            own = scores[i, 8 + e, k]
            others = np.delete(np.arange(8), played[i, e])
            below = weights[i, others][scores[i, others, k] < own].sum()
            same = weights[i, others][scores[i, others, k] == own].sum()
            level = (below + (same + weights[i, played[i, e]]) / 2) / weights[i].sum()
            assert ranks[i, 8 + e, k] == int(1000 * level)
            assert tied[i, 8 + e] == tied[i, played[i, e]]

    def test_weighted_ranks_of_points_without_weight_are_levels(self):
        scores = np.array([9.0, 1.0, 2.0, 9.0, 9.5, 0.5])[None, :, None]
        weights = np.array([[0.0, 1.0, 1.0, 0.0]])
        ranks, tied = weighted_scores(scores, weights, np.array([[0, 3]]), levels(10))
        assert ranks[0, :, 0].tolist() == [9, 2, 7, 9, 9, 0]
        assert not tied.any()
        scores = np.array([2.0, 1.0, 2.0, 2.0])[None, :, None]
        weights = np.array([[0.0, 1.0, 1.0, 1.0]])
        _, tied = weighted_scores(scores, weights, np.empty((1, 0), int), levels(10))
        assert tied[0].tolist() == [0, 0, 1, 1]


class TestLabels:
    def test_labels_are_as_likely_as_their_weight(self):
        sims = weighted(3, 9, 1)
        block = next(sims.blocks())
        labels = block.labels(100_000, np.random.default_rng(0))
        share = block.weights / block.weights.sum(axis=0)
        for i in range(3):
            found = np.bincount(labels[:, i], minlength=10) / 100_000
            # Within six standard errors: false alarm 2e-9 each.
            assert (abs(found - share[:, i]) <= 6 * np.sqrt(share[:, i] / 100_000) + 1e-9).all()

    def test_truths_hide_among_points_that_are_there(self):
        sims = ragged(40, fewest=1, most=6)
        block = next(sims.blocks())
        for seed in range(20):
            hidden = block.hidden(np.random.default_rng(seed))
            here = np.take_along_axis(hidden.weights, hidden.truth[None], axis=0)
            assert (here == 1).all()
            points = np.take_along_axis(hidden.points, hidden.truth[None, :, None], axis=0)
            np.testing.assert_array_equal(points[0], sims.theta)
            assert (hidden.weights[:-1].sum(axis=0) == block.weights.sum(axis=0) - 1).all()


def test_stored_draws_give_what_those_in_memory_give(tmp_path):
    sims = weighted(300, 20)
    np.save(tmp_path / "samples.npy", sims.samples)
    stored = Simulations(
        np.load(tmp_path / "samples.npy", mmap_mode="r"), sims.theta, x=sims.x,
        log_weights=sims.log_weights, log_weights_theta=sims.log_weights_theta,
    )  # fmt: skip
    at_hand = without(sims, "log_prob_samples", "log_prob_theta")
    assert not stored._whole
    for test in (tarpon.tarp, tarpon.sbc, quick_check):
        assert test(stored, rng=0).p_value == test(at_hand, rng=0).p_value


class TestDraws:
    """How many draws there are, and what they are worth, in words."""

    @pytest.mark.parametrize(
        ("draws", "number", "value", "said"),
        [
            (Draws(1, 1), "1", "", "1 draw"),
            (Draws(1, 1, (1.0, 1.0)), "1", "1.0", "1 weighted draw worth 1.0"),
            (Draws(20, 20), "20", "", "20 draws"),
            (Draws(5, 1234), "5 to 1,234", "", "5 to 1234 draws"),
            (
                Draws(20, 20, approximate=True),
                "20",
                "",
                "20 draws (resampled by weight, so p is approximate)",
            ),
            (Draws(50, 50, (9.96, 9.99)), "50", "10.0", "50 weighted draws worth 10.0"),
            (
                Draws(2, 5000, (1.25, 4321.4), approximate=True),
                "2 to 5,000",
                "1.2 to 4,321",
                "2 to 5000 weighted draws worth 1.2 to 4,321",
            ),
            (Draws(50, 50, (10.0, 10.6)), "50", "10 to 11", "50 weighted draws worth 10 to 11"),
        ],
    )
    def test_draws_in_words(self, draws, number, value, said):
        assert (draws.number, draws.value, str(draws)) == (number, value, said)

    def test_draws_without_weights_are_equal(self):
        equal = Simulations(np.zeros((7, 3, 1)), np.zeros((3, 1)))
        assert equal.draws == Draws(7, 7)
        assert equal._with(_resampled=True).draws == Draws(7, 7, approximate=True)

    @pytest.mark.parametrize("approximate", [False, True])
    def test_draws_of_equal_weights_differ_in_number_only(self, approximate):
        nothing = -np.inf
        log_weights = np.array([[3.0, -1.0, 0.0], [3.0, nothing, nothing], [3.0, -1.0, nothing]])
        found = weights.draws(log_weights, approximate=approximate)
        assert found == Draws(1, 3, None, approximate)

    @pytest.mark.parametrize("approximate", [False, True])
    def test_draws_of_unequal_weights_have_an_ess(self, approximate):
        log_weights = np.log([[1.0, 1.0], [1.0, 3.0], [2.0, 1e-300]])
        log_weights[2, 1] = -np.inf
        found = weights.draws(log_weights, approximate=approximate)
        assert (found.fewest, found.most, found.approximate) == (2, 3, approximate)
        assert found.worth == pytest.approx((16 / 10, 16 / 6))

    def test_ess_follows_from_the_weights(self):
        log_weights = np.array([[0.0, 1000.0], [np.log(3), 1000.0], [-np.inf, 1000.0]])
        np.testing.assert_allclose(weights.relative(log_weights), [[1 / 3, 1], [1, 1], [0, 1]])
        np.testing.assert_allclose(effective(log_weights), [16 / 10, 3])

    def test_weights_have_double_precision(self):
        log_weights = np.array([[0.0], [-0.1]], dtype=np.float32)
        found = weights.relative(log_weights)
        assert found.dtype == np.float64
        assert found[1, 0] == np.exp(float(log_weights[1, 0]))

    def test_draws_are_accepted_by_weight(self):
        log_weights = np.log(np.random.default_rng(0).uniform(size=(6, 50)))
        kept = accepted(log_weights, np.random.default_rng(1))
        uniform = np.random.default_rng(1).uniform(size=(6, 50))
        assert kept.dtype == np.float32
        wanted = uniform < np.exp(log_weights - log_weights.max(axis=0))
        np.testing.assert_array_equal(kept, np.where(wanted, 0, -np.inf))

    def test_a_draw_of_weight_zero_is_never_accepted(self):
        log_weights = np.array([[0.0], [-np.inf], [-800.0]])
        assert accepted(log_weights, Zeros()).ravel().tolist() == [0, -np.inf, -np.inf]


class Zeros:
    """A generator of the smallest uniform number there is."""

    def uniform(self, size):
        return np.zeros(size)


class TestDense:
    rows = (np.arange(4.0).reshape(2, 2), np.arange(6.0).reshape(3, 2), np.ones((1, 2), "f4"))
    theta = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])

    def test_padding_is_the_mean_at_weight_zero(self):
        out = weights.dense({"samples": self.rows, "theta": self.theta}, None)
        assert out["samples"].shape == (3, 3, 2)
        assert out["samples"].dtype == np.float64
        for i, row in enumerate(self.rows):
            np.testing.assert_array_equal(out["samples"][: len(row), i], row)
            middle = np.vstack([row, self.theta[i]]).mean(axis=0)
            for rest in out["samples"][len(row) :, i]:
                np.testing.assert_allclose(rest, middle)
        nothing = -np.inf
        np.testing.assert_array_equal(
            out["log_weights"], [[0, 0, 0], [0, 0, nothing], [nothing, 0, nothing]]
        )
        assert not out["log_weights_theta"].any()
        assert out["log_weights"].dtype == out["log_weights_theta"].dtype == np.float32
        assert out["log_weights_theta"].shape == (3,)

    def test_padding_leaves_equal_arrays_unchanged(self):
        given = {"samples": np.zeros((4, 3, 2)), "theta": self.theta, "x": None}
        out = weights.dense(given, None)
        assert out == given
        assert out is not given

    def test_padding_of_one_parameter_may_have_its_axis(self):
        rows = [np.zeros((3, 1)), np.ones((1, 1))]
        out = weights.dense({"samples": rows, "theta": np.array([4.0, 5.0])}, None)
        assert out["samples"][..., 0].tolist() == [[0, 1], [0, 3], [0, 3]]

    def test_padding_keeps_other_arrays(self):
        given = {"samples": self.rows, "theta": self.theta, "x": "anything", "log_weights": None}
        out = weights.dense(given, None)
        assert out["x"] == "anything"
        assert out["log_weights"] is not None

    def test_padding_of_equal_numbers_gives_no_weights(self):
        rows = [np.ones((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))]
        out = weights.dense({"samples": rows, "theta": self.theta}, None)
        assert set(out) == {"samples", "theta"}

    def test_arrays_per_draw_are_padded(self):
        log_prob = [np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([6.0])]
        log_weights = [np.array([0.1, 0.2]), np.array([0.3, 0.4, 0.5]), np.array([0.6])]
        given = {"samples": self.rows, "theta": self.theta}
        out = weights.dense(
            {**given, "log_prob_samples": log_prob, "log_weights": log_weights}, None
        )
        nothing = -np.inf
        np.testing.assert_array_equal(out["log_prob_samples"], [[1, 3, 6], [2, 4, 0], [0, 5, 0]])
        np.testing.assert_array_equal(
            out["log_weights"], [[0.1, 0.3, 0.6], [0.2, 0.4, nothing], [nothing, 0.5, nothing]]
        )
        assert "log_weights_theta" not in out
        flat = {
            "samples": np.vstack(self.rows), "theta": self.theta,
            "log_prob_samples": np.concatenate(log_prob),
            "log_weights": np.concatenate(log_weights),
        }  # fmt: skip
        again = weights.dense(flat, [0, 2, 5, 6])
        for name in ("samples", "log_prob_samples", "log_weights"):
            np.testing.assert_array_equal(again[name], out[name])

    def test_padded_integers_and_single_precision_stay_small(self):
        rows = [np.ones((2, 1), "f4"), np.ones((1, 1), "i2")]
        out = weights.dense({"samples": rows, "theta": np.zeros((2, 1))}, None)
        assert out["samples"].dtype == np.float32

    def test_integers_are_padded_with_fractions(self):
        rows = [np.array([[1], [2]], "i2"), np.array([[3]], "i2")]
        out = weights.dense({"samples": rows, "theta": np.array([[1], [4]])}, None)
        assert out["samples"][1, 1, 0] == 3.5

    def test_means_of_padding_have_double_precision(self):
        draws = np.full((3, 1), 0.1, dtype=np.float32)
        middle = weights._centre(draws, np.array([0.1]))
        assert middle[0] == pytest.approx((3 * float(np.float32(0.1)) + 0.1) / 4, rel=1e-15)

    def test_padding_of_one_simulation(self):
        out = weights.dense({"samples": [self.rows[1]], "theta": self.theta[:1]}, None)
        np.testing.assert_array_equal(out["samples"][:, 0], self.rows[1])
        assert set(out) == {"samples", "theta"}

    def test_padding_names_the_draws_that_are_wrong(self):
        with pytest.raises(TypeError, match="`samples` must hold real numbers"):
            weights.dense({"samples": np.zeros((6, 2)) + 1j, "theta": self.theta}, [0, 2, 5, 6])
        flat = {"samples": np.zeros((7, 2)), "theta": self.theta}
        with pytest.raises(
            ValueError,
            match=r"^`offsets` end at 6, but `samples` has shape \(7, 2\): the last offset must "
            r"be the number of all draws together\.$",
        ):
            weights.dense(flat, [0, 2, 5, 6])
        flat = {"samples": np.zeros((6, 2)), "theta": self.theta, "log_weights": np.zeros(7)}
        with pytest.raises(ValueError, match=r"but `log_weights` has shape \(7,\)"):
            weights.dense(flat, [0, 2, 5, 6])
        texts = [np.ones((2, 2)), np.array([["a", "b"]]), np.ones((2, 2))]
        with pytest.raises(TypeError, match="`samples` must hold real numbers"):
            weights.dense({"samples": texts, "theta": self.theta}, None)
        with pytest.raises(TypeError, match="`theta` must hold real numbers"):
            weights.dense({"samples": self.rows, "theta": self.theta + 1j}, None)
        given = {"samples": self.rows, "theta": self.theta, "log_weights": self.rows}
        with pytest.raises(ValueError, match="`log_weights` must come as the draws do"):
            weights.dense(given, None)
        given = {"samples": self.rows, "theta": self.theta, "log_prob_samples": np.zeros(6)}
        with pytest.raises(ValueError, match="`log_prob_samples` must come as the draws do"):
            weights.dense(given, None)

    @pytest.mark.parametrize(
        ("given", "listed"),
        [
            ([np.zeros(2), np.zeros(3)], True),
            ((np.zeros(2), np.zeros((3, 1))), True),
            ([np.zeros(2)], False),
            ([np.zeros(2), 1.0], False),
            ([[1.0], [2.0]], False),
            ([csr_array(np.eye(2)), csr_array(np.eye(3))], False),
            (np.zeros((2, 3)), False),
        ],
    )
    def test_lists_of_arrays_are_recognised(self, given, listed):
        assert weights.by_simulation(given, 2) == listed


class TestBlocks:
    def block(self, seed=0):
        rng = np.random.default_rng(seed)
        log_weights = rng.normal(size=(5, 4))
        log_weights[1:3, 0] = -np.inf
        log_weights[:4, 1] = -np.inf
        sims = Simulations(
            rng.normal(size=(5, 4, 2)), rng.normal(size=(4, 2)),
            log_weights=log_weights, log_weights_theta=rng.normal(size=4),
        )  # fmt: skip
        return next(sims.blocks()), sims

    def test_weights_of_points_follow_them(self):
        block, sims = self.block()
        hidden = block.hidden(np.random.default_rng(3))
        for i, place in enumerate(hidden.truth):
            np.testing.assert_array_equal(hidden.points[place, i], sims.theta[i])
            w = np.insert(
                sims.log_weights[:, i], 5, sims.log_weights[place, i] if place < 5 else 0
            )
            w[place] = sims.log_weights_theta[i]
            np.testing.assert_array_equal(hidden.log_weights[:, i], w)
            np.testing.assert_allclose(hidden.weights[:, i], np.exp(w - w.max()))

    def test_truths_hide_at_every_point_that_is_there_alike(self):
        """Within six standard errors: false alarm 2e-9 a number."""
        block, sims = self.block()
        places = np.array(
            [block.hidden(np.random.default_rng(seed)).truth for seed in range(1500)]
        )
        for i in range(4):
            there = np.append(sims.log_weights[:, i] > -np.inf, True)
            share = (places[:, [i]] == np.arange(6)).mean(axis=0)
            assert not share[~there].any()
            assert (abs(share[there] - 1 / there.sum()) < 6 * np.sqrt(0.25 / 1500)).all()

    def test_without_weights_truths_hide_anywhere(self):
        _, sims = self.block()
        plain = next(without(sims, "log_weights", "log_weights_theta").blocks())
        places = np.array([plain.hidden(np.random.default_rng(seed)).truth for seed in range(300)])
        assert places.shape == (300, 4)
        assert set(places.ravel()) == set(range(6))
        labels = plain.labels(300, np.random.default_rng(0))
        assert labels.shape == (300, 4)
        assert set(labels.ravel()) == set(range(6))

    def test_labels_are_where_the_sum_of_weights_passes_a_uniform_number(self):
        block, _ = self.block()
        labels = block.labels(50, np.random.default_rng(2))
        chosen = np.random.default_rng(2).uniform(size=(4, 50))
        for i in range(4):
            w = block.weights[:, i] / block.weights[:, i].sum()
            for b in range(50):
                passed = [j for j in range(6) if w[: j + 1].sum() > chosen[i, b]]
                assert labels[b, i] == passed[0]

    def test_points_without_weight_are_never_labels(self):
        block, _ = self.block()
        block = replace(block, truth=np.full(4, 5))  # so that draws begin
        assert block.labels(2, Zeros()).tolist() == [[0, 4, 0, 0]] * 2

    @pytest.mark.parametrize("weighted", [True, False])
    def test_centre_and_spread_are_where_the_draws_are(self, weighted, elsewhere):
        block, sims = self.block()
        there = without(sims, *(() if weighted else ("log_weights", "log_weights_theta")))
        wanted = replace(block, sims=there)
        there = without(there)
        there._set(samples=elsewhere(sims.samples), theta=elsewhere(sims.theta))
        found = replace(block, sims=there)
        for name in ("centre", "spread"):
            assert isinstance(getattr(found, name), elsewhere)
            np.testing.assert_allclose(getattr(found, name).numbers, getattr(wanted, name))

    @pytest.mark.parametrize("weighted", [True, False])
    def test_centre_and_spread_are_those_of_weighted_points(self, weighted):
        block, sims = self.block()
        if not weighted:
            block = next(without(sims, "log_weights", "log_weights_theta").blocks())
        for i in range(4):
            w = block.weights[:, i] if weighted else np.ones(6)
            centre = np.average(block.points[:, i], axis=0, weights=w)
            variance = np.average((block.points[:, i] - centre) ** 2, axis=0, weights=w)
            np.testing.assert_allclose(block.centre[i], centre)
            np.testing.assert_allclose(block.spread[i], np.sqrt(variance))

    def test_centre_has_double_precision(self):
        sims = Simulations(np.full((3, 2, 1), 0.1, "f4"), np.full((2, 1), 0.1, "f4"))
        block = next(sims.blocks())
        assert block.centre.dtype == np.float64
        np.testing.assert_array_equal(block.spread, [[1.0], [1.0]])


def exact_draws(seed, n_sims, n_draws, n_dims):
    """Return draws of exact normal posteriors, and truths."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_sims, n_dims))
    draws = means + rng.normal(size=(n_draws, n_sims, n_dims))
    return draws, means + rng.normal(size=(n_sims, n_dims))


def rejecting(seed, *, n_sims=200, n_draws=100, n_dims=2, share=0.1):
    """Return exact draws of which some repeat the one before, like rejected MCMC steps."""
    draws, theta = exact_draws(seed, n_sims, n_draws, n_dims)
    rejected = np.random.default_rng(seed + 10**6).random((n_draws, n_sims)) < share
    for step in range(1, n_draws):
        draws[step, rejected[step]] = draws[step - 1, rejected[step]]
    return draws, theta


def resampled(seed, *, n_sims=200, n_draws=100, n_dims=2):
    """Return exact draws that were resampled with replacement, five times fewer."""
    pool, theta = exact_draws(seed, n_sims, 5 * n_draws, n_dims)
    chosen = np.random.default_rng(seed + 10**6).integers(5 * n_draws, size=(n_draws, n_sims))
    return np.take_along_axis(pool, chosen[..., None], axis=0), theta


class TestRepeats:
    """Whole draws that repeat are a property of the draws; rounding is one of the posterior."""

    @pytest.mark.parametrize("made", [rejecting, resampled])
    @pytest.mark.parametrize("n_dims", [1, 2])
    @pytest.mark.usefixtures("nothing_planted")
    def test_repeats_are_warned_of_and_are_no_flaw(self, made, n_dims):
        """False alarm 1e-6: that more of 20 exact posteriors are rejected than at 5 %."""
        checks = [
            tarpon.check(*made(seed, n_sims=100, n_dims=n_dims), rng=seed, n_swaps=99)
            for seed in range(20)
        ]
        for one in checks:
            assert re.match(r"\d+% of draws repeat another draw", one.warnings[0])
            assert "chains.thin" in one.warnings[0]
            assert "ties" not in {family.name for family in one.families}
        assert sum(one.p_value <= 0.05 for one in checks) <= binom.isf(1e-6, 20, 0.05)

    @pytest.mark.slow
    @pytest.mark.usefixtures("nothing_planted")
    def test_repeats_keep_the_level(self):
        """False alarm 1e-6 at a level of 7 %, since repeats make draws slightly worse.

        All kinds together are 120 studies: a level of 22 % fails half the time.
        """
        p_values = [
            [
                tarpon.check(*made(seed, n_sims=60, n_dims=n_dims), rng=seed, n_swaps=19).p_value
                for seed in range(30)
            ]
            for made in (rejecting, resampled)
            for n_dims in (1, 2)
        ]
        rejected = np.array(p_values) <= 0.05
        for some in (rejected, *rejected):
            assert some.sum() <= binom.isf(1e-6 / 5, some.size, 0.07)

    @pytest.mark.parametrize("step", [0.02, 0.1, 0.5])
    @pytest.mark.parametrize("made", [exact_draws, rejecting])
    @pytest.mark.parametrize("n_dims", [1, 2])
    def test_rounded_draws_are_still_found(self, made, step, n_dims):
        draws, theta = made(0, n_sims=200, n_draws=100, n_dims=n_dims)
        found = tarpon.check(step * np.round(draws / step), theta, rng=0, n_swaps=999)
        assert Kind.ROUNDED in {finding.kind for finding in found.findings}
        assert found.p_value == 0.001

    @pytest.mark.parametrize(
        ("of_draws", "of_truths"),
        [
            (lambda draws: np.rint(3 * draws), lambda theta: np.rint(3 * theta) + 0.5),
            (lambda draws: np.exp(np.round(draws, 1)), np.exp),
            (lambda draws: np.rint(3 * draws), lambda theta: 3 * theta),
        ],
        ids=["another grid", "a logarithmic grid", "integers"],
    )
    def test_other_grids_are_found(self, of_draws, of_truths):
        draws, theta = exact_draws(0, 200, 100, 1)
        found = tarpon.check(of_draws(draws), of_truths(theta), rng=0, n_swaps=999)
        assert {one.name: one.p_value for one in found.families}["ties"] == 0.001

    def test_repeats_of_a_point_with_an_integer_count_once(self):
        rng = np.random.default_rng(0)
        draws, theta = rejecting(0, n_sims=400, share=0.3)
        draws[..., 0], theta[:, 0] = np.rint(30 * draws[..., 0]), np.rint(30 * theta[:, 0])
        families = tarpon.check(draws, theta, rng=rng, n_swaps=999).families
        assert {one.name: one.p_value for one in families}["ties"] > 1e-2

    def test_integers_are_not_warned_of(self):
        draws, theta = exact_draws(0, 100, 100, 2)
        assert tarpon.check(np.rint(draws), np.rint(theta), rng=0, n_swaps=99).warnings == ()

    def test_padding_does_not_repeat(self):
        draws, theta = exact_draws(0, 60, 40, 2)
        ragged = [draws[: 20 + i % 20, i] for i in range(60)]
        assert tarpon.check(Simulations(ragged, theta), rng=0, n_swaps=99).warnings == ()

    def test_other_tests_warn_of_repeats(self):
        with pytest.warns(UserWarning, match=r"\d+% of draws repeat another draw"):
            tarpon.sbc(*resampled(0), rng=0)


def walkers(n_steps, n_walkers, n_sims, *, rho, seed=0):
    """Return steps `(n_steps, n_walkers, n_sims, 1)` of chains with the same target."""
    noise = np.random.default_rng(seed).normal(size=(n_steps, n_walkers, n_sims, 1))
    noise[0] /= np.sqrt(1 - rho**2)
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=0)


class TestWalkers:
    @pytest.mark.parametrize("n_walkers", [2, 8, 32, 100])
    def test_walkers_that_take_turns_trigger_a_warning(self, n_walkers):
        flat = walkers(20, n_walkers, 50, rho=0.7).reshape(-1, 50, 1)
        said = rf"draws {n_walkers} apart correlate by 0\.\d+, as those of {n_walkers} chains"
        with pytest.warns(UserWarning, match=said):
            tarpon.sbc(flat, np.zeros((50, 1)), rng=0)

    def test_exact_studies_trigger_no_warning(self):
        for seed in range(500):  # false alarm 1e-6 each
            sizes = {"n_sims": 1 + seed % 70, "n_draws": 10 + 3 * seed % 400}
            sims = Simulations(*exact_draws(seed, n_dims=1 + seed % 5, **sizes))
            assert alerts.of_draws(sims) == ()

    @pytest.mark.parametrize("listed", [False, True])
    def test_swapped_axes_of_chains_are_asked_about(self, listed):
        steps, theta = walkers(200, 16, 20, rho=0.8), np.zeros((20, 1))
        as_given = lambda a: list(np.moveaxis(a, 2, 0)) if listed else a  # noqa: E731
        with pytest.warns(UserWarning, match=r"200 chains of 16 steps.*swapped\? If so, pass"):
            chains.thin(as_given(steps), theta)
        chains.thin(as_given(steps.swapaxes(0, 1)), theta)

    def test_swapped_axes_of_few_chains_are_asked_about(self):
        with pytest.raises(ValueError, match=r"got \(200, 3, 1\)\. Are the axes .* swapped\?"):
            chains.thin(np.zeros((200, 3, 20, 1)), np.zeros((20, 1)))

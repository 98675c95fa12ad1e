"""Repair: mended on some simulations, proven on others, refused where mass is missing."""

import json
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom, norm

import tarpon
from tarpon.cli import main
from tarpon.mending import keeping, mended, moving
from tarpon.mending.fitting import Map
from tarpon.mending.keeping import Keep
from tarpon.mending.moving import Move
from tarpon.mending.whitening import Whitening, n_held_out
from tarpon.problems import zoo

FALSE_ALARM = 1e-6


@cache
def repaired(flaw, n_sims=500, seed=0):
    return tarpon.repair(zoo(flaw, n_sims=n_sims, rng=seed), n_swaps=199, rng=seed)


@cache
def fitted(flaw, n_sims=400):
    sims = zoo(flaw, n_sims=n_sims, rng=7)
    return Map.fit(sims.samples, sims.theta, sims.x, np.random.default_rng(0))


def study(n_sims, rng, *, scale=1.0, shift=0.0, rho=0.0, n_draws=100):
    """Return truths N(x, 1) with a correlation that changes its sign with x, and wrong draws."""
    rng = np.random.default_rng(rng)
    x = rng.normal(size=(n_sims, 2))
    noise = rng.normal(size=(n_sims, 2))
    r = rho * np.sign(x[:, 0])
    noise[:, 1] = r * noise[:, 0] + np.sqrt(1 - r**2) * noise[:, 1]
    draws = x + shift + scale * rng.normal(size=(n_draws, n_sims, 2))
    return tarpon.Simulations(draws, x + noise, x=x)


class TestOutcomes:
    """Each outcome, for fixed seeds; how often they come is in docs/repair.md."""

    def test_repaired(self):
        repair = tarpon.repair(study(500, 0, scale=0.5, shift=0.5), n_swaps=199, rng=0)
        assert repair.outcome == "repaired"
        assert repair.before.p_value <= 0.05 < repair.check.p_value
        assert [step.used for step in repair.steps] == [True, False]
        assert repair.kept == 1
        assert (repair.n_fit, repair.n_unseen) == (400, 100)
        for one in repair.left:
            assert one.width.low < 1 < one.width.high
        assert str(repair).startswith("REPAIRED: no evidence against on 100 unseen simulations (p")

    def test_fresh_draws_are_as_wide_as_truths(self):
        repair = tarpon.repair(study(500, 0, scale=0.5, shift=0.5), n_swaps=199, rng=0)
        fresh = repair.applied(study(2000, 1, scale=0.5, shift=0.5), rng=0)
        z = fresh.samples - fresh.x
        # The estimates of 400 simulations have errors of 0.05 and 0.035: five of them.
        assert abs(z.mean(axis=(0, 1))).max() < 0.25
        assert abs(z.std(axis=(0, 1)) - 1).max() < 0.18

    def test_shapes_are_mended_by_keeping(self):
        repair = repaired("heavy_tails")
        assert repair.outcome == "repaired"
        assert [step.used for step in repair.steps] == [False, True]
        assert 0.2 < repair.kept < 0.8

    def test_before_and_after_have_as_many_draws(self):
        # Fewer draws show less: passing with 13 of them proves nothing if 60 were rejected.
        repair = tarpon.repair(study(500, 0, scale=1.6), n_swaps=199, rng=0)
        assert repair.before.draws == repair.check.draws
        assert repair.proven
        assert "Not proven" not in str(repair)
        assert repair.to_dict()["proven"]

    def test_a_proof_that_the_flaw_passes_too_is_none(self):
        # 30 unseen simulations cannot tell draws that are a sixth too wide from repaired ones.
        repair = tarpon.repair(study(150, 0, scale=1.2, n_draws=60), n_swaps=199, rng=0)
        assert repair.outcome == "repaired"
        assert repair.before.p_value > 0.05
        assert not repair.proven
        assert "Not proven: with as few draws" in str(repair)

    def test_nothing_to_repair(self):
        repair = repaired("exact")
        sims = zoo("exact", n_sims=20, rng=1)
        assert repair.outcome == "nothing to repair"
        assert repair.kept == 1
        same = repair(sims.samples[:, 0], sims.x[0])
        np.testing.assert_array_equal(same, sims.samples[:, 0])
        np.testing.assert_array_equal(repair.applied(sims).samples, sims.samples)
        assert len(repair.left) == 2

    def test_improved_but_still_inaccurate(self):
        sims = study(1000, 3, shift=0.4, rho=0.7)
        repair = tarpon.repair(sims, share=0.6, n_swaps=199, rng=0)
        assert repair.outcome == "improved, still inaccurate"
        assert repair.steps[0].used
        assert "After: p = 0.005" in str(repair)
        k = abs(sims.x).max(axis=1).argmin()
        assert repair(sims.samples[:, k], sims.x[k], rng=0).shape[1] == 2

    @pytest.mark.parametrize("flaw", ["mode_dropped", "truncated", "skew"])
    def test_missing_mass_is_refused(self, flaw):
        repair, sims = repaired(flaw), zoo(flaw, n_sims=100, rng=5)
        assert repair.outcome == "cannot be repaired"
        assert "train again" in str(repair)
        for use in (
            lambda: repair(sims.samples[:, 0], sims.x[0]),
            lambda: repair.applied(sims),
            lambda: repair.wrap(lambda x, n: None),
        ):
            with pytest.raises(ValueError, match=r"CANNOT BE REPAIRED: .* train again"):
                use()

    def test_the_same_seed_gives_the_same_repair(self):
        first, again = (
            tarpon.repair(zoo("shift", n_sims=100, rng=0), n_swaps=99, rng=3) for _ in range(2)
        )
        assert first.to_dict() == again.to_dict()
        assert json.loads(first.to_json())["schema"] == "tarpon-repair-1"


class TestProof:
    @pytest.mark.usefixtures("nothing_planted")
    def test_its_level_for_a_fixed_map(self):
        """Truths from the repaired posterior itself: rejected no more often than the level."""
        the_map = fitted("heavy_tails")
        assert the_map.keep is not None
        n_held, p_values = n_held_out(100), []
        for seed in range(100):
            rng = np.random.default_rng(seed)
            sims = zoo("heavy_tails", n_sims=30, n_draws=160, rng=1000 + seed)
            both = np.concatenate([sims.samples[:n_held], sims.samples[100:]])
            moved, kept = the_map(both, sims.x, rng)  # the same held-out draws, others after them
            some = np.flatnonzero(kept.any(axis=0))
            truths = moved[kept.argmax(axis=0), np.arange(30)][some].astype(np.float32)
            draws, x = sims.samples[:100, some], sims.x[some]
            found = mended.repaired(the_map, tarpon.Simulations(draws, truths, x=x), rng)
            p_values.append(tarpon.check(found.sims, n_swaps=99, rng=seed).p_value)
        n_rejected = int((np.array(p_values) <= 0.2).sum())
        assert binom.sf(n_rejected - 1, 100, 0.2) > FALSE_ALARM
        assert binom.cdf(n_rejected, 100, 0.2) > FALSE_ALARM

    def test_judged_by_its_own_simulations_any_step_gains(self):
        """The twin that goes wrong: exact posteriors, and a gain that is not there."""
        sims = zoo("exact", n_sims=400, rng=0)
        whitening = Whitening.fit(sims.samples[:33].astype(float), sims.x)
        frame = whitening(sims.samples[:33].astype(float), sims.x)

        def terms(points):
            white = frame.whitened(frame.scaled(points.astype(float)))
            return keeping.terms(white, frame.features[:, whitening.linear])

        truths, draws = terms(sims.theta), terms(sims.samples[33:])
        keep = Keep.fit(truths[:200], draws[:, :200], 3.0)
        own, other = (
            keep.gains(truths[:200], draws[:, :200]),
            keep.gains(truths[200:], draws[:, 200:]),
        )
        assert own.mean() > 3 * own.std() / np.sqrt(200)
        assert other.mean() < 0

    def test_proven_by_its_own_simulations_an_overfitted_repair_passes(self):
        """The twin that goes wrong: the same map is found out by simulations it has not seen."""
        sims, fresh = study(60, 1), study(400, 2)
        frame_of = Whitening.fit(sims.samples[:33], sims.x)
        frame = frame_of(sims.samples[:33], sims.x)
        errors = frame.scaled(sims.theta) - frame.scaled(sims.samples[33:]).mean(axis=0)
        location = np.linalg.pinv(frame.features) @ errors  # not shrunk
        move = Move(location, np.zeros_like(location), np.zeros(1))
        the_map = Map(33, frame_of, move, None, (), 0.0)
        p_values = [
            tarpon.check(
                mended.repaired(the_map, some, np.random.default_rng(0)).sims, n_swaps=199, rng=0
            ).p_value
            for some in (sims, fresh)
        ]
        assert p_values[0] > 0.2
        assert p_values[1] == 0.005

    @pytest.mark.parametrize("flaw", ["heavy_tails", "weights_forgotten"])
    def test_a_draw_is_moved_and_kept_by_itself(self, flaw):
        """Neither truths nor other published draws matter, only data and held-out draws."""
        the_map, sims = fitted(flaw), zoo(flaw, n_sims=20, rng=0)
        moved, kept = the_map(sims.samples, sims.x, np.random.default_rng(0))
        others = sims.samples.copy()
        others[50:, :10] = 3.0
        others[:, 10:] = np.random.default_rng(1).normal(size=others[:, 10:].shape)
        again, kept_again = the_map(others, sims.x, np.random.default_rng(0))
        np.testing.assert_array_equal(again[:17, :10], moved[:17, :10])
        np.testing.assert_array_equal(kept_again[:17, :10], kept[:17, :10])

    def test_the_unseen_part_does_not_change_the_fit(self):
        sims = study(200, 0, scale=0.7)
        order = np.random.default_rng(4).spawn(3)[0].permutation(200)
        theta = sims.theta.copy()
        theta[order[160:]] += 1.0
        changed = tarpon.Simulations(sims.samples, theta, x=sims.x)
        first, second = (tarpon.repair(one, n_swaps=99, rng=4) for one in (sims, changed))
        assert first.before.to_dict() != second.before.to_dict()
        np.testing.assert_array_equal(first._map.move.location, second._map.move.location)


class TestTraps:
    """Proofs that look right and are not: each must go wrong as measured."""

    def test_weights_by_ranks_among_the_truth_too_pass_cut_support(self):
        """A third of the truths lie where no draw does, and ranks after weighting are uniform.

        A point is kept by its place among truth and draws together, as often as truths have that
        place in other simulations. The truth moves the places of its draws, so the kept draws know
        where it is. A repair sees a point only through held-out draws, and refuses.
        """
        rng = np.random.default_rng(0)
        edges = norm.cdf([-1, 1])
        truths, draws = rng.normal(size=(1600, 1)), norm.ppf(rng.uniform(*edges, (60, 1600, 1)))
        place = np.concatenate([truths[None], draws]).argsort(axis=0).argsort(axis=0)[..., 0]
        often = np.bincount(place[0, :800], minlength=61) + 1.0
        kept = rng.uniform(size=(60, 800)) < (often / often.max())[place[1:, 800:]]
        enough = 800 + np.flatnonzero(kept.sum(axis=0) >= 5)
        some = mended._first(draws[:, enough], kept[:, enough - 800], 5)
        assert tarpon.sbc(some, truths[enough], rng=0).p_value > 0.05
        assert tarpon.sbc(draws[:, enough], truths[enough], rng=0).p_value < FALSE_ALARM
        sims = tarpon.Simulations(draws[:, :500], truths[:500])
        assert tarpon.repair(sims, n_swaps=99, rng=0).outcome == "cannot be repaired"

    def test_one_pooled_check_of_folds_that_others_repair_never_rejects(self):
        """Shifts by the errors of the other folds add up to zero; a fold alone is legitimate."""
        folds, pooled, alone = np.arange(100) % 5, 0, 0
        for seed in range(300):
            rng = np.random.default_rng(seed)
            truths, draws = rng.normal(size=(100, 1)), rng.normal(size=(20, 100, 1))
            errors = truths - draws.mean(axis=0)
            for k in range(5):
                draws[:, folds == k] += errors[folds != k].mean()
            pooled += tarpon.sbc(draws, truths, rng=0).p_value <= 0.05
            one = draws[:, folds == 0], truths[folds == 0]
            alone += tarpon.sbc(*one, rng=0).p_value <= 0.05
        # An exact test would reject so rarely with a probability of 2e-7.
        assert pooled == 0
        assert binom.sf(alone - 1, 300, 0.08) > FALSE_ALARM
        assert alone > 0


class TestParts:
    def test_units_are_shrunk_to_what_the_data_say(self):
        """With 33 draws, means have a noise of 0.17 sd, of which shrinkage leaves little."""
        sims = study(400, 0)
        held = sims.samples[:33]
        frame = Whitening.fit(held, sims.x)(held, sims.x)
        assert np.square(held.mean(axis=0) - sims.x).mean() > 0.02
        assert np.square(frame.mean - sims.x).mean() < 0.006
        assert np.square(np.log(frame.sd)).mean() < 0.004
        assert abs(frame.root[:, 1, 0]).max() < 0.15

    def test_units_that_differ_are_not_shrunk(self):
        rng = np.random.default_rng(0)
        centre, sd = 5 * rng.normal(size=(300, 2)), np.exp(rng.normal(size=(300, 2)))
        held = centre + sd * rng.normal(size=(33, 300, 2))
        frame = Whitening.fit(held, None)(held, None)
        assert np.corrcoef(np.log(frame.sd[:, 0]), np.log(sd[:, 0]))[0, 1] > 0.98
        np.testing.assert_allclose(frame.mean, held.mean(axis=0), atol=0.5)

    @pytest.mark.parametrize("r", [1.0, 0.99999, -0.99999])
    def test_correlations_near_one_stay_finite(self, r):
        """Draws on a line, and truths that lie across it."""
        points = np.random.default_rng(0).normal(size=(200, 2))
        points[:, 1] = -np.sign(r) * points[:, 0] + 0.1 * points[:, 1]
        change, error = moving._fisher(points, np.full((200, 1), r))
        assert np.isfinite(change).all()
        assert np.isfinite(error).all()
        assert (change * r < 0).all()

    def test_a_move_finds_location_width_and_correlation(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(5000, 1))
        draws = rng.normal(size=(60, 5000, 2))
        truths = rng.normal(size=(5000, 2)) @ np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
        truths = truths * [2.0, 1.0] + np.column_stack([0.5 * x[:, 0], 0 * x[:, 0]])
        whitening = Whitening.fit(draws[:20], x)
        frame = whitening(draws[:20], x)
        move = Move.fit(frame, frame.scaled(truths), frame.scaled(draws[20:]), whitening)
        moved = frame.mean + frame.sd * move(frame, frame.scaled(draws[20:]))
        wanted, found = (
            np.cov((points - np.column_stack([0.5 * x, 0 * x])).reshape(-1, 2).T)
            for points in (truths, moved)
        )
        np.testing.assert_allclose(found, wanted, atol=0.12)
        np.testing.assert_allclose(
            moved.mean(axis=0)[:, 0] @ x[:, 0] / (x**2).sum(), 0.5, atol=0.1
        )

    def test_keeping_turns_draws_into_truths(self):
        """Draws uniform in 2 x 2 sd, truths triangular: by ranks of the kept draws."""
        rng = np.random.default_rng(0)
        sims = tarpon.Simulations(
            rng.uniform(-2, 2, size=(100, 800, 1)), rng.triangular(-2, 0, 2, size=(800, 1))
        )
        the_map = Map.fit(sims.samples, sims.theta, None, np.random.default_rng(0))
        draws, kept = the_map(sims.samples, None, np.random.default_rng(0))
        assert the_map.keep is not None
        share = (abs(draws[..., 0][kept]) < 1).mean()
        # 0.75 for triangular, 0.5 for uniform; estimated with an error of 0.015.
        assert 0.67 < share < 0.83

    def test_no_weight_exceeds_four_times_the_mean(self):
        the_map = fitted("mode_dropped")
        assert the_map.keep.top <= keeping.CAP
        assert the_map.lost > 0.05
        terms = keeping.terms(np.random.default_rng(0).normal(size=(50, 3, 2)), np.zeros((3, 2)))
        assert terms.shape[-1] == keeping.n_terms(2, 2)
        assert abs(keeping.terms(np.full((1, 2), 50.0), np.full((1, 2), 4.0))).max() < 10


class TestUse:
    def test_a_wrapped_sampler_is_a_sampler(self):
        repair = tarpon.repair(study(400, 0, scale=0.5, shift=0.5), n_swaps=199, rng=0)

        def sampler(x, n_draws, rng):
            return x + 0.5 + 0.5 * rng.normal(size=(n_draws, 2))

        fresh = study(300, 9)
        wrapped = repair.wrap(sampler, outside=True)
        sims = tarpon.from_sampler(wrapped, fresh.theta, fresh.x, 200, n_workers=1, rng=0)
        assert sims.samples.shape == (200, 300, 2)
        with pytest.raises(ValueError, match="unlike those of the simulations"):
            repair.wrap(sampler)(np.array([9.0, 9.0]), 10, np.random.default_rng(0))
        z = sims.theta - sims.samples.mean(axis=0)
        assert abs(z.std(axis=0) / sims.samples.std(axis=0).mean(axis=0) - 1).max() < 0.35

    def test_observations_outside_are_refused_unless_told(self):
        repair, far = repaired("shift"), np.array([9.0, -9.0])
        draws = 0.8 * far + np.random.default_rng(0).normal(size=(100, 2))
        with pytest.raises(
            ValueError, match=r"unlike those of the simulations \(p = 0\.002, exact"
        ):
            repair(draws, far)
        assert repair(draws, far, outside=True, rng=0).shape == (67, 2)

    def test_without_observations(self):
        sims = study(300, 0, scale=0.5)
        bare = tarpon.Simulations(sims.samples, sims.theta, names=["a", "b"])
        repair = tarpon.repair(bare, n_swaps=199, rng=0)
        assert repair.outcome == "repaired"
        assert repair(sims.samples[:, 0], rng=0).shape == (67, 2)
        with pytest.raises(ValueError, match="had no observations"):
            repair(sims.samples[:, 0], sims.x[0])

    def test_unequal_numbers_of_draws_are_cut_to_the_fewest(self):
        sims = study(100, 0, scale=0.5)
        draws = [sims.samples[: 100 - i % 40, i] for i in range(100)]
        some = tarpon.Simulations(draws, sims.theta, x=sims.x)
        assert mended.equal(some, 30).samples.shape == (61, 100, 2)
        assert tarpon.repair(some, n_swaps=99, rng=0).kept > 0

    @pytest.mark.parametrize("flaw", ["shift", "heavy_tails", "exact", "mode_dropped"])
    def test_what_is_saved_is_the_same_repair(self, flaw, tmp_path):
        repair, sims = repaired(flaw), zoo(flaw, n_sims=5, rng=3)
        repair.save(tmp_path / "repair.npz")
        loaded = tarpon.load(tmp_path / "repair.npz")
        assert str(loaded) == str(repair)
        assert (loaded.outcome, loaded.kept, loaded.steps) == (
            repair.outcome, repair.kept, repair.steps,
        )  # fmt: skip
        assert loaded.before is loaded.check is None
        assert len(loaded.left) == 0
        if flaw != "mode_dropped":
            k = abs(sims.x).max(axis=1).argmin()
            one = (sims.samples[:, k], sims.x[k])
            np.testing.assert_array_equal(loaded(*one, rng=0), repair(*one, rng=0))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("own", np.full((7, 4), np.nan)),
            ("keep", np.zeros(3)),
            ("data_turn", np.zeros((3, 2))),
            ("x", np.zeros((2, 2))),
            ("means_factor", np.full(2, 1.5)),
        ],
    )
    def test_damaged_files_are_refused(self, name, value, tmp_path):
        path = tmp_path / "repair.npz"
        repaired("heavy_tails").save(path)
        with np.load(path) as file:
            members = dict(file)
        assert name in members
        np.savez(path, **members | {name: value})
        with pytest.raises(ValueError, match="is damaged or was not saved by tarpon"):
            tarpon.load(path)


class TestShown:
    def test_what_is_moved_along_the_data(self):
        moves = repaired("bias_by_x").moves
        assert moves.names == ("theta_0", "theta_1")
        assert moves.features == ("x[0]", "x[1]")
        for k in range(2):
            below = moves.place[:, k] < -0.3
            # The bias is 0.3 sd with the sign of x, estimated with errors of about 0.1.
            assert 0.1 < moves.location[below, k].mean() < 0.5
            assert -0.5 < moves.location[moves.place[:, k] > 0.3, k].mean() < -0.1
        assert abs(np.log(moves.factor)).max() < 0.3

    def test_nothing_is_moved_without_a_move_or_without_data(self):
        still = repaired("heavy_tails").moves
        assert not still.location.any()
        assert still.features == ("", "")
        bare = tarpon.Simulations(study(300, 0, shift=0.5).samples, study(300, 0).theta)
        moves = tarpon.repair(bare, n_swaps=99, rng=0).moves
        assert moves.features == ("", "")
        assert moves.location.shape == (1, 2)

    def test_steps_that_are_not_applied_are_not_shown(self):
        repair, sims = repaired("exact"), zoo("exact", n_sims=5, rng=3)
        k = abs(sims.x).max(axis=1).argmin()
        assert not repair.moves.location.any()
        figure = repair.plot()
        assert [ax.get_title() for ax in figure.axes] == ["before"]
        plt.close(figure)
        with pytest.raises(ValueError, match="two places from 0 to 1, but got \\(0, 5\\)"):
            tarpon.plots.mended(repair, sims.samples[:, k], sims.x[k], parameters=(0, 5))
        plt.close("all")

    def test_figures_before_and_after_have_the_same_limits(self):
        repair, sims = repaired("shift"), zoo("shift", n_sims=5, rng=3)
        k = abs(sims.x).max(axis=1).argmin()
        figure = repair.plot(sims.samples[:, k], sims.x[k], rng=0)
        before, after, *others = figure.axes
        assert (before.get_title(), after.get_title()) == ("before", "after")
        assert before.get_xlim() == after.get_xlim()
        assert [ax.get_xlabel()[:6] for ax in others] == ["Number", "theta_"]
        plt.close(figure)

    def test_the_report_has_both_checks_and_the_posterior(self, tmp_path):
        repair, sims = repaired("shift"), zoo("shift", n_sims=5, rng=3)
        k = abs(sims.x).max(axis=1).argmin()
        repair.report(tmp_path / "repair.html", sims.samples[:, k], sims.x[k], rng=0)
        text = (tmp_path / "repair.html").read_text(encoding="utf-8")
        assert text.count("<h1") == 1
        assert "<title>Repair of posteriors" in text
        for said in ("100% of draws kept", "One posterior before and after", "along the data"):
            assert said in text

    def test_a_loaded_repair_has_no_checks_to_report(self, tmp_path):
        repaired("shift").save(tmp_path / "repair.npz")
        loaded = tarpon.load(tmp_path / "repair.npz")
        with pytest.raises(ValueError, match="write the report before saving"):
            loaded.report(tmp_path / "repair.html")
        figure = loaded.plot()
        assert len(figure.axes) == 1
        plt.close(figure)


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"share": 1.5}, "`share` must lie between 0 and 1"),
            ({"share": 0.99}, "needs at least 50 simulations to be fitted and 20 to be proven"),
            ({"level": 2}, "`level` must lie between 0 and 1"),
        ],
    )
    def test_arguments(self, change, said):
        with pytest.raises(ValueError, match=said):
            tarpon.repair(zoo("exact", n_sims=100, rng=0), **change)

    def test_what_is_no_simulations(self):
        with pytest.raises(TypeError, match="`sims` must be `Simulations`"):
            tarpon.repair(np.zeros((3, 3)))

    def test_weights_few_draws_and_few_values(self):
        sims = zoo("exact", n_sims=100, rng=0)
        weights = np.random.default_rng(0).normal(size=sims.samples.shape[:2])
        weighted = tarpon.Simulations(sims.samples, sims.theta, log_weights=weights)
        with pytest.raises(ValueError, match="draws of equal weight"):
            tarpon.repair(weighted)
        with pytest.raises(ValueError, match="more than 30 draws per simulation, but got 20"):
            tarpon.repair(zoo("exact", n_sims=100, n_draws=20, rng=0))
        rounded = tarpon.Simulations(np.sign(sims.samples), np.sign(sims.theta))
        with pytest.raises(ValueError, match="few values cannot be moved: theta_0, theta_1"):
            tarpon.repair(rounded)

    @pytest.mark.parametrize(
        ("shape", "x", "said"),
        [
            ((100, 3), np.zeros(2), r"\(n_draws, 2\), but got \(100, 3\)"),
            ((20, 2), np.zeros(2), "more than 33 draws, which are held out for units, but got 20"),
            ((100, 2), np.zeros(3), r"shape of one observation, \(2,\), but got \(3,\)"),
            ((100, 2), None, "pass it as the second argument"),
        ],
    )
    def test_draws_and_observations(self, shape, x, said):
        with pytest.raises(ValueError, match=said):
            repaired("shift")(np.zeros(shape), x)


class TestCommandLine:
    def test_repairs_the_draws_of_an_observation(self, tmp_path):
        sims = zoo("shift", n_sims=500, rng=0)
        np.savez(tmp_path / "draws.npz", samples=sims.samples, theta=sims.theta, x=sims.x)
        np.savez(tmp_path / "one.npz", samples=sims.samples[:, 0], x=sims.x[0])
        words = ["repair", "draws.npz", "--apply", "one.npz", "--out", "repaired.npz", "--save",
                 "repair.npz", "--n-swaps", "199", "--rng", "0"]  # fmt: skip
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code == 0
        assert answer.output.startswith("REPAIRED: no evidence against")
        with np.load("repaired.npz") as file:
            expected = repaired("shift")(sims.samples[:, 0], sims.x[0], rng=0)
            np.testing.assert_array_equal(file["samples"], expected)
        assert tarpon.load("repair.npz").outcome == "repaired"

    def test_missing_mass_writes_nothing(self, tmp_path):
        sims = zoo("mode_dropped", n_sims=200, rng=0)
        np.savez(tmp_path / "draws.npz", samples=sims.samples, theta=sims.theta, x=sims.x)
        np.savez(tmp_path / "one.npz", samples=sims.samples[:, 0], x=sims.x[0])
        words = ["repair", "draws.npz", "--apply", "one.npz", "--out", "repaired.npz", "--json",
                 "--n-swaps", "199", "--rng", "0"]  # fmt: skip
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code == 1
        assert json.loads(answer.output)["outcome"] == "cannot be repaired"
        assert not (tmp_path / "repaired.npz").exists()

    def test_an_observation_needs_a_place_for_its_draws(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros(2))
        answer = CliRunner().invoke(main, ["repair", "draws.npz", "--apply", "x.npy"])
        assert answer.exit_code == 2
        assert "--apply and --out belong together" in answer.output

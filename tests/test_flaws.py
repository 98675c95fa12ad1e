"""Thirteen flaws proven in tools of the field, and a test that tarpon has none of them."""

import ast
import inspect
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations, bands, references
from tarpon.problems import gaussian
from tarpon.ranks import Ranks

FALSE_ALARM = 1e-6
ROOT = Path(__file__).parents[1]


def most_rejections(n_studies, level):
    """Return the number of rejections that is exceeded with probability FALSE_ALARM at most."""
    return int(binom.isf(FALSE_ALARM, n_studies, level))


def shifted(shift=0.0, width=1.0, n_sims=500, n_draws=100, n_dims=2, offset=0.0, seed=0):
    """Posteriors N(x/2, 1/2) with their mean off by `shift` sd and their sd off by `width`."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, n_dims))
    middle = (theta + rng.normal(size=theta.shape)) / 2
    sd = np.sqrt(0.5)
    samples = middle + sd * (shift + width * rng.normal(size=(n_draws, *theta.shape)))
    return samples + offset, theta + offset


class TestFlaw01PValuesThatAreNone:
    @pytest.mark.parametrize("wrong", [{"width": 0.5}, {"width": 2.0}, {"shift": 1.0}])
    def test_gross_errors_are_always_found(self, wrong):
        for seed in range(20):
            assert tarpon.tarp(*shifted(**wrong, seed=seed), rng=seed).p_value < 0.01

    def test_there_are_no_bins_to_choose_a_p_value_with(self):
        assert "bins" not in " ".join(inspect.signature(tarpon.tarp).parameters)


class TestFlaw02ABoxAroundTheTruths:
    @pytest.mark.slow
    def test_lognormal_parameters_do_not_alarm(self):
        n_studies, alarms = 150, 0
        for seed in range(n_studies):
            samples, theta = shifted(n_sims=100, n_draws=20, n_dims=100, seed=seed)
            alarms += tarpon.tarp(np.exp(samples), np.exp(theta), rng=seed).p_value <= 0.05
        assert alarms <= most_rejections(n_studies, 0.05)


class TestFlaw03SeedsAndBootstrap:
    def test_the_same_seed_gives_the_same_answer(self):
        first, second = (tarpon.tarp(*shifted(), rng=7) for _ in range(2))
        np.testing.assert_array_equal(first.ranks.values, second.ranks.values)
        again = tarpon.tarp(*shifted(), rng=first.seed)
        np.testing.assert_array_equal(first.ranks.values, again.ranks.values)

    def test_a_run_without_a_seed_can_be_had_again(self):
        first = tarpon.tarp(*shifted())
        again = tarpon.tarp(*shifted(), rng=first.seed)
        np.testing.assert_array_equal(first.ranks.values, again.ranks.values)

    def test_a_generator_goes_on(self):
        rng = np.random.default_rng(0)
        first, second = (tarpon.tarp(*shifted(), rng=rng).ranks.values for _ in range(2))
        assert (first != second).any()

    def test_the_global_state_is_left_alone(self):
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        tarpon.tarp(*shifted()).bootstrap(10)
        assert (np.random.get_state()[1] == before).all()  # noqa: NPY002

    def test_bootstrap_curves_spread_as_they_should(self):
        result = tarpon.tarp(*shifted(n_sims=300), rng=0)
        curves = result.bootstrap(4000, rng=1)
        ecp = result.curve.ecp
        np.testing.assert_allclose(curves.std(axis=0), np.sqrt(ecp * (1 - ecp) / 300), atol=2e-3)
        np.testing.assert_allclose(curves.mean(axis=0), ecp, atol=2e-3)
        assert len(np.unique(curves, axis=0)) == 4000

    def test_bootstrap_leaves_the_arrays_alone(self):
        samples, theta = shifted()
        kept = samples.copy(), theta.copy()
        tarpon.tarp(samples, theta, rng=0).bootstrap(100, rng=0)
        assert (samples == kept[0]).all()
        assert (theta == kept[1]).all()


class TestFlaw04ReferencesInOtherUnits:
    def test_references_of_the_user_are_scaled_along(self):
        samples, theta = shifted(shift=0.5, n_dims=1)
        point = np.array([-2.0])
        here = tarpon.tarp(samples, theta, reference=references.Fixed(point), rng=0)
        far = tarpon.tarp(samples * 1e3 + 1e4, theta * 1e3 + 1e4, rng=0,
                          reference=references.Fixed(point * 1e3 + 1e4))  # fmt: skip
        assert here.p_value < FALSE_ALARM
        assert abs(here.ranks.values - far.ranks.values).max() <= 1

    def test_the_default_sees_parameters_far_from_the_unit_box(self):
        near = tarpon.tarp(*shifted(width=0.5), rng=0)
        far = tarpon.tarp(*shifted(width=0.5, offset=1e4), rng=0)
        assert far.p_value < FALSE_ALARM
        assert abs(near.ranks.values - far.ranks.values).max() <= 1


class TestFlaw05GridsThatFollowTheData:
    @pytest.mark.parametrize("width", [0.01, 100.0])
    def test_levels_always_run_from_zero_to_one(self, width):
        curve = tarpon.tarp(*shifted(width=width), rng=0).curve
        assert (curve.level[0], curve.level[-1]) == (0, 1)
        assert (curve.ecp[0], curve.ecp[-1]) == (0, 1)
        np.testing.assert_allclose(np.diff(curve.level), 1 / 101)


class TestFlaw06MisreadCurves:
    def test_one_curve_does_not_claim_to_tell_bias_from_overconfidence(self):
        for wrong in ({"width": 0.6}, {"shift": 1.0}):
            assert "biased" in tarpon.tarp(*shifted(**wrong), rng=0).verdict

    @pytest.mark.parametrize("seed", range(5))
    def test_marginal_ranks_tell_them_apart(self, seed):
        words = {
            "overconfident": tarpon.sbc(*shifted(width=0.6, seed=seed), rng=0).verdict,
            "underconfident": tarpon.sbc(*shifted(width=1.7, seed=seed), rng=0).verdict,
            "biased: the draws are too high": tarpon.sbc(
                *shifted(shift=1.0, seed=seed), rng=0
            ).verdict,
            "biased: the draws are too low": tarpon.sbc(
                *shifted(shift=-1.0, seed=seed), rng=0
            ).verdict,
        }
        for flaw, verdict in words.items():
            assert flaw in verdict


class TestFlaw07DiscreteRanks:
    @pytest.mark.parametrize(
        ("n_draws", "n_sims"), [(10, 200), pytest.param(100, 5000, marks=pytest.mark.slow)]
    )
    def test_exact_ranks_are_rejected_at_the_level(self, n_draws, n_sims):
        rng = np.random.default_rng(0)
        n_studies = 200
        values = rng.integers(n_draws + 1, size=(n_sims, n_studies))
        alarms = (bands.p_values(Ranks(values, n_draws)) <= 0.05).sum()
        assert alarms <= most_rejections(n_studies, 0.05)

    def test_histograms_leave_their_band_at_the_level(self):
        rng = np.random.default_rng(0)
        n_studies, n_sims = 2000, 200
        low, high = bands.histogram_band(n_sims, (1,) * 11, 0.95)
        counts = rng.multinomial(n_sims, np.full(11, 1 / 11), size=n_studies)
        alarms = ((counts < low) | (counts > high)).any(axis=1).sum()
        assert 0.02 * n_studies < alarms <= most_rejections(n_studies, 0.05)


class TestFlaw08DensityCoverage:
    def test_exact_posteriors_pass(self):
        assert tarpon.hpd(gaussian("correct", rng=1), rng=0).p_value > FALSE_ALARM

    def test_a_flat_posterior_is_all_ties_and_passes(self):
        result = tarpon.hpd(np.zeros((50, 2000)), np.zeros(2000), rng=0)
        assert result.p_value > FALSE_ALARM
        assert abs(result.fractions.mean() - 0.5) < 0.05

    def test_nan_is_not_covered_but_refused(self):
        truths = np.zeros(20)
        truths[5] = np.nan
        with pytest.raises(ValueError, match=r"1 of 20 simulations hold NaN.*first at index 5"):
            tarpon.hpd(np.zeros((9, 20)), truths)


class TestFlaw09RanksScaledByTheirMaximum:
    def test_truths_that_never_pass_the_sixtieth_percentile_are_found(self):
        values = np.random.default_rng(0).integers(60, size=500)
        assert bands.p_values(Ranks(values, n_draws=99))[0] < FALSE_ALARM


class TestFlaw10CorrelatedParameters:
    @pytest.mark.slow
    def test_the_familywise_level_holds(self):
        n_studies, alarms = 300, 0
        for seed in range(n_studies):
            samples, theta = shifted(n_sims=50, n_draws=19, n_dims=1, seed=seed)
            noise = 1 + 0.01 * np.random.default_rng(seed).normal(size=10)
            alarms += tarpon.sbc(samples * noise, theta * noise, rng=seed).p_value <= 0.05
        assert alarms <= most_rejections(n_studies, 0.05)


class TestFlaw11Edges:
    @pytest.mark.parametrize("n_sims", [1, 5, 9])
    def test_few_simulations_get_an_answer(self, n_sims):
        assert 0 < tarpon.tarp(*shifted(n_sims=n_sims), rng=0).p_value <= 1

    @pytest.mark.parametrize("n_sims", [12, 19])
    def test_a_dozen_simulations_do_not_always_look_perfect(self, n_sims):
        assert tarpon.sbc(*shifted(shift=3.0, n_sims=n_sims), rng=0).p_value < 1e-4

    def test_one_nan_is_refused(self):
        samples, theta = shifted()
        theta[17, 0] = np.nan
        with pytest.raises(ValueError, match="first at index 17"):
            tarpon.tarp(samples, theta)

    def test_a_constant_parameter_does_no_harm(self):
        samples, theta = shifted(n_dims=3)
        samples[..., 1] = theta[..., 1] = 4.2
        assert tarpon.tarp(samples, theta, rng=0).p_value > FALSE_ALARM
        assert tarpon.sbc(samples, theta, rng=0).p_value > FALSE_ALARM
        samples, theta = shifted(n_dims=3, width=0.5)
        samples[..., 1] = theta[..., 1] = 4.2
        assert tarpon.tarp(samples, theta, rng=0).p_value < FALSE_ALARM

    def test_integer_parameters_are_tied_and_pass(self):
        rng = np.random.default_rng(0)
        rate = rng.gamma(2.0, size=(3000, 2))
        theta, samples = rng.poisson(rate), rng.poisson(rate, size=(50, 3000, 2))
        for result in (tarpon.tarp(samples, theta, rng=0), tarpon.sbc(samples, theta, rng=0)):
            assert result.p_value > FALSE_ALARM
        assert tarpon.sbc(samples + 1, theta, rng=0).p_value < FALSE_ALARM

    @pytest.mark.parametrize("n_draws", [1, 2, 5])
    def test_few_draws_do_not_shift_the_curve(self, n_draws):
        result = tarpon.tarp(*shifted(n_sims=20_000, n_draws=n_draws), rng=0)
        assert abs(result.curve.ecp - result.curve.level).max() < 0.02
        assert result.p_value > FALSE_ALARM

    def test_swapped_square_arrays_are_warned_of(self):
        rng = np.random.default_rng(0)
        theta = rng.normal(size=(100, 1))
        samples = theta + 0.1 * (3 + rng.normal(size=(100, 100, 1)))
        with pytest.warns(UserWarning, match="seem to lie along axis 1"):
            tarpon.tarp(samples.swapaxes(0, 1), theta)

    def test_no_draws_are_refused(self):
        with pytest.raises(ValueError, match="at least one simulation and one draw"):
            tarpon.tarp(np.empty((0, 5, 2)), np.zeros((5, 2)))


class TestFlaw12HangingOnOneObservation:
    def test_a_simulation_without_draws_is_reported_and_does_not_stop_the_rest(self):
        samples, theta = shifted(n_sims=100)
        samples[:, 42] = np.nan
        with pytest.raises(ValueError, match=r"1 of 100 simulations.*first at index 42"):
            tarpon.tarp(samples, theta)
        result = tarpon.tarp(Simulations(samples, theta, on_invalid="drop"), rng=0)
        assert (result.ranks.n_sims, result.n_dropped) == (99, 1)


class TestFlaw13UndeclaredDependencies:
    def test_everything_imported_is_declared(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        declared = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
        declared = {re.split(r"[\[>]", name)[0].replace("scikit-", "sk") for name in declared}
        declared = {name.replace("-", "_") for name in declared}
        used = set()
        for path in (ROOT / "src").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    used |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    used.add(node.module.partition(".")[0])
        assert used - set(sys.stdlib_module_names) <= declared


def test_simulations_serve_all_three_tests():
    sims = gaussian("correct", n_sims=50, rng=0)
    assert isinstance(sims, Simulations)
    for test in (tarpon.tarp, tarpon.hpd, tarpon.sbc):
        assert 0 < test(sims, rng=0).p_value <= 1

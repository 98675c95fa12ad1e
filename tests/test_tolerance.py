"""Tolerance: errors that are shown to be too small to matter, and none that are not."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

import tarpon
from tarpon import Tolerance
from tarpon.checks.parameters import Effects, measure
from tarpon.checks.tolerances import Margin, Margins, margins
from tarpon.cli import main
from tarpon.gate import Gate, InaccurateError

WIDE = Tolerance(bias=0.4, width=0.3, coverage=0.15)
SWAPS = {"n_swaps": 199, "rng": 0}


def study(n_sims, *, bias=0.0, width=1.0, n_dims=2, n_draws=60, rng=0):
    """Return normal posteriors with a bias and a factor of width in the first parameter."""
    rng = np.random.default_rng(rng)
    points = rng.normal(size=(n_draws + 1, n_sims, n_dims))
    points[1:, :, 0] = (points[1:, :, 0] + bias) / width
    return tarpon.Simulations(points[1:], points[0])


@pytest.fixture(scope="module")
def small_error():
    """Check draws whose error can be measured, but does not matter."""
    return tarpon.check(study(2000, bias=0.15), tolerance=WIDE, **SWAPS)


class TestOutcome:
    def test_exact_posteriors_are_shown_to_be_within(self):
        check = tarpon.check(study(1000), tolerance=WIDE, **SWAPS)
        assert check.outcome == "within tolerance"
        assert check.p_value > 0.05
        assert "biases are at most" in str(check)
        assert str(check).startswith("WITHIN TOLERANCE  p = ")
        assert "on average over observations; single posteriors may be further off" in str(check)

    def test_measurable_errors_that_do_not_matter(self, small_error):
        check = small_error
        assert check.outcome == "within tolerance"
        assert check.p_value <= 0.01
        assert "There is evidence against them, but the errors are too small" in str(check)
        assert check.findings  # which are still listed
        assert not check.weak

    def test_errors_that_matter(self):
        check = tarpon.check(study(2000, bias=0.6), tolerance=WIDE, **SWAPS)
        assert check.outcome == "inaccurate"
        assert check.margins.beyond == ("bias",)
        assert "By more than the tolerance: bias of theta_0." in str(check)

    def test_errors_that_may_or_may_not_matter(self):
        check = tarpon.check(study(400, bias=0.4), tolerance=WIDE, **SWAPS)
        assert check.outcome == "inaccurate"
        assert not check.margins.beyond
        assert "Not shown to be within the tolerance." in str(check)

    def test_few_simulations_show_nothing(self):
        check = tarpon.check(study(120), tolerance=WIDE, **SWAPS)
        assert check.outcome == "no evidence against"
        assert not check.margins.within

    def test_wrong_correlations_are_errors_of_coverage(self):
        """Every parameter alone is right; regions around the centre are not."""
        rng = np.random.default_rng(0)
        points = rng.normal(size=(61, 3000, 2))
        points[0, :, 1] = 0.8 * points[0, :, 0] + 0.6 * points[0, :, 1]
        check = tarpon.check(points[1:], points[0], tolerance=Tolerance(0.1, 0.1, 0.06), **SWAPS)
        assert check.outcome == "inaccurate"
        assert check.margins.bias.most < 0.1
        assert check.margins.width.most < 0.1
        assert check.margins.coverage.worst == "regions around the centre"

    def test_nothing_is_said_without_a_tolerance(self):
        check = tarpon.check(study(200), **SWAPS)
        assert check.margins is None
        assert check.to_dict()["margins"] is None
        assert "tolerance" not in str(check)


class TestMargins:
    def test_the_largest_error_of_all_parameters_counts(self):
        found = tarpon.check(study(2000, bias=0.3, n_dims=3), tolerance=WIDE, **SWAPS).margins
        assert found.bias.worst == "theta_0"
        assert found.bias.least < 0.3 < found.bias.most
        assert found.confidence == 0.95

    def test_within_and_beyond(self):
        small, large = Margin(0.0, 0.05, "a"), Margin(0.2, 0.3, "a")
        one = Margins(Tolerance(0.1, 0.1, 0.1), 0.95, small, small, small)
        assert one.within
        assert not one.beyond
        other = dataclasses.replace(one, width=large)
        assert not other.within
        assert other.beyond == ("width",)

    @pytest.mark.slow
    @pytest.mark.parametrize("error", [{"bias": 0.4}, {"width": 1.3}, {"width": 0.7}])
    def test_false_claims_are_rare(self, error):
        """The error equals the tolerance: in 100 studies, at most 5 % and limits of 1e-6."""
        n_claims, few = 0, Tolerance(0.4, 0.3, 0.5)
        for seed in range(100):
            sims, rng = study(400, **error, rng=seed), np.random.default_rng(seed)
            effects = Effects.of(sims, measure(sims), rng)
            n_claims += margins(effects, sims.names, {}, few, 0.05).within
        assert n_claims <= binom.ppf(1 - 1e-6, 100, 0.05)

    @pytest.mark.slow
    def test_intervals_that_are_too_short_claim_too_much(self):
        """The twin: without an interval, half of the studies claim an error that is there."""
        n_claims = 0
        for seed in range(100):
            sims = study(400, bias=0.4, rng=seed)
            effects = Effects.of(sims, measure(sims), np.random.default_rng(seed))
            n_claims += effects.bias(0, z=0.0).high <= 0.4
        assert n_claims > binom.ppf(1 - 1e-6, 100, 0.05)

    @pytest.mark.parametrize("limits", [{"bias": 0}, {"width": -1}, {"coverage": float("nan")}])
    def test_limits_are_positive(self, limits):
        with pytest.raises(ValueError, match=next(iter(limits))):
            Tolerance(**limits)

    def test_a_number_is_no_tolerance(self):
        with pytest.raises(TypeError, match=r"tarpon\.Tolerance\(bias=0\.1"):
            tarpon.check(study(20), tolerance=0.1)


class TestWhoKnowsIt:
    def test_gates(self, small_error):
        within = small_error
        assert not Gate().failures(within)
        assert not Gate(fail_on="not within tolerance").failures(within)
        silent = tarpon.check(study(120), tolerance=WIDE, **SWAPS)
        assert not Gate().failures(silent)
        with pytest.raises(InaccurateError, match="no evidence against"):
            Gate(fail_on="not within tolerance").require(silent)
        with pytest.raises(ValueError, match=r"tolerance=tarpon\.Tolerance"):
            Gate(fail_on="not within tolerance").failures(tarpon.check(study(120), **SWAPS))

    def test_monitors(self):
        assert tarpon.Monitor(tolerance=Tolerance(coverage=0.2)).tolerance == 0.2

    def test_reports_and_cards(self, small_error, tmp_path):
        check = small_error
        check.report(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "These posteriors are within tolerance." in page
        assert "widths are right within" in page
        assert "Within tolerance" in check._repr_html_()

    def test_command_line(self, tmp_path):
        sims = study(1000)
        np.savez(tmp_path / "a.npz", samples=sims.samples, theta=sims.theta)
        words = ["check", str(tmp_path / "a.npz"), "--rng", "0", "--n-swaps", "199", "--json"]
        said = CliRunner().invoke(main, [*words, "--tolerance", "0.4,0.3,0.15"])
        assert said.exit_code == 0
        found = json.loads(said.output)
        assert found["outcome"] == "within tolerance"
        assert found["margins"]["tolerance"] == {"bias": 0.4, "width": 0.3, "coverage": 0.15}
        strict = ["--tolerance", "0.01,0.01", "--fail-on", "not within tolerance"]
        assert CliRunner().invoke(main, [*words, *strict]).exit_code == 1
        for bad in ("0.1", "a,b", "0.1,-1", "1,1,1,1"):
            said = CliRunner().invoke(main, [*words, "--tolerance", bad])
            assert said.exit_code == 2
            assert "like 0.1,0.1,0.05" in said.output

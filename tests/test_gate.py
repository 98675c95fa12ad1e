"""Gates and the plugin for pytest: what stops a pipeline."""

import subprocess
import sys

import numpy as np
import pytest

import tarpon
from tarpon.gate import FAIL_ON, Gate, InaccurateError
from tarpon.problems import zoo


@pytest.fixture(scope="module")
def checks():
    flaws = ("exact", "narrow", "shift")
    few = tarpon.check(zoo("exact", n_dims=2, n_sims=10, n_draws=20, rng=0), rng=0, n_swaps=99)
    found = {flaw: tarpon.check(zoo(flaw, n_dims=2, n_sims=1000, rng=1), rng=0) for flaw in flaws}
    return found | {"few": few}


class TestGate:
    @pytest.mark.parametrize(
        ("case", "stopped_by"),
        [
            ("exact", set()),
            ("narrow", {"inaccurate", "doubt"}),
            ("few", {"doubt"}),
        ],
    )
    def test_stops_what_it_must(self, checks, case, stopped_by):
        stops = {name for name in FAIL_ON if Gate(fail_on=name).failures(checks[case])}
        assert stops == stopped_by

    def test_says_what_was_found(self, checks):
        (said,) = Gate().failures(checks["narrow"])
        assert said.startswith("inaccurate, p = 0.001: overconfident")

    def test_sizes_count_once_they_are_clear(self, checks):
        width = checks["narrow"].parameters[0].width
        assert width.low > 1
        over = Gate(fail_on="never", max_width_error=(width.low - 1) / 2).failures(
            checks["narrow"]
        )
        assert "scatter" in over[0]
        assert "is allowed" in over[0]
        assert not Gate(fail_on="never", max_width_error=width.high).failures(checks["narrow"])

    def test_biases_of_both_signs_count(self, checks):
        biases = [p.bias for p in checks["shift"].parameters]
        worst = max(biases, key=lambda bias: abs(bias.value))
        least = min(abs(worst.low), abs(worst.high))
        (said,) = Gate(fail_on="never", max_bias=least / 2).failures(checks["shift"])
        assert "the bias of theta_" in said

    def test_require_raises_with_everything(self, checks):
        assert Gate().require(checks["exact"]) is checks["exact"]
        with pytest.raises(InaccurateError, match="INACCURATE  p = "):
            Gate().require(checks["narrow"])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"fail_on": "always"}, "must be one of inaccurate, doubt, never, but got 'always'"),
            ({"max_bias": 0.0}, "`max_bias` must be positive"),
            ({"max_width_error": float("nan")}, "`max_width_error` must be positive"),
        ],
    )
    def test_refuses_what_makes_no_sense(self, options, message):
        with pytest.raises(ValueError, match=message):
            Gate(**options)


class TestPlugin:
    def run(self, folder, flaw, *options, **more):
        sims = zoo(flaw, n_dims=2, n_sims=200, n_draws=50, rng=0)
        np.savez(folder / "draws.npz", samples=sims.samples, theta=sims.theta)
        (folder / "test_posterior.py").write_text(
            "import numpy as np\n"
            "draws = np.load('draws.npz')\n"
            "def test_posterior(accurate):\n"
            f"    accurate(draws['samples'], draws['theta'], n_swaps=199, **{more!r})\n"
        )
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    def test_lets_good_posteriors_pass(self, tmp_path):
        assert "1 passed" in self.run(tmp_path, "exact").stdout

    def test_fails_bad_ones_with_the_reason(self, tmp_path):
        found = self.run(tmp_path, "narrow")
        assert found.returncode == 1
        assert "InaccurateError: inaccurate, p = 0.005: overconfident" in found.stdout

    def test_takes_the_limits_of_a_gate(self, tmp_path):
        assert "1 passed" in self.run(tmp_path, "narrow", fail_on="never").stdout

    def test_writes_reports_where_it_is_told_to(self, tmp_path):
        self.run(tmp_path, "narrow", "--tarpon-report", "reports")
        assert "overconfident" in (tmp_path / "reports" / "test_posterior.html").read_text()

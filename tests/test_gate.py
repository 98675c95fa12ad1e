"""Gates and the plugin for pytest: what stops a pipeline."""

import subprocess
import sys

import numpy as np
import pytest

import tarpon
from tarpon.gate import FAIL_ON, Gate, InaccurateError
from tarpon.gate.pytest_plugin import report_name
from tarpon.problems import zoo


@pytest.fixture(scope="module")
def checks():
    flaws = ("exact", "narrow", "shift")
    few = tarpon.check(zoo("exact", n_dims=2, n_sims=10, n_draws=20, rng=0), rng=0, n_swaps=99)
    found = {flaw: tarpon.check(zoo(flaw, n_dims=2, n_sims=400, rng=1), rng=0) for flaw in flaws}
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
    def test_gate_stops_what_it_must(self, checks, case, stopped_by):
        names = FAIL_ON.keys() - {"not within tolerance"}  # needs a check with one
        stops = {name for name in names if Gate(fail_on=name).failures(checks[case])}
        assert stops == stopped_by

    def test_gate_says_what_was_found(self, checks):
        (failure,) = Gate().failures(checks["narrow"])
        assert failure.kind == "inaccurate"
        assert (failure.parameter, failure.size, failure.limit) == (None, None, None)
        assert str(failure).startswith("inaccurate, p = 0.001: overconfident")
        (doubt,) = Gate(fail_on="doubt").failures(checks["few"])
        assert doubt.kind == "too few to say"

    def test_gate_counts_sizes_only_if_they_are_clear(self, checks):
        width = checks["narrow"].parameters[0].width
        assert width.low > 1
        limit = (width.low - 1) / 2
        over = Gate(fail_on="never", max_width_error=limit).failures(checks["narrow"])[0]
        assert (over.kind, over.parameter, over.size) == ("width", "theta_0", width)
        assert over.limit == limit
        assert str(over) == (
            f"the truths of theta_0 scatter {width} times as widely as the draws, and an error of "
            f"{limit:g} is allowed"
        )
        assert not Gate(fail_on="never", max_width_error=width.high).failures(checks["narrow"])

    def test_gate_counts_biases_of_both_signs(self, checks):
        biases = [p.bias for p in checks["shift"].parameters]
        worst = max(biases, key=lambda bias: abs(bias.value))
        least = min(abs(worst.low), abs(worst.high))
        (failure,) = Gate(fail_on="never", max_bias=least / 2).failures(checks["shift"])
        assert (failure.kind, failure.size, failure.limit) == ("bias", worst, least / 2)
        assert f"the bias of {failure.parameter} is {worst} posterior sd" in str(failure)

    def test_require_raises_with_everything(self, checks):
        assert Gate().require(checks["exact"]) is checks["exact"]
        with pytest.raises(InaccurateError, match="INACCURATE  p = "):
            Gate().require(checks["narrow"])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"fail_on": "always"},
                "must be one of 'inaccurate', 'doubt', 'not within tolerance', 'never', but got",
            ),
            ({"max_bias": 0.0}, "`max_bias` must be positive"),
            ({"max_width_error": float("nan")}, "`max_width_error` must be positive"),
        ],
    )
    def test_gate_refuses_wrong_settings(self, options, message):
        with pytest.raises(ValueError, match=message):
            Gate(**options)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Return what a session of pytest says about three posteriors, and its folder."""
    folder = tmp_path_factory.mktemp("session")
    for flaw in ("exact", "narrow"):
        sims = zoo(flaw, n_dims=2, n_sims=200, n_draws=50, rng=0)
        np.savez(folder / f"{flaw}.npz", samples=sims.samples, theta=sims.theta)
    (folder / "test_posterior.py").write_text(
        "import numpy as np\n"
        "def given(name):\n"
        "    draws = np.load(name)\n"
        "    return draws['samples'], draws['theta']\n"
        "def test_good(accurate):\n"
        "    accurate(*given('exact.npz'), n_swaps=199)\n"
        "def test_bad(accurate):\n"
        "    accurate(*given('narrow.npz'), n_swaps=199)\n"
        "import pytest\n"
        "@pytest.mark.parametrize('n', [2])\n"
        "def test_bad_and_let_through(accurate, n):\n"
        "    for k in range(n):\n"
        "        accurate(*given('narrow.npz'), n_swaps=199, fail_on='never')\n"
    )
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:zarr"]
    return folder, subprocess.run(
        [*command, "--tarpon-report", "reports"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_fixture_of_the_plugin(accurate):
    kept = zoo("exact", n_dims=2, n_sims=50, n_draws=20, rng=0)
    assert accurate(kept, n_swaps=99).n_sims == 50
    with pytest.raises(InaccurateError, match="overconfident"):
        accurate(zoo("narrow", n_dims=2, n_sims=200, n_draws=50, rng=0), n_swaps=199)


@pytest.mark.slow
class TestPlugin:
    def test_plugin_lets_good_posteriors_pass(self, session):
        assert "test_good PASSED" in session[1].stdout

    def test_plugin_fails_bad_posteriors_with_the_reason(self, session):
        _, found = session
        assert found.returncode == 1
        assert "test_bad FAILED" in found.stdout
        assert "InaccurateError: inaccurate, p = 0.005: overconfident" in found.stdout

    def test_plugin_uses_the_limits_of_a_gate(self, session):
        assert "test_bad_and_let_through[2] PASSED" in session[1].stdout

    def test_plugin_writes_reports_to_the_given_folder(self, session):
        reports = session[0] / "reports"
        assert "overconfident" in (reports / "test_posterior-test_bad.html").read_text()
        assert len(list(reports.iterdir())) == 4

    def test_plugin_writes_a_report_of_every_call(self, session):
        names = {path.name for path in (session[0] / "reports").glob("*let_through*")}
        plain = "test_posterior-test_bad_and_let_through-2"
        assert names == {f"{plain}.html", f"{plain}+2.html"}


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("test_a.py::test_it", "test_a-test_it"),
        (
            "tests/unit/test_a.py::TestB::test_it[0.5-flow]",
            "tests.unit.test_a-TestB-test_it-0.5-flow",
        ),
        ("test_a.py::test_it[a/b]", "test_a-test_it-a-b-e42b0d93"),
        ("test_a.py::test_it[a--b]", "test_a-test_it-a-b-db31198b"),
        ("../my tests/test_a.py::test_it", "my-tests.test_a-test_it-fe2baeab"),
    ],
)
def test_reports_have_clean_names(test, name):
    assert report_name(test) == f"{name}.html"


def test_reports_never_share_a_name():
    ids = (
        "",
        "[a]",
        "[a-b]",
        "[a/b]",
        "[a b]",
        "[a\\b]",
        "[-a]",
        "[a-]",
        "[a.]",
        "[.a]",
        "[a--b]",
    )
    ids += ("[]", "[.]", "[é]", "[ü/]", f"[{200 * 'a'}]", f"[{201 * 'a'}]")
    tests = [f"{where}::test_it{one}" for where in ("test_a.py", "b/test_a.py") for one in ids]
    names = {report_name(test, call) for test in tests for call in (1, 2)}
    assert len(names) == 2 * len(tests)
    assert max(map(len, names)) < 150
    assert not {"/", "\\", " ", "[", "]"} & set("".join(names))

"""The command line as a user has it: its own process, a pipe, an exit status."""

import json
import subprocess
import sys

import numpy as np
import pytest

import tarpon
from tarpon.problems import gaussian


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "tarpon", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def archive(tmp_path):
    def write(case, **more):
        sims = gaussian(case, n_sims=200, n_draws=50, rng=0)
        path = tmp_path / f"{case}.npz"
        arrays = {
            "samples": sims.samples,
            "theta": sims.theta,
            "log_prob_samples": sims.log_prob_samples,
            "log_prob_theta": sims.log_prob_theta,
        }
        np.savez(path, **{k: v for k, v in (arrays | more).items() if v is not None})
        return path

    return write


@pytest.mark.parametrize("test", ["tarp", "hpd", "sbc"])
def test_exit_status_says_what_was_found(archive, test):
    fine, wrong = run(test, archive("correct"), "--rng", 1), run(test, archive("overconfident"))
    assert (fine.returncode, wrong.returncode) == (0, 1)
    assert "no evidence against" in fine.stdout
    assert "inaccurate" in wrong.stdout
    assert not fine.stderr + wrong.stderr


def test_json_is_what_python_gives(archive):
    path = archive("overconfident", names=np.array(["mass", "spin"]))
    answer = json.loads(run("sbc", path, "--json", "--rng", 5).stdout)
    result = tarpon.sbc(tarpon.adapters.files.load(path), rng=5)
    assert answer == json.loads(json.dumps(result.to_dict()))
    assert set(answer["p_values"]) == {"mass", "spin"}


def test_figures_are_written(archive, tmp_path):
    answer = run("tarp", archive("biased"), "--plot", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "figure:" in answer.stdout
    bad = run("tarp", archive("biased"), "--plot", tmp_path / "nowhere" / "curve.png")
    assert bad.returncode == 2


def test_level_moves_the_exit_status(archive):
    path = archive("correct")
    p_value = json.loads(run("sbc", path, "--json", "--rng", 0).stdout)["p_value"]
    assert run("sbc", path, "--rng", 0, "--level", min(0.999, p_value * 1.01)).returncode == 1


class TestMisuse:
    def fails(self, text, *words):
        answer = run(*words)
        assert answer.returncode == 2
        assert text in " ".join(answer.stderr.split())
        assert "Traceback" not in answer.stderr

    def test_no_such_file(self):
        self.fails("there is no file 'nowhere.npz'", "tarp", "nowhere.npz")

    def test_not_an_archive(self, tmp_path):
        (tmp_path / "a.npz").write_text("not an archive")
        self.fails("cannot be read as an .npz file", "tarp", tmp_path / "a.npz")
        np.save(tmp_path / "single.npy", np.zeros(3))
        self.fails("or name a second file with `theta=`", "tarp", tmp_path / "single.npy")

    def test_pickles_are_never_loaded(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (print, ("sprung",))

        np.savez(tmp_path / "trap.npz", samples=np.array([Trap()]), theta=np.zeros(3))
        self.fails("cannot be read as an .npz file of plain arrays", "tarp", tmp_path / "trap.npz")
        assert "sprung" not in run("tarp", tmp_path / "trap.npz").stdout

    def test_missing_arrays(self, archive):
        path = archive("correct", samples=None, log_prob_samples=None)
        self.fails("but holds theta, log_prob_theta", "tarp", path)
        only_density = archive("biased", samples=None, theta=None)
        assert run("hpd", only_density).returncode in (0, 1)
        self.fails("needs `samples` and `theta`", "tarp", only_density)

    def test_densities_that_are_not_there(self, archive):
        path = archive("correct", log_prob_samples=None, log_prob_theta=None)
        self.fails("need the estimator's log-densities", "hpd", path)

    def test_nan(self, archive):
        theta = np.full((200, 2), 0.1)
        theta[3] = np.nan
        path = archive("correct", theta=theta)
        self.fails("1 of 200 simulations hold NaN", "sbc", path)
        assert "1 invalid ones dropped" in run("sbc", path, "--on-invalid", "drop").stdout

    @pytest.mark.parametrize(
        "words", [["--level", "2"], ["--rng", "-1"], ["--nonsense"], ["--on-invalid", "x"]]
    )
    def test_flags(self, archive, words):
        answer = run("tarp", archive("correct"), *words)
        assert answer.returncode == 2
        assert "Usage:" in answer.stderr


def test_demo_prints_a_table_and_writes_a_figure(tmp_path):
    answer = run("demo", "--out", tmp_path / "demo.png")
    assert answer.returncode == 0
    for word in ("correct", "overconfident", "underconfident", "biased", "TARP", "HPD"):
        assert word in answer.stdout
    assert (tmp_path / "demo.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "command",
    [[], ["check"], ["tarp"], ["hpd"], ["sbc"], ["demo"], ["plan"], ["merge"], ["inspect"]],
)
def test_help_helps(command):
    answer = run(*command, "--help")
    assert answer.returncode == 0
    assert answer.stdout.startswith("Usage:")


def test_version():
    assert tarpon.__version__ in run("--version").stdout


def test_check_prints_its_summary_and_json(archive):
    path = archive("overconfident")
    said = run("check", path, "--rng", 0, "--n-swaps", 99)
    assert said.returncode == 1
    assert said.stdout.startswith("INACCURATE  p = 0.01")
    about = json.loads(run("check", path, "--rng", 0, "--n-swaps", 99, "--json").stdout)
    assert about["outcome"] == "inaccurate"
    assert run("check", archive("correct"), "--rng", 0, "--n-swaps", 99).returncode == 0


def test_names_of_arrays_and_a_second_file(tmp_path):
    sims = gaussian("correct", n_sims=50, n_draws=20, rng=0)
    np.savez(tmp_path / "a.npz", mine=sims.samples, theta=sims.theta)
    np.save(tmp_path / "b.npy", sims.samples)
    np.save(tmp_path / "c.npy", sims.theta)
    named = run("sbc", tmp_path / "a.npz", "--array", "samples=mine", "--rng", 0, "--json")
    paired = run("sbc", tmp_path / "b.npy", "--theta", tmp_path / "c.npy", "--rng", 0, "--json")
    assert named.stdout == paired.stdout
    run("sbc", tmp_path / "b.npy", "--theta", tmp_path / "c.npy", "--rng", 0,
        "--resume", tmp_path / "blocks", "--shard", "0/1")  # fmt: skip
    assert run("merge", tmp_path / "blocks", "--json").stdout == named.stdout


def test_plan_says_how_many():
    said = run("plan", 2, "--bias", 0.5, "--n-draws", 50, "--rng", 0)
    assert said.returncode == 0
    assert "50 draws:" in said.stdout
    assert run("plan", 2).returncode == 2

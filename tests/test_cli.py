"""The command line: what it says and returns, in a process of its own where that matters."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon.checks.flaws import Kind
from tarpon.cli import main
from tarpon.problems import gaussian


def inside(*words):
    """Run a command in this process, which is faster."""
    return CliRunner().invoke(main, [str(word) for word in words])


def run(*words):
    """Run a command as a user does: in a process of its own, with pipes and an exit status."""
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
    cases = (archive(case) for case in ("correct", "overconfident"))
    fine, wrong = (inside(test, path, "--rng", 1) for path in cases)
    assert (fine.exit_code, wrong.exit_code) == (0, 1)
    assert "no evidence against" in fine.stdout
    assert "inaccurate" in wrong.stdout
    assert not fine.stderr + wrong.stderr


def test_a_process_says_the_same(archive):
    path = archive("overconfident")
    process, here = run("sbc", path, "--rng", 1), inside("sbc", path, "--rng", 1)
    assert (process.returncode, process.stdout, process.stderr) == (1, here.stdout, "")


def test_json_is_what_python_gives(archive):
    path = archive("overconfident", names=np.array(["mass", "spin"]))
    answer = json.loads(inside("sbc", path, "--json", "--rng", 5).stdout)
    result = tarpon.sbc(tarpon.adapters.files.load(path), rng=5)
    assert answer == json.loads(json.dumps(result.to_dict()))
    assert set(answer["p_values"]) == {"mass", "spin"}


def test_figures_are_written(archive, tmp_path):
    answer = inside("tarp", archive("biased"), "--plot", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "figure:" in answer.stdout
    bad = inside("tarp", archive("biased"), "--plot", tmp_path / "nowhere" / "curve.png")
    assert bad.exit_code == 2


def test_level_moves_the_exit_status(archive):
    path = archive("correct")
    p_value = json.loads(inside("sbc", path, "--json", "--rng", 0).stdout)["p_value"]
    assert inside("sbc", path, "--rng", 0, "--level", min(0.999, p_value * 1.01)).exit_code == 1


class TestMisuse:
    def fails(self, text, *words):
        answer = inside(*words)
        assert answer.exit_code == 2
        assert text in " ".join(answer.stderr.split())

    def test_a_file_that_does_not_exist_is_named(self):
        self.fails("there is no file 'nowhere.npz'", "tarp", "nowhere.npz")

    def test_a_file_that_is_no_archive_is_refused(self, tmp_path):
        (tmp_path / "a.npz").write_text("not an archive")
        self.fails("does not start as such a file does", "tarp", tmp_path / "a.npz")
        np.save(tmp_path / "single.npy", np.zeros(3))
        self.fails("or give a second file with `theta=`", "tarp", tmp_path / "single.npy")

    def test_pickles_are_never_loaded(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (print, ("sprung",))

        np.savez(tmp_path / "trap.npz", samples=np.array([Trap()]), theta=np.zeros(3))
        self.fails("cannot be read as an .npz file of plain arrays", "tarp", tmp_path / "trap.npz")
        assert "sprung" not in inside("tarp", tmp_path / "trap.npz").stdout

    def test_missing_arrays_are_named(self, archive):
        path = archive("correct", samples=None, log_prob_samples=None)
        self.fails("but contains theta, log_prob_theta", "tarp", path)
        only_density = archive("biased", samples=None, theta=None)
        assert inside("hpd", only_density).exit_code in (0, 1)
        self.fails("needs `samples` and `theta`", "tarp", only_density)

    def test_missing_densities_are_named(self, archive):
        path = archive("correct", log_prob_samples=None, log_prob_theta=None)
        self.fails("need the estimator's log-densities", "hpd", path)

    def test_nan_is_refused_with_its_place(self, archive):
        theta = np.full((200, 2), 0.1)
        theta[3] = np.nan
        path = archive("correct", theta=theta)
        self.fails("1 of 200 simulations hold NaN", "sbc", path)
        self.fails("(`--on-invalid drop`) then leaves whole simulations out", "sbc", path)
        assert "1 invalid one dropped" in inside("sbc", path, "--on-invalid", "drop").stdout

    @pytest.mark.parametrize(
        "words", [["--level", "2"], ["--rng", "-1"], ["--nonsense"], ["--on-invalid", "x"]]
    )
    def test_wrong_flags_are_refused(self, archive, words):
        answer = inside("tarp", archive("correct"), *words)
        assert answer.exit_code == 2
        assert "Usage:" in answer.stderr

    def test_flags_are_numbers_in_plain_words(self):
        self.fails("'x' is not a valid number.", "plan", 3, "--bias", "x")
        self.fails("'x' is not a valid integer.", "plan", 3, "--bias", 0.3, "--rng", "x")

    @pytest.mark.parametrize(("flag", "name"), [("--plot", "a.png"), ("--report", "a.html")])
    def test_folders_that_are_not_there_are_missed_at_once(self, archive, tmp_path, flag, name):
        words = ("check", archive("correct"), flag, tmp_path / "nowhere" / name)
        assert not inside(*words).stdout
        self.fails(f"there is no folder '{tmp_path / 'nowhere'}': make it first.", *words)

    def test_what_no_figure_ends_with_is_refused_at_once(self, archive, tmp_path):
        words = ("tarp", archive("correct"), "--plot", tmp_path / "curve.xyz")
        assert not inside(*words).stdout
        self.fails("a figure must end with .png, .pdf or .svg, but got 'curve.xyz'.", *words)

    def test_what_no_report_ends_with_is_refused_at_once(self, archive, tmp_path):
        words = ("check", archive("correct"), "--report", tmp_path / "out.pdf")
        assert not inside(*words).stdout
        self.fails("must end with .html or .htm", *words)
        self.fails("but got 'out.pdf'. Write 'out.html'", *words)

    def test_run_refuses_a_file_without_a_problem(self, archive):
        self.fails("is not a Python file", "run", archive("correct"))

    def test_merge_refuses_other_folders(self, tmp_path):
        self.fails(f"there is no folder '{tmp_path / 'a'}'.", "merge", tmp_path / "a")
        self.fails("is not a folder of results: it contains no about.json.", "merge", tmp_path)


def test_demo_prints_a_table_and_writes_a_figure(tmp_path):
    answer = inside("demo", "--out", tmp_path / "demo.png", "--n-dims", 100)
    assert "< 1e-300" in answer.stdout
    assert answer.exit_code == 0
    for word in ("correct", "overconfident", "underconfident", "biased", "TARP", "HPD"):
        assert word in answer.stdout
    assert (tmp_path / "demo.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "command",
    [[], ["check"], ["tarp"], ["hpd"], ["sbc"], ["demo"], ["plan"], ["merge"], ["inspect"]],
)
def test_help_helps(command):
    answer = inside(*command, "--help")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("Usage:")


def test_the_list_of_commands_has_whole_sentences():
    listed = inside("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(main.commands)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_version():
    assert tarpon.__version__ in run("--version").stdout


def test_check_prints_its_summary_and_json(archive):
    path = archive("overconfident")
    said = inside("check", path, "--rng", 0, "--n-swaps", 99)
    assert said.exit_code == 1
    assert said.stdout.startswith("INACCURATE  p = 0.01")
    about = json.loads(inside("check", path, "--rng", 0, "--n-swaps", 99, "--json").stdout)
    assert about["outcome"] == "inaccurate"
    assert inside("check", archive("correct"), "--rng", 0, "--n-swaps", 99).exit_code == 0


def test_names_of_arrays_and_a_second_file(tmp_path):
    sims = gaussian("correct", n_sims=50, n_draws=20, rng=0)
    np.savez(tmp_path / "a.npz", mine=sims.samples, theta=sims.theta)
    np.save(tmp_path / "b.npy", sims.samples)
    np.save(tmp_path / "c.npy", sims.theta)
    named = inside("sbc", tmp_path / "a.npz", "--array", "samples=mine", "--rng", 0, "--json")
    paired = inside("sbc", tmp_path / "b.npy", "--theta", tmp_path / "c.npy", "--rng", 0, "--json")
    assert named.stdout == paired.stdout
    inside("sbc", tmp_path / "b.npy", "--theta", tmp_path / "c.npy", "--rng", 0,
        "--resume", tmp_path / "blocks", "--shard", "0/1")  # fmt: skip
    assert inside("merge", tmp_path / "blocks", "--json").stdout == named.stdout


def test_plan_says_how_many():
    said = inside("plan", 2, "--bias", 0.5, "--n-draws", 50, "--rng", 0)
    assert said.exit_code == 0
    assert "simulations of 50 draws each." in said.stdout
    surer = inside("plan", 2, "--bias", 0.5, "--n-draws", 50, "--rng", 0, "--power", 0.99)
    assert "with 99% probability" in surer.stdout
    assert inside("plan", 2).exit_code == 2


def test_plan_says_what_so_many_simulations_see():
    words = ["plan", 2, "--n-sims", 30, "--n-draws", 20, "--rng", 0]
    said = inside(*words)
    assert said.exit_code == 0
    assert said.stdout.startswith("The smallest errors that 30 simulations see")
    seen = json.loads(inside(*words, "--json").stdout)["detectable"]["20"]
    assert f"{seen['bias']:.2f} sd" in said.stdout


def test_plan_speaks_of_options(tmp_path):
    said = inside("plan", 2, "--bias", 0.8, "--n-draws", 20, "--level", 0.004, "--rng", 0)
    assert "with `tarpon check --n-swaps 1249`" in said.stdout
    for words in (["--bias", 2], [], ["--bias", 0.3, "--n-sims", 30]):
        refused = inside("plan", 2, *words)
        assert refused.exit_code == 2
        assert "--" in refused.output.partition("Error: ")[2]
        assert "`" not in refused.output
    assert "N_DIMS = 1000000 parameters" in inside("plan", 10**6, "--bias", 0.3).output
    sims = gaussian("correct", n_sims=30, n_draws=20, n_dims=2, rng=0)
    np.savez(tmp_path / "few.npz", samples=sims.samples, theta=sims.theta)
    few = inside("check", tmp_path / "few.npz", "--rng", 0, "--n-swaps", 99).stdout
    assert few.endswith("for smaller errors see `tarpon plan 2 --bias 0.3`.\n")


@pytest.mark.parametrize("test", ["check", "tarp", "sbc"])
def test_names_are_given_to_a_file_without_any(tmp_path, test):
    sims = gaussian("biased", n_sims=100, n_draws=20, n_dims=2, rng=0)
    file, blocks = tmp_path / "draws.npz", tmp_path / "blocks"
    np.savez(file, samples=sims.samples, theta=sims.theta)
    words = [test, file, "--rng", 0, "--names", "mass, spin"]
    words += ["--report", tmp_path / "page.html"] if test == "check" else []
    said = inside(*words, "--json").stdout
    assert ('"mass"' in said) == (test != "tarp")
    assert "theta_0" not in said
    inside(*words[:6], "--resume", blocks, "--shard", "0/1")
    assert inside("merge", blocks).stdout == inside(*words[:6]).stdout
    if test == "check":
        assert "--n-swaps 999 --names mass,spin" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("mu", "`names` must name 2 parameters, but got 1"),
        ("mu,,x", "'mu,,x' has an empty name: give one per parameter, like mu,sigma."),
        ("mu,mu", "`names` must differ from each other"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path, names, message):
    np.savez(tmp_path / "a.npz", samples=np.zeros((9, 6, 2)), theta=np.zeros((6, 2)))
    refused = inside("check", tmp_path / "a.npz", "--names", names)
    assert refused.exit_code == 2
    assert message in refused.output


def test_names_of_densities_are_refused(tmp_path):
    densities = {"log_prob_samples": np.zeros((9, 6)), "log_prob_theta": np.zeros(6)}
    np.savez(tmp_path / "a.npz", **densities)
    refused = inside("hpd", tmp_path / "a.npz", "--names", "mu")
    assert refused.exit_code == 2
    assert "`names` are those of parameters, but" in refused.output


COMMANDS = [
    "check",
    "tarp",
    "hpd",
    "sbc",
    "inspect",
    "merge",
    "near",
    "where",
    "cover",
    "repair",
    "run",
    "plan",
    "demo",
    "reproduce",
    "completion",
]


class TestHelp:
    def test_help_names_every_command(self):
        told = inside("--help").output
        assert list(main.commands)[: len(COMMANDS)] == [c for c in main.commands if c in COMMANDS]
        for name in COMMANDS:
            assert f"\n  {name} " in told

    @pytest.mark.parametrize("name", COMMANDS)
    def test_help_shows_an_example_and_common_options(self, name):
        answer = inside(name, "--help")
        assert answer.exit_code == 0
        assert f"tarpon {name} " in answer.output
        assert "--quiet" in answer.output
        assert "--debug" in answer.output

    @pytest.mark.parametrize("name", COMMANDS)
    def test_unknown_options_are_refused(self, name):
        answer = inside(name, "--no-such-thing")
        assert answer.exit_code == 2
        assert "No such option" in answer.output


class TestGate:
    @pytest.mark.parametrize(
        ("case", "words", "status"),
        [
            ("overconfident", [], 1),
            ("overconfident", ["--fail-on", "never"], 0),
            ("overconfident", ["--fail-on", "never", "--max-width-error", 0.05], 1),
            ("overconfident", ["--fail-on", "never", "--max-width-error", 5], 0),
            ("biased", ["--fail-on", "never", "--max-bias", 0.01], 0),
            ("correct", ["--fail-on", "inaccurate"], 0),
        ],
    )
    def test_gate_decides_the_exit_status(self, archive, case, words, status):
        answer = inside("check", archive(case), "--rng", 1, "--n-swaps", 99, *words)
        assert answer.exit_code == status

    def test_gate_names_what_it_stops(self, archive):
        words = ["--rng", 1, "--n-swaps", 99, "--fail-on", "never", "--max-width-error", 0.05]
        answer = inside("check", archive("overconfident"), *words)
        assert "Gate failed: the truths of theta_" in answer.output
        answer = json.loads(inside("check", archive("overconfident"), *words, "--json").output)
        failure = answer["failures"][0]
        assert (failure["kind"], failure["limit"]) == ("width", 0.05)
        assert failure["size"]["low"] > 1.05
        assert "an error of 0.05 is allowed" in failure["sentence"]

    def test_says_what_the_first_line_says_only_once(self, archive):
        answer = inside("check", archive("overconfident"), "--rng", 1, "--n-swaps", 99)
        assert answer.exit_code == 1
        assert "Gate failed" not in answer.output

    def test_is_kept_for_what_is_merged(self, archive, tmp_path):
        words = ["check", archive("overconfident"), "--rng", 1, "--n-swaps", 99, "--json"]
        for case, gate in {"never": [], "width": ["--max-width-error", 0.05]}.items():
            gated = [*words, "--fail-on", "never", *gate]
            inside(*gated, "--resume", tmp_path / case, "--shard", "0/1")
            whole, merged = inside(*gated), inside("merge", tmp_path / case, "--json")
            assert (merged.exit_code, merged.stdout) == (whole.exit_code, whole.stdout)
            assert merged.exit_code == bool(gate)


class TestQuiet:
    def test_quiet_keeps_the_exit_status(self, archive):
        answer = inside("sbc", archive("overconfident"), "--rng", 1, "--quiet")
        assert (answer.exit_code, answer.output) == (1, "")
        answer = inside("plan", 2, "--bias", 0.5, "--n-draws", 20, "--rng", 0, "-q")
        assert (answer.exit_code, answer.output) == (0, "")

    def test_quiet_still_prints_errors(self):
        assert "there is no file" in inside("sbc", "nowhere.npz", "--quiet").output


class TestErrors:
    def test_errors_are_one_sentence(self):
        answer = run("check", "nowhere.npz")
        assert answer.stderr == "Error: there is no file 'nowhere.npz'.\n"
        assert not answer.stdout

    def test_errors_have_a_traceback_only_with_debug(self):
        answer = run("check", "nowhere.npz", "--debug")
        assert answer.returncode == 1
        assert "Traceback" in answer.stderr
        assert "FileNotFoundError: there is no file" in answer.stderr


COMPLETIONS = {
    "bash": """
        source script
        COMP_WORDS=(tarpon ins); COMP_CWORD=1; _tarpon_completion tarpon
        COMP_WORDS=(tarpon check --n-s); COMP_CWORD=2; _tarpon_completion tarpon
        echo "${COMPREPLY[@]}"
    """,
    "fish": 'source script; complete -C "tarpon ins"; complete -C "tarpon check --n-s"',
    "zsh": "zsh -n script && echo inspect --n-swaps",  # its widgets need a terminal
}


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_shells_complete_commands_and_options(shell, tmp_path):
    script = inside("completion", shell).output
    assert "_TARPON_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "script").write_text(script)
    (tmp_path / "tarpon").write_text(f'#!/bin/sh\nexec {sys.executable} -m tarpon "$@"\n')
    (tmp_path / "tarpon").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    answer = subprocess.run(
        [shell, "-c", COMPLETIONS[shell]], env=os.environ | {"PATH": path, "HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = answer.stdout.split()
    assert {"inspect", "--n-swaps"} <= set(found)
    assert "check" not in found


def terminal(*words, interrupt=None, width=100):
    """Run a command in a terminal; return its exit status and what is seen."""
    import fcntl
    import pty
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "tarpon", *map(str, words)],
        stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": str(width)},
    )  # fmt: skip
    os.close(follower)
    seen = b""
    with contextlib.suppress(OSError):  # that the other end is closed
        while chunk := os.read(leader, 4096):
            seen += chunk
            if interrupt and interrupt in seen:
                os.killpg(process.pid, signal.SIGINT)
                interrupt = None
    os.close(leader)
    return process.wait(60), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


class TestSchema:
    """What programs read is what the page says."""

    def keys(self, heading):
        page = (Path(__file__).parents[1] / "docs" / "json.md").read_text()
        section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)

    @pytest.mark.parametrize("name", ["check", "tarp"])
    def test_json_schema_is_documented(self, archive, name):
        more = ["--n-swaps", 99] if name == "check" else []
        answer = json.loads(inside(name, archive("correct"), "--rng", 1, "--json", *more).output)
        heading = "`tarpon check --json`" if name == "check" else "`tarpon tarp|hpd|sbc --json`"
        assert list(answer) == self.keys(heading)
        assert answer["schema"] == ("tarpon-check-2" if name == "check" else "tarpon-result-1")

    def test_of_findings_is_documented(self, archive):
        words = ("check", archive("overconfident"), "--rng", 1, "--n-swaps", 99, "--json")
        (first, *_) = json.loads(inside(*words).output)["findings"]
        assert sorted(first) == sorted(self.keys("Findings"))
        page = (Path(__file__).parents[1] / "docs" / "json.md").read_text()
        table = page.partition("| kind | size")[2].partition("\n## ")[0]
        named = [row.partition(" | ")[0] for row in table.splitlines()]
        assert {kind for row in named for kind in re.findall(r'`"([^"]+)"`', row)} == set(Kind)


@pytest.mark.slow
class TestTerminal:
    def test_check_has_a_table_that_pipes_do_not(self, archive):
        path = archive("overconfident", names=np.array(["mass", "[red]spin[/]"]))
        words = ("check", path, "--rng", 1, "--n-swaps", 99)
        status, seen = terminal(*words, width=80)
        assert status == 1
        assert re.search(r"parameter +bias / sd +width +in 68% +in 95% +p", seen)
        assert re.search(r"mass +\S+ \[\S+, \S+\] +\S+ \[\S+, \S+\] +\d+% +\d+% +0\.0", seen)
        assert "bias: how far the draws lie above the truths" in seen
        assert "[red]spin[/]" in seen  # names are shown as they are
        assert max(len(line.rstrip()) for line in seen.splitlines()) <= 80
        assert "bias / sd" not in inside(*words).stdout

    def test_a_run_says_where_its_figure_is(self, tmp_path):
        example = Path(__file__).parents[1] / "examples" / "conjugate.py"
        words = ("--n-sims", 30, "--n-draws", 50, "--rng", 1, "--store", tmp_path / "a")
        words += ("--n-workers", 1, "--plot", tmp_path / "a.png")
        status, seen = terminal("run", example, *words)
        assert status == 0
        assert f"figure: {tmp_path / 'a.png'}" in seen
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    def test_ctrl_c_leaves_nothing_behind(self, tmp_path):
        figures = tmp_path / "figures"
        status, seen = terminal(
            "reproduce", "gaussian", "--quick", "--out", figures, interrupt=b"%"
        )
        assert status == 130
        assert "stopped" in seen
        assert "Traceback" not in seen
        assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(("how", "status"), [("interrupted()", 130), ("SystemExit(130)", -2)])
def test_ctrl_c_in_code_from_a_string_has_its_exit_status(tmp_path, how, status):
    """Python would end by the signal, as the twin does, although the exception is caught."""
    (tmp_path / "program.py").write_text(
        "from tarpon.cli._app import interrupted\n"
        "try: exec('raise KeyboardInterrupt')\n"
        f"except KeyboardInterrupt: raise {how} from None\n"
    )
    words = [sys.executable, "-m", "program"]
    assert subprocess.run(words, cwd=tmp_path, check=False).returncode == status

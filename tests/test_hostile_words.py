"""Names from files, the command line and other programs reach a terminal escaped."""

import csv
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import tarpon
from tarpon import Simulations
from tarpon._base.text import clean
from tarpon.adapters import files, from_mcmc
from tarpon.cli import main
from tarpon.problems import zoo

# Clears the screen, forges a line, turns the direction of writing, rings, and names a title.
HOSTILE = "a\x1b[2J\nNO EVIDENCE AGAINST  p = 0.9\u202e\x07\x9b31m\x1b]0;owned\x07\u2028\r"
SHOWN = r"a\x1b[2J\nNO EVIDENCE AGAINST  p = 0.9\u202e\x07\x9b31m\x1b]0;owned\x07\u2028\r"
NAMES = [HOSTILE, "theta_1"]
SIMS = zoo("shift", n_sims=300, n_draws=40, rng=0)
ARRAYS = {"samples": SIMS.samples, "theta": SIMS.theta, "x": SIMS.x}


def is_safe(text, n_lines=None):
    """Assert that a text does nothing to a terminal but stand there."""
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines), ascii(text)
    assert not any(line.startswith("NO EVIDENCE") for line in lines), text
    assert n_lines is None or len(lines) == n_lines


def run(*words):
    answer = CliRunner().invoke(main, [str(word) for word in words])
    is_safe(answer.stdout)
    is_safe(answer.stderr)
    return answer


class TestClean:
    def test_plain_words_stay_as_they_are(self):
        for words in ("theta_0", "Ω_m", "$\\sigma_8$", "mass / M☉", "über", "質量", ""):
            assert clean(words) == words

    def test_whatever_moves_a_terminal_is_shown_escaped(self):
        assert clean(HOSTILE) == SHOWN
        for k in [*range(32), 127, *range(128, 160), 0x202E, 0x2066, 0x2028, 0xFEFF, 0xDC80]:
            shown = clean(f"a{chr(k)}b")
            assert shown.isprintable()
            assert len(shown) > 3

    def test_long_words_keep_both_ends(self):
        shown = clean("first" + "\n" * 10**6 + "last", 60)
        assert len(shown) == 60
        assert shown.startswith("first") and shown.endswith("last") and "…" in shown  # noqa: PT018
        assert clean("x" * 200) == "x" * 200


def npz():
    np.savez("a.npz", **ARRAYS, names=NAMES)
    return "a.npz"


def hdf5():
    with h5py.File("a.h5", "w") as file:
        for name, array in ARRAYS.items():
            file[name] = array
        file.attrs["names"] = NAMES
    return "a.h5"


def zarr_attributes():
    group = zarr.create_group("a.zarr", attributes={"names": NAMES})
    for name, array in ARRAYS.items():
        group.create_array(name, data=array)
    return "a.zarr"


def table():
    with Path("a.csv").open("w", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        word = HOSTILE.replace("\n", "").replace("\r", "").replace("\u2028", "")
        rows.writerow(["sim", word, "b", f"true_{word}", "true_b"])
        for sim in range(300):
            rows.writerows([sim, *draw, *SIMS.theta[sim]] for draw in SIMS.samples[:, sim])
    text = Path("a.csv").read_text()
    head, _, rest = text.partition("\n")
    Path("a.csv").write_text(f"{head}\n{rest.replace(chr(34), '')}")
    return "a.csv"


@pytest.mark.parametrize("write", [npz, hdf5, zarr_attributes, table], ids=lambda f: f.__name__)
class TestFiles:
    def test_names_are_clean_once_they_are_loaded(self, write):
        sims = files.load(write())
        assert sims.names[0].startswith(r"a\x1b[2J")
        for shown in (tarpon.sbc(sims, rng=0), tarpon.check(sims, n_swaps=99, rng=0)):
            is_safe(repr(shown), 1)
            is_safe(str(shown))
            assert r"\x1b[2J" in str(shown)

    def test_on_the_command_line(self, write):
        path = write()
        for words in (["sbc"], ["check", "--n-swaps", "99"], ["inspect"]):
            answer = run(*words, path)
            assert answer.exit_code in (0, 1), answer.stderr
        assert r"\x1b[2J" in run("check", path, "--max-bias", "0.01", "--n-swaps", "99").stdout

    def test_json_says_the_same(self, write):
        answer = run("sbc", write(), "--json")
        assert list(json.loads(answer.stdout)["p_values"])[0].startswith(r"a\x1b[2J")  # noqa: RUF015


def test_names_that_a_caller_gives():
    sims = Simulations(**ARRAYS, names=NAMES)
    assert sims.names == (SHOWN, "theta_1")
    with pytest.raises(ValueError, match="must differ") as raised:
        Simulations(**ARRAYS, names=[HOSTILE, SHOWN])
    is_safe(str(raised.value), 1)


def test_names_of_arrays(tmp_path):
    np.savez("a.npz", **{HOSTILE: SIMS.samples, "theta": SIMS.theta})
    found = files.inspect("a.npz")
    is_safe(str(found), 5)
    assert found.to_dict()["entries"][0]["name"] == HOSTILE  # JSON keeps what is there
    answer = run("inspect", "a.npz", "--json")
    assert json.loads(answer.stdout)["entries"][0]["name"] == HOSTILE
    for words in (["check", "a.npz"], ["check", "a.npz", "--array", f"samples={HOSTILE}?"]):
        answer = run(*words)
        assert answer.exit_code == 2
        assert r"\x1b[2J" in answer.stderr
    assert run("sbc", "a.npz", "--array", f"samples={HOSTILE}").exit_code == 1


def test_names_of_files():
    np.savez("a.npz", **ARRAYS)
    for end in ("1.npz", "2.npz", ".txt"):
        shutil.copy("a.npz", f"{HOSTILE}{end}")
        assert r"\x1b" in run("inspect", f"{HOSTILE}{end}").output
    both = run("check", f"{HOSTILE}1.npz", f"{HOSTILE}2.npz", "--n-swaps", "99")
    assert both.stdout.count(r"\x1b[2J") == 2
    assert r"\x1b" in run("sbc", f"{HOSTILE}1.npz", "--plot", f"{HOSTILE}.png").stdout
    for words in (["sbc"], ["merge"], ["run"], ["check", "a.npz", "--theta"]):
        answer = run(*words, HOSTILE)
        assert answer.exit_code == 2
        assert r"\x1b" in answer.stderr


@pytest.mark.parametrize("words", [[HOSTILE], ["sbc", f"--{HOSTILE}"], [f"--{HOSTILE}"],
                                   ["sbc", "a.npz", "--shard", HOSTILE],
                                   ["sbc", "a.npz", "--level", HOSTILE],
                                   ["sbc", "a.npz", "--array", HOSTILE],
                                   ["check", "a.npz", "--fail-on", HOSTILE],
                                   ["reproduce", HOSTILE]])  # fmt: skip
def test_words_of_the_command_line(words):
    assert run(*words).exit_code == 2


def test_names_of_scores_and_variables():
    check = tarpon.check(
        SIMS, scores={HOSTILE: lambda theta, x: theta[..., 0] - x[:, 0]}, n_swaps=99, rng=0
    )
    is_safe(str(check))
    assert any(SHOWN in family.name for family in check.families)
    assert [result.names for result in check.evidence.joint][-1] == (SHOWN,)
    fits = [{HOSTILE: np.random.default_rng(k).normal(size=(2, 50))} for k in range(3)]
    with pytest.raises(ValueError, match="has no draws of other") as raised:
        from_mcmc(fits, {"other": np.zeros(3)})
    is_safe(str(raised.value), 1)


def test_results_and_monitors_of_files():
    """Written by somebody else, that is: ours have clean names already."""
    sims = Simulations(**ARRAYS, names=["PLACE", "b"])
    tarpon.sbc(sims, rng=0).save("r.npz")
    tarpon.Monitor(rng=0).add(sims).save("m.npz")
    for path in ("r.npz", "m.npz"):
        with np.load(path) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
        about["names"] = [HOSTILE if name == "PLACE" else name for name in about["names"]]
        np.savez(path, **arrays | {"about": np.array(json.dumps(about))})
    result, monitor = tarpon.load("r.npz"), tarpon.load("m.npz")
    assert result.names == (SHOWN, "b")
    is_safe(repr(result), 1)
    is_safe(repr(monitor), 1)
    assert list(monitor.scores)[:2] == [SHOWN, "b"]


def test_a_report_shows_them_as_text():
    check = tarpon.check(Simulations(**ARRAYS, names=["<b>x</b>\x1b[2J", "b"]), n_swaps=99, rng=0)
    page = tarpon.report.html(check, names=[f"<script>{HOSTILE}"])
    assert "<script>a" not in page
    assert "&lt;script&gt;a" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "\x1b" not in page and "\u202e" not in page  # noqa: PT018


def test_errors_of_samplers():
    def sampler(x, n_draws):
        raise ValueError(HOSTILE)

    with pytest.raises(RuntimeError, match="4 of 4 simulations have no draws") as raised:
        tarpon.from_sampler(sampler, SIMS.theta[:4], SIMS.x[:4], 9)
    is_safe(str(raised.value), 1)

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from tarpon._base.text import in_digits
from tarpon.cli import main
from tarpon.experiments import EXPERIMENTS, Claim, Lab, reproduce
from tarpon.experiments._lab import about
from tarpon.experiments._lensing import chained
from tarpon.problems import Galaxies, Lensing

FAST = {"bias"}


@pytest.mark.parametrize(
    "name",
    [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in EXPERIMENTS],
)
def test_every_experiment_gives_the_numbers_that_it_must(name, tmp_path):
    outcome = reproduce(name, Lab(tmp_path, quick=True, seed=2023))
    assert [claim.what for claim in outcome.claims if not claim.holds] == []
    for figure in outcome.figures:
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["claims"][0]["value"] == outcome.claims[0].value
    page = (tmp_path / "README.md").read_text()
    assert f"tarpon reproduce {name} --quick" in page
    assert all(claim.what in page for claim in outcome.claims)
    # What the paper's tests say stands beside what `check` says.
    assert all(answer.tests and 0 < answer.check <= 1 for answer in outcome.answers)
    assert outcome.answers or name == "errata"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        reproduce("bias", Lab(folder, quick=True, seed=1))
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name
    reproduce("bias", Lab(two, quick=True, seed=2))
    assert (one / "bias.json").read_bytes() != (two / "bias.json").read_bytes()


def test_a_claim_holds_between_its_limits():
    assert Claim("", 0.5, 0.5, 0.5).holds
    assert not Claim("", 0.5, low=0.6).holds
    assert not Claim("", 0.5, high=0.4).holds
    assert not Claim("", float("nan"), low=0.0).holds
    assert [Claim("", 0, *limits).wanted for limits in ((1, None), (None, 2), (1, 2))] == [
        *("≥ 1", "≤ 2", "1 to 2")
    ]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (-0.01, "-0.01"), (0.9384, "0.938"), (2e-308, "< 1e-300")]
)
def test_the_number_of_a_claim_is_shown_in_digits(value, shown):
    assert in_digits(value) == shown


def test_rates_far_from_the_level_are_no_level():
    assert about("", 5, 100).holds
    assert not about("", 30, 100).holds
    assert not about("", 0, 1000).holds


@pytest.fixture
def small():
    prior = Galaxies(np.ones(3), np.eye(3))
    problem = Lensing(prior, matrix=np.random.default_rng(0).normal(size=(4, 3)))
    _, x = problem.simulate(23, np.random.default_rng(1))
    return problem.sampler("exact", "biased", n_steps=20), x


def test_chains_that_were_cut_off_go_on_from_there(small, tmp_path):
    sampler, x = small
    sampled = []

    class Cut(Exception):
        """A run that ends in the middle."""

    def cut_off(stage, n_done, n_total):
        assert (stage, n_total) == ("chains", 5)
        if n_done >= 2:  # several may end at once
            raise Cut

    def counting(*args):
        sampled.append(len(args[0]))
        return sampler(*args)

    counting.problem, counting.chains, counting.device = sampler.problem, sampler.chains, "cpu"
    folder = tmp_path / "chains"
    with pytest.raises(Cut):
        chained(Lab(tmp_path, progress=cut_off), counting, x, 7, folder)
    done = {path: path.stat().st_mtime_ns for path in folder.glob("chains-*.npz")}
    assert len(done) >= 2
    before = len(sampled)
    draws = chained(Lab(tmp_path), counting, x, 7, folder)
    assert len(sampled) - before == 5 - len(done)
    assert done.items() <= {path: path.stat().st_mtime_ns for path in folder.iterdir()}.items()
    whole = chained(Lab(tmp_path), sampler, x, 7, tmp_path / "other")
    for name, one in draws.items():
        assert one.shape == (7, 23, 3)
        np.testing.assert_array_equal(one, whole[name])


def test_other_settings_never_meet_the_same_chains(small, tmp_path):
    sampler, x = small
    chained(Lab(tmp_path), sampler, x, 7, tmp_path / "chains")
    for seed, n, n_draws, differs in ((1, 23, 7, "seed"), (0, 22, 7, "x"), (0, 23, 8, "n_draws")):
        with pytest.raises(ValueError, match=f"results of another run: {differs} was"):
            chained(Lab(tmp_path, seed=seed), sampler, x[:n], n_draws, tmp_path / "chains")


def test_the_command_line_prints_and_writes(tmp_path):
    run = CliRunner().invoke(main, ["reproduce", "bias", "--quick", "--out", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert "p-value of TARP" in run.output
    assert "check says" in run.output
    assert (tmp_path / "bias.json").exists()


def test_help_names_every_experiment():
    words = CliRunner().invoke(main, ["reproduce", "--help"]).output.replace(";", ",")
    assert all(f"{name}," in " ".join(words.split()) for name in EXPERIMENTS)


def test_an_unknown_experiment_is_an_error(tmp_path):
    run = CliRunner().invoke(main, ["reproduce", "everything", "--out", str(tmp_path)])
    assert run.exit_code == 2
    assert "one of 'method', 'gaussian'" in run.output


def test_galaxies_that_are_none_are_refused_before_anything_runs(tmp_path):
    path = tmp_path / "galaxies.npy"
    np.save(path, np.ones((4, 5)))
    out = tmp_path / "out"
    run = CliRunner().invoke(
        main, ["reproduce", "all", "--galaxies", str(path), "--out", str(out)]
    )
    assert run.exit_code == 2
    assert "(n, 16, 16)" in " ".join(run.output.split())
    assert not out.exists()


def test_missing_packages_are_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sep", None)
    run = CliRunner().invoke(main, ["reproduce", "all", "--out", str(tmp_path / "out")])
    assert run.exit_code == 2
    assert "pip install tarpon[lensing]" in run.stderr
    assert not (tmp_path / "out").exists()

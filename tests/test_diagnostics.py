"""Results: what they hold, how they read, how they are kept."""

import json
import re
import sys

import numpy as np
import pytest

import tarpon
from tarpon import Simulations
from tarpon._base.text import number, stated
from tarpon.problems import gaussian
from tarpon.ranks import Ranks
from tarpon.verdict import Reading, bias_and_width, sentence

SIMS = gaussian("overconfident", n_sims=200, n_draws=50, n_dims=3, rng=0)


def test_a_result_holds_what_it_promises():
    result = tarpon.tarp(SIMS, rng=3)
    assert result.ranks.values.shape == (200,)
    assert result.ranks.n_draws == 50
    np.testing.assert_array_equal(result.fractions, result.ranks.values / 50)
    assert result.curve.level.shape == result.curve.ecp.shape == (52,)
    assert result.seed == 3
    assert isinstance(result.p_value, float)
    assert result.p_values.shape == (1,)
    assert result.band(0.9).confidence == 0.9
    assert "Lemos" in result.citation
    assert result.settings == {
        "reference": "Uniform(low=None, high=None, part=(0.0, 1.0))",
        "metric": "L2(scale=None)",
    }


def test_sbc_has_a_curve_a_parameter():
    result = tarpon.sbc(SIMS, rng=3)
    assert result.ranks.values.shape == (200, 3)
    assert result.curve.ecp.shape == (52, 3)
    assert result.p_values.shape == (3,)
    assert result.p_value == min(1.0, 3 * result.p_values.min())
    assert result.bootstrap(7, rng=0).shape == (7, 52, 3)
    assert result.names == ("theta_0", "theta_1", "theta_2")


def test_repr_is_one_line_that_can_be_pasted():
    text = repr(tarpon.tarp(SIMS, rng=3))
    assert "\n" not in text
    assert re.match(r"TARP on 200 simulations × 50 draws, p = [\d.e-]+: inaccurate, over", text)
    fine = repr(tarpon.sbc(gaussian("correct", n_sims=50, rng=1), rng=0))
    assert fine.endswith("no evidence against these posteriors")
    assert "accurate" not in fine.replace("inaccurate", "")


def test_a_p_value_at_the_end_of_doubles_is_shown_as_a_bound():
    far = tarpon.sbc(
        np.zeros((99, 1000, 2)) + np.arange(99)[:, None, None], np.full((1000, 2), -9.0)
    )
    assert "× 99 draws, p < 1e-300: inaccurate" in repr(far)
    assert "</strong>, p\xa0&lt;\xa01e-300 <" in far._repr_html_()


@pytest.mark.parametrize(
    ("value", "shown", "said"),
    [
        (0.001, "0.001", "p = 0.001"),
        (1.0, "1", "p = 1"),
        (1e-300, "1e-300", "p = 1e-300"),
        (2.3e-308, "< 1e-300", "p < 1e-300"),
        (0.0, "< 1e-300", "p < 1e-300"),
        (1.01e304, "> 1e+300", "p > 1e+300"),
    ],
)
def test_numbers_that_doubles_cannot_hold_are_bounds(value, shown, said):
    assert (number(value), stated("p", value)) == (shown, said)


def test_numbers_for_programs_survive_json():
    about = json.loads(json.dumps(tarpon.sbc(SIMS, rng=3).to_dict()))
    assert set(about["p_values"]) == {"theta_0", "theta_1", "theta_2"}
    assert about["n_sims"] == 200
    assert about["versions"]["tarpon"] == tarpon.__version__


def test_to_dataset_can_be_had():
    dataset = tarpon.sbc(SIMS, rng=3).to_dataset()
    assert dataset["rank"].dims == ("sim", "score")
    assert dataset["ecp"].shape == (52, 3)
    assert ((dataset["pit"] > 0) & (dataset["pit"] < 1)).all()
    assert tarpon.tarp(SIMS, rng=3).to_dataset()["pit"].shape == (200, 1)


class TestOtherContainers:
    def test_a_tree_has_the_group_that_arviz_draws(self):
        result = tarpon.sbc(SIMS, rng=3)
        tree = result.to_datatree()
        group = tree["prior_sbc"].to_dataset()
        assert list(tree.children) == ["prior_sbc"]
        assert tuple(group.data_vars) == result.names
        assert dict(group.sizes) == {"chain": 1, "draw": 200}
        for k, name in enumerate(result.names):
            assert group[name].dims == ("chain", "draw")
            # Spread by less than one rank, so that the ranks can be had again.
            ranks = np.floor(group[name].values[0] * (result.ranks.n_draws + 1))
            np.testing.assert_array_equal(ranks, result.ranks.values[:, k])

    def test_a_tree_is_the_same_each_time_and_agrees_with_the_dataset(self):
        result = tarpon.tarp(SIMS, rng=3)
        assert result.to_datatree().identical(result.to_datatree())
        pit = result.to_dataset()["pit"].values[:, 0]
        np.testing.assert_array_equal(result.to_datatree()["prior_sbc/TARP"].values[0], pit)

    def test_a_tree_can_be_written_whatever_the_names(self, tmp_path):
        import xarray

        names = ["a b", r"$M/M_\odot$", "a/b"]
        sims = Simulations(SIMS.samples, SIMS.theta, names=names)
        tree = tarpon.sbc(sims, rng=3).to_datatree()
        assert list(tree["prior_sbc"].data_vars) == [n.replace("/", "\u2215") for n in names]
        tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
        with xarray.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as again:
            assert again.identical(tree)

    def test_a_frame_has_one_row_a_score(self):
        result = tarpon.sbc(SIMS, rng=3)
        frame = result.to_frame()
        assert list(frame["name"]) == list(result.names)
        np.testing.assert_array_equal(frame["p_value"], result.p_values)
        assert frame["adjusted"].min() == result.p_value
        ecp, level = result.curve.ecp[:, 1], result.curve.level
        assert frame["deviation"][1] == abs(ecp - level).max()
        assert len(tarpon.tarp(SIMS, rng=3).to_frame()) == 1

    @pytest.mark.parametrize(
        ("package", "method"),
        [("pandas", "to_frame"), ("xarray", "to_dataset"), ("xarray", "to_datatree")],
    )
    def test_a_missing_package_is_named(self, monkeypatch, package, method):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf"needs {package}.*pip install tarpon\[io\]"):
            getattr(tarpon.sbc(SIMS, rng=3), method)()


class TestSaving:
    def test_a_result_comes_back_as_it_was(self, tmp_path):
        result = tarpon.sbc(SIMS, rng=2**70)
        result.save(tmp_path / "result.npz")
        again = tarpon.load(tmp_path / "result.npz")
        assert repr(again) == repr(result)
        assert again.seed == 2**70
        assert again.settings == result.settings
        np.testing.assert_array_equal(again.ranks.values, result.ranks.values)

    def test_nothing_is_pickled(self, tmp_path):
        tarpon.tarp(SIMS, rng=0).save(tmp_path / "result.npz")
        with np.load(tmp_path / "result.npz", allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)

    def test_other_files_are_refused(self, tmp_path):
        np.savez(tmp_path / "other.npz", a=np.zeros(3))
        (tmp_path / "text.npz").write_text("nothing")
        objects = np.array([{}], dtype=object)
        np.savez(tmp_path / "objects.npz", about=objects, ranks=objects)
        about = json.dumps({"format": 99})
        np.savez(tmp_path / "future.npz", about=np.array(about), ranks=np.zeros(2))
        for name in ("other.npz", "text.npz", "objects.npz", "future.npz"):
            with pytest.raises(ValueError, match="is damaged or was not saved by tarpon"):
                tarpon.load(tmp_path / name)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            tarpon.load(tmp_path / "nowhere.npz")


def test_the_outcome_is_one_of_two_words():
    right, wrong = (
        tarpon.sbc(gaussian(case, rng=0), rng=0) for case in ("correct", "overconfident")
    )
    assert (right.outcome, wrong.outcome) == ("no evidence against", "inaccurate")
    assert wrong.to_dict()["outcome"] == "inaccurate"
    for result in (right, wrong):
        assert result.verdict.startswith(result.outcome)


class TestWords:
    def test_size_of_a_bias_is_in_posterior_sd(self):
        rng = np.random.default_rng(0)
        theta = rng.normal(size=(4000, 1))
        samples = rng.normal(size=(400, 4000, 1)) * 2.0 - 0.8
        sims = Simulations(samples, theta * 2.0)
        bias, width = bias_and_width(Ranks(tarpon.sbc(sims, rng=0).ranks.values[:, 0], 400))
        assert bias.low < 0.4 < bias.high
        assert abs(width.value - 1) < 0.05

    @pytest.mark.parametrize("factor", [0.7, 1.0, 1.4])
    def test_size_of_a_width_error_is_its_factor(self, factor):
        rng = np.random.default_rng(1)
        theta, samples = factor * rng.normal(size=(4000, 1)), rng.normal(size=(400, 4000, 1))
        values = tarpon.sbc(samples, theta, rng=0).ranks.values[:, 0]
        width = bias_and_width(Ranks(values, 400))[1]
        assert width.low - 0.01 < factor < width.high + 0.01

    @pytest.mark.parametrize(
        ("reading", "a", "b", "words"),
        [
            (Reading.OUTWARD, 3, 1, "overconfident or biased"),
            (Reading.OUTWARD, 1, 3, "underconfident"),
            (Reading.OUTWARD, 0.5, 0.5, "wrong shape"),
            (Reading.FAR, 0.5, 0.5, "overconfident or biased"),
            (Reading.FAR, 3, 3, "underconfident"),
            (Reading.FAR, 3, 1, "biased or overconfident: the truths lie farther from"),
            (Reading.FAR, 1, 3, "biased or underconfident: the truths lie closer to"),
            (Reading.SIDE, 0.5, 0.5, "overconfident: the truths scatter"),
            (Reading.SIDE, 3, 3, "underconfident: the truths scatter"),
            (Reading.SIDE, 3, 1, "biased: the draws are too low"),
            (Reading.SIDE, 1, 3, "biased: the draws are too high"),
            (Reading.MIXED, 3, 1, "too narrow, too wide or shifted"),
        ],
    )
    def test_every_reading_has_its_words(self, reading, a, b, words):
        u = np.random.default_rng(0).beta(a, b, size=400)
        ranks = Ranks(np.floor(100 * u).astype(np.int64), 99)
        assert words in sentence(ranks, np.array([1e-8]), reading, ("one",))

    def test_wrong_shapes_are_called_so(self):
        values = np.concatenate([np.arange(25, 40), np.arange(60, 75)] * 20)
        for reading in (Reading.SIDE, Reading.FAR):
            text = sentence(Ranks(values, 99), np.array([1e-8]), reading, ("one",))
            assert "underconfident" in text
        uniform_but_lumpy = np.repeat(np.arange(5, 100, 10), 40)
        text = sentence(Ranks(uniform_but_lumpy, 99), np.array([1e-8]), Reading.SIDE, ("one",))
        assert "wrong shape" in text

    def test_references_are_read_by_where_they_lie(self):
        far = tarpon.tarp(SIMS, rng=0)
        near = tarpon.tarp(SIMS, reference=tarpon.references.Centre(), rng=0)
        between = tarpon.tarp(
            np.random.default_rng(0).normal(size=(50, 100, 2)),
            np.random.default_rng(1).normal(size=(100, 2)),
            reference=tarpon.references.Fixed([3.0, 0.0]),
            rng=0,
        )
        readings = [result.reading for result in (far, near, between)]
        assert readings == [Reading.FAR, Reading.OUTWARD, Reading.MIXED]

"""Files of samplers that are wrong, cut short or hostile, each with its message."""

import json

import h5py
import numpy as np
import pytest

from tarpon.adapters import (
    from_bayesflow,
    from_bilby,
    from_cmdstan,
    from_emcee,
    from_getdist,
    from_mcmc,
)

RNG = np.random.default_rng(0)


def emcee_file(path, shape=(50, 8, 2), iteration=50):
    with h5py.File(path, "w") as file:
        group = file.create_group("mcmc")
        group.attrs["iteration"] = iteration
        group["chain"] = RNG.normal(size=shape)
        group["chain"][iteration:] = np.nan
    return path


def getdist_files(root, rows=None, names="a\nb*\n"):
    weights = RNG.integers(1, 4, size=(60, 1))
    rows = (
        np.hstack([weights, np.zeros((60, 1)), RNG.normal(size=(60, 2))]) if rows is None else rows
    )
    for chain in (1, 2):
        np.savetxt(f"{root}_{chain}.txt", rows)
    root.with_name(f"{root.name}.paramnames").write_text(names)
    return root


def bilby_file(path, **other):
    result = {
        "search_parameter_keys": ["a", "b"],
        "injection_parameters": {"a": 0.1, "b": 0.2},
        "posterior": {"content": {"a": [0.0, 1.0, 0.5], "b": [1.0, 2.0, 0.5]}},
    }
    path.write_text(json.dumps(result | other))
    return path


class TestEmcee:
    def test_steps_not_yet_taken_are_left_out(self, tmp_path):
        path = emcee_file(tmp_path / "a.h5", iteration=40)
        assert np.isfinite(from_emcee([path], [[0.0, 0.0]], discard=10).samples).all()

    def test_a_link_to_another_file(self, tmp_path):
        emcee_file(tmp_path / "secret.h5")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["mcmc"] = h5py.ExternalLink("secret.h5", "mcmc")
        with pytest.raises(ValueError, match="`mcmc` is missing, or a link"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_numbers_of_another_file(self, tmp_path):
        np.zeros(800).tofile(tmp_path / "raw")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_group("mcmc").attrs["iteration"] = 50
            file["mcmc"].create_dataset(
                "chain", (50, 8, 2), "f8", external=[(str(tmp_path / "raw"), 0, 6400)]
            )
        with pytest.raises(ValueError, match="`chain` is kept in another file"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_a_chain_that_the_file_cannot_hold(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_group("mcmc").attrs["iteration"] = 10**9
            file["mcmc"].create_dataset("chain", (10**9, 100, 2), "f8", chunks=(1, 100, 2))
        with pytest.raises(ValueError, match="which the file cannot hold"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_no_file_of_emcee(self, tmp_path):
        (tmp_path / "a.h5").write_text("nothing")
        with pytest.raises(ValueError, match="cannot be read as a file of emcee"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            from_emcee([tmp_path / "b.h5"], [[0.0, 0.0]], discard=0)

    def test_too_much_is_discarded(self, tmp_path):
        path = emcee_file(tmp_path / "a.h5")
        with pytest.raises(ValueError, match="4 steps at least, but got"):
            from_emcee([path], [[0.0, 0.0]], discard=50)


class TestCmdStan:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("# only comments\n", "it holds no draws"),
            ("lp__,mu\n1,2\n1,2,3\n", "is no table of numbers"),
            ("lp__,mu\n1,2\n1,two\n", "is no table of numbers"),
            ("lp__,mu\n1\n1\n1\n1\n1\n", r"must hold 2 columns of numbers, but holds \(5, 1\)"),
            ("lp__,mu.1,mu.3\n1,2,3\n1,2,3\n", r"2 columns make no variable of shape \(3,\)"),
            ("# save_warmup = 1\n# num_warmup = 9\n# thin = 1\nlp__,mu\n1,2\n", "must hold 2"),
            ("# save_warmup = 1\n# thin = 0\nlp__,mu\n1,2\n", "does not say how long that is"),
        ],
    )
    def test_wrong_files(self, tmp_path, text, said):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=said):
            from_cmdstan([tmp_path / "a.csv"], {"mu": [0.0]})

    def test_no_text(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ValueError, match="cannot be read as CmdStan's CSV"):
            from_cmdstan([tmp_path / "a.csv"], {"mu": [0.0]})

    def test_chains_of_different_models(self, tmp_path):
        for name in ("mu", "nu"):
            rows = "\n".join(f"1,{k}" for k in range(9))
            (tmp_path / f"{name}.csv").write_text(f"lp__,{name}\n{rows}\n")
        with pytest.raises(ValueError, match="have different columns"):
            from_cmdstan([[tmp_path / "mu.csv", tmp_path / "nu.csv"]], {"mu": [0.0]})


class TestGetDist:
    def test_repeated_steps_and_derived_parameters(self, tmp_path):
        root = getdist_files(tmp_path / "run")
        assert from_getdist([root], [[0.0]], discard=5).names == ("a",)
        assert from_getdist([root], {"b": [0.0]}, discard=5).names == ("b",)

    def test_weights_that_are_no_integers(self, tmp_path):
        rows = np.hstack([RNG.uniform(size=(60, 1)), np.zeros((60, 1)), RNG.normal(size=(60, 2))])
        sims = from_getdist([getdist_files(tmp_path / "run", rows)], [[0.0]], discard=0)
        assert sims.weighted
        np.testing.assert_allclose(np.exp(sims.log_weights[:60, 0]), rows[:, 0], rtol=1e-5)

    @pytest.mark.parametrize(
        ("weight", "said"),
        [(-1.0, "negative or infinite"), (np.inf, "negative or infinite"),
         (1e12, "repeats its steps 1.2e\\+14 times")],
    )  # fmt: skip
    def test_wrong_weights(self, tmp_path, weight, said):
        rows = np.hstack([np.full((60, 1), weight), np.zeros((60, 1)), RNG.normal(size=(60, 2))])
        with pytest.raises(ValueError, match=said):
            from_getdist([getdist_files(tmp_path / "run", rows)], [[0.0]], discard=0)

    def test_files_that_are_not_there_or_do_not_agree(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*run.paramnames"):
            from_getdist([tmp_path / "run"], [[0.0]], discard=0)
        (tmp_path / "run.paramnames").write_text("a\n")
        with pytest.raises(FileNotFoundError, match="there are no chains of"):
            from_getdist([tmp_path / "run"], [[0.0]], discard=0)
        root = getdist_files(tmp_path / "run", names="a\nb\nc\n")
        with pytest.raises(
            ValueError, match=r"must hold 5 columns of numbers, but holds \(60, 4\)"
        ):
            from_getdist([root], [[0.0]], discard=0)


class TestBilby:
    def test_truths_travel_along(self, tmp_path):
        sims = from_bilby([bilby_file(tmp_path / "a.json"), bilby_file(tmp_path / "b.json")])
        assert sims.theta.tolist() == [[0.1, 0.2]] * 2
        assert sims.samples[:, 0].tolist() == [[0.0, 1.0], [1.0, 2.0], [0.5, 0.5]]

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"injection_parameters": None}, "must hold `injection_parameters`"),
            ({"injection_parameters": {"a": 0.0}}, "the truth of 'b' is missing: `theta` holds a"),
            ({"posterior": None}, "cannot be read as a result of bilby with draws"),
            ({"posterior": {"content": {"a": [0.0]}}}, "fit 0 has no draws of b"),
            ({"posterior": {"content": {"a": [[0.0]], "b": [1.0]}}}, "must be a list of numbers"),
        ],
    )
    def test_wrong_results(self, tmp_path, other, said):
        with pytest.raises(ValueError, match=said):
            from_bilby([bilby_file(tmp_path / "a.json", **other)])

    def test_words_for_numbers(self, tmp_path):
        words = {"content": {"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}}
        with pytest.raises(TypeError, match="`a` must hold real numbers"):
            from_bilby([bilby_file(tmp_path / "a.json", posterior=words)])

    @pytest.mark.parametrize("text", ["{", "[" * 100_000, "3"])
    def test_no_result_at_all(self, tmp_path, text):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(ValueError, match="cannot be read as a result of bilby"):
            from_bilby([tmp_path / "a.json"])


class TestVariables:
    def test_a_truth_that_is_missing(self):
        draws = {"mu": np.zeros((5, 9, 1)), "nu": np.zeros((5, 9))}
        with pytest.raises(ValueError, match="the truth of 'nu' is missing: `theta` holds mu"):
            from_bayesflow(draws, {"mu": np.zeros((5, 1))})

    def test_truths_may_come_fit_by_fit(self):
        fits = [{"mu": RNG.normal(size=(2, 50))} for _ in range(3)]
        listed = from_mcmc(fits, [{"mu": k} for k in (0.0, 1.0, 2.0)])
        assert listed.theta.tolist() == from_mcmc(fits, {"mu": [0.0, 1.0, 2.0]}).theta.tolist()

    def test_axes_that_do_not_agree(self):
        with pytest.raises(ValueError, match=r"same 2 leading axes, but got mu \(5, 9\), nu \(9,"):
            from_bayesflow({"mu": np.zeros((5, 9)), "nu": np.zeros((9, 5))}, {})

    def test_fits_of_different_shape(self):
        fits = [{"mu": RNG.normal(size=(2, 50, n))} for n in (2, 3)]
        with pytest.raises(ValueError, match="all fits must have the same parameters, but fit 1"):
            from_mcmc(fits, {"mu": np.zeros((2, 2))})

    def test_no_fits(self):
        with pytest.raises(ValueError, match="at least one fit"):
            from_mcmc([], [])
        with pytest.raises(TypeError, match="must have a group `posterior`"):
            from_mcmc([3.0], {"mu": [0.0]})

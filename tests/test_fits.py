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
    def test_emcee_steps_not_yet_taken_are_ignored(self, tmp_path):
        path = emcee_file(tmp_path / "a.h5", iteration=40)
        assert np.isfinite(from_emcee([path], [[0.0, 0.0]], discard=10).samples).all()

    def test_emcee_link_to_another_file_is_refused(self, tmp_path):
        emcee_file(tmp_path / "secret.h5")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["mcmc"] = h5py.ExternalLink("secret.h5", "mcmc")
        with pytest.raises(ValueError, match="`mcmc` is missing, or a link"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_emcee_numbers_of_another_file_are_refused(self, tmp_path):
        np.zeros(800).tofile(tmp_path / "raw")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_group("mcmc").attrs["iteration"] = 50
            file["mcmc"].create_dataset(
                "chain", (50, 8, 2), "f8", external=[(str(tmp_path / "raw"), 0, 6400)]
            )
        with pytest.raises(ValueError, match="`chain` is stored in another file"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_emcee_chain_larger_than_the_file_is_refused(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_group("mcmc").attrs["iteration"] = 10**9
            file["mcmc"].create_dataset("chain", (10**9, 100, 2), "f8", chunks=(1, 100, 2))
        with pytest.raises(ValueError, match="too large for the file"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)

    def test_other_files_are_no_files_of_emcee(self, tmp_path):
        (tmp_path / "a.h5").write_text("nothing")
        with pytest.raises(ValueError, match="cannot be read as a file of emcee"):
            from_emcee([tmp_path / "a.h5"], [[0.0, 0.0]], discard=0)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            from_emcee([tmp_path / "b.h5"], [[0.0, 0.0]], discard=0)

    def test_emcee_too_many_steps_discarded(self, tmp_path):
        path = emcee_file(tmp_path / "a.h5")
        with pytest.raises(ValueError, match="at least 4 steps, but got"):
            from_emcee([path], [[0.0, 0.0]], discard=50)


class TestCmdStan:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("# only comments\n", "it contains no draws"),
            ("lp__,mu\n1,2\n1,2,3\n", "is not a table of numbers"),
            ("lp__,mu\n1,2\n1,two\n", "is not a table of numbers"),
            ("lp__,mu\n1\n1\n1\n1\n1\n", r"must have 2 columns of numbers, but is \(5, 1\)"),
            ("lp__,mu.1,mu.3\n1,2,3\n1,2,3\n", r"variable of shape \(3,\) cannot have 2 columns"),
            ("# save_warmup = 1\n# num_warmup = 9\n# thin = 1\nlp__,mu\n1,2\n", "must have 2"),
            ("# save_warmup = 1\n# thin = 0\nlp__,mu\n1,2\n", "but not their number"),
        ],
    )
    def test_cmdstan_wrong_files_are_refused(self, tmp_path, text, said):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match=said):
            from_cmdstan([tmp_path / "a.csv"], {"mu": [0.0]})

    def test_cmdstan_binary_files_are_refused(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ValueError, match="cannot be read as CmdStan's CSV"):
            from_cmdstan([tmp_path / "a.csv"], {"mu": [0.0]})

    def test_cmdstan_chains_of_different_models_are_refused(self, tmp_path):
        for name in ("mu", "nu"):
            rows = "\n".join(f"1,{k}" for k in range(9))
            (tmp_path / f"{name}.csv").write_text(f"lp__,{name}\n{rows}\n")
        with pytest.raises(ValueError, match="have different columns"):
            from_cmdstan([[tmp_path / "mu.csv", tmp_path / "nu.csv"]], {"mu": [0.0]})


class TestGetDist:
    def test_getdist_repeated_steps_and_derived_parameters(self, tmp_path):
        root = getdist_files(tmp_path / "run")
        assert from_getdist([root], [[0.0]], discard=5).names == ("a",)
        assert from_getdist([root], {"b": [0.0]}, discard=5).names == ("b",)

    def test_getdist_weights_that_are_no_integers(self, tmp_path):
        rows = np.hstack([RNG.uniform(size=(60, 1)), np.zeros((60, 1)), RNG.normal(size=(60, 2))])
        sims = from_getdist([getdist_files(tmp_path / "run", rows)], [[0.0]], discard=0)
        assert sims.weighted
        np.testing.assert_allclose(np.exp(sims.log_weights[:60, 0]), rows[:, 0], rtol=1e-5)

    @pytest.mark.parametrize(
        ("weight", "said"),
        [(-1.0, "negative, NaN or infinite"), (np.inf, "negative, NaN or infinite"),
         (1e12, "1.2e\\+14 steps with their repeats: thin it first")],
    )  # fmt: skip
    def test_getdist_wrong_weights_are_refused(self, tmp_path, weight, said):
        rows = np.hstack([np.full((60, 1), weight), np.zeros((60, 1)), RNG.normal(size=(60, 2))])
        with pytest.raises(ValueError, match=said):
            from_getdist([getdist_files(tmp_path / "run", rows)], [[0.0]], discard=0)

    def test_getdist_missing_or_inconsistent_files_are_refused(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*run.paramnames"):
            from_getdist([tmp_path / "run"], [[0.0]], discard=0)
        (tmp_path / "run.paramnames").write_text("a\n")
        with pytest.raises(FileNotFoundError, match="there are no chains of"):
            from_getdist([tmp_path / "run"], [[0.0]], discard=0)
        root = getdist_files(tmp_path / "run", names="a\nb\nc\n")
        with pytest.raises(ValueError, match=r"must have 5 columns of numbers, but is \(60, 4\)"):
            from_getdist([root], [[0.0]], discard=0)


class TestBilby:
    def test_bilby_files_contain_their_truths(self, tmp_path):
        sims = from_bilby([bilby_file(tmp_path / "a.json"), bilby_file(tmp_path / "b.json")])
        assert sims.theta.tolist() == [[0.1, 0.2]] * 2
        assert sims.samples[:, 0].tolist() == [[0.0, 1.0], [1.0, 2.0], [0.5, 0.5]]

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"injection_parameters": None}, "must contain `injection_parameters`"),
            ({"injection_parameters": {"a": 0.0}}, "contain the truth of 'b', but contains a"),
            ({"posterior": None}, "cannot be read as a result of bilby with draws"),
            ({"posterior": {"content": {"a": [0.0]}}}, "fit 0 has no draws of b"),
            ({"posterior": {"content": {"a": [[0.0]], "b": [1.0]}}}, "must be a list of numbers"),
        ],
    )
    def test_bilby_wrong_results_are_refused(self, tmp_path, other, said):
        with pytest.raises(ValueError, match=said):
            from_bilby([bilby_file(tmp_path / "a.json", **other)])

    def test_bilby_words_for_numbers_are_refused(self, tmp_path):
        words = {"content": {"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}}
        with pytest.raises(TypeError, match="`a` must hold real numbers"):
            from_bilby([bilby_file(tmp_path / "a.json", posterior=words)])

    @pytest.mark.parametrize("text", ["{", "[" * 100_000, "3"])
    def test_other_files_are_no_results_of_bilby(self, tmp_path, text):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(ValueError, match="cannot be read as a result of bilby"):
            from_bilby([tmp_path / "a.json"])


class TestVariables:
    def test_a_missing_truth_is_named(self):
        draws = {"mu": np.zeros((5, 9, 1)), "nu": np.zeros((5, 9))}
        with pytest.raises(ValueError, match="contain the truth of 'nu', but contains mu"):
            from_bayesflow(draws, {"mu": np.zeros((5, 1))})

    def test_truths_may_be_given_per_fit(self):
        fits = [{"mu": RNG.normal(size=(2, 50))} for _ in range(3)]
        listed = from_mcmc(fits, [{"mu": k} for k in (0.0, 1.0, 2.0)])
        assert listed.theta.tolist() == from_mcmc(fits, {"mu": [0.0, 1.0, 2.0]}).theta.tolist()

    def test_variables_with_different_axes_are_refused(self):
        with pytest.raises(ValueError, match=r"same 2 leading axes, but got mu \(5, 9\), nu \(9,"):
            from_bayesflow({"mu": np.zeros((5, 9)), "nu": np.zeros((9, 5))}, {})

    def test_fits_of_different_shape_are_refused(self):
        fits = [{"mu": RNG.normal(size=(2, 50, n))} for n in (2, 3)]
        with pytest.raises(ValueError, match="all fits must have the same parameters, but fit 1"):
            from_mcmc(fits, {"mu": np.zeros((2, 2))})

    def test_an_empty_list_of_fits_is_refused(self):
        with pytest.raises(ValueError, match="at least one fit"):
            from_mcmc([], [])
        with pytest.raises(TypeError, match="a fit must have a group `posterior`"):
            from_mcmc([3.0], {"mu": [0.0]})

"""What comes in: every shape, precision and mistake."""

import warnings

import numpy as np
import pytest

import tarpon
from tarpon import Simulations

RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(6, 2))
SAMPLES = THETA + RNG.normal(size=(9, 6, 2))


def test_keeps_arrays_as_they_are():
    sims = Simulations(SAMPLES, THETA, x=np.arange(6), names=["a", "b"])
    assert sims.samples is SAMPLES
    assert sims.theta is THETA
    assert (sims.n_draws, sims.n_sims, sims.n_dims) == (9, 6, 2)
    assert sims.names == ("a", "b")
    assert repr(sims) == "Simulations(6 simulations, 9 draws each, 2 parameters)"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1", "?"])
def test_keeps_every_precision(dtype):
    samples, theta = (
        points > 0 if dtype == "?" else (10 * points).astype(dtype) for points in (SAMPLES, THETA)
    )
    sims = Simulations(samples, theta)
    assert sims.samples.dtype == dtype
    assert sims.theta.dtype == dtype
    assert tarpon.tarp(sims, rng=0).ranks.values.shape == (6,)
    assert tarpon.sbc(sims, rng=0).ranks.values.shape == (6, 2)


def test_nothing_is_modified():
    samples, theta = SAMPLES.copy(), THETA.copy()
    samples.flags.writeable = theta.flags.writeable = False
    sims = Simulations(samples, theta)
    tarpon.tarp(sims, rng=0).bootstrap(10, rng=0)
    tarpon.sbc(sims, rng=0)
    assert (samples == SAMPLES).all()


@pytest.mark.parametrize("last", [True, False])
def test_one_parameter_may_come_without_its_axis(last):
    theta = THETA[:, :1] if last else THETA[:, 0]
    for samples in (SAMPLES[..., :1], SAMPLES[..., 0]):
        assert Simulations(samples, theta).samples.shape == (9, 6, 1)


def test_lists_come_in():
    sims = Simulations([[[1, 2], [3, 4]]], [[0, 1], [2, 3]])
    assert sims.samples.dtype.kind == "i"


def test_memory_maps_and_foreign_orders_come_in(tmp_path):
    np.save(tmp_path / "s.npy", SAMPLES)
    mapped = np.load(tmp_path / "s.npy", mmap_mode="r")
    expected = tarpon.tarp(SAMPLES, THETA, rng=0).ranks.values
    for samples in (mapped, np.asfortranarray(SAMPLES), SAMPLES[::-1], SAMPLES.astype(">f8")):
        ranks = tarpon.tarp(samples, THETA, rng=0).ranks.values
        np.testing.assert_array_equal(ranks, expected)


def test_the_box_holds_truths_and_draws():
    low, high = Simulations(SAMPLES, THETA + np.array([100.0, 0.0])).box
    assert high[0] == (THETA[:, 0] + 100).max()
    assert low[0] == SAMPLES[..., 0].min()


class TestErrorsSayWhatToDo:
    def raises(self, text, samples=SAMPLES, theta=THETA, kind=ValueError, **more):
        with pytest.raises(kind, match=text):
            Simulations(samples, theta, **more)

    def test_swapped_axes_are_refused(self):
        self.raises(
            r"must be \(n_draws, 6, 2\).*got \(6, 9, 2\).*try `samples.swapaxes\(0, 1\)`",
            SAMPLES.swapaxes(0, 1),
        )
        self.raises(r"try `samples.swapaxes\(0, 1\)`", SAMPLES[..., 0].T, THETA[:, 0])

    def test_swapped_arguments_are_refused(self):
        self.raises(r"got \(6, 2\). `samples` and `theta` look swapped", THETA, SAMPLES)

    def test_shapes_that_disagree_are_refused(self):
        self.raises(
            r"must be \(n_draws, 5, 2\).* There are 6 simulations of draws but 5 truths\.$",
            theta=THETA[:5],
        )
        self.raises(
            r"must be \(n_draws, 6, 1\).* The draws have 2 parameters, and the truths 1\.$",
            theta=THETA[:, :1],
        )
        self.raises("Draws come first, then simulations", theta=np.zeros((7, 3)))
        self.raises(r"but got \(6, 2\).*pass `samples\[None\]`", THETA)

    def test_empty_arrays_are_refused(self):
        self.raises("at least one simulation and one draw", SAMPLES[:0])
        self.raises("at least one simulation and one draw", SAMPLES[:, :0], THETA[:0])

    def test_simulations_without_parameters_are_refused(self):
        self.raises("at least one parameter", SAMPLES[..., :0], THETA[:, :0])
        sims = Simulations.of_densities(SAMPLES[..., 0], THETA[:, 0])
        for test in (tarpon.tarp, tarpon.sbc):
            with pytest.raises(ValueError, match="needs `samples` and `theta`"):
                test(sims)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("where", ["samples", "theta"])
    def test_values_that_are_not_finite_are_refused(self, bad, where):
        arrays = {"samples": SAMPLES.copy(), "theta": THETA.copy()}
        arrays[where][..., 3, 1] = bad
        self.raises("1 of 6 simulations hold NaN.*first at index 3.*on_invalid='drop'", **arrays)

    def test_all_simulations_invalid_is_refused_even_when_dropped(self):
        self.raises("None is left", SAMPLES * np.nan, on_invalid="drop")

    def test_wrong_on_invalid_is_refused(self):
        self.raises("must be 'raise' or 'drop', but got 'ignore'", on_invalid="ignore")

    def test_complex_objects_text_and_ragged_are_refused(self):
        self.raises("real numbers, but got complex128", SAMPLES + 0j, kind=TypeError)
        self.raises("real numbers, but got object", SAMPLES.astype(object), kind=TypeError)
        self.raises("real numbers, but got <U", SAMPLES.astype(str), kind=TypeError)
        self.raises("rows differ in length", [[[1.0], [2.0]], [[1.0]]])

    def test_x_of_another_length_is_refused(self):
        self.raises(
            r"`x` must have one entry per simulation, \(6, ...\), but got \(5,\)", x=THETA[:5, 0]
        )
        self.raises("one entry per simulation", x=1.0)

    def test_wrong_shapes_of_log_prob_are_refused(self):
        good = {"log_prob_samples": np.zeros((9, 6)), "log_prob_theta": np.zeros(6)}
        Simulations(SAMPLES, THETA, **good)
        self.raises(r"must be \(9, 6\), draws first, but got \(6, 9\).*try `log_prob_samples.T`",
                    **good | {"log_prob_samples": np.zeros((6, 9))})  # fmt: skip
        self.raises(r"`log_prob_theta` must be \(6,\), but got \(6, 1\)",
                    **good | {"log_prob_theta": np.zeros((6, 1))})  # fmt: skip
        self.raises("`log_prob_theta` is missing", log_prob_samples=np.zeros((9, 6)))
        self.raises("`log_prob_samples` is missing", log_prob_theta=np.zeros(6))

    def test_wrong_names_are_refused(self):
        self.raises("must name 2 parameters, but got 3", names=["a", "b", "c"])
        self.raises("must differ", names=["a", "a"])
        self.raises("must be a list of 2 names, but got 'ab'", names="ab", kind=TypeError)

    def test_theta_with_an_axis_too_many_is_refused(self):
        self.raises(r"axis too many: try `theta\[0\]`", theta=THETA[None])

    def test_theta_left_out_or_given_twice_is_refused(self):
        with pytest.raises(TypeError, match="`theta` is missing"):
            tarpon.tarp(SAMPLES)
        sims = Simulations(SAMPLES, THETA)
        with pytest.raises(TypeError, match="remove `theta`"):
            tarpon.sbc(sims, THETA)
        with pytest.raises(TypeError, match="remove `x`, `names`"):
            tarpon.check(sims, x=THETA, names=["a", "b"])
        with pytest.raises(TypeError, match="remove `log_prob_theta`"):
            tarpon.hpd(sims, np.zeros(6))

    @pytest.mark.parametrize(
        ("rng", "kind"), [(-1, ValueError), ("0", TypeError), (True, TypeError)]
    )
    def test_wrong_rng_is_refused(self, rng, kind):
        with pytest.raises(kind, match="`rng` must"):
            tarpon.sbc(SAMPLES, THETA, rng=rng)


class TestDrop:
    def test_whole_simulations_are_dropped_and_counted(self):
        samples, theta = SAMPLES.copy(), THETA.copy()
        samples[4, 1, 0], theta[5, 1] = np.nan, np.inf
        sims = Simulations(samples, theta, x=np.arange(6), on_invalid="drop")
        assert sims.n_dropped == 2
        assert list(sims.x) == [0, 2, 3, 4]
        assert np.isfinite(sims.box).all()
        result = tarpon.tarp(Simulations(samples, theta, on_invalid="drop"), rng=0)
        assert result.ranks.n_sims == 4
        assert "4 simulations (2 invalid ones dropped)" in repr(result)

    def test_densities_are_dropped_along(self):
        log_prob = np.zeros((9, 6))
        log_prob[0, 2] = np.nan
        kept = Simulations.of_densities(log_prob, np.zeros(6), on_invalid="drop")
        result = tarpon.hpd(kept, rng=0)
        assert result.n_dropped == 1
        with pytest.raises(ValueError, match="1 of 6 simulations"):
            tarpon.hpd(log_prob, np.zeros(6))

    def test_held_out_simulations_remember_what_was_dropped(self):
        samples = SAMPLES.copy()
        samples[0, 0] = np.nan
        sims = Simulations(samples, THETA, on_invalid="drop")
        left, held = sims.hold_out(2)
        assert (left.n_draws, left.n_dropped, held.shape) == (7, 1, (2, 5, 2))
        with pytest.raises(ValueError, match="leaves none to rank"):
            sims.hold_out(9)


class TestSquareArrays:
    def posterior(self, rng, n, d=2):
        theta = rng.normal(size=(n, d))
        return theta, 0.9 * theta + 0.3 * rng.normal(size=(n, n, d))

    def test_swapped_square_arrays_trigger_a_warning(self):
        theta, samples = self.posterior(np.random.default_rng(1), 30)
        with pytest.warns(UserWarning, match=r"pass `samples.swapaxes\(0, 1\)`"):
            Simulations(samples.swapaxes(0, 1), theta)

    @pytest.mark.parametrize("n", [1, 2, 3, 10, 30])
    def test_other_square_arrays_trigger_no_warning(self, n):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for seed in range(30):
                rng = np.random.default_rng(seed)
                Simulations(*reversed(self.posterior(rng, n)))
                Simulations(rng.normal(size=(n, n, 3)), rng.normal(size=(n, 3)))
                Simulations(np.ones((n, n, 1)), np.ones((n, 1)))


class TestEdges:
    @pytest.mark.parametrize(("n_sims", "n_draws"), [(1, 1), (1, 9), (9, 1), (2, 2)])
    def test_the_smallest_studies_work(self, n_sims, n_draws):
        rng = np.random.default_rng(0)
        sims = Simulations(rng.normal(size=(n_draws, n_sims, 2)), rng.normal(size=(n_sims, 2)))
        for result in (tarpon.tarp(sims, rng=0), tarpon.sbc(sims, rng=0)):
            assert 0 < result.p_value <= 1
            assert result.band().low[0] == 0

    def test_only_densities_of_one_draw(self):
        assert tarpon.hpd(np.zeros((1, 1)), np.zeros(1), rng=0).p_value == 1

    def test_a_density_of_zero_is_an_answer(self):
        log_prob = np.zeros((99, 200))
        result = tarpon.hpd(log_prob, np.full(200, -np.inf), rng=0)
        assert (result.ranks.values == 99).all()
        assert result.p_value < 1e-100

"""Fields: posteriors over images, maps and time series, with axes of their own."""

import numpy as np
import pytest

import tarpon
from tarpon import Simulations

RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(20, 4, 6))
SAMPLES = THETA / 2 + RNG.normal(size=(9, 20, 4, 6))


def test_fields_are_kept_flat_and_not_copied():
    sims = Simulations(SAMPLES, THETA)
    assert sims.shape == (4, 6)
    assert sims.samples.shape == (9, 20, 24)
    assert sims.theta.shape == (20, 24)
    assert np.shares_memory(sims.samples, SAMPLES)
    assert np.shares_memory(sims.theta, THETA)
    assert repr(sims) == "Simulations(20 simulations, 9 draws each, fields of 4 x 6)"


def test_vectors_have_a_shape_of_one_axis():
    assert Simulations(SAMPLES[..., 0], THETA[..., 0]).shape == (4,)
    assert Simulations(SAMPLES[..., 0, 0], THETA[..., 0, 0]).shape == (1,)


def test_cells_are_named_by_their_places():
    names = Simulations(SAMPLES, THETA).names
    assert names[9] == "theta[1, 3]"
    assert names[-1] == "theta[3, 5]"
    assert names[:2] == ("theta[0, 0]", "theta[0, 1]")
    assert (len(names), names.index("theta[1, 3]")) == (24, 9)
    assert names == tuple(names)
    assert Simulations(SAMPLES, THETA, names=["lat", "lon"]).names[9] == "theta[lat=1, lon=3]"
    assert Simulations(SAMPLES, THETA, names=[str(k) for k in range(24)]).names[9] == "9"


def test_answers_are_those_of_flat_points():
    flat = SAMPLES.reshape(9, 20, 24), THETA.reshape(20, 24)
    for test in (tarpon.tarp, tarpon.sbc):
        assert (test(SAMPLES, THETA, rng=0).ranks.values == test(*flat, rng=0).ranks.values).all()


class TestHints:
    """What is wrong with a field, and what to do."""

    def raises(self, text, samples, theta=THETA):
        with pytest.raises(ValueError, match=text) as caught:
            Simulations(samples, theta)
        return str(caught.value)

    def test_the_message_says_what_was_wanted_and_what_came(self):
        said = self.raises("swapped", SAMPLES.swapaxes(0, 1))
        assert "must be (n_draws, 20, 4, 6) to match `theta` (20, 4, 6)" in said
        assert "but got (20, 9, 4, 6)" in said
        assert "try `samples.swapaxes(0, 1)`" in said

    def test_transposed_fields(self):
        said = self.raises("transposed", SAMPLES.swapaxes(-1, -2))
        assert "fields of 6 x 4, and the truths of 4 x 6" in said
        assert "try `samples.swapaxes(-1, -2)`" in said

    def test_axes_of_boxes_in_another_order(self):
        theta, samples = THETA.reshape(20, 2, 3, 4), SAMPLES.reshape(9, 20, 2, 3, 4)
        moved = samples.transpose(0, 1, 4, 2, 3)
        said = self.raises("another order", moved, theta)
        order = eval(said.split("samples.transpose")[1].rstrip("`."))
        assert moved.transpose(order).shape == samples.shape

    @pytest.mark.parametrize(
        ("moved", "text"),
        [
            (np.moveaxis(SAMPLES, 0, -1), r"draws look last: try `np.moveaxis\(samples, -1, 0\)`"),
            (SAMPLES.transpose(2, 3, 0, 1), r"try `samples.transpose\(2, 3, 0, 1\)`"),
            (SAMPLES[:, 0], "axis of the simulations is missing"),
            (SAMPLES.reshape(9, 20, 24), r"flat: try `samples.reshape\(9, 20, 4, 6\)`"),
            (SAMPLES[0], r"one draw a simulation, pass `samples\[None\]`"),
            (SAMPLES[:, :, None], r"axes of length 1.*`samples.reshape\(9, 20, 4, 6\)`"),
            (SAMPLES[:, :7], "There are 7 simulations of draws but 20 truths"),
            (SAMPLES[..., :5], "draws are fields of 4 x 5, and the truths fields of 4 x 6"),
        ],
    )  # fmt: skip
    def test_other_mistakes(self, moved, text):
        self.raises(text, moved)

    def test_flat_truths(self):
        self.raises(
            r"truths are flat: try `theta.reshape\(20, 4, 6\)`", SAMPLES, THETA.reshape(20, 24)
        )


def noisy(n_sims=60, shape=(4, 6), n_draws=19, seed=1):
    """Return draws of exact posteriors of white fields observed in noise, truths and data."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, *shape))
    x = theta + rng.normal(size=theta.shape)
    return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape)), theta, x


def test_all_that_narrows_keeps_the_shape(tmp_path):
    samples, theta, x = noisy()
    samples[0, 3] = np.nan
    sims = Simulations(samples, theta, x=x, on_invalid="drop")
    assert (sims.n_dropped, sims.shape) == (1, (4, 6))
    assert sims.near(x[0], 10).shape == (4, 6)
    assert sims.hold_out(2)[0].shape == (4, 6)
    assert sims.near(x[0], 10, samples=samples[:, 0]).n_sims == 10


def test_draws_of_unequal_number():
    sims = Simulations([SAMPLES[: 5 + k % 3, k] for k in range(20)], THETA)
    assert (sims.shape, sims.samples.shape) == ((4, 6), (7, 20, 24))


def test_stored_fields_are_read_flat(tmp_path):
    np.save(tmp_path / "s.npy", SAMPLES)
    sims = Simulations(np.load(tmp_path / "s.npy", mmap_mode="r"), THETA)
    assert (sims.shape, sims.samples.shape) == ((4, 6), (9, 20, 24))
    assert (sims.samples[:, 3:5] == SAMPLES[:, 3:5].reshape(9, 2, 24)).all()
    assert (tarpon.sbc(sims, rng=0).p_values == tarpon.sbc(SAMPLES, THETA, rng=0).p_values).all()


def test_scores_of_your_own_see_fields():
    seen = []

    def peak(theta, x):
        seen.append(theta.shape[2:])
        return theta.max(axis=(-1, -2))

    samples, theta, x = noisy()
    tarpon.check(samples, theta, scores={"peak": peak}, n_swaps=99, rng=0)
    assert set(seen) == {(4, 6)}


def test_references_may_be_fields():
    centre = np.zeros((4, 6))
    fixed, flat = (tarpon.references.Fixed(points) for points in (centre, centre.ravel()))
    found = [tarpon.tarp(SAMPLES, THETA, reference=one, rng=0).p_value for one in (fixed, flat)]
    assert found[0] == found[1]


def test_samplers_return_fields():
    _, theta, x = noisy()

    def sampler(x, n_draws, rng):
        return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape))

    sims = tarpon.from_sampler(sampler, theta, x, n_draws=9, rng=0, n_workers=1)
    assert (sims.shape, sims.n_draws) == ((4, 6), 9)
    with pytest.raises(RuntimeError, match=r"returned draws \(9, 24\), not \(9, 4, 6\)"):
        tarpon.from_sampler(
            lambda x, n, rng: rng.normal(size=(n, x.size)), theta, x, n_draws=9, rng=0, n_workers=1
        )


def test_monitors_take_fields():
    samples, theta, _ = noisy()
    assert tarpon.Monitor(rng=0).add(samples, theta).n_sims == 60
    one = tarpon.Monitor(rng=0).add(samples[:, :1], theta[:1])
    assert "theta[3, 5]" in one._stakes.names

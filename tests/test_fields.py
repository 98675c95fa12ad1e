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

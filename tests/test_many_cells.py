"""Fields of many cells: the scores of the kernels are those that the definition gives."""

import numpy as np
import pytest

from tarpon.bases import Fourier, Matrix, Regions
from tarpon.checks.fields import _Recipe, blocks_of_cells, measured
from tarpon.checks.many_cells import Grid
from tarpon.simulations import Simulations

N_DRAWS, N_SIMS = 11, 3


def recipe(shape, basis):
    return _Recipe(basis, shape, tuple(blocks_of_cells(shape, most) for most in (256, 1024)))


def simulations(shape, dtype="f4", scale=1.0, **more):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N_SIMS, *shape)).cumsum(axis=-1) * scale
    samples = theta + scale * rng.normal(size=(N_DRAWS, N_SIMS, *shape))
    return Simulations(samples.astype(dtype), theta.astype(dtype), **more)


def by_definition(found, sims):
    """Return the scores as arrays give them, without the kernels."""
    vars(found)["many"] = None
    return found.scores(sims, own={})


LABELS = np.arange(40 * 50).reshape(40, 50) // 7 % 5 - 1
WEIGHTS = {
    "log_weights": np.random.default_rng(1).normal(size=(N_DRAWS, N_SIMS)),
    "log_weights_theta": np.zeros(N_SIMS),
}


@pytest.mark.parametrize(
    ("shape", "basis", "dtype", "scale", "more"),
    [
        ((40, 50), Fourier(), "f4", 1.0, {}),
        ((40, 50), Fourier(), "f8", 1.0, {}),
        ((40, 50), Fourier(), "f2", 1.0, {}),
        ((40, 50), Fourier(), "f4", 1e-20, {}),
        ((40, 50), Fourier(), "f8", 1.0, WEIGHTS),
        ((40, 50), Regions(LABELS), "f8", 1.0, {}),
        ((40, 50), Matrix(np.eye(70, 2000)), "f4", 1.0, {}),
        ((1300,), Fourier(), "f8", 1.0, {}),
        ((9, 11, 13), Fourier(), "f8", 1.0, {}),
    ],
)
def test_kernels_give_the_scores_of_the_definition(shape, basis, dtype, scale, more):
    sims = simulations(shape, dtype, scale, **more)
    found = recipe(shape, basis).scores(sims, own={})
    wanted = by_definition(recipe(shape, basis), sims)
    assert found.keys() == wanted.keys()
    for name, scores in wanted.items():
        assert scores.shape == found[name].shape, name
        size = abs(scores).max(initial=0.0)
        near = 3e-6 if dtype != "f8" or name == "maps" else 1e-12
        np.testing.assert_allclose(found[name], scores, rtol=0, atol=near * size, err_msg=name)


def test_a_point_has_the_same_scores_wherever_it_stands():
    shape = (33, 35)
    sims = simulations(shape, "f8")
    order = np.random.default_rng(2).permutation(N_DRAWS + 1)
    points = np.concatenate([sims.theta[None], sims.samples])[order]
    points = points.reshape(N_DRAWS + 1, N_SIMS, *shape)
    found = recipe(shape, Fourier()).scores(sims, own={})
    moved = recipe(shape, Fourier()).scores(Simulations(points[1:], points[0]), own={})
    for name in found.keys() - {"mean", "bias", "piles", "misfit"}:
        # The mean of the points depends on their order, in its last digit.
        near = (1e-6 if name == "maps" else 1e-12) * abs(found[name]).max()
        np.testing.assert_allclose(
            moved[name], found[name][:, order], rtol=0, atol=near, err_msg=name
        )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_draw_that_equals_the_truth_has_its_scores_bit_for_bit(dtype):
    shape = (33, 35)
    sims = simulations(shape, dtype)
    theta = sims.theta.reshape(N_SIMS, *shape)
    samples = sims.samples.reshape(N_DRAWS, N_SIMS, *shape).copy()
    samples[7] = theta
    found = recipe(shape, Fourier()).scores(Simulations(samples, theta), own={})
    for name in found.keys() - {"mean", "piles", "misfit"}:
        np.testing.assert_array_equal(found[name][:, 0], found[name][:, 8], err_msg=name)


def test_means_of_blocks_of_cells():
    field = np.random.default_rng(3).normal(size=(5, 7, 9))
    starts = (np.array([0, 2]), np.array([0, 3, 5]), np.array([0, 8]))
    means = Grid(field.shape, starts).means(field.reshape(1, -1))[0].reshape(2, 3, 2)
    assert means[1, 2, 0] == pytest.approx(field[2:, 5:, :8].mean(), abs=1e-12)
    assert means[0, 1, 1] == pytest.approx(field[:2, 3:5, 8:].mean(), abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_invalid_cells_of_stored_fields_are_refused(bad, tmp_path):
    shape = (40, 50)
    sims = simulations(shape)
    samples = sims.samples.reshape(N_DRAWS, N_SIMS, *shape).copy()
    samples[4, 1, 20, 30] = bad
    path = tmp_path / "samples.npy"
    np.save(path, samples)
    stored = Simulations(np.load(path, mmap_mode="r"), sims.theta.reshape(-1, *shape))
    with pytest.raises(ValueError, match="NaN or infinite"):
        measured(stored, Fourier(), {})

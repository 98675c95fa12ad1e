"""Fields in tensors of torch: the scores of arrays, computed where the tensors are.

Where there is no GPU, tensors on the CPU stand in for those on one.
"""

import numpy as np
import pytest

import tarpon
from tarpon.bases import Fourier, Regions
from tarpon.checks.fields import _Recipe, blocks_of_cells
from tarpon.simulations import Simulations

torch = pytest.importorskip("torch", reason="needs torch: pip install tarpon[torch]")

every_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)
EDGES = {
    (16, 16): None,
    (40, 50): tuple(blocks_of_cells((40, 50), most) for most in (256, 1024)),
}


def on(device, sims):
    """Return fields as tensors, also on the CPU, where they would become arrays."""
    moved = sims._with()
    for name in ("samples", "theta"):
        object.__setattr__(moved, name, torch.tensor(getattr(sims, name), device=device))
    return moved


@every_device
@pytest.mark.parametrize("shape", EDGES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["waves", "regions"])
def test_scores_of_tensors_are_those_of_arrays(device, shape, dtype, name):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(6, *shape)).cumsum(axis=-1).astype(dtype)
    samples = (theta + rng.normal(size=(15, *theta.shape))).astype(dtype)
    sims = Simulations(samples, theta)
    basis = Fourier() if name == "waves" else Regions(np.indices(shape).sum(axis=0) // 9)
    wanted = _Recipe(basis, shape, EDGES[shape]).scores(sims, own={})
    found = _Recipe(basis, shape, EDGES[shape]).scores(on(device, sims), own={})
    assert found.keys() == wanted.keys()
    for key, scores in wanted.items():
        assert isinstance(found[key], np.ndarray)
        assert found[key].dtype == scores.dtype
        near = 5e-6 if dtype == "f4" or key == "maps" else 1e-11
        size = abs(scores).max(initial=0.0)
        np.testing.assert_allclose(found[key], scores, rtol=0, atol=near * size, err_msg=key)


@every_device
@pytest.mark.parametrize("shape", EDGES)
def test_a_check_of_tensors_finds_what_one_of_arrays_finds(device, shape):
    sims = tarpon.problems.field("oversmoothed", shape=shape, n_sims=100, n_draws=40, rng=0)
    here = tarpon.check(sims, n_swaps=99, rng=0)
    there = tarpon.check(on(device, sims), n_swaps=99, rng=0)
    assert (here.p_value, here.outcome) == (there.p_value, there.outcome)
    assert [str(finding) for finding in here.findings] == [str(one) for one in there.findings]
    for ours, theirs in zip(here.evidence.bands, there.evidence.bands, strict=True):
        assert ours.power.value == pytest.approx(theirs.power.value, rel=1e-4)

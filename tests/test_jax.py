"""Arrays of JAX: the integers of the NumPy definition, on the CPU and on a GPU alike."""

import numpy as np
import pytest

import tarpon
from tarpon import Simulations, backends
from tarpon.backends import _kernels, _numpy

jax = pytest.importorskip("jax", reason="needs JAX: pip install tarpon[jax]")
import jax.numpy as jnp  # noqa: E402

from tarpon.backends import _jax  # noqa: E402

NEAR_TIES = 2
needs_gpu = pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX sees no accelerator")


def points(n_draws, n_sims, n_dims, dtype, seed=0):
    rng = np.random.default_rng(seed)
    theta = 10 + 5 * rng.normal(size=(n_sims, n_dims))
    samples = theta + 3 * rng.normal(size=(n_draws, n_sims, n_dims))
    samples[n_draws // 2] = theta
    with jax.enable_x64(True):
        arrays = [jnp.asarray(a, dtype=dtype) for a in (samples, theta)]
    return *arrays, rng.uniform(0, 20, size=(n_sims, n_dims)), rng.uniform(0.5, 2.0, size=n_dims)


def agree(ours, expected):
    for mine, yours in zip(ours, expected, strict=True):
        assert isinstance(mine, np.ndarray)
        assert mine.dtype == np.int64
        assert abs(mine - yours).sum() <= NEAR_TIES


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("n_dims", [1, 3, 40])
def test_counts_are_those_of_the_definition(dtype, n_dims):
    samples, theta, centres, scale = points(37, 9, n_dims, dtype)
    wide = [np.asarray(a).astype(float) for a in (samples, theta)]
    period = np.where(np.arange(n_dims) % 2, np.inf, 12.0)
    several = centres[:, None] + np.arange(3.0)[:, None]
    for name, more in (
        ("closer", (scale,)), ("closer_l1", (scale,)), ("closer_periodic", (scale, period)),
    ):  # fmt: skip
        ours, by_numpy = getattr(_jax, name), getattr(_numpy, name)
        agree(ours(samples, theta, centres, *more), by_numpy(*wide, centres, *more))
        below, equal = ours(samples, theta, several, *more)
        for k in range(3):
            one = by_numpy(*wide, several[:, k], *more)
            agree((below[:, k], equal[:, k]), one)
    agree(_jax.smaller(samples, theta), _numpy.smaller(*wide))
    for mine, yours in zip(_jax.extent(samples), _numpy.extent(wide[0]), strict=True):
        np.testing.assert_array_equal(mine, yours)


def test_copies_of_the_truth_are_ties_and_nan_never_counts():
    samples, theta, centres, scale = points(1, 9, 7, "float32")
    samples = jnp.repeat(theta[None], 13, axis=0).at[4, :, 2].set(jnp.nan)
    below, equal = _jax.closer(samples, theta, centres, scale)
    assert (below == 0).all()
    assert (equal == 12).all()


def test_truths_of_another_precision_are_compared_exactly():
    below, _ = _jax.smaller(jnp.ones((5, 1, 1), dtype="float32"), np.array([[1 + 1e-12]]))
    assert below == 5
    assert not jax.config.jax_enable_x64


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="arrays are on an accelerator")
def test_arrays_on_the_cpu_go_to_the_cpu_kernels():
    samples, theta, *_ = points(50, 20, 3, "float32")
    sims = Simulations(samples, theta)
    assert backends.of(sims.samples) is _kernels
    assert backends.of(samples) is _jax
    expected = tarpon.tarp(np.asarray(samples), np.asarray(theta), rng=0).ranks.values
    np.testing.assert_array_equal(tarpon.tarp(sims, rng=0).ranks.values, expected)


def test_bfloat16_becomes_single_precision():
    samples, theta, *_ = points(50, 20, 3, "bfloat16")
    assert tarpon.tarp(samples, theta, rng=0).ranks.values.shape == (20,)


def held(device_array, sims):
    """Return simulations whose samples are an array of JAX, as those on an accelerator are."""
    object.__setattr__(sims, "samples", device_array)
    return sims


def test_every_test_gives_the_ranks_of_numpy():
    samples, theta, *_ = points(50, 20, 3, "float32")
    arrays = np.asarray(samples), np.asarray(theta)
    for test in (tarpon.tarp, tarpon.sbc):
        ours = test(held(samples, Simulations(*arrays)), rng=0)
        np.testing.assert_array_equal(ours.ranks.values, test(*arrays, rng=0).ranks.values)
    ours = tarpon.check(held(samples, Simulations(*arrays)), n_swaps=99, rng=0)
    assert ours.p_value == tarpon.check(*arrays, n_swaps=99, rng=0).p_value


@needs_gpu
@pytest.mark.gpu
def test_samples_on_a_gpu_stay_there():
    samples, theta, *_ = points(50, 20, 3, "float32")
    sims = Simulations(samples, theta)
    assert sims.samples is samples
    expected = tarpon.tarp(np.asarray(samples), np.asarray(theta), rng=0).ranks.values
    assert abs(tarpon.tarp(sims, rng=0).ranks.values - expected).sum() <= NEAR_TIES

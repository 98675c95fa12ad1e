"""Every backend must return the integers of the NumPy definition."""

import dataclasses
import os
import subprocess
import sys
import tracemalloc
from itertools import product

import numpy as np
import pytest
import zarr

from tarpon import backends
from tarpon.backends import _by_piece, _kernels, _numpy
from tarpon.simulations import stored

BACKENDS = {"kernels": _kernels}
LAYOUTS = {
    "draws first": lambda a: a,
    "simulations first": lambda a: np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1),
    "parameters first": lambda a: np.ascontiguousarray(np.moveaxis(a, -1, 0)).transpose(1, 2, 0),
    "backwards": lambda a: a[::-1, ::-1],
    "every other": lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=2)[::2, :, ::3],
    "part of a row": lambda a: np.concatenate([a, a], axis=-1)[..., : a.shape[-1]],
}
BOTH_ORDERS = [LAYOUTS["draws first"], LAYOUTS["simulations first"]]
LENGTHS = {
    "closer": lambda d, scale: ((scale * d) ** 2).sum(axis=-1),
    "closer_l1": lambda d, scale: (scale * abs(d)).sum(axis=-1),
    "closer_periodic": lambda d, scale, period: (
        (scale * (d - np.where(np.isinf(period), 0, period) * np.rint(d / period))) ** 2
    ).sum(axis=-1),
}
# Where distances cancel: (offset of all points, width of the posterior), references within 1.
CASES = [(0, 1), (1e3, 1), (1e5, 1), (0, 1e-3), (0, 1e-5), (10, 1e-4)]


def some_fast(name, values, *fast):
    """Parametrize by all values; those that are not named need kernels of their own, and time."""
    named = values if isinstance(values, dict) else {value: value for value in values}
    return pytest.mark.parametrize(
        name,
        [
            pytest.param(value, id=str(key), marks=() if key in fast else pytest.mark.slow)
            for key, value in named.items()
        ],
    )


every_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
both_orders = some_fast("order", dict(list(LAYOUTS.items())[:2]), "draws first")


def points(n_draws, n_sims, n_dims, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    theta = 10 + 5 * rng.normal(size=(n_sims, n_dims))
    samples = theta + 3 * rng.normal(size=(n_draws, n_sims, n_dims))
    centres = rng.uniform(0, 20, size=(n_sims, n_dims))
    low = 0 if dtype[0] == "u" else -1000
    theta, samples = (a.clip(low, 255).astype(dtype) for a in (theta, samples))
    return samples, theta, centres, rng.uniform(0.5, 2.0, size=n_dims)


def test_numpy_arrays_go_to_the_fused_kernels():
    assert backends.of(np.zeros(3)) is _kernels


def agree(ours, definition, n_near_ties=0):
    for mine, yours in zip(ours, definition, strict=True):
        assert mine.dtype == np.int64
        assert (abs(mine - yours) <= n_near_ties).all()


def agree_on(name, backend, samples, theta, centres, *more):
    """Compare counts, but for draws whose distance is the truth's to within rounding."""
    draws, truth = (
        LENGTHS[name](points.astype(float) - centres, *more) for points in (samples, theta)
    )
    rounding = 1e-6 if samples.dtype in (np.float16, np.float32) else 1e-14
    near = (abs(draws - truth) < rounding * len(centres[0]) * (draws + truth)).sum(axis=0)
    same = (samples == theta).all(axis=-1).sum(axis=0)
    agree(getattr(backend, name)(samples, theta, centres, *more),
          getattr(_numpy, name)(samples, theta, centres, *more), near - same)  # fmt: skip


def met():
    """Yield layouts, types and shapes so that every two of them meet once.

    Every case compiles kernels of its own, and all triples would take five times as long.
    """
    shapes = [(33, 20, 3), (65, 30, 10), (7, 5, 1), (16, 9, 8), (9, 4, 130)]
    for (i, shape), (j, dtype), (k, layout) in product(
        enumerate(shapes), enumerate(["f4", "f8", "f2", "i4", "u1"]), enumerate(LAYOUTS)
    ):
        fast = dtype == "f4" and layout == "draws first" and i < 2
        if fast or (i + j + k) % 5 == 0:
            marks = () if fast else pytest.mark.slow
            yield pytest.param(LAYOUTS[layout], dtype, shape, marks=marks,
                               id=f"{layout}-{dtype}-{shape}")  # fmt: skip


@every_backend
@pytest.mark.parametrize(("layout", "dtype", "shape"), list(met()))
def test_counts_are_those_of_the_definition(backend, layout, dtype, shape):
    samples, theta, centres, scale = points(*shape, dtype)
    samples = layout(samples)
    if samples.shape != shape:
        pytest.skip("the layout does not keep this shape")
    period = np.where(np.arange(shape[2]) % 2, np.inf, 12.0)
    agree_on("closer", backend, samples, theta, centres, scale)
    agree_on("closer_l1", backend, samples, theta, centres, scale)
    agree_on("closer_periodic", backend, samples, theta, centres, scale, period)
    agree(backend.smaller(samples, theta), _numpy.smaller(samples, theta))
    for mine, yours in zip(backend.extent(samples), _numpy.extent(samples), strict=True):
        np.testing.assert_array_equal(mine, yours)
        assert mine.dtype == yours.dtype


@pytest.mark.parametrize("piece_bytes", [1, 2**12])
@pytest.mark.parametrize(
    "some", [slice(0, 20), slice(4, 17), slice(5, 6), np.array([0, 1, 7, 13, 19])], ids=str
)
def test_draws_that_are_read_piece_by_piece_are_counted(tmp_path, monkeypatch, some, piece_bytes):
    monkeypatch.setattr(stored, "_PIECE_BYTES", piece_bytes)
    samples, theta, centres, scale = points(33, 20, 3, "f4")
    array = zarr.create_array(
        tmp_path / "z", data=samples, chunks=(10, 6, 3), compressors=None, filters=None
    )
    unread = dataclasses.replace(stored.Stored.of(array, 1), where=some)
    backend, period = backends.of(unread), np.array([np.inf, 12.0, 9.0])
    assert backend is backends.exact(unread) is _by_piece
    assert len(list(unread.pieces())) >= (2 if piece_bytes == 1 and unread.n_sims > 6 else 1)
    samples, theta, centres = samples[:, some], theta[some], centres[some]
    several = np.stack([centres, centres[::-1]], axis=1)
    calls = [("smaller",), *((name, each, scale) for name in ("closer", "closer_l1")
                             for each in (centres, several))]  # fmt: skip
    for name, *more in [*calls, ("closer_periodic", centres, scale, period)]:
        agree(getattr(backend, name)(unread, theta, *more),
              getattr(_kernels, name)(samples, theta, *more))  # fmt: skip
    np.testing.assert_array_equal(backend.extent(unread), _kernels.extent(samples))


def lengths():
    """Yield types and lengths of rows: all in single precision, in the others some of each kernel.

    Each of the short ones needs kernels of its own.
    """
    for n_dims in (1, 2, 3, 4, 7, 8, 9, 10, 13, 16, 17, 20, 31, 32, 33, 50, 100, 256, 1000):
        for dtype in ("f2", "f4", "f8"):
            if dtype == "f4" or n_dims in (2, 7, 8, 13, 33, 100, 256):
                marks = () if dtype == "f4" and n_dims in (3, 8, 33, 256) else pytest.mark.slow
                yield pytest.param(dtype, n_dims, marks=marks)


@every_backend
@both_orders
@pytest.mark.parametrize(("dtype", "n_dims"), list(lengths()))
def test_rows_of_every_length_are_counted(backend, order, dtype, n_dims):
    for n_draws in (3, 8, 37):
        samples, theta, centres, scale = points(n_draws, 6, n_dims, dtype)
        samples[1] = theta
        agree_on("closer", backend, order(samples), theta, centres, scale)


@every_backend
@both_orders
@some_fast("dtype", ["f2", "f4", "f8"], "f4")
@pytest.mark.parametrize("n_dims", [3, 8, 13, 33])
def test_values_that_are_not_finite_count_as_in_the_definition(backend, order, dtype, n_dims):
    samples, theta, centres, scale = points(3 * n_dims + 20, 6, n_dims, dtype)
    every = np.arange(n_dims)
    for first, value in enumerate((np.nan, np.inf, -np.inf)):
        samples[first * n_dims + every, :, every] = value
    bad, good = order(samples), order(samples[3 * n_dims :])
    for name in ("closer", "closer_l1"):
        count, definition = getattr(backend, name), getattr(_numpy, name)
        agree(count(bad, theta, centres, scale), definition(bad, theta, centres, scale))
        agree(count(bad, theta, centres, scale), count(good, theta, centres, scale))


@every_backend
@both_orders
@pytest.mark.parametrize("size", [1e-42, 1e-25, 1e25])
@pytest.mark.parametrize("n_dims", [3, 13])
def test_single_precision_has_room_for_the_squares_of_all_numbers(backend, order, size, n_dims):
    rng = np.random.default_rng(0)
    theta, centres = (size * rng.normal(size=(2, 30, n_dims))).astype("f4")
    samples = (size * rng.normal(size=(50, 30, n_dims))).astype("f4")
    unit = [a.astype(float) / size for a in (samples, theta, centres)]
    agree(backend.closer(order(samples), theta, centres.astype(float), np.ones(n_dims)),
          _numpy.closer(*unit, np.ones(n_dims)))  # fmt: skip


@every_backend
@pytest.mark.parametrize("n_dims", [2, 11])
def test_mirror_images_of_the_truth_are_ties(backend, n_dims):
    rng = np.random.default_rng(0)
    theta = rng.integers(-50, 50, size=(20, n_dims)).astype("f4")
    centres = rng.integers(-50, 50, size=(20, n_dims)).astype(float)
    samples = np.where(rng.random((40, 20, n_dims)) < 0.5, theta, 2 * centres - theta).astype("f4")
    scale = rng.uniform(0.5, 2.0, size=n_dims)
    for order in BOTH_ORDERS:
        below, equal = backend.closer(order(samples), theta, centres, scale)
        assert (below == 0).all()
        assert (equal == 40).all()


@some_fast("dtype", ["f2", "f4"], "f4")
@some_fast("n_dims", [2, 10], 10)
def test_extra_memory_does_not_grow_with_the_samples(dtype, n_dims):
    n_sims = 4_000_000 // n_dims
    theta = np.zeros((n_sims, n_dims), dtype=dtype)
    samples = np.broadcast_to(theta, (20, n_sims, n_dims))  # in no memory of its own
    centres, scale = np.broadcast_to(1.0, theta.shape), np.ones(n_dims)
    _kernels.closer(samples[:, :10], theta[:10], centres[:10], scale)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    counts = _kernels.closer(samples, theta, centres, scale)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before - counts[0].nbytes - counts[1].nbytes < 32e6


@every_backend
@some_fast("dtype", ["f4", "f8"], "f4")
@some_fast("n_dims", [1, 2, 7, 20, 200], 20, 200)
def test_copies_of_the_truth_are_ties_always(backend, dtype, n_dims):
    _, theta, centres, scale = points(1, 50, n_dims, dtype)
    samples = np.repeat(theta[None], 13, axis=0)
    period = np.full(n_dims, 7.0)
    for count in (
        backend.closer(samples, theta, centres, scale),
        backend.closer_l1(samples, theta, centres, scale),
        backend.closer_periodic(samples, theta, centres, scale, period),
        backend.smaller(samples, theta),
        _numpy.closer(samples, theta, centres, scale),
        _numpy.closer_l1(samples, theta, centres, scale),
        _numpy.closer_periodic(samples, theta, centres, scale, period),
    ):
        assert (count[0] == 0).all()
        assert (count[1] == 13).all()


@every_backend
@pytest.mark.parametrize(("offset", "width"), CASES)
def test_single_precision_puts_no_draw_on_the_wrong_side(backend, offset, width):
    rng = np.random.default_rng(0)
    theta = (offset + width * rng.normal(size=(100, 10))).astype("f4")
    samples = (offset + width * rng.normal(size=(1000, 100, 10))).astype("f4")
    centres = offset + rng.uniform(-1, 1, size=(100, 10))
    exact = [a.astype(np.longdouble) for a in (samples, theta, centres)]
    expected = (((exact[0] - exact[2]) ** 2).sum(-1) < ((exact[1] - exact[2]) ** 2).sum(-1)).sum(
        axis=0
    )
    for order in BOTH_ORDERS:
        below, _ = backend.closer(order(samples), theta, centres, np.ones(10))
        assert (below != expected).sum() == 0


@every_backend
def test_truths_of_another_precision_are_compared_exactly(backend):
    theta = np.array([[1 + 1e-12]])
    samples = np.ones((5, 1, 1), dtype="f4")
    assert backend.smaller(samples, theta)[0] == 5
    big = np.array([[2**53 + 1]])
    assert backend.smaller(np.full((3, 1, 1), 2**53), big)[0] == 3
    assert backend.smaller(np.full((3, 1, 1), 2**53), big)[1] == 0


@every_backend
@some_fast("layout", LAYOUTS, "draws first")
def test_extent_shows_nan(backend, layout):
    samples = np.zeros((40, 30, 4))
    samples[17, 23, 2] = np.nan
    low, high = backend.extent(layout(samples))
    assert list(np.isnan(low)) == list(np.isnan(high)) == [False, False, True, False]


@every_backend
def test_nan_draws_never_count(backend):
    samples, theta, centres, scale = points(40, 20, 6)
    samples[::2, :, 3] = np.nan
    kept = samples[1::2]
    agree(backend.closer(samples, theta, centres, scale),
          backend.closer(kept, theta, centres, scale))  # fmt: skip


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing(tmp_path):
    code = (
        "import numpy as np, sys\n"
        "from tarpon.backends import _kernels as k\n"
        "r = np.random.default_rng(0)\n"
        "s, t = r.normal(size=(700, 300, 12)), r.normal(size=(300, 12))\n"
        "for a in (s, np.ascontiguousarray(s.swapaxes(0, 1)).swapaxes(0, 1)):\n"
        "    for f in (k.closer, k.closer_l1):\n"
        "        print(f(a, t, t + 1, np.ones(12))[0].tolist())\n"
        "    print(k.smaller(a, t)[0].tolist(), k.extent(a)[0].tolist())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"TARPON_THREADS": str(n)},
            capture_output=True,
            check=True,
        ).stdout
        for n in (1, 2, 5)
    }
    assert len(said) == 1


@some_fast("dtype", ["f2", "f4", "f8"], "f4")
@some_fast("n_dims", [1, 3, 20, 130], 3, 20)
@pytest.mark.parametrize("name", ["closer", "closer_l1", "closer_periodic"])
@pytest.mark.parametrize("by_product", [True, False])
def test_several_centres_are_counted_as_each_of_them(monkeypatch, name, n_dims, dtype, by_product):
    samples, theta, _, scale = points(57, 11, n_dims, dtype)
    samples[5] = theta.astype(dtype)  # a tie, wherever the centre is
    theta = theta.astype(dtype)
    centres = np.random.default_rng(1).uniform(0, 20, size=(11, 4, n_dims))
    more = (np.full(n_dims, 7.0),) if name == "closer_periodic" else ()
    if by_product:
        monkeypatch.setattr(_kernels, "_LEAST_FOR_PRODUCT", 0)
    together = getattr(_kernels, name)(samples, theta, centres, scale, *more)
    defined = getattr(_numpy, name)(samples, theta, centres, scale, *more)
    assert together[0].shape == (11, 4)
    assert (together[1] >= 1).all()
    for k in range(4):
        alone = getattr(_numpy, name)(samples, theta, centres[:, k], scale, *more)
        np.testing.assert_array_equal([counts[:, k] for counts in defined], alone)
        # Rounding may turn a draw that is as close as the truth to 7 digits, of some hundreds.
        assert abs(np.array([counts[:, k] for counts in together]) - alone).max() <= 1


@pytest.mark.parametrize("size", [1e-42, 1e-25, 1e25])
def test_products_have_room_for_the_squares_of_all_numbers(monkeypatch, size):
    monkeypatch.setattr(_kernels, "_LEAST_FOR_PRODUCT", 0)
    rng = np.random.default_rng(0)
    theta = (size * rng.normal(size=(30, 13))).astype("f4")
    centres = (size * rng.normal(size=(30, 4, 13))).astype("f4")
    samples = (size * rng.normal(size=(50, 30, 13))).astype("f4")
    unit = [a.astype(float) / size for a in (samples, theta, centres)]
    agree(_kernels.closer(samples, theta, centres.astype(float), np.ones(13)),
          _numpy.closer(*unit, np.ones(13)))  # fmt: skip

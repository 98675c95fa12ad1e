"""The source of the kernels, read by the interpreter instead of the compiler: the same numbers.

Should compiled kernels ever be wrong, this tells whether their source is, or what was made of it.
"""

import numpy as np
import pytest

from tarpon.backends import _kernels, _numpy, _rows, _swap_kernels, _swaps
from tarpon.checks.statistics import components, polynomials

KERNELS = {
    _kernels: ["smaller_rows", "extent_rows"],
    _swap_kernels: [
        *("_between", "_equal", "_middle", "rank_ordered", "rank_packed", "rank_weighted"),
        *("add_along", "add_moments", "add_values"),
    ],
}
N_COLUMNS = _kernels.N_COLUMNS


# What tiles are to the compiler, arrays of rows and columns are to NumPy.


def number(stored):
    return stored.view(np.float16).astype("f4") if stored.dtype == np.uint16 else stored


def lost(x):
    return not np.isfinite(x)


def load(flat, at, apart, n_rows, like):
    starts = at + apart * np.minimum(np.arange(_kernels.N_ROWS), n_rows - 1).astype("u8")
    return number(flat[starts[:, None] + np.arange(N_COLUMNS, dtype="u8")]).astype(like.dtype)


def repeat(row, at):
    return np.tile(row[at : at + N_COLUMNS], (_kernels.N_ROWS, 1))


def zeros(like):
    return np.zeros((_kernels.N_ROWS, N_COLUMNS), like.dtype)


def row_signs(tile, n_rows):
    sums = tile[:n_rows].sum(axis=1)
    return (sums < 0).sum(), (sums == 0).sum(), (~np.isfinite(sums)).sum()


def larger(a, b):
    return np.where(a > b, a, b)


def interpret(monkeypatch):
    """Let kernels run as the Python that they are written in."""
    for module, names in KERNELS.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    for name in ("short_rows", "long_rows"):
        compiled = getattr(_kernels, name)
        monkeypatch.setattr(_kernels, name, lambda *given, of=compiled: of(*given).py_func)
    for function in (number, lost, load, repeat, zeros, row_signs, larger):
        monkeypatch.setattr(_rows, function.__name__, function)


@pytest.mark.parametrize("order", ["draws first", "simulations first"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(("n_draws", "n_dims"), [(5, 2), (11, 13)])
def test_counts_are_those_of_the_definition(monkeypatch, order, dtype, n_draws, n_dims):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(4, n_dims)).astype(dtype)
    samples = rng.normal(size=(n_draws, 4, n_dims)).astype(dtype)
    samples[1] = theta
    if order == "simulations first":
        samples = np.ascontiguousarray(samples.swapaxes(0, 1)).swapaxes(0, 1)
    balls = rng.normal(size=theta.shape), rng.uniform(0.5, 2, size=n_dims)
    period = np.where(np.arange(n_dims) % 2, np.inf, 5.0)
    interpret(monkeypatch)
    for name, more in {
        "closer": balls,
        "closer_l1": balls,
        "closer_periodic": (*balls, period),
        "smaller": (),
    }.items():
        found = getattr(_kernels, name)(samples, theta, *more)
        np.testing.assert_array_equal(found, getattr(_numpy, name)(samples, theta, *more), name)
    np.testing.assert_array_equal(_kernels.extent(samples), _numpy.extent(samples))


def swaps():
    """Return what every kernel of the swap test gives, with ties and points that are played."""
    rng = np.random.default_rng(1)
    scores = rng.integers(-3, 3, size=(3, 12, 2)).astype("f4")
    scores[0, 1], scores[1, 2, 0], scores[2, 0, 1] = -0.0, np.inf, -np.inf
    played = rng.integers(9, size=(3, 3))
    weights = rng.uniform(size=(3, 9)) * rng.integers(2, size=(3, 9))
    slots, along = rng.integers(12, size=(4, 3)), rng.normal(size=(3, 3, 2)).astype("f4")
    table = components(9)
    moments = polynomials(table)
    ranked = [
        *_swaps.pooled_scores(scores, 9, played, table[:, 0]),
        *_swaps.pooled_scores(scores.astype(float), 9, played, table[:, 0]),
        *_swaps.weighted_scores(scores, weights, played, table[:, 0]),
    ]
    sums = [np.zeros((4, *shape), "f4") for shape in ((4, 2), (2, 3, 2), (4,))]
    _swaps.add_moments(ranked[0], slots, moments, sums[0])
    _swaps.add_along(ranked[0], slots, moments, along, sums[1])
    means = _swaps.mean_moments(ranked[0], moments)
    _swaps.add_values(means, slots, sums[2])
    return *ranked, means, *sums


@pytest.fixture
def kernels(monkeypatch):
    """Let kernels compute, however few the numbers are."""
    monkeypatch.setattr(_swaps, "_FEW_ADDED", -1)
    monkeypatch.setattr(_swaps, "_FEW_RANKED", -1)


def test_swaps_are_those_of_the_compiled_kernels(monkeypatch, kernels):
    compiled = swaps()
    interpret(monkeypatch)
    for ours, theirs in zip(swaps(), compiled, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert compiled[1].any()  # there are ties
    assert all(np.abs(one).sum() > 0 for one in compiled)

"""The Triton kernels, which count the integers of the NumPy definition, ties and all.

Without a GPU, Triton interprets them. Points and references are whole numbers, so that every sum
is exact in every precision: many draws are as far from a reference as the truth, and none is
excused. `test_torch` has points that are not.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tarpon.backends import _numpy, _triton
from tarpon.backends._terms import prepare
from tarpon.backends._torch import _working
from tarpon.backends._triton import Tile

pytestmark = pytest.mark.interop

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = ["float16", "bfloat16", "float32", "float64"]
TERMS = {"l2": "closer", "l1": "closer_l1", "periodic": "closer_periodic"}
SIMS_FIRST = {"draws first": False, "simulations first": True}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_term = pytest.mark.parametrize("term", TERMS)
both_orders = pytest.mark.parametrize("sims_first", SIMS_FIRST.values(), ids=SIMS_FIRST)


def whole_numbers(shape, n_centres, dtype, *, sims_first, seed=0):
    """Return draws, truths and centres on a lattice."""
    rng = np.random.default_rng(seed)
    n_draws, n_sims, n_dims = shape
    theta = rng.integers(-4, 5, size=(n_sims, n_dims))
    draws = theta + rng.integers(-2, 3, size=shape) * (rng.random(shape) < 0.5)
    draws[n_draws // 2] = theta
    centres = rng.integers(-6, 7, size=(n_sims, n_centres, n_dims)).astype(float)
    draws, theta = (
        torch.tensor(a, device=DEVICE).to(getattr(torch, dtype)) for a in (draws, theta)
    )
    return ordered(draws, sims_first), theta, centres


def ordered(draws, sims_first):
    return draws.swapaxes(0, 1).contiguous().swapaxes(0, 1) if sims_first else draws


def counts(term, samples, theta, centres, count=_triton.closer):
    """Return what a kernel counts, and what the definition counts."""
    n_dims = samples.shape[2]
    scale = 2.0 ** (np.arange(n_dims) % 2)
    period = np.where(np.arange(n_dims) % 3, 16.0, np.inf)
    away = theta.double()[:, None] - torch.tensor(centres, device=DEVICE)
    truth = theta.to(_working(samples.dtype))
    lost = nothing_lost()
    ours = count(term, samples, prepare(term, truth, away, scale, period), lost)
    assert bool(lost) == (not samples.isfinite().all())
    more = (scale, period) if term == "periodic" else (scale,)
    here = (a.double().cpu().numpy() for a in (samples, theta))
    return ours.cpu().numpy(), getattr(_numpy, TERMS[term])(*here, centres, *more)


def nothing_lost():
    return torch.zeros(1, dtype=torch.int32, device=DEVICE)


def agree(ours, wanted):
    np.testing.assert_array_equal(ours, np.stack(wanted))
    assert (ours.sum(axis=(1, 2)) > 0).all()


def by(launch, tile):
    """Return a function that counts with one kernel, in tiles of a given shape."""
    if launch is _triton.product:
        return lambda term, samples, constants, lost: launch(samples, constants, tile, lost)
    return lambda term, samples, constants, lost: launch(term, samples, constants, tile, lost)


@both_orders
class TestEdges:
    """Tiles so small that few draws lie on both sides of each of their edges."""

    @every_term
    @every_dtype
    @pytest.mark.parametrize(
        ("shape", "tile"),
        [
            ((13, 5, 3), Tile(4, 2, 4, 2, 4, 1)),
            ((16, 4, 4), Tile(4, 2, 4, 2, 4, 3)),  # no edge
            ((3, 9, 6), Tile(2, 4, 2, 1, 4, 1)),  # rows in parts
            ((17, 2, 21), Tile(8, 1, 8, 1, 4, 3)),
            ((1, 1, 1), Tile(1, 1, 1, 1, 4, 1)),
        ],
    )
    def test_of_one_centre(self, sims_first, term, dtype, shape, tile):
        study = whole_numbers(shape, 1, dtype, sims_first=sims_first)
        ours, wanted = counts(term, *study, count=by(_triton.single, tile))
        np.testing.assert_array_equal(ours, np.stack(wanted))

    @every_term
    @every_dtype
    def test_of_several_centres(self, sims_first, term, dtype):
        study = whole_numbers((13, 5, 3), 2, dtype, sims_first=sims_first)
        tile = Tile(4, 2, 3, 2, 1, 1)
        agree(*counts(term, *study, count=by(_triton.short, tile)))

    @pytest.mark.parametrize("dtype", DTYPES[:3])
    @pytest.mark.parametrize("n_centres", [2, 16])
    @pytest.mark.parametrize(
        ("shape", "dims"), [((35, 3, 17), 32), ((35, 3, 32), 32), ((65, 2, 37), 16)]
    )
    def test_of_products(self, sims_first, dtype, n_centres, shape, dims):
        study = whole_numbers(shape, n_centres, dtype, sims_first=sims_first)
        tile = Tile(16, 1, dims, 2, 4, 1)
        agree(*counts("l2", *study, count=by(_triton.product, tile)))

    @every_dtype
    @pytest.mark.parametrize(
        "shape", [(1, 1, 1), (5, 4, 3), (131, 2, 513), (130, 3, 512), (70, 2, 1030)]
    )
    def test_of_single_parameters(self, sims_first, dtype, shape):
        samples, theta, _ = whole_numbers(shape, 1, dtype, sims_first=sims_first)
        truth = theta.to(_working(samples.dtype))
        wanted = _numpy.smaller(*(a.double().cpu().numpy() for a in (samples, theta)))
        ours = _triton.smaller(samples, truth, lost := nothing_lost())
        np.testing.assert_array_equal(ours.cpu().numpy(), wanted)
        assert not lost


def chosen(n_draws, n_dims, n_centres, sims_first):
    """Return the tile that the table has for a case of single precision and squares."""
    if n_centres == 1:
        return _triton.single_tile(n_draws, n_dims, sims_first)
    if _triton._by_product("l2", n_dims, 4):
        return _triton.product_tile(n_draws, n_dims)
    return _triton.short_tile(n_draws, n_dims, sims_first)


@both_orders
class TestTable:
    """The tiles that are used, with draws beyond the first and too few simulations for one."""

    @pytest.mark.parametrize("n_dims", [1, 2, 3, 16, 17, 64, 65, 128, 129, 512, 513])
    def test_of_one_centre(self, sims_first, n_dims):
        self.check(n_dims, 1, sims_first)

    @pytest.mark.parametrize(("n_dims", "n_centres"), [(2, 2), (9, 2)])
    def test_of_several_centres(self, sims_first, n_dims, n_centres):
        self.check(n_dims, n_centres, sims_first)

    @pytest.mark.parametrize("n_dims", [17, 65, 128, 129, 513])
    def test_of_products(self, sims_first, n_dims):
        self.check(n_dims, 17, sims_first)

    def check(self, n_dims, n_centres, sims_first):
        tile = chosen(10**6, n_dims, n_centres, sims_first)
        shape = (tile.draws * tile.n + 1, max(2, tile.sims - 1), n_dims)
        study = whole_numbers(shape, n_centres, "float32", sims_first=sims_first)
        agree(*counts("l2", *study))

    @pytest.mark.parametrize("n_draws", [1, 2, 3, 100, 1000, 10**6])
    def test_no_tile_holds_more_than_it_may(self, sims_first, n_draws):
        for n_dims in range(1, 1100):
            for n_centres in (1, 2):
                tile = chosen(n_draws, n_dims, n_centres, sims_first)
                assert tile.draws * tile.sims * tile.dims <= 8192
                assert tile.draws & (tile.draws - 1) == tile.sims & (tile.sims - 1) == 0
                assert tile.draws * tile.n < 2**15  # two counts of a run share one number

    @pytest.mark.parametrize("n_draws", [1, 2, 3, 5])
    @pytest.mark.parametrize(("n_dims", "n_centres"), [(1, 1), (5, 1), (200, 1), (3, 17), (20, 3)])
    def test_few_draws_fit_too(self, sims_first, n_draws, n_dims, n_centres):
        shape = (n_draws, 3, n_dims)
        study = whole_numbers(shape, n_centres, "float32", sims_first=sims_first)
        ours, wanted = counts("l2", *study)
        np.testing.assert_array_equal(ours, np.stack(wanted))


@every_term
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_dims", [3, 16, 20])
def test_references_are_counted_in_groups(term, dtype, n_dims):
    assert _triton.together(term, n_dims, getattr(torch, dtype).itemsize) < 17
    study = whole_numbers((3, 2, n_dims), 17, dtype, sims_first=True)
    agree(*counts(term, *study))


@both_orders
@every_term
@pytest.mark.parametrize(("n_dims", "n_centres"), [(5, 1), (150, 1), (5, 2), (20, 3)])
def test_nan_and_infinities_are_noticed_and_spoil_no_other_simulation(
    sims_first, term, n_dims, n_centres
):
    samples, theta, centres = whole_numbers(
        (40, 3, n_dims), n_centres, "float32", sims_first=sims_first
    )
    fine, wanted = counts(term, samples, theta, centres)
    agree(fine, wanted)
    for first, value in enumerate((np.nan, np.inf, -np.inf)):
        samples[first:30:3, 1, n_dims - 1 - first] = value
    with np.errstate(invalid="ignore"):  # of the interpreter
        ours, _ = counts(term, samples, theta, centres)  # asserts that they are noticed
    np.testing.assert_array_equal(ours[:, [0, 2]], fine[:, [0, 2]])


@both_orders
def test_nan_is_neither_below_nor_equal(sims_first):
    samples, theta, _ = whole_numbers((9, 3, 4), 1, "float32", sims_first=sims_first)
    wanted = _triton.smaller(samples[3:], theta, lost := nothing_lost())
    assert not lost
    samples[:3] = np.nan
    assert (_triton.smaller(samples, theta, lost) == wanted).all()
    assert lost == 1


@both_orders
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    "shape", [(9, 3, 1), (7, 3, 5), (9, 2, 40), (3, 2, 130), (5, 2, 600)], ids=str
)
def test_a_single_number_is_noticed_wherever_it_is(sims_first, dtype, shape):
    n_draws, n_sims, n_dims = shape
    for k, at in enumerate(
        [(0, 0, 0), (n_draws - 1, n_sims - 1, n_dims - 1), (1, 1, n_dims // 2)]
    ):
        samples, theta, centres = whole_numbers(shape, 1 + k, dtype, sims_first=sims_first)
        samples[at] = (np.nan, np.inf, -np.inf)[k]
        truth = theta.to(_working(samples.dtype))
        with np.errstate(invalid="ignore"):  # of the interpreter
            counts(list(TERMS)[k], samples, theta, centres)  # asserts it
            counts("l2", samples, theta, centres)
            _triton.smaller(samples, truth, lost := nothing_lost())
        assert lost == 1


@pytest.mark.parametrize("n_dims", [3, 20])
@pytest.mark.parametrize("n_centres", [1, 2])
@pytest.mark.parametrize("far", [0, 1], ids=["draws", "simulations"])
def test_draws_are_found_beyond_32_bits(n_dims, n_centres, far):
    few, theta, centres = whole_numbers((3, 3, n_dims), n_centres, "float16", sims_first=False)
    steps = [2**30 + 64, 64] if far == 0 else [64, 2**30 + 64]
    # Memory that is never written to takes no room.
    room = torch.empty(2**31 + 2**10, dtype=torch.float16, device=DEVICE)
    samples = room.as_strided(few.shape, (*steps, 1))
    samples.copy_(few)
    agree(*counts("l2", samples, theta, centres))
    below, equal = _triton.smaller(samples, theta.float(), nothing_lost()).cpu().numpy()
    wanted = _numpy.smaller(*(a.double().cpu().numpy() for a in (few, theta)))
    np.testing.assert_array_equal((below, equal), wanted)


def test_every_kernel_compiles_and_has_the_registers_it_needs(tmp_path):
    command = Path(__file__).parents[2] / "benchmarks" / "compiled.py"
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    said = subprocess.run(
        [sys.executable, command, "--quick"],
        env=env | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    head, _, *rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in said.splitlines())
    compiled = [dict(zip(head, row, strict=True)) for row in rows]
    for capability in ("8.0", "9.0"):
        kernels = {one["kernel"] for one in compiled if one["capability"] == capability}
        assert kernels == {"flat", "closer", "short", "product", "smaller"}
    for one in compiled:
        # The compiler may leave a few bytes in memory though it has registers. The fastest tile
        # of products in 64 parameters on capability 9.0, which needs all of them, spills on 8.0.
        needs_all = (one["capability"], one["kernel"], one["parameters"]) == (
            "8.0",
            "product",
            "64",
        )
        assert int(one["spilled"]) < (128 if needs_all else 16), one
        assert int(one["warps of 64"]) >= 8, one

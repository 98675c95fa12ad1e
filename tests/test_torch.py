"""Tensors of torch: the integers of the NumPy definition, on every path.

Where there is no GPU, tensors on the CPU stand in for those on one, and Triton interprets its
kernels. Numbers that agree to within rounding may be counted either way: `NEAR_TIES` of them.
"""

import importlib.util
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import tarpon
from tarpon import Simulations, backends, metrics
from tarpon._base.arrays import to_device_of
from tarpon.backends import _kernels, _numpy, _swaps
from tarpon.checks import features, labellings, products, statistics, swaps, waves
from tarpon.checks.labellings import Part
from tarpon.checks.power import Errors
from tarpon.regions import HalfLines
from tarpon.simulations import Deferred, boxes

torch = pytest.importorskip("torch", reason="needs torch: pip install tarpon[torch]")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tarpon.backends import _torch, _torch_swaps  # noqa: E402

gpu = pytest.mark.gpu
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs triton"
)
NEAR_TIES = 2
DTYPES = ["float16", "bfloat16", "float32", "float64"]
ORDERS = {
    "draws first": lambda a: a,
    "simulations first": lambda a: a.swapaxes(0, 1).contiguous().swapaxes(0, 1),
    "every other": lambda a: torch.stack([a, a], dim=-1)[..., 0],
}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
small_dims = pytest.mark.parametrize("n_dims", [1, 3, 16, 33, 130])
WAYS = ["plain", pytest.param("kernels", marks=needs_triton)]
every_way_on_the_cpu = pytest.mark.parametrize("way", WAYS, indirect=True)
every_way = pytest.mark.parametrize("way", [*WAYS, pytest.param("cuda", marks=gpu)], indirect=True)


@pytest.fixture
def way(request, monkeypatch):
    """Return the device to put tensors on, with the path to take set."""
    if request.param == "kernels":
        if torch.cuda.is_available():
            pytest.skip("there is a GPU, which runs the kernels themselves")
        from tarpon.backends import _triton

        monkeypatch.setattr(_torch, "_fused", lambda samples: _triton)
    return "cuda" if request.param == "cuda" else "cpu"


def points(n_draws, n_sims, n_dims, dtype, device, seed=0):
    rng = np.random.default_rng(seed)
    theta = 10 + 5 * rng.normal(size=(n_sims, n_dims))
    samples = theta + 3 * rng.normal(size=(n_draws, n_sims, n_dims))
    samples[n_draws // 2] = theta
    centres = rng.uniform(0, 20, size=(n_sims, n_dims))
    tensors = (torch.tensor(a, dtype=getattr(torch, dtype)) for a in (samples, theta))
    return *(t.to(device) for t in tensors), centres, rng.uniform(0.5, 2.0, size=n_dims)


def definition(function, samples, theta, *more):
    return function(samples.double().cpu().numpy(), theta.double().cpu().numpy(), *more)


def agree(ours, expected, near_ties=NEAR_TIES):
    for mine, yours in zip(ours, expected, strict=True):
        assert isinstance(mine, np.ndarray)
        assert mine.dtype.kind == "i"
        assert abs(mine - yours).sum() <= near_ties


def compare(samples, theta, centres, scale, order):
    moved = order(samples)
    period = np.where(np.arange(len(scale)) % 2, np.inf, 12.0)
    for name, more in (
        ("closer", (scale,)), ("closer_l1", (scale,)), ("closer_periodic", (scale, period)),
    ):  # fmt: skip
        ours, by_numpy = getattr(_torch, name), getattr(_numpy, name)
        agree(ours(moved, theta, centres, *more),
              definition(by_numpy, samples, theta, centres, *more))  # fmt: skip
    agree(_torch.smaller(moved, theta), definition(_numpy.smaller, samples, theta), 0)


def compare_many(samples, theta, centres, scale, order, n_centers):
    shifts = np.random.default_rng(1).normal(size=(len(theta), n_centers, theta.shape[1]))
    several = centres[:, None] + shifts
    for name in ("closer", "closer_l1"):
        below, equal = getattr(_torch, name)(order(samples), theta, several, scale)
        assert below.shape == equal.shape == (len(theta), n_centers)
        for k in range(n_centers):
            one = definition(getattr(_numpy, name), samples, theta, several[:, k], scale)
            agree((below[:, k], equal[:, k]), one)


@every_way_on_the_cpu
@every_dtype
@every_order
@small_dims
def test_counts_are_those_of_the_definition(way, dtype, order, n_dims):
    compare(*points(37, 5, n_dims, dtype, way), order)


@every_way_on_the_cpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@every_order
@small_dims
def test_several_centres_count_as_each_alone(way, dtype, order, n_dims):
    compare_many(*points(37, 4, n_dims, dtype, way), order, 3)


@gpu
@pytest.mark.parametrize("n_dims", [1, 2, 3, 7, 8, 16, 31, 33, 64, 100, 256, 1000])
def test_counts_on_a_gpu_are_those_of_the_definition(n_dims):
    # Every case is compiled anew, so each precision takes the orders in turn.
    orders = ["draws first", "simulations first"]
    for turn, dtype in enumerate(DTYPES):
        samples, theta, centres, scale = points(700, 30, n_dims, dtype, "cuda")
        expected = definition(_numpy.closer, samples, theta, centres, scale)
        for order in orders if dtype == "float32" else [orders[(turn + n_dims) % 2]]:
            agree(_torch.closer(ORDERS[order](samples), theta, centres, scale), expected)


@gpu
@pytest.mark.parametrize("given", [np.copy, lambda a: np.broadcast_to(a[:1], a.shape)])
def test_many_references_are_copied_to_a_gpu_and_counts_back(given):
    samples, theta, centres, scale = points(3, 140_000, 2, "float32", "cuda")
    centres = given(centres)  # one for all is neither contiguous nor writeable
    assert centres.nbytes in _torch._PINNED_BYTES
    expected = definition(_numpy.closer, samples, theta, centres, scale)
    agree(_torch.closer(samples, theta, centres, scale), expected)


@gpu
@every_order
@pytest.mark.parametrize(("n_dims", "dtype"), [(3, "bfloat16"), (16, "float32"), (33, "float64"),
                                               (256, "float32")])  # fmt: skip
def test_every_count_on_a_gpu_is_that_of_the_definition(order, n_dims, dtype):
    study = points(700, 30, n_dims, dtype, "cuda")
    compare(*study, order)
    compare_many(*study, order, 10)


@gpu
def test_more_numbers_than_32_bits_can_count():
    samples = torch.zeros((1000, 22_000, 100), dtype=torch.float16, device="cuda")
    samples[:, -1] = 1
    theta = torch.full((22_000, 100), 0.5, device="cuda")
    for order in (samples, ORDERS["simulations first"](samples)):
        below, _ = _torch.closer(order, theta, np.zeros((22_000, 100)), np.ones(100))
        assert (below == [*[1000] * 21_999, 0]).all()
        assert (_torch.smaller(order, theta)[0][-2:, 0] == [1000, 0]).all()


@every_way
@pytest.mark.parametrize("n_dims", [1, 7, 20, 200])
def test_copies_of_the_truth_are_ties_always(way, n_dims):
    _, theta, centres, scale = points(1, 20, n_dims, "float32", way)
    samples = theta[None].repeat(13, 1, 1)
    several = centres[:, None] + np.arange(3.0)[:, None]
    for counts in (
        _torch.closer(samples, theta, centres, scale),
        _torch.closer_l1(samples, theta, centres, scale),
        _torch.closer_periodic(samples, theta, centres, scale, np.full(n_dims, 7.0)),
        _torch.closer(samples, theta, several, scale),
        _torch.smaller(samples, theta),
    ):
        assert (counts[0] == 0).all()
        assert (counts[1] == 13).all()


@every_way
@pytest.mark.parametrize("n_dims", [6, 40])
def test_nan_draws_never_count(way, n_dims):
    samples, theta, centres, scale = points(40, 5, n_dims, "float32", way)
    samples[::2, :, 3] = np.nan
    several = np.stack([centres, centres + 1], axis=1)
    for around in (centres, several):
        agree(_torch.closer(samples, theta, around, scale),
              _torch.closer(samples[1::2], theta, around, scale), 0)  # fmt: skip


@every_way
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n_dims", [3, 40])
def test_a_single_number_is_noticed(way, dtype, n_dims):
    samples, theta, centres, scale = points(37, 5, n_dims, dtype, way)
    several = np.stack([centres, centres + 1], axis=1)
    period = np.where(np.arange(n_dims) % 2, np.inf, 12.0)
    counts = (
        lambda s: _torch.closer(s, theta, centres, scale),
        lambda s: _torch.closer(s, theta, several, scale),
        lambda s: _torch.closer_l1(s, theta, centres, scale),
        lambda s: _torch.closer_periodic(s, theta, centres, scale, period),
        lambda s: _torch.smaller(s, theta),
    )
    for count in counts:
        for order in list(ORDERS.values())[:2]:
            assert noticed(count, order(samples)) is True
            for k, value in enumerate((np.nan, np.inf, -np.inf)):
                broken = samples.clone()
                broken[11 * k, 4, n_dims - 1] = value
                with np.errstate(invalid="ignore"):  # of Triton's interpreter
                    assert noticed(count, order(broken)) is False


def noticed(count, samples):
    with backends.watched() as sums:
        count(samples)
    return sums.finite


@every_way
@pytest.mark.parametrize(("offset", "width"), [(0, 1), (1e5, 1), (0, 1e-5), (10, 1e-4)])
def test_single_precision_puts_no_draw_on_the_wrong_side(way, offset, width):
    rng = np.random.default_rng(0)
    theta = torch.tensor(offset + width * rng.normal(size=(20, 10)), dtype=torch.float32)
    draws = torch.tensor(offset + width * rng.normal(size=(200, 20, 10)), dtype=torch.float32)
    centres = offset + rng.uniform(-1, 1, size=(20, 10))
    exact = [np.asarray(a, dtype=np.longdouble) for a in (draws, theta, centres)]
    far = [((a - exact[2]) ** 2).sum(-1) for a in exact[:2]]
    for order in (ORDERS["draws first"], ORDERS["simulations first"]):
        below, _ = _torch.closer(order(draws.to(way)), theta.to(way), centres, np.ones(10))
        assert (below == (far[0] < far[1]).sum(axis=0)).all()


@every_way
def test_truths_of_another_precision_are_compared_exactly(way):
    theta = torch.tensor([[1 + 1e-12]], dtype=torch.float64, device=way)
    assert _torch.smaller(torch.ones((5, 1, 1), device=way), theta)[0] == 5


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
def test_integers_are_compared_as_such(device):
    truth = torch.tensor([[2**53 + 1]], device=device)
    draws = torch.full((3, 1, 1), 2**53, device=device)
    below, equal = _torch.smaller(draws, truth)
    assert (below, equal) == (3, 0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
def test_extent_shows_nan(device):
    samples = torch.zeros((40, 30, 4), device=device)
    samples[17, 23, 2] = np.nan
    low, high = _torch.extent(samples)
    assert list(np.isnan(low)) == list(np.isnan(high)) == [False, False, True, False]


# The engine of the swap test.


every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])


@every_device
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8"])
@pytest.mark.parametrize("table", [np.arange(25, dtype="f4"), statistics.components(25)[:, 0]])
def test_pooled_scores_are_those_of_the_cpu(device, dtype, table):
    rng = np.random.default_rng(0)
    scores = rng.integers(-5, 5, size=(6, 30, 4)).astype(dtype)
    scores[0, 0] = -0.0
    if dtype != "i8":
        scores[1, [0, 4, 28]], scores[2, [3, 26]] = np.inf, -np.inf
        scores[3, [1, 2, 29]] = np.finfo(dtype).tiny
    played = rng.integers(25, size=(6, 5))
    ours = _torch_swaps.pooled_scores(
        *(torch.tensor(a, device=device) if isinstance(a, np.ndarray) else a
          for a in (scores, 25, played, table))
    )  # fmt: skip
    wanted = _swaps.pooled_scores(scores, 25, played, table)
    for mine, yours in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(mine.cpu().numpy(), yours)


def every_sum(engine, put):
    """Return what every function that sums gives, on one device."""
    rng = np.random.default_rng(0)
    table = statistics.components(20)
    moments = put(statistics.polynomials(table))
    scores = put(table[rng.integers(20, size=(7, 23, 5)), 0])
    slots = put(rng.integers(23, size=(11, 7)))
    along = put(rng.normal(size=(7, 3, 5)).astype("f4"))
    found = features.features(rng.normal(size=(7, 4)), rng.normal(size=(7, 6)), 3, rng)
    by_score, by_way, total = (
        put(np.ones((11, *shape), "f4")) for shape in ((4, 5), (2, 3, 5), (4,))
    )
    engine.add_moments(scores, slots, moments, by_score)
    engine.add_along(scores, slots, moments, along, by_way)
    means = engine.mean_moments(scores, moments)
    engine.add_values(means, slots, total)
    shapes = products.Sizes.of(3, found).shapes()
    made = {name: put(np.ones((11, *shape), "f4")) for name, shape in shapes.items()}
    chosen = np.array([0, 2, 5])
    products.add(made, scores[..., :3], slots, found, chosen, moments[1, [2, 0]])
    waves.add(made, scores[..., :3], slots)
    return {"moments": by_score, "along": by_way, "means": means, "values": total} | made


@every_device
@pytest.mark.parametrize("together", [2**27, 300])
def test_sums_are_those_of_the_cpu(device, together, monkeypatch):
    monkeypatch.setattr(_torch_swaps, "_TOGETHER", together)
    ours = every_sum(_torch_swaps, lambda a: torch.tensor(a, device=device))
    wanted = every_sum(_swaps, np.asarray)
    assert list(ours) == list(wanted)
    for name, mine in ours.items():
        yours = wanted[name]
        assert np.abs(yours - 1).max() > 0.1
        np.testing.assert_allclose(mine.cpu().numpy(), yours, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("shape", [(1, 1, 1), (50, 30, 7), (9, 8, 10**6)])
def test_rows_are_cut_so_that_a_device_holds_them(shape, monkeypatch):
    monkeypatch.setattr(_torch_swaps, "_TOGETHER", 2000)
    n_rows, n_sims, n_numbers = shape
    seen = np.zeros((n_rows, n_sims), int)
    values, slots = torch.randn(n_sims, 4, 2), torch.randint(4, (n_rows, n_sims))

    def run(rows, sims, some):
        seen[rows, sims] += 1
        size = (rows.stop - rows.start) * (sims.stop - sims.start) * n_numbers
        assert size <= max(2000, n_sims * n_numbers)
        for row, of_row in zip(slots[rows], some, strict=True):
            assert (values[torch.arange(n_sims), row] == of_row.T).all()

    _torch_swaps.over_rows(run, values, slots, n_numbers)
    assert (seen == 1).all()


# The front door.


def study(flaw="narrow", n_dims=5, dtype="f4"):
    sims = tarpon.problems.zoo(flaw, n_dims=n_dims, n_sims=80, n_draws=60, rng=0)
    fields = ["x", "log_prob_samples", "log_prob_theta"]
    more = {name: getattr(sims, name) for name in fields}
    return Simulations(sims.samples.astype(dtype), sims.theta.astype(dtype), **more)


def on(device, sims):
    """Return the same simulations as tensors, also on the CPU, where they would become arrays."""
    moved = study()
    for name in ("samples", "theta", "log_prob_samples", "log_prob_theta"):
        array = getattr(sims, name)
        tensor = None if array is None else torch.tensor(array, device=device)
        object.__setattr__(moved, name, tensor)
    for name in ("x", "_known", "names", "shape"):
        object.__setattr__(moved, name, getattr(sims, name))
    return moved


@every_device
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_every_test_gives_the_ranks_of_the_cpu(device, dtype):
    sims = study(dtype=dtype)
    for test in (tarpon.tarp, tarpon.sbc, tarpon.hpd):
        ours, yours = test(on(device, sims), rng=0), test(sims, rng=0)
        assert abs(ours.ranks.values - yours.ranks.values).sum() <= NEAR_TIES


@every_device
@pytest.mark.parametrize("power", [-800, 800])
def test_units_do_not_matter(device, power):
    sims = study(dtype="f8")
    scaled = Simulations(2.0**power * sims.samples, 2.0**power * sims.theta)
    plain = Simulations(sims.samples, sims.theta)
    for test in (tarpon.tarp, tarpon.sbc):
        here, there = (test(on(device, one), rng=0) for one in (plain, scaled))
        np.testing.assert_array_equal(here.ranks.values, there.ranks.values)
    here, there = (
        tarpon.check(on(device, one), n_swaps=49, rng=0).families for one in (plain, scaled)
    )
    assert here == there


@every_device
@pytest.mark.parametrize(
    "metric",
    [
        metrics.L2(), metrics.L1(), metrics.Lp(3.0), metrics.Lp(np.inf), metrics.Mahalanobis(),
        metrics.Weighted([1.0, 2.0]), metrics.Periodic(2.0), metrics.Sphere(),
        lambda a, b: abs(a - b).sum(-1),
    ],
)  # fmt: skip
def test_every_metric_gives_the_ranks_of_the_cpu(device, metric):
    sims = study(n_dims=2)
    ours = tarpon.tarp(on(device, sims), metric=metric, rng=0)
    yours = tarpon.tarp(sims, metric=metric, rng=0)
    assert abs(ours.ranks.values - yours.ranks.values).sum() <= NEAR_TIES


@every_device
def test_fused_metrics_measure_tensors_too(device):
    a, b = torch.tensor([[0.0, 0.5]], device=device), torch.tensor([3.0, 4.0], device=device)
    for metric in (metrics.Weighted([1.0, 2.0]), metrics.L1(2.0), metrics.Periodic(2.0)):
        expected = metric(a.cpu().numpy(), b.cpu().numpy())
        np.testing.assert_allclose(metric(a, b).cpu().numpy(), expected, rtol=1e-6)


@every_device
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("flaw", "n_dims"), [("narrow", 5), ("exact", 1), ("rounded", 3)])
def test_all_sums_of_a_study_are_those_of_the_cpu(device, flaw, n_dims, weighted, monkeypatch):
    monkeypatch.setattr(labellings, "_BLOCK_BYTES", 60_000)  # several blocks
    sims, rng = study(flaw, n_dims), np.random.default_rng(0)
    tensors = on(device, sims)
    if weighted:
        weights = rng.normal(size=(sims.n_draws + 1, sims.n_sims))
        for one in (sims, tensors):
            one._set(log_weights=weights[:-1], log_weights_theta=weights[-1])

    def swapped(one):
        rng = np.random.default_rng(0)
        parts = {"marginals": Part(HalfLines()), "views": Part(HalfLines(), pooled=True)}
        chosen = np.arange(n_dims)
        found = features.features(sims.x, sims.centres(), n_dims, rng)
        plants = Errors(np.zeros(Errors.n_plays, int))
        return swaps.swap(one, parts, found, chosen, n_swaps=49, rng=rng, plants=plants).on_host()

    ours, yours = swapped(tensors), swapped(sims)
    both = [{"along": one.along, "ties": one.ties, "correlations": one.correlations}
            | one.moments | one.products for one in (ours, yours)]  # fmt: skip
    assert list(both[0]) == list(both[1])
    for name, mine in both[0].items():
        assert isinstance(mine, np.ndarray)
        np.testing.assert_allclose(mine, both[1][name], atol=5e-3, err_msg=name)


@every_device
@pytest.mark.parametrize(("flaw", "n_dims"), [("narrow", 5), ("exact", 1), ("rounded", 3)])
def test_check_says_what_it_says_on_the_cpu(device, flaw, n_dims):
    sims = study(flaw, n_dims)
    scores = {"sum": lambda theta, x: theta.sum(axis=-1)}
    ours = tarpon.check(on(device, sims), scores=scores, n_swaps=199, rng=0)
    yours = tarpon.check(sims, scores=scores, n_swaps=199, rng=0)
    # Single precision may turn a near-tie; one swap of 200 may then end up on the other side.
    assert abs(ours.p_value - yours.p_value) <= 0.02
    expected = {family.name: family.p_value for family in yours.families}
    assert {family.name for family in ours.families} == set(expected)
    for family in ours.families:
        assert abs(family.p_value - expected[family.name]) <= 0.02
    assert [f.kind for f in ours.findings] == [f.kind for f in yours.findings]
    assert abs(ours.detectable.bias - yours.detectable.bias) < 0.05
    for mine, yours_too in zip(ours.parameters, yours.parameters, strict=True):
        assert abs(mine.bias.value - yours_too.bias.value) < 1e-5


@every_device
def test_weighted_draws_give_what_they_give_on_the_cpu(device):
    sims = study("narrow", 3)
    weights = np.random.default_rng(0).normal(size=(sims.n_draws + 1, sims.n_sims))
    weights[: sims.n_draws // 3] = -np.inf
    sims._set(log_weights=weights[:-1], log_weights_theta=weights[-1])
    tensors = on(device, sims)
    tensors._set(log_weights=weights[:-1], log_weights_theta=weights[-1])
    for test in (tarpon.tarp, tarpon.sbc):
        ours, yours = test(tensors, rng=0).ranks.values, test(sims, rng=0).ranks.values
        assert (ours != yours).sum() <= NEAR_TIES
    ours, yours = (tarpon.check(s, n_swaps=199, rng=0) for s in (tensors, sims))
    assert abs(ours.p_value - yours.p_value) <= 0.02
    assert abs(ours.parameters[0].bias.value - yours.parameters[0].bias.value) < 1e-5


class Passes(TorchDispatchMode):
    """What torch itself does with the numbers of tensors that have so many."""

    def __init__(self, n_numbers):
        super().__init__()
        self.n_numbers, self.names = n_numbers, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        large = any(isinstance(a, torch.Tensor) and a.numel() >= self.n_numbers for a in args)
        name = function.overloadpacket.__name__
        if large and not function.is_view and not name.startswith("new_"):
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def deferred(device, samples, theta):
    """Return tensors as a test is given them, also on the CPU, where they would become arrays."""
    sims = Deferred(samples, theta)
    for name in ("samples", "theta"):
        object.__setattr__(sims, name, torch.tensor(getattr(sims, name), device=device))
    assert sims._deferred  # not validated in a pass of its own
    return sims


@every_way
@pytest.mark.parametrize("test", [tarpon.tarp, tarpon.sbc])
def test_the_draws_are_read_once(way, request, test, monkeypatch):
    monkeypatch.setattr(boxes, "_BOX_NUMBERS", 0)  # as of many simulations
    monkeypatch.setattr(boxes, "_SAMPLED_NUMBERS", 0)
    sims = study(n_dims=5)
    tensors = deferred(way, sims.samples, sims.theta)
    with Passes(tensors.samples.numel()) as seen:
        ours = test(tensors, rng=0)
    steps = {tarpon.tarp: ["sub", "mul", "add", "mul", "mul", "sum"],
             tarpon.sbc: ["lt", "sum", "eq", "sum", "sum"]}  # fmt: skip
    # Triton's interpreter copies what a kernel reads.
    expected = {"plain": steps[test], "kernels": ["copy_"], "cuda": []}
    assert seen.names == expected[request.node.callspec.params["way"]]
    yours = test(Simulations(sims.samples, sims.theta), rng=0)
    assert abs(ours.ranks.values - yours.ranks.values).sum() <= NEAR_TIES


@every_way
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["samples", "theta"])
def test_invalid_tensors_are_refused_with_the_same_words(way, where, value):
    sims = study()
    arrays = {"samples": sims.samples.copy(), "theta": sims.theta.copy()}
    arrays[where][..., 7, 1] = value
    with pytest.raises(ValueError, match=r"1 of 80 simulations hold NaN.*index 7") as wanted:
        Simulations(**arrays)
    for test in (tarpon.tarp, tarpon.sbc):
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="NaN") as said:
            test(deferred(way, **arrays), rng=0)
        assert str(said.value) == str(wanted.value)


def test_arrays_are_not_copied_on_their_way_to_a_device():
    numbers, there = np.zeros(10**6), torch.empty(1, device="meta")
    tracemalloc.start()
    moved = to_device_of(numbers, there)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (moved.device.type, moved.shape, moved.dtype) == ("meta", (10**6,), torch.float64)
    assert peak < 1e5


@pytest.mark.parametrize(
    "odd",
    [
        lambda a: a[::-1],
        lambda a: a.astype(">f8"),
        lambda a: np.broadcast_to(a, (3, 4)),
        lambda a: a,
    ],
)
def test_arrays_of_any_order_become_tensors_of_their_own(odd):
    numbers = np.arange(4.0)
    tensor = to_device_of(odd(numbers), torch.empty(1))
    np.testing.assert_array_equal(tensor.numpy(), odd(numbers))
    tensor += 1
    np.testing.assert_array_equal(numbers, np.arange(4.0))


@gpu
def test_check_on_a_gpu_in_many_dimensions():
    sims = study("narrow", 40)
    ours = tarpon.check(sims_on_gpu := on("cuda", sims), rng=0)
    assert ours.outcome == tarpon.check(sims, rng=0).outcome == "inaccurate"
    assert sims_on_gpu.samples.is_cuda


@gpu
def test_samples_on_a_gpu_stay_there():
    sims = study()
    samples = torch.tensor(sims.samples, device="cuda")
    kept = Simulations(samples, sims.theta)
    assert kept.samples.data_ptr() == samples.data_ptr()
    assert kept.theta.is_cuda
    assert backends.of(kept.samples) is _torch
    np.testing.assert_array_equal(kept.box[0], Simulations(sims.samples, sims.theta).box[0])
    tarpon.hpd(*(torch.tensor(a, device="cuda") for a in sims.log_probs()), rng=0)


@gpu
def test_bad_tensors_on_a_gpu_are_refused_or_dropped():
    sims = study()
    samples = torch.tensor(sims.samples, device="cuda")
    with pytest.raises(ValueError, match=r"try `samples.swapaxes\(0, 1\)`"):
        Simulations(samples.swapaxes(0, 1), sims.theta)
    with pytest.raises(TypeError, match=r"real numbers, but got torch\.complex64"):
        Simulations(samples + 0j, sims.theta)
    samples[3, 7, 1] = np.nan
    with pytest.raises(ValueError, match=r"1 of 80 simulations hold NaN.*first at index 7"):
        Simulations(samples, sims.theta)
    dropped = Simulations(samples, sims.theta, on_invalid="drop")
    assert (dropped.n_sims, dropped.n_dropped, dropped.samples.is_cuda) == (79, 1, True)


@gpu
def test_cupy_arrays_share_their_memory_with_tensors():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    sims = study()
    samples = cupy.asarray(sims.samples)
    kept = Simulations(samples, cupy.asarray(sims.theta))
    assert kept.samples.data_ptr() == samples.data.ptr
    ours, yours = tarpon.tarp(kept, rng=0), tarpon.tarp(sims, rng=0)
    assert abs(ours.ranks.values - yours.ranks.values).sum() <= NEAR_TIES


def test_tensors_on_the_cpu_become_arrays_without_a_copy():
    samples, theta = torch.randn(9, 6, 2, requires_grad=True), torch.randn(6, 2)
    sims = Simulations(samples, theta)
    assert backends.of(sims.samples) is _kernels
    assert sims.samples.ctypes.data == samples.data_ptr()
    assert sims.theta.ctypes.data == theta.data_ptr()


def test_bfloat16_on_the_cpu_becomes_single_precision():
    samples = torch.randn(9, 6, 2).bfloat16()
    sims = Simulations(samples, torch.randn(6, 2))
    assert sims.samples.dtype == np.float32
    assert (torch.tensor(sims.samples) == samples).all()


@every_device
def test_nothing_global_is_touched(device):
    state, kind = torch.random.get_rng_state(), torch.get_default_dtype()
    sims = on(device, study())
    tarpon.tarp(sims, rng=0)
    tarpon.check(sims, n_swaps=99, rng=0)
    assert (torch.random.get_rng_state() == state).all()
    assert torch.get_default_dtype() == kind


@pytest.mark.parametrize("package", ["torch", "jax", "triton"])
def test_arrays_of_numpy_load_no_other_package(package):
    code = (
        "import sys, numpy as np, tarpon\n"
        "r = np.random.default_rng(0)\n"
        "tarpon.check(r.normal(size=(20, 9, 2)), r.normal(size=(9, 2)), n_swaps=99, rng=0)\n"
        f"sys.exit({package!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_learned_score_is_the_same_of_tensors():
    sims = tarpon.problems.zoo("correlation_missed", n_sims=100, n_dims=3, rng=0)
    tensors = Simulations(torch.tensor(sims.samples), torch.tensor(sims.theta), x=sims.x)
    scores = {"it": tarpon.adversaries.Folds()}
    checks = [tarpon.check(s, scores=scores, n_swaps=99, rng=0) for s in (sims, tensors)]
    first, second = (
        next(family.p_value for family in check.families if family.name == "score: it")
        for check in checks
    )
    assert first == pytest.approx(second, rel=0.1)

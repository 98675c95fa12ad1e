"""Fields in `check`: scores per band, findings at scales and in patches, fields of many cells."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations, bases
from tarpon.checks import families, fields, scales
from tarpon.checks.flaws import Kind
from tarpon.problems import FIELD_FLAWS, field
from tarpon.regions import Fit

FALSE_ALARM = 1e-6


def swapped(sims: Simulations, draw: int) -> Simulations:
    """Return simulations whose truths and draws of one number are exchanged."""
    samples, theta = np.array(sims.samples), np.array(sims.theta)
    samples[draw], theta[:] = sims.theta, sims.samples[draw]
    shape = sims.shape
    return Simulations(samples.reshape(*samples.shape[:2], *shape), theta.reshape(-1, *shape))


@pytest.mark.parametrize("shape", [(8, 8), (6, 5, 4), (40, 40)])
def test_scores_of_fields_treat_truths_as_draws(shape):
    sims = field(shape=shape, n_sims=3, n_draws=6, rng=0)
    _, one, _ = fields.measured(sims, bases.Fourier(), {})
    _, two, _ = fields.measured(swapped(sims, 4), bases.Fourier(), {})
    order = [5, 1, 2, 3, 4, 0, 6]
    for name in ("width", "follows", "power", "directions", "cells"):
        first, second = getattr(one, name), getattr(two, name)
        assert np.allclose(first[:, order], second, rtol=1e-3, atol=1e-3 * abs(first).max())
    if one.maps is not None:
        assert np.allclose(one.maps[:, order], two.maps, atol=1e-3)


def test_a_score_about_the_draws_alone_would_not():
    sims = field(shape=(8, 8), n_sims=3, n_draws=6, rng=0)

    def width(sims: Simulations) -> np.ndarray:
        points = np.concatenate([sims.theta[None], sims.samples])
        return ((points - sims.samples.mean(axis=0)) ** 2).sum(axis=-1)

    order = [5, 1, 2, 3, 4, 0, 6]
    assert not np.allclose(width(sims)[order], width(swapped(sims, 4)), rtol=1e-3)


def of_noise(rng: np.random.Generator, excess: float = 1.0) -> fields.Field:
    """Return the scores of fields whose points are exchangeable but for a factor of truths."""
    width = rng.gamma(3.0, size=(20, 10, 3)).astype(np.float32)
    width[:, 0] *= excess
    none = np.zeros((20, 10, 0), np.float32)
    bands = bases.Bands(("a", "b", "c"), np.arange(3))
    return fields.Field(
        bands, width, 0 * width, np.zeros((20, 3)), none, none, none, (3, 3), np.zeros(20)
    )


def outside(found: fields.Field, rng: np.random.Generator) -> bool:
    """Return whether any band leaves the limits of accurate posteriors."""
    low, high = scales.limits(found, 19, 0.2, rng)
    power = np.array([found.ratio(found.power, [k]).value for k in range(3)])
    return bool(((power < low) | (power > high)).any())


def test_limits_of_all_bands_hold_at_their_level():
    rng, n = np.random.default_rng(0), 500
    n_outside = sum(outside(of_noise(rng), rng) for _ in range(n))
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], n, 0.2)
    assert low <= n_outside <= high
    assert sum(outside(of_noise(rng, 1.5), rng) for _ in range(50)) > 30


def sums_of(basis, seed, narrow=1.0):
    """Return the sums of 19 swaps of a small study of fields."""
    sims = field(shape=(6, 6), n_sims=12, n_draws=9, rng=seed)
    samples = sims.samples.mean(axis=0) * (1 - narrow) + narrow * sims.samples
    sims = Simulations(samples.reshape(9, 12, 6, 6), sims.theta.reshape(12, 6, 6))
    sims, scores, _ = fields.measured(sims, basis, {})
    rng = np.random.default_rng(seed)
    return families.swapped(sims, {}, None, n_swaps=19, rng=rng, fields=scores.parts())


@pytest.fixture
def few_cells(monkeypatch):
    """Make fields of 36 cells large ones, which have blocks of cells and maps."""
    monkeypatch.setattr(fields, "MOST_CELLS", 16)
    monkeypatch.setattr(fields, "_MOST_BLOCKS", 9)


def test_p_values_of_exact_fields_are_uniform(few_cells, of_every_family, not_uniform):
    p = of_every_family(partial(sums_of, bases.Fourier()), 60)
    assert set(p) >= set(families.FIELDS) - {"regions"} | {"maps", "all together"}
    assert [name for name in p if not_uniform(p[name])] == []
    halves = bases.Regions(np.repeat([[0, 0, 0, 1, 1, 1]], 6, axis=0))
    p = of_every_family(partial(sums_of, halves), 40)
    assert [
        name for name in (*families.FIELDS, "maps") if name in p and not_uniform(p[name])
    ] == []
    assert "regions" in p


def test_p_values_of_exact_fields_in_wavelets_are_uniform(of_every_family, not_uniform):
    p = of_every_family(partial(sums_of, bases.Wavelet("haar")), 40)
    assert set(p) >= set(families.FIELDS) - {"regions"}
    assert [name for name in p if not_uniform(p[name])] == []
    p = of_every_family(partial(sums_of, bases.Wavelet("haar"), narrow=0.5), 20)
    assert {name for name in p if not_uniform(p[name])} >= {"scales", "all together"}


def test_p_values_of_narrow_fields_are_not(few_cells, of_every_family, not_uniform):
    p = of_every_family(partial(sums_of, bases.Fourier(), narrow=0.5), 20)
    assert {name for name in p if not_uniform(p[name])} >= {"scales", "maps", "all together"}


def test_oversmoothed_fields_lack_power_at_small_scales():
    sims = field("oversmoothed", shape=(12, 12), n_draws=20, rng=1)
    check = tarpon.check(sims, n_swaps=199, rng=1)
    (finding,) = check.findings
    assert finding.kind is Kind.POWER
    assert finding.where == "scales below 4 cells"
    assert finding.size.low < 0.9 < finding.size.high
    assert str(finding).endswith("of the power that they should")
    bands = check.evidence.bands
    assert [band.name for band in bands] == list(bases.Fourier().bands((12, 12)).names)
    assert bands[1].p_value <= 0.01
    assert bands[1].power.value > bands[1].accurate[1]
    assert bands[-1].accurate[0] < bands[-1].power.value < bands[-1].accurate[1]
    assert len(check.to_dict()["evidence"]["bands"]) == len(bands)


@pytest.mark.slow
@pytest.mark.parametrize("flaw", [flaw for flaw in FIELD_FLAWS if flaw != "exact"])
def test_flaws_of_fields_are_named(flaw):
    kinds, sims = set(FIELD_FLAWS[flaw].kinds), field(flaw, shape=(12, 12), n_draws=20, rng=2)
    scores = {"fit": Fit(lambda theta: theta)} if Kind.FIT in kinds else None
    check = tarpon.check(sims, scores=scores, n_swaps=99, rng=2)
    named = {finding.kind for finding in check.findings}
    assert named <= kinds
    assert {Kind.FIT} & kinds <= named
    assert named


def test_a_biased_patch_is_found_where_it_is():
    sims = field("biased_patch", shape=(12, 12), n_draws=20, rng=3)
    finding = tarpon.check(sims, n_swaps=99, rng=3).findings[0]
    assert finding.kind is Kind.BIASED
    assert finding.where == "a patch of 9 cells around (4, 4)"
    assert finding.size.low < 0.5 < finding.size.high


def test_widths_that_are_wrong_at_all_scales_are_named_once():
    exact = field(shape=(8, 8), n_draws=20, rng=4)
    mean = exact.samples.mean(axis=0)
    samples = (mean + 0.8 * (exact.samples - mean)).reshape(20, 200, 8, 8)
    sims = Simulations(samples, exact.theta.reshape(200, 8, 8))
    (finding,) = tarpon.check(sims, n_swaps=99, rng=4).findings
    assert finding.kind is Kind.OVERCONFIDENT
    assert not finding.parameters


def test_time_series_are_fields_if_they_have_a_basis():
    sims = field("oversmoothed", shape=(128,), n_sims=300, n_draws=20, rng=5)
    check = tarpon.check(sims, basis=bases.Fourier(), n_swaps=99, rng=5)
    assert check.findings[0].kind is Kind.POWER
    assert check.findings[0].where == "scales below 4 cells"


def test_wavelets_name_scales_and_directions():
    sims = field("oversmoothed", shape=(16, 16), n_draws=20, rng=2)
    check = tarpon.check(sims, basis=bases.Wavelet(), n_swaps=99, rng=2)
    assert check.findings[0].kind is Kind.POWER
    assert check.findings[0].where == "scales below 4 cells"
    assert [band.scale for band in check.evidence.bands][1] == (4.0, 8.0)
    sims = field("anisotropy_missed", shape=(16, 16), n_draws=20, rng=2)
    check = tarpon.check(sims, basis=bases.Wavelet(), n_swaps=99, rng=2)
    assert check.findings[0].kind is Kind.ANISOTROPY
    assert check.findings[0].direction == "along axis 1 and along axis 0"


@pytest.mark.parametrize("shape", [(12, 12), (9, 14)])
def test_a_missed_shear_is_named_by_its_diagonals(shape):
    sims = field("shear_missed", shape=shape, n_draws=20, rng=2)
    finding = tarpon.check(sims, n_swaps=99, rng=2).findings[0]
    assert finding.kind is Kind.ANISOTROPY
    along, across = (f"the diagonal axis 0 = {sign}axis 1" for sign in ("", "−"))
    assert finding.direction == f"along {across} and along {along}"
    assert finding.size.low > 1.2


def test_skewed_cells_of_large_fields_are_named_beside_scales():
    exact = field(shape=(40, 40), n_sims=100, n_draws=20, rng=3)
    truths, draws = (np.exp(0.5 * np.asarray(n)) for n in (exact.theta, exact.samples))
    mean = draws.mean(axis=0)
    mixed = np.random.default_rng(3).normal(size=(20, 20), scale=1 / np.sqrt(19))
    normal = (mean + np.tensordot(mixed, draws - mean, axes=1)).reshape(20, 100, 40, 40)
    finding = tarpon.check(normal, truths.reshape(100, 40, 40), n_swaps=99, rng=3).findings[0]
    assert (finding.kind, finding.unit) == (Kind.CELLS, "skewness of the cells")
    assert finding.size.low > 0.3


def test_vectors_have_no_bands():
    sims = field(shape=(8,), n_sims=20, n_draws=9, rng=5)
    assert not tarpon.check(sims, n_swaps=99, rng=5).evidence.bands


def test_a_shifted_region_is_named():
    rng = np.random.default_rng(6)
    points = rng.standard_normal((31, 100, 8, 8), dtype=np.float32)
    theta, samples = points[0], points[1:]
    samples[..., 4:] += 0.2
    labels = np.repeat([[0, 0, 0, 0, 1, 1, 1, 1]], 8, axis=0)
    check = tarpon.check(samples, theta, basis=bases.Regions(labels), n_swaps=99, rng=6)
    family = {family.name: family for family in check.families}["regions"]
    assert family.adjusted <= 0.02
    assert "region 1" in {finding.where for finding in check.findings}


@pytest.fixture(scope="module")
def large() -> Simulations:
    return field("oversmoothed", shape=(40, 40), n_sims=20, n_draws=9, rng=7)


def test_large_fields_have_blocks_of_cells_as_parameters(large):
    seen = []

    def total(theta, x):
        seen.append(theta.shape[-2:])
        return theta.sum(axis=(-1, -2))

    check = tarpon.check(large, scores={"total": total}, n_swaps=99, rng=7)
    assert len(check.parameters) == 256
    assert check.parameters[17].name == "theta[2:5, 2:5]"
    assert set(seen) == {(40, 40)}
    assert "maps" in {family.name for family in check.families}
    assert check.findings[0].kind is Kind.POWER


def test_stored_fields_give_the_same_answer(large, tmp_path):
    arrays = {"samples": large.samples.reshape(9, 20, 40, 40), "theta": large.theta}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", np.asarray(array))
    samples = np.load(tmp_path / "samples.npy", mmap_mode="r")
    theta = np.load(tmp_path / "theta.npy").reshape(20, 40, 40)
    stored = tarpon.check(Simulations(samples, theta), n_swaps=99, rng=7)
    here = tarpon.check(np.array(samples), theta, n_swaps=99, rng=7)
    assert stored.p_value == here.p_value
    assert stored.evidence.bands == here.evidence.bands


def test_fields_of_torch_are_checked_alike(large):
    torch = pytest.importorskip("torch")
    sims = field(shape=(8, 8), n_sims=20, n_draws=19, rng=8)
    samples, theta = sims.samples.reshape(19, 20, 8, 8), sims.theta.reshape(20, 8, 8)
    here = tarpon.check(samples, theta, n_swaps=99, rng=8)
    there = tarpon.check(torch.tensor(samples), torch.tensor(theta), n_swaps=99, rng=8)
    assert there.p_value == pytest.approx(here.p_value, abs=0.05)
    assert there.evidence.bands[0].power.value == pytest.approx(
        here.evidence.bands[0].power.value, rel=1e-4
    )


def test_weighted_fields_count_by_weight():
    sims = field(shape=(8, 8), n_sims=20, n_draws=19, rng=9)
    samples, theta = sims.samples.reshape(19, 20, 8, 8).copy(), sims.theta.reshape(20, 8, 8)
    samples[10:] *= 100.0
    weights = np.where(np.arange(19)[:, None] < 10, 0.0, -np.inf) + np.zeros((19, 20))
    weighted = Simulations(samples, theta, log_weights=weights, log_weights_theta=np.zeros(20))
    check = tarpon.check(weighted, n_swaps=99, rng=9)
    assert 0.5 < check.evidence.bands[1].power.value < 2


def test_fields_in_large_units_have_the_same_bands():
    sims = field(shape=(8, 8), n_sims=20, n_draws=19, rng=10)
    samples, theta = sims.samples.reshape(19, 20, 8, 8), sims.theta.reshape(20, 8, 8)
    here = tarpon.check(samples, theta, n_swaps=99, rng=10)
    large = tarpon.check(samples.astype(float) * 1e20, theta * 1e20, n_swaps=99, rng=10)
    assert large.evidence.bands[2].power.value == pytest.approx(
        here.evidence.bands[2].power.value, rel=1e-4
    )
    assert np.allclose(large.p_value, here.p_value, atol=0.05)


def test_the_exact_posterior_of_a_field_has_uniform_ranks():
    from scipy.stats import kstest

    sims = field(shape=(8, 8), n_sims=2000, n_draws=19, rng=11)
    _, found, _ = fields.measured(sims, bases.Fourier(), {})
    for scores in (found.power, found.width, found.follows, found.cells):
        ranks = (scores[:, 1:] < scores[:, :1]).sum(axis=1)
        u = (ranks + np.random.default_rng(0).uniform(size=ranks.shape)) / 20
        assert min(kstest(column, "uniform").pvalue for column in u.T) > FALSE_ALARM


@pytest.mark.parametrize("wrong", [False, True])
def test_fields_that_never_vary_at_a_scale_have_the_power_that_they_should(wrong):
    rng = np.random.default_rng(0)
    level = rng.normal(size=(21, 30, 1, 1)) + rng.normal(size=(30, 1, 1))
    flat = level * np.ones((8, 8))
    theta = flat[0] + wrong * rng.normal(size=(30, 8, 8))
    finest = tarpon.check(flat[1:], theta, rng=0, n_swaps=19).evidence.bands[0]
    assert finest.power.low <= finest.power.value <= finest.power.high
    assert (finest.power.value > 1e6) == wrong
    assert wrong or finest.power.value == 1

"""Patches of fields: where they are in words, how often there are any, and what is elsewhere."""

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations
from tarpon.checks.flaws import Kind
from tarpon.checks.mistakes import Cause
from tarpon.checks.patches import patches

FALSE_ALARM = 1e-6


def smooth(rng, n_rows=100, side=8):
    """Return standard normal sums of cells that depend on their neighbours."""
    z = rng.normal(size=(n_rows, side, side))
    z = z + np.roll(z, 1, axis=1) + np.roll(z, 1, axis=2)
    return z.reshape(n_rows, -1) / np.sqrt(3)


def test_accurate_cells_have_patches_no_more_often_than_the_level_says():
    rng, n = np.random.default_rng(0), 400
    n_found = sum(bool(patches(smooth(rng), (8, 8), 0.1, (8, 8))) for _ in range(n))
    assert n_found <= binom.ppf(1 - FALSE_ALARM, n, 0.1)


def with_cells(mask, size=6.0):
    """Return sums in which some cells are far off."""
    values = np.random.default_rng(1).normal(size=(200, mask.size)).clip(-2.5, 2.5)
    values[0] = np.where(mask.ravel(), size, values[0])
    return values


def where(mask, field=None, **given):
    found = patches(with_cells(mask, **given), mask.shape, 0.05, field or mask.shape)
    return [patch.where for patch in found]


def distance(shape):
    centre = np.reshape([(n - 1) / 2 for n in shape], (-1, *(1,) * len(shape)))
    return np.sqrt(((np.indices(shape) - centre) ** 2).sum(axis=0))


def test_patches_in_words():
    radius = distance((15, 15))
    disc, ring = radius <= 3, (radius > 3) & (radius <= 5)
    assert where(disc) == [
        f"a patch of {disc.sum()} cells around (7, 7) (rows 4–10, columns 4–10)"
    ]
    assert where(ring) == [f"a ring of {ring.sum()} cells around (7, 7) (rows 2–12, columns 2–12)"]
    (blocks,) = where(ring, field=(45, 30))
    about = round(ring.sum() * 6)
    assert blocks.startswith(f"a ring of about {about} cells around (22, 15) (rows 6–38, columns ")
    series = np.arange(60) // 20 == 1
    assert where(series) == ["a patch of 20 cells around 30 (cells 20–39)"]
    ball = distance((7, 7, 7)) <= 2
    assert where(ball)[0].endswith("(3, 3, 3) (axis 0: 1–5, axis 1: 1–5, axis 2: 1–5)")


def test_cells_that_touch_at_corners_are_one_patch():
    assert where(np.eye(12, dtype=bool))[0].startswith("a patch of 12 cells")


def test_a_patch_reaches_as_far_as_cells_are_clearly_off():
    mask = distance((15, 15)) <= 3
    values = with_cells(mask, size=3.3)
    values[0, 7 * 15 + 7] = 6.0
    (patch,) = patches(values, (15, 15), 0.05, (15, 15))
    assert len(patch.cells) == mask.sum()
    values[0, 7 * 15 + 7] = 0.0
    assert not patches(values.clip(-3, 3), (15, 15), 1e-3, (15, 15))


def ring(shape, factor, n_draws=20, seed=0):
    """Return exact posteriors of fields, but for the width of a ring."""
    exact = tarpon.problems.field(shape=shape, n_draws=n_draws, rng=seed)
    radius = 16 / shape[0] * distance(shape).ravel()
    width = np.where((radius >= 3) & (radius < 5.5), 1 / factor, 1.0)
    mean = exact.samples.mean(axis=0)
    samples = mean + width * (exact.samples - mean)
    return Simulations(samples.reshape(n_draws, -1, *shape), exact.theta.reshape(-1, *shape))


@pytest.mark.parametrize("shape", [(16, 16), (40, 40)])
def test_a_ring_of_a_wrong_width_is_named_with_what_is_elsewhere(shape):
    (finding, *_) = tarpon.check(ring(shape, 1.4), n_swaps=99, rng=0).findings
    assert finding.kind is Kind.OVERCONFIDENT
    assert finding.where.startswith("a ring of ")
    assert finding.size.low < 1.4
    assert finding.size.low > finding.elsewhere.high
    assert "; right elsewhere, " in str(finding)


def test_what_is_elsewhere_is_called_right_only_if_it_is():
    sims = ring((16, 16), 1.5)
    mean = sims.samples.mean(axis=0)
    narrow = (mean + 0.85 * (sims.samples - mean)).reshape(20, 200, 16, 16)
    theta = sims.theta.reshape(200, 16, 16)
    findings = tarpon.check(narrow, theta, n_swaps=99, rng=0).findings
    patch = next(finding for finding in findings if finding.elsewhere)
    assert patch.elsewhere.low > 1
    assert "right elsewhere" not in str(patch)
    assert f"; elsewhere {patch.elsewhere} times" in str(patch)


@pytest.mark.parametrize("shape", [(12, 12), (12, 12, 12)])
def test_a_biased_patch_has_no_wrong_width(shape):
    sims = tarpon.problems.field("biased_patch", shape=shape, n_draws=20, rng=1)
    findings = tarpon.check(sims, n_swaps=99, rng=1).findings
    assert {finding.kind for finding in findings} == {Kind.BIASED}


@pytest.mark.parametrize("by", [(1, 0), (0, -1), (-2, 1)])
def test_fields_that_are_moved_are_recognised(by):
    exact = tarpon.problems.field(shape=(12, 12), n_draws=20, rng=3)
    samples, theta = exact.samples.reshape(20, 200, 12, 12), exact.theta.reshape(200, 12, 12)
    moved = np.roll(samples, by, axis=(2, 3))
    advice = tarpon.check(moved, theta, n_swaps=99, rng=3).advice[0]
    assert advice.cause is Cause.MOVED
    line = str(advice).split("`samples = ")[1].split("`")[0]
    assert (eval(line, {"np": np, "samples": moved}) == samples).all()


@pytest.mark.parametrize("factor", [0.6, 1.5])
def test_fields_that_are_in_place_are_not_moved(factor):
    exact = tarpon.problems.field(shape=(12, 12), n_draws=20, rng=4)
    samples, theta = exact.samples.reshape(20, 200, 12, 12), exact.theta.reshape(200, 12, 12)
    check = tarpon.check(factor * samples, theta, n_swaps=99, rng=4)
    assert check.outcome == "inaccurate"
    assert Cause.MOVED not in {advice.cause for advice in check.advice}


def test_clipped_fields_are_not_in_other_units():
    exact = tarpon.problems.field(shape=(12, 12), n_draws=20, rng=5)
    samples = np.maximum(exact.samples, -0.8).reshape(20, 200, 12, 12)
    check = tarpon.check(samples, exact.theta.reshape(200, 12, 12), n_swaps=99, rng=5)
    assert check.advice[0].cause is Cause.CLIPPED

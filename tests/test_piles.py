"""Clipped cells of fields with many cells, which their means over blocks do not show."""

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon.checks import mistakes
from tarpon.checks.flaws import Kind
from tarpon.checks.many_cells import piles
from tarpon.checks.mistakes import Cause
from tarpon.checks.piles import clipped_cells

FALSE_ALARM = 1e-6
SHAPE, N_SIMS, N_DRAWS, BOUND = (33, 33), 30, 20, -0.8


@pytest.fixture(scope="module")
def exact():
    sims = tarpon.problems.field(shape=SHAPE, n_sims=N_SIMS, n_draws=N_DRAWS, rng=0)
    return sims.samples.reshape(N_DRAWS, N_SIMS, *SHAPE), sims.theta.reshape(N_SIMS, *SHAPE)


def check(samples, theta):
    return tarpon.check(samples, theta, n_swaps=39, rng=0)


def causes(found):
    return [advice.cause for advice in found.advice if advice.recognised]


@pytest.mark.parametrize("sign", [1, -1])
def test_clipped_cells_are_named_once(exact, sign):
    samples, theta = exact
    found = check(sign * np.maximum(samples, np.float32(BOUND)), sign * theta)
    assert causes(found) == [Cause.CLIPPED]
    about = found.advice[0]
    assert about.parameters == ()
    assert about.numbers["value"] == np.float32(sign * BOUND)
    assert about.numbers["share"] == pytest.approx((samples < BOUND).mean(), abs=1e-6)
    assert "of the draws of all cells are exactly" in str(about)
    assert not {Kind.OUTSIDE, Kind.ROUNDED} & {finding.kind for finding in found.findings}


def test_cells_that_are_clipped_in_a_part_of_the_field_are_named(exact):
    samples, theta = exact
    bright = np.zeros(SHAPE, np.float32)
    bright[:9, :9] = 10.0
    clipped = np.minimum(samples + bright, np.float32(10.5))
    assert causes(check(samples + bright, theta + bright)) == []
    assert Cause.CLIPPED in causes(check(clipped, theta + bright))


TWINS = {
    "exact": lambda samples, theta: (samples, theta),
    "both are clipped": lambda samples, theta: (
        np.maximum(samples, np.float32(BOUND)),
        np.maximum(theta, np.float32(BOUND)),
    ),
    "both are clipped, the truths in more digits": lambda samples, theta: (
        np.maximum(samples, np.float32(BOUND)),
        np.maximum(theta.astype(float), BOUND),
    ),
    "rounded": lambda samples, theta: (samples.round(), theta),
    "narrow": lambda samples, theta: (samples / 2, theta),
}


@pytest.mark.parametrize("twin", TWINS)
def test_fields_that_are_not_clipped_are_not_named(exact, twin):
    assert Cause.CLIPPED not in causes(check(*TWINS[twin](*exact)))


def test_stored_fields_are_recognised_too(exact, tmp_path):
    samples, theta = exact
    np.save(tmp_path / "samples.npy", np.maximum(samples, np.float32(BOUND)))
    stored = np.load(tmp_path / "samples.npy", mmap_mode="r")
    assert causes(check(stored, theta)) == [Cause.CLIPPED]


def study(rng, *, alike):
    """Return whether clipping is named in small fields of noise, of which truths are points."""
    points = rng.normal(size=(6, 40, 4))
    clipped = np.maximum(points, -2.0)
    draws, truths = clipped[1:], clipped[0] if alike else points[0]
    ends = np.stack([draws.min(axis=(0, 2)), draws.max(axis=(0, 2))], axis=1)
    at_ends = np.stack([(draws == end[:, None]).sum(axis=2) for end in ends.T], axis=2)
    sims = tarpon.Simulations(draws.reshape(5, 40, 2, 2), truths.reshape(40, 2, 2))
    return clipped_cells(sims, piles(ends, at_ends, 4)) is not None


def test_accurate_fields_are_named_no_more_often_than_the_level(monkeypatch):
    monkeypatch.setattr(mistakes, "LEVEL", 0.05 * 2 * 4)  # one side of fields of 4 cells: 5 %
    rng, n_studies = np.random.default_rng(0), 500
    n_named = sum(study(rng, alike=True) for _ in range(n_studies))
    assert n_named <= binom.ppf(1 - FALSE_ALARM, n_studies, 0.05)
    n_named = sum(study(rng, alike=False) for _ in range(n_studies))
    assert n_named > binom.ppf(1 - FALSE_ALARM, n_studies, 0.05)

"""Waves, neighbours, and the shares of truths that describe what they find."""

import re
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations, regions
from tarpon.checks import families, shares
from tarpon.checks.flaws import Kind

N_STUDIES, LEVEL = 40, 0.05


def exact(rng, n_sims=100, n_draws=60):
    """Return exact posteriors of two parameters, which lie on a thin ring."""
    angle = rng.uniform(0, 2 * np.pi, size=(n_draws + 1, n_sims))
    radius = 1 + 0.1 * rng.normal(size=angle.shape)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    points += rng.normal(size=(n_sims, 2))
    return points[1:], points[0]


def blurred(rng):
    """Draw from a ring that is three times as thick."""
    samples, theta = exact(rng)
    return samples + 0.3 * rng.normal(size=samples.shape), theta


def two_modes(rng, n_sims=200):
    """Return standard normal draws of truths with two modes, of the same mean and variance."""
    samples, theta = rng.normal(size=(100, n_sims, 2)), rng.normal(size=(n_sims, 2))
    theta[:, 1] = 0.9 * rng.choice([-1, 1], n_sims) + np.sqrt(0.19) * theta[:, 1]
    return samples, theta


def bent(rng, n_sims=200):
    """Return independent draws of truths of which one goes with the square of the other."""
    samples, theta = rng.normal(size=(100, n_sims, 2)), rng.normal(size=(n_sims, 2))
    size = np.sign(abs(theta[:, 0]) - 0.6745)
    theta[:, 1] = abs(theta[:, 1]) * size * rng.choice([1, 1, 1, 1, -1], n_sims)
    return samples, theta


@cache
def p_values(study):
    """Return the p-values of every family in some studies, by name."""
    found = {}
    for seed in range(N_STUDIES):
        rng = np.random.default_rng([seed, 77])
        sims = Simulations(*study(rng))
        sums = families.swapped(sims, {}, None, n_swaps=99, rng=rng)
        for name, values in families.families(sums).items():
            found.setdefault(name, []).append((values >= values[0] - 1e-9).mean())
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("name", ["neighbours", "shapes", "pair shapes"])
def test_exact_rings_are_rejected_as_often_as_the_level_says(name):
    n_rejected = (p_values(exact)[name] <= LEVEL).sum()
    assert n_rejected <= binom.ppf(1 - 1e-7, N_STUDIES, LEVEL)


@pytest.mark.parametrize(
    ("name", "study"),
    [("neighbours", blurred), ("shapes", two_modes), ("pair shapes", bent)],
    ids=["neighbours", "shapes", "pair shapes"],
)
def test_and_what_they_are_for_is_seen(name, study):
    """The twins: at a power of 0.9, fewer than half are rejected once in 10^8 runs."""
    assert (p_values(study)[name] <= LEVEL).sum() >= N_STUDIES / 2


def test_distances_to_neighbours_are_those_of_their_definition():
    rng = np.random.default_rng(0)
    sims = Simulations(rng.normal(size=(40, 3, 2)), rng.normal(size=(3, 2)))
    (block,) = sims.blocks()
    found = regions.Neighbours(20).scores(block)
    assert found.shape == (41, 3, 4)
    for i, j in np.ndindex(3, 41):
        y = block.whitened[:, i].astype(float)
        gaps = sorted(((y[j] - y[k]) ** 2).sum() for k in range(20) if k != j)
        np.testing.assert_allclose(found[j, i], [gaps[k - 1] for k in (1, 2, 4, 8)], rtol=1e-4)


@pytest.mark.parametrize("n_draws", [1, 2, 5, 9])
def test_few_points_have_as_many_neighbours_as_there_are(n_draws):
    rng = np.random.default_rng(0)
    sims = Simulations(rng.normal(size=(n_draws, 4, 2)), rng.normal(size=(4, 2)))
    (block,) = sims.blocks()
    found = regions.Neighbours().scores(block)
    assert found.shape[:2] == (n_draws + 1, 4)
    assert (np.diff(found, axis=2) >= 0).all()


def finding(study, seed=0):
    return tarpon.check(*study(np.random.default_rng(seed)), n_swaps=199, rng=0).findings[0]


def test_modes_and_dependence_are_named():
    modes, bend = finding(two_modes), finding(bent)
    assert modes.kind in (Kind.TAILS, Kind.SHAPE)
    assert modes.parameters == ("theta_1",)
    assert bend.kind is Kind.DEPENDENCE
    assert bend.parameters == ("theta_0", "theta_1")


def test_cells_of_fields_are_named_rather_than_pairs_of_them():
    """Amplitudes per cell in the truths, and per map in the draws."""
    rng = np.random.default_rng(0)

    def fields(*shape, of):
        amplitude = np.where(rng.random((*shape, *of)) < 0.5, 0.5, 1.3)
        return amplitude * rng.normal(size=(*shape, 16, 16))

    draws, truths = fields(50, 100, of=(1, 1)), fields(100, of=(16, 16))
    check = tarpon.check(draws, truths, n_swaps=199, rng=0)
    assert [finding.kind for finding in check.findings] == [Kind.CELLS]


class Found:
    """What `shares` needs to know of posteriors that were rejected."""

    def __init__(self, samples, theta):
        rng = np.random.default_rng(0)
        self.sims = Simulations(samples, theta)
        self.sums = families.swapped(self.sims, {}, None, n_swaps=99, rng=rng)
        below = (samples < theta).sum(axis=0)
        self.u = (below + 0.5) / (len(samples) + 1)

    def names(self, *places):
        return tuple(f"theta_{k}" for k in places)


@pytest.fixture
def shares_of(monkeypatch):
    """Return a function that describes a study by shares, whatever else might name it."""
    monkeypatch.setattr(shares, "_shares_below", lambda found: found.u)
    return lambda study, describe: describe(Found(*study(np.random.default_rng(0))), 0.01)


def test_two_modes_leave_a_gap_in_the_middle(shares_of):
    (found,) = shares_of(two_modes, shares.of_one)
    words = str(found.finding)
    assert words.startswith("wrong shape in theta_1: ")
    assert words.endswith("of the truths lie in the middle fifth of the draws, not 20%")
    assert found.finding.size.high < 0.2
    assert found.last


def test_a_bend_is_told_by_halves_of_two_parameters(shares_of):
    (found,) = shares_of(bent, shares.of_two)
    words = str(found.finding)
    assert words.startswith("wrong dependence between theta_0 and theta_1: ")
    where = (
        r"where theta_0 is in the (middle|outer) and theta_1 in the (lower|upper) half of their"
    )
    assert re.search(where, words)
    size, expected = found.finding.size, found.finding.expected
    assert expected == pytest.approx(1 / 4, abs=0.01)
    assert not size.low <= expected <= size.high


def test_exact_posteriors_have_no_share_that_is_off(shares_of):
    (one,), (two,) = (shares_of(exact, of) for of in (shares.of_one, shares.of_two))
    assert one.finding.size is two.finding.size is None
    assert str(one.finding).endswith("no single number describes it")
    assert str(two.finding).endswith("no single number describes it")


def test_what_is_printed_is_off_too():
    """An interval from 10.6 % is printed as 11 %, and 11.1 % as well."""
    share = tarpon.ranks.proportion(50, 300, 0.05 / 9)
    assert 0.105 < share.low < 1 / 9 or share.low > 1 / 9
    assert not shares._off(share, round(share.low, 2))
    assert shares._off(share, share.low - 0.02)

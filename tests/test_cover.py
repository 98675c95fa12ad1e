"""Regions that hold. Random tests fail with a probability of at most 1e-6 under a right level."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import beta, binom, kstest, t

import tarpon
from tarpon.cli import main
from tarpon.mending.cover import fewest_sims, place
from tarpon.mending.distances import Ellipsoids
from tarpon.regions import Balls, HalfLines, HighestDensity, Scores

LIMIT = 1e-6


def narrow(n_sims, rng, *, width=0.4, n_draws=40, n_dims=1):
    """Return simulations whose draws are too narrow by a factor."""
    centre = rng.normal(size=(n_sims, n_dims))
    draws = centre + width * rng.normal(size=(n_draws, n_sims, n_dims))
    return tarpon.Simulations(draws, centre + rng.normal(size=(n_sims, n_dims)))


def coverage(threshold, n_centre, width):
    """Return the probability of a distance up to a threshold, for one parameter, in closed form.

    The truth less the mean of the draws has variance 1 + w²/m, and their variance is w²/m times a
    chi-squared number with m - 1 degrees of freedom.
    """
    unit = np.sqrt((1 + width**2 / n_centre) * n_centre / (n_centre - 1)) / width
    return 2 * t(n_centre - 1).cdf(np.asarray(threshold) / unit) - 1


def within(count, n, probability):
    """Return whether a count lies within exact limits."""
    low, high = binom(n, probability).ppf([LIMIT / 2, 1 - LIMIT / 2])
    return low <= count <= high


@pytest.mark.parametrize("n_sims", [50, 200, 1000])
@pytest.mark.parametrize("sure", [None, 0.95])
def test_coverage_follows_the_beta_law(n_sims, sure):
    rng, found = np.random.default_rng([n_sims, sure is None]), []
    for _ in range(200):
        cover = tarpon.cover(narrow(n_sims, rng), sure=sure, rng=0)
        found.append(coverage(cover.thresholds[0].value, cover.n_centre, 0.4))
    k = place(n_sims, 0.9, sure)
    law = beta(k, n_sims + 1 - k)
    assert kstest(found, law.cdf).pvalue > LIMIT
    assert within((np.array(found) < 0.9).sum(), 200, law.cdf(0.9))
    if sure is not None:
        assert law.cdf(0.9) <= 0.05 < beta(k - 1, n_sims + 2 - k).cdf(0.9)


def test_a_threshold_without_the_new_truth_covers_too_little():
    rng = np.random.default_rng(0)
    fresh = [narrow(10, rng) for _ in range(500)]
    scores = [np.sort(_distances(sims)) for sims in fresh]
    right = sum(coverage(one[place(10, 0.9, None) - 1], 20, 0.4) for one in scores) / 500
    twin = sum(coverage(one[8], 20, 0.4) for one in scores) / 500  # the ⌈N c⌉-th smallest
    assert right > 0.9 - 0.02  # 0.909 with a standard error below 0.004
    assert twin < 0.85  # 0.818


def _distances(sims):
    return Ellipsoids.of(np.asarray(sims.samples[::2])).distances(sims.theta[None])[0]


def test_calibrated_levels_run_past_the_outermost_draw():
    rng, past, held = np.random.default_rng(1), 0, 0
    for _ in range(60):
        sims = narrow(200, rng, width=0.6, n_draws=100, n_dims=2)
        ellipsoids = Ellipsoids.of(sims.samples[::2])
        own = ellipsoids.distances(sims.theta[None])[0]
        level = (ellipsoids.distances(sims.samples[1::2]) < own).mean(axis=0)
        past += np.sort(level)[place(200, 0.9, None) - 1] == 1
        cover = tarpon.cover(sims, rng=0)
        new = narrow(1, rng, width=0.6, n_draws=100, n_dims=2)
        held += cover.holds(new.theta[0], new.samples[:, 0])[0]
    assert past > 50
    assert within(held, 60, 181 / 201)


def test_draws_that_place_a_region_do_not_show_its_level():
    rng = np.random.default_rng(2)
    sims = narrow(500, rng, width=1.0, n_draws=40, n_dims=8)
    cover = tarpon.cover(sims, rng=0)
    honest = np.mean([cover.level(sims.samples[:, i]) for i in range(100)])
    ellipsoids = Ellipsoids.of(sims.samples[::2])
    twin = (ellipsoids.distances(sims.samples[::2]) <= cover.thresholds[0].value).mean()
    assert abs(honest - 0.9) < 0.06  # exact posteriors: the truth is one more draw
    assert twin > 0.99


def test_groups_hold_group_by_group_and_a_common_threshold_does_not():
    rng = np.random.default_rng(3)

    def study(n):
        x = rng.normal(size=(n, 2))
        draws = x + rng.normal(size=(40, n, 2))
        truths = x + np.where(x[:, :1] > 0, 1.5, 0.7) * rng.normal(size=(n, 2))
        return tarpon.Simulations(draws, truths, x=x)

    def covered(cover, fresh):
        each = zip(fresh.theta, fresh.samples.swapaxes(0, 1), fresh.x, strict=True)
        held = np.array([cover.holds(*one[:2], x_o=one[2])[0] for one in each])
        return held[fresh.x[:, 0] > 0], held[fresh.x[:, 0] <= 0]

    sims, fresh = study(4000), study(4000)
    common = tarpon.cover(sims, rng=0)
    apart = tarpon.cover(sims, groups=lambda x: x[:, 0] > 0, rng=0)
    wide, slim = covered(common, fresh)
    assert wide.mean() < 0.84
    assert slim.mean() > 0.97
    assert common.difference.p_value == 0.001
    assert "Warning: coverage depends on the observation (p = 0.001" in str(common)
    for held in covered(apart, fresh):
        assert abs(held.mean() - 0.9) < 5.5 * np.sqrt(2 * 0.09 / len(held))
    assert apart.difference is None
    assert [one.group for one in apart.thresholds] == ["False", "True"]


def test_a_difference_is_found_in_five_per_cent_of_equal_coverages():
    rng, n_found = np.random.default_rng(4), 0
    for _ in range(200):
        sims = narrow(100, rng, n_draws=6)
        with_x = tarpon.Simulations(sims.samples, sims.theta, x=rng.normal(size=(100, 2)))
        n_found += tarpon.cover(with_x, rng=rng).difference.p_value <= 0.05
    assert n_found <= binom(200, 0.05).ppf(1 - LIMIT)


def test_groups_by_labels_and_by_where(tmp_path):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1000, 2))
    draws = x + rng.normal(size=(40, 1000, 2))
    truths = x + np.where(x[:, :1] > 0, 2.0, 0.7) * rng.normal(size=(1000, 2))
    sims = tarpon.Simulations(draws, truths, x=x)
    by_label = tarpon.cover(sims, groups=np.where(x[:, 0] > 0, "wide", "slim"), rng=0)
    by_function = tarpon.cover(sims, groups=lambda x: x[:, 0] > 0, rng=0)
    assert [one.value for one in by_label.thresholds] == [
        one.value for one in by_function.thresholds
    ]
    with pytest.raises(ValueError, match=r"differ by group: pass `group=`"):
        by_label.holds(truths[0], draws[:, 0])
    with pytest.raises(ValueError, match=r"`group` must be one of 'slim', 'wide', but got 'big'"):
        by_label.level(draws[:, 0], group="big")
    named = tarpon.cover(sims, groups=tarpon.where(sims, rng=0), rng=0)
    named.save(tmp_path / "cover.npz")
    again = tarpon.load(tmp_path / "cover.npz")
    point = again.level(draws[:, 0], x_o=x[0])
    assert point == named.level(draws[:, 0], x_o=x[0])
    assert str(again) == str(named)


def test_membership_level_and_contour_agree():
    rng = np.random.default_rng(6)
    sims = narrow(300, rng, width=0.7, n_draws=200, n_dims=3)
    cover = tarpon.cover(sims, rng=0)
    draws = sims.samples[:, 0]
    assert cover.level(draws) == cover.holds(draws[1::2], draws).mean()
    flat = tarpon.Simulations(sims.samples[..., :2], sims.theta[:, :2], names=["a", "b"])
    pair = tarpon.cover(flat, rng=0)
    outline = pair.contour(draws[:, :2], ("b", "a"))[:, ::-1]
    centre = draws[::2, :2].mean(axis=0)
    assert outline.shape == (200, 2)
    np.testing.assert_allclose(outline[0], outline[-1])
    assert pair.holds(centre + 0.999 * (outline - centre), draws[:, :2]).all()
    assert not pair.holds(centre + 1.001 * (outline - centre), draws[:, :2]).any()
    shadow = cover.contour(draws, (0, 1))
    inside = draws[cover.holds(draws, draws)][:, :2] - centre
    assert (abs(inside).max(axis=0) <= abs(shadow - centre).max(axis=0) + 1e-9).all()


def test_units_and_order_of_parameters_do_not_matter():
    sims = narrow(100, np.random.default_rng(7), n_dims=3)
    unit = np.array([1e-9, 3.0, 1e12])[[2, 0, 1]]
    other = tarpon.Simulations(sims.samples[..., ::-1] * unit, sims.theta[:, ::-1] * unit)
    values = [tarpon.cover(one, rng=0).thresholds[0].value for one in (sims, other)]
    np.testing.assert_allclose(*values, rtol=1e-9)


def test_any_region_with_one_score():
    sims = tarpon.problems.zoo("narrow", n_sims=200, rng=0)
    dense = tarpon.cover(sims, region=HighestDensity(), rng=0)
    own = np.sort(-np.asarray(sims.log_prob_theta))
    assert dense.thresholds[0].value == own[180]
    held = [
        dense.holds(sims.theta[i], sims.samples[:, i], log_prob=sims.log_prob_theta[i])[0]
        for i in range(200)
    ]
    assert sum(held) == 181
    from_x = Scores(lambda theta, x: np.square(theta - 0.8 * x).sum(axis=-1))
    own = np.square(sims.theta - 0.8 * sims.x).sum(axis=1)
    ball = tarpon.cover(sims, region=from_x, rng=0)
    held = ball.holds(sims.theta[:150], sims.samples[:, 0], x_o=sims.x[0])
    near = np.square(sims.theta[:150] - 0.8 * sims.x[0]).sum(axis=1)
    np.testing.assert_array_equal(held, near <= np.sort(own)[180])
    with pytest.raises(ValueError, match="only the region by distance has an outline"):
        ball.contour(sims.samples[:, 0])
    with pytest.raises(ValueError, match="only the region by distance and `HighestDensity`"):
        ball.save("never.npz")
    with pytest.raises(ValueError, match="must have one score per point, but it has 2"):
        tarpon.cover(sims, region=HalfLines())
    with pytest.raises(ValueError, match="`Balls` holds numbers per simulation"):
        tarpon.cover(sims, region=Balls(np.zeros((200, 2))))


def test_unequal_and_weighted_draws():
    rng = np.random.default_rng(8)
    centre = rng.normal(size=(300, 2))
    listed = [one + 0.5 * rng.normal(size=(10 + i % 7, 2)) for i, one in enumerate(centre)]
    sims = tarpon.Simulations(listed, centre + rng.normal(size=(300, 2)))
    cover = tarpon.cover(sims, rng=0)
    assert cover.n_centre == 5
    held = sum(bool(cover.holds(sims.theta[i], listed[i])[0]) for i in range(300))
    assert held == cover.thresholds[0].place
    draws = centre + rng.normal(size=(60, 300, 2))
    weights = -np.square(draws - centre).sum(axis=-1)
    weighted = tarpon.Simulations(draws, sims.theta, log_weights=weights)
    assert 2 <= tarpon.cover(weighted, rng=0).n_centre < 30


def test_parameters_whose_draws_are_all_equal():
    rng = np.random.default_rng(9)
    draws = np.concatenate([rng.normal(size=(20, 100, 1)), np.ones((20, 100, 1))], axis=-1)
    truths = np.concatenate([rng.normal(size=(100, 1)), np.ones((100, 1))], axis=-1)
    truths[:5, 1] = 0
    cover = tarpon.cover(tarpon.Simulations(draws, truths), rng=0)
    np.testing.assert_array_equal(cover.holds([[0, 1], [0, 0]], draws[:, 0]), [True, False])
    truths[:20, 1] = 0
    with pytest.raises(ValueError, match="20 of 100 truths of `sims` lie infinitely far"):
        tarpon.cover(tarpon.Simulations(draws, truths), rng=0)


def test_too_few_simulations_are_refused_in_words():
    rng = np.random.default_rng(10)
    for level, sure in ((0.9, None), (0.99, None), (0.9, 0.95), (0.68, 0.999)):
        n = fewest_sims(level, sure)
        assert tarpon.cover(narrow(n, rng), level, sure=sure).thresholds[0].place == n
        with pytest.raises(ValueError, match=f"needs at least {n} `sims`, but there are"):
            tarpon.cover(narrow(n - 1, rng), level, sure=sure)
    with pytest.raises(ValueError, match=r"in the group 'a', but there are 3: simulate more"):
        tarpon.cover(narrow(50, rng), groups=["a"] * 3 + ["b"] * 47)
    with pytest.raises(ValueError, match="at least 4 draws, equally weighted, but one has 3"):
        tarpon.cover(narrow(50, rng, n_draws=3))


@pytest.mark.parametrize(
    ("groups", "error", "said"),
    [
        (3, TypeError, "must be labels"),
        ([1, 2], ValueError, r"one label per observation, \(50,\)"),
        (lambda x: x, ValueError, r"pass `x=`"),
        ([np.nan] * 50, ValueError, "NaN or infinite"),
        ((), ValueError, "leave `groups` out"),
    ],
)
def test_wrong_groups(groups, error, said):
    with pytest.raises(error, match=said):
        tarpon.cover(narrow(50, np.random.default_rng(11)), groups=groups)


def test_wrong_points_and_draws():
    cover = tarpon.cover(narrow(50, np.random.default_rng(12), n_dims=2), rng=0)
    draws = np.zeros((40, 2))
    with pytest.raises(ValueError, match=r"`theta` must be points, \(n, 2\)"):
        cover.holds([1.0, 2.0, 3.0], draws)
    with pytest.raises(ValueError, match="at least the 20 that each simulation was scored by"):
        cover.holds([1.0, 2.0], draws[:19])
    with pytest.raises(ValueError, match="more than the 20 draws by which the region is placed"):
        cover.level(draws[:20])
    with pytest.raises(ValueError, match="two different parameters"):
        cover.contour(draws, (0, 0))
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
        tarpon.cover(narrow(50, np.random.default_rng(13)), 90)


def test_saved_and_damaged(tmp_path):
    cover = tarpon.cover(tarpon.problems.zoo("narrow", rng=0), sure=0.9, rng=0)
    path = tmp_path / "cover.npz"
    cover.save(path)
    again = tarpon.load(path)
    assert again.to_dict() == cover.to_dict()
    with np.load(path) as file:
        members = dict(file)
    for name, value, said in (
        ("places", np.array([500]), "whole numbers from 0 to 200"),
        ("thresholds", np.array([np.nan]), "finite doubles"),
        ("before", np.array([[0.0, 2.0, 0.0]]), "from 0 to 1"),
    ):
        np.savez(path, **{**members, name: value})
        with pytest.raises(ValueError, match=said):
            tarpon.load(path)
    about = json.loads(str(members["about"])) | {"n_centre": 1}
    np.savez(path, **{**members, "about": np.array(json.dumps(about))})
    with pytest.raises(ValueError, match="'n_centre' must be at least 2"):
        tarpon.load(path)


def test_words_and_json():
    cover = tarpon.cover(tarpon.problems.zoo("narrow", rng=0), sure=0.95, rng=0)
    assert str(cover).splitlines()[0] == (
        "cover, 200 simulations: regions contain the truth in at least 90% of cases, with 95% "
        "confidence (exact)."
    )
    found = json.loads(cover.to_json())
    assert found["schema"] == "tarpon-cover-1"
    assert found["thresholds"][0]["place"] == place(200, 0.9, 0.95)


def test_command(tmp_path):
    sims = tarpon.problems.zoo("narrow", rng=0)
    draws, out = tmp_path / "draws.npz", tmp_path / "cover.npz"
    np.savez(draws, samples=sims.samples, theta=sims.theta)
    call = ["cover", str(draws), "--sure", "0.95", "--rng", "0", "--out", str(out)]
    answer = CliRunner().invoke(main, call)
    assert answer.exit_code == 0, answer.output
    assert "in at least 90% of cases, with 95% confidence" in " ".join(answer.output.split())
    assert tarpon.load(out).sure == 0.95
    answer = CliRunner().invoke(main, ["cover", str(draws), "--level", "0.999"])
    assert answer.exit_code == 2
    assert "at least 999 " in " ".join(answer.output.split())


def test_stored_arrays_give_the_same(tmp_path):
    sims = tarpon.problems.zoo("narrow", n_sims=300, rng=0)
    every = {name: getattr(sims, name) for name in ("samples", "theta", "x")}
    for name, array in every.items():
        np.save(tmp_path / f"{name}.npy", array)
    stored = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in every}
    first, second = (
        tarpon.cover(tarpon.Simulations(**arrays), rng=0).to_dict() for arrays in (every, stored)
    )
    assert first == second

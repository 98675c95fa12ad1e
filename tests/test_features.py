"""Features of the data: what they are made of, what they are called, and how many there are."""

from dataclasses import replace
from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest

from tarpon import Simulations
from tarpon._base import threads
from tarpon.checks import families, features, labellings, products
from tarpon.checks.products import Sizes

CHOSEN = 3


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of linear algebra wait for each other longer than such small matrices take."""
    with threads.one_thread_each():
        yield


def study(n_sims=200, n_dims=3, n_columns=5, seed=0):
    """Return data of which some columns go with the posterior means, and the means."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_sims, n_columns)) @ rng.normal(size=(n_columns, n_columns))
    mean = x @ rng.normal(size=(n_columns, n_dims)) + rng.normal(size=(n_sims, n_dims))
    return 7 + 3 * x, mean - 2


def squares_first(pair):
    """Return the place of a pair in the order of products."""
    return pair[0] < pair[1], pair


def made(data, means, n_chosen=CHOSEN, seed=0):
    return features.features(data, means, n_chosen, np.random.default_rng(seed))


def standardised(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


class TestValues:
    def test_plain_features_are_the_columns_in_their_order(self):
        x, means = study()
        found = made(x, means)
        assert found.plain == 5
        assert not found.principal
        assert found.values.dtype == np.float32
        np.testing.assert_allclose(found.values[:, :5], standardised(x), atol=1e-5)
        np.testing.assert_allclose(found.means, standardised(means), atol=1e-5)
        np.testing.assert_array_equal(found.columns, np.arange(5))
        np.testing.assert_array_equal(found.share[:5], 1)

    def test_products_are_those_of_all_pairs_of_plain_features(self):
        x, means = study()
        found, z = made(x, means), standardised(x)
        wanted = sorted(combinations_with_replacement(range(5), 2), key=squares_first)
        assert found.pairs.tolist() == [list(pair) for pair in wanted]
        both = np.column_stack([z[:, a] * z[:, b] for a, b in wanted])
        np.testing.assert_allclose(found.values[:, found.products], standardised(both), atol=1e-4)
        assert not found.share[found.products].any()

    def test_waves_are_orthonormal_and_share_one(self):
        x, means = study()
        found = made(x, means)
        waves = found.values[:, found.waves].astype(float)
        assert waves.shape == (200, 32)
        np.testing.assert_allclose(waves.T @ waves / 200, np.eye(32), atol=1e-3)
        np.testing.assert_allclose(waves.mean(axis=0), 0, atol=1e-3)
        share = found.share[found.waves]
        assert share.sum() == pytest.approx(1, abs=1e-5)
        assert (np.diff(share) <= 0).all()

    def test_waves_see_what_products_do_not(self):
        """A function of the data that is neither linear nor a product of two columns."""
        x, means = study(n_sims=400, n_columns=2)
        found = made(x, means)
        z = standardised(x)
        bump = np.exp(-(z[:, 0] ** 2) - z[:, 1] ** 2)

        def explained(columns):
            columns = np.column_stack([np.ones(400), columns])
            rest = bump - columns @ np.linalg.lstsq(columns, bump, rcond=None)[0]
            return 1 - rest.var() / bump.var()

        assert explained(found.values[:, found.waves]) > 0.9
        assert explained(found.values[:, : found.waves.start]) < 0.9

    def test_every_feature_has_mean_zero_and_sd_one(self):
        for data, means in (study(), study(n_columns=100), (None, study()[1])):
            values = made(data, means).values.astype(float)
            np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-4)
            np.testing.assert_allclose(values.std(axis=0), 1, atol=1e-3)

    def test_features_of_some_simulations_are_their_rows(self):
        whole = made(*study())
        some = whole[20:50]
        for name in ("values", "means", "guides"):
            np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[20:50])
        for name in ("share", "pairs", "leading", "columns"):
            assert getattr(some, name) is getattr(whole, name)

    def test_units_of_the_data_do_not_matter(self):
        x, means = study()
        scaled = made(x * [1e-300, 1e300, 1.0, -1e-20, 1e5], 1e200 * means)
        found = made(x * [1, 1, 1, -1, 1], means)
        for name in ("values", "means", "guides"):
            ours, wanted = getattr(scaled, name), getattr(found, name)
            np.testing.assert_allclose(ours, wanted, atol=1e-3, err_msg=name)

    def test_leading_features_go_with_a_posterior_mean(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(400, 20))
        means = x[:, [12, 4]] + 0.5 * rng.normal(size=(400, 2))
        found = made(x, means)
        together = abs(standardised(x).T @ standardised(means)).max(axis=1) / np.sqrt(400)
        clear = [k for k in range(20) if together[k] >= 3]
        assert set(clear) >= {4, 12}
        others = [k for k in range(20) if k not in clear]
        assert found.leading.tolist() == [*clear, *others][:8]
        assert len(made(x[:, :5], means).leading) == 5

    def test_products_are_made_of_features_that_go_with_a_mean_first(self, monkeypatch):
        monkeypatch.setattr(features, "MOST_PRODUCTS", 6)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(400, 20))
        means = x[:, [12, 4, 17]] + 0.5 * rng.normal(size=(400, 3))
        found = made(x, means)
        wanted = [[4, 4], [12, 12], [17, 17], [4, 12], [4, 17], [12, 17]]
        assert found.pairs.tolist() == wanted

    @pytest.mark.parametrize("n_sims", [2, 3, 5])
    @pytest.mark.parametrize("n_columns", [1, 3, 100])
    def test_a_few_simulations_have_finite_features(self, n_sims, n_columns):
        found = made(*study(n_sims=n_sims, n_columns=n_columns))
        for values in (found.values, found.share, found.means, found.guides):
            assert np.isfinite(values).all()
        assert found.values.shape == (n_sims, len(found.share))

    def test_no_feature_knows_which_point_is_the_truth(self):
        rng = np.random.default_rng(0)
        points, x = rng.normal(size=(8, 40, 2)), rng.normal(size=(40, 3))
        both = []
        for order in (np.arange(8), np.roll(np.arange(8), 3)):
            sims = Simulations(points[order][1:], points[order][0])
            sums = families.swapped(sims, {}, x, n_swaps=9, rng=np.random.default_rng(1))
            both.append(sums.features)
        for name in ("values", "means", "guides"):
            ours, wanted = (getattr(one, name) for one in both)
            np.testing.assert_allclose(ours, wanted, atol=1e-5, err_msg=name)


class TestColumnsThatNeverVary:
    @pytest.mark.parametrize("pair", [(0.1, 0.3), (-1, 1), (1e4 + 0.1, 1e4 + 0.3), (0, 1e-300)])
    def test_squares_of_two_values_never_vary(self, pair):
        """But for rounding, which must not pass for a feature."""
        x, means = study()
        x[:, 0] = np.repeat(pair, 100)
        found = made(x, means)
        squares = found.values[:, found.products][:, found.pairs[:, 0] == found.pairs[:, 1]]
        assert not squares[:, 0].any()
        assert squares[:, 1:].any(axis=0).all()

    def test_columns_that_never_vary_are_left_out(self):
        x, means = study()
        x[:, 1], x[:, 4] = 5.0, 0.0
        found, kept = made(x, means), made(x[:, [0, 2, 3]], means)
        assert found.plain == 3
        assert found.columns.tolist() == [0, 2, 3]
        for name in ("values", "share", "pairs", "leading", "guides"):
            np.testing.assert_array_equal(getattr(found, name), getattr(kept, name))

    def test_data_that_never_vary_have_no_features(self):
        _, means = study()
        found = made(np.ones((200, 4)), means)
        assert (found.plain, found.values.shape) == (0, (200, 0))
        assert not found.guides.any()

    def test_means_that_never_vary_are_zero(self):
        x, means = study()
        means[:, 1] = 3.0
        found, alone = made(x, means), made(None, means)
        assert not found.means[:, 1].any()
        assert not found.guides[:, 1].any()
        assert alone.columns.tolist() == [0, 2]
        assert alone.namer(None, "x", ("a", "b", "c"))(1) == "the posterior mean of c"

    def test_wide_data_count_only_columns_that_vary(self):
        x, means = study(n_columns=80)
        more = np.concatenate([np.full((200, 9), 2.0), x], axis=1)
        found, wanted = made(more, means), made(x, means)
        np.testing.assert_allclose(found.guides, wanted.guides, atol=1e-4)


class TestNames:
    def names(self, data, n=100, label="x", means=None):
        _, usual = study()
        found = made(data, usual if means is None else means)
        name = found.namer(data, label, ("a", "b", "c"))
        return [name(k) for k in range(min(n, found.waves.start))]

    def test_products_are_called_by_their_factors(self):
        x, _ = study(n_columns=3)
        assert self.names(x) == [
            *("x[0]", "x[1]", "x[2]"),
            *("x[0]²", "x[1]²", "x[2]²", "x[0] × x[1]", "x[0] × x[2]", "x[1] × x[2]"),
        ]

    def test_columns_keep_their_names_where_others_never_vary(self):
        x, _ = study(n_columns=3)
        x[:, 1] = 4.0
        assert self.names(x) == ["x[0]", "x[2]", "x[0]²", "x[2]²", "x[0] × x[2]"]

    def test_names_are_places_in_the_data(self):
        x, _ = study(n_columns=6)
        image = x.reshape(200, 2, 3)
        image[:, 0, 0] = 1.0
        assert self.names(image, 6, "summary(x)") == [
            *("summary(x)[0, 1]", "summary(x)[0, 2]", "summary(x)[1, 0]", "summary(x)[1, 1]"),
            *("summary(x)[1, 2]", "summary(x)[0, 1]²"),
        ]
        assert self.names(x[:, 1]) == self.names(x[:, 1:2]) == ["x", "x²"]

    def test_names_of_means_stand_in_for_data(self):
        _, means = study(n_dims=2)
        means = np.column_stack([means[:, 0], np.zeros(200), means[:, 1]])
        assert self.names(None, means=means) == [
            "the posterior mean of a",
            "the posterior mean of c",
            "the posterior mean of a²",
            "the posterior mean of c²",
            "the posterior mean of a × the posterior mean of c",
        ]

    def test_components_are_counted_from_one(self):
        x, _ = study(n_columns=70)
        names = self.names(x)
        assert names[0] == "principal component 1 of x"
        assert names[63] == "principal component 64 of x"
        assert names[64] == "principal component 1 of x²"
        squares = {f"principal component {k} of x²" for k in range(1, 65)}
        first = next(name for name in names[64:] if name not in squares)
        assert first == "principal component 1 of x × principal component 2 of x"


def overlap(ours, wanted):
    """Return the smallest cosine between two spaces of standardised features."""
    first, second = (np.linalg.qr(one)[0] for one in (ours, wanted))
    return np.linalg.svd(first.T @ second, compute_uv=False).min()


class TestGuides:
    def test_guides_are_orthogonal_to_posterior_means(self):
        for n_columns in (5, 100):
            x, means = study(n_columns=n_columns)
            found = made(x, means)
            cosines = found.guides.T.astype(float) @ found.means / 200
            np.testing.assert_allclose(cosines, 0, atol=1e-5)
            np.testing.assert_allclose(found.guides.std(axis=0), 1, rtol=1e-3)

    def test_guides_of_many_parameters_are_orthogonal_to_their_own_means(self):
        x, means = study(n_sims=40, n_dims=30)
        found = made(x, means)
        own = (found.guides.astype(float) * found.means).mean(axis=0)
        np.testing.assert_allclose(own, 0, atol=1e-5)
        assert found.guides.any()

    def test_guides_of_more_parameters_than_directions_are_orthogonal_to_means(self):
        x, means = study(n_sims=400, n_dims=100)
        found = made(x, means)
        own = (found.guides.astype(float) * found.means).mean(axis=0)
        np.testing.assert_allclose(own, 0, atol=1e-5)
        # Few directions of so many means go with the data, and the leading ones are among them.
        leading, _ = features._leading(standardised(means))
        np.testing.assert_allclose(leading.T @ leading / 400, np.eye(64), atol=1e-8)

    def test_leading_directions_lead_back_to_the_means(self):
        _, means = study(n_sims=400, n_dims=50)
        many = standardised(np.concatenate([means, means[:, ::-1]], axis=1))  # of rank 50
        leading, back = features._leading(many)
        assert leading.shape == (400, 64)
        np.testing.assert_allclose(leading @ back, many, atol=1e-8)

    def test_guides_are_zero_without_data(self):
        _, means = study()
        found = made(None, means)
        assert not found.guides.any()
        assert found.guides.shape == (200, 3)
        np.testing.assert_allclose(found.values[:, :3], found.means, atol=1e-6)

    @pytest.mark.parametrize("n_sims", [2, 100])
    def test_guides_of_data_that_say_what_the_means_do_are_zero(self, n_sims):
        rng = np.random.default_rng(0)
        means = rng.normal(size=(n_sims, 2))
        x = means @ rng.normal(size=(2, 3))
        assert not made(x, means).guides.any()
        assert n_sims == 2 or made(x + 1e-3 * rng.normal(size=x.shape), means).guides.any()

    def test_guides_show_what_the_posterior_left_unused(self):
        """The mean uses one of two columns that both tell the parameter."""
        rng = np.random.default_rng(0)
        theta = rng.normal(size=2000)
        x = theta[:, None] + rng.normal(size=(2000, 2))
        noise = rng.normal(size=(2000, 3))
        means = 0.5 * x[:, :1] + 0.1 * rng.normal(size=(2000, 1))
        found = made(np.concatenate([x, noise], axis=1), means)
        error = theta - means[:, 0]
        assert np.corrcoef(found.guides[:, 0], error)[0, 1] > 0.3

    def test_products_that_may_be_noise_are_shrunk(self):
        """A few of many that are far out are kept, and all others are taken for noise."""
        rng = np.random.default_rng(0)
        sums = 10 * rng.normal(size=(1000, 1))  # noise has the sd 10
        noise = features._shrunk(sums, 100)
        assert abs(noise).max() < 0.2 * abs(sums).max()
        sums[:5] = [[200.0], [-300.0], [250.0], [-150.0], [400.0]]
        kept = (features._shrunk(sums, 100) / sums)[:, 0]
        assert kept[:5].min() > 0.95
        assert np.median(kept) < 0.02
        assert ((kept >= 0) & (kept <= 1)).all()

    def test_products_that_all_carry_a_little_are_shrunk_alike(self):
        rng = np.random.default_rng(0)
        sums = 30 * rng.normal(size=(4000, 1))  # of which noise is a third
        kept = (features._shrunk(sums, 100) / sums)[:, 0]
        assert np.ptp(kept) < 0.3
        assert abs(np.median(kept) - 8 / 9) < 0.05

    @pytest.mark.parametrize("n_dims", [3, 70])
    def test_guides_of_all_ways_are_the_same(self, n_dims, monkeypatch):
        """Of columns as they are, of products of rows, and of a sketch."""
        rng = np.random.default_rng(2)
        strength = np.geomspace(30, 1, 6)[:, None]
        x = rng.normal(size=(80, 6)) @ (strength * rng.normal(size=(6, 300)))
        x += 0.01 * rng.normal(size=x.shape)
        x[:, 7] = 5.0
        means = x[:, :1] + x[:, 50:51] ** 2 / 50 + rng.normal(size=(80, n_dims))
        sketched = made(x, means)
        with monkeypatch.context() as patch:
            patch.setattr(features, "_ROW_BYTES", 8 * 300 * 7)
            patch.setattr(features, "_FEWEST_ROWS", 7)
            in_parts = made(x, means)
        with monkeypatch.context() as patch:
            patch.setattr(features, "_WIDE", 200)
            patch.setattr(features, "_ROW_BYTES", 8 * 80 * 7)
            wide = made(x, means)
        monkeypatch.setattr(features, "MOST_PLAIN", 300)
        raw = made(x, means)
        assert (raw.principal, wide.principal, sketched.principal) == (False, True, True)
        assert raw.plain == 299
        for other in (sketched, in_parts, wide):
            np.testing.assert_allclose(other.guides, raw.guides, atol=1e-3)
            assert other.plain == 64
        assert overlap(wide.values[:, :6], sketched.values[:, :6]) > 1 - 1e-6
        assert overlap(in_parts.values[:, :6], sketched.values[:, :6]) > 1 - 1e-6
        for other in (in_parts, wide):
            np.testing.assert_allclose(other.share[:6], sketched.share[:6], rtol=1e-4)


SHAPES = [(1,), (2,), (7,), (30,), (52,), (53,), (54,), (64,), (65,), (9, 40)]


class TestSizes:
    @pytest.mark.parametrize("n_dims", [1, 2, 3, 12, 13, 60, 128, 200])
    def test_sizes_are_bounded_beforehand(self, n_dims):
        rng = np.random.default_rng(0)
        means, n_chosen = rng.normal(size=(120, n_dims)), min(n_dims, labellings.MOST_CHOSEN)
        for shape in [None, *SHAPES]:
            x = None if shape is None else rng.normal(size=(120, *shape))
            some = [x]
            if x is not None and prod(shape) <= 64:  # as many columns that vary, and fewer
                some += [np.where(np.arange(prod(shape)) < n, x, 1.0) for n in range(0, 64, 7)]
            most = labellings.most_sums(n_dims, x)
            for data in some:
                sizes = Sizes.of(n_chosen, made(data, means, n_chosen))
                assert sizes.n_chosen == most.n_chosen
                assert sizes.n_features <= most.n_features
                assert sizes.n_plain <= most.n_plain
                assert sizes.n_leading <= most.n_leading
            full = Sizes.of(n_chosen, made(x, means, n_chosen))
            assert (full.n_plain, full.n_leading) == (most.n_plain, most.n_leading)
            if full.n_plain >= 30:  # with fewer columns there are fewer waves
                assert most.n_features < 1.4 * full.n_features

    @pytest.mark.parametrize("n_chosen", [1, 5, 64, 128])
    def test_numbers_of_features_are_the_largest(self, n_chosen):
        for n_columns in range(70):
            plain, n_products, _ = features.n_features(n_columns, n_chosen)
            fewer = [features._n_products(n, n_chosen) for n in range(plain + 1)]
            assert plain == min(n_columns, 64)
            assert n_products == max(fewer)

    def test_sums_of_features_fit_into_memory(self):
        for n_chosen in range(1, 129):
            n_leading = products.most_leading(n_chosen)
            assert 0 <= n_leading <= 8
            assert (n_leading + 1) * len(products.pairs(n_chosen)) <= 2**14
            for n_plain in range(65):
                n = n_plain + features._n_products(n_plain, n_chosen) + 32
                assert n_chosen * n <= max(2**15, n_chosen * (n_plain + 32))

    def test_pairs_and_triples_are_those_of_their_definition(self):
        for n in (1, 2, 3, 5):
            pairs = list(combinations_with_replacement(range(n), 2))
            triples = [(a, b, c) for a, b in pairs for c in range(b, n) if a < c]
            found = [tuple(pair) for pair in products.pairs(n).tolist()]
            assert found == sorted(pairs, key=squares_first)
            assert products.apart(n).tolist() == list(range(n, len(pairs)))
            assert [tuple(triple) for triple in products.triples(n).tolist()] == triples
        assert len(products.triples(12)) == 352
        assert products.triples(13).shape == (0, 3)

    def test_shapes_of_sums_follow_from_sizes(self):
        found = made(*study(), 3)
        shapes = Sizes.of(3, found).shapes()
        n_features = 5 + 15 + 32
        assert list(shapes) == [*products.PRODUCTS, "waves", "pair_waves"]
        sizes = [(3, n_features), (3, 5), (6,), (3, 3), (5, 6), (7,), (3, 8), (3, 3, 3)]
        assert list(shapes.values()) == sizes
        fewer = replace(found, leading=found.leading[:2])
        assert Sizes.of(3, fewer).shapes()["pairs_by_data"] == (2, 6)


def test_columns_are_standardised_and_constant_ones_zero():
    columns = np.column_stack([np.arange(5.0), np.full(5, 3.0), -0.1 * np.arange(5.0)])
    found, varies = features._standard(columns)
    assert varies.tolist() == [0, 2]
    np.testing.assert_allclose(found[:, 0], (np.arange(5) - 2) / np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], -found[:, 0], atol=1e-6)
    filled = features._standard_or_zero(columns)
    np.testing.assert_array_equal(filled[:, [0, 2]], found)
    assert not filled[:, 1].any()


@pytest.mark.parametrize("kind", ["raw", "sketched", "wide"])
def test_data_that_are_not_finite_are_refused(kind, monkeypatch):
    monkeypatch.setattr(features, "_WIDE", 200)
    n_columns = {"raw": 4, "sketched": 100, "wide": 300}[kind]
    x, means = study(n_columns=n_columns)
    for bad in (np.nan, np.inf):
        x[3, -1] = bad
        with pytest.raises(ValueError, match=r"observations .* must be finite"):
            made(x, means)

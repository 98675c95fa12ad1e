"""Learned scores: exact for any learner, combined with the families at a fixed share."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, kstest
from threadpoolctl import threadpool_limits

import tarpon
from tarpon import Simulations
from tarpon.checks import features, learned
from tarpon.checks.findings import Kind
from tarpon.checks.learned import Features, Judgement
from tarpon.engine import Unfinished
from tarpon.sequential import folds
from tarpon.sequential.adversaries import Folds, Products, Quadratic

FALSE_ALARM = 1e-6  # of each statistical test
LEVEL = 0.05
FOLDS = Folds()


def study(flaw="none", *, n_sims=1000, n_draws=50, n_dims=3, weighted=False, seed=0):
    """Normal posteriors of sd 1 about x, or ones with a flaw that no single parameter shows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_sims, 4))
    e, d = rng.normal(size=(n_sims, n_dims)), rng.normal(size=(n_draws, n_sims, n_dims))
    weights = {}
    if weighted:  # the draws come from a wider distribution
        d *= 1.5
        log_weights = [(-0.5 * z**2 * (1 - 1.5**-2)).sum(axis=-1) for z in (d, e)]
        weights = dict(zip(("log_weights", "log_weights_theta"), log_weights, strict=True))
    if flaw == "product":
        e[:, 0] += 0.35 * x[:, 0] * x[:, 1]
        d[..., 0] *= np.sqrt(1 + 0.35**2)
    elif flaw == "correlation":
        r = 0.6 * np.tanh(x[:, 2])
        e[:, 1] = r * e[:, 0] + np.sqrt(1 - r**2) * e[:, 1]
    elif flaw == "width":
        e[:, 2] *= np.exp(0.25 * x[:, 3])
        d[..., 2] *= np.exp(0.25 * rng.normal(size=d.shape[:2]))
    mean = 0.7 * x[:, :n_dims]
    return Simulations(mean + d, mean + e, x=x, **weights)


def known(sims, data, label="x"):
    """Return the features of data as learned scores receive them."""
    found = features.features(data, sims.centres(), sims.n_dims, np.random.default_rng(0))
    return Features.of(found, data, label)


def p_value(sims, score=FOLDS, seed=0):
    """Return the p-value of a learned score alone, without the families."""
    rng = np.random.default_rng(seed)
    with threadpool_limits(1):
        return learned.judged({"it": score}, sims, known(sims, sims.x), rng)[0].judgement.p_value


def limits(n_studies, level):
    """Return the numbers of rejections that are left with probability FALSE_ALARM at most."""
    return binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], n_studies, level)


class Constant:
    """A learner whose score is the same for all points."""

    def fit(self, theta, samples, x):
        return lambda points, x: np.zeros(points.shape[:2])


class TestLevel:
    @pytest.mark.parametrize(
        ("learner", "weighted"),
        [(Products(), False), (Products(), True), (Quadratic(), False), (Constant(), False)],
    )
    def test_p_values_of_exact_posteriors_are_uniform(self, learner, weighted):
        score, n_studies = Folds(learner, n_folds=3, n_swaps=39), 100
        size = {"n_sims": 40, "n_draws": 7, "n_dims": 2, "weighted": weighted}
        p = [p_value(study(seed=seed, **size), score, seed) for seed in range(n_studies)]
        for level in (0.05, 0.2, 0.5):
            least, most = limits(n_studies, level)
            assert least <= np.sum(np.array(p) <= level) <= most
        assert kstest(p, "uniform").pvalue > FALSE_ALARM

    def test_learning_from_the_fold_under_test_is_not_exact(self, monkeypatch):
        """The twin that must fail: every score has seen all simulations."""
        honest = Folds._fitted

        def cheating(self, points, features, ends):
            return honest(self, points, features, [len(points)] * len(ends))

        monkeypatch.setattr(Folds, "_fitted", cheating)
        size = {"n_sims": 40, "n_draws": 7, "n_dims": 2}
        p = [p_value(study(seed=seed, **size), Folds(n_swaps=39), seed) for seed in range(60)]
        assert np.sum(np.array(p) <= LEVEL) > limits(60, LEVEL)[1]

    @pytest.mark.slow
    @pytest.mark.usefixtures("nothing_planted")
    def test_a_check_with_a_learned_score_keeps_its_level(self):
        """Of 30 studies without weights and 30 with: 50 % in place of 20 % fails half the time."""
        score, p = Folds(n_swaps=39), np.empty((2, 30))
        for weighted, seed in np.ndindex(p.shape):
            sims = study(n_sims=40, n_draws=9, n_dims=2, weighted=weighted, seed=seed)
            found = tarpon.check(sims, scores={"it": score}, n_swaps=99, rng=seed)
            p[weighted, seed] = found.p_value
        for some in (p, *p):
            assert (some <= 0.2).sum() <= binom.isf(FALSE_ALARM / 3, some.size, 0.2)

    def test_every_fold_has_its_own_score(self):
        """And the first one, an eighth of the simulations, is learned from only."""
        ends = folds._ends(1000, 6)
        np.testing.assert_array_equal(ends, [132, 198, 296, 444, 667, 1000])
        np.testing.assert_array_equal(folds._ends(2, 6), [1, 2])
        seen = []

        class Watching:
            def fit(self, theta, samples, x):
                seen.append(len(theta))
                return Constant().fit(theta, samples, x)

        p_value(study(), Folds(Watching()))
        assert seen == ends[:-1].tolist()

    def test_learners_cannot_tell_where_the_truth_is(self):
        """Or a score of the place alone would reject exact posteriors."""

        class First:
            def fit(self, theta, samples, x):
                return lambda points, x: (
                    (np.arange(len(points)) == 0)[:, None] + 0 * points[..., 0]
                )

        assert FALSE_ALARM < p_value(study(n_sims=200), Folds(First())) < 1 - FALSE_ALARM


class TestPower:
    @pytest.mark.parametrize(
        ("flaw", "term"),
        [
            ("product", "theta_0 × x[0] × x[1]"),
            ("correlation", "theta_0 × theta_1 × x[2]"),
            ("width", "theta_2² × x[3]"),
        ],
    )
    def test_flaws_that_follow_the_data_are_found_and_named(self, flaw, term):
        check = tarpon.check(study(flaw), scores={"learned": Folds()}, n_swaps=99, rng=0)
        assert check.p_value < 1e-4
        finding = next(finding for finding in check.findings if finding.kind is Kind.SCORE)
        assert (finding.where, finding.direction.split(", ")[0]) == ("learned", term)
        assert str(finding).startswith(
            f"wrong in your score “learned”: truths differ from draws most in {term}"
        )

    @pytest.mark.parametrize("seed", range(3))
    def test_weighted_draws_show_the_same_flaw(self, seed):
        assert p_value(study("product", weighted=True, n_draws=200, seed=seed)) < 1e-3

    def test_the_quadratic_of_monitors_can_be_the_learner(self):
        sims = tarpon.problems.zoo("correlation_missed", n_sims=1000, n_dims=3, rng=0)
        check = tarpon.check(sims, scores={"it": Folds(Quadratic())}, n_swaps=99, rng=0)
        family = next(family for family in check.families if family.name == "score: it")
        assert family.p_value < 1e-6
        assert check.findings[-1].direction is None
        assert str(check.findings[-1]) == "wrong in your score “it”"

    def test_without_observations_errors_follow_the_posterior_mean(self):
        rng = np.random.default_rng(0)
        mean = rng.normal(size=(1000, 1))
        theta = mean + np.exp(0.3 * mean) * rng.normal(size=mean.shape)
        draws = mean + 1.1 * rng.normal(size=(50, *mean.shape))
        check = tarpon.check(draws, theta, scores={"it": Folds()}, n_swaps=99, rng=0)
        assert "theta_0² × mean of theta_0" in str(check.findings[-1])


class Certain:
    """A score with a known p-value."""

    def __init__(self, p):
        self.p = p

    def judge(self, sims, features, rng, *, stage):
        return Judgement(self.p)


class TestShare:
    SIMS = tarpon.problems.zoo("exact", n_sims=50, n_draws=20, n_dims=2, rng=0)

    @pytest.mark.parametrize(("p", "n"), [(1e-4, 1), (0.004, 1), (0.9, 1), (0.004, 2)])
    def test_learned_scores_share_a_fifth_of_the_level(self, p, n):
        alone = tarpon.check(self.SIMS, n_swaps=99, rng=0)
        scores = {f"s{k}": Certain(p) for k in range(n)}
        check = tarpon.check(self.SIMS, scores=scores, n_swaps=99, rng=0)
        assert check.p_value == pytest.approx(min(alone.p_value / 0.8, n * p / 0.2, 1))
        rows = {family.name: family for family in check.families}
        assert rows["score: s0"].p_value == p
        assert rows["score: s0"].adjusted == pytest.approx(min(n * p / 0.2, 1))
        for family in alone.families:
            expected = replace(family, adjusted=pytest.approx(min(family.adjusted / 0.8, 1)))
            assert rows[family.name] == expected
        assert len(check.findings) == (n if n * p / 0.2 <= 0.05 else 0)

    def test_fewer_swaps_than_the_share_needs_are_refused(self):
        tarpon.check(self.SIMS, n_swaps=19, rng=0)
        with pytest.raises(ValueError, match=r"`n_swaps` must be at least 24 at level 0\.04"):
            tarpon.check(self.SIMS, scores={"it": Folds()}, n_swaps=19, rng=0)

    def test_other_scores_are_ranked_as_before(self):
        own = {"sum": lambda theta, x: theta.sum(axis=-1)}
        both = tarpon.check(self.SIMS, scores={**own, "it": Folds()}, n_swaps=99, rng=0)
        names = [family.name for family in both.families]
        assert "score: sum" in names
        assert "score: it" in names


class TestSameNumbers:
    SIMS = study("product", n_sims=60, n_draws=20)

    def again(self, sims=None, **options):
        sims = self.SIMS if sims is None else sims
        sims = sims._with()
        sims._set(_part_bytes=2**13)  # so that there are several parts
        options = {"scores": {"it": Folds()}, "n_swaps": 99, "rng": 0} | options
        return tarpon.check(sims, **options).to_dict()["families"]

    def test_whoever_computes(self, tmp_path, monkeypatch):
        expected = self.again()
        with threadpool_limits(1):
            assert self.again() == expected
        monkeypatch.setenv("TARPON_THREADS", "2")
        assert self.again() == expected
        with ThreadPoolExecutor(2) as pool:
            assert self.again(engine=tarpon.Engine(executor=pool)) == expected
        for shard in ((0, 2), (1, 2)):
            with pytest.raises(Unfinished):
                self.again(engine=tarpon.Engine(resume=tmp_path / "a", shard=shard))
        engine = tarpon.Engine(resume=tmp_path / "a", on_missing="raise")
        assert self.again(engine=engine) == expected

    def test_wherever_the_draws_are(self, tmp_path):
        stored = {}
        for name in ("samples", "theta", "x"):
            np.save(tmp_path / f"{name}.npy", getattr(self.SIMS, name))
            stored[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        assert self.again(Simulations(**stored)) == self.again()

    def test_unequal_numbers_of_draws_get_an_answer(self):
        rows = [self.SIMS.samples[: 10 + i % 10, i] for i in range(60)]
        sims = Simulations(rows, self.SIMS.theta, x=self.SIMS.x)
        assert self.again(sims) == self.again(sims)

    def test_few_simulations_are_kept_where_parameters_are_many(self, monkeypatch):
        monkeypatch.setattr(folds, "_MOST_BYTES", 4 * 33 * 3 * 25)  # 25 simulations
        assert 0 < p_value(study(n_sims=100)) < 1


class TestNames:
    SIMS = tarpon.problems.zoo("exact", n_sims=30, rng=0)

    @pytest.mark.parametrize(
        ("shape", "first", "last"),
        [
            ((), "x", "x"),
            ((2,), "x[0]", "x[1]"),
            ((2, 3), "x[0, 0]", "x[1, 2]"),
            ((65,), "principal component 1 of x", "principal component 29 of x"),
        ],
    )
    def test_features_have_the_names_of_their_columns(self, shape, first, last):
        x = np.random.default_rng(0).normal(size=(30, *shape))
        found = known(self.SIMS, x)
        assert (found.names[0], found.names[-1]) == (first, last)
        assert found.values.shape == (30, len(found.names))

    def test_columns_that_never_vary_have_none(self):
        x = np.column_stack([np.ones(30), np.random.default_rng(0).normal(size=30)])
        assert known(self.SIMS, x).names == ("x[1]",)

    def test_features_are_the_standardised_columns_alone(self):
        """Neither products nor waves: learners make their own."""
        x = np.random.default_rng(0).normal(size=(30, 3))
        found = known(self.SIMS, x, "summary(x)")
        assert found.names == ("summary(x)[0]", "summary(x)[1]", "summary(x)[2]")
        wanted = (x - x.mean(axis=0)) / x.std(axis=0)
        np.testing.assert_allclose(found.values, wanted, atol=1e-5)

    def test_without_data_there_are_none(self):
        found = known(self.SIMS, None)
        assert (found.values.shape, found.names) == ((30, 0), ())


def infinite(points, x):
    return np.full(points.shape[:2], np.inf)


class TestBadInput:
    @pytest.mark.parametrize(
        ("error", "message", "returned"),
        [
            (TypeError, "`learner.fit(theta, samples, x)` must be a function", None),
            (ValueError, "one number per point, (51, ", lambda points, x: points),
            (ValueError, "scores of a learner must be finite", infinite),
        ],
    )
    def test_scores_that_are_none_are_refused(self, error, message, returned):
        class Wrong:
            def fit(self, theta, samples, x):
                return returned

        with pytest.raises(error, match=re.escape(message)):
            tarpon.check(study(n_sims=50), scores={"it": Folds(Wrong())}, n_swaps=99, rng=0)

    def test_a_class_is_no_score(self):
        with pytest.raises(TypeError, match="each of the `scores` must be"):
            tarpon.check(study(n_sims=50), scores={"it": Folds}, rng=0)


class TestProducts:
    def test_noise_leaves_coefficients_small_and_a_clear_one_stands_out(self):
        rng = np.random.default_rng(0)
        theta, draws = rng.normal(size=(500, 3)), rng.normal(size=(20, 500, 3))
        theta[:, 1] += 0.4
        score = Products().fit(theta, draws, None)
        assert score.telling == (((1,), ()),)
        assert np.argmax(abs(score.coefficients)) == 1

    def test_chunks_do_not_change_the_score(self, monkeypatch):
        from tarpon.sequential import products

        rng = np.random.default_rng(0)
        theta, draws, x = (rng.normal(size=s) for s in ((50, 2), (9, 50, 2), (50, 3)))
        whole = Products().fit(theta, draws, x)(draws, x)
        monkeypatch.setattr(products, "_CHUNK", 100)
        np.testing.assert_allclose(Products().fit(theta, draws, x)(draws, x), whole)

    def test_features_that_never_vary_are_left_out(self):
        rng = np.random.default_rng(0)
        theta, draws = rng.normal(size=(50, 2)), rng.normal(size=(9, 50, 2))
        draws[..., 1] = theta[:, 1] = 0
        score = Products().fit(theta, draws, np.ones((50, 1)))
        assert np.isfinite(score(draws, np.ones((50, 1)))).all()

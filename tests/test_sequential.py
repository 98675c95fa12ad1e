"""Evidence at all times: fair bets, their level, the bound, and that a run can go on anywhere."""

import re
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import tarpon
from tarpon import Monitor, Simulations, plots
from tarpon.problems import zoo
from tarpon.sequential import bets
from tarpon.sequential.adversaries import Gambler, Quadratic
from tarpon.sequential.bets import LEVELS, Wealth, log_mean, log_softmax_bet, radius, ranked
from tarpon.simulations.views import without

FALSE_ALARM = 1e-6
SIZES = np.array([1, 1, 3])


def most(n_runs, rate):
    """Return the number of hits that is exceeded with the probability of a false alarm."""
    return binom.ppf(1 - FALSE_ALARM, n_runs, rate)


def hidden(sims, seed=0):
    return next(sims.blocks()).hidden(np.random.default_rng(seed))


def state(monitor):
    """Return all numbers of a monitor, to be compared exactly."""
    history = monitor.history
    return {
        "log_e": history.log_e.tolist(),
        "within": history.within.tolist(),
        "n": history.n_sims.tolist(),
        "capital": monitor._wealth.log_capital.tolist(),
        "nats": monitor.nats,
        "scores": monitor.scores,
        "dropped": monitor.n_dropped,
    }


class TestBets:
    @pytest.mark.parametrize("n_points", [2, 3, 7, 10, 101, 1000])
    def test_bets_pay_one_on_average_over_all_ranks_after_any_past(self, n_points):
        rng = np.random.default_rng(n_points)
        wealth = Wealth.initial(3)
        for n_before in (n_points, 12, n_points):
            wealth = wealth.bet(rng.integers(n_before, size=5), n_before, SIZES)
        # Ranks of one score may depend on those of another in any way, so long as each is uniform.
        every = np.arange(n_points)
        ranks = np.stack([np.roll(every, k) for k in (0, 1, 0, 1, 2)], axis=1)
        runs = Wealth(*(np.repeat(a[None], n_points, axis=0) for a in (wealth.log_capital,
                        wealth.covered)), wealth.n_sims)  # fmt: skip
        paid = np.exp(runs.bet(ranks, n_points, SIZES).log_capital - wealth.log_capital)
        np.testing.assert_allclose(paid.mean(axis=0), 1, rtol=1e-12)
        assert (paid > 0).all()

    @pytest.mark.parametrize("n_points", [2, 7, 101])
    def test_each_level_covers_its_share_of_ranks(self, n_points):
        covered = bets.table(n_points).covered
        np.testing.assert_allclose(covered.mean(axis=0), LEVELS, atol=1e-12)

    def test_shares_of_bets_add_up(self):
        assert bets._alternatives()[2].sum() == pytest.approx(1)
        for n_dims, flaw in ((1, "exact"), (3, "prior_leak")):
            sims = zoo(flaw, n_sims=2, n_dims=n_dims, rng=0)
            scores = bets.Stakes.of(sims)
            assert sum(scores.shares) == pytest.approx(1)
            assert ("density" in scores.names) == (sims.log_prob_samples is not None)

    def test_ranks_are_uniform_over_what_might_have_been_the_truth(self):
        sims = zoo("exact", n_sims=1, n_draws=11, n_dims=3, rng=0)
        points = hidden(sims).points
        found = []
        for truth in range(12):
            others = np.delete(points, truth, axis=0)
            block = hidden(Simulations(others, points[truth]))
            # Put everything back in its place, so that only the label moves.
            vars(block).update(points=points)
            object.__setattr__(block, "truth", np.array([truth]))
            ranks, n_points, sizes = ranked(block, np.random.default_rng(0))
            found.append(ranks[0])
        assert n_points == 12
        assert sizes.tolist() == [1, 1, 1, 1, 8]
        np.testing.assert_array_equal(np.sort(found, axis=0).T, np.tile(np.arange(12), (12, 1)))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_adversarys_bet_pays_one_on_average_over_all_points(self, weighted):
        rng = np.random.default_rng(0)
        sims = zoo("exact", n_sims=1, n_draws=9, rng=0)
        more = {}
        if weighted:
            more = {"log_weights": rng.normal(size=(9, 1)), "log_weights_theta": [0.3]}
        block = hidden(Simulations(sims.samples, sims.theta, **more))
        scores, paid = 3 * rng.normal(size=10), []
        for truth in range(10):
            labelled = type(block)(block.sims, block.where, np.array([truth]))
            if weighted:
                vars(labelled).update(weights=block.weights)
            paid.append(np.exp(log_softmax_bet(scores, labelled)))
        share = block.weights[:, 0] / block.weights.sum() if weighted else np.full(10, 0.1)
        assert np.dot(share, paid) == pytest.approx(1)


@pytest.fixture(scope="module")
def highest():
    """Return the highest e-values of runs on uniform ranks, and what their luckiest ever had."""
    n_runs, rng, shares = 400, np.random.default_rng(0), np.full(3, 1 / 3)
    wealth, log_e, luckiest = Wealth.initial(3, (n_runs,)), [], []
    for _ in range(150):
        wealth = wealth.bet(rng.integers(21, size=(n_runs, 5)), 21, SIZES)
        log_e.append(log_mean(wealth.log_e(), shares))
        luckiest.append(wealth.log_capital.max(axis=(1, 2)))
    return np.max(log_e, axis=0), np.max(luckiest, axis=0)


class TestLevel:
    @pytest.mark.parametrize("level", [0.05, 0.2])
    def test_uniform_ranks_are_seldom_called_inaccurate(self, highest, level):
        assert (highest[0] >= -np.log(level)).sum() <= most(len(highest[0]), level)

    def test_a_bet_that_peeks_is_caught_by_the_same_rule(self, highest):
        # Taking the best gambler after the fact is what the mean over gamblers is there for.
        assert (highest[1] >= np.log(20)).sum() > most(len(highest[1]), 0.05)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_dims", [1, 5])
    def test_exact_posteriors_are_seldom_called_inaccurate(self, n_dims):
        n_runs, rng = 400, np.random.default_rng(n_dims)
        wealth, highest = None, np.zeros(n_runs)
        for _ in range(300):
            points = rng.standard_normal((20, n_runs, n_dims), dtype=np.float32)
            sims = Simulations(points[1:], points[0])
            scores = bets.Stakes.of(sims)
            wealth = wealth or Wealth.initial(len(scores.names), (n_runs,))
            found = [ranked(block.hidden(rng), rng) for block in sims.blocks()]
            wealth = wealth.bet(np.concatenate([ranks for ranks, _, _ in found]), *found[0][1:])
            total = log_mean(wealth.log_e(), np.array(scores.shares))
            highest = np.maximum(highest, total)
        for level in (0.01, 0.05, 0.2):
            assert (highest >= -np.log(level)).sum() <= most(n_runs, level)

    @pytest.mark.slow
    def test_exact_posteriors_are_seldom_called_inaccurate_by_an_adversary(self):
        """Of 60 runs without weights and 60 with: 26 % in place of 10 % fails half the time."""
        hits = np.empty((2, 60), dtype=bool)
        for weighted, seed in np.ndindex(hits.shape):
            exact = zoo("exact", n_sims=50, n_draws=15, rng=seed)
            sims = importance(50, 15, seed) if weighted else exact
            monitor = Monitor(level=0.1, adversary=Quadratic(penalty=1.0), rng=seed).add(sims)
            hits[weighted, seed] = monitor.outcome == "inaccurate"
        for some in (hits, *hits):
            assert some.sum() <= binom.isf(FALSE_ALARM / 3, some.size, 0.1)


class TestBound:
    def paths(self, n_runs=2000, n_sims=1000):
        heads = np.random.default_rng(0).integers(2, size=(n_sims, n_runs))
        n = np.arange(1, n_sims + 1)
        return n, heads.cumsum(axis=0) / n[:, None] - 0.5

    def test_bound_holds_at_all_times(self):
        n, measured = self.paths()
        for level in (0.05, 0.2):
            free = np.array([radius(int(t), level) for t in n])
            failed = (measured + free[:, None] < 0).any(axis=0)
            assert failed.sum() <= most(len(failed), level)
            assert failed.mean() > level / 20  # and it is no wider than it must be

    def test_a_bound_for_one_time_is_caught_by_the_same_rule(self):
        n, measured = self.paths()
        free = np.sqrt(np.log(1 / 0.05) / (2 * n))
        failed = (measured + free[:, None] < 0).any(axis=0)
        assert failed.sum() > most(len(failed), 0.05)

    def test_bound_solves_its_equation(self):
        for n_sims, level in ((1, 0.05), (100, 0.01), (10**6, 0.5)):
            rho, variance = 12.5, n_sims / 4
            s = radius(n_sims, level) * n_sims / np.sqrt(variance + rho)
            capital = 2 * np.sqrt(rho / (variance + rho)) * np.exp(s**2 / 2) * ndtr(s)
            assert capital == pytest.approx(1 / level)

    def test_bound_covers_the_worst_error_of_a_wrong_posterior(self):
        n_runs, n_points, rng = 300, 31, np.random.default_rng(0)
        likely = np.linspace(0.5, 1.5, n_points) / n_points
        truth = abs(likely @ bets.table(n_points).covered - LEVELS).max()
        wealth, held = Wealth.initial(1, (n_runs,)), np.ones(n_runs, bool)
        for t in range(200):
            ranks = rng.choice(n_points, size=(n_runs, 1), p=likely)
            wealth = wealth.bet(ranks, n_points, np.ones(1, int))
            held &= wealth.error() + radius(t + 1, 0.05) >= truth
        assert (~held).sum() <= most(n_runs, 0.05)

    def test_bound_only_ever_tightens(self):
        within = Monitor(rng=0).add(zoo("exact", n_sims=100, rng=0)).history.within
        assert (np.diff(within) <= 0).all()


class TestState:
    @pytest.mark.parametrize(
        ("flaw", "n_dims", "seen_by"),
        [
            ("narrow", 10, "centre"),
            ("shift", 2, "theta_0"),
            pytest.param("wide", 10, "centre", marks=pytest.mark.slow),
            pytest.param("heavy_tails", 10, "centre", marks=pytest.mark.slow),
            pytest.param("mode_invented", 2, None, marks=pytest.mark.slow),
        ],
    )
    def test_monitor_finds_flaws(self, flaw, n_dims, seen_by):
        sims = without(
            zoo(flaw, n_sims=500, n_dims=n_dims, rng=0), "log_prob_samples", "log_prob_theta"
        )
        monitor = Monitor(rng=0).add(sims)
        assert monitor.p_value < FALSE_ALARM
        assert monitor.outcome == "inaccurate"
        if seen_by:
            assert max(monitor.scores, key=monitor.scores.get) == seen_by
            assert f"most by {seen_by}" in repr(monitor)

    def test_exact_posteriors_end_up_within_the_tolerance(self):
        monitor, sims = Monitor(tolerance=0.15, rng=0), zoo("exact", n_sims=400, rng=1)
        assert monitor.outcome == "running"
        assert (monitor.e_value, monitor.p_value, monitor.within) == (1, 1, 1)
        monitor.add(sims)
        assert monitor.p_value > FALSE_ALARM
        assert monitor.outcome == "within tolerance"
        assert monitor.within <= 0.15

    def test_only_an_adversary_sees_that_the_data_are_ignored(self):
        sims = zoo("prior", n_sims=100, rng=0)
        assert Monitor(rng=0).add(sims).p_value > FALSE_ALARM
        monitor = Monitor(adversary=Quadratic(), rng=0).add(sims)
        assert monitor.p_value < FALSE_ALARM
        # The divergence of N(0, 1) from N(0.8 x, 0.2), twice, is log 5 on average over x.
        assert 0.1 * np.log(5) < monitor.nats < np.log(5)

    def test_words_of_a_monitor(self):
        assert repr(Monitor()) == "Monitor before its first simulation"
        sims = zoo("exact", n_sims=20, rng=0)
        assert re.fullmatch(
            r"Monitor after 20 simulations: running, e = \S+ \(p = \S+\), "
            r"coverage within ±0.\d+ of every level.",
            repr(Monitor(rng=0).add(sims)),
        )

    def test_evidence_beyond_floating_point_is_still_a_number(self):
        rng = np.random.default_rng(0)
        monitor = Monitor(rng=0).add(rng.normal(size=(200, 600, 1)), np.full((600, 1), 9.0))
        assert np.isfinite(monitor.e_value)
        assert monitor.e_value > 1e300
        assert 0 < monitor.p_value < 1e-300
        assert monitor.history.log_e[-1] > 1000
        assert "e > 1e+300 (p < 1e-300, most by" in repr(monitor)

    def test_a_folder_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no folder '.*a' to write 'b\.npz'"):
            Monitor().save(tmp_path / "a" / "b.npz")

    def test_plot_shows_every_look_and_the_threshold(self):
        monitor = Monitor(level=0.1, rng=0).add(zoo("narrow", n_sims=50, rng=0))
        ax = monitor.plot()
        assert ax.get_yscale() == "log"
        np.testing.assert_allclose(ax.lines[-1].get_ydata(), np.exp(monitor.history.log_e))
        assert ax.lines[1].get_ydata()[0] == pytest.approx(10)
        labels = [t.get_text() for t in plots.evidence(monitor, labels=["a"]).get_legend().texts]
        assert labels == ["inaccurate, at level 0.1", "a"]
        with pytest.raises(ValueError, match="at least one monitor"):
            plots.evidence()
        plt.close("all")


def importance(n_sims, n_draws, seed):
    """Return exact posteriors N(0, 1) as weighted draws of N(0, 1.5²), in two dimensions."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_sims, 2))
    samples = 1.5 * rng.normal(size=(n_draws, n_sims, 2))

    def weight(points):
        return -0.5 * (points**2).sum(-1) * (1 - 1 / 1.5**2)

    return Simulations(
        samples, theta, log_weights=weight(samples), log_weights_theta=weight(theta)
    )


def ragged(n_sims=40, seed=0):
    rng = np.random.default_rng(seed)
    samples = [rng.normal(size=(n, 2)) for n in rng.integers(5, 60, size=n_sims)]
    return samples, rng.normal(size=(n_sims, 2))


class TestUnequalDraws:
    def test_weights_are_exact_and_forgetting_them_is_seen(self):
        sims = importance(400, 40, seed=0)
        assert Monitor(rng=0).add(sims).p_value > FALSE_ALARM
        assert Monitor(rng=0).add(sims.samples, sims.theta).p_value < FALSE_ALARM

    def test_weights_of_unknown_truths_make_it_approximate(self):
        sims = importance(50, 40, seed=0)
        unknown = Simulations(sims.samples, sims.theta, log_weights=sims.log_weights)
        monitor = Monitor(rng=0).add(unknown)
        assert monitor.approximate
        assert "approximate since draws were resampled by weight" in repr(monitor)
        assert not Monitor(rng=0).add(sims).approximate

    def test_draws_of_any_number_may_come_together_or_alone(self):
        samples, theta = ragged()
        together = Monitor(rng=0).add(samples, theta)
        alone = Monitor(rng=0)
        for draws, truth in zip(samples, theta, strict=True):
            alone.add(draws, truth)
        assert state(together) == state(alone)
        assert together.p_value > FALSE_ALARM

    def test_weighted_draws_may_come_together_or_alone(self):
        sims = importance(20, 30, seed=1)
        alone = Monitor(rng=0)
        for k in range(20):
            alone.add(sims._part(slice(k, k + 1)))
        assert state(alone) == state(Monitor(rng=0).add(sims))

    def test_a_single_draw_is_enough(self):
        rng = np.random.default_rng(0)
        monitor = Monitor(rng=0).add(rng.normal(size=(1, 300, 2)), rng.normal(size=(300, 2)))
        assert monitor.p_value > FALSE_ALARM

    def test_ties_are_broken_at_random(self):
        rng = np.random.default_rng(0)
        monitor = Monitor(rng=0)
        monitor.add(rng.integers(3, size=(20, 300, 2)), rng.integers(3, size=(300, 2)))
        assert monitor.p_value > FALSE_ALARM

    def test_monitor_of_densities_alone(self):
        rng = np.random.default_rng(0)
        sims = Simulations.of_densities(rng.normal(size=(50, 300)), rng.normal(size=300))
        monitor = Monitor(rng=0).add(sims)
        assert list(monitor.scores) == ["density"]
        assert monitor.p_value > FALSE_ALARM


@pytest.mark.parametrize(
    "adversary",
    [
        pytest.param(None, id="ranks"),
        pytest.param(Quadratic(), id="adversary", marks=pytest.mark.slow),
    ],
)
class TestGoingOn:
    def whole(self, adversary):
        sims = zoo("shift", n_sims=60, n_draws=30, rng=0)
        return sims, Monitor(adversary=adversary, rng=3).add(sims)

    def test_monitor_from_a_file_gives_the_same_numbers(self, adversary, tmp_path):
        sims, whole = self.whole(adversary)
        path = tmp_path / "monitor.npz"
        first = Monitor(adversary=adversary, rng=3).add(sims._part(slice(0, 33)))
        first.save(path)
        again = tarpon.load(path, adversary=adversary)
        assert state(again) == state(first)
        assert repr(again) == repr(first)
        again.add(sims._part(slice(33, 34))).save(path)
        assert state(tarpon.load(path, adversary=adversary).add(sims._part(slice(34, 60)))) == (
            state(whole)
        )

    def test_monitor_fed_one_by_one_gives_the_same_numbers(self, adversary):
        sims, whole = self.whole(adversary)
        alone = Monitor(adversary=adversary, rng=3)
        for k in range(60):
            alone.add(sims._part(slice(k, k + 1)))
        assert state(alone) == state(whole)

    def test_monitor_of_stored_draws_gives_the_same_numbers(self, adversary, tmp_path):
        sims, whole = self.whole(adversary)
        np.save(tmp_path / "samples.npy", sims.samples)
        stored = np.load(tmp_path / "samples.npy", mmap_mode="r")
        lazy = Simulations(
            stored, sims.theta, x=sims.x,
            log_prob_samples=sims.log_prob_samples, log_prob_theta=sims.log_prob_theta,
        )  # fmt: skip
        assert not lazy._whole
        assert state(Monitor(adversary=adversary, rng=3).add(lazy)) == state(whole)

    def test_merging_multiplies_what_every_gambler_has(self, adversary):
        sims, _ = self.whole(adversary)
        one = Monitor(adversary=adversary, rng=0).add(sims._part(slice(0, 30)))
        two = Monitor(adversary=adversary, rng=1).add(sims._part(slice(30, 60)))
        both, turned = one.merge(two), two.merge(one)
        assert (one.n_sims, two.n_sims, both.n_sims) == (30, 30, 60)
        assert both.e_value == pytest.approx(turned.e_value)
        np.testing.assert_allclose(
            both._wealth.log_capital, one._wealth.log_capital + two._wealth.log_capital
        )
        assert both.history.n_sims.tolist() == [60]
        assert both.p_value == pytest.approx(min(1, 1 / both.e_value))
        # A gambler with a fixed bet has the same as if it had seen all of them.
        seen = Monitor(rng=0).add(sims)
        np.testing.assert_allclose(
            both._wealth.log_capital[:2, :-1], seen._wealth.log_capital[:2, :-1], atol=1e-9
        )
        both.add(zoo("shift", n_sims=5, n_draws=30, rng=1))
        assert both.n_sims == 65
        assert len(both.history.log_e) == 6

    def test_a_merged_monitor_can_be_saved(self, adversary, tmp_path):
        sims, _ = self.whole(adversary)
        one, two = (
            Monitor(adversary=adversary, rng=k).add(sims._part(slice(30 * k, 30 * k + 30)))
            for k in range(2)
        )
        both = one.merge(two)
        both.save(tmp_path / "both.npz")
        again = tarpon.load(tmp_path / "both.npz", adversary=adversary)
        more = zoo("shift", n_sims=30, n_draws=30, rng=1)
        assert state(again.add(more)) == state(both.add(more))


@dataclass(frozen=True)
class Known:
    """An adversary that recognises truths, which no adversary could."""

    truths: tuple

    def fit(self, theta, samples, x):
        return lambda points, _: 5.0 * np.isin(points[..., 0], self.truths)


@dataclass(frozen=True)
class Shaped:
    """An adversary that returns whatever it is told to."""

    score: object

    def fit(self, theta, samples, x):
        assert samples.shape == (32, *theta.shape)
        assert x.shape[0] == len(theta)
        return self.score


class TestAdversary:
    def test_an_adversary_that_peeks_wins_from_exact_posteriors(self):
        sims = zoo("exact", n_sims=40, rng=0)
        monitor = Monitor(adversary=Known(tuple(sims.theta[:, 0])), rng=0).add(sims)
        assert monitor.p_value < FALSE_ALARM
        assert Monitor(adversary=Quadratic(), rng=0).add(sims).p_value > FALSE_ALARM

    def test_an_adversary_may_be_any_object_that_scores(self):
        sims = zoo("shift", n_sims=200, rng=0)
        monitor = Monitor(adversary=Shaped(lambda points, x: -points[..., 0]), rng=0).add(sims)
        assert monitor.scores["adversary"] > 20
        assert 0 < monitor.nats < 0.1

    def test_an_adversary_learns_from_earlier_simulations_only(self):
        seen = []

        class Watching:
            def fit(self, theta, samples, x):
                seen.append(len(theta))
                return lambda points, _: np.zeros(points.shape[:2])

        Monitor(adversary=Watching(), rng=0).add(zoo("exact", n_sims=51, rng=0))
        assert seen == [20, 25, 32, 40, 50]

    def test_an_adversary_bets_nothing_before_it_has_learned(self):
        monitor = Monitor(adversary=Quadratic(), rng=0).add(zoo("prior", n_sims=20, rng=0))
        assert monitor.scores["adversary"] == 1
        assert monitor.nats == 0

    def test_an_adversary_accepts_many_parameters_and_large_observations(self):
        sims = zoo("exact", n_sims=25, n_draws=20, n_dims=70, rng=0)
        assert Monitor(adversary=Quadratic(), rng=0).add(sims).n_sims == 25

    def test_bad_scores_of_an_adversary_are_refused(self):
        sims = zoo("exact", n_sims=30, rng=0)
        for score, text in (
            (lambda points, x: points, r"one number per point, \(101, 1\)"),
            (lambda points, x: np.full(points.shape[:2], np.nan), "must be finite"),
        ):
            monitor = Monitor(adversary=Shaped(score), rng=0)
            with pytest.raises(ValueError, match=text):
                monitor.add(sims)
            assert state(monitor) == state(Monitor(adversary=Shaped(score), rng=0))

    def test_an_adversary_keeps_draws_by_weight(self):
        sims = importance(1, 400, seed=0)
        gambler = Gambler(Quadratic())
        for seed in range(50):
            gambler = gambler.bet(hidden(sims, seed), np.random.default_rng(seed))
        kept = np.concatenate([points[1:] for points in gambler.points[:50]])
        assert kept.std() == pytest.approx(1, abs=0.15)
        assert all((points[0] == sims.theta[0]).all() for points in gambler.points)


class TestMisuse:
    def refuses(self, text, call):
        with pytest.raises((ValueError, TypeError), match=text):
            call()

    def test_wrong_settings_of_a_monitor_are_refused(self):
        self.refuses("`level` must lie between 0 and 1, but got 2", lambda: Monitor(level=2))
        self.refuses("`tolerance` must lie between", lambda: Monitor(tolerance=0))
        self.refuses("`rng` must be", lambda: Monitor(rng="0"))

    def test_a_monitor_refuses_other_simulations(self):
        monitor = Monitor(rng=0).add(np.zeros((9, 2)), np.zeros(2))
        self.refuses("ranked theta_0, theta_1, centre, posterior balls, and these are ranked in 3",
                     lambda: monitor.add(np.zeros((9, 1)), np.zeros(1)))  # fmt: skip
        self.refuses("all or none of them log-densities",
                     lambda: monitor.add(zoo("exact", n_sims=3, rng=0)))  # fmt: skip
        self.refuses("`theta` is missing", lambda: monitor.add(np.zeros((9, 2))))
        self.refuses("`samples` must be", lambda: monitor.add(np.zeros((9, 3)), np.zeros(2)))

    def test_a_failure_adds_nothing(self):
        samples, theta = (np.random.default_rng(0).normal(size=s) for s in ((9, 5, 2), (5, 2)))
        monitor = Monitor(rng=0).add(samples, theta)
        before = state(monitor)
        broken = samples.copy()
        broken[0, 3] = np.nan
        self.refuses("1 of 5 simulations hold NaN", lambda: monitor.add(broken, theta))
        assert state(monitor) == before
        monitor.add(Simulations(broken, theta, on_invalid="drop"))
        assert (monitor.n_sims, monitor.n_dropped) == (9, 1)
        assert "(1 invalid one dropped)" in repr(monitor)

    def test_a_failure_on_disk_adds_nothing(self, tmp_path):
        samples, theta = (np.random.default_rng(0).normal(size=s) for s in ((9, 5, 2), (5, 2)))
        samples[0, 3] = np.nan
        np.save(tmp_path / "samples.npy", samples)
        stored = np.load(tmp_path / "samples.npy", mmap_mode="r")
        self.refuses("1 of 5 simulations hold NaN", lambda: Monitor(rng=0).add(stored, theta))
        monitor = Monitor(rng=0).add(Simulations(stored, theta, on_invalid="drop"))
        assert (monitor.n_sims, monitor.n_dropped) == (4, 1)

    def test_chains_are_warned_of(self):
        rng = np.random.default_rng(0)
        walk = rng.normal(size=(400, 2)).cumsum(axis=0)
        with pytest.warns(UserWarning, match="as those of a chain do"):
            Monitor(rng=0).add(walk, np.zeros(2))

    def test_other_files_are_no_monitors(self, tmp_path):
        path = tmp_path / "monitor.npz"
        with pytest.raises(FileNotFoundError, match="there is no file"):
            tarpon.load(path)
        path.write_bytes(b"nothing")
        self.refuses("is damaged or was not saved by tarpon", lambda: tarpon.load(path))
        tarpon.sbc(zoo("exact", n_sims=5, rng=0), rng=0).save(path)
        self.refuses("there was no adversary", lambda: tarpon.load(path, adversary=Quadratic()))
        Monitor(rng=0).save(path)
        assert tarpon.load(path).n_sims == 0
        self.refuses("there was no adversary", lambda: tarpon.load(path, adversary=Quadratic()))
        Monitor(adversary=Quadratic(), rng=0).save(path)
        self.refuses("had an adversary, which is not in the file", lambda: tarpon.load(path))

    def test_a_file_is_never_half_written(self, tmp_path, monkeypatch):
        path = tmp_path / "monitor.npz"
        Monitor(rng=0).add(np.zeros((9, 2)), np.zeros(2)).save(path)
        whole = path.read_bytes()

        def full(file, **arrays):
            file.write(b"half")
            raise OSError("no space left")

        monkeypatch.setattr(np, "savez", full)
        with pytest.raises(OSError, match="no space"):
            Monitor(rng=0).save(path)
        assert path.read_bytes() == whole
        assert list(tmp_path.iterdir()) == [path]

    def test_monitors_that_cannot_be_merged_are_refused(self):
        sims = zoo("exact", n_sims=3, rng=0)
        one = Monitor(rng=0).add(sims)
        self.refuses("both monitors have the seed 0", lambda: one.merge(Monitor(rng=0)))
        self.refuses("one of the monitors has an adversary",
                     lambda: one.merge(Monitor(adversary=Quadratic(), rng=1)))  # fmt: skip
        other = Monitor(rng=1).add(np.zeros((9, 2)), np.zeros(2))
        self.refuses("must have the same parameters", lambda: one.merge(other))

    def test_adversaries_need_the_same_observations(self):
        sims = zoo("exact", n_sims=3, rng=0)
        monitor = Monitor(adversary=Quadratic(), rng=0).add(sims)
        self.refuses(r"had shape \(2,\) so far, and now None",
                     lambda: monitor.add(without(sims, "x")))  # fmt: skip
        densities = Simulations.of_densities(np.zeros((9, 3)), np.zeros(3))
        self.refuses("needs `samples` and `theta`",
                     lambda: Monitor(adversary=Quadratic()).add(densities))  # fmt: skip


def test_one_parameter_may_come_without_its_axis():
    rng = np.random.default_rng(0)
    draws, truths = rng.normal(size=(30, 5)), rng.normal(size=5)
    bare, full = Monitor(rng=0), Monitor(rng=0)
    for k in range(5):
        bare.add(draws[:, k], truths[k])
        full.add(draws[:, k, None], truths[k, None])
    assert state(bare) == state(full)
    assert state(bare) == state(Monitor(rng=0).add(draws[..., None], truths[:, None]))

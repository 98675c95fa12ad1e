import json

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations
from tarpon.checks.flaws import Kind
from tarpon.checks.values import Few, Shares
from tarpon.gate import Gate

FALSE_ALARM = 1e-6


def binary(rng, n_sims=200, n_draws=100, power=1.0):
    p = 1 / (1 + np.exp(-1.5 * rng.normal(size=n_sims)))
    drawn = p**power / (p**power + (1 - p) ** power)
    return 1.0 * (rng.random((n_draws, n_sims)) < drawn)[..., None], 1.0 * (
        rng.random((n_sims, 1)) < p[:, None]
    )


def rare(rng, n_sims=200, n_draws=100):
    p = rng.beta(0.3, 10, size=n_sims)
    return 1.0 * (rng.random((n_draws, n_sims)) < p)[..., None], 1.0 * (
        rng.random((n_sims, 1)) < p[:, None]
    )


def three(rng, n_sims=200, n_draws=100):
    ends = rng.dirichlet([0.5, 1, 1], size=n_sims).cumsum(axis=1)[:, :2]

    def draws(*shape):
        return 1.0 * (rng.random((*shape, n_sims, 1)) > ends).sum(axis=-1)[..., None]

    return draws(n_draws), draws()


def counts(rng, n_sims=200, n_draws=100, factor=1.0):
    rate = rng.gamma(3, 0.3, size=(n_sims, 1))
    return 1.0 * rng.poisson(factor * rate, (n_draws, n_sims, 1)), 1.0 * rng.poisson(rate)


def weighted(rng, n_sims=200, n_draws=100):
    p = rng.uniform(0.1, 0.9, size=n_sims)
    samples, theta = 1.0 * (rng.random((n_draws, n_sims)) < 0.5), 1.0 * (rng.random(n_sims) < p)
    weigh = lambda points: np.log(np.where(points == 1, p, 1 - p))  # noqa: E731
    return Simulations(
        samples[..., None], theta[:, None],
        log_weights=weigh(samples), log_weights_theta=weigh(theta),
    )  # fmt: skip


def checked(made, **more):
    arrays = (made,) if isinstance(made, Simulations) else made
    return tarpon.check(*arrays, **({"rng": 0, "n_swaps": 99} | more))


def of_values(check):
    return next(family for family in check.families if family.name == "values")


class TestFew:
    def test_are_recognised_beside_others(self):
        rng = np.random.default_rng(0)
        samples = np.stack([rng.normal(size=(50, 80)), rng.integers(2, size=(50, 80))], axis=-1)
        many = rng.poisson(100, size=(50, 80, 1))
        sims = Simulations(np.concatenate([samples, many], axis=2), np.zeros((80, 3)))
        few = Few.of(sims)
        assert list(few.values) == [1]
        assert few.values[1].tolist() == [0, 1]

    def test_need_not_be_integers(self):
        rng = np.random.default_rng(0)
        sims = Simulations(rng.choice([0.1, 0.2, 7.5], (50, 80, 1)), np.full((80, 1), 0.1))
        assert Few.of(sims).values[0].tolist() == [0.1, 0.2, 7.5]

    def test_rounded_draws_of_continuous_truths_are_many(self):
        rng = np.random.default_rng(0)
        assert not Few.of(Simulations(rng.integers(3, size=(50, 80, 1)), rng.normal(size=(80, 1))))

    def test_constants_are_none(self):
        assert not Few.of(Simulations(np.ones((50, 80, 1)), np.ones((80, 1))))

    def test_which_point_is_the_truth_does_not_matter(self):
        samples, theta = counts(np.random.default_rng(0))
        points = np.concatenate([theta[None], samples])[::-1]
        one, other = (
            Few.of(Simulations(samples, theta)),
            Few.of(Simulations(points[1:], points[0])),
        )
        assert one.values[0].tolist() == other.values[0].tolist()

    @pytest.mark.parametrize("made", [binary, three, counts])
    def test_torch_gives_the_same_answer(self, made):
        torch = pytest.importorskip("torch")
        samples, theta = made(np.random.default_rng(0))
        here = checked((samples, theta))
        there = checked((torch.from_numpy(samples), torch.from_numpy(theta)))
        assert of_values(there).p_value == pytest.approx(of_values(here).p_value, abs=0.02)
        assert there.evidence.values == here.evidence.values

    def test_stored_draws_give_the_same_answer(self, tmp_path):
        samples, theta = counts(np.random.default_rng(0))
        np.save(tmp_path / "samples.npy", samples)
        mapped = np.load(tmp_path / "samples.npy", mmap_mode="r")
        assert checked((mapped, theta)).to_dict() == checked((samples, theta)).to_dict()


def seldom(missed, rate):
    """Whether no row of studies, nor all together, misses more often than a rate."""
    every = (missed, *missed)
    share = FALSE_ALARM / len(every)
    return all(some.sum() <= binom.isf(share, some.size, rate) for some in every)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_planted")
def test_false_alarms_are_as_rare_as_stated():
    """At 10 %, 45 studies per kind; of all together, a level of 23 % fails half the time."""
    p_values = np.empty((2, 4, 45))
    for i, made in enumerate((binary, three, counts, weighted)):
        for k in range(45):
            found = checked(made(np.random.default_rng([1, k]), 30, 15), rng=k, n_swaps=19)
            p_values[:, i, k] = found.p_value, of_values(found).p_value
    for rejected in p_values <= 0.1:
        assert seldom(rejected, 0.1)
        assert seldom(~rejected, 0.9)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_planted")
def test_false_alarms_of_a_wrong_posterior_are_more_frequent():
    studies = [
        checked(binary(np.random.default_rng([1, k]), 100, 15, power=3.0), rng=k, n_swaps=19)
        for k in range(60)
    ]
    n = sum(of_values(c).p_value <= 0.1 for c in studies)
    assert binom.sf(n - 1, 60, 0.1) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_planted")
def test_sizes_of_exact_posteriors_are_calibrated():
    """In 45 studies per kind; of all together, 17 % of intervals that miss fail half the time."""
    missed = np.empty((2, 4, 45), bool)
    gate = Gate(fail_on="never", max_bias=0.15, max_width_error=0.15)
    for i, made in enumerate((binary, rare, three, counts)):
        for k in range(45):
            found = checked(made(np.random.default_rng([2, k]), n_draws=50), rng=k, n_swaps=19)
            (parameter,) = found.parameters
            bias, width = parameter.bias, parameter.width
            missed[:, i, k] = not bias.low <= 0 <= bias.high, not width.low <= 1 <= width.high
            assert 0 < width.value < 4
            assert not gate.failures(found)
    assert all(seldom(some, 0.06) for some in missed)


@pytest.mark.parametrize("made", [binary, three, counts])
def test_the_gate_passes_exact_posteriors(made):
    found = checked(made(np.random.default_rng(4)))
    assert not Gate(max_bias=0.2, max_width_error=0.2).failures(found)


def test_widths_of_draws_that_are_all_equal_are_finite():
    values, one = np.array([0.0, 1.0]), np.ones(50)
    shares = Shares(
        values, np.stack([one, 0 * one], 1), np.arange(50) % 2.0, 0 * one, 0 * one, 100
    )
    assert 1 < shares.width().low <= shares.width().high < 1e3
    assert np.isfinite(shares.bias().value)


@pytest.mark.slow
class TestPower:
    @pytest.mark.usefixtures("nothing_planted")
    def test_overconfident_probabilities_are_found(self):
        found = [
            checked(binary(np.random.default_rng([4, k]), 600, power=1.5), rng=k)
            for k in range(20)
        ]
        assert sum(c.p_value <= 0.05 for c in found) >= 18
        assert sum(c.findings[0].kind is Kind.VALUES for c in found if c.findings) >= 18

    @pytest.mark.usefixtures("nothing_planted")
    def test_shifted_counts_are_found(self):
        found = [
            checked(counts(np.random.default_rng([5, k]), 600, factor=1.3), rng=k)
            for k in range(20)
        ]
        assert sum(c.p_value <= 0.05 for c in found) >= 18
        kinds = [c.findings[0].kind for c in found if c.findings]
        assert set(kinds) <= {Kind.BIASED, Kind.VALUES}


class TestTable:
    def test_compares_draws_with_truths(self):
        samples, theta = binary(np.random.default_rng(6))
        rows = checked((samples, theta)).evidence.values
        (whole,) = (row for row in rows if row.everywhere and row.value == 1)
        assert whole.draws == pytest.approx(samples.mean())
        assert whole.truths.value == pytest.approx(theta.mean())
        bins = [row for row in rows if row.value == 1 and not row.everywhere]
        assert sum(row.n_sims for row in bins) == len(theta)
        assert all(row.low <= row.draws <= row.high for row in bins)

    def test_is_in_frames_json_and_reports(self, tmp_path):
        samples, theta = three(np.random.default_rng(7))
        found = checked((samples, np.minimum(theta, 1)), names=["model"])
        assert found.findings[0].kind is Kind.VALUES
        assert str(found.findings[0]).startswith("wrong shares in model: value ")
        frame = found.to_frame("values")
        assert list(frame.columns[:6]) == ["name", "value", "low", "high", "n_sims", "draws"]
        assert len(json.loads(found.to_json())["evidence"]["values"]) == len(frame)
        found.report(tmp_path / "report.html")
        assert "Table of values" in (tmp_path / "report.html").read_text()

    def test_is_empty_for_continuous_parameters(self):
        found = tarpon.check(tarpon.problems.zoo("exact", rng=0), rng=0, n_swaps=19)
        assert found.evidence.values == ()
        assert "values" not in [family.name for family in found.families]


def test_an_index_beside_continuous_parameters():
    rng = np.random.default_rng(8)
    model, drawn = binary(rng, 600, power=2.0)[::-1]
    x = rng.normal(size=(600, 1))
    theta = np.concatenate([model, x + rng.normal(size=(600, 1))], axis=1)
    samples = np.concatenate([drawn, x + rng.normal(size=(100, 600, 1))], axis=2)
    found = checked((samples, theta), x=x, names=["model", "mass"])
    assert {finding.kind for finding in found.findings} == {Kind.VALUES}
    assert found.parameters[0].p_value < 0.05 < found.parameters[1].p_value

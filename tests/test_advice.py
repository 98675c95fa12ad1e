"""Advice: planted mistakes are named first, and exact posteriors are accused of none."""

import json
import re
import runpy
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon.checks import mistakes
from tarpon.checks.advice import _USUAL
from tarpon.checks.flaws import Finding, Kind
from tarpon.checks.mistakes import Cause
from tarpon.checks.slopes import FACTORS, slope

ROOT = Path(__file__).parents[1]
FLAWS = sorted((ROOT / "docs" / "flaws").glob("*.md"))
STUDIES = runpy.run_path(str(ROOT / "benchmarks" / "advice.py"))
PLANTED, EXACT, PROBLEMS = STUDIES["PLANTED"], STUDIES["EXACT"], ("normal", "uniform", "skewed")
FALSE_ALARM = 1e-6
ALONE = [
    (mistake, problem)
    for (mistake, (cause, _)), problem in product(PLANTED.items(), PROBLEMS)
    if cause != "order of parameters" and (cause, problem) != ("prior leak", "normal")
]
NAMED = 1e-4  # the largest rate of mistakes named per exact study: more than all levels together


def study(problem="uniform", *, n_sims=200, n_draws=250, n_dims=2, seed=0):
    return EXACT[problem](np.random.default_rng(seed), n_sims, n_draws, n_dims)


def planted(mistake, problem="uniform", **sizes):
    return PLANTED[mistake][1](*study(problem, **sizes))


def check(draws, truths, **options):
    return tarpon.check(draws, truths, n_swaps=199, rng=0, **options)


def causes(found):
    return [advice.cause for advice in found.advice if advice.recognised]


class TestMistakes:
    """Found in at least 97 of 100 studies of this size (docs/level.md); the seeds are fixed."""

    @pytest.mark.parametrize("n_dims", [2, 5])
    @pytest.mark.parametrize("mistake", PLANTED)
    def test_that_are_planted_are_the_first_advice(self, mistake, n_dims):
        cause, _ = PLANTED[mistake]
        problem = "skewed" if n_dims == 5 else "uniform"
        found = check(*planted(mistake, problem, n_dims=n_dims))
        assert found.advice[0].cause == cause
        assert found.advice[0].numbers

    @pytest.mark.parametrize(("mistake", "problem"), ALONE)
    def test_of_one_parameter_are_recognised(self, mistake, problem):
        cause, _ = PLANTED[mistake]
        assert STUDIES["causes"](*planted(mistake, problem, n_dims=1, seed=3))[:1] == [cause]

    @pytest.mark.parametrize("factor", [*FACTORS, 3.0])
    def test_of_units_are_told_by_their_factor(self, factor):
        draws, truths = study("skewed", n_sims=500, n_dims=1)
        mean, sd = draws.mean(axis=0) / factor, draws.std(axis=0) / abs(factor)
        line = slope(truths[:, 0], mean[:, 0], sd[:, 0])
        assert line.factor == (factor if factor in FACTORS else None)

    def test_of_axes_are_named_without_data_although_the_check_passes(self):
        draws, truths = study(n_sims=100, n_draws=80, seed=1)
        wrong = np.ascontiguousarray(draws.swapaxes(0, 1)).reshape(draws.shape)
        found = check(wrong, truths)
        assert found.outcome == "no evidence against"
        code = re.search("`samples = (.*)`", found.advice[0].next)[1]
        np.testing.assert_array_equal(eval(code, {"samples": wrong, "np": np}), draws)

    def test_of_a_shift_come_with_the_line_that_puts_them_right(self):
        draws, truths = study()
        wrong = np.roll(draws, -1, axis=1)
        code = re.search("`samples = (.*)`", check(wrong, truths).advice[0].next)[1]
        np.testing.assert_array_equal(eval(code, {"samples": wrong, "np": np}), draws)

    def test_of_the_order_of_parameters_name_all_that_moved(self):
        draws, truths = study(n_dims=4)
        found = check(draws[..., [0, 2, 1, 3]], truths, names=["a", "b", "c", "d"])
        assert found.advice[0].parameters == ("b", "c")
        assert len(found.advice) == 1  # it explains everything

    def test_at_the_ends_are_named_although_the_check_passes(self):
        draws, truths = study("uniform", n_dims=1, n_sims=400, seed=1)
        rare = np.random.default_rng(1).random(size=draws.shape) < 0.04
        found = check(np.where(rare, 3 + draws / 100, draws), truths)
        assert found.outcome == "no evidence against"
        assert causes(found) == [Cause.LEAK]
        assert "the range of all truths" in str(found)

    def test_of_a_prior_state_the_range_in_the_units_of_the_user(self):
        draws, truths = (
            1e-70 * points for points in planted("beyond the prior, 10 % of the draws")
        )
        found = check(draws, truths).advice[0]
        assert found.cause is Cause.LEAK
        low = truths.min(axis=0)[int(found.parameters[0][-1])]
        np.testing.assert_allclose(found.numbers["low"], low)

    def test_of_the_ends_are_found_in_weighted_draws(self):
        draws, truths = planted("beyond the prior, 10 % of the draws")
        log_weights = np.random.default_rng(0).normal(size=draws.shape[:2])
        of_truths = np.random.default_rng(1).normal(size=len(truths))
        sims = tarpon.Simulations(
            draws, truths, log_weights=log_weights, log_weights_theta=of_truths
        )
        assert Cause.LEAK in causes(tarpon.check(sims, n_swaps=199, rng=0))


class TestExact:
    def test_posteriors_of_any_kind_are_accused_of_no_mistake(self):
        named = {
            (name, seed): found
            for name in EXACT
            for seed in range(15)
            if (found := STUDIES["exact"](name, seed))
        }
        assert len(named) <= binom.ppf(1 - FALSE_ALARM, 15 * len(EXACT), NAMED), named

    def test_posteriors_that_pass_have_no_advice(self):
        found = check(*study("normal", seed=1))
        assert found.outcome == "no evidence against"
        assert found.advice == ()
        assert "Next:" not in str(found)

    def test_p_values_at_the_ends_are_no_smaller_than_they_may_be(self):
        """The share of p-values below 0.05; false-alarm rate 1e-6."""
        rng, n_studies, n_small = np.random.default_rng(0), 2000, 0
        for _ in range(n_studies):
            points = rng.normal(size=30)[:, None] + rng.normal(size=(30, 6))
            beyond = (points[:, 1:] > points[:, 0].max()).mean(axis=1)
            n_small += np.log1p(-beyond * 5 / 6).sum() <= np.log(0.05)
        assert n_small <= binom.ppf(1 - FALSE_ALARM, n_studies, 0.05)

    def test_order_of_draws_that_are_sorted_is_no_burn_in(self):
        draws, truths = study("normal", n_dims=1)
        assert STUDIES["causes"](np.sort(draws, axis=0), truths) == []

    def test_wide_draws_of_an_unbounded_prior_are_no_leak(self):
        draws, truths = study("normal", n_sims=500, n_dims=1)
        mean = draws.mean(axis=0)
        assert STUDIES["causes"](mean + 3 * (draws - mean), truths) == []

    def test_rounded_draws_are_not_clipped(self):
        draws, truths = study("skewed", n_dims=1)
        assert STUDIES["causes"](draws.round(1), truths) == []


class TestReading:
    @pytest.fixture(scope="class")
    @staticmethod
    def found():
        return check(*planted("draws in log10, truths in ln"), names=["a", "b"])

    def test_print_ends_with_at_most_two(self, found):
        lines = str(found).splitlines()
        assert lines[-1].startswith("  Next: Draws in log10 and truths in ln? Truths of a go")
        several = tarpon.check(tarpon.problems.zoo("truncated", rng=1), n_swaps=199, rng=0)
        assert len(several.advice) > 2
        assert str(several).count("  Next: ") == 2

    def test_json_and_reports_contain_it(self, found, tmp_path):
        (about,) = json.loads(found.to_json())["advice"]
        assert about["cause"] == "units"
        assert about["numbers"]["factor"] == pytest.approx(np.log(10))
        assert about["text"] == str(found.advice[0])
        found.report(tmp_path / "report.html")
        for page in ((tmp_path / "report.html").read_text(), found._repr_html_()):
            assert "Draws in log10 and truths in ln?" in page
        assert found.findings[0].page in (tmp_path / "report.html").read_text()

    def test_weak_evidence_has_none(self):
        weak = [
            found
            for seed in range(3)
            if (
                found := check(*study("normal", n_sims=50, n_draws=20, seed=seed), level=0.99)
            ).weak
        ]
        assert weak
        assert not any(found.advice for found in weak)

    def test_every_finding_has_usual_causes_and_every_link_leads_somewhere(self):
        assert set(_USUAL) == set(Kind)
        headings = re.findall("^#+ (.*)$", (ROOT / "docs" / "next.md").read_text(), re.MULTILINE)
        anchors = {heading.lower().replace(" ", "-") for heading in headings}
        assert {cause.value.replace(" ", "-") for cause in Cause} <= anchors

    @pytest.mark.parametrize("kind", Kind)
    def test_every_finding_has_a_page(self, kind):
        assert ROOT / Finding(kind, (), 0.01).page in FLAWS

    @pytest.mark.parametrize("path", FLAWS, ids=lambda path: path.stem)
    def test_a_page_has_the_look_of_a_flaw_its_causes_and_its_cure(self, path):
        page = path.read_text()
        parts = ("Usual causes", "Cure", "The line that confirms it")
        assert [page.count(f"\n## {part}\n") for part in parts] == [1, 1, 1]
        assert f"(images/{path.stem}.png)" in page
        assert (path.parent / "images" / f"{path.stem}.png").exists()
        overview = (ROOT / "docs" / "next.md").read_text()
        assert f"(flaws/{path.name})" in overview
        assert f"\nflaws/{path.stem}\n" in overview.partition("{toctree}")[2]

    def test_findings_with_the_same_causes_share_them(self):
        several = tarpon.check(tarpon.problems.zoo("truncated", rng=1), n_swaps=199, rng=0)
        kinds = [finding.kind for finding in several.findings]
        assert {Kind.WIDTH_BY_DATA, Kind.BIAS_BY_DATA} <= set(kinds)
        said = [str(advice) for advice in several.advice]
        assert len(said) == len(set(said)) < len(kinds) + len(causes(several))

    def test_errors_within_the_tolerance_have_none(self):
        draws, truths = study("normal", n_sims=1000, n_draws=100, n_dims=1)
        tolerance = tarpon.Tolerance(bias=1.0, width=0.9, coverage=0.9)
        found = check(draws + 0.1, truths, tolerance=tolerance)
        assert found.outcome == "within tolerance"
        assert found.p_value <= found.level / 5
        assert found.advice == ()

    def test_keys_in_json_are_documented(self, found):
        page = (ROOT / "docs" / "json.md").read_text()
        section = page.partition("## Advice\n")[2].partition("\n## ")[0]
        keys = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert keys == list(found.to_dict()["advice"][0])
        assert {f'"{cause}"' for cause in Cause} <= set(re.findall('"[^"]+"', section))

    @pytest.mark.parametrize("kind", ["stored", "torch"])
    def test_stored_draws_and_tensors_get_the_same(self, kind, tmp_path):
        draws, truths = planted("clipped, 8 % of the draws")
        if kind == "torch":
            other = pytest.importorskip("torch").from_numpy(draws)
        else:
            np.save(tmp_path / "draws.npy", draws)
            other = np.load(tmp_path / "draws.npy", mmap_mode="r")
        assert check(other, truths).advice == check(draws, truths).advice


def test_equal_numbers_share_their_rank():
    ranks = mistakes.standard_ranks(np.array([[1.0], [2.0], [2.0], [3.0]]))[:, 0]
    np.testing.assert_allclose(ranks, np.array([-1, 0, 0, 1]) * np.sqrt(2))

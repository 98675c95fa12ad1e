"""`check`: what it finds, what it says, and what it could not have seen."""

import json
import re
import time
import tracemalloc
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import Simulations, references
from tarpon._base import arguments
from tarpon._base.text import Estimate
from tarpon.checks import features, labellings, words
from tarpon.checks.flaws import Finding, Kind, Trend
from tarpon.checks.parameters import measure
from tarpon.checks.power import Detectable
from tarpon.problems import FLAWS, zoo
from tarpon.regions import Scores
from tarpon.simulations.views import without

FALSE_ALARM = 1e-6
FIRST = [flaw for flaw, about in FLAWS.items() if about.circle == 1]
FINDINGS = [
    *("kind", "parameters", "p_value", "size", "size_low", "size_high", "unit", "expected"),
    *("direction", "where", "elsewhere", "elsewhere_low", "elsewhere_high"),
]


@cache
def check(flaw, n_dims=10, seed=0):
    return tarpon.check(zoo(flaw, n_dims=n_dims, rng=seed), rng=seed, n_swaps=299)


@cache
def detectable(n_dims, n_draws):
    exact = zoo("exact", n_dims=n_dims, n_draws=n_draws, n_sims=100, rng=1)
    return tarpon.check(exact, rng=1, n_swaps=199).detectable


def kinds(check):
    return {finding.kind for finding in check.findings}


def the(kind, check):
    """Return the finding of a kind, of which there must be one."""
    (finding,) = [finding for finding in check.findings if finding.kind is kind]
    return finding


class TestTheZoo:
    # Flaws that a study of 200 simulations sees for sure in ten dimensions.
    @pytest.mark.parametrize("flaw", sorted(set(FIRST) - {"exact", "shift"}))
    def test_flaws_of_the_zoo_are_found_and_named(self, flaw):
        found = check(flaw)
        assert found.outcome == "inaccurate"
        assert found.p_value == 1 / 300
        assert kinds(found) & set(FLAWS[flaw].kinds)

    def test_exact_posteriors_are_not_rejected(self):
        p = [check("exact", seed=seed).p_value for seed in range(5)]
        assert max(p) > 0.05
        assert check("exact", seed=1).findings == ()

    @pytest.mark.parametrize("n_dims", [1, 3])
    def test_the_zoo_has_any_dimension(self, n_dims):
        for flaw in FIRST:
            sims = zoo(flaw, n_sims=20, n_draws=10, n_dims=n_dims, rng=0)
            assert sims.samples.shape == (10, 20, n_dims)

    def test_the_zoo_refuses_unknown_flaws(self):
        with pytest.raises(ValueError, match="must be one of 'exact', 'narrow'"):
            zoo("unicorn")


class TestFindings:
    def test_a_bias_is_named_with_its_parameter_and_size(self):
        sims = zoo("exact", n_dims=4, n_sims=400, rng=0)
        samples = sims.samples.copy()
        samples[..., 2] += 0.5 * np.sqrt(0.2)
        found = tarpon.check(samples, sims.theta, names=["a", "b", "mass", "d"], rng=0)
        biased = the(Kind.BIASED, found)
        row = next(p for p in found.parameters if p.name == "mass")
        assert (biased.parameters, biased.size) == (("mass",), row.bias)
        assert (biased.unit, biased.direction, biased.expected) == ("posterior sd", "above", 0)
        assert row.bias.low < 0.5 < row.bias.high
        below = tarpon.check(2 * sims.samples - samples, sims.theta, rng=0)
        assert the(Kind.BIASED, below).direction == "below"

    @pytest.mark.parametrize("factor", [0.7, 1.4])
    def test_a_wrong_width_is_named_with_its_factor(self, factor):
        sims = zoo("exact", n_dims=3, n_sims=600, rng=0)
        middle = 0.8 * sims.x
        found = tarpon.check(middle + factor * (sims.samples - middle), sims.theta, rng=0)
        wrong = the(Kind.OVERCONFIDENT if factor < 1 else Kind.UNDERCONFIDENT, found)
        assert wrong.parameters == ()
        assert wrong.size.low - 0.03 < 1 / factor < wrong.size.high + 0.03
        assert (wrong.unit, wrong.expected) == ("width of the draws", 1)
        for parameter in found.parameters:
            assert parameter.width.low - 0.03 < 1 / factor < parameter.width.high + 0.03

    def test_tails_are_as_light_as_can_be(self):
        rng = np.random.default_rng(0)
        theta = rng.choice([-1.0, 1.0], size=(200, 1)) + 0.1 * rng.normal(size=(200, 1))
        check = tarpon.check(rng.normal(size=(100, 200, 1)), theta, rng=0, n_swaps=199)
        wrong = the(Kind.TAILS, check)
        assert wrong.size.low == -2.0  # the excess kurtosis of two values
        assert -2.0 <= wrong.size.value <= wrong.size.high < -1.0

    def test_a_wrong_correlation_is_named_with_its_pair(self):
        rng = np.random.default_rng(0)
        theta, samples = rng.normal(size=(400, 5)), rng.normal(size=(100, 400, 5))
        theta[:, 3] = 0.6 * theta[:, 1] + 0.8 * theta[:, 3]
        found = tarpon.check(samples, theta, rng=0)
        wrong = the(Kind.CORRELATION, found)
        assert wrong.parameters == ("theta_1", "theta_3")
        assert 0.45 < wrong.size.low < 0.6 < wrong.size.high < 0.65
        assert abs(wrong.expected) < 0.05

    def test_a_flaw_without_a_name_is_sized_by_regions_around_the_centre(self):
        def spiked(sd, *shape):
            narrow = rng.uniform(size=(*shape, 1)) < 0.5
            return np.where(narrow, sd, 1.0) * rng.normal(size=(*shape, 2))

        # A spike that is twice as wide as it should be, as networks draw it.
        rng = np.random.default_rng(0)
        truths = spiked(0.1, 300)
        found = tarpon.check(spiked(0.2, 100, 300), truths, n_swaps=199, rng=0)
        wrong = the(Kind.SHAPE, found)
        assert (wrong.unit, wrong.expected) == ("share of the truths", 0.2)
        # 20 % of the draws and 43 % of the truths lie within 0.195 of the true centre.
        assert 0.2 < wrong.size.low < 0.43

    def test_ignoring_the_data_needs_the_data_to_be_seen(self):
        seen = check("prior", n_dims=2)
        assert seen.findings[0].kind is Kind.IGNORES_DATA
        sims = zoo("prior", n_dims=2, rng=0)
        blind = tarpon.check(sims.samples, sims.theta, rng=0, n_swaps=299)
        assert blind.p_value > 0.01
        assert "uncorrelated with the truths" in blind.warnings[0]
        assert check("exact").warnings == ()

    @pytest.mark.parametrize("flaw", ["bias_by_x", "local_width"])
    @pytest.mark.slow
    def test_what_an_error_depends_on_is_called_x_only_where_x_is_given(self, flaw):
        kind = Kind.BIAS_BY_DATA if flaw == "bias_by_x" else Kind.WIDTH_BY_DATA
        sims = zoo(flaw, n_dims=2, n_sims=600, rng=0)
        seen, blind = (tarpon.check(one, rng=0, n_swaps=299) for one in (sims, without(sims, "x")))
        assert the(kind, seen).where == "x[0]"
        assert "posterior" in the(kind, blind).where
        assert not any("observation" in str(f) or " x" in str(f) for f in blind.findings)
        assert re.search("along (its|the) posterior", tarpon.report.html(blind))

    def test_chains_are_warned_of(self):
        assert "thin the chains" in check("autocorrelated").warnings[0]

    def test_scores_of_the_user_are_named(self):
        rng = np.random.default_rng(0)
        theta, samples = rng.normal(size=(300, 6)), rng.normal(size=(60, 300, 6))
        hidden = lambda theta, x: np.sin(5 * theta).sum(axis=-1)  # noqa: E731
        bent = samples + 0.12 * np.cos(5 * samples)
        for score in (hidden, Scores(hidden), (hidden(bent, None), hidden(theta, None))):
            found = tarpon.check(bent, theta, scores={"ripple": score}, rng=0, n_swaps=299)
            assert the(Kind.SCORE, found).where == "ripple"
            ripple = next(f for f in found.families if f.name == "score: ripple")
            assert ripple.p_value == 1 / 300
            assert ripple.sees == "your own score"

    def test_scores_of_wrong_shape_are_refused(self):
        sims = zoo("exact", rng=0)
        with pytest.raises(ValueError, match=r"must be \(100, 200\) for draws"):
            tarpon.check(sims, scores={"a": (np.zeros((100, 199)), np.zeros(200))})
        with pytest.raises(ValueError, match="must reduce these"):
            tarpon.check(sims, scores={"a": lambda theta, x: theta.sum()})


SIZE = Estimate(0.3, 0.2, 0.4)
LOW, HIGH = Estimate(-0.3, -0.4, -0.2), Estimate(0.1, -0.1, 0.3)


def trend(what, *names, along="x[1]"):
    return Trend(what, names, along, (0.0, 1.0), (LOW, HIGH), LOW, HIGH, 0.01)


SENTENCES = {
    "scales below 4 cells: the draws have 0.30 [0.20, 0.40] of the power that "
    "they should": Finding(
        Kind.POWER, (), 0.01, size=SIZE, where="scales below 4 cells"
    ),
    "all scales: overconfident, the truths scatter 0.30 [0.20, 0.40] times as widely as the "
    "draws": (
        Finding(
            Kind.SCALES, (), 0.01, size=SIZE, direction="overconfident", where="all scales"
        )
    ),
    "all scales: draws follow posterior means more than truths do, as if structure were in the "
    "wrong places; truths correlate with these means by 0.30 [0.20, 0.40], and draws by +0.60": (
        Finding(Kind.PHASES, (), 0.01, size=SIZE, expected=0.6, where="all scales")
    ),
    "all scales: draws follow posterior means less than truths do; truths correlate with these "
    "means by 0.30 [0.20, 0.40], and draws by +0.10": Finding(
        Kind.PHASES, (), 0.01, size=SIZE, expected=0.1, where="all scales"
    ),
    "all scales: wrong directions; the ratio of the power along axis 1 and along axis 0 is 0.30 "
    "[0.20, 0.40] times as large for truths as for draws": Finding(
        Kind.ANISOTROPY, (), 0.01, size=SIZE, where="all scales",
        direction="along axis 1 and along axis 0",
    ),
    "wrong distribution of cells: the kurtosis of the cells of truths is off by 0.30 [0.20, 0.40] "
    "from that of draws": Finding(
        Kind.CELLS, (), 0.01, size=SIZE, unit="kurtosis of the cells"
    ),
    "the draws fit the data worse than the truths (scales below 4 cells): their chi² is 0.30 "
    "[0.20, 0.40] times as large": Finding(
        Kind.FIT, (), 0.01, size=SIZE, direction="worse", where="scales below 4 cells"
    ),
    "biased in a patch of 9 cells around (4, 4): the draws lie 0.30 [0.20, 0.40] posterior sd "
    "above the truths": Finding(
        Kind.BIASED, (), 0.01, size=SIZE, direction="above",
        where="a patch of 9 cells around (4, 4)",
    ),
    "outliers in mass: 0.7% of the draws lie beyond 10 of their own interquartile widths, in 81% "
    "of the posteriors, and 30.0% [20.0%, 40.0%] of the truths do; means and sds of such draws "
    "are wrong": Finding(
        Kind.OUTLIERS, ("mass",), 0.01, size=SIZE, expected=0.007, where="81%"
    ),
    "biased in mass: the draws lie 0.30 [0.20, 0.40] posterior sd below the truths": Finding(
        Kind.BIASED, ("mass",), 0.01, size=Estimate(-0.3, -0.4, -0.2), direction="below"
    ),
    "biased in 2 parameters: the draws lie above the truths, by 0.30 [0.20, 0.40] in a, 0.30 "
    "[0.20, 0.40] in b posterior sd": Finding(
        Kind.BIASED, ("a", "b"), 0.01, size=SIZE, direction="above", sizes=(SIZE, SIZE)
    ),
    "overconfident: the truths scatter 0.30 [0.20, 0.40] times as widely as the draws": Finding(
        Kind.OVERCONFIDENT, (), 0.01, size=SIZE
    ),
    "underconfident in mass: the truths scatter 0.30 [0.20, 0.40] times as widely as the draws": (
        Finding(Kind.UNDERCONFIDENT, ("mass",), 0.01, size=SIZE)
    ),
    "skewed in mass: the draws miss a tail or mode below, or have one too many above; the truths "
    "have a skewness of 0.30 [0.20, 0.40] among them": Finding(
        Kind.SKEWED, ("mass",), 0.01, size=SIZE, direction="below"
    ),
    "wrong tails: the tails of the draws are too heavy, or the draws fill a gap between modes; "
    "the truths have an excess kurtosis of 0.30 [0.20, 0.40] among them": Finding(
        Kind.TAILS, (), 0.01, size=SIZE, direction="heavy"
    ),
    "wrong tails in mass: the tails of the draws are too light, or the draws are too few in the "
    "middle; the truths have an excess kurtosis of 0.30 [0.20, 0.40] among them": Finding(
        Kind.TAILS, ("mass",), 0.01, size=SIZE, direction="light"
    ),
    "bias of mass depends on x[1]: the draws lie 0.30 [0.20, 0.40] posterior sd below the truths "
    "where that is lowest, and within 0.30 posterior sd of the truths where it is highest (thirds "
    "of the simulations)": Finding(
        Kind.BIAS_BY_DATA, ("mass",), 0.01, size=SIZE, where="x[1]", trend=trend("bias", "mass")
    ),
    "width depends on its posterior mean: the truths scatter -0.30 [-0.40, -0.20] times as widely "
    "as the draws where that is lowest, and 0.10 [-0.10, 0.30] where it is highest (thirds of "
    "the simulations)": Finding(
        Kind.WIDTH_BY_DATA, (), 0.01, size=SIZE, where="its posterior mean", trend=trend("width")
    ),
    "ignores the data: the draws are the same whatever was observed, or the axes are swapped; "
    "their means correlate with the truths by 0.30 [0.20, 0.40]": Finding(
        Kind.IGNORES_DATA, (), 0.01, size=SIZE
    ),
    "learned nothing about r: the truths follow the data but not the draws, whose means correlate "
    "with them by 0.30 [0.20, 0.40]": Finding(Kind.IGNORES_DATA, ("r",), 0.01, size=SIZE),
    "learned nothing about 2 parameters: the truths follow the data but not the draws, whose "
    "means correlate with them by 0.30 [0.20, 0.40] in r, 0.30 [0.20, 0.40] in n": Finding(
        Kind.IGNORES_DATA, ("r", "n"), 0.01, size=SIZE, sizes=(SIZE, SIZE)
    ),
    "ignores x[1:3] in mass: that part explains 30% [20%, 40%] of what the draws leave "
    "open": Finding(
        Kind.UNUSED_DATA, ("mass",), 0.01, size=SIZE, where="x[1:3]"
    ),
    "ignores a part of the data in mass: that part explains 30% [20%, 40%] of what the draws "
    "leave open": Finding(Kind.UNUSED_DATA, ("mass",), 0.01, size=SIZE, where="x"),
    "wrong correlation between a and b: given the data, truths correlate by 0.30 [0.20, 0.40] "
    "and draws by -0.10": Finding(Kind.CORRELATION, ("a", "b"), 0.01, size=SIZE, expected=-0.1),
    "correlation of a and b depends on x[1]: the truths correlate by -0.30 [-0.40, -0.20] "
    "(draws: 0.00) where that is lowest, and by 0.10 [-0.10, 0.30] (draws: +0.20) where it is "
    "highest (thirds of the simulations)": Finding(
        Kind.CORRELATION_BY_DATA, ("a", "b"), 0.01, size=SIZE, where="x[1]", expected=0.2,
        trend=replace(trend("correlation", "a", "b"), draws=(-0.001, 0.2)),
    ),
    "wrong combination of parameters: along 0.71 a − 0.71 b, the truths scatter 0.30 [0.20, 0.40] "
    "times as widely as the draws": Finding(
        Kind.COMBINATION, ("a", "b"), 0.01, size=SIZE, where="0.71 a − 0.71 b"
    ),
    "wrong dependence between a, b and c: the truths of a and b correlate by -0.30 [-0.40, -0.20] "
    "where the place of c is lowest, and 0.10 [-0.10, 0.30] where it is highest (thirds of the "
    "simulations)": Finding(
        Kind.DEPENDENCE, ("a", "b", "c"), 0.01, size=SIZE, expected=0.0,
        trend=trend("correlation", "a", "b", along="the place of c"),
    ),
    "wrong shares in model: value 2 is drawn in 45%, and is the truth in 30% [20%, 40%]": Finding(
        Kind.VALUES, ("model",), 0.01, size=SIZE, expected=0.45, where="value 2"
    ),
    "rounded: truths and draws do not share the same discrete values": Finding(
        Kind.ROUNDED, (), 0.01
    ),
    "outside the draws in mass: 30% [20%, 40%] of the truths lie beyond all draws, not 2.0%": (
        Finding(Kind.OUTSIDE, ("mass",), 0.01, size=SIZE, expected=0.02)
    ),
    "wrong in your score “{x}”": Finding(Kind.SCORE, (), 0.01, where="{x}"),
    "wrong shape: no single number describes it": Finding(Kind.SHAPE, (), 0.01),
    "wrong shape: the 20% of the draws nearest to their centre surround 30% [20%, 40%] of the "
    "truths": Finding(Kind.SHAPE, (), 0.01, size=SIZE, expected=0.2),
}  # fmt: skip


class TestWords:
    @pytest.mark.parametrize("said", SENTENCES)
    def test_are_made_of_the_fields(self, said):
        assert str(SENTENCES[said]) == said

    def test_are_known_for_every_kind(self):
        assert {finding.kind for finding in SENTENCES.values()} == set(Kind)

    @pytest.mark.parametrize(
        ("bias", "width", "said"),
        [
            (
                0.31,
                0.123,
                "would have caught a bias of 0.31 sd in one parameter, or widths off by 12%, the "
                "same for all observations.",
            ),
            (
                0.31,
                np.inf,
                "bias of 0.31 sd in one parameter, the same for all observations, but "
                "no wrong width.",
            ),
            (np.inf, 0.123, "widths off by 12%, the same for all observations, but no bias."),
            (
                0.05,
                -np.expm1(-0.025),
                "a bias of 0.05 sd or less in one parameter, or widths off "
                "by 2% or less, the same for all observations.",
            ),
            (np.inf, np.inf, "study could not reliably have caught any bias or wrong width."),
        ],
    )
    def test_say_what_could_have_been_caught(self, bias, width, said):
        assert words.power(Detectable(bias, width)).endswith(said)

    def test_say_when_no_family_sees_it_alone(self):
        found = check("narrow")
        unsure = tuple(replace(family, adjusted=1.0) for family in found.families)
        assert "Seen by: only the combined test\n" in str(replace(found, families=unsure))
        assert "only the combined test" not in str(found)


def contradicted(finding):
    """Return whether a finding says what its own interval does not."""
    size, right = finding.size, finding.expected
    signs = {
        Kind.BIASED: {"above": 1, "below": -1}, Kind.SKEWED: {"above": 1, "below": -1},
        Kind.TAILS: {"light": 1, "heavy": -1}, Kind.OVERCONFIDENT: {None: 1},
        Kind.UNDERCONFIDENT: {None: -1},
    }  # fmt: skip
    if size is None or right is None:
        return False
    wanted = signs.get(finding.kind, {}).get(finding.direction)
    wrong = [s for s in (size, *finding.sizes) if s.low <= right <= s.high]
    return bool(wrong) or (wanted is not None and wanted * (size.value - right) <= 0)


class TestTheSecondCircle:
    SEEN = sorted(
        flaw for flaw, about in FLAWS.items()
        if about.circle == 2 and flaw not in ("edge_smoothed", "modes_blurred")
    )  # fmt: skip

    @pytest.mark.parametrize("flaw", SEEN)
    def test_flaws_that_look_right_on_average_are_found_and_named(self, flaw):
        sims = zoo(flaw, n_dims=10, n_sims=800, rng=1)
        found = tarpon.check(sims, rng=1, n_swaps=199)
        assert found.p_value == 1 / 200
        assert kinds(found) & set(FLAWS[flaw].kinds)

    def test_what_they_depend_on_is_named(self):
        product = tarpon.check(zoo("product_missed", n_dims=4, n_sims=800, rng=1), rng=1)
        assert the(Kind.BIAS_BY_DATA, product).where == "x[0] × x[1]"
        half = tarpon.check(zoo("half_ignored", n_dims=4, n_sims=1600, rng=1), rng=1)
        (where, *more) = the(Kind.UNUSED_DATA, half).where.split(", ")
        assert all(int(part[2:-1].split(":")[0]) >= 100 for part in (where, *more))
        one = tarpon.check(zoo("one_width_by_x", n_dims=4, n_sims=800, rng=1), rng=1)
        assert len(the(Kind.WIDTH_BY_DATA, one).parameters) == 1


class TestWeakEvidence:
    def test_is_called_weak(self):
        clear = check("narrow")
        weak = replace(clear, p_value=0.03)
        assert weak.outcome == "inaccurate"
        assert str(weak).startswith("WEAK EVIDENCE AGAINST  p = 0.03 ")
        assert "Repeat with fresh simulations" in str(weak)
        assert "Weak evidence against these posteriors" in tarpon.report.html(weak)

    def test_and_clear_evidence_is_not(self):
        assert str(check("narrow")).startswith("INACCURATE  p = 0.00333 ")
        assert not replace(check("narrow"), p_value=0.01).weak
        assert not replace(check("narrow"), p_value=0.06).weak


class TestIgnoringTheData:
    def study(self, followed, seed=0):
        """Draws at both signs of a number of which the data show the size only."""
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(400, 1))
        x = abs(theta) + 0.1 * rng.normal(size=theta.shape)
        sign = rng.choice([-1, 1], size=(100, 400, 1))
        size = abs(x) if followed else abs(rng.normal(size=(100, 400, 1)))
        draws = sign * size + 0.1 * rng.normal(size=sign.shape) + 0.3
        return tarpon.check(draws, theta, x=x, rng=seed, n_swaps=199)

    def test_is_not_said_of_draws_whose_width_follows_them(self):
        found = self.study(followed=True)
        assert found.p_value <= 0.05
        assert Kind.IGNORES_DATA not in {finding.kind for finding in found.findings}

    def learned(self, of_r, informative=True, seed=0):
        """Return the check of exact draws of the first of five parameters, and others of r."""
        rng = np.random.default_rng(seed)
        theta, noise = rng.normal(size=(2, 200, 5))
        x = theta + 0.5 * noise
        x[:, 1] = x[:, 1] if informative else rng.normal(size=200)
        draws = 0.8 * x + np.sqrt(0.2) * rng.normal(size=(100, 200, 5))
        draws[..., 1] = of_r(x, rng)
        draws[..., 0] = 0.8 * x[:, 0] + rng.normal(
            size=(100, 200)
        )  # so that the whole is rejected in any case
        names = ["a", "r", "c", "d", "e"]
        found = tarpon.check(draws, theta, x=x, names=names, rng=seed, n_swaps=99)
        assert found.p_value <= 0.05
        return {
            name
            for finding in found.findings
            if finding.kind is Kind.IGNORES_DATA
            for name in finding.parameters
        }

    def test_is_said_of_the_parameters_of_which_nothing_was_learned(self):
        assert self.learned(lambda x, rng: rng.normal(size=(100, 200))) == {"r"}

    def test_is_said_of_draws_that_vary_at_random(self):
        def wiggles(x, rng):
            return 0.3 * rng.normal(size=200) + np.sqrt(0.91) * rng.normal(size=(100, 200))

        assert self.learned(wiggles) == {"r"}

    # By chance, at most one study in 20 says so: 7 or more of 10 do at a rate of 1e-7.
    def test_is_not_said_where_there_was_nothing_to_learn(self):
        def prior(x, rng):
            return rng.normal(size=(100, 200))

        said = [bool(self.learned(prior, informative=False, seed=k)) for k in range(10)]
        assert sum(said) <= 6

    def test_is_not_said_of_draws_that_follow_what_tells_nothing(self):
        def spurious(x, rng):
            return 0.3 * x[:, 2] + np.sqrt(0.91) * rng.normal(size=(100, 200))

        said = [bool(self.learned(spurious, informative=False, seed=k)) for k in range(10)]
        assert sum(said) <= 6

    def test_names_every_such_parameter(self):
        rng = np.random.default_rng(0)
        theta, noise = rng.normal(size=(2, 400, 5))
        x = theta + 0.5 * noise
        draws = 0.8 * x + np.sqrt(0.2) * rng.normal(size=(200, 400, 5))
        draws[..., [1, 3]] = rng.normal(size=(200, 400, 2))
        found = tarpon.check(draws, theta, x=x, rng=0, n_swaps=199)
        assert set(the(Kind.IGNORES_DATA, found).parameters) == {"theta_1", "theta_3"}
        assert Kind.UNUSED_DATA not in kinds(found)

    def test_draws_that_are_the_same_for_all_are_warned_of(self):
        assert "uncorrelated with the truths" in " ".join(self.study(followed=False).warnings)

    def test_draws_that_follow_the_size_alone_are_not(self):
        rng = np.random.default_rng(0)
        theta = rng.normal(size=(300, 1))
        size = abs(theta) + 0.1 * rng.normal(size=theta.shape)
        draws = rng.choice([-1, 1], size=(100, 300, 1)) * (
            size + 0.1 * rng.normal(size=(100, 300, 1))
        )
        check = tarpon.check(draws, theta, x=size, rng=0, n_swaps=99)
        assert abs(check.parameters[0].recovery) < 0.2
        assert check.warnings == ()


class TestAFewBadParameters:
    def widths(self, factors, seed=0):
        exact = zoo("exact", n_dims=60, n_sims=300, n_draws=60, rng=seed)
        mean = 0.8 * exact.x
        draws = (mean + (exact.samples - mean) * factors).astype("f4")
        return tarpon.check(draws, exact.theta, x=exact.x, rng=seed, n_swaps=199)

    def test_do_not_vanish_in_an_average(self):
        factors = np.ones(60)
        factors[[3, 10, 20, 30, 40]] = 0.6
        found = the(Kind.OVERCONFIDENT, self.widths(factors))
        bad = [f"theta_{k}" for k in (3, 10, 20, 30, 40)]
        assert set(bad) <= set(found.parameters)
        assert len(found.parameters) <= 6
        assert all(size.low < 1.67 < size.high + 0.1 for size in found.sizes[:5])
        assert str(found).startswith(f"overconfident in {len(found.sizes)} parameters: the truths")

    def test_and_a_width_of_all_is_one_number(self):
        found = the(Kind.OVERCONFIDENT, self.widths(np.full(60, 0.9)))
        assert found.parameters == ()
        assert found.size.low < 1 / 0.9 < found.size.high

    def test_both_sides_are_named(self):
        factors = np.ones(60)
        factors[:2], factors[2:4] = 0.6, 1.7
        check = self.widths(factors)
        assert the(Kind.OVERCONFIDENT, check).parameters[:2] in {
            ("theta_0", "theta_1"), ("theta_1", "theta_0")
        }  # fmt: skip
        assert set(the(Kind.UNDERCONFIDENT, check).parameters) >= {"theta_2", "theta_3"}


class TestNoWordIsContradicted:
    @pytest.mark.slow
    @pytest.mark.parametrize("flaw", [flaw for flaw in FLAWS if flaw != "exact"])
    def test_on_the_zoo(self, flaw):
        for n_dims, seed in [(3, 0), (10, 2)]:
            sims = zoo(flaw, n_dims=n_dims, n_sims=150, n_draws=50, rng=seed)
            found = tarpon.check(sims, rng=seed, n_swaps=99)
            assert not [str(f) for f in found.findings if contradicted(f)]

    @pytest.mark.slow
    def test_on_random_mixtures(self):
        """Posteriors with two or three modes of random weights, widths and places, and others."""
        rejected = 0
        for seed in range(24):
            rng = np.random.default_rng(seed)

            def draw(n, rng=rng):
                weights, places = rng.dirichlet([1, 1, 1]), rng.normal(size=(3, 2))
                widths = rng.gamma(3, 0.3, size=(3, 2))
                mode = rng.choice(3, size=(n, 150), p=weights)
                return places[mode] + widths[mode] * rng.standard_t(5, size=(n, 150, 2))

            truths, draws = draw(1)[0], draw(50)
            x = truths + rng.normal(size=truths.shape)
            found = tarpon.check(draws, truths, x=x, rng=seed, n_swaps=99)
            rejected += found.p_value <= 0.05
            assert not [str(f) for f in found.findings if contradicted(f)]
        assert rejected >= 18

    def test_and_a_contradicted_word_would_be_noticed(self):
        shaky, right = Estimate(0.02, -0.13, 0.17), Estimate(0.3, 0.2, 0.4)
        say = partial(Finding, Kind.BIASED, ("beta",), 0.01, expected=0.0, direction="above")
        assert contradicted(say(size=shaky))
        assert contradicted(say(size=right, sizes=(right, shaky)))
        assert contradicted(replace(say(size=right), direction="below"))
        assert not contradicted(say(size=right))


class TestParameters:
    def test_numbers_of_an_exact_posterior(self):
        found = tarpon.check(zoo("exact", n_sims=2000, n_dims=2, rng=0), rng=0, n_swaps=99)
        for parameter in found.parameters:
            assert abs(parameter.bias.value) < 0.1
            assert abs(parameter.width.value - 1) < 0.06
            assert parameter.contraction == pytest.approx(0.8, abs=0.03)
            assert parameter.recovery == pytest.approx(np.sqrt(0.8), abs=0.03)
            assert parameter.coverage_68.low < 0.68 < parameter.coverage_68.high + 0.01
            assert parameter.coverage_95.low < 0.95 < parameter.coverage_95.high + 0.01

    @pytest.mark.parametrize("n_draws", [6, 10, 30])
    def test_few_draws_do_not_fake_a_width(self, n_draws):
        found = tarpon.check(
            zoo("exact", n_sims=4000, n_draws=n_draws, n_dims=1, rng=0), rng=0, n_swaps=19
        )
        assert abs(found.parameters[0].width.value - 1) < 0.06

    def test_heavy_tails_do_not_fake_a_width(self):
        # Draws and truths have variance one, but that of twenty draws varies a lot.
        rng = np.random.default_rng(0)
        sd = rng.choice([1.0, 3.0], p=[0.9, 0.1], size=(20, 4000, 1)) / np.sqrt(1.8)
        draws = sd * rng.normal(size=sd.shape)
        found = tarpon.check(draws, rng.normal(size=(4000, 1)), rng=0, n_swaps=19)
        assert abs(found.parameters[0].width.value - 1) < 0.06

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_draw_is_measured_by_all_the_others(self, weighted):
        rng = np.random.default_rng(0)
        draws, log_weights = rng.normal(size=(8, 3, 2)), weighted * rng.normal(size=(8, 3))
        more = {"log_weights": log_weights, "log_weights_theta": np.zeros(3)} if weighted else {}
        sims = tarpon.Simulations(draws, rng.normal(size=(3, 2)), **more)
        share = np.exp(log_weights) / np.exp(log_weights).sum(axis=0)
        squares = np.zeros((3, 2))
        for j in range(8):
            others = np.delete(share, j, axis=0)[..., None] / (1 - share[j])[:, None]
            rest = np.delete(draws, j, axis=0)
            mean = (others * rest).sum(axis=0)
            variance = (others * (rest - mean) ** 2).sum(axis=0) / (1 - (others**2).sum(axis=0))
            squares += share[j][:, None] * (draws[j] - mean) ** 2 / variance
        assert measure(sims)["square"] == pytest.approx(squares)


class TestOutcome:
    def test_few_simulations_are_too_few_to_say(self):
        few = tarpon.check(zoo("exact", n_sims=20, n_draws=10, rng=3), rng=0)
        assert few.outcome == "too few to say"
        assert re.search(r"A pass needs (about|at least) \d+ simulations", str(few))
        assert "tarpon.plan(" in str(few)

    def test_sharp_edges_do_not_make_twenty_simulations_enough(self):
        """A shift across an edge is seen at once; other errors are not."""
        points = np.exp(np.random.default_rng(0).normal(size=(201, 200, 5)))
        few = tarpon.check(points[1:, :20], points[0, :20], rng=0)
        assert few.p_value > 1e-2
        assert few.detectable.bias <= 0.5
        assert few.detectable.width <= 0.3
        assert few.outcome == "too few to say"
        assert "A pass needs about 50 simulations" in str(few)
        enough = tarpon.check(points[1:], points[0], rng=0)
        assert enough.outcome == "no evidence against"
        assert "caught a bias of 0.05 sd or less in one parameter" in str(enough)

    @pytest.mark.parametrize(
        ("bias", "width", "n_sims", "wanted"),
        [
            (1.0, 0.1, 100, 400),
            (0.4, 0.51, 100, 400),
            (0.5, 0.3, 20, 50),
            (0.71, 0.02, 1000, 2100),
            (np.inf, np.inf, 20, 210),
        ],
    )
    def test_what_is_caught_falls_with_the_root_of_the_number(self, bias, width, n_sims, wanted):
        assert Detectable(bias, width).n_needed(n_sims) == wanted

    def test_the_number_that_is_printed_is_about_right(self):
        few = tarpon.check(zoo("exact", n_sims=30, n_dims=2, rng=0), rng=0, n_swaps=199)
        needed = few.detectable.n_needed(30)
        assert 50 <= needed <= 150
        enough = zoo("exact", n_sims=2 * needed, n_dims=2, rng=1)
        assert tarpon.check(enough, rng=0, n_swaps=199).detectable.telling(2 * needed)

    def test_enough_simulations_are_no_evidence_against(self):
        enough = check("exact", seed=1)
        assert enough.outcome == "no evidence against"
        assert "would have caught" in str(enough)

    def test_more_simulations_see_smaller_errors(self):
        seen = [
            tarpon.check(zoo("exact", n_sims=n, rng=0), rng=0, n_swaps=199).detectable
            for n in (50, 200, 800)
        ]
        for smaller, larger in zip(seen[1:], seen, strict=False):
            assert smaller.bias < larger.bias
            assert smaller.width < larger.width

    def test_discrete_parameters_are_no_reason_to_promise_more(self):
        rng = np.random.default_rng(0)
        rates = 3 * rng.gamma(3, 1, size=(100, 2))
        counts = rng.poisson(rates, size=(61, 100, 2))
        smooth = counts + rng.uniform(-0.5, 0.5, size=counts.shape)
        ours, wanted = (
            tarpon.check(points[1:], points[0], rng=0, n_swaps=199).detectable
            for points in (counts, smooth)
        )
        assert ours.bias > 0.7 * wanted.bias
        assert ours.width > 0.7 * wanted.width

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["bias", "width"])
    @pytest.mark.parametrize(("n_dims", "n_draws"), [(3, 100), (30, 20)])
    def test_what_is_called_detectable_is_detected(self, request, n_dims, n_draws, kind):
        study = partial(zoo, "exact", n_dims=n_dims, n_draws=n_draws, n_sims=100)
        size = getattr(detectable(n_dims, n_draws), kind)
        request.getfixturevalue("nothing_planted")
        n_studies, caught = 30, 0
        enough = binom.ppf(FALSE_ALARM, n_studies, 0.9)  # 90 % were promised
        for seed in range(n_studies):
            if caught >= enough:
                break
            sims = study(rng=1000 + seed)
            middle, samples = 0.8 * sims.x, sims.samples.copy()
            if kind == "bias":
                samples[..., seed % n_dims] += size * np.sqrt(0.2)
            else:
                samples = middle + (1 - size) * (samples - middle)
            found = tarpon.check(
                Simulations(samples.astype("f4"), sims.theta, x=sims.x), rng=seed, n_swaps=99
            )
            caught += found.p_value <= 0.05
        assert caught >= enough


class TestReading:
    def test_print_of_a_check_is_a_summary(self):
        text = str(check("narrow"))
        assert text.startswith("INACCURATE  p = 0.00333 (exact, 299 swaps), 200 simulations × 100")
        assert "1. overconfident: the truths scatter 1." in text
        assert "Seen by: " in text
        assert "would have caught a bias of" in text

    def test_repr_of_a_check_is_one_line(self):
        assert "\n" not in repr(check("narrow"))
        assert repr(check("exact", seed=1)).endswith(": no evidence against")

    def test_json_of_a_check_has_everything(self):
        about = json.loads(check("narrow").to_json())
        assert about["outcome"] == "inaccurate"
        assert about["schema"] == "tarpon-check-2"
        first = about["findings"][0]
        assert (first["kind"], first["parameters"]) == ("overconfident", [])
        assert first["size"]["low"] < first["size"]["value"] < first["size"]["high"]
        assert first["text"] == str(check("narrow").findings[0])
        assert len(about["parameters"]) == 10
        assert about["detectable"]["width"] < 0.2
        blind = replace(check("narrow"), detectable=Detectable(np.inf, 0.1))
        assert json.loads(blind.to_json())["detectable"] == {"bias": None, "width": 0.1}

    def test_tables_of_a_check_become_frames(self):
        found = check("narrow")
        findings = found.to_frame()
        assert list(findings.columns) == FINDINGS
        assert findings["kind"][0] == "overconfident"
        size = found.findings[0].size
        assert list(findings.loc[0, ["size", "size_low"]]) == [size.value, size.low]
        families = found.to_frame("families")
        assert list(families["name"]) == [family.name for family in found.families]
        parameters = found.to_frame("parameters")
        assert len(parameters) == 10
        width = found.parameters[3].width
        columns = ["name", "width", "width_low", "width_high"]
        assert list(parameters.loc[3, columns]) == ["theta_3", width.value, width.low, width.high]
        with pytest.raises(ValueError, match="'parameters', 'values', but got 'x'"):
            found.to_frame("x")

    def test_names_of_several_parameters_are_one_cell(self):
        frame = check("correlation_missed").to_frame().set_index("kind")
        assert frame.loc["wrong correlation", "parameters"].count("theta_") == 2

    def test_a_frame_without_findings_has_its_columns(self):
        frame = check("exact", seed=1).to_frame("findings")
        assert len(frame) == 0
        assert list(frame.columns) == FINDINGS

    def test_the_seed_gives_the_same_check_again(self):
        first = tarpon.check(zoo("shift", rng=0), n_swaps=99)
        again = tarpon.check(zoo("shift", rng=0), n_swaps=99, rng=first.seed)
        assert again.to_json() == first.to_json()

    def test_plot_names_what_is_off(self):
        ax = check("shift", n_dims=3).plot()
        assert "posterior sd" in ax.get_xlabel()
        assert [text.get_text() for text in ax.texts] == ["theta_0"]


class TestSizes:
    @pytest.mark.parametrize(
        ("n_sims", "n_draws", "n_dims"), [(20, 10, 1), (20, 10, 300), (3, 5, 2), (30, 2000, 2)]
    )
    def test_checks_of_any_size_get_an_answer(self, n_sims, n_draws, n_dims):
        sims = zoo("exact", n_sims=n_sims, n_draws=n_draws, n_dims=n_dims, rng=0)
        found = tarpon.check(sims, rng=0, n_swaps=49)
        assert 0.02 <= found.p_value <= 1

    @pytest.mark.slow
    def test_check_of_ten_thousand_parameters(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(13, 10, 10_000)).astype("f4")
        found = tarpon.check(points[1:], points[0], rng=0, n_swaps=19)
        assert found.p_value > 0.04

    @pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i2", "g"])
    def test_check_in_every_precision(self, dtype):
        rng = np.random.default_rng(0)
        points = (10 * rng.normal(size=(21, 30, 2))).astype(dtype)
        assert tarpon.check(points[1:], points[0], rng=0, n_swaps=49).p_value > 0.02

    def test_check_of_constant_and_integer_parameters(self):
        rng = np.random.default_rng(0)
        theta, samples = rng.poisson(3, size=(100, 3)), rng.poisson(3, size=(40, 100, 3))
        theta[:, 1] = samples[..., 1] = 7
        assert tarpon.check(samples, theta, rng=0, n_swaps=99).p_value > 0.01

    def test_too_few_draws_are_refused(self):
        for n_draws, n_sims in ((4, 10), (10, 1)):
            with pytest.raises(ValueError, match="at least 2 simulations of 5 draws, but got"):
                tarpon.check(np.zeros((n_draws, n_sims, 1)), np.zeros((n_sims, 1)))

    @pytest.mark.parametrize(("level", "fewest"), [(0.05, 19), (0.01, 99), (0.3, 3), (0.9, 1)])
    def test_swaps_that_never_reach_the_level_are_refused(self, level, fewest):
        sims = zoo("narrow", n_sims=50, n_draws=20, n_dims=1, rng=0)
        with pytest.raises(ValueError, match=f"`n_swaps` must be at least {fewest} at level"):
            tarpon.check(sims, n_swaps=fewest - 1, level=level)
        assert tarpon.check(sims, n_swaps=fewest, level=level, rng=0).n_swaps == fewest

    def test_swaps_that_do_not_fit_into_memory_are_refused_at_once(self):
        sims = zoo("exact", n_dims=3, rng=0)
        start = time.process_time()
        with pytest.raises(ValueError, match=r"`n_swaps` = 1000000000 would take about .* TB"):
            tarpon.check(sims, n_swaps=10**9)
        assert time.process_time() - start < 5
        labellings.affordable_swaps(9_999, sims, sims.n_dims)

    @pytest.mark.slow
    def test_the_memory_of_swaps_is_known_beforehand(self, monkeypatch):
        sims = zoo("exact", n_dims=3, n_sims=400, rng=0)
        said = []
        monkeypatch.setattr(arguments, "affordable", lambda n_bytes, *_: said.append(n_bytes))
        tracemalloc.start()
        tarpon.check(sims, n_swaps=10_000, rng=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.5 * peak < said[0] < 2 * peak

    def test_parts_of_swaps_are_refused(self):
        with pytest.raises(TypeError, match=r"`n_swaps` must be a whole number, but got 99\.5"):
            tarpon.check(zoo("exact", rng=0), n_swaps=99.5)


class TestObservations:
    def test_large_observations_are_reduced(self):
        sims = zoo("prior", n_dims=2, n_sims=300, rng=0)
        rng = np.random.default_rng(1)
        x = (sims.x @ rng.normal(size=(2, 500))).reshape(300, 20, 25)
        found = tarpon.check(sims.samples, sims.theta, x=x, rng=0, n_swaps=199)
        assert found.p_value == 1 / 200

    def test_a_million_numbers_are_reduced_in_seconds(self):
        sims = zoo("exact", n_sims=30, n_draws=50, rng=0)
        x = np.random.default_rng(1).normal(size=(30, 10**6)).astype(np.float32)
        start = time.process_time()
        first = tarpon.check(sims.samples, sims.theta, x=x, rng=0)
        assert time.process_time() - start < 20  # it was 66 s, most of it on one processor
        assert 0 < first.p_value <= 1
        x[3, -1] = np.inf
        with pytest.raises(ValueError, match=r"observations .* must be finite"):
            tarpon.check(sims.samples, sims.theta, x=x, rng=0)

    def test_wide_observations_have_the_components_of_narrow_ones(self, monkeypatch, tmp_path):
        rng = np.random.default_rng(2)
        strength = np.geomspace(30, 1, 6)[:, None]
        x = rng.normal(size=(80, 6)) @ (strength * rng.normal(size=(6, 300)))
        x += 0.01 * rng.normal(size=x.shape)
        x[:, 7] = 5.0  # never varies, and counts for nothing
        centres = x[:, :2] + rng.normal(size=(80, 2))

        def found(data):
            return features.features(data, centres, 2, np.random.default_rng(0))

        usual = found(x)
        monkeypatch.setattr(features, "_WIDE", 200)
        np.save(tmp_path / "x.npy", x)
        stored = Simulations(
            np.zeros((9, 80, 1)), np.ones((80, 1)), x=np.load(tmp_path / "x.npy", mmap_mode="r")
        ).x
        for data in (x, x.reshape(80, 20, 15), np.asfortranarray(x), stored):
            wide = found(data)
            assert wide.plain == usual.plain == 64
            assert wide.principal
            overlap = np.linalg.svd(wide.values[:, :6].T @ usual.values[:, :6] / 80)[1]
            assert overlap.min() > 1 - 1e-5
            np.testing.assert_allclose(wide.guides, usual.guides, atol=1e-4)
            np.testing.assert_allclose(wide.share[:6], usual.share[:6], rtol=1e-4)
        other = found(rng.normal(size=x.shape)).values[:, :6]
        assert np.linalg.svd(other.T @ usual.values[:, :6] / 80)[1].min() < 0.9

    def test_a_flaw_that_follows_wide_observations_is_seen(self):
        sims = zoo("prior", n_dims=2, n_sims=150, rng=0)
        x = (sims.x @ np.random.default_rng(1).normal(size=(2, 70_000))).astype(np.float32)
        assert tarpon.check(sims.samples, sims.theta, x=x, rng=0, n_swaps=199).p_value == 1 / 200

    def test_a_summary_says_what_matters(self):
        sims = zoo("prior", n_dims=1, n_sims=200, rng=0)
        noise = np.random.default_rng(1).normal(size=(200, 400))
        x = np.concatenate([noise, sims.x], axis=1)
        found = tarpon.check(
            sims.samples, sims.theta, x=x, summary=lambda x: x[:, -1:], rng=0, n_swaps=199
        )
        assert found.p_value == 1 / 200

    def test_nan_observations_are_refused(self):
        sims = zoo("exact", rng=0)
        x = sims.x.copy()
        x[3, 1] = np.nan
        with pytest.raises(ValueError, match=r"observations .* must be finite"):
            tarpon.check(sims.samples, sims.theta, x=x)


class TestLearnedReferences:
    @pytest.mark.parametrize(
        "method",
        ["neighbour", *(pytest.param(m, marks=pytest.mark.slow) for m in ("ridge", "boosted"))],
    )
    def test_learned_references_detect_what_ignores_the_data(self, method):
        pool = zoo("exact", n_sims=300, rng=1)
        reference = references.Learned(pool.theta, pool.x, method)
        wrong, right = zoo("prior", rng=0, n_sims=400), zoo("exact", rng=0, n_sims=400)
        assert tarpon.tarp(wrong, reference=reference, rng=0).p_value < FALSE_ALARM
        assert tarpon.tarp(right, reference=reference, rng=0).p_value > FALSE_ALARM
        assert repr(reference) == f"Learned(300 simulations, method='{method}')"

    def test_learned_references_refuse_simulations_under_test(self):
        sims, other = zoo("exact", rng=0), zoo("exact", rng=1)
        for theta, x in ((sims.theta, other.x), (other.theta, sims.x)):
            with pytest.raises(
                ValueError, match="`Learned` contains simulations that are under test"
            ):
                tarpon.tarp(sims, reference=references.Learned(theta, x))
        with pytest.raises(ValueError, match="`method` must be one of 'neighbour'"):
            tarpon.tarp(sims, reference=references.Learned(other.theta, other.x, "magic"))
        with pytest.raises(ValueError, match="`Learned` needs 2 parameters"):
            tarpon.tarp(sims, reference=references.Learned(other.theta[:, :1], other.x))

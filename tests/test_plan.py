"""Plans: how many simulations an error needs, and which errors so many simulations see."""

import itertools
import json
import math
import re

import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon.cli import main


def needed(**asked):
    """Return the number of simulations for 20 draws; infinite if it is over 100 000."""
    return tarpon.plan(1, **asked, n_draws=20, rng=3).n_sims[20] or math.inf


class TestPlan:
    def test_smaller_errors_need_more_simulations(self):
        needed = [tarpon.plan(2, bias=b, n_draws=50, rng=0).n_sims[50] for b in (0.5, 0.25)]
        assert 2 < needed[1] / needed[0] < 8

    @pytest.mark.parametrize("error", ["bias", "width"])
    def test_a_smaller_error_never_needs_fewer_simulations(self, error):
        sizes = np.linspace(0.5, 0.1, 9)
        plans = (tarpon.plan(1, **{error: size}, n_draws=20, rng=3) for size in sizes)
        needed = [plan.n_sims[20] for plan in plans]
        assert needed == sorted(needed)
        assert needed[0] < needed[-1]

    def test_plan_prints_a_table(self):
        lines = str(tarpon.plan(2, width=0.3, rng=0)).splitlines()
        assert "widths off by 30%" in lines[0]
        assert lines[1].split() == ["draws", "simulations"]
        assert [line.split()[0] for line in lines[2:]] == ["20", "50", "100", "300"]

    def test_plan_of_one_number_of_draws_is_a_sentence(self):
        said = str(tarpon.plan(1, bias=0.8, width=0.125, n_draws=20, level=0.5, power=0.6, rng=0))
        assert re.fullmatch(
            r"To see a bias of 0\.8 sd in one parameter and widths off by 12\.5% with 60% "
            r"probability in 1 dimension takes \d+ simulations of 20 draws each\.",
            said,
        )

    @pytest.mark.parametrize(
        ("error", "message", "wrong"),
        [
            (ValueError, "`n_dims` must be at least 1, but got 0", {"n_dims": 0}),
            (TypeError, r"`n_dims` must be a whole number, but got 2\.5", {"n_dims": 2.5}),
            (ValueError, "`n_draws` must be at least 5, but got 4", {"n_draws": 4}),
            (TypeError, r"`n_draws` must be a whole number, but got \[20, 50\]",
             {"n_draws": [20, 50]}),
        ],
    )  # fmt: skip
    def test_plan_of_impossible_sizes_is_refused(self, error, message, wrong):
        with pytest.raises(error, match=message):
            tarpon.plan(**{"n_dims": 2, "bias": 0.3} | wrong)

    def test_plan_without_an_error_is_refused(self):
        with pytest.raises(ValueError, match=r"give a `bias` up to 1\.6"):
            tarpon.plan(2)


class TestMoreIsNeverCheaper:
    sizes, powers, levels = (0.1, 0.15, 0.5), (0.5, 0.99), (0.01, 0.2)

    @pytest.mark.slow
    @pytest.mark.parametrize("error", ["bias", "width"])
    def test_along_size_power_and_level(self, error):
        table = np.array([
            needed(**{error: size}, power=power, level=level)
            for size, power, level in itertools.product(self.sizes, self.powers, self.levels)
        ]).reshape(len(self.sizes), len(self.powers), len(self.levels))  # fmt: skip
        assert (table[1:] <= table[:-1]).all()
        assert (table[:, 1:] >= table[:, :-1]).all()
        assert (table[..., 1:] <= table[..., :-1]).all()
        assert len(np.unique(table)) > 8

    def test_and_two_errors_need_no_fewer_than_each(self):
        alone = needed(bias=0.3), needed(width=0.1)
        assert needed(bias=0.3, width=0.1) == max(alone)

    @pytest.mark.slow
    def test_and_more_simulations_see_no_less(self):
        seen = [tarpon.plan(1, n_sims=n, n_draws=20, rng=3) for n in (20, 30, 31, 100, 1000)]
        for sizes in zip(*((p.detectable[20].bias, p.detectable[20].width) for p in seen),
                         strict=True):  # fmt: skip
            assert list(sizes) == sorted(sizes, reverse=True)
            assert sizes[0] > 2 * sizes[-1]


class TestSoManySimulations:
    def test_see_what_needs_no_more_of_them(self):
        least = tarpon.plan(1, n_sims=100, n_draws=20, rng=3).detectable[20]
        for error, size in (("bias", least.bias), ("width", least.width)):
            assert needed(**{error: size}) <= 100
            assert needed(**{error: round(size - 0.01, 2)}) > 100

    @pytest.mark.slow
    @pytest.mark.parametrize("error", ["bias", "width"])
    def test_find_it_as_often_as_planned(self, error, request):
        """Of 30 studies with a probability of 0.9 each, 16 or fewer find it in 3e-7 of runs."""
        least = tarpon.plan(2, n_sims=30, n_draws=50, rng=0).detectable[50]
        request.getfixturevalue("nothing_planted")
        found = 0
        for seed in range(30):
            rng = np.random.default_rng(seed)
            samples, theta = rng.normal(size=(50, 30, 2)), rng.normal(size=(30, 2))
            if error == "bias":
                theta[:, 0] -= least.bias
            else:
                samples *= 1 - least.width
            found += tarpon.check(samples, theta, rng=seed).outcome == "inaccurate"
        assert found > 16

    @pytest.mark.slow
    def test_print_a_table(self):
        plan = tarpon.plan(2, n_sims=30, rng=0)
        first, header, *rows = str(plan).splitlines()
        assert first == (
            "The smallest errors that 30 simulations see with 90% probability in 2 dimensions:"
        )
        assert re.split("  +", header.strip()) == ["draws", "bias", "widths off by"]
        assert [row.split()[0] for row in rows] == ["20", "50", "100", "300"]
        assert all(re.fullmatch(r" +\d+  [\d.]+ sd +\d+%", row) for row in rows)
        assert plan.n_sims == dict.fromkeys((20, 50, 100, 300), 30)
        assert plan._repr_html_().count("<tr>") == 5

    def test_say_where_they_see_nothing(self):
        plan = tarpon.plan(2, n_sims=20, n_draws=5, level=0.001, rng=0)
        assert str(plan).startswith(
            "20 simulations of 5 draws see nothing with 90% probability in 2 dimensions: no bias "
            "up to 1.6 sd, no widths off by up to 50%."
        )
        seen = json.loads(json.dumps(plan.to_dict(), allow_nan=False))["detectable"]
        assert seen == {"5": {"bias": None, "width": None}}

    def test_may_see_errors_of_one_kind_alone(self):
        seen = {20: tarpon.checks.power.Detectable(math.inf, 0.3)}
        said = str(tarpon.Plan(2, 0.0, 0.0, 0.9, {20: 30}, detectable=seen))
        assert re.search(r"20  no bias up to 1\.6 sd            30%$", said)

    def test_are_not_given_beside_an_error(self):
        with pytest.raises(
            ValueError, match=r"or else the number of simulations `n_sims`, or else"
        ):
            tarpon.plan(2, n_sims=30, width=0.1)


class TestTolerance:
    """How many simulations show that accurate posteriors are within a tolerance."""

    @pytest.mark.slow
    def test_so_many_show_it(self):
        """Planned for 90 %: of 30 studies, fewer than 17 have a probability below 1e-6."""
        most = tarpon.Tolerance(0.4, 0.3, 0.15)
        n_sims = tarpon.plan(2, tolerance=most, n_draws=60).n_sims[60]
        n_shown = 0
        for seed in range(30):
            points = np.random.default_rng(seed).normal(size=(61, n_sims, 2))
            found = tarpon.check(points[1:], points[0], tolerance=most, n_swaps=19, rng=seed)
            n_shown += found.outcome == "within tolerance"
        assert n_shown >= 17

    def test_smaller_errors_need_more(self):
        needed = [
            tarpon.plan(n_dims, tolerance=tarpon.Tolerance(bias, 0.1, 0.2)).n_sims[100]
            for n_dims, bias in ((2, 0.2), (2, 0.1), (2, 0.05), (20, 0.05))
        ]
        assert needed == sorted(needed)
        assert needed[1] < needed[2] < needed[3]

    def test_is_said(self):
        made = tarpon.plan(2, tolerance=tarpon.Tolerance())
        assert str(made) == (
            "To show with 90% probability in 2 dimensions that accurate posteriors are within the "
            "tolerance (bias 0.1 sd, widths 0.1, coverage 0.05) takes 4428 simulations."
        )
        assert made.to_dict()["tolerance"]["coverage"] == 0.05

    def test_is_asked_alone(self):
        with pytest.raises(ValueError, match=r"or else a `tolerance`, but got bias 0\.3"):
            tarpon.plan(2, bias=0.3, tolerance=tarpon.Tolerance())
        with pytest.raises(TypeError, match=r"tarpon\.Tolerance"):
            tarpon.plan(2, tolerance=0.1)

    def test_on_the_command_line(self):
        said = CliRunner().invoke(main, ["plan", "2", "--tolerance", "0.1,0.1"])
        assert "takes 4428 simulations" in said.output

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tarpon
from tarpon import plots
from tarpon.problems import gaussian, zoo

SIMS = gaussian("biased", n_sims=100, n_draws=30, n_dims=3, rng=0)
TARP, HPD, SBC = (test(SIMS, rng=0) for test in (tarpon.tarp, tarpon.hpd, tarpon.sbc))


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_coverage_draws_every_curve_and_the_band():
    ax = plots.coverage(TARP, HPD)
    assert labels(ax) == ["95% band", "TARP", "HPD"]
    assert ax.get_xlabel() == "Credibility level"
    assert ax.get_ylabel() == "Expected coverage"
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), TARP.curve.ecp)
    assert TARP.plot(ax=ax) is ax


def test_several_results_can_be_named():
    assert labels(plots.coverage(TARP, SBC, labels=["a", "b"])) == [
        *("95% band", "a", "b theta_0", "b theta_1", "b theta_2")
    ]


def test_difference_is_coverage_less_level():
    ax = plots.difference(TARP)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), TARP.curve.ecp - TARP.curve.level)


def test_bands_of_different_studies_are_told_apart():
    other = tarpon.tarp(gaussian("biased", n_sims=50, n_draws=30, rng=0), rng=0)
    assert "95% band, 50 simulations" in labels(plots.coverage(TARP, other))


def test_many_parameters_are_not_named_one_by_one():
    result = tarpon.sbc(gaussian("correct", n_sims=30, n_draws=20, n_dims=40, rng=0), rng=0)
    ax = plots.coverage(result)
    assert len(ax.lines) == 41
    assert labels(ax) == ["95% band"]


@pytest.mark.parametrize("n_bins", [None, 1, 7, 1000])
def test_histogram_counts_every_truth_once(n_bins):
    ax = plots.ranks(SBC, score=1, n_bins=n_bins)
    band, stairs = (patch.get_data() for patch in ax.patches)
    sizes = np.diff(stairs.edges)
    assert (stairs.values * sizes).sum() == pytest.approx(1)
    assert (band.values >= band.baseline).all()
    assert labels(ax) == ["95% band", "theta_1"]


def test_panels_give_a_figure():
    figure = plots.panels({"one": {"TARP": TARP, "HPD": HPD}, "two": {"TARP": TARP}})
    assert [ax.get_title() for ax in figure.axes] == ["one", "two"]
    assert figure.axes[0].get_ylabel() == "Expected coverage"
    cases = {"one": {"TARP": TARP}, "two": {"TARP": HPD}}
    figure = plots.panels(cases, draw=plots.difference, n_cols=1)
    assert [ax.get_ylabel() for ax in figure.axes] == ["Expected coverage − level"] * 2
    with pytest.raises(ValueError, match="at least one case"):
        plots.panels({})


def test_panels_of_ones_own_can_share_a_legend():
    figure, axes = plt.subplots(1, 2, layout="constrained")
    for ax, score in zip(axes, (0, 1), strict=True):
        plots.ranks(SBC, score=score, ax=ax)
    plots.one_legend(figure)
    assert [ax.get_legend() for ax in axes] == [None, None]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["95% band", "theta_0", "theta_1"]
    assert set(plots.__all__) >= {"one_legend", "panels"}


def test_the_worst_pair_is_drawn_unless_another_is_asked_for():
    sims = zoo("swapped_parameters", n_sims=100, n_draws=20, n_dims=4, rng=0)
    check = tarpon.check(sims, n_swaps=49, rng=0)
    worst, _, third = check.evidence.pairs.worst[:3]
    for drawn, shown in ((plots.pair(check), worst), (plots.pair(check, third), third)):
        asked = [f"{name} / posterior sd" for name in shown.names]
        assert [drawn.get_xlabel(), drawn.get_ylabel()] == asked


def test_one_parameter_has_no_pair():
    check = tarpon.check(zoo("narrow", n_sims=20, n_draws=20, n_dims=1, rng=0), n_swaps=19, rng=0)
    with pytest.raises(ValueError, match=r"this check has one: draw its ranks instead"):
        plots.pair(check)
    assert labels(plots.ranks(check.evidence.marginals)) == ["95% band", "theta_0"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="at least one result"):
        plots.coverage()


@pytest.mark.parametrize(
    ("ticks", "wanted"),
    [
        ([-0.025, 0.0, 0.025, 0.05], ["-2.5%", "0.0%", "2.5%", "5.0%"]),
        ([0.0, 0.2, 0.4, 0.6], ["0%", "20%", "40%", "60%"]),
        ([0.0, 0.0025, 0.005], ["0.00%", "0.25%", "0.50%"]),
    ],
)
def test_percentages_have_the_digits_that_they_need(ticks, wanted):
    axis = plots.difference(TARP).yaxis
    shown = axis.get_major_formatter().format_ticks(ticks)
    assert [text.replace("\N{MINUS SIGN}", "-") for text in shown] == wanted

"""Pictures of fields: maps, spectra, single simulations, and the report of all of them."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import binom

import tarpon
from tarpon import plots, report
from tarpon.checks import cells as checks_cells
from tarpon.checks import fields as checks_fields
from tarpon.simulations.fields import Places

SHAPES = {"line": (12,), "map": (6, 8), "box": (3, 4, 5)}
BIAS = 2.0  # posterior sd, in one corner


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def sims_of(shape, bias=0.0, n_sims=80, n_draws=30, **more):
    """Return simulations of white fields with a bias in the last cell."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(n_sims, *shape))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, *x.shape))
    samples[(..., *(-1 for _ in shape))] += bias * np.sqrt(0.5)
    return tarpon.Simulations(samples, theta, x=x, **more)


@pytest.fixture(scope="module")
def checks():
    """Return checks of fields with one, two and three axes, with a biased last cell."""
    waves = tarpon.bases.Fourier()
    return {
        name: tarpon.check(sims_of(shape, BIAS), basis=waves, n_swaps=99, rng=0)
        for name, shape in SHAPES.items()
    }


@pytest.fixture(scope="module")
def many():
    """Return a check of fields with more cells than parameters."""
    return tarpon.check(sims_of((40, 40), n_sims=40, n_draws=20), n_swaps=99, rng=0)


def test_maps_have_labels_and_bars(checks):
    figure = plots.maps(checks["map"])
    ours, bars = figure.axes[:3], figure.axes[3:]
    assert {(ax.get_xlabel(), ax.get_ylabel()) for ax in ours} == {("axis 1", "axis 0")}
    assert bars[0].get_ylabel() == "Bias / posterior sd"
    assert "Scatter of truths" in bars[1].get_ylabel()
    assert "68 %" in bars[2].get_ylabel()


def test_what_is_significant_is_outlined(checks):
    ax = plots.maps(checks["map"]).axes[0]
    corners = np.concatenate(ax.collections[0].get_segments())
    assert corners.min(axis=0).tolist() == [6.5, 4.5]  # x and y of the last cell
    assert corners.max(axis=0).tolist() == [7.5, 5.5]
    assert len(ax.collections[0].get_segments()) == 4


def test_nothing_is_outlined_where_nothing_is_wrong():
    ax = plots.maps(tarpon.check(sims_of((6, 8)), n_swaps=99, rng=1)).axes[0]
    assert not ax.collections[0].get_segments()


def test_colours_tell_the_side(checks):
    red, _, blue, opaque = plots.maps(checks["map"]).axes[0].images[0].get_array()[-1, -1]
    assert red > blue
    assert opaque == 1


def test_a_field_with_one_axis_is_a_line(checks):
    ax = plots.maps(checks["line"]).axes[0]
    assert (ax.get_xlabel(), len(ax.lines[1].get_ydata())) == ("axis 0", 12)
    assert ax.collections[1].get_offsets()[:, 0].tolist() == [11]


def test_of_more_axes_the_worst_slice_is_drawn(checks):
    ax = plots.maps(checks["box"]).axes[0]
    assert ax.get_title() == "axis 0 = 2"
    assert ax.images[0].get_array().shape[:2] == (4, 5)
    assert plots.maps(checks["box"], at=(1,)).axes[0].get_title() == "axis 0 = 1"
    with pytest.raises(ValueError, match="1 places, one along each axis before the last two"):
        plots.maps(checks["box"], at=(5,))


def test_vectors_have_no_maps():
    check = tarpon.check(tarpon.problems.zoo("exact", n_dims=3, n_sims=40, rng=0), rng=0)
    for draw in (plots.maps, plots.spectrum):
        with pytest.raises(ValueError, match=r"pass `theta` \(n_sims, \*shape\)"):
            draw(check)


def test_unknown_kinds_are_refused(checks):
    with pytest.raises(ValueError, match="some of bias, width, coverage"):
        plots.maps(checks["map"], kinds=["bais"])


def test_spectra_have_a_dot_per_band(checks):
    ax = plots.spectrum(checks["map"])
    bands = checks["map"].evidence.bands
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [band.power.value for band in bands])
    assert [text.get_text() for text in ax.get_xticklabels()] == [band.name for band in bands]
    assert ax.get_xlabel() == "Wavelength / cells"


@pytest.mark.parametrize("name", SHAPES)
def test_examples_are_best_median_and_worst(name):
    sims = sims_of(SHAPES[name])
    figure = plots.example(sims)
    rows = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()][:3]
    assert [row.partition(":")[0] for row in rows] == ["best", "median", "worst"]
    sizes = [float(re.search(r"residual ([\d.]+)", row)[1]) for row in rows]
    assert sizes == sorted(sizes)
    z = (sims.theta - sims.samples.mean(axis=0)) / sims.samples.std(axis=0)
    assert sizes[2] == pytest.approx(np.sqrt((z**2).mean(axis=1)).max(), abs=0.01)


@pytest.mark.parametrize("shape", [(6, 8), (40, 40), (72, 72)])
def test_examples_of_checks_are_chosen_by_the_residual_that_they_show(shape):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(30, *shape)) * rng.uniform(0.8, 1.2, size=(30, 1, 1))
    theta += rng.normal(size=(30, 1, 1))  # which means of blocks see, and single cells hardly
    samples = rng.normal(size=(20, 30, *shape))
    found = tarpon.check(samples, theta, n_swaps=39, rng=0).evidence.examples
    z = (theta - samples.mean(axis=0)) / samples.std(axis=0)
    sizes = np.sqrt((z**2).mean(axis=(1, 2)))
    order = np.argsort(sizes)
    assert [one.place for one in found] == [order[0], order[15], order[-1]]
    np.testing.assert_allclose([one.misfit for one in found], sizes[order[[0, 15, -1]]], rtol=1e-9)
    examples = plots.example(tarpon.Simulations(samples, theta))
    shown = [float(number) for ax in examples.axes for number in _residuals(ax.get_ylabel())]
    np.testing.assert_allclose(shown, sizes[order[[0, 15, -1]]], atol=0.006)


def _residuals(label):
    return re.findall(r"residual ([\d.]+)", label)


def test_one_example_can_be_chosen():
    sims = sims_of((4, 6))
    figure = plots.example(sims, 7)
    assert figure.axes[0].get_ylabel().startswith("simulation 7\n")
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), sims.theta[7].reshape(4, 6))
    with pytest.raises(ValueError, match="from 0 to 79"):
        plots.example(sims, 80)


def test_names_of_axes_are_drawn():
    sims = sims_of((6, 8), names=["lat", "lon"])
    check = tarpon.check(sims, n_swaps=99, rng=0)
    ax = plots.maps(check, kinds=["bias"]).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lon", "lat")


def test_many_cells_are_drawn_in_blocks(many):
    places = many.evidence.places
    assert isinstance(places, Places)
    assert (places.shape, places.grid) == ((40, 40), (32, 32))
    assert len(many.parameters) < len(many.evidence.cells) == 1024
    ax = plots.maps(many, kinds=["width"]).axes[0]
    assert ax.images[0].get_array().shape[:2] == (40, 40)


@pytest.fixture(scope="module")
def page(many):
    """Return the report of fields of many cells."""
    return report.html(many, names=["forty"])


class TestReport:
    """The report of a field."""

    def test_is_small(self, page):
        assert len(page) < 2_000_000

    def test_shows_maps_spectrum_and_examples(self, page):
        for title in ("Bias of all blocks", "Width of all", "Power at every scale", "Single"):
            assert title in page
        assert page.count("data:image/png;base64") > 10

    def test_lists_the_worst_cells_only(self, page, many):
        table = page[page.index('<table class="parameters') :].split("</table>")[0]
        assert table.count("<tr") == 21
        n = len(many.parameters)
        assert f"The table shows the 20 of {n} that are farthest off." in page
        assert f"means of {n} blocks of cells of fields of 40 x 40 cells" in page

    @pytest.mark.parametrize(
        "name", ["map", *(pytest.param(one, marks=pytest.mark.slow) for one in ("line", "box"))]
    )
    def test_every_figure_has_words_and_a_table(self, checks, name):
        page = report.html(checks[name])
        figures = re.findall(r'<div class="plot".*? data-points="([^"]*)">', page)
        assert all(figures)
        assert page.count('<details class="behind">') == len(figures)
        assert not re.findall(r'href="#[^"]*data:', page)


FALSE_ALARM = 1e-6  # of each statistical test, should a seed or a stream ever change


def small_blocks(monkeypatch):
    """Let fields of 36 cells have more cells than parameters."""
    for module in (checks_fields, checks_cells):
        monkeypatch.setattr(module, "MOST_CELLS", 16)
    monkeypatch.setattr(checks_fields, "_MOST_BLOCKS", 4)


def outlined(seed, bias=0.0):
    """Return whether any block of cells of a small study is significant."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(30, 6, 6))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + np.sqrt(0.5) * rng.normal(size=(15, *x.shape))
    samples[..., :2, :2] += bias
    found = tarpon.check(samples, theta, n_swaps=39, rng=seed)
    assert len(found.evidence.cells) == 16
    return min(cell.p_value for cell in found.evidence.cells) <= found.level


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_planted")
def test_cells_of_exact_posteriors_are_outlined_no_more_often_than_the_level(monkeypatch):
    small_blocks(monkeypatch)
    n = 40
    assert sum(outlined(seed) for seed in range(n)) <= binom.isf(FALSE_ALARM, n, 0.05)


def test_biased_cells_are_outlined(monkeypatch):
    small_blocks(monkeypatch)
    assert outlined(0, bias=1.0)

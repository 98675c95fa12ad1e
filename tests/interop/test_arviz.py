"""ArviZ draws our results as they are."""

import warnings

import numpy as np
import pytest

import tarpon
from tarpon.problems import gaussian

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("test", [tarpon.sbc, tarpon.tarp, tarpon.hpd])
def test_plot_ecdf_pit_draws_a_tree_as_it_is(test, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages, about each other
        import arviz_plots
    sims = gaussian("overconfident", n_sims=200, n_draws=50, n_dims=2, rng=0)
    result = test(sims, rng=0)
    drawn = arviz_plots.plot_ecdf_pit(result.to_datatree(), backend="matplotlib")
    drawn.savefig(tmp_path / "pit.png")
    assert (tmp_path / "pit.png").stat().st_size > 1000
    pits = result.to_dataset()["pit"]
    for name in result.names:
        assert drawn.viz["title"][name].item().get_text() == name
        level, gap = drawn.viz["ecdf_lines"][name].item().get_data()
        pit = pits.sel(score=name).values
        ecdf = (pit <= level[:, None]).mean(axis=1)
        # ArviZ 0.8 evaluates the curve a little beside the points at which it draws it.
        np.testing.assert_allclose(gap, ecdf - level, atol=0.03)

"""The trial of networks, with two of them that are barely trained."""

from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "networks"
RNG = np.random.default_rng(0)

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("gradients")]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("estimator", ["sbi maf", "LAMPE nsf"])
def test_barely_trained_networks_are_rejected(estimator, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import judging
    from estimators import trained
    from problems import MIXTURE

    theta, x, log_exact = judging.reference(MIXTURE, 100, 1)
    sims = trained(estimator, MIXTURE, 200, epochs=2)(theta, x, 50)
    monkeypatch.setattr(judging, "exact_draws", lambda problem: problem.draw(x, 50, RNG))
    # These are far from trained: their divergence is many nats, and tests cannot miss it.
    assert judging.divergence(log_exact, sims)["nats"] > 1
    assert max(judging.truth(MIXTURE, sims)["width"]) > 1.5
    found = judging.tested(sims)
    assert found["p"] == 0.001
    assert found["outcome"] == "inaccurate"
    assert found["findings"]
    assert set(judging.sbi_says(sims)) == {"sbc", "tarp"}

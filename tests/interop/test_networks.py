"""The trial of networks, with two of them that are barely trained."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "networks"

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("gradients")]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Shrink the studies, and keep draws elsewhere."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import drawing
    import estimators
    import references

    monkeypatch.setattr(drawing, "FOLDER", tmp_path / "draws")
    monkeypatch.setitem(estimators.EPOCHS, 200, 2)
    monkeypatch.setattr(references, "N_DENSITIES", 50)
    sizes = {"few": (100, 50), "many": (200, 20), "fit": (100, 50), "fresh": (60, 50)}
    for study, (n_sims, n_draws) in sizes.items():
        about = drawing.Study(n_sims, n_draws, drawing.STUDIES[study].seed)
        monkeypatch.setitem(drawing.STUDIES, study, about)
    monkeypatch.setitem(drawing.STUDIES, "ten", drawing.Study(2, 200, 6))
    references.reference.cache_clear()
    yield drawing
    references.reference.cache_clear()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("estimator", ["sbi nsf", "LAMPE nsf"])
def test_barely_trained_networks_are_rejected(small, estimator, tmp_path):
    import page
    from judging import judged
    from problems import MIXTURE

    drawn = small.drawn(estimator, "gaussian_mixture", 200)
    assert drawn.seconds["train"] > 0
    found = judged(MIXTURE, drawn, local=False)
    # These are far from trained: their divergence is many nats, and tests cannot miss it.
    assert found["true"]["nats"] > 1
    assert max(found["true"]["width"]) > 1.5
    assert min(found["true"]["c2st"]) > 0.6
    for at in ("at_300", "at_3000"):
        assert found[at]["p"] == 0.001
        assert found[at]["outcome"] == "inaccurate"
        assert found[at]["findings"]
    assert set(found["sbi"]) == {"sbc", "tarp"}
    assert len(found["near"]) == 2
    assert ("repair" in found) == (estimator == "sbi nsf")
    record = {"estimator": estimator, "problem": "gaussian_mixture", "n_train": 200, **found}
    assert "1 estimators were trained; 1 are wrong" in page.section([record])
    assert small.read(small.path(estimator, "gaussian_mixture", 200)).seconds == drawn.seconds

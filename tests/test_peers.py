"""The same numbers as the field's packages, from the same references (`make peers`)."""

import inspect

import numpy as np
import pytest

import tarpon
from tarpon.references import Fixed

pytestmark = pytest.mark.peers


def study():
    rng = np.random.default_rng(0)
    theta = rng.uniform(size=(200, 3)).astype("f4")
    samples = (theta + 0.1 * rng.normal(size=(300, 200, 3))).astype("f4")
    references = rng.uniform(size=(200, 3)).astype("f4")
    return samples, theta, references


def fractions(samples, theta, references):
    return tarpon.tarp(
        samples, theta, reference=Fixed(references), metric=tarpon.metrics.L2(scale=1.0), rng=0
    ).fractions


def test_fractions_behind_the_reference_packages_curve():
    tarp = pytest.importorskip("tarp")
    samples, theta, references = study()
    f = fractions(samples, theta, references)
    n_bins = 20
    ecp, alpha = tarp.get_tarp_coverage(
        samples,
        theta,
        references=references,
        metric="euclidean",
        num_alpha_bins=n_bins,
        norm=False,
    )
    counts, edges = np.histogram(f, bins=n_bins)
    np.testing.assert_allclose(np.diff(ecp), counts / len(f), atol=1e-12)
    np.testing.assert_array_equal(alpha, edges)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_the_drop_in_gives_the_reference_packages_curve(metric):
    tarp = pytest.importorskip("tarp")
    samples, theta, references = (numbers.astype(float) for numbers in study())
    n_draws = len(samples)
    call = {"references": references, "metric": metric, "norm": False}
    theirs, edges = tarp.get_tarp_coverage(samples, theta, num_alpha_bins=23, **call)
    ours, alpha = tarpon.compat.get_tarp_coverage(
        samples, theta, num_alpha_bins=n_draws + 1, **call
    )
    np.testing.assert_allclose(alpha, np.arange(n_draws + 2) / (n_draws + 1))
    # They count fractions below an edge, and up to the last one; levels count ranks. With 23
    # bins no fraction lies on an edge, where rounding would decide.
    k = np.ceil(np.round(edges * n_draws, 6)).astype(int)
    k[-1] = round(edges[-1] * n_draws) + 1
    np.testing.assert_allclose(ours[k], theirs, atol=1e-12)


def test_the_drop_in_has_the_reference_packages_signature():
    tarp = pytest.importorskip("tarp")
    theirs, ours = (
        inspect.signature(package.get_tarp_coverage).parameters
        for package in (tarp, tarpon.compat)
    )
    assert [(p.name, p.default, p.kind) for p in ours.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


def test_fractions_behind_sbis_curve():
    torch = pytest.importorskip("torch")
    from sbi.diagnostics.tarp import _run_tarp

    samples, theta, references = study()
    f = fractions(samples, theta, references)
    ecp, alpha = _run_tarp(
        torch.as_tensor(samples), torch.as_tensor(theta), torch.as_tensor(references),
        distance=lambda a, b: torch.sqrt(((a - b) ** 2).sum(-1)), num_bins=20, z_score_theta=False,
    )  # fmt: skip
    counts, edges = torch.histogram(torch.as_tensor(f.astype("f4")), bins=20)
    np.testing.assert_allclose(np.diff(ecp.numpy()), (counts / len(f)).numpy(), atol=1e-6)
    np.testing.assert_array_equal(alpha.numpy(), edges.numpy())


def test_tensors_come_in_as_they_are():
    torch = pytest.importorskip("torch")
    samples, theta, _ = study()
    expected = tarpon.tarp(samples, theta, rng=0).ranks.values
    given = torch.as_tensor(samples).requires_grad_(), torch.as_tensor(theta)
    np.testing.assert_array_equal(tarpon.tarp(*given, rng=0).ranks.values, expected)
    half = torch.as_tensor(samples).bfloat16(), torch.as_tensor(theta).bfloat16()
    assert tarpon.Simulations(*half).samples.dtype == np.float32
    state = torch.random.get_rng_state()
    tarpon.tarp(*given)
    assert (torch.random.get_rng_state() == state).all()

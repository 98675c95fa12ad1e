import numpy as np
import pytest

import tarpon
from tarpon.problems import Galaxies, Lens, Lensing, pictures

N_DIMS, N_CHAINS = 6, 40_000


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(N_DIMS, N_DIMS)) / 2
    prior = Galaxies(rng.normal(size=N_DIMS), half @ half.T + 0.1 * np.eye(N_DIMS))
    return Lensing(prior, matrix=rng.normal(size=(9, N_DIMS)), noise=0.5)


def off(draws, mean, covariance):
    """Return how far the moments of draws lie from a normal law, in standard errors at most."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T).T
    n = len(white)
    means = abs(white.mean(axis=0)) * np.sqrt(n)
    spread = abs(np.cov(white, rowvar=False, bias=True) - np.eye(white.shape[1])) * np.sqrt(n / 2)
    return max(means.max(), spread.max())


# 2 × 27 moments of 40 000 chains: exact ones pass 6 standard errors once in 10^7 runs.
@pytest.mark.parametrize("sampler", ["exact", "biased"])
@pytest.mark.parametrize("n_steps", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_chains_follow_their_closed_form_law(problem, sampler, n_steps):
    _, x = problem.simulate(2, np.random.default_rng(1))
    draw = problem.sampler("exact", "biased", n_steps=n_steps)
    draws = draw(x, N_CHAINS, np.random.default_rng(2))
    other = "biased" if sampler == "exact" else "exact"
    for i in range(2):
        laws = {}
        for name, chain in draw.chains.items():
            gain, covariance = chain.law()
            laws[name] = problem.galaxies.mean + gain @ problem.data(x)[i], covariance
        assert off(draws[sampler][i].astype(float), *laws[sampler]) < 6
        assert off(draws[sampler][i].astype(float), *laws[other]) > 20


def test_exact_chain_ends_in_the_posterior_and_the_biased_one_does_not(problem):
    """The KL divergence to the posterior shrinks with the steps, but for the biased chain."""
    _, x = problem.simulate(1, np.random.default_rng(3))
    mean, covariance = problem.posterior(x)

    def divergence(sampler, n_steps):
        gain, spread = problem.chain(sampler, n_steps).law()
        shift = problem.galaxies.mean + gain @ problem.data(x)[0] - mean[0]
        ratio = np.linalg.solve(covariance, spread)
        distance = shift @ np.linalg.solve(covariance, shift)
        return 0.5 * (np.trace(ratio) - N_DIMS - np.linalg.slogdet(ratio)[1] + distance)

    assert divergence("exact", 300) < 0.001 < divergence("exact", 10)
    assert divergence("biased", 300) > 0.1
    assert divergence("biased", 3000) > 0.1


def test_score_of_the_exact_chain_is_that_of_the_noised_posterior(problem):
    chain = problem.chain("exact", 40)
    posterior = problem.posterior(np.zeros((1, 9)))[1]
    for keep, kick in zip(chain.keep, chain.kick, strict=True):
        sigma = chain.start * kick / chain.kick[0]
        score = np.linalg.inv(posterior + sigma**2 * np.eye(N_DIMS))
        np.testing.assert_allclose(np.eye(N_DIMS) - keep, kick**2 * score, rtol=0, atol=1e-9)


def test_posterior_is_that_of_textbooks(problem):
    _, x = problem.simulate(3, np.random.default_rng(4))
    mean, covariance = problem.posterior(x)
    a, prior = problem.matrix, problem.galaxies
    precision = np.linalg.inv(prior.covariance) + a.T @ a / problem.noise**2
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), atol=1e-12)
    linear = np.linalg.solve(prior.covariance, prior.mean) + x @ a / problem.noise**2
    np.testing.assert_allclose(mean, np.linalg.solve(precision, linear.T).T, atol=1e-10)


def test_draws_hang_on_the_generator_alone(problem):
    _, x = problem.simulate(2, np.random.default_rng(5))
    both, alone = problem.sampler("exact", "biased"), problem.sampler("exact")
    first = both(x, 10, np.random.default_rng(6))
    np.testing.assert_array_equal(first["exact"], alone(x, 10, np.random.default_rng(6))["exact"])
    assert (first["exact"] != both(x, 10, np.random.default_rng(7))["exact"]).all()
    with pytest.raises(ValueError, match="`sampler` must be 'exact' or 'biased'"):
        problem.sampler("unbiased")


def test_a_ray_through_the_lens_agrees_with_its_potential():
    """Deflection is the gradient of (radius² isothermal) potential: its curl vanishes."""
    lens, step = Lens(), 1e-5
    x, y = np.random.default_rng(0).uniform(-2, 2, size=(2, 100))
    up, down = lens.source(x, y + step), lens.source(x, y - step)
    right, left = lens.source(x + step, y), lens.source(x - step, y)
    curl = (right[1] - left[1]) - (up[0] - down[0])
    np.testing.assert_allclose(curl / (2 * step), 0, atol=1e-6)
    # Twice the convergence is the divergence of the deflection: b / (elliptical radius) here.
    q, (cos, sin) = lens.axis_ratio, (np.cos(lens.angle), np.sin(lens.angle))
    along, across = cos * x + sin * y, cos * y - sin * x
    divergence = 2 - ((right[0] - left[0]) + (up[1] - down[1])) / (2 * step)
    ellipse = np.sqrt(q * along**2 + across**2 / q)
    np.testing.assert_allclose(divergence, lens.radius / ellipse, rtol=1e-5)


def test_a_weak_lens_shows_the_source_as_it_is():
    """Without mass, the image of a source that fills it is the source, pixel by pixel."""
    lens = Lens(radius=1e-12, shear=(0.0, 0.0))
    matrix = lens.matrix(n_image=8, n_source=8, image_side=1, source_side=1,
                         source_centre=(0, 0), n_rays=1)  # fmt: skip
    np.testing.assert_allclose(matrix, np.eye(64), atol=1e-9)


def test_lensing_keeps_surface_brightness():
    matrix = Lens().matrix()
    assert matrix.shape == (1024, 256)
    assert np.linalg.matrix_rank(matrix) == 256
    assert 0 <= matrix.min() <= matrix.sum(axis=1).max() <= 1 + 1e-12


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rays_agree_with_caustics():
    caustics, torch = pytest.importorskip("caustics"), pytest.importorskip("torch")
    lens = Lens()

    def double(value):
        return torch.as_tensor(value, dtype=torch.float64)

    x, y = double(np.linspace(-2, 2, 64)), double(np.linspace(-1.9, 1.8, 64))
    place = {"z_l": double(0.5), "z_s": double(1.5), "x0": double(0), "y0": double(0)}
    cosmology = caustics.FlatLambdaCDM(name="cosmology")
    sie = caustics.SIE(
        name="sie", cosmology=cosmology, q=double(lens.axis_ratio), phi=double(lens.angle),
        Rein=double(lens.radius), **place,
    )  # fmt: skip
    shear = caustics.ExternalShear(
        name="shear", cosmology=cosmology, gamma_1=double(lens.shear[0]),
        gamma_2=double(lens.shear[1]), **place,
    )  # fmt: skip
    bends = sie.reduced_deflection_angle(x, y), shear.reduced_deflection_angle(x, y)
    ax, ay = (a + b for a, b in zip(*bends, strict=True))
    ours = lens.source(x.numpy(), y.numpy())
    np.testing.assert_allclose(ours[0], (x - ax).numpy(), atol=1e-9)
    np.testing.assert_allclose(ours[1], (y - ay).numpy(), atol=1e-9)


@pytest.mark.slow
def test_galaxies_of_the_hubble_field():
    found = pictures()
    assert found.shape[1:] == (16, 16)
    assert len(found) > 150
    np.testing.assert_allclose(np.sort(found.reshape(len(found), -1))[:, -5:].mean(axis=1), 1)
    prior = Galaxies.fit(found)
    sizes = np.linalg.eigvalsh(prior.covariance)
    assert 0.01 < np.sqrt(sizes[0]) < np.sqrt(sizes[-1]) < 2
    mean = prior.mean.reshape(16, 16)
    np.testing.assert_allclose(mean, mean[::-1], atol=1e-12)
    np.testing.assert_allclose(mean, mean.T, atol=1e-12)
    drawn = prior.draw(20_000, np.random.default_rng(0))
    # 256 means of 20 000 draws: one passes 6 standard errors once in 10^6 runs.
    z = (drawn.mean(axis=0) - prior.mean) / np.sqrt(np.diag(prior.covariance) / len(drawn))
    assert abs(z).max() < 6


def test_pictures_of_a_file(tmp_path):
    path = tmp_path / "galaxies.npy"
    np.save(path, np.ones((3, 16, 16), dtype=np.float32))
    assert pictures(path).dtype == float
    np.save(path, np.ones((3, 8, 8)))
    with pytest.raises(ValueError, match=r"shape \(n, 16, 16\)"):
        pictures(path)
    np.save(path, np.full((3, 16, 16), np.nan))
    with pytest.raises(ValueError, match="finite"):
        pictures(path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        pictures(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        pictures(tmp_path / "nothing.npy")


def test_tarp_sees_the_biased_sampler_and_passes_the_exact_one(problem):
    theta, x = problem.simulate(200, np.random.default_rng(8))
    draws = problem.sampler("exact", "biased", n_steps=100)(x, 100, np.random.default_rng(9))
    p_value = {
        name: tarpon.check(one.swapaxes(0, 1), theta, x=x, rng=0).p_value
        for name, one in draws.items()
    }
    assert p_value["exact"] > 0.01
    assert p_value["biased"] <= 0.001

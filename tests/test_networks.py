"""The trial of networks: its references are right, and its page shows its records."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tarpon

FOLDER = Path(__file__).parents[1] / "experiments" / "networks"
FALSE_ALARM = 1e-6
N_DRAWS = 50


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def named(name):
    from problems import PROBLEMS

    return PROBLEMS[name]


N_SIMS = {"two_moons": 25, "gaussian_linear": 25, "gaussian_mixture": 25, "sir": 25}
N_SIMS |= {"slcp": 10, "lotka_volterra": 10, "blob": 10}  # slower, with four or five parameters


@pytest.fixture(scope="module", params=N_SIMS)
def problem(request):
    return named(request.param)


@pytest.fixture(scope="module")
def study(problem):
    """Return exact draws, truths and observations."""
    theta, x = problem.study(2 * N_SIMS[problem.name], 0)
    return problem.draw(x, N_DRAWS, np.random.default_rng(1)), theta, x


def test_exact_draws_pass_and_others_do_not(study):
    draws, theta, x = study
    middle = draws.mean(axis=0)
    narrow = middle + 0.5 * (draws - middle)
    assert tarpon.sbc(draws, theta, rng=0).p_value > FALSE_ALARM
    # Exact draws have p = 0.001 in both studies in one of 10^6 cases.
    assert max(p_values(draws, theta, x)) > 0.001
    assert max(p_values(narrow, theta, x)) == 0.001


def p_values(draws, theta, x):
    """Return p-values of `check` for two studies."""
    parts = zip(np.split(draws, 2, axis=1), np.split(theta, 2), np.split(x, 2), strict=True)
    return [tarpon.check(*some, x=data, rng=0).p_value for *some, data in parts]


def test_densities_of_truths_are_those_of_exact_draws(problem, study):
    (draws, *_), theta, x = (part[..., :20, :] for part in study)
    both = problem.log_posterior(np.concatenate([theta, draws]), np.concatenate([x, x]))
    difference = both[:20] - both[20:]
    # Six standard errors.
    assert abs(difference.mean()) < 6 * difference.std() / np.sqrt(20)


@pytest.mark.parametrize("name", ["two_moons", "gaussian_mixture"])
def test_densities_integrate_to_one(name):
    problem = named(name)
    _, x = problem.study(2, 0)
    axis = problem.half_width * (2 * (np.arange(500) + 0.5) / 500 - 1)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for one in x:
        density = np.exp(problem.log_posterior(grid, np.broadcast_to(one, grid.shape)))
        assert density.sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=0.03)


class TestDivergence:
    """Both estimates of a divergence, where its value is known."""

    def test_of_a_shift_is_half_its_square(self):
        from judging import neighbours, normal

        p, q = np.random.default_rng(0).normal(size=(2, 4000, 2))
        q[:, 0] += 1
        # Standard errors are about 0.03: the bounds are six of them.
        assert neighbours(p, q) == pytest.approx(0.5, abs=0.18)
        assert normal(p, q) == pytest.approx(0.5, abs=0.18)

    def test_of_equal_draws_is_nothing(self):
        from judging import neighbours, normal

        p, q = np.random.default_rng(1).normal(size=(2, 4000, 2))
        assert abs(neighbours(p, q)) < 0.15
        assert abs(normal(p, q)) < 0.02


class TestImportance:
    """Draws of posteriors whose likelihood is known, where the posterior is known, too."""

    def test_of_a_grid_are_those_of_the_closed_form(self):
        from problems import MIXTURE
        from problems.importance import gridded

        theta, x = MIXTURE.study(20, 0)
        rng = np.random.default_rng(1)
        for at, one in zip(theta, x, strict=True):
            every = np.broadcast_to(one, (1, 2))

            def log_likelihood(points, one=one):
                # The density of the mixture without its constant, which the grid finds.
                near, far = (((points - one) ** 2).sum(axis=1) / sd**2 for sd in (0.1, 1.0))
                return np.logaddexp(-0.5 * near - 2 * np.log(0.1), -0.5 * far)

            draws, _, density = gridded(MIXTURE, log_likelihood, 200, rng, at=at)
            assert density == pytest.approx(MIXTURE.log_posterior(at[None], every)[0], abs=0.1)
            assert len(np.unique(draws, axis=0)) == 200

    def test_of_a_curve_are_those_of_the_closed_form(self):
        from problems import LINEAR
        from problems.importance import Curve

        theta, x = LINEAR.study(20, 0)
        curve = Curve(LINEAR, lambda theta: theta, LINEAR.sd)
        densities = LINEAR.log_posterior(theta, x)
        # Weights of 2000 points in ten dimensions: the bounds are six of their errors.
        assert curve.log_posterior(theta, x) == pytest.approx(densities, abs=0.3)


def test_accepted_points_follow_their_weights():
    from problems.importance import resampled

    rng = np.random.default_rng(0)
    log_weights = np.log(np.repeat([1.0, 3.0], 10_000))
    places = resampled(log_weights, 4000, rng)
    assert len(np.unique(places)) == 4000
    # Three in four, with a standard error of 0.007: six of them.
    assert (places >= 10_000).mean() == pytest.approx(0.75, abs=0.042)


def test_the_page_shows_the_records():
    import page

    records = json.loads((FOLDER / "networks.json").read_text())
    assert page.section(records) in page.PAGE.read_text()

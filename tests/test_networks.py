"""The trial of networks: its references are right, and its page shows its records."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tarpon

FOLDER = Path(__file__).parents[1] / "experiments" / "networks"
FALSE_ALARM = 1e-6
N_SIMS, N_DRAWS = 100, 50


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


@pytest.fixture(params=["two_moons", "gaussian_linear", "gaussian_mixture", "slcp"])
def problem(request):
    from problems import PROBLEMS

    return PROBLEMS[request.param]


def test_exact_draws_pass_and_others_do_not(problem):
    theta, x = problem.study(N_SIMS, 0)
    draws = problem.draw(x, N_DRAWS, np.random.default_rng(1))
    swaps = {"n_swaps": 99, "rng": 0}
    # p is at least 0.01 with 99 swaps: the sum of ranks has its own exact p-value.
    assert tarpon.sbc(draws, theta, rng=0).p_value > FALSE_ALARM
    assert tarpon.check(draws, theta, x=x, **swaps).p_value > 0.01
    middle = draws.mean(axis=0)
    assert tarpon.check(middle + 0.6 * (draws - middle), theta, x=x, **swaps).p_value == 0.01


def test_densities_of_truths_are_those_of_exact_draws(problem):
    theta, x = problem.study(N_SIMS, 0)
    draws = problem.draw(x, 3, np.random.default_rng(1))
    of_truths = problem.log_posterior(theta, x)
    of_draws = np.mean([problem.log_posterior(draw, x) for draw in draws], axis=0)
    difference = of_truths - of_draws
    error = difference.std() / np.sqrt(N_SIMS)
    assert abs(difference.mean()) < 6 * error


def test_densities_integrate_to_one(problem):
    if problem.n_dims > 2:
        pytest.skip("too many dimensions for a grid")
    _, x = problem.study(3, 0)
    axis = problem.half_width * (2 * (np.arange(1000) + 0.5) / 1000 - 1)
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


def test_the_page_shows_the_records():
    import page

    records = json.loads((FOLDER / "networks.json").read_text())
    assert page.section(records) in page.PAGE.read_text()

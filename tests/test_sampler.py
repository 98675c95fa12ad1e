"""Draws from any function: in parallel, with a time limit, and nothing lost in silence."""

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import tarpon
from tarpon import from_sampler

LONG = 600.0  # seconds; nothing waits for as long


def study(n_sims=40, n_dims=2):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(n_sims, n_dims))
    return theta, theta + rng.normal(size=theta.shape)


def good(x, n_draws, rng):
    return x / 2 + rng.normal(size=(n_draws, len(x))) / np.sqrt(2)


def narrow(x, n_draws, rng):
    return x / 2 + 0.5 * rng.normal(size=(n_draws, len(x))) / np.sqrt(2)


def stuck_or_broken(x, n_draws, rng):
    while x[0] > 2:
        time.sleep(0.01)
    if x[0] < -2:
        raise RuntimeError("singular")
    return good(x, n_draws, rng)


def test_a_good_sampler_passes_and_a_narrow_one_does_not():
    theta, x = study(200)
    # The posterior is exact, so p is uniform; the seed is fixed.
    assert tarpon.check(from_sampler(good, theta, x, 99, rng=0), rng=0).p_value > 0.001
    assert tarpon.check(from_sampler(narrow, theta, x, 99, rng=0), rng=0).p_value == 0.001


@pytest.mark.parametrize("more", [{"n_workers": 1}, {"n_workers": 7}, {"executor": "threads"}])
def test_draws_hang_on_the_index_and_not_on_who_draws(more):
    theta, x = study()
    first = from_sampler(good, theta, x, 20, rng=5)
    with ThreadPoolExecutor(3) as executor:
        if "executor" in more:
            more = {"executor": executor}
        again = from_sampler(good, theta, x, 20, rng=5, **more)
    assert (again.samples == first.samples).all()
    some = from_sampler(good, theta[:3], x[:3], 20, rng=5)
    assert (some.samples == first.samples[:, :3]).all()


def test_processes():
    theta, x = study(8)
    with ProcessPoolExecutor(2) as executor:
        theirs = from_sampler(good, theta, x, 20, rng=5, executor=executor)
    assert (theirs.samples == from_sampler(good, theta, x, 20, rng=5).samples).all()


def test_samplers_with_and_without_a_generator():
    theta, x = study(4, 1)
    own = np.random.default_rng(0)

    def by_keyword(x, n_draws, scale=1.0, *, rng=None):
        return good(x, n_draws, rng)

    def with_its_own(x, n_draws):
        return own.normal(size=n_draws)

    def with_a_key(x, n_draws, key):
        return good(x, n_draws, key)

    named = from_sampler(by_keyword, theta, x, 9, rng=0).samples
    keyed = from_sampler(with_a_key, theta, x, 9, rng=0).samples
    assert (named == keyed).all()
    assert (keyed == from_sampler(good, theta, x.tolist(), 9, rng=0).samples).all()
    assert from_sampler(with_its_own, theta[:, 0], x, 9).samples.shape == (9, 4, 1)


@pytest.mark.parametrize("on_invalid", ["raise", "drop"])
@pytest.mark.slow
def test_what_fails_or_never_ends_is_named(on_invalid):
    theta, x = study(8)
    x[:, 0] = [0, 9, 0, 0, -9, 0, 9, 0]
    said = (
        r"3 of 8 simulations have no draws: 1, 6 \(took longer than 4 s\); "
        r"4 \(RuntimeError: singular\)"
    )
    given = stuck_or_broken, theta, x, 9
    more = {"n_workers": 8, "time_limit": 4, "on_invalid": on_invalid, "rng": 0}
    if on_invalid == "raise":
        with pytest.raises(RuntimeError, match=said):
            from_sampler(*given, **more)
    else:
        with pytest.warns(UserWarning, match=said):
            sims = from_sampler(*given, **more)
        assert (sims.n_sims, sims.n_dropped) == (5, 3)
        all_of_them = from_sampler(good, theta, x, 9, rng=0).samples
        assert (sims.samples == all_of_them[:, [0, 2, 3, 5, 7]]).all()


def test_reasons_beyond_the_first_three_are_summed_up():
    theta, x = study(6)

    def broken(x, n_draws):
        raise ValueError(f"no root near {x[0]:.6f}")

    with pytest.raises(RuntimeError, match=r"2 \(ValueError: .*\); 3, 4, 5 \(for other reasons\)"):
        from_sampler(broken, theta, x, 9)


def test_an_executor_whose_workers_are_all_stuck_does_not_hang():
    theta, x = study(6)
    release = []

    def stuck(x, n_draws):
        while not release:
            time.sleep(0.01)

    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(RuntimeError, match="was not begun, since every worker is stuck"):
            from_sampler(stuck, theta, x, 9, executor=executor, time_limit=0.1)
        release.append(True)


def test_a_stuck_sampler_does_not_keep_the_program_from_ending():
    code = (
        "import time, tarpon\n"
        "theta = x = [[0.0]]\n"
        "try: tarpon.from_sampler(lambda x, n: time.sleep(1e4), theta, x, time_limit=0.1)\n"
        "except RuntimeError as error: print(error)\n"
    )
    # Tracing, as for coverage, makes CPython 3.11 spin while a thread that sleeps is to end.
    untraced = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=untraced, capture_output=True, text=True, check=True, timeout=LONG,
    )  # fmt: skip
    assert "1 of 1 simulations have no draws: 0 (took longer than 0.1 s)" in answer.stdout
    assert not answer.stderr


@pytest.mark.parametrize(
    ("error", "message", "wrong"),
    [
        (
            ValueError,
            r"`x` must have one entry per simulation, \(4, ...\)",
            {"x": np.zeros((3, 2))},
        ),
        (ValueError, r"`theta` must be \(n_sims, n_dims\)", {"theta": 0.0}),
        (ValueError, "`n_draws` must be at least 1, but got 0", {"n_draws": 0}),
        (ValueError, "`n_draws` = 10{12} .* would take", {"n_draws": 10**12}),
        (ValueError, "`names` must name 2 parameters, but got 1", {"names": ["a"]}),
        (ValueError, "`names` must differ", {"names": ["a", "a"]}),
        (ValueError, "`on_invalid` must be 'raise' or 'drop'", {"on_invalid": "skip"}),
        (ValueError, "`time_limit` must be positive, but got 0", {"time_limit": 0}),
        (ValueError, "`n_workers` must be at least 1", {"n_workers": 0}),
        (TypeError, "`executor` must be an executor", {"executor": 4}),
        (TypeError, "`progress` must be a function", {"progress": True}),
        (TypeError, "`rng` must be", {"rng": "seed"}),
    ],
)
def test_everything_that_can_be_is_checked_before_drawing(error, message, wrong):
    theta, x = study(4)
    n_calls = []

    def sampler(x, n_draws, rng):
        n_calls.append(1)
        return good(x, n_draws, rng)

    given = {"theta": theta, "x": x, "n_draws": 9}
    assert from_sampler(sampler, **given).n_sims == len(n_calls) == 4
    with pytest.raises(error, match=message):
        from_sampler(sampler, **given | wrong)
    assert len(n_calls) == 4


def test_a_sampler_must_be_one_and_give_what_it_was_asked_for():
    theta, x = study(4)
    with pytest.raises(TypeError, match=r"`sampler` must be a function .*, but got None"):
        from_sampler(None, theta, x)
    with pytest.raises(RuntimeError, match=r"returned draws \(9, 3\), not \(9, 2\)"):
        from_sampler(lambda x, n: np.zeros((n, 3)), theta, x, 9)


def test_progress_counts_simulations_and_a_pipe_sees_no_bar(capsys):
    theta, x = study(5)
    told = []
    from_sampler(good, theta, x, 9, progress=lambda *told_now: told.append(told_now))
    assert told == [("draws", k, 5) for k in range(1, 6)]
    from_sampler(good, theta, x, 9)
    assert capsys.readouterr() == ("", "")


def test_single_precision_stays_single():
    theta, x = study(4)
    sims = from_sampler(lambda x, n, rng: good(x, n, rng).astype("f4"), theta, x, 9)
    assert sims.samples.dtype == np.float32

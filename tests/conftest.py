"""What tests share: a cluster, p-values of every family, and whether they are uniform."""

import numpy as np
import pytest
from scipy.stats import binom

from tarpon._base import threads
from tarpon.checks import families, power, statistics

FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def cluster():
    """Return a cluster of two processes; a second one is cheaper than one that waits idle."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True
    ) as cluster:
        yield cluster


@pytest.fixture
def nothing_planted(monkeypatch):
    """Let `check` plant no errors, on one thread: studies by the hundred ask for p-values alone.

    `test_planted_errors_change_no_p_value` shows that those stay the same, in half the time. That
    they stay the same on any number of threads is tested, too: of so few, a second one costs more
    than it saves.
    """
    monkeypatch.setenv("TARPON_THREADS", "1")
    monkeypatch.setattr(power.Errors, "of", lambda *_, **__: None)
    monkeypatch.setattr(power, "detectable", lambda *_: power.Detectable(np.inf, np.inf))


@pytest.fixture(scope="session")
def of_every_family():
    """Return a function of many studies' sums: exact p-values by family, and of all together."""

    def of(sums_of, n_studies):
        with threads.one_thread_each():  # such small matrices are not worth a second thread
            found = [_of_every_family(sums_of(seed)) for seed in range(n_studies)]
        return {name: np.array([p[name] for p in found]) for name in found[0]}

    return of


def _of_every_family(sums):
    by_family = families.families(sums)
    numbers = np.column_stack(list(by_family.values()))
    combined = statistics.combine(numbers, families.weights(by_family))
    single = dict(zip(by_family, combined.single, strict=True))
    return single | {"all together": combined.p_value}


@pytest.fixture(scope="session")
def not_uniform():
    """Return whether p-values are not uniform; if they are, True at most FALSE_ALARM often."""

    def of(p):
        levels = 0.05 * np.arange(1, 20)
        tail = FALSE_ALARM / (2 * len(levels))
        low, high = binom.ppf([[tail], [1 - tail]], len(p), levels)
        n_below = (p[:, None] <= levels + 1e-9).sum(axis=0)
        return bool(((n_below < low) | (n_below > high)).any())

    return of

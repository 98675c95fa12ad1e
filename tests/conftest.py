"""What tests share: a cluster, a device, p-values of every family, whether they are uniform."""

import sys
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from tarpon import backends
from tarpon._base import threads
from tarpon.backends import _swaps
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


class Elsewhere(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor on a device, as far as the swap test knows: no array of NumPy mixes with it."""

    __module__ = "torch"  # by which tensors are told
    is_cuda, device = True, "elsewhere"

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **more):
        out = tuple(one.numbers for one in out)
        with_out = {"out": out} if out else {}
        return put(getattr(ufunc, method)(*taken(inputs), **with_out, **taken(more)))

    def __array__(self, *_, **__):
        raise TypeError("a tensor on a device cannot become an array.")

    def __array_function__(self, function, *_):
        raise TypeError(f"{function.__name__} of NumPy got a tensor on a device.")

    def __getattr__(self, name):
        if name.startswith("__"):  # by some of them, NumPy would get at the numbers
            raise AttributeError(name)
        found = getattr(self.numbers, name)
        return on_device(found) if callable(found) else put(found)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, key):
        return put(self.numbers[of_index(key)])

    def __setitem__(self, key, values):
        self.numbers[of_index(key)] = taken(values)

    def reshape(self, *shape):
        assert min(shape, default=0) >= -1, "torch takes no other negative sizes."
        return Elsewhere(self.numbers.reshape(shape))

    def detach(self):
        return self

    def cpu(self):
        return SimpleNamespace(dtype=self.dtype, numpy=self.numbers.copy)

    def to(self, device, copy=False):
        assert device == self.device
        return self


def put(found):
    """Put arrays on the device, wherever they are in what a function returns."""
    if isinstance(found, tuple | list):
        return type(found)(map(put, found))
    return Elsewhere(found) if isinstance(found, np.ndarray) else found


def taken(given):
    """Return arguments with the numbers of tensors; arrays of NumPy are refused."""
    if isinstance(given, tuple | list):
        return type(given)(map(taken, given))
    if isinstance(given, dict):
        return {name: taken(value) for name, value in given.items()}
    if isinstance(given, str):
        return given.removeprefix("torch.")
    if isinstance(given, type) or (isinstance(given, np.ndarray) and given.ndim):
        raise TypeError("numbers and types of NumPy cannot be used with those of a device.")
    return given.numbers if isinstance(given, Elsewhere) else given


def of_index(key):
    """Return an index: tensors may be indexed with arrays of NumPy."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(part.numbers if isinstance(part, Elsewhere) else part for part in parts)


def on_device(function):
    """Return a function of NumPy as one of tensors, which calls others with tensors."""

    @wraps(function)
    def wrapped(*args, **more):
        return put(function(*taken(args), **taken(more)))

    return wrapped


class Torch:
    """The functions of NumPy, on the device."""

    float32, float64 = "torch.float32", "torch.float64"
    from_numpy = staticmethod(Elsewhere)

    def zeros(self, shape, dtype, device):
        assert device == Elsewhere.device
        return Elsewhere(np.zeros(shape, taken(dtype)))

    def __getattr__(self, name):
        return on_device(getattr(np, name))


class OnDevice:
    """The functions of the swap test, on the device."""

    def over_rows(self, run, values, slots, n_numbers):
        _swaps.over_rows(
            lambda rows, sims, some: run(rows, sims, Elsewhere(some)),
            *taken((values, slots)), n_numbers,
        )  # fmt: skip

    def pool(self, truths, draws, place):
        return Elsewhere(_swaps.pool(*taken((truths, draws)), place))

    def __getattr__(self, name):
        return on_device(getattr(_swaps, name))


@pytest.fixture
def elsewhere(monkeypatch):
    """Return a function that puts arrays on a device, where NumPy computes in place of torch."""
    swaps = backends.swaps
    monkeypatch.setitem(sys.modules, "torch", Torch())
    monkeypatch.setattr(
        backends, "swaps", lambda a: OnDevice() if isinstance(a, Elsewhere) else swaps(a)
    )
    return Elsewhere

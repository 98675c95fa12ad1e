"""What is kept is used again for the same call on the same numbers, and for no other."""

import functools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import h5py
import netCDF4
import numba
import numpy as np
import pytest
import xarray
import zarr

import tarpon
from tarpon import Engine, Simulations, metrics, references
from tarpon._base import fingerprint
from tarpon._base.fingerprint import of_array, of_settings
from tarpon.simulations import stored

SIMS = tarpon.problems.zoo("exact", n_sims=12, n_draws=20, rng=0)
WEIGHT = 2.0


def told(value):
    return of_settings({"a": value})


def adding(number):
    return lambda theta, x: theta[..., 0] + number


def with_default(number):
    def score(theta, x, more=number):
        return theta[..., 0] + more

    return score


def of_global(theta, x):
    return WEIGHT * theta[..., 0]


class Score:
    """A score whose only attribute is private."""

    def __init__(self, number):
        self._number = number

    def __call__(self, theta, x):
        return theta[..., 0] + self._number


@dataclass
class Field:
    number: object

    @functools.cached_property
    def later(self):
        return 1


def large(number):
    """Return an array that prints as any other of its kind."""
    array = np.zeros(5000)
    array[2500] = number
    return array


def compiled(number):
    @numba.njit
    def score(theta):
        return theta + number

    return score


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


KINDS = {
    "arrays": large,
    "arrays of objects": lambda n: np.array([n, "a", None], dtype=object),
    "closures": adding,
    "defaults": with_default,
    "methods": lambda n: Score(n).__call__,
    "objects": Score,
    "slots": Slotted,
    "dataclasses": Field,
    "partial functions": lambda n: functools.partial(max, n),
    "compiled functions": compiled,
    "generators": np.random.default_rng,
    "bound methods of C": lambda n: np.random.default_rng(n).normal,
    "sets": lambda n: {"a", "b", n},
    "nested": lambda n: {"a": [(1, {"b": adding(n)})]},
    "fractions": lambda n: Fraction(n, 7),
    "keys": lambda n: {n: 1},
    "bytes": lambda n: bytes([n]),
    "not finite": lambda n: float("nan") if n == 1 else float("inf"),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_values_are_told_apart_by_content(kind):
    assert told(kind(1)) == told(kind(1)) != told(kind(2))


def test_globals_that_a_function_uses_count(monkeypatch):
    before = told(of_global)
    monkeypatch.setitem(globals(), "WEIGHT", 3.0)
    assert told(of_global) != before
    monkeypatch.setitem(globals(), "WEIGHT", 2.0)
    assert told(of_global) == before


def test_functions_within_functions_count():
    one, two = (lambda: lambda x: x + 1), (lambda: lambda x: x + 2)
    assert told(one) != told(two)


def test_methods_of_a_class_count():
    def made(body):
        names = {"__name__": "nowhere"}
        exec(f"class A:\n    def f(self): return {body}", names)
        return names["A"]()

    assert told(made("1")) == told(made("1")) != told(made("2"))


def test_what_is_computed_later_does_not_count():
    field = Field(1)
    before = told(field)
    assert field.later
    assert told(field) == before


def test_what_refers_to_itself_comes_to_an_end():
    endless = [1]
    endless.append(endless)
    assert told(endless) == told(endless)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="a change of this list would not be noticed"):
        told(deep)


@pytest.mark.parametrize(
    "opaque", [threading.Lock(), (n for n in range(3)), sys.stdout], ids=["lock", "iterator", "io"]
)
def test_what_cannot_be_told_apart_is_refused_and_named(opaque):
    with pytest.raises(ValueError, match=r"depend on `scores\.mine\.number` cannot be kept"):
        of_settings({"scores": {"mine": Field(opaque)}})
    assert fingerprint.of_attributes(Field(opaque))["number"].endswith(type(opaque).__name__)


@pytest.mark.slow
def test_the_next_process_tells_the_same(tmp_path):
    """Hashes of texts differ between processes, and with them the order of sets."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "K = {'a': 1, 'b': {'x', 'y', 'z'}}\n"
        "class A:\n"
        "    def __init__(self, n): self._n = n\n"
        "    def __call__(self, x): return self._n * np.sin(x) if x in {'p', 'q', 'r'} else K\n"
    )
    code = "import mine; from tarpon._base.fingerprint import of_settings as f; "
    code += "print(f({'a': mine.A(2), 'b': mine.A.__call__, 'c': lambda x: mine.K}))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(said) == 1


@pytest.mark.slow
def test_modules_that_a_function_uses_count(tmp_path, monkeypatch):
    code = "import helper; from tarpon._base.fingerprint import of_settings as f; "
    code += "print(f({'a': lambda x: helper.scale * x}))"

    def said(text):
        (tmp_path / "helper.py").write_text(text)
        return subprocess.run(
            [sys.executable, "-B", "-c", code], cwd=tmp_path, check=True, capture_output=True
        ).stdout

    assert said("scale = 2") == said("scale = 2") != said("scale = 3")


class TestArrays:
    def test_layout_does_not_count_and_every_number_does(self, monkeypatch):
        monkeypatch.setattr(fingerprint, "_PIECE_BYTES", 300)
        array = np.random.default_rng(0).normal(size=(20, 5, 3))
        turned = np.ascontiguousarray(array.swapaxes(0, 1)).swapaxes(0, 1)
        assert of_array(array) == of_array(turned) == of_array(np.asfortranarray(array))
        for place in np.ndindex(array.shape):
            changed = array.copy()
            changed[place] = -changed[place]
            assert of_array(changed) != of_array(array)

    def test_kinds_and_shapes_count(self):
        zeros = [np.zeros(6), np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6, "f4"), np.zeros(12),
                 np.zeros(0), np.zeros((0, 3)), np.zeros(()), np.float64(1)]  # fmt: skip
        assert len({of_array(array) for array in zeros}) == len(zeros)


CALLS = {
    "scores": lambda n, e: tarpon.check(
        SIMS, n_swaps=19, level=0.1, rng=0, engine=e,
        scores={"a": (large(n)[:240].reshape(20, 12) + n, np.zeros(12))},
    ).p_value,
    "functions": lambda n, e: tarpon.check(
        SIMS, n_swaps=19, level=0.1, rng=0, engine=e, scores={"a": adding(n)}
    ).p_value,
    "summary": lambda n, e: tarpon.check(
        SIMS, n_swaps=19, level=0.1, rng=0, engine=e, summary=lambda x: x[:, :n]
    ).p_value,
    "Fixed": lambda n, e: tarpon.tarp(
        SIMS, reference=references.Fixed([n, 0.0]), rng=0, engine=e
    ).p_value,
    "Prior": lambda n, e: tarpon.tarp(
        SIMS, reference=references.Prior(large(n)[:2500].reshape(-1, 2) + n), rng=0, engine=e
    ).p_value,
    "sampler": lambda n, e: tarpon.tarp(
        SIMS, rng=0, engine=e,
        reference=references.Prior(lambda k, rng: rng.normal(n, size=(k, 2))),
    ).p_value,
    "Around": lambda n, e: tarpon.tarp(
        SIMS, reference=references.Around(lambda x: n * x), rng=0, engine=e
    ).p_value,
    "Learned": lambda n, e: tarpon.tarp(
        SIMS, reference=references.Learned(np.eye(2) * n, np.eye(2) + n), rng=0, engine=e
    ).p_value,
    "metric": lambda n, e: tarpon.tarp(
        SIMS, metric=metrics.Weighted([1.0, float(n)]), rng=0, engine=e
    ).p_value,
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_of_other_settings_are_refused(call, tmp_path):
    engine = Engine(resume=tmp_path / "blocks")
    first = call(1, engine)
    assert call(1, engine) == first == call(1, Engine())
    with pytest.raises(ValueError, match=r"contains results of another run: settings\."):
        call(2, engine)


def test_settings_that_cannot_be_told_apart_are_refused_with_a_folder_alone(tmp_path):
    lock = threading.Lock()

    def score(theta, x):
        with lock:
            return theta[..., 0]

    tarpon.check(SIMS, scores={"a": score}, n_swaps=19, rng=0)
    with pytest.raises(
        ValueError, match=r"`settings.scores.a.lock` cannot be kept: a change of this lock"
    ):
        tarpon.check(
            SIMS, scores={"a": score}, n_swaps=19, rng=0, engine=Engine(resume=tmp_path / "a")
        )


def arrays():
    rng = np.random.default_rng(0)
    return {"samples": rng.normal(size=(20, 40, 2)), "theta": rng.normal(size=(40, 2))}


@pytest.mark.parametrize("name", ["samples", "theta", "x", "log_prob_samples", "log_weights"])
def test_any_number_in_memory_makes_other_data(name, tmp_path):
    given = arrays() | {"x": np.zeros((40, 3)), "log_prob_theta": np.zeros(40)}
    given |= {"log_prob_samples": np.zeros((20, 40)), "log_weights": np.zeros((20, 40))}
    engine = Engine(resume=tmp_path / "blocks")
    tarpon.sbc(Simulations(**given), rng=0, engine=engine)
    tarpon.sbc(Simulations(**given), rng=0, engine=engine)
    given[name] = given[name].copy()
    given[name].flat[37] += 0.5
    with pytest.raises(ValueError, match=rf"another run: data\.{name} was"):
        tarpon.sbc(Simulations(**given), rng=0, engine=engine)


def as_npy(path, samples):
    np.save(path / "samples.npy", samples)
    return lambda: np.load(path / "samples.npy", mmap_mode="r")


def as_hdf5(path, samples):
    with h5py.File(path / "a.h5", "w") as file:
        file["samples"] = samples
    return lambda: h5py.File(path / "a.h5", "r")["samples"]


def as_open_hdf5(path, samples):
    as_hdf5(path, samples)
    return lambda: h5py.File(path / "a.h5", "r+")["samples"]


def as_zarr(path, samples, **more):
    array = zarr.create_array(path / "a.zarr", data=samples, chunks=(20, 4, 2), overwrite=True,
                              **more)  # fmt: skip
    return lambda: array


def as_netcdf(path, samples):
    with netCDF4.Dataset(path / "new.nc", "w") as file:
        for name, size in zip("dsp", samples.shape, strict=True):
            file.createDimension(name, size)
        file.createVariable("samples", "f8", ("d", "s", "p"))[:] = samples
    (path / "new.nc").rename(path / "a.nc")  # one that is open may not be written
    return lambda: netCDF4.Dataset(path / "a.nc")["samples"]


def as_xarray(path, samples):
    as_netcdf(path, samples)
    return lambda: xarray.open_dataset(path / "a.nc", engine="h5netcdf")["samples"]


def as_dask(path, samples):
    import dask.array

    return lambda: dask.array.from_array(samples, chunks=(20, 7, 2))


FORMATS = {
    "npy": as_npy,
    "hdf5": as_hdf5,
    "hdf5, open": as_open_hdf5,
    "zarr": as_zarr,
    "zarr, plain": functools.partial(as_zarr, compressors=None),
    "netcdf": as_netcdf,
    "xarray": as_xarray,
    "dask": as_dask,
}


@pytest.mark.parametrize("n_bytes", [0, 2**20], ids=["large", "small"])
@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_any_number_on_disk_makes_other_data(write, n_bytes, tmp_path, monkeypatch):
    """The one that changes is in none of the simulations that are read of large arrays."""
    monkeypatch.setattr(stored, "_WHOLE_BYTES", n_bytes)
    given, engine = arrays(), Engine(resume=tmp_path / "blocks")
    opened = write(tmp_path, given["samples"])
    for _ in range(2):
        tarpon.sbc(Simulations(opened(), given["theta"]), rng=0, engine=engine)
    changed = given["samples"].copy()
    changed[3, 2, 1] += 0.5
    opened = write(tmp_path, changed)
    with pytest.raises(ValueError, match=r"another run: data\.samples was"):
        tarpon.sbc(Simulations(opened(), given["theta"]), rng=0, engine=engine)


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_little_on_disk_is_the_same_as_in_memory(write, tmp_path):
    given = arrays()
    engine = Engine(resume=tmp_path / "blocks")
    tarpon.sbc(Simulations(**given), rng=0, engine=engine)
    opened = write(tmp_path, given["samples"])
    tarpon.sbc(Simulations(opened(), given["theta"]), rng=0, engine=engine)


class TestBlocks:
    """A block counts only in the place that it was computed for."""

    def sims(self):
        sims = Simulations(**arrays())
        sims._set(_part_bytes=2**11)
        return sims

    def test_two_that_were_swapped_are_computed_again(self, tmp_path):
        engine = Engine(resume=tmp_path)
        expected = tarpon.sbc(self.sims(), rng=0, engine=engine).ranks.values
        one, two, *_ = sorted(tmp_path.glob("counts-*.npz"))
        contents = one.read_bytes(), two.read_bytes()
        assert contents[0] != contents[1]
        one.write_bytes(contents[1])
        two.write_bytes(contents[0])
        again = tarpon.sbc(self.sims(), rng=0, engine=engine).ranks.values
        np.testing.assert_array_equal(again, expected)
        assert (one.read_bytes(), two.read_bytes()) == contents

    def test_one_of_another_run_is_computed_again_and_one_of_the_same_is_not(self, tmp_path):
        paths = [tmp_path / name / "counts-000001.npz" for name in "abc"]
        for path, seed in zip(paths, (0, 1, 0), strict=True):
            tarpon.sbc(self.sims(), rng=seed, engine=Engine(resume=path.parent))
        first, other, same = (path.read_bytes() for path in paths)
        paths[0].write_bytes(other)
        tarpon.sbc(self.sims(), rng=0, engine=Engine(resume=paths[0].parent))
        assert paths[0].read_bytes() == first
        paths[0].write_bytes(same)
        time = paths[0].stat().st_mtime_ns
        tarpon.sbc(self.sims(), rng=0, engine=Engine(resume=paths[0].parent))
        assert paths[0].stat().st_mtime_ns == time

    def test_many_processes_may_begin_a_folder_at_once(self, tmp_path):
        """Without a seed, one of them chooses it for all."""

        def seed(_):
            return tarpon.sbc(self.sims(), engine=Engine(resume=tmp_path / "a")).seed

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(seed, range(8)))) == 1

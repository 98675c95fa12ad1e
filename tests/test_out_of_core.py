"""Draws that are not in memory: every format gives the answer of the same numbers in memory."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
import warnings

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner
from threadpoolctl import threadpool_info, threadpool_limits

import tarpon
from tarpon import Engine, Simulations, metrics, references
from tarpon._base import threads
from tarpon._base.arrays import Window
from tarpon.adapters import files
from tarpon.checks import swaps
from tarpon.cli import main
from tarpon.engine import Run, Unfinished
from tarpon.simulations import passes, sources
from tarpon.simulations.shapes import is_stored
from tarpon.simulations.sources import PlainZarr
from tarpon.simulations.stored import Stored

N_SIMS, N_DRAWS, N_DIMS = 90, 250, 3
PART_BYTES = 2**17  # so that little data have many parts


def arrays(dtype="f8"):
    """Draws that are a little too narrow, so that there is something to be found."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N_SIMS, N_DIMS))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + 0.6 * rng.normal(size=(N_DRAWS, *theta.shape))
    found = {
        "samples": samples,
        "theta": theta,
        "x": x,
        "log_prob_samples": -np.square(samples - x / 2).sum(axis=-1),
        "log_prob_theta": -np.square(theta - x / 2).sum(axis=-1),
    }
    return {name: numbers.astype(dtype) for name, numbers in found.items()}


def simulations(on_invalid="raise", part_bytes=PART_BYTES, **given):
    sims = Simulations(**given, on_invalid=on_invalid)
    sims._set(_part_bytes=part_bytes)
    return sims


def as_memmap(path, given):
    for name, numbers in given.items():
        np.save(path / f"{name}.npy", numbers)
    return {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in given}


def as_view_of_memmap(path, given):
    """As a sampler writes them that goes over simulations first, and only every other draw."""
    padded = np.repeat(given["samples"].swapaxes(0, 1), 2, axis=1)
    np.save(path / "all.npy", padded)
    view = np.load(path / "all.npy", mmap_mode="r")[:, ::2].swapaxes(0, 1)
    return given | {"samples": view}


def as_hdf5(path, given):
    with h5py.File(path / "a.h5", "w") as file:
        for name, numbers in given.items():
            file.create_dataset(name, data=numbers, chunks=True)
    file = h5py.File(path / "a.h5", "r")
    return {name: file[name] for name in given}


def as_open_hdf5(path, given):
    file = h5py.File(path / "a.h5", "w")
    return {name: file.create_dataset(name, data=numbers) for name, numbers in given.items()}


def as_zarr(path, given):
    group = zarr.create_group(path / "a.zarr")
    for name, numbers in given.items():
        chunks = (N_DRAWS, 8, N_DIMS) if name == "samples" else numbers.shape
        group.create_array(name, data=numbers, chunks=chunks)
    return {name: zarr.open_group(path / "a.zarr", mode="r")[name] for name in given}


def as_plain_zarr(path, given):
    """Chunks that are numbers and nothing else."""
    group = zarr.create_group(path / "a.zarr")
    for name, numbers in given.items():
        chunks = tuple(max(1, n // 3) for n in numbers.shape)
        array = group.create_array(
            name, shape=numbers.shape, chunks=chunks, dtype=numbers.dtype, compressors=None
        )
        array[...] = numbers
    return {name: group[name] for name in given}


def as_oddly_chunked_zarr(path, given):
    """Chunks that fit no block: some span several, some are cut by one."""
    array = zarr.create_array(path / "a", data=given["samples"], chunks=(7, 50, 2))
    return given | {"samples": array}


def as_sharded_zarr(path, given):
    samples = given["samples"]
    array = zarr.create_array(path / "a", data=samples, chunks=(30, 4, 3), shards=(60, 8, 3))
    return given | {"samples": array}


def as_netcdf4(path, given):
    file = netCDF4.Dataset(path / "a.nc", "w")
    for name, numbers in given.items():
        dims = [file.createDimension(f"{name}_{k}", n).name for k, n in enumerate(numbers.shape)]
        file.createVariable(name, numbers.dtype, dims)[...] = numbers
    return {name: file[name] for name in given}


def as_xarray(path, given):
    data = {k: (tuple(f"{k}_{i}" for i in range(v.ndim)), v) for k, v in given.items()}
    xarray.Dataset(data).to_netcdf(path / "a.nc", engine="h5netcdf")
    opened = xarray.open_dataset(path / "a.nc", engine="h5netcdf")
    return {name: opened[name] for name in given}


def as_dask(path, given):
    import dask.array

    return {name: dask.array.from_array(numbers, chunks="auto") for name, numbers in given.items()}


class Foreign:
    """The least that an array must have."""

    def __init__(self, numbers):
        self._numbers, self.shape, self.dtype = numbers, numbers.shape, numbers.dtype

    def __getitem__(self, key):
        return self._numbers[key]


def as_foreign(path, given):
    return {name: Foreign(numbers) for name, numbers in given.items()}


FORMATS = [
    *(as_memmap, as_view_of_memmap, as_hdf5, as_open_hdf5, as_zarr, as_oddly_chunked_zarr),
    *(as_plain_zarr, as_sharded_zarr, as_netcdf4, as_xarray, as_dask, as_foreign),
]
FAST = as_memmap, as_hdf5, as_zarr, as_dask, as_foreign


def answers(sims, engine=None):
    """Return everything that the four tests say."""
    engine = engine or (lambda name: Engine())
    tests = {"tarp": tarpon.tarp, "sbc": tarpon.sbc, "hpd": tarpon.hpd}
    said = {}
    for name, test in tests.items():
        result = test(sims, rng=1, engine=engine(name))
        said[name] = (result.ranks.values.tolist(), result.to_dict())
    said["check"] = tarpon.check(sims, n_swaps=49, rng=1, engine=engine("check")).to_dict()
    return said


@pytest.fixture(scope="module")
def in_memory():
    return {dtype: answers(simulations(**arrays(dtype))) for dtype in ("f4", "f8")}


@pytest.mark.parametrize(
    "form",
    [f if f in FAST else pytest.param(f, marks=pytest.mark.slow) for f in FORMATS],
    ids=lambda form: form.__name__[3:],
)
@pytest.mark.parametrize("dtype", [pytest.param("f4", marks=pytest.mark.slow), "f8"])
def test_every_format_gives_the_answer_of_memory(form, dtype, tmp_path, in_memory):
    sims = simulations(**form(tmp_path, arrays(dtype)))
    assert isinstance(sims.samples, Stored)
    assert answers(sims) == in_memory[dtype]


def test_there_is_something_to_compare(in_memory):
    assert in_memory["f8"]["check"]["outcome"] == "inaccurate"
    assert passes.step(simulations(**arrays())) < N_SIMS // 4


REFERENCES = [
    references.Uniform(-3.0, 3.0),
    references.Centre(),
    references.Posterior(),
    references.Around(lambda x: x / 2, spread=0.1),
    references.Fixed(np.random.default_rng(1).normal(size=(N_SIMS, N_DIMS))),
]


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize(
    "metric",
    [
        pytest.param(metrics.Mahalanobis(), id="Mahalanobis"),
        pytest.param(metrics.L1(1.0), id="L1", marks=pytest.mark.slow),
        pytest.param(lambda a, b: abs(a - b).max(-1), id="callable", marks=pytest.mark.slow),
    ],
)
def test_every_reference_and_metric(reference, metric, tmp_path):
    given = arrays()
    expected, stored = (
        tarpon.tarp(simulations(**given), reference=reference, metric=metric, rng=0)
        for given in (given, as_zarr(tmp_path, given))
    )
    np.testing.assert_array_equal(stored.ranks.values, expected.ranks.values)
    assert stored.verdict == expected.verdict


def test_scores_and_summaries(tmp_path):
    given = arrays()
    said = []
    for kept in (given, as_hdf5(tmp_path, given)):
        values = (Foreign(given["log_prob_samples"]), given["log_prob_theta"])
        check = tarpon.check(
            simulations(**kept),
            scores={"sum": lambda theta, x: theta.sum(-1) - x.sum(-1), "own": values},
            summary=lambda x: x[:, :2],
            n_swaps=49,
            rng=0,
        )
        said.append(check.to_json())
    assert said[0] == said[1]


def test_wide_observations_are_read_a_few_rows_at_a_time(tmp_path):
    given = arrays()
    given["x"] = np.repeat(given["x"], 50, axis=1) + np.random.default_rng(0).normal(size=150)
    said = [
        tarpon.check(simulations(**kept), n_swaps=49, rng=0).to_json()
        for kept in (given, as_hdf5(tmp_path, given))
    ]
    assert said[0] == said[1]


def test_one_parameter_may_come_without_its_axis(tmp_path):
    given = arrays()
    draws, truths = given["samples"][..., 0], given["theta"][:, 0]
    expected = tarpon.sbc(draws, truths, rng=0).ranks.values
    stored = Simulations(Foreign(draws), truths)
    assert stored.samples.shape == (N_DRAWS, N_SIMS, 1)
    np.testing.assert_array_equal(tarpon.sbc(stored, rng=0).ranks.values, expected)


class TestInvalid:
    def given(self):
        given = arrays()
        given["samples"][3, 17, 1] = np.nan
        given["samples"][0, 80, 0] = np.inf
        return given

    @pytest.mark.parametrize("test", [tarpon.tarp, tarpon.sbc, tarpon.check])
    def test_invalid_stored_draws_are_refused_as_in_memory(self, test, tmp_path):
        given = self.given()
        with pytest.raises(ValueError, match=r"2 of 90 .* index 17") as in_memory:
            test(given["samples"], given["theta"])
        with pytest.raises(ValueError, match=r"2 of 90 .* index 17") as stored:
            test(simulations(**as_zarr(tmp_path, given)))
        assert str(stored.value) == str(in_memory.value)

    def test_invalid_stored_densities_are_refused(self, tmp_path):
        given = arrays()
        given["log_prob_samples"][5, 40] = np.nan
        with pytest.raises(ValueError, match=r"1 of 90 .* index 40"):
            tarpon.hpd(simulations(**as_zarr(tmp_path, given)))

    def test_invalid_stored_draws_are_dropped_as_in_memory(self, tmp_path):
        given = self.given()
        kept = as_zarr(tmp_path, given)
        expected = answers(simulations("drop", **given))
        assert expected["tarp"][1]["n_dropped"] == 2
        assert answers(simulations("drop", **kept)) == expected

    def test_missing_values_of_netcdf_are_nan(self, tmp_path):
        given = as_netcdf4(tmp_path, arrays())
        given["samples"][3, 17, 1] = np.ma.masked
        with pytest.raises(ValueError, match=r"1 of 90 .* index 17"):
            tarpon.sbc(simulations(**given))


class TestReading:
    def test_whole_chunks_are_read_once(self):
        reads = []

        class Chunked(Foreign):
            chunks = (N_DRAWS, 40, N_DIMS)

            def __getitem__(self, key):
                reads.append((key[1].start, key[1].stop))
                return super().__getitem__(key)

        given = arrays()
        sims = simulations(**given | {"samples": Chunked(given["samples"])})
        assert passes.step(sims) == 16
        tarpon.sbc(sims, rng=0)
        # Blocks of 16 simulations, chunks of 40: the third block lies in two of them.
        assert reads == [(0, 40), (0, 80), (80, 90)]

    def test_chunks_that_span_everything_are_warned_of(self, monkeypatch):
        monkeypatch.setattr("tarpon.simulations.stored._MOST_AT_ONCE", 1000)

        class Chunked(Foreign):
            chunks = (1, N_SIMS, N_DIMS)

        given = arrays()
        with pytest.warns(UserWarning, match="chunks that span 90 simulations each"):
            tarpon.sbc(simulations(**given | {"samples": Chunked(given["samples"])}), rng=0)

    def test_chunks_of_plain_numbers_are_mapped(self, tmp_path):
        numbers = np.random.default_rng(0).normal(size=(20, 30, 3))
        array = zarr.create_array(tmp_path / "a", shape=(20, 30, 3), chunks=(20, 8, 2), dtype="f8",
                                  compressors=None, fill_value=7.0)  # fmt: skip
        array[:, 8:] = numbers[:, 8:]
        numbers[:, :8] = 7.0  # never written: what the store says is there
        with pytest.warns(UserWarning, match=r"lacks 2 of 8 chunks .* read as 7.0"):
            stored = Stored.of(array, 1)
        assert isinstance(stored.source, PlainZarr)
        for where in (slice(0, 30), slice(8, 16), slice(5, 9), slice(29, 30), slice(4, 4)):
            np.testing.assert_array_equal(stored[:, where], numbers[:, where])
        one_chunk = Stored.of(zarr.create_array(tmp_path / "b", data=numbers, chunks=(20, 8, 3),
                                                compressors=None), 1)  # fmt: skip
        assert not one_chunk[:, 8:16].flags.owndata  # not even copied
        np.testing.assert_array_equal(one_chunk[:, 9:15], numbers[:, 9:15])

    def test_windows_of_stored_arrays(self):
        numbers = np.arange(20.0).reshape(2, 10)
        stored = Stored.of(Foreign(numbers), 1)
        np.testing.assert_array_equal(stored[:, 3:6], numbers[:, 3:6])
        np.testing.assert_array_equal(stored.window(slice(2, 8))[:, 1:3], numbers[:, 3:5])
        odd = stored.keep(np.arange(10) % 2 == 1)
        np.testing.assert_array_equal(odd.window(slice(1, 3)).read(), numbers[:, [3, 5]])
        np.testing.assert_array_equal(Window(numbers[:, 4:], 4)[:, 5:7], numbers[:, 5:7])
        np.testing.assert_array_equal(stored.first(1), numbers[:1])
        assert Stored.of(stored, 1) is stored
        assert stored.keep(np.zeros(10, dtype=bool)).window(slice(0, 0)).read().shape == (2, 0)

    def test_arrays_in_memory_are_not_stored(self):
        mapped = np.zeros(3)
        assert not any(is_stored(value) for value in (mapped, [1.0], 2.0, np.float64(3.0)))

    def test_other_kinds_of_numbers_are_refused(self):
        with pytest.raises(TypeError, match="`samples` must hold real numbers, but got complex"):
            Simulations(Foreign(np.zeros((3, 2, 1), dtype=complex)), np.zeros((2, 1)))


def threads_of_linear_algebra():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


class TestPlain:
    """Files of numbers and nothing else, which threads read and count a part each."""

    @pytest.mark.parametrize("cut", [1, 4, 2**20])
    def test_chunks_that_are_cut_short_are_refused(self, cut, tmp_path):
        given = as_plain_zarr(tmp_path, arrays("f4"))
        files = (PlainZarr.of(given["samples"]).root / "c").rglob("*")
        chunk = next(file for file in files if file.is_file())
        chunk.write_bytes(chunk.read_bytes()[:-cut])
        with pytest.raises(ValueError, match="cannot be read from where they are stored"):
            tarpon.sbc(simulations(**given), rng=0)

    @pytest.mark.parametrize("n_threads", ["1", "2", "5"])
    def test_threads_change_nothing(self, n_threads, tmp_path, monkeypatch):
        monkeypatch.setenv("TARPON_THREADS", n_threads)
        sims = simulations(**as_plain_zarr(tmp_path, arrays("f4")))
        wanted = tarpon.sbc(simulations(**arrays("f4")), rng=0).ranks.values
        np.testing.assert_array_equal(tarpon.sbc(sims, rng=0).ranks.values, wanted)

    def test_progress_is_told_by_the_thread_that_asked(self, tmp_path):
        told = []

        def progress(stage, n_done, n_total):
            told.append((n_done, n_total, threading.current_thread()))

        sims = simulations(**as_plain_zarr(tmp_path, arrays("f4")))
        tarpon.sbc(sims, rng=0, engine=Engine(progress=progress))
        counts, totals, threads_told = zip(*told, strict=True)
        assert list(counts) == sorted(set(counts))
        assert set(totals) == {counts[-1]}
        assert set(threads_told) == {threading.current_thread()}

    def test_threads_leave_linear_algebra_as_it_was(self, monkeypatch):
        """Two blocks that limit it overlap: the first to begin is the first to end."""
        monkeypatch.setenv("TARPON_THREADS", "2")
        steps = [threading.Event() for _ in range(3)]

        def block(k):
            if k:
                steps[0].wait(60)
            with threads.one_thread_each():
                steps[k].set()
                steps[k + 1].wait(60)
            steps[2].set()
            return {"k": np.array([k])}

        before = threads_of_linear_algebra()
        with threadpool_limits(2, user_api="blas"):
            found = list(Run().compute("blocks", block, lambda k: k, 2, in_threads=True))
            assert [int(one["k"][0]) for one in found] == [0, 1]
            assert threads_of_linear_algebra() == {2}
        assert threads_of_linear_algebra() == before


class TestFolder:
    """Results of blocks that are kept: what a killed run is resumed from."""

    def sims(self, **more):
        return simulations(**arrays() | more)

    def test_a_second_run_with_a_folder_computes_nothing(self, tmp_path, in_memory):
        def engine(name):
            return Engine(resume=tmp_path / name)

        first = answers(self.sims(), engine)
        times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
        assert len(times) >= 16
        assert answers(self.sims(), engine) == first == in_memory["f8"]
        assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}

    def test_the_seed_is_that_of_the_folder(self, tmp_path):
        engine = Engine(resume=tmp_path)
        first = tarpon.tarp(self.sims(), engine=engine)
        assert tarpon.tarp(self.sims(), engine=engine).seed == first.seed

    def test_the_folder_of_another_run_is_refused(self, tmp_path):
        engine = Engine(resume=tmp_path)
        tarpon.tarp(self.sims(), rng=0, engine=engine)
        theta = arrays()["theta"] + 1
        for differ, run in {
            "seed": lambda: tarpon.tarp(self.sims(), rng=1, engine=engine),
            "test": lambda: tarpon.sbc(self.sims(), rng=0, engine=engine),
            "data": lambda: tarpon.tarp(self.sims(theta=theta), rng=0, engine=engine),
            "settings": lambda: tarpon.tarp(
                self.sims(), rng=0, metric=metrics.L1(), engine=engine
            ),
        }.items():
            with pytest.raises(ValueError, match=f"results of another run.*{differ}"):
                run()

    @pytest.mark.parametrize("harm", ["cut", "flip", "empty", "pickle"])
    def test_broken_files_are_computed_again(self, tmp_path, harm):
        engine = Engine(resume=tmp_path)
        expected = tarpon.tarp(self.sims(), rng=0, engine=engine)
        path = sorted(tmp_path.glob("counts-*.npz"))[2]
        whole = path.read_bytes()
        if harm == "pickle":
            np.savez(path, below=np.array([print]), equal=np.array([1]))
        else:
            middle = len(whole) // 2
            flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
            path.write_bytes({"cut": whole[:middle], "flip": flipped, "empty": b""}[harm])
        again = tarpon.tarp(self.sims(), rng=0, engine=engine)
        np.testing.assert_array_equal(again.ranks.values, expected.ranks.values)
        assert path.stat().st_size == len(whole)

    def test_shards_and_their_merger(self, tmp_path, in_memory):
        for i in range(2):
            with pytest.raises(Unfinished, match=f"shard {i}/2 is done"):
                tarpon.check(
                    self.sims(), n_swaps=49, rng=1, engine=Engine(resume=tmp_path, shard=(i, 2))
                )
        merged = Engine(resume=tmp_path, on_missing="raise")
        check = tarpon.check(self.sims(), n_swaps=49, engine=merged)
        assert check.to_dict() == in_memory["f8"]["check"]

    def test_shards_in_folders_of_their_own(self, tmp_path, in_memory):
        folders = [tmp_path / str(i) for i in range(2)]
        for i, folder in enumerate(folders):
            with pytest.raises(Unfinished):
                tarpon.tarp(self.sims(), rng=1, engine=Engine(resume=folder, shard=(i, 2)))
        result = tarpon.tarp(self.sims(), engine=Engine(resume=folders, on_missing="raise"))
        assert result.ranks.values.tolist() == in_memory["f8"]["tarp"][0]

    def test_folders_of_different_seeds_are_refused(self, tmp_path):
        folders = [tmp_path / str(seed) for seed in (1, 2)]
        for seed, folder in enumerate(folders):
            tarpon.sbc(self.sims(), rng=seed, engine=Engine(resume=folder))
        with pytest.raises(
            ValueError, match=r"the folders have different seeds, \[0, 1\]: give all"
        ):
            tarpon.sbc(self.sims(), engine=Engine(resume=folders))

    def test_missing_shards_are_missed(self, tmp_path):
        with pytest.raises(Unfinished):
            tarpon.sbc(self.sims(), rng=1, engine=Engine(resume=tmp_path, shard=(0, 2)))
        with pytest.raises(ValueError, match="3 of 6 blocks of 'counts' are missing"):
            tarpon.sbc(self.sims(), engine=Engine(resume=tmp_path, on_missing="raise"))
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            tarpon.sbc(self.sims(), engine=Engine(resume=tmp_path / "b", on_missing="raise"))

    def test_progress_of_blocks_is_reported(self):
        told = []
        engine = Engine(progress=lambda *words: told.append(words))
        tarpon.sbc(self.sims(), rng=0, engine=engine)
        assert told == [("counts", k, 6) for k in range(1, 7)]

    @pytest.mark.parametrize(
        "wrong",
        [{"shard": (0, 2)}, {"shard": (2, 2), "resume": "a"}, {"on_missing": "guess"}],
    )
    def test_misuse_of_folders_is_refused(self, wrong):
        with pytest.raises(ValueError, match=r"must be|need a folder"):
            Engine(**wrong)


SLOWLY = """
import sys, time
from pathlib import Path
from tarpon.adapters import files
from tarpon.simulations import passes
from tarpon.checks import swaps
from tarpon.cli import main

swaps._DATA_PER_SUM = 0
load, pieces = files.load, passes.pieces

def slowly(*args, **more):
    sims = load(*args, **more)
    sims._set(_part_bytes=part_bytes)
    return sims

def tired(sims, **more):
    for piece in pieces(sims, **more):
        time.sleep(pause)
        yield piece

pause, part_bytes = float(sys.argv.pop(1)), int(sys.argv.pop(1))
files.load, passes.pieces = slowly, tired
main()
"""


def command(*words, pause=0.0):
    part = [sys.executable, "-c", SLOWLY, str(pause), str(PART_BYTES)]
    return [*part, *map(str, words)]


@pytest.fixture
def run(monkeypatch):
    """Run commands in this process, which is faster, on data of many parts."""

    def small(*args, **more):
        sims = load(*args, **more)
        sims._set(_part_bytes=PART_BYTES)
        return sims

    load = files.load
    monkeypatch.setattr(files, "load", small)
    monkeypatch.setattr(swaps, "_DATA_PER_SUM", 0)
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def store(tmp_path):
    as_zarr(tmp_path, arrays())
    return tmp_path / "a.zarr"


@pytest.mark.slow
def test_a_program_killed_in_the_middle_goes_on_where_it_was(run, store, tmp_path):
    blocks = tmp_path / "blocks"
    words = ("check", store, "--rng", 1, "--n-swaps", 49, "--json")
    serial = json.loads(run(*words).stdout)
    words = (*words, "--resume", blocks)
    process = subprocess.Popen(command(*words, pause=0.2))
    while len(list(blocks.glob("swaps-*.npz"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in blocks.glob("*.npz")}
    n_blocks = len(list(blocks.glob("centres-*.npz")))
    assert 2 <= len(list(blocks.glob("swaps-*.npz"))) < n_blocks
    resumed = run(*words)
    assert json.loads(resumed.stdout) == serial
    assert resumed.exit_code == 1
    # Nothing that was finished before is computed again: only the block in work was lost.
    assert before.items() <= {p: p.stat().st_mtime_ns for p in blocks.glob("*.npz")}.items()
    assert len(list(blocks.glob("swaps-*.npz"))) == n_blocks


def test_shards_on_the_command_line(run, store, tmp_path):
    blocks = tmp_path / "blocks"
    words = ("check", store, "--rng", 1, "--n-swaps", 49)
    for i in range(2):
        shard = run(*words, "--resume", blocks, "--shard", f"{i}/2")
        assert shard.exit_code == 0
        assert f"shard {i}/2 is done" in shard.stdout
        if i == 0:
            early = run("merge", blocks)
            assert early.exit_code == 2
            assert "blocks of 'swaps' are missing" in " ".join(early.stderr.split())
    serial, merged = run(*words), run("merge", blocks)
    assert (merged.stdout, merged.exit_code) == (serial.stdout, 1)
    assert json.loads(run("merge", blocks, "--json").stdout)["outcome"] == "inaccurate"


def test_more_shards_than_blocks(run, tmp_path):
    sims, blocks = tarpon.problems.gaussian("correct", n_sims=20, rng=0), tmp_path / "my blocks"
    np.savez(tmp_path / "draws.npz", samples=sims.samples, theta=sims.theta)
    words = ("sbc", tmp_path / "draws.npz", "--rng", 1)
    said = [run(*words, "--resume", blocks, "--shard", f"{i}/3") for i in range(3)]
    assert [shard.exit_code for shard in said] == [0, 0, 0]
    idle = "shard 0/3 has nothing to do, there are more shards than blocks: 0 of 1 blocks are in"
    assert said[0].stdout.startswith(idle)
    assert said[2].stdout.startswith("shard 2/3 is done: all blocks are in")
    assert f"`tarpon merge '{blocks}'` gives the answer." in said[2].stdout
    assert run("merge", blocks).stdout == run(*words).stdout


def on_terminal(*words, pause):
    """Return what a command writes to a terminal, and what to a pipe."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(*words, pause=pause), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    return shown, process.communicate()[0]


@pytest.mark.slow
def test_a_bar_is_shown_on_a_terminal_for_what_takes_long(run, store):
    shown, said = on_terminal("sbc", store, "--rng", 0, pause=0.5)
    assert b"counts" in shown
    assert b"%" in shown
    assert said.startswith(b"SBC on 90 simulations")
    assert run("sbc", store, "--rng", 0).stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shard", "0/2"], "need a folder that holds their results: add --resume FOLDER."),
        (["--shard", "2/2"], "is not i/n"),
        (["--shard", "one"], "is not i/n"),
    ],
)
def test_shards_that_cannot_be(run, store, words, said):
    answer = run("sbc", store, *words)
    assert answer.exit_code == 2
    assert said in " ".join(answer.stderr.split())


def test_folders_that_cannot_be_merged(run, tmp_path):
    assert "is not a folder of results" in " ".join(run("merge", tmp_path).stderr.split())
    sims = simulations(**arrays())
    tarpon.sbc(sims, rng=0, engine=Engine(resume=tmp_path))
    assert "was written from Python" in " ".join(run("merge", tmp_path).stderr.split())


# Memory of its own: pages of files are there as long as nobody else needs them.
LARGE = """
import re, sys, threading, time
import numpy as np, tarpon
from tarpon.adapters import files
from tarpon.backends import _kernels, _swaps
_swaps._FEW_ADDED = _swaps._FEW_RANKED = -1  # load all kernels first
tarpon.check(tarpon.problems.gaussian("correct", n_sims=20, rng=0), n_swaps=19, rng=0)

def megabytes():
    with open("/proc/self/status") as file:
        return int(re.search(r"RssAnon:\\s+(\\d+)", file.read())[1]) / 1000

def watch():
    while True:
        seen.append(megabytes())
        time.sleep(0.005)

before, seen = megabytes(), []
threading.Thread(target=watch, daemon=True).start()
sims = files.load(sys.argv[1])
test = getattr(tarpon, sys.argv[2])
more = {"n_swaps": 49} if sys.argv[2] == "check" else {}
print(test(sims, rng=0, **more).p_value)
print(max(seen) - before)
held = np.asarray(sims.samples) + 1.0
print(megabytes() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """393 MB of draws, once in every format; in HDF5 half of it, in single precision."""
    path = tmp_path_factory.mktemp("large")
    shape, chunks = (1000, 1536, 32), (1000, 64, 32)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(shape[1:], dtype="f8")
    group = zarr.create_group(path / "large.zarr")
    group.create_array("theta", data=theta)
    samples = group.create_array(
        "samples", shape=shape, chunks=chunks, dtype="f8", compressors=None
    )
    (path / "folder").mkdir()
    np.save(path / "folder" / "theta.npy", theta)
    mapped = np.lib.format.open_memmap(
        path / "folder" / "samples.npy", mode="w+", dtype="f8", shape=shape
    )
    with h5py.File(path / "large.h5", "w") as file:
        file["theta"] = theta
        again = file.create_dataset("samples", shape=shape, chunks=chunks, dtype="f4")
        block = rng.standard_normal(chunks, dtype="f8")
        for start in range(0, shape[1], chunks[1]):
            part = slice(start, start + chunks[1])
            samples[:, part] = again[:, part] = mapped[:, part] = block
    return path


@pytest.mark.parametrize(
    ("name", "test", "most"),
    [
        ("large.zarr", "tarp", 100),
        ("large.h5", "tarp", 100),
        ("folder", "tarp", 100),
        ("large.zarr", "check", 350),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells memory of one's own")
@pytest.mark.slow
def test_memory_is_bounded_by_blocks_and_not_by_the_data(large, name, test, most):
    """The twin, which holds all draws, is seen to need more."""
    said = subprocess.run(
        [sys.executable, "-c", LARGE, large / name, test],
        env=os.environ | {"TARPON_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    p_value, needed, held = map(float, said)
    assert 0 <= p_value <= 1
    assert needed < most < held  # MB


def test_nothing_warns(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tarpon.sbc(simulations(**as_zarr(tmp_path, arrays())), rng=0)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells what is in memory")
@pytest.mark.parametrize("in_memory", [True, False])
def test_files_are_read_ahead_unless_they_are_in_memory(tmp_path, monkeypatch, in_memory):
    def preadv(file, buffers, place, flags):
        assert flags == os.RWF_NOWAIT
        if not in_memory:
            raise BlockingIOError
        return 1

    (tmp_path / "chunk").write_bytes(bytes(2**22 + 5))
    asked = []
    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: asked.append(given[1]))
    with (tmp_path / "chunk").open("rb") as file:
        sources._read_ahead(file.fileno())
    assert asked == ([] if in_memory else [0, 2**21, 2**22])

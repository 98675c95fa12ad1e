"""Engines: whoever computes the blocks, the answer is the same."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client

import tarpon
from tarpon import Engine, Simulations
from tarpon.cli import main

N_SIMS, N_DRAWS, N_DIMS = 100, 250, 3
PROBLEM = Path(__file__).parents[1] / "examples" / "conjugate.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The same numbers in memory and in two formats on disk."""
    path = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N_SIMS, N_DIMS))
    x = theta + rng.normal(size=theta.shape)
    samples = x / 2 + 0.6 * rng.normal(size=(N_DRAWS, *theta.shape))
    group = zarr.create_group(path / "a.zarr")
    with h5py.File(path / "a.h5", "w") as file:
        for name, numbers in {"samples": samples, "theta": theta, "x": x}.items():
            group.create_array(name, data=numbers)
            file[name] = numbers
    np.savez(path / "a.npz", samples=samples, theta=theta, x=x)
    return path


@pytest.fixture(params=["a.npz", "a.zarr", "a.h5"])
def sims(request, store):
    return opened(store / request.param)


def opened(path):
    sims = tarpon.adapters.files.load(path)
    sims._set(_part_bytes=2**17)
    return sims


def answers(sims, engine):
    said = [tarpon.check(sims, n_swaps=49, rng=1, engine=engine).to_dict()]
    for test in (tarpon.tarp, tarpon.sbc):
        said.append(test(sims, rng=1, engine=engine).ranks.values.tolist())
    return said


@pytest.fixture(scope="module")
def serial(store):
    return answers(opened(store / "a.npz"), Engine())


@pytest.mark.parametrize("n_workers", [1, 3])
def test_threads(sims, serial, n_workers):
    with ThreadPoolExecutor(n_workers) as pool:
        assert answers(sims, Engine(executor=pool)) == serial


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
def test_processes(sims, serial, processes):
    assert answers(sims, Engine(executor=processes)) == serial


def test_what_fails_on_a_worker_fails_here(sims):
    def faulty(theta, x):
        raise RuntimeError("no such score")

    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="no such score"):
        tarpon.check(sims, scores={"faulty": faulty}, engine=Engine(executor=pool), n_swaps=19)


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.mark.slow
def test_dask(sims, serial, client):
    assert answers(sims, Engine(executor=client)) == serial


@pytest.mark.slow
def test_large_blocks_go_to_dask_in_silence(client):
    """What only this program can read is sent along: 20 MB here, and warnings are errors."""
    rng = np.random.default_rng(0)
    sims = Simulations(rng.normal(size=(1000, 64, 40)), rng.normal(size=(64, 40)))
    expected = tarpon.sbc(sims, rng=0).ranks.values
    found = tarpon.sbc(sims, rng=0, engine=Engine(executor=client)).ranks.values
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_dask_arrays_on_dask(store, serial, client):
    import dask.array

    given = np.load(store / "a.npz")
    samples = dask.array.from_array(given["samples"], chunks=(20, 30, 3))
    sims = Simulations(samples, given["theta"], x=given["x"])
    sims._set(_part_bytes=2**17)
    assert answers(sims, Engine(executor=client)) == serial


@pytest.mark.slow
def test_samplers_on_dask(client):
    def sampler(x, n_draws, rng):
        return x / 2 + rng.normal(size=(n_draws, 2)) / np.sqrt(2)

    theta = np.random.default_rng(0).normal(size=(6, 2))
    there = tarpon.from_sampler(sampler, theta, theta, 20, rng=0, executor=client)
    here = tarpon.from_sampler(sampler, theta, theta, 20, rng=0)
    np.testing.assert_array_equal(there.samples, here.samples)


@pytest.mark.slow
def test_runs_on_dask(client, tmp_path):
    """Whoever simulates: the same simulations are stored, and the answer is the same."""

    def found(store, executor):
        study = tarpon.run(
            str(PROBLEM), store=tmp_path / store, n_sims=24, n_draws=50, rng=7,
            executor=executor,
        )  # fmt: skip
        stored = {}
        for path in sorted((tmp_path / store).glob("simulations-*.npz")):
            with np.load(path) as file:
                for k, index in enumerate(file["index"].tolist()):
                    assert index not in stored
                    stored[index] = [
                        values.tolist()
                        for values in (file["theta"][k], file["x"][k], file["samples"][:, k])
                    ]
        return study.check.to_dict(), stored

    with ThreadPoolExecutor(2) as pool:
        here = found("here", pool)
    assert found("there", client) == here
    assert here[1].keys() == set(range(24))


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(store, serial, client):
    """SIGKILL hits a worker when some blocks are done and others are being computed."""
    killed = []

    def kill(name, n_done, n_blocks):
        if name == "swaps" and n_done >= 1 and not killed:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            killed.append((n_done, n_blocks))

    sims = opened(store / "a.zarr")
    engine = Engine(executor=client, progress=kill)
    check = tarpon.check(sims, n_swaps=49, rng=1, engine=engine).to_dict()
    assert check == serial[0]
    n_done, n_blocks = killed[0]
    assert 1 <= n_done < n_blocks
    client.wait_for_workers(2, timeout=600)


@pytest.mark.slow
def test_the_command_line_takes_a_scheduler(store, client):
    words = ["check", str(store / "a.zarr"), "--rng", "1", "--n-swaps", "49"]
    here = CliRunner().invoke(main, words)
    there = subprocess.run(
        [sys.executable, "-m", "tarpon", *words, "--scheduler", client.scheduler.address],
        capture_output=True,
        text=True,
        check=False,
    )
    assert there.stderr == ""
    assert (there.stdout, there.returncode) == (here.stdout, here.exit_code)
    assert here.exit_code == 1


def test_no_more_blocks_are_under_way_than_workers_need():
    """What is read ahead is bounded: a part waits until a worker is almost free."""
    under_way, most, lock = [0], [0], threading.Lock()

    class Slow:
        shape, dtype = (N_DRAWS, N_SIMS, N_DIMS), np.dtype(float)

        def __getitem__(self, key):
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            n_sims = key[1].stop - key[1].start
            return np.random.default_rng(key[1].start).normal(size=(N_DRAWS, n_sims, N_DIMS))

    def done(name, n_done, n_blocks):
        with lock:
            under_way[0] = under_way[0] - (n_done - finished[0])
            finished[0] = n_done
        time.sleep(0.01)

    finished = [0]
    sims = Simulations(Slow(), np.zeros((N_SIMS, N_DIMS)))
    sims._set(_part_bytes=2**14)
    with ThreadPoolExecutor(2) as pool:
        tarpon.sbc(sims, rng=0, engine=Engine(executor=pool, progress=done))
    assert most[0] <= 2 * 2 + 1

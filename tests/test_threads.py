"""Ranges of items that are handed out to threads."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tarpon._base import threads


def counted(n_items, n_threads):
    """Return how often each item was handed out, by a result per thread."""
    results = np.zeros((n_threads, n_items), dtype=int)

    def run(first, last, result):
        result[first:last] += 1

    threads.share(run, n_items, n_threads, results)
    return results.sum(axis=0)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 40])
@pytest.mark.parametrize("n_items", [0, 1, 2, 31, 32, 33, 1000])
def test_every_item_is_handed_out_once(n_items, n_threads):
    assert (counted(n_items, n_threads) == 1).all()


def test_threads_are_used_again():
    def waiting():
        return sum(thread.name.startswith("tarpon") for thread in threading.enumerate())

    before = waiting()
    for _ in range(50):
        counted(1000, 3)
    assert waiting() <= max(before, 2)


def test_two_threads_work_at_the_same_time():
    begun = threading.Event()

    def run(first, last, result):
        if first:
            begun.set()
        else:
            assert begun.wait(60)

    threads.share(run, 64, 2, [None])


@pytest.mark.parametrize("here", [True, False])
def test_an_error_of_any_thread_ends_the_others_and_is_raised(here):
    begun, failed, done = threading.Event(), threading.Event(), []
    main = threading.get_ident()

    def run(first, last, result):
        if (threading.get_ident() == main) == here:
            assert begun.wait(60)
            failed.set()
            raise RuntimeError("one of them")
        begun.set()
        assert failed.wait(60)
        time.sleep(0.01)
        done.append(first)

    with pytest.raises(RuntimeError, match="one of them"):
        threads.share(run, 64, 2, [None])
    assert len(done) < 31


def test_shared_work_may_share_its_own():
    results = np.zeros(64, dtype=int)

    def run(first, last, _):
        for i in range(first, last):
            results[i] += int(counted(50, 8).sum())

    threads.share(run, 64, 8, [None])
    assert (results == 50).all()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no process is forked there")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    counted(1000, 3)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert (pool.apply_async(counted, (1000, 3)).get(60) == 1).all()


def test_linear_algebra_that_is_loaded_later_is_limited_too():
    code = """
from tarpon._base import threads
with threads.one_thread_each():
    pass
import scipy.linalg
from threadpoolctl import threadpool_info
with threads.one_thread_each():
    assert all(one["num_threads"] == 1 for one in threadpool_info() if one["user_api"] == "blas")
"""
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)

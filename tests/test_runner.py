"""Runs: whatever dies on the way, what was finished stays, and the answer is the same."""

import ctypes
import io
import json
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tarpon
from tarpon._base import interrupts
from tarpon.cli import main
from tarpon.runner.problem import PARTS, _loaded, simulated, source

ROOT = Path(__file__).parents[1]
N_SIMS, N_DRAWS, SEED = 24, 50, 7
THREADS = ThreadPoolExecutor(2)
MARK = "once"  # a file that tells the first call from later ones
TEXT = """
import os, signal, time
from pathlib import Path

import numpy as np

names = ["mu", "nu"]

def prior(rng):
    return rng.normal(size=2)

def simulate(theta, rng):
    return theta + rng.normal(size=2)

def once():
    try:
        os.close(os.open(Path(__file__).with_name("once"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def posterior(x, n_draws, rng):
    with open(Path(__file__).with_name("pids"), "a") as file:
        file.write(f"{os.getpid()}\\n")
    TROUBLE
    return x / 2 + np.sqrt(0.5) * rng.normal(size=(n_draws, 2))
"""

# Half of the simulations end, and the others only when they are told to.
HALF = """
    lines = Path(__file__).with_name("pids").read_text().count("\\n")
    while lines > 12 and not Path(__file__).with_name("go").exists():
        time.sleep(0.01)
"""
COUNTING = f"""
import sys
import tarpon

if __name__ == "__main__":
    tarpon.run(
        sys.argv[1], store=sys.argv[2], n_sims=100_000, n_draws={N_DRAWS}, rng={SEED},
        tolerance=0.001, level=1e-9, n_workers=2,
        progress=lambda stage, n_done, n_total: print(n_done, flush=True),
    )
"""


@pytest.fixture
def problem(tmp_path):
    def write(trouble="pass", name="problem.py", text=TEXT):
        (tmp_path / name).write_text(text.replace("TROUBLE", trouble))
        return str(tmp_path / name)

    return write


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What an uninterrupted run finds."""
    path = tmp_path_factory.mktemp("expected") / "problem.py"
    path.write_text(TEXT.replace("TROUBLE", "pass"))
    found = source(path)()
    return {index: simulated(found, index, SEED, N_DRAWS) for index in range(N_SIMS)}


@pytest.fixture(scope="module")
def answer(expected):
    def stacked(name, axis):
        return np.stack([results[name] for results in expected.values()], axis=axis)

    sims = tarpon.Simulations(
        stacked("samples", 1), stacked("theta", 0), x=stacked("x", 0), names=["mu", "nu"]
    )
    return tarpon.check(sims, level=0.025, rng=SEED).to_dict()


def settings(**more):
    """Return options of a run in threads, which start at once."""
    given = {"n_sims": N_SIMS, "n_draws": N_DRAWS, "rng": SEED, "executor": THREADS}
    return given | more


def processes(n_workers=2, **more):
    return settings(executor=None, n_workers=n_workers, **more)


def contents(folder):
    """Return what is in a store, by index."""
    found = {}
    for path in Path(folder).glob("simulations-*.npz"):
        with np.load(path) as file:
            arrays = dict(file)
        arrays.pop("about")
        indices = arrays.pop("index").tolist()
        assert path.name == f"simulations-{indices[0]:06d}.npz"
        for k, index in enumerate(indices):
            assert index not in found
            found[index] = {
                name: many[:, k] if "samples" in name else many[k] for name, many in arrays.items()
            }
    return found


def times(store):
    """Return when each file of simulations was written."""
    return {path: path.stat().st_mtime_ns for path in Path(store).glob("sim*")}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for index, results in expected.items():
        assert found[index].keys() == results.keys()
        for name, array in results.items():
            np.testing.assert_array_equal(found[index][name], array)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # What nobody has waited for yet is dead, too.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def wait_until(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.02)


def command(*words):
    return [sys.executable, "-m", "tarpon", "run", *map(str, words)]


def words_of(store):
    return ["--store", store, "--n-sims", N_SIMS, "--n-draws", N_DRAWS, "--rng", SEED,
            "--n-workers", 2]  # fmt: skip


class TestTheSameWhoeverComputes:
    @pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 3])
    def test_processes_give_the_same_simulations(
        self, problem, tmp_path, expected, answer, n_workers
    ):
        study = tarpon.run(problem(), store=tmp_path / "a", **processes(n_workers))
        assert_same(contents(tmp_path / "a"), expected)
        assert study.check.to_dict() == answer
        assert (study.failures, study.notes, study.seed) == ((), (), SEED)

    def test_threads_give_the_same_simulations(self, problem, tmp_path, expected):
        tarpon.run(problem(), store=tmp_path / "a", **settings())
        assert_same(contents(tmp_path / "a"), expected)

    @pytest.mark.slow
    def test_any_executor_gives_the_same_simulations(self, problem, tmp_path, expected):
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            tarpon.run(problem(), store=tmp_path / "a", **settings(executor=pool))
        assert_same(contents(tmp_path / "a"), expected)

    def test_more_simulations_go_on_where_fewer_ended(self, problem, tmp_path, expected):
        tarpon.run(problem(), store=tmp_path / "a", **settings(n_sims=5))
        before = times(tmp_path / "a")
        tarpon.run(problem(), store=tmp_path / "a", **settings(rng=None))
        assert_same(contents(tmp_path / "a"), expected)
        assert before.items() <= times(tmp_path / "a").items()

    def test_densities_are_kept_too(self, problem, tmp_path):
        text = f"{TEXT}\ndef log_prob(theta, x):\n    return -((theta - x / 2) ** 2).sum(1)\n"
        path = problem(text=text)
        study = tarpon.run(path, store=tmp_path / "a", **settings())
        again = tarpon.run(path, store=tmp_path / "a", **settings())
        assert again.to_dict() == study.to_dict()
        assert "density" in study.monitor.scores
        wanted = {k: simulated(source(path)(), k, SEED, N_DRAWS) for k in range(N_SIMS)}
        assert_same(contents(tmp_path / "a"), wanted)

    def test_fewer_simulations_leave_the_others_alone(self, problem, tmp_path, expected):
        tarpon.run(problem(), store=tmp_path / "a", **settings())
        before = times(tmp_path / "a")
        study = tarpon.run(problem(), store=tmp_path / "a", **settings(n_sims=5))
        assert study.check.n_sims == 5
        assert_same(contents(tmp_path / "a"), expected)
        assert times(tmp_path / "a") == before


class TestDeath:
    @pytest.mark.slow
    def test_death_of_a_worker(self, problem, tmp_path, expected, answer):
        path = problem("os.kill(os.getpid(), signal.SIGKILL) if once() else None")
        study = tarpon.run(path, store=tmp_path / "a", **processes())
        assert (tmp_path / MARK).exists()
        assert_same(contents(tmp_path / "a"), expected)
        assert study.check.to_dict() == answer
        assert not study.failures

    @pytest.mark.slow
    def test_death_of_a_worker_without_retries(self, problem, tmp_path, expected):
        """It dies when it has its next simulation already, which does not count as failed."""
        late = expected[15]["x"][0]
        path = problem(f"os.kill(os.getpid(), signal.SIGKILL) if x[0] == {late} and once() else 0")
        study = tarpon.run(path, store=tmp_path / "a", **processes(retries=0))
        (failure,) = study.failures
        assert failure.index == 15
        assert failure.message.startswith("its process died: killed by SIGKILL")
        left = {index: one for index, one in expected.items() if index != failure.index}
        assert_same(contents(tmp_path / "a"), left)
        assert f"simulation {failure.index}: its process died" in str(study)
        again = tarpon.run(path, store=tmp_path / "a", **settings(retries=0))
        assert not again.failures
        assert_same(contents(tmp_path / "a"), expected)
        assert not list((tmp_path / "a").glob("failed*"))

    @pytest.mark.slow
    def test_death_of_the_parent(self, problem, tmp_path, expected, answer):
        path, store = problem(HALF), tmp_path / "a"
        parent = subprocess.Popen(command(path, *words_of(store)))
        wait_until(lambda: len(contents(store)) >= 4)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        (tmp_path / "go").touch()
        pids = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
        wait_until(lambda: not any(alive(pid) for pid in pids))
        finished = contents(store)
        assert 4 <= len(finished) < N_SIMS
        before = times(store)
        (store / "killed.part").touch()
        study = tarpon.run(path, store=store, **settings())
        assert_same(contents(store), expected)
        assert study.check.to_dict() == answer
        assert before.items() <= times(store).items()
        assert not list(store.glob("*.part"))

    @pytest.mark.slow
    def test_death_never_loses_what_was_reported_as_done(self, problem, tmp_path):
        """Simulations are brief, and many go to the disk together."""
        path, store = problem(), tmp_path / "a"
        (tmp_path / "script.py").write_text(COUNTING)
        for n_done in (1, 100, 300):
            parent = subprocess.Popen(
                [sys.executable, tmp_path / "script.py", path, store],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert any(int(line) >= n_done for line in parent.stdout)
            parent.send_signal(signal.SIGKILL)
            rest, _ = parent.communicate()
            finished = contents(store)
            assert len(finished) >= max(map(int, rest.split()), default=n_done)
            assert_same(finished, {
                index: simulated(source(path)(), index, SEED, N_DRAWS) for index in finished
            })  # fmt: skip

    @pytest.mark.slow
    def test_death_by_ctrl_c(self, problem, tmp_path, expected):
        path, store = problem(HALF), tmp_path / "a"
        # As a shell starts a job: in a group of its own, which gets the signal.
        parent = subprocess.Popen(
            command(path, *words_of(store)), stderr=subprocess.PIPE, text=True, process_group=0
        )
        wait_until(lambda: len(contents(store)) >= 4)
        os.killpg(parent.pid, signal.SIGINT)
        _, error = parent.communicate(timeout=600)
        (tmp_path / "go").touch()
        assert parent.returncode == 130
        said = re.search(
            r"stopped: (\d+) simulations are in '.*'. The same command resumes", error
        )
        assert 4 <= int(said[1]) == len(contents(store)) < N_SIMS
        assert "Traceback" not in error
        assert not list(store.glob("*.part"))
        pids = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
        wait_until(lambda: not any(alive(pid) for pid in pids))
        tarpon.run(path, store=store, **settings())
        assert_same(contents(store), expected)

    @pytest.mark.slow
    def test_death_of_everything_that_a_worker_has_started(self, problem, tmp_path):
        start = (
            "child = __import__('subprocess').Popen(['sleep', '1000'])\n"
            "    print(child.pid, file=open(Path(__file__).with_name('children'), 'a'))\n"
            "    os.kill(os.getpid(), signal.SIGKILL) if once() else time.sleep(1000)"
        )
        with pytest.raises(RuntimeError, match="no simulation succeeded, and a test needs two"):
            tarpon.run(
                problem(start),
                store=tmp_path / "a",
                **processes(1, n_sims=2, time_limit=1, retries=0),
            )
        children = [int(pid) for pid in (tmp_path / "children").read_text().split()]
        assert len(children) == 2
        wait_until(lambda: not any(alive(child) for child in children))


LACKING = """
import os
for name in ("killpg", "setpgid", "getpgid", "link", "O_DIRECTORY", "sched_getaffinity"):
    delattr(os, name)
"""


class TestInterrupts:
    def test_ctrl_c_in_a_callback_from_c_is_not_lost(self):
        """Python discards exceptions of such callbacks; Numba's compiler calls them."""
        raised = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
        with interrupts.remembered() as stop_if_asked:
            stop_if_asked()
            raised()
            with pytest.raises(KeyboardInterrupt):
                stop_if_asked()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_a_second_ctrl_c_interrupts_at_once(self):
        reached = []

        def press_twice():
            with interrupts.remembered():
                signal.raise_signal(signal.SIGINT)
                reached.append("first")
                signal.raise_signal(signal.SIGINT)
                reached.append("second")

        with pytest.raises(KeyboardInterrupt):
            press_twice()
        assert reached == ["first"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_ctrl_c_does_not_reach_a_process_that_is_starting(self, tmp_path):
        """Nor is it lost: it is raised once the process is started."""
        script = (
            "import signal, sys, time; from pathlib import Path; Path(sys.argv[1]).touch()\n"
            "from tarpon._base import interrupts; time.sleep(0.5)\n"
            "interrupts.forget(); print('alive', signal.getsignal(signal.SIGINT))"
        )
        began, children = tmp_path / "began", []

        def press_while_starting():
            with interrupts.held_back():
                child = [sys.executable, "-c", script, began]
                children.append(subprocess.Popen(child, stdout=subprocess.PIPE))
                wait_until(began.exists)
                children[0].send_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                children.append("held")

        with pytest.raises(KeyboardInterrupt):
            press_while_starting()
        child, held = children
        assert held == "held"
        assert child.communicate()[0].split()[0] == b"alive"

    def test_other_threads_and_handlers_are_left_alone(self):
        def handlers():
            with interrupts.remembered():
                return signal.getsignal(signal.SIGINT)

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(handlers).result() is signal.default_int_handler
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert handlers() is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, before)


class TestOtherSystems:
    """Processes without groups, files without links, folders that cannot be opened: Windows."""

    @pytest.fixture
    def env(self, tmp_path):
        """Every process that Python starts lacks what only POSIX has."""
        (tmp_path / "lacking").mkdir()
        (tmp_path / "lacking" / "sitecustomize.py").write_text(LACKING)
        path = os.pathsep.join([str(tmp_path / "lacking"), os.environ.get("PYTHONPATH", "")])
        return os.environ | {"PYTHONPATH": path}

    @pytest.mark.slow
    def test_simulations_that_hang_or_kill_their_worker(self, problem, tmp_path, env, expected):
        last, first = expected[20]["x"][0], expected[3]["x"][0]
        path = problem(
            f"assert not hasattr(os, 'killpg')\n"
            f"    while x[0] == {last}: time.sleep(1)\n"
            f"    if x[0] == {first} and once(): os.kill(os.getpid(), signal.SIGKILL)"
        )
        limit = ["--time-limit", 4, "--retries", 1, "--json"]
        said = subprocess.run(
            command(path, *words_of(tmp_path / "a"), *limit),
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        (failure,) = json.loads(said.stdout)["failures"]
        assert failure["index"] == 20
        assert failure["message"] == "took longer than 4 s and was stopped"
        left = {index: one for index, one in expected.items() if index != 20}
        assert_same(contents(tmp_path / "a"), left)

    @pytest.mark.slow
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
    def test_workers_end_with_their_parent(self, problem, tmp_path, env, expected, number):
        path, store = problem(HALF), tmp_path / "a"
        parent = subprocess.Popen(
            command(path, *words_of(store)), env=env, stderr=subprocess.PIPE, process_group=0
        )
        wait_until(lambda: len(contents(store)) >= 4)
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)  # as a terminal does, to all of them
        else:
            parent.send_signal(number)
        _, error = parent.communicate(timeout=600)
        assert b"Traceback" not in error
        assert parent.returncode == (130 if number == signal.SIGINT else -number)
        (tmp_path / "go").touch()
        pids = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
        wait_until(lambda: not any(alive(pid) for pid in pids))
        tarpon.run(path, store=store, **settings())
        assert_same(contents(store), expected)


def private_mounts():
    """Return whether this process may have a file system of its own to fill up."""
    if shutil.which("unshare") is None:
        return False
    mount = "mount -t tmpfs -o size=64k tmpfs /mnt"
    return not subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount], check=False, capture_output=True
    ).returncode


class TestFullDisk:
    @pytest.mark.slow
    @pytest.mark.skipif(not private_mounts(), reason="needs a private tmpfs")
    def test_full_disk_of_a_small_tmpfs(self, problem, tmp_path, expected):
        """Three simulations fit on a disk of 24 kB, all do not; then there is more room."""
        (tmp_path / "disk").mkdir()
        run = " ".join(command(problem(), *words_of("disk/a"), "--n-workers", 1))
        script = (
            f"mount -t tmpfs -o size=24k tmpfs disk && {run} --n-sims 3 && {run}; "
            f"echo status $?; ls -a disk/a; "
            f"mount -o remount,size=20m disk && {run} && cp -r disk/a kept"
        )
        said = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        assert "status 2" in said.stdout
        assert ".part" not in said.stdout
        message = re.fullmatch(
            r"Error: 'disk/a/simulations-\d+.npz' cannot be written: No space left on device. The "
            r"(\d+) simulations in 'disk/a' are safe. When the disk has room again, the same call "
            r"resumes from there.",
            " ".join(said.stderr.split()),
        )
        assert 3 <= int(message[1]) < N_SIMS
        assert "Traceback" not in said.stderr
        assert_same(contents(tmp_path / "kept"), expected)

    @pytest.mark.slow
    def test_full_disk_of_files_that_may_not_grow(self, problem, tmp_path, expected):
        """The same without a file system: the kernel refuses files beyond a size."""
        path, store = problem(), tmp_path / "a"
        tarpon.run(path, store=store, **settings(n_sims=3))
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
        said = subprocess.run(
            command(path, *words_of(store)),
            preexec_fn=limit, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert said.returncode == 2
        assert "cannot be written: File too large. The 3 simulations in" in said.stderr
        assert len(contents(store)) == 3
        assert not list(store.glob("*.part"))
        tarpon.run(path, store=store, **settings())
        assert_same(contents(store), expected)


class TestTrouble:
    @pytest.mark.slow
    def test_a_simulation_that_hangs_once(self, problem, tmp_path, expected):
        path = problem("time.sleep(1000) if once() else None")
        study = tarpon.run(path, store=tmp_path / "a", **processes(time_limit=4))
        assert not study.failures
        assert_same(contents(tmp_path / "a"), expected)

    @pytest.mark.slow
    def test_a_simulation_that_always_hangs(self, problem, tmp_path, expected):
        """First it is busy, and then it waits: both are stopped."""
        last = max(one["x"][0] for one in expected.values())
        hangs = [index for index, one in expected.items() if one["x"][0] == last]
        path = problem(
            f"busy = x[0] == {last} and once()\n    while x[0] == {last}: busy or time.sleep(1)"
        )
        study = tarpon.run(path, store=tmp_path / "a", **processes(time_limit=4))
        (failure,) = study.failures
        assert failure.index == hangs[0]
        assert failure.attempts == 2
        assert failure.message == "took longer than 4 s and was stopped"
        left = {index: one for index, one in expected.items() if index != hangs[0]}
        assert_same(contents(tmp_path / "a"), left)

    def test_a_simulation_that_raises(self, problem, tmp_path, expected):
        path = problem("if x[0] > 1: raise ArithmeticError('no such root')")
        raises = [index for index, one in expected.items() if one["x"][0] > 1]
        study = tarpon.run(path, store=tmp_path / "a", **settings(retries=0))
        assert [failure.index for failure in study.failures] == raises
        assert study.check.n_sims == N_SIMS - len(raises)
        (line,) = {failure.message for failure in study.failures}
        assert re.fullmatch(r"ArithmeticError: no such root \(problem.py, line \d+\)", line)
        assert f"{len(raises)} simulations failed and are not tested" in str(study)
        note = json.loads((tmp_path / "a" / f"failed-{raises[0]:06d}.json").read_text())
        assert note["message"] == line
        assert "Traceback" in note["details"]
        assert len(study.to_dict()["failures"]) == len(raises)

    @pytest.mark.slow
    def test_a_worker_that_leaves(self, problem, tmp_path):
        path = problem("os._exit(3) if once() else None")
        study = tarpon.run(path, store=tmp_path / "a", **processes(retries=0))
        assert [failure.message for failure in study.failures] == [
            "its process died: exit status 3"
        ]

    def test_simulations_that_all_raise(self, problem, tmp_path):
        path = problem("raise KeyError('mass')")
        with pytest.raises(RuntimeError, match=r"all of the first 5 .*KeyError: 'mass'"):
            tarpon.run(path, store=tmp_path / "a", **settings())
        assert len(list((tmp_path / "a").glob("failed*"))) == 5
        # There is nothing that could be mixed up: once it is mended, the store will do.
        assert not tarpon.run(problem(), store=tmp_path / "a", **settings()).failures
        assert not list((tmp_path / "a").glob("failed*"))

    @pytest.mark.parametrize(
        ("trouble", "message"),
        [
            ("return np.full((n_draws, 2), np.nan)", "must return finite numbers"),
            ("return np.zeros((2, n_draws))", r"must return \(50, 2\), draws first, but returned"),
            ("return ['a']", "must hold real numbers"),
        ],
    )
    def test_a_posterior_of_wrong_shape_is_refused(self, problem, trouble, message):
        with pytest.raises((ValueError, TypeError), match=message):
            simulated(source(problem(trouble))(), 0, SEED, N_DRAWS)

    def test_errors_name_no_lines_of_tarpon(self, problem, tmp_path):
        path = problem("return np.zeros((2, n_draws))")
        wanted = r"must return \(50, 2\), draws first, but returned \(2, 50\)\.$"
        with pytest.raises(RuntimeError, match=wanted):
            tarpon.run(path, store=tmp_path / "a", **settings(n_sims=2, retries=0))

    def test_draws_that_lack_an_axis_of_the_prior_are_refused(self, problem):
        text = TEXT.replace("return rng.normal(size=2)", "return rng.normal(size=(2, 2))")
        path = problem("return np.zeros((n_draws, 2))", text=text)
        with pytest.raises(ValueError, match=r"must return \(50, 2, 2\), draws first, but"):
            simulated(source(path)(), 0, SEED, N_DRAWS)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ("theta", r"of 51 parameters must return \(51,\) numbers, but returned"),
            ("np.full(len(theta), np.nan)", "but returned NaN"),
        ],
    )
    def test_a_wrong_density_is_refused(self, problem, values, message):
        text = f"{TEXT}\ndef log_prob(theta, x):\n    return {values}\n"
        with pytest.raises(ValueError, match=message):
            simulated(source(problem(text=text))(), 0, SEED, N_DRAWS)

    def test_simulations_that_differ_in_shape(self, problem, tmp_path):
        text = TEXT.replace("return theta + rng.normal(size=2)",
                            "return theta + rng.normal(size=(1 + (theta[0] > 1), 2))")  # fmt: skip
        text = text.replace("x / 2", "x.mean(axis=0) / 2")
        study = tarpon.run(problem(text=text), store=tmp_path / "a", **settings())
        assert study.failures
        assert all("in the shape of x" in failure.message for failure in study.failures)


def flip(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def indexed(*indices):
    def damage(data):
        with np.load(io.BytesIO(data)) as arrays:
            changed = dict(arrays) | {"index": np.array(indices, dtype=int)}
        np.savez(file := io.BytesIO(), **changed)
        return file.getvalue()

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda _: os.urandom(500),
        indexed(),
        indexed(*range(1000)),
    ],
    ids=["one bit", "half", "nothing", "noise", "no index", "long index"],
)
def test_a_damaged_file_is_named_and_computed_again(problem, tmp_path, expected, damage):
    path, store = problem(), tmp_path / "a"
    tarpon.run(path, store=store, **settings())
    broken = sorted(store.glob("sim*"))[-1]
    noise = damage(broken.read_bytes())
    broken.write_bytes(noise)
    study = tarpon.run(path, store=store, **settings())
    (note,) = study.notes
    assert note.startswith(repr(str(broken)))
    assert "is damaged" in note
    assert "renamed, and its simulations are computed again" in note
    assert note in str(study)
    assert_same(contents(store), expected)
    assert (store / f"damaged-{broken.name}").read_bytes() == noise
    assert not tarpon.run(path, store=store, **settings()).notes


def test_files_in_the_wrong_place_are_computed_again(problem, tmp_path, expected):
    path, store = problem(), tmp_path / "a"
    tarpon.run(path, store=store, **settings(n_sims=3))
    tarpon.run(path, store=store, **settings())
    (first, *_, last) = sorted(store.glob("sim*"))
    tarpon.run(path, store=tmp_path / "b", **settings(rng=8))
    shutil.copy(first, last)
    shutil.copy(tmp_path / "b" / "simulations-000000.npz", first)
    study = tarpon.run(path, store=store, **settings())
    assert [note.partition(".npz' ")[2] for note in study.notes] == [
        "is damaged or misplaced: it was written by another run or under another name, or has "
        "changed since. It was renamed, and its simulations are computed again."
    ] * 2
    assert_same(contents(store), expected)


def test_simulations_of_unlike_precision_keep_it(tmp_path):
    class Mixed(Normal):
        def posterior(self, x, n_draws, rng):
            draws = super().posterior(x, n_draws, rng)
            return draws.astype(np.float32 if x > 0 else np.float64)

    study = tarpon.run(Mixed(), store=tmp_path / "a", **settings())
    kept = contents(tmp_path / "a")
    for index in range(N_SIMS):
        wanted = simulated(Mixed(), index, SEED, N_DRAWS)["samples"]
        np.testing.assert_array_equal(kept[index]["samples"], wanted)
        assert kept[index]["samples"].dtype == wanted.dtype
    again = tarpon.run(Mixed(), store=tmp_path / "a", **settings())
    assert again.to_dict() == study.to_dict()


@dataclass
class Normal:
    """A normal mean, observed once."""

    width: float = 1.0
    scale: object = None

    def prior(self, rng):
        return rng.normal(size=1)

    def simulate(self, theta, rng):
        return theta + rng.normal(size=1)

    def posterior(self, x, n_draws, rng):
        return x / 2 + self.width * np.sqrt(0.5) * rng.normal(size=(n_draws, 1))


# How a problem imports from files beside it, and which of them.
FILES = {
    "mine.py": "WIDTH = 0.5\n",
    "own/__init__.py": "from . import deep\n",
    "own/deep.py": "import plain.end\n",
    "plain/end.py": "import numpy\n",
    "numpy.py": "this is not the one that is imported\n",
    "unrelated.py": "WIDTH = 0.4\n",
}
IMPORTS = {
    "import mine": ["mine"],
    "def later():\n    import mine": ["mine"],
    "from own.deep import plain": ["own", "own.deep", "plain.end"],
    "import own": ["own", "own.deep", "plain.end"],
    "__import__('importlib').import_module('mi' + 'ne')": ["mine"],
    "import os, numpy as np": [],
}


class TestAnotherProblem:
    def refused(self, message, given, store, **more):
        with pytest.raises(ValueError, match=message) as refusal:
            tarpon.run(given, store=store, **settings(**more))
        if "contains results" in message:
            assert "Give this run a folder of its own, or delete that one" in str(refusal.value)

    def test_another_problem_by_its_source(self, problem, tmp_path):
        store = tmp_path / "a"
        tarpon.run(problem(), store=store, **settings(n_sims=2))
        wrong = TEXT.replace("np.sqrt(0.5)", "np.sqrt(0.4)")
        message = (
            r"contains results of another run: source, line \d+, was "
            r".*sqrt\(0.5\).* and is .*sqrt\(0.4\)"
        )
        self.refused(message, problem(text=wrong), store)
        assert len(contents(store)) == 2

    def test_comments_make_no_other_problem(self, problem, tmp_path):
        tarpon.run(problem(), store=tmp_path / "a", **settings(n_sims=2))
        commented = "# a comment\n" + TEXT.replace("return rng.normal", "return  rng.normal")
        tarpon.run(problem(text=commented), store=tmp_path / "a", **settings(n_sims=2))

    @pytest.mark.parametrize("line", IMPORTS)
    def test_modules_that_count(self, problem, tmp_path, line):
        for name, text in FILES.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        try:
            modules = source(problem(text=f"{line}\n{TEXT}")).identity()["modules"]
        finally:
            for name in ("mine", "own", "own.deep", "plain", "plain.end"):
                sys.modules.pop(name, None)
            sys.path.remove(str(tmp_path))
        assert list(modules) == IMPORTS[line]
        assert set(modules.values()) <= set(FILES.values())

    @pytest.mark.slow
    def test_by_a_module_that_it_imports(self, problem, tmp_path):
        (tmp_path / "mine.py").write_text("WIDTH = 0.5\n")
        store = tmp_path / "a"
        words = command(problem("import mine"), *words_of(store), "--n-workers", 1)

        def said(text):
            (tmp_path / "mine.py").write_text(text)
            bare = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=bare)
            return done.returncode, " ".join(done.stderr.split())

        assert said("WIDTH = 0.5\n") == said("# a comment\nWIDTH = 0.5\n") == (0, "")
        before = {path: path.read_bytes() for path in store.iterdir()}
        status, refusal = said("WIDTH = 0.4\n")
        assert status == 2
        assert (
            "contains results of another run: modules.mine, line 1, was 'WIDTH = 0.5'" in refusal
        )
        assert {path: path.read_bytes() for path in store.iterdir()} == before

    def test_by_a_module_that_changes_while_it_runs(self, problem, tmp_path):
        """A worker that starts later must not mix what others have made with something else."""
        (tmp_path / "mine.py").write_text("WIDTH = 0.5")
        found = source(problem("import mine"))
        again = pickle.loads(pickle.dumps(found))
        assert again() is found()
        (tmp_path / "mine.py").write_text("WIDTH = 0.4")
        _loaded.cache_clear()
        with pytest.raises(ValueError, match="module 'mine' has changed since the run began"):
            again()

    def test_by_what_its_class_uses(self, tmp_path):
        def made(scale, width):
            def spread():
                return scale

            class Scaled(Normal):
                _width = width

                def posterior(self, x, n_draws, rng):
                    return spread() * self._width * super().posterior(x, n_draws, rng)

            return Scaled()

        tarpon.run(made(1.0, 1.0), store=tmp_path / "a", **settings(n_sims=2))
        tarpon.run(made(1.0, 1.0), store=tmp_path / "a", **settings(n_sims=2))
        for other in (made(2.0, 1.0), made(1.0, 2.0)):
            self.refused("contains results of another run: code.", other, tmp_path / "a")

    @pytest.mark.parametrize(
        ("changed", "more", "message"),
        [
            ({"width": 0.5}, {}, "settings.width was 1.0 and is 0.5"),
            ({"scale": np.ones(3)}, {}, r"settings.scale was None and is 'float64 \(3,\)"),
            ({}, {"n_draws": 60}, "n_draws was 50 and is 60"),
            ({}, {"rng": 8}, "seed was 7 and is 8"),
        ],
    )
    def test_another_problem_by_its_settings(self, tmp_path, changed, more, message):
        tarpon.run(Normal(), store=tmp_path / "a", **settings(n_sims=2))
        message = f"contains results of another run: {message}"
        self.refused(message, Normal(**changed), tmp_path / "a", **more)

    def test_a_store_of_something_else_is_refused(self, problem, tmp_path):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "thesis.tex").touch()
        self.refused(
            "is not a folder of results: it contains 'thesis.tex' but no about.json",
            problem(),
            tmp_path / "a",
        )

    def test_two_runs_in_one_store_are_refused(self, problem, tmp_path):
        path = problem()

        def meanwhile(*_):
            self.refused("another run uses", path, tmp_path / "a")
            seen.append(1)

        seen = []
        tarpon.run(path, store=tmp_path / "a", **settings(n_sims=2, progress=meanwhile))
        assert seen


class TestWhenToStop:
    def test_run_stops_when_the_evidence_suffices(self, tmp_path):
        options, narrow = settings(n_sims=1000), Normal(width=0.5)
        study = tarpon.run(narrow, store=tmp_path / "a", **options)
        assert (study.stopped, study.outcome) == ("inaccurate", "inaccurate")
        assert "assume a fixed number of simulations" in study.check.warnings[-1]
        assert study.check.n_sims < 200
        assert re.search(r"simulations: evidence [\d.e+]+:1\.", str(study))
        again = tarpon.run(narrow, store=tmp_path / "a", **options)
        with ThreadPoolExecutor(1) as pool:
            alone = tarpon.run(narrow, store=tmp_path / "b", **options | {"executor": pool})
        for other in (again, alone):
            assert other.to_dict() | {"store": ""} == study.to_dict() | {"store": ""}

    @pytest.mark.parametrize("n_workers", [1, 2, 8])
    def test_run_stops_independently_of_workers_and_their_speed(self, tmp_path, n_workers):
        """Some are slow and some fail: both before the one where it stops, and after it."""

        class Uneven(Normal):
            def posterior(self, x, n_draws, rng):
                if x > 1.5:
                    raise ArithmeticError("no such root")
                time.sleep(0.02 * (x[0] > 0))
                return super().posterior(x, n_draws, rng)

        with ThreadPoolExecutor(n_workers) as pool:
            options = settings(n_sims=1000, executor=pool, retries=0)
            study = tarpon.run(Uneven(width=0.5), store=tmp_path / "a", **options)
        assert study.stopped == "inaccurate"
        assert (study.check.n_sims, len(study.failures)) == (21, 4)
        assert study.monitor.n_sims == study.check.n_sims
        assert len(contents(tmp_path / "a")) >= study.check.n_sims

    def test_run_never_stops_at_the_first_simulation(self, tmp_path):
        """One is no study, however strong its evidence."""
        options = settings(n_draws=1000, level=0.999)
        study = tarpon.run(Normal(width=1e-3), store=tmp_path / "a", **options)
        assert study.stopped == "inaccurate"
        assert study.monitor.history.log_e[0] > np.log(2 / 0.999)
        assert study.check.n_sims == 2

    def test_run_stops_when_coverage_is_within_the_tolerance(self, tmp_path):
        options = settings(n_sims=1000, tolerance=0.45)
        study = tarpon.run(Normal(), store=tmp_path / "a", **options)
        assert (study.stopped, study.outcome) == ("within tolerance", "within tolerance")
        assert study.monitor.within <= 0.45
        assert study.check.n_sims < 1000

    def test_slow_simulations_are_waited_for(self, tmp_path):
        """The first simulation ends last: nothing counts before it, however wrong."""
        release = threading.Event()
        first = simulated(Normal(), 0, SEED, N_DRAWS)["x"]

        class Slow(Normal):
            def posterior(self, x, n_draws, rng):
                if x == first:
                    release.wait(60)
                return super().posterior(x, n_draws, rng)

        def watch(stage, n_done, n_total):
            seen.append((n_done, stage.partition(",")[0]))
            assert n_total == N_SIMS
            if n_done == N_SIMS - 1:
                release.set()

        seen = []
        wanted = tarpon.run(Normal(width=0.2), store=tmp_path / "a", **settings())
        slow = Slow(width=0.2)
        study = tarpon.run(slow, store=tmp_path / "b", **settings(progress=watch))
        assert (N_SIMS - 1, "evidence 1:1 (stops at 40:1)") in seen
        assert study.stopped == wanted.stopped == "inaccurate"
        assert study.monitor.e_value == wanted.monitor.e_value


class TestProblems:
    def test_a_file_has_functions_an_object_or_several(self, problem, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        assert source(problem())().names == ["mu", "nu"]
        (tmp_path / "beside_it.py").write_text("WIDTH = 3.0")
        text = (
            "from beside_it import WIDTH\nimport numpy as np\n"
            "class Both:\n"
            "    def __init__(self, width=WIDTH): self.width = width\n"
            "    def prior(self, rng): return 0.0\n"
            "    def simulate(self, theta, rng): return theta\n"
            "    def posterior(self, x, n_draws, rng): return rng.normal(size=n_draws)\n"
            "problem = Both()\nother = Both(2.0)\n"
        )
        path = problem(text=text, name="two.py")
        assert source(path)().width == 3.0
        assert source(f"{path}:other")().width == 2.0
        assert source(f"{path}:other").identity()["settings"] == {"width": 2.0}
        assert simulated(source(path)(), 0, 1, 5)["samples"].shape == (5, 1)
        for given, message in {
            f"{path}:third": "has no 'third'",
            f"{path}:Both": "It is a class",
            problem(text="def prior(rng): ...", name="a.py"): "lacks simulate, posterior",
            problem(text="1 +", name="b.py"): r"cannot be run: SyntaxError: .* \(b.py, line 1\)",
            problem(text="1 / 0", name="c.py"): r"ZeroDivisionError: .* \(c.py, line 1\)",
        }.items():
            with pytest.raises(ValueError, match=message):
                source(given)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            source(tmp_path / "nowhere.py")

    def test_settings_of_any_kind_are_told_apart(self):
        class Network:
            def __init__(self, weight):
                self.weight = weight

            def state_dict(self):
                return {"weight": np.full(2, self.weight)}

        def told(weight, deep=None):
            scale = {"net": Network(weight), "f": flip, "list": [1, (2.0, "a")], "deep": deep}
            return source(Normal(scale=scale)).identity()["settings"]["scale"]

        assert told(1.0) == told(1.0) != told(2.0)
        assert told(1.0)["f"]["function"].endswith("test_runner.flip")
        assert told(1.0)["list"] == [1, [2.0, "a"]]
        endless = []
        endless.append(endless)
        assert "as before" in str(told(1.0, endless)["deep"])

    def test_an_object_without_a_source_is_refused(self):
        names = {"__name__": "nowhere"}
        methods = [f"    def {part}(self, *_): return 0.0\n" for part in PARTS]
        exec("class Made:\n" + "".join(methods), names)
        with pytest.raises(ValueError, match="the source of Made cannot be found"):
            source(names["Made"]()).identity()

    def test_a_problem_that_cannot_be_sent_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="cannot be sent to other processes"):
            tarpon.run(Normal(scale=(threading.Lock(),)), store=tmp_path / "a", **processes())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"time_limit": 1.0}, "whose calls cannot be stopped"),
            ({"n_workers": 2}, "cannot be used with `executor`"),
            ({"executor": None, "time_limit": 0.0}, "`time_limit` must be positive"),
            ({"retries": -1}, "`retries` must not be negative"),
            ({"n_sims": 1}, "at least 2 simulations"),
            ({"level": 1.5}, "`level` must lie between 0 and 1"),
        ],
    )
    def test_wrong_settings_of_a_run_are_refused(self, tmp_path, options, message):
        with pytest.raises(ValueError, match=message):
            tarpon.run(Normal(), store=tmp_path / "a", **settings(**options))
        assert not (tmp_path / "a").exists()


class TestCommandLine:
    def run(self, *words, **more):
        return subprocess.run(
            command(*words), capture_output=True, text=True, check=False, timeout=300, **more
        )

    @pytest.mark.slow
    def test_run_exit_status_says_what_was_found(self, tmp_path):
        example = ROOT / "examples" / "conjugate.py"
        options = ["--n-sims", 100, "--n-draws", 100, "--rng", 1, "--n-workers", 1]
        fine = self.run(example, *options, "--json", cwd=tmp_path)
        assert (fine.returncode, fine.stderr) == (0, "")
        assert json.loads(fine.stdout)["check"]["n_sims"] == 100
        wrong = self.run(f"{example}:too_narrow", *options, cwd=tmp_path)
        assert (wrong.returncode, wrong.stderr) == (1, "")
        assert "INACCURATE" in wrong.stdout
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "conjugate-too_narrow.study",
            "conjugate.study",
        ]

    def test_misuse_of_run_is_refused(self, problem, tmp_path):
        for words, message in {
            ("nowhere.py",): "there is no file 'nowhere.py'",
            (problem("raise KeyError('mass')"), "--n-sims", 9): "all of the first 5 simulations",
        }.items():
            said = CliRunner().invoke(main, ["run", *map(str, words), "--n-workers", "1"])
            assert said.exit_code == 2
            assert message in " ".join(said.stderr.split())

    @pytest.mark.slow
    def test_what_a_problem_prints_stays_out_of_the_answer(self, problem, tmp_path):
        path = problem("print('noise')")
        said = self.run(path, "--n-sims", 4, "--n-draws", 20, "--json", cwd=tmp_path)
        assert json.loads(said.stdout)["n_done"] == 4
        assert "noise" in said.stderr

    def test_help_of_run(self):
        said = CliRunner().invoke(main, ["run", "--help"])
        assert "tarpon run examples/conjugate.py" in said.stdout

    def test_the_line_on_a_terminal_says_it_all(self, tmp_path):
        class Failing(Normal):
            def posterior(self, x, n_draws, rng):
                if x > 1.5:
                    raise ArithmeticError("no such root")
                return super().posterior(x, n_draws, rng)

        def watch(stage, n_done, n_total):
            seen.append(stage)

        seen = []
        tarpon.run(Failing(), store=tmp_path / "a", **settings(progress=watch))
        assert re.fullmatch(
            r"evidence [\d.]+:1 \(stops at 40:1\), coverage ±0\.\d+, about \d+ more, \d+ failed",
            seen[-1],
        )

"""Files of our own: whole at all times, and trusted in nothing when they are read."""

import io
import json
import os
import resource
import runpy
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import filelock
import numpy as np
import pytest

import tarpon
from tarpon import Engine, Monitor
from tarpon._base import disk, folders
from tarpon.problems import zoo
from tarpon.sequential.adversaries import Quadratic

CORPUS = Path(__file__).parent / "corpus"
SIMS = zoo("exact", n_sims=30, n_draws=20, rng=0)
FULL = """
import sys, tarpon
from tarpon.problems import zoo
sims = zoo("exact", n_sims=300, n_draws=20, rng=0)
for saved, path in zip((tarpon.sbc(sims, rng=0), tarpon.Monitor(rng=0).add(sims)), sys.argv[1:]):
    try:
        saved.save(path)
    except OSError as error:
        print(type(error).__name__, error.errno, error)
"""


def saved(kind):
    if kind == "result":
        return tarpon.sbc(SIMS, rng=0)
    return Monitor(adversary=Quadratic() if kind == "adversary" else None, rng=0).add(SIMS)


def load(kind, path):
    return tarpon.load(path, adversary=Quadratic() if kind == "adversary" else None)


@pytest.mark.slow
def test_what_is_saved_survives_a_full_disk(tmp_path):
    """The kernel refuses files beyond a size, as it does when no space is left."""
    paths = [tmp_path / "result.npz", tmp_path / "monitor.npz"]
    for path in paths:
        saved(path.stem).save(path)
    before = [path.read_bytes() for path in paths]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    words = [sys.executable, "-c", FULL, *map(str, paths)]
    said = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        f"OSError 27 {str(path)!r} cannot be written: File too large." for path in paths
    ]
    assert [path.read_bytes() for path in paths] == before
    assert set(tmp_path.iterdir()) == set(paths)
    subprocess.run(words, capture_output=True, text=True, check=True)
    assert all(path.read_bytes() != old for path, old in zip(paths, before, strict=True))


def test_a_folder_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    result = saved("result")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError, match=r"a\.npz' cannot be written: Permission denied\."):
        result.save(tmp_path / "a.npz")


class TestReplacing:
    def test_links_stay_and_what_they_point_to_is_replaced(self, tmp_path):
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "a.npz").write_bytes(b"old")
        (tmp_path / "a.npz").symlink_to(tmp_path / "there" / "a.npz")
        saved("result").save(tmp_path / "a.npz")
        assert (tmp_path / "a.npz").is_symlink()
        assert tarpon.load(tmp_path / "there" / "a.npz").test == "SBC"

    def test_devices_stay_what_they_are(self):
        with disk.replacing("/dev/null") as file:
            file.write(b"nothing")
        assert not Path("/dev/null").is_file()

    def test_permissions_are_those_of_any_new_file(self, tmp_path):
        (tmp_path / "new").touch()
        saved("result").save(tmp_path / "a.npz")
        assert (tmp_path / "a.npz").stat().st_mode == (tmp_path / "new").stat().st_mode

    def test_a_missing_folder_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"there is no folder .* make it first"):
            saved("result").save(tmp_path / "nowhere" / "a.npz")


class TestOtherSystems:
    """What Windows lacks is done without, or in another way."""

    def test_without_links_and_folders_that_can_be_opened(self, tmp_path, monkeypatch):
        monkeypatch.delattr(os, "link")
        monkeypatch.delattr(os, "O_DIRECTORY")
        engine = Engine(resume=tmp_path / "a")
        first = tarpon.sbc(SIMS, engine=engine)
        assert tarpon.sbc(SIMS, engine=engine).seed == first.seed
        disk.synced(tmp_path)

    def test_disks_without_links(self, tmp_path, monkeypatch):
        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        seeds = []

        def begin():
            seeds.append(tarpon.sbc(SIMS, engine=Engine(resume=tmp_path / "a")).seed)

        threads = [threading.Thread(target=begin) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seeds) == 6
        assert len(set(seeds)) == 1

    def test_disks_without_locks_are_refused_where_two_runs_would_mix(self, tmp_path, monkeypatch):
        def refuse(*_, **__):
            raise NotImplementedError("no flock")

        monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
        with (
            pytest.raises(ValueError, match="is on a disk without file locks"),
            folders.alone(tmp_path),
        ):
            pass

    def test_one_program_at_a_time(self, tmp_path):
        code = (
            "import sys; from pathlib import Path; from tarpon._base.folders import alone\n"
            "with alone(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
        )
        words = [sys.executable, "-c", code, str(tmp_path)]
        (tmp_path / "left.part").touch()
        with subprocess.Popen(words, stdin=-1, stdout=-1) as other:
            other.stdout.readline()
            with (
                pytest.raises(ValueError, match="another run uses"),
                folders.alone(tmp_path),
            ):
                pass
            other.kill()
        with folders.alone(tmp_path):
            assert not list(tmp_path.glob("*.part"))


def rewritten(data, **changed):
    """Return a record with other arrays or entries; None takes one away."""
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    for name, value in changed.items():
        where = arrays if name in arrays or isinstance(value, np.ndarray) else about
        if value is None and where is arrays:
            del arrays[name]
        else:
            where[name] = value
    np.savez(file := io.BytesIO(), about=np.array(json.dumps(about)), **arrays)
    return file.getvalue()


def bomb(data):
    """Return a quarter of a megabyte that is a quarter of a gigabyte of zeros."""
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        header = {"descr": "<i8", "fortran_order": False, "shape": (2**25,)}
        np.lib.format.write_array_header_1_0(start := io.BytesIO(), header)
        with archive.open("ranks.npy", "w", force_zip64=True) as member:
            member.write(start.getvalue())
            for _ in range(2**8):
                member.write(bytes(2**20))
    return file.getvalue()


def lying(data):
    """Return a record one of whose headers promises more than there is."""
    return data.replace(b"'shape': (30, 2), }", b"'shape': (9**9,), }")


def twice(data):
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("ranks.npy", archive.read("ranks.npy"))
    return file.getvalue()


def overlapping(data):
    """Return a record whose entries say that they are as long as all of it."""
    with zipfile.ZipFile(file := io.BytesIO(data), "a") as archive:
        for info in archive.infolist():
            info.file_size = info.compress_size = len(data)
        archive.writestr("more.npy", b"")
    return file.getvalue()


DRAWS = {"fewest": 20, "most": 20, "worth": None, "approximate": False}
RESULTS = {
    "a bomb": (bomb, "it is compressed"),
    "a header that lies": (lying, "damaged"),
    "an array twice": (twice, "or an array twice"),
    "too large": (overlapping, "declared larger than the file"),
    "nothing": (lambda _: b"", "damaged"),
    "noise": (lambda _: os.urandom(999), "damaged"),
    "half": (lambda data: data[: len(data) // 2], "damaged"),
    "no ranks": ({"ranks": None}, "no test 'SBC' with ranks"),
    "no simulations": ({"ranks": np.zeros((0, 2), int)}, "no test 'SBC' with ranks"),
    "float ranks": ({"ranks": np.zeros((3, 2))}, "'ranks' must contain whole numbers"),
    "complex ranks": ({"ranks": np.zeros((3, 2), complex)}, "not of plain numbers"),
    "large ranks": ({"ranks": np.full((3, 2), 21)}, "whole numbers from 0 to 20"),
    "negative ranks": ({"ranks": np.full((3, 2), -1)}, "whole numbers from 0 to 20"),
    "ranks of another shape": ({"ranks": np.zeros((3, 2, 2), int)}, "no test 'SBC' with ranks"),
    "too few names": ({"names": ["a"]}, "'names' must be a list of 2 texts"),
    "no names": ({"names": None}, "'names' must be of type list"),
    "names that are numbers": ({"names": [1, 2]}, "'names' must be a list of 2 texts"),
    "another test": ({"test": "IQ"}, "there is no test 'IQ'"),
    "another reading": ({"reading": "sideways"}, "'sideways' is not a valid Reading"),
    "another format": ({"format": 99}, "it has format 99, this version reads 1"),
    "another kind": (
        {"kind": "thesis"},
        "is neither a result nor a monitor nor a cover nor a repair, but 'thesis'",
    ),
    "a negative seed": ({"seed": -1}, "'seed' must be at least 0"),
    "a seed that is a text": ({"seed": "1"}, "'seed' must be of type int"),
    "no draws": ({"n_draws": 0}, "'n_draws' must be at least 1"),
    "endless draws": ({"n_draws": 10**12}, "'n_draws' must be at least 1 and at most"),
    "draws that are true": ({"n_draws": True}, "'n_draws' must be of type int"),
    "fewer dropped than none": ({"n_dropped": -3}, "'n_dropped' must be at least 0"),
    "settings of numbers": ({"settings": {"a": 1}}, "'settings' must be texts"),
    "no settings": ({"settings": []}, "'settings' must be of type dict"),
    "more draws than most": ({"draws": DRAWS | {"most": 1}}, "'most' must be at least 20"),
    "an infinite worth": ({"draws": DRAWS | {"worth": [1, 2]}}, "'worth' must be two numbers"),
    "a deep description": ({"settings": json.loads("[" * 900 + "]" * 900)}, "of type dict"),
}
MONITORS = {
    "within nothing": ({"within": np.full(30, -1.0)}, "'within' must contain finite doubles"),
    "NaN capital": ({"log_capital": np.full((5, 14), np.nan)}, "'log_capital' must contain"),
    "another number of bets": ({"log_capital": np.zeros((5, 3))}, r"of shape \(5, 14\)"),
    "single precision": ({"log_e": np.zeros(30, "f4")}, "'log_e' must contain finite doubles"),
    "more covered than there are": ({"covered": np.full((5, 101), 31.0)}, "'covered' must"),
    "more looks than simulations": (
        {"log_e": np.zeros(31), "within": np.ones(31)}, "31 looks at 30 simulations"),
    "no looks": ({"log_e": np.zeros(0), "within": np.ones(0)}, "0 looks at 30 simulations"),
    "looks that differ": ({"log_e": np.zeros(29)}, r"'within' must contain .* shape \(29\)"),
    "a level of 2": ({"level": 2.0}, "`level` must lie between 0 and 1"),
    "a level that is none": ({"level": float("nan")}, "'level' must be of type float"),
    "a tolerance of 0": ({"tolerance": 0.0}, "`tolerance` must lie between 0 and 1"),
    "shares beyond all": ({"shares": np.full(5, 9.0)}, "'shares' must contain finite doubles"),
    "too few names": ({"names": ["a"]}, r"'shares' must contain numbers of shape \(1\)"),
    "approximately": ({"approximate": 1}, "'approximate' must be of type bool"),
    "no capital": ({"log_capital": None}, "it contains no array 'log_capital'"),
}  # fmt: skip
ADVERSARIES = {
    "points that are none": ({"adversary_points": np.full((30, 33, 2), np.nan)}, "NaN"),
    "points of others": ({"adversary_points": np.zeros((29, 33, 2))}, r"\(30, 33, any\)"),
    "observations of others": ({"adversary_x": np.zeros((3, 2))}, "'adversary_x' must contain"),
    "more bets than simulations": ({"adversary": 31}, "'adversary' must be at least 0 and at mo"),
    "capital of others": ({"adversary_log_capital": np.zeros(2)}, r"of shape \(3\)"),
}
CASES = [
    pytest.param(kind, *case, id=f"{kind}: {name}")
    for kind, cases in {"result": RESULTS, "monitor": MONITORS, "adversary": ADVERSARIES}.items()
    for name, case in cases.items()
]


@pytest.mark.parametrize(("kind", "damage", "message"), CASES)
def test_what_is_loaded_is_checked(kind, damage, message, tmp_path):
    path = tmp_path / "a.npz"
    saved(kind).save(path)
    good = path.read_bytes()
    path.write_bytes(damage(good) if callable(damage) else rewritten(good, **damage))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=message) as refusal:
        load(kind, path)
    assert str(refusal.value).startswith(repr(str(path)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    path.write_bytes(rewritten(good))  # the same once more is fine
    assert repr(load(kind, path)) == repr(saved(kind))


@pytest.mark.parametrize(
    "about", ["[]", "{}", '{"key": 1}', "[" * 100_000, '{"seed": -1, "key": ""}']
)
def test_what_a_folder_says_is_checked(about, tmp_path):
    tarpon.sbc(SIMS, rng=0, engine=Engine(resume=tmp_path))
    (tmp_path / "about.json").write_text(about)
    with pytest.raises(ValueError, match=r"is not a folder of results: in about.json, "):
        tarpon.sbc(SIMS, rng=0, engine=Engine(resume=tmp_path))


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"contains 'thesis.tex' but no about.json"):
        tarpon.sbc(SIMS, rng=0, engine=Engine(resume=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


FUZZ = runpy.run_path(str(Path(__file__).with_name("fuzz_results.py")))
FOUND = sorted(CORPUS.glob("saved_*"))


@pytest.mark.parametrize("target", FUZZ["FEEDS"])
def test_files_that_were_changed_at_random_do_no_harm(target, tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(10 if target in ("saved_block", "saved_about", "saved_store") else 300):
        FUZZ["feed"](target, rng.bytes(40), tmp_path)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_a_fuzzer_found_stays_fixed(path, tmp_path):
    FUZZ["feed"](path.name.partition("-")[0], path.read_bytes(), tmp_path)


def test_inputs_of_the_fuzzer_change_good_files_and_bad_ones_are_refused(tmp_path):
    """Or the test above would be of no worth: some are loaded, most are not."""
    good, rng = FUZZ["good"]("saved_result"), np.random.default_rng(0)
    n_loaded = 0
    for _ in range(100):
        (tmp_path / "a.npz").write_bytes(FUZZ["changed"](good, rng.bytes(40)))
        with suppress(ValueError):
            tarpon.load(tmp_path / "a.npz")
            n_loaded += 1
    assert 2 < n_loaded < 50

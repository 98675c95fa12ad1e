"""Feed changed files of our own to their readers: `python tests/fuzz_results.py TARGET SECONDS`.

Needs atheris, which is not among the packages for development. An input is no file, but says how
a good one is changed: bytes are flipped, or entries and arrays are replaced by odd ones; that of
`saved_raw` is a file. Whatever comes of it, results and monitors are loaded or refused with a
`ValueError`; what an engine or a run has kept gives the answer that it gave before, or is refused.
Inputs worth keeping go to `tests/corpus`, which the tests replay.

    python tests/fuzz_results.py saved_result 120                  # seconds
    python tests/fuzz_results.py saved_block tests/corpus/FILE     # one input again
"""

import io
import json
import shutil
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=20000"]
VALUES = [
    None, True, False, -1, 0, 1, 2, 20, 30, 31, 2**31, 2**63, 2**200, 0.5, -1.5, 1e-300, 1e308,
    float("nan"), float("inf"), "", "a", "SBC", "monitor", "result", "part", "\x1b[2J", [], ["a"],
    ["a", "b"], [1, 2], [1.0, 2.0], {}, {"a": "b"}, {"a": 1}, [[[[]]]],
]  # fmt: skip
SHAPES = [
    (), (0,), (1,), (3,), (5,), (30,), (31,), (30, 2), (2, 30), (30, 1), (30, 0), (0, 2), (5, 14),
    (5, 101), (30, 33, 2), (30, 2, 2), (1, 1, 1, 1), (20, 30, 2), (2**40, 0),
]  # fmt: skip
TYPES = ["i8", "i4", "u8", "u1", ">i8", "f8", "f4", "f2", ">f8", "?", "U3", "c16", "M8[s]"]
NUMBERS = [0, 1, -1, 20, 21, 0.5, 1e300, float("nan"), float("inf")]


class Choices:
    """Choices that an input makes, one byte each; without bytes, always the first."""

    def __init__(self, data):
        self.data = iter(data)

    def number(self):
        return next(self.data, 0)

    def of(self, options):
        return options[self.number() % len(options)]


def changed(good, data):
    """Return a record as an input says that it is to be changed."""
    choices = Choices(data)
    if choices.number() % 3 == 0:
        return flipped(good, choices)
    with np.load(io.BytesIO(good)) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    draws = about.get("draws", about)
    for _ in range(1 + choices.number() % 4):
        where = choices.of([about, about, arrays, draws])
        name = choices.of([*where, "more"])
        if choices.number() % 8 == 0:
            where.pop(name, None)
        else:
            where[name] = array(choices) if where is arrays else choices.of(VALUES)
    text = json.dumps(about) if choices.number() % 16 else choices.of(["[]", "[" * 5000, "{}", ""])
    save = choices.of([np.savez] * 7 + [np.savez_compressed])
    save(file := io.BytesIO(), about=np.array(text), **arrays)
    return file.getvalue()


def flipped(good, choices):
    """Return bytes of which some are others, or which end too early."""
    bad = bytearray(good)
    for _ in range(1 + choices.number() % 8):
        place = int.from_bytes([choices.number() for _ in range(3)], "little") % len(bad)
        bad[place] ^= choices.number() or 255
    return bytes(bad[: len(bad) * choices.of([1] * 7 + [0])] or bad[: len(bad) // 2])


def array(choices):
    """Return an array of an odd kind or shape."""
    shape, dtype = choices.of(SHAPES), np.dtype(choices.of(TYPES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.full(shape, choices.of(NUMBERS)).astype(dtype)


@cache
def simulations():
    from tarpon.problems import zoo

    sims = zoo("narrow", n_sims=30, n_draws=20, rng=0)
    sims._set(_part_bytes=2**11)  # so that there are several blocks
    return sims


@cache
def good(target):
    """Return the bytes of a good file."""
    import tarpon
    from tarpon.sequential.adversaries import Quadratic

    adversary = Quadratic() if target == "saved_adversary" else None
    saved = (
        tarpon.sbc(simulations(), rng=0) if target == "saved_result"
        else tarpon.cover(simulations(), rng=0) if target == "saved_cover"
        else tarpon.Monitor(adversary=adversary, rng=0).add(simulations())
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        saved.save(path := Path(folder) / "a.npz")
        return path.read_bytes()


def feed_saved(target, data, folder):
    """Load a changed file, and use what it is taken for."""
    import tarpon
    from tarpon.sequential.adversaries import Quadratic

    path = folder / "a.npz"
    path.write_bytes(data if target == "saved_raw" else changed(good(target), data))
    try:
        loaded = tarpon.load(path, adversary=Quadratic() if target == "saved_adversary" else None)
    except ValueError:
        return
    assert repr(loaded)
    if isinstance(loaded, tarpon.Cover):
        assert json.dumps(loaded.to_dict())
        assert 0 < loaded.coverage < 1
        return
    assert 0 <= loaded.p_value <= 1
    if isinstance(loaded, tarpon.Result):
        assert json.dumps(loaded.to_dict())
        assert np.isfinite(loaded.curve.ecp).all()
    else:
        assert 0 <= loaded.within <= 1
        assert loaded.outcome in ("inaccurate", "within tolerance", "running")
        assert len(loaded.history.n_sims) == len(loaded.history.log_e)


def feed_block(target, data, folder):
    """Change a block, or what its folder says about itself, and go on from there."""
    import tarpon

    kept = folder / "kept"
    engine = tarpon.Engine(resume=folder / "blocks")
    if not kept.exists():
        tarpon.sbc(simulations(), rng=0, engine=tarpon.Engine(resume=kept))
    shutil.rmtree(engine.resume, ignore_errors=True)
    shutil.copytree(kept, engine.resume)
    change(
        engine.resume / ("about.json" if target == "saved_about" else "counts-000001.npz"), data
    )
    try:
        again = tarpon.sbc(simulations(), rng=0, engine=engine).ranks.values
    except ValueError:
        assert target == "saved_about"
        return
    np.testing.assert_array_equal(again, tarpon.sbc(simulations(), rng=0).ranks.values)


def change(path, data):
    """Change a record, or a text of JSON."""
    if path.suffix == ".npz":
        path.write_bytes(changed(path.read_bytes(), data))
        return
    choices, about = Choices(data), json.loads(path.read_text())
    if choices.number() % 4 == 0:
        path.write_bytes(flipped(path.read_bytes(), choices))
        return
    where = choices.of([about, about["identity"], about["identity"]["data"]])
    where[choices.of([*where, "more"])] = choices.of(VALUES)
    path.write_text(json.dumps(about))


class Normal:
    """A normal mean, observed once."""

    def prior(self, rng):
        return rng.normal(size=1)

    def simulate(self, theta, rng):
        return theta + rng.normal(size=1)

    def posterior(self, x, n_draws, rng):
        return x / 2 + 0.5**0.5 * rng.normal(size=(n_draws, 1))


def feed_store(target, data, folder):
    """Change simulations that a run has kept, and go on from there."""
    import tarpon

    with ThreadPoolExecutor(1) as pool:
        options = {"n_sims": 6, "n_draws": 10, "rng": 0, "executor": pool}
        kept, store = folder / "kept", folder / "store"
        if not kept.exists():
            tarpon.run(Normal(), store=kept, **options)
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(kept, store)
        change(sorted(store.glob("simulations-*.npz"))[-1], data)
        again = tarpon.run(Normal(), store=store, **options)
        wanted = tarpon.run(Normal(), store=kept, **options)
    assert again.check.to_dict() == wanted.check.to_dict()


FEEDS = {
    "saved_raw": feed_saved,
    "saved_result": feed_saved,
    "saved_monitor": feed_saved,
    "saved_adversary": feed_saved,
    "saved_cover": feed_saved,
    "saved_block": feed_block,
    "saved_about": feed_block,
    "saved_store": feed_store,
}


def feed(target, data, folder):
    """Change a good file as an input says, and read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FEEDS[target](target, data, folder)


def main():
    import atheris

    target, what = sys.argv[1:3]
    read = ["_base", "adapters.saved", "results", "sequential", "mending"]
    with atheris.instrument_imports(include=[f"tarpon.{name}" for name in read]):
        import tarpon.adapters.saved  # noqa: F401
    work = Path(tempfile.gettempdir()) / "tarpon-fuzz" / target  # a later run goes on from there
    kept = work / "corpus"
    kept.mkdir(parents=True, exist_ok=True)
    if target == "saved_raw":
        for name in ("saved_result", "saved_monitor"):
            (kept / name).write_bytes(good(name))
    for path in CORPUS.glob(f"{target}-*"):
        shutil.copy(path, kept)
    how = [what] if Path(what).exists() else [f"-max_total_time={what}", str(kept)]
    atheris.Setup(
        [sys.argv[0], *LIMITS, "-print_final_stats=1", *how],
        lambda data: feed(target, data, work),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()

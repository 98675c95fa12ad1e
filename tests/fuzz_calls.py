"""Call everything public with random arguments: `python tests/fuzz_calls.py --minutes 60`.

Whatever it is given, a call must return, or raise an error that the package itself raises, in a
sentence, within the time and memory given here; anything else is a find. Calls are good ones of
`tests/test_bad_calls.py` with some of their arguments changed. Finds are fixed and become rows of
the table there, where a short run belongs to the tests.
"""

import argparse
import contextlib
import decimal
import fractions
import functools
import inspect
import os
import re
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, deque
from pathlib import Path
from unittest import mock

import matplotlib
import numpy as np
import pandas as pd
import scipy.sparse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tarpon
from tarpon import adversaries, gate, metrics, references, regions
from tarpon._base import arguments

SRC = Path(tarpon.__file__).parent
SECONDS = 20  # that a call may take
MEMORY = 2**30  # bytes that a call may take
EXPECTED = (TypeError, ValueError, FileNotFoundError, RuntimeError)
TABLE = runpy.run_path(str(Path(__file__).with_name("test_bad_calls.py")))
GOOD, BAD = TABLE["GOOD"], TABLE["BAD"]


def names(name):
    """Return every argument of a call that is in the tables, or in its signature."""
    function, good = GOOD[name]
    known = {*good, *(key for changed, *_ in BAD[name] for key in changed)}
    parameters = inspect.signature(function).parameters.values()
    return sorted(
        known | {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    )


NAMES = {name: names(name) for name in GOOD}
KNOWN = [value for rows in BAD.values() for changed, *_ in rows for value in changed.values()]

WORDS = ["raise", "drop", "compute", "random", "manhattan", "ridge", "prior", "exact", "shift",
         "biased", "never", "findings", "a.npz", "samples"]  # fmt: skip
COUNTS = [-(10**30), -1, 0, 1, 2, 5, 9, 30, 2**31, 2**63, 10**15, 10**30]
DTYPES = ["f8", "f4", "f2", "g", ">f8", "i8", "i1", "u8", "?", "c16", "O", "U3", "S3", "M8[s]",
          "m8[s]", "V4", [("a", "f8"), ("b", "i4")]]  # fmt: skip


def fails(*_, **__):
    raise KeyError("a function of the user's own")


OBJECTS = [
    None, True, Ellipsis, NotImplemented, object(), int, np.float64, metrics.L2, fails,
    lambda *given: None, lambda *given: given[0], lambda *given: "a", lambda *given: np.zeros(3),
    TABLE["SIMS"], TABLE["RESULT"], TABLE["CHECK"], TABLE["MONITOR"], TABLE["POOL"], tarpon,
    tarpon.Engine(), adversaries.Quadratic(),
    references.Posterior(), references.Centre(), references.Several(), regions.FromCentre(),
    regions.HighestDensity(), regions.Residuals(), np.random.default_rng(0), Path("none"),
    decimal.Decimal("0.5"), fractions.Fraction(1, 2), range(6), deque([1, 2]), 1j, b"a",
    bytearray(b"ab"), memoryview(b"ab"), np.float32(0.5), np.bool_(True), np.str_("a"), np.nan,
    np.inf, -0.0, 1e-320, 1e308, 10**400, slice(2), np.ma.masked, np.dtype("f8"), pd.NA, pd.NaT,
]  # fmt: skip


def shapes():
    sizes = st.sampled_from([0, 1, 2, 3, 6, 9])
    return st.one_of(
        st.sampled_from([(9, 6, 2), (6, 2), (9, 6), (6,), (2,), (9, 2), (6, 9, 2), (30, 6, 2)]),
        st.lists(sizes, max_size=4).map(tuple),
    )


def filled(shape, dtype, value, seed):
    """Return an array of some type, with odd values here and there."""
    numbers = np.random.default_rng(seed).normal(size=shape)
    if value is not None and numbers.size:
        numbers.ravel()[:: 1 + seed % 7] = value
    with np.errstate(all="ignore"):
        if isinstance(dtype, list):
            return np.zeros(shape, dtype)
        return (
            np.zeros(shape, dtype) if dtype in ("V4", "M8[s]", "m8[s]") else numbers.astype(dtype)
        )


def wrapped(array, how):
    """Return an array in the dress of another package, or of an odd kind of NumPy's own."""
    if how == "masked":
        return np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) % 3 == 0)
    if how == "pandas" and array.ndim in (1, 2) and array.dtype.kind in "fiubO":
        return (pd.Series if array.ndim == 1 else pd.DataFrame)(array)
    if how == "sparse" and array.ndim == 2 and array.dtype.kind in "fiu":
        return scipy.sparse.csr_array(array.astype(float))
    if how == "list":
        return array.tolist()
    if how == "rows":
        return list(array) if array.ndim else array
    if how == "backwards":
        return array[::-1] if array.ndim else array
    return array


@functools.cache
def anything():
    odd = st.sampled_from([None, None, np.nan, np.inf, -np.inf, 1e300, 1e-300, 0.0, -1.0])
    dtypes = st.one_of(st.sampled_from(["f8", "f4"]), st.sampled_from(DTYPES))
    plain = st.builds(filled, shapes(), dtypes, odd, st.integers(0, 20))
    hows = ["", "", "", "masked", "pandas", "sparse", "list", "rows", "backwards"]
    array = st.builds(wrapped, plain, st.sampled_from(hows))
    letters = st.characters(exclude_characters="/.~\0", exclude_categories=["Cs"])
    simple = st.one_of(
        st.sampled_from(OBJECTS),
        st.sampled_from(COUNTS),
        st.sampled_from(WORDS),
        st.text(letters, max_size=8),
        st.floats(),
        st.integers(-3, 40),
        array,
        st.sampled_from(KNOWN),
        arrays.arrays(
            np.float64, shapes(), elements=st.floats(allow_subnormal=False), fill=st.just(0.0)
        ),
    )
    hashable = st.one_of(st.text(letters, max_size=3), st.integers(-3, 9), st.none())
    return st.one_of(
        simple,
        simple,
        simple,
        st.lists(simple, max_size=7),
        st.tuples(simple, simple),
        st.dictionaries(hashable, simple, max_size=3),
        st.sets(hashable, max_size=3),
        st.builds(iter, st.lists(simple, max_size=3)),
    )


@st.composite
def calls(draw):
    """Draw the name of a function, and the arguments that are changed."""
    name = draw(st.sampled_from(sorted(GOOD)))
    names = draw(st.lists(st.sampled_from(NAMES[name]), min_size=1, max_size=3, unique=True))
    return name, {each: draw(anything()) for each in names}


def foreign(error):
    """Return why an error is none of ours; nothing if it is, or if it is the user's own."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    if files[-1].parent == Path(__file__).parent or not any(SRC in file.parents for file in files):
        return ""  # raised by functions that a user would have written, or before ours are called
    if isinstance(error, TypeError) and re.search(r"\(\) (missing|takes|got) ", str(error)):
        return ""  # raised by Python, where such functions take other arguments
    if isinstance(error, gate.InaccurateError):
        return ""
    why = TABLE["not_ours"](error)
    return why or ("" if isinstance(error, EXPECTED) else f"{type(error).__name__} raised by us")


class TooLong(BaseException):
    """A call took more time than it may."""


def stop(*_):
    raise TooLong


@contextlib.contextmanager
def limits():
    """Let a call take so much time and memory, and let the package know of the latter."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY + 2**28, before[1]))
    signal.alarm(SECONDS)
    try:
        with (
            mock.patch.object(arguments, "memory", return_value=MEMORY),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def attempt(name, changed):
    """Return what is wrong with the answer to a call; nothing if it is as it must be."""
    import matplotlib.pyplot as plt

    function, good = GOOD[name]
    try:
        with limits(), np.errstate(all="ignore"):
            function(**{**good, **changed})
    except TooLong:
        return f"takes more than {SECONDS} s: {name}"
    except Exception as error:
        return foreign(error)
    finally:
        plt.close("all")
    return ""


def shown(name, changed):
    with np.printoptions(threshold=20):
        return f"{name}({', '.join(f'{key}={value!r:.300}' for key, value in changed.items())})"


def finds(n_rounds, n_calls, seconds, seed=0):
    """Return what is wrong with random calls, and a call for each, by rounds of so many calls."""
    end, found, n_done = time.monotonic() + seconds, {}, Counter()

    @settings(max_examples=n_calls, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(calls())
    def one(call):
        if time.monotonic() < end:
            why, n_done[call[0]] = attempt(*call), n_done[call[0]] + 1
            if why and why not in found:
                found[why] = shown(*call)
                sys.stdout.write(f"{why}\n  {found[why]}\n")
                sys.stdout.flush()

    for k in range(n_rounds):
        if time.monotonic() > end:
            break
        seeded(seed + k)(one)()
    sys.stdout.write(f"{n_done.total()} calls of {len(n_done)} functions, {len(found)} finds\n")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    matplotlib.use("Agg")
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = finds(10**9, 500, 60 * options.minutes, options.seed)
        os.chdir(here)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

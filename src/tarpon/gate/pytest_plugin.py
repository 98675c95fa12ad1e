"""A plugin for pytest: posteriors under test like any other code.

def test_posterior(accurate):
    accurate(samples, theta, x=x, max_width_error=0.2)
"""

import re
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Nothing of tarpon is imported before a test asks for it.
if TYPE_CHECKING:
    from ..checks import Check
    from ..local.near import Near


_PLAIN = re.compile(r"(\w+/)*\w+\.py(::\w+)+(\[\w+([.-]\w+)*\])?")
_LONGEST = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tarpon-report`; pytest calls this."""
    parser.getgroup("tarpon").addoption(
        "--tarpon-report",
        metavar="FOLDER",
        type=Path,
        help="Write the report of every posterior under test into this folder.",
    )


@pytest.fixture
def accurate(request: pytest.FixtureRequest) -> "Callable[..., Check | Near]":
    """Return a function that checks posteriors, and fails the test if they are inaccurate.

    It takes the arguments of `tarpon.check` and of `tarpon.gate.Gate`. With `near=`, an
    observation, it takes the arguments of `tarpon.near`, and tests the nearest simulations.
    Without `rng` the seed is 0, so that a test gives the same answer every time.
    """
    from ..checks import check
    from . import Gate

    folder: Path | None = request.config.getoption("--tarpon-report")
    calls = count(1)

    def run(*data: Any, rng: Any = 0, **options: Any) -> "Check | Near":
        limits = ("fail_on", "max_bias", "max_width_error")
        gate = Gate(**{name: options.pop(name) for name in limits if name in options})
        answer: Any = (_here if "near" in options else check)(*data, rng=rng, **options)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            answer.report(folder / report_name(request.node.nodeid, next(calls)))
        found: Check | Near = gate.require(answer)
        return found

    return run


def _here(
    samples: Any, theta: Any = None, /, *, near: Any, x: Any = None, names: Any = None, **more: Any
) -> "Near | tuple[Near, ...]":
    """Return the answer near an observation, from `Simulations` or from arrays."""
    from ..local.near import near as tested_near
    from ..simulations import given

    return tested_near(given(samples, theta, x=x, names=names), near, **more)


def report_name(test: str, call: int = 1) -> str:
    """Return the file name of the report of a test, different for every test and call.

    `tests/test_flow.py::test_narrow[20]` gives `tests.test_flow-test_narrow-20.html`. Characters
    that file names cannot contain are left out, and a part of a hash distinguishes such tests.

    Arguments:
        test: The name of the test, as pytest has it.
        call: The number of the call of the fixture within the test, counted from 1.

    Example:
        >>> report_name("test_flow.py::test_narrow[20]", 2)
        'test_flow-test_narrow-20+2.html'
    """
    path, _, name = test.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    words = re.sub(r"[^\w.]+", "-", f"{module}-{name}").strip("-.")
    if not _PLAIN.fullmatch(test) or len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}-{sha256(test.encode()).hexdigest()[:8]}"
    return f"{words}+{call}.html" if call > 1 else f"{words}.html"

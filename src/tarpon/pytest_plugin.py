"""A plugin for pytest: posteriors under test like any other code.

def test_posterior(accurate):
    accurate(samples, theta, x=x, max_width_error=0.2)
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Nothing of tarpon is imported before a test asks for it.
if TYPE_CHECKING:
    from .checks import Check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tarpon-report`; pytest calls this."""
    parser.getgroup("tarpon").addoption(
        "--tarpon-report",
        metavar="FOLDER",
        type=Path,
        help="Write the report of every posterior under test into this folder.",
    )


@pytest.fixture
def accurate(request: pytest.FixtureRequest) -> "Callable[..., Check]":
    """Return a function that checks posteriors, and fails the test if they are inaccurate.

    It takes what `tarpon.check` takes, and what a `tarpon.gate.Gate` does. Without `rng` the
    seed is 0, so that a test gives the same answer every time.
    """
    from .checks import check
    from .gate import Gate

    folder: Path | None = request.config.getoption("--tarpon-report")

    def run(*data: Any, rng: Any = 0, **options: Any) -> "Check":
        limits = ("fail_on", "max_bias", "max_width_error")
        gate = Gate(**{name: options.pop(name) for name in limits if name in options})
        found = check(*data, rng=rng, **options)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", request.node.name)
            found.report(folder / f"{name}.html")
        return gate.require(found)

    return run

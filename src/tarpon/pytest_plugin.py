"""A plugin for pytest: posteriors under test like any other code.

def test_posterior(accurate):
    accurate(samples, theta, x=x, max_width_error=0.2)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

# Nothing of tarpon is imported before a test asks for it.
if TYPE_CHECKING:
    from .checks import Check


@pytest.fixture
def accurate() -> "Callable[..., Check]":
    """Return a function that checks posteriors, and fails the test if they are inaccurate.

    It takes what `tarpon.check` takes, and what a `tarpon.gate.Gate` does. Without `rng` the
    seed is 0, so that a test gives the same answer every time.
    """
    from .checks import check
    from .gate import Gate

    def run(*data: Any, rng: Any = 0, **options: Any) -> "Check":
        limits = ("fail_on", "max_bias", "max_width_error")
        gate = Gate(**{name: options.pop(name) for name in limits if name in options})
        return gate.require(check(*data, rng=rng, **options))

    return run

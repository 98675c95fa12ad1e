"""Gates: what a pipeline may go on with, and what stops it."""

from dataclasses import dataclass

from .._base import arguments
from .._base.text import Estimate, stated
from ..checks import Check
from ..checks.parameters import Parameter

__all__ = ["FAIL_ON", "Gate", "InaccurateError"]

# From what on a pipeline stops, and the outcomes that stop it.
FAIL_ON = {
    "inaccurate": ("inaccurate",),
    "doubt": ("inaccurate", "too few to say"),
    "never": (),
}


class InaccurateError(AssertionError):
    """Posteriors did not get through a gate."""


@dataclass(frozen=True)
class Gate:
    """What posteriors must be like.

    Errors count once their whole 95 % interval lies beyond the largest one allowed, so that
    noise stops nothing.

    Arguments:
        fail_on: `"inaccurate"` stops what the test rejects, `"doubt"` also what it saw too little
            of, and `"never"` leaves it to the sizes below.
        max_bias: The largest bias of a parameter, in posterior sd.
        max_width_error: The largest error of a width, as a fraction: 0.2 lets truths scatter
            between 0.8 and 1.2 times as widely as draws.

    Example:
        >>> check = tarpon.check(tarpon.problems.zoo("narrow", n_dims=2, rng=0), rng=0)
        >>> Gate(fail_on="never", max_width_error=0.5).failures(check)
        ()
    """

    fail_on: str = "inaccurate"
    max_bias: float | None = None
    max_width_error: float | None = None

    def __post_init__(self) -> None:
        arguments.one_of("fail_on", self.fail_on, list(FAIL_ON))
        for name in ("max_bias", "max_width_error"):
            if getattr(self, name) is not None:
                arguments.above_zero(name, getattr(self, name))

    def failures(self, check: Check) -> tuple[str, ...]:
        """Return why a check does not get through, in words; nothing if it does."""
        arguments.instance("check", check, Check, "what `tarpon.check` returns")
        failed = []
        if check.outcome in FAIL_ON[self.fail_on]:
            why = f": {check.findings[0]}" if check.findings else ""
            failed.append(f"{check.outcome}, {stated('p', check.p_value)}{why}")
        for parameter in check.parameters:
            failed += self._too_large(parameter)
        return tuple(failed)

    def _too_large(self, parameter: Parameter) -> list[str]:
        failed = []
        if self.max_bias is not None and _beyond(parameter.bias, 0.0, self.max_bias):
            failed.append(
                f"the bias of {parameter.name} is {parameter.bias} posterior sd, and "
                f"{self.max_bias:g} is allowed"
            )
        most = self.max_width_error
        if most is not None and _beyond(parameter.width, 1.0, most):
            failed.append(
                f"the truths of {parameter.name} scatter {parameter.width} times as widely as the "
                f"draws, and an error of {most:g} is allowed"
            )
        return failed

    def require(self, check: Check) -> Check:
        """Return the check, or raise `InaccurateError` with the reasons."""
        failed = self.failures(check)
        if failed:
            raise InaccurateError("\n".join([*failed, "", str(check)]))
        return check


def _beyond(estimate: Estimate, right: float, most: float) -> bool:
    return estimate.low > right + most or estimate.high < right - most

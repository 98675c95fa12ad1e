"""Gates: the conditions that posteriors must meet for a pipeline to go on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from .._base import arguments
from .._base.text import Estimate, stated
from ..checks import Check
from ..checks.parameters import Parameter
from ..local.near import Near

__all__ = ["FAIL_ON", "Failure", "Gate", "InaccurateError"]

_Answer = TypeVar("_Answer", bound=Check | Near)

# What stops a pipeline, and the outcomes of a check that it means.
FAIL_ON = {
    "inaccurate": ("inaccurate",),
    "doubt": ("inaccurate", "too few to say"),
    "not within tolerance": ("inaccurate", "too few to say", "no evidence against"),
    "never": (),
}
# The same of an answer at one observation, by the outcome of a check that stops as much.
_HERE = {
    "inaccurate here": "inaccurate",
    "outside the simulations": "inaccurate",
    "too few near": "too few to say",
    "no evidence against here": "no evidence against",
}


class InaccurateError(AssertionError):
    """Posteriors failed a gate."""


@dataclass(frozen=True)
class Failure:
    """A reason why posteriors fail a gate; `str` gives its sentence.

    Arguments:
        kind: The outcome of the check, for example `"inaccurate"`; or the error of a parameter
            that is too large, `"bias"` or `"width"`.
        sentence: The reason in words.
        parameter: The name of the parameter, if any.
        size: Its bias in posterior sd, or the scatter of its truths in widths of the draws.
        limit: The largest error allowed.
    """

    kind: str
    sentence: str
    parameter: str | None = None
    size: Estimate | None = None
    limit: float | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Gate:
    """Conditions that posteriors must meet.

    An error counts once its whole 95 % interval lies beyond the largest one allowed, so that
    noise stops nothing. An answer at one observation, by `tarpon.near`, is judged like a check of
    the nearest simulations. An observation outside the simulations fails, too, since they say
    nothing about its posterior.

    Arguments:
        fail_on: `"inaccurate"` stops posteriors that the test rejects, `"doubt"` also those with
            too few simulations to say, `"not within tolerance"` all that are not shown to be
            within the `tolerance` of the check, and `"never"` leaves it to the sizes below.
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

    def failures(self, check: Check | Near) -> tuple[Failure, ...]:
        """Return the reasons why a check, or an answer near an observation, fails.

        There are none if it passes.
        """
        wanted = "what `tarpon.check` or `tarpon.near` returns"
        arguments.instance("check", check, (Check, Near), wanted)
        if isinstance(check, Near):
            return self._failures(check.check, check.outcome, check.typical)
        return self._failures(check, check.outcome)

    def _failures(
        self, check: Check, outcome: str, typical: float | None = None
    ) -> tuple[Failure, ...]:
        """Return the reasons why a check with this outcome fails."""
        if self.fail_on == "not within tolerance" and check.margins is None:
            raise ValueError(
                "`fail_on='not within tolerance'` needs a check with a tolerance: "
                "`tarpon.check(..., tolerance=tarpon.Tolerance())`."
            )
        failures = [failure for row in check.parameters for failure in self._too_large(row)]
        if outcome == "outside the simulations":
            failures = []  # sizes elsewhere are not those at the observation
        if _HERE.get(outcome, outcome) in FAIL_ON[self.fail_on]:
            failures.insert(0, Failure(outcome, _sentence(check, outcome, typical)))
        return tuple(failures)

    def _too_large(self, parameter: Parameter) -> Iterator[Failure]:
        name, bias, width = parameter.name, parameter.bias, parameter.width
        if self.max_bias is not None and _beyond(bias, 0.0, self.max_bias):
            sentence = (
                f"the bias of {name} is {bias} posterior sd, and {self.max_bias:g} is allowed"
            )
            yield Failure("bias", sentence, name, bias, self.max_bias)
        if self.max_width_error is not None and _beyond(width, 1.0, self.max_width_error):
            sentence = (
                f"the truths of {name} scatter {width} times as widely as the draws, and an error "
                f"of {self.max_width_error:g} is allowed"
            )
            yield Failure("width", sentence, name, width, self.max_width_error)

    def require(self, check: _Answer) -> _Answer:
        """Return the answer, or raise `InaccurateError` with the reasons."""
        reasons = self.failures(check)
        if reasons:
            raise InaccurateError("\n".join([*map(str, reasons), "", str(check)]))
        return check


def _sentence(check: Check, outcome: str, typical: float | None) -> str:
    if outcome == "outside the simulations" and typical is not None:
        return f"{outcome}, {stated('p', typical)}"
    flaw = f": {check.findings[0]}" if check.findings else ""
    return f"{outcome}, {stated('p', check.p_value)}{flaw}"


def _beyond(estimate: Estimate, right: float, most: float) -> bool:
    return estimate.low > right + most or estimate.high < right - most

"""Planning: how many simulations and draws it takes to see an error."""

from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.types import RNG
from ..simulations import Simulations
from . import families, swaps
from .power import BIASES, Errors
from .power import power as power_of
from .swaps import Sums

_PILOT = 300
_DRAWS = (20, 50, 100, 300)
_GROWTHS = np.geomspace(1 / 15, 400, 60)


@dataclass(frozen=True)
class Plan:
    """How many simulations a study needs, for several numbers of draws.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to be seen, in posterior sd.
        width: The fraction by which all widths are wrong, to be seen.
        power: The probability with which to see them.
        n_sims: The number of simulations needed for each number of draws; None if more than
            100 000.
    """

    n_dims: int
    bias: float
    width: float
    power: float
    n_sims: dict[int, int | None]

    def __str__(self) -> str:
        sought = [f"a bias of {self.bias:g} sd in one parameter"] * bool(self.bias)
        sought += [f"widths off by {100 * self.width:.3g}%"] * bool(self.width)
        goal = (
            f"To see {' and '.join(sought)} with {100 * self.power:.3g}% probability "
            f"in {self.n_dims} dimension{'s' * (self.n_dims > 1)}"
        )
        needed = [(n_draws, n_sims or "over 100000") for n_draws, n_sims in self.n_sims.items()]
        if len(needed) == 1:
            ((n_draws, n_sims),) = needed
            return f"{goal} takes {n_sims} simulations of {n_draws} draws each."
        lines = [f"  {n_draws:5d} draws: {n_sims} simulations" for n_draws, n_sims in needed]
        return "\n".join([f"{goal}:", *lines])


def plan(
    n_dims: int,
    *,
    bias: float = 0.0,
    width: float = 0.0,
    n_draws: int | None = None,
    level: float = 0.05,
    power: float = 0.9,
    rng: RNG = None,
) -> Plan:
    """Return how many simulations `check` needs to see an error of a given size.

    Found by planting the error in normal posteriors; a study of your own posteriors says in
    `Check.detectable` what it could see.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to be seen, in posterior sd, up to 1.6.
        width: The fraction by which all widths are wrong, to be seen, up to 0.5.
        n_draws: The number of draws; several by default.
        level: The level of the test.
        power: The probability with which to see the error, the smaller one if both are given.
        rng: A seed or a generator.

    Example:
        >>> tarpon.plan(2, bias=0.3, n_draws=100, rng=0).n_sims[100] < 1000
        True
    """
    bias = arguments.between("bias", bias, 0, BIASES[-1])
    width = arguments.between("width", width, 0, 0.5)
    if not bias + width > 0:
        raise ValueError(
            f"give a `bias` up to {BIASES[-1]} or a `width` up to 0.5 to be seen, "
            f"but got bias {bias:g} and width {width:g}."
        )
    n_dims = arguments.positive("n_dims", n_dims)
    level, power = arguments.probability("level", level), arguments.probability("power", power)
    pilot, swapping = np.random.default_rng(arguments.seed(rng)).spawn(2)
    n_sims = {}
    for number in _DRAWS if n_draws is None else (n_draws,):
        n = arguments.positive("n_draws", number, swaps.FEWEST_DRAWS)
        points = pilot.standard_normal((n + 1, _PILOT, n_dims), dtype=np.float32)
        sums = families.swapped(
            Simulations(points[1:], points[0]),
            {},
            None,
            n_swaps=999,
            rng=swapping,
            plants=Errors(pilot.integers(n_dims, size=Errors.n_plays)),
        )
        n_sims[n] = _needed(sums, level, bias, width, power)
    return Plan(n_dims, bias, width, power, n_sims)


def _needed(sums: Sums, level: float, bias: float, width: float, power: float) -> int | None:
    """Return the first number of simulations at which the power is reached, by bisection."""
    low, high = 0, len(_GROWTHS)
    while low < high:
        middle = (low + high) // 2
        growth = float(_GROWTHS[middle])
        seen = power_of(sums, level, bias=bias, width=width, growth=growth)
        low, high = (low, middle) if seen >= power else (middle + 1, high)
    return None if low == len(_GROWTHS) else int(np.ceil(_PILOT * _GROWTHS[low]))

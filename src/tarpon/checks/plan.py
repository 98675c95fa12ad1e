"""Planning: the number of simulations that it takes to detect an error."""

from dataclasses import dataclass

import numpy as np

from .._base import arguments
from .._base.types import RNG
from ..simulations import Simulations
from . import families, labellings, swaps
from .power import BIASES, Errors
from .power import power as power_of
from .swaps import Sums

_PILOT = 300
_SWAPS = 999  # as many as `check` makes unless it is told otherwise
_AT_LEVEL = 5  # labellings at or above the statistic that still make its p-value the level
_MOST_BYTES = 8 * 2**30
_DRAWS = (20, 50, 100, 300)
_GROWTHS = np.geomspace(1 / 15, 400, 60)


@dataclass(frozen=True)
class Plan:
    """The number of simulations that a study needs, for several numbers of draws.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to detect, in posterior sd.
        width: The fraction by which all widths are wrong, to detect.
        power: The probability of detecting them.
        n_sims: The number of simulations needed for each number of draws; None if more than
            100 000.
        n_swaps: The number of swaps that `check` needs at this level.
    """

    n_dims: int
    bias: float
    width: float
    power: float
    n_sims: dict[int, int | None]
    n_swaps: int = _SWAPS

    def __str__(self) -> str:
        sought = [f"a bias of {self.bias:g} sd in one parameter"] * bool(self.bias)
        sought += [f"widths off by {100 * self.width:.3g}%"] * bool(self.width)
        goal = (
            f"To see {' and '.join(sought)} with {100 * self.power:.3g}% probability "
            f"in {self.n_dims} dimension{'s' * (self.n_dims > 1)}"
        )
        needed = [(n_draws, n_sims or "over 100000") for n_draws, n_sims in self.n_sims.items()]
        swaps = [f"  with `check(..., n_swaps={self.n_swaps})`"] * (self.n_swaps > _SWAPS)
        if len(needed) == 1:
            ((n_draws, n_sims),) = needed
            takes = f"{goal} takes {n_sims} simulations of {n_draws} draws each"
            return f"{takes}{''.join(swaps)[1:]}."
        lines = [f"  {n_draws:5d} draws: {n_sims} simulations" for n_draws, n_sims in needed]
        return "\n".join([f"{goal}:", *lines, *swaps])


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
    """Return the number of simulations that `check` needs to detect an error of a given size.

    The error is planted in normal posteriors; for your own posteriors, `Check.detectable` has the
    smallest errors that a study would have caught.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to detect, in posterior sd, up to 1.6.
        width: The fraction by which all widths are wrong, to detect, up to 0.5.
        n_draws: The number of draws; several by default.
        level: The level of the test.
        power: The probability of detecting the error, the less likely one if both are given.
        rng: A seed or a generator.

    Example:
        >>> tarpon.plan(2, bias=0.3, n_draws=100, rng=0).n_sims[100] < 1000
        True
    """
    bias = arguments.between("bias", bias, 0, BIASES[-1])
    width = arguments.between("width", width, 0, 0.5)
    if not bias + width > 0:
        raise ValueError(
            f"give a `bias` up to {BIASES[-1]} or a `width` up to 0.5 to detect, "
            f"but got bias {bias:g} and width {width:g}."
        )
    n_dims = arguments.positive("n_dims", n_dims)
    level, power = arguments.probability("level", level), arguments.probability("power", power)
    tried = _DRAWS if n_draws is None else (n_draws,)
    draws = [arguments.positive("n_draws", n, swaps.FEWEST_DRAWS) for n in tried]
    n_swaps = max(_SWAPS, swaps.fewest_swaps(level, _AT_LEVEL))
    _refuse_too_large(n_dims, max(draws), n_swaps, level)
    pilot, swapping = np.random.default_rng(arguments.seed(rng)).spawn(2)
    n_sims = {}
    for n in draws:
        points = pilot.standard_normal((n + 1, _PILOT, n_dims), dtype=np.float32)
        sums = families.swapped(
            Simulations(points[1:], points[0]),
            {},
            None,
            n_swaps=n_swaps,
            rng=swapping,
            plants=Errors(pilot.integers(n_dims, size=Errors.n_plays)),
        )
        n_sims[n] = _needed(sums, level, bias, width, power)
    return Plan(n_dims, bias, width, power, n_sims, n_swaps)


def _refuse_too_large(n_dims: int, n_draws: int, n_swaps: int, level: float) -> None:
    """Raise if planning would take more memory than there may be."""
    n_rows = n_swaps + 1 + Errors.n_plays + Errors.n_extra
    points = 8 * (n_draws + 1) * _PILOT * n_dims
    # Statistics are made of a few copies of the sums; labels are drawn all at once.
    sizes = labellings.most_sums(n_dims)
    sums = 4 * labellings.sums_bytes(n_swaps + 1, n_rows, n_dims, sizes)
    if (n_bytes := points + sums + 16 * n_rows * _PILOT) > _MOST_BYTES:
        raise ValueError(
            f"planning for `n_dims` = {n_dims} parameters, {n_draws} draws and level {level:g} "
            f"({n_swaps} swaps) would take {n_bytes / 2**30:.3g} GB of memory. Plan for fewer "
            f"parameters or draws, or for a higher level."
        )


def _needed(sums: Sums, level: float, bias: float, width: float, power: float) -> int | None:
    """Return the first number of simulations at which the power is reached, by bisection."""
    low, high, by_product = 0, len(_GROWTHS), families.product_families(sums)
    while low < high:
        middle = (low + high) // 2
        growth = float(_GROWTHS[middle])
        found = power_of(sums, by_product, level, bias=bias, width=width, growth=growth)
        reached = found >= power
        low, high = (low, middle) if reached else (middle + 1, high)
    return None if low == len(_GROWTHS) else int(np.ceil(_PILOT * _GROWTHS[low]))

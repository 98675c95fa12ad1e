"""Planning: the number of simulations that it takes to detect an error, and what so many see."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from math import isinf
from typing import Any

import numpy as np

from .._base import arguments, tables
from .._base.types import RNG, Floats
from ..simulations import Simulations
from . import families, labellings, power, swaps
from .power import BIASES, NARROWED, SHIFTED, Detectable, Errors, Planted
from .swaps import Sums
from .tolerances import Tolerance, n_needed

WIDEST = 0.5  # the largest error of the widths, as a fraction
FEW_SWAPS = 999  # as many as `check` makes unless it is told otherwise
_PILOT = 300
_AT_LEVEL = 5  # labellings at or above the statistic that still make its p-value the level
_MOST_BYTES = 8 * 2**30
_DRAWS = (20, 50, 100, 300)
_GROWTHS = np.geomspace(1 / 15, 400, 60)
_N_SIMS = np.ceil(_PILOT * _GROWTHS).astype(int)
_STEP = 0.01  # from one error to the next, among those that so many simulations may see


@dataclass(frozen=True, repr=False)
class Plan:
    """The number of simulations that a study needs, or the errors that so many see.

    It prints as a table with one row per number of draws.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to detect, in posterior sd; 0 for none.
        width: The fraction by which all widths are wrong, to detect; 0 for none.
        power: The probability of detecting them.
        n_sims: The number of simulations for each number of draws, needed or given; None if more
            than 100 000 are needed.
        n_swaps: The number of swaps that `check` needs at this level.
        detectable: The smallest errors that are seen for each number of draws, infinite where no
            size is; empty unless the number of simulations was given.
        tolerance: The errors that accurate posteriors are to be shown to be within, if any.
    """

    n_dims: int
    bias: float
    width: float
    power: float
    n_sims: dict[int, int | None]
    n_swaps: int = FEW_SWAPS
    detectable: dict[int, Detectable] = field(default_factory=dict)
    tolerance: Tolerance | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, ready for JSON; None for what is infinite."""
        seen = {
            n_draws: {name: None if isinf(size) else size for name, size in asdict(least).items()}
            for n_draws, least in self.detectable.items()
        }
        return asdict(self) | {"detectable": seen}

    def __repr__(self) -> str:
        from . import words

        head, rows, foot = words.plan(self)
        lines = tables.text(rows).splitlines()
        return "\n".join([head, *(f"  {line}" for line in [*lines, *foot])])

    def _repr_html_(self) -> str:
        from . import words

        head, rows, foot = words.plan(self)
        table = [tables.html(rows)] * bool(rows)
        return "\n".join(
            [f"<p>{escape(head)}</p>", *table, *(f"<p>{escape(f)}</p>" for f in foot)]
        )


def plan(
    n_dims: int,
    *,
    bias: float = 0.0,
    width: float = 0.0,
    n_sims: int | None = None,
    tolerance: Tolerance | None = None,
    n_draws: int | None = None,
    level: float = 0.05,
    power: float = 0.9,
    rng: RNG = None,
) -> Plan:
    """Return the simulations that `check` needs to detect an error, or the errors that it detects.

    Give a `bias`, a `width` or both to get the number of simulations; or `n_sims` to get the
    smallest errors that so many detect; or a `tolerance` to get the number that shows accurate
    posteriors to be within it. A smaller error, a higher power or a lower level never needs fewer
    simulations.

    The error is planted in normal posteriors; for your own posteriors, `Check.detectable` has the
    smallest errors that a study would have caught.

    Arguments:
        n_dims: The number of parameters.
        bias: The bias of one parameter to detect, in posterior sd, up to 1.6.
        width: The fraction by which all widths are wrong, to detect, up to 0.5.
        n_sims: The number of simulations that you can afford, at least 20.
        tolerance: The errors that do not matter, which accurate normal posteriors are to be shown
            to be within.
        n_draws: The number of draws; several by default.
        level: The level of the test.
        power: The probability of detecting the error, the less likely one if both are given.
        rng: A seed or a generator.

    Example:
        >>> tarpon.plan(2, bias=0.3, n_draws=100, rng=0).n_sims[100] < 1000
        True
        >>> tarpon.plan(2, n_sims=30, n_draws=100, rng=0).detectable[100].bias > 0.5
        True
    """
    bias = arguments.between("bias", bias, 0, BIASES[-1])
    width = arguments.between("width", width, 0, WIDEST)
    if n_sims is not None:
        n_sims = arguments.positive("n_sims", n_sims, int(_N_SIMS[0]))
    _refuse_unclear(bias, width, n_sims, tolerance)
    sizes = {SHIFTED: bias, NARROWED: -float(np.log1p(-width))}
    sought = {planted: size for planted, size in sizes.items() if size > 0}
    n_dims = arguments.positive("n_dims", n_dims)
    level, power = arguments.probability("level", level), arguments.probability("power", power)
    tried = _DRAWS if n_draws is None else (n_draws,)
    draws = [arguments.positive("n_draws", n, swaps.FEWEST_DRAWS) for n in tried]
    if tolerance is not None:
        shown = n_needed(n_dims, tolerance, level, power)
        return Plan(n_dims, 0.0, 0.0, power, dict.fromkeys(draws, shown), tolerance=tolerance)
    n_swaps = max(FEW_SWAPS, swaps.fewest_swaps(level, _AT_LEVEL))
    _refuse_too_large(n_dims, max(draws), n_swaps, level)
    seed = arguments.seed(rng)
    needed, seen = dict[int, int | None](), dict[int, Detectable]()
    for n in draws:
        # The same for all numbers of draws, so that they differ by their number alone.
        pilot, swapping = np.random.default_rng(seed).spawn(2)
        points = pilot.standard_normal((n + 1, _PILOT, n_dims), dtype=np.float32)
        sums = families.swapped(
            Simulations(points[1:], points[0]),
            {},
            None,
            n_swaps=n_swaps,
            rng=swapping,
            plants=Errors.of(n_dims, pilot),
        )
        chances = _Chances(sums, level)
        if n_sims is None:
            needed[n] = chances.needed(sought, power)
        else:
            needed[n], seen[n] = n_sims, chances.detectable(n_sims, power)
    return Plan(n_dims, bias, width, power, needed, n_swaps, seen)


def _refuse_unclear(
    bias: float, width: float, n_sims: int | None, tolerance: Tolerance | None
) -> None:
    """Raise unless errors, a number of simulations or a tolerance is given, and one of them."""
    if tolerance is not None:
        arguments.instance("tolerance", tolerance, Tolerance, "`tarpon.Tolerance(bias=0.1, ...)`")
    if (bias + width > 0) + (n_sims is not None) + (tolerance is not None) != 1:
        got = f"bias {bias:g}, width {width:g} and {'no' if n_sims is None else n_sims}"
        raise ValueError(
            f"give a `bias` up to {BIASES[-1]} or a `width` up to {WIDEST} to detect, or else the "
            f"number of simulations `n_sims`, or else a `tolerance`, but got {got} simulations"
            f"{'' if tolerance is None else ' and a tolerance'}."
        )


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


@dataclass(frozen=True, eq=False)
class _Chances:
    """How likely errors are caught, by their size and the number of simulations.

    Arguments:
        sums: The sums of a pilot study.
        level: The level of the test.
    """

    sums: Sums
    level: float
    known: dict[tuple[Planted, int], tuple[Floats, Floats]] = field(default_factory=dict)

    @cached_property
    def by_product(self) -> Mapping[str, Floats]:
        """The statistics of families that are made of products."""
        return families.product_families(self.sums)

    def needed(self, sought: Mapping[Planted, float], power: float) -> int | None:
        """Return the number of simulations at which all errors are caught, by bisection.

        What is caught of a smaller error, or more often, is also caught of a larger one and less
        often, for every number. So the bisection never ends lower for the former.
        """
        low, high = 0, len(_N_SIMS)
        while low < high:
            middle = (low + high) // 2
            reached = all(self._caught(*error, middle) >= power for error in sought.items())
            low, high = (low, middle) if reached else (middle + 1, high)
        return None if low == len(_N_SIMS) else int(_N_SIMS[low])

    def detectable(self, n_sims: int, power: float) -> Detectable:
        """Return the smallest errors that need at most so many simulations."""

        def smallest(planted: Planted, sizes: Floats, errors: Floats) -> float:
            low, high = 0, len(sizes)
            while low < high:
                middle = (low + high) // 2
                needed = self.needed({planted: float(sizes[middle])}, power)
                enough = needed is not None and needed <= n_sims
                low, high = (low, middle) if enough else (middle + 1, high)
            return float(np.inf) if low == len(sizes) else float(errors[low])

        biases, widths = (
            np.round(np.arange(_STEP, most + _STEP / 2, _STEP), 2) for most in (BIASES[-1], WIDEST)
        )
        return Detectable(
            smallest(SHIFTED, biases, biases), smallest(NARROWED, -np.log1p(-widths), widths)
        )

    def _caught(self, planted: Planted, size: float, at: int) -> float:
        """Return how likely an error is caught, by interpolation between known sizes.

        These do not depend on the size that is asked for.
        """
        if (planted, at) not in self.known:
            growth = float(_GROWTHS[at])
            curve = power.by_size(self.sums, self.by_product, planted, self.level, growth)
            self.known[planted, at] = curve
        sizes, powers = self.known[planted, at]
        return float(np.interp(np.log(size), np.log(sizes), powers))

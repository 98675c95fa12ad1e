"""Simulations: truths, the posterior draws for each, and what was observed."""

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from .._base import arrays
from .._base.arrays import joined
from .._base.types import Array, ArrayLike, Floats
from ..engine import Run
from . import _fields, _finite, alerts, passes, shapes, weights
from .stored import Stored
from .weights import Draws

_HERE = Run()


@dataclass(frozen=True, eq=False)
class Simulations:
    r"""Truths :math:`\theta^*_i`, draws :math:`\theta_{ij}` and observations :math:`x_i`.

    Everything is checked here, once; nothing is modified, clipped or dropped in silence.
    One parameter may come without its last axis. Draws, their log-densities and observations
    that are not in memory (memory-mapped, HDF5, Zarr, netCDF, xarray, Dask) stay where they are:
    they are read, and checked, a few simulations at a time when a test needs them.

    Samples on an accelerator (torch, JAX, CuPy) stay there, and truths go to them. Arrays on
    the CPU are used without a copy, except that bfloat16, which NumPy lacks, becomes float32.

    Simulations may differ in their number of draws, and draws in their weight: the ranks of the
    truths are as exact as those of equal draws.

    Arguments:
        samples: The posterior draws, draws first, of shape `(n_draws, n_sims, n_dims)`; or a list
            with one array `(n_i, n_dims)` a simulation.
        theta: The true parameters, of shape `(n_sims, n_dims)`.
        x: What was observed, of shape `(n_sims, ...)`.
        log_prob_samples: The estimator's log-density of its draws, `(n_draws, n_sims)`, up to a
            constant that may differ between simulations.
        log_prob_theta: The same of the truths, `(n_sims,)`.
        log_weights: The logarithms of the draws' weights, `(n_draws, n_sims)`, up to a constant
            that may differ between simulations.
        log_weights_theta: The same of the truths, `(n_sims,)`: the function of parameters and
            observation that weighs the draws, at the truth. Where it is not known, draws are
            resampled by weight, and the result says that it is approximate.
        offsets: Where the draws of each simulation begin, and the last ones end, `(n_sims + 1,)`;
            `samples` are then `(n_all, n_dims)`, those of one simulation after the other.
        names: One name a parameter.
        on_invalid: What to do with simulations that hold NaN or infinite values: `"raise"`, or
            `"drop"` to leave them out and count them in `n_dropped`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> Simulations(rng.normal(size=(99, 20, 3)), rng.normal(size=(20, 3)))
        Simulations(20 simulations, 99 draws each, 3 parameters)
        >>> Simulations([rng.normal(size=(n, 3)) for n in (50, 80)], rng.normal(size=(2, 3)))
        Simulations(2 simulations, 50 to 80 draws each, 3 parameters)
    """

    samples: Any
    theta: Any
    _: KW_ONLY
    x: Array | None = None
    log_prob_samples: Array | None = None
    log_prob_theta: Array | None = None
    log_weights: Array | None = None
    log_weights_theta: Array | None = None
    offsets: InitVar[ArrayLike | None] = None
    names: Sequence[str] | None = None
    on_invalid: str = "raise"
    resampled: bool = field(default=False, init=False)
    """Whether draws were resampled by weights that are not known of the truths."""
    n_dropped: int = field(default=0, init=False)
    part_bytes: int = field(default=64 * 2**20, init=False)
    """How much is read, computed and kept together, in double precision."""
    start: int = field(default=0, init=False)
    """The place of the first simulation among all, where these are but a part."""
    run: Run = field(default=_HERE, init=False)
    _box: tuple[Array, Array] | None = field(default=None, init=False)
    _centres: Floats | None = field(default=None, init=False)
    _checked: bool = field(default=False, init=False)

    def __post_init__(self, offsets: ArrayLike | None) -> None:
        if offsets is not None or isinstance(self.samples, list | tuple):
            self._set(
                **weights.dense({name: getattr(self, name) for name in _fields.AXES}, offsets)
            )
        samples, theta = shapes.points(self.samples, self.theta)
        n_draws, n_sims, n_dims = samples.shape
        draws, truths = shapes.log_probs(
            self.log_prob_samples, self.log_prob_theta, n_draws, n_sims
        )
        log_weights, own = shapes.log_weights(
            self.log_weights, self.log_weights_theta, (n_draws, n_sims)
        )
        self._set(
            samples=samples,
            theta=theta,
            x=shapes.observations(self.x, n_sims),
            log_prob_samples=draws,
            log_prob_theta=truths,
            log_weights=log_weights,
            log_weights_theta=own,
            names=shapes.names(self.names, n_dims),
        )
        if self.at_hand:
            self._set(_box=_finite.pooled_box(self.samples, self.theta))
            self._drop(_finite.invalid(self, self.box))
        alerts.warn_if_square_and_swapped(self.samples)

    @classmethod
    def of_densities(
        cls, log_prob_samples: ArrayLike, log_prob_theta: ArrayLike, **more: Any
    ) -> Self:
        """Return simulations of which only the log-densities are known, with no parameters.

        Arguments:
            log_prob_samples: Of the draws, `(n_draws, n_sims)`; or a list with one array
                `(n_i,)` a simulation.
            log_prob_theta: Of the truths, `(n_sims,)`.
            more: Weights, `offsets` and `on_invalid`, as `Simulations` take them.
        """
        if more.get("offsets") is None and not isinstance(log_prob_samples, list | tuple):
            log_prob_samples, log_prob_theta = shapes.log_probs(
                log_prob_samples, log_prob_theta, None, None
            )
        n_sims = len(log_prob_theta)
        listed = weights.by_simulation(log_prob_samples, n_sims)
        samples: Any = (
            [np.empty((len(row), 0)) for row in log_prob_samples]
            if listed
            else np.empty((*np.shape(log_prob_samples), 0))
        )
        return cls(
            samples,
            np.empty((n_sims, 0)),
            log_prob_samples=log_prob_samples,
            log_prob_theta=log_prob_theta,
            **more,
        )

    @property
    def n_draws(self) -> int:
        """How many draws each simulation has, or has room for where they differ."""
        return int(self.samples.shape[0])

    @property
    def n_sims(self) -> int:
        """How many simulations there are."""
        return int(self.samples.shape[1])

    @property
    def n_dims(self) -> int:
        """How many parameters there are; none where only log-densities are known."""
        return int(self.samples.shape[2])

    @property
    def weighted(self) -> bool:
        """Whether draws weigh differently, those that are not there nothing."""
        return self.log_weights is not None

    @property
    def draws(self) -> Draws:
        """How many draws there are, and how many they are worth."""
        return weights.draws(self.log_weights, self.n_draws, approximate=self.resampled)

    @property
    def where(self) -> slice:
        """Which of all simulations these are."""
        return slice(self.start, self.start + self.n_sims)

    @property
    def at_hand(self) -> bool:
        """Whether everything is in memory."""
        return not self._unread

    @property
    def box(self) -> tuple[Array, Array]:
        """The corners `(low, high)` of the box that holds every truth and every draw."""
        if self._box is None:
            self._scan(centres=False)
        assert self._box is not None
        return self._box

    def width(self) -> Floats:
        """Return the sides of the box, 1 for parameters that never vary, `(n_dims,)`."""
        low, high = (np.asarray(corner, dtype=float) for corner in self.box)
        return np.where(high > low, high - low, 1.0)

    def centres(self) -> Floats:
        """Return the mean of each simulation's points, truth and draws together."""
        if self._centres is None and self.at_hand:
            self._set(_centres=self._centres_at_hand())
        elif self._centres is None:
            self._scan(centres=True)
        assert self._centres is not None
        return self._centres

    def _centres_at_hand(self) -> Floats:
        if self.weighted or arrays.package(self.samples) == "jax":
            return np.concatenate([arrays.host(block.centre) for block in self.blocks()])
        double = arrays.namespace(self.samples).float64
        total = self.samples.sum(axis=0, dtype=double) + self.theta
        return arrays.host(total / (self.n_draws + 1))

    def log_probs(self) -> tuple[Array, Array]:
        """Return the log-densities of the draws and of the truths."""
        draws, truths = self.log_prob_samples, self.log_prob_theta
        if truths is None or draws is None:
            raise ValueError(
                "highest-density regions need the estimator's log-densities, as arguments or in "
                "the file: `log_prob_samples` (n_draws, n_sims) and `log_prob_theta` (n_sims,)."
            )
        return draws, arrays.rounded_like(truths, draws)

    def hold_out(self, n: int) -> "tuple[Simulations, Array]":
        """Split the last `n` draws off: return the simulations that are left, and those draws.

        The box stays that of all points: it is symmetric in the ones that are left.
        """
        fewest = self.draws.fewest
        if fewest <= n:
            raise ValueError(f"holding out {n} of {fewest} draws leaves none to rank: draw more.")
        if self.weighted:
            return self._hold_out_weighted(n)
        if self.at_hand:
            held = self.samples[-n:]
        else:
            found = joined(self.points_alone().each("held", partial(passes.last_draws, n=n)))
            held = found["draws"].swapaxes(0, 1)
        left = self._with(samples=_fields.without_last(self.samples, n), _centres=None)
        if self.log_prob_samples is not None:
            left._set(log_prob_samples=_fields.without_last(self.log_prob_samples, n))
        return left, held

    def _hold_out_weighted(self, n: int) -> "tuple[Simulations, Array]":
        """Hold out the last draws that weigh anything, which then weigh nothing."""
        assert self.log_weights is not None
        left, there = self._fetched(), self.log_weights > -np.inf
        last = there & (there[::-1].cumsum(axis=0)[::-1] <= n)
        sim, draw = np.nonzero(last.T)
        held = left.samples[draw, sim].reshape(self.n_sims, n, self.n_dims).swapaxes(0, 1)
        left._set(log_weights=np.where(last, -np.inf, self.log_weights), _centres=None)
        return left, held

    def equalised(self, rng: Generator) -> "Simulations":
        """Return simulations whose draws weigh the same, where the truths' weights are not known.

        Each draw is kept with the probability of its weight over the largest of its simulation.
        """
        if self.log_weights is None or self.log_weights_theta is not None:
            return self
        return self._with(
            log_weights=weights.accepted(self.log_weights, rng),
            log_weights_theta=np.zeros(self.n_sims, np.float32),
            resampled=True,
            _centres=None,
        )

    def without(self, *names: str) -> "Simulations":
        """Return the simulations without some of what is known of them, so that it is not read."""
        return self._with(**dict.fromkeys(names))

    def points_alone(self) -> "Simulations":
        """Return the simulations without observations and log-densities."""
        return self.without("x", "log_prob_samples", "log_prob_theta")

    def densities_alone(self) -> "Simulations":
        """Return the simulations without observations and points."""
        return self._with(
            samples=np.empty((self.n_draws, self.n_sims, 0)),
            theta=np.empty((self.n_sims, 0)),
            x=None,
            names=(),
            _box=(np.empty(0), np.empty(0)),
            _centres=None,
        )

    # How they are gone over, which is a module of its own.
    step = passes.step
    each = passes.each
    pieces = passes.pieces
    singles = passes.singles
    blocks = passes.blocks

    def part(self, where: slice) -> "Simulations":
        """Return some of the simulations; what is stored is not read."""
        some = _fields.cut(self._by_name, where)
        return self._with(start=self.start + where.start, run=_HERE, _centres=None, **some)

    def bare(self) -> "Simulations":
        """Return a single simulation on the host, without draws that weigh nothing.

        Weights that are all the same are left out too.
        """
        alone = self._with(
            **{name: np.asarray(arrays.host(array)) for name, array in self._by_name.items()}
        )
        if alone.log_weights is None:
            return alone
        there = np.flatnonzero(alone.log_weights[:, 0] > -np.inf)
        per_draw = {
            name: array for name, array in alone._by_name.items() if _fields.AXES[name] == 1
        }
        alone._set(**{name: array[there] for name, array in per_draw.items()})
        own = alone.log_weights_theta
        if own is not None and (alone.log_weights == own).all():
            alone._set(log_weights=None, log_weights_theta=None)
        return alone

    def on(self, run: Run) -> "Simulations":
        """Return the simulations, to be gone over by an engine at work."""
        bound = self._with(run=run)
        if not self._checked and self.on_invalid == "drop":
            bound._set(_checked=True)
            found = joined(bound.each("valid", passes.valid))
            bound._set(_checked=False)
            bound._drop(~found["valid"])
        return bound

    def digest(self) -> str:
        """Return a fingerprint: sizes, all truths, and three of the simulations."""
        return _fields.digest(self._by_name, (self.names, self.n_draws, self.part_bytes))

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _with(self, **fields: object) -> "Simulations":
        """Return the simulations with some fields changed."""
        other = copy(self)
        other._set(**fields)
        return other

    @property
    def _by_name(self) -> dict[str, Any]:
        """The arrays that there are, by name."""
        every = {name: getattr(self, name) for name in _fields.AXES}
        return {name: array for name, array in every.items() if array is not None}

    @property
    def _unread(self) -> list[Stored]:
        return [array for array in self._by_name.values() if isinstance(array, Stored)]

    @property
    def _portable(self) -> bool:
        """Whether another process can read what is stored."""
        return all(array.portable for array in self._unread)

    def _fetched(self) -> "Simulations":
        """Return the simulations with all that is stored read."""
        return self._with(**_fields.read(self._by_name))

    def _scan(self, *, centres: bool) -> None:
        """Go over what is stored, and remember its box, and its centres where wanted."""
        points = self.points_alone()
        name = "centres" if centres else "box"
        found = joined(points.each(name, partial(passes.ends, centres=centres)))
        self._set(_box=(found["low"].min(axis=0), found["high"].max(axis=0)))
        if centres:
            self._set(_centres=found["centres"])
        self._set(_checked=self._checked or self.log_prob_samples is None)

    def _drop(self, invalid: Array) -> None:
        """Refuse invalid simulations, or leave them out."""
        _finite.refuse(invalid, self.on_invalid)
        if invalid.any():
            kept = _fields.kept(self._by_name, ~invalid)
            self._set(**kept, n_dropped=int(invalid.sum()), _box=None)
            if self.at_hand:
                self._set(_box=_finite.pooled_box(self.samples, self.theta))
        self._set(_checked=True)

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Simulations({self.n_sims} simulations, {self.draws} each, "
            f"{self.n_dims} parameter{'s' * (self.n_dims != 1)}{dropped})"
        )


def simulations(
    samples: ArrayLike | Simulations, theta: ArrayLike | None, **more: Any
) -> Simulations:
    """Return the simulations that a test was given, whole or as arrays."""
    if isinstance(samples, Simulations):
        given = {"theta": theta, **more, "on_invalid": None}
        extra = [f"`{name}`" for name, value in given.items() if value is not None]
        if extra:
            raise TypeError(
                f"`Simulations` hold all data already: leave {', '.join(extra)} out, or put "
                f"them into the `Simulations`."
            )
        return samples
    if theta is None:
        raise TypeError("`theta` is missing: pass the true parameters, (n_sims, n_dims).")
    return Simulations(samples, theta, **more)

"""Simulations: truths, the posterior draws for each, and what was observed."""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from .._base import arguments, arrays
from .._base.arrays import joined
from .._base.fingerprint import of_array
from .._base.types import RNG, Array, ArrayLike, Floats
from ..engine import Engine, Run
from . import alerts, boxes, dropping, fields, neighbours, passes, shapes, units, weights
from .blocks import Block
from .dropping import Dropping
from .stored import Stored
from .views import AXES, HERE, along, chosen, equalised, points_alone, without_last
from .weights import Draws


@dataclass
class _Known:
    """What a pass has found out about simulations, so that no second one need be made."""

    box: tuple[Array, Array] | None = None
    sampled_box: tuple[Array, Array] | None = None
    centres: Floats | None = None
    checked: bool = False


@dataclass(frozen=True, eq=False)
class Simulations:
    r"""Truths :math:`\theta^*_i`, draws :math:`\theta_{ij}` and observations :math:`x_i`.

    Arrays are validated here, once; nothing is modified, clipped or dropped silently. For a single
    parameter the last axis may be left out. Fields, that is images, maps and time series of
    several channels, have more axes: `samples (n_draws, n_sims, *shape)` and
    `theta (n_sims, *shape)`. They are kept flat, and `shape` is the shape of one of them. Arrays
    that are not in memory (memory-mapped, HDF5, Zarr, netCDF, xarray, Dask) are read and validated
    a few simulations at a time, when a test needs them.

    Samples on a device (torch, JAX, CuPy) stay there, and the truths are moved to them. Arrays on
    the CPU are not copied, except that bfloat16, which NumPy lacks, becomes float32.

    Simulations may differ in their number of draws, and draws in their weight. Ranks are exact in
    all of these cases.

    Arguments:
        samples: Posterior draws `(n_draws, n_sims, n_dims)`, draws first; or a list with one array
            `(n_i, n_dims)` per simulation. Of fields, `(n_draws, n_sims, *shape)`.
        theta: True parameters `(n_sims, n_dims)`, or fields `(n_sims, *shape)`.
        x: Observations `(n_sims, ...)`.
        log_prob_samples: Log-densities of the draws `(n_draws, n_sims)`, by the estimator, up to a
            constant per simulation.
        log_prob_theta: Log-densities of the truths `(n_sims,)`, up to the same constant.
        log_weights: Log-weights of the draws `(n_draws, n_sims)`, up to a constant per simulation.
        log_weights_theta: Log-weights of the truths `(n_sims,)`: the weight function of the draws,
            at the truth. Without them, draws are resampled by weight, and results are marked as
            approximate.
        offsets: Offsets `(n_sims + 1,)` of the first draw of each simulation, and of the end;
            `samples` are then `(n_all, n_dims)`, one simulation after another.
        names: Names, one per parameter; of a field, one per axis is enough.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values, which
            `n_dropped` counts.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> Simulations(rng.normal(size=(99, 20, 3)), rng.normal(size=(20, 3)))
        Simulations(20 simulations, 99 draws each, 3 parameters)
        >>> Simulations([rng.normal(size=(n, 3)) for n in (50, 80)], rng.normal(size=(2, 3)))
        Simulations(2 simulations, 50 to 80 draws each, 3 parameters)
        >>> Simulations(rng.normal(size=(99, 20, 8, 8)), rng.normal(size=(20, 8, 8)))
        Simulations(20 simulations, 99 draws each, fields of 8 x 8)
    """

    samples: ArrayLike
    theta: ArrayLike
    _: KW_ONLY
    x: Array | None = None
    log_prob_samples: Array | None = None
    log_prob_theta: Array | None = None
    log_weights: Array | None = None
    log_weights_theta: Array | None = None
    offsets: InitVar[ArrayLike | None] = None
    names: Sequence[str] | None = None
    on_invalid: str = "raise"
    n_dropped: int = field(default=0, init=False)
    # That of one parameter vector, (n_dims,), or of one field, say (8, 8).
    shape: tuple[int, ...] = field(default=(), init=False)
    # Whether it depends on the simulations which ones were dropped.
    _dropping: Dropping = field(default=Dropping(), init=False)
    # Whether draws were resampled by weights that are not known of the truths.
    _resampled: bool = field(default=False, init=False)
    # What checks should warn of, beside what they find in the draws.
    _warnings: tuple[str, ...] = field(default=(), init=False)
    # What parameters were divided by, where they were of extreme size.
    _unit: Floats | None = field(default=None, init=False)
    # How much is read, computed and kept together, in double precision.
    _part_bytes: int = field(default=64 * 2**20, init=False)
    # The place of the first simulation among all, where these are a part of them.
    _start: int = field(default=0, init=False)
    _run: Run = field(default=HERE, init=False)
    _known: _Known = field(default_factory=_Known, init=False)

    def __post_init__(self, offsets: ArrayLike | None) -> None:
        shapes.what_to_do(self.on_invalid)
        if self.names is None:
            self._set(names=fields.axes(self.samples, self.theta))
        if offsets is not None or isinstance(self.samples, list | tuple):
            self._set(**weights.dense({name: getattr(self, name) for name in AXES}, offsets))
        samples, theta, shape = shapes.points(self.samples, self.theta)
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
            names=shapes.names(self.names, shape),
            shape=shape,
        )
        shapes.something_to_rank(n_dims, draws)
        if self._whole and not self._deferred:
            self._validate()
        alerts.warn_if_square_and_swapped(self.samples)

    @classmethod
    def of_densities(
        cls, log_prob_samples: ArrayLike, log_prob_theta: ArrayLike, **more: Any
    ) -> Self:
        """Return simulations with log-densities only, without parameters.

        Arguments:
            log_prob_samples: Log-densities of the draws `(n_draws, n_sims)`; or a list with one
                array `(n_i,)` per simulation.
            log_prob_theta: Log-densities of the truths `(n_sims,)`.
            more: Further arguments of `Simulations`: weights, `offsets` and `on_invalid`.
        """
        shapes.both_log_probs(log_prob_samples, log_prob_theta)
        n_sims = shapes.n_entries("log_prob_theta", log_prob_theta)
        listed = weights.by_simulation(log_prob_samples, n_sims)
        if more.get("offsets") is not None:
            log_prob_samples = shapes.array("log_prob_samples", log_prob_samples)
        elif not listed:
            log_prob_samples, log_prob_theta = shapes.log_probs(
                log_prob_samples, log_prob_theta, None, None
            )
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
        """The number of draws per simulation; the largest number where they differ."""
        return int(self.samples.shape[0])

    @property
    def n_sims(self) -> int:
        """The number of simulations."""
        return int(self.samples.shape[1])

    @property
    def n_dims(self) -> int:
        """The number of parameters; 0 if there are only log-densities."""
        return int(self.samples.shape[2])

    @property
    def dropping(self) -> Dropping:
        """Whether dropping depends on the simulations that were dropped."""
        return self._dropping

    @property
    def weighted(self) -> bool:
        """Whether draws have weights; padding has weight 0."""
        return self.log_weights is not None

    @property
    def draws(self) -> Draws:
        """The number of draws, and their effective sample size (ESS) where they are weighted."""
        if self.log_weights is None:
            return Draws(self.n_draws, self.n_draws, approximate=self._resampled)
        return weights.draws(self.log_weights, approximate=self._resampled)

    @property
    def box(self) -> tuple[Array, Array]:
        """The corners `(low, high)` of the box that holds every truth and every draw."""
        if self._known.box is None and self._whole:
            self._validate()
        elif self._known.box is None:
            self._scan(centres=False)
        assert self._known.box is not None
        return self._known.box

    def width(self) -> Floats:
        """Return the sides of the box, 1 for parameters that never vary, `(n_dims,)`."""
        return boxes.width(self, self.box)

    def centres(self) -> Floats:
        """Return the mean of each simulation's points, truth and draws together."""
        if self._known.centres is None and self._whole:
            self._known.centres = self._centres_at_hand()
        elif self._known.centres is None:
            self._scan(centres=True)
        assert self._known.centres is not None
        return self._known.centres

    def blocks(self, n_bytes: int = 0) -> Iterator[Block]:
        """Yield the simulations a few at a time, each truth pooled with its draws.

        The truth is the first point of each simulation.

        Arguments:
            n_bytes: The size of a block in double precision; by default one that keeps copies of
                it small.
        """
        return passes.blocks(self, arguments.positive("n_bytes", n_bytes, 0))

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
        n, fewest = arguments.positive("n", n), self.draws.fewest
        if fewest <= n:
            raise ValueError(
                f"`n` must be less than the number of draws, but got {n} of {fewest}: holding "
                f"them out leaves none to rank."
            )
        if self.weighted:
            return self._hold_out_weighted(n)
        if self._whole:
            held = self.samples[-n:]
        else:
            found = joined(
                passes.each(points_alone(self), "held", partial(passes.last_draws, n=n))
            )
            held = found["draws"].swapaxes(0, 1)
        left = self._with(samples=without_last(self.samples, n))
        left._known.centres = None
        if self.log_prob_samples is not None:
            left._set(log_prob_samples=without_last(self.log_prob_samples, n))
        return left, held

    def _hold_out_weighted(self, n: int) -> "tuple[Simulations, Array]":
        """Hold out the last draws that weigh anything, which then weigh nothing."""
        assert self.log_weights is not None
        left, there = self._fetched(), self.log_weights > -np.inf
        last = there & (there[::-1].cumsum(axis=0)[::-1] <= n)
        sim, draw = np.nonzero(last.T)
        held = left.samples[draw, sim].reshape(self.n_sims, n, self.n_dims).swapaxes(0, 1)
        left._set(log_weights=np.where(last, -np.inf, self.log_weights))
        left._known.centres = None
        return left, held

    def near(self, x_o: ArrayLike, n: int = 100, **more: Any) -> "Simulations":
        """Return the `n` simulations that are most like an observation.

        Arguments:
            x_o: The observation.
            n: The number of simulations.
            more: `samples`, the draws of its posterior, by which they are compared if given, or
                `summary`, a function of observations.
        """
        observation = neighbours.Observation.of(self, x_o, more.pop("samples", None))
        n = min(arguments.positive("n", n), self.n_sims)
        return chosen(self, neighbours.nearest(self, observation, n, **more).places)

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _with(self, **fields: object) -> "Simulations":
        """Return the simulations with some fields changed."""
        other = copy(self)
        other._set(_known=copy(self._known), **fields)
        return other

    @property
    def _by_name(self) -> dict[str, Any]:
        """The arrays that there are, by name."""
        every = {name: getattr(self, name) for name in AXES}
        return {name: array for name, array in every.items() if array is not None}

    @property
    def _unread(self) -> dict[str, Stored]:
        """The arrays that are not in memory, by name."""
        return {name: a for name, a in self._by_name.items() if isinstance(a, Stored)}

    @property
    def _whole(self) -> bool:
        """Whether everything is in memory."""
        return not self._unread

    @property
    def _deferred(self) -> bool:
        """Whether arrays in memory are not validated here, but by the pass that counts draws."""
        return False

    def _part(self, where: slice) -> "Simulations":
        """Return a range of the simulations; what is stored is not read."""
        some = {
            name: array.window(where) if isinstance(array, Stored) else along(name, array, where)
            for name, array in self._by_name.items()
        }
        part = self._with(_start=self._start + where.start, _run=HERE, **some)
        part._known.centres = None
        return part

    def _fetched(self, *, but: str = "") -> "Simulations":
        """Return the simulations with all that is stored read, but for one array if told."""
        read = {name: array.read() for name, array in self._unread.items() if name != but}
        return self._with(**read)

    def _validate(self) -> None:
        """Look at every number: refuse invalid simulations or drop them, and know the box."""
        if self._whole:
            self._know_box(*shapes.pooled_box(self.samples, self.theta))
            self._drop(shapes.invalid(self, self.box))
            return
        unchecked = self._with()
        unchecked._known.checked = True
        found = joined(passes.each(unchecked, "valid", passes.valid))
        self._drop(~found["valid"], found["first"])

    def _scan(self, *, centres: bool) -> None:
        """Go over what is stored, and remember its box, and its centres where wanted."""
        name = "centres" if centres else "box"
        ends = partial(passes.ends, centres=centres)
        found = joined(passes.each(points_alone(self), name, ends))
        self._know_box(found["low"].min(axis=0), found["high"].max(axis=0))
        if centres:
            self._known.centres = found["centres"]
        self._known.checked |= self.log_prob_samples is None

    def _drop(self, invalid: Array, first: Floats | None = None) -> None:
        """Refuse invalid simulations, or leave them out.

        Arguments:
            invalid: Which of the simulations are.
            first: A finite draw of each, if known.
        """
        shapes.refuse(invalid, self.on_invalid)
        if invalid.any():
            self._set(_dropping=dropping.tested(self, invalid, first))
            valid = np.flatnonzero(~invalid)
            kept = {
                name: array.keep(~invalid)
                if isinstance(array, Stored)
                else along(name, array, valid)
                for name, array in self._by_name.items()
            }
            self._set(**kept, n_dropped=int(invalid.sum()))
            self._known.box = self._known.sampled_box = None
            if self._whole:
                self._know_box(*shapes.pooled_box(self.samples, self.theta))
        self._known.checked = True

    def _know_box(self, low: Array, high: Array) -> None:
        """Remember the corners of the box, which must leave room to compute with."""
        self._refuse_too_large(low, high)
        self._known.box, self._known.sampled_box = (low, high), None

    def _refuse_too_large(self, low: Array, high: Array) -> None:
        if not boxes.ordinary(low, high):
            units.refuse_too_large((low, high), self.samples.dtype, self.names)

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Simulations({self.n_sims} simulations, {self.draws} each, "
            f"{fields.described(self.shape)}{dropped})"
        )


def unit_of(sims: Simulations) -> Floats:
    """Return what the parameters of simulations were divided by, `(n_dims,)`."""
    return np.ones(sims.n_dims) if sims._unit is None else sims._unit


def dropping_warning(sims: Simulations) -> str | None:
    """Return a warning if dropping depends on the simulations that were dropped."""
    return sims._dropping.warning(sims.n_dropped, sims.n_sims) if sims.n_dropped else None


def warn_of_dropping(sims: Simulations) -> None:
    """Warn if dropping depends on the simulations that were dropped."""
    if (warning := dropping_warning(sims)) is not None:
        warnings.warn(warning, stacklevel=3)


def warnings_of(sims: Simulations) -> tuple[str, ...]:
    """Return the warnings of the adapter that made the simulations."""
    return sims._warnings


def range_of(sims: Simulations) -> slice:
    """Return which of all simulations these are, where they are a part of them."""
    return slice(sims._start, sims._start + sims.n_sims)


def is_simple(sims: Simulations) -> bool:
    """Return whether a pass needs no parts: all is in memory, computed here, and not kept."""
    return sims._whole and sims._run.plain


class Deferred(Simulations):
    """Arrays of a test that counts draws in one pass, by which they are validated too."""

    @property
    def _deferred(self) -> bool:
        at_hand = isinstance(self.samples, np.ndarray) or arrays.package(self.samples) == "torch"
        return at_hand and self.log_weights is None


def given(
    samples: ArrayLike | Simulations,
    theta: ArrayLike | None,
    kind: type[Simulations] = Simulations,
    **more: Any,
) -> Simulations:
    """Return the simulations that a test was given, whole or as arrays."""
    if isinstance(samples, Simulations):
        beside = {"theta": theta, **more}
        extra = [f"`{name}`" for name, value in beside.items() if value is not None]
        if extra:
            raise TypeError(
                f"`Simulations` contain all data already: remove {', '.join(extra)}, or pass "
                f"them to `Simulations(...)`."
            )
        return samples
    if theta is None:
        raise TypeError(
            "`theta` is missing, it is None: pass the true parameters, (n_sims, n_dims), or "
            "`Simulations` alone."
        )
    return kind(samples, theta, **more)


def begin(
    test: str, sims: Simulations, engine: Engine, rng: RNG, **settings: Any
) -> tuple[Simulations, int]:
    """Begin a test: return the simulations, bound to its engine, and its seed.

    Arguments:
        test: The name of the test.
        sims: The simulations.
        engine: Where it is computed.
        rng: The seed or generator of the user.
        settings: Everything else that its results depend on.
    """
    kind = "a `tarpon.Engine`"
    arguments.instance("engine", engine, Engine, kind, "Leave it out to compute here.")
    run = engine.start(
        lambda: {
            "test": test,
            "data": digest(sims),
            "on_invalid": sims.on_invalid,
            "settings": settings,
        },
        rng,
    )
    return equalised(bound(sims, run), np.random.default_rng([run.seed, 1])), run.seed


def bound(sims: Simulations, run: Run) -> Simulations:
    """Return the valid simulations, for a run of an engine to go over."""
    sims = sims._with(_run=run)
    if not sims._known.checked and sims.on_invalid == "drop":
        sims._validate()
    return sims


def digest(sims: Simulations) -> dict[str, Any]:
    """Return what tells all numbers, their names and their parts from others."""
    every = {
        name: array.fingerprint() if isinstance(array, Stored) else of_array(array)
        for name, array in sims._by_name.items()
    }
    field = {"shape": sims.shape} if len(sims.shape) > 1 else {}
    return every | field | {"names": sims.names, "part_bytes": sims._part_bytes}

"""Simulations: truths, the posterior draws for each, and what was observed."""

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from .._base import arrays
from .._base.arrays import joined
from .._base.types import RNG, Array, ArrayLike, Floats
from ..engine import Engine, Run
from . import alerts, dropping, passes, shapes, units, weights
from .blocks import Block
from .dropping import Dropping
from .stored import Stored
from .weights import Draws

_HERE = Run()
_AXES = {
    "samples": 1,
    "theta": 0,
    "x": 0,
    "log_prob_samples": 1,
    "log_prob_theta": 0,
    "log_weights": 1,
    "log_weights_theta": 0,
}  # of each array the axis that counts the simulations


@dataclass
class _Known:
    """What a pass has found out about simulations, so that no second one need be made."""

    box: tuple[Array, Array] | None = None
    centres: Floats | None = None
    checked: bool = False


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
        on_invalid: What to do with simulations that hold NaN, masked or infinite values:
            `"raise"`, or `"drop"` to leave them out and count them in `n_dropped`. Results say
            whether those dropped differ from the others.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> Simulations(rng.normal(size=(99, 20, 3)), rng.normal(size=(20, 3)))
        Simulations(20 simulations, 99 draws each, 3 parameters)
        >>> Simulations([rng.normal(size=(n, 3)) for n in (50, 80)], rng.normal(size=(2, 3)))
        Simulations(2 simulations, 50 to 80 draws each, 3 parameters)
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
    # Whether it depends on the simulations which ones were dropped.
    _dropping: Dropping = field(default=Dropping(), init=False)
    # Whether draws were resampled by weights that are not known of the truths.
    _resampled: bool = field(default=False, init=False)
    # What parameters were divided by, where they were of extreme size.
    _unit: Floats | None = field(default=None, init=False)
    # How much is read, computed and kept together, in double precision.
    _part_bytes: int = field(default=64 * 2**20, init=False)
    # The place of the first simulation among all, where these are a part of them.
    _start: int = field(default=0, init=False)
    _run: Run = field(default=_HERE, init=False)
    _known: _Known = field(default_factory=_Known, init=False)

    def __post_init__(self, offsets: ArrayLike | None) -> None:
        if offsets is not None or isinstance(self.samples, list | tuple):
            self._set(**weights.dense({name: getattr(self, name) for name in _AXES}, offsets))
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
        if self._whole:
            self._know_box(*shapes.pooled_box(self.samples, self.theta))
            self._drop(shapes.invalid(self, self.box))
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
        return weights.draws(self.log_weights, self.n_draws, approximate=self._resampled)

    @property
    def box(self) -> tuple[Array, Array]:
        """The corners `(low, high)` of the box that holds every truth and every draw."""
        if self._known.box is None:
            self._scan(centres=False)
        assert self._known.box is not None
        return self._known.box

    def width(self) -> Floats:
        """Return the sides of the box, 1 for parameters that never vary, `(n_dims,)`."""
        units.refuse_too_narrow(self.box, self.samples.dtype, self.names)
        low, high = (np.asarray(corner, dtype=float) for corner in self.box)
        return np.where(high > low, high - low, 1.0)

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
        return passes.blocks(self, n_bytes)

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
        return draws, arrays.alike(truths, draws)

    def hold_out(self, n: int) -> "tuple[Simulations, Array]":
        """Split the last `n` draws off: return the simulations that are left, and those draws.

        The box stays that of all points: it is symmetric in the ones that are left.
        """
        fewest = self.draws.fewest
        if fewest <= n:
            raise ValueError(f"holding out {n} of {fewest} draws leaves none to rank: draw more.")
        if self.weighted:
            return self._hold_out_weighted(n)
        if self._whole:
            held = self.samples[-n:]
        else:
            found = joined(
                passes.each(points_alone(self), "held", partial(passes.last_draws, n=n))
            )
            held = found["draws"].swapaxes(0, 1)
        left = self._with(samples=_without_last(self.samples, n))
        left._known.centres = None
        if self.log_prob_samples is not None:
            left._set(log_prob_samples=_without_last(self.log_prob_samples, n))
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
        every = {name: getattr(self, name) for name in _AXES}
        return {name: array for name, array in every.items() if array is not None}

    @property
    def _unread(self) -> dict[str, Stored]:
        """The arrays that are not in memory, by name."""
        return {name: a for name, a in self._by_name.items() if isinstance(a, Stored)}

    @property
    def _whole(self) -> bool:
        """Whether everything is in memory."""
        return not self._unread

    def _part(self, where: slice) -> "Simulations":
        """Return a range of the simulations; what is stored is not read."""
        some = {
            name: array.window(where) if isinstance(array, Stored) else _along(name, array, where)
            for name, array in self._by_name.items()
        }
        part = self._with(_start=self._start + where.start, _run=_HERE, **some)
        part._known.centres = None
        return part

    def _fetched(self) -> "Simulations":
        """Return the simulations with all that is stored read."""
        return self._with(**{name: array.read() for name, array in self._unread.items()})

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
                else _along(name, array, valid)
                for name, array in self._by_name.items()
            }
            self._set(**kept, n_dropped=int(invalid.sum()))
            self._known.box = None
            if self._whole:
                self._know_box(*shapes.pooled_box(self.samples, self.theta))
        self._known.checked = True

    def _know_box(self, low: Array, high: Array) -> None:
        """Remember the corners of the box, which must leave room to compute with."""
        units.refuse_too_large((low, high), self.samples.dtype, self.names)
        self._known.box = low, high

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Simulations({self.n_sims} simulations, {self.draws} each, "
            f"{self.n_dims} parameter{'s' * (self.n_dims != 1)}{dropped})"
        )


def _along(name: str, array: Array, which: Any) -> Array:
    """Return some of the simulations of an array."""
    return array[:, which] if _AXES[name] else array[which]


def _without_last(array: Any, n: int) -> Any:
    """Return the draws without the last `n`; what is stored is not read."""
    if isinstance(array, Stored):
        return array.first(array.shape[0] - n)
    return array[:-n]


def place(sims: Simulations) -> slice:
    """Return which of all simulations these are, where they are a part of them."""
    return slice(sims._start, sims._start + sims.n_sims)


def is_simple(sims: Simulations) -> bool:
    """Return whether a pass needs no parts: all is in memory, computed here, and not kept."""
    return sims._whole and sims._run.plain


def given(samples: ArrayLike | Simulations, theta: ArrayLike | None, **more: Any) -> Simulations:
    """Return the simulations that a test was given, whole or as arrays."""
    if isinstance(samples, Simulations):
        arguments = {"theta": theta, **more}
        extra = [f"`{name}`" for name, value in arguments.items() if value is not None]
        if extra:
            raise TypeError(
                f"`Simulations` contain all data already: remove {', '.join(extra)}, or pass "
                f"them to `Simulations(...)`."
            )
        return samples
    if theta is None:
        raise TypeError("`theta` is missing: pass the true parameters, (n_sims, n_dims).")
    return Simulations(samples, theta, **more)


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
        unchecked = sims._with()
        unchecked._known.checked = True
        found = joined(passes.each(unchecked, "valid", passes.valid))
        sims._drop(~found["valid"], found["first"])
    return sims


def digest(sims: Simulations) -> str:
    """Return a fingerprint: sizes, all truths, and three of the simulations."""
    some = [slice(i, i + 1) for i in sorted({0, sims.n_sims // 2, sims.n_sims - 1})]
    hashed = hashlib.sha256(repr((sims.names, sims.n_draws, sims._part_bytes)).encode())
    for name, array in sims._by_name.items():
        hashed.update(repr((array.shape, str(array.dtype))).encode())
        for which in some if _AXES[name] or name == "x" else [slice(None)]:
            numbers = arrays.host(_along(name, array, which))
            hashed.update(np.ascontiguousarray(numbers).tobytes())
    return hashed.hexdigest()


def equalised(sims: Simulations, rng: Generator) -> Simulations:
    """Return simulations whose draws weigh the same, where the truths' weights are not known.

    Each draw is kept with the probability of its weight over the largest of its simulation.
    """
    if sims.log_weights is None or sims.log_weights_theta is not None:
        return sims
    equal = sims._with(
        log_weights=weights.accepted(sims.log_weights, rng),
        log_weights_theta=np.zeros(sims.n_sims, np.float32),
        _resampled=True,
    )
    equal._known.centres = None
    return equal


def without(sims: Simulations, *names: str) -> Simulations:
    """Return the simulations with the named arrays dropped, so that those are not read."""
    return sims._with(**dict.fromkeys(names))


def points_alone(sims: Simulations) -> Simulations:
    """Return the simulations without observations and log-densities."""
    return without(sims, "x", "log_prob_samples", "log_prob_theta")


def densities_alone(sims: Simulations) -> Simulations:
    """Return the simulations without observations and points."""
    densities = sims._with(
        samples=np.empty((sims.n_draws, sims.n_sims, 0)),
        theta=np.empty((sims.n_sims, 0)),
        x=None,
        names=(),
    )
    densities._known.box, densities._known.centres = (np.empty(0), np.empty(0)), None
    return densities


def bare(sims: Simulations) -> Simulations:
    """Return a single simulation on the host, without draws of weight zero.

    Weights that are all the same are dropped too.
    """
    on_host = {name: np.asarray(arrays.host(array)) for name, array in sims._by_name.items()}
    alone = sims._with(**on_host)
    if alone.log_weights is None:
        return alone
    there = np.flatnonzero(alone.log_weights[:, 0] > -np.inf)
    alone._set(**{name: a[there] for name, a in alone._by_name.items() if _AXES[name] == 1})
    own = alone.log_weights_theta
    if own is not None and (alone.log_weights == own).all():
        alone._set(log_weights=None, log_weights_theta=None)
    return alone

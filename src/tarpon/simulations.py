"""Simulations: truths, the posterior draws for each, and what was observed."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from . import _arrays, _check, _stored, _unequal, backends
from ._stored import Stored
from ._types import RNG, Array, ArrayLike, Floats
from ._unequal import Draws
from .blocks import Block
from .engine import Engine, Results, Run, joined

_BLOCK_BYTES = 4 * 2**20
_DEVICE_BLOCK_BYTES = 128 * 2**20
# What simulations hold, by name, with the axis that counts them.
_AXES = {
    "samples": 1,
    "theta": 0,
    "x": 0,
    "log_prob_samples": 1,
    "log_prob_theta": 0,
    "log_weights": 1,
    "log_weights_theta": 0,
}
_AHEAD = 2  # pieces that are read from disk before they are needed
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
            self._set(**_unequal.dense({name: getattr(self, name) for name in _AXES}, offsets))
        samples, theta = _check.points(self.samples, self.theta)
        n_draws, n_sims, n_dims = samples.shape
        draws, truths = _check.log_probs(
            self.log_prob_samples, self.log_prob_theta, n_draws, n_sims
        )
        weights, own = _check.log_weights(
            self.log_weights, self.log_weights_theta, (n_draws, n_sims)
        )
        self._set(
            samples=samples,
            theta=theta,
            x=_check.observations(self.x, n_sims),
            log_prob_samples=draws,
            log_prob_theta=truths,
            log_weights=weights,
            log_weights_theta=own,
            names=_check.names(self.names, n_dims),
        )
        if self.at_hand:
            self._set(_box=self._pooled_box())
            self._drop(self._invalid(self.box))
        _check.warn_if_square_and_swapped(self.samples)

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
            log_prob_samples, log_prob_theta = _check.log_probs(
                log_prob_samples, log_prob_theta, None, None
            )
        n_sims = len(log_prob_theta)
        listed = _unequal.by_simulation(log_prob_samples, n_sims)
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
        return int(self.samples.shape[0])

    @property
    def n_sims(self) -> int:
        return int(self.samples.shape[1])

    @property
    def n_dims(self) -> int:
        return int(self.samples.shape[2])

    @property
    def weighted(self) -> bool:
        """Whether draws weigh differently, those that are not there nothing."""
        return self.log_weights is not None

    @property
    def draws(self) -> Draws:
        """How many draws there are, and how many they are worth."""
        return _unequal.draws(self.log_weights, self.n_draws, approximate=self.resampled)

    @property
    def where(self) -> slice:
        """Which of all simulations these are."""
        return slice(self.start, self.start + self.n_sims)

    @property
    def at_hand(self) -> bool:
        """Whether everything is in memory."""
        return not any(isinstance(array, Stored) for _, array, _ in self._by_axis())

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
        if self.weighted or _arrays.package(self.samples) == "jax":
            return np.concatenate([_arrays.host(block.centre) for block in self.blocks()])
        double = _arrays.namespace(self.samples).float64
        total = self.samples.sum(axis=0, dtype=double) + self.theta
        return _arrays.host(total / (self.n_draws + 1))

    def log_probs(self) -> tuple[Array, Array]:
        """Return the log-densities of the draws and of the truths."""
        draws, truths = self.log_prob_samples, self.log_prob_theta
        if truths is None or draws is None:
            raise ValueError(
                "highest-density regions need the estimator's log-densities: pass "
                "`log_prob_samples=` (n_draws, n_sims) and `log_prob_theta=` (n_sims,)."
            )
        return draws, _arrays.alike(truths, draws)

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
            found = joined(self.points_alone().each("held", partial(_last_draws, n=n)))
            held = found["draws"].swapaxes(0, 1)
        left = copy(self)
        left._set(samples=_first(self.samples, -n), _centres=None)
        if self.log_prob_samples is not None:
            left._set(log_prob_samples=_first(self.log_prob_samples, -n))
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
        some = copy(self)
        some._set(
            log_weights=_unequal.accepted(self.log_weights, rng),
            log_weights_theta=np.zeros(self.n_sims, np.float32),
            resampled=True,
            _centres=None,
        )
        return some

    def without(self, *names: str) -> "Simulations":
        """Return the simulations without some of what is known of them, so that it is not read."""
        some = copy(self)
        some._set(**dict.fromkeys(names))
        return some

    def points_alone(self) -> "Simulations":
        """Return the simulations without observations and log-densities."""
        return self.without("x", "log_prob_samples", "log_prob_theta")

    def densities_alone(self) -> "Simulations":
        """Return the simulations without observations and points."""
        some, nothing = copy(self), (self.n_draws, self.n_sims, 0)
        some._set(samples=np.empty(nothing), theta=np.empty(nothing[1:]), x=None, names=())
        some._set(_box=(np.empty(0), np.empty(0)), _centres=None)
        return some

    def step(self, n_bytes: int = 0) -> int:
        """Return how many simulations make up a part, or so many bytes: a power of two.

        It depends on nothing but the number of draws and parameters, so that blocks are the same
        wherever the draws are and whoever computes. As a power of two it goes well with chunks.
        """
        row = 8 * (self.n_draws + 1) * max(self.n_dims, 1)
        return 1 << max(1, (n_bytes or self.part_bytes) // row).bit_length() - 1

    def blocks(self, n_bytes: int = 0) -> "Iterator[Block]":
        """Yield the simulations a few at a time, so that copies of a block stay small.

        The truth is the first point of each simulation.
        """
        default = _DEVICE_BLOCK_BYTES if _arrays.on_device(self.samples) else _BLOCK_BYTES
        step = self.step(n_bytes or default)
        for start in range(0, self.n_sims, step):
            n_block = min(step, self.n_sims - start)
            where = slice(self.start + start, self.start + start + n_block)
            yield Block(self, where, np.zeros(n_block, dtype=np.int64))

    def each(
        self,
        name: str,
        function: Callable[..., Results],
        *,
        n_bytes: int = 0,
        given: Callable[[slice], Mapping[str, Any]] | None = None,
        final: bool = False,
    ) -> Iterator[Results]:
        """Yield what a function returns for each part of the simulations, in their order.

        Arguments:
            name: What is computed; results are kept under it.
            function: Takes simulations, to be had from their `pieces`, and what is `given`.
            n_bytes: The smallest size of a part.
            given: What else the function needs for the part at a slice, by name.
            final: Whether shards may stop here.
        """
        if self.run.engine.executor is not None and _arrays.on_device(self.samples):
            raise ValueError(
                "samples on an accelerator are tested where they are: leave the executor out, or "
                "bring them to the CPU first."
            )
        step = self.step(max(n_bytes, self.part_bytes))
        starts = range(0, self.n_sims, step)

        def task(k: int) -> tuple[Simulations, Mapping[str, Any]]:
            where = slice(starts[k], min(starts[k] + step, self.n_sims))
            part = self.part(where)
            if self.run.engine.executor is not None and not part._portable:
                part = part._fetched()
            return part, {} if given is None else given(where)

        invalid = np.zeros(self.n_sims, dtype=bool)
        for results in self.run.each(
            name, partial(_on_part, function), task, len(starts), final=final
        ):
            if "invalid" in results:
                invalid[results["invalid"]] = True
            else:
                yield results
        _stored.forget()
        if not self._checked:
            _check.refuse_invalid(invalid, "raise")
            self._set(_checked=True)

    def part(self, where: slice) -> "Simulations":
        """Return some of the simulations; what is stored is not read."""
        some = copy(self)
        some._set(start=self.start + where.start, run=_HERE, _centres=None)
        some._set(**{name: _cut(array, where, axis) for name, array, axis in self._by_axis()})
        return some

    def pieces(self, *, by_chunk: bool = False) -> "Iterator[Simulations]":
        """Yield the simulations a few at a time, read and checked.

        Arguments:
            by_chunk: Whether they may be as few as are stored together, which is faster, but
                depends on how they are stored.
        """
        step = self.step()
        if by_chunk and isinstance(self.samples, Stored):
            step = min(step, max(self.samples.chunk, self.step(_BLOCK_BYTES)))
        for start in range(0, self.n_sims, step):
            piece = self.part(slice(start, min(start + step, self.n_sims)))._fetched()
            if isinstance(self.samples, Stored) and start + step < self.n_sims:
                stop = min(start + (1 + _AHEAD) * step, self.n_sims)
                self.samples.window(slice(start + step, stop)).ahead()
            if not piece._checked and piece._invalid(piece._pooled_box()).any():
                raise _InvalidError
            yield piece

    def singles(self) -> "Iterator[Simulations]":
        """Yield the simulations one at a time, read and checked, each as if it had come alone."""
        for start in range(0, self.n_sims, self.step()):
            piece = self.part(slice(start, min(start + self.step(), self.n_sims)))._fetched()
            if not piece._checked:
                piece._drop(piece._invalid(piece._pooled_box()))
            for i in range(piece.n_sims):
                yield piece.part(slice(i, i + 1)).bare()

    def bare(self) -> "Simulations":
        """Return a single simulation on the host, without draws that weigh nothing.

        Weights that are all the same are left out too.
        """
        alone = copy(self)
        alone._set(**{name: np.asarray(_arrays.host(array)) for name, array, _ in self._by_axis()})
        if alone.log_weights is None:
            return alone
        there = np.flatnonzero(alone.log_weights[:, 0] > -np.inf)
        alone._set(**{name: array[there] for name, array, axis in alone._by_axis() if axis == 1})
        own = alone.log_weights_theta
        if own is not None and (alone.log_weights == own).all():
            alone._set(log_weights=None, log_weights_theta=None)
        return alone

    def on(self, run: Run) -> "Simulations":
        """Return the simulations, to be gone over by an engine at work."""
        bound = copy(self)
        bound._set(run=run)
        if not self._checked and self.on_invalid == "drop":
            bound._set(_checked=True)
            found = joined(bound.each("valid", _valid))
            bound._set(_checked=False)
            bound._drop(~found["valid"])
        return bound

    def digest(self) -> str:
        """Return a fingerprint: sizes, all truths, and three of the simulations."""
        some = {0, self.n_sims // 2, self.n_sims - 1}
        hashed = hashlib.sha256(repr((self.names, self.n_draws, self.part_bytes)).encode())
        for _, array, axis in self._by_axis():
            hashed.update(repr((array.shape, str(array.dtype))).encode())
            for i in sorted(some) if axis or array is self.x else (slice(None),):
                where = i if isinstance(i, slice) else slice(i, i + 1)
                cut = array[:, where] if axis else array[where]
                hashed.update(np.ascontiguousarray(_arrays.host(cut)).tobytes())
        return hashed.hexdigest()

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _by_axis(self) -> Iterator[tuple[str, Any, int]]:
        """Yield what there is, by name, with the axis that counts the simulations."""
        for name, axis in _AXES.items():
            array = getattr(self, name)
            if array is not None:
                yield name, array, axis

    @property
    def _portable(self) -> bool:
        arrays = (array for _, array, _ in self._by_axis())
        return all(array.portable for array in arrays if isinstance(array, Stored))

    def _fetched(self) -> "Simulations":
        """Return the simulations with all that is stored read."""
        stored = {name: array for name, array, _ in self._by_axis() if isinstance(array, Stored)}
        fetched = copy(self)
        fetched._set(**{name: array.read() for name, array in stored.items()})
        return fetched

    def _scan(self, *, centres: bool) -> None:
        """Go over what is stored, and remember its box, and its centres where wanted."""
        points = self.points_alone()
        name = "centres" if centres else "box"
        found = joined(points.each(name, partial(_ends, centres=centres)))
        self._set(_box=(found["low"].min(axis=0), found["high"].max(axis=0)))
        if centres:
            self._set(_centres=found["centres"])
        self._set(_checked=self._checked or self.log_prob_samples is None)

    def _pooled_box(self) -> tuple[Array, Array]:
        # Truths and draws must enter alike: a box around the truths alone tells them apart,
        # and the ranks of an exact posterior are then no longer uniform.
        if not self.n_dims:
            return np.empty(0), np.empty(0)
        low, high = backends.of(self.samples).extent(self.samples)
        xp = _arrays.namespace(self.theta)
        least, most = (_arrays.host(end(self.theta, axis=0)) for end in (xp.amin, xp.amax))
        return np.minimum(low, least), np.maximum(high, most)

    def _invalid(self, box: tuple[Array, Array]) -> Array:
        """Return which simulations hold NaN or infinite values; the box has seen any there are."""
        invalid = np.zeros(self.n_sims, dtype=bool)
        if not all(np.isfinite(corner).all() for corner in box):
            for block in self.blocks():
                finite = _arrays.namespace(block.points).isfinite(block.points)
                invalid[block.here] = ~_arrays.host(finite.all(axis=2).all(axis=0))
        if self.log_prob_samples is not None and self.log_prob_theta is not None:
            # A density of zero is an answer; an infinite one, or none at all, is a failure.
            for log_prob in (self.log_prob_samples, self.log_prob_theta[None]):
                bad = (log_prob != log_prob) | (log_prob == np.inf)
                invalid |= _arrays.host(bad.any(axis=0))
        if self.log_weights is not None:
            finite = (self.log_weights < np.inf).all(axis=0)
            invalid |= ~(finite & (self.log_weights > -np.inf).any(axis=0))
        if self.log_weights_theta is not None:
            invalid |= ~(self.log_weights_theta < np.inf)
        return invalid

    def _drop(self, invalid: Array) -> None:
        """Refuse invalid simulations, or leave them out."""
        _check.refuse_invalid(invalid, self.on_invalid)
        if invalid.any():
            kept = {name: _keep(array, ~invalid, axis) for name, array, axis in self._by_axis()}
            self._set(**kept, n_dropped=int(invalid.sum()), _box=None)
            if self.at_hand:
                self._set(_box=self._pooled_box())
        self._set(_checked=True)

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Simulations({self.n_sims} simulations, {self.draws} each, "
            f"{self.n_dims} parameters{dropped})"
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


def begin(
    test: str, sims: Simulations, engine: Engine, rng: RNG, **settings: Any
) -> tuple[Simulations, int]:
    """Begin a test: return the simulations for its engine to go over, and its seed.

    Arguments:
        test: The name of the test.
        sims: The simulations.
        engine: Where it is computed.
        rng: What the seed is made of.
        settings: What else its results depend on.
    """
    run = engine.start(
        lambda: {
            "test": test,
            "data": sims.digest(),
            "on_invalid": sims.on_invalid,
            "settings": settings,
        },
        rng,
    )
    return sims.on(run).equalised(np.random.default_rng([run.seed, 1])), run.seed


class _InvalidError(Exception):
    """Simulations hold NaN or infinite values."""


def _on_part(
    function: Callable[..., Results], task: tuple[Simulations, Mapping[str, Any]]
) -> Results:
    """Call a function on a part, or say which of its simulations are invalid."""
    part, given = task
    try:
        return function(part, **given)
    except _InvalidError:
        return {"invalid": part.start + np.flatnonzero(~_valid(part)["valid"])}


def _valid(part: Simulations) -> Results:
    unchecked = copy(part)
    unchecked._set(_checked=True)  # or the pieces would raise
    invalid = [piece._invalid(piece._pooled_box()) for piece in unchecked.pieces(by_chunk=True)]
    return {"valid": ~np.concatenate(invalid)}


def _ends(part: Simulations, *, centres: bool) -> Results:
    """Return the corners of a part's box, and the centre of each of its simulations."""
    unchecked, found = copy(part), []
    unchecked._set(_checked=True)
    for piece in unchecked.pieces(by_chunk=True):
        low, high = piece._pooled_box()
        if not part._checked and piece._invalid((low, high)).any():
            raise _InvalidError
        found.append({"low": low[None], "high": high[None]})
        if centres:
            found[-1]["centres"] = piece.centres()
    return joined(found)


def _last_draws(part: Simulations, *, n: int) -> Results:
    return joined({"draws": piece.samples[-n:].swapaxes(0, 1)} for piece in part.pieces())


def _cut(array: Any, where: slice, axis: int) -> Any:
    if isinstance(array, Stored):
        return array.window(where)
    return array[:, where] if axis else array[where]


def _keep(array: Any, kept: Array, axis: int) -> Any:
    if isinstance(array, Stored):
        return array.keep(kept)
    every = np.flatnonzero(kept)
    return array[:, every] if axis else array[every]


def _first(array: Any, stop: int) -> Any:
    if isinstance(array, Stored):
        return array.first(array.shape[0] + stop)
    return array[:stop]

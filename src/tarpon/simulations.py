"""Simulations: truths, the posterior draws for each, and what was observed."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from . import _arrays, _check, backends
from ._types import Array, ArrayLike, Floats, Ints
from ._whiten import replaced, whiten

_BLOCK_BYTES = 4 * 2**20
_DEVICE_BLOCK_BYTES = 128 * 2**20


@dataclass(frozen=True, eq=False)
class Simulations:
    r"""Truths :math:`\theta^*_i`, draws :math:`\theta_{ij}` and observations :math:`x_i`.

    Everything is checked here, once; nothing is modified, clipped or dropped in silence.
    One parameter may come without its last axis.

    Samples on an accelerator (torch, JAX, CuPy) stay there, and truths go to them. Arrays on
    the CPU are used without a copy, except that bfloat16, which NumPy lacks, becomes float32.

    Arguments:
        samples: The posterior draws, draws first, of shape `(n_draws, n_sims, n_dims)`.
        theta: The true parameters, of shape `(n_sims, n_dims)`.
        x: What was observed, of shape `(n_sims, ...)`.
        log_prob_samples: The estimator's log-density of its draws, `(n_draws, n_sims)`, up to a
            constant that may differ between simulations.
        log_prob_theta: The same of the truths, `(n_sims,)`.
        names: One name a parameter.
        on_invalid: What to do with simulations that hold NaN or infinite values: `"raise"`, or
            `"drop"` to leave them out and count them in `n_dropped`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> Simulations(rng.normal(size=(99, 20, 3)), rng.normal(size=(20, 3)))
        Simulations(20 simulations, 99 draws each, 3 parameters)
    """

    samples: Array
    theta: Array
    _: KW_ONLY
    x: Array | None = None
    log_prob_samples: Array | None = None
    log_prob_theta: Array | None = None
    names: Sequence[str] | None = None
    on_invalid: str = "raise"
    n_dropped: int = field(default=0, init=False)
    box: tuple[Array, Array] = field(init=False)
    """The corners `(low, high)` of the box that holds every truth and every draw."""

    def __post_init__(self) -> None:
        samples, theta = _check.points(self.samples, self.theta)
        n_draws, n_sims, n_dims = samples.shape
        draws, truths = _check.log_probs(
            self.log_prob_samples, self.log_prob_theta, n_draws, n_sims
        )
        self._set(
            samples=samples,
            theta=theta,
            x=_check.observations(self.x, n_sims),
            log_prob_samples=draws,
            log_prob_theta=truths,
            names=_check.names(self.names, n_dims),
        )
        self._set(box=self._pooled_box())
        invalid = self._invalid()
        _check.refuse_invalid(invalid, self.on_invalid)
        if invalid.any():
            self._drop(invalid)
        _check.warn_if_square_and_swapped(self.samples)

    @classmethod
    def of_densities(
        cls, log_prob_samples: ArrayLike, log_prob_theta: ArrayLike, *, on_invalid: str = "raise"
    ) -> Self:
        """Return simulations of which only the log-densities are known, with no parameters."""
        draws, truths = _check.log_probs(log_prob_samples, log_prob_theta, None, None)
        assert draws is not None
        return cls(
            np.empty((*draws.shape, 0)),
            np.empty((draws.shape[1], 0)),
            log_prob_samples=draws,
            log_prob_theta=truths,
            on_invalid=on_invalid,
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

    def width(self) -> Floats:
        """Return the sides of the box, 1 for parameters that never vary, `(n_dims,)`."""
        low, high = (np.asarray(corner, dtype=float) for corner in self.box)
        return np.where(high > low, high - low, 1.0)

    def centres(self) -> Floats:
        """Return the mean of each simulation's points, truth and draws together."""
        if _arrays.package(self.samples) == "jax":
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
        if self.n_draws <= n:
            raise ValueError(
                f"holding out {n} of {self.n_draws} draws leaves none to rank: draw more."
            )
        left = copy(self)
        left._set(samples=self.samples[:-n])
        if self.log_prob_samples is not None:
            left._set(log_prob_samples=self.log_prob_samples[:-n])
        return left, self.samples[-n:]

    def blocks(self, rng: Generator | None = None, n_bytes: int = 0) -> "Iterator[Block]":
        """Yield the simulations a few at a time, so that copies of a block stay small.

        The truth is the first point of each simulation, or with a generator any of them.
        """
        row = 8 * (self.n_draws + 1) * max(self.n_dims, 1)
        default = _DEVICE_BLOCK_BYTES if _arrays.on_device(self.samples) else _BLOCK_BYTES
        step = max(1, (n_bytes or default) // row)
        for start in range(0, self.n_sims, step):
            where = slice(start, min(start + step, self.n_sims))
            n_block = where.stop - where.start
            truth = np.zeros(n_block, dtype=np.int64)
            if rng is not None:
                truth = rng.integers(self.n_draws, size=n_block, endpoint=True)
            yield Block(self, where, truth)

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _pooled_box(self) -> tuple[Array, Array]:
        # Truths and draws must enter alike: a box around the truths alone tells them apart,
        # and the ranks of an exact posterior are then no longer uniform.
        if not self.n_dims:
            return np.empty(0), np.empty(0)
        low, high = backends.of(self.samples).extent(self.samples)
        xp = _arrays.namespace(self.theta)
        least, most = (_arrays.host(end(self.theta, axis=0)) for end in (xp.amin, xp.amax))
        return np.minimum(low, least), np.maximum(high, most)

    def _invalid(self) -> Array:
        """Return which simulations hold NaN or infinite values; the box has seen any there are."""
        invalid = np.zeros(self.n_sims, dtype=bool)
        if not all(np.isfinite(corner).all() for corner in self.box):
            for block in self.blocks():
                finite = _arrays.namespace(block.points).isfinite(block.points)
                invalid[block.where] = ~_arrays.host(finite.all(axis=2).all(axis=0))
        if self.log_prob_samples is not None and self.log_prob_theta is not None:
            # A density of zero is an answer; an infinite one, or none at all, is a failure.
            for log_prob in (self.log_prob_samples, self.log_prob_theta[None]):
                bad = (log_prob != log_prob) | (log_prob == np.inf)
                invalid |= _arrays.host(bad.any(axis=0))
        return invalid

    def _drop(self, invalid: Array) -> None:
        kept = np.flatnonzero(~invalid)
        self._set(
            samples=self.samples[:, kept],
            theta=self.theta[kept],
            x=None if self.x is None else self.x[kept],
            n_dropped=int(invalid.sum()),
        )
        if self.log_prob_samples is not None and self.log_prob_theta is not None:
            self._set(
                log_prob_samples=self.log_prob_samples[:, kept],
                log_prob_theta=self.log_prob_theta[kept],
            )
        self._set(box=self._pooled_box())

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Simulations({self.n_sims} simulations, {self.n_draws} draws each, "
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


@dataclass(frozen=True, eq=False)
class Block:
    """A few simulations, each truth pooled with its draws: what scores are made of.

    A region sees only the pooled points and must treat all of them alike.

    Arguments:
        sims: The simulations.
        where: Which of them the block holds.
        truth: The place of each truth among its points, of shape `(n_block,)`.
        played: The pooled points that extra ones stand for, `(n_extra, n_block)`, if any.
    """

    sims: Simulations
    where: slice
    truth: Ints
    played: Ints | None = None

    @property
    def n_points(self) -> int:
        """The number of pooled points of each simulation."""
        return self.sims.n_draws + 1

    @cached_property
    def points(self) -> Array:
        """The truths and draws, and extra points if any, `(n_points, n_block, n_dims)`."""
        return self.pool(self.sims.theta, self.sims.samples)

    def extended(self, extra: Array, played: Ints) -> "Block":
        """Return the block with more points to be scored along, `(n_extra, n_block, n_dims)`.

        They stand for the points `played`, and must not change the scores of the others.
        """
        both = _arrays.namespace(extra).concatenate(
            [self.points.swapaxes(0, 1), extra.swapaxes(0, 1)], axis=1
        )
        longer = Block(self.sims, self.where, self.truth, played)
        # What is known of the pooled points is not computed again.
        vars(longer).update(points=both.swapaxes(0, 1), centre=self.centre, spread=self.spread)
        return longer

    @property
    def pooled(self) -> Array:
        """The truths and draws alone: what scales, centres and references are made of."""
        return self.points[: self.n_points]

    @cached_property
    def centre(self) -> Floats:
        """The mean of the points of each simulation, of shape `(n_block, n_dims)`."""
        return self.pooled.mean(axis=0, dtype=_arrays.namespace(self.points).float64)

    @cached_property
    def spread(self) -> Floats:
        """Their standard deviation, 1 for parameters that do not vary, `(n_block, n_dims)`."""
        about = self.pooled - self.centre
        about *= about
        sd = about.mean(axis=0) ** 0.5
        return _arrays.namespace(sd).where(sd > 0, sd, 1.0)

    @cached_property
    def whitened(self) -> Floats:
        """The points about their centre, decorrelated and in units of their spread."""
        y = whiten(self.points, self.n_points, self.centre, self.spread)
        return y if self.played is None else replaced(y, self.n_points, self.played)

    @cached_property
    def log_prob(self) -> Array:
        """The log-densities of the points, of shape `(n_points, n_block)`."""
        draws, truths = self.sims.log_probs()
        return self.pool(truths, draws)

    @property
    def x(self) -> Array | None:
        """The observations of the block, of shape `(n_block, ...)`."""
        return None if self.sims.x is None else self.sims.x[self.where]

    def pool(self, truths: Array, draws: Array) -> Array:
        """Return numbers of truths `(n_sims, ...)` and draws `(n_draws, n_sims, ...)`, pooled.

        Truths go to their places, and the draws that were there to the end.
        """
        truths, draws = truths[self.where], draws[:, self.where]
        return backends.engine(draws).pool(truths, draws, self.truth)

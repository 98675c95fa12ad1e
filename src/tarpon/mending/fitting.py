"""The map of a repair: its units and steps, each kept only if it gains on held-out simulations."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator

from .._base import threads
from .._base.types import Array, Floats, Ints
from . import keeping
from .keeping import Keep
from .moving import Move
from .whitening import Frame, Whitening, n_held_out

_N_FOLDS = 4
# Standard errors that a gain must exceed. A move is shrunk by its noise already.
_MOVE_SURE, _KEEP_SURE, _BETTER_SURE, _CLEAR = -1.0, 1.5, 1.5, 2.0
_BEYOND_SURE = 3.0  # standard errors by which truths must lie beyond their draws too often
_N_MOVED, _RIDGE_MOVED = 8, 3.0  # draws and penalty of the score of a move


@dataclass(frozen=True)
class Step:
    """A step that was tried.

    Arguments:
        name: "move" or "keep".
        used: Whether the step is part of the repair.
        gain: Gain per simulation on those that were held out, in nats.
        error: Standard error of the gain.
    """

    name: str
    used: bool
    gain: float
    error: float


@dataclass(frozen=True, eq=False)
class Map:
    """A fitted repair, which acts on a draw through its data and held-out draws only.

    Arguments:
        n_held: Number of draws of a simulation that are held out for its units.
        whitening: Units of posteriors.
        move: First step, or None.
        keep: Second step, or None.
        steps: Both steps with their gains.
        lost: Share of the posterior where draws are missing.
    """

    n_held: int
    whitening: Whitening
    move: Move | None
    keep: Keep | None
    steps: tuple[Step, ...]
    lost: float

    @classmethod
    def fit(cls, samples: Array, theta: Array, x: Array | None, rng: Generator) -> "Map":
        """Return the map fitted to these simulations."""
        n_held = n_held_out(len(samples))
        held_out, draws = _parted(samples, n_held)
        whitening = Whitening.fit(held_out, x)
        frame = whitening(held_out, x)
        truths = frame.scaled(np.asarray(theta, dtype=float))
        folds = rng.permutation(len(truths)) % _N_FOLDS
        fitting = _Fitting(whitening, frame, truths, frame.scaled(draws), folds)
        with threads.one_thread_each():  # products so small are several times as quick
            move, keep, steps, lost = fitting.steps()
        return cls(n_held, whitening, move, keep, steps, lost)

    def __call__(self, samples: Array, x: Array | None, rng: Generator) -> tuple[Floats, Array]:
        """Return moved draws `(n_draws, n_sims, n_dims)`, and which of them are kept."""
        held_out, draws = _parted(samples, self.n_held)
        frame = self.whitening(held_out, x)
        held_out, draws = frame.scaled(held_out), frame.scaled(draws)
        if self.move is not None:
            held_out, draws = self.move(frame, held_out), self.move(frame, draws)
        kept = np.ones(draws.shape[:2], dtype=bool)
        if self.keep is not None:
            both = (self.terms(frame, points) for points in (held_out, draws))
            kept = rng.uniform(size=kept.shape) < self.keep.probabilities(*both)
        return frame.mean + frame.sd * draws, kept

    def terms(self, frame: Frame, points: Floats) -> Floats:
        """Return the functions of moved points, in units of the frame, that keeping reads."""
        return _terms(frame, points, self.move, self.whitening.linear)


@dataclass(frozen=True, eq=False)
class _Moved:
    """A first step as it was fitted, and its gains on simulations that were held out."""

    move: Move
    gains: Floats


@dataclass(frozen=True, eq=False)
class _Kept:
    """A second step as it was fitted, its gains, and how much of the posterior it removes."""

    keep: Keep
    gains: Floats
    lost: float


@dataclass(frozen=True, eq=False)
class _Fitting:
    """Simulations in their units, and the folds that judge steps."""

    whitening: Whitening
    frame: Frame
    truths: Floats
    draws: Floats
    folds: Ints

    def steps(self) -> tuple[Move | None, Keep | None, tuple[Step, ...], float]:
        """Return the steps that gain, all that were tried, and the share that is missing.

        Moving costs no draws, so it comes first. But it may harm what keeping mends, for example a
        few draws far off: if keeping alone is clearly better, draws are not moved.
        """
        moved, alone = self.moved(), self.kept(None)
        moves = _gains(moved.gains, _MOVE_SURE)
        after = self.kept(moved.move) if moves else alone
        together = moved.gains
        if _gains(moved.gains, _CLEAR) and _gains(after.gains, _CLEAR):
            together = moved.gains + after.gains
        if moves and _gains(alone.gains - together, _BETTER_SURE):
            moves, after = False, alone
        keeps = _gains(after.gains, _CLEAR if moves else _KEEP_SURE)
        move, keep = moved.move if moves else None, after.keep if keeps else None
        steps = (_step("move", moves, moved.gains), _step("keep", keeps, after.gains))
        lost = max(after.lost if keeps else 0.0, self._beyond(move))
        return move, keep, steps, lost

    def moved(self) -> _Moved:
        """Return the first step.

        Its gain is the mean log-ratio of the density of moved draws to that of draws, at truths
        that were held out. A log-linear score that tells moved draws from draws gives it, less
        what the same score of draws that are not moved would give.
        """
        gains = np.zeros(len(self.truths))
        few = self.draws[: keeping.n_fitted(self.truths.shape[1])]
        half = len(few) // 2
        some = few[half : half + _N_MOVED]
        of_truths, of_draws = self._terms(self.truths), self._terms(few[:half])

        def score(moved: Floats) -> Floats:
            ratio = Keep.fit(self._terms(moved), of_draws, _RIDGE_MOVED)
            return ratio.gains(of_truths, of_draws)

        still = score(some)
        for seen, new in self._folds():
            move = self._move(seen)
            gains[new] = (score(move(self.frame, some)) - still)[new]
        return _Moved(self._move(np.ones(len(gains), dtype=bool)), gains)

    def kept(self, move: Move | None) -> _Kept:
        """Return the second step after a move, of the family and penalty that gain most."""
        draws = self.draws if move is None else move(self.frame, self.draws)
        of_truths = self._terms(self.truths, move)
        of_draws = self._terms(draws[: keeping.n_fitted(self.truths.shape[1])], move)
        tried: dict[tuple[int, float], tuple[Floats, float]] = {}
        sizes = self.truths.shape[1], self.whitening.data.n_directions
        for family in keeping.families(*sizes):
            highest = -np.inf
            for n_used, ridge in family:
                gains, lost = np.zeros((2, len(self.truths)))
                for seen, new in self._folds():
                    keep = Keep.fit(of_truths[seen], of_draws[:, seen], ridge, n_used)
                    gains[new] = keep.gains(of_truths[new], of_draws[:, new])
                    lost[new] = keep.lost(of_truths[new], of_draws[:, new])
                tried[n_used, ridge] = gains, float(lost.mean())
                if gains.mean() < highest:  # with smaller penalties it only becomes worse
                    break
                highest = gains.mean()
        best = max(tried, key=lambda one: float(tried[one][0].mean()))
        return _Kept(Keep.fit(of_truths, of_draws, best[1], best[0]), *tried[best])

    def _move(self, seen: Array) -> Move:
        return Move.fit(self.frame[seen], self.truths[seen], self.draws[:, seen], self.whitening)

    def _beyond(self, move: Move | None) -> float:
        """Return the share of truths beyond all draws in some parameter, more than by chance."""
        draws = self.draws if move is None else move(self.frame, self.draws)
        beyond = (self.truths < draws.min(axis=0)) | (self.truths > draws.max(axis=0))
        usual = 2 / (len(draws) + 1)
        more = float(beyond.mean(axis=0).max()) - usual
        return more if more > _BEYOND_SURE * sqrt(usual / len(self.truths)) else 0.0

    def _folds(self) -> Iterator[tuple[Array, Array]]:
        for fold in range(_N_FOLDS):
            yield self.folds != fold, self.folds == fold

    def _terms(self, points: Floats, move: Move | None = None) -> Floats:
        return _terms(self.frame, points, move, self.whitening.linear)


def _parted(samples: Array, n_held: int) -> tuple[Floats, Floats]:
    """Return the draws that are held out, and the others."""
    whole = np.asarray(samples, dtype=float)
    return whole[:n_held], whole[n_held:]


def _terms(frame: Frame, points: Floats, move: Move | None, linear: slice) -> Floats:
    white = frame.whitened(points) if move is None else move.whitened(frame, points)
    return keeping.terms(white, frame.features[:, linear])


def _gains(gains: Floats, sure: float) -> bool:
    """Return whether the mean of gains exceeds some standard errors of it."""
    return bool(gains.mean() > sure * gains.std() / sqrt(len(gains)))


def _step(name: str, used: bool, gains: Floats) -> Step:
    return Step(name, used, float(gains.mean()), float(gains.std() / sqrt(len(gains))))

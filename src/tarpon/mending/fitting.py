"""The map of a repair: its units and steps, each kept only if it gains on held-out simulations."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.random import Generator

from .._base.types import Array, Floats, Ints
from . import keeping
from .keeping import Keep
from .moving import Move
from .whitening import Frame, Whitening, n_held_out

_N_FOLDS = 4
# Standard errors that a gain must exceed. A move is shrunk by its noise already.
_MOVE_SURE, _KEEP_SURE = -0.5, 0.7
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
        """Return the map fitted to these simulations.

        Moving may harm what keeping would mend, for example a few draws far off. So both are tried
        together, and keeping alone.
        """
        n_held = n_held_out(len(samples))
        held_out, draws = _parted(samples, n_held)
        whitening = Whitening.fit(held_out, x)
        frame = whitening(held_out, x)
        truths = frame.scaled(np.asarray(theta, dtype=float))
        folds = rng.permutation(len(truths)) % _N_FOLDS
        fitting = _Fitting(whitening, frame, truths, frame.scaled(draws), folds)
        move, moving = fitting.moved()
        alone = fitting.kept(None)
        if move is not None:
            both = fitting.kept(move)
            if max(moving.gain, 0) + max(both.step.gain, 0) >= max(alone.step.gain, 0):
                return cls(n_held, whitening, move, both.keep, (moving, both.step), both.lost)
        moving = replace(moving, used=False)
        return cls(n_held, whitening, None, alone.keep, (moving, alone.step), alone.lost)

    def __call__(self, samples: Array, x: Array | None, rng: Generator) -> tuple[Floats, Array]:
        """Return moved draws `(n_draws, n_sims, n_dims)`, and which of them are kept."""
        held_out, draws = _parted(samples, self.n_held)
        frame = self.whitening(held_out, x)
        held_out, draws = frame.scaled(held_out), frame.scaled(draws)
        if self.move is not None:
            held_out, draws = self.move(frame, held_out), self.move(frame, draws)
        kept = np.ones(draws.shape[:2], dtype=bool)
        if self.keep is not None:
            linear = self.whitening.linear
            both = (_terms(frame, points, self.move, linear) for points in (held_out, draws))
            kept = rng.uniform(size=kept.shape) < self.keep.probabilities(*both)
        return frame.mean + frame.sd * draws, kept


@dataclass(frozen=True, eq=False)
class _Kept:
    """A second step as it was fitted, and how much of the posterior it cannot reach."""

    keep: Keep | None
    step: Step
    lost: float


@dataclass(frozen=True, eq=False)
class _Fitting:
    """Simulations in their units, and the folds that judge steps."""

    whitening: Whitening
    frame: Frame
    truths: Floats
    draws: Floats
    folds: Ints

    def moved(self) -> tuple[Move | None, Step]:
        """Return the first step if it gains.

        The gain is the mean log-ratio of the density of moved draws to that of draws, at truths
        that were held out. A log-linear score that tells moved draws from draws gives it, less
        what the same score of draws that are not moved would give.
        """
        groups, gains = self.whitening.groups, np.zeros(len(self.truths))
        few = self.draws[: keeping.n_fitted(self.truths.shape[1])]
        half = len(few) // 2
        some = few[half : half + _N_MOVED]
        of_truths, of_draws = self._terms(self.truths), self._terms(few[:half])

        def score(moved: Floats) -> Floats:
            ratio = Keep.fit(self._terms(moved), of_draws, _RIDGE_MOVED)
            return ratio.gains(of_truths, of_draws)

        still = score(some)
        for seen, new in self._folds():
            move = Move.fit(self.frame[seen], self.truths[seen], self.draws[:, seen], groups)
            gains[new] = (score(move(self.frame, some)) - still)[new]
        step = _step("move", gains, _MOVE_SURE)
        move = Move.fit(self.frame, self.truths, self.draws, groups)
        return move if step.used else None, step

    def kept(self, move: Move | None) -> _Kept:
        """Return the second step after a move, with the penalty that gains most."""
        draws = self.draws if move is None else move(self.frame, self.draws)
        of_truths = self._terms(self.truths, move)
        of_draws = self._terms(draws[: keeping.n_fitted(self.truths.shape[1])], move)
        tried: dict[float, tuple[Floats, float]] = {}
        for ridge in keeping.RIDGES:
            gains, lost = np.zeros((2, len(self.truths)))
            for seen, new in self._folds():
                keep = Keep.fit(of_truths[seen], of_draws[:, seen], ridge)
                gains[new] = keep.gains(of_truths[new], of_draws[:, new])
                lost[new] = keep.lost(of_truths[new], of_draws[:, new])
            tried[ridge] = gains, float(lost.mean())
            best = max(tried, key=lambda ridge: float(tried[ridge][0].mean()))
            if best != ridge:  # with smaller penalties it only becomes worse
                break
        step = _step("keep", tried[best][0], _KEEP_SURE)
        return _Kept(
            Keep.fit(of_truths, of_draws, best) if step.used else None, step, tried[best][1]
        )

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


def _step(name: str, gains: Floats, sure: float) -> Step:
    error = float(gains.std() / sqrt(len(gains)))
    return Step(name, bool(gains.mean() > sure * error), float(gains.mean()), error)

"""The map of a repair: its units and steps, each kept only if it gains on held-out simulations."""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from .._base.types import Array, Floats, Ints
from . import keeping
from .keeping import Keep
from .moving import Move
from .whitening import Frame, Whitening, n_held_out

_N_FOLDS = 4
_MOVE_SURE, _KEEP_SURE = -0.5, 0.3  # standard errors that a gain must exceed


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
    def fit(cls, samples: Array, theta: Array, x: Array | None, rng: np.random.Generator) -> "Map":
        """Return the map fitted to these simulations."""
        n_held = n_held_out(len(samples))
        held_out, draws = _parted(samples, n_held)
        whitening = Whitening.fit(held_out, x)
        frame = whitening(held_out, x)
        truths, draws = frame.scaled(np.asarray(theta, dtype=float)), frame.scaled(draws)
        fitting = _Fitting(whitening, frame, truths, draws, rng.permutation(len(truths)) % _N_FOLDS)
        move, moving = fitting.moved()
        ways = [way for way in (move, None) if way is move or move is not None]
        kept = [fitting.kept(way) for way in ways]
        gains = [
            max(step.gain, 0) + (max(moving.gain, 0) if way is not None else 0)
            for way, (_, step, _) in zip(ways, kept, strict=True)
        ]
        best = int(np.argmax(gains))
        move, (keep, keeping_, lost) = ways[best], kept[best]
        moving = replace(moving, used=move is not None)
        return cls(n_held, whitening, move, keep, (moving, keeping_), lost)

    def __call__(self, samples: Array, x: Array | None, rng: np.random.Generator) -> tuple[Floats, Array]:
        """Return moved draws `(n_draws, n_sims, n_dims)`, and which of them are kept."""
        held_out, draws = _parted(samples, self.n_held)
        frame = self.whitening(held_out, x)
        held_out, draws = frame.scaled(held_out), frame.scaled(draws)
        if self.move is not None:
            held_out, draws = self.move(frame, held_out), self.move(frame, draws)
        kept = np.ones(draws.shape[:2], dtype=bool)
        if self.keep is not None:
            both = (_terms(frame, points, self.move, self.whitening.linear) for points in (held_out, draws))
            kept = rng.uniform(size=kept.shape) < self.keep.probabilities(*both)
        return frame.mean + frame.sd * draws, kept


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

        The gain is the mean log-ratio of the density of moved draws to that of draws at truths that
        were held out, as a log-linear score that tells both apart has it.
        """
        groups, gains = self.whitening.groups, np.zeros(len(self.truths))
        few = self.draws[: keeping.N_DRAWS]
        half = len(few) // 2
        of_truths, of_draws = (self._terms(points) for points in (self.truths, few))
        still = Keep.fit(of_draws[half : half + 8], of_draws[:half], 3.0).gains(of_truths, of_draws)
        for seen, new in self._folds():
            move = Move.fit(self.frame[seen], self.truths[seen], self.draws[:, seen], groups)
            ratio = Keep.fit(
                self._terms(move(self.frame, few[half:half + 8])), of_draws[:half], 3.0
            )
            gains[new] = (ratio.gains(of_truths, of_draws) - still)[new]
        step = _step("move", gains, _MOVE_SURE)
        return (Move.fit(self.frame, self.truths, self.draws, groups) if step.used else None), step

    def kept(self, move: Move | None) -> tuple[Keep | None, Step, float]:
        """Return the second step if it gains, and the share of the posterior that is missing."""
        draws = self.draws if move is None else move(self.frame, self.draws)
        of_truths, of_draws = (self._terms(points, move) for points in (self.truths, draws[: keeping.N_DRAWS]))
        best = None
        for ridge in keeping.RIDGES:
            gains, lost = np.zeros((2, len(self.truths)))
            for seen, new in self._folds():
                keep = Keep.fit(of_truths[seen], of_draws[:, seen], ridge)
                gains[new] = keep.gains(of_truths[new], of_draws[:, new])
                lost[new] = keep.lost(of_truths[new], of_draws[:, new])
            if best is None or gains.mean() > best[0].mean():
                best = gains, lost, ridge
        gains, lost, ridge = best
        step = _step("keep", gains, _KEEP_SURE)
        return (Keep.fit(of_truths, of_draws, ridge) if step.used else None), step, float(lost.mean())

    def _folds(self):
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

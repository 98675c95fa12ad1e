"""Folds: a score that is learned from earlier simulations and tested on later ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from .._base import arguments, arrays, threads
from .._base.arrays import Results, Rows, Window, joined
from .._base.types import Array, Floats, Ints
from ..checks.learned import Features, Judgement
from ..simulations import Simulations, passes
from ..simulations.blocks import Block
from ..simulations.shapes import array, finite
from .products import Products

if TYPE_CHECKING:
    from .adversaries import Adversary, Score

_GROWTH = 1.5  # of the number of simulations that a score is learned from, fold by fold
_N_KEPT = 32  # draws per simulation that are learned from
_MOST_BYTES = 2**28  # of points that are learned from
_BLOCK_BYTES, _LABEL_BYTES = 4 * 2**20, 2**25
_MOST_SUMMARISED = 32  # parameters whose posterior mean and sd are features


@runtime_checkable
class Telling(Protocol):
    """A fitted score whose most important terms are known."""

    @property
    def telling(self) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
        """Products, each as the places of its parameters and of its features."""
        ...


@dataclass(frozen=True)
class Folds:
    r"""A score that is learned from some simulations and tested on others, in growing folds.

    The simulations are put in random order and cut into folds; each fold is half as large as all
    folds before it together. A learner fits a score :math:`f_k` to the folds before fold
    :math:`k`, which is then tested on fold :math:`k` by swapping truths with draws: with
    :math:`J_{bi}` the point that plays the truth of simulation :math:`i` in labelling :math:`b`,
    labelling 0 the real one,

    .. math:: S_b = \sum_{i \in \text{fold } k} f_k(\theta_{i J_{bi}}; x_i), \qquad
              p_k = \frac{\#\{b : S_b > S_0\} + u_k\, \#\{b : S_b = S_0\}}{B + 1} ,

    where :math:`u_k` is uniform. For accurate posteriors each :math:`p_k` is exactly uniform given
    all earlier folds, so the :math:`p_k` are independent, and

    .. math:: p = \bar\Phi\Big(\frac{\sum_k w_k \bar\Phi^{-1}(p_k)}{\sqrt{\sum_k w_k^2}}\Big)

    is exactly uniform, for any learner. The weights :math:`w_k^2` are the number of simulations in
    fold `k` times the number of those before it.

    The learner receives points in units of the mean and sd of their simulation's points, truth and
    draws together. As observations it receives features: the columns of `x`, or 64 principal
    components of more columns, then mean and log sd of each simulation's points (of at most 32
    parameters).

    Arguments:
        learner: Learner, any `Adversary`; by default `Products`.
        n_folds: Number of folds; the first is only learned from.
        n_swaps: Number of swaps per fold.

    Example:
        >>> sims = tarpon.problems.zoo("correlation_missed", n_sims=1000, n_dims=3, rng=0)
        >>> check = tarpon.check(sims, scores={"learned": tarpon.adversaries.Folds()}, rng=0)
        >>> [family.p_value < 1e-6 for family in check.families if "learned" in family.name]
        [True]
    """

    learner: "Adversary" = Products()
    n_folds: int = 6
    n_swaps: int = 999

    def __post_init__(self) -> None:
        wanted = "an object with `fit(theta, samples, x)`, like `tarpon.adversaries.Products()`"
        arguments.function("learner", self.learner, wanted, "fit")
        arguments.positive("n_folds", self.n_folds, 2)
        n_sums = self.n_folds * arguments.positive("n_swaps", self.n_swaps, 19)
        arguments.affordable(64.0 * n_sums, f"`n_swaps` = {self.n_swaps}", "Ask for fewer.")

    def judge(
        self, sims: Simulations, features: Features, rng: Generator, *, stage: str
    ) -> Judgement:
        """Return the p-value of all folds together, and the most important terms in words."""
        order, keep, label, break_ties = rng.spawn(4)
        place = order.permutation(sims.n_sims)  # of each simulation in the random order
        ends = _ends(sims.n_sims, self.n_folds)
        n_learned = max(1, _MOST_BYTES // (4 * (1 + _N_KEPT) * sims.n_dims))
        with threads.one_thread_each():
            keeping = _Keeping(int(keep.integers(2**63)))
            kept = keeping.over(sims, place < n_learned, f"{stage}-kept")
            features = _with_summaries(features, sims, kept["log_sd"])
            by_place = np.argsort(place)[:n_learned]
            points = kept["points"][np.argsort(place[place < n_learned])]
            scores = self._fitted(points, features.values[by_place], ends[:-1])
        scoring = _Scoring(int(label.integers(2**63)), scores, self.n_swaps)
        fold = np.searchsorted(ends, place, side="right") - 1
        p_value = _combined(scoring.over(sims, fold, features.values, stage), ends, break_ties)
        return Judgement(p_value, _words(scores[-1], sims.names or (), features.names))

    def _fitted(self, points: Floats, features: Floats, ends: Ints) -> "list[Score]":
        """Return the scores that are learned from the first simulations, up to each of `ends`."""
        fitted: dict[int, Score] = {}
        for n in (min(int(end), len(points)) for end in ends):
            if n not in fitted:
                truths, draws = points[:n, 0], points[:n, 1:].swapaxes(0, 1)
                score = self.learner.fit(truths, draws, features[:n])
                arguments.function("learner.fit(theta, samples, x)", score, "a function")
                fitted[n] = score
        return [fitted[min(int(end), len(points))] for end in ends]


def _ends(n_sims: int, n_folds: int) -> Ints:
    """Return the number of simulations up to the end of each fold."""
    growing = n_sims * _GROWTH ** -np.arange(n_folds - 1, -1, -1.0)
    return np.unique(np.rint(growing).clip(min=1).astype(np.int64))


@dataclass(frozen=True)
class _Keeping:
    """What is kept of simulations to learn from.

    Arguments:
        seed: Seed of the draws that are kept.
    """

    seed: int

    def over(self, sims: Simulations, chosen: Array, stage: str) -> Results:
        """Return points of the chosen simulations, `(n_chosen, 1 + 32, n_dims)`, truths first.

        Also the log sd of the points of all simulations.
        """

        def extra(where: slice) -> Mapping[str, Rows]:
            return {"chosen": Window(chosen[where], where.start)}

        return joined(passes.each(sims, stage, self.part, extra=extra))

    def part(self, sims: Simulations, *, chosen: Rows) -> Results:
        """Return the same of a part of the simulations."""
        found = []
        for piece in passes.pieces(sims):
            for block in piece.blocks(_BLOCK_BYTES):
                rng = np.random.default_rng([self.seed, block.where.start])
                points = _in_units(block)[_some(block, rng), np.arange(len(block.truth))]
                here = chosen[block.where]
                log_sd = np.log(arrays.host(block.spread)[:, :_MOST_SUMMARISED])
                kept = points.swapaxes(0, 1)[here].astype(np.float32)
                found.append({"points": kept, "log_sd": log_sd})
        return joined(found)


def _in_units(block: Block) -> Floats:
    """Return points in units of the mean and sd of their simulation, on the host."""
    units: Floats = arrays.host((block.points - block.centre) / block.spread)
    return units


def _some(block: Block, rng: Generator) -> Ints:
    """Return the places of the truth and of some draws, chosen by weight, `(1 + 32, n_block)`."""
    if block.weighted:
        draws = block.labels(_N_KEPT, rng)
    else:
        steps = rng.integers(1, block.n_points, size=(_N_KEPT, len(block.truth)))
        draws = (block.truth + steps) % block.n_points
    return np.concatenate([block.truth[None], draws])


def _with_summaries(features: Features, sims: Simulations, log_sd: Floats) -> Features:
    """Return features of the data, and mean and log sd of the points of each simulation."""
    names = tuple(sims.names or ())[:_MOST_SUMMARISED]
    means = np.asarray(sims.centres()[:, :_MOST_SUMMARISED], dtype=float)
    more = [_standard(columns).astype(np.float32) for columns in (means, log_sd)]
    named = (f"{what} of {name}" for what in ("mean", "log sd") for name in names)
    return Features(np.concatenate([features.values, *more], axis=1), (*features.names, *named))


def _standard(columns: Floats) -> Floats:
    """Return columns with mean 0 and sd 1; those that do not vary are zero."""
    about = columns - columns.mean(axis=0)
    sd = about.std(axis=0)
    return about / np.where(sd > 1e-12 * abs(columns).max(axis=0), sd, np.inf)


@dataclass(frozen=True, eq=False)
class _Scoring:
    """The swap test of every fold but the first.

    Arguments:
        seed: Seed of the labellings.
        scores: Learned scores, one per fold.
        n_swaps: Number of swaps.
    """

    seed: int
    scores: "list[Score]"
    n_swaps: int

    def over(self, sims: Simulations, fold: Ints, features: Floats, stage: str) -> Floats:
        """Return the sums of scores, `(n_folds, 1 + n_swaps)`, the real labelling first.

        Arguments:
            sims: Simulations.
            fold: Fold of each simulation, -1 for those that are only learned from.
            features: Features, `(n_sims, n_features)`.
            stage: Name of this pass over the simulations.
        """

        def extra(where: slice) -> Mapping[str, Rows]:
            both = {"fold": fold, "features": features}
            return {name: Window(rows[where], where.start) for name, rows in both.items()}

        parts = passes.each(sims, f"{stage}-scored", self.part, extra=extra)
        return joined(parts)["sums"].sum(axis=0)

    def part(self, sims: Simulations, *, fold: Rows, features: Rows) -> Results:
        """Return the sums of a part of the simulations, `(1, n_folds, 1 + n_swaps)`."""
        sums = np.zeros((len(self.scores), 1 + self.n_swaps))
        # Neither points nor labels of a block may fill the memory.
        n_block = max(1, _LABEL_BYTES // (16 * (1 + self.n_swaps)))
        n_bytes = min(_BLOCK_BYTES, 8 * (sims.n_draws + 1) * sims.n_dims * n_block)
        with threads.one_thread_each():
            for piece in passes.pieces(sims):
                for block in piece.blocks(n_bytes):
                    self._add(sums, block, fold[block.where], features[block.where])
        return {"sums": sums[None]}

    def _add(self, sums: Floats, block: Block, fold: Ints, features: Floats) -> None:
        # Random numbers depend on the block only, never on who computes it or when.
        hide, label = np.random.default_rng([self.seed, block.where.start]).spawn(2)
        block = block.hidden(hide)
        slots = np.concatenate([block.truth[None], block.labels(self.n_swaps, label)])
        points = _in_units(block)
        for k, score in enumerate(self.scores):
            here = np.flatnonzero(fold == k)
            if len(here):
                values = _one_each(score(points[:, here], features[here]), points[:, here].shape)
                sums[k] += np.take_along_axis(values, slots[:, here], axis=0).sum(axis=1)


def _one_each(values: Array, shape: tuple[int, ...]) -> Floats:
    """Return the finite scores of a learner, one per point."""
    values = array("scores", values)
    if values.shape != shape[:2]:
        raise ValueError(
            f"the score of a learner must be one number per point, {shape[:2]} for points of "
            f"shape {shape}, but got {values.shape}."
        )
    return np.asarray(finite("scores of a learner", values), dtype=float)


def _combined(sums: Floats, ends: Ints, rng: Generator) -> float:
    """Return the p-value of all folds, given the sums `(n_folds, n_rows)` of their labellings."""
    from scipy.special import ndtr, ndtri

    above = (sums > sums[:, :1]).sum(axis=1)
    equal = (sums == sums[:, :1]).sum(axis=1)
    p = (above + rng.uniform(size=len(sums)) * equal) / sums.shape[1]
    # Set by the sizes alone: a score learned from twice as many simulations sees twice as much.
    weights = np.sqrt(np.diff(ends) * ends[:-1].astype(float))
    z = -ndtri(p.clip(1e-16, 1 - 1e-16))
    return float(ndtr(-(weights @ z) / np.sqrt(weights @ weights)))


def _words(score: "Score", parameters: Sequence[str], features: Sequence[str]) -> tuple[str, ...]:
    """Return the most important terms of a score, where it offers them."""
    if not isinstance(score, Telling):
        return ()
    terms = [[parameters[k] for k in ofs] + [features[m] for m in by] for ofs, by in score.telling]
    return tuple(" × ".join(_powers(factors)) for factors in terms)


def _powers(factors: Sequence[str]) -> list[str]:
    """Return factors of a product in words, one that comes twice as a square."""
    return [f"{name}²" if factors.count(name) > 1 else name for name in dict.fromkeys(factors)]

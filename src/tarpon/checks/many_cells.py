"""Fields of many cells: the scores of one simulation at a time.

The cells of all points are read twice, and a part that fits into the cache at a time: once for
their moments, and once for everything else.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from .. import backends
from .._base import threads
from .._base.arrays import Results
from .._base.types import Array, Floats, Ints
from ..bases import Bands, Basis
from ..simulations import passes

SMALL, LARGE = 1e-12, 1e12  # sizes between which squares may be of single precision
_VARIES = 1e-9  # of the variance of all points: less of that of draws is rounding
_TOGETHER = 2**19  # bytes of points whose coefficients are computed together


@dataclass(frozen=True, eq=False)
class Grid:
    """Blocks of cells.

    Arguments:
        shape: The shape of a field.
        starts: Where blocks begin along each axis.
    """

    shape: tuple[int, ...]
    starts: tuple[Ints, ...]

    @cached_property
    def columns(self) -> Ints:
        """Where blocks begin along the last axis, and where the last one ends."""
        return np.append(self.starts[-1], self.shape[-1])

    @cached_property
    def rows(self) -> Ints:
        """The first block of each row of cells, among all blocks."""
        first = np.zeros(1, dtype=np.int64)
        for starts, n in zip(self.starts[:-1], self.shape[:-1], strict=True):
            block = np.searchsorted(starts, np.arange(n), side="right") - 1
            first = (first[:, None] * len(starts) + block).ravel()
        return first * len(self.starts[-1])

    @cached_property
    def sizes(self) -> Floats:
        """The number of cells in each block."""
        sizes = np.ones(1)
        for starts, n in zip(self.starts, self.shape, strict=True):
            sizes = (sizes[:, None] * np.diff([*starts, n])).ravel()
        return sizes

    def add(self, fields: Floats, sums: Floats) -> None:
        """Add the cells of flat fields `(n, n_cells)` to the sums of all blocks."""
        rows = fields.reshape(len(fields), -1, self.shape[-1])
        backends.fields().add_blocks(rows, self.rows, self.columns, sums)

    def means(self, fields: Floats) -> Floats:
        """Return the means of blocks of flat fields `(n, n_cells)`, `(n, n_blocks)`."""
        sums = np.zeros((len(fields), len(self.sizes)))
        self.add(fields, sums)
        return sums / self.sizes


@dataclass(frozen=True, eq=False)
class Runs:
    """The coefficients of a basis as runs of one band each.

    Arguments:
        bands: The bands of the basis.
    """

    bands: Bands

    @cached_property
    def starts(self) -> Ints:
        """Where runs begin, and where the last one ends."""
        labels = self.bands.labels
        return np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1, [len(labels)]])

    @cached_property
    def labels(self) -> Ints:
        """The band of each run."""
        return np.asarray(self.bands.labels[self.starts[:-1]], dtype=np.int64)

    @cached_property
    def contrasts(self) -> Floats:
        """The weights that compare directions, `(n_contrasts, n_coefficients)`."""
        if self.bands.contrasts is None:
            return np.empty((0, len(self.bands.labels)), np.float32)
        return np.ascontiguousarray(self.bands.contrasts.T, np.float32)

    def add(self, waves: Floats, centre: Floats, sums: Floats, crossed: Floats) -> None:
        """Add the coefficients of residuals up by band, given those of the mean of the points.

        Arguments:
            waves: The coefficients `(n, n_coefficients)`.
            centre: Those of the mean, `(n_coefficients,)`.
            sums: Their squares, products with the mean, and themselves, `(n, 3, n_bands)`.
            crossed: Their squares times contrasts, `(n, n_bands, n_contrasts)`.
        """
        backends.fields().add_bands(
            waves, centre, self.contrasts, self.starts, self.labels, sums, crossed
        )


@dataclass(frozen=True, eq=False)
class ManyCells:
    """The scores of fields of many cells.

    Arguments:
        basis: The basis.
        runs: Its coefficients, by band.
        shape: The shape of a field.
        coarse: The blocks of cells that are parameters.
        fine: The blocks of cells that are looked at one by one.
    """

    basis: Basis
    runs: Runs
    shape: tuple[int, ...]
    coarse: Grid
    fine: Grid

    def scores(
        self, truth: Array, draws: Array, share: Floats | None, n_threads: int = 1
    ) -> Results:
        """Return the scores of the points of one simulation, truth first, `(1, n_points, ...)`.

        Arguments:
            truth: The truth `(n_cells,)`.
            draws: The draws `(n_draws, n_cells)`.
            share: The share of each point in the weight of all, truth first, if they differ.
            n_threads: The number of threads.
        """
        kind = np.result_type(truth, draws, np.float32)
        truth, draws = (np.ascontiguousarray(points, kind) for points in (truth, draws))
        mean, sd, ends = _moments(truth, draws, share, n_threads)
        if not np.isfinite(mean).all():
            raise passes.InvalidError
        if kind == np.float32 and not SMALL < sd.max() < LARGE:
            truth, draws, kind = truth.astype(float), draws.astype(float), np.dtype(float)
        centre, per_sd = mean.astype(kind), (1 / np.where(sd > 0, sd, 1.0)).astype(kind)
        about = _About(self, centre, per_sd, ends.astype(kind), self.waves(centre[None])[0])
        sums = about.sums(truth, draws, n_threads)
        scores = sums.scores(self)
        scores["mean"] = self._power(about.waves)
        scores["piles"] = piles(about.ends, sums.at_ends[1:], len(truth))
        scores["misfit"] = _misfit(
            truth, mean, sd, 1 / sums.n_points if share is None else share[0]
        )
        scores["points"] += self.coarse.means(mean[None])
        kinds = dict.fromkeys(scores, kind) | {"maps": np.dtype(np.float32)}
        return {name: array.astype(kinds[name])[None] for name, array in scores.items()}

    def waves(self, fields: Floats) -> Floats:
        """Return the coefficients of flat fields `(n, n_cells)`, in their precision."""
        return np.ascontiguousarray(self.basis.coefficients(fields, self.shape), fields.dtype)

    def _power(self, waves: Floats) -> Floats:
        """Return the sum of squares of coefficients by band."""
        sums = _Sums.of(self, 1)
        self.runs.add(waves[None], waves, sums.bands, sums.crossed)
        return sums.bands[0, 0]


@dataclass(frozen=True, eq=False)
class _About:
    """The points of one simulation about their mean.

    Arguments:
        cells: What is computed of them.
        centre: Their mean, `(n_cells,)`.
        per_sd: One over their standard deviation, 1 where they do not vary.
        ends: The smallest and the largest value of all draws.
        waves: The coefficients of the mean.
    """

    cells: ManyCells
    centre: Floats
    per_sd: Floats
    ends: Floats
    waves: Floats

    def sums(self, truth: Floats, draws: Floats, n_threads: int) -> "_Sums":
        """Return the sums of all points, truth first."""
        sums = _Sums.of(self.cells, len(draws) + 1)
        n_together = max(1, _TOGETHER // truth.nbytes)
        spaces = [np.empty((n_together, len(truth)), truth.dtype) for _ in range(n_threads)]
        self._add(truth[None], spaces[0], sums.some(0, 1))

        def run(first: int, last: int, space: Floats) -> None:
            for start in range(first, last, n_together):
                stop = min(start + n_together, last)
                self._add(draws[start:stop], space, sums.some(start + 1, stop + 1))

        threads.share(run, len(draws), n_threads, spaces)
        return sums

    def _add(self, points: Floats, space: Floats, sums: "_Sums") -> None:
        about = space[: len(points)]
        backends.fields().residuals(
            points, self.centre, self.per_sd, self.ends, about, sums.powers, sums.at_ends
        )
        self.cells.runs.add(self.cells.waves(about), self.waves, sums.bands, sums.crossed)
        self.cells.coarse.add(about, sums.coarse)
        self.cells.fine.add(about, sums.fine)


@dataclass(frozen=True, eq=False)
class _Sums:
    """The sums over cells and coefficients of each point of one simulation, `(n_points, ...)`.

    Arguments:
        powers: Of its standardised cells: squares, cubes and fourth powers.
        at_ends: The number of its cells at the smallest and the largest value of all draws.
        bands: Of its coefficients by band: squares, products with the mean, and themselves.
        crossed: Of squares times contrasts, by band.
        coarse: Of the cells of the larger blocks.
        fine: Of the cells of the smaller ones.
    """

    powers: Floats
    at_ends: Floats
    bands: Floats
    crossed: Floats
    coarse: Floats
    fine: Floats

    @property
    def n_points(self) -> int:
        return len(self.powers)

    @classmethod
    def of(cls, cells: ManyCells, n_points: int) -> "_Sums":
        n_bands, n_contrasts = len(cells.runs.bands.names), len(cells.runs.contrasts)
        shapes = (
            (3,),
            (2,),
            (3, n_bands),
            (n_bands, n_contrasts),
            cells.coarse.sizes.shape,
            cells.fine.sizes.shape,
        )
        return cls(*(np.zeros((n_points, *shape)) for shape in shapes))

    def some(self, first: int, last: int) -> "_Sums":
        """Return the sums of some of the points, to which others may be added."""
        return _Sums(*(vars(self)[field.name][first:last] for field in fields(self)))

    def scores(self, cells: ManyCells) -> Results:
        """Return the scores that are made of the sums."""
        second, third, fourth = self.powers.T / np.prod(cells.shape)
        second = np.maximum(second, 1e-30)
        width, follows, bias = self.bands.swapaxes(0, 1)
        directions = self.crossed / np.maximum(width, 1e-30)[..., None]
        residual = self.fine / cells.fine.sizes
        return {
            "width": width,
            "follows": follows,
            "directions": directions.reshape(len(width), -1),
            "cells": np.stack([third / second**1.5, fourth / second**2], axis=-1),
            "bias": bias if cells.runs.bands.signed else bias[:, :0],
            "points": self.coarse / cells.coarse.sizes,
            "maps": residual / np.maximum(residual.std(axis=0), 1e-30),
        }


def _moments(
    truth: Floats, draws: Floats, share: Floats | None, n_threads: int
) -> tuple[Floats, Floats, Floats]:
    """Return the mean and the sd of the points of one simulation, and the ends of its draws."""
    n_points, n_cells = len(draws) + 1, len(truth)
    every = np.full(n_points, 1 / n_points) if share is None else share
    (mean, square), ends = np.zeros((2, n_cells)), np.empty((2, n_cells), draws.dtype)

    def run(first: int, last: int, _: None) -> None:
        backends.fields().moments(truth, draws, every, first, last, mean, square, ends)

    threads.share(run, n_cells, n_threads, [None])
    return mean, np.sqrt(square), np.array([ends[0].min(), ends[1].max()])


def piles(ends: Floats, at_ends: Floats, n_cells: int) -> Floats:
    """Return what is at the ends of the draws of a simulation, or of several, `(..., 2, 3)`.

    That is both ends, the share of the draws that have such cells, and the share of these cells.

    Arguments:
        ends: The smallest and the largest value of all draws, `(..., 2)`.
        at_ends: The number of cells at each of them, `(n_draws, ..., 2)`.
        n_cells: The number of cells of a draw.
    """
    shares = (at_ends > 0).mean(axis=0), at_ends.mean(axis=0) / n_cells
    return np.stack([ends, *shares], axis=-1).astype(np.result_type(ends, np.float32))


def _misfit(truth: Floats, mean: Floats, sd: Floats, own: float) -> Floats:
    r"""Return the root mean square of the truth about the mean of the draws, in sd of the draws.

    With the share :math:`s` of the truth :math:`t` in the mean :math:`m` and the variance
    :math:`v` of all points, draws have

    .. math:: t - m_d = \frac{t - m}{1 - s}, \qquad v_d = \frac{v}{1 - s} - s\, (t - m_d)^2 .

    Arguments:
        truth: The truth.
        mean: The mean of all points, the truth among them.
        sd: Their standard deviation.
        own: The share of the truth.
    """
    square, whole = np.square((truth - mean) / (1 - own)), np.square(sd) / (1 - own)
    variance = whole - own * square
    known = variance > _VARIES * whole
    return np.sqrt((square / np.where(known, variance, np.inf)).mean())

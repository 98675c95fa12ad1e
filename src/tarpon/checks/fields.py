r"""Fields: scores of whole maps, images and time series, band by band, in one pass.

With the coefficients :math:`c` of a point in a basis, :math:`m` those of the mean of all points of
its simulation, and :math:`d = c - m`, a point has in every band

.. math:: \sum c^2, \quad \sum d^2, \quad \sum d\, m, \quad
    \frac{\sum q\, d^2}{\sum d^2}, \quad \sum d ,

its power, its width, how far it follows the mean, how it differs between directions :math:`q`,
and, where that means something, its bias. Two more numbers describe all cells at once: skewness
and kurtosis of the standardised residual. All of them treat the truth as one more draw, and are
ranked as other scores are.

Fields of many cells are averaged over blocks of cells for everything else that `check` looks at.
So its cost is that of one pass over the cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import floor, prod
from typing import Any

import numpy as np

from .. import regions
from .._base import threads
from .._base.arrays import (
    Results,
    double,
    host,
    joined,
    kind,
    namespace,
    rounded_like,
    single,
    to_device_of,
)
from .._base.text import Estimate
from .._base.types import Array, Floats, Ints
from ..bases import Bands, Basis, Fourier
from ..regions import Region, Values, cut
from ..simulations import Simulations, passes
from ..simulations.blocks import Block
from ..simulations.views import averaged, points_alone
from .labellings import Part
from .many_cells import LARGE, SMALL, Grid, ManyCells, Runs, piles

MOST_CELLS = 1024  # that are parameters of their own, and that are looked at one by one
_MOST_BLOCKS = 256  # of cells that are parameters where there are more cells
_LEAST_RATIO, _TINY = 1e-12, 1e-300  # ratios of power lie above it, and below one over it
_PART_BYTES = 4 * 2**26  # of a part of fields of many cells


@dataclass(frozen=True, eq=False)
class Field:
    """The scores of all points of fields, truths first, `(n_sims, n_draws + 1, n_scores)` each.

    Arguments:
        bands: The bands of the basis.
        width: The power of the residual in each band.
        follows: How far it follows the mean of the points.
        mean: The power of that mean, `(n_sims, n_bands)`.
        directions: Its contrasts of directions, those of the first band first.
        cells: Skewness and kurtosis of its cells.
        bias: Its sum in each band, if that means anything.
        shape: The shape of a field.
        misfit: The root mean square of the truth about the mean of the draws, in sd of the draws,
            over all cells, `(n_sims,)`.
        share: The share of each point in the weight of its simulation, `(n_sims, n_draws + 1)`,
            if they differ.
        maps: The standardised residual of each cell, or of blocks of cells where these are many
            and are not parameters; None where they are.
        map_shape: The shape of these.
        piles: Of fields of many cells, what is at the smallest and the largest value of all draws
            of a simulation, `(n_sims, 2, 3)`: both values, the share of the draws that have such
            cells, and the share of these cells.
    """

    bands: Bands
    width: Floats
    follows: Floats
    mean: Floats
    directions: Floats
    cells: Floats
    bias: Floats
    shape: tuple[int, ...]
    misfit: Floats
    share: Floats | None = None
    maps: Floats | None = None
    map_shape: tuple[int, ...] = ()
    piles: Floats | None = None

    @cached_property
    def power(self) -> Floats:
        """The power in each band, of points rather than residuals."""
        return self.width + 2 * self.follows + self.mean[:, None]

    def parts(self) -> dict[str, Part]:
        """Return what is ranked, by the name of its family."""
        every = {
            "power": self.power,
            "scales": self.width,
            "phases": self.follows,
            "anisotropy": self.directions,
            "cells": self.cells,
            "regions": self.bias,
        }
        ranked = {name: Part(_values(s)) for name, s in every.items() if s.shape[2]}
        return (
            ranked
            if self.maps is None
            else ranked | {"maps": Part(_Maps(_values(self.maps)), ranked=False)}
        )

    def of_draws(self, scores: Floats) -> Floats:
        """Return the mean of scores over the draws of each simulation, `(n_sims, n_scores)`."""
        if self.share is None:
            return scores[:, 1:].mean(axis=1, dtype=float)
        share = self.share[:, 1:] / self.share[:, 1:].sum(axis=1, keepdims=True)
        return np.einsum("ij,ijk->ik", share, scores[:, 1:])

    def ratio(self, scores: Floats, places: Sequence[int] | Ints) -> Estimate:
        """Return scores of truths over those of draws, some together, with a 95 % interval.

        Each counts by how well its own ratio is known.
        """
        places = list(places)
        truths = scores[:, 0, places].astype(float)
        draws = self.of_draws(scores[..., places])
        unit = draws.mean(axis=0)
        unit = np.where(unit > 0, unit, np.maximum(truths.mean(axis=0), _TINY))
        weight = 1 / np.maximum(((truths - draws) / unit).var(axis=0), 1e-12)
        a, b = (each / unit @ (weight / weight.sum()) for each in (truths, draws))
        top, bottom = float(a.mean()), float(b.mean())
        if top == bottom == 0.0:  # as in bands of fields that never vary at that scale
            return Estimate(1.0, 1.0, 1.0)
        value = min(max(top / max(bottom, _TINY), _LEAST_RATIO), 1 / _LEAST_RATIO)
        error = (a - value * b).std(ddof=1) / np.sqrt(len(a)) / max(top, value * bottom)
        reach = float(np.exp(1.96 * error))
        return Estimate(value, value / reach, value * reach)


@dataclass(frozen=True, eq=False)
class _Maps:
    """The residuals of cells, and their squares, which are added as they are."""

    values: Values

    def scores(self, block: Block) -> Array:
        z = self.values.scores(block)
        n_points, n_block, n_cells = z.shape
        # Nothing is planted in extra points: they are those that they stand for.
        none = np.empty((0, n_block), dtype=np.int64)
        played = none if block.played is None else block.played
        both = np.empty((n_block, n_points + len(played), 2 * n_cells), z.dtype)

        def run(first: int, last: int) -> None:
            for i in range(first, last):
                own, squares = both[i, :, :n_cells], both[i, :, n_cells:]
                own[:n_points] = z[:, i]
                own[n_points:] = own[played[:, i]]
                np.square(own, out=squares)

        threads.over_ranges(run, n_block, both.nbytes)
        return both.swapaxes(0, 1)

    def cut(self, sims: slice) -> "_Maps":
        return _Maps(self.values.cut(sims))


def measured(
    sims: Simulations, basis: Basis, own: Mapping[str, Region]
) -> tuple[Simulations, Field, dict[str, Region]]:
    """Go over fields once: return them with fewer cells, their scores, and the user's own.

    Arguments:
        sims: The simulations, of fields.
        basis: The basis.
        own: Regions of the user's own, which see all cells.
    """
    coarse = sims.n_dims > MOST_CELLS
    edges, fine = (blocks_of_cells(sims.shape, most) for most in (_MOST_BLOCKS, MOST_CELLS))
    recipe = _Recipe(basis, sims.shape, (edges, fine) if coarse else None)
    seen = sims if own and coarse else points_alone(sims)
    results = joined(
        passes.each(
            seen,
            "fields",
            recipe.scores,
            n_bytes=_PART_BYTES if coarse else 0,
            apart=coarse,
            extra=lambda where: {
                "own": {name: cut(region, where) for name, region in own.items() if coarse}
            },
        )
    )
    kept = {field.name for field in fields(Field)}
    scores: dict[str, Any] = {name: results[name] for name in kept & results.keys()}
    maps = tuple(map(len, fine))
    field = Field(basis.bands(sims.shape), shape=sims.shape, map_shape=maps, **scores)
    if not coarse:
        return sims, field, dict(own)
    points = results["points"]
    fewer = averaged(sims, points[:, 1:].swapaxes(0, 1), points[:, 0], edges)
    return fewer, field, {name: _values(results[f"own {name}"]) for name in own}


def _values(scores: Floats) -> Values:
    """Return scores `(n_sims, n_points, ...)` as a region."""
    return Values(scores[:, 1:].swapaxes(0, 1), scores[:, 0])


def n_parameters(shape: tuple[int, ...]) -> int:
    """Return how many cells or blocks of cells of a field are parameters."""
    many = prod(shape) > MOST_CELLS
    return prod(map(len, blocks_of_cells(shape, _MOST_BLOCKS))) if many else prod(shape)


def blocks_of_cells(shape: tuple[int, ...], most: int) -> tuple[Ints, ...]:
    """Return where blocks of cells begin along each axis, for so many blocks at most.

    Example:
        >>> [len(starts) for starts in blocks_of_cells((64, 64), 1024)]
        [32, 32]
    """
    shrink = min(1.0, (most / prod(shape)) ** (1 / len(shape)))
    counts = [max(1, floor(n * shrink + 1e-9)) for n in shape]
    return tuple(np.arange(m) * n // m for n, m in zip(shape, counts, strict=True))


@dataclass(frozen=True, eq=False)
class _Recipe:
    """Everything that the scores of fields depend on, besides the simulations."""

    basis: Basis
    shape: tuple[int, ...]
    edges: tuple[tuple[Ints, ...], tuple[Ints, ...]] | None

    @cached_property
    def bands(self) -> Bands:
        return self.basis.bands(self.shape)

    @cached_property
    def sums(self) -> Floats:
        """The matrix that adds squares up by band, and contrasts of directions after them."""
        bands, n = self.bands, len(self.bands.names)
        own = (bands.labels[:, None] == np.arange(n)).astype(np.float32)
        if bands.contrasts is None:
            return own
        crossed = own[:, :, None] * bands.contrasts[:, None].astype(np.float32)
        return np.concatenate([own, crossed.reshape(len(own), -1)], axis=1)

    @cached_property
    def _constants(self) -> dict[Any, Array]:
        """The numbers that all scores need, and copies of them on devices."""
        constants: dict[Any, Array] = {"sums": self.sums}
        for grid, starts in zip(("coarse", "fine"), self.edges or (), strict=False):
            for axis, (own, n) in enumerate(zip(starts, self.shape, strict=True)):
                block = np.searchsorted(own, np.arange(n), side="right") - 1
                inside = (block == np.arange(len(own))[:, None]).astype(float)
                constants[f"{grid} {axis}"] = (inside / inside.sum(axis=1, keepdims=True)).T
        return constants

    def _beside(self, name: str, array: Array) -> Array:
        """Return some of the constants on the device of an array, in its precision."""
        place = name, array.device if namespace(array) is not np else "cpu", array.dtype
        if place not in self._constants:
            self._constants[place] = _like(self._constants[name], array)
        return self._constants[place]

    @cached_property
    def many(self) -> ManyCells | None:
        """The scores of fields of many cells, if they are."""
        if self.edges is None:
            return None
        coarse, fine = (Grid(self.shape, starts) for starts in self.edges)
        return ManyCells(self.basis, Runs(self.bands), self.shape, coarse, fine)

    def scores(self, sims: Simulations, *, own: Mapping[str, Region]) -> Results:
        """Return the scores of some simulations, simulations first."""
        with threads.one_thread_each():
            if self.many is not None and namespace(sims.samples) is np:
                return self._each_of_many(sims, own)
            if namespace(sims.samples) is not np:
                return self._each_on_device(sims, own)
            found = []
            for piece in passes.pieces(sims):
                blocks = piece.blocks()
                found += threads.mapped(lambda block: self._scores(block, own), blocks)
        return joined(found)

    def _each_on_device(self, sims: Simulations, own: Mapping[str, Region]) -> Results:
        """Return the scores of tensors, many simulations at a time, for fewer operations."""
        pieces = passes.pieces(sims, n_bytes=_PART_BYTES)
        blocks = (block for piece in pieces for block in piece.blocks(_PART_BYTES))
        return joined(self._scores(block, own) for block in blocks)

    def _each_of_many(self, sims: Simulations, own: Mapping[str, Region]) -> Results:
        """Return the scores of fields of many cells, simulations on threads of their own.

        Each is read alone, so that files which hold one each are mapped and not copied.
        """
        pieces = passes.pieces(sims, n_bytes=1, check_points=False)
        blocks = (block for piece in pieces for block in piece.blocks(n_bytes=1))
        n_each = max(1, threads.n_allowed() // sims.n_sims)
        return joined(threads.mapped(lambda block: self._of_many(block, own, n_each), blocks))

    def _of_many(self, block: Block, own: Mapping[str, Region], n_threads: int) -> Results:
        """Return the scores of one simulation of fields of many cells."""
        assert self.many is not None
        draws, truth = (
            host(points)
            for points in (
                block.sims.samples[:, block.here.start],
                block.sims.theta[block.here][0],
            )
        )
        order, share = truth_first(block.n_points), None
        if block.weighted:
            share = (block.weights / block.weights.sum(axis=0))[order, 0]
        results = self.many.scores(rounded_like(truth, draws), draws, share, n_threads)
        results |= {} if share is None else {"share": share[None]}
        return results | {name: one[:, order] for name, one in _own(block, own).items()}

    def _scores(self, block: Block, own: Mapping[str, Region]) -> Results:
        """Return the scores of a block: of fields of few cells, or of tensors on a device."""
        about, centre, share = _residuals(block)
        n_bands, sums = len(self.bands.names), self._beside("sums", about)
        by_band = sums[:, :n_bands]
        d, m = self._coefficients(about), self._coefficients(_like(centre, about))
        bias = d @ by_band if self.bands.signed else d[..., :0]
        follows = d @ (m[:, :, None] * by_band)
        squares = (d * d) @ sums
        width, crossed = squares[..., :n_bands], squares[..., n_bands:]
        each = crossed.reshape(*width.shape, -1) / width.clip(min=1e-30)[..., None]
        results = {
            "width": width,
            "follows": follows,
            "directions": each.reshape(*width.shape[:2], -1),
            "cells": _one_point(about, share),
            "bias": bias,
        }
        if share is not None:
            results["share"] = share
        if self.edges is not None:
            coarse, fine = (
                [self._beside(f"{grid} {axis}", about) for axis in range(len(self.shape))]
                for grid in ("coarse", "fine")
            )
            results["points"] = _averages(about, self.shape, coarse) + _averages(
                _like(centre, about)[:, None], self.shape, coarse
            )
            residual = _averages(about, self.shape, fine)
            variance = (residual**2).mean(axis=1) - residual.mean(axis=1) ** 2
            sd = variance.clip(min=1e-60)[:, None] ** 0.5
            results["maps"] = single(residual / sd)
        order = truth_first(block.n_points)
        every = {name: host(scores) for name, scores in results.items()} | _own(block, own)
        ordered = {name: scores[:, order] for name, scores in every.items()}
        ordered |= {} if self.edges is None else {"piles": _piles(block)}
        return ordered | {"mean": host((m * m) @ by_band), "misfit": _misfit(about, share)}

    def _coefficients(self, points: Array) -> Array:
        """Return the coefficients of points, where they are; only waves know tensors."""
        if isinstance(self.basis, Fourier) or namespace(points) is np:
            return self.basis.coefficients(points, self.shape)
        return _like(self.basis.coefficients(host(points), self.shape), points)


def _misfit(about: Array, share: Floats | None) -> Floats:
    """Return the root mean square of truths about the mean of the draws, in sd of the draws."""
    truth, draws = about[:, 0], about[:, 1:]
    weight: Array | float = 1.0
    if share is not None:
        of_draws = share[:, 1:, None]
        weight = _like(of_draws / of_draws.mean(axis=1, keepdims=True), about)
    mean = (weight * draws).mean(axis=1)
    variance = (weight * (draws - mean[:, None]) ** 2).mean(axis=1)
    varies = variance > 0
    square = (truth - mean) ** 2 / namespace(about).where(varies, variance, 1.0) * varies
    return host(square.mean(axis=1) ** 0.5)


def _piles(block: Block) -> Floats:
    """Return what is at the ends of the draws of each simulation, `(n_block, 2, 3)`."""
    draws = block.points[1:]
    xp = namespace(draws)
    ends = [end(end(draws, axis=2), axis=0) for end in (xp.amin, xp.amax)]
    at_ends = [host((draws == end[:, None]).sum(axis=2)) for end in ends]
    return piles(
        np.stack([host(end) for end in ends], axis=1), np.stack(at_ends, axis=2), draws.shape[2]
    )


def _own(block: Block, own: Mapping[str, Region]) -> Results:
    """Return the user's own scores, simulations first."""
    shape = block.n_points, len(block.truth)
    return {
        f"own {name}": host(regions.scores(region.scores(block), shape)).swapaxes(0, 1)
        for name, region in own.items()
    }


def truth_first(n_points: int) -> Ints:
    """Return the order of points in which draws follow the truth.

    Where the truth is the first of the points, the first draw is the last of them.
    """
    return np.array([0, n_points - 1, *range(1, n_points - 1)])


def _residuals(block: Block) -> tuple[Array, Array, Floats | None]:
    """Return points about their mean, simulations first; the mean; and shares of the weight.

    Residuals of single precision have no more digits than the points.
    """
    centre, points = block.centre, block.points.swapaxes(0, 1)
    share = (block.weights / block.weights.sum(axis=0)).T if block.weighted else None
    short = kind(points) == "f" and points.dtype.itemsize <= 4
    points = single(points) if short else double(points)
    about = points - _like(centre, points)[:, None]
    if short and not SMALL < abs(about).max() < LARGE:
        about = double(about)
    return about, centre, share


def _like(numbers: Array, array: Array) -> Array:
    """Return numbers on the device of an array, in its precision."""
    return namespace(array).asarray(to_device_of(numbers, array), dtype=array.dtype)


def _one_point(about: Array, share: Floats | None) -> Array:
    """Return skewness and kurtosis of the standardised cells of each point."""
    xp = namespace(about)
    if share is None:
        variance = xp.einsum("ijk,ijk->ik", about, about) / about.shape[1]
    else:
        variance = xp.einsum("ij,ijk,ijk->ik", _like(share, about), about, about)
    z = about / xp.where(variance > 0, variance, 1.0)[:, None] ** 0.5
    square = z * z
    second = square.mean(axis=-1).clip(min=1e-30)
    third, fourth = (xp.einsum("ijk,ijk->ij", square, other) / z.shape[2] for other in (z, square))
    return xp.stack([third / second**1.5, fourth / second**2], -1)


def _averages(points: Array, shape: tuple[int, ...], weights: Sequence[Array]) -> Array:
    """Return means over blocks of cells, `(n_block, n_points, n_blocks_of_cells)`.

    Arguments:
        points: Flat fields, `(n_block, n_points, n_cells)`.
        shape: The shape of a field.
        weights: The weight of each cell in each block, `(n_cells, n_blocks)` along each axis.
    """
    xp, fields = namespace(points), points.reshape(*points.shape[:2], *shape)
    for axis, weight in enumerate(weights, 2):
        fields = xp.moveaxis(xp.moveaxis(fields, axis, -1) @ weight, -1, axis)
    return fields.reshape(*points.shape[:2], -1)

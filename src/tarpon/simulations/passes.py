"""Passes over simulations that need not fit into memory.

An engine computes and keeps a *part* at a time. A part is read *piece* by piece, and a piece is
pooled *block* by block. The size of a part depends on the numbers of draws and parameters alone,
so that results are the same wherever the draws are and whoever computes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import backends
from .._base import arrays
from .._base.arrays import Results, joined
from .._base.types import Array
from . import dropping, shapes, stored
from .blocks import Block

if TYPE_CHECKING:
    from . import Simulations

_T = TypeVar("_T")
_BLOCK_BYTES = 4 * 2**20
_DEVICE_BLOCK_BYTES = 128 * 2**20
_APART_BYTES, _FEWEST_APART = 256 * 2**20, 32  # the largest part of a thread, and parts at least


class InvalidError(Exception):
    """Simulations contain NaN or infinite values."""


def step(sims: "Simulations", n_bytes: int = 0) -> int:
    """Return how many simulations make up a part, or `n_bytes`: a power of two, to suit chunks."""
    row = 8 * (sims.n_draws + 1) * max(sims.n_dims, 1)
    return 1 << max(1, (n_bytes or sims._part_bytes) // row).bit_length() - 1


def each(
    sims: "Simulations",
    name: str,
    function: Callable[..., Results],
    *,
    n_bytes: int = 0,
    extra: Callable[[slice], Mapping[str, Any]] | None = None,
    final: bool = False,
    apart: bool = False,
) -> Iterator[Results]:
    """Yield the results of a function on each part of the simulations, in their order.

    Arguments:
        sims: The simulations.
        name: The name under which results are kept.
        function: A function of a part, to be read by `pieces`, and of the `extra` arguments.
        n_bytes: The smallest size of a part.
        extra: Returns more arguments of the function for the part at a slice, by name.
        final: Whether shards may stop here.
        apart: Whether threads may read and compute a part each, from files of plain numbers.
    """
    elsewhere = sims._run.engine.executor is not None
    if elsewhere and arrays.on_device(sims.samples):
        raise ValueError(
            "`executor` cannot be used with samples on a GPU: remove it, or move the samples to "
            "the CPU first."
        )
    unread = sims._unread.values()
    in_threads = apart and bool(unread) and all(array.plain for array in unread)
    if in_threads and sims._run.plain:  # parts are not kept, and not read as a whole
        every = 8 * sims.n_sims * (sims.n_draws + 1) * sims.n_dims
        n_bytes = max(n_bytes, min(_APART_BYTES, every // _FEWEST_APART))
    slices = list(_slices(sims, step(sims, max(n_bytes, sims._part_bytes))))

    def task(k: int) -> tuple["Simulations", Mapping[str, Any]]:
        part = sims._part(slices[k])
        if elsewhere and not all(array.portable for array in part._unread.values()):
            part = part._fetched()
        return part, {} if extra is None else extra(slices[k])

    invalid = np.zeros(sims.n_sims, dtype=bool)
    on_part = partial(_on_part, function)
    for results in sims._run.compute(
        name, on_part, task, len(slices), final=final, in_threads=in_threads
    ):
        if "invalid" in results:
            invalid[results["invalid"]] = True
        else:
            yield results
    if not sims._whole:
        stored.forget()
    if not sims._known.checked:
        shapes.refuse(invalid, "raise")
        sims._known.checked = True


def pieces(
    sims: "Simulations",
    *,
    n_bytes: int = 0,
    by_chunk: bool = False,
    unchecked: bool = False,
    check_points: bool = True,
) -> "Iterator[Simulations]":
    """Yield the simulations a few at a time, read and checked.

    Arguments:
        sims: The simulations.
        n_bytes: The size of a piece; by default that of a part.
        by_chunk: Whether pieces may be as small as the chunks on disk, which is faster, but
            depends on how the draws are stored.
        unchecked: Whether the caller checks the pieces.
        check_points: Whether to look for NaN and infinities in points. Otherwise the caller does,
            and raises `InvalidError`.
    """
    draws, n_piece = sims._unread.get("samples"), step(sims, n_bytes)
    if by_chunk and draws is not None:
        n_piece = min(n_piece, max(draws.chunk, step(sims, _BLOCK_BYTES)))
    for place in _slices(sims, n_piece):
        piece = sims._part(place)._fetched()
        if draws is not None:  # perhaps one of the next part
            start = place.start + stored.AHEAD * n_piece
            draws.window(slice(start, start + n_piece)).ahead()
        if not piece._known.checked and not unchecked:
            refuse(piece, check_points=check_points)
        yield piece


def noticed(sims: "Simulations", count: Callable[[], _T], *, fused: bool) -> _T:
    """Count the draws of simulations, and raise if some of them are invalid.

    Arguments:
        sims: The simulations.
        count: The function that counts.
        fused: Whether it only calls kernels, which notice NaN and infinities themselves.
    """
    if sims._known.checked:
        return count()
    if not fused or not arrays.namespace(sims.theta).isfinite(sims.theta).all():
        refuse(sims._fetched())
    with backends.watched() as sums:
        counted = count()
    if not sums.finite:
        refuse(sims._fetched())
    return counted


def refuse(sims: "Simulations", *, check_points: bool = True) -> None:
    """Raise if simulations in memory are invalid, or too large to compute with."""
    nothing = np.empty(0), np.empty(0)
    box = shapes.pooled_box(sims.samples, sims.theta) if check_points else nothing
    if shapes.invalid(sims, box).any():
        raise InvalidError
    if check_points:
        sims._refuse_too_large(*box)


def whole(sims: "Simulations", function: Callable[["Simulations"], Results]) -> Results:
    """Return a function of simulations in memory, and say which ones are invalid if any is."""
    try:
        return function(sims)
    except InvalidError:
        shapes.refuse(_invalid(sims), "raise")
        raise


def glimpses(sims: "Simulations", n_groups: int, n_each: int) -> "Iterator[Simulations]":
    """Yield a few groups of simulations, spread over all of them, read; all if they are few."""
    if sims.n_sims <= n_groups * n_each:
        yield sims._part(slice(0, sims.n_sims))._fetched()
        return
    for start in np.linspace(0, sims.n_sims - n_each, n_groups).astype(int).tolist():
        yield sims._part(slice(start, start + n_each))._fetched()


def singles(sims: "Simulations") -> "Iterator[Simulations]":
    """Yield the simulations one at a time, read and checked."""
    for place in _slices(sims, step(sims)):
        piece = sims._part(place)._fetched()
        if not piece._known.checked:
            piece._drop(_invalid(piece))
        for i in range(piece.n_sims):
            yield piece._part(slice(i, i + 1))


def blocks(sims: "Simulations", n_bytes: int = 0) -> Iterator[Block]:
    """Yield the simulations a few at a time, pooled, so that copies of a block stay small."""
    default = _DEVICE_BLOCK_BYTES if arrays.on_device(sims.samples) else _BLOCK_BYTES
    for here in _slices(sims, step(sims, n_bytes or default)):
        place = slice(sims._start + here.start, sims._start + here.stop)
        yield Block(sims, place, np.zeros(here.stop - here.start, dtype=np.int64))


def valid(part: "Simulations") -> Results:
    """Return which simulations of a part contain finite numbers alone, and a finite draw each."""
    return joined(
        {"valid": ~_invalid(piece), "first": dropping.first_finite(piece)}
        for piece in pieces(part, by_chunk=True, unchecked=True)
    )


def ends(part: "Simulations", *, centres: bool) -> Results:
    """Return the corners of a part's box, and the centre of each of its simulations."""
    results = []
    for piece in pieces(part, by_chunk=True, unchecked=True):
        low, high = box = shapes.pooled_box(piece.samples, piece.theta)
        if not part._known.checked and shapes.invalid(piece, box).any():
            raise InvalidError
        results.append({"low": low[None], "high": high[None]})
        if centres:
            results[-1]["centres"] = piece.centres()
    return joined(results)


def last_draws(part: "Simulations", *, n: int) -> Results:
    """Return the last draws of each simulation, simulations first."""
    return joined({"draws": piece.samples[-n:].swapaxes(0, 1)} for piece in pieces(part))


def _on_part(
    function: Callable[..., Results], task: tuple["Simulations", Mapping[str, Any]]
) -> Results:
    """Call a function on a part, or return which of its simulations are invalid."""
    part, extra = task
    try:
        return function(part, **extra)
    except InvalidError:
        return {"invalid": part._start + np.flatnonzero(~valid(part)["valid"])}


def _invalid(piece: "Simulations") -> Array:
    return shapes.invalid(piece, shapes.pooled_box(piece.samples, piece.theta))


def _slices(sims: "Simulations", n: int) -> Iterator[slice]:
    """Yield ranges of `n` simulations, the last one shorter."""
    return (slice(k, min(k + n, sims.n_sims)) for k in range(0, sims.n_sims, n))

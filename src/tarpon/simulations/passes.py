"""Passes over simulations that need not fit into memory.

An engine computes and keeps a part at a time; of a part, one piece after the other is read; of
a piece, blocks are pooled. Functions of `sims` are methods of `Simulations`, those of a `part`
are called on each of theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arrays
from .._base.arrays import Results, joined
from .._base.types import RNG, Array
from ..engine import Engine

if TYPE_CHECKING:
    from . import Simulations

from . import _finite, stored
from .blocks import Block
from .stored import Stored

_BLOCK_BYTES = 4 * 2**20
_DEVICE_BLOCK_BYTES = 128 * 2**20
_AHEAD = 2  # pieces that are read from disk before they are needed


class _InvalidError(Exception):
    """Simulations hold NaN or infinite values."""


def step(sims: Any, n_bytes: int = 0) -> int:
    """Return how many simulations make up a part, or so many bytes: a power of two.

    It depends on nothing but the number of draws and parameters, so that blocks are the same
    wherever the draws are and whoever computes. As a power of two it goes well with chunks.
    """
    row = 8 * (sims.n_draws + 1) * max(sims.n_dims, 1)
    return 1 << max(1, (n_bytes or sims.part_bytes) // row).bit_length() - 1


def each(
    sims: Any,
    name: str,
    function: Callable[..., Results],
    *,
    n_bytes: int = 0,
    given: Callable[[slice], Mapping[str, Any]] | None = None,
    final: bool = False,
) -> Iterator[Results]:
    """Yield what a function returns for each part of the simulations, in their order.

    Arguments:
        sims: The simulations.
        name: What is computed; results are kept under it.
        function: Takes simulations, to be had from their `pieces`, and what is `given`.
        n_bytes: The smallest size of a part.
        given: What else the function needs for the part at a slice, by name.
        final: Whether shards may stop here.
    """
    elsewhere = sims.run.engine.executor is not None
    if elsewhere and arrays.on_device(sims.samples):
        raise ValueError(
            "samples on an accelerator are tested where they are: leave the executor out, or "
            "bring them to the CPU first."
        )
    parts = list(_slices(sims, sims.step(max(n_bytes, sims.part_bytes))))

    def task(k: int) -> tuple[Any, Mapping[str, Any]]:
        part = sims.part(parts[k])
        if elsewhere and not part._portable:
            part = part._fetched()
        return part, {} if given is None else given(parts[k])

    invalid = np.zeros(sims.n_sims, dtype=bool)
    on_part = partial(_on_part, function)
    for results in sims.run.each(name, on_part, task, len(parts), final=final):
        if "invalid" in results:
            invalid[results["invalid"]] = True
        else:
            yield results
    stored.forget()
    if not sims._checked:
        _finite.refuse(invalid, "raise")
        sims._set(_checked=True)


def pieces(sims: Any, *, by_chunk: bool = False) -> Iterator[Any]:
    """Yield the simulations a few at a time, read and checked.

    Arguments:
        sims: The simulations.
        by_chunk: Whether they may be as few as are stored together, which is faster, but
            depends on how they are stored.
    """
    on_disk, n_piece = isinstance(sims.samples, Stored), sims.step()
    if by_chunk and on_disk:
        n_piece = min(n_piece, max(sims.samples.chunk, sims.step(_BLOCK_BYTES)))
    for where in _slices(sims, n_piece):
        piece = sims.part(where)._fetched()
        if on_disk and where.stop < sims.n_sims:
            stop = min(where.stop + _AHEAD * n_piece, sims.n_sims)
            sims.samples.window(slice(where.stop, stop)).ahead()
        if not piece._checked and _invalid(piece).any():
            raise _InvalidError
        yield piece


def singles(sims: Any) -> Iterator[Any]:
    """Yield the simulations one at a time, read and checked, each as if it had come alone."""
    for where in _slices(sims, sims.step()):
        piece = sims.part(where)._fetched()
        if not piece._checked:
            piece._drop(_invalid(piece))
        for i in range(piece.n_sims):
            yield piece.part(slice(i, i + 1)).bare()


def blocks(sims: Any, n_bytes: int = 0) -> Iterator[Block]:
    """Yield the simulations a few at a time, so that copies of a block stay small.

    The truth is the first point of each simulation.
    """
    default = _DEVICE_BLOCK_BYTES if arrays.on_device(sims.samples) else _BLOCK_BYTES
    for here in _slices(sims, sims.step(n_bytes or default)):
        where = slice(sims.start + here.start, sims.start + here.stop)
        yield Block(sims, where, np.zeros(here.stop - here.start, dtype=np.int64))


def valid(part: Any) -> Results:
    """Return which simulations are valid."""
    unchecked = part._with(_checked=True)  # or the pieces would raise
    invalid = [_invalid(piece) for piece in unchecked.pieces(by_chunk=True)]
    return {"valid": ~np.concatenate(invalid)}


def ends(part: Any, *, centres: bool) -> Results:
    """Return the corners of a part's box, and the centre of each of its simulations."""
    found = []
    for piece in part._with(_checked=True).pieces(by_chunk=True):
        low, high = box = _finite.pooled_box(piece.samples, piece.theta)
        if not part._checked and _finite.invalid(piece, box).any():
            raise _InvalidError
        found.append({"low": low[None], "high": high[None]})
        if centres:
            found[-1]["centres"] = piece.centres()
    return joined(found)


def last_draws(part: Any, *, n: int) -> Results:
    """Return the last draws of each simulation, simulations first."""
    return joined({"draws": piece.samples[-n:].swapaxes(0, 1)} for piece in part.pieces())


def _on_part(function: Callable[..., Results], task: tuple[Any, Mapping[str, Any]]) -> Results:
    """Call a function on a part, or say which of its simulations are invalid."""
    part, given = task
    try:
        return function(part, **given)
    except _InvalidError:
        return {"invalid": part.start + np.flatnonzero(~valid(part)["valid"])}


def _invalid(piece: Any) -> Array:
    return _finite.invalid(piece, _finite.pooled_box(piece.samples, piece.theta))


def _slices(sims: Any, n: int) -> Iterator[slice]:
    """Yield where `n` simulations after the other are, the last ones fewer."""
    return (slice(k, min(k + n, sims.n_sims)) for k in range(0, sims.n_sims, n))


def begin(
    test: str, sims: "Simulations", engine: Engine, rng: RNG, **settings: Any
) -> "tuple[Simulations, int]":
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

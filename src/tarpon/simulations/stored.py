"""Arrays that are not in memory, of which a few simulations are read at a time."""

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise, zip_longest
from math import prod
from typing import Any

import numpy as np

from .._base.fingerprint import of_array
from .._base.text import clean
from .._base.types import Array, ArrayLike, Floats, Ints
from .sources import (
    PlainZarr,
    chunk_length,
    decoded,
    file_stats,
    is_portable,
    missing_chunks,
    opened,
)

_N_SAMPLED, _WHOLE_BYTES = 8, 64 * 2**20  # simulations and bytes that a fingerprint reads
_MOST_AT_ONCE = 256 * 2**20  # bytes of whole chunks that are kept for the blocks to come
_PIECE_BYTES = 4 * 2**20  # of chunks that are read together, at least
AHEAD = 2  # pieces that are read from disk before they are needed
_kept = threading.local()
_NOTHING: tuple[Any, int | None, int, Array] = (None, None, 0, np.empty(0))


@dataclass(frozen=True, eq=False)
class Stored:
    """Numbers of simulations that are read when they are asked for.

    Arguments:
        source: Where they are: anything with `shape`, `dtype` and `__getitem__`.
        axis: The axis that counts the simulations.
        where: Which of the source's simulations these are.
        n_draws: How many of the first draws are seen; all where None.
        flat: Whether all axes after that of the simulations are read as one: the cells of a
            field, or a single parameter, which may lack an axis.
        unit: What parameters are divided by, if by anything.
    """

    source: Any
    axis: int
    where: slice | Ints
    n_draws: int | None = None
    flat: bool = False
    unit: Floats | None = None

    @classmethod
    def of(cls, value: ArrayLike, axis: int) -> "Stored":
        """Return what was handed in as stored numbers."""
        if isinstance(value, Stored):
            return value
        for words in missing_chunks(value):
            warnings.warn(words, stacklevel=6)
        n_sims = value.shape[axis] if len(value.shape) > axis else 0
        return cls(opened(value), axis, slice(0, n_sims))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of what would be read."""
        shape = list(self.source.shape)
        if len(shape) > self.axis:
            shape[self.axis] = self.n_sims
        if self.n_draws is not None:
            shape[0] = self.n_draws
        return self._flattened(tuple(shape))

    @property
    def n_sims(self) -> int:
        """How many simulations these are."""
        if isinstance(self.where, slice):
            return int(self.where.stop - self.where.start)
        return len(self.where)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)

    @property
    def portable(self) -> bool:
        """Whether another process can read them too."""
        return is_portable(self.source)

    @property
    def plain(self) -> bool:
        """Whether they are read from files that need no decoding, by any thread."""
        return isinstance(self.source, PlainZarr)

    @property
    def chunk(self) -> int:
        """How many simulations are stored together; 1 where that does not matter."""
        return chunk_length(self.source, self.axis)

    def window(self, where: slice) -> "Stored":
        """Return some of the simulations, unread."""
        if isinstance(self.where, slice):
            start = self.where.start
            return replace(self, where=slice(start + where.start, start + where.stop))
        return replace(self, where=self.where[where])

    def keep(self, kept: Array) -> "Stored":
        """Return the simulations for which `kept` is true, unread."""
        every = self.where
        if isinstance(every, slice):
            every = np.arange(every.start, every.stop)
        return replace(self, where=every[kept])

    def first(self, n_draws: int) -> "Stored":
        """Return the first draws of every simulation, unread."""
        return replace(self, n_draws=n_draws)

    def read(self) -> Array:
        """Return the numbers."""
        if not self.source.shape:
            return decoded(self.source[()])
        if isinstance(self.where, slice):
            numbers = self._read(self.where.start, self.where.stop)
        elif len(self.where):
            start = int(self.where[0])
            slab = self._read(start, int(self.where[-1]) + 1)
            numbers = np.take(slab, self.where - start, axis=self.axis)
        else:
            numbers = self._read(0, 0)
        numbers = numbers.reshape(self._flattened(numbers.shape))
        return numbers if self.unit is None else numbers / self.unit

    def fingerprint(self) -> str:
        """Return dtype, shape and a digest.

        Small arrays have the digest of the same numbers in memory. That of large arrays in files
        depends on sizes and times of the files and on some simulations; others are read.
        """
        n_bytes = self.dtype.itemsize * prod(self.shape)
        if n_bytes <= _WHOLE_BYTES:
            return of_array(self.read())
        which = str(self.where) if isinstance(self.where, slice) else of_array(self.where)
        files = file_stats(self.source)
        if files is not None:
            some = np.linspace(0, self.n_sims - 1, _N_SAMPLED).astype(int)
            parts = [slice(k, k + 1) for k in sorted(set(some.tolist()))]
        else:
            step = max(1, _WHOLE_BYTES * self.n_sims // n_bytes)
            parts = [slice(k, min(k + step, self.n_sims)) for k in range(0, self.n_sims, step)]
        numbers = (of_array(self.window(part).read()) for part in parts)
        lines = "\n".join([which, str(self.source.shape), *(files or ()), *numbers])
        forget()
        return f"{self.dtype} {self.shape} {sha256(lines.encode()).hexdigest()[:32]}"

    def pieces(self) -> Iterator[tuple[slice, Array]]:
        """Yield the numbers of a few simulations at a time, by chunk, and which these are."""
        row = max(1, self.dtype.itemsize * prod(self.shape) // max(self.n_sims, 1))
        step = self.chunk * max(1, _PIECE_BYTES // (row * self.chunk))
        start = self.where.start % step if isinstance(self.where, slice) else 0
        ends = [0, *range(step - start, self.n_sims, step), self.n_sims]
        places = [slice(*pair) for pair in pairwise(ends)]
        for place, later in zip_longest(places, places[AHEAD:]):
            if later is not None:
                self.window(later).ahead()
            yield place, self.window(place).read()

    def ahead(self) -> None:
        """Have the system read them from disk, while something else goes on."""
        if isinstance(self.source, PlainZarr) and isinstance(self.where, slice):
            self.source.ahead((slice(None),) * self.axis + (self.where,))

    def __getitem__(self, key: Any) -> Array:
        """Read the simulations of a slice along their axis, all else whole."""
        where = key[self.axis] if isinstance(key, tuple) else key
        return self.window(slice(*where.indices(self.n_sims)[:2])).read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.read(), dtype=dtype)

    def _flattened(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape with the axes of a field as one, where they are read so."""
        n = self.axis + 1
        return (*shape[:n], prod(shape[n:])) if self.flat else shape

    def _read(self, start: int, stop: int) -> Array:
        """Read a range of simulations, and with it whole chunks, which the next range may need."""
        length = self.chunk
        first, last = start // length * length, min(-(-stop // length) * length, self._end)
        if (first, last) == (start, stop) or start == stop or isinstance(self.source, PlainZarr):
            return self._slab(start, stop)
        row = self.dtype.itemsize * prod(self.shape) // max(self.n_sims, 1)
        if (last - first) * row > _MOST_AT_ONCE:
            self._warn(length, row, stop - start)
            return self._slab(start, stop)
        source, n_draws, at, slab = getattr(_kept, "slab", _NOTHING)
        known = source is self.source and n_draws == self.n_draws
        if not known or not (at <= start and stop <= at + slab.shape[self.axis]):
            slab, at = self._slab(first, last), first
            _kept.slab = (self.source, self.n_draws, at, slab)
        return slab[(slice(None),) * self.axis + (slice(start - at, stop - at),)]

    @property
    def _end(self) -> int:
        return int(self.source.shape[self.axis])

    def _slab(self, start: int, stop: int) -> Array:
        draws = (slice(None),) * self.axis if self.n_draws is None else (slice(self.n_draws),)
        try:
            return decoded(self.source[(*draws, slice(start, stop))])
        except Exception as error:  # whatever the package raises that reads the file
            raise ValueError(
                f"simulations {start} to {stop - 1} cannot be read from where they are stored: "
                f"{clean(error, 400)}. If the file is damaged, write it again."
            ) from error

    def _warn(self, length: int, row: int, n_sims: int) -> None:
        times = min(length, self._end) // max(n_sims, 1)
        if times > 1:
            warnings.warn(
                f"an array of shape {tuple(self.source.shape)} is stored in chunks that span "
                f"{length} simulations each, {length * row / 2**30:.1f} GB with all draws, so "
                f"each is read about {times} times. Store it in chunks of fewer simulations and "
                f"all draws: see docs/large.md.",
                stacklevel=2,
            )


def forget() -> None:
    """Let go of the chunks that were kept for the blocks to come."""
    _kept.slab = _NOTHING

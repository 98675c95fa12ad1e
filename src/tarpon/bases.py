"""Bases: what a field is made of, at which scale or in which region.

A basis is any object with two methods: `coefficients(points, shape)` returns linear combinations
of the cells of fields, and `bands(shape)` says to which band each of them belongs. Errors of
fields are then looked for band by band: too little power, a wrong width, structure in the wrong
places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import inf, prod
from typing import Protocol, runtime_checkable

import numpy as np

from ._base import arguments, optional
from ._base.arrays import namespace, to_device_of
from ._base.types import Array, ArrayLike, Floats, Ints

__all__ = ["Bands", "Basis", "Fourier", "Matrix", "Regions", "Wavelet"]

_SCALES = (2, 3)  # cells, and these times powers of two: the ends of radial bands
_MOST_BANDS = 64


@dataclass(frozen=True, eq=False)
class Bands:
    """The band of every coefficient.

    Arguments:
        names: The names of the bands.
        labels: The band of each coefficient, `(n_coefficients,)`; -1 for none.
        scales: The smallest and the largest scale of each band in cells, smallest first, if they
            are scales.
        signed: Whether the sum of the coefficients of a band means something: the bias of a
            region, but not that of waves.
        contrasts: Weights of the coefficients that compare directions,
            `(n_coefficients, n_contrasts)`.
        directions: The two directions that each contrast compares, in words.
    """

    names: tuple[str, ...]
    labels: Ints
    scales: tuple[tuple[float, float], ...] = ()
    signed: bool = False
    contrasts: Floats | None = None
    directions: tuple[tuple[str, str], ...] = ()

    def called(self, places: Sequence[int]) -> str:
        """Return some of the bands in words.

        Example:
            >>> bands = Fourier().bands((16, 16))
            >>> bands.called([0, 1, 2]), bands.called(range(len(bands.names)))
            ('scales below 4 cells', 'all scales')
        """
        if not self.scales:
            return ", ".join(self.names[k] for k in places)
        return ", ".join(self._range(run) for run in _runs(places))

    def _range(self, run: Sequence[int]) -> str:
        """Return a run of neighbouring scales in words."""
        first, last = run[0] == 0, self.scales[run[-1]][1] == inf
        low, high = self.scales[run[0]][0], self.scales[run[-1]][1]
        if self.scales[run[0]][0] == inf:
            return "the mean of the field"
        if first and last:
            return "all scales"
        if first:
            return f"scales below {high:g} cells"
        return (
            f"scales of {low:g} cells and more" if last else f"scales of {low:g} to {high:g} cells"
        )


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Return places as runs of neighbours."""
    runs: list[list[int]] = []
    for k in sorted(places):
        if runs and k == runs[-1][-1] + 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return runs


@runtime_checkable
class Basis(Protocol):
    """Linear combinations of the cells of a field, in bands."""

    def coefficients(self, points: Array, shape: tuple[int, ...]) -> Array:
        """Return the coefficients of flat fields `(..., n_cells)`, `(..., n_coefficients)`."""
        ...

    def bands(self, shape: tuple[int, ...]) -> Bands:
        """Return the band of every coefficient of fields of a shape."""
        ...


@dataclass(frozen=True)
class Fourier:
    r"""Waves, in bands of their wavelength, on a grid of one, two or more axes.

    The coefficients are the real and imaginary parts of

    .. math:: \tilde\theta_k = \frac{1}{\sqrt{n}} \sum_r \theta_r\, e^{-i k \cdot r} ,

    each wave once, in units in which the sum of their squares is that of the cells. A band has
    the waves with wavelengths :math:`2 \pi / |k|` between two scales: 2, 3, 4, 6, 8, 12, …
    cells. The field need not be periodic; edges that do not match look like structure at small
    scales, of truths and draws alike. Directions are compared between two axes by
    :math:`(k_a^2 - k_b^2) / k^2`, and between their diagonals by :math:`2 k_a k_b / k^2`.

    Example:
        >>> Fourier().bands((16, 16)).names
        ('below 2', '2–3', '3–4', '4–6', '6–8', '8–12', '16 and more', 'mean')
        >>> Fourier().coefficients(np.ones(256), (16, 16))[0]
        np.float64(16.0)
    """

    def coefficients(self, points: Array, shape: tuple[int, ...]) -> Array:
        from scipy.fft import rfftn

        if namespace(points) is not np:
            return _on_device(points, shape)
        axes = tuple(range(-len(shape), 0))
        fields = points.reshape(*points.shape[:-1], *shape)
        waves = rfftn(fields, axes=axes, norm="ortho")
        parts = waves.view(waves.real.dtype)
        parts *= _standing_for_two(shape[-1]).astype(parts.dtype)
        return parts.reshape(*points.shape[:-1], -1)

    def bands(self, shape: tuple[int, ...]) -> Bands:
        waves = _frequencies(shape)
        frequency = np.sqrt((waves**2).sum(axis=0))
        edges = _edges(shape)
        # A wave on an edge belongs to the larger scales, whatever rounding says.
        place = np.searchsorted(edges, (1 + 1e-9) / np.maximum(frequency, 1e-300), side="right")
        place[frequency == 0] = len(edges) + 1
        there, labels = np.unique(place, return_inverse=True)
        ends = [0.0, *edges, inf]
        scales = tuple((inf, inf) if k > len(edges) else (ends[k], ends[k + 1]) for k in there)
        contrasts, directions = _contrasts(waves)
        return Bands(
            tuple(_named(*scale) for scale in scales),
            np.repeat(labels, 2),
            scales,
            contrasts=np.repeat(contrasts, 2, axis=0) if directions else None,
            directions=directions,
        )


def _on_device(points: Array, shape: tuple[int, ...]) -> Array:
    """Return the coefficients of waves in tensors, where these are."""
    torch, axes = namespace(points), tuple(range(-len(shape), 0))
    fields = points.reshape(*points.shape[:-1], *shape)
    waves = torch.fft.rfftn(fields, dim=axes, norm="ortho")
    parts = torch.view_as_real(waves).reshape(*waves.shape[:-1], -1)
    factors = to_device_of(_standing_for_two(shape[-1]), parts)
    parts = parts * torch.asarray(factors, dtype=parts.dtype)
    return parts.reshape(*points.shape[:-1], -1)


def _standing_for_two(n_last: int) -> Floats:
    """Return factors of real and imaginary parts: √2 for waves that stand for two, else 1."""
    factors = np.ones(2 * (n_last // 2 + 1))
    factors[2 : 2 * ((n_last + 1) // 2)] = np.sqrt(2.0)
    return factors


def _contrasts(waves: Floats) -> tuple[Floats, tuple[tuple[str, str], ...]]:
    """Return weights of waves that compare directions, `(n_waves, n_contrasts)`, and which."""
    square = np.maximum((waves**2).sum(axis=0), 1e-300)
    weights, directions = [], []
    for a, b in combinations(range(len(waves)), 2):
        # A wave of two cells runs along both diagonals, whatever sign it has.
        clear = (abs(waves[[a, b]]) < 0.5).all(axis=0)
        weights += [waves[a] ** 2 - waves[b] ** 2, 2 * waves[a] * waves[b] * clear]
        directions.append((f"axis {a}", f"axis {b}"))
        directions.append(
            (f"the diagonal axis {a} = axis {b}", f"the diagonal axis {a} = −axis {b}")
        )
    return np.transpose([weight / square for weight in weights]), tuple(directions)


def _frequencies(shape: tuple[int, ...]) -> Floats:
    """Return waves per cell along each axis, `(n_axes, n_waves)`."""
    each = [np.fft.fftfreq(n) for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1])]
    return np.stack([f.ravel() for f in np.meshgrid(*each, indexing="ij")])


def _edges(shape: tuple[int, ...]) -> list[float]:
    """Return the scales at which bands end, in cells: no more than the field has."""
    every = sorted(scale * 2.0**k for scale in _SCALES for k in range(40))
    return [edge for edge in every if edge <= max(shape)]


def _named(low: float, high: float) -> str:
    if low == inf:
        return "mean"
    if low == 0:
        return f"below {high:g}"
    return f"{low:g} and more" if high == inf else f"{low:g}–{high:g}"


@dataclass(frozen=True)
class Wavelet:
    r"""Wavelets, in bands of their scale: structure that has a place as well as a size.

    The details of level :math:`j` are a band, with structure of :math:`2^j` to
    :math:`2^{j + 1}` cells, and what all levels leave is the last one. The field is taken as
    periodic. If every axis can be halved `levels` times, the sum of squares of the coefficients
    is that of the cells; an axis with an odd number of cells is extended by its last cell.

    Directions are compared between two axes, by the details along each of them, and between
    the axes and their diagonals. Needs PyWavelets (`pip install tarpon[wavelets]`).

    Arguments:
        name: The name of an orthogonal wavelet of PyWavelets: "haar", "db2", "sym4", "coif1", …
        levels: The number of levels; by default so many that what they leave is two or three
            cells wide along the shortest axis.

    Example:
        >>> Wavelet("haar").bands((16, 16)).names
        ('2–4', '4–8', '8–16', '16 and more')
        >>> Wavelet("haar").bands((16, 16)).called([1])
        'scales of 4 to 8 cells'
    """

    name: str = "db2"
    levels: int | None = None

    def __post_init__(self) -> None:
        pywt = optional.package("pywt", user="`Wavelet`")
        known = [name for name in pywt.wavelist(kind="discrete") if pywt.Wavelet(name).orthogonal]
        arguments.one_of("name", self.name, known)
        if self.levels is not None:
            arguments.positive("levels", self.levels)

    def coefficients(self, points: Array, shape: tuple[int, ...]) -> Array:
        pywt = optional.package("pywt", user="`Wavelet`")
        axes = tuple(range(-len(shape), 0))
        rest, found = points.reshape(*points.shape[:-1], *shape), []
        for _ in range(self._levels(shape)):
            details = pywt.dwtn(rest, self.name, mode="periodization", axes=axes)
            rest = details.pop("a" * len(shape))
            found += [details[along] for along in _details(len(shape))]
        flat = [part.reshape(*points.shape[:-1], -1) for part in (*found, rest)]
        return np.concatenate(flat, axis=-1)

    def bands(self, shape: tuple[int, ...]) -> Bands:
        n_levels, along = self._levels(shape), _details(len(shape))
        halves = [tuple(-(-n // 2**level) for n in shape) for level in range(1, n_levels + 1)]
        counts = [prod(half) for half in halves for _ in along] + [prod(halves[-1])]
        levels = [level for level in range(n_levels) for _ in along] + [n_levels]
        scales = [(2.0**level, 2.0 ** (level + 1)) for level in range(1, n_levels + 1)]
        scales.append((2.0 ** (n_levels + 1), inf))
        contrasts, directions = _contrasts_of_details(along)
        rows = np.concatenate([np.tile(contrasts, (n_levels, 1)), 0 * contrasts[:1]])
        return Bands(
            tuple(_named(*scale) for scale in scales),
            np.repeat(levels, counts),
            tuple(scales),
            contrasts=np.repeat(rows, counts, axis=0) if directions else None,
            directions=directions,
        )

    def _levels(self, shape: tuple[int, ...]) -> int:
        most = min(shape).bit_length() - 1
        if most < 1 or (self.levels or 0) > most:
            wanted = f"at least {2 ** (self.levels or 1)} cells along each axis"
            raise ValueError(f"`Wavelet` needs {wanted}, but got fields of {shape}.")
        return self.levels or max(1, most - 1)


def _details(n_axes: int) -> list[str]:
    """Return the details of a level: along which axes a field varies ("d"), in all ways."""
    return ["".join(along) for along in product("ad", repeat=n_axes) if "d" in along]


def _contrasts_of_details(along: list[str]) -> tuple[Floats, tuple[tuple[str, str], ...]]:
    """Return weights of details that compare directions, `(n_details, n_contrasts)`, and which."""
    varies = np.array([[letter == "d" for letter in each] for each in along], dtype=float)
    n_axes = varies.sum(axis=1)
    pairs = list(combinations(range(varies.shape[1]), 2))
    weights = [(varies[:, a] - varies[:, b]) / n_axes for a, b in pairs]
    directions = [(f"axis {a}", f"axis {b}") for a, b in pairs]
    if pairs:
        weights.append(np.where(n_axes == 1, 1.0, -1.0))
        directions.append(("the axes", "diagonals"))
    return np.reshape(weights, (-1, len(along))).T, tuple(directions)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Any linear map of the cells: harmonics, principal components, a forward operator.

    Arguments:
        matrix: The map :math:`U`, `(n_coefficients, n_cells)`.
        labels: The band of each coefficient, `(n_coefficients,)`; by default each is a band of
            its own, or, if they are more than 64, the same number of neighbours are.

    Example:
        >>> two = Matrix(np.eye(2, 9))
        >>> two.coefficients(np.arange(9.0), (3, 3))
        array([0., 1.])
        >>> two.bands((3, 3)).names
        ('coefficient 0', 'coefficient 1')
    """

    matrix: ArrayLike
    labels: ArrayLike | None = None

    def __post_init__(self) -> None:
        matrix = arguments.floats("matrix", self.matrix, "a matrix of numbers")
        if matrix.ndim != 2 or not len(matrix):
            wanted = "a matrix (n_coefficients, n_cells)"
            raise ValueError(arguments.wrong("matrix", wanted, matrix))
        object.__setattr__(self, "matrix", matrix)
        if self.labels is not None:
            object.__setattr__(self, "labels", _labels(self.labels, (len(matrix),)))

    def coefficients(self, points: Array, shape: tuple[int, ...]) -> Array:
        _as_many("matrix", np.asarray(self.matrix).shape[1], shape)
        return points @ np.asarray(self.matrix, dtype=points.dtype).T

    def bands(self, shape: tuple[int, ...]) -> Bands:
        n = len(np.asarray(self.matrix))
        if self.labels is not None:
            return _by_label(np.asarray(self.labels), "band")
        if n <= _MOST_BANDS:
            names = tuple(f"coefficient {k}" for k in range(n))
            return Bands(names, np.arange(n), signed=True)
        labels = np.arange(n) * _MOST_BANDS // n
        ends = np.searchsorted(labels, np.arange(_MOST_BANDS + 1))
        names = tuple(f"coefficients {a}–{b - 1}" for a, b in pairwise(ends))
        return Bands(names, labels)


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of a field, each a set of cells.

    Arguments:
        labels: A whole number per cell, of the shape of the field: its region; negative for
            cells of no region.

    Example:
        >>> halves = Regions([[0, 0, 1, 1]] * 2)
        >>> halves.bands((2, 4)).names
        ('region 0', 'region 1')
    """

    labels: ArrayLike

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        object.__setattr__(self, "labels", _labels(labels, labels.shape))

    def coefficients(self, points: Array, shape: tuple[int, ...]) -> Array:
        _as_many("labels", np.asarray(self.labels).size, shape)
        return points

    def bands(self, shape: tuple[int, ...]) -> Bands:
        return _by_label(np.asarray(self.labels).ravel(), "region")


def _labels(labels: ArrayLike, shape: tuple[int, ...]) -> Ints:
    """Return whole numbers of a shape, of which at least one is not negative."""
    found = np.asarray(labels)
    if found.dtype.kind not in "biu" or found.shape != shape or not (found >= 0).any():
        wanted = f"whole numbers of shape {shape}, negative ones for no band"
        raise ValueError(arguments.wrong("labels", wanted, labels))
    if len(np.unique(found[found >= 0])) > _MOST_BANDS:
        raise ValueError(
            f"`labels` must be of at most {_MOST_BANDS} bands, but got "
            f"{len(np.unique(found[found >= 0]))}. Merge some of them."
        )
    return found.astype(np.int64)


def _by_label(labels: Ints, called: str) -> Bands:
    known = np.unique(labels[labels >= 0])
    names = tuple(f"{called} {k}" for k in known)
    places = np.where(labels >= 0, np.searchsorted(known, labels), -1)
    return Bands(names, places, signed=True)


def _as_many(name: str, n_cells: int, shape: tuple[int, ...]) -> None:
    if n_cells != prod(shape):
        raise ValueError(
            f"`{name}` must be for fields of {prod(shape)} cells, {shape}, but is for {n_cells}."
        )


def fitting(basis: Basis | None, shape: tuple[int, ...]) -> Basis | None:
    """Return the basis of fields of a shape: waves, unless told, and none of plain vectors."""
    if basis is None:
        return Fourier() if len(shape) > 1 and prod(shape) >= 16 else None
    for method in ("coefficients", "bands"):
        arguments.function("basis", basis, "a basis, like `tarpon.bases.Fourier()`", method)
    found = np.shape(basis.coefficients(np.zeros((1, prod(shape)), np.float32), shape))
    if found != (1, len(labels := basis.bands(shape).labels)):
        raise ValueError(
            f"`basis` must return as many coefficients as it has labels, but got {found} of one "
            f"field and {len(labels)} labels."
        )
    return basis

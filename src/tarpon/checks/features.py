"""Features: numbers per simulation that the errors of a posterior may depend on.

All are functions of the data and of pooled points, never of which point is the truth, so a swap
test on them is exact.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.random import Generator

from .._base import threads
from .._base.arrays import power_of_two
from .._base.types import Array, Floats, Ints
from ..simulations import fields, shapes

MOST_PLAIN, MOST_PRODUCTS, MOST_WAVES, MOST_LEADING = 64, 300, 32, 8
_MOST_SUMS = 20_000  # of features times parameters
_ROUNDING = 1e-6  # the relative size below which differences are taken for rounding
_CLEAR = 3  # times the noise from which a feature goes with a posterior mean
_MOST_GUIDING = 64  # directions of posterior means that data are compared with
_ROW_BYTES = 16 * 2**20
_FEW = 2**24  # numbers for which one thread is quicker than several that wait for each other
_FEWEST_ROWS = 16  # that are read together, or a sketch of wide data would take too long
_DATA = "observations `x` (or `summary(x)`)"
# Of data with so many columns, and no more rows or bytes, rows are multiplied with each other.
_WIDE, _FEW_ROWS, _FEW_BYTES = 2**16, 2000, 2**30


@dataclass(frozen=True, eq=False)
class Features:
    """Standardised features of every simulation, and what they are made of.

    Arguments:
        values: All features, `(n_sims, n_plain + n_products + n_waves)`: plain ones, products
            of two of them, and waves over all of them.
        share: How much each plain feature and each wave counts where all count together.
        plain: The number of plain features: the data, or their leading principal components if
            they are many; without data, the centres of the points.
        pairs: The two plain features of every product, `(n_products, 2)`, first the squares.
        leading: The first plain features that go with a posterior mean, at most eight.
        means: The standardised centres of the points, `(n_sims, n_dims)`.
        guides: What the data say about each parameter beyond the posterior means, as far as
            columns of the data go with the means, `(n_sims, n_dims)`; zero without data.
        columns: The columns of the data that vary, of which plain features are made.
        principal: Whether the plain features are principal components.
    """

    values: Floats
    share: Floats
    plain: int
    pairs: Ints
    leading: Ints
    means: Floats
    guides: Floats
    columns: Ints
    principal: bool

    @property
    def waves(self) -> slice:
        """The places of the waves."""
        return slice(self.plain + len(self.pairs), self.values.shape[1])

    @property
    def products(self) -> slice:
        """The places of the products."""
        return slice(self.plain, self.plain + len(self.pairs))

    @property
    def n_squares(self) -> int:
        """The number of products of a feature with itself, which are the first of them."""
        return int((self.pairs[:, 0] == self.pairs[:, 1]).sum())

    def __getitem__(self, where: slice) -> "Features":
        """Return the features of some simulations."""
        return replace(
            self,
            values=self.values[where],
            means=self.means[where],
            guides=self.guides[where],
        )

    @classmethod
    def joined(cls, parts: "Sequence[Features]") -> "Features":
        """Return the features of several ranges of simulations together."""
        return replace(
            parts[0],
            values=np.concatenate([part.values for part in parts]),
            means=np.concatenate([part.means for part in parts]),
            guides=np.concatenate([part.guides for part in parts]),
        )

    def namer(
        self, data: Array | None, label: str, names: tuple[str, ...]
    ) -> Callable[[int], str]:
        """Return a function that names a plain feature or a product."""

        def name(k: int) -> str:
            if k >= self.plain:
                first, second = self.pairs[k - self.plain]
                return f"{name(first)}²" if first == second else f"{name(first)} × {name(second)}"
            if data is None:
                return f"the posterior mean of {names[self.columns[k]]}"
            if self.principal:
                return f"principal component {k + 1} of {label}"
            return fields.place(data.shape[1:], int(self.columns[k]), label)

        return name


def n_features(n_columns: int, n_chosen: int) -> tuple[int, int, int]:
    """Return the largest numbers of plain features, products and waves of data."""
    plain = min(MOST_PLAIN, n_columns)
    # Fewer plain features, where columns never vary, may leave room for more products.
    return plain, max(_n_products(n, n_chosen) for n in range(plain + 1)), MOST_WAVES


def _n_products(n_plain: int, n_chosen: int) -> int:
    """Return the number of products of features, as many as memory for their sums allows."""
    room = min(MOST_PRODUCTS, _MOST_SUMS // n_chosen - n_plain - MOST_WAVES)
    most = max(0, int((np.sqrt(8 * max(room, 0) + 1) - 1) / 2))
    n = min(n_plain, most)
    return n * (n + 1) // 2


def features(data: Array | None, centres: Floats, n_chosen: int, rng: Generator) -> Features:
    """Return the features of data, for posteriors with these centres, `(n_sims, n_dims)`.

    Arguments:
        data: The data `(n_sims, ...)`, or None.
        centres: The mean of each simulation's points.
        n_chosen: The number of parameters of which products with features are taken.
        rng: The generator of sketches and waves.
    """
    means = _standard_or_zero(centres)
    n_numbers = means.size + (0 if data is None else prod(data.shape))
    with threads.one_thread_each() if n_numbers < _FEW else nullcontext():
        found = _of_means(means) if data is None else _of_data(data, means, rng)
        plain, share, guides, columns, principal = found
        telling = _telling(plain, means)
    pairs = _pairs(telling, _n_products(plain.shape[1], n_chosen))
    products: Floats = plain[:, pairs[:, 0]] * plain[:, pairs[:, 1]]
    # The square of a column with two values is constant, or would be without rounding.
    products[:, products.std(axis=0) < _ROUNDING] = 0.0
    products = _standard_or_zero(products)
    waves, weights = _waves(plain, rng)
    return Features(
        np.ascontiguousarray(np.concatenate([plain, products, waves], axis=1), dtype=np.float32),
        np.concatenate([share, np.zeros(len(pairs)), weights]).astype(np.float32),
        plain.shape[1],
        pairs,
        telling[:MOST_LEADING],
        means.astype(np.float32),
        guides.astype(np.float32),
        columns,
        principal,
    )


_Plain = tuple[Floats, Floats, Floats, Ints, bool]


def _of_means(means: Floats) -> _Plain:
    """Return the posterior means in the place of data, which could guide nobody."""
    columns = np.flatnonzero(means.any(axis=0))[:MOST_PLAIN]
    return means[:, columns], np.ones(len(columns)), np.zeros(means.shape), columns, False


def _of_data(data: Array, means: Floats, rng: Generator) -> _Plain:
    """Return plain features of data, their shares, guides, and the columns they are made of."""
    guiding, back = _leading(means)
    if _is_wide(data):
        plain, share, guides = _principal_of_wide(np.asarray(data), guiding)
    elif prod(data.shape[1:]) > MOST_PLAIN:
        plain, share, guides = _principal(_Columns.of(data), guiding, rng)
    else:
        flat = np.asarray(data, dtype=float).reshape(data.shape[0], -1)
        plain, columns = _standard(shapes.finite(_DATA, flat))
        guides = plain @ _shrunk(plain.T @ guiding, len(plain))
        beyond = _beyond(guides @ back, means, guiding)
        return plain, np.ones(plain.shape[1]), beyond, columns, False
    plain, kept = _standard(plain)
    return plain, share[kept], _beyond(guides @ back, means, guiding), kept, True


def _leading(means: Floats) -> tuple[Floats, Floats]:
    """Return at most 64 directions of posterior means, and the way back to all of them."""
    if means.shape[1] <= _MOST_GUIDING:
        return means, np.eye(means.shape[1])
    left, sizes, right = np.linalg.svd(means, full_matrices=False)
    root = np.sqrt(len(means))
    return left[:, :_MOST_GUIDING] * root, (sizes[:, None] * right)[:_MOST_GUIDING] / root


def _moments(products: Floats, n_rows: int) -> Floats:
    """Return how many sums of products there are, and the sums of their squares and fourths.

    In standard errors, `(3, n_guiding)`; those of columns that never vary do not count.
    """
    z = products[products.any(axis=1)] / np.sqrt(n_rows)
    return np.stack([np.full(products.shape[1], len(z)), (z**2).sum(axis=0), (z**4).sum(axis=0)])


def _shrunk(products: Floats, n_rows: int, moments: Floats | None = None) -> Floats:
    r"""Return sums of products of standardised numbers, shrunk as far as they are noise.

    Of the sums in standard errors, :math:`z`, a share :math:`\pi` has the variance
    :math:`1 + v` and the others 1; both are found from the second and fourth moments over the
    columns of the data. What is returned is the expected signal given :math:`z`.
    """
    n, square, fourth = _moments(products, n_rows) if moments is None else moments
    signal = np.maximum(square / np.maximum(n, 1) - 1, 1e-6)
    fourth = np.maximum(fourth / np.maximum(n, 1) - 3 - 6 * signal, 3 * signal**2)
    variance = fourth / (3 * signal)
    share = np.clip(signal / variance, 1e-6, 1.0)
    squares = np.minimum(products**2 / n_rows, 700)
    odds = squares * variance / (2 * (1 + variance)) - 0.5 * np.log1p(variance)
    kept = share / (share + (1 - share) * np.exp(-odds))
    return products * kept * variance / (1 + variance)


def _beyond(guides: Floats, means: Floats, leading: Floats) -> Floats:
    """Return what guides say beyond posterior means, and their leading ones, standardised."""
    known, rest = leading[:, : max(1, len(means) // 5)], guides
    if known.size:
        rest = rest - known @ np.linalg.lstsq(known, rest, rcond=1e-6)[0]
    own = (means * rest).sum(axis=0) / np.maximum((means**2).sum(axis=0), 1e-300)
    rest = rest - own * means
    # Rounding would depend on the order of the points, that is, on which of them is the truth.
    rest[:, rest.std(axis=0) <= _ROUNDING * guides.std(axis=0)] = 0.0
    return _standard_or_zero(rest)


def guides_of_blocks(data: Floats, mean: Floats, edges: Ints) -> Floats:
    """Return what blocks of columns say beyond a posterior mean, `(n_sims, n_blocks)`.

    Arguments:
        data: The data, `(n_sims, n_columns)`.
        mean: A standardised posterior mean, `(n_sims,)`.
        edges: The first columns of the blocks, and the end of the last.
    """
    columns = _standard_or_zero(data)
    weights = _shrunk(columns.T @ mean[:, None], len(data))
    guides = np.add.reduceat(columns * weights[:, 0], edges[:-1], axis=1)
    own = (mean @ guides) / np.maximum(mean @ mean, 1e-300)
    return _standard_or_zero(guides - np.outer(mean, own))


def _telling(plain: Floats, means: Floats) -> Ints:
    """Return the plain features in their order, first those that go with a posterior mean."""
    together = abs(plain.T @ means).max(axis=1, initial=0.0)
    return np.argsort(together < _CLEAR * np.sqrt(len(plain)), kind="stable")


def _pairs(telling: Ints, n_products: int) -> Ints:
    """Return all pairs of the most telling features, as many as make so many products.

    Squares are the first of them.
    """
    n = int((np.sqrt(8 * n_products + 1) - 1) / 2)
    best, (first, second) = np.sort(telling[:n]), np.triu_indices(n, 1)
    different = np.column_stack([best[first], best[second]])
    return np.concatenate([np.column_stack([best, best]), different])


def _waves(plain: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """Return the leading directions of a Gaussian kernel of the features, and their shares.

    Its width is the median distance; the kernel is made of random waves (Rahimi and Recht, 2007).
    """
    n_rows, n_plain = plain.shape
    if not n_plain:
        return np.zeros((n_rows, 0)), np.zeros(0)
    some = rng.permutation(n_rows)[: 2 * min(n_rows // 2, 500)].reshape(2, -1)
    distances = np.sqrt(((plain[some[0]] - plain[some[1]]) ** 2).sum(axis=1))
    width = float(np.median(distances)) if distances.size else 1.0
    speed = rng.standard_normal((n_plain, 4 * MOST_WAVES)) / (width or 1.0)
    waves = np.cos(plain @ speed + rng.uniform(0, 2 * np.pi, 4 * MOST_WAVES))
    waves -= waves.mean(axis=0)
    n_kept = min(MOST_WAVES, n_rows - 1)
    with threads.one_thread_each():  # quicker, for so few
        sizes, axes = np.linalg.eigh(waves.T @ waves)
    sizes, axes = sizes[::-1][:n_kept], axes[:, ::-1][:, :n_kept]
    kept = sizes > 1e-9 * sizes.max(initial=1e-300)
    sizes, axes = sizes[kept], axes[:, kept]
    return waves @ axes * np.sqrt(n_rows / sizes), sizes / sizes.sum()


def _is_wide(data: Array) -> bool:
    n_rows, n_columns = data.shape[0], prod(data.shape[1:])
    small = isinstance(data, np.ndarray) or n_rows * n_columns * data.dtype.itemsize <= _FEW_BYTES
    return n_columns > _WIDE and n_rows <= _FEW_ROWS and small


def _principal_of_wide(data: Array, guiding: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the leading principal components of standardised columns, a few of them at a time.

    They are the leading eigenvectors of the matrix of products of rows, which is small.
    """
    flat = data.reshape(len(data), -1)
    step = max(1, _ROW_BYTES // (8 * len(flat)))

    def some() -> Iterator[Floats]:
        for start in range(0, flat.shape[1], step):
            numbers = np.asarray(flat[:, start : start + step], dtype=float)
            yield _standard(shapes.finite(_DATA, numbers))[0]

    products, guides = np.zeros((len(flat), len(flat))), np.zeros(guiding.shape)
    moments = np.zeros((3, guiding.shape[1]))
    for columns in some():
        products += columns @ columns.T
        moments += _moments(columns.T @ guiding, len(flat))
    for columns in some():
        guides += columns @ _shrunk(columns.T @ guiding, len(flat), moments)
    sizes, axes = np.linalg.eigh(products)
    n_kept = min(MOST_PLAIN, len(flat) - 1)
    return axes[:, ::-1][:, :n_kept], _shares(sizes[::-1][:n_kept]), guides


def _principal(
    columns: "_Columns", guiding: Floats, rng: Generator
) -> tuple[Floats, Floats, Floats]:
    """Return the leading principal components of standardised columns.

    By a randomised range finder with one power iteration (Halko et al., 2011), and a few rows at
    a time, since the data may be images of which no copy fits into memory.
    """
    n_kept = min(MOST_PLAIN, columns.n_rows - 1)
    guess = np.concatenate([guiding, rng.standard_normal((columns.n_rows, n_kept + 16))], axis=1)
    turned = sum(rows.T @ guess[where] for where, rows in columns)
    pulled, turned = np.split(turned, [guiding.shape[1]], axis=1)
    pulled, guides = _shrunk(pulled, columns.n_rows), []
    twice = np.zeros_like(turned)
    for _, rows in columns:
        twice += rows.T @ (rows @ turned)
        guides.append(rows @ pulled)
    basis, _ = np.linalg.qr(np.concatenate([rows @ twice for _, rows in columns]))
    turn, sizes, _ = np.linalg.svd(
        sum(basis[where].T @ rows for where, rows in columns), full_matrices=False
    )
    return (basis @ turn)[:, :n_kept], _shares(sizes[:n_kept] ** 2), np.concatenate(guides)


def _shares(sizes: Floats) -> Floats:
    return np.maximum(sizes, 0.0) / (sizes.max(initial=0.0) or 1.0)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Standardised columns of data, a few rows at a time; constant columns are zero."""

    data: Array
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, data: Array) -> "_Columns":
        """Return the columns of data with their means and sd."""
        plain = cls(data, np.zeros(1), np.ones(1))
        largest = np.max([abs(rows).max(axis=0) for _, rows in plain], axis=0)
        shapes.finite(_DATA, largest)
        unit = power_of_two(largest)
        scaled = cls(data, np.zeros(1), unit)
        mean = unit * (sum(rows.sum(axis=0) for _, rows in scaled) / plain.n_rows)
        square, largest = np.zeros((2, len(unit)))
        for _, rows in cls(data, mean, unit):
            square += np.square(rows).sum(axis=0)
            largest = np.maximum(largest, abs(rows).max(axis=0))
        sd = np.sqrt(square / plain.n_rows)
        return cls(data, mean, np.where(sd > 1e-12 * largest, unit * sd, np.inf))

    @property
    def n_rows(self) -> int:
        return int(self.data.shape[0])

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        step = max(_FEWEST_ROWS, _ROW_BYTES // (8 * prod(self.data.shape[1:])))
        for start in range(0, self.n_rows, step):
            where = slice(start, min(start + step, self.n_rows))
            rows = np.asarray(self.data[where], dtype=float).reshape(where.stop - start, -1)
            yield where, (rows - self.mean) / self.sd


def _standard(columns: Floats) -> tuple[Floats, Ints]:
    """Return the columns that vary, each with mean 0 and sd 1, and which they are."""
    columns = columns / power_of_two(abs(columns).max(axis=0, initial=0.0))
    columns -= columns.mean(axis=0)
    sd = columns.std(axis=0)
    varies = np.flatnonzero(sd > 1e-12 * abs(columns).max(axis=0, initial=0.0))
    return columns[:, varies] / sd[varies], varies


def _standard_or_zero(columns: Floats) -> Floats:
    """Return columns with mean 0 and sd 1; those that do not vary are zero."""
    standard, varies = _standard(columns)
    filled = np.zeros(columns.shape)
    filled[:, varies] = standard
    return filled

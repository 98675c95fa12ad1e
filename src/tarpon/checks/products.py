r"""Products: sums over simulations of products of normal scores with features and each other.

With :math:`t` the normal scores of the points that play the truth, of the chosen parameters, and
:math:`f` the features of a simulation, every labelling has the sums

.. math:: \sum_i t_k f_l, \quad \sum_i h_2(t_k) f_l, \quad \sum_i t_k t_m, \quad
    \sum_i t_k t_m f_l, \quad \sum_i t_k t_m t_n ,

where :math:`h_2` is the width component of a rank. The scores of some labellings at a time are
gathered, simulations last, and all sums are products of matrices.
"""

from dataclasses import dataclass

import numpy as np

from .. import backends
from .._base import arrays
from .._base.arrays import Results
from .._base.types import Array, Ints
from . import waves
from .features import MOST_LEADING, Features

PRODUCTS = ("data", "data_width", "pairs", "pairs_by_own", "pairs_by_data", "triples")
_MOST_PAIRED = 2**14  # sums of pairs of parameters with features
_MOST_TRIPLED = 12  # parameters of which triples are taken


@dataclass(frozen=True)
class Sizes:
    """The numbers of sums of a labelling.

    Arguments:
        n_chosen: The number of parameters.
        n_features: The number of features.
        n_plain: The number of plain features, which are also multiplied with widths.
        n_leading: The number of features that are multiplied with pairs.
    """

    n_chosen: int
    n_features: int
    n_plain: int
    n_leading: int

    @classmethod
    def of(cls, n_chosen: int, features: Features) -> "Sizes":
        n_leading = min(len(features.leading), most_leading(n_chosen))
        return cls(n_chosen, features.values.shape[1], features.plain, n_leading)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the sums of a labelling, by name."""
        n_pairs = len(pairs(self.n_chosen))
        sizes: tuple[tuple[int, ...], ...] = (
            (self.n_chosen, self.n_features),
            (self.n_chosen, self.n_plain),
            (n_pairs,),
            (self.n_chosen, self.n_chosen),
            (self.n_leading, n_pairs),
            (len(triples(self.n_chosen)),),
        )
        return dict(zip(PRODUCTS, sizes, strict=True)) | waves.shapes(self.n_chosen)


def most_leading(n_chosen: int) -> int:
    """Return how many features pairs are multiplied with, as memory for the sums allows."""
    return min(MOST_LEADING, _MOST_PAIRED // len(pairs(n_chosen)) - 1) if n_chosen > 1 else 0


def pairs(n_chosen: int) -> Ints:
    """Return the two parameters of all pairs, `(n_pairs, 2)`: first those of one with itself."""
    alone, apart = np.arange(n_chosen), np.triu_indices(n_chosen, 1)
    return np.concatenate([np.column_stack([alone, alone]), np.column_stack(apart)])


def apart(n_chosen: int) -> Ints:
    """Return which of all pairs are of two different parameters."""
    return np.arange(n_chosen, len(pairs(n_chosen)))


def triples(n_chosen: int) -> Ints:
    """Return the parameters of triples, `(n_triples, 3)`: two may be the same, but not three."""
    if not 1 < n_chosen <= _MOST_TRIPLED:
        return np.zeros((0, 3), dtype=int)
    k = np.arange(n_chosen)
    first, second, third = (axis.ravel() for axis in np.meshgrid(k, k, k, indexing="ij"))
    kept = (first <= second) & (second <= third) & (first < third)
    return np.column_stack([first, second, third])[kept]


def add(
    sums: Results,
    scores: Array,
    slots: Array,
    features: Features,
    chosen: Ints,
    width: tuple[float, float],
) -> None:
    """Add the products of a block to the sums, by name and `(n_rows, ...)`.

    Arguments:
        sums: The sums, which are added to.
        scores: The normal scores of the chosen parameters, `(n_block, n_all, n_chosen)`.
        slots: The points that play the truth, `(n_rows, n_block)`.
        features: The features of the block.
        chosen: The chosen parameters.
        width: The two numbers that make the width component of a rank, of the square of its
            normal score and of one.
    """
    xp, n_chosen = arrays.namespace(scores), scores.shape[2]
    n_leading = sums["pairs_by_data"].shape[1]
    values, means = (
        arrays.to_device_of(numbers, scores) for numbers in (features.values, features.means)
    )
    plain, own = values[:, : features.plain], means[:, chosen].T
    leading = values[:, features.leading[:n_leading]].T
    by = xp.concatenate([xp.ones_like(values[:, 0])[None], leading])
    (first, second), (a, b, c) = pairs(n_chosen).T, triples(n_chosen).T
    upper, of_three = first * n_chosen + second, (a * n_chosen + b) * n_chosen + c

    def run(rows: slice, sims: slice, t: Array) -> None:
        n_rows, _, n_together = t.shape
        flat, turned = t.reshape(-1, n_together), t.swapaxes(1, 2)

        def along(numbers: Array, features: Array) -> Array:
            return (numbers @ features[sims]).reshape(n_rows, n_chosen, -1)

        def with_scores(others: Array) -> Array:
            """Return sums of numbers `(n_rows, n, n_chosen, n_together)` with scores."""
            crossed = others.reshape(n_rows, -1, n_together) @ turned
            return crossed.reshape(n_rows, -1, n_chosen * n_chosen)

        sums["data"][rows] += along(flat, values)
        sums["data_width"][rows] += along(width[0] * flat * flat + width[1], plain)
        by_data = with_scores(t[:, None] * by[:, None, sims])[..., upper]
        sums["pairs"][rows] += by_data[:, 0]
        sums["pairs_by_data"][rows] += by_data[:, 1:]
        sums["pairs_by_own"][rows] += t @ (t * own[:, sims]).swapaxes(1, 2)
        if len(a):
            cubes = with_scores(t[:, :, None] * t[:, None])
            sums["triples"][rows] += cubes.reshape(n_rows, -1)[:, of_three]

    n_numbers = n_chosen * (2 + n_leading + (n_chosen if len(a) else 0))
    backends.swaps(scores).over_rows(run, scores, slots, n_numbers)

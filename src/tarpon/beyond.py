r"""Beyond bias and width: what else shows in ranks once these two are taken out.

Truths that lie to one side of their draws, or scatter more widely, raise the statistics of every
other flaw along. So before one is named beside them, it is looked for again, in ranks that are
measured by what bias and width alone would do to them.

Where draws are standard normal, let truths be :math:`N(b, s^2)`. A rank says in which of
:math:`n + 1` cells of equal probability a truth lies, and the expectation of the Hermite
polynomials there has a closed form: between :math:`a` and :math:`c` in units of truths,

.. math:: h_m = \frac{He_{m-1}(a)\, \varphi(a) - He_{m-1}(c)\, \varphi(c)}
          {\sqrt{m!}\, \big(\Phi(c) - \Phi(a)\big)}.

All :math:`h_m` have mean zero under such truths. Setting the means of the first two to zero gives
the likeliest :math:`b` and :math:`s`; the third and fourth are what is left of skewness and tails.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._types import Floats, Ints
from .effects import Effects
from .inference.swaps import Sums

_SCALES = (0.2, 20.0)  # beyond these, all truths share a cell or two
_MOST_STEPS, _CLOSE = 100, 1e-3


@dataclass(frozen=True, eq=False)
class Cells:
    """What ranks say of truths that are shifted and scaled.

    Arguments:
        shift: Of the truths, in sd of the draws.
        scale: How widely they scatter, in the same units.
        share: Of the truths in each cell, `(n_cells,)`.
        moments: The components of truths in each cell, `(n_cells, 4)`.
        noise: The sd of each component over the truths, `(4,)`.
    """

    shift: float
    scale: float
    share: Floats
    moments: Floats
    noise: Floats

    @classmethod
    def of(cls, levels: Floats, shift: float, scale: float) -> "Cells":
        """Return the cells between levels, the shares of draws below each edge.

        Example:
            >>> cells = Cells.of(np.linspace(0, 1, 101), shift=0.5, scale=1.2)
            >>> bool(abs(cells.share @ cells.moments).max() < 1e-9)
            True
        """
        from scipy.special import ndtr, ndtri

        edges = (ndtri(levels) - shift) / scale
        edges = edges.clip(-38.0, 38.0)  # where the density vanishes
        low, high = edges[:-1], edges[1:]
        share = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        falls = np.exp(-0.5 * edges**2) / np.sqrt(2 * np.pi)
        below = np.stack([np.ones_like(edges), edges, edges**2 - 1, edges**3 - 3 * edges])
        moments = (-np.diff(below * falls) / np.maximum(share, 1e-300)).T
        moments /= np.sqrt([1.0, 2.0, 6.0, 24.0])
        return cls(shift, scale, share, moments, np.sqrt(share @ moments**2))

    @classmethod
    def fitted(cls, levels: Floats, histogram: Ints) -> "Cells":
        """Return those under which a histogram is likeliest, by expectation and maximisation."""
        share, cells = histogram / histogram.sum(), cls.of(levels, 0.0, 1.0)
        for _ in range(_MOST_STEPS):
            mean, square, _, _ = share @ cells.moments
            if max(abs(mean), abs(square)) < _CLOSE:
                break
            wider = np.sqrt(max(1 + np.sqrt(2.0) * square - mean**2, 0.01))
            cells = cls.of(
                levels,
                cells.shift + cells.scale * mean,
                float(np.clip(cells.scale * wider, *_SCALES)),
            )
        return cells


@dataclass(frozen=True, eq=False)
class Beyond:
    """What else is wrong beside bias and width.

    Arguments:
        p_values: By flaw: how likely what is left of it would be. Approximate.
        outside: The share of truths that bias and width put beyond all draws, `(n_dims,)`.
    """

    p_values: dict[str, float]
    outside: Floats

    @classmethod
    def of(cls, sums: Sums, effects: Effects) -> "Beyond":
        """Return what is left once every parameter is shifted and scaled to be right."""
        levels = np.linspace(0.0, 1.0, effects.ranks.n_draws + 2)
        chosen, features = set(sums.chosen.tolist()), sums.features
        skewness, tails, trends, outside = [], [], [], []
        width, all_tails = np.zeros((2, sums.n_sims))
        for k, column in enumerate(effects.ranks.values.T):
            histogram = np.bincount(column, minlength=len(levels) - 1)
            cells = Cells.fitted(levels, histogram)
            first, second, third, fourth = (cells.moments / cells.noise)[column].T
            width, all_tails = width + second, all_tails + fourth
            skewness.append(_error(third))
            tails.append(_error(fourth))
            trends.append(_errors(first, _centred(effects.mean[:, [k]])))
            if k in chosen:
                trends.append(_errors(first, features))
            outside.append(_outside(levels, histogram))
        left = {
            "skewed": np.array(skewness),
            "wrong tails": np.array([*tails, _error(_scaled(all_tails))]),
            "bias by data": np.concatenate(trends),
            "width by data": _errors(_scaled(_centred(width)), features),
        }
        return cls({name: _p_value(errors) for name, errors in left.items()}, np.array(outside))


def _outside(levels: Floats, histogram: Ints) -> float:
    """Return the share of truths in the two outermost cells, as the other cells have it.

    They say how many are near the ends, and not how these are shared out among the last cells.
    """
    n = -(-len(histogram) // 10)
    inner = np.concatenate([levels[:1], levels[n:-n], levels[-1:]])
    near = Cells.fitted(inner, np.add.reduceat(histogram, [0, *range(n, len(histogram) - n + 1)]))
    whole = Cells.of(levels, near.shift, near.scale)
    return float(whole.share[0] + whole.share[-1])


def _centred(values: Floats) -> Floats:
    return values - values.mean(axis=0)


def _scaled(values: Floats) -> Floats:
    return values / (values.std() or 1.0)


def _error(values: Floats) -> Any:
    """Return a sum over simulations in standard errors, of values with variance one."""
    return values.sum() / np.sqrt(len(values))


def _errors(values: Floats, along: Floats) -> Floats:
    """Return the same of products, one a column of `along`."""
    return values @ along / np.sqrt(np.square(along).sum(axis=0)).clip(min=1e-300)


def _p_value(errors: Floats) -> float:
    """Return that of the largest of several errors, adjusted for their number."""
    from scipy.special import ndtr

    return float(min(1.0, 2 * ndtr(-abs(errors).max(initial=0.0)) * max(errors.size, 1)))

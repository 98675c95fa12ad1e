r"""Widths and correlations of truths about their own mean, so that no bias passes for them.

Truths that are shifted among their draws have larger squares and products of normal scores. With
the mean :math:`m_k` of the normal scores of parameter :math:`k`, their mean square
:math:`\overline{z_k^2}` and the mean products :math:`c_{kl}` of scores with mean square one, the
variance and the correlation of truths about their mean are

.. math:: \overline{z_k^2} - m_k^2, \qquad
          \frac{c_{kl} - m_k m_l}{\sqrt{(1 - m_k^2)(1 - m_l^2)}} .

This is done in every row of the swap test alike. What has been rejected is named by these sums;
the test itself is of the plain ones, which see a bias as well.
"""

from collections import ChainMap
from dataclasses import replace

import numpy as np

from .._base.types import Floats
from .products import pairs
from .statistics import standardise
from .swaps import Sums

_LEAST = 1e-3  # of the mean square is variance


def unbiased(sums: Sums) -> Sums:
    """Return the sums of the real labelling and the swaps, with truths about their own mean.

    Arguments:
        sums: The sums, on the host.
    """
    moments = dict(sums.moments)
    for name in moments.keys() & {"marginals", "maps"}:
        moments[name] = moments[name][: sums.n_rows].copy()
        moments[name][:, 1] -= _squares(sums, name)
    a, b = pairs(len(sums.chosen)).T
    mean = _means(sums, "marginals")[:, sums.chosen]
    rest = (1 - mean**2).clip(min=_LEAST) ** 0.5
    correlations = (sums.correlations - mean[:, a] * mean[:, b]) / (rest[:, a] * rest[:, b])
    instead = {"pairs": standardise(correlations, sums.n_rows)}
    # The other products are brought from a device only if they are asked for.
    products = ChainMap(instead, sums.products)
    return replace(sums, moments=moments, products=products, correlations=correlations)


def _means(sums: Sums, name: str) -> Floats:
    """Return the mean scores of the truths in every row."""
    return np.asarray(sums.moments[name][: sums.n_rows, 0]) / np.sqrt(sums.n_sims)


def _squares(sums: Sums, name: str) -> Floats:
    """Return the widths that are due to the means alone, in standard errors."""
    squares = _means(sums, name) ** 2
    if name == "marginals":  # in units of the root mean square
        widths = sums.moments[name][: sums.n_rows, 1]
        squares *= (1 + np.sqrt(2 / sums.n_sims) * widths).clip(min=_LEAST)
    return np.sqrt(sums.n_sims / 2) * squares

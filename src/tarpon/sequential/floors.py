r"""Floors: a lower bound of the divergence of posteriors, in nats, valid at all times.

Let :math:`E_t` be a bet, fixed before simulation :math:`t`, that pays at most one on average if
posteriors are accurate. Then :math:`E(\log E_t | \text{past}) \le \mathrm{KL}`, the divergence of
the posteriors from the exact ones, and the same holds for the careful bet
:math:`l_t = \log(\tfrac14 + \tfrac34 E_t)`, which loses at most :math:`\log 4`. So for every
:math:`m \ge \mathrm{KL}` and every stake :math:`0 \le \lambda \le 1 / (m + \log 4)`

.. math:: M_t(m) = \prod_{s \le t} \big(1 + \lambda\, (l_s - m)\big)

is the capital of a gambler who does not win on average, and ever reaches 20 with a probability of
at most 5 % (Ville, 1939). The smallest :math:`m` whose capital has not reached 20 is a lower bound
of the divergence, however often you look.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log

import numpy as np

from .._base.types import Floats
from .bets import log_mean

# Divergences in nats, 4 % apart; a bound is rounded down to one of them.
NATS = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 299)])
STAKES = np.array([0.05, 0.2, 0.5])  # of about 20 000, 1000 and 200 simulations
_KEPT = 0.25  # share of the capital that is not bet
_MOST = 0.9  # of the largest stake that a loss can cover
_TOGETHER = 128  # payments that are computed together


def _zeros() -> Floats:
    return np.zeros((len(STAKES), len(NATS)))


@dataclass(frozen=True, eq=False)
class Floor:
    """The capitals of gamblers who bet against each divergence.

    Arguments:
        log_capital: Logarithms of the capitals, `(n_stakes, n_nats)`.
        highest: Logarithms of the largest mean capitals so far, `(n_nats,)`.
    """

    log_capital: Floats = field(default_factory=_zeros)
    highest: Floats = field(default_factory=lambda: np.zeros(len(NATS)))

    def paid(self, log_payments: Floats) -> "Floor":
        """Return the floor after more bets.

        Arguments:
            log_payments: Logarithms of what they paid, in their order, `(n,)`.
        """
        stakes = np.minimum(STAKES[:, None], _MOST / (NATS - log(_KEPT)))
        capital, highest = self.log_capital, self.highest
        for some in _pieces(np.asarray(log_payments, dtype=float)):
            careful = np.logaddexp(log(_KEPT), log(1 - _KEPT) + some)
            steps = np.log1p(stakes * (careful[:, None, None] - NATS))
            capitals = capital + np.cumsum(steps, axis=0)
            capital = capitals[-1]
            highest = np.maximum(highest, _mean(capitals).max(axis=0))
        return Floor(capital, highest)

    def low(self, level: float) -> float:
        """Return the lower bound, which holds at all times with probability `1 - level`."""
        rejected = self.highest >= log(1 / level)
        first = len(NATS) if rejected.all() else int(rejected.argmin())
        # The divergence may lie between two numbers of the grid.
        return float(NATS[max(first - 1, 0)])

    def joined(self, other: "Floor") -> "Floor":
        """Return the floor after the bets of both, on independent simulations."""
        capital = self.log_capital + other.log_capital
        return Floor(capital, np.maximum(_mean(capital), 0.0))


def _mean(log_capital: Floats) -> Floats:
    """Return the logarithms of mean capitals over the stakes, `(..., n_nats)`."""
    shares = np.full(len(STAKES), 1 / len(STAKES))
    return log_mean(np.moveaxis(log_capital, -2, -1), shares)


def _pieces(numbers: Floats) -> Iterator[Floats]:
    return (numbers[k : k + _TOGETHER] for k in range(0, len(numbers), _TOGETHER))

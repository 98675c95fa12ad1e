"""Verdict: the flaw in ranks in words, and no more than the ranks support."""

from enum import Enum
from functools import cache

import numpy as np

from ._base.text import Estimate, unsigned
from ._base.types import Floats
from .ranks import Ranks, held

LEVEL = 0.05
_CLEAR = 2.5  # standard errors from which a lean or a spread of ranks is named


class Reading(Enum):
    """Where a truth of low or high rank lies.

    `SIDE`: below or above the draws (marginal SBC). `FAR`: closer to a reference far away than
    the draws, or farther from it. `OUTWARD`: near the middle of the draws or far out (highest
    density; balls around a reference inside the posterior). `MIXED`: none of these for sure.
    """

    SIDE = "side"
    FAR = "far"
    OUTWARD = "outward"
    MIXED = "mixed"


def sentence(
    ranks: Ranks,
    p_values: Floats,
    reading: Reading,
    names: tuple[str, ...],
    what: str = "parameters",
) -> str:
    """Return the flaw in the ranks in words, with its size.

    Arguments:
        ranks: The ranks.
        p_values: The p-value of each score, `(n_scores,)`.
        reading: Where truths of low or high rank lie.
        names: The name of each score.
        what: The word for several scores, for example "parameters".
    """
    p_value = familywise(p_values)
    if p_value > LEVEL:
        return "no evidence against these posteriors"
    columns = ranks.values.reshape(ranks.n_sims, -1).T
    worst = int(np.argmin(p_values))
    flaw = _flaw(Ranks(columns[worst], ranks.n_draws), reading)
    if len(p_values) == 1:
        return f"inaccurate, {flaw}"
    n_failed = int((len(p_values) * p_values <= LEVEL).sum())
    return f"inaccurate in {n_failed} of {len(p_values)} {what}, worst in {names[worst]}, {flaw}"


def familywise(p_values: Floats) -> float:
    """Return one p-value for several scores on the same simulations (Bonferroni).

    It is valid for any dependence between them, and exact for a single score.
    """
    return min(1.0, len(p_values) * float(p_values.min()))


def bias_and_width(ranks: Ranks) -> tuple[Estimate, Estimate]:
    r"""Return the shift of the truths in posterior sd, and the factor of their scatter.

    From the normal scores :math:`z_i = \Phi^{-1}((r_i + 1/2) / (n + 1))` of one parameter:
    their mean is the shift of the truths against the draws. Their sd gives the factor by which
    the truths scatter more widely than the draws; ranks end at 0 and n, so the factor is the
    one whose normal scores, cut off there, have this sd.
    """
    z = normal_scores(ranks.n_draws)[ranks.values]
    mean, sd, n = float(z.mean()), float(z.std()), len(z)
    half, ratio = 1.96 * sd / np.sqrt(n), np.exp(1.96 / np.sqrt(2 * n))
    factors, sds = _sd_of_scores(ranks.n_draws)
    width = np.interp([sd, sd / ratio, sd * ratio], sds, factors)
    return Estimate(mean, mean - half, mean + half), Estimate(*width.tolist())


@cache
def normal_scores(n_draws: int) -> Floats:
    """Return the normal score of every rank, in posterior sd, `(n_draws + 1,)`."""
    from scipy.special import ndtri

    return ndtri((np.arange(n_draws + 1) + 0.5) / (n_draws + 1))


@cache
def _sd_of_scores(n_draws: int) -> tuple[Floats, Floats]:
    """Return factors of scatter, and the sd of the normal scores of such truths."""
    from scipy.special import ndtr, ndtri

    z = ndtri((np.arange(1000) + 0.5) / 1000)
    factors = np.geomspace(0.01, 30, 200)
    ranks = np.floor((n_draws + 1) * ndtr(factors[:, None] * z)).astype(np.int64)
    return factors, normal_scores(n_draws)[np.minimum(ranks, n_draws)].std(axis=1)


def _flaw(ranks: Ranks, reading: Reading) -> str:
    u = (ranks.values + 0.5) / (ranks.n_draws + 1)
    lean = float((u.mean() - 0.5) * np.sqrt(12 * len(u)))
    spread = float(((4 * (u - 0.5) ** 2).mean() - 1 / 3) * np.sqrt(len(u) * 45 / 4))
    describe = {
        Reading.SIDE: _side_words,
        Reading.FAR: _far_words,
        Reading.OUTWARD: _outward_words,
        Reading.MIXED: _mixed_words,
    }[reading]
    return describe(ranks, lean, spread)


def _leans(lean: float, spread: float) -> bool:
    # Ranks that all lie at one end are spread out too, hence the half.
    return abs(lean) >= max(_CLEAR, abs(spread) / 2)


def _side_words(ranks: Ranks, lean: float, spread: float) -> str:
    bias, width = bias_and_width(ranks)
    if _leans(lean, spread):
        side = "low" if bias.value > 0 else "high"
        return f"biased: the draws are too {side} by {unsigned(bias)} posterior sd"
    if spread >= _CLEAR:
        return f"overconfident: the truths scatter {width} times as widely as the draws"
    if spread <= -_CLEAR:
        return f"underconfident: the truths scatter {width} times as widely as the draws"
    return "wrong shape: neither shifted nor too wide or narrow as a whole"


def _far_words(ranks: Ranks, lean: float, spread: float) -> str:
    share = held(ranks.values, ranks.n_draws, 0.68, central=True)
    holds = f"the central 68% of ranks hold {share.percent()} of the truths"
    if _leans(lean, spread):
        # In many dimensions a wider scatter alone moves points away from any reference.
        far = lean > 0
        flaw, side = ("overconfident", "farther from") if far else ("underconfident", "closer to")
        return f"biased or {flaw}: the truths lie {side} the references than the draws; {holds}"
    return _width_words(spread, holds)


def _outward_words(ranks: Ranks, lean: float, spread: float) -> str:
    share = held(ranks.values, ranks.n_draws, 0.68, central=False)
    holds = f"the 68% regions hold {share.percent()} of the truths"
    return _width_words(lean, holds)


def _width_words(size: float, holds: str) -> str:
    """Return the flaw if truths lie too far out by some standard errors."""
    if size >= _CLEAR:
        return f"overconfident or biased: {holds}"
    if size <= -_CLEAR:
        return f"underconfident: {holds}"
    return f"wrong shape: {holds}"


def _mixed_words(ranks: Ranks, lean: float, spread: float) -> str:
    share = held(ranks.values, ranks.n_draws, 0.68, central=False)
    return f"too narrow, too wide or shifted: the 68% regions hold {share.percent()} of the truths"

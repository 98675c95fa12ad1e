"""Fits: how well draws fit the data, beside the truths, where the forward model is known."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .. import regions
from .._base import threads
from .._base.arrays import Results, host, joined
from .._base.text import Estimate
from .._base.types import Floats
from ..bases import Bands
from ..regions import Fit, Region, Values
from ..simulations import Simulations, passes
from ..simulations.blocks import Block
from ..simulations.weights import relative
from . import descriptions
from .descriptions import Candidate, Rejected
from .fields import truth_first
from .flaws import Finding, Kind
from .statistics import adjusted

_STRICTER = 5


@dataclass(frozen=True, eq=False)
class Fitted:
    """The chi² of all points, of all data and of each band of them.

    Arguments:
        name: The user's name of the score.
        scores: The scores, those of all data first.
        bands: The bands of the data, if there are any.
    """

    name: str
    scores: Values
    bands: Bands | None

    def describe(self, rejected: Rejected, p_value: float) -> list[Candidate]:
        """Describe data that draws fit better or worse than truths, or the score if none are."""
        found = [self._finding(rejected, group, p_value) for group in self._groups(rejected)]
        clear = [one for one in found if one.size and not one.size.low <= 1 <= one.size.high]
        if not clear:
            return descriptions.score(self.name)(rejected, p_value)
        return [Candidate(finding) for finding in clear]

    def _groups(self, rejected: Rejected) -> list[list[int]]:
        """Return the bands that fail on the same side; none where all of the data do."""
        sums = rejected.sums
        shifts = sums.moments[f"score: {self.name}"][: sums.n_rows, 0, 1:]
        if not shifts.shape[1]:
            return [[]]
        p_values = adjusted(abs(shifts))
        # Beside bands that are clear, others must be clear too.
        strict = p_values <= rejected.level / _STRICTER
        fails = strict if strict.any() else p_values <= rejected.level
        groups = [np.flatnonzero(fails & (sign * shifts[0] > 0)).tolist() for sign in (1, -1)]
        return [group for group in groups if 0 < len(group) < len(fails)] or [[]]

    def _finding(self, rejected: Rejected, group: list[int], p_value: float) -> Finding:
        size = self._ratio(rejected.sims, group)
        return Finding(
            Kind.FIT, (), p_value, size=size, unit="chi² of the truths", expected=1.0,
            direction="worse" if size.value > 1 else "better",
            where=self.bands.called(group) if self.bands and group else None,
        )  # fmt: skip

    def _ratio(self, sims: Simulations, group: list[int]) -> Estimate:
        """Return the chi² of draws over that of truths, in some bands or in all data."""
        columns = [1 + k for k in group] or [0]
        truths = self.scores.theta[:, columns].sum(axis=1, dtype=float)
        each = self.scores.samples[..., columns].sum(axis=-1, dtype=float)
        share = None if sims.log_weights is None else relative(sims.log_weights)
        draws = np.average(each, axis=0, weights=share)
        unit = max(float(truths.mean()), 1e-300)
        value = max(float(draws.mean()) / unit, 1e-12)
        error = float((draws - value * truths).std(ddof=1)) / np.sqrt(len(truths)) / unit
        reach = float(np.exp(1.96 * error / value))
        return Estimate(value, value / reach, value * reach)


def fitted(
    sims: Simulations, own: Mapping[str, Region], ranked: Mapping[str, Region]
) -> tuple[dict[str, Fitted], dict[str, Region]]:
    """Compute the fits among scores, each once: return them, and what is ranked with them.

    Arguments:
        sims: The simulations, with observations.
        own: The user's own scores, by name.
        ranked: The same, some of which may be computed already.
    """
    fits = {name: region for name, region in own.items() if isinstance(region, Fit)}
    left = {name: region for name, region in fits.items() if ranked[name] is region}
    scores = {name: region for name, region in ranked.items() if isinstance(region, Values)}
    if left:
        results = joined(passes.each(sims, "fits", _scores, extra=lambda _: {"fits": left}))
        for name, both in results.items():
            scores[name] = Values(both[:, 1:].swapaxes(0, 1), both[:, 0])
    found = {name: Fitted(name, scores[name], fit.bands(sims)) for name, fit in fits.items()}
    return found, {**ranked, **scores}


def _scores(sims: Simulations, *, fits: Mapping[str, Fit]) -> Results:
    """Return the scores of some simulations, simulations and truths first."""
    with threads.one_thread_each():
        return joined(
            {name: _of_block(fit, block) for name, fit in fits.items()}
            for piece in passes.pieces(sims)
            for block in piece.blocks()
        )


def _of_block(fit: Fit, block: Block) -> Floats:
    scores = regions.scores(fit.scores(block), (block.n_points, len(block.truth)))
    return host(scores).swapaxes(0, 1)[:, truth_first(block.n_points)]

r"""Learned scores: their share of the level, and how they enter a check.

A learned score has an exact p-value of its own, from its own labellings, so it cannot be ranked
with the families. A fixed share :math:`s` of the level is set aside for it,

.. math:: p = \min\left(\frac{p_\text{families}}{1 - s}, \frac{p_\text{learned}}{s}, 1\right),

which is below any level with at most that probability, by the union bound, whatever the
dependence of the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from numpy.random import Generator

from .._base.types import Array, Floats
from ..simulations import Simulations
from ..simulations.views import points_alone
from . import features
from .flaws import Finding, Kind

SHARE = 0.2  # of the level, for all learned scores together
SEES = "a learned difference between truths and draws"


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the data, for scores to learn from.

    Arguments:
        values: Standardised features, `(n_sims, n_features)`; no columns without data.
        names: Names, one per feature.
    """

    values: Floats
    names: tuple[str, ...]

    @classmethod
    def of(cls, found: features.Features, data: Array | None, label: str) -> "Features":
        """Return the columns of the data, or their principal components if there are many."""
        plain = found.plain if data is not None else 0
        name = found.namer(data, label, ())
        return cls(found.values[:, :plain], tuple(name(k) for k in range(plain)))


@dataclass(frozen=True)
class Judgement:
    """The answer of a learned score.

    Arguments:
        p_value: Exact p-value.
        telling: What distinguishes truths from draws, in words, most telling first; or nothing.
    """

    p_value: float
    telling: tuple[str, ...] = ()


@runtime_checkable
class Judge(Protocol):
    """A score that is learned from the simulations under test, with an exact p-value."""

    def judge(
        self, sims: Simulations, features: Features, rng: Generator, *, stage: str
    ) -> Judgement:
        """Return the p-value of the score.

        Arguments:
            sims: Simulations, without `x` and log-densities.
            features: Features of their data.
            rng: Generator for all random choices.
            stage: Name of this pass over the simulations, for engines.
        """
        ...


@dataclass(frozen=True)
class Learned:
    """A learned score among the families.

    Arguments:
        name: Name that the user gave it.
        judgement: Its answer.
        adjusted: Its p-value, divided by its share of the level.
    """

    name: str
    judgement: Judgement
    adjusted: float

    @property
    def family(self) -> str:
        """The name among the families."""
        return f"score: {self.name}"

    @property
    def finding(self) -> Finding:
        """The flaw that it found, if its adjusted p-value is below the level."""
        telling = ", ".join(self.judgement.telling)
        return Finding(
            Kind.SCORE, (), self.adjusted, direction=telling or None, where=self.name
        )  # fmt: skip


def share_of_families(n_learned: int) -> float:
    """Return the share of the level that is left for the families."""
    return 1 - SHARE if n_learned else 1.0


def judged(
    judges: Mapping[str, Judge], sims: Simulations, features: Features, rng: Generator
) -> tuple[Learned, ...]:
    """Return the answers of learned scores, which share their part of the level equally."""
    sims, each, found = points_alone(sims), rng.spawn(len(judges)), []
    for k, (name, judge) in enumerate(judges.items()):
        judgement = judge.judge(sims, features, each[k], stage=f"learned{k}")
        adjusted = min(1.0, judgement.p_value * len(judges) / SHARE)
        found.append(Learned(name, judgement, adjusted))
    return tuple(found)

"""Places: the groups that are named of all in which posteriors are wrong, and their sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._base.text import Estimate
from .._base.types import Array, Floats
from ..checks.parameters import Effects
from . import words
from .groups import Group, Side

_MOST_NAMED = 4
_NEARLY = 0.85  # of the largest sum, from which on a simpler group is as good
_OVERLAP = 0.25  # the share of the smaller of two groups from which on they are not apart


@dataclass(frozen=True)
class Place:
    """A group of simulations where posteriors are wrong.

    Arguments:
        sides: What the simulations of the group have in common; nothing if they are all.
        kind: `"bias"` or `"width"`.
        parameter: The name of the parameter; none if the width of all together is wrong.
        size: The bias in posterior sd or the factor of the width there, with an interval that
            holds for all groups at once.
        p_value: Exact, and adjusted for the number of groups and parameters.
        n_sims: The number of its simulations.
    """

    sides: tuple[Side, ...]
    kind: str
    parameter: str | None
    size: Estimate
    p_value: float
    n_sims: int

    def __str__(self) -> str:
        return words.place(self)


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of all scores in all groups, `(n_scores, n_groups)`, and what they mean."""

    names: Sequence[str]
    groups: tuple[Group, ...]
    sums: Floats
    p_values: Floats
    effects: Effects

    def named(
        self, level: float, critical: float, *, everywhere: bool
    ) -> tuple[list[Place], bool]:
        """Return the groups that say different things, and whether all other errors are theirs."""
        failing = self.p_values <= level
        whole = np.array([not group.sides for group in self.groups])
        if everywhere and failing[:, whole].any():  # then no group says more than all simulations
            failing[:, ~whole] = False
        places: list[Place] = []
        left, named = failing.copy(), np.zeros((len(failing), len(self.groups[0].members)), bool)
        while left.any() and len(places) < _MOST_NAMED:
            score, g = self._simplest(left)
            place = self._place(score, g, critical)
            left[score, g] = False
            left &= ~self._same(score, g)
            if place is not None:
                places.append(place)
                named[self._alike(score)] |= self.groups[g].members
                left &= self._without(named) > critical
        return places, not (failing & (self._without(named) > critical)).any()

    def _without(self, named: Array) -> Floats:
        """Return the sizes of standardised sums without simulations of named groups.

        Groups that overlap with a named one often fail only because of its simulations.

        Arguments:
            named: Which simulations belong to a named group with the kind of error of each score,
                `(n_scores, n_sims)`.
        """
        n_dims = (len(self.sums) - 1) // 2
        scores = self.effects.scores[:, :n_dims]
        squares = scores**2 - 1
        each = np.concatenate([scores, squares, squares.sum(axis=1, keepdims=True)], axis=1).T
        each = each / np.maximum(each.std(axis=1, keepdims=True), 1e-300)
        members = np.stack([group.members for group in self.groups], axis=1).astype(np.float32)
        size = ~named @ members
        return abs((each * ~named) @ members) / np.sqrt(np.maximum(size, 1.0))

    def _simplest(self, left: Array) -> tuple[int, int]:
        """Return the largest sum, or one nearly as large of a simpler group."""
        size = np.where(left, abs(self.sums), -np.inf)
        score = int(np.argmax(size.max(axis=1)))
        good = np.flatnonzero(size[score] >= _NEARLY * size[score].max())
        simple = [(self.groups[g].simple, -size[score, g]) for g in good]
        return score, int(good[min(range(len(good)), key=simple.__getitem__)])

    def _same(self, score: int, g: int) -> Array:
        """Return which sums say the same: of overlapping groups and the same kind of error."""
        here = self.groups[g].members
        overlap = np.array(
            [
                (here & group.members).sum() / max(min(here.sum(), group.members.sum()), 1)
                for group in self.groups
            ]
        )
        return self._alike(score)[:, None] & (overlap > _OVERLAP)[None]

    def _alike(self, score: int) -> Array:
        """Return which scores are of the same kind of error."""
        kind, _ = self._kind(score)
        return np.array([self._kind(k)[0] == kind for k in range(len(self.sums))])

    def _kind(self, score: int) -> tuple[str, int | None]:
        """Return the kind of a score, and its parameter if it has one."""
        n_dims = (len(self.sums) - 1) // 2
        if score == 2 * n_dims:
            return "width", None
        return ("bias" if score < n_dims else "width"), score % n_dims

    def _place(self, score: int, g: int, critical: float) -> Place | None:
        """Return a place with its size; nothing if its interval says that nothing is wrong."""
        kind, k = self._kind(score)
        group = self.groups[g]
        here = self.effects.subset(np.flatnonzero(group.members))
        size = here.bias(k, critical) if kind == "bias" and k is not None else None
        size = here.width(k, critical) if size is None else size
        right = 0.0 if kind == "bias" else 1.0
        if size.low <= right <= size.high:
            return None
        name = None if k is None else self.names[k]
        p_value = float(self.p_values[score, g])
        return Place(group.sides, kind, name, size, p_value, int(group.members.sum()))

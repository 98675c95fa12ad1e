"""Groups: simulations whose observations are alike in one feature or two."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .._base.types import Array, ArrayLike, Floats
from ..simulations import Simulations, fields, neighbours, shapes
from ..simulations.neighbours import Observation

_MANY_SIMS, _MANY_DIMS = 500, 12  # from which on features are cut into more bins, or fewer
_MANY_BINS, _FEW_BINS = 10, 5
_MOST_MEANS = 8
_MOST_LEADING = 4  # principal components of many numbers, beside posterior means


@dataclass(frozen=True)
class Side:
    """The values of a feature that simulations of a group have.

    Arguments:
        feature: The name of the feature.
        low: The smallest, if there is one.
        high: The largest, if there is one.
    """

    feature: str
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.feature} < {self.high:.3g}"
        if self.high is None:
            return f"{self.feature} > {self.low:.3g}"
        return f"{self.low:.3g} < {self.feature} < {self.high:.3g}"


@dataclass(frozen=True, eq=False)
class Group:
    """Simulations that are alike; all of them if there are no sides.

    Arguments:
        sides: What they have in common.
        members: Which of the simulations belong to it, `(n_sims,)`.
    """

    sides: tuple[Side, ...]
    members: Array

    @property
    def simple(self) -> int:
        """How many ends of sides there are: the fewer, the simpler."""
        return sum((side.low is not None) + (side.high is not None) for side in self.sides)

    @property
    def share(self) -> float:
        """The share of all simulations."""
        return float(self.members.mean())

    def __str__(self) -> str:
        return " and ".join(map(str, self.sides)) or "everywhere"


def features(
    sims: Simulations,
    names: Sequence[str] | None,
    summary: Callable[[Array], ArrayLike] | None,
    x_o: ArrayLike | None = None,
) -> tuple[Floats, list[str], Floats | None]:
    """Return what groups are made by, `(n_sims, n_features)`, the names, and those of `x_o`.

    At most twelve numbers of the observations, or of a summary of them; of more numbers the
    leading principal components, and the means of pooled points; the latter without observations.
    Those of `x_o` change none of the others; its posterior mean is not known, so it is NaN.
    """
    observation = None if x_o is None else Observation.of(sims, x_o).x
    means = [f"the posterior mean of {name}" for name in sims.names or ()][:_MOST_MEANS]
    centres = sims.centres()[:, :_MOST_MEANS]
    if sims.x is None and summary is None and names is None:
        return centres, means, None
    data, label = shapes.needs_x(sims.x, "`where`"), "x"
    if summary is not None:
        data, label = shapes.one_each(summary(data), sims.n_sims), "summary(x)"
        observation = None if observation is None else shapes.one_each(summary(observation), 1)
    flat = data.reshape(len(data), -1).astype(float)
    own = np.zeros((0, flat.shape[1])) if observation is None else observation.reshape(1, -1)
    if names is not None and len(names) != flat.shape[1]:
        raise ValueError(
            f"`names_x` must have one name for each of the {flat.shape[1]} numbers of {label}, "
            f"but got {len(names)}."
        )
    columns = np.flatnonzero(flat.std(axis=0) > 0)
    if len(columns) <= _MOST_MEANS + _MOST_LEADING:
        known = names or [fields.place(data.shape[1:], k, label) for k in range(flat.shape[1])]
        star = own[0, columns].astype(float) if len(own) else None
        return flat[:, columns], [known[int(k)] for k in columns], star
    leading = neighbours.principal(np.concatenate([flat, own]), len(flat))[:, :_MOST_LEADING]
    titles = [f"principal component {k + 1} of {label}" for k in range(_MOST_LEADING)]
    star = np.append(leading[-1], np.full(len(means), np.nan)) if len(own) else None
    return np.column_stack([leading[: len(flat)], centres]), [*titles, *means], star


def groups(values: Floats, names: Sequence[str], n_dims: int) -> Iterator[Group]:
    """Yield all simulations, intervals of each feature, and corners of two."""
    n_sims = len(values)
    yield Group((), np.ones(n_sims, dtype=bool))
    fine = is_fine(n_sims, n_dims)
    corners = []
    for name, column in zip(names, values.T, strict=True):
        cuts = edges(column, fine=fine)
        for first, last in combinations(range(len(cuts)), 2):
            if last - first < len(cuts) - 1:
                yield _between(name, column, cuts, first, last)
        thirds = np.unique(np.quantile(column, [0, 1 / 3, 2 / 3, 1]))
        ends = [(0, 1), (len(thirds) - 2, len(thirds) - 1)] if len(thirds) > 2 else []
        corners.append([_between(name, column, thirds, *end) for end in ends])
    for these, others in combinations(corners, 2):
        for one in these:
            for other in others:
                both = one.members & other.members
                if both.sum() >= n_sims / (2 * _MANY_BINS):
                    yield Group((*one.sides, *other.sides), both)


def is_fine(n_sims: int, n_dims: int) -> bool:
    """Return whether features are cut into many bins."""
    return n_sims >= _MANY_SIMS and n_dims <= _MANY_DIMS


def edges(column: Floats, *, fine: bool) -> Floats:
    """Return the ends of bins of a feature that hold equally many simulations, at least two."""
    n_bins = _MANY_BINS if fine else _FEW_BINS
    cuts = np.unique(np.quantile(column, np.linspace(0, 1, n_bins + 1)))
    return cuts if len(cuts) > 1 else np.repeat(cuts, 2)


def bins(name: str, column: Floats, cuts: Floats) -> Iterator[Group]:
    """Yield the groups between each edge and the next."""
    for first in range(len(cuts) - 1):
        yield _between(name, column, cuts, first, first + 1)


def _between(name: str, column: Floats, cuts: Floats, first: int, last: int) -> Group:
    """Return the simulations between two edges of a feature, the last of which belongs to it."""
    low = float(cuts[first]) if first else None
    high = float(cuts[last]) if last < len(cuts) - 1 else None
    members = np.ones(len(column), dtype=bool)
    if low is not None:
        members &= column > low
    if high is not None:
        members &= column <= high
    return Group((Side(name, low, high),), members)

"""What a repair moves, along the data: for figures."""

from dataclasses import dataclass

import numpy as np

from .._base.types import Floats
from ..simulations import fields
from .domains import Domain
from .moving import Move
from .whitening import Whitening

_MOST_SHOWN = 4  # parameters


@dataclass(frozen=True, eq=False)
class Moves:
    """How far draws are moved, and by what they are widened, at simulated observations.

    Parts of a move that follow the draws rather than the data are left out.

    Arguments:
        names: Names of the parameters that are moved most, at most four.
        features: Name of the number of the data that each follows most; empty for those that are
            moved alike for all data.
        place: These numbers from their means, in sd, `(n_sims, n_names)`.
        location: How far draws are moved, in posterior sd, `(n_sims, n_names)`.
        factor: By what draws are widened, `(n_sims, n_names)`.
    """

    names: tuple[str, ...]
    features: tuple[str, ...]
    place: Floats
    location: Floats
    factor: Floats

    @classmethod
    def of(
        cls, whitening: Whitening, move: Move | None, domain: Domain, names: tuple[str, ...]
    ) -> "Moves":
        """Return what is moved at the observations of simulations, if anything is."""
        x = domain.x
        n_sims = 1 if x is None else len(x)
        location, log_factor = np.zeros((2, n_sims, len(names)))
        if move is not None:
            known = whitening.data(x, n_sims)
            location = known @ move.location[: known.shape[1]]
            log_factor = known @ move.log_scale[: known.shape[1]]
        size = np.square(location).mean(axis=0) / 2 + np.square(log_factor).mean(axis=0)
        most = np.sort(np.argsort(-size, kind="stable")[:_MOST_SHOWN])
        location, log_factor = location[:, most], log_factor[:, most]
        found = [_followed(x, *one) for one in zip(location.T, log_factor.T, strict=True)]
        return cls(
            tuple(names[k] for k in most), tuple(feature for feature, _ in found),
            np.column_stack([place for _, place in found]), location, np.exp(log_factor),
        )  # fmt: skip


def _followed(x: Floats | None, *moves: Floats) -> tuple[str, Floats]:
    """Return the number of the data that moves of a parameter follow most, and its name."""
    n_sims = len(moves[0])
    flat = np.zeros((n_sims, 0)) if x is None else x.reshape(n_sims, -1)
    sd = flat.std(axis=0)
    z = np.divide(flat - flat.mean(axis=0), sd, where=sd > 0, out=np.zeros_like(flat))
    strength = sum(np.square((one - one.mean()) @ z) for one in moves)
    if x is None or not np.any(strength):
        return "", np.zeros(n_sims)
    k = int(np.argmax(strength))
    return fields.place(x.shape[1:], k, "x"), z[:, k]

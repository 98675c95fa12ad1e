"""Problems whose exact posterior is known: as a density, and as draws.

Most are those of Lueckmann et al. (2021), "Benchmarking simulation-based inference". Shapes are
those of tarpon: `theta (n_sims, n_dims)`, `x (n_sims, n_data)`, draws `(n_draws, n_sims, n_dims)`.
"""

from .blob import BLOB
from .closed import LINEAR, MIXTURE, MOONS
from .dynamics import PREDATORS, SIR
from .problem import Array, Problem
from .slcp import SLCP

PROBLEMS = {one.name: one for one in (MOONS, LINEAR, MIXTURE, SLCP, SIR, PREDATORS, BLOB)}

__all__ = [
    "BLOB", "LINEAR", "MIXTURE", "MOONS", "PREDATORS", "PROBLEMS", "SIR", "SLCP",
    "Array", "Problem",
]  # fmt: skip

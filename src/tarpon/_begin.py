"""How a test begins: with simulations, an engine to go over them, and a seed."""

from typing import Any

import numpy as np

from ._base.types import RNG, ArrayLike
from .engine import Engine
from .simulations import Simulations


def simulations(
    samples: ArrayLike | Simulations, theta: ArrayLike | None, **more: Any
) -> Simulations:
    """Return the simulations that a test was given, whole or as arrays."""
    if isinstance(samples, Simulations):
        given = {"theta": theta, **more, "on_invalid": None}
        extra = [f"`{name}`" for name, value in given.items() if value is not None]
        if extra:
            raise TypeError(
                f"`Simulations` hold all data already: leave {', '.join(extra)} out, or put "
                f"them into the `Simulations`."
            )
        return samples
    if theta is None:
        raise TypeError("`theta` is missing: pass the true parameters, (n_sims, n_dims).")
    return Simulations(samples, theta, **more)


def begin(
    test: str, sims: Simulations, engine: Engine, rng: RNG, **settings: Any
) -> tuple[Simulations, int]:
    """Begin a test: return the simulations for its engine to go over, and its seed.

    Arguments:
        test: The name of the test.
        sims: The simulations.
        engine: Where it is computed.
        rng: What the seed is made of.
        settings: What else its results depend on.
    """
    run = engine.start(
        lambda: {
            "test": test,
            "data": sims.digest(),
            "on_invalid": sims.on_invalid,
            "settings": settings,
        },
        rng,
    )
    return sims.on(run).equalised(np.random.default_rng([run.seed, 1])), run.seed

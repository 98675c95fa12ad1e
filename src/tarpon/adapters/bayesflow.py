"""BayesFlow: draws by name, simulations first."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base import arguments
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations, shapes
from . import _variables


def from_bayesflow(
    samples: Mapping[str, ArrayLike],
    theta: Mapping[str, ArrayLike] | ArrayLike,
    *,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Take draws as BayesFlow returns them.

    Arguments:
        samples: What `sample` returns: one array `(n_sims, n_draws, ...)` a variable.
        theta: The true parameters, one array `(n_sims, ...)` a variable; others are ignored.
        x: What was observed, of shape `(n_sims, ...)`.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> samples = {"mu": rng.normal(size=(20, 99, 1)), "beta": rng.normal(size=(20, 99, 2))}
        >>> theta = {"mu": rng.normal(size=(20, 1)), "beta": rng.normal(size=(20, 2))}
        >>> from_bayesflow(samples, theta).names
        ('mu', 'beta[0]', 'beta[1]')
    """
    wanted = "a dictionary with one array (n_sims, n_draws, ...) per variable"
    arguments.instance("samples", samples, Mapping, wanted)
    shapes.what_to_do(on_invalid)
    names, draws = _variables.columns(samples, 2)
    truths = _variables.truths(theta, list(samples))
    return Simulations(draws.swapaxes(0, 1), truths, x=x, names=names, on_invalid=on_invalid)


def from_workflow(
    workflow: Any,
    theta: Mapping[str, ArrayLike],
    x: Mapping[str, ArrayLike],
    n_draws: int = 1000,
    *,
    batch_size: int = 100,
    on_invalid: str = "raise",
    rng: RNG = None,
) -> Simulations:
    """Draw from a workflow or an approximator of BayesFlow.

    Arguments:
        workflow: Anything with BayesFlow's `sample`.
        theta: The true parameters, one array `(n_sims, ...)` a variable; others are ignored.
        x: The conditions, by name: all that the posterior is given.
        n_draws: How many draws to make for each.
        batch_size: How many simulations to draw for at a time.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.
        rng: The seed.
    """
    arguments.function("workflow", workflow, "a workflow or approximator of BayesFlow", "sample")
    arguments.instance("theta", theta, Mapping, "a dictionary of true parameters by variable")
    arguments.instance("x", x, Mapping, "a dictionary of conditions by name")
    shapes.what_to_do(on_invalid)
    seed = int(np.random.default_rng(arguments.seed(rng)).integers(2**31))
    samples = workflow.sample(
        conditions=x,
        num_samples=arguments.positive("n_draws", n_draws),
        batch_size=arguments.positive("batch_size", batch_size),
        seed=seed,
    )
    n_sims = len(next(iter(samples.values())))
    return from_bayesflow(samples, theta, x=_side_by_side(x, n_sims), on_invalid=on_invalid)


def _side_by_side(x: Mapping[str, ArrayLike], n_sims: int) -> Array | None:
    """Return conditions `(n_sims, n)`; those that all simulations share say nothing of any."""
    own = {name: values for name, values in x.items() if np.shape(values)[:1] == (n_sims,)}
    return _variables.columns(own, 1)[1] if own else None

"""Draws of BayesFlow: one array per variable, simulations first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._base import arguments
from .._base.text import clean
from .._base.types import RNG, Array, ArrayLike
from ..simulations import Simulations, fields, shapes
from . import _variables


def from_bayesflow(
    samples: Mapping[str, ArrayLike],
    theta: Mapping[str, ArrayLike] | ArrayLike,
    *,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Return simulations from draws of BayesFlow.

    Arguments:
        samples: Draws as `sample` returns them, one array `(n_sims, n_draws, ...)` per variable.
        theta: True parameters, one array `(n_sims, ...)` per variable; further variables are
            ignored.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.

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
    names: Sequence[str]
    names, draws = _variables.columns(samples, 2)
    truths = _variables.truths(theta, list(samples))
    shape = np.shape(next(iter(samples.values())))[2:]
    if len(samples) == 1 and len(shape) > 1:
        names = fields.Places(shape, label=clean(next(iter(samples))))
        draws = fields.unflattened(draws, shape)
        truths = fields.unflattened(shapes.truths(truths), shape)
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
    """Draw from a workflow or an approximator of BayesFlow, and return simulations.

    Arguments:
        workflow: Workflow or approximator with BayesFlow's method `sample`.
        theta: True parameters, one array `(n_sims, ...)` per variable; further variables are
            ignored.
        x: Conditions of the posterior, one array per variable.
        n_draws: Number of draws per simulation.
        batch_size: Number of simulations per batch.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
        rng: Seed or generator.
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
    """Return conditions `(n_sims, n)`, without those that all simulations share."""
    per_sim = {name: values for name, values in x.items() if np.shape(values)[:1] == (n_sims,)}
    return _variables.columns(per_sim, 1)[1] if per_sim else None

"""Nested sampling: weighted draws, in different numbers per simulation."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._base import arguments
from .._base.types import Array, ArrayLike
from ..simulations import Simulations, shapes
from . import _fits, _variables


def from_dynesty(
    results: Iterable[Any],
    theta: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Return simulations from results of dynesty, one per simulation.

    The weights of nested sampling depend on the run, so that a truth has no weight. Draws are
    therefore resampled by weight, and results are marked as approximate.

    Arguments:
        results: Objects like `sampler.results`, with `samples`, `logwt` and `logz`.
        theta: True parameters `(n_sims, n_dims)`.
        names: Names, one per parameter.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
    """
    runs = list(arguments.several("results", results, "a list of results, one per simulation"))
    for run in runs:
        if not all(hasattr(run, name) for name in ("samples", "logwt", "logz")):
            wanted = "results of dynesty, with `samples`, `logwt` and `logz`"
            raise TypeError(arguments.wrong("results", wanted, run))
    samples = [np.asarray(run.samples) for run in runs]
    log_weights: Any = [np.asarray(run.logwt) - run.logz[-1] for run in runs]
    return Simulations(
        samples, theta, log_weights=log_weights, names=names, x=x, on_invalid=on_invalid
    )


def from_bilby(
    files: Iterable[str | Path],
    *,
    variables: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Read JSON results of bilby, one file per simulation.

    The truths are the injected parameters, which the files contain.

    Arguments:
        files: Files `label_result.json`, one per simulation.
        variables: Variables to test; by default all search parameters.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
    """
    samples, truths = [], []
    shapes.what_to_do(on_invalid)
    if variables is not None:
        variables = _fits.some(_fits.asked(variables))
    each = arguments.several("files", files, "a list of files, one per simulation")
    for k, path in enumerate(each):
        result = _result(path)
        if variables is None:
            variables = [str(name) for name in result["search_parameter_keys"]]
        draws = _fits.picked(result["posterior"]["content"], variables, k)
        injected = result["injection_parameters"]
        samples.append(np.stack([_column(path, draws, name) for name in variables], axis=1))
        truths.append([shapes.array(n, _variables.named(injected, n)) for n in variables])
    return Simulations(samples, np.asarray(truths), names=variables, x=x, on_invalid=on_invalid)


def _result(path: str | Path) -> dict[str, Any]:
    """Return the content of a file, which must contain draws and injected parameters."""
    text = _fits.text(path, "a result of bilby")
    try:
        result = json.loads(text)
        keys, content = result["search_parameter_keys"], result["posterior"]["content"]
        whole = isinstance(keys, list) and isinstance(content, dict)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as a result of bilby with draws: {error!r}."
        ) from error
    if not whole or not isinstance(result.get("injection_parameters"), dict):
        raise ValueError(
            f"{str(path)!r} must contain `injection_parameters`, the true parameters. Pass "
            f"`injection_parameters=` to `bilby.run_sampler`."
        )
    return dict(result)


def _column(path: str | Path, draws: dict[str, Any], name: str) -> Array:
    values = shapes.array(name, draws[name])
    if values.ndim != 1:
        raise ValueError(f"{str(path)!r}: the draws of {name!r} must be a list of numbers.")
    return values

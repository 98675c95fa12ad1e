"""Fits: one run of a sampler per simulation, all with the same parameters."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._base import disk
from .._base.types import Array, ArrayLike
from ..simulations import Simulations
from . import _variables, chains

Truths: TypeAlias = Mapping[str, ArrayLike] | Sequence[Mapping[str, ArrayLike]] | ArrayLike
"""One array `(n_sims, ...)` per variable, one mapping per simulation, or `(n_sims, n_dims)`."""


def thinned(
    fits: Iterable[Mapping[str, ArrayLike]],
    theta: Truths,
    variables: Sequence[str] | None,
    **more: Any,
) -> Simulations:
    """Return simulations with the chains of each fit thinned to their effective sample size.

    Arguments:
        fits: Mappings, one per simulation, with one array `(n_chains, n_steps, ...)` per variable.
        theta: True parameters.
        variables: Variables to test; by default those named in `theta`, or all.
        more: Further arguments of `Simulations`.
    """
    steps: list[Array] = []
    names, wanted = None, named(theta, variables)
    for k, fit in enumerate(fits):
        wanted = list(fit) if wanted is None else wanted
        columns, numbers = _variables.columns(picked(fit, wanted, k), 2)
        names = same(names, columns, k)
        steps.append(numbers)
    truths = _variables.truths(theta, some(wanted))
    return chains.thin(steps, truths, names=names, **more)


def named(theta: Truths, variables: Sequence[str] | None) -> list[str] | None:
    """Return the variables that were asked for, or the variables named in `theta`."""
    if variables is not None:
        return list(variables)
    by_name = theta if isinstance(theta, Mapping) or not len(theta) else theta[0]
    return list(by_name) if isinstance(by_name, Mapping) else None


def some(wanted: list[str] | None) -> list[str]:
    """Return the variables to test, or raise if there are none."""
    if not wanted:
        raise ValueError("at least one fit of at least one variable is needed, but got none.")
    return wanted


def picked(fit: Mapping[str, ArrayLike], wanted: Sequence[str], k: int) -> dict[str, ArrayLike]:
    """Return some of the variables of fit `k`."""
    missing = [name for name in wanted if name not in fit]
    if missing:
        raise ValueError(
            f"fit {k} has no draws of {', '.join(missing)}, but of {', '.join(fit)}. Name the "
            f"variables to test with `variables=`, or in `theta`."
        )
    return {name: fit[name] for name in wanted}


def same(first: list[str] | None, names: list[str], k: int) -> list[str]:
    """Return the names of the parameters of fit `k`, or raise if the first fit has others."""
    if first is not None and names != first:
        raise ValueError(
            f"all fits must have the same parameters, but fit {k} has {', '.join(names)} and the "
            f"first has {', '.join(first)}."
        )
    return names


def text(path: str | Path, what: str) -> str:
    """Return the text of a file."""
    path = disk.existing(path)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as {what}: {error}.") from error


def table(path: str | Path, rows: Sequence[str], delimiter: str | None, n_columns: int) -> Array:
    """Return the numbers of a table, `(n_rows, n_columns)`."""
    try:
        numbers = np.loadtxt(rows, delimiter=delimiter, ndmin=2) if rows else np.empty((0, 0))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not a table of numbers: {error}.") from error
    if numbers.shape[1] != n_columns or not len(numbers):
        raise ValueError(
            f"{str(path)!r} must have {n_columns} columns of numbers, but is {numbers.shape}."
        )
    return numbers

"""Fits: one run of a sampler per simulation, all with the same parameters."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._base import arguments, disk
from .._base.text import clean
from .._base.types import Array, ArrayLike
from ..simulations import Simulations, shapes
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
    shapes.what_to_do(more.get("on_invalid", "raise"))
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
        return asked(variables)
    by_name: Any = theta
    if _variables.by_simulation(theta):
        by_name = by_name[0]
    return list(by_name) if isinstance(by_name, Mapping) else None


def asked(variables: Sequence[str]) -> list[str]:
    """Return the names of variables, which are text."""
    found = list(arguments.several("variables", variables, "a list of names"))
    for name in found:
        arguments.instance("variables", name, str, "a list of names, which are text")
    return found


def some(wanted: list[str] | None) -> list[str]:
    """Return the variables to test, or raise if there are none."""
    if not wanted:
        raise ValueError(
            f"at least one fit of at least one variable is needed, but got none: `variables` is "
            f"{wanted}."
        )
    return wanted


def picked(fit: Mapping[str, ArrayLike], wanted: Sequence[str], k: int) -> dict[str, ArrayLike]:
    """Return some of the variables of fit `k`."""
    missing = [name for name in wanted if name not in fit]
    if missing:
        raise ValueError(
            f"fit {k} has no draws of {clean(', '.join(map(str, missing)))}: it contains "
            f"{clean(', '.join(map(str, fit))) or 'nothing'}. Name the variables to test with "
            f"`variables=`, or in `theta`."
        )
    return {name: fit[name] for name in wanted}


def same(first: list[str] | None, names: list[str], k: int) -> list[str]:
    """Return the names of the parameters of fit `k`, or raise if the first fit has others."""
    if first is not None and names != first:
        raise ValueError(
            f"all fits must have the same parameters, but fit {k} has "
            f"{clean(', '.join(names))} and the first has {clean(', '.join(first))}."
        )
    return names


def text(path: str | Path, what: str) -> str:
    """Return the text of a file."""
    path = disk.existing(arguments.path(path, "files"))
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as {what}: {clean(error)}.") from error


def table(path: str | Path, rows: Sequence[str], delimiter: str | None, n_columns: int) -> Array:
    """Return the numbers of a table, `(n_rows, n_columns)`."""
    try:
        numbers = np.loadtxt(rows, delimiter=delimiter, ndmin=2) if rows else np.empty((0, 0))
    except ValueError as error:
        said = clean(str(error).rstrip("."))
        raise ValueError(f"{str(path)!r} is not a table of numbers: {said}.") from error
    if numbers.shape[1] != n_columns or not len(numbers):
        raise ValueError(
            f"{str(path)!r} must have {n_columns} columns of numbers, but is {numbers.shape}."
        )
    return numbers

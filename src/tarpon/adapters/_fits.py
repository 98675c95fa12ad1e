"""Fits: one run of a sampler for each simulation, all of the same parameters."""

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
"""One array `(n_sims, ...)` a variable, a mapping for each simulation, or `(n_sims, n_dims)`."""


def thinned(
    fits: Iterable[Mapping[str, ArrayLike]],
    theta: Truths,
    variables: Sequence[str] | None,
    **more: Any,
) -> Simulations:
    """Return simulations with as many steps of each fit's chains as those are worth.

    Arguments:
        fits: One array `(n_chains, n_steps, ...)` a variable, for each simulation.
        theta: The true parameters.
        variables: What to test; without it, what truths are named of, or all.
        more: What else `Simulations` take.
    """
    steps: list[Array] = []
    names, wanted = None, named(theta, variables)
    shapes.what_to_do(more.get("on_invalid", "raise"))
    for k, fit in enumerate(fits):
        wanted = list(fit) if wanted is None else wanted
        found, numbers = _variables.columns(picked(fit, wanted, k), 2)
        names = same(names, found, k)
        steps.append(numbers)
    truths = _variables.truths(theta, some(wanted))
    return chains.thin(steps, truths, names=names, **more)


def named(theta: Truths, variables: Sequence[str] | None) -> list[str] | None:
    """Return the variables that are asked for, or that truths are named of."""
    if variables is not None:
        return asked(variables)
    one: Any = theta
    if _variables.by_simulation(theta):
        one = one[0]
    return list(one) if isinstance(one, Mapping) else None


def asked(variables: Sequence[str]) -> list[str]:
    """Return the names of variables, which are text."""
    found = list(arguments.several("variables", variables, "a list of names"))
    for name in found:
        arguments.instance("variables", name, str, "a list of names, which are text")
    return found


def some(wanted: list[str] | None) -> list[str]:
    """Return the variables to test, of which there must be some."""
    if not wanted:
        raise ValueError(
            f"at least one fit of at least one variable is needed, but `variables` are {wanted}."
        )
    return wanted


def picked(fit: Mapping[str, ArrayLike], wanted: Sequence[str], k: int) -> dict[str, ArrayLike]:
    """Return some of the variables of fit `k`."""
    missing = [name for name in wanted if name not in fit]
    if missing:
        raise ValueError(
            f"fit {k} has no draws of {clean(', '.join(map(str, missing)))}: it holds "
            f"{clean(', '.join(map(str, fit)))}. Name what to test with `variables=`, or in "
            f"`theta`."
        )
    return {name: fit[name] for name in wanted}


def same(names: list[str] | None, found: list[str], k: int) -> list[str]:
    """Return the names of the parameters of fit `k`, which must be those before it had."""
    if names is not None and found != names:
        raise ValueError(
            f"all fits must have the same parameters, but fit {k} has "
            f"{clean(', '.join(found))} and the first {clean(', '.join(names))}."
        )
    return found


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
        raise ValueError(f"{str(path)!r} is no table of numbers: {said}.") from error
    if numbers.shape[1] != n_columns or not len(numbers):
        raise ValueError(
            f"{str(path)!r} must hold {n_columns} columns of numbers, but holds {numbers.shape}."
        )
    return numbers

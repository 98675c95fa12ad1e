"""Variables by name, side by side as parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._base import arguments
from .._base.text import clean
from .._base.types import Array, ArrayLike
from ..simulations import shapes


def columns(variables: Mapping[str, ArrayLike], n_leading: int) -> tuple[list[str], Array]:
    """Return the names of all parameters, and their numbers along a last axis.

    Arguments:
        variables: Numbers by name, all with the same leading axes.
        n_leading: How many of the axes lead; what follows are the parameters of a variable.

    Example:
        >>> names, numbers = columns({"mu": np.zeros(5), "beta": np.zeros((5, 2))}, 1)
        >>> names, numbers.shape
        (['mu', 'beta[0]', 'beta[1]'], (5, 3))
    """
    arrays = {str(name): shapes.array(clean(name), a) for name, a in variables.items()}
    leading = _leading(arrays, n_leading)
    names = [full for name, a in arrays.items() for full in _names(name, a.shape[n_leading:])]
    flat = [array.reshape(*leading, -1) for array in arrays.values()]
    return names, np.concatenate(flat, axis=-1)


def _leading(arrays: Mapping[str, Array], n_leading: int) -> tuple[int, ...]:
    leading = {array.shape[:n_leading] for array in arrays.values()}
    if len(leading) != 1 or len(shape := leading.pop()) != n_leading:
        given = clean(", ".join(f"{name} {array.shape}" for name, array in arrays.items()))
        raise ValueError(
            f"all `variables` must have the same {n_leading} leading axes, but got "
            f"{given or 'no variables'}."
        )
    return shape


def _names(name: str, shape: tuple[int, ...]) -> list[str]:
    if np.prod(shape, dtype=int) == 1:
        return [name]
    places = (",".join(map(str, place)) for place in np.ndindex(shape))
    return [f"{name}[{place}]" for place in places]


def truths(
    theta: Mapping[str, ArrayLike] | Sequence[Mapping[str, ArrayLike]] | ArrayLike,
    variables: Sequence[str],
) -> Array:
    """Return true parameters `(n_sims, n_dims)` in the order of the variables.

    Arguments:
        theta: One array `(n_sims, ...)` a variable by its name, or one such mapping for each
            simulation, or an array that is in order already.
        variables: The names.
    """
    if not isinstance(theta, Mapping) and by_simulation(theta):
        theta = {name: [named(one, name) for one in theta] for name in variables}
    if isinstance(theta, Mapping):
        return columns({name: named(theta, name) for name in variables}, 1)[1]
    return shapes.array("theta", theta)


def by_simulation(theta: Any) -> bool:
    """Return whether truths come as a list with one mapping per simulation."""
    return isinstance(theta, list | tuple) and len(theta) > 0 and isinstance(theta[0], Mapping)


def named(theta: Mapping[str, Any], name: str) -> Any:
    """Return the truth of one variable."""
    arguments.instance("theta", theta, Mapping, "one dictionary of truths per simulation")
    if name not in theta:
        holds = clean(", ".join(map(str, theta))) or "nothing"
        raise ValueError(
            f"the truth of {name!r} is missing: `theta` holds {holds}. "
            f"Add it, or leave the variable out of the draws."
        )
    return theta[name]

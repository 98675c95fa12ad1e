"""Variables by name, joined into parameters along one axis."""

from collections.abc import Mapping, Sequence

import numpy as np

from .._base.types import Array, ArrayLike
from ..simulations import shapes


def columns(variables: Mapping[str, ArrayLike], n_leading: int) -> tuple[list[str], Array]:
    """Return the names of all parameters, and their numbers along a last axis.

    Arguments:
        variables: Arrays by name, all with the same leading axes.
        n_leading: Number of leading axes; the axes after them are the parameters of a variable.

    Example:
        >>> names, numbers = columns({"mu": np.zeros(5), "beta": np.zeros((5, 2))}, 1)
        >>> names, numbers.shape
        (['mu', 'beta[0]', 'beta[1]'], (5, 3))
    """
    arrays = {name: shapes.array(name, values) for name, values in variables.items()}
    leading = _leading(arrays, n_leading)
    names = [full for name, a in arrays.items() for full in elements(name, a.shape[n_leading:])]
    flat = [array.reshape(*leading, -1) for array in arrays.values()]
    return names, np.concatenate(flat, axis=-1)


def _leading(arrays: Mapping[str, Array], n_leading: int) -> tuple[int, ...]:
    leading = {array.shape[:n_leading] for array in arrays.values()}
    if len(leading) != 1 or len(shape := leading.pop()) != n_leading:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"all variables must have the same {n_leading} leading axes, but got "
            f"{listed or 'no variables'}."
        )
    return shape


def elements(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return the names of the numbers of a variable: `mu`, or `mu[0]`, `mu[1]`, … for several."""
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
        theta: Truths: one array `(n_sims, ...)` per variable, or one mapping from variables to
            values per simulation, or an array `(n_sims, n_dims)`, which is returned.
        variables: Names of the variables.
    """
    if not isinstance(theta, Mapping) and len(theta) and isinstance(theta[0], Mapping):
        theta = {name: [named(truth, name) for truth in theta] for name in variables}
    if isinstance(theta, Mapping):
        return columns({name: named(theta, name) for name in variables}, 1)[1]
    return shapes.array("theta", theta)


def named(theta: Mapping[str, ArrayLike], name: str) -> ArrayLike:
    """Return the truth of one variable, or raise if it is missing."""
    if name not in theta:
        raise ValueError(
            f"`theta` must contain the truth of {name!r}, but contains "
            f"{', '.join(theta) or 'nothing'}. Add it, or remove the variable from the draws."
        )
    return theta[name]

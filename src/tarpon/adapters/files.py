"""Files: `.npz` archives of arrays. Nothing is ever unpickled."""

import zipfile
from pathlib import Path

import numpy as np

from .. import _check
from .._types import Array
from ..simulations import Simulations

_ARRAYS = ("samples", "theta", "x", "log_prob_samples", "log_prob_theta", "names")


def load(path: str | Path, *, on_invalid: str = "raise") -> Simulations:
    """Read simulations from an `.npz` file.

    Arguments:
        path: A file with `samples` (n_draws, n_sims, n_dims) and `theta` (n_sims, n_dims), or
            with `log_prob_samples` and `log_prob_theta` alone; `x` and `names` if there are any.
        on_invalid: What to do with simulations that hold NaN: "raise" or "drop".

    Example:
        >>> rng = np.random.default_rng(0)
        >>> samples, theta = rng.normal(size=(9, 5, 2)), rng.normal(size=(5, 2))
        >>> np.savez("draws.npz", samples=samples, theta=theta)
        >>> load("draws.npz")
        Simulations(5 simulations, 9 draws each, 2 parameters)
    """
    arrays = _arrays(_check.existing(path))
    if "samples" in arrays and "theta" in arrays:
        names = arrays.pop("names", None)
        return Simulations(
            **arrays, names=None if names is None else names.tolist(), on_invalid=on_invalid
        )
    if "log_prob_samples" in arrays and "log_prob_theta" in arrays:
        return Simulations.of_densities(
            arrays["log_prob_samples"], arrays["log_prob_theta"], on_invalid=on_invalid
        )
    raise ValueError(
        f"{str(path)!r} must hold `samples` and `theta`, or `log_prob_samples` and "
        f"`log_prob_theta`, but holds {', '.join(arrays) or 'none of them'}."
    )


def _arrays(path: Path) -> dict[str, Array]:
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        with file:
            return {name: file[name] for name in _ARRAYS if name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as an .npz file of plain arrays: {error}."
        ) from error

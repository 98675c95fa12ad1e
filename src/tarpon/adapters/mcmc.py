"""Markov chains: fits of ArviZ, PyMC and NumPyro, and the files of CmdStan and emcee.

There is one fit for each simulation. Chains are thinned to as many draws as they are worth.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from .._base import arguments, disk
from .._base.text import clean
from .._base.types import Array, ArrayLike
from ..simulations import Simulations, shapes
from . import _fits, chains
from ._fits import Truths

_MOST_GROWTH = 1100  # deflate makes no more of a byte


def from_mcmc(
    fits: Iterable[Any],
    theta: Truths,
    *,
    variables: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Take chains that are in memory, one fit for each simulation.

    Arguments:
        fits: What PyMC's `sample` returns, or ArviZ reads: anything with a group `posterior` whose
            variables have dimensions `chain` and `draw`; or an `MCMC` of NumPyro; or one array
            `(n_chains, n_steps, ...)` a variable.
        theta: The true parameters: one array `(n_sims, ...)` a variable, or such a mapping for
            each simulation, or `(n_sims, n_dims)` in the order of the variables.
        variables: What to test; without it, what truths are named of, or all.
        x: What was observed, of shape `(n_sims, ...)`.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> fits = [{"mu": rng.normal(size=(4, 100))} for _ in range(20)]
        >>> from_mcmc(fits, {"mu": rng.normal(size=20)}).names
        ('mu',)
    """
    each = map(_chains, arguments.several("fits", fits, "a list of fits, one per simulation"))
    return _fits.thinned(each, theta, variables, x=x, on_invalid=on_invalid)


def _chains(fit: Any) -> Mapping[str, ArrayLike]:
    """Return one array `(n_chains, n_steps, ...)` a variable."""
    if hasattr(fit, "get_samples"):
        return dict(fit.get_samples(group_by_chain=True))
    if isinstance(fit, Mapping) and "posterior" not in fit:
        return fit
    try:
        posterior = fit["posterior"]
    except (KeyError, TypeError, IndexError) as error:
        raise TypeError(
            f"each of the `fits` must have a group `posterior`, or chains by name, but got "
            f"{arguments.shown(fit)}."
        ) from error
    data = posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior
    return {str(name): data[name].transpose("chain", "draw", ...) for name in data.data_vars}


def from_cmdstan(
    fits: Iterable[str | Path | Sequence[str | Path]],
    theta: Truths,
    *,
    variables: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Read what CmdStan writes, one fit for each simulation.

    Arguments:
        fits: The CSV files of each simulation: one, or a list with one a chain. Steps of the
            warmup that are in the files are left out.
        theta: As in `from_mcmc`.
        variables: What to test; without it, what truths are named of, or all but those of the
            sampler itself, whose names end with `__`.
        x: What was observed, of shape `(n_sims, ...)`.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.
    """
    wanted = "a list of fits, one per simulation, each a file or a list of files"
    each = (_cmdstan_fit(_paths(fit)) for fit in arguments.several("fits", fits, wanted))
    return _fits.thinned(each, theta, variables, x=x, on_invalid=on_invalid)


def _paths(fit: str | Path | Sequence[str | Path]) -> list[str | Path]:
    given = [fit] if isinstance(fit, str | Path) else fit
    wanted = "a list of fits, each a file or a list of files"
    paths: list[str | Path] = list(arguments.several("fits", given, wanted))
    if not paths:
        raise ValueError(arguments.wrong("fits", wanted, fit))
    return paths


def _cmdstan_fit(paths: Sequence[str | Path]) -> dict[str, Array]:
    """Return one array `(n_chains, n_steps, ...)` a variable."""
    read = [_cmdstan_chain(path) for path in paths]
    header, n_steps = read[0][0], min(len(rows) for _, rows in read)
    if any(names != header for names, _ in read):
        raise ValueError(f"the chains {[str(path) for path in paths]} have different columns.")
    steps = np.stack([rows[-n_steps:] for _, rows in read])
    places: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for column, full in enumerate(header):
        name, *place = full.split(".")
        if not all(part.isdigit() for part in place):
            name, place = full, []
        if not name.endswith("__"):
            index = tuple(int(part) - 1 for part in place)
            places.setdefault(name, []).append((index, column))
    return {name: _folded(steps, found) for name, found in places.items()}


def _folded(steps: Array, places: list[tuple[tuple[int, ...], int]]) -> Array:
    """Return the columns of one variable in its own shape; Stan writes them columns first."""
    shape = tuple(max(ends) + 1 for ends in zip(*(index for index, _ in places), strict=True))
    order = [column for _, column in sorted(places)]
    if len(order) != np.prod(shape, dtype=int):
        raise ValueError(f"{len(order)} columns make no variable of shape {shape}.")
    return steps[..., order].reshape(*steps.shape[:2], *shape)


def _cmdstan_chain(path: str | Path) -> tuple[list[str], Array]:
    """Return the names of the columns, and the steps after the warmup, `(n_steps, n)`."""
    lines = _fits.text(path, "CmdStan's CSV").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    settings = dict(re.findall(r"^#\s*(\w+) = (\w+)", "\n".join(lines), re.MULTILINE))
    if len(rows) < 2:
        raise ValueError(f"{str(path)!r} cannot be read as CmdStan's CSV: it holds no draws.")
    header = rows[0].split(",")
    return header, _fits.table(path, rows[1 + _n_warmup(path, settings) :], ",", len(header))


def _n_warmup(path: str | Path, settings: Mapping[str, str]) -> int:
    """Return how many of the first rows belong to the warmup."""
    if settings.get("save_warmup") not in ("1", "true"):
        return 0
    try:
        return ceil(int(settings["num_warmup"]) / int(settings["thin"]))
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"{str(path)!r} holds its warmup, but does not say how long that is."
        ) from error


def from_emcee(
    files: Iterable[str | Path],
    theta: ArrayLike,
    *,
    discard: int,
    names: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Read the HDF5 files that emcee writes, one for each simulation. Needs h5py.

    Arguments:
        files: The files of an `HDFBackend`.
        theta: The true parameters, of shape `(n_sims, n_dims)`.
        discard: How many of the first steps of every walker to leave out, since these still
            remember where they began.
        names: One name a parameter.
        x: What was observed, of shape `(n_sims, ...)`.
        on_invalid: What to do with simulations that hold NaN: `"raise"` or `"drop"`.
    """
    arguments.positive("discard", discard, 0)
    shapes.what_to_do(on_invalid)
    wanted = "a list of files, one per simulation"
    steps = [_walkers(path)[:, discard:] for path in arguments.several("files", files, wanted)]
    return chains.thin(steps, theta, names=names, x=x, on_invalid=on_invalid)


def _walkers(path: str | Path) -> Array:
    """Return the steps of each walker, `(n_walkers, n_steps, n_dims)`."""
    import h5py

    path = disk.existing(arguments.path(path, "files"))
    try:
        with h5py.File(path, "r") as file:
            chain = _own(_own(file, "mcmc"), "chain")
            n_steps = int(file["mcmc"].attrs["iteration"])
            if chain.nbytes > _MOST_GROWTH * path.stat().st_size or chain.ndim != 3:
                raise ValueError(f"`chain` is {chain.shape}, which the file cannot hold")
            return np.asarray(chain[:n_steps]).swapaxes(0, 1)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        said = clean(" ".join(str(error).split()))
        raise ValueError(f"{str(path)!r} cannot be read as a file of emcee: {said}.") from error


def _own(group: Any, name: str) -> Any:
    """Return what a file itself holds under a name: links may lead to any other file."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"`{name}` is missing, or a link")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise ValueError(f"`{name}` is kept in another file")
    return found

"""Markov chains: fits of ArviZ, PyMC and NumPyro, and files of CmdStan and emcee.

There is one fit per simulation. Chains are thinned to their effective sample size.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import arguments, disk, optional
from .._base.text import clean
from .._base.types import Array, ArrayLike
from ..simulations import Simulations, shapes
from . import _fits, chains
from ._fits import Truths

if TYPE_CHECKING:
    import h5py

_MOST_GROWTH = 1100  # bytes that deflate unpacks from one byte, at most


def from_mcmc(
    fits: Iterable[Any],
    theta: Truths,
    *,
    variables: Sequence[str] | None = None,
    x: ArrayLike | None = None,
    on_invalid: str = "raise",
) -> Simulations:
    """Return simulations from chains in memory, one fit per simulation.

    Arguments:
        fits: Fits as PyMC's `sample` returns or ArviZ reads them, with a group `posterior` whose
            variables have dimensions `chain` and `draw`; or `MCMC` objects of NumPyro; or mappings
            with one array `(n_chains, n_steps, ...)` per variable.
        theta: True parameters: one array `(n_sims, ...)` per variable, or one mapping from
            variables to values per simulation, or an array `(n_sims, n_dims)` in the order of the
            variables.
        variables: Variables to test; by default those named in `theta`, or all.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> fits = [{"mu": rng.normal(size=(4, 100))} for _ in range(20)]
        >>> from_mcmc(fits, {"mu": rng.normal(size=20)}).names
        ('mu',)
    """
    by_sim = map(_chains, arguments.several("fits", fits, "a list of fits, one per simulation"))
    return _fits.thinned(by_sim, theta, variables, x=x, on_invalid=on_invalid)


def _chains(fit: Any) -> Mapping[str, ArrayLike]:
    """Return one array `(n_chains, n_steps, ...)` per variable."""
    if hasattr(fit, "get_samples"):
        return dict(fit.get_samples(group_by_chain=True))
    if isinstance(fit, Mapping) and "posterior" not in fit:
        return fit
    try:
        posterior = fit["posterior"]
    except (LookupError, TypeError, ValueError) as error:
        raise TypeError(
            f"each of the `fits` must have a group `posterior`, or be a mapping from variables to "
            f"chains, but got {arguments.shown(fit)}."
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
    """Read CSV files of CmdStan, one fit per simulation.

    Arguments:
        fits: CSV files per simulation: one file, or a list with one file per chain. Warmup steps
            in the files are skipped.
        theta: True parameters, as in `from_mcmc`.
        variables: Variables to test; by default those named in `theta`, or all except the
            sampler's own, whose names end with `__`.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
    """
    wanted = "a list of fits, one per simulation, each a file or a list of files"
    by_sim = (_cmdstan_fit(_paths(fit)) for fit in arguments.several("fits", fits, wanted))
    return _fits.thinned(by_sim, theta, variables, x=x, on_invalid=on_invalid)


def _paths(fit: str | Path | Sequence[str | Path]) -> list[str | Path]:
    given = [fit] if isinstance(fit, str | Path) else fit
    wanted = "a list of fits, each a file or a list of files"
    paths: list[str | Path] = list(arguments.several("fits", given, wanted))
    if not paths:
        raise ValueError(arguments.wrong("fits", wanted, fit))
    return paths


def _cmdstan_fit(paths: Sequence[str | Path]) -> dict[str, Array]:
    """Return one array `(n_chains, n_steps, ...)` per variable."""
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
    return {name: _folded(steps, columns) for name, columns in places.items()}


def _folded(steps: Array, places: list[tuple[tuple[int, ...], int]]) -> Array:
    """Return the columns of a variable in its shape; Stan writes the first index fastest."""
    shape = tuple(max(ends) + 1 for ends in zip(*(index for index, _ in places), strict=True))
    order = [column for _, column in sorted(places)]
    if len(order) != np.prod(shape, dtype=int):
        raise ValueError(f"a variable of shape {shape} cannot have {len(order)} columns.")
    return steps[..., order].reshape(*steps.shape[:2], *shape)


def _cmdstan_chain(path: str | Path) -> tuple[list[str], Array]:
    """Return the names of the columns, and the steps after the warmup, `(n_steps, n)`."""
    lines = _fits.text(path, "CmdStan's CSV").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    settings = dict(re.findall(r"^#\s*(\w+) = (\w+)", "\n".join(lines), re.MULTILINE))
    if len(rows) < 2:
        raise ValueError(f"{str(path)!r} cannot be read as CmdStan's CSV: it contains no draws.")
    header = rows[0].split(",")
    return header, _fits.table(path, rows[1 + _n_warmup(path, settings) :], ",", len(header))


def _n_warmup(path: str | Path, settings: Mapping[str, str]) -> int:
    """Return the number of rows at the start that belong to the warmup."""
    if settings.get("save_warmup") not in ("1", "true"):
        return 0
    try:
        return ceil(int(settings["num_warmup"]) / int(settings["thin"]))
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"{str(path)!r} contains warmup steps, but not their number (num_warmup, thin)."
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
    """Read HDF5 files of emcee, one per simulation. Needs h5py.

    Arguments:
        files: Files of an `HDFBackend`, one per simulation.
        theta: True parameters `(n_sims, n_dims)`.
        discard: Number of burn-in steps to discard at the start of every walker.
        names: Names, one per parameter.
        x: Observations `(n_sims, ...)`.
        on_invalid: `"raise"`, or `"drop"` to drop simulations with NaN or infinite values.
    """
    arguments.positive("discard", discard, 0)
    shapes.what_to_do(on_invalid)
    wanted = "a list of files, one per simulation"
    steps = [_walkers(path)[:, discard:] for path in arguments.several("files", files, wanted)]
    return chains.thin(steps, theta, names=names, x=x, on_invalid=on_invalid)


def _walkers(path: str | Path) -> Array:
    """Return the steps of each walker, `(n_walkers, n_steps, n_dims)`."""
    h5py = optional.package("h5py")

    path = disk.existing(arguments.path(path, "files"))
    try:
        with h5py.File(path, "r") as file:
            chain = _own(_own(file, "mcmc"), "chain")
            n_steps = int(file["mcmc"].attrs["iteration"])
            if chain.nbytes > _MOST_GROWTH * path.stat().st_size or chain.ndim != 3:
                raise ValueError(f"`chain` is said to be {chain.shape}, too large for the file")
            return np.asarray(chain[:n_steps]).swapaxes(0, 1)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        said = clean(" ".join(str(error).split()))
        raise ValueError(f"{str(path)!r} cannot be read as a file of emcee: {said}.") from error


def _own(group: "h5py.Group", name: str) -> "h5py.Group | h5py.Dataset":
    """Return a group or dataset that is stored in the file itself, and not behind a link."""
    h5py = optional.package("h5py")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"`{name}` is missing, or a link")
    item = group[name]
    if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
        raise ValueError(f"`{name}` is stored in another file")
    return item

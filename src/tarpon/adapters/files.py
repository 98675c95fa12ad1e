"""Files: arrays by their names in `.npz`, HDF5, netCDF and Zarr. Nothing is ever unpickled."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import _check
from .._stored import InHDF5
from .._types import ArrayLike
from ..simulations import Simulations

_ARRAYS = ("samples", "theta", "x", "log_prob_samples", "log_prob_theta")
_NAMES = "names"


def load(path: str | Path, *, on_invalid: str = "raise") -> Simulations:
    """Open simulations that are in a file.

    Of an `.npz` archive all is read. Of HDF5 (`.h5`, `.hdf5`), netCDF (`.nc`), Zarr version 3
    (`.zarr`) and a folder of `.npy` files, draws, log-densities and observations stay where they
    are until a test needs them.

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
    arrays = _arrays(_check.existing(path).absolute())
    names = arrays.pop(_NAMES, None)
    names = None if names is None else [str(name) for name in np.asarray(names).tolist()]
    if "samples" in arrays and "theta" in arrays:
        return Simulations(**arrays, names=names, on_invalid=on_invalid)
    if "log_prob_samples" in arrays and "log_prob_theta" in arrays:
        return Simulations.of_densities(
            arrays["log_prob_samples"], arrays["log_prob_theta"], on_invalid=on_invalid
        )
    raise ValueError(
        f"{str(path)!r} must hold `samples` and `theta`, or `log_prob_samples` and "
        f"`log_prob_theta`, but holds {', '.join(arrays) or 'none of them'}."
    )


def _arrays(path: Path) -> dict[str, ArrayLike]:
    """Return the arrays of a file by name, read by what its name ends with."""
    is_zarr = path.suffix == ".zarr" or (path / "zarr.json").exists()
    kind = ".zarr" if is_zarr else "folder" if path.is_dir() else path.suffix.lower()
    if kind not in _READERS:
        known = ", ".join(suffix for suffix in _READERS if suffix not in ("folder", ".npy"))
        raise ValueError(
            f"{str(path)!r} has an unknown ending: a file of arrays ends with {known}, or is a "
            f"folder of .npy files. {_ADVICE.get(kind, '')}".strip()
        )
    what, reader = _READERS[kind]
    try:
        return reader(path)
    except ImportError as error:
        raise ValueError(
            f"{str(path)!r} needs {error.name}: install it with `pip install tarpon[io]`."
        ) from error
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as {what} of plain arrays: {error}."
        ) from error


def _npz(path: Path) -> dict[str, ArrayLike]:
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("it holds a single array")
    with file:
        return {name: file[name] for name in (*_ARRAYS, _NAMES) if name in file.files}


def _folder(path: Path) -> dict[str, ArrayLike]:
    files = {name: path / f"{name}.npy" for name in (*_ARRAYS, _NAMES)}
    return {
        name: np.load(file, mmap_mode="r", allow_pickle=False)
        for name, file in files.items()
        if file.exists()
    }


def _hdf5(path: Path) -> dict[str, ArrayLike]:
    import h5py

    with h5py.File(path, "r") as file:
        arrays: dict[str, ArrayLike] = {
            name: InHDF5.of(file[name]) for name in _ARRAYS if name in file
        }
        if _NAMES in file:
            arrays[_NAMES] = file[_NAMES].asstr()[()]
        return arrays | _named(dict(file.attrs))


def _netcdf(path: Path) -> dict[str, ArrayLike]:
    import h5netcdf  # noqa: F401  what xarray reads with
    import xarray

    # Missing values become NaN, and packed ones what they stand for.
    data = xarray.open_dataset(path, engine="h5netcdf")
    arrays = {name: data[name] for name in _ARRAYS if name in data}
    return arrays | ({_NAMES: data[_NAMES].values} if _NAMES in data else _named(data.attrs))


def _zarr(path: Path) -> dict[str, ArrayLike]:
    import zarr

    # Version 2 has a codec that unpickles what it reads.
    group = zarr.open_group(path, mode="r", zarr_format=3)
    arrays = {name: group[name] for name in _ARRAYS if name in group}
    for name, array in arrays.items():
        if "pickle" in json.dumps(array.metadata.to_dict(), default=str).lower():
            raise ValueError(f"`{name}` is pickled, and pickles run what is in them")
    return arrays | _named(dict(group.attrs))


def _named(attributes: dict[str, Any]) -> dict[str, ArrayLike]:
    return {_NAMES: attributes[_NAMES]} if _NAMES in attributes else {}


_READERS: dict[str, tuple[str, Callable[[Path], dict[str, ArrayLike]]]] = {
    ".npz": ("an .npz file", _npz),
    ".npy": ("an .npz file", _npz),
    ".h5": ("an HDF5 file", _hdf5),
    ".hdf5": ("an HDF5 file", _hdf5),
    ".nc": ("a netCDF file", _netcdf),
    ".zarr": ("a Zarr store of version 3", _zarr),
    "folder": ("a folder", _folder),
}
_ADVICE = dict.fromkeys(
    (".pkl", ".pickle", ".pt", ".pth", ".joblib"),
    "Pickles run what is in them: save the arrays alone, with `np.savez`.",
)

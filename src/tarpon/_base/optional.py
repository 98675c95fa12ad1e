"""Packages that not everybody has: the only place that imports them."""

import importlib
from typing import Any

_EXTRAS = {
    "arviz_stats": "arviz",
    "cloudpickle": "run",
    "dask": "dask",
    "h5netcdf": "io",
    "h5py": "io",
    "pandas": "io",
    "pyarrow": "io",
    "sep": "lensing",
    "skimage": "lensing",
    "sklearn": "learn",
    "torch": "torch",
    "triton": "cuda",
    "xarray": "io",
    "zarr": "io",
}
_CALLED = {"arviz_stats": "arviz-stats", "skimage": "scikit-image", "sklearn": "scikit-learn"}


def package(name: str, *, user: str = "this", extra: str = "") -> Any:
    """Return an optional package or a module of it, or say how to install it.

    Arguments:
        name: Its name.
        user: What needs it.
        extra: The extra of tarpon that contains it, if it is in several.
    """
    top = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        called, needs = _CALLED.get(top, top), f"pip install tarpon[{extra or _EXTRAS[top]}]"
        missing = isinstance(error, ModuleNotFoundError) and str(error.name).startswith(top)
        broken = "" if missing else f", which cannot be imported ({error})"
        raise ImportError(f"{user} needs {called}{broken}: install it with `{needs}`.") from error


def installed(name: str) -> Any:
    """Return an optional package, or None if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None

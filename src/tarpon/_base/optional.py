"""Optional packages: the only place that imports them."""

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
    "pywt": "wavelets",
    "sep": "lensing",
    "skimage": "lensing",
    "sklearn": "learn",
    "torch": "torch",
    "triton": "cuda",
    "xarray": "io",
    "zarr": "io",
}
_CALLED = {
    "arviz_stats": "arviz-stats",
    "pywt": "PyWavelets",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}


def package(name: str, *, user: str = "this", extra: str = "") -> Any:
    """Import an optional package or module; without it, raise an error that names the extra.

    Arguments:
        name: Name of the module.
        user: Subject of the error, which needs the package.
        extra: Extra of tarpon with the package, if several have it.
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
    """Import an optional package; return None if that fails."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None

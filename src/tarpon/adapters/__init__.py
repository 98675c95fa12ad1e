"""Adapters: from what other tools write to `Simulations`."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import chains, files
    from .bayesflow import from_bayesflow, from_workflow
    from .flows import from_flow
    from .getdist import from_getdist
    from .mcmc import from_cmdstan, from_emcee, from_mcmc
    from .nested import from_bilby, from_dynesty
    from .sampler import from_sampler
    from .sbi import from_sbi

_HOME = {
    "from_bayesflow": "bayesflow",
    "from_bilby": "nested",
    "from_cmdstan": "mcmc",
    "from_dynesty": "nested",
    "from_emcee": "mcmc",
    "from_flow": "flows",
    "from_getdist": "getdist",
    "from_mcmc": "mcmc",
    "from_sampler": "sampler",
    "from_sbi": "sbi",
    "from_workflow": "bayesflow",
}

__all__ = [
    "chains",
    "files",
    "from_bayesflow",
    "from_bilby",
    "from_cmdstan",
    "from_dynesty",
    "from_emcee",
    "from_flow",
    "from_getdist",
    "from_mcmc",
    "from_sampler",
    "from_sbi",
    "from_workflow",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tarpon.adapters' has no attribute {name!r}")
    module = importlib.import_module(f".{_HOME.get(name, name)}", __name__)
    return getattr(module, name) if name in _HOME else module


def __dir__() -> list[str]:
    return __all__

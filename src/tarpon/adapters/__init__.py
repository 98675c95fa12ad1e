"""Adapters: from what other tools write to `Simulations`."""

from .._base import lazy

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

__getattr__, __dir__ = lazy.attached(__name__, __all__, _HOME)

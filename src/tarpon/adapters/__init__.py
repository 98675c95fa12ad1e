"""Adapters: from what other tools write to `Simulations`."""

from typing import TYPE_CHECKING

from .. import _lazy

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

__getattr__, __dir__ = _lazy.attached(__name__, __all__, _HOME)

# What type checkers read: at run time, a name is imported when it is first used.

from . import chains as chains
from . import files as files
from .bayesflow import from_bayesflow as from_bayesflow
from .bayesflow import from_workflow as from_workflow
from .flows import from_flow as from_flow
from .getdist import from_getdist as from_getdist
from .mcmc import from_cmdstan as from_cmdstan
from .mcmc import from_emcee as from_emcee
from .mcmc import from_mcmc as from_mcmc
from .nested import from_bilby as from_bilby
from .nested import from_dynesty as from_dynesty
from .sampler import from_sampler as from_sampler
from .sbi import from_sbi as from_sbi

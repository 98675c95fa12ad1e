"""tarpon: are these posterior samples accurate?

Posterior draws and the true parameters behind them go in; an exact p-value, the flaw in words
and its size come out.
"""

from ._base import lazy
from ._version import __version__

__all__ = [
    "Check",
    "Engine",
    "Monitor",
    "Plan",
    "Result",
    "Simulations",
    "__version__",
    "adapters",
    "adversaries",
    "check",
    "compat",
    "experiments",
    "from_sampler",
    "gate",
    "hpd",
    "load",
    "metrics",
    "plan",
    "plots",
    "problems",
    "references",
    "regions",
    "report",
    "run",
    "sbc",
    "tarp",
]

_HOME = {
    "Check": "checks",
    "Engine": "engine",
    "Monitor": "monitors",
    "Plan": "planning",
    "Result": "results",
    "Simulations": "simulations",
    "check": "checks",
    "from_sampler": "adapters.sampler",
    "hpd": "diagnostics",
    "load": "results",
    "plan": "planning",
    "run": "runner",
    "sbc": "diagnostics",
    "tarp": "diagnostics",
}

__getattr__, __dir__ = lazy.attached(__name__, __all__, _HOME)

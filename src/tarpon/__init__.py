"""tarpon: are these posterior samples accurate?

Posterior draws and the true parameters behind them go in; an exact p-value, the flaw in words
and its size come out.
"""

from typing import TYPE_CHECKING

from . import _lazy
from ._version import __version__

if TYPE_CHECKING:
    from . import (
        adapters,
        adversaries,
        compat,
        experiments,
        gate,
        metrics,
        plots,
        problems,
        references,
        regions,
        report,
    )
    from .adapters.sampler import from_sampler
    from .checks import Check, check
    from .diagnostics import hpd, sbc, tarp
    from .engine import Engine
    from .monitors import Monitor
    from .planning import Plan, plan
    from .results import Result, load
    from .runner import run
    from .simulations import Simulations

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


__getattr__, __dir__ = _lazy.attached(__name__, __all__, _HOME)

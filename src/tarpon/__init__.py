"""tarpon: are these posterior samples accurate?

Posterior draws and the true parameters behind them go in; an exact p-value, the flaw in words
and its size come out.
"""

import importlib
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    # Modules load when first used, so that `tarpon --help` answers at once.
    if name not in __all__:
        raise AttributeError(f"module 'tarpon' has no attribute {name!r}")
    module = importlib.import_module(f".{_HOME.get(name, name)}", __name__)
    return getattr(module, name) if name in _HOME else module


def __dir__() -> list[str]:
    return __all__

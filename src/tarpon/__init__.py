"""tarpon: are these posterior samples accurate?

Posterior draws and the true parameters behind them go in; an exact p-value, the flaw in words
and its size come out.
"""

from ._base import lazy

__getattr__, __all__ = lazy.attached(__name__, __file__)


def __dir__() -> list[str]:
    return __all__

"""Problems whose answer is known, to try tests on."""

from ._conjugate import conjugate
from ._gaussian import gaussian

__all__ = ["conjugate", "gaussian"]

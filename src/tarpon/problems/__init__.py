"""Problems whose answer is known, to try tests on."""

from ._conjugate import conjugate
from ._gaussian import gaussian
from ._zoo import FLAWS, zoo

__all__ = ["FLAWS", "conjugate", "gaussian", "zoo"]

"""Problems with a known answer, to try tests on."""

from ._conjugate import conjugate
from ._gaussian import gaussian
from ._zoo import FLAWS, zoo
from .lensing import Lensing
from .lensing.galaxies import Galaxies, pictures
from .lensing.lens import Lens

__all__ = ["FLAWS", "Galaxies", "Lens", "Lensing", "conjugate", "gaussian", "pictures", "zoo"]

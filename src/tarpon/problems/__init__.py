"""Problems whose answer is known, to try tests on."""

from ._conjugate import conjugate
from ._galaxies import Galaxies, pictures
from ._gaussian import gaussian
from ._lens import Lens
from ._lensing import Lensing
from ._zoo import FLAWS, zoo

__all__ = ["FLAWS", "Galaxies", "Lens", "Lensing", "conjugate", "gaussian", "pictures", "zoo"]

"""Problems with a known answer, to try tests on."""

from ._conjugate import conjugate
from ._field import FIELD_FLAWS, field
from ._gaussian import gaussian
from ._zoo import FLAWS, Oracle, oracle, zoo
from .lensing import Lensing
from .lensing.galaxies import Galaxies, pictures
from .lensing.lens import Lens

__all__ = [
    "FIELD_FLAWS",
    "FLAWS",
    "Galaxies",
    "Lens",
    "Lensing",
    "Oracle",
    "conjugate",
    "field",
    "gaussian",
    "oracle",
    "pictures",
    "zoo",
]

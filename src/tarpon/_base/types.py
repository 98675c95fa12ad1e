"""Names for the arrays and the randomness that pass between modules."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""Any numbers, in the precision in which they came."""

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.int64]

ArrayLike: TypeAlias = Any
"""What a user may hand in: an array, nested lists, a torch or JAX tensor."""

RNG: TypeAlias = np.random.Generator | int | None

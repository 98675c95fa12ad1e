"""A round blob in an image of 32 x 32 pixels, blurred, with noise.

The parameters are its place (two), the logarithm of its flux, and its radius before the blur.
Their prior is uniform in a box.
"""

import numpy as np

from .importance import Curve
from .problem import Array, Problem, box

_PIXELS, _BLUR = 32, 2.0


def _image(theta: Array) -> Array:
    """Return images `(n, 1024)` without noise."""
    at = np.arange(_PIXELS)
    width = np.hypot(2 + 1.5 * theta[:, 3], _BLUR)[:, None]
    row, column = (
        np.exp(-0.5 * ((at - _PIXELS / 2 - 8 * theta[:, [k]]) / width) ** 2) for k in (0, 1)
    )
    flux = 150 * np.exp(0.5 * theta[:, [2]]) / (2 * np.pi * width**2)
    return (flux[..., None] * row[:, :, None] * column[:, None]).reshape(len(theta), -1)


BLOB = Problem(
    "blob",
    box(1.0, 4),
    lambda theta, rng: _image(theta) + rng.normal(size=(len(theta), _PIXELS**2)),
    lambda theta, x: Curve(BLOB, _image, 1.0, 1500).log_posterior(theta, x),
    lambda x, n, rng: Curve(BLOB, _image, 1.0, 1500).draw(x, n, rng),
    half_width=1.0,
    n_dims=4,
    shape=(_PIXELS, _PIXELS),
    slow=True,
)

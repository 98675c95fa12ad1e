"""A gravitational lens: the origin of the light of each pixel."""

from dataclasses import dataclass

import numpy as np

from ..._base.types import Floats


@dataclass(frozen=True)
class Lens:
    r"""A singular isothermal ellipsoid in an external shear.

    Light observed at :math:`\theta` left the source at :math:`\theta - \alpha(\theta)`. Along
    the axes of the ellipsoid, with axis ratio :math:`q` and :math:`f = \sqrt{1 - q^2}`,

    .. math::
        \alpha_1 = \frac{b \sqrt q}{f} \arctan \frac{f \theta_1}{\psi}, \quad
        \alpha_2 = \frac{b \sqrt q}{f} \operatorname{artanh} \frac{f \theta_2}{\psi}, \quad
        \psi = \sqrt{q^2 \theta_1^2 + \theta_2^2},

    to which the shear adds :math:`(\gamma_1 \theta_1 + \gamma_2 \theta_2, \gamma_2 \theta_1 -
    \gamma_1 \theta_2)`. Angles are in arc seconds.

    Arguments:
        radius: Einstein radius :math:`b`.
        axis_ratio: Axis ratio :math:`q`, below 1.
        angle: Angle of the long axis, in radians.
        shear: Shear :math:`(\gamma_1, \gamma_2)`.
    """

    radius: float = 1.2
    axis_ratio: float = 0.75
    angle: float = 0.6
    shear: tuple[float, float] = (0.04, -0.03)

    def source(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return the position in the source plane of light observed at (x, y)."""
        q, (g1, g2) = self.axis_ratio, self.shear
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        along, across = cos * x + sin * y, cos * y - sin * x
        f = np.sqrt(1 - q**2)
        psi = np.sqrt(q**2 * along**2 + across**2)
        a1 = self.radius * np.sqrt(q) / f * np.arctan(f * along / psi)
        a2 = self.radius * np.sqrt(q) / f * np.arctanh(f * across / psi)
        ax, ay = cos * a1 - sin * a2, sin * a1 + cos * a2
        return x - ax - g1 * x - g2 * y, y - ay - g2 * x + g1 * y

    def matrix(
        self,
        *,
        n_image: int = 32,
        n_source: int = 16,
        image_side: float = 4.0,
        source_side: float = 1.2,
        source_centre: tuple[float, float] = (0.05, -0.04),
        n_rays: int = 4,
    ) -> Floats:
        r"""Return the matrix that lenses a source, of shape `(n_image², n_source²)`.

        A pixel of the image is the mean of `n_rays` × `n_rays` rays. A ray interpolates the source
        bilinearly; there is no light outside the square of the source.
        """
        n_fine = n_image * n_rays
        axis = ((np.arange(n_fine) + 0.5) / n_fine - 0.5) * image_side
        y, x = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
        pixel = np.arange(n_fine) // n_rays
        row = (n_image * pixel[:, None] + pixel).ravel()
        at = [
            (position - centre) / source_side * n_source + n_source / 2 - 0.5
            for position, centre in zip(self.source(x, y), source_centre, strict=True)
        ]
        matrix = np.zeros((n_image**2, n_source**2))
        for right in (0, 1):
            for up in (0, 1):
                i, j = np.floor(at[0]).astype(int) + right, np.floor(at[1]).astype(int) + up
                weight = (1 - abs(at[0] - i)) * (1 - abs(at[1] - j))
                inside = (i >= 0) & (i < n_source) & (j >= 0) & (j < n_source)
                place = row[inside], (n_source * j + i)[inside]
                np.add.at(matrix, place, weight[inside] / n_rays**2)
        return matrix

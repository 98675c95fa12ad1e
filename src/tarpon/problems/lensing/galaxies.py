"""Small pictures of real galaxies, and a normal distribution fitted to them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.random import Generator

from ..._base import disk, optional
from ..._base.types import Array, Floats
from ...simulations import shapes

N_SIDE = 16
_USER = "the prior of galaxies"
_SIDE_IN_RADII = 4.8  # the side of a picture, in half-light radii
_SMALLEST_SIDE = 12.0  # in pixels of the telescope; smaller pictures show no structure
_N_BRIGHTEST = 5


@dataclass(frozen=True, eq=False)
class Galaxies:
    r"""The normal distribution :math:`N(\mu_0, \Sigma_0)` of pictures of galaxies.

    Arguments:
        mean: Mean picture :math:`\mu_0` of shape `(n_pixels,)`.
        covariance: Covariance :math:`\Sigma_0` of shape `(n_pixels, n_pixels)`.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def fit(cls, pictures: Array) -> "Galaxies":
        r"""Fit a normal to pictures `(n, 16, 16)` in all eight orientations.

        A galaxy has no preferred orientation in the sky. The covariance is shrunk by the rule of
        Ledoit and Wolf (2004), computed without the rotated copies, which are not independent.
        """
        covariances = optional.package("sklearn.covariance", user=_USER, extra="lensing")
        flat = pictures.reshape(len(pictures), -1)
        shrinkage = float(covariances.ledoit_wolf_shrinkage(flat))
        turned = [np.rot90(pictures, k, axes=(1, 2)) for k in range(4)]
        every = np.concatenate([*turned, *(picture.swapaxes(1, 2) for picture in turned)])
        flat = every.reshape(len(every), -1)
        covariance = np.cov(flat, rowvar=False, bias=True)
        level = np.trace(covariance) / len(covariance)
        shrunk = (1 - shrinkage) * covariance + shrinkage * level * np.eye(len(covariance))
        return cls(flat.mean(axis=0), shrunk)

    @cached_property
    def _factor(self) -> Floats:
        return np.linalg.cholesky(self.covariance)

    def draw(self, n: int, rng: Generator) -> Floats:
        """Return `n` pictures, of shape `(n, n_pixels)`; a few pixels are negative."""
        return self.mean + rng.standard_normal((n, len(self.mean))) @ self._factor.T


def pictures(path: str | Path | None = None) -> Floats:
    """Return pictures of galaxies `(n, 16, 16)` from a `.npy` file, or from the Hubble field."""
    if path is None:
        return _hubble()
    loaded = np.load(disk.existing(path), allow_pickle=False)
    shape = getattr(loaded, "shape", ())  # an archive has none
    if shape[1:] != (N_SIDE, N_SIDE) or len(loaded) < 2:
        raise ValueError(
            f"pictures of galaxies must be a .npy array of shape (n, {N_SIDE}, {N_SIDE}) with n "
            f"of at least 2, but {str(path)!r} contains {shape or 'an archive'}."
        )
    return shapes.finite("pictures of galaxies", loaded.astype(float))


def _hubble() -> Floats:
    """Return all large galaxies in the Hubble eXtreme Deep Field (NASA, public domain)."""
    sep = optional.package("sep", user=_USER)
    data = optional.package("skimage.data", user=_USER)
    field = np.ascontiguousarray(data.hubble_deep_field().mean(axis=2))
    background = sep.Background(field)
    light = field - background.back()
    objects, owner = sep.extract(light, 2.0, err=background.globalrms, segmentation_map=True)
    radius, _ = sep.flux_radius(
        light, objects["x"], objects["y"], 6 * objects["a"], 0.5, normflux=objects["flux"]
    )
    limit = np.array(light.shape) - 0.5
    pictures = []
    for k, (x, y, side) in enumerate(
        zip(objects["x"], objects["y"], _SIDE_IN_RADII * radius, strict=True)
    ):
        low = np.array([y, x]) - side / 2
        if side >= _SMALLEST_SIDE and (low >= -0.5).all() and (low + side <= limit).all():
            # Without the light of neighbours.
            alone = np.where((owner == 0) | (owner == k + 1), light, 0.0)
            pictures.append(_averaged(alone, low, side))
    return np.stack([picture / _brightness(picture) for picture in pictures])


def _brightness(picture: Floats) -> Floats:
    return np.sort(picture, axis=None)[-_N_BRIGHTEST:].mean()


def _averaged(light: Floats, low: Floats, side: float) -> Floats:
    """Return the mean light in 16 × 16 cells of a square, which may split pixels."""
    edges = np.linspace(0, side, N_SIDE + 1)
    (top, left), n = np.floor(low).astype(int), int(np.ceil(side)) + 2
    patch = light[max(top, 0) : top + n, max(left, 0) : left + n]
    start = low + 0.5 - np.maximum((top, left), 0)
    for axis in (0, 1):
        total = np.cumsum(np.insert(patch, 0, 0.0, axis=axis), axis=axis)
        at = np.arange(total.shape[axis])
        rows = np.moveaxis(total, axis, -1)
        cells = np.array([np.interp(start[axis] + edges, at, row) for row in rows])
        patch = np.moveaxis(np.diff(cells, axis=-1), -1, axis)
    return patch * (N_SIDE / side) ** 2

"""Gaussian random fields seen through noise: maps whose exact posterior is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
from numpy.random import Generator

from .._base import arguments
from .._base.types import RNG, Floats
from ..checks.flaws import Kind
from ..simulations import Simulations

_SLOPE = 3.0  # of the spectrum at small scales
_SMALL = 4.0  # cells: the scales below are small
_OFF = 1.1  # the factor of power and of lengths that are off
_LOUDER = 1.2  # the factor of noise that is off
_STRETCH = 1.25  # of lengths along one direction, and one over it along the others
_PATCH, _SHIFT = 3, 0.5  # cells along each axis, and posterior sd
_AT_ONCE = 2**24  # numbers that are drawn together


@dataclass(frozen=True, eq=False)
class _Estimator:
    """What the draws of a field follow, in Fourier space, `(*shape of a real transform,)` each.

    Arguments:
        truths: The spectrum of the truths.
        assumed: The spectrum that the posterior assumes.
        filter: Factors of the draws.
        shuffled: Where the phases of the mean are those of another simulation.
        shift: What is added to the draws, in posterior sd, `(*shape,)`.
        used: 1 where the data are used, and 0 where the prior is drawn from instead.
        noise: The noise that the posterior assumes, over that of the data.
    """

    truths: Floats
    assumed: Floats
    filter: Floats
    shuffled: Floats
    shift: Floats
    used: Floats
    noise: float = 1.0


@dataclass(frozen=True)
class _Grid:
    """A periodic grid, and the spectrum of fields on it."""

    shape: tuple[int, ...]
    length: float

    @property
    def frequencies(self) -> list[Floats]:
        """The frequency along each axis, in radians per cell, ready to be broadcast."""
        last = len(self.shape) - 1
        each = [
            np.fft.rfftfreq(n) if axis == last else np.fft.fftfreq(n)
            for axis, n in enumerate(self.shape)
        ]
        return list(np.meshgrid(*(2 * np.pi * f for f in each), indexing="ij", sparse=True))

    def small(self, scale: float = _SMALL) -> Floats:
        """Return 1 for waves that are shorter than so many cells, otherwise 0."""
        square = sum(k**2 for k in self.frequencies)
        return np.where(square * scale**2 > (2 * np.pi) ** 2 * (1 + 1e-9), 1.0, 0.0)

    def spectrum(
        self, factor: float = 1.0, stretch: float = 1.0, *, diagonal: bool = False
    ) -> Floats:
        """Return the power of each wave, of fields with variance one.

        Lengths are stretched along the first axis, or along the diagonal of the first two.
        """
        waves = self.frequencies
        if diagonal:
            waves[:2] = [(waves[0] + sign * waves[1]) / np.sqrt(2) for sign in (1, -1)]
        stretches = [stretch] + [1 / stretch] * (len(waves) - 1)
        square = sum(
            (factor * self.length * each * k) ** 2
            for k, each in zip(waves, stretches, strict=True)
        )
        power = (1 + square) ** (-_SLOPE / 2)
        return power / self.mean(power)

    def mean(self, power: Floats) -> float:
        """Return the variance of a cell, the mean over all waves: most stand for two."""
        twice = np.full(power.shape[-1], 2.0)
        twice[0] = 1.0
        if self.shape[-1] % 2 == 0:
            twice[-1] = 1.0
        return float((power * twice).sum() / prod(self.shape))


def _exact(grid: _Grid) -> _Estimator:
    power = grid.spectrum()
    none, every = np.zeros_like(power), np.ones_like(power)
    return _Estimator(power, power, every, none, np.zeros(()), every)


def _oversmoothed(grid: _Grid) -> _Estimator:
    return replace(_exact(grid), filter=np.where(grid.small() > 0, np.sqrt(0.9), 1.0))


def _too_much_power(grid: _Grid) -> _Estimator:
    exact = _exact(grid)
    return replace(exact, filter=np.sqrt(_OFF) * exact.filter)


def _biased_patch(grid: _Grid) -> _Estimator:
    shift = np.zeros(grid.shape)
    shift[tuple(slice(n // 4, n // 4 + _PATCH) for n in grid.shape)] = _SHIFT
    return replace(_exact(grid), shift=shift)


def _anisotropy_missed(grid: _Grid, *, diagonal: bool = False) -> _Estimator:
    if len(grid.shape) < 2:
        wanted = "at least two axes for a flaw of directions"
        raise ValueError(arguments.wrong("shape", wanted, grid.shape))
    return replace(_exact(grid), truths=grid.spectrum(stretch=_STRETCH, diagonal=diagonal))


def _phases_shuffled(grid: _Grid) -> _Estimator:
    return replace(_exact(grid), shuffled=grid.small())


def _length_off(grid: _Grid) -> _Estimator:
    return replace(_exact(grid), assumed=grid.spectrum(factor=_OFF))


def _data_unused(grid: _Grid) -> _Estimator:
    return replace(_exact(grid), used=1 - grid.small())


def _noise_off(grid: _Grid) -> _Estimator:
    return replace(_exact(grid), noise=_LOUDER)


@dataclass(frozen=True)
class FieldFlaw:
    """A flaw of the posterior of a field.

    Arguments:
        about: What is wrong, in words.
        kinds: The kinds of findings that name it.
        plant: Returns what the draws follow.
    """

    about: str
    kinds: tuple[Kind, ...]
    plant: Callable[[_Grid], _Estimator]


FIELD_FLAWS = {
    "exact": FieldFlaw("no flaw", (), _exact),
    "oversmoothed": FieldFlaw(
        "the draws have 10 % less power at scales below 4 cells", (Kind.POWER,), _oversmoothed
    ),
    "too_much_power": FieldFlaw(
        "the draws have 10 % more power at all scales", (Kind.POWER,), _too_much_power
    ),
    "biased_patch": FieldFlaw(
        "a patch of 3 cells along each axis is 0.5 posterior sd too high",
        (Kind.BIASED,),
        _biased_patch,
    ),
    "anisotropy_missed": FieldFlaw(
        "correlations are 1.56 times as long along the first axis, and the posterior assumes "
        "that they are the same along all",
        (Kind.ANISOTROPY,),
        _anisotropy_missed,
    ),
    "phases_shuffled": FieldFlaw(
        "at scales below 4 cells, posterior means have the right power in the wrong places",
        (Kind.PHASES,),
        _phases_shuffled,
    ),
    "length_off": FieldFlaw(
        "the posterior assumes a correlation length that is 10 % too large",
        (Kind.POWER,),
        _length_off,
    ),
    "shear_missed": FieldFlaw(
        "correlations are 1.56 times as long along one diagonal as along the other, and the "
        "posterior assumes that they are the same along all directions",
        (Kind.ANISOTROPY,),
        partial(_anisotropy_missed, diagonal=True),
    ),
    "noise_off": FieldFlaw(
        "the posterior assumes noise that is 20 % too large",
        (Kind.FIT, Kind.PHASES, Kind.POWER, Kind.SCALES, Kind.UNDERCONFIDENT),
        _noise_off,
    ),
    "data_unused": FieldFlaw(
        "the posterior ignores the data at scales below 4 cells",
        (Kind.FIT,),
        _data_unused,
    ),
}


def field(
    flaw: str = "exact",
    *,
    shape: Sequence[int] = (16, 16),
    n_sims: int = 200,
    n_draws: int = 100,
    length: float = 2.0,
    noise: float = 1.0,
    rng: RNG = None,
) -> Simulations:
    r"""Return posteriors of Gaussian random fields on a periodic grid, which are known exactly.

    A field of variance one has a power spectrum with a correlation length :math:`\ell`, and the
    observation is the field with white noise of variance :math:`\sigma^2` in every cell. The
    waves of the exact posterior are independent, with the mean of Wiener's filter:

    .. math::
        S(k) \propto (1 + k^2 \ell^2)^{-3/2}, \qquad
        \tilde\theta_k | x \sim N\Big(\frac{S}{S + \sigma^2}\, \tilde x_k, \;
        \frac{S \sigma^2}{S + \sigma^2}\Big) .

    Arguments:
        flaw: Name of a flaw in `problems.FIELD_FLAWS`, or "exact" for none.
        shape: Numbers of cells along each axis: a time series, a map, or a volume.
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        length: Correlation length :math:`\ell`, in cells.
        noise: Standard deviation :math:`\sigma` of the noise.
        rng: Seed or generator.

    Returns:
        `Simulations` of fields, with the noisy fields as `x`.

    Example:
        >>> field("oversmoothed", shape=(8, 8), n_sims=20, rng=0)
        Simulations(20 simulations, 100 draws each, fields of 8 x 8)
    """
    about = FIELD_FLAWS[arguments.one_of("flaw", flaw, list(FIELD_FLAWS))]
    wanted = "a list of whole numbers"
    cells = tuple(
        arguments.positive("shape", n, 4) for n in arguments.several("shape", shape, wanted)
    )
    arguments.sizes(n_sims=n_sims, n_draws=n_draws, n_cells=prod(cells))
    grid = _Grid(cells, arguments.between("length", length, 0.1, 1e3))
    noise = arguments.between("noise", noise, 1e-3, 1e3)
    return _simulations(
        grid, about.plant(grid), n_sims, n_draws, noise, np.random.default_rng(arguments.seed(rng))
    )


def _simulations(
    grid: _Grid, planted: _Estimator, n_sims: int, n_draws: int, noise: float, rng: Generator
) -> Simulations:
    theta = _waves_of(grid, np.sqrt(planted.truths), n_sims, rng)
    x = theta + noise * rng.standard_normal(theta.shape, dtype=np.float32)
    kept = planted.used * planted.assumed / (planted.assumed + (planted.noise * noise) ** 2)
    left = planted.assumed * (1 - kept)
    mean = _waves(grid, x) * kept
    # Another simulation's mean has the same power, and its waves are elsewhere.
    mean = np.where(planted.shuffled > 0, np.roll(mean, 1, axis=0), mean)
    shift = (np.sqrt(grid.mean(left)) * planted.shift).astype(np.float32)
    samples = np.empty((n_draws, n_sims, *grid.shape), dtype=np.float32)
    centre = _cells(grid, mean * planted.filter) + shift
    spread = planted.filter * np.sqrt(left)
    step = max(1, _AT_ONCE // prod(samples.shape[1:]))
    for start in range(0, n_draws, step):
        some = samples[start : start + step]
        some[...] = _waves_of(grid, spread, some.shape[:2], rng)
        some += centre
    return Simulations(samples, theta, x=x)


def _waves(grid: _Grid, fields: Floats) -> Floats:
    from scipy.fft import rfftn

    return rfftn(fields, axes=tuple(range(-len(grid.shape), 0)), norm="ortho")


def _cells(grid: _Grid, waves: Floats) -> Floats:
    from scipy.fft import irfftn

    axes = tuple(range(-len(grid.shape), 0))
    return irfftn(waves.astype(np.complex64), s=grid.shape, axes=axes, norm="ortho")


def _waves_of(grid: _Grid, amplitude: Floats, n: int | tuple[int, ...], rng: Generator) -> Floats:
    """Return random fields whose waves have an amplitude, `(*n, *shape)`."""
    before = (n,) if isinstance(n, int) else n
    white = rng.standard_normal((*before, *grid.shape), dtype=np.float32)
    return _cells(grid, _waves(grid, white) * amplitude)

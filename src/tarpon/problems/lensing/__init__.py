"""Gravitational lensing: images of lensed galaxies, and two diffusion samplers of the source."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from ..._base import arguments, optional
from ..._base.threads import over_ranges
from ..._base.types import Array, Floats
from .galaxies import Galaxies, pictures
from .lens import Lens

SAMPLERS = ("exact", "biased")
# The chain starts far outside the prior and must end far inside the posterior: the noise of the
# last step adds to the width of the posterior.
_START_IN_PRIOR_SD = 10.0
_END_IN_POSTERIOR_SD = 0.08


@dataclass(frozen=True, eq=False)
class Chain:
    r"""Euler–Maruyama steps of a reverse diffusion with a linear score.

    .. math:: \phi_{k+1} = M_k \phi_k + B_k w + s_k z_k, \qquad \phi_0 \sim N(0, s^2 I),

    for sources :math:`\phi = \theta - \mu_0` and data :math:`w = A^T (x - A \mu_0)`.

    Arguments:
        keep: Matrices :math:`M_k`, `(n_steps, n_dims, n_dims)`.
        pull: Matrices :math:`B_k`, `(n_steps, n_dims, n_dims)`.
        kick: Standard deviations :math:`s_k` of the noise, `(n_steps,)`.
        start: Standard deviation :math:`s` of the start.
    """

    keep: Floats
    pull: Floats
    kick: Floats
    start: float

    def law(self) -> tuple[Floats, Floats]:
        r"""Return the matrix G and the covariance S of the last state, :math:`N(G w, S)`."""
        n_dims = self.keep.shape[1]
        mean, covariance = np.zeros((n_dims, n_dims)), self.start**2 * np.eye(n_dims)
        for keep, pull, kick in zip(self.keep, self.pull, self.kick, strict=True):
            mean = keep @ mean + pull
            covariance = keep @ covariance @ keep.T + kick**2 * np.eye(n_dims)
        return mean, covariance


@dataclass(frozen=True, eq=False)
class Lensing:
    r"""The source of a lensed galaxy, given its image :math:`x = A \theta + \sigma_n \epsilon`.

    The prior is normal, so that the posterior is known exactly, and so are the distributions of
    two diffusion samplers: one with the exact likelihood of a noised source, and one with the
    usual approximation, which uses the noised source in place of the source.

    Arguments:
        galaxies: Prior :math:`N(\mu_0, \Sigma_0)`, by default fitted to galaxies of the Hubble
            eXtreme Deep Field.
        matrix: Lens :math:`A` of shape `(n_observed, n_dims)`.
        noise: Standard deviation :math:`\sigma_n` of the noise; the brightest pixels of a galaxy
            are about 1.

    Example:
        >>> prior = Galaxies(np.zeros(2), np.eye(2))
        >>> problem = Lensing(prior, matrix=np.array([[1.0, 0.5], [0.0, 1.0], [0.3, 0.0]]))
        >>> theta, x = problem.simulate(5, np.random.default_rng(0))
        >>> draw = problem.sampler("exact", "biased", n_steps=50)
        >>> draw(x, n_draws=100, rng=np.random.default_rng(1))["exact"].shape
        (5, 100, 2)
    """

    galaxies: Galaxies = field(default_factory=lambda: Galaxies.fit(pictures()))
    matrix: Floats = field(default_factory=lambda: Lens().matrix())
    noise: float = 0.1

    def prior(self, n: int, rng: Generator) -> Floats:
        """Return `n` sources, `(n, n_dims)`."""
        return self.galaxies.draw(n, rng)

    def simulate(self, n_sims: int, rng: Generator) -> tuple[Floats, Floats]:
        """Return sources `(n_sims, n_dims)` and their images `(n_sims, n_observed)`."""
        theta = self.prior(n_sims, rng)
        image = theta @ self.matrix.T
        return theta, image + self.noise * rng.standard_normal(image.shape)

    def posterior(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the means `(n_sims, n_dims)` and the common covariance of exact posteriors."""
        return self.galaxies.mean + self.data(x) @ self._gain.T, self._gain * self.noise**2

    def chain(self, sampler: str, n_steps: int = 300) -> Chain:
        r"""Return the steps of a sampler, "exact" or "biased".

        The variance-exploding diffusion has :math:`\sigma_t` growing geometrically. A step
        backward is :math:`\phi + h \nabla \log p_t(\phi | x) + \sqrt h z` with
        :math:`h = 2 \sigma_t^2 \ln(\sigma_T / \sigma_0) / n`. With :math:`H = A^T A`, the score
        is that of the prior, :math:`-(\Sigma_0 + \sigma_t^2 I)^{-1} \phi`, plus that of the
        likelihood,

        .. math:: C^T (\sigma_n^2 I + H S)^{-1} (w - H C \phi),

        where :math:`C = \Sigma_0 (\Sigma_0 + \sigma_t^2 I)^{-1}, S = \sigma_t^2 C` is exact, and
        :math:`C = I, S = \sigma_t^2 I` is biased.
        """
        arguments.one_of("sampler", sampler, SAMPLERS)
        arguments.sizes(n_steps=n_steps, n_dims=len(self.galaxies.mean) ** 2)
        prior, unit = self.galaxies.covariance, np.eye(len(self.galaxies.mean))
        smallest = np.sqrt(np.linalg.eigvalsh(self.posterior(self._no_data)[1])[0])
        sizes, modes = np.linalg.eigh(prior)
        start = _START_IN_PRIOR_SD * np.sqrt(sizes[-1])
        end = _END_IN_POSTERIOR_SD * smallest
        sigma = np.geomspace(start, end, n_steps + 1)[:-1]
        step = sigma**2 * 2 * np.log(start / end) / n_steps
        keep, pull = np.empty((2, n_steps, *unit.shape))

        def fill(first: int, last: int) -> None:
            """Compute the steps from `first` to `last`."""
            for k in range(first, last):
                shrink = (modes / (sizes + sigma[k] ** 2)) @ modes.T
                middle = prior @ shrink if sampler == "exact" else unit
                seen = self._curvature @ middle
                gain = middle.T @ np.linalg.inv(self.noise**2 * unit + sigma[k] ** 2 * seen)
                keep[k] = unit - step[k] * (shrink + gain @ seen)
                pull[k] = step[k] * gain

        over_ranges(fill, n_steps, keep.nbytes)
        return Chain(keep, pull, np.sqrt(step), float(start))

    def sampler(self, *names: str, n_steps: int = 300, device: str = "cpu") -> "Sampler":
        """Return a function that draws sources by one or more samplers, on the CPU or on CUDA."""
        return Sampler(self, {name: self.chain(name, n_steps) for name in names}, device)

    def data(self, x: Floats) -> Floats:
        r"""Return the sufficient statistic of images, :math:`w = A^T (x - A \mu_0)`."""
        return (x - self.galaxies.mean @ self.matrix.T) @ self.matrix

    @property
    def _no_data(self) -> Floats:
        return np.zeros((0, len(self.matrix)))

    @cached_property
    def _curvature(self) -> Floats:
        return self.matrix.T @ self.matrix

    @cached_property
    def _gain(self) -> Floats:
        """The posterior covariance over the noise variance: Σ₀ (σₙ² I + H Σ₀)⁻¹."""
        prior = self.galaxies.covariance
        unit = np.eye(len(prior))
        gain = prior @ np.linalg.inv(self.noise**2 * unit + self._curvature @ prior)
        return (gain + gain.T) / 2


@dataclass(frozen=True, eq=False)
class Sampler:
    """Chains of one or more samplers, for all draws of a few simulations at a time.

    All samplers use the same random numbers, so that only their steps differ.

    Arguments:
        problem: Lensing problem.
        chains: Steps of each sampler, by name.
        device: Device, "cpu" or a CUDA device of torch.
    """

    problem: Lensing
    chains: dict[str, Chain]
    device: str = "cpu"
    _device: "_Device" = field(init=False, repr=False)
    _steps: list[Chain] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        on = _cpu() if self.device == "cpu" else _cuda(self.device)
        # Steps are computed in double precision, and run in single precision.
        steps = [
            Chain(on.array(chain.keep), on.array(chain.pull), chain.kick, chain.start)
            for chain in self.chains.values()
        ]
        object.__setattr__(self, "_device", on)
        object.__setattr__(self, "_steps", steps)

    def __call__(self, x: Floats, n_draws: int, rng: Generator) -> dict[str, Array]:
        """Return draws `(n_sims, n_draws, n_dims)` by sampler, in single precision."""
        data = self.problem.data(x).astype(np.float32)
        states = _walk(self._steps, data, n_draws, self._device, rng)
        mean = self.problem.galaxies.mean.astype(np.float32)
        drawn = [self._device.host(state) for state in states]
        for draws in drawn:
            draws += mean
        return dict(zip(self.chains, drawn, strict=True))


@dataclass(frozen=True)
class _Device:
    """The functions of a device: make arrays, fill them with normals, and multiply them."""

    array: Callable[[Array], Any]
    empty: Callable[[tuple[int, ...]], Any]
    normals: Callable[[Generator], Callable[[Any], object]]
    matmul: Callable[..., Any]
    host: Callable[[Any], Array]


def _cpu() -> _Device:
    return _Device(
        array=lambda values: np.ascontiguousarray(values, dtype=np.float32),
        empty=lambda shape: np.empty(shape, np.float32),
        normals=lambda rng: lambda z: rng.standard_normal(out=z, dtype=np.float32),
        matmul=np.matmul,
        host=lambda state: state,
    )


def _cuda(device: str) -> _Device:
    torch = optional.package("torch")

    def normals(rng: Generator) -> Callable[[Any], object]:
        generator = torch.Generator(device).manual_seed(int(rng.integers(2**63)))
        return lambda z: z.normal_(generator=generator)

    return _Device(
        array=lambda values: torch.as_tensor(values, dtype=torch.float32, device=device),
        empty=lambda shape: torch.empty(shape, dtype=torch.float32, device=device),
        normals=normals,
        matmul=torch.matmul,
        host=lambda state: state.cpu().numpy(),
    )


def _walk(
    chains: list[Chain], data: Array, n_draws: int, on: _Device, rng: Generator
) -> list[Any]:
    """Run all chains to their end, with the same noise."""
    shape = (len(data), n_draws, data.shape[1])
    flat = (-1, shape[-1])
    z, spare, *states = (on.empty(shape) for _ in range(2 + len(chains)))
    pulls = [on.matmul(on.array(data), chain.pull.swapaxes(1, 2)) for chain in chains]
    fill = on.normals(rng)
    fill(z)
    for chain, state in zip(chains, states, strict=True):
        state[...] = z
        state *= chain.start
    for k, kick in enumerate(chains[0].kick.tolist()):
        fill(z)
        z *= kick
        for i, (chain, pull) in enumerate(zip(chains, pulls, strict=True)):
            # One product over all draws of all simulations.
            on.matmul(states[i].reshape(flat), chain.keep[k].T, out=spare.reshape(flat))
            spare += pull[k][:, None]
            spare += z
            states[i], spare = spare, states[i]
    return states

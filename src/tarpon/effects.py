"""Effects: how large errors are, parameter by parameter, in units that a scientist uses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from ._arrays import double, host, namespace
from ._types import Array, Floats, Ints
from .engine import Results, joined
from .ranks import Ranks, broken
from .regions import HalfLines
from .simulations import Block, Simulations
from .verdict import Estimate, held


@dataclass(frozen=True)
class Parameter:
    r"""What the study says about one parameter, with 95 % intervals.

    From :math:`z_i = (\theta^*_i - \bar\theta_i) / \sigma_i` with the mean and sd of the draws.

    Arguments:
        name: Its name.
        bias: The mean of -z: how far the draws lie above the truths, in posterior sd.
        width: The sd of z, corrected for the number of draws: by which factor the truths
            scatter more widely than the draws. Above 1 is overconfident.
        contraction: One minus the posterior's variance over that of the truths.
        recovery: The correlation of the draws' mean with the truth.
        coverage_68: The share of truths in the central 68 % of the draws.
        coverage_95: The share of truths in the central 95 %.
        p_value: Of its distribution, exact and adjusted for the number of parameters.
    """

    name: str
    bias: Estimate
    width: Estimate
    contraction: float
    recovery: float
    coverage_68: Estimate
    coverage_95: Estimate
    p_value: float


@dataclass(frozen=True, eq=False)
class Effects:
    """Means, widths and ends of the draws of all simulations, `(n_sims, n_dims)` each."""

    truth: Floats
    mean: Floats
    sd: Floats
    outside: Array
    lag: float
    ranks: Ranks

    @classmethod
    def of(cls, sims: Simulations, measured: Results, rng: Generator) -> "Effects":
        """Return the effects that follow from what was `measured` of every simulation."""
        sd = measured["sd"]
        together = float(measured["lag"].sum() / max(np.square(sd).sum(), 1e-300))
        return cls(
            host(sims.theta).astype(float),
            measured["mean"],
            sd,
            measured["outside"],
            together,
            broken(measured, sims.n_draws, rng),
        )

    @property
    def n_draws(self) -> int:
        return self.ranks.n_draws

    @cached_property
    def z(self) -> Floats:
        """The truths about the mean of their draws, in sd of the draws; 0 where that is 0."""
        return (self.truth - self.mean) / np.where(self.sd > 0, self.sd, np.inf)

    def bias(self, k: int) -> Estimate:
        z = -self.z[:, k]
        half = 1.96 * z.std(ddof=1) / np.sqrt(len(z))
        return Estimate(float(z.mean()), float(z.mean() - half), float(z.mean() + half))

    def width(self, k: int | None = None) -> Estimate:
        """Return the factor of one parameter, or of all together."""
        z = self.z if k is None else self.z[:, [k]]
        square = np.square(z - z.mean(axis=0)).mean(axis=1)
        n = len(square)
        # For normal draws z follows Student's t, whose variance is this.
        expected = (1 + 1 / self.n_draws) * (self.n_draws - 1) / max(self.n_draws - 3, 0.5)
        factor = np.sqrt(square.mean() * n / (n - 1) / expected)
        relative = square.std(ddof=1) / np.sqrt(n) / max(2 * square.mean(), 1e-300)
        ratio = np.exp(1.96 * relative)
        return Estimate(float(factor), float(factor / ratio), float(factor * ratio))

    def informed(self) -> Array:
        """Return for which parameters the means of the draws differ by more than noise."""
        noise = np.square(self.sd).mean(axis=0) / self.n_draws
        return self.mean.var(axis=0) > 3 * noise

    def recovered(self) -> Array:
        """Return for which parameters the means of the draws follow the truths beyond noise."""
        return _correlations(self.mean, self.truth) > 3 / np.sqrt(len(self.truth))

    def some(self, where: Ints) -> "Effects":
        """Return the effects of some simulations alone."""
        return replace(
            self,
            truth=self.truth[where],
            mean=self.mean[where],
            sd=self.sd[where],
            outside=self.outside[where],
            ranks=Ranks(self.ranks.values[where], self.ranks.n_draws),
        )

    def parameters(self, names: Sequence[str], p_values: Floats) -> tuple[Parameter, ...]:
        """Return the table of all parameters."""
        prior = np.maximum(self.truth.var(axis=0), 1e-300)
        contraction = 1 - np.square(self.sd).mean(axis=0) / prior
        recovery = _correlations(self.mean, self.truth)
        return tuple(
            Parameter(
                name,
                self.bias(k),
                self.width(k),
                float(contraction[k]),
                float(recovery[k]),
                held(self.ranks.values[:, k], self.n_draws, 0.68, central=True),
                held(self.ranks.values[:, k], self.n_draws, 0.95, central=True),
                float(p_values[k]),
            )
            for k, name in enumerate(names)
        )


def measure(sims: Simulations) -> Results:
    """Return the mean, sd and ends of the draws of some simulations, and where the truth is."""
    below, equal = HalfLines().count(sims)
    found = joined(_measure(block) for block in sims.blocks())
    return {"below": below, "equal": equal, **found}


def _measure(block: Block) -> Results:
    xp, draws, truth = namespace(block.points), double(block.points[1:]), block.points[0]
    n_draws, mean = len(draws), draws.mean(axis=0)
    about = draws - mean
    variance = (about**2).mean(axis=0)
    found = {
        "mean": mean,
        "sd": (variance * (n_draws / (n_draws - 1))) ** 0.5,
        "outside": (truth < xp.amin(draws, axis=0)) | (truth > xp.amax(draws, axis=0)),
        "lag": (about[1:] * about[:-1]).sum(axis=(0, 2)) / (n_draws - 1),
    }
    return {name: host(values) for name, values in found.items()}


def _correlations(a: Floats, b: Floats) -> Floats:
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norm = np.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
    return (a * b).sum(axis=0) / np.where(norm > 0, norm, np.inf)

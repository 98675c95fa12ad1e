"""Parameters: how large the errors of each are, in units that a scientist uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from .._base import threads
from .._base.arrays import Results, double, host, joined, namespace, to_device_of
from .._base.text import Estimate, number
from .._base.types import Array, Floats, Ints
from ..ranks import Ranks, broken, counts, held
from ..regions import HalfLines
from ..simulations import Simulations, weights
from ..simulations.blocks import Block
from . import outliers
from .values import Few, Shares

_CLEAR = 3  # times the noise from which a parameter counts as informed, or recovered
_FEW = 0.05  # the share of posteriors from which on their outliers are worth a word
_ROUNDING = 1e-14  # of sums of draws in double precision, relative to their mean
_LEFT_OUT = 64  # unweighted draws, at least, that are compared with all the others


@dataclass(frozen=True)
class Parameter:
    r"""The errors of one parameter, with 95 % intervals.

    From :math:`z_i = (\theta^*_i - \bar\theta_i) / \sigma_i` with the mean and sd of the draws.
    Outliers, beyond ten interquartile widths from the median, are left out, of the truths at most
    as many as there should be by the draws.

    Arguments:
        name: Its name.
        bias: The mean of -z: how far the draws lie above the truths, in posterior sd.
        width: The sd of z over that of a draw, measured by all other draws: the factor by which
            the truths scatter more widely than the draws. Above 1 is overconfident.
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

    def cells(self) -> dict[str, str]:
        """Return its row in the table that `check.parameters` prints, by column."""
        return {
            "parameter": self.name,
            "bias / sd": str(self.bias),
            "width": str(self.width),
            "contraction": f"{self.contraction:.2f}",
            "recovery": f"{self.recovery:.2f}",
            "in 68%": f"{self.coverage_68.value:.0%}",
            "in 95%": f"{self.coverage_95.value:.0%}",
            "p": number(self.p_value, 3),
        }


@dataclass(frozen=True)
class Outlying:
    """The outliers of a parameter.

    Arguments:
        dim: The place of the parameter.
        share: The share of the draws that are outliers.
        posteriors: The share of the posteriors that have one.
        n_truths: The number of truths that are.
    """

    dim: int
    share: float
    posteriors: float
    n_truths: int


@dataclass(frozen=True, eq=False)
class Effects:
    """Means, widths and ends of the draws of all simulations, `(n_sims, n_dims)` each.

    Arguments:
        truth: The truths.
        mean: The means of the draws.
        sd: Their standard deviations.
        square: The mean square of a draw about the mean of the others, in sd of the others.
        outside: Whether the truth lies beyond all draws.
        outlying: The share of the draws that are outliers, which the mean and sd leave out.
        ess: The effective sample size of a typical simulation.
        ranks: The ranks of the truths among the draws, parameter by parameter.
        few: The parameters that take few values, by their places.
    """

    truth: Floats
    mean: Floats
    sd: Floats
    square: Floats
    outside: Array
    outlying: Floats
    ess: float
    ranks: Ranks
    few: dict[int, Shares] = field(default_factory=dict)

    @classmethod
    def of(
        cls, sims: Simulations, measured: Results, rng: Generator, few: Few = Few()
    ) -> "Effects":
        """Return the effects in the arrays that `measure` returned."""
        truth, ess = host(sims.theta).astype(float), float(np.median(measured["ess"]))
        mean, sd = measured["mean"], measured["sd"]
        shares = {
            k: Shares(few.values[k], of_k, truth[:, k], mean[:, k], sd[:, k] ** 2, ess)
            for k, of_k in few.split(measured.get("shares"))
        }
        return cls(
            truth, mean, sd, measured["square"], measured["outside"], measured["outlying"], ess,
            broken(measured, sims, rng), shares,
        )  # fmt: skip

    @cached_property
    def z(self) -> Floats:
        """The truths about the mean of their draws, in sd of the draws; 0 where that is 0."""
        return (self.truth - self.mean) / np.where(self.sd > 0, self.sd, np.inf)

    @cached_property
    def counted(self) -> Array:
        """Which truths count in bias and width: of outliers, as many less as draws have."""
        counted = np.ones(self.truth.shape, dtype=bool)
        for k in np.flatnonzero(self.outlying.any(axis=0)):
            expected, far = self.outlying[:, k].sum(), abs(self.z[:, k])
            most = int(np.ceil(expected + 3 * np.sqrt(expected)))
            out = np.argsort(far)[::-1][:most]
            counted[out[far[out] > outliers.IN_SD], k] = False
        return counted

    @cached_property
    def outliers(self) -> list[Outlying]:
        """The parameters that have outliers in more than a few posteriors, most of them first."""
        share = self.outlying.mean(axis=0)
        posteriors = (self.outlying > 0.5 / self.ess).mean(axis=0)  # draws that weigh anything
        truths = (abs(self.z) > outliers.IN_SD).sum(axis=0)
        return [
            Outlying(int(k), float(share[k]), float(posteriors[k]), int(truths[k]))
            for k in np.argsort(-share, kind="stable")
            if posteriors[k] > _FEW
        ]

    @property
    def tested(self) -> list[tuple[int, float | None]]:
        """The parameters and values that are tested, `None` for all values of one."""
        return Few({k: shares.values for k, shares in self.few.items()}).tested

    def bias(self, k: int, z: float = 1.96) -> Estimate:
        """Return how far the draws of a parameter lie above its truths, in posterior sd.

        Its interval reaches `z` standard errors to both sides.
        """
        if k in self.few:
            return self.few[k].bias(z)
        above = -self.z[self.counted[:, k], k]
        mean, half = above.mean(), z * above.std(ddof=1) / np.sqrt(len(above))
        return Estimate(float(mean), float(mean - half), float(mean + half))

    def width(self, k: int | None = None, z: float = 1.96) -> Estimate:
        """Return the factor of one parameter, or of all together that take many values."""
        if k is None:
            many = [j for j in range(self.truth.shape[1]) if j not in self.few]
            return self.width_of(many, z) if many else self.few[min(self.few)].width(z)
        if k in self.few:
            return self.few[k].width(z)
        factor, relative = self._widths
        return _by_factor(float(factor[k]), float(np.exp(z * relative[k])))

    def width_of(self, ks: Sequence[int], z: float = 1.96) -> Estimate:
        """Return the factor of several parameters together that take many values."""
        each = self._squares[:, list(ks)]
        square = np.nanmean(each[~np.isnan(each).all(axis=1)], axis=1)
        factor, relative = self._factors(square[:, None], self.square[:, list(ks)].mean())
        return _by_factor(float(factor[0]), float(np.exp(z * relative[0])))

    @cached_property
    def _squares(self) -> Floats:
        """The squares of truths about their mean, NaN for those that do not count."""
        above = np.where(self.counted, self.z, np.nan)
        return np.square(above - np.nanmean(above, axis=0))

    @cached_property
    def _widths(self) -> tuple[Floats, Floats]:
        """The factor of each parameter alone, and its relative standard error."""
        return self._factors(self._squares, self.square.mean(axis=0))

    def _factors(self, square: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """Return factors and their relative standard errors, given squares of truths and draws."""
        n, mean = (~np.isnan(square)).sum(axis=0), np.nanmean(square, axis=0)
        # Draws are measured by one draw less than truths are.
        expected = draws * _of_normal(self.ess) / _of_normal(self.ess - 1)
        factor = np.sqrt(mean * n / (n - 1) / np.where(expected == 0, np.inf, expected))
        error = np.nanstd(square, axis=0, ddof=1) / np.sqrt(n)
        return factor, error / np.maximum(2 * mean, 1e-300)

    def correlation(self, a: int, b: int) -> Estimate:
        """Return the correlation of the normal scores of the truths in two parameters."""
        return with_interval(self.correlations(a, self.scores[:, [b]])[0], len(self.scores))

    def correlations(self, k: int, along: Floats) -> Floats:
        """Return the correlations of a parameter's normal scores with the columns of `along`."""
        return correlations(self.scores[:, [k]], along)

    def explained(self, k: int, along: Floats) -> Estimate:
        """Return the share of a parameter that numbers explain, if they go the same way."""
        r = with_interval(self.correlations(k, along[:, None])[0], len(along))
        return Estimate(*(max(end, 0.0) ** 2 for end in (r.value, r.low, r.high)))

    def recovery(self, k: int) -> Estimate:
        """Return the correlation of a parameter's truths with the means of the draws."""
        return with_interval(
            correlations(self.mean[:, [k]], self.truth[:, [k]])[0], len(self.truth)
        )

    @cached_property
    def scores(self) -> Floats:
        """The normal scores of the ranks of the truths, `(n_sims, n_dims)`."""
        from scipy.special import ndtri

        return ndtri((self.ranks.values + 0.5) / (self.ranks.n_draws + 1))

    def informed(self) -> Array:
        """Return for which parameters the means or widths of the draws differ by more than noise.

        Where a posterior has modes at both signs of a number, its width alone may follow it.
        """
        noise = np.square(self.sd).mean(axis=0) / self.ess
        log_sd = np.log(np.where(self.sd > 0, self.sd, 1.0))
        widths = log_sd.var(axis=0) > _CLEAR / self.ess
        return (self.mean.var(axis=0) > _CLEAR * noise) | widths

    def recovered(self) -> Array:
        """Return for which parameters the draws follow the truths beyond noise.

        By their means; or, of posteriors with modes at both signs of a number, by their widths.
        """
        size = abs(self.truth - np.median(self.truth, axis=0))
        follows = np.maximum(correlations(self.mean, self.truth), correlations(self.sd, size))
        return follows > _CLEAR / np.sqrt(len(self.truth))

    def subset(self, sims: Ints) -> "Effects":
        """Return the effects of some simulations only."""
        return replace(
            self,
            truth=self.truth[sims],
            mean=self.mean[sims],
            sd=self.sd[sims],
            square=self.square[sims],
            outside=self.outside[sims],
            outlying=self.outlying[sims],
            ranks=Ranks(self.ranks.values[sims], self.ranks.n_draws),
            few={k: shares.subset(sims) for k, shares in self.few.items()},
        )

    def beside(self, *numbers: Floats) -> "Effects":
        """Return the effects of draws that are moved to where truths are, on average.

        Along numbers of the simulations, and along the means of the draws themselves.
        """
        known, mean = np.column_stack([np.ones(len(self.mean)), *numbers]), self.mean.copy()
        for k, here in enumerate(self.counted.T):
            every = np.column_stack([known, self.mean[:, k]])
            line = np.linalg.lstsq(every[here], self.z[here, k], rcond=None)[0]
            mean[:, k] += self.sd[:, k] * (every @ line)
        return replace(self, mean=mean)

    def parameters(self, names: Sequence[str], p_values: Floats) -> tuple[Parameter, ...]:
        """Return the table of all parameters."""
        prior = np.maximum(self.truth.var(axis=0), 1e-300)
        contraction = 1 - np.square(self.sd).mean(axis=0) / prior
        recovery = correlations(self.mean, self.truth)
        return tuple(
            Parameter(
                name,
                self.bias(k),
                self.width(k),
                float(contraction[k]),
                float(recovery[k]),
                held(self.ranks.values[:, k], self.ranks.n_draws, 0.68, central=True),
                held(self.ranks.values[:, k], self.ranks.n_draws, 0.95, central=True),
                float(p_values[k]),
            )
            for k, name in enumerate(names)
        )


def _by_factor(value: float, ratio: float) -> Estimate:
    """Return an estimate with an interval that reaches as far on both sides, as a ratio."""
    return Estimate(value, value / ratio, value * ratio)


def measure(sims: Simulations, few: Few = Few()) -> Results:
    """Return the mean and sd of the draws, and where the truth is among them, per simulation."""
    blocks = joined(threads.mapped(_measure, sims.blocks()))
    return counts(sims, HalfLines()) | blocks | few.shares(sims)


def _measure(block: Block) -> Results:
    draws, truth = double(block.points[1:]), block.points[0]
    share = _shares(block, draws)
    mean, variance = _moments(draws, share)
    ess = 1 / (share**2).sum(axis=0)[:, 0]
    share, outlying = outliers.without(draws, share, mean, variance**0.5, weighted=block.weighted)
    if outlying.any():
        mean, variance = _moments(draws, share)
    deviation = draws - mean
    alike = (share**2).sum(axis=0)  # the chance that two draws by weight are the same
    low, high = _ends(draws, _shares(block, draws))
    left_out = slice(None, None, 1 if block.weighted else max(1, len(draws) // _LEFT_OUT))
    measured = {
        "mean": mean,
        "sd": (variance / (1 - alike).clip(min=1e-9)) ** 0.5,
        "square": _left_out(share[left_out], deviation[left_out], variance, alike),
        "outside": (truth < low) | (truth > high),
        "outlying": outlying,
        "ess": ess,
    }
    return {name: host(values) for name, values in measured.items()}


def _moments(draws: Array, share: Array) -> tuple[Array, Array]:
    """Return the mean and the variance of draws, each by its share."""
    mean = (share * draws).sum(axis=0)
    variance = (share * (draws - mean) ** 2).sum(axis=0)
    rounding = (_ROUNDING * mean) ** 2  # all that is left of draws that are equal
    return mean, namespace(draws).where(variance > rounding, variance, 0.0)


def _shares(block: Block, draws: Array) -> Array:
    """Return the share of each draw in the weight of its simulation, `(n_draws, n_block, 1)`."""
    if not block.weighted:
        return namespace(draws).full_like(draws[..., :1], 1 / len(draws))
    relative = weights.relative(block.log_weights[1:])
    return to_device_of((relative / relative.sum(axis=0))[..., None], draws)


def _ends(draws: Array, share: Array) -> tuple[Array, Array]:
    """Return the smallest and largest of the draws with any weight."""
    xp, there = namespace(draws), share > 0
    if there.all():
        return xp.amin(draws, axis=0), xp.amax(draws, axis=0)
    low = xp.amin(xp.where(there, draws, np.inf), axis=0)
    return low, xp.amax(xp.where(there, draws, -np.inf), axis=0)


def _left_out(share: Array, deviation: Array, variance: Array, alike: Array) -> Array:
    r"""Return the mean square of a draw about the mean of the others, in sd of the others.

    A truth that is one more draw has the same: no assumption on the shape of the posterior. With
    the shares :math:`p_j`, deviations :math:`d_j` and variance :math:`v` of all draws,

    .. math:: \sum_j p_j \frac{(\theta_j - \bar\theta_{-j})^2}{s_{-j}^2}, \qquad
        \theta_j - \bar\theta_{-j} = \frac{d_j}{1 - p_j}, \qquad
        s_{-j}^2 = \frac{\frac{v}{1 - p_j} - p_j \big(\frac{d_j}{1 - p_j}\big)^2}
        {1 - \sum_{k \ne j} \big(\frac{p_k}{1 - p_j}\big)^2} .
    """
    where, others = namespace(share).where, 1 - share
    others = where(others > 0, others, 1.0)
    square = (deviation / others) ** 2
    variance_left = variance / others - share * square
    unbiased = 1 - (alike - share**2) / others**2
    varies = variance_left > 1e-12 * variance  # or the others are all the same
    square = where(varies, square * unbiased / where(varies, variance_left, 1.0), 0.0)
    return (share * square).sum(axis=0) / share.sum(axis=0)


def _of_normal(n_draws: float) -> float:
    """Return the mean square of a normal truth in sd of its draws: that of Student's t."""
    n_draws = max(n_draws, 1.5)  # weighted draws may be worth less than two, which have no sd
    return (1 + 1 / n_draws) * (n_draws - 1) / max(n_draws - 3, 0.5)


def fisher(correlation: Array | float) -> Array:
    """Return Fisher's transformation of correlations, finite for those of one, too."""
    return np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))


def with_interval(correlation: float, n_sims: int) -> Estimate:
    """Return a correlation with its interval, by Fisher's transformation."""
    z = fisher(correlation)
    half = 1.96 / np.sqrt(max(n_sims - 3, 1))
    return Estimate(float(correlation), float(np.tanh(z - half)), float(np.tanh(z + half)))


def correlations(a: Floats, b: Floats) -> Floats:
    """Return the correlations of columns with columns, 0 for those that do not vary."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norm = np.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
    return (a * b).sum(axis=0) / np.where(norm > 0, norm, np.inf)

r"""Proposals: truths around the posterior of one observation, so that data are near it.

If truths follow :math:`\tilde\pi` instead of the prior :math:`\pi`, then a truth given its data
follows :math:`\tilde\pi(\theta)\, p(x | \theta)`, and draws of an accurate posterior follow
:math:`\pi(\theta)\, p(x | \theta)`. So each of the pooled points is the truth with a probability
proportional to :math:`w(\theta) = \tilde\pi(\theta) / \pi(\theta)`: with these weights, of truths
and draws alike, all tests are exact. The posterior under test is still that of the prior.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator, SeedSequence

from .._base.arrays import Results
from .._base.types import Array, ArrayLike, Floats
from ..simulations import Simulations, shapes, weights

WIDER = 1.5
_STREAM = 3  # of random numbers that neither simulations nor tests with the same seed use
_MOST_CENTRES = 500
_AT_ONCE = 2048  # points whose densities are computed together
_TRIES, _MOST_TRIES = 64, 64 * 256  # truths proposed at once, and in all, until one is possible
_OUTSIDE = (
    "`log_prior(theta)` is -inf for all draws of the posterior: they are outside of the prior"
)


class Weighable(Protocol):
    """Part of a problem that a proposal needs."""

    log_prior: Callable[[Floats], ArrayLike]

    def posterior(self, x: Any, n_draws: int, rng: Generator) -> ArrayLike:
        """Return draws of the posterior given an observation, `(n_draws, n_dims)`."""
        ...


@dataclass(frozen=True, eq=False)
class Proposal:
    r"""Truths that scatter 1.5 times as widely as the posterior of an observation.

    A truth is one of the draws :math:`\theta_j` plus normal noise, and possible under the prior:

    .. math:: \tilde\pi(\theta) \propto 1_{\pi(\theta) > 0}
              \sum_j \mathcal N\big(\theta;\, \theta_j,\, (1.5^2 - 1)\, \Sigma\big) .

    Arguments:
        x: The observation, as the posterior takes it.
        centres: Draws of its posterior, `(n_centres, n_dims)`.
        factor: Cholesky factor of the covariance of the noise, `(n_dims, n_dims)`.
    """

    x: Array
    centres: Floats
    factor: Floats

    @classmethod
    def around(cls, x: Array, samples: Floats) -> "Proposal":
        """Return truths around the draws of an observation, `(n_draws, n_dims)`."""
        n_draws, n_dims = samples.shape
        covariance = np.atleast_2d(np.cov(samples, rowvar=False))
        sd = np.sqrt(np.diagonal(covariance))
        if n_draws <= n_dims or not (sd > 0).all():
            raise ValueError(_degenerate(n_draws, n_dims))
        try:
            factor = sd[:, None] * np.linalg.cholesky(covariance / np.outer(sd, sd))
        except np.linalg.LinAlgError as error:
            raise ValueError(_degenerate(n_draws, n_dims)) from error
        return cls(x, samples[:_MOST_CENTRES], np.sqrt(WIDER**2 - 1) * factor)

    def log_density(self, theta: Floats) -> Floats:
        """Return the log-density up to a constant, `(n,)`, regardless of the prior's support."""
        from scipy.spatial.distance import cdist

        points, centres = (np.linalg.solve(self.factor, z.T).T for z in (theta, self.centres))
        parts = (points[k : k + _AT_ONCE] for k in range(0, len(points), _AT_ONCE))
        return np.concatenate([_log_sum(cdist(part, centres, "sqeuclidean")) for part in parts])

    def draw(self, problem: Weighable, rng: Generator) -> Floats:
        """Return the parameters of one truth, `(n_dims,)`."""
        n_centres, n_dims = self.centres.shape
        for _ in range(0, _MOST_TRIES, _TRIES):
            noise = rng.normal(size=(_TRIES, n_dims)) @ self.factor.T
            theta: Floats = self.centres[rng.integers(n_centres, size=_TRIES)] + noise
            possible = log_prior(problem, theta) > -np.inf
            if possible.any():
                return theta[possible.argmax()]
        raise ValueError(
            f"`log_prior(theta)` is -inf for {_MOST_TRIES} parameters in a row that were proposed "
            f"around the posterior of `near`. Is that posterior outside of the prior?"
        )

    def log_weights(self, problem: Weighable, theta: Floats) -> Floats:
        """Return the log-weights of points `(n, n_dims)`; -inf where the prior is zero."""
        prior = log_prior(problem, theta)
        possible = prior > -np.inf
        return np.where(possible, self.log_density(theta) - np.where(possible, prior, 0), -np.inf)

    def same_kind(self, x: Array) -> None:
        """Raise if simulated observations have another shape than the one of the user."""
        if x.shape != self.x.shape:
            raise ValueError(
                f"`near` must have the shape of one observation, {x.shape}, but got {self.x.shape}"
            )

    def weighted(self, problem: Weighable, theta: Floats, samples: Floats) -> Results:
        """Return the log-weights of a truth and of its draws, as `Simulations` have them."""
        found = self.log_weights(problem, np.vstack([theta, samples]))
        if not (found[1:] > -np.inf).any():
            raise ValueError(_OUTSIDE)
        return {"log_weights_theta": found[0], "log_weights": found[1:]}


def proposed(problem: Any, near: ArrayLike, n_draws: int, seed: int) -> tuple[Proposal, Floats]:
    """Return a proposal around an observation, and its posterior as weighted draws would have it.

    The latter are comparable with the pooled points of simulations, which are weighted, too.
    """
    draw, choose = np.random.default_rng(SeedSequence((seed, _STREAM))).spawn(2)
    x = shapes.finite("observation", shapes.array("near", near))
    samples = shapes.array("posterior(near, n_draws, rng)", problem.posterior(near, n_draws, draw))
    if samples.ndim > 2:
        raise ValueError(
            f"`near` needs vectors of parameters, (n_draws, n_dims), but `posterior` returned "
            f"fields, {samples.shape}: run without `near`, and use `tarpon.near` afterwards."
        )
    samples = samples.astype(float).reshape(len(samples), -1) if samples.ndim else samples
    if samples.shape[:1] != (n_draws,) or not np.isfinite(samples).all():
        raise ValueError(
            f"`posterior(x, n_draws, rng)` of `near` must return finite numbers of shape "
            f"({n_draws}, n_dims), but returned {samples.shape}."
        )
    found = Proposal.around(x, samples)
    log_weights = found.log_weights(problem, samples)
    if not (log_weights > -np.inf).any():
        raise ValueError(_OUTSIDE)
    share = weights.relative(log_weights)
    return found, samples[choose.choice(n_draws, size=n_draws, p=share / share.sum())]


def needs_density(problem: Any) -> None:
    """Raise if a problem has no prior density."""
    if not callable(getattr(problem, "log_prior", None)):
        raise ValueError(
            "`near` needs the density of the prior, but the problem has none. Give it "
            "`log_prior(theta)`, the log-density `(n,)` of parameters `(n, n_dims)` up to a "
            "constant, -inf outside of the prior."
        )


def outside(sims: Simulations) -> list[str]:
    """Return a sentence about draws outside of the prior, if there are any."""
    assert sims.log_weights is not None
    share = float((sims.log_weights == -np.inf).mean())
    if not share:
        return []
    return [
        f"A share of {share:.2g} of the draws is outside of the prior, where accurate posteriors "
        f"have none. These draws are not tested here."
    ]


def log_prior(problem: Weighable, theta: Floats) -> Floats:
    """Return the prior's log-density of points `(n, n_dims)`, or raise."""
    values = shapes.array("log_prior(theta)", problem.log_prior(theta))
    if values.shape != (len(theta),):
        raise ValueError(
            f"`log_prior(theta)` of {len(theta)} parameters must return ({len(theta)},) numbers, "
            f"but returned {values.shape}."
        )
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("`log_prior(theta)` must return numbers, but returned NaN or inf.")
    return values.astype(float)


def _log_sum(squared: Floats) -> Floats:
    """Return the logarithms of sums of exp(-d²/2) along rows; overwrites the squared distances."""
    nearest: Floats = squared.min(axis=1)
    squared -= nearest[:, None]
    squared *= -0.5
    return np.log(np.exp(squared, out=squared).sum(axis=1)) - nearest / 2


def _degenerate(n_draws: int, n_dims: int) -> str:
    return (
        f"the {n_draws} draws of `near`'s posterior must vary in all {n_dims} parameters, and in "
        f"all their combinations, to simulate around them: use more draws, or leave out "
        f"parameters that follow from others."
    )

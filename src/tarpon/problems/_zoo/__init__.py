"""A zoo of labelled flaws: estimators with a known error, for a known exact posterior."""

from dataclasses import dataclass

import numpy as np

from ..._base import arguments
from ..._base.types import RNG, Floats
from ...simulations import Simulations
from . import first, second
from .study import SD_X, SHRINK, Densities, Flaw, Study

__all__ = ["FLAWS", "Flaw", "Oracle", "oracle", "zoo"]

FLAWS: dict[str, Flaw] = first.FLAWS | second.FLAWS


def zoo(
    flaw: str, *, n_sims: int = 200, n_draws: int = 100, n_dims: int = 2, rng: RNG = None
) -> Simulations:
    r"""Return simulations of an estimator with a known flaw.

    Truths follow :math:`N(0, I)`, observations are :math:`x = \theta + \epsilon / 2`, and the
    exact posterior is :math:`N(0.8\, x, 0.2\, I)`, unless the flaw is that the estimator misses
    something in a posterior of another form.

    Arguments:
        flaw: Name of a flaw in `problems.FLAWS`, or "exact" for none.
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        n_dims: Number of parameters. There are as many observations, except that the flaw
            "half_ignored" has about 200.
        rng: Seed or generator.

    Returns:
        `Simulations` with `x`, and with log-densities if the estimator's is simple.

    Example:
        >>> zoo("narrow", n_dims=10, rng=0)
        Simulations(200 simulations, 100 draws each, 10 parameters)
    """
    return _simulations(*_planted(flaw, n_sims, n_draws, n_dims, rng))


@dataclass(frozen=True, eq=False)
class Oracle:
    """Simulations of an estimator, and how wrong its density is at every point.

    Arguments:
        sims: Simulations, as `zoo` returns them.
        log_ratio_samples: Log-ratio of the exact posterior's density to the estimator's, at
            the draws, `(n_draws, n_sims)`; None if it has no closed form.
        log_ratio_theta: Log-ratio at the truths, `(n_sims,)`, or None.
    """

    sims: Simulations
    log_ratio_samples: Floats | None
    log_ratio_theta: Floats | None

    def p_value(self, *, n_swaps: int = 999, rng: RNG = None) -> float:
        """Return the exact p-value of the most powerful swap test.

        Given the points of every simulation, any of them is the truth with equal probability if
        the estimator is exact, and with probability proportional to the density ratio if it is
        not. So by the lemma of Neyman and Pearson, no other test that swaps truths with draws
        finds the flaw more often than the one by the sum of log-ratios over the truths.

        Arguments:
            n_swaps: Number of times that truths are swapped with draws.
            rng: Seed or generator.
        """
        if self.log_ratio_samples is None or self.log_ratio_theta is None:
            raise ValueError("The log-ratio of this flaw has no closed form: use `check` instead.")
        n_swaps = arguments.positive("n_swaps", n_swaps)
        points = np.concatenate([self.log_ratio_theta[None], self.log_ratio_samples])
        chosen = np.random.default_rng(arguments.seed(rng)).integers(
            len(points), size=(n_swaps + 1, self.sims.n_sims)
        )
        chosen[0] = 0  # the first row is the study as it is
        sums = np.take_along_axis(points, chosen, axis=0).sum(axis=1)
        return float((sums >= sums[0]).mean())


def oracle(
    flaw: str, *, n_sims: int = 200, n_draws: int = 100, n_dims: int = 2, rng: RNG = None
) -> Oracle:
    """Return the simulations of `zoo` with the log-ratio of exact and estimated density.

    With it, `Oracle.p_value` is the limit of what any test can find in these simulations.

    Arguments:
        flaw: Name of a flaw in `problems.FLAWS`, or "exact" for none.
        n_sims: Number of simulations.
        n_draws: Number of draws per simulation.
        n_dims: Number of parameters.
        rng: Seed or generator. The simulations are those of `zoo` with the same seed.

    Example:
        >>> oracle("narrow", n_dims=10, rng=0).p_value(rng=0)
        0.001
    """
    study, densities = _planted(flaw, n_sims, n_draws, n_dims, rng)
    sims = _simulations(study, densities)
    return Oracle(sims, densities.log_ratio(study.draws), densities.log_ratio(study.truths))


def _planted(
    flaw: str, n_sims: int, n_draws: int, n_dims: int, rng: RNG
) -> tuple[Study, Densities]:
    """Return a study with a flaw, and its log-densities."""
    about = FLAWS[arguments.one_of("flaw", flaw, list(FLAWS))]
    arguments.sizes(n_sims=n_sims, n_draws=n_draws, n_dims=n_dims)
    if n_dims < about.fewest:
        wanted = f"at least {about.fewest} for the flaw {flaw!r}"
        raise ValueError(arguments.wrong("n_dims", wanted, n_dims))
    study = _exact(n_sims, n_draws, n_dims, arguments.seed(rng))
    return study, about.plant(study)


def _exact(n_sims: int, n_draws: int, n_dims: int, seed: int) -> Study:
    """Return a study without a flaw."""
    draw = np.random.default_rng(seed)
    x = SD_X * draw.standard_normal((n_sims, n_dims))
    return Study(
        x=x,
        mean=SHRINK * x,
        truths=draw.standard_normal((n_sims, n_dims)),
        draws=draw.standard_normal((n_draws, n_sims, n_dims), dtype=np.float32),
        rng=draw,
    )


def _simulations(study: Study, densities: Densities) -> Simulations:
    samples = (study.mean + study.sd * study.draws).astype(np.float32)
    if study.grid is not None:
        samples = np.round(samples / study.grid).astype(np.float32) * study.grid
    reported = densities.reported and densities.estimator is not None
    return Simulations(
        samples,
        (study.mean + study.sd * study.truths).astype(np.float32),
        x=study.x,
        log_prob_samples=densities.normalised(study.draws, study.sd) if reported else None,
        log_prob_theta=densities.normalised(study.truths, study.sd) if reported else None,
    )

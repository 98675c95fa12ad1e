"""Formulas of the paper as printed and as corrected, with the numbers that decide."""

import numpy as np
from scipy.stats import halfnorm, norm

from .. import plots
from ..diagnostics import Result, hpd, sbc, tarp
from ..problems import Lensing, conjugate, gaussian
from ..references import Prior
from ..simulations import Simulations
from ._lab import Claim, Lab, Outcome, curve, distance

_PRINTED, _RIGHT = "as printed", "as it should be"


def errata(lab: Lab) -> Outcome:
    """Formulas of the paper as printed, compared with the corrected ones."""
    parts = {
        "Algorithm 1, overconfident": _inequality(lab),
        "the correct case, D = 100": _correct_case(lab),
        "lensing, exact likelihood": _prior_mean(lab),
    }
    inequality, correct, lens = parts.values()
    return Outcome(
        figures={"errata": plots.panels(parts, n_cols=3)},
        claims=[
            Claim("Algorithm 1 as printed: coverage of 68 % regions that are too small",
                  _coverage(inequality[_PRINTED]), low=0.8),
            Claim("Algorithm 1 with the inequality turned: the same",
                  _coverage(inequality[_RIGHT]), high=0.5),
            Claim("correct case as printed: distance at D = 100", distance(correct[_PRINTED]),
                  low=0.08),
            Claim("correct case about a common mean: p-value", correct[_RIGHT].p_value, low=0.01),
            Claim("exact likelihood without the prior mean: p-value", lens[_PRINTED].p_value,
                  high=0.01),
            Claim("exact likelihood with it: p-value", lens[_RIGHT].p_value, low=0.01),
            Claim("Z of the normal: bias in sd at 0.1 % of the way out",
                  float(abs(norm.isf(1 - 1e-3))), low=3.0),
            Claim("Z of the half-normal: the same", float(halfnorm.isf(1 - 1e-3)), high=0.01),
            *_variance(lab),
            *_order(lab),
        ],
        numbers={
            part: {name: curve(result) for name, result in results.items()}
            for part, results in parts.items()
        },
    )  # fmt: skip


def _inequality(lab: Lab) -> dict[str, Result]:
    sims = gaussian("overconfident", n_dims=10, n_draws=lab.size(1000, 200), rng=lab.seed)
    assert sims.log_prob_samples is not None
    assert sims.log_prob_theta is not None
    return {
        _PRINTED: hpd(-sims.log_prob_samples, -sims.log_prob_theta, rng=lab.seed),
        _RIGHT: hpd(sims, rng=lab.seed),
    }


def _correct_case(lab: Lab) -> dict[str, Result]:
    """If truths are uniform in a box, posteriors extend beyond its edge, where there are none."""
    n_sims, n_dims, n_draws = 500, 100, lab.size(200, 50)
    rng = np.random.default_rng(lab.seed)
    theta = rng.uniform(-5, 5, size=(n_sims, n_dims))
    sd = np.exp(rng.uniform(-5, -1, size=theta.shape))
    mean = theta + sd * rng.standard_normal(theta.shape)
    printed = mean + sd * rng.standard_normal((n_draws, *theta.shape))
    right = gaussian("correct", n_dims=n_dims, n_draws=n_draws, rng=lab.seed)
    return {
        _PRINTED: tarp(printed, theta, rng=lab.seed),
        _RIGHT: tarp(right, rng=lab.seed),
    }


def _prior_mean(lab: Lab) -> dict[str, Result]:
    """Draws from the laws of two chains: without the prior mean in the likelihood, and with it."""
    problem = Lensing(lab.prior)
    rng = np.random.default_rng(lab.seed)
    theta, x = problem.simulate(500, rng)
    chain = problem.chain("exact", n_steps=lab.size(300, 100))
    gain, covariance = chain.law()
    mean = problem.galaxies.mean + problem.data(x) @ gain.T
    z = rng.standard_normal((lab.size(500, 100), len(theta), theta.shape[1]), dtype=np.float32)
    draws = mean + z @ np.linalg.cholesky(covariance).T.astype(np.float32)
    shift, unit = np.zeros(theta.shape[1]), np.eye(theta.shape[1])
    curvature, prior = problem.matrix.T @ problem.matrix, problem.galaxies.covariance
    for keep, pull, kick in zip(chain.keep, chain.pull, chain.kick, strict=True):
        sigma = chain.start * kick / chain.kick[0]
        centre = prior @ np.linalg.inv(prior + sigma**2 * unit)
        shift = keep @ shift + pull @ curvature @ (unit - centre) @ problem.galaxies.mean
    reference = Prior(problem.prior)
    return {
        _PRINTED: tarp(draws + shift, theta, reference=reference, rng=lab.seed),
        _RIGHT: tarp(draws, theta, reference=reference, rng=lab.seed),
    }


def _variance(lab: Lab) -> list[Claim]:
    """The posterior N(m, s) of the conjugate model, with s its variance or its sd."""
    sims = conjugate("posterior", rng=lab.seed)
    s = 1 / (1 + 50 / 0.1**2)
    mean = sims.samples.mean(axis=0, dtype=float)
    narrow = Simulations(mean + (sims.samples - mean) * np.sqrt(s), sims.theta)
    return [
        Claim("s = 1 / (1/σ₀² + n_x/σ_x²) as a variance: p-value",
              sbc(sims, rng=lab.seed).p_value, low=0.01),
        Claim("s as a standard deviation: p-value", sbc(narrow, rng=lab.seed).p_value, high=1e-6),
    ]  # fmt: skip


def _order(lab: Lab) -> list[Claim]:
    """Means drawn with half the variance make draws too wide, not too narrow."""
    rng = np.random.default_rng(lab.seed)
    theta = rng.uniform(-5, 5, size=(500, 10))
    z = rng.standard_normal((200, *theta.shape))
    claims = []
    for factor, low, high in ((0.5, 0.8, None), (2.0, None, 0.5)):
        off = np.sqrt(factor) * rng.standard_normal(theta.shape)
        result = hpd(-0.5 * (z**2).sum(-1), -0.5 * (off**2).sum(-1), rng=lab.seed)
        number = f"means from N(θ*, {factor:g} Σ): coverage of 68 % regions"
        claims.append(Claim(number, _coverage(result), low, high))
    return claims


def _coverage(result: Result, level: float = 0.68) -> float:
    return float(np.interp(level, result.curve.level, result.curve.ecp))

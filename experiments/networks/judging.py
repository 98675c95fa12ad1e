"""What is truly wrong with a network, and what each test says about it."""

import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from problems import Array, Problem
from scipy.spatial import KDTree

import tarpon

if TYPE_CHECKING:
    from estimators import Sampler

N_SIMS, N_DRAWS = 300, 300
N_MANY, N_DRAWS_OF_MANY = 3000, 100
N_REPAIR = 500
N_OBSERVATIONS, N_DRAWS_OF_ONE = 20, 2000  # for the divergence of repaired draws
_K = 5  # nearest neighbour


def judged(
    problem: Problem, sample: "Sampler", *, repairs: bool, many: bool, keep: Path | None = None
) -> dict[str, Any]:
    """Return the truth about a sampler, and what tests say, as numbers for JSON.

    Arguments:
        problem: The problem.
        sample: The sampler.
        repairs: Whether its posteriors are repaired.
        many: Whether 3000 simulations are checked, too.
        keep: A file for the draws of the 300 simulations.
    """
    theta, x, log_exact = reference(problem, N_SIMS, 1)
    sims = sample(theta, x, N_DRAWS)
    if keep:
        np.savez_compressed(keep, **arrays(sims))
    record = {"true": truth(problem, sims), "at_300": tested(sims), "sbi": sbi_says(sims)}
    if many:
        theta, x, log_exact = reference(problem, N_MANY, 2)
        sims = sample(theta, x, N_DRAWS_OF_MANY)
        check = tarpon.check(sims, tolerance=tarpon.Tolerance(), rng=0)
        record["at_3000"] = said(check) | {"nats_low": tarpon.nats(sims, rng=0).low}
    record["true"] |= divergence(log_exact, sims)
    return record | ({"repair": repaired(problem, sample)} if repairs else {})


@cache
def reference(problem: Problem, n_sims: int, seed: int) -> tuple[Array, Array, Array]:
    """Return truths, observations, and the exact log-density of the truths."""
    theta, x = problem.study(n_sims, seed)
    return theta, x, problem.log_posterior(theta, x)


@cache
def exact_draws(problem: Problem) -> Array:
    """Return exact draws for the first simulations."""
    _, x, _ = reference(problem, N_SIMS, 1)
    return problem.draw(x, N_DRAWS, np.random.default_rng(3))


def arrays(sims: tarpon.Simulations) -> dict[str, Array]:
    """Return the arrays of simulations by name."""
    names = ("samples", "theta", "x", "log_prob_samples", "log_prob_theta")
    given = {name: getattr(sims, name) for name in names}
    return {name: np.asarray(array) for name, array in given.items() if array is not None}


def truth(problem: Problem, sims: tarpon.Simulations) -> dict[str, Any]:
    """Return the bias and the width of draws beside those of exact draws, in exact sd.

    The bias is the root mean square over simulations, less what is due to the number of draws.
    """
    exact = exact_draws(problem)
    mean, sd = exact.mean(axis=0), exact.std(axis=0)
    shift, width = (sims.samples.mean(axis=0) - mean) / sd, sims.samples.std(axis=0) / sd
    noise = (1 + width**2) / len(exact)
    bias = np.sqrt(np.maximum((shift**2 - noise).mean(axis=0), 0))
    return {"bias": bias.tolist(), "width": np.exp(np.log(width).mean(axis=0)).tolist()}


def divergence(log_exact: Array, sims: tarpon.Simulations) -> dict[str, float]:
    """Return the mean of log p - log q over truths, the divergence in nats, and its error."""
    if sims.log_prob_theta is None:
        return {}
    ratio = log_exact - sims.log_prob_theta
    return {"nats": float(ratio.mean()), "nats_error": float(ratio.std() / np.sqrt(len(ratio)))}


def tested(sims: tarpon.Simulations) -> dict[str, Any]:
    """Return the p-values of the tests of tarpon, and the words of `check`."""
    without = tarpon.Simulations(sims.samples, sims.theta, x=sims.x)
    found = said(tarpon.check(sims, tolerance=tarpon.Tolerance(), rng=0))
    found["without_densities"] = tarpon.check(without, rng=0).p_value
    found["tarp"] = float(tarpon.tarp(without, rng=0).p_value)
    sbc = tarpon.sbc(without, rng=0)
    found["sbc"] = float(min(1.0, len(np.atleast_1d(sbc.p_value)) * np.min(sbc.p_value)))
    if sims.log_prob_theta is not None:
        found["hpd"] = float(tarpon.hpd(sims, rng=0).p_value)
    return found


def said(check: tarpon.Check) -> dict[str, Any]:
    """Return the answer of a check."""
    return {
        "p": check.p_value,
        "outcome": check.outcome,
        "kinds": [str(finding.kind) for finding in check.findings],
        "findings": [str(finding) for finding in check.findings],
        "families": [one.name for one in check.families if one.adjusted <= check.level],
        "within": bool(check.margins and check.margins.within),
    }


def sbi_says(sims: tarpon.Simulations) -> dict[str, float]:
    """Return p-values of sbi's own tests of the same draws; those of SBC by Bonferroni."""
    import torch
    from sbi.diagnostics import check_tarp
    from sbi.diagnostics.sbc import check_uniformity_frequentist
    from sbi.diagnostics.tarp import _run_tarp, get_tarp_references

    draws, theta = (torch.as_tensor(np.asarray(a, "f4")) for a in (sims.samples, sims.theta))
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        curve = _run_tarp(draws, theta, get_tarp_references(theta), z_score_theta=True)
        ranks = (draws < theta).sum(dim=0).float()
        p_values = check_uniformity_frequentist(ranks, len(draws))
    least = min(1.0, float(p_values.min()) * theta.shape[1])
    return {"tarp": float(check_tarp(*curve)[1]), "sbc": least}


def repaired(problem: Problem, sample: "Sampler") -> dict[str, Any]:
    """Repair with 500 simulations; return p on fresh ones, and the divergence before and after."""
    repair = tarpon.repair(sample(*problem.study(N_REPAIR, 4), N_DRAWS), rng=0)
    found = {"outcome": repair.outcome, "text": str(repair), "kept": repair.kept}
    if repair.outcome in ("nothing to repair", "cannot be repaired"):
        return found
    fresh = sample(*problem.study(N_SIMS, 5), N_DRAWS)
    mended = repair.applied(fresh, rng=0)
    found |= {"p_before": tarpon.check(fresh, rng=0).p_value}
    found |= {"p_after": tarpon.check(mended, rng=0).p_value}
    long = sample(*problem.study(N_OBSERVATIONS, 6), N_DRAWS_OF_ONE)
    long = tarpon.Simulations(long.samples, long.theta, x=long.x)
    found["nats_before"], found["nats_after"] = (
        estimated(problem, sims) for sims in (long, repair.applied(long, rng=0))
    )
    return found


def estimated(problem: Problem, sims: tarpon.Simulations) -> float:
    """Return the divergence in nats of exact posteriors from draws, without densities.

    Distances to the fifth nearest neighbours (Wang, Kulkarni and Verdú, 2009); for ten normal
    parameters, means and covariances.
    """
    exact = problem.draw(sims.x, N_DRAWS_OF_ONE, np.random.default_rng(7))
    of_one = normal if problem.sd else neighbours
    pairs = zip(exact.swapaxes(0, 1), np.asarray(sims.samples, float).swapaxes(0, 1), strict=True)
    return float(np.mean([of_one(p, q) for p, q in pairs]))


def neighbours(p: Array, q: Array) -> float:
    """Return the divergence of points `p (n, n_dims)` from points `q (m, n_dims)`."""
    sd = p.std(axis=0)
    own = KDTree(p / sd).query(p / sd, _K + 1)[0][:, -1]
    other = KDTree(q / sd).query(p / sd, _K)[0][:, -1]
    ratios = np.log(np.maximum(other, 1e-12) / np.maximum(own, 1e-12))
    return p.shape[1] * ratios.mean() + np.log(len(q) / (len(p) - 1))


def normal(p: Array, q: Array) -> float:
    """Return the divergence of a normal with the moments of `p` from one with those of `q`."""
    (mean, covariance), (other, wrong) = ((a.mean(axis=0), np.cov(a.T)) for a in (p, q))
    scaled = np.linalg.solve(wrong, covariance)
    distance = (mean - other) @ np.linalg.solve(wrong, mean - other)
    return 0.5 * (np.trace(scaled) - len(mean) - np.linalg.slogdet(scaled)[1] + distance)

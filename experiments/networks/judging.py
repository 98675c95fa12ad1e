"""What is truly wrong with a network, and what each test says about it."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from drawing import Drawn
from problems import Array, Problem
from references import Reference, reference
from scipy.spatial import KDTree

import tarpon

N_NULL = 25  # classifiers of LC2ST under the null hypothesis
_K = 5  # nearest neighbour

Record = dict[str, Any]


class Clock:
    """CPU seconds by name."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[name] = round(time.process_time() - start, 2)


def judged(problem: Problem, drawn: Drawn, *, local: bool) -> Record:
    """Return the truth about draws, and what tests say, as numbers for JSON.

    Arguments:
        problem: The problem.
        drawn: The draws.
        local: Whether LC2ST is trained, too.
    """
    known, few, ten = reference(problem), drawn.studies["few"], drawn.studies["ten"]
    clock = Clock({name: round(seconds, 2) for name, seconds in drawn.seconds.items()})
    warm(few)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record: Record = {
            "left_out": len(known.few.log_prob) - few.n_sims,
            "true": truth(known, drawn),
            "at_300": tested(few, clock),
            "sbi": sbi_says(few, clock),
        }
        if "many" in drawn.studies:
            many = drawn.studies["many"]
            record["at_3000"] = tested_with_many(many, clock)
            record["near"] = nearby(many, ten, clock)
            if local:
                record["lc2st"] = lc2st(many, ten, clock)
        if "fit" in drawn.studies:
            record["repair"] = repaired(known, drawn, clock)
    return record | {"seconds": clock.seconds}


def warm(sims: tarpon.Simulations) -> None:
    """Compile what tests use, so that their times are those of a second call."""
    tarpon.check(sims, rng=0)


def truth(known: Reference, drawn: Drawn) -> Record:
    """Return bias and width of draws beside those of exact draws, in exact sd, nats and C2ST.

    The bias is the root of the median square over simulations, less what is due to the number of
    draws: some exact posteriors are a thousand times narrower than others. The shift is the
    median, with sign.
    """
    sims, kept = drawn.studies["few"], drawn.kept["few"]
    exact = known.few.samples[:, kept]
    mean, sd = exact.mean(axis=0), exact.std(axis=0)
    shift, width = (sims.samples.mean(axis=0) - mean) / sd, sims.samples.std(axis=0) / sd
    noise = 1 / len(exact) + width**2 / sims.n_draws
    bias = np.sqrt(np.maximum(np.median(shift**2 - noise, axis=0), 0))
    found = {
        "bias": bias.tolist(),
        "shift": np.median(shift, axis=0).tolist(),
        "width": np.exp(np.log(width).mean(axis=0)).tolist(),
        "c2st": told_apart(known, drawn.studies["ten"], drawn.kept["ten"]),
    }
    return found | divergence(known, drawn)


def divergence(known: Reference, drawn: Drawn) -> dict[str, float]:
    """Return the mean of log p - log q over truths, the divergence in nats, and its error."""
    study = "many" if known.many is not None and "many" in drawn.studies else "few"
    log_q, exact = drawn.studies[study].log_prob_theta, getattr(known, study)
    if log_q is None:
        return {}
    kept = drawn.kept[study]
    some = kept < len(exact.log_prob)
    ratio = exact.log_prob[kept[some]] - log_q[some]
    return {"nats": float(ratio.mean()), "nats_error": float(ratio.std() / np.sqrt(len(ratio)))}


def told_apart(known: Reference, sims: tarpon.Simulations, kept: Array) -> list[float]:
    """Return how often draws are told from exact ones, per observation (C2ST)."""
    draws = np.asarray(sims.samples, float).swapaxes(0, 1)
    return [c2st(known.ten.samples[:, k], one) for k, one in zip(kept, draws, strict=True)]


def c2st(p: Array, q: Array) -> float:
    """Return the accuracy of boosted trees on held-out draws, of five folds; 0.5 is chance."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    points, labels = np.concatenate([p, q]), np.repeat([0, 1], [len(p), len(q)])
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return float(cross_val_score(trees, points, labels, cv=folds).mean())


def tested(sims: tarpon.Simulations, clock: Clock) -> Record:
    """Return the p-values of the tests of tarpon, and the words of `check`."""
    without = tarpon.Simulations(sims.samples, sims.theta, x=sims.x)
    with clock("check"):
        check = tarpon.check(sims, tolerance=tarpon.Tolerance(), rng=0)
    found = said(check) | {"without_densities": tarpon.check(without, rng=0).p_value}
    with clock("tarp"):
        found["tarp"] = float(tarpon.tarp(without, rng=0).p_value)
    with clock("sbc"):
        sbc = np.atleast_1d(tarpon.sbc(without, rng=0).p_value)
    found["sbc"] = float(min(1.0, len(sbc) * sbc.min()))
    if sims.log_prob_theta is not None:
        with clock("hpd"):
            found["hpd"] = float(tarpon.hpd(sims, rng=0).p_value)
    return found


def tested_with_many(sims: tarpon.Simulations, clock: Clock) -> Record:
    """Return the answer of `check` with 3000 simulations, and the least nats."""
    with clock("check_3000"):
        check = tarpon.check(sims, tolerance=tarpon.Tolerance(), rng=0)
    return said(check) | {"nats_low": tarpon.nats(sims, rng=0).low}


def said(check: tarpon.Check) -> Record:
    """Return the answer of a check."""
    return {
        "p": check.p_value,
        "outcome": check.outcome,
        "kinds": [str(finding.kind) for finding in check.findings],
        "findings": [str(finding) for finding in check.findings],
        "families": [one.name for one in check.families if one.adjusted <= check.level],
        "within": bool(check.margins and check.margins.within),
    }


def nearby(sims: tarpon.Simulations, ten: tarpon.Simulations, clock: Clock) -> list[Record]:
    """Return the answers of `near` at ten observations, each asked about alone."""
    with clock("near"):
        found = [
            tarpon.near(sims, x, samples=samples, rng=0)
            for x, samples in zip(ten.x, np.asarray(ten.samples).swapaxes(0, 1), strict=True)
        ]
    return [said_near(one) for one in found]


def said_near(near: tarpon.Near) -> Record:
    """Return the answer at one observation."""
    kinds = [str(finding.kind) for finding in near.check.findings]
    return {"p": near.p_value, "outcome": near.outcome, "kinds": kinds}


def lc2st(sims: tarpon.Simulations, ten: tarpon.Simulations, clock: Clock) -> list[float]:
    """Return the p-values of sbi's LC2ST at ten observations, from the same simulations."""
    import torch
    from sbi.diagnostics.lc2st import LC2ST

    def tensor(array: Array) -> Any:
        return torch.as_tensor(np.asarray(array, "f4"))

    with torch.random.fork_rng(), torch.enable_grad(), clock("lc2st"):
        torch.manual_seed(0)
        test = LC2ST(
            tensor(sims.theta), tensor(sims.x), tensor(sims.samples[0]), num_trials_null=N_NULL
        )
        test.train_on_observed_data(verbosity=0)
        test.train_under_null_hypothesis(verbosity=0)
        draws = tensor(ten.samples).transpose(0, 1)
        return [float(test.p_value(one, x)) for one, x in zip(draws, tensor(ten.x), strict=True)]


def sbi_says(sims: tarpon.Simulations, clock: Clock) -> dict[str, float]:
    """Return p-values of sbi's own tests of the same draws; those of SBC by Bonferroni."""
    import torch
    from sbi.diagnostics import check_tarp
    from sbi.diagnostics.sbc import check_uniformity_frequentist
    from sbi.diagnostics.tarp import _run_tarp, get_tarp_references

    draws, theta = (torch.as_tensor(np.asarray(a, "f4")) for a in (sims.samples, sims.theta))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        with clock("sbi_tarp"):
            curve = _run_tarp(draws, theta, get_tarp_references(theta), z_score_theta=True)
            tarp = float(check_tarp(*curve)[1])
        with clock("sbi_sbc"):
            ranks = (draws < theta).sum(dim=0).float()
            p_values = check_uniformity_frequentist(ranks, len(draws))
    return {"tarp": tarp, "sbc": min(1.0, float(p_values.min()) * theta.shape[1])}


def repaired(known: Reference, drawn: Drawn, clock: Clock) -> Record:
    """Repair with 500 simulations; return p on 300 fresh ones, nats and C2ST before and after."""
    with clock("repair"):
        repair = tarpon.repair(drawn.studies["fit"], rng=0)
    found = {"outcome": repair.outcome, "text": str(repair), "kept": repair.kept}
    if repair.outcome in ("nothing to repair", "cannot be repaired"):
        return found
    fresh, ten = (drawn.studies[study] for study in ("fresh", "ten"))
    found["p_before"] = tarpon.check(fresh, rng=0).p_value
    found["p_after"] = tarpon.check(repair.applied(fresh, rng=0), rng=0).p_value
    exact = known.ten.samples[:, drawn.kept["ten"]].swapaxes(0, 1)
    before = list(np.asarray(ten.samples, float).swapaxes(0, 1))
    after = [repair(q, x, outside=True, rng=0) for q, x in zip(before, ten.x, strict=True)]
    # Classifiers learn more from more draws: as many are used before as after.
    fewer = [q[: len(mended)] for q, mended in zip(before, after, strict=True)]
    for when, draws in (("before", fewer), ("after", after)):
        pairs = [(p, q) for p, q in zip(exact, draws, strict=True) if len(q) > 20 * q.shape[1]]
        found[f"nats_{when}"] = float(np.mean([nats(p, q) for p, q in pairs]))
        found[f"c2st_{when}"] = float(np.mean([c2st(p[: len(q)], q) for p, q in pairs]))
    return found


def nats(p: Array, q: Array) -> float:
    """Return the divergence in nats of exact draws from others, without densities.

    Distances to the fifth nearest neighbours (Wang, Kulkarni and Verdú, 2009) of two parameters;
    means and covariances of more.
    """
    return neighbours(p, q) if p.shape[1] == 2 else normal(p, q)


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

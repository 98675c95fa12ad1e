"""Bad calls of everything public, each answered by a sentence of ours.

A call is a good one, which must work, with something changed. The error must be raised by the
package itself, name the argument and what was given for it, and end with a full stop.
"""

import ast
import functools
import json
import runpy
import traceback
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner

import tarpon
from tarpon import adapters, adversaries, gate, metrics, plots, problems, references, regions
from tarpon.adapters import chains, files
from tarpon.cli import main

SRC = Path(tarpon.__file__).parent
RNG = np.random.default_rng(0)
N_DRAWS, N_SIMS, N_DIMS = 9, 6, 2
THETA = RNG.normal(size=(N_SIMS, N_DIMS))
X = THETA + RNG.normal(size=THETA.shape)
SAMPLES = X / 2 + RNG.normal(size=(N_DRAWS, N_SIMS, N_DIMS)) / np.sqrt(2)
LOG_PROB = {"log_prob_samples": -(SAMPLES**2).sum(-1), "log_prob_theta": -(THETA**2).sum(-1)}
SIMS = tarpon.Simulations(SAMPLES, THETA, x=X, **LOG_PROB)
DATA = {"samples": SAMPLES, "theta": THETA}
POOL = problems.zoo("exact", n_sims=30, rng=1)
RESULT, CHECK = tarpon.sbc(SIMS, rng=0), tarpon.check(SIMS, n_swaps=19, rng=0)
MONITOR = tarpon.Monitor(rng=0).add(SIMS)
COVER = tarpon.cover(POOL, rng=0)
STEPS = RNG.normal(size=(2, 40, N_SIMS, N_DIMS))
FIT = {"mu": STEPS[:, :, 0, 0]}
NAN = float("nan")


def with_tarp(**option):
    """Return a call of `tarp` with one option made of the arguments."""
    ((name, make),) = option.items()
    return lambda **given: tarpon.tarp(SIMS, rng=0, **{name: make(**given)})


def scored(score, n_swaps=19):
    return tarpon.check(SIMS, scores={"a": score}, n_swaps=n_swaps, rng=0)


def of_file(function):
    """Return a call of a function on a file of arrays in the current folder."""

    def call(**given):
        np.savez("a.npz", **DATA)
        Path("text.npz").write_text("sim,a\n0,1\n")
        return function(**{"path": "a.npz"} | given)

    return call


def emcee(**given):
    with h5py.File("a.h5", "w") as file:
        group = file.create_group("mcmc")
        group["chain"], group.attrs["iteration"] = STEPS[0, :, :2], 40
    both = {"files": ["a.h5", "a.h5"], "theta": THETA[:2], "discard": 0}
    return adapters.from_emcee(**both | given)


def getdist(**given):
    Path("a.paramnames").write_text("a\nb\n")
    weights = np.full((40, 1), 1.0)
    np.savetxt("a_1.txt", np.concatenate([weights, weights, STEPS[0, :, 0]], axis=1))
    both = {"roots": ["a", "a"], "theta": THETA[:2], "discard": 0}
    return adapters.from_getdist(**both | given)


def cmdstan(**given):
    rows = "".join(f"-1.0,{value}\n" for value in STEPS[0, :, 0, 0])
    Path("a.csv").write_text(f"lp__,mu\n{rows}")
    return adapters.from_cmdstan(**{"fits": ["a.csv"] * 2, "theta": {"mu": [0.0, 0.0]}} | given)


def bilby(**given):
    result = {
        "search_parameter_keys": ["a"],
        "posterior": {"content": {"a": SAMPLES[:, 0, 0].tolist()}},
        "injection_parameters": {"a": 0.0},
    }
    Path("a.json").write_text(json.dumps(result))
    return adapters.from_bilby(**{"files": ["a.json"] * 2} | given)


class Dynesty:
    samples, logwt, logz = SAMPLES[:, 0], np.zeros(N_DRAWS), [0.0]


class Workflow:
    def sample(self, conditions, num_samples, batch_size, seed):
        return {"mu": SAMPLES.swapaxes(0, 1)}


class Forgetful:
    """An adversary that returns no score."""

    def fit(self, theta, samples, x):
        return None


def bet_on(adversary):
    tarpon.Monitor(adversary=adversary, rng=0).add(POOL)


def total(theta, *_):
    return theta.sum(axis=-1)


# What works: the function, and arguments of which each bad call changes some.
GOOD = {
    "Simulations": (tarpon.Simulations, DATA | {"x": X, "names": ["a", "b"]}),
    "of_densities": (tarpon.Simulations.of_densities, LOG_PROB),
    "hold_out": (SIMS.hold_out, {"n": 1}),
    "blocks": (lambda **given: list(SIMS.blocks(**given)), {"n_bytes": 64}),
    "tarp": (tarpon.tarp, DATA | {"rng": 0}),
    "sbc": (tarpon.sbc, DATA | {"rng": 0}),
    "hpd": (tarpon.hpd, LOG_PROB | {"rng": 0}),
    "check": (tarpon.check, DATA | {"x": X, "n_swaps": 19, "rng": 0}),
    "cover": (tarpon.cover, {"sims": POOL, "level": 0.9, "rng": 0}),
    "holds": (COVER.holds, {"theta": [0.0, 0.0], "samples_o": POOL.samples[:, 0]}),
    "contour": (COVER.contour, {"samples_o": POOL.samples[:, 0]}),
    "nats": (tarpon.nats, {"sims": POOL, "rng": 0}),
    "score": (scored, {"score": lambda theta, x: theta[..., 0]}),
    "FromDraws": (lambda **given: scored(regions.FromDraws(**given)), {"n": 2}),
    "Neighbours": (lambda **given: scored(regions.Neighbours(**given)), {"n": 2}),
    "Scores": (lambda **given: scored(regions.Scores(**given)),
               {"function": lambda theta, x: theta[..., 0]}),
    "Fit": (lambda **given: scored(regions.Fit(**given)), {"forward": lambda theta: theta}),
    "Balls": (lambda **given: scored(regions.Balls(**given)), {"centres": THETA}),
    "plan": (tarpon.plan, {"n_dims": 1, "bias": 1.0, "n_draws": 20, "rng": 0}),
    "Engine": (tarpon.Engine, {}),
    "Monitor": (tarpon.Monitor, {"rng": 0}),
    "Monitor.add": (lambda **given: tarpon.Monitor(rng=0).add(**given), DATA),
    "Monitor.merge": (MONITOR.merge, {"other": tarpon.Monitor(rng=1).add(SIMS)}),
    "empty.merge": (
        lambda rng, add: tarpon.Monitor(rng=7).add(SIMS).merge(tarpon.Monitor(rng=rng).add(*add)),
        {"rng": 8, "add": (SIMS,)},
    ),
    "Monitor.save": (MONITOR.save, {"path": "m.npz"}),
    "load of a monitor": (lambda **given: (MONITOR.save("m.npz"), tarpon.load(**given)),
                     {"path": "m.npz"}),
    "adversary": (bet_on, {"adversary": adversaries.Quadratic()}),
    "Quadratic": (adversaries.Quadratic, {"penalty": 1.0}),
    "Folds": (adversaries.Folds, {"learner": adversaries.Quadratic(), "n_folds": 3}),
    "L2": (with_tarp(metric=metrics.L2), {"scale": 1.0}),
    "L1": (with_tarp(metric=metrics.L1), {"scale": 1.0}),
    "Lp": (with_tarp(metric=metrics.Lp), {"p": 3, "scale": [1.0, 2.0]}),
    "Weighted": (with_tarp(metric=metrics.Weighted), {"weights": [1.0, 2.0]}),
    "Periodic": (with_tarp(metric=metrics.Periodic), {"period": [9.0, np.inf]}),
    "Mahalanobis": (with_tarp(metric=metrics.Mahalanobis), {"covariance": np.eye(2)}),
    "Sphere": (with_tarp(metric=metrics.Sphere), {"degrees": True}),
    "Uniform": (with_tarp(reference=references.Uniform), {"low": -9, "high": [9, 9]}),
    "Normal": (with_tarp(reference=references.Normal), {"mean": 0, "sd": [1, 2]}),
    "Fixed": (with_tarp(reference=references.Fixed), {"points": [0.0, 0.0]}),
    "Prior": (with_tarp(reference=references.Prior), {"source": POOL.theta}),
    "Around": (with_tarp(reference=references.Around), {"function": lambda x: x}),
    "Several": (with_tarp(reference=references.Several), {"n": 2}),
    "Learned": (with_tarp(reference=references.Learned),
                {"theta": POOL.theta, "x": POOL.x}),
    "Gate": (gate.Gate, {}),
    "Gate.require": (gate.Gate("never").require, {"check": CHECK}),
    "gaussian": (problems.gaussian, {"n_sims": 9, "n_draws": 9}),
    "zoo": (problems.zoo, {"flaw": "exact", "n_sims": 9, "n_draws": 9}),
    "conjugate": (problems.conjugate, {"n_sims": 9, "n_draws": 9}),
    "coverage": (lambda results, **given: plots.coverage(*results, **given),
                 {"results": [RESULT]}),
    "difference": (lambda results, **given: plots.difference(*results, **given),
                   {"results": [RESULT]}),
    "ranks": (plots.ranks, {"result": RESULT}),
    "effects": (plots.effects, {"check": CHECK}),
    "pair": (plots.pair, {"check": CHECK}),
    "trend": (plots.trend, {"trend": CHECK.evidence.slopes.worst[0]}),
    "evidence": (lambda monitors, **given: plots.evidence(*monitors, **given),
                 {"monitors": [MONITOR]}),
    "panels": (plots.panels, {"results": {"case": {"label": RESULT}}}),
    "report.write": (lambda path="r.html", checks=(CHECK,), **given:
                     tarpon.report.write(path, *checks, **given), {}),
    "report.card": (tarpon.report.card, {"shown": CHECK}),
    "Result.band": (RESULT.band, {"confidence": 0.9}),
    "Result.bootstrap": (RESULT.bootstrap, {"n": 2, "rng": 0}),
    "Result.save": (RESULT.save, {"path": "r.npz"}),
    "load": (lambda **given: (RESULT.save("r.npz"), tarpon.load(**given)), {"path": "r.npz"}),
    "Check.to_frame": (CHECK.to_frame, {"table": "families"}),
    "Check.report": (CHECK.report, {"path": "r.html", "name": "flow"}),
    "files.load": (of_file(files.load), {}),
    "files.inspect": (of_file(files.inspect), {}),
    "from_sampler": (
        adapters.from_sampler,
        {"sampler": lambda x, n: np.zeros((n, 2)), "theta": THETA, "x": X, "n_draws": 3},
    ),
    "from_bayesflow": (adapters.from_bayesflow,
                       {"samples": {"mu": SAMPLES.swapaxes(0, 1)}, "theta": {"mu": THETA}}),
    "from_workflow": (adapters.from_workflow,
                      {"workflow": Workflow(), "theta": {"mu": THETA}, "x": {"x": X},
                       "n_draws": 9}),
    "from_mcmc": (adapters.from_mcmc, {"fits": [FIT, FIT], "theta": {"mu": np.zeros(2)}}),
    "from_cmdstan": (cmdstan, {}),
    "from_emcee": (emcee, {}),
    "from_getdist": (getdist, {}),
    "from_dynesty": (adapters.from_dynesty,
                     {"results": [Dynesty()] * N_SIMS, "theta": THETA}),
    "from_bilby": (bilby, {}),
    "thin": (chains.thin, {"chains": STEPS, "theta": THETA}),
    "effective": (chains.effective, {"chain": STEPS[:, :, 0]}),
    "compat": (tarpon.compat.get_tarp_coverage, DATA | {"seed": 0}),
}  # fmt: skip

# What does not: arguments that are changed, the error, and what it says of them.
BAD = {
    "Simulations": [
        ({"samples": None}, TypeError, "`samples` must hold real numbers, but got None"),
        ({"samples": "draws"}, TypeError, "`samples` must hold real numbers, but got 'draws'"),
        ({"samples": SAMPLES + 0j}, TypeError, "`samples` must hold real numbers, but got compl"),
        ({"samples": SAMPLES.astype(object)}, TypeError, "`samples` must hold .* but got object"),
        ({"samples": np.zeros((9, 6, 2), [("a", float), ("b", int)])}, TypeError,
         r"`samples` must hold real numbers, but got \[\('a'"),
        ({"samples": np.zeros((9, 6, 2), "M8[s]")}, TypeError, "`samples` .* but got datetime64"),
        ({"samples": {1, 2}}, TypeError, r"`samples` must hold real numbers, but got \{1, 2\}"),
        ({"samples": object}, TypeError, "`samples` must hold real numbers, but got the class `o"),
        ({"samples": 1.0}, ValueError, r"`samples` must be \(n_draws, 6, 2\).* but got \(\)"),
        ({"samples": SAMPLES * NAN}, ValueError, "6 of 6 simulations hold NaN .*`samples` and"),
        ({"samples": SAMPLES[0]}, ValueError, r"`samples` must be .* but got \(6, 2\)"),
        ({"samples": SAMPLES.swapaxes(0, 1)}, ValueError, "`samples` must be .*look swapped"),
        ({"samples": SAMPLES[:0]}, ValueError, r"at least one .* `samples` is \(0, 6, 2\)"),
        ({"samples": [[1.0], [1.0, 2.0]]}, ValueError, "`samples` must be a rectangular array"),
        ({"samples": [], "theta": []}, ValueError, r"`theta` is \(0,\)"),
        ({"samples": ()}, ValueError, r"`samples` must be .* but got \(0,\)"),
        ({"samples": [np.zeros((3, 2))] * 5 + [np.zeros((3, 4))]}, ValueError,
         r"`samples` of simulation 5 must be \(n_draws, 2\).*but got \(3, 4\)"),
        ({"theta": None}, TypeError, "`theta` must hold real numbers, but got None"),
        ({"theta": 0.0}, ValueError, r"`theta` must be \(n_sims, n_dims\).* but got \(\)"),
        ({"theta": THETA[:5]}, ValueError, r"to match `theta` \(5, 2\), but got \(9, 6, 2\)"),
        ({"theta": SAMPLES}, ValueError, r"to match `theta` \(9, 6, 2\), but got \(9, 6, 2\)"),
        ({"theta": {"a": THETA}}, TypeError, "`theta` must hold real numbers, but got {'a'"),
        ({"samples": SAMPLES[..., :0], "theta": THETA[:, :0], "names": None}, ValueError,
         "`theta` must have at least one parameter, .* but got n_dims = 0"),
        ({"x": X[:5]}, ValueError, r"`x` must have one entry .* \(6, ...\), but got \(5, 2\)"),
        ({"x": 1.0}, ValueError, r"`x` must have one entry .* but got \(\)"),
        ({"x": "image"}, TypeError, "`x` must hold real numbers, but got 'image'"),
        ({"log_prob_theta": np.zeros(6)}, ValueError, "`log_prob_samples` is missing, it is None"),
        ({"log_weights": np.zeros((6, 9))}, ValueError, r"`log_weights` must be \(9, 6\), but"),
        ({"log_weights_theta": np.zeros(6)}, ValueError, "`log_weights_theta` .* `log_weights`"),
        ({"offsets": [0, 1]}, ValueError, "`offsets` must be 7 integers .* but got int64 of sh"),
        ({"offsets": "a"}, TypeError, "`offsets` must hold real numbers, but got 'a'"),
        ({"samples": scipy.sparse.eye_array(6)}, TypeError, "`samples` must hold real numbers"),
        ({"names": 5}, TypeError, "`names` must be a list of 2 names, but got 5"),
        ({"names": scipy.sparse.eye_array(6)}, TypeError, "`names` must be a list of 2 names"),
        ({"names": np.array("a")}, TypeError, r"`names` must be a list .* but got array\('a'"),
        ({"names": "ab"}, TypeError, "`names` must be a list of 2 names, but got 'ab'"),
        ({"names": {"a", "b"}}, TypeError, "`names` must be a list of 2 names, but got {'"),
        ({"names": {"a": 1, "b": 2}}, TypeError, "`names` must be a list .* but got {'a': 1, 'b"),
        ({"names": b"ab"}, TypeError, "`names` must be a list of 2 names, but got b'ab'"),
        ({"names": ["a"]}, ValueError, r"`names` must name 2 parameters, but got 1: \['a'\]"),
        ({"names": []}, ValueError, r"`names` must name 2 parameters, but got 0: \[\]"),
        ({"names": ["a", "a"]}, ValueError, r"`names` must differ .* but got \['a', 'a'\]"),
        ({"on_invalid": "skip"}, ValueError, "`on_invalid` must be 'raise' or 'drop', but got 's"),
        ({"on_invalid": None}, ValueError, "`on_invalid` must be 'raise' or 'drop', but got None"),
    ],
    "of_densities": [
        ({"log_prob_samples": None}, ValueError, "`log_prob_samples` is missing, it is None"),
        ({"log_prob_theta": None}, ValueError, "`log_prob_theta` is missing, it is None"),
        ({"log_prob_theta": np.float64}, ValueError, "`log_prob_theta` .* the class `float64`"),
        ({"log_prob_theta": 0.0}, ValueError, "`log_prob_theta` must be .* but got 0.0"),
        ({"log_prob_theta": []}, ValueError, r"`log_prob_theta` must be .* but got"),
        ({"log_prob_samples": SAMPLES}, ValueError, r"`log_prob_samples` must be \(9, 6\), draws"),
        ({"log_prob_samples": [[1.0], [1.0, 2.0]]}, ValueError, "`log_prob_samples` must be a re"),
        ({"log_prob_samples": "a"}, TypeError, "`log_prob_samples` must hold .* but got 'a'"),
        ({"on_invalid": 1}, ValueError, "`on_invalid` must be 'raise' or 'drop', but got 1"),
        ({"log_prob_theta": [THETA, 2.5], "log_prob_samples": [THETA, 1.5]}, ValueError,
         "`log_prob_samples` must be a rectangular array"),
        ({"log_prob_theta": scipy.sparse.eye_array(6), "log_prob_samples": [1.5]}, TypeError,
         "`theta` must hold|`log_prob_theta` must hold|`log_prob_samples` must"),
    ],
    "hold_out": [
        ({"n": 0}, ValueError, "`n` must be at least 1, but got 0"),
        ({"n": 1.5}, TypeError, "`n` must be a whole number, but got 1.5"),
        ({"n": 9}, ValueError, "`n` must be less than the number of draws, but got 9 of 9"),
    ],
    "blocks": [
        ({"n_bytes": "1 MB"}, TypeError, "`n_bytes` must be a whole number, but got '1 MB'"),
        ({"n_bytes": -1}, ValueError, "`n_bytes` must be at least 0, but got -1"),
    ],
    "tarp": [
        ({"theta": None}, TypeError, "`theta` is missing, it is None"),
        ({"samples": SIMS}, TypeError, "`Simulations` contain all data already: remove `theta`"),
        ({"samples": SIMS, "theta": None, "x": X}, TypeError, "remove `x`"),
        ({"samples": 5}, ValueError, r"`samples` must be .* but got \(\)"),
        ({"samples": tarpon.Simulations.of_densities(**LOG_PROB), "theta": None}, ValueError,
         "this test needs `samples` and `theta`, but only log-densities"),
        ({"reference": None}, TypeError, "`reference` must be a reference, .* but got None"),
        ({"reference": 5}, TypeError, "`reference` must be a reference, .* but got 5"),
        ({"reference": "uniform"}, TypeError, "`reference` must be a .* but got 'uniform'"),
        ({"reference": [0.0, 0.0]}, TypeError, r"`reference` must be a .* but got \[0.0, 0.0\]"),
        ({"reference": THETA}, TypeError, r"`reference` must .* but got an array of shape \(6, 2"),
        ({"reference": references.Uniform}, TypeError, "the class `Uniform`.*`Uniform\\(...\\)`"),
        ({"metric": None}, TypeError, "`metric` must be a function of two points, .* got None"),
        ({"metric": "l2"}, TypeError, "`metric` must be a function of two points, .* got 'l2'"),
        ({"metric": metrics.L2}, TypeError, "`metric` must be .* but got the class `L2`"),
        ({"rng": -1}, ValueError, "`rng` must not be negative, but got -1"),
        ({"rng": 1.5}, TypeError, "`rng` must be a non-negative integer, .* but got 1.5"),
        ({"rng": "seed"}, TypeError, "`rng` must be a non-negative integer, .* but got 'seed'"),
        ({"rng": True}, TypeError, "`rng` must be a non-negative integer, .* but got True"),
        ({"engine": None}, TypeError, "`engine` must be a `tarpon.Engine`, but got None"),
        ({"engine": "dask"}, TypeError, "`engine` must be a `tarpon.Engine`, but got 'dask'"),
        ({"engine": tarpon.Engine}, TypeError, "`engine` must be .* but got the class `Engine`"),
        ({"reference": references.Posterior(), "samples": SAMPLES[:1]}, ValueError,
         "holding out 1 of 1 draws|`n` must be less than the number of draws"),
        ({"reference": references.Around(lambda x: x)}, ValueError, "pass `x=`.* it is None"),
    ],
    "sbc": [
        ({"samples": None}, TypeError, "`samples` must hold real numbers, but got None"),
        ({"names": ["a", "b", "c"]}, ValueError, "`names` must name 2 parameters, but got 3"),
        ({"names": 3.5}, TypeError, "`names` must be a list of 2 names, but got 3.5"),
        ({"samples": SIMS, "theta": None, "names": ["a", "b"]}, TypeError, "remove `names`"),
        ({"rng": [1]}, TypeError, r"`rng` must be a non-negative integer, .* but got \[1\]"),
        ({"engine": 3}, TypeError, "`engine` must be a `tarpon.Engine`, but got 3"),
    ],
    "hpd": [
        ({"log_prob_samples": None, "log_prob_theta": None}, ValueError, "`log_prob_samples` is"),
        ({"log_prob_theta": None}, ValueError, "`log_prob_theta` is missing, it is None"),
        ({"log_prob_samples": 0.0}, ValueError, r"`log_prob_samples` must be .* but got \(\)"),
        ({"log_prob_samples": SIMS}, TypeError, "remove `log_prob_theta`"),
        ({"log_prob_samples": tarpon.Simulations(**DATA), "log_prob_theta": None}, ValueError,
         "log-densities, .* `log_prob_samples`"),
        ({"rng": object()}, TypeError, "`rng` must be a non-negative integer, .* but got <object"),
        ({"engine": None}, TypeError, "`engine` must be a `tarpon.Engine`, but got None"),
    ],
    "check": [
        ({"samples": None}, TypeError, "`samples` must hold real numbers, but got None"),
        ({"theta": None}, TypeError, "`theta` is missing, it is None"),
        ({"samples": SAMPLES[:4]}, ValueError, "`check` needs at least 2 simulations of 5 draws"),
        ({"level": "a"}, TypeError, "`level` must be a number between 0 and 1, but got 'a'"),
        ({"level": None}, TypeError, "`level` must be a number between 0 and 1, but got None"),
        ({"level": 0}, ValueError, "`level` must lie between 0 and 1, but got 0"),
        ({"level": 5}, ValueError, "`level` must lie between 0 and 1, but got 5"),
        ({"level": NAN}, ValueError, "`level` must lie between 0 and 1, but got nan"),
        ({"level": [0.05]}, TypeError, r"`level` must be a number .* but got \[0.05\]"),
        ({"level": np.array([0.05, 0.1])}, TypeError, r"`level` .* got an array of shape \(2,\)"),
        ({"level": 1e-12}, ValueError, "`n_swaps` must be at least .* at level 1e-12, but got 19"),
        ({"n_swaps": 10}, ValueError, "`n_swaps` must be at least 19 at level 0.05, but got 10"),
        ({"n_swaps": -1}, ValueError, "`n_swaps` must be at least 0, but got -1"),
        ({"n_swaps": 99.0}, TypeError, "`n_swaps` must be a whole number, but got 99.0"),
        ({"n_swaps": "many"}, TypeError, "`n_swaps` must be a whole number, but got 'many'"),
        ({"n_swaps": 10**9}, ValueError, "`n_swaps` = 1000000000 would take about .* of memory"),
        ({"n_swaps": 10**18}, ValueError, "`n_swaps` = 1000000.* would take about .* of memory"),
        ({"n_swaps": 10**400}, ValueError, "`n_swaps` must be at most .*, but got 1000.*000"),
        ({"scores": 5}, TypeError, "`scores` must be a dictionary of scores by name, but got 5"),
        ({"scores": [total]}, TypeError, r"`scores` must be a dictionary .* but got \[<func"),
        ({"scores": lambda t, x: t}, TypeError, "`scores` must be a dictionary .* but got <func"),
        ({"scores": {1: total}}, TypeError, "`scores` .* by name, which are text, but got 1"),
        ({"summary": 5}, TypeError, "`summary` must be a function of the observations, but got 5"),
        ({"summary": lambda x: x, "x": None}, ValueError, "`summary` reads .* it is None"),
        ({"summary": lambda x: x[:3]}, ValueError, r"`summary` must return .* but got \(3, 2\)"),
        ({"summary": lambda x: 1.0}, ValueError, r"`summary` must return one .* but got \(\)"),
        ({"summary": lambda x: "a"}, TypeError, r"`summary\(x\)` must hold .* but got 'a'"),
        ({"basis": "fourier"}, TypeError, r"`basis` must be a basis, like .* but got 'fourier'"),
        ({"basis": tarpon.bases.Fourier}, TypeError, r"`basis` .* Pass an object: `Fourier"),
        ({"basis": tarpon.bases.Regions([0])}, ValueError, r"fields of 2 cells, .* is for 1"),
        ({"x": X * NAN}, ValueError, "observations `x` .* must be finite, but some are NaN"),
        ({"x": X[:2]}, ValueError, r"`x` must have one entry .* but got \(2, 2\)"),
        ({"names": ["a", 2, 3]}, ValueError, "`names` must name 2 parameters, but got 3"),
        ({"engine": None}, TypeError, "`engine` must be a `tarpon.Engine`, but got None"),
        ({"rng": (1, 2)}, TypeError, r"`rng` must be .* but got \(1, 2\)"),
    ],
    "score": [
        ({"score": None}, TypeError, "of the `scores` must be a function .* got None for 'a'"),
        ({"score": THETA}, TypeError, r"of the `scores` must be .* an array of shape \(6, 2\)"),
        ({"score": MONITOR}, TypeError, "of the `scores` must be a function .* got Monitor af"),
        ({"score": (THETA,)}, TypeError, "of the `scores` must be a function .* for 'a'"),
        ({"score": regions.HalfLines}, TypeError, "of the `scores` .* got the class `HalfLines`"),
        ({"score": (SAMPLES, THETA[:3])}, ValueError, r"`scores` given as .* got .* and \(3, 2\)"),
        ({"score": ("a", "b")}, TypeError, "`scores` must hold real numbers, but got 'a'"),
        ({"score": regions.Values(SAMPLES[0], THETA)}, ValueError, "`scores` given as arrays"),
        ({"score": lambda theta, x: theta[0]}, ValueError, r"`scores` must be \("),
        ({"score": lambda theta, x: None}, TypeError, "`scores` must hold real .* got None"),
        ({"score": lambda theta, x: theta[..., 0] * NAN}, ValueError, "`scores` must be numbers"),
    ],
    "FromDraws": [
        ({"n": "a"}, TypeError, "`n` must be a whole number, but got 'a'"),
        ({"n": 0}, ValueError, "`n` must be at least 1, but got 0"),
    ],
    "Neighbours": [
        ({"n": "a"}, TypeError, "`n` must be a whole number, but got 'a'"),
        ({"n": 0}, ValueError, "`n` must be at least 1, but got 0"),
    ],
    "Scores": [
        ({"function": 5}, TypeError, "`function` must be a function of theta and x, but got 5"),
    ],
    "Fit": [
        ({"forward": 5}, TypeError, "`forward` must be a function of theta, but got 5"),
        ({"forward": lambda theta: theta[0]}, ValueError, r"`forward` must return predictions \("),
        ({"forward": lambda theta: None}, TypeError, r"`forward\(theta\)` must hold .* got None"),
        ({"forward": lambda theta: theta * NAN}, ValueError, "`scores` must be numbers"),
        ({"noise": 0.0}, ValueError, "`noise` must be positive, but got 0.0"),
        ({"noise": "a"}, TypeError, "`noise` must be a number or an array .* got 'a'"),
        ({"noise": np.ones(5)}, ValueError, r"`noise` must be .* observation, \(2,\), but got"),
        ({"basis": "fourier"}, TypeError, "`basis` must be a basis, like"),
    ],
    "Balls": [
        ({"centres": THETA[:2]}, ValueError, r"`centres` must be \(6, 2\).* but got \(2, 2\)"),
        ({"centres": 0.0}, ValueError, r"`centres` must be .* but got \(\)"),
        ({"centres": "a"}, TypeError, "`centres` must hold real numbers, but got 'a'"),
        ({"metric": 3}, TypeError, "`metric` must be a function of two points, .* but got 3"),
    ],
    "cover": [
        ({"sims": SAMPLES}, TypeError, "`sims` must be `Simulations`.* an array of shape"),
        ({"level": 1.0}, ValueError, "`level` must lie between 0 and 1, but got 1.0"),
        ({"level": "a"}, TypeError, "`level` must be a number between 0 and 1, but got 'a'"),
        ({"level": 0.99}, ValueError, "0.99 needs at least 99 `sims`, but there are 30"),
        ({"sure": 2}, ValueError, "`sure` must lie between 0 and 1, but got 2"),
        ({"sure": 0.999}, ValueError, "with confidence 0.999 needs at least 66 `sims`"),
        ({"groups": 1}, TypeError, "`groups` must be labels"),
        ({"groups": np.zeros((30, 2))}, ValueError, r"`groups` .* \(30,\), but got shape"),
        ({"region": "ball"}, TypeError, "`region` must be one of `tarpon.regions`, but got"),
        ({"region": regions.HalfLines()}, ValueError, "`region` must have one score"),
        ({"rng": -1}, ValueError, "`rng` must not be negative, but got -1"),
    ],
    "holds": [
        ({"theta": [0.0]}, ValueError, r"`theta` must be points, \(n, 2\), but got"),
        ({"theta": "a"}, TypeError, "`theta` must be a number or an array of numbers"),
        ({"samples_o": np.zeros((3, 2))}, ValueError, r"`samples_o` .* but got \(3, 2\)"),
        ({"samples_o": None}, TypeError, "`samples_o` must be a number or an array"),
        ({"group": "a"}, ValueError, "`group` must be one of 'all', but got 'a'"),
    ],
    "contour": [
        ({"parameters": (0, 7)}, ValueError, "`parameters` must be two different"),
        ({"parameters": 3}, ValueError, "`parameters` must be two different"),
        ({"n": 2}, ValueError, "`n` must be at least 3, but got 2"),
    ],
    "nats": [
        ({"sims": None}, TypeError, "`sims` must be `Simulations`.* but got None"),
        ({"level": 0}, ValueError, "`level` must lie between 0 and 1, but got 0"),
        ({"rng": "a"}, TypeError, "`rng` must be a non-negative integer"),
    ],
    "plan": [
        ({"n_dims": 0}, ValueError, "`n_dims` must be at least 1, but got 0"),
        ({"n_dims": 2.5}, TypeError, "`n_dims` must be a whole number, but got 2.5"),
        ({"n_dims": None}, TypeError, "`n_dims` must be a whole number, but got None"),
        ({"bias": "a"}, TypeError, "`bias` must be a number from 0 to 1.6, but got 'a'"),
        ({"bias": None}, TypeError, "`bias` must be a number from 0 to 1.6, but got None"),
        ({"bias": 2.0}, ValueError, "`bias` must be a number from 0 to 1.6, but got 2.0"),
        ({"bias": -0.1}, ValueError, "`bias` must be a number from 0 to 1.6, but got -0.1"),
        ({"bias": NAN}, ValueError, "`bias` must be a number from 0 to 1.6, but got nan"),
        ({"bias": 0}, ValueError, "give a `bias` .* got bias 0, width 0 and no sim"),
        ({"bias": 0, "n_sims": 19}, ValueError, "`n_sims` must be at least 20, but got 19"),
        ({"bias": 0, "n_sims": 30.5}, TypeError, "`n_sims` must be a whole .* but got 30.5"),
        ({"n_sims": 30}, ValueError, "or else the number .* got bias 1, width 0 and 30 sim"),
        ({"width": 0.6}, ValueError, "`width` must be a number from 0 to 0.5, but got 0.6"),
        ({"width": [0.1]}, TypeError, r"`width` must be a number .* but got \[0.1\]"),
        ({"n_draws": 4}, ValueError, "`n_draws` must be at least 5, but got 4"),
        ({"n_draws": "a"}, TypeError, "`n_draws` must be a whole number, but got 'a'"),
        ({"level": 2}, ValueError, "`level` must lie between 0 and 1, but got 2"),
        ({"level": "5%"}, TypeError, "`level` must be a number between 0 and 1, but got '5%'"),
        ({"power": 1}, ValueError, "`power` must lie between 0 and 1, but got 1"),
        ({"power": None}, TypeError, "`power` must be a number between 0 and 1, but got None"),
        ({"rng": "a"}, TypeError, "`rng` must be a non-negative integer, .* but got 'a'"),
    ],
    "Engine": [
        ({"shard": "0/2", "resume": "b"}, ValueError, "`shard` must be two .* but got '0/2'"),
        ({"shard": (2, 2), "resume": "b"}, ValueError, r"`shard` must be .* but got \(2, 2\)"),
        ({"shard": (0, 1, 2), "resume": "b"}, ValueError, r"`shard` .* but got \(0, 1, 2\)"),
        ({"shard": (0.5, 2), "resume": "b"}, ValueError, r"`shard` .* but got \(0.5, 2\)"),
        ({"shard": 1, "resume": "b"}, ValueError, "`shard` must be two whole .* but got 1"),
        ({"shard": (0, 2)}, ValueError, r"`resume` is None and `shard` is \(0, 2\): pass"),
        ({"on_missing": "raise"}, ValueError, "`on_missing='raise'` need .* `resume` is None"),
        ({"on_missing": "skip"}, ValueError, "`on_missing` must be 'compute' or .* got 'skip'"),
        ({"shard": THETA}, ValueError, r"`shard` is an array of shape \(6, 2\)"),
        ({"executor": 4}, TypeError, "`executor` must be an executor .* but got 4"),
        ({"executor": "dask"}, TypeError, "`executor` must be an executor .* but got 'dask'"),
        ({"resume": 5}, TypeError, "`resume` must be the path of a file, .* but got 5"),
        ({"resume": []}, ValueError, r"`resume` must be one folder or several, but got \[\]"),
        ({"progress": True}, TypeError, "`progress` must be a function .* but got True"),
        ({"note": "mine"}, TypeError, "`note` must be a dictionary, but got 'mine'"),
    ],
    "Monitor": [
        ({"level": "a"}, TypeError, "`level` must be a number between 0 and 1, but got 'a'"),
        ({"level": 0.0}, ValueError, "`level` must lie between 0 and 1, but got 0.0"),
        ({"tolerance": None}, TypeError, "`tolerance` must be a number .* but got None"),
        ({"tolerance": 1.5}, ValueError, "`tolerance` must lie between 0 and 1, but got 1.5"),
        ({"adversary": "q"}, TypeError, "`adversary` must be an object with `fit.* but got 'q'"),
        ({"adversary": adversaries.Quadratic}, TypeError, "`adversary` .* class `Quadratic`"),
        ({"adversary": total}, TypeError, "`adversary` must be an object with `fit.* <func"),
        ({"rng": -5}, ValueError, "`rng` must not be negative, but got -5"),
    ],
    "Monitor.add": [
        ({"samples": None}, TypeError, "`samples` must hold real numbers, but got None"),
        ({"theta": None}, TypeError, "`theta` is missing, it is None"),
        ({"theta": "a"}, TypeError, "`theta` must hold real numbers, but got 'a'"),
        ({"theta": np.float64}, TypeError, "`theta` must hold .* but got the class `float64`"),
        ({"theta": [[1.0], [1.0, 2.0]]}, ValueError, "`theta` must be a rectangular array"),
        ({"samples": SAMPLES[..., :0], "theta": THETA[:, :0]}, ValueError, "got n_dims = 0"),
        ({"samples": np.zeros((9, 0)), "theta": np.zeros(0)}, ValueError, "got n_dims = 0"),
        ({"samples": SAMPLES[:, 0], "theta": THETA[0, :1]}, ValueError, "`samples` must be"),
        ({"x": X[:2]}, ValueError, r"`x` must have one entry .* but got \(2, 2\)"),
        ({"names": ["a"]}, ValueError, "`names` must name 2 parameters, but got 1"),
        ({"samples": SIMS}, TypeError, "remove `theta`"),
        ({"samples": MONITOR}, TypeError, "`samples` must hold real numbers, but got Monitor"),
    ],
    "Monitor.merge": [
        ({"other": None}, TypeError, "`other` must be a `Monitor`, but got None"),
        ({"other": SIMS}, TypeError, "`other` must be a `Monitor`, but got Simulations"),
        ({"other": MONITOR}, ValueError, "both monitors have the seed 0: .* `rng="),
        ({"other": tarpon.Monitor(rng=1)}, ValueError, "but `other` has 0"),
    ],
    "empty.merge": [
        ({"add": (SAMPLES[..., :1], THETA[:, :1])}, ValueError,
         "all simulations of a `Monitor` must have"),
        ({"rng": 7}, ValueError, "both monitors have the seed 7: .* `rng="),
    ],
    "Monitor.save": [
        ({"path": 5}, TypeError, "`path` must be the path of a file, .* but got 5"),
        ({"path": ""}, ValueError, "`path` must be the path of a file, not .* but got '.'"),
        ({"path": "no/such/m.npz"}, FileNotFoundError, "there is no folder 'no/such'"),
    ],
    "load of a monitor": [
        ({"path": None}, TypeError, "`path` must be the path of a file, .* but got None"),
        ({"path": "none.npz"}, FileNotFoundError, "there is no file 'none.npz'"),
        ({"adversary": adversaries.Quadratic()}, ValueError, "remove `adversary=`"),
        ({"adversary": 5}, TypeError, "`adversary` must be an object with `fit.* but got 5"),
    ],
    "adversary": [
        ({"adversary": Forgetful()}, TypeError, "`adversary.fit.*` must be a .* but got None"),
    ],
    "Quadratic": [
        ({"penalty": 0}, ValueError, "`penalty` must be positive, but got 0"),
        ({"penalty": "a"}, TypeError, "`penalty` must be a positive number, but got 'a'"),
        ({"penalty": np.inf}, ValueError, "`penalty` must be finite, but got inf"),
    ],
    "Folds": [
        ({"learner": 5}, TypeError, "`learner` must be an object with `fit.* but got 5"),
        ({"learner": adversaries.Quadratic}, TypeError, "but got the class `Quadratic`"),
        ({"n_folds": 1}, ValueError, "`n_folds` must be at least 2, but got 1"),
        ({"n_folds": 2.5}, TypeError, "`n_folds` must be a whole number, but got 2.5"),
        ({"n_swaps": 18}, ValueError, "`n_swaps` must be at least 19, but got 18"),
        ({"n_swaps": 10**13}, ValueError, "`n_swaps` = 10000000000000"),
    ],
    "L2": [
        ({"scale": "a"}, TypeError, "`scale` must be a number or an array .* but got 'a'"),
        ({"scale": 0.0}, ValueError, "`scale` must be positive and finite, but got 0.0"),
        ({"scale": [1.0, -1.0]}, ValueError, r"`scale` must be .* but got \[ 1. -1.\]"),
        ({"scale": [1.0, 2.0, 3.0]}, ValueError, r"`scale` must be one .* but got shape \(3,\)"),
        ({"scale": np.ones((2, 2))}, ValueError, r"`scale` must be .* but got shape \(2, 2\)"),
        ({"scale": [[1.0], [1.0, 2.0]]}, TypeError, "`scale` must be a number or an array"),
    ],
    "L1": [
        ({"scale": {}}, TypeError, "`scale` must be a number or an array .* but got {}"),
        ({"scale": [1.0] * 5}, ValueError, r"`scale` must be one .* but got shape \(5,\)"),
        ({"scale": 1j}, TypeError, "`scale` must be a number or an array of numbers, but got 1j"),
    ],
    "Lp": [
        ({"p": 0}, ValueError, "`p` must be positive, but got 0"),
        ({"p": NAN}, ValueError, "`p` must be positive, but got nan"),
        ({"p": "inf"}, TypeError, "`p` must be a positive number, but got 'inf'"),
        ({"scale": [1.0, 2.0, 3.0]}, ValueError, r"`scale` must be one .* but got shape \(3,\)"),
    ],
    "Weighted": [
        ({"weights": None}, TypeError, "`weights` must be a number or an array .* but got None"),
        ({"weights": [1.0, -1.0]}, ValueError, "`weights` must be finite and not negative"),
        ({"weights": [1.0] * 3}, ValueError, r"`weights` must be .* but got shape \(3,\)"),
        ({"scale": [1.0] * 3}, ValueError, r"`scale` must be .* but got shape \(3,\)"),
        ({"weights": "heavy"}, TypeError, "`weights` must be a number .* but got 'heavy'"),
    ],
    "Periodic": [
        ({"period": "year"}, TypeError, "`period` must be a number or an .* but got 'year'"),
        ({"period": 0}, ValueError, "`period` must be positive, but got 0.0"),
        ({"period": [1.0] * 3}, ValueError, r"`period` must be .* but got shape \(3,\)"),
        ({"period": NAN}, ValueError, "`period` must be positive, but got nan"),
    ],
    "Mahalanobis": [
        ({"covariance": "a"}, TypeError, "`covariance` must be a matrix .* but got 'a'"),
        ({"covariance": [1.0, 2.0]}, ValueError, r"`covariance` must be .* but got \(2,\)"),
        ({"covariance": np.eye(3)}, ValueError, r"`covariance` must be of shape \(2, 2\), but"),
        ({"covariance": np.ones((2, 3))}, ValueError, r"`covariance` .* but got \(2, 3\)"),
    ],
    "Sphere": [
        ({"degrees": "yes"}, TypeError, "`degrees` must be True or False, but got 'yes'"),
    ],
    "Uniform": [
        ({"low": "a"}, TypeError, "`low` must be a number or an array .* but got 'a'"),
        ({"low": [0.0] * 3}, ValueError, r"`low` must be one number, .* but got shape \(3,\)"),
        ({"high": np.inf}, ValueError, "`high` must be finite, but got inf"),
        ({"high": -10}, ValueError, r"`low` must not .* \[-9. -9.\] and \[-10. -10.\]"),
        ({"part": 0.5}, TypeError, "`part` must be two fractions .* but got 0.5"),
        ({"part": (0.0, 2.0)}, ValueError, "`part` must be a number from 0 to 1, but got 2.0"),
        ({"part": [1, 0.0]}, ValueError, r"`part` must be two fractions .* but got \[1, 0.0\]"),
        ({"part": ("a", 1)}, TypeError, "`part` must be a number from 0 to 1, but got 'a'"),
    ],
    "Normal": [
        ({"mean": "a"}, TypeError, "`mean` must be a number or an array .* but got 'a'"),
        ({"mean": [0.0] * 3}, ValueError, r"`mean` must be .* but got shape \(3,\)"),
        ({"mean": NAN}, ValueError, "`mean` must be finite, but got nan"),
        ({"sd": -1}, ValueError, "`sd` must not be negative, but got -1.0"),
        ({"sd": [1.0, 2.0, 3.0]}, ValueError, r"`sd` must be .* but got shape \(3,\)"),
    ],
    "Fixed": [
        ({"points": "origin"}, TypeError, "`points` must hold real numbers, but got 'origin'"),
        ({"points": [0.0] * 3}, ValueError, r"`points` of `Fixed` must be .* but got \(3,\)"),
        ({"points": [[0.0], [0.0, 1.0]]}, ValueError, "`points` must be a rectangular array"),
        ({"points": [NAN, 0.0]}, ValueError, "of `reference` must be finite, but some are NaN"),
    ],
    "Prior": [
        ({"source": None}, TypeError, "`source` must hold real numbers, but got None"),
        ({"source": int}, TypeError, "`source` must be points, .* but got the class `int`"),
        ({"source": np.zeros((5, 3))}, ValueError, r"`source` of `Prior` must .* got \(5, 3\)"),
        ({"source": lambda n, rng: np.zeros(n)}, ValueError, r"`reference` .* but got \(6,\)"),
        ({"source": lambda n, rng: "a"}, TypeError, "`source` must hold real .* but got 'a'"),
        ({"source": THETA}, ValueError, "`Prior` contains simulations that are under test"),
    ],
    "Around": [
        ({"function": 5}, TypeError, "`function` must be a function of the .* but got 5"),
        ({"spread": "a"}, TypeError, "`spread` must be a number or an array .* but got 'a'"),
        ({"spread": [1.0] * 3}, ValueError, r"`spread` must be .* but got shape \(3,\)"),
        ({"function": lambda x: x[:2]}, ValueError, r"`reference` .* but got \(2, 2\)"),
    ],
    "Several": [
        ({"n": 0}, ValueError, "`n` must be at least 1, but got 0"),
        ({"n": 2.5}, TypeError, "`n` must be a whole number, but got 2.5"),
        ({"n": 10**12}, ValueError, "`n` = 1000000000000 of `Several` would take about"),
        ({"reference": 5}, TypeError, "`reference` must be a reference with .* but got 5"),
        ({"reference": references.Posterior()}, ValueError, "`Several` .*`Posterior`"),
    ],
    "Learned": [
        ({"method": "magic"}, ValueError, "`method` must be one of 'neighbour', .* got 'magic'"),
        ({"method": None}, ValueError, "`method` must be one of 'neighbour', .* got None"),
        ({"theta": POOL.theta[:9]}, ValueError, r"`theta` and `x` .* got \(9, 2\) and \(30, 2"),
        ({"x": "a"}, TypeError, "`x` must hold real numbers, but got 'a'"),
        ({"x": POOL.x * NAN}, ValueError, "`x` of the pool of `Learned` must be finite"),
        ({"theta": POOL.theta[:, :1]}, ValueError, "`Learned` needs 2 parameters"),
    ],
    "Gate": [
        ({"fail_on": "always"}, ValueError, "`fail_on` must be one of .* but got 'always'"),
        ({"fail_on": ["never"]}, ValueError, r"`fail_on` must be one of .* got \['never'\]"),
        ({"max_bias": 0}, ValueError, "`max_bias` must be positive, but got 0"),
        ({"max_bias": "a"}, TypeError, "`max_bias` must be a positive number, but got 'a'"),
        ({"max_width_error": NAN}, ValueError, "`max_width_error` must be positive, but got nan"),
    ],
    "Gate.require": [
        ({"check": None}, TypeError, "`check` must be what `tarpon.check` .* but got None"),
        ({"check": RESULT}, TypeError, "`check` must be what `tarpon.check` .* but got SBC on"),
    ],
    "gaussian": [
        ({"case": "wrong"}, ValueError, "`case` must be one of 'correct', .* but got 'wrong'"),
        ({"n_sims": 0}, ValueError, "`n_sims` must be at least 1, but got 0"),
        ({"n_draws": -3}, ValueError, "`n_draws` must be at least 1, but got -3"),
        ({"n_dims": "a"}, TypeError, "`n_dims` must be a whole number, but got 'a'"),
        ({"n_draws": True}, TypeError, "`n_draws` must be a whole number, but got True"),
        ({"dtype": {6: 1}}, TypeError, "`dtype` must be a type of floating.* but got {6: 1}"),
        ({"n_sims": 10**12}, ValueError, "`n_sims` × .* = 1000000000000 × 9 × 2 would take"),
        ({"full": THETA}, TypeError, "`full` must be True or False, but got an array of shape"),
        ({"dtype": "text"}, TypeError, "`dtype` must be a type of floating.* but got 'text'"),
        ({"dtype": int}, TypeError, "`dtype` must be a type of floating.* got the class `int`"),
        ({"rng": "a"}, TypeError, "`rng` must be a non-negative integer, .* but got 'a'"),
    ],
    "zoo": [
        ({"flaw": "unicorn"}, ValueError, "`flaw` must be one of 'exact', .* but got 'unicorn'"),
        ({"flaw": None}, ValueError, "`flaw` must be one of 'exact', .* but got None"),
        ({"n_sims": 1.5}, TypeError, "`n_sims` must be a whole number, but got 1.5"),
        ({"n_draws": 0}, ValueError, "`n_draws` must be at least 1, but got 0"),
        ({"flaw": "third_order", "n_dims": 1}, ValueError,
         "`n_dims` must be at least 2 for the flaw 'third_order', but got 1"),
    ],
    "conjugate": [
        ({"estimator": 5}, ValueError, "`estimator` must be 'posterior' or 'prior', but got 5"),
        ({"noise": 0}, ValueError, "`noise` must be a number from 1e-100 to .* but got 0"),
        ({"noise": "a"}, TypeError, "`noise` must be a number from 1e-100 .* but got 'a'"),
        ({"noise": 8.78e177}, ValueError, r"`noise` must be a number .* but got 8.78e\+177"),
        ({"n_draws": 10**400}, ValueError, "`n_draws` must be at most .* but got 1000"),
        ({"n_obs": 0}, ValueError, "`n_obs` must be at least 1, but got 0"),
        ({"n_obs": 10**12}, ValueError, "`n_obs` = 9 × 1000000000000 would take about"),
    ],
    "coverage": [
        ({"results": []}, ValueError, "`results` must be at least one result, but got none"),
        ({"results": [5]}, TypeError, "`results` must be what .* return, but got 5"),
        ({"results": [CHECK]}, TypeError, "`results` must be what .* return, but got check of"),
        ({"labels": ["a", "b"]}, ValueError, "`labels` must name 1 result, but got 2"),
        ({"labels": "a"}, TypeError, "`labels` must be a list of 1 name, but got 'a'"),
        ({"confidence": 2}, ValueError, "`confidence` must lie between 0 and 1, but got 2"),
        ({"confidence": "a"}, TypeError, "`confidence` must be a number .* but got 'a'"),
        ({"ax": 5}, TypeError, "`ax` must be axes of matplotlib, but got 5"),
        ({"ax": plt}, TypeError, "`ax` must be axes of matplotlib, but got <module"),
    ],
    "difference": [
        ({"results": [None]}, TypeError, "`results` must be what .* return, but got None"),
        ({"labels": 3}, TypeError, "`labels` must be a list of 1 name, but got 3"),
        ({"confidence": None}, TypeError, "`confidence` must be a number .* but got None"),
    ],
    "ranks": [
        ({"result": "a"}, TypeError, "`results` must be what .* return, but got 'a'"),
        ({"score": 2}, ValueError, "`score` must be from 0 to 1, .* but got 2"),
        ({"score": "theta_0"}, TypeError, "`score` must be a whole number, but got 'theta_0'"),
        ({"score": -1}, ValueError, "`score` must be at least 0, but got -1"),
        ({"n_bins": 0}, ValueError, "`n_bins` must be at least 1, but got 0"),
        ({"n_bins": 2.5}, TypeError, "`n_bins` must be a whole number, but got 2.5"),
        ({"confidence": 0}, ValueError, "`confidence` must lie between 0 and 1, but got 0"),
    ],
    "effects": [
        ({"check": RESULT}, TypeError, "`check` must be what `tarpon.check` .* got SBC on"),
        ({"check": None}, TypeError, "`check` must be what `tarpon.check` returns, but got None"),
        ({"ax": "here"}, TypeError, "`ax` must be axes of matplotlib, but got 'here'"),
    ],
    "pair": [
        ({"check": 5}, TypeError, "`check` must be what `tarpon.check` returns, but got 5"),
        ({"pair": ("a", "b")}, TypeError, r"`pair` must be one of .* but got \('a', 'b'\)"),
    ],
    "trend": [
        ({"trend": CHECK}, TypeError, "`trend` must be a trend of .* but got check of"),
        ({"trend": None}, TypeError, "`trend` must be a trend of .* but got None"),
    ],
    "evidence": [
        ({"monitors": []}, ValueError, "`monitors` must be at least one monitor, but got none"),
        ({"monitors": [RESULT]}, TypeError, "`monitors` must be `tarpon.Monitor` .* got SBC"),
        ({"labels": ["a", "b"]}, ValueError, "`labels` must name 1 monitor, but got 2"),
    ],
    "panels": [
        ({"results": {}}, ValueError, "`results` must have at least one case .* but got none"),
        ({"results": [RESULT]}, TypeError, r"`results` must be a dictionary .* but got \[SBC"),
        ({"results": {"a": RESULT}}, TypeError, "`results` must be a dictionary .* got SBC on"),
        ({"results": {"a": {}}}, ValueError, "`results` must have at least one case .* got none"),
        ({"results": {"a": {"b": 5}}}, TypeError, "`results` must be what .* but got 5"),
        ({"n_cols": 0}, ValueError, "`n_cols` must be at least 1, but got 0"),
        ({"draw": "coverage"}, TypeError, "`draw` must be a function .* but got 'coverage'"),
    ],
    "report.write": [
        ({"path": None}, TypeError, "`path` must be the path of a file, .* but got None"),
        ({"path": b"r.html"}, TypeError, "`path` must be the path of a file, .* got b'r.html'"),
        ({"path": "no/such/r.html"}, FileNotFoundError, "there is no folder 'no/such'"),
        ({"checks": ()}, ValueError, "`checks` must be at least one check, but got none"),
        ({"checks": (RESULT,)}, TypeError, "`checks` must be what .* returns, but got SBC on"),
        ({"names": ["a", "b"]}, ValueError, "`names` must name 1 check, but got 2"),
        ({"names": "flow"}, TypeError, "`names` must be a list of 1 name, but got 'flow'"),
        ({"commands": ["a", "b"]}, ValueError, "`commands` must name 1 check, but got 2"),
    ],
    "report.card": [
        ({"shown": "a"}, TypeError, "`shown` must be what .* return, but got 'a'"),
    ],
    "Result.band": [
        ({"confidence": "a"}, TypeError, "`confidence` must be a number .* but got 'a'"),
        ({"confidence": None}, TypeError, "`confidence` must be a number .* but got None"),
        ({"confidence": 95}, ValueError, "`confidence` must lie between 0 and 1, but got 95"),
        ({"confidence": [0.9]}, TypeError, r"`confidence` must be a number .* got \[0.9\]"),
    ],
    "Result.bootstrap": [
        ({"n": -1}, ValueError, "`n` must be at least 1, but got -1"),
        ({"n": 0}, ValueError, "`n` must be at least 1, but got 0"),
        ({"n": "a"}, TypeError, "`n` must be a whole number, but got 'a'"),
        ({"n": 10**12}, ValueError, "`n` = 1000000000000 curves would take about .* of memory"),
        ({"rng": "a"}, TypeError, "`rng` must be a non-negative integer, .* but got 'a'"),
    ],
    "Result.save": [
        ({"path": "no/such/r.npz"}, FileNotFoundError, "there is no folder 'no/such'"),
        ({"path": 5}, TypeError, "`path` must be the path of a file, .* but got 5"),
    ],
    "load": [
        ({"path": None}, TypeError, "`path` must be the path of a file, .* but got None"),
        ({"path": "none.npz"}, FileNotFoundError, "there is no file 'none.npz'"),
    ],
    "Check.to_frame": [
        ({"table": "all"}, ValueError, "`table` must be one of 'findings', .* but got 'all'"),
        ({"table": 0}, ValueError, "`table` must be one of 'findings', .* but got 0"),
    ],
    "Check.report": [
        ({"path": 1.5}, TypeError, "`path` must be the path of a file, .* but got 1.5"),
        ({"name": THETA}, TypeError, r"`name` must be text, but got an array of shape \(6, 2\)"),
    ],
    "files.load": [
        ({"path": 5}, TypeError, "`path` must be the path of a file, .* but got 5"),
        ({"path": None}, TypeError, "`path` must be the path of a file, .* but got None"),
        ({"path": ["a.npz"]}, TypeError, r"`path` must be the path .* but got \['a.npz'\]"),
        ({"path": "none.npz"}, FileNotFoundError, "there is no file 'none.npz'"),
        ({"path": "text.npz"}, ValueError, "text.npz' ends with .npz, but does not start as"),
        ({"path": "."}, ValueError, "it contains no .npy file"),
        ({"theta": 5}, TypeError, "`theta` must be the path of a file, .* but got 5"),
        ({"theta": THETA}, TypeError, r"`theta` must be the path .* an array of shape \(6, 2\)"),
        ({"theta": "b.npy"}, FileNotFoundError, "there is no file 'b.npy'"),
        ({"arrays": "samples=a"}, TypeError, "`arrays` must be a dictionary .* got 'samples=a'"),
        ({"arrays": {"samples": 5}}, TypeError, "`arrays` must be a .* got {'samples': 5}"),
        ({"arrays": {"draws": "a"}}, ValueError, r"`arrays` must name .* but got \['draws'\]"),
        ({"arrays": {"samples": "a"}}, ValueError, "no array 'a' to use as `samples`"),
        ({"arrays": {"samples": None}}, ValueError, "must contain `samples` and `theta`"),
        ({"most_bytes": 0}, ValueError, "`most_bytes` must be at least 1, but got 0"),
        ({"most_bytes": "1 GB"}, TypeError, "`most_bytes` must be a whole .* but got '1 GB'"),
        ({"most_bytes": 10}, ValueError, "`samples`, .* needs .* pass `most_bytes=`"),
        ({"on_invalid": "ignore"}, ValueError, "`on_invalid` must be .* but got 'ignore'"),
    ],
    "files.inspect": [
        ({"path": 5}, TypeError, "`path` must be the path of a file, .* but got 5"),
        ({"arrays": []}, TypeError, r"`arrays` must be a dictionary .* but got \[\]"),
        ({"theta": 1.5}, TypeError, "`theta` must be the path of a file, .* but got 1.5"),
        ({"most_bytes": -1}, ValueError, "`most_bytes` must be at least 1, but got -1"),
    ],
    "from_sampler": [
        ({"sampler": None}, TypeError, "`sampler` must be a function .* but got None"),
        ({"sampler": "mcmc"}, TypeError, "`sampler` must be a function .* but got 'mcmc'"),
        ({"theta": None}, TypeError, "`theta` must hold real numbers, but got None"),
        ({"theta": THETA[:, :0]}, ValueError, "`theta` .* but got n_dims = 0"),
        ({"theta": THETA[:0]}, ValueError, r"`theta` is \(0, 2\)"),
        ({"x": None}, ValueError, "pass `x=`.*it is None"),
        ({"x": X[:3]}, ValueError, r"`x` must have one entry .* but got \(3, 2\)"),
        ({"n_draws": 0}, ValueError, "`n_draws` must be at least 1, but got 0"),
        ({"n_draws": 1.5}, TypeError, "`n_draws` must be a whole number, but got 1.5"),
        ({"n_draws": 10**12}, ValueError, "`n_draws` = 1000000000000 for each .* would take"),
        ({"n_workers": 0}, ValueError, "`n_workers` must be at least 1, but got 0"),
        ({"n_workers": "all"}, TypeError, "`n_workers` must be a whole number, but got 'all'"),
        ({"executor": "dask"}, TypeError, "`executor` must be an executor .* but got 'dask'"),
        ({"time_limit": 0}, ValueError, "`time_limit` must be positive, but got 0"),
        ({"time_limit": "1 s"}, TypeError, "`time_limit` must be a positive .* but got '1 s'"),
        ({"names": ["a"]}, ValueError, "`names` must name 2 parameters, but got 1"),
        ({"on_invalid": "skip"}, ValueError, "`on_invalid` must be 'raise' .* but got 'skip'"),
        ({"progress": "bar"}, TypeError, "`progress` must be a function .* but got 'bar'"),
        ({"rng": -1}, ValueError, "`rng` must not be negative, but got -1"),
    ],
    "from_bayesflow": [
        ({"samples": SAMPLES}, TypeError, r"`samples` must be a dictionary .* array of shape \(9"),
        ({"samples": {}}, ValueError, "all `variables` must .* but got no variables"),
        ({"samples": {"mu": "a"}}, TypeError, "`mu` must hold real numbers, but got 'a'"),
        ({"theta": {}}, ValueError, "`theta` must contain .* 'mu', but contains nothing"),
        ({"theta": None}, TypeError, "`theta` must hold real numbers, but got None"),
        ({"theta": [{"mu": [0.0, 0.0]}] * 5 + [1]}, TypeError, "`theta` must be one dict.* got 1"),
        ({"on_invalid": 5}, ValueError, "`on_invalid` must be 'raise' or 'drop', but got 5"),
    ],
    "from_workflow": [
        ({"workflow": None}, TypeError, "`workflow` must be a workflow .* but got None"),
        ({"theta": THETA}, TypeError, "`theta` must be a dictionary .* an array of shape"),
        ({"x": X}, TypeError, "`x` must be a dictionary of conditions .* an array of shape"),
        ({"n_draws": 0}, ValueError, "`n_draws` must be at least 1, but got 0"),
        ({"batch_size": "a"}, TypeError, "`batch_size` must be a whole number, but got 'a'"),
    ],
    "from_mcmc": [
        ({"fits": 5}, TypeError, "`fits` must be a list of fits, .* but got 5"),
        ({"fits": "a.nc"}, TypeError, "`fits` must be a list of fits, .* but got 'a.nc'"),
        ({"fits": []}, ValueError, "`theta` must .*|`chains` must be"),
        ({"fits": [5]}, TypeError, "of the `fits` must have a group `posterior`, .* but got 5"),
        ({"fits": [{}]}, ValueError, "fit 0 has no draws of mu: .* `variables="),
        ({"variables": "mu"}, TypeError, "`variables` must be a list of names, but got 'mu'"),
        ({"variables": (1, THETA)}, TypeError, "`variables` must be .* are text, but got 1"),
        ({"variables": ["nu"]}, ValueError, "fit 0 has no draws of nu: .* `variables="),
        ({"variables": []}, ValueError, "all `variables` must have .* but got no variables"),
        ({"theta": 5}, ValueError, r"`theta` must be .* but got \(\)"),
        ({"theta": {"mu": [0.0]}}, ValueError, "`chains` must be .* but got 2 simulations"),
        ({"on_invalid": "skip"}, ValueError, "`on_invalid` must be 'raise' .* but got 'skip'"),
    ],
    "from_cmdstan": [
        ({"fits": "a.csv"}, TypeError, "`fits` must be a list of fits, .* but got 'a.csv'"),
        ({"fits": [5]}, TypeError, "`fits` must be a list of fits, .* but got 5"),
        ({"fits": np.array(b"a")}, TypeError, r"`fits` must be .* but got array\(b'a'"),
        ({"fits": [[]]}, ValueError, r"`fits` must be a list of fits, .* but got \[\]"),
        ({"fits": ["none.csv"]}, FileNotFoundError, "there is no file 'none.csv'"),
    ],
    "from_emcee": [
        ({"files": "a.h5"}, TypeError, "`files` must be a list of files, .* but got 'a.h5'"),
        ({"files": [5]}, TypeError, "`files` must be the path of a file, .* but got 5"),
        ({"files": [""]}, ValueError, "'.' cannot be read as a file of emcee"),
        ({"files": ["none.h5"]}, FileNotFoundError, "there is no file 'none.h5'"),
        ({"discard": -1}, ValueError, "`discard` must be at least 0, but got -1"),
        ({"discard": "half"}, TypeError, "`discard` must be a whole number, but got 'half'"),
        ({"discard": 40}, ValueError, r"`chains` of simulation 0 must .* but got \(2, 0, 2\)"),
    ],
    "from_getdist": [
        ({"roots": "a"}, TypeError, "`roots` must be a list of roots, .* but got 'a'"),
        ({"roots": [5]}, TypeError, "`roots` must be the path of a file, .* but got 5"),
        ({"discard": None}, TypeError, "`discard` must be a whole number, but got None"),
        ({"roots": ["none"]}, FileNotFoundError, "there is no file 'none.paramnames'"),
    ],
    "from_dynesty": [
        ({"results": 5}, TypeError, "`results` must be a list of results, .* but got 5"),
        ({"results": [5]}, TypeError, "`results` must be results of dynesty, .* but got 5"),
        ({"theta": THETA[:3]}, ValueError, "`samples` must be"),
    ],
    "from_bilby": [
        ({"files": "a.json"}, TypeError, "`files` must be a list of files, .* but got 'a.json'"),
        ({"files": [23, -0.0]}, TypeError, "`files` must be the path of a file, .* but got 23"),
        ({"files": ["none.json"]}, FileNotFoundError, "there is no file 'none.json'"),
        ({"variables": "a"}, TypeError, "`variables` must be a list of names, but got 'a'"),
        ({"variables": ["b"]}, ValueError, "fit 0 has no draws of b: .* `variables="),
        ({"files": []}, ValueError, r"`theta` is \(0,\)"),
    ],
    "thin": [
        ({"chains": None}, TypeError, "`chains` must hold real numbers, but got None"),
        ({"chains": STEPS[0, 0]}, ValueError, r"`chains` must be .* but got \(6, 2\)"),
        ({"chains": STEPS[:, :3]}, ValueError, "`chains` of simulation 0 .* at least 4 steps"),
        ({"chains": [STEPS[0, :, 0]] * 5}, ValueError, "`chains` must be .* got 5 simulations"),
        ({"theta": None}, TypeError, "`theta` must hold real numbers, but got None"),
        ({"theta": THETA[:3]}, ValueError, "`chains` must be .* the 3 simulations of `theta`"),
        ({"log_prob_chains": "a"}, TypeError, "`log_prob_chains` must hold .* but got 'a'"),
        ({"log_prob_chains": STEPS[:, 5:, :, 0]}, ValueError, "`log_prob_chains` must be like"),
        ({"log_prob_chains": STEPS}, ValueError, r"`log_prob_chains` must be .* \(2, 40, 6, 2"),
        ({"names": ["a"]}, ValueError, "`names` must name 2 parameters, but got 1"),
        ({"on_invalid": "skip"}, ValueError, "`on_invalid` must be 'raise' .* but got 'skip'"),
    ],
    "effective": [
        ({"chain": 5}, ValueError, r"`chain` of simulation 0 must be .* but got \(\)"),
        ({"log_prob": STEPS[0, :, 0]}, ValueError, r"`log_prob` of .* but got \(40, 2\)"),
    ],
    "compat": [
        ({"samples": None}, TypeError, "`samples` must hold real numbers, but got None"),
        ({"metric": "cosine"}, ValueError, "`metric` must be 'euclidean' or .* got 'cosine'"),
        ({"metric": None}, ValueError, "`metric` must be 'euclidean' or .* but got None"),
        ({"references": "prior"}, ValueError, "`references` must be 'random', but got 'prior'"),
        ({"references": None}, TypeError, "`points` must hold real numbers, but got None"),
        ({"num_alpha_bins": 0}, ValueError, "`num_alpha_bins` must be at least 1, but got 0"),
        ({"num_alpha_bins": "a"}, TypeError, "`num_alpha_bins` must be a whole .* but got 'a'"),
        ({"num_alpha_bins": 10**12}, ValueError, "`num_alpha_bins` = 1000000000000 would take"),
        ({"num_bootstrap": 0}, ValueError, "`num_bootstrap` must be at least 1, but got 0"),
        ({"num_bootstrap": 10**12}, ValueError, "`num_bootstrap` = 1000000000000 would take"),
        ({"norm": THETA}, TypeError, r"`norm` must be True or False, but got an array of shape"),
        ({"bootstrap": "yes"}, TypeError, "`bootstrap` must be True or False, but got 'yes'"),
        ({"seed": -1}, ValueError, "`seed` must not be negative, but got -1"),
        ({"seed": "a"}, TypeError, "`seed` must be a non-negative integer, .* but got 'a'"),
    ],
}  # fmt: skip
CALLS = [(name, *row) for name, rows in BAD.items() for row in rows]

# On the command line, the words, and what is said.
COMMANDS = [
    ([], None),
    (["check"], "Missing argument 'FILES...'"),
    (["tarp", "none.npz"], "there is no file 'none.npz'."),
    (["tarp", "text.npz"], "does not start as such a file does"),
    (["tarp", "a.npz", "--level", "2"], "'--level': 2.0 is not in the range"),
    (["tarp", "a.npz", "--level", "a"], "'--level': 'a' is not a valid number"),
    (["sbc", "a.npz", "--rng", "-1"], "'--rng': -1 is not in the range"),
    (["sbc", "a.npz", "--rng", "x"], "'--rng': 'x' is not a valid integer"),
    (["hpd", "a.npz"], "`log_prob_samples` (n_draws, n_sims)"),
    (["check", "a.npz", "--n-swaps", "3"], "`n_swaps` must be at least 19 at level 0.05, but"),
    (["check", "a.npz", "--n-swaps", "1000000000"], "`n_swaps` = 1000000000 would take about"),
    (["check", "a.npz", "--array", "samples"], "'samples' is not ROLE=NAME"),
    (["check", "a.npz", "--array", "samples=b"], "there is no array 'b' to use as `samples`"),
    (["check", "a.npz", "--array", "draws=b"], "`arrays` must name arrays for"),
    (["check", "a.npz", "--fail-on", "always"], "'--fail-on': 'always' is not one of"),
    (["check", "a.npz", "--max-bias", "0"], "'--max-bias': 0.0 is not in the range"),
    (["check", "a.npz", "--on-invalid", "skip"], "'--on-invalid': 'skip' is not one of"),
    (["check", "a.npz", "--theta", "b.npz"], "there is no file"),
    (["check", "a.npz", "--plot", "a.doc"], "a figure must end with .png, .pdf or .svg, but got"),
    (["check", "a.npz", "--report", "no/r.html"], "there is no folder 'no'"),
    (["check", "a.npz", "--shard", "2/2", "--resume", "b"], "'2/2' is not i/n with i from 0"),
    (["check", "a.npz", "--shard", "0/2"], "add --resume FOLDER."),
    (["check", "a.npz", "--most-bytes", "0"], "'--most-bytes': 0 is not in the range"),
    (["inspect", "none.h5"], "there is no file 'none.h5'."),
    (["merge", "none"], "there is no folder 'none'."),
    (["plan", "0", "--bias", "0.3"], "0 is not in the range"),
    (["plan", "2"], "give a --bias up to 1.6 or a --width up to 0.5"),
    (["plan", "2", "--bias", "2"], "--bias must be a number from 0 to 1.6, but got 2.0."),
    (["plan", "2", "--width", "0.9"], "--width must be a number from 0 to 0.5, but got 0.9."),
    (["plan", "2", "--n-sims", "19"], "'--n-sims': 19 is not in the range x>=20"),
    (["plan", "2", "--n-sims", "30", "--bias", "0.3"], "but got bias 0.3, width 0 and 30 sim"),
    (["plan", "2", "--bias", "0.3", "--n-draws", "3"], "'--n-draws': 3 is not in the range"),
    (["reproduce", "everything"], "`name` must be one of 'method'"),
    (["run", "none.py"], "none.py"),
    (["fly"], "No such command 'fly'"),
]


def test_the_tables_are_long():
    assert len(CALLS) + len(COMMANDS) >= 250
    assert set(BAD) == set(GOOD)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.filterwarnings("ignore:neighbouring draws", "ignore:chains of", "ignore:the chains")
def test_what_bad_calls_change_works(name):
    function, given = GOOD[name]
    function(**given)
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "changed", "kind", "said"),
    CALLS,
    ids=[f"{row[0]}-{k}" for k, row in enumerate(CALLS)],
)
@pytest.mark.filterwarnings("ignore:neighbouring draws", "ignore:chains of", "ignore:the chains")
def test_a_bad_call_is_answered_by_a_sentence_of_ours(name, changed, kind, said):
    function, given = GOOD[name]
    with pytest.raises(kind, match=said) as raised:
        function(**given | changed)
    plt.close("all")
    is_ours(raised.value)


@functools.cache
def raising(path):
    """Return the lines of a file that belong to a statement that raises."""
    nodes = ast.walk(ast.parse(Path(path).read_text()))
    found = [range(n.lineno, n.end_lineno + 1) for n in nodes if isinstance(n, ast.Raise)]
    return {line for lines in found for line in lines}


def not_ours(error):
    """Return why an error is none that the package raises in a sentence; nothing if it is."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{last.filename}:{last.lineno} in {last.name}"
    # Functions that are compiled have no lines: their errors seem to be those of their callers.
    if SRC not in Path(last.filename).parents or last.lineno not in raising(last.filename):
        return f"{type(error).__name__} of {place}"
    message = str(error)
    if not message.endswith("."):
        return f"no full stop at {place}"
    if not message.isprintable() or len(message) > 2000:
        return f"unprintable or too long at {place}"
    return "" if "`" in message or "'" in message else f"names nothing at {place}"


def is_ours(error):
    assert type(error) in (TypeError, ValueError, FileNotFoundError)
    assert not not_ours(error)


@pytest.mark.parametrize(("words", "said"), COMMANDS, ids=lambda value: str(value)[:40])
def test_a_bad_command_leaves_with_2_and_a_sentence(words, said):
    np.savez("a.npz", **DATA)
    Path("text.npz").write_text("sim,a\n0,1\n")
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 2
    if said is not None:
        assert said in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr


def test_random_calls_are_answered_too():
    """A short run of the fuzzer, the same every time; it knows the tables above."""
    fuzz = runpy.run_path(str(Path(__file__).with_name("fuzz_calls.py")))
    finds = fuzz["finds"](n_rounds=1, n_calls=400, seconds=60)
    assert not finds


def test_what_the_fuzzer_found_that_must_work():
    assert RESULT.band(1e-320).high[1] <= RESULT.band(0.5).high[1]
    with pytest.warns(UserWarning, match="every draw is as far from its reference"):
        assert tarpon.tarp(SIMS, metric=metrics.Lp(10**30), rng=0).p_value > 0
    assert tarpon.tarp(SIMS, reference=references.Normal(0.0, -0.0), rng=0).p_value > 0


def test_threads_that_cannot_be_counted(monkeypatch):
    for given in ("abc", "0", "-1", "1.5"):
        monkeypatch.setenv("TARPON_THREADS", given)
        with pytest.raises(ValueError, match=f"`TARPON_THREADS` must .* but got '{given}'") as bad:
            tarpon.sbc(SIMS, rng=0)
        is_ours(bad.value)
    monkeypatch.setenv("TARPON_THREADS", " 2 ")
    assert tarpon.sbc(SIMS, rng=0).p_value == RESULT.p_value


def test_a_table_with_a_byte_order_mark_is_read():
    rows = "sim,a,true_a\n0,1.5,2\n0,1,2\n1,0,3\n1,1,3\n"
    Path("plain.csv").write_text(rows)
    Path("marked.csv").write_text(rows, encoding="utf-8-sig")
    marked, plain = files.load("marked.csv"), files.load("plain.csv")
    assert marked.names == plain.names == ("a",)
    np.testing.assert_array_equal(marked.samples, plain.samples)

"""Gravitational lensing: two diffusion samplers of a lensed galaxy, one of them biased."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

from .. import plots
from .._base import optional
from .._base.arrays import Results
from .._base.threads import n_allowed
from .._base.types import Array, Floats
from ..checks import Check, check
from ..diagnostics import tarp
from ..engine import Engine
from ..problems import Lensing
from ..problems.lensing.galaxies import N_SIDE
from ..references import Prior
from ..simulations import Simulations
from ._lab import Answer, Claim, Lab, Outcome, curve, distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..problems.lensing import Sampler

_SAMPLERS = ("exact", "biased")
_NOISE = 0.1
_STEPS = (300, 100)  # in full, and quick


def lensing(lab: Lab) -> Outcome:
    """Sources of lensed galaxies, drawn with the exact and with an approximate likelihood."""
    problem = Lensing(lab.prior, noise=_NOISE)
    theta, x = problem.simulate(lab.size(500, 60), np.random.default_rng(lab.seed))
    sampler = problem.sampler(*_SAMPLERS, n_steps=lab.size(*_STEPS), device=device(lab))
    folder = lab.out / ".lensing"
    draws = chained(lab, sampler, x, lab.size(1000, 30), folder)
    studies = {name: as_fields(one, theta, x, sampler.device) for name, one in draws.items()}
    results = {
        name: tarp(sims, reference=Prior(problem.prior), rng=lab.seed)
        for name, sims in studies.items()
    }
    checks = {
        name: check(sims, n_swaps=lab.n_swaps, rng=lab.seed)
        for name, sims in lab.track(studies.items(), len(studies), "check")
    }
    outcome = Outcome(
        figures={
            "lensing": plots.panels({"lensed galaxies, 256 pixels": results}),
            "lensing-example": _reconstruction(problem, theta[0], x[0], draws["exact"][:, 0]),
            "lensing-maps": plots.maps(checks["biased"]),
            "lensing-spectrum": _spectra(checks),
        },
        claims=[
            Claim("exact: p-value", results["exact"].p_value, low=0.01),
            Claim("biased: distance", distance(results["biased"]), low=0.2),
            *_against_law(sampler, x, draws),
        ],
        answers=[Answer.of(name, {"TARP": results[name]}, checks[name]) for name in _SAMPLERS],
        numbers={name: curve(result) for name, result in results.items()},
    )
    shutil.rmtree(folder)
    return outcome


def chained(
    lab: Lab, sampler: "Sampler", x: Floats, n_draws: int, folder: Path
) -> dict[str, Array]:
    """Return draws `(n_draws, n_sims, n_dims)` by sampler.

    Blocks of simulations are kept in the folder, so that an interrupted experiment can resume.
    """
    n_block = 5 if sampler.device == "cpu" else 50
    rows = [slice(start, start + n_block) for start in range(0, len(x), n_block)]
    covariance = np.round(sampler.problem.galaxies.covariance, 9)
    n_steps = max(len(chain.kick) for chain in sampler.chains.values())
    about = {"x": x, "n_draws": n_draws, "n_steps": n_steps, "n_block": n_block,
             "device": sampler.device, "covariance": covariance}  # fmt: skip

    def chains(some: slice) -> Results:
        return sampler(x[some], n_draws, np.random.default_rng([lab.seed, some.start]))

    draws = {name: np.empty((len(x), n_draws, len(covariance)), "f4") for name in sampler.chains}
    with ThreadPoolExecutor(n_allowed()) as pool:
        executor = pool if sampler.device == "cpu" else None
        engine = Engine(executor=executor, resume=folder, progress=lab.progress)
        run = engine.start(lambda: about, lab.seed)
        blocks = run.compute("chains", chains, rows.__getitem__, len(rows))
        for some, block in zip(rows, blocks, strict=True):
            for name, array in block.items():
                draws[name][some] = array
    return {name: array.swapaxes(0, 1) for name, array in draws.items()}


def device(lab: Lab) -> str:
    if lab.device != "auto":
        return lab.device
    torch = optional.installed("torch")
    return "cuda" if torch is not None and torch.cuda.is_available() else "cpu"


def as_fields(draws: Array, theta: Floats, x: Floats, device: str) -> Simulations:
    """Return sources as fields, with draws where the chains ran, so that they are tested there."""
    shape = (N_SIDE, N_SIDE)
    samples = _beside_chains(draws, device).reshape(*draws.shape[:2], *shape)
    return Simulations(samples, theta.reshape(-1, *shape), x=x)


def _beside_chains(draws: Array, device: str) -> Any:
    """Return draws on the device of the chains."""
    if device == "cpu":
        return draws
    torch = optional.package("torch")
    return torch.from_numpy(np.array(draws.swapaxes(0, 1))).to(device).swapaxes(0, 1)


def _against_law(sampler: "Sampler", x: Floats, draws: dict[str, Array]) -> Iterator[Claim]:
    """Compare the mean of each simulation's draws with the closed-form law of its chain."""
    mean = sampler.problem.galaxies.mean
    for name, chain in sampler.chains.items():
        gain, covariance = chain.law()
        expected = mean + sampler.problem.data(x) @ gain.T
        off = draws[name].mean(axis=0, dtype=float) - expected
        whitened = np.linalg.solve(np.linalg.cholesky(covariance), off.T)
        scatter = float((whitened**2).mean()) * len(draws[name])
        margin = 6 * float(np.sqrt(2 / whitened.size))
        yield Claim(
            f"{name}: scatter of means about their closed-form law, relative",
            scatter, 1 - margin, 1 + margin,
        )  # fmt: skip


def _spectra(checks: dict[str, Check]) -> "Figure":
    """Draw the power of truths over that of draws, sampler by sampler."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for ax, (name, found) in zip(axes, checks.items(), strict=True):
        plots.spectrum(found, ax=ax).set_title(name, loc="right")
    return figure


def _reconstruction(problem: Lensing, theta: Floats, x: Floats, draws: Array) -> "Figure":
    """Draw one source and its image: truth, mean, spread and what is left."""
    lensed = draws @ problem.matrix.T.astype(draws.dtype)
    noise = problem.noise
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    rows = (
        (theta, mean, sd, (theta - mean) / sd),
        (x / noise, lensed.mean(axis=0) / noise, lensed.std(axis=0) / noise,
         (x - lensed.mean(axis=0)) / noise),
    )  # fmt: skip
    titles = (
        ("true source", "mean of the draws", "sd of the draws", "(truth − mean) / sd"),
        ("observation", "mean, lensed", "sd, lensed", "residual"),
    )
    sides, units = (1.2, 4.0), ("brightness", "noise sd")
    figure, axes = plt.subplots(2, 4, figsize=(12, 5.2), layout="constrained")
    for k, (row, side) in enumerate(zip(axes, sides, strict=True)):
        scale = (float(min(rows[k][0].min(), 0)), float(rows[k][0].max()))
        for j, ax in enumerate(row):
            limits = scale if j < 2 else (None, None) if j == 2 else (-4.0, 4.0)
            _picture(ax, rows[k][j], side, "RdBu_r" if j == 3 else "magma", limits)
            ax.set_title(titles[k][j])
            label = "" if (k, j) == (0, 3) else units[k]
            figure.colorbar(ax.images[0], ax=ax, label=label, fraction=0.046, pad=0.03)
        row[0].set_ylabel("arc seconds")
    for ax in axes[-1]:
        ax.set_xlabel("arc seconds")
    return figure


def _picture(
    ax: "Axes",
    pixels: Array,
    side: float,
    colors: str,
    limits: tuple[float | None, float | None],
) -> None:
    n_side = int(np.sqrt(len(pixels)))
    ax.imshow(
        pixels.reshape(n_side, n_side), origin="lower", interpolation="nearest", cmap=colors,
        extent=(-side / 2, side / 2, -side / 2, side / 2), vmin=limits[0], vmax=limits[1],
    )  # fmt: skip

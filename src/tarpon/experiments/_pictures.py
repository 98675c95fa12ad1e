"""Illustrations: the test itself, two ways to count coverage, and the shapes of curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from scipy.stats import norm

from .. import plots
from .._base.types import Floats
from ..checks import check
from ..diagnostics import Result, hpd, tarp
from ..metrics import L2
from ..problems import zoo
from ..references import Fixed
from ..simulations import Simulations
from ._lab import Answer, Claim, Lab, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWS, _TRUTH, _REFERENCE, _REGION = "#D55E00", "#000000", "#0072B2", "#F0E442"
_CREDIBLE = 0.68
_POSTERIOR_SD = np.sqrt(0.2)


def method(lab: Lab) -> Outcome:
    """The test: a reference point, the ball from it to the truth, and the draws inside."""
    sims = zoo("exact", n_sims=500, n_draws=lab.size(1000, 200), n_dims=2, rng=lab.seed)
    points = np.random.default_rng(lab.seed).uniform(-2.5, 2.5, size=(sims.n_sims, 2))
    # In parameter units, so that the balls are circles.
    result = tarp(sims, reference=Fixed(points), metric=L2(scale=1.0), rng=lab.seed)
    closer = _away(sims.samples, points) < _away(sims.theta, points)
    return Outcome(
        figures={"method": _balls(sims, points, result.fractions)},
        claims=[
            Claim("largest difference of f from a count by hand",
                  float(abs(closer.mean(axis=0) - result.fractions).max()), high=1e-12),
            Claim("p-value of all 500 f", result.p_value, low=0.01),
        ],
        answers=[Answer.of("exact posterior", {"TARP": result}, check(sims, rng=lab.seed))],
        numbers={"f of the panels": result.fractions[:4].tolist()},
    )  # fmt: skip


def connection(lab: Lab) -> Outcome:
    """Coverage counted with one region per level, and with one region per truth."""
    sims = zoo("exact", n_sims=500, n_draws=lab.size(1000, 200), n_dims=1, rng=lab.seed)
    points = np.random.default_rng(lab.seed).uniform(-2.5, 2.5, size=(sims.n_sims, 1))
    tests = {"HPD": hpd(sims, rng=lab.seed)}
    tests["TARP"] = tarp(sims, reference=Fixed(points), rng=lab.seed)
    assert sims.log_prob_samples is not None
    assert sims.log_prob_theta is not None
    scores = {
        "HPD": (-sims.log_prob_samples, -sims.log_prob_theta),
        "TARP": (_away(sims.samples, points), _away(sims.theta, points)),
    }
    by_level = {name: _coverage_by_level(*score) for name, score in scores.items()}
    chosen = _two_inside_one_outside(tests["HPD"].fractions, tests["TARP"].fractions)
    return Outcome(
        figures={
            f"connection-{name.lower()}": _two_ways(
                sims, points if name == "TARP" else None, tests[name].fractions, chosen
            )
            for name in tests
        },
        claims=[
            Claim(f"{name}: largest difference between both ways, at any level",
                  float(abs(by_level[name] - result.curve.ecp[1:-1]).max()), high=1e-12)
            for name, result in tests.items()
        ],
        answers=[Answer.of("exact posterior", tests, check(sims, rng=lab.seed))],
        numbers={"simulations shown": list(chosen)},
    )  # fmt: skip


def intuition(lab: Lab) -> Outcome:
    """Why curves of TARP bend: f is near 0 or 1 for truths in the tails, else near ½."""
    rng = np.random.default_rng(lab.seed)
    n_sims, spread = 500, {"overconfident": 2.0, "correct": 1.0, "underconfident": 0.5}
    mean, z = rng.standard_normal((n_sims, 1)), rng.standard_normal((n_sims, 1))
    points = rng.uniform(-2.5, 2.5, size=(n_sims, 1))
    noise = rng.standard_normal((lab.size(1000, 200), n_sims, 1))
    studies = {
        case: Simulations(mean + _POSTERIOR_SD * noise, mean + k * _POSTERIOR_SD * z)
        for case, k in spread.items()
    }
    results = {
        case: tarp(sims, reference=Fixed(points), rng=lab.seed) for case, sims in studies.items()
    }
    from_middle = {
        case: float(abs(result.fractions - 0.5).mean()) for case, result in results.items()
    }
    return Outcome(
        figures={
            "intuition": _rows(studies, mean, points, results),
            "intuition-curves": plots.panels(
                {case: {"TARP": result} for case, result in results.items()}
            ),
        },
        claims=[
            Claim("overconfident: mean distance of f from ½", from_middle["overconfident"], 0.3),
            Claim("correct: the same", from_middle["correct"], 0.22, 0.28),
            Claim("underconfident: the same", from_middle["underconfident"], high=0.2),
        ],
        answers=[
            Answer.of(case, {"TARP": results[case]}, check(sims, rng=lab.seed))
            for case, sims in studies.items()
        ],
        numbers={"mean distance of f from 1/2": from_middle},
    )


def _away(points: Floats, references: Floats) -> Floats:
    return np.sqrt(((points - references) ** 2).sum(axis=-1))


def _coverage_by_level(draws: Floats, truths: Floats) -> Floats:
    """Return the share of truths in the region of each level, which contains k draws."""
    return (truths <= np.sort(draws, axis=0)).mean(axis=1)


def _two_inside_one_outside(*fractions: Floats) -> tuple[int, ...]:
    inside = np.all([test <= _CREDIBLE for test in fractions], axis=0)
    outside = np.all([test > _CREDIBLE for test in fractions], axis=0)
    return (*np.flatnonzero(inside)[:2].tolist(), int(np.flatnonzero(outside)[0]))


def _balls(sims: Simulations, points: Floats, fractions: Floats) -> "Figure":
    figure, axes = plt.subplots(1, 4, figsize=(11, 4.0), sharex=True, sharey=True)
    figure.set_layout_engine("constrained")
    for i, ax in enumerate(axes):
        truth, reference = sims.theta[i], points[i]
        radius = float(_away(truth, reference))
        ax.add_patch(Circle(tuple(reference), radius, color=_REGION, alpha=0.45, linewidth=0,
                            label="ball to the truth"))  # fmt: skip
        ax.plot(*sims.samples[:300, i].T, ".", color=_DRAWS, markersize=2.5, label="draws")
        ax.plot(*reference, "D", color=_REFERENCE, markersize=7, label="reference θᵣ")
        ax.plot(*truth, "*", color=_TRUTH, markersize=12, label="truth θ*")
        ax.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), aspect="equal")
        ax.set_xlabel(f"θ₁\nf = {fractions[i]:.2f}")
        ax.set_title(f"simulation {i + 1}")
    axes[0].set_ylabel("θ₂")
    plots.one_legend(figure)
    return figure


def _two_ways(
    sims: Simulations, points: Floats | None, fractions: Floats, chosen: Sequence[int]
) -> "Figure":
    assert sims.x is not None
    mean = (0.8 * sims.x[:, 0]).tolist()
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.2), sharex=True, sharey=True)
    figure.set_layout_engine("constrained")
    for (top, bottom), i in zip(axes.T, chosen, strict=True):
        reference = None if points is None else float(points[i, 0])
        centre = mean[i] if reference is None else reference
        away = np.sort(abs(sims.samples[:, i, 0] - centre))
        radius = float(away[int(_CREDIBLE * len(away)) - 1])
        truth = float(sims.theta[i, 0])
        inside = "inside" if abs(truth - centre) <= radius else "outside"
        _posterior(top, mean[i], truth, reference, centre, radius)
        top.set_title(f"{_CREDIBLE:.0%} region: truth {inside}")
        _posterior(bottom, mean[i], truth, reference, centre, abs(truth - centre))
        verb = "≤" if fractions[i] <= _CREDIBLE else ">"
        bottom.set_title(f"region of the truth: f = {fractions[i]:.2f} {verb} {_CREDIBLE}")
        bottom.set_xlabel("θ")
    for ax in axes[:, 0]:
        ax.set_ylabel("Posterior density")
    plots.one_legend(figure)
    return figure


def _posterior(
    ax: "Axes", mean: float, truth: float, reference: float | None, centre: float, radius: float
) -> None:
    """Plot a posterior, a region in it, the truth and the reference."""
    grid = np.linspace(-4, 4, 801)
    density = norm.pdf(grid, mean, _POSTERIOR_SD)
    ax.plot(grid, density, color=_DRAWS, linewidth=1.4, label="posterior estimate")
    ax.fill_between(grid, density, where=abs(grid - centre) <= radius, color=_REGION, alpha=0.7,
                    linewidth=0, label="region")  # fmt: skip
    ax.axvline(truth, color=_TRUTH, linewidth=1.4, label="truth θ*")
    if reference is not None:
        ax.axvline(reference, color=_REFERENCE, linewidth=1.4, linestyle="--",
                   label="reference θᵣ")  # fmt: skip
    ax.set(xlim=(-3.6, 3.6), ylim=(0, 1.05 * float(norm.pdf(0, 0, _POSTERIOR_SD))))


def _rows(
    studies: dict[str, Simulations], mean: Floats, points: Floats, results: dict[str, Result]
) -> "Figure":
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.2), sharex=True, sharey=True)
    figure.set_layout_engine("constrained")
    for row, case in zip(axes, ("overconfident", "underconfident"), strict=True):
        for i, ax in enumerate(row):
            truth, reference = float(studies[case].theta[i, 0]), float(points[i, 0])
            _posterior(ax, float(mean[i, 0]), truth, reference, reference, abs(truth - reference))
            ax.set_title(f"{case}: f = {results[case].fractions[i]:.2f}")
        row[0].set_ylabel("Posterior density")
    for ax in axes[-1]:
        ax.set_xlabel("θ")
    plots.one_legend(figure)
    return figure

"""How many steps does a sampler need? Lensed galaxies, drawn with few and with many steps."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from .._base.types import Floats
from ..bases import Fourier
from ..checks import Check, check
from ..diagnostics import tarp
from ..problems import Lensing
from ..problems.lensing import SAMPLERS, Chain
from ..problems.lensing.galaxies import N_SIDE
from ..references import Prior
from ._lab import Answer, Claim, Lab, Outcome
from ._lensing import as_fields, chained, device

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STEPS = (10, 14, 20, 30, 100, 300, 1000)
_FEW_STEPS = (20, 100)  # of a quick run
_TOO_FEW, _ENOUGH = 20, 100
_N_SIMS, _N_DRAWS = (400, 100), 50  # in full, and quick
_SHAPE = (N_SIDE, N_SIDE)
_ERRORS = ("width", "power")
_TICKS = (-0.2, -0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2, 0.5, 1, 3, 10)


@dataclass(frozen=True, eq=False)
class _Study:
    """One sampler with one number of steps.

    Arguments:
        sampler: Its name.
        n_steps: The number of steps.
        check: What `check` says.
        answer: What the paper's test and `check` say.
        law: Width and power of the draws over those of the truths in each band, by the
            closed-form law of the chain.
    """

    sampler: str
    n_steps: int
    check: Check
    answer: Answer
    law: dict[str, Floats]

    def measured(self, error: str) -> Floats:
        """Return draws over truths in each band, with the ends of 95 %, `(n_bands, 3)`."""
        sizes = [getattr(band, error) for band in self.check.evidence.bands]
        return np.array([(1 / size.value, 1 / size.high, 1 / size.low) for size in sizes])


def steps(lab: Lab) -> Outcome:
    """Exact and biased score, with ten to a thousand steps: which scale fails first, and how."""
    problem = Lensing(lab.prior)
    theta, x = problem.simulate(lab.size(*_N_SIMS), np.random.default_rng(lab.seed))
    studies = [
        study
        for n_steps in (_FEW_STEPS if lab.quick else _STEPS)
        for study in _studies(lab, problem, theta, x, n_steps)
    ]
    return Outcome(
        figures={"steps": _curves(studies), "steps-verdict": _verdicts(studies)},
        claims=[*_p_values(studies), *_sizes(studies)],
        answers=[study.answer for study in studies],
        tables={
            "Width of the draws over that of the truths, by wavelength in cells": [
                {"score": study.sampler, "steps": study.n_steps}
                | dict(zip(_names(studies), _in_words(study), strict=True))
                for study in _by_sampler(studies)
            ],
            "All findings": list(_findings(studies)),
        },
        numbers={study.answer.case: _numbers(study) for study in studies},
    )


def _studies(
    lab: Lab, problem: Lensing, theta: Floats, x: Floats, n_steps: int
) -> Iterator[_Study]:
    """Yield the studies of both samplers with one number of steps, which share all noise."""
    sampler = problem.sampler(*SAMPLERS, n_steps=n_steps, device=device(lab))
    folder = lab.out / f".steps-{n_steps}"
    draws = chained(lab, sampler, x, _N_DRAWS, folder)
    for name in lab.track(SAMPLERS, len(SAMPLERS), f"check, {n_steps} steps"):
        sims = as_fields(draws[name], theta, x, sampler.device)
        found = check(sims, n_swaps=lab.n_swaps, rng=lab.seed)
        result = tarp(sims, reference=Prior(problem.prior), rng=lab.seed)
        answer = Answer.of(f"{name} score, {n_steps} steps", {"TARP": result}, found)
        law = _law(problem, sampler.chains[name], sims.n_draws)
        yield _Study(name, n_steps, found, answer, law)
    shutil.rmtree(folder)


def _law(problem: Lensing, chain: Chain, n_draws: int) -> dict[str, Floats]:
    r"""Return width and power of the draws over those of the truths in each band.

    The chain ends in :math:`N(G w, S)`, and the posterior is :math:`N(P w / \sigma_n^2, P)`, so
    truths scatter about the mean of the draws by :math:`P + B C B^T` with
    :math:`B = G - P / \sigma_n^2` and :math:`C` the covariance of the data :math:`w`.
    """
    gain, covariance = chain.law()
    posterior = problem.posterior(np.zeros((1, len(problem.matrix))))[1]
    prior, mean = problem.galaxies.covariance, problem.galaxies.mean
    curvature = problem.matrix.T @ problem.matrix
    data = curvature @ prior @ curvature + problem.noise**2 * curvature
    bias = gain - posterior / problem.noise**2
    own, n = _by_band(covariance), n_draws
    # Of the truth about the mean of the draws, and of both about the mean of all points.
    truth = _by_band(posterior + bias @ data @ bias.T) + own / n
    draws = own * (n - 1) / n + truth / (n + 1) ** 2
    fixed = np.outer(mean, mean)
    power = _by_band(fixed + gain @ data @ gain.T + covariance) / _by_band(fixed + prior)
    return {"width": np.sqrt(draws / (truth * (n / (n + 1)) ** 2)), "power": power}


def _by_band(moment: Floats) -> Floats:
    """Return the power of a field with a second moment `(n_cells, n_cells)` in each band."""
    waves = Fourier().coefficients(np.eye(len(moment)), _SHAPE)
    power = np.einsum("ij,ik,jk->k", moment, waves, waves, optimize=True)
    labels = Fourier().bands(_SHAPE).labels
    return np.bincount(labels, weights=power).astype(float)


def _p_values(studies: Sequence[_Study]) -> Iterator[Claim]:
    for study in _by_sampler(studies):
        what, p_value = f"{study.answer.case}: p-value of check", study.check.p_value
        if study.sampler == "biased" or study.n_steps <= _TOO_FEW:
            yield Claim(what, p_value, high=0.01)
        elif study.n_steps >= _ENOUGH:
            yield Claim(what, p_value, low=0.01)


def _sizes(studies: Sequence[_Study]) -> Iterator[Claim]:
    by_steps = {(study.sampler, study.n_steps): study for study in studies}
    most = max(study.n_steps for study in studies)
    few, enough, last = (
        abs(by_steps[case].law["width"] - 1)
        for case in (("exact", _TOO_FEW), ("exact", _ENOUGH), ("biased", most))
    )
    which = f"exact score, {_TOO_FEW} steps"
    yield Claim(f"{which}: largest error of a width", float(few.max()), low=0.02)
    yield Claim(f"{which}: scale with the largest error, 0 is the smallest", int(few.argmax()),
                low=0, high=0)  # fmt: skip
    yield Claim(f"exact score, {_ENOUGH} steps: largest error of a width", float(enough.max()),
                high=0.01)  # fmt: skip
    yield Claim(f"biased score, {most} steps: largest error of a width", float(last.max()),
                low=0.1)  # fmt: skip
    # 2 × 14 × 8 sizes: all of them lie within 6 standard errors but for once in 10^6 runs.
    for error in _ERRORS:
        off = max(float(_off(study, error).max()) for study in studies)
        yield Claim(f"{error}: largest distance from the closed form, in standard errors", off,
                    high=6)  # fmt: skip


def _off(study: _Study, error: str) -> Floats:
    """Return the distance of the measured sizes from the law of the chain, in standard errors."""
    value, low, high = np.log(study.measured(error)).T
    return abs(value - np.log(study.law[error])) / ((high - low) / (2 * 1.96))


def _findings(studies: Sequence[_Study]) -> Iterator[dict[str, Any]]:
    for study in _by_sampler(studies):
        said = [str(finding) for finding in study.check.findings] or [study.check.outcome]
        for words in said:
            yield {"score": study.sampler, "steps": study.n_steps, "`check` says": words}


def _by_sampler(studies: Sequence[_Study]) -> list[_Study]:
    return sorted(studies, key=lambda study: (SAMPLERS.index(study.sampler), study.n_steps))


def _names(studies: Sequence[_Study]) -> list[str]:
    return [band.name for band in studies[0].check.evidence.bands]


def _in_words(study: _Study) -> list[str]:
    return [_ratio(value) for value in study.measured("width")[:, 0]]


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.3g}"


def _numbers(study: _Study) -> dict[str, Any]:
    numbers = {
        error: {
            "measured, low and high": _rounded(study.measured(error)),
            "closed form": _rounded(study.law[error]),
        }
        for error in _ERRORS
    }
    return {"p_value": study.check.p_value, "bands": _names([study]), **numbers}


def _rounded(values: Floats) -> Any:
    return np.vectorize(lambda value: float(f"{value:.5g}"))(values).tolist()


def _curves(studies: Sequence[_Study]) -> "Figure":
    """Draw the errors of every scale against the number of steps."""
    figure, axes = plt.subplots(
        2, 2, figsize=(11, 8), sharex=True, sharey=True, layout="constrained"
    )
    for row, error in zip(axes, _ERRORS, strict=True):
        for ax, sampler in zip(row, SAMPLERS, strict=True):
            _errors(ax, [study for study in studies if study.sampler == sampler], error)
        row[0].set_ylabel(f"{error.capitalize()} of draws / that of truths − 1")
    for ax, sampler in zip(axes[0], SAMPLERS, strict=True):
        ax.set_title(f"{sampler} score")
    for ax in axes[-1]:
        ax.set_xlabel("Number of steps")
    axes[0, 1].legend(title="wavelength / cells", fontsize="small", loc="upper right")
    return figure


def _errors(ax: "Axes", studies: Sequence[_Study], error: str) -> None:
    """Draw one kind of error of a sampler: dots are measured, lines are the closed form."""
    n_steps = np.array([study.n_steps for study in studies])
    law = np.array([study.law[error] for study in studies]) - 1
    sizes = np.stack([study.measured(error) for study in studies]) - 1
    value, low, high = (sizes[..., k] for k in range(3))
    names = _names(studies)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.92, len(names)))
    for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
        at = n_steps * 1.02 ** (k - len(names) / 2)  # side by side
        ax.plot(n_steps, law[:, k], color=colour, linewidth=1.1)
        reach = [value[:, k] - low[:, k], high[:, k] - value[:, k]]
        ax.errorbar(at, value[:, k], yerr=reach, fmt="o", markersize=3.5, color=colour, label=name)
    ax.axhline(0, color="#888888", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=0.2, linscale=2)
    ax.set_ylim(_TICKS[0], _TICKS[-1])
    ax.set_xticks(n_steps, [str(n) for n in n_steps])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(_TICKS, [f"{tick:+.0%}".replace("-", "−") for tick in _TICKS])


def _verdicts(studies: Sequence[_Study]) -> "Figure":
    """Draw the verdict and the width of every scale, by number of steps."""
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 4.2), sharey=True, layout="constrained")
    for ax, sampler in zip(axes, SAMPLERS, strict=True):
        own = [study for study in studies if study.sampler == sampler]
        sizes = np.stack([study.measured("width") for study in own])
        value, low, high = (sizes[..., k] for k in range(3))
        image = ax.imshow(np.log2(value).T, cmap="RdBu_r", vmin=-0.4, vmax=0.4, aspect="auto")
        clear = (low > 1) | (high < 1)
        for (j, k), size in np.ndenumerate(value):
            ax.text(j, k, _ratio(float(size)), ha="center", va="center", fontsize="small",
                    weight="bold" if clear[j, k] else "normal",
                    color="w" if abs(np.log2(size)) > 0.25 else "k")  # fmt: skip
        ax.set_yticks(range(len(_names(own))), _names(own))
        ax.set_xticks(range(len(own)), [_verdict(study) for study in own], fontsize="small")
        ax.set_title(f"{sampler} score")
        ax.set_xlabel("Number of steps, and p-value of check")
    axes[0].set_ylabel("Wavelength / cells")
    bar = figure.colorbar(image, ax=axes, extend="both", ticks=np.log2([0.8, 0.9, 1, 1.1, 1.25]))
    bar.set_ticklabels(["0.80", "0.90", "1", "1.10", "1.25"])
    bar.set_label("Width of draws / that of truths")
    return figure


def _verdict(study: _Study) -> str:
    passed = study.check.p_value > study.check.level
    return f"{study.n_steps}\n{'passes' if passed else 'FAILS'}\n{study.check.p_value:.3f}"

"""Flaws that TARP with its usual references cannot detect, and `check` can."""

from typing import TYPE_CHECKING

import numpy as np

from .. import plots
from ..checks import check
from ..diagnostics import Result, tarp
from ..problems import FLAWS, zoo
from ..simulations import Simulations
from ._lab import LEVEL, Answer, Claim, Lab, Outcome, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = ("prior", "shift", "correlation_missed", "skew", "mode_invented", "local_width")
_N_DIMS = 10


def blindspots(lab: Lab) -> Outcome:
    """Six wrong estimators with curves inside the band."""
    studies = {flaw: _study(flaw, lab.seed) for flaw in _SHOWN}
    results = {flaw: {"TARP": tarp(sims, rng=lab.seed)} for flaw, sims in studies.items()}
    checks = {
        flaw: check(sims, n_swaps=lab.n_swaps, rng=lab.seed)
        for flaw, sims in lab.track(studies.items(), len(studies), "check")
    }
    answers = [Answer.of(FLAWS[flaw].label, results[flaw], checks[flaw]) for flaw in _SHOWN]
    rates = _rates(lab, n_studies=lab.size(40, 4))
    return Outcome(
        figures={"blindspots": _figure(results, answers)},
        claims=[
            claim
            for flaw, (by_tarp, by_check) in rates.items()
            for claim in (
                Claim(f"{FLAWS[flaw].label}: rejected by TARP", by_tarp, high=0.5),
                Claim(f"{FLAWS[flaw].label}: rejected by check", by_check, low=0.9),
            )
        ],
        answers=answers,
        tables={
            "Share of studies rejected at 5 %": [
                {"flaw": FLAWS[flaw].label, "TARP": by_tarp, "check": by_check}
                for flaw, (by_tarp, by_check) in rates.items()
            ]
        },
        numbers={
            "curves": {flaw: curve(tests["TARP"]) for flaw, tests in results.items()},
        },
    )


def _study(flaw: str, seed: int) -> Simulations:
    return zoo(flaw, n_sims=500, n_draws=100, n_dims=_N_DIMS, rng=seed)


def _rates(lab: Lab, n_studies: int) -> dict[str, tuple[float, float]]:
    studies = [(flaw, lab.seed + 1 + k) for flaw in _SHOWN for k in range(n_studies)]

    def rejected(study: tuple[str, int]) -> tuple[bool, bool]:
        sims, seed = _study(*study), study[1]
        by_check = check(sims, n_swaps=lab.size(199, 99), rng=seed).p_value <= LEVEL
        return tarp(sims, rng=seed).p_value <= LEVEL, by_check

    rejections = np.array(lab.map(rejected, studies, "rates over seeds"), dtype=float)
    shares = rejections.reshape(len(_SHOWN), n_studies, 2).mean(axis=1).tolist()
    return {flaw: (tarp, check) for flaw, (tarp, check) in zip(_SHOWN, shares, strict=True)}


def _figure(results: dict[str, dict[str, Result]], answers: list[Answer]) -> "Figure":
    by_label = {FLAWS[flaw].label: tests for flaw, tests in results.items()}
    figure = plots.panels(by_label, n_cols=3)
    for ax, answer in zip(figure.axes, answers, strict=True):
        ax.set_title(ax.get_title(), fontsize="small")
        text = f"TARP  p = {answer.tests['TARP']:.2f}\ncheck  p = {answer.check:.3f}"
        ax.text(0.97, 0.04, text, transform=ax.transAxes, ha="right", va="bottom")
    return figure

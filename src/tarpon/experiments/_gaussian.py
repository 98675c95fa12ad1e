"""The Gaussian toy: four estimators, TARP against HPD, and the choices of TARP."""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import halfnorm

from .. import metrics, plots, references
from ..checks import check
from ..diagnostics import Result, hpd, tarp
from ..problems import gaussian
from ..references import Reference
from ..simulations import Simulations
from ._lab import LEVEL, Answer, Claim, Lab, Outcome, about, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES = ("correct", "overconfident", "underconfident", "biased")
_DIMS = (1, 2, 10, 100, 1000)  # the last one takes most of the time
_FEW_DIMS = (1, 10, 100)  # of a quick run
_SHOWN_DIMS = 10
_HALF_BOX = 5.0  # parameters run from -5 to 5, and the paper scales them to 0 to 1


class _Cell(NamedTuple):
    n_dims: int
    covariance: str
    case: str

    def study(self, seed: int, n_draws: int) -> Simulations:
        full = self.covariance == "full"
        return gaussian(
            self.case, n_draws=n_draws, n_dims=self.n_dims, full=full, dtype=np.float32, rng=seed
        )


def toy(lab: Lab) -> Outcome:
    """Four estimators in 1 to 1000 dimensions, by TARP and by HPD."""
    dims = _FEW_DIMS if lab.quick else _DIMS
    cells = [_Cell(*cell) for cell in product(dims, ("diagonal", "full"), CASES)]
    n_draws, n_studies = lab.size(200, 50), lab.size(100, 10)
    tests = lab.map(lambda cell: _both(cell.study(lab.seed, n_draws), lab.seed), cells, "curves")
    results = dict(zip(cells, tests, strict=True))
    rates = _rates(lab, cells, n_studies)
    checked = [cell for cell in cells if cell.covariance == "diagonal"]
    if lab.quick:
        checked = [cell for cell in checked if cell.n_dims == _SHOWN_DIMS]
    return Outcome(
        figures={
            "gaussian": plots.panels(
                {case: results[_Cell(_SHOWN_DIMS, "diagonal", case)] for case in CASES}
            ),
            "gaussian-dimensions": _every_dimension(dims, results, rates),
        },
        claims=list(_claims(rates, n_studies)),
        answers=[
            Answer.of(
                f"{cell.case}, D = {cell.n_dims}",
                results[cell],
                check(cell.study(lab.seed, n_draws), n_swaps=lab.n_swaps, rng=lab.seed),
            )
            for cell in lab.track(checked, len(checked), "check")
        ],
        tables={f"Share of {n_studies} studies rejected at 5 %": _rate_table(dims, rates)},
        numbers={
            "curves": [
                cell._asdict() | {"test": name} | curve(result)
                for cell, tests in results.items()
                for name, result in tests.items()
            ],
        },
    )


def choices_of_reference(lab: Lab) -> Outcome:
    """The same four estimators, with every distribution of reference points of the paper."""
    width = 2 * _HALF_BOX
    choices: dict[str, Reference] = {
        "U(0, 1)": references.Uniform(-_HALF_BOX, _HALF_BOX),
        "U(0, 0.5)": references.Uniform(-_HALF_BOX, 0.0),
        "N(0.5, 0.01²)": references.Normal(0.0, 0.01 * width),
        "N(0.5, 0.05²)": references.Normal(0.0, 0.05 * width),
        "N(0.5, 0.1²)": references.Normal(0.0, 0.1 * width),
        "fixed at 0.5": references.Fixed(np.zeros(_SHOWN_DIMS)),
        "fixed at 0.2": references.Fixed(np.full(_SHOWN_DIMS, -0.3 * width)),
    }
    return _choices(
        lab, "references", {name: {"reference": choice} for name, choice in choices.items()}
    )


def choices_of_metric(lab: Lab) -> Outcome:
    """The same four estimators, with distances L2 and L1."""
    return _choices(
        lab, "metrics", {"L2": {"metric": metrics.L2()}, "L1": {"metric": metrics.L1()}}
    )


def bias(lab: Lab) -> Outcome:
    """The function of the bias: zero at the centre, and growing outwards."""
    theta = np.linspace(-_HALF_BOX, _HALF_BOX, 2001)[1:-1]
    means = {
        sd: theta - np.sign(theta) * halfnorm.isf(1 - abs(theta) / _HALF_BOX) * sd
        for sd in (0.1, 0.3, 1.0)
    }
    figure, ax = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
    ax.plot(theta, theta, color="#999999", linewidth=0.8, label="no bias")
    for (sd, mean), dash in zip(means.items(), ("-", "--", "-."), strict=True):
        ax.plot(theta, mean, dash, label=f"σ = {sd:g}")
    ax.set(xlabel="True value θ*", ylabel="Mean of the posterior estimate")
    ax.legend(frameon=False)
    sims = gaussian("biased", n_dims=1, n_draws=lab.size(1000, 200), rng=lab.seed)
    tests = _both(sims, lab.seed)
    off = abs(means[1.0] - theta)
    return Outcome(
        figures={"bias": figure},
        claims=[
            Claim("bias at the centre / σ", float(off.min()), high=1e-9),
            Claim("bias at the edge / σ", float(off.max()), low=3.0),
            Claim("p-value of HPD, blind to it", tests["HPD"].p_value, low=0.01),
            Claim("p-value of TARP", tests["TARP"].p_value, high=1e-6),
        ],
        answers=[Answer.of("biased, D = 1", tests, check(sims, rng=lab.seed))],
        numbers={"theta": theta[::40].tolist(), "mean at σ = 1": means[1.0][::40].tolist()},
    )


def _both(sims: Simulations, seed: int) -> dict[str, Result]:
    return {"TARP": tarp(sims, rng=seed), "HPD": hpd(sims, rng=seed)}


def _rates(lab: Lab, cells: list[_Cell], n_studies: int) -> dict[_Cell, dict[str, float]]:
    """Return the rate of rejection at 5 % per test, over seeds that no figure uses."""
    seeds = range(lab.seed + 1, lab.seed + 1 + n_studies)

    def rejected(study: tuple[_Cell, int]) -> list[bool]:
        cell, seed = study
        tests = _both(cell.study(seed, lab.size(50, 20)), seed)
        return [result.p_value <= LEVEL for result in tests.values()]

    rejections = np.array(lab.map(rejected, list(product(cells, seeds)), "rates over seeds"))
    means = rejections.reshape(len(cells), n_studies, 2).mean(axis=1).tolist()
    return {
        cell: {"TARP": tarp, "HPD": hpd} for cell, (tarp, hpd) in zip(cells, means, strict=True)
    }


def _claims(rates: dict[_Cell, dict[str, float]], n_studies: int) -> Iterator[Claim]:
    for case, test in product(CASES, ("TARP", "HPD")):
        shares = [rate[test] for cell, rate in rates.items() if cell.case == case]
        number = f"{case}: rejected at 5 % by {test}"
        if case == "correct" or (case, test) == ("biased", "HPD"):
            n_all = round(sum(shares) * n_studies)
            yield about(number, n_all, len(shares) * n_studies)
            yield about(f"{number}, most at any D", round(max(shares) * n_studies), n_studies)
        else:
            yield Claim(f"{number}, least at any D", min(shares), low=0.95)


def _rate_table(
    dims: tuple[int, ...], rates: dict[_Cell, dict[str, float]]
) -> list[dict[str, Any]]:
    return [
        {"D": n_dims, "covariance": covariance}
        | {
            f"{case}, {test}": rates[_Cell(n_dims, covariance, case)][test]
            for case, test in product(CASES, ("TARP", "HPD"))
        }
        for n_dims, covariance in product(dims, ("diagonal", "full"))
    ]


def _every_dimension(
    dims: tuple[int, ...],
    results: dict[_Cell, dict[str, Result]],
    rates: dict[_Cell, dict[str, float]],
) -> "Figure":
    grid = {}
    for n_dims, case in product(dims, CASES):
        grid[f"{case}, D = {n_dims}"] = {
            f"{test}, {shape}": results[_Cell(n_dims, shape, case)][test]
            for test, shape in product(("TARP", "HPD"), ("diagonal", "full"))
        }
    figure = plots.panels(grid)
    for ax, (n_dims, case) in zip(figure.axes, product(dims, CASES), strict=True):
        rate = rates[_Cell(n_dims, "diagonal", case)]
        text = "rejected\n" + "\n".join(f"{test} {share:.0%}" for test, share in rate.items())
        low = case in ("correct", "underconfident")
        ax.text(
            *((0.97, 0.04) if low else (0.03, 0.96)), text, transform=ax.transAxes,
            ha="right" if low else "left", va="bottom" if low else "top", fontsize="small",
        )  # fmt: skip
    return figure


def _choices(lab: Lab, name: str, choices: dict[str, dict[str, Any]]) -> Outcome:
    results, answers = {}, []
    for case in lab.track(CASES, len(CASES), name):
        sims = gaussian(case, n_draws=lab.size(1000, 200), n_dims=_SHOWN_DIMS, rng=lab.seed)
        results[case] = {
            label: tarp(sims, **choice, rng=lab.seed) for label, choice in choices.items()
        }
        found = check(sims, n_swaps=lab.n_swaps, rng=lab.seed)
        answers.append(Answer.of(case, results[case], found))
    p_values = {
        case: [result.p_value for result in tests.values()] for case, tests in results.items()
    }
    return Outcome(
        figures={name: plots.panels(results)},
        claims=[
            Claim(
                "correct: smallest p-value × number of choices",
                min(1.0, len(choices) * min(p_values["correct"])),
                low=0.01,
            ),
            *(
                Claim(f"{case}: largest p-value", max(p_values[case]), high=1e-3)
                for case in CASES[1:]
            ),
        ],
        answers=answers,
        numbers={
            "largest distance between two curves": {
                case: float(np.ptp([test.curve.ecp for test in tests.values()], axis=0).max())
                for case, tests in results.items()
            },
            "curves": [
                {"case": case, "choice": label} | curve(result)
                for case, tests in results.items()
                for label, result in tests.items()
            ],
        },
    )

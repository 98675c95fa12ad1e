"""tarp, sbi, BayesFlow and tarpon on the same draws: what each plots, and what it prints.

    python benchmarks/beside.py      # writes docs/images/beside.png, prints what each tool prints

Needs the environment of `make test-interop`, and `pip install tarp`.
"""

import io
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import bayesflow
import matplotlib.pyplot as plt
import numpy as np
import tarp
import torch
from matplotlib.figure import Figure
from sbi.analysis.plot import sbc_rank_plot
from sbi.diagnostics.sbc import _run_sbc, check_sbc
from sbi.diagnostics.tarp import _run_tarp, check_tarp

import tarpon

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "beside.png"
NAMES = ["mass", "spin"]
Shown = tuple[Figure, str]


def cases() -> Iterator[tuple[str, tarpon.Simulations]]:
    """Yield two sets of draws: one too narrow in a parameter, one biased with the sign of x."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 2))
    x = theta + rng.normal(size=(300, 2))
    samples = x / 2 + np.array([0.7, 0.5]) * rng.normal(size=(400, 300, 2))
    yield "spin too narrow", tarpon.Simulations(samples, theta, x=x, names=NAMES)
    sims = tarpon.problems.zoo("bias_by_x", n_sims=300, n_draws=400, rng=1)
    yield (
        "biased with the sign of x",
        tarpon.Simulations(sims.samples, sims.theta, x=sims.x, names=NAMES),
    )


def by_tarp(sims: tarpon.Simulations) -> Shown:
    """Return the curve of tarp with its bootstrap, as its README draws it."""
    samples, theta = np.array(sims.samples), np.array(sims.theta)
    ecp, level = tarp.get_tarp_coverage(samples, theta, norm=True, bootstrap=True)
    figure, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    ax.plot([0, 1], [0, 1], "k--")
    ax.plot(level, ecp.mean(axis=0))
    for k in (1, 2):
        around = ecp.mean(axis=0) + k * ecp.std(axis=0) * np.array([[-1], [1]])
        ax.fill_between(level, *around, alpha=0.2, color="C0")
    ax.set(xlabel="Credibility Level", ylabel="Expected Coverage")
    return figure, "a curve with bootstrap error bars;\nno number"


def by_sbi(sims: tarpon.Simulations) -> Shown:
    """Return the ranks that sbi plots, and the p-values of its SBC and TARP."""
    torch.manual_seed(0)
    samples, theta, x = (
        torch.as_tensor(np.array(a), dtype=torch.float32)
        for a in (sims.samples, sims.theta, sims.x)
    )
    ranks = _run_sbc(theta, x, samples, show_progress_bar=False)
    stats = check_sbc(ranks, theta, samples[0], num_posterior_samples=len(samples))
    low, high = theta.min(dim=0).values, theta.max(dim=0).values
    references = low + (high - low) * torch.rand(theta.shape)
    area, p_tarp = check_tarp(*_run_tarp(samples, theta, references))
    figure, _ = sbc_rank_plot(ranks, len(samples), parameter_labels=NAMES, figsize=(4, 4))
    p_sbc = ", ".join(f"{float(p):.2g}" for p in stats["ks_pvals"])
    return figure, f"SBC: ks_pvals {p_sbc}\nTARP: atc {float(area):.2f}, p {float(p_tarp):.2g}"


def by_bayesflow(sims: tarpon.Simulations) -> Shown:
    """Return the difference of ECDFs that BayesFlow plots, and its calibration errors."""
    samples, theta = np.array(sims.samples).swapaxes(0, 1), np.array(sims.theta)
    figure = bayesflow.diagnostics.plots.calibration_ecdf(
        samples, theta, variable_names=NAMES, difference=True, stacked=True, figsize=(4, 4),
        label_fontsize=10, legend_fontsize=9, title_fontsize=11, tick_fontsize=9,
    )  # fmt: skip
    errors = bayesflow.diagnostics.metrics.calibration_error(samples, theta)["values"]
    return (
        figure,
        f"calibration error {errors[0]:.3f}, {errors[1]:.3f};\na 95 % band per parameter",
    )


def by_tarpon(sims: tarpon.Simulations) -> Shown:
    """Return the bias and width that tarpon plots, and its first finding."""
    check = tarpon.check(sims, rng=0)
    figure, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    tarpon.plots.effects(check, ax=ax)
    if check.findings[0].trend is not None:
        figure.clear()
        tarpon.plots.trend(check.findings[0].trend, ax=figure.subplots())
    return figure, f"p = {check.p_value:.3f} (exact)\n{check.findings[0]}"


TOOLS: dict[str, Callable[[tarpon.Simulations], Shown]] = {
    f"tarp {version('tarp')}": by_tarp,
    f"sbi {version('sbi')}": by_sbi,
    f"BayesFlow {version('bayesflow')}": by_bayesflow,
    "tarpon": by_tarpon,
}


def picture(figure: Figure) -> np.ndarray:
    """Return a figure as pixels."""
    file = io.BytesIO()
    figure.savefig(file, dpi=100, bbox_inches="tight")
    plt.close(figure)
    file.seek(0)
    return plt.imread(file)


def main() -> None:
    """Draw one row per set of draws, and one column per tool."""
    warnings.simplefilter("ignore")
    shown = {case: {name: tool(sims) for name, tool in TOOLS.items()} for case, sims in cases()}
    figure, axes = plt.subplots(len(shown), len(TOOLS), figsize=(12, 6.4), layout="constrained")
    for row, (case, tools) in zip(axes, shown.items(), strict=True):
        print(f"{case}:")
        for ax, (name, (drawn, words)) in zip(row, tools.items(), strict=True):
            ax.imshow(picture(drawn))
            ax.set_title(name, fontweight="bold")
            ax.axis("off")
            print(f"  {name}: {' '.join(words.split())}")
        row[0].text(-0.06, 0.5, case, transform=row[0].transAxes, rotation=90, va="center",
                    ha="right", fontsize="large")  # fmt: skip
    figure.savefig(PICTURE, dpi=90)


if __name__ == "__main__":
    main()

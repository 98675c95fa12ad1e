"""The figure of a page about a flaw: truths among draws, and the evidence of a finding."""

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import tarpon
from tarpon import plots


def picture(sims: tarpon.Simulations, check: tarpon.Check, kind: str, parameter: int = 0) -> Any:
    """Return a figure of a parameter, and of the first finding of a kind if there is one."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.7), layout="constrained")
    _among_draws(sims, parameter, left)
    found = [finding for finding in check.findings if finding.kind == kind]
    if found and found[0].trend is not None:
        plots.trend(found[0].trend, ax=right)
    elif kind == "wrong correlation":
        plots.pair(check, ax=right)
    else:
        theta = np.asarray(sims.theta)[:, parameter : parameter + 1]
        samples = np.asarray(sims.samples)[..., parameter : parameter + 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of draws of a chain, which are meant here
            plots.ranks(tarpon.sbc(samples, theta, rng=0), ax=right)
    return figure


def _among_draws(sims: tarpon.Simulations, parameter: int, ax: Axes) -> None:
    """Draw histograms of truths and draws, in units of their posterior."""
    draws = np.asarray(sims.samples, float)[..., parameter]
    low, middle, high = np.quantile(draws, [0.16, 0.5, 0.84], axis=0)
    half = (high - low) / 2
    truths = (np.asarray(sims.theta, float)[:, parameter] - middle) / half
    bins = np.linspace(-5, 5, 41)
    both = {"draws": ((draws - middle) / half).ravel(), "truths": truths}
    for (label, values), style in zip(both.items(), ("stepfilled", "step"), strict=True):
        inside = np.clip(values, bins[0], bins[-1])
        ax.hist(
            inside, bins, density=True, histtype=style, label=label, linewidth=1.5,
            color="0.75" if style == "stepfilled" else "C0",
        )  # fmt: skip
    ax.set(xlabel="Distance from the median / width", ylabel="Density")
    ax.set_yticks([])
    ax.legend(frameon=False)


def fields(sims: tarpon.Simulations, check: tarpon.Check, *, cells: bool = False) -> Any:
    """Return a figure of a truth, of a draw, and of the power by scale or the bias by cell."""
    figure, axes = plt.subplots(1, 3, figsize=(8.2, 2.7), layout="constrained")
    shape = sims.shape
    maps = {"a truth": sims.theta[0], "a draw for it": sims.samples[0, 0]}
    largest = abs(np.asarray(sims.theta[0])).max()
    for ax, (title, cell) in zip(axes, maps.items(), strict=False):
        ax.imshow(np.reshape(cell, shape), cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set_title(title)
        ax.set_axis_off()
    if cells:
        bias = [parameter.bias.value for parameter in check.parameters]
        shown = axes[2].imshow(np.reshape(bias, shape), cmap="RdBu_r", vmin=-0.6, vmax=0.6)
        axes[2].set_title("bias / posterior sd")
        figure.colorbar(shown, ax=axes[2])
    else:
        plots.spectrum(check, ax=axes[2])
    return figure

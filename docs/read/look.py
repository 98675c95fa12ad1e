"""The figure of a page about a flaw of the zoo: its curves in three tests, and its ranks."""

import textwrap
import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import tarpon
from tarpon import plots

Tests = dict[str, "tarpon.Result | None"]


def look(sims: tarpon.Simulations) -> Any:
    """Print what the tests and a check say, and return the figure of the tests."""
    tests = _tests(sims)
    check = tarpon.check(sims, rng=1)
    print(*(f"{name} {_p_value(result)}" for name, result in tests.items()), sep="   ")  # noqa: T201
    print(f"check p = {check.p_value:.3f}: {_first(check)}")  # noqa: T201
    for words in [*map(str, check.findings[:2]), *check.warnings]:
        print(textwrap.fill(words, 88, initial_indent="- ", subsequent_indent="  "))  # noqa: T201
    return _drawn(tests)


def _tests(sims: tarpon.Simulations) -> Tests:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the chain among the flaws
        return {
            "TARP": tarpon.tarp(sims, rng=1),
            "HPD": None if sims.log_prob_samples is None else tarpon.hpd(sims, rng=1),
            "SBC": tarpon.sbc(sims, rng=1),
        }


def _first(check: tarpon.Check) -> str:
    return check.findings[0].kind if check.findings else check.outcome


def _p_value(result: "tarpon.Result | None") -> str:
    if result is None:
        return "has no density"
    return "p < 1e-6" if result.p_value < 1e-6 else f"p = {result.p_value:.1g}"


def _drawn(tests: Tests) -> Any:
    figure, axes = plt.subplots(1, 4, figsize=(8.6, 2.7), layout="constrained")
    most = max(abs(r.curve.ecp.T - r.curve.level).max() for r in tests.values() if r)
    for ax, (name, result) in zip(axes, tests.items(), strict=False):
        if result is None:
            ax.text(0.5, 0, "no density", ha="center")
        else:
            plots.difference(result, ax=ax)
        ax.set(title=name, ylim=1.1 * max(most, 0.08) * np.array([-1, 1]), xticks=[0, 0.5, 1])
        ax.label_outer()
    plots.ranks(tests["SBC"], ax=axes[3])
    axes[3].set(title="ranks of theta_0", xlabel="Rank / 101", ylabel="")
    entries = axes[2].get_legend_handles_labels()
    for ax in axes:
        if ax.get_legend():
            ax.get_legend().remove()
    figure.legend(*entries, loc="outside lower center", ncols=3, frameon=False)
    return figure

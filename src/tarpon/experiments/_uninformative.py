"""An estimator that returns the prior, and the reference points that detect it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from numpy.random import Generator

from .. import plots
from .._base.types import Floats
from ..checks import check
from ..diagnostics import Result, hpd, tarp
from ..problems import conjugate
from ..references import Around, Normal, Reference, Uniform
from ..simulations import Simulations
from ._lab import Answer, Claim, Lab, Outcome, curve, distance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLIND: dict[str, Reference] = {
    "U(0, 1)": Uniform(0, 1),
    "U(−3, 3)": Uniform(-3, 3),
    "N(0, 1)": Normal(0, 1),
}


@dataclass(frozen=True)
class FirstPlusUniform:
    """References :math:`w x_0 + u`, with :math:`x_0` observed first and :math:`u` uniform."""

    weight: float = 1.0

    def draw(self, sims: Simulations, rng: Generator) -> Floats:
        """Return points of shape `(n_sims, 1)`, which depend on `x` only."""
        assert sims.x is not None
        return self.weight * sims.x[:, :1] + rng.uniform(size=(sims.n_sims, 1))


_WEAK: dict[str, Reference] = {"0.3 x₀ + u": FirstPlusUniform(0.3)}
_STRONG: dict[str, Reference] = {
    "x₀ + u": FirstPlusUniform(),
    "x₀": Around(lambda x: x[:, :1]),
    "mean of x": Around(lambda x: x.mean(axis=1, keepdims=True)),
}


def uninformative(lab: Lab) -> Outcome:
    """Draws from the prior for every x, which TARP detects if its references depend on x."""
    seed, n_draws = lab.seed, lab.size(1000, 200)
    sims = conjugate("prior", n_draws=n_draws, rng=seed)
    exact = conjugate("posterior", n_draws=n_draws, rng=seed)
    blind, weak, strong = (
        {name: tarp(sims, reference=reference, rng=seed) for name, reference in group.items()}
        for group in (_BLIND, _WEAK, _STRONG)
    )
    three = {
        "HPD": hpd(sims, rng=seed),
        "TARP, θᵣ ~ U(0, 1)": blind["U(0, 1)"],
        "TARP, θᵣ = x₀ + u": strong["x₀ + u"],
    }
    right = {"TARP, θᵣ = x₀ + u": tarp(exact, reference=FirstPlusUniform(), rng=seed)}
    return Outcome(
        figures={
            "uninformative": plots.panels({"an estimator that returns the prior": three}),
            "uninformative-references": _by_dependence(blind, weak, strong),
        },
        claims=[
            Claim("p-value of HPD", three["HPD"].p_value, low=0.01),
            *(Claim(f"p-value of TARP, θᵣ ~ {name}", result.p_value, low=0.01)
              for name, result in blind.items()),
            *(Claim(f"distance of TARP, θᵣ = {name}", distance(result), low=0.05, high=0.3)
              for name, result in weak.items()),
            *(Claim(f"distance of TARP, θᵣ = {name}", distance(result), low=0.3)
              for name, result in strong.items()),
            Claim("p-value of TARP, θᵣ = x₀ + u, on the exact posterior",
                  right["TARP, θᵣ = x₀ + u"].p_value, low=0.01),
        ],
        answers=[
            Answer.of("returns the prior", three, check(sims, rng=seed)),
            Answer.of("exact posterior", right, check(exact, rng=seed)),
        ],
        numbers={
            name: curve(result) for name, result in (three | blind | weak | strong).items()
        },
    )  # fmt: skip


def _by_dependence(*groups: dict[str, Result]) -> "Figure":
    """Plot curves: solid if references ignore x, dash-dotted if x is weak, dotted if strong."""
    results = {name: result for group in groups for name, result in group.items()}
    figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    plots.coverage(*results.values(), labels=[f"θᵣ: {name}" for name in results], ax=ax)
    dashes = [dash for dash, group in zip(("-", "-.", ":"), groups, strict=True) for _ in group]
    for line, dash in zip(ax.lines[1:], dashes, strict=True):
        line.set(linestyle=dash)
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure

"""Formulas in names: plain in text, typeset in figures, and never an error."""

import matplotlib.pyplot as plt
import pytest

from tarpon import plots
from tarpon._base.formulas import plain

AS_TEXT = {
    r"$\Omega_m$": "Ω_m",
    r"$\sigma_8\,\Omega_m^{0.5}$": "σ_8 Ω_m^0.5",
    r"$\log_{10} M_\mathrm{halo}$": "log_10 M_halo",
    r"$M_{\rm halo}$ / $M_\odot$": "M_halo / M_⊙",
    r"$\hat{x}$": "x\u0302",
    r"$\frac{a}{b + 1}$": "a/(b + 1)",
    r"$\sqrt{\Lambda}$": "√Λ",
    r"$e_{\rm x y}$": "e_(x y)",
    "$a$ and $b$": "a and b",
    "theta_0": "theta_0",
}
NOT_FORMULAS = [
    "$\\frac", "$\\frac{", "$x_{$", "$}$", "$_$", "$\\nosuchcommand$", "$", "$$", "\\$x$",
    "costs $5 to $6", "$20,000 and $30,000", "cost $ and price $", "<b>$</b>",
]  # fmt: skip


@pytest.mark.parametrize("name", AS_TEXT)
def test_formulas_read_as_text(name):
    assert plain(name) == AS_TEXT[name]
    assert plain(AS_TEXT[name]) == AS_TEXT[name]


@pytest.mark.parametrize("name", NOT_FORMULAS)
def test_what_is_no_formula_stays_as_it_is(name):
    assert plain(name) == name
    assert plain(f"biased in {name}: by 0.2") == f"biased in {name}: by 0.2"


def drawn(words):
    """Return what matplotlib draws of a label, without the commands of mathtext."""
    figure, ax = plt.subplots()
    label = ax.set_xlabel(plots.typeset(words))
    figure.canvas.draw()
    plt.close(figure)
    text, kind = label._preprocess_math(label.get_text())
    return text if kind is False else None


@pytest.mark.parametrize("name", AS_TEXT)
def test_formulas_are_typeset(name):
    assert drawn(name) == (None if "$" in name else name)


@pytest.mark.parametrize("name", NOT_FORMULAS)
def test_other_dollars_are_drawn_as_they_are(name):
    assert drawn(name) == name
    assert drawn(f"Bias of {name}") == f"Bias of {name}"


def test_a_bad_formula_does_not_spoil_a_good_one():
    assert plain(r"$\Omega_m$ and $\frac") == r"Ω_m and $\frac"
    assert plots.typeset(r"$\Omega_m$ and $\frac") == r"$\Omega_m$ and \$\frac"
    assert drawn(r"$\Omega_m$ and $\frac") is None


def test_endless_nesting_is_no_formula():
    name = "$" + "{" * 90 + "x" + "}" * 90 + "$"
    assert plain(name) == name
    assert drawn(name) == name

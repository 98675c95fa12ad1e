r"""Formulas in names: which parts of `"$\Omega_m$ today"` are one, and how they read as text."""

import re

# As in pandoc: no space inside the dollars, and no digit behind them, so prices are no formulas.
_FORMULA = re.compile(r"(?<!\\)\$(?=[^\s$])([^$]{1,100}?)(?<=[^\s\\])\$(?!\d)")
_TOKEN = re.compile(r"\\([A-Za-z]+|.)\s*|([_^])\s*|([{}])|([^\\_^{}])", re.DOTALL)
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν",
    "xi": "ξ", "omicron": "ο", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ",
    "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
}  # fmt: skip
_SYMBOLS = {
    **_GREEK,
    **{name.capitalize(): letter.upper() for name, letter in _GREEK.items()},
    "varepsilon": "ε", "vartheta": "ϑ", "varphi": "φ", "varrho": "ϱ", "varsigma": "ς",
    "ell": "ℓ", "hbar": "ħ", "odot": "⊙", "oplus": "⊕", "star": "⋆", "ast": "∗", "dagger": "†",
    "prime": "′", "partial": "∂", "nabla": "∇", "cdot": "·", "times": "×", "pm": "±", "mp": "∓",
    "sim": "∼", "approx": "≈", "propto": "∝", "infty": "∞", "leq": "≤", "le": "≤", "geq": "≥",
    "ge": "≥", "ll": "≪", "gg": "≫", "to": "→", "rightarrow": "→", "perp": "⊥", "parallel": "∥",
    "langle": "⟨", "rangle": "⟩", "degree": "°", "circ": "∘", "bullet": "•", "_": "_", "$": "$",
    "%": "%", "&": "&", "#": "#", ",": " ", ";": " ", ":": " ", "!": "", " ": " ", "quad": " ",
    "{": "{", "}": "}", "left": "", "right": "",
}  # fmt: skip
_SAME = {"log", "ln", "exp", "sin", "cos", "tan", "min", "max", "det", "arg", "lim"}
_STYLES = {
    *("mathrm", "mathit", "mathbf", "mathcal", "mathsf", "mathtt", "mathbb", "mathfrak"),
    *("text", "textrm", "textit", "textbf", "rm", "it", "bf", "cal", "operatorname"),
    *("mathregular", "mathnormal", "boldsymbol", "displaystyle"),
}
_ACCENTS = {
    "hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "overline": "\u0304", "dot": "\u0307",
    "ddot": "\u0308", "vec": "\u20d7", "widehat": "\u0302", "widetilde": "\u0303",
}  # fmt: skip


def plain(words: str) -> str:
    r"""Return words with every formula between dollars as plain text.

    A formula that is malformed, or has a command that is not known, stays as it is.

    Example:
        >>> plain(r"bias of $\Omega_m$ and $\log_{10} M_\mathrm{halo}$, not of $\frac")
        'bias of Ω_m and log_10 M_halo, not of $\\frac'
    """
    return _FORMULA.sub(lambda found: _read(found[1]) or found[0], words)


def split(words: str) -> list[tuple[str, bool]]:
    """Return the parts of words in their order, and whether each is a formula."""
    parts, end = [], 0
    for found in _FORMULA.finditer(words):
        parts += [(words[end : found.start()], False), (found[0], True)]
        end = found.end()
    return [part for part in (*parts, (words[end:], False)) if part[0]]


def _read(formula: str) -> str | None:
    """Return a formula as text, or nothing if it cannot be read."""
    tokens = [match.groups() for match in _TOKEN.finditer(formula)]
    try:
        text, rest = _group(tokens, 0, closed=False)
    except (IndexError, KeyError):
        return None
    return " ".join(text.split()) if rest == len(tokens) else None


_Tokens = list[tuple[str | None, ...]]


def _group(tokens: _Tokens, k: int, *, closed: bool) -> tuple[str, int]:
    """Return the text up to a closing brace, or to the end, and the place behind it."""
    text = ""
    while k < len(tokens):
        if tokens[k][2] == "}":
            if not closed:
                raise KeyError("}")
            return text, k + 1
        piece, k = _atom(tokens, k)
        text += piece
    if closed:
        raise IndexError
    return text, k


def _atom(tokens: _Tokens, k: int) -> tuple[str, int]:
    """Return the text of one thing: a group, a command with its argument, a character."""
    command, script, brace, character = tokens[k]
    if brace:
        if brace == "}":
            raise KeyError(brace)
        return _group(tokens, k + 1, closed=True)
    if script:
        inner, k = _atom(tokens, k + 1)
        if not inner:
            raise KeyError(script)
        return script + (inner if len(inner.split()) == 1 else f"({inner})"), k
    if command is None:
        return character or "", k + 1
    if command in _STYLES:
        opens = k + 1 < len(tokens) and tokens[k + 1][2] == "{"
        return _group(tokens, k + 2, closed=True) if opens else ("", k + 1)
    if command in _ACCENTS:
        inner, k = _atom(tokens, k + 1)
        return inner + _ACCENTS[command], k
    if command in ("frac", "dfrac", "tfrac", "sqrt"):
        return _root(tokens, k + 1) if command == "sqrt" else _fraction(tokens, k + 1)
    if command in _SAME:
        lower = k + 1 < len(tokens) and tokens[k + 1][1]
        return command + ("" if lower else " "), k + 1
    return _SYMBOLS[command], k + 1


def _fraction(tokens: _Tokens, k: int) -> tuple[str, int]:
    above, k = _atom(tokens, k)
    below, k = _atom(tokens, k)
    return f"{_bracketed(above)}/{_bracketed(below)}", k


def _root(tokens: _Tokens, k: int) -> tuple[str, int]:
    inner, k = _atom(tokens, k)
    return f"√{_bracketed(inner)}", k


def _bracketed(text: str) -> str:
    return text if len(text) == 1 or text.isalnum() else f"({text})"

r"""Write the short formulas of hints and diagnoses in plain characters: `$\sqrt{d_k}$` becomes √d_k.

Panels are also read where nothing typesets LaTeX, for example in a terminal or in nbgrader's feedback without a network. A
formula that this small translation does not know stays LaTeX, which a notebook typesets.
"""

import re

_SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "theta": "θ", "pi": "π", "sigma": "σ", "omega": "ω",
    "sum": "Σ", "prod": "∏", "partial": "∂", "infty": "∞", "top": "⊤", "cdot": "·", "times": "×", "odot": "⊙", "pm": "±",
    "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "to": "→", "in": "∈", "lVert": "‖", "rVert": "‖", "Vert": "‖", "dots": "…",
    "left": "", "right": "", **{name: name for name in ("exp", "log", "ln", "max", "min", "tanh", "cos", "sin", "arg")},
}  # fmt: skip
_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"


def spell(text: str, *, html: bool = False) -> str:
    r"""Return `text` with each `$…$` spelled out. With `html`, indices and powers become `<sub>` and `<sup>`.

    >>> spell(r"divide by $\sqrt{d_k}$, not by $d_k$")
    'divide by √d_k, not by d_k'
    >>> spell(r"$\frac{3}{4}\max(0, 1 - u^2)$", html=True)
    '3/4 max(0, 1 − u<sup>2</sup>)'
    >>> spell(r"$\unknown{x}$")
    '$\\unknown{x}$'
    """
    return re.sub(r"\$([^$]+)\$", lambda match: _formula(match[1], html) or match[0], text)


def _formula(latex: str, html: bool) -> str | None:
    out = re.sub(r"\\(?:mathrm|text|operatorname|mathbf)" + _GROUP, r"\1", latex)
    out = re.sub(r"\\d?frac" + _GROUP + _GROUP + r"(?=\\?\w)?", lambda m: f"{_bound(m[1])}/{_bound(m[2])} ", out)
    out = re.sub(r"\\sqrt" + _GROUP, lambda m: f"√{_bound(m[1])}", out)
    out = re.sub(r"\\([A-Za-z]+)( ?)", lambda m: _symbol(m[1], m[2], m[0]), out)
    out = re.sub(r"\\[,;!: ]", " ", out).replace("\\|", "‖").replace(" - ", " − ")
    for mark, tag in (("_", "sub"), ("^", "sup")):
        group = re.escape(mark) + rf"(?:{_GROUP}|([^\s{{}}]))"
        out = re.sub(group, lambda m, mark=mark, tag=tag: _index(m[1] or m[2], mark, tag, html), out)  # type: ignore[misc]  # a lambda's default
    out = re.sub(r" {2,}", " ", out).strip()
    return None if "\\" in out or "{" in out else out


def _symbol(name: str, space: str, whole: str) -> str:
    """Return the character for a command. The space after it stays if it separates an operator from what follows."""
    if name not in _SYMBOLS:
        return whole
    character = _SYMBOLS[name]
    return character + ("" if (len(character) == 1 and character.isalpha()) or character in "∂Σ∏" else space)


def _bound(part: str) -> str:
    """Return a part as one unit: in brackets if it is a sum or product of several."""
    return part if re.fullmatch(r"[\w.]+(?:_\{\w+\})?", part) or len(part) == 1 else f"({part})"


def _index(part: str, mark: str, tag: str, html: bool) -> str:
    if html:
        return f"<{tag}>{part}</{tag}>"
    if mark == "^" and part in ("2", "3", "⊤"):
        return {"2": "²", "3": "³", "⊤": "⊤"}[part]
    return f"{mark}{part}" if re.fullmatch(r"\w+", part) or mark == "_" else f"{mark}({part})"

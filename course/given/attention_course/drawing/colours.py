"""The course's colours by role, for light and dark pages, and the style sheet that switches between them.

Base colours are Okabe and Ito's (2008, "Color Universal Design"). Lines and letters take a darker or lighter shade of the
base, so that they have a contrast of at least 4.5 on white and on #111 (WCAG 2.2, level AA for text).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

PAPER = ("#FFFFFF", "#111111")  # what is behind a drawing: a light page, a dark one
INK = ("#1A1A1A", "#EDEDED")
MUTED = ("#5C5C5C", "#ABABAB")


class Shades(NamedTuple):
    """One role's colour: as Okabe and Ito have it, and for lines and letters on a light and on a dark page."""

    base: str
    light: str
    dark: str


ROLES = {
    "query": Shades("#0072B2", "#0072B2", "#5AA9E6"),
    "key": Shades("#D55E00", "#B34E00", "#FF8C42"),
    "value": Shades("#009E73", "#007A59", "#2CC295"),
    "score": Shades("#E69F00", "#8A5F00", "#F2B134"),
    "weight": Shades("#F0E442", "#6E6600", "#F0E442"),
    "output": Shades("#CC79A7", "#A0447A", "#E29BC4"),
    "cache": Shades("#8C8C8C", "#595959", "#B5B5B5"),
    "position": Shades("#56B4E9", "#1C6E9E", "#A9DCFA"),
    "input": Shades("#D9D9D9", *INK),
    "plain": Shades("#FFFFFF", *INK),
    "muted": Shades("#E6E6E6", *MUTED),
}
COLOURS = {role: shades.light for role, shades in ROLES.items()}  # for a plot on a white ground


def mix(colour: str, ground: str, share: float) -> str:
    """`share` of the one colour, the rest of the other.

    >>> mix("#000000", "#FFFFFF", 0.5)
    '#808080'
    """
    parts = zip(_rgb(colour), _rgb(ground), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02X}" for a, b in parts)


def contrast(a: str, b: str) -> float:
    """The contrast of two colours, from 1 to 21 (WCAG 2.2).

    >>> contrast("#000000", "#FFFFFF")
    21.0
    """
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def paint(kind: str, role: str) -> tuple[str, str]:
    """The colour on a light and on a dark page: `kind` is line (also letters), fill, heat (a full cell), paper, or bright
    (letters on a cell that is bright on both pages).
    """
    if kind == "paper":
        return PAPER
    if kind == "bright":
        return INK[0], "#000000"
    shades = ROLES[role]
    if kind == "line":
        return shades.light, shades.dark
    if kind == "heat":  # under letters: see `bright`
        return (shades.base, shades.base) if role not in ("plain", "input", "muted") else ("#A6A6A6", "#5C5C5C")
    return mix(shades.base, PAPER[0], 0.32), mix(shades.base, PAPER[1], 0.14 if role in ("plain", "input") else 0.38)


def bright(role: str, opacity: float) -> bool:
    """Whether a cell of this heat is so bright, on a dark page too, that dark letters are read better there.

    >>> bright("weight", 0.75), bright("weight", 0.2)
    (True, False)
    """
    cell = mix(paint("heat", role)[1], PAPER[1], opacity)
    return contrast(cell, paint("bright", role)[1]) > contrast(cell, INK[1])


def style_sheet(used: Iterable[tuple[str, str, str]], more: Mapping[str, str] | None = None) -> str:
    """CSS for the (property, kind, role) in use, and `more` variables of a dark page.

    Light stands in the elements' attributes too, for pages that drop a style sheet. Dark is chosen by the reader's system, or by
    JupyterLab's or a book's own switch; paper is always light. A drawing that stands alone (as an image) has a ground of its
    own; within a page it is transparent.
    """
    used = sorted(set(used))
    rules = "".join(f".{class_name(*use)}{{{use[0]}:var(--ac-{use[1]}-{use[2]},{paint(*use[1:])[0]})}}" for use in used)
    dark = "".join(f"--ac-{kind}-{role}:{paint(kind, role)[1]};" for kind, role in sorted({use[1:] for use in used}))
    dark += "".join(f"{name}:{colour};" for name, colour in (more or {}).items())
    own = ':root:not(:has([data-jp-theme-light="true"])):not([data-theme="light"])'
    switched = ':is([data-jp-theme-light="false"],[data-theme="dark"])'
    ground = "svg.ac:not(:root) .ac-ground{fill:none}"
    return f"{rules}{ground}@media screen and (prefers-color-scheme:dark){{{own}{{{dark}}}}}@media screen{{{switched}{{{dark}}}}}"


def class_name(prop: str, kind: str, role: str) -> str:
    """The class of an element that has this paint."""
    return f"ac-{prop[0]}-{kind}-{role}"


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

"""A matplotlib figure as SVG text that follows the reader's page: light on light, dark on dark, and light on paper.

It is switched as the drawings are: by the system, by JupyterLab's theme, or by a book's own button. Colours of the course have
their lighter twin on a dark page, greys are mirrored, others (of colour maps) stay.
"""

import hashlib
import html
import io
import re
from typing import Any

from attention_course.drawing.colours import INK, PAPER, ROLES, contrast, mix, style_sheet

_TAG = re.compile(r'<(?P<tag>\w+)(?P<before>[^<>]*?) style="(?P<style>[^"]*)"')
_PAINT = re.compile(r"(?P<what>fill|stroke): (?P<colour>#[0-9a-fA-F]{6})(?:; |$)")
_PLACE = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}(?!\d*e)")
_FAMILY = re.compile(r"font-family: [^;]*(?:; |$)")
_UNTURNED = re.compile(r' transform="rotate\(-?0 [^"]*"')
_FONT = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_LIGHTER = {shades.base.lower(): shades for name, shades in ROLES.items() if name not in ("plain", "input", "muted", "cache")}
_LIGHTER |= {shades.light.lower(): shades for name, shades in ROLES.items() if name not in ("plain", "input", "muted", "cache")}


def plot_svg(fig: Any, alt: str) -> str:
    """`fig` as SVG text that is described by `alt`: the same for the same figure, in every process."""
    width, height = (round(96 * float(inches)) for inches in fig.get_size_inches())
    import matplotlib as mpl

    own: Any = {"svg.fonttype": "none", "svg.hashsalt": hashlib.sha256(alt.encode()).hexdigest()[:12]}
    with io.StringIO() as file, mpl.rc_context(own):
        fig.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = file.getvalue()
    found = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>(.*)</svg>', text, re.DOTALL)
    if found is None:
        raise ValueError("expected matplotlib to write an SVG.")
    box, inside = found[1], re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", found[2], flags=re.DOTALL)
    meant = {*re.findall(r'(?:url\(|href=")#([^")]+)', inside)}  # other names would stand on a page once for each figure
    inside = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in meant else "", inside)
    inside = re.sub(r' d="[^"]*"', lambda path: " ".join(path[0].split()).join((" ", "")), _UNTURNED.sub("", inside))
    inside = _PLACE.sub(lambda place: place[0] if "matrix" in place[0] else _LONG.sub(_rounded, place[0]), inside)
    seen: dict[str, tuple[str, str, str]] = {}
    inside = _TAG.sub(lambda tag: _with_classes(tag, seen), inside)
    _, _, w, h = box.split()
    said = html.escape(alt, quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="ac plot" role="img" '
        f'aria-label="{said}" width="{width}" height="{height}" viewBox="{box}" font-family="{_FONT}" stroke-linejoin="round" '
        f'stroke-linecap="butt" style="max-width:100%;height:auto">\n<title>{html.escape(alt.split(". ")[0].rstrip("."))}</title>'
        f"<desc>{html.escape(alt)}</desc>\n<style>{_sheet(seen)}</style>\n"
        f'<rect class="ac-ground ac-f-paper-plain" width="{w}" height="{h}" rx="5" fill="{PAPER[0]}"/>{inside.rstrip()}\n</svg>\n'
    )


def _with_classes(tag: re.Match[str], seen: dict[str, tuple[str, str, str]]) -> str:
    """The element with its colours as attributes, and classes by which a dark page changes them."""
    paints, classes = "", []
    letters = tag["tag"] in ("text", "tspan")
    for found in _PAINT.finditer(tag["style"]):
        what, colour = found["what"], found["colour"].lower()
        light, dark = _shades(colour, letters=letters)
        paints += f' {what}="{light}"'
        if dark != light:
            name = f"pl-{what[0]}-{light[1:]}"
            seen[name] = (what, light, dark)
            classes.append(name)
    left = _FAMILY.sub("", _PAINT.sub("", tag["style"])).strip("; ")
    named = f' class="{" ".join(classes)}"' if classes else ""
    styled = f' style="{left}"' if left else ""
    return f"<{tag['tag']}{tag['before']}{named}{paints}{styled}"


def _shades(colour: str, *, letters: bool) -> tuple[str, str]:
    """A colour on a light page and on a dark one; letters are dark enough to be read on white."""
    if letters and colour == "#ffffff":  # written on something coloured
        return colour, colour
    if shades := _LIGHTER.get(colour):
        return (shades.light.lower() if letters else colour), shades.dark.lower()
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) <= 8:  # a grey, black or white: mirrored
        low, high = int(INK[0][1:3], 16), int(INK[1][1:3], 16)
        ground = int(PAPER[1][1:3], 16)
        share = max(0.0, (green - low) / (255 - low))
        mirrored = round(high - share * (high - ground))
        return colour, f"#{mirrored:02x}{mirrored:02x}{mirrored:02x}"
    dark, share = colour, 1.0
    while contrast(dark, PAPER[1]) < 3 and share > 0:
        share -= 0.1
        dark = mix(colour, "#ffffff", share).lower()
    return colour, dark


def _sheet(seen: dict[str, tuple[str, str, str]]) -> str:
    """The rules of a drawing, for the ground and for every colour that changes."""
    rules = "".join(f".{name}{{{what}:var(--{name},{light})}}" for name, (what, light, _) in sorted(seen.items()))
    return rules + style_sheet({("fill", "paper", "plain")}, {f"--{name}": dark for name, (_, _, dark) in sorted(seen.items())})


def _rounded(number: re.Match[str]) -> str:
    return f"{round(float(number[0]), 2) + 0.0:g}" if abs(float(number[0])) < 1e4 else number[0]

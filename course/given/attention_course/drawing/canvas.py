"""The sheet under a drawing: rectangles, paths and letters in the course's colours, and the SVG text they make together."""

import base64
import difflib
import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import drawsvg as dw

from attention_course.drawing.colours import INK, PAPER, ROLES, class_name, paint, style_sheet
from attention_course.drawing.lettering import SIZE, runs, width
from attention_course.drawing.parts import Part, Point

WIDEST = 1000  # px: wider than a notebook's column, where it would be shrunk until nobody can read it
COLUMN = 840  # px: a notebook's column beside JupyterLab's list of files, where a wider picture would be cut off
_MARGIN = 10.0
_FONT = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def number(x: float) -> float | int:
    """Two decimals, and no `.0`: short, and the same bytes everywhere."""
    rounded = round(float(x), 2)
    return int(rounded) if rounded == int(rounded) else rounded


class Canvas:
    """Collects elements in three layers (behind, middle, front), and the box around them all."""

    def __init__(self, alt: str) -> None:
        if not isinstance(alt, str) or len(alt.split()) < 3:
            raise ValueError(f"alt: expected a sentence that says what the drawing shows, got {alt!r}.")
        self.alt = " ".join(alt.split())
        self._layers: dict[str, list[Any]] = {"behind": [], "middle": [], "front": []}
        self._used: set[tuple[str, str, str]] = set()
        self._box = [math.inf, math.inf, -math.inf, -math.inf]

    def svg(self) -> str:
        """The drawing as SVG text: the same for the same drawing, in every process."""
        if not any(self._layers.values()):
            raise ValueError("the drawing is empty.")
        x0, y0, x1, y1 = (v + m for v, m in zip(self._box, (-_MARGIN, -_MARGIN, _MARGIN, _MARGIN), strict=True))
        if x1 - x0 > WIDEST:
            raise ValueError(f"expected a drawing of at most {WIDEST} px, got {x1 - x0:.0f}. Stand parts below each other.")
        size = number(math.ceil(x1 - x0)), number(math.ceil(y1 - y0))
        sheet = dw.Drawing(*size, origin=(number(x0), number(y0)), **self._root())
        title = self.alt.split(". ")[0].rstrip(".")
        sheet.append(dw.Raw(f"<title>{_escaped(title)}</title><desc>{_escaped(self.alt)}</desc>"))
        sheet.append(dw.Raw(f"<style>{style_sheet({*self._used, ('fill', 'paper', 'plain')})}</style>"))
        ground = {"fill": PAPER[0], "class_": "ac-ground " + class_name("fill", "paper", "plain"), "rx": 6}
        sheet.append(dw.Rectangle(number(x0), number(y0), *size, **ground))
        for element in (e for layer in ("behind", "middle", "front") for e in self._layers[layer]):
            sheet.append(element)
        text: str = sheet.as_svg(header="")
        if size[0] > COLUMN:  # shown smaller; on a phone, where it scrolls, as wide as it is
            shown = f'width="{COLUMN}" height="{number(size[1] * COLUMN / size[0])}"'
            text = text.replace(f'width="{size[0]}" height="{size[1]}"', shown, 1)
            text = text.replace('style="', f'style="--wide:{size[0]}px;', 1)
        text = text.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "").replace("<defs>\n</defs>\n", "")
        return text.replace("<svg", f'<svg data-ac="{hashlib.sha256(text.encode()).hexdigest()[:12]}"', 1)

    def save(self, path: Any) -> None:
        """Write the SVG text into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write('<?xml version="1.0" encoding="UTF-8"?>\n' + self.svg())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """For Jupyter, GitHub and nbconvert: the image; where images are not shown, its description.

        Only as an image: GitHub would take a text/html first and throw the drawing out of it. JupyterLab and the books give
        an image their own theme (CSS color-scheme), so it is light on light and dark on dark there too.
        """
        return {"image/svg+xml": self.svg(), "text/plain": f"Drawing. {self.alt}"}

    def _root(self) -> dict[str, str]:
        return {
            "class_": "ac",
            "role": "img",
            "aria_label": self.alt,
            "font_family": _FONT,
            "style": "max-width:100%;height:auto",
        }

    def _paints(self, fill: tuple[str, str] | None, line: str | None) -> dict[str, Any]:
        out: dict[str, Any] = {"fill": "none"}
        classes = []
        if fill:
            self._used.add(("fill", *fill))
            out["fill"] = paint(*fill)[0]
            classes.append(class_name("fill", *fill))
        if line:
            self._used.add(("stroke", "line", line))
            out["stroke"] = paint("line", line)[0]
            classes.append(class_name("stroke", "line", line))
        return out | ({"class_": " ".join(classes)} if classes else {})

    def _cover(self, *points: Point, by: float = 0.0) -> None:
        for x, y in points:
            if not (math.isfinite(x) and math.isfinite(y)):
                raise ValueError(f"expected a point of finite numbers, got {(x, y)}.")
            low = [min(a, b) for a, b in zip(self._box[:2], (x - by, y - by), strict=True)]
            self._box = low + [max(a, b) for a, b in zip(self._box[2:], (x + by, y + by), strict=True)]

    def _rect(
        self,
        part: Part,
        *,
        fill: tuple[str, str] | None = None,
        line: str | None = None,
        thick: float = 1.2,
        dashed: bool = False,
        opacity: float = 1.0,
        round_: float = 0.0,
        layer: str = "middle",
    ) -> None:
        more: dict[str, Any] = {"rx": number(round_)} if round_ else {}
        more |= {"stroke_width": number(thick)} if line else {}
        more |= {"stroke_dasharray": "4 3"} if dashed else {}
        more |= {"fill_opacity": number(opacity)} if opacity < 1 else {}
        at = (number(part.x), number(part.y), number(part.w), number(part.h))
        self._layers[layer].append(dw.Rectangle(*at, **self._paints(fill, line), **more))
        self._cover((part.x, part.y), (part.x + part.w, part.y + part.h), by=thick / 2 if line else 0)

    def _image(self, part: Part, png: bytes) -> None:
        """An image that fills `part`, its dots kept sharp."""
        at = f'x="{number(part.x)}" y="{number(part.y)}" width="{number(part.w)}" height="{number(part.h)}"'
        data = base64.b64encode(png).decode()
        look = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
        self._layers["middle"].append(dw.Raw(f'<image {at} {look} href="data:image/png;base64,{data}"/>'))
        self._cover((part.x, part.y), (part.x + part.w, part.y + part.h))

    def _path(
        self,
        d: str,
        points: Iterable[Point],
        *,
        fill: tuple[str, str] | None = None,
        line: str | None = None,
        thick: float = 1.6,
        dashed: bool = False,
        opacity: float = 1.0,
        layer: str = "middle",
    ) -> None:
        """`d` in SVG's language; `points` are its corners, for the box around everything."""
        more: dict[str, Any] = {"stroke_width": number(thick), "stroke_linejoin": "round"} if line else {}
        more |= {"stroke_dasharray": "5 4"} if dashed else {}
        more |= {"opacity": number(opacity)} if opacity < 1 else {}
        self._layers[layer].append(dw.Path(d=d, **self._paints(fill, line), **more))
        self._cover(*points, by=thick / 2 if line else 0)

    def _polyline(self, points: Sequence[Point], *, close: bool = False, **look: Any) -> None:
        d = "M" + " L".join(f"{number(x)},{number(y)}" for x, y in points) + (" Z" if close else "")
        self._path(d, points, **look)

    def _circle(self, at: Point, radius: float, *, layer: str = "middle", thick: float = 1.2, **paints: Any) -> None:
        look = self._paints(paints.get("fill"), paints.get("line"))
        more: dict[str, Any] = {"stroke_width": thick} if paints.get("line") else {}
        more |= {"stroke_dasharray": "4 3"} if paints.get("dashed") else {}
        self._layers[layer].append(dw.Circle(number(at[0]), number(at[1]), number(radius), **look, **more))
        self._cover(at, by=radius + thick / 2)

    def _letters(
        self,
        text: str,
        at: Point,
        *,
        size: float = SIZE,
        anchor: str = "middle",
        role: str = "plain",
        bold: bool = False,
        turn: float = 0.0,
        kind: str = "line",
        layer: str = "front",
    ) -> None:
        """Write `text` with its middle height at `at`; `anchor` start, middle or end says which side of it `at` is."""
        if size < 12:
            raise ValueError(f"size: expected at least 12 px, got {size}.")
        lines = text.split("\n")
        x, y = at[0], at[1] - (len(lines) - 1) * size * 0.625
        for line in lines:
            more: dict[str, Any] = {"text_anchor": anchor} if anchor != "start" else {}
            more |= {"font_weight": "bold"} if bold else {}
            more |= {"transform": f"rotate({number(turn)} {number(at[0])} {number(at[1])})"} if turn else {}
            place = (number(x), number(y + 0.35 * size))
            pieces = runs(line)
            plain = pieces[0][0] if pieces and len(pieces) == 1 else ""
            words = dw.Text(plain, number(size), *place, **self._paints((kind, role), None), **more)
            if not plain:
                self._raised(words, pieces, size)
            self._layers[layer].append(words)
            self._cover_letters(line, (x, y), size, anchor, turn, at)
            y += size * 1.25

    @staticmethod
    def _raised(words: Any, pieces: Sequence[tuple[str, int]], size: float) -> None:
        down = 0.0
        for piece, level in pieces:
            want = {0: 0.0, -1: 0.24, 1: -0.4}[level] * size
            look = {"font_size": max(12, number(0.75 * size))} if level else {}
            move = {"dy": number(want - down)} if want != down else {}
            words.append(dw.TSpan(piece, **look, **move))
            down = want

    def _cover_letters(self, line: str, at: Point, size: float, anchor: str, turn: float, about: Point) -> None:
        w = width(line, size)
        start = at[0] - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * w
        corners = [(a, b) for a in (start, start + w) for b in (at[1] - 0.6 * size, at[1] + 0.6 * size)]
        c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        for x, y in corners:
            dx, dy = x - about[0], y - about[1]
            self._cover((about[0] + c * dx - s * dy, about[1] + s * dx + c * dy))

    def _arrow_head(self, tip: Point, from_: Point, role: str, length: float = 9.0) -> Point:
        """A filled triangle with its tip at `tip`; where the line should end, so that it does not stick out."""
        dx, dy = tip[0] - from_[0], tip[1] - from_[1]
        far = math.hypot(dx, dy)
        if far == 0:
            return tip
        ux, uy = dx / far, dy / far
        back = tip[0] - ux * length, tip[1] - uy * length
        side = 0.42 * length
        corners = [tip, (back[0] - uy * side, back[1] + ux * side), (back[0] + uy * side, back[1] - ux * side)]
        self._polyline(corners, close=True, fill=("line", role), layer="front")
        return tip[0] - ux * length * 0.8, tip[1] - uy * length * 0.8

    def _hatch(self, part: Part, step: float = 6.0, role: str = "muted") -> None:
        """Slanted lines over a cell: blocked. Lines, not an SVG pattern: those need names that are unique on a page."""
        strokes, corners = [], []
        for c in (step * i for i in range(1, math.ceil((part.w + part.h) / step))):
            a = (part.x + min(c, part.w), part.y + max(0.0, c - part.w))
            b = (part.x + max(0.0, c - part.h), part.y + min(c, part.h))
            strokes.append(f"M{number(a[0])},{number(a[1])} L{number(b[0])},{number(b[1])}")
            corners += [a, b]
        if strokes:
            self._path(" ".join(strokes), corners, line=role, thick=0.8)


def known_role(role: str) -> str:
    """`role`, or a ValueError that suggests the nearest."""
    if role not in ROLES:
        near = difflib.get_close_matches(role, ROLES, 1)
        raise ValueError(f"role: expected one of {', '.join(ROLES)}, got {role!r}.{f' Did you mean {near[0]}?' if near else ''}")
    return role


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


__all__ = ["INK", "WIDEST", "Canvas", "known_role", "number"]

"""`Drawing`: what lessons call. Each method draws one part and returns it, so that the next can stand beside it."""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_course.drawing.arrows import Arrows
from attention_course.drawing.canvas import known_role
from attention_course.drawing.colours import bright
from attention_course.drawing.lettering import SIZE, width
from attention_course.drawing.parts import Part, Point, around, shift_along
from attention_course.drawing.plane import Plane

_SMALL = 14.0
_FULL = 0.75  # opacity of the strongest cell
_SIDES = ("left", "right", "above", "below", "inside")


class Drawing(Arrows):
    """A diagram with its description for those who cannot see it: `Drawing(alt="...")`."""

    def __init__(self, alt: str) -> None:
        super().__init__(alt)
        self._last: Part | None = None

    def matrix(
        self,
        shape: Any,
        label: str = "",
        *,
        role: str = "plain",
        entries: bool | str | Sequence[Sequence[Any]] | None = None,
        vmax: float | None = None,
        mask: Any = None,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        sizes: tuple[str, str] | None = None,
        cell: float | tuple[float, float] | None = None,
        grid: bool | None = None,
        highlight: Sequence[tuple[int, int]] = (),
        strong_rows: Sequence[int] = (),
        label_side: str = "below",
        **place: Any,
    ) -> Part:
        """A matrix, one box a cell.

        `shape` is (rows, columns), or an array: then cells are coloured by their size (grey when negative), the strongest at
        `vmax`, and `entries` (True, a format like "{:.1f}", or the texts themselves) are written in, by default up to 64.
        `mask` is True where a query may look, as in the course; other cells are hatched. `rows` and `columns` name tokens,
        `sizes` says how many there are, `highlight` frames cells, `strong_rows` fills rows.
        """
        known_role(role)
        values = None if isinstance(shape, tuple) else np.atleast_2d(np.asarray(shape, dtype=float))
        n, m = (int(s) for s in (shape if values is None else values.shape))
        if n < 1 or m < 1:
            raise ValueError(f"shape: expected at least one row and one column, got {(n, m)}.")
        texts = _texts(entries, values, (n, m))
        keep = None if mask is None else np.broadcast_to(np.asarray(mask, dtype=bool), (n, m))
        w, h = _cell_size(cell, texts)
        margins, slanted = self._names_margins(rows, columns, sizes, w, (n, m))
        margins, over = _with_label(margins, label, label_side, (n * h, m * w))
        box = self._place(m * w, n * h, margins, place)
        part = Part(box.x, box.y, box.w, box.h, margins, n, m, over=over)
        grid = n * m <= 900 and min(w, h) >= 6 if grid is None else grid
        self._cells(part, role, values, vmax, keep, grid, strong_rows)
        shares = np.zeros((n, m)) if values is None else self._shares(values, vmax, keep)
        shares[list(strong_rows)] = _FULL
        self._entries(part, texts, keep, role, shares)
        for i, j in highlight:
            self._rect(part.cell(i, j), line="plain", thick=2.6, layer="front")
        self._names(part, rows, columns, sizes, slanted)
        self._label(part, label, label_side, role)
        return self._done(part)

    def picture(
        self,
        numbers: Any,
        label: str = "",
        *,
        low: float,
        high: float,
        colours: str = "RdBu_r",
        sizes: tuple[str, str] | None = None,
        cell: float = 4,
        label_side: str = "below",
        **place: Any,
    ) -> Part:
        """A large matrix as an image, a dot of `cell` px for each number: `low` to `high` in one of matplotlib's colour maps."""
        values = np.atleast_2d(np.asarray(numbers, dtype=float))
        n, m = values.shape
        margins, slanted = self._names_margins(None, None, sizes, cell, (n, m))
        margins, over = _with_label(margins, label, label_side, (n * cell, m * cell))
        box = self._place(m * cell, n * cell, margins, place)
        part = Part(box.x, box.y, box.w, box.h, margins, n, m, over=over)
        self._image(part, _png(values, low, high, colours))
        self._rect(part, line="muted", thick=1)
        self._names(part, None, None, sizes, slanted)
        self._label(part, label, label_side, "plain")
        return self._done(part)

    def vector(self, shape: Any, label: str = "", *, vertical: bool = False, **how: Any) -> Part:
        """A row (or a column) of numbers: `shape` is how many, or the numbers."""
        if isinstance(shape, (int, np.integer)):
            return self.matrix((int(shape), 1) if vertical else (1, int(shape)), label, **how)
        numbers = np.asarray(shape, dtype=float).reshape(-1)
        return self.matrix(numbers[:, None] if vertical else numbers[None], label, **how)

    def heads(
        self,
        count: int,
        shape: tuple[int, int],
        labels: Sequence[str] = (),
        *,
        gap: float = 12,
        vertical: bool = False,
        **how: Any,
    ) -> list[Part]:
        """`count` matrices side by side (or below each other), the first where `how` says; a list of parts."""
        made: list[Part] = []
        look = {k: v for k, v in how.items() if k not in ("right_of", "left_of", "below", "above", "at", "shift", "align")}
        for i in range(count):
            place = how if not made else look | {("below" if vertical else "right_of"): made[-1], "gap": gap}
            made.append(self.matrix(shape, labels[i] if i < len(labels) else "", **place))
        return made

    def stack(
        self, count: int, shape: tuple[int, int], label: str = "", *, role: str = "plain", cell: float = 24, **place: Any
    ) -> Part:
        """`count` equal matrices one behind the other (heads, a batch); arrows meet the front one."""
        step, (n, m) = 7.0, shape
        behind = (count - 1) * step
        margins, over = _with_label((0.0, behind, behind, 0.0), label, "below", (n * cell, m * cell))
        box = self._place(m * cell, n * cell, margins, place)
        for i in range(count - 1, 0, -1):
            sheet = Part(box.x + i * step, box.y - i * step, box.w, box.h)
            self._rect(sheet, fill=("fill", known_role(role)), line=role)
        part = Part(box.x, box.y, box.w, box.h, margins, n, m, over=over)
        self._cells(part, role, None, None, None, n * m <= 900 and cell >= 6, ())
        self._label(part, label, "below", role)
        return self._done(part)

    def cache(
        self,
        capacity: int,
        columns: int,
        *,
        filled: int,
        new: int = 0,
        label: str = "",
        role: str = "key",
        cell: float = 24,
        rows: Sequence[str] | None = None,
        sizes: tuple[str, str] | None = None,
        label_side: str = "below",
        **place: Any,
    ) -> Part:
        """A cache with one row a slot: `filled` ones, then `new` ones with a strong edge, then free ones, dashed."""
        if not 0 <= filled + new <= capacity:
            raise ValueError(f"expected filled + new to be at most capacity = {capacity}, got {filled} + {new}.")
        margins, slanted = self._names_margins(rows, None, sizes, cell, (capacity, columns))
        margins, over = _with_label(margins, label, label_side, (capacity * cell, columns * cell))
        box = self._place(columns * cell, capacity * cell, margins, place)
        part = Part(box.x, box.y, box.w, box.h, margins, capacity, columns, over=over)
        for i in range(filled + new, capacity):
            self._rect(part.row(i), line="muted", dashed=True, thick=1)
        for i in range(filled + new):
            row = part.row(i)
            fresh = i >= filled
            self._cells(
                Part(row.x, row.y, row.w, row.h, rows=1, columns=columns), role, None, None, None, True, (0,) if fresh else ()
            )
            if fresh:
                self._rect(row, line=role, thick=2.8, layer="front")
        self._names(part, rows, None, sizes, slanted)
        self._label(part, label, label_side, role)
        return self._done(part)

    def box(
        self, text: str, *, role: str = "plain", width_: float = 0, height: float = 0, dashed: bool = False, **place: Any
    ) -> Part:
        """A rounded box with `text`: a layer, a product, a step. It is as wide as its text, or as `width`."""
        want = float(place.pop("width", width_))
        lines = text.count("\n") + 1
        w, h = max(want, width(text) + 22), max(height, lines * SIZE * 1.25 + 16)
        part = self._place(w, h, (0, 0, 0, 0), place)
        self._rect(part, fill=("fill", known_role(role)), line=role, thick=1.6, round_=7, dashed=dashed)
        self._letters(text, part.centre)
        return self._done(part)

    def node(self, sign: str, *, role: str = "plain", radius: float = 14, **place: Any) -> Part:
        """A small circle with a sign: a sum, a product."""
        r = max(radius, width(sign) / 2 + 5)
        part = self._place(2 * r, 2 * r, (0, 0, 0, 0), place)
        self._circle(part.centre, r, fill=("fill", known_role(role)), line=role, thick=1.6)
        self._letters(sign, part.centre)
        return self._done(part)

    def text(
        self, text: str, *, size: float = SIZE, role: str = "plain", muted: bool = False, bold: bool = False, **place: Any
    ) -> Part:
        """Words or a sign, where a part would stand. Lines are ended by a newline."""
        lines = text.count("\n") + 1
        part = self._place(width(text, size) * (1.08 if bold else 1), lines * size * 1.25, (0, 0, 0, 0), place)
        anchor = {"start": "start", "end": "end"}.get(place.get("align", ""), "middle")
        x = {"start": part.x, "middle": part.centre[0], "end": part.x + part.w}[anchor]
        self._letters(text, (x, part.centre[1]), size=size, anchor=anchor, role="muted" if muted else known_role(role), bold=bold)
        return self._done(part)

    def tokens(
        self,
        words: Sequence[str],
        *,
        role: str = "plain",
        vertical: bool = False,
        strong: Sequence[int] = (),
        gap: float = 6,
        **place: Any,
    ) -> list[Part]:
        """A row (or a column) of word boxes; `strong` ones have a thick edge. A list of parts.

        `gap` stands between the words; `away` is how far the row is from the part that it is placed by.
        """
        widths = [width(word) + 14 for word in words]
        if vertical:
            widths = [max(widths)] * len(words)
        h = 28.0
        across = max(widths) if vertical else sum(widths) + gap * (len(words) - 1)
        down = (h + gap) * len(words) - gap if vertical else h
        place["gap"] = place.pop("away", 24)
        whole = self._place(across, down, (0, 0, 0, 0), place)
        made, at = [], 0.0
        for i, (word, w) in enumerate(zip(words, widths, strict=True)):
            part = Part(whole.x, whole.y + at, w, h) if vertical else Part(whole.x + at, whole.y, w, h)
            thick = 2.8 if i % len(words) in {s % len(words) for s in strong} else 1.2
            self._rect(part, fill=("fill", known_role(role)), line=role, thick=thick, round_=5)
            self._letters(word, part.centre)
            made.append(part)
            at += (h if vertical else w) + gap
        self._done(whole)
        return made

    def frame(self, parts: Part | Sequence[Part], label: str = "", *, role: str = "muted", pad: float = 10) -> Part:
        """A dashed frame round parts and behind them, its label in the upper left corner; what follows stands beside it."""
        x0, y0, x1, y1 = around(parts).extent
        head = 22.0 if label else 0.0
        w = max(x1 - x0 + 2 * pad, width(label, _SMALL) + 2 * pad)
        part = Part(x0 - pad, y0 - pad - head, w, y1 - y0 + 2 * pad + head)
        self._rect(part, line=known_role(role), dashed=True, round_=8, layer="behind")
        if label:
            self._letters(label, (part.x + pad, part.y + 14), size=_SMALL, anchor="start", role=role)
        return self._done(part)

    def axes(
        self,
        *,
        size: float = 220,
        limit: float | tuple[float, float, float, float] = 2.0,
        xlabel: str = "",
        ylabel: str = "",
        ticks: bool = True,
        **place: Any,
    ) -> Plane:
        """Axes in the plane, from -limit to limit both ways, or (x0, x1, y0, y1); units are equally long on both."""
        x0, x1, y0, y1 = (-limit, limit, -limit, limit) if isinstance(limit, (int, float)) else limit
        unit = size / (x1 - x0)
        margins = (8.0, 24.0 if ylabel else 8.0, width(xlabel, _SMALL) + 14 if xlabel else 8.0, 8.0)
        plane = Plane(self, self._with(self._place(size, unit * (y1 - y0), margins, place), margins), (x0, x1, y0, y1))
        ox, oy = plane.point_at((0, 0))
        for tip, back in (((plane.x + plane.w + 6, oy), (plane.x, oy)), ((ox, plane.y - 6), (ox, plane.y + plane.h))):
            self._polyline([back, self._arrow_head(tip, back, "muted", 7.0)], line="muted", thick=1.1, layer="behind")
        if ticks:
            for t in range(math.ceil(x0), math.floor(x1) + 1):
                self._polyline([(plane.point_at((t, 0))[0], oy - 3), (plane.point_at((t, 0))[0], oy + 3)], line="muted", thick=1)
            for t in range(math.ceil(y0), math.floor(y1) + 1):
                self._polyline([(ox - 3, plane.point_at((0, t))[1]), (ox + 3, plane.point_at((0, t))[1])], line="muted", thick=1)
        self._letters(xlabel, (plane.x + plane.w + 10, oy), size=_SMALL, anchor="start", role="muted")
        self._letters(ylabel, (ox, plane.y - 16), size=_SMALL, role="muted")
        self._done(plane)
        return plane

    def _place(self, w: float, h: float, margins: Sequence[float], place: dict[str, Any]) -> Part:
        """The box of a new part of w x h px, beside the one that `place` names or right of the last."""
        known = ("right_of", "left_of", "below", "above", "at", "gap", "align", "shift")
        if unknown := [k for k in place if k not in known]:
            raise TypeError(f"expected a place by {', '.join(known)}, got {', '.join(unknown)}.")
        sides = [k for k in ("right_of", "left_of", "below", "above", "at") if place.get(k) is not None]
        if len(sides) > 1:
            raise ValueError(f"expected one place, got {' and '.join(sides)}.")
        dx, dy = place.get("shift", (0, 0))
        if not sides and self._last is None:
            return Part(dx, dy, w, h)
        side = sides[0] if sides else "right_of"
        by: Any = place.get(side, self._last)
        gap, align = place.get("gap", 24), place.get("align", "centre")
        if side == "at":
            x, y = by.centre if isinstance(by, Part) else by
            return Part(x - w / 2 + dx, y - h / 2 + dy, w, h)
        near = around(by)
        x0, y0, x1, y1 = near.extent
        left, top, right, bottom = margins
        if side in ("right_of", "left_of"):
            x = x1 + gap + left if side == "right_of" else x0 - gap - right - w
            return Part(x + dx, shift_along(near.y, near.h, h, align) + dy, w, h)
        y = y1 + gap + top if side == "below" else y0 - gap - bottom - h
        return Part(shift_along(near.x, near.w, w, align) + dx, y + dy, w, h)

    def _done(self, part: Part) -> Part:
        self._last = part
        x0, y0, x1, y1 = part.extent
        self._cover((x0, y0), (x1, y1))
        return part

    @staticmethod
    def _with(box: Part, margins: tuple[float, float, float, float]) -> Part:
        box.margins = margins
        return box

    def _cells(
        self,
        part: Part,
        role: str,
        values: Any,
        vmax: float | None,
        keep: Any,
        grid: bool,
        strong_rows: Sequence[int],
    ) -> None:
        if values is None:
            self._rect(part, fill=("fill", role))
        else:
            self._heat(part, role, values, vmax, keep)
        for i in strong_rows:
            self._rect(part.row(i), fill=("heat", role), opacity=_FULL)
        if keep is not None:
            for i, j in zip(*np.nonzero(~keep), strict=True):
                self._rect(part.cell(i, j), fill=("paper", "plain"))
                self._hatch(part.cell(i, j))
        if grid:
            lines = [((part.x, y), (part.x + part.w, y)) for y in (part.row(i).y for i in range(1, part.rows))]
            lines += [((x, part.y), (x, part.y + part.h)) for x in (part.column(j).x for j in range(1, part.columns))]
            if lines:
                self._path(" ".join(_stroke(a, b) for a, b in lines), [p for line in lines for p in line], line=role, thick=0.7)
        self._rect(part, line=role, thick=1.6)

    def _heat(self, part: Part, role: str, values: Any, vmax: float | None, keep: Any) -> None:
        shares = self._shares(values, vmax, keep)
        for i, j in zip(*np.nonzero(np.abs(shares) >= 0.005), strict=True):
            share = float(shares[i, j])
            self._rect(part.cell(i, j), fill=("heat", role if share > 0 else "muted"), opacity=abs(share))

    @staticmethod
    def _shares(values: Any, vmax: float | None, keep: Any) -> Any:
        """How much of the colour each cell has; negative for a negative value, which is grey."""
        seen = np.abs(values[keep] if keep is not None else values)
        seen = seen[np.isfinite(seen)]
        top = vmax or (float(seen.max()) if seen.size and seen.max() > 0 else 1.0)
        return np.clip(np.nan_to_num(values, posinf=0.0, neginf=0.0) / top, -1.0, 1.0) * _FULL

    def _entries(self, part: Part, texts: Sequence[Sequence[str]] | None, keep: Any, role: str, shares: Any) -> None:
        if texts is None:
            return
        for i, j in np.ndindex(part.rows, part.columns):
            if texts[i][j] and (keep is None or keep[i, j]):
                size = _SMALL if width(texts[i][j], _SMALL) <= part.cell(i, j).w - 2 else 12.0
                on_bright = bright(role if shares[i, j] > 0 else "muted", abs(float(shares[i, j])))
                look: dict[str, Any] = {"size": size, "kind": "bright" if on_bright else "line", "layer": "middle"}
                self._letters(texts[i][j], part.cell(i, j).centre, **look)

    def _names_margins(
        self, rows: Sequence[str] | None, columns: Sequence[str] | None, sizes: Any, cell: float, shape: tuple[int, int]
    ) -> tuple[tuple[float, float, float, float], bool]:
        for names, count, what in ((rows, shape[0], "rows"), (columns, shape[1], "columns")):
            if names is not None and len(names) != count:
                raise ValueError(f"{what}: expected {count} names, got {len(names)}.")
        left = max((width(name, _SMALL) for name in rows), default=0.0) + 8 if rows is not None else 0.0
        wide = max((width(name, _SMALL) for name in columns), default=0.0) if columns is not None else 0.0
        slanted = wide > cell - 4
        top = 0.0 if columns is None else wide * math.sin(math.radians(45)) + 18 if slanted else 20.0
        right = max(0.0, wide * math.cos(math.radians(45)) - cell / 2) if slanted else 0.0
        if sizes:
            left += width(sizes[0], _SMALL) + 18 if sizes[0] else 0
            top += 30 if sizes[1] else 0
        return (left, top, right, 0.0), slanted

    def _names(self, part: Part, rows: Any, columns: Any, sizes: Any, slanted: bool) -> None:
        for i, name in enumerate(rows or ()):
            x, y = part.row(i).left
            self._letters(name, (x - 7, y), size=_SMALL, anchor="end")
        for j, name in enumerate(columns or ()):
            x, y = part.column(j).top
            if slanted and len(name) > 1:  # a sign stays upright
                self._letters(name, (x - 2, y - 10), size=_SMALL, anchor="start", turn=-45)
            else:
                self._letters(name, (x, y - 11), size=_SMALL)
        if not sizes:
            return
        left, top = part.margins[0], part.margins[1]
        if sizes[0]:
            x = part.x - left + width(sizes[0], _SMALL) + 10
            self._extent_line((x, part.y), (x, part.y + part.h))
            self._letters(sizes[0], (x - 7, part.y + part.h / 2), size=_SMALL, anchor="end")
        if sizes[1]:
            y = part.y - top + 22
            self._extent_line((part.x, y), (part.x + part.w, y))
            self._letters(sizes[1], (part.x + part.w / 2, y - 11), size=_SMALL)

    def _extent_line(self, a: Point, b: Point) -> None:
        ex, ey = (4.0, 0.0) if a[0] == b[0] else (0.0, 4.0)
        ends = [((p[0] - ex, p[1] - ey), (p[0] + ex, p[1] + ey)) for p in (a, b)]
        d = " ".join(_stroke(p, q) for p, q in [(a, b), *ends])
        self._path(d, [p for line in ends for p in line], line="muted", thick=1.1)

    def _label(self, part: Part, label: str, side: str, role: str) -> None:
        if not label:
            return
        left, top, right, _ = part.margins
        lines = label.count("\n") + 1
        half = lines * SIZE * 0.625
        if side == "inside":
            self._letters(label, part.centre)
        elif side in ("below", "above"):
            y = part.y + part.h + 6 + half if side == "below" else part.y - top + half
            self._letters(label, (part.x + part.w / 2, y), role=role, bold=False)
        else:
            x = part.x - left if side == "left" else part.x + part.w + right
            self._letters(label, (x, part.y + part.h / 2), anchor="start" if side == "left" else "end", role=role)


def _stroke(a: Point, b: Point) -> str:
    return f"M{a[0]:.10g},{a[1]:.10g} L{b[0]:.10g},{b[1]:.10g}"


def _texts(entries: Any, values: Any, shape: tuple[int, int]) -> list[list[str]] | None:
    n, m = shape
    if entries is None:
        entries = values is not None and n * m <= 64
    if entries is False:
        return None
    if entries is True or isinstance(entries, str):
        if values is None:
            raise ValueError("entries: expected an array in place of the shape, to write its numbers.")
        form = entries if isinstance(entries, str) else "{:g}" if np.allclose(values, np.round(values, 1)) else "{:.2f}"
        return [[form.format(v + 0.0).replace("-", "−") for v in row] for row in values]
    texts = [[str(text) for text in row] for row in entries]
    if (len(texts), {len(row) for row in texts}) != (n, {m}):
        raise ValueError(f"entries: expected {n} rows of {m} texts.")
    return texts


def _cell_size(cell: float | tuple[float, float] | None, texts: list[list[str]] | None) -> tuple[float, float]:
    if cell is None:
        widest = max((width(text, 12.0) for row in texts or () for text in row), default=0.0)
        return max(24.0, math.ceil(widest + 6)), 24.0
    w, h = cell if isinstance(cell, tuple) else (cell, cell)
    return float(w), float(h)


def _with_label(
    margins: tuple[float, float, float, float], label: str, side: str, size: tuple[float, float]
) -> tuple[tuple[float, float, float, float], tuple[float, float]]:
    """Margins with room for the label, and how much of the left and of the right only a label above or below needs; `size` is
    (height, width)."""
    if side not in _SIDES:
        raise ValueError(f"label_side: expected one of {', '.join(_SIDES)}, got {side!r}.")
    if not label or side == "inside":
        return margins, (0.0, 0.0)
    left, top, right, bottom = margins
    tall, wide = (label.count("\n") + 1) * SIZE * 1.25 + 6, width(label) + 10
    if side in ("left", "right"):
        return ((left + wide, top, right, bottom) if side == "left" else (left, top, right + wide, bottom)), (0.0, 0.0)
    out = max(0.0, (wide - 10 - size[1]) / 2)
    over = max(0.0, out - left), max(0.0, out - right)
    left, right = left + over[0], right + over[1]
    return ((left, top + tall, right, bottom) if side == "above" else (left, top, right, bottom + tall)), over


def _png(values: Any, low: float, high: float, colours: str) -> bytes:
    """An image with a dot for each number, in 64 colours at most: small."""
    from matplotlib import colormaps
    from PIL import Image

    share = np.nan_to_num(np.clip((values - low) / (high - low), 0.0, 1.0))
    step = np.round(share * 63).astype(np.uint8)
    image = Image.fromarray(step)
    image = image.convert("P")
    image.putpalette((colormaps[colours](np.arange(64) / 63)[:, :3] * 255).round().astype(np.uint8).tobytes())
    with io.BytesIO() as file:
        image.save(file, format="PNG", bits=6, optimize=True)
        return file.getvalue()

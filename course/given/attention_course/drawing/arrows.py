"""What connects parts: arrows with shapes on them, lines, braces, and the curves from a word to those it looks at."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from attention_course.drawing.canvas import Canvas, known_role, number
from attention_course.drawing.lettering import width
from attention_course.drawing.parts import Part, Point, around

_SMALL = 14.0
_GAP = 4.0


class Arrows(Canvas):
    """The connecting half of `Drawing`."""

    def arrow(
        self,
        a: Part | Point | Sequence[Part],
        b: Part | Point | Sequence[Part],
        label: str = "",
        *,
        role: str = "plain",
        dashed: bool = False,
        elbow: str = "",
        bend: float = 0.0,
        width: float = 1.8,
        label_side: str = "",
        head: bool = True,
    ) -> None:
        """An arrow from a to b, parts or points; between parts it leaves and arrives at the sides that face each other.

        `label` stands beside its middle, clear of a slanting line too: above a nearly level arrow, right of any other, or on
        `label_side` (above, below, left, right). `elbow="h"` starts level and turns once, "v" starts upright; `bend` px makes
        it a curve, to the left when positive, seen along the arrow.
        """
        start, end = _ends(a, b, elbow)
        corner = {"": [], "h": [(end[0], start[1])], "v": [(start[0], end[1])]}.get(elbow)
        if corner is None:
            raise ValueError(f'elbow: expected "h" or "v", got {elbow!r}.')
        look: dict[str, Any] = {"line": known_role(role), "thick": width, "dashed": dashed}
        if bend:
            middle = _bent(start, end, bend)
            stop = self._arrow_head(end, middle, role) if head else end
            d = f"M{_xy(start)} Q{_xy(middle)} {_xy(stop)}"
            top = _halfway(_halfway(start, middle), _halfway(middle, end))
            self._path(d, [start, top, end], **look)
            self._on_line(label, top, start, end, role, label_side)
            return
        points = [start, *corner, end]
        stop = self._arrow_head(end, points[-2], role) if head else end
        self._polyline([*points[:-1], stop], **look)
        longest = max(pairwise(points), key=lambda line: math.dist(*line))
        self._on_line(label, _halfway(*longest), *longest, role, label_side)

    def line(self, a: Part | Point | Sequence[Part], b: Part | Point | Sequence[Part], label: str = "", **how: Any) -> None:
        """The same without a head."""
        self.arrow(a, b, label, head=False, **how)

    def brace(self, parts: Part | Sequence[Part], text: str = "", *, side: str = "left", role: str = "muted", **how: Any) -> Part:
        """A curly brace along one side (left, right, above, below) with its text; it belongs to the part from then on."""
        return self._embrace(parts, text, side, role, curly=True, **how)

    def bracket(
        self, parts: Part | Sequence[Part], text: str = "", *, side: str = "left", role: str = "muted", **how: Any
    ) -> Part:
        """A square bracket along one side, with its text."""
        return self._embrace(parts, text, side, role, curly=False, **how)

    def looks(
        self,
        words: Sequence[Part],
        i: int,
        to: Sequence[Part],
        weights: Sequence[float],
        *,
        role: str = "query",
        least: float = 0.02,
    ) -> None:
        """Curves from word i to each of `to`, as wide as its weight; those below `least` are left out.

        In one row (`to` is `words`) they run above it; between two rows they go from the one to the other.
        """
        if len(to) != len(weights):
            raise ValueError(f"weights: expected one for each of {len(to)} words, got {len(weights)}.")
        source, known = words[i], known_role(role)
        for target, weight in zip(to, weights, strict=True):
            if weight < least:
                continue
            look: dict[str, Any] = {
                "line": known,
                "thick": 1 + 7 * float(weight),
                "opacity": min(1.0, 0.35 + 0.65 * float(weight)),
            }
            same = abs(source.y - target.y) < 1
            if same and target is not source:
                (x, y), (u, _) = source.top, target.top
                high = y - 18 - min(60, 0.22 * abs(u - x))
                self._path(
                    f"M{_xy((x, y))} C{_xy((x, high))} {_xy((u, high))} {_xy((u, y))}",
                    [(x, y), (u, y), (x, y - 0.75 * (y - high))],
                    **look,
                )
            elif same:
                (x, y) = source.top
                self._path(
                    f"M{_xy((x - 7, y))} C{_xy((x - 16, y - 26))} {_xy((x + 16, y - 26))} {_xy((x + 7, y))}",
                    [(x, y - 20)],
                    **look,
                )
            else:
                start, end = (source.bottom, target.top) if target.y > source.y else (source.top, target.bottom)
                half = (start[1] + end[1]) / 2
                d = f"M{_xy(start)} C{_xy((start[0], half))} {_xy((end[0], half))} {_xy(end)}"
                self._path(d, [start, end], **look)

    def _embrace(self, parts: Any, text: str, side: str, role: str, *, curly: bool, gap: float = 6, depth: float = 9) -> Part:
        if side not in ("left", "right", "above", "below"):
            raise ValueError(f"side: expected left, right, above or below, got {side!r}.")
        whole = around(parts)
        x0, y0, x1, y1 = whole.extent
        upright, sign = side in ("left", "right"), -1.0 if side in ("left", "above") else 1.0
        edge = {"left": x0, "right": x1, "above": y0, "below": y1}[side] + sign * gap
        low, high = (whole.y, whole.y + whole.h) if upright else (whole.x, whole.x + whole.w)

        def at(along: float, out: float) -> Point:
            across = edge + sign * out
            return (across, along) if upright else (along, across)

        middle, r = (low + high) / 2, min(depth, (high - low) / 4)
        if curly:
            half = depth / 2
            d = (
                f"M{_xy(at(low, 0))} Q{_xy(at(low, half))} {_xy(at(low + r, half))} L{_xy(at(middle - r, half))} "
                f"Q{_xy(at(middle, half))} {_xy(at(middle, depth))} Q{_xy(at(middle, half))} {_xy(at(middle + r, half))} "
                f"L{_xy(at(high - r, half))} Q{_xy(at(high, half))} {_xy(at(high, 0))}"
            )
        else:
            d = f"M{_xy(at(low, 0))} L{_xy(at(low, depth))} L{_xy(at(high, depth))} L{_xy(at(high, 0))}"
        self._path(d, [at(low, 0), at(middle, depth), at(high, 0)], line=known_role(role), thick=1.3)
        wide, tall = width(text, _SMALL), (text.count("\n") + 1) * _SMALL * 1.25
        room = depth + (5 + (wide if upright else tall) if text else 0)
        spot = at(middle, depth + 5 if upright else depth + 4 + tall / 2)
        if text:
            anchor = {"left": "end", "right": "start"}.get(side, "middle")
            self._letters(text, spot, size=_SMALL, anchor=anchor, role="plain" if role == "muted" else role)
        grown = {"above": "top", "below": "bottom"}.get(side, side)
        if isinstance(parts, Part):
            parts.grow(grown, gap + room)
        corners = at(low, 0), at(high, room)
        x, y = min(c[0] for c in corners), min(c[1] for c in corners)
        return Part(x, y, abs(corners[0][0] - corners[1][0]), abs(corners[0][1] - corners[1][1]))

    def _on_line(self, label: str, at: Point, a: Point, b: Point, role: str, side: str) -> None:
        if not label:
            return
        lines = label.count("\n") + 1
        nearly_level = abs(b[0] - a[0]) >= 3 * abs(b[1] - a[1])
        side = side or ("above" if nearly_level else "right")
        x, y = at
        wide, tall = width(label, _SMALL), lines * _SMALL * 1.25
        # a slanting line rises by `rise` under half of the text's width, and runs by `run` beside half of its height
        rise = min(1.0, abs(b[1] - a[1]) / max(abs(b[0] - a[0]), 1e-9)) * wide / 2
        run = min(1.0, abs(b[0] - a[0]) / max(abs(b[1] - a[1]), 1e-9)) * tall / 2
        off, aside = 5 + tall / 2 + rise, 7 + run
        spots = {"above": ((x, y - off), "middle"), "below": ((x, y + off), "middle"), "left": ((x - aside, y), "end")}
        spots["right"] = ((x + aside, y), "start")
        if side not in spots:
            raise ValueError(f"label_side: expected one of {', '.join(spots)}, got {side!r}.")
        spot, anchor = spots[side]
        self._letters(label, spot, size=_SMALL, anchor=anchor, role=role)


def _ends(a: Any, b: Any, elbow: str) -> tuple[Point, Point]:
    """Where an arrow leaves a and where it meets b."""
    start, end = (p if _is_point(p) else around(p) for p in (a, b))
    if isinstance(start, tuple) and isinstance(end, tuple):
        return start, end
    first, second = (Part(p[0], p[1], 0, 0) if isinstance(p, tuple) else p for p in (start, end))
    out_x = max(second.x - (first.x + first.w), first.x - (second.x + second.w))
    out_y = max(second.y - (first.y + first.h), first.y - (second.y + second.h))
    level = out_x >= out_y
    leave_level = {"h": True, "v": False}.get(elbow, level)
    meet_level = {"h": False, "v": True}.get(elbow, level)
    p = start if isinstance(start, tuple) else _side(first, second, leave_level)
    q = end if isinstance(end, tuple) else _side(second, first, meet_level)
    if not elbow:
        p, q = _straighten(
            p, q, first if not isinstance(start, tuple) else None, second if not isinstance(end, tuple) else None, level
        )
    if not isinstance(start, tuple) and (elbow == "h" or (not elbow and level and p[1] == q[1])):
        p = _beside(first, p)
    if not isinstance(end, tuple) and (elbow == "v" or (not elbow and level and p[1] == q[1])):
        q = _beside(second, q)
    return p, q


def _beside(part: Part, at: Point) -> Point:
    """The end of a level line, brought up to the part where a wide label above or below it would keep them apart."""
    left, right = part.reach
    return (right + _GAP if at[0] > part.centre[0] else left - _GAP), at[1]


def _straighten(p: Point, q: Point, first: Part | None, second: Part | None, level: bool) -> tuple[Point, Point]:
    """Nearly level or upright arrows become so, where the smaller part's middle faces the larger part's edge."""
    axis = 1 if level else 0
    if p[axis] == q[axis]:
        return p, q

    def faces(part: Part | None, at: float) -> bool:
        if part is None:
            return False
        low, long = (part.y, part.h) if level else (part.x, part.w)
        return low + 3 <= at <= low + long - 3

    def moved(point: Point, at: float) -> Point:
        return (point[0], at) if level else (at, point[1])

    small_first = first is None or (second is not None and (first.h if level else first.w) <= (second.h if level else second.w))
    if small_first and faces(second, p[axis]):
        return p, moved(q, p[axis])
    if not small_first and faces(first, q[axis]):
        return moved(p, q[axis]), q
    return p, q


def _side(part: Part, other: Part, level: bool) -> Point:
    x0, y0, x1, y1 = part.extent
    (cx, cy), (ox, oy) = part.centre, other.centre
    if level:
        return (x1 + _GAP, cy) if ox >= cx else (x0 - _GAP, cy)
    return (cx, y1 + _GAP) if oy >= cy else (cx, y0 - _GAP)


def _is_point(p: Any) -> bool:
    return isinstance(p, tuple) and len(p) == 2 and all(isinstance(v, (int, float)) for v in p)


def _halfway(a: Point, b: Point) -> Point:
    return (a[0] + b[0]) / 2, (a[1] + b[1]) / 2


def _bent(a: Point, b: Point, bend: float) -> Point:
    x, y = _halfway(a, b)
    far = math.dist(a, b) or 1.0
    return x + 2 * bend * (b[1] - a[1]) / far, y - 2 * bend * (b[0] - a[0]) / far


def _xy(p: Point) -> str:
    return f"{number(p[0])},{number(p[1])}"

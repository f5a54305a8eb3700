"""Vectors in the plane: two axes, arrows, points, angles, polygons. x to the right, y upwards, as in mathematics."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attention_course.drawing.canvas import known_role
from attention_course.drawing.lettering import width
from attention_course.drawing.parts import Part, Point

if TYPE_CHECKING:
    from attention_course.drawing.diagram import Drawing


class Plane(Part):
    """Coordinates inside a drawing, made by `Drawing.axes`; a part like others."""

    def __init__(self, drawing: "Drawing", box: Part, limits: tuple[float, float, float, float]) -> None:
        super().__init__(box.x, box.y, box.w, box.h, box.margins)
        self._drawing, self.limits = drawing, limits

    def point_at(self, xy: Sequence[float]) -> Point:
        """Where a point of the plane is in the drawing, for `Drawing.arrow`, `text(at=...)` and the like."""
        x0, x1, y0, y1 = self.limits
        return self.x + (float(xy[0]) - x0) / (x1 - x0) * self.w, self.y + (y1 - float(xy[1])) / (y1 - y0) * self.h

    def arrow(
        self,
        to: Sequence[float],
        label: str = "",
        *,
        role: str = "plain",
        start: Sequence[float] = (0, 0),
        dashed: bool = False,
        width: float = 2.2,
    ) -> None:
        """A vector from the origin (or from `start`), named at its tip."""
        a, b = self.point_at(start), self.point_at(to)
        end = self._drawing._arrow_head(b, a, known_role(role), 10.0)
        self._drawing._polyline([a, end], line=role, thick=width, dashed=dashed)
        self._name(label, b, (b[0] - a[0], b[1] - a[1]), role)

    def point(self, at: Sequence[float], label: str = "", *, role: str = "plain", radius: float = 4.0, side: str = "") -> None:
        """A dot, named on the side away from the origin, or on `side`: left, right, above, below."""
        x, y = self.point_at(at)
        self._drawing._circle((x, y), radius, fill=("line", known_role(role)), layer="front")
        ways = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "above": (0.0, -1.0), "below": (0.0, 1.0)}
        origin = self.point_at((0, 0))
        away = (x - origin[0], y - origin[1])
        self._name(label, (x, y), ways[side] if side else away if any(away) else (1.0, 1.0), role)

    def line(
        self, a: Sequence[float], b: Sequence[float], *, role: str = "muted", dashed: bool = True, width: float = 1.4
    ) -> None:
        """A line between two points, dashed unless asked otherwise."""
        self._drawing._polyline([self.point_at(a), self.point_at(b)], line=known_role(role), thick=width, dashed=dashed)

    def polygon(self, points: Sequence[Sequence[float]], *, role: str = "value", hull: bool = True) -> None:
        """A filled polygon, by default the convex hull of the points."""
        corners = convex_hull(points) if hull else [(float(p[0]), float(p[1])) for p in points]
        look = {"fill": ("fill", known_role(role)), "line": role, "thick": 1.2, "layer": "behind"}
        self._drawing._polyline([self.point_at(p) for p in corners], close=True, **look)

    def angle(self, u: Sequence[float], v: Sequence[float], label: str = "", *, radius: float = 0.3, role: str = "plain") -> None:
        """The arc from vector u to vector v, the short way, at `radius` of the plane's half width."""
        r = radius * self.w / 2
        start = math.atan2(float(u[1]), float(u[0]))
        turn = (math.atan2(float(v[1]), float(v[0])) - start + math.pi) % (2 * math.pi) - math.pi
        ox, oy = self.point_at((0, 0))
        steps = [start + turn * i / 24 for i in range(25)]
        self._drawing._polyline([(ox + r * math.cos(t), oy - r * math.sin(t)) for t in steps], line=known_role(role), thick=1.2)
        middle = start + turn / 2
        if label:
            out = r + 8 + 0.5 * max(20.0 * abs(math.sin(middle)), width_of(label) * abs(math.cos(middle)))
            self._drawing._letters(label, (ox + out * math.cos(middle), oy - out * math.sin(middle)), role=role, size=14)

    def circle(self, radius: float, *, role: str = "muted", at: Sequence[float] = (0, 0)) -> None:
        """A dashed circle."""
        px = radius * self.w / (self.limits[1] - self.limits[0])
        self._drawing._circle(self.point_at(at), px, line=known_role(role), dashed=True)

    def _name(self, label: str, at: Point, away: Point, role: str) -> None:
        if not label:
            return
        far = math.hypot(*away) or 1.0
        ux, uy = away[0] / far, away[1] / far
        anchor = "start" if ux > 0.35 else "end" if ux < -0.35 else "middle"
        self._drawing._letters(label, (at[0] + 9 * ux, at[1] + 13 * uy), anchor=anchor, role=role)


def width_of(label: str) -> float:
    """The width of a small label."""
    return width(label, 14)


def convex_hull(points: Sequence[Sequence[float]]) -> list[Point]:
    """The corners of the smallest convex polygon around the points, against the clock.

    >>> convex_hull([(0, 0), (2, 0), (1, 1), (2, 2), (0, 2)])
    [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
    """
    ordered = sorted({(float(x), float(y)) for x, y in np.asarray(points, dtype=float)})
    if len(ordered) < 3:
        return ordered

    def chain(points: Sequence[Point]) -> list[Point]:
        out: list[Point] = []
        for p in points:
            while len(out) > 1 and _turns_right(out[-2], out[-1], p):
                out.pop()
            out.append(p)
        return out[:-1]

    return chain(ordered) + chain(ordered[::-1])


def _turns_right(a: Point, b: Point, c: Point) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) <= 0

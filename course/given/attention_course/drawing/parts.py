"""Where the parts of a drawing are: boxes, their edges, and the place of a new one beside those drawn before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

Point = tuple[float, float]
Margins = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass
class Part:
    """A box in a drawing; `margins` is what its labels take outside of it. y grows downwards.

    `over` is the part of the left and of the right margin that only a label above or below needs: nothing stands there at the
    height of the box itself.
    """

    x: float
    y: float
    w: float
    h: float
    margins: Margins = (0.0, 0.0, 0.0, 0.0)
    rows: int = 1
    columns: int = 1
    extra: dict[str, object] = field(default_factory=dict)
    over: tuple[float, float] = (0.0, 0.0)

    @property
    def left(self) -> Point:
        """The middle of the left edge."""
        return self.x, self.y + self.h / 2

    @property
    def right(self) -> Point:
        """The middle of the right edge."""
        return self.x + self.w, self.y + self.h / 2

    @property
    def top(self) -> Point:
        """The middle of the upper edge."""
        return self.x + self.w / 2, self.y

    @property
    def bottom(self) -> Point:
        """The middle of the lower edge."""
        return self.x + self.w / 2, self.y + self.h

    @property
    def centre(self) -> Point:
        """The middle."""
        return self.x + self.w / 2, self.y + self.h / 2

    def cell(self, i: int, j: int) -> "Part":
        """The cell in row i and column j of a matrix, as a part; negative numbers count from the end."""
        row, column = self._index(i, self.rows, "row"), self._index(j, self.columns, "column")
        w, h = self.w / self.columns, self.h / self.rows
        return Part(self.x + column * w, self.y + row * h, w, h)

    def row(self, i: int) -> "Part":
        """Row i of a matrix, as a part."""
        h = self.h / self.rows
        return Part(self.x, self.y + self._index(i, self.rows, "row") * h, self.w, h, columns=self.columns)

    def column(self, j: int) -> "Part":
        """Column j of a matrix, as a part."""
        w = self.w / self.columns
        return Part(self.x + self._index(j, self.columns, "column") * w, self.y, w, self.h, rows=self.rows)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(x0, y0, x1, y1) with the labels."""
        left, top, right, bottom = self.margins
        return self.x - left, self.y - top, self.x + self.w + right, self.y + self.h + bottom

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where it goes at its own height, with what is written left and right of it."""
        x0, _, x1, _ = self.extent
        return x0 + self.over[0], x1 - self.over[1]

    def grow(self, side: str, by: float) -> None:
        """Take `by` px more outside on one side: something was written there."""
        index = ("left", "top", "right", "bottom").index(side)
        self.over = (self.over[0] * (index != 0), self.over[1] * (index != 2))
        self.margins = tuple(m + by * (i == index) for i, m in enumerate(self.margins))  # type: ignore[assignment]

    @staticmethod
    def _index(i: int, n: int, what: str) -> int:
        if not -n <= i < n:
            raise ValueError(f"{what} {i}: expected one of 0 to {n - 1}.")
        return i % n


def around(parts: "Part | Sequence[Part]") -> Part:
    """One box around several, with their labels' margins."""
    if isinstance(parts, Part):
        return parts
    if not parts:
        raise ValueError("expected at least one part, got none.")
    x0, y0 = min(p.x for p in parts), min(p.y for p in parts)
    x1, y1 = max(p.x + p.w for p in parts), max(p.y + p.h for p in parts)
    ex = [p.extent for p in parts]
    margins = (x0 - min(e[0] for e in ex), y0 - min(e[1] for e in ex), max(e[2] for e in ex) - x1, max(e[3] for e in ex) - y1)
    reach = [p.reach for p in parts]
    over = (min(r[0] for r in reach) - min(e[0] for e in ex), max(e[2] for e in ex) - max(r[1] for r in reach))
    return Part(x0, y0, x1 - x0, y1 - y0, margins, over=over)


def shift_along(start: float, length: float, new: float, align: str) -> float:
    """Where a new box begins along an edge: "start", "centre" or "end" of it."""
    shares = {"start": 0.0, "centre": 0.5, "end": 1.0}
    if align not in shares:
        raise ValueError(f"align: expected start, centre or end, got {align!r}.")
    return start + shares[align] * (length - new)

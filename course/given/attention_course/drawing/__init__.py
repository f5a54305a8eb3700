"""Diagrams for the lessons: matrices to scale, boxes, arrows, heads, caches, vectors in the plane; 10 to 30 lines each.

    d = Drawing(alt="Q, 3 by 4, times K transposed, 4 by 5, gives the scores S, 3 by 5.")
    d.matrix((3, 4), "Q", role="query", sizes=("n", "d_k"))
    d.text("·")
    d.matrix((4, 5), "K^T", role="key", sizes=("d_k", "m"))
    d.text("=")
    d.matrix((3, 5), "S", role="score", sizes=("n", "m"))
    d

The last line shows it. A part without a place stands right of the one before; `right_of`, `left_of`, `above`, `below` and
`gap` place it otherwise. The alternative text is required. Under it is the library drawsvg, which needs nothing else for SVG.
"""

from attention_course.drawing.colours import COLOURS, ROLES
from attention_course.drawing.diagram import Drawing
from attention_course.drawing.parts import Part
from attention_course.drawing.plane import Plane

__all__ = ["COLOURS", "ROLES", "Drawing", "Part", "Plane"]

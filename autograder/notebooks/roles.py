"""Tell the roles of a notebook's cells: answer, check, figure, text.

Roles are read only from the metadata that the author wrote: `nbgrader: {grade_id, solution | grade | locked}`.
"""

import re
from collections.abc import Mapping
from typing import Any

CHECK = re.compile(r"""^check\(\s*["'](\w+)["']\s*\)$""")
FIGURE = "figure"
INSTALL = "install"  # the tag, and the id, of the cell that says what to install where the course is missing
NEXT = "next-lesson"  # the tag, and the id, of the cell that leads to the next lesson


def exercise_of(cell: Any) -> str | None:
    """Return the exercise that an autograded cell checks, or None. The source of such a cell is exactly `check("name")`."""
    if cell.cell_type != "code" or not is_grade(cell):
        return None
    match = CHECK.match(cell.source.strip())
    return match[1] if match else None


def grader(cell: Any) -> Mapping[str, Any]:
    """Return the cell's nbgrader metadata, empty if it has none."""
    found: Mapping[str, Any] = cell.metadata.get("nbgrader", {})
    return found


def is_grade(cell: Any) -> bool:
    """Return whether the cell carries points."""
    return bool(grader(cell).get("grade"))


def is_answer(cell: Any) -> bool:
    """Return whether the learner writes in this cell."""
    return bool(grader(cell).get("solution"))


def grade_id(cell: Any) -> str | None:
    """Return the cell's `grade_id`, or None."""
    return grader(cell).get("grade_id")


def is_figure(cell: Any) -> bool:
    """Return whether the cell only draws. Nothing graded depends on such a cell, so grading need not run it."""
    return FIGURE in cell.metadata.get("tags", [])

"""Find the released text of an answer cell, for the Reset button in JupyterLab.

In: the name of an exercise, in the kernel of its notebook. Out: JSON on standard output.
"""

import json
from pathlib import Path

from autograder.authoring.course import CourseError
from autograder.workspace import folder as workspace


def released_source(folder: Path, lesson: str, exercise: str) -> str:
    """Return the text with which the answer cell of `exercise` was released.

    If the workspace `folder` keeps no release, as on a hub, the course's own release is used. Raises CourseError if the course
    has no such lesson, or the release has no such cell.
    """
    path = workspace.release(folder, lesson)
    if not path.exists():
        installed = workspace.released()
        if lesson not in installed:
            raise CourseError(f"expected the release of {lesson} in {folder}, found none. Open the notebook with `attn lab`.")
        path = installed[lesson] / f"{lesson}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:  # JupyterLite has no nbformat
        about = cell["metadata"].get("nbgrader", {})
        if about.get("solution") and about.get("grade_id") == exercise:
            return "".join(cell["source"])
    raise CourseError(f"{lesson}: expected an answer cell `{exercise}` in the release, found none.")


def show(exercise: str) -> None:
    """Print the released text as JSON, for the notebook in whose folder the kernel runs."""
    print(json.dumps(released_source(Path.cwd().parent, Path.cwd().name, exercise)))

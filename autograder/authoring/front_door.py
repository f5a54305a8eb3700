"""Define a course's landing page, which `front_door.py` in the course folder describes.

The page has one exercise that runs in the page itself. It is declared like any other exercise, and its pack is made when the
site is built.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.course import PACKAGE, CourseError, adopt, course_root
from autograder.judging.exercise import Exercise
from autograder.packs import make_pack, pack_file

MODULE = "front_door"


@dataclass(frozen=True)
class FrontDoor:
    """The words, the figure and the exercise of a landing page.

    `figure` returns what a notebook would show as HTML, and `card` a PNG for links on other sites. `start` is the code in
    the editor when the page opens, and `setup` runs before each answer.
    """

    promise: str
    lead: str
    figure: Callable[[], Any]
    caption: str
    card: Callable[[], bytes]
    exercise: Exercise
    task: str
    setup: str
    start: str

    def figure_html(self) -> str:
        """Return the figure as HTML."""
        return str(self.figure()._repr_mimebundle_()["text/html"])

    def write_lesson(self, folder: Path) -> None:
        """Write the exercise into `folder` as a released lesson: a notebook of two cells, and its pack.

        Raises CourseError if no pack can be made of the exercise.
        """
        name = self.exercise.id
        solution = {"grade_id": name, "solution": True, "grade": False, "locked": False, "schema_version": 3}
        setup = nbformat.v4.new_code_cell(self.setup, id="setup")
        answer = nbformat.v4.new_code_cell(self.start, id=name, metadata={"nbgrader": solution})
        notebook = nbformat.v4.new_notebook(cells=[setup, answer])
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / f"{MODULE}.ipynb")
        try:
            pack = make_pack.make(MODULE, self.exercise.title, [self.exercise], naming="near")
        except ValueError as error:
            raise CourseError(str(error)) from None
        pack_file.save(pack, folder / f"{MODULE}{pack_file.SUFFIX}")


def find() -> FrontDoor | None:
    """Return the course's landing page, or None if it declares none, as in a wheel, which holds no answers.

    Raises CourseError if the `FRONT_DOOR` in `front_door.py` is not a FrontDoor.
    """
    root = course_root()
    if not (root / f"{MODULE}.py").is_file():
        return None
    adopt(root)
    module = importlib.import_module(f"{PACKAGE}.{MODULE}")
    door = getattr(module, "FRONT_DOOR", None)
    if not isinstance(door, FrontDoor):
        raise CourseError(f"{root / MODULE}.py: FRONT_DOOR: expected a FrontDoor, got {type(door).__name__}.")
    return door

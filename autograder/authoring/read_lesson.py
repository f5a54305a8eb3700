"""Read a lesson's text as a notebook, with cell ids and complete nbgrader metadata."""

from collections.abc import Mapping
from typing import Any

import nbformat

from autograder.authoring.course import CourseError, Lesson, did_you_mean
from autograder.authoring.lesson_links import to_notebooks
from autograder.authoring.workload import announce
from autograder.judging.exercise import AnyExercise
from autograder.notebooks.roles import CHECK, exercise_of, grade_id, is_figure

_DEFAULTS = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
_LANGUAGE = {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"}


def read_lesson(lesson: Lesson) -> Any:
    """Return the lesson's notebook, not yet executed, with ids and complete metadata.

    Raises CourseError naming the cell for an unknown exercise, a check without its answer cell, or a repeated grade_id.
    """
    import jupytext

    notebook = jupytext.read(lesson.path)
    exercises = {exercise.id: exercise for exercise in lesson.exercises()}
    identities: set[str] = set()
    for index, cell in enumerate(notebook.cells):
        where = f"{lesson.path.name}, cell {index + 1}"
        if "nbgrader" in cell.metadata:
            _complete(cell, exercises, where)
        identity = grade_id(cell) or f"{lesson.slug}-{index:02d}"
        if identity in identities:
            raise CourseError(f"{where}: grade_id {identity!r} is used twice. Rename one of the cells.")
        identities.add(identity)
        cell.id = identity[:64]
        if cell.cell_type == "markdown":
            cell.source = to_notebooks(cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if is_figure(cell):
            cell.metadata["jupyter"] = nbformat.from_dict({"source_hidden": True})  # folded; a click opens it
    checked = {name for cell in notebook.cells if (name := exercise_of(cell))}
    if missing := [name for name in exercises if name not in checked or name not in identities]:
        raise CourseError(
            f"{lesson.path.name}: expected an answer cell and a check cell for {missing}. Add both, or delete the exercise."
        )
    announce(notebook, exercises)
    notebook.metadata = nbformat.from_dict({"kernelspec": dict(notebook.metadata["kernelspec"]), "language_info": _LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _complete(cell: Any, exercises: Mapping[str, AnyExercise], where: str) -> None:
    given = dict(cell.metadata["nbgrader"])
    if "grade_id" not in given:
        raise CourseError(f"{where}: expected nbgrader metadata with a grade_id, got {given}.")
    meta = {**_DEFAULTS, **given, "cell_type": cell.cell_type}
    if meta["grade"] and not meta["solution"]:
        meta["locked"] = True
        match = CHECK.match(cell.source.strip())
        if match is None:
            raise CourseError(
                f'{where}: expected an autograded cell to be exactly check("name"), got {cell.source.strip()[:60]!r}.'
            )
        if match[1] not in exercises:
            raise CourseError(f"{where}: check({match[1]!r}) names no exercise.{did_you_mean(match[1], list(exercises))}")
        meta["points"] = exercises[match[1]].points
    elif meta["grade"] and "points" not in meta:
        raise CourseError(f"{where}: expected `points` on the written question {given['grade_id']!r}.")
    cell.metadata["nbgrader"] = nbformat.from_dict(meta)

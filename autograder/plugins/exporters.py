"""nbgrader export plugins: grades in the files that learning platforms read.

Run in `course/`, with nbgrader's own `--assignment`, `--student` and `--to`:

    nbgrader export --exporter=autograder.plugins.exporters.CanvasExporter --to=canvas.csv
    nbgrader export --exporter=autograder.plugins.exporters.MoodleExporter --to=moodle.csv
    nbgrader export --exporter=autograder.plugins.exporters.GradescopeExporter --to=gradescope

Canvas: *Grades > Import*. It finds a student by its own `ID`, which is the gradebook's `lms_user_id`
(`nbgrader db student add smith --lms-user-id=4711`), else by `SIS Login ID`, which is the student's id here.
Moodle: *Grades > Import > CSV file*, map `username` (or `email`). Gradescope: one `results.json` for each submission,
as an autograder there would write it. Nobody who has not submitted gets a zero by these: their cell is left empty.

A score is what nbgrader holds, late penalty deducted, never below 0. A text that a spreadsheet would run as a formula
(it begins with `=`, `+`, `-`, `@`, a tab or a line end) gets an apostrophe in front.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.authoring.course import CourseError, did_you_mean
from autograder.notebooks.atomic_write import write_whole

_SAFE_NAME = re.compile(r"(?!\.)[\w.@+ -]{1,100}")


def cell(text: str | float | None) -> str:
    """What stands in a cell of a spreadsheet: numbers as they are, text that cannot become a formula.

    >>> [cell(x) for x in ("Ann", "=1+1", "-x", 3.50, -1.0, None)]
    ['Ann', "'=1+1", "'-x", '3.5', '-1', '']
    """
    if text is None:
        return ""
    if isinstance(text, str):
        return f"'{text}" if re.match(r"\s*[=+\-@\t\r\n]", text) else text
    return f"{round(text, 4):g}"


def scored(submission: Any) -> float:
    """The submission's score after its late penalty, at least 0."""
    left: float = submission.score - (submission.late_submission_penalty or 0.0)
    return max(0.0, left)


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """What the exporters share: which assignments and students are asked for, and how a file is written."""

    def assignments(self, gradebook: Any) -> list[Any]:
        return _chosen("assignment", gradebook.assignments, self.assignment, key=lambda one: one.name)

    def students(self, gradebook: Any) -> list[Any]:
        return _chosen("student", gradebook.students, self.student, key=lambda one: one.id)

    def table(self, default: str, rows: Iterable[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        write_whole(Path(self.to or default), text.getvalue())
        self.log.info("Wrote %s", self.to or default)


class CanvasExporter(_Exporter):
    """Canvas's gradebook CSV: a row of points possible, then one for each student."""

    def export(self, gradebook: Any) -> None:
        assignments = self.assignments(gradebook)
        head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
        rows = [[*head, *(cell(one.name) for one in assignments)]]
        rows.append(["    Points Possible", "", "", "", "", *(cell(one.max_score) for one in assignments)])
        for student in self.students(gradebook):
            name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
            scores = [_score(gradebook, one.name, student.id) for one in assignments]
            rows.append([cell(name), cell(student.lms_user_id), "", cell(student.id), "", *map(cell, scores)])
        self.table("canvas.csv", rows)


class MoodleExporter(_Exporter):
    """Moodle's grade import: a user's name and address, a column for each assignment."""

    def export(self, gradebook: Any) -> None:
        assignments = self.assignments(gradebook)
        rows = [["username", "firstname", "lastname", "email", *(cell(one.name) for one in assignments)]]
        for student in self.students(gradebook):
            who = (student.id, student.first_name, student.last_name, student.email)
            rows.append([*map(cell, who), *(cell(_score(gradebook, one.name, student.id)) for one in assignments)])
        self.table("moodle.csv", rows)


class GradescopeExporter(_Exporter):
    """`<to>/<assignment>/<student>/results.json`, with each graded cell as a test."""

    def export(self, gradebook: Any) -> None:
        folder = Path(self.to or "gradescope")
        students = self.students(gradebook)
        for assignment in self.assignments(gradebook):
            for student in students:
                try:
                    submission = gradebook.find_submission(assignment.name, student.id)
                except MissingEntry:
                    continue
                for name in (assignment.name, student.id):
                    if not _SAFE_NAME.fullmatch(name):
                        raise CourseError(f"expected a name that can be a folder's, got {name!r}. Rename it in the gradebook.")
                path = folder / assignment.name / student.id / "results.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(_results(submission), indent=1))
        self.log.info("Wrote %s", folder)


def _results(submission: Any) -> dict[str, Any]:
    tests = []
    for notebook in submission.notebooks:
        for grade in sorted(notebook.grades, key=lambda one: str(one.name)):
            waits = grade.needs_manual_grade
            test = {"name": grade.name, "score": round(grade.score or 0.0, 4), "max_score": grade.max_score}
            tests.append({**test, "output": "Waits for a person." if waits else "", "visibility": "visible"})
    penalty = submission.late_submission_penalty or 0.0
    said = f"Late: {penalty:g} of {submission.score:g} points deducted." if penalty else ""
    # `score` overrides the sum of the tests: it is the one with the late penalty
    return {"score": round(scored(submission), 4), "output": said, "visibility": "visible", "tests": tests}


def _score(gradebook: Any, assignment: str, student: str) -> float | None:
    try:
        return scored(gradebook.find_submission(assignment, student))
    except MissingEntry:
        return None


def _chosen(kind: str, every: Iterable[Any], asked: Sequence[Any], *, key: Any) -> list[Any]:
    found = {key(one): one for one in every}
    for name in map(str, asked):
        if name not in found:
            raise CourseError(f"expected {kind} {name!r} in the gradebook, found none.{did_you_mean(name, list(found))}")
    return [found[str(name)] for name in asked] if asked else [found[name] for name in sorted(found)]

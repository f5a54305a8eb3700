"""nbgrader export plugins: grades in the files that learning platforms read.

Run in `course/`, with nbgrader's own `--assignment`, `--student` and `--to`:

    nbgrader export --exporter=autograder.plugins.exporters.CanvasExporter --to=canvas.csv
    nbgrader export --exporter=autograder.plugins.exporters.MoodleExporter --to=moodle.csv
    nbgrader export --exporter=autograder.plugins.exporters.GradescopeExporter --to=gradescope

Canvas: *Grades > Import*. It finds a student by its own `ID`, which is the gradebook's `lms_user_id`
(`nbgrader db student add smith --lms-user-id=4711`), else by `SIS Login ID`, which is the student's id here.
Moodle: *Grades > Import > CSV file*, map `username` (or `email`). Gradescope: one `results.json` for each submission,
as an autograder there would write it. Nobody who has not submitted gets a zero by these: their cell is left empty.

`nbgrader export` without a name writes `grades.csv` (`CsvExporter`), with nbgrader's own columns and the section.

A score is what the student's page shows: marks by machine and by hand and extra credit, less the late penalty as it is today
(`autograder.grading.grades`), never below 0. Who is on the class list and handed nothing in has a row too. A text that a
spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a line end) gets an apostrophe in front.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbgrader.plugins import ExportPlugin

from autograder.authoring.course import CourseError, did_you_mean
from autograder.grading.grades import Grade, Grades
from autograder.grading.reports.class_table import cell
from autograder.grading.submitted import MAX_FOLDER
from autograder.notebooks.atomic_write import write_whole

_SAFE_NAME = re.compile(r"(?!\.)[\w.@+ -]{1,128}")  # as long as an id in the gradebook


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """What the exporters share: which assignments and students are asked for, their grades, and how a file is written."""

    def grades(self, gradebook: Any) -> Grades:
        """The grades as they are now; nbgrader's own copy of the penalties is renewed by the way."""
        found = Grades.within(gradebook, self.parent or self)
        found.enrol()
        found.settle_all()
        return found

    def assignments(self, gradebook: Any) -> list[Any]:
        return _chosen("assignment", gradebook.assignments, self.assignment, key=lambda one: one.name)

    def students(self, gradebook: Any) -> list[Any]:
        return _chosen("student", gradebook.students, self.student, key=lambda one: one.id)

    def table(self, default: str, rows: Iterable[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        write_whole(Path(self.to or default), text.getvalue())
        self.log.info("Wrote %s", self.to or default)


class CsvExporter(_Exporter):
    """A row for each student and assignment, with the columns of nbgrader's own export, and the section."""

    def export(self, gradebook: Any) -> None:
        head = ["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "section"]
        rows = [[*head, "raw_score", "late_submission_penalty", "score", "max_score"]]
        grades = self.grades(gradebook)
        for one in self.assignments(gradebook):
            found, times = grades.of(one.name), {each.student_id: each.timestamp for each in one.submissions}
            for student in self.students(gradebook):
                grade, time = found.get(student.id), times.get(student.id)
                who = (student.id, student.last_name, student.first_name, student.email, grades.roster.of(student.id).section)
                row = [cell(one.name), cell(one.duedate and str(one.duedate)), cell(time and str(time)), *map(cell, who)]
                scores = [grade.marks, grade.penalty, grade.total] if grade else [None, None, None]
                rows.append([*row, *map(cell, scores), cell(one.max_score)])
        self.table("grades.csv", rows)


class CanvasExporter(_Exporter):
    """Canvas's gradebook CSV: a row of points possible, then one for each student."""

    def export(self, gradebook: Any) -> None:
        assignments, grades = self.assignments(gradebook), self.grades(gradebook)
        head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
        rows = [[*head, *(cell(one.name) for one in assignments)]]
        rows.append(["    Points Possible", "", "", "", "", *(cell(one.max_score) for one in assignments)])
        found = [grades.of(one.name) for one in assignments]
        for student in self.students(gradebook):
            name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
            who = (name, student.lms_user_id, "", student.id, grades.roster.of(student.id).section)
            rows.append([*map(cell, who), *map(cell, _totals(found, student.id))])
        self.table("canvas.csv", rows)


class MoodleExporter(_Exporter):
    """Moodle's grade import: a user's name and address, a column for each assignment."""

    def export(self, gradebook: Any) -> None:
        assignments, grades = self.assignments(gradebook), self.grades(gradebook)
        rows = [["username", "firstname", "lastname", "email", *(cell(one.name) for one in assignments)]]
        found = [grades.of(one.name) for one in assignments]
        for student in self.students(gradebook):
            who = (student.id, student.first_name, student.last_name, student.email)
            rows.append([*map(cell, who), *map(cell, _totals(found, student.id))])
        self.table("moodle.csv", rows)


class GradescopeExporter(_Exporter):
    """`<to>/<assignment>/<student>/results.json`, with each graded cell as a test."""

    def export(self, gradebook: Any) -> None:
        folder = Path(self.to or "gradescope")
        grades = self.grades(gradebook)
        students = [one.id for one in self.students(gradebook)]
        assignments = self.assignments(gradebook)
        wrong: set[str] = set()
        for assignment in assignments:
            found = grades.of(assignment.name)
            most = {each.name: each.max_score for notebook in assignment.notebooks for each in notebook.grade_cells}
            for student in students:
                if student not in found:
                    continue
                if odd := {name for name in (assignment.name, student) if not _is_folder(name)}:
                    wrong |= odd
                    continue
                path = folder / assignment.name / student / "results.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(_results(found[student], most), indent=1))
        self.log.info("Wrote %s", folder)
        if wrong:  # the others have theirs
            names = ", ".join(map(repr, sorted(wrong)))
            raise CourseError(f"expected names that can be a folder's, got {names}: left out. Rename them in the gradebook.")


def _is_folder(name: str) -> bool:
    return bool(_SAFE_NAME.fullmatch(name)) and len(name.encode()) <= MAX_FOLDER


def _results(grade: Grade, most: Mapping[str, float]) -> dict[str, Any]:
    tests = []
    for name, score in sorted(grade.cells.items()):
        test = {"name": name, "score": round(score, 4), "max_score": most[name]}
        said = "Waits for a person." if name in grade.waiting else ""
        tests.append({**test, "output": said, "visibility": "visible"})
    said = f"Late: {grade.penalty:g} of {grade.marks:g} points deducted." if grade.penalty else ""
    # `score` overrides the sum of the tests: it is the one with the late penalty
    return {"score": grade.total, "output": said, "visibility": "visible", "tests": tests}


def _totals(found: Sequence[Mapping[str, Grade]], student: str) -> list[float | None]:
    return [grades[student].total if student in grades else None for grades in found]


def _chosen(kind: str, every: Iterable[Any], asked: Sequence[Any], *, key: Any) -> list[Any]:
    found = {key(one): one for one in every}
    for name in map(str, asked):
        if name not in found:
            raise CourseError(f"expected {kind} {name!r} in the gradebook, found none.{did_you_mean(name, list(found))}")
    return [found[str(name)] for name in asked] if asked else [found[name] for name in sorted(found)]

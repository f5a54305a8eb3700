"""Export grades from nbgrader in the formats that learning platforms read.

Run these in `course/`. nbgrader's own options `--assignment`, `--student` and `--to` work as usual:

    nbgrader export --exporter=autograder.plugins.exporters.CanvasExporter --to=canvas.csv
    nbgrader export --exporter=autograder.plugins.exporters.MoodleExporter --to=moodle.csv
    nbgrader export --exporter=autograder.plugins.exporters.GradescopeExporter --to=gradescope

Canvas: import the file under *Grades > Import*. Canvas finds a student by its own `ID`, which is the gradebook's `lms_user_id`
(`attn collect` stores it, and `students.csv` may state it), or else by `SIS Login ID`, which is the student's id here.

Moodle: import the file under *Grades > Import > CSV file* and map `email`, or `username` if that is the student's id here.
A warning names the students who cannot be found.

Gradescope: each submission gets a `results.json`, as an autograder on Gradescope would write it. Each exercise is a test with
its title and, if it is wrong, the grader's diagnosis.

A student who has not submitted gets an empty cell, not a zero.

Each export says which assignments still have written answers to grade by hand, because such totals are not final. Canvas finds
an existing column by Canvas's own id of the assignment in the column's head. Set the exporter's `canvas_ids`, or pass
`--CanvasExporter.canvas_ids="{'01_soft_lookup': 4711}"`, and the head becomes `01_soft_lookup (4711)`.

`nbgrader export` without a name writes `grades.csv` (`CsvExporter`), with nbgrader's own columns and the section.

A score is the one on the student's page: points by checks and by hand and extra credit, minus the late penalty as it is today
(`autograder.grading.grades`), and never below 0. A student on the class list who submitted nothing has a row too. If a text
begins with `=`, `+`, `-`, `@`, a tab or a line end, a spreadsheet could run it as a formula, so it gets an apostrophe in front.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nbgrader.plugins import ExportPlugin
from traitlets import Dict

from autograder.authoring.course import CourseError, did_you_mean
from autograder.grading import ledger
from autograder.grading.grades import Grade, Grades
from autograder.grading.ledger import ExerciseRow
from autograder.grading.marking.scheme import read_release
from autograder.grading.reports.class_table import as_csv
from autograder.grading.reports.feedback import titles
from autograder.grading.roster import Roster
from autograder.grading.submitted_folders import MAX_FOLDER
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.roles import exercise_of, grade_id, is_grade

_MADE_UP = re.compile(r".+-\d+")  # ids that `attn collect` makes up for unknown students, and that no platform uses
_SAFE_NAME = re.compile(r"(?!\.)[\w.@+ -]{1,128}")  # as long as an id in the gradebook
MAX_NAMED = 100  # students in one warning
Cells = Sequence[str | float | None]


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """Base of the exporters: finds the requested assignments, students and grades, and writes a table."""

    def grades(self, gradebook: Any) -> Grades:
        """Return the current grades. This also updates nbgrader's own copy of the penalties."""
        grades = Grades.within(gradebook, self.parent or self)
        grades.enrol()
        grades.settle_all()
        return grades

    def assignments(self, gradebook: Any) -> list[Any]:
        return _chosen("assignment", gradebook.assignments, self.assignment, key=lambda assignment: assignment.name)

    def students(self, gradebook: Any) -> list[Any]:
        return _chosen("student", gradebook.students, self.student, key=lambda student: student.id)

    def warn_of_missing_marks(self, assignment: str, grades: Mapping[str, Grade]) -> None:
        """Warn if written answers to `assignment` by students in `grades` have no mark yet, and say how many."""
        waiting = [len(grade.waiting) for grade in grades.values() if grade.waiting]
        if waiting:
            self.log.warning(
                "%s: %d written answers of %d students are not graded yet, so these totals are not final. Run `attn mark %s`.",
                assignment, sum(waiting), len(waiting), assignment,
            )  # fmt: skip

    def warn_of_strangers(self, platform: str, students: Iterable[Any], column: str, roster: Roster) -> None:
        """Warn about the `students` whom `platform` will not find.

        Such students have nothing in `column`. Also, `attn collect` made up their id, or there is a class list without it.
        """
        listed = roster.students
        lost = [
            student.id
            for student in students
            if not getattr(student, column) and (_MADE_UP.fullmatch(student.id) or (listed and student.id not in listed))
        ]
        if lost:
            more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
            self.log.warning(
                "%s will not find %d of these students: %s%s. Give each an `id` and `%s` in students.csv, then export again.",
                platform, len(lost), ", ".join(lost[:MAX_NAMED]), more, column,
            )  # fmt: skip

    def columns(self, gradebook: Any, platform: str, column: str) -> tuple[list[Any], list[Mapping[str, Grade]], Roster]:
        """Return the assignments, their grades by student, and the class list. Logs warnings about missing marks and students."""
        assignments, grades = self.assignments(gradebook), self.grades(gradebook)
        by_student: list[Mapping[str, Grade]] = [grades.of(assignment.name) for assignment in assignments]
        for assignment, theirs in zip(assignments, by_student, strict=True):
            self.warn_of_missing_marks(assignment.name, theirs)
        self.warn_of_strangers(platform, self.students(gradebook), column, grades.roster)
        return assignments, by_student, grades.roster

    def table(self, default: str, rows: Iterable[Cells]) -> None:
        write_whole(Path(self.to or default), as_csv(rows))
        self.log.info("Wrote %s", self.to or default)


class CsvExporter(_Exporter):
    """Write a row for each student and assignment, with the columns of nbgrader's own export and the section."""

    def export(self, gradebook: Any) -> None:
        head = ["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "section"]
        rows: list[Cells] = [[*head, "raw_score", "late_submission_penalty", "score", "max_score"]]
        grades = self.grades(gradebook)
        for assignment in self.assignments(gradebook):
            by_student = grades.of(assignment.name)
            self.warn_of_missing_marks(assignment.name, by_student)
            times = {submission.student_id: submission.timestamp for submission in assignment.submissions}
            for student in self.students(gradebook):
                grade, time = by_student.get(student.id), times.get(student.id)
                who = (student.id, student.last_name, student.first_name, student.email, grades.roster.of(student.id).section)
                when = (assignment.duedate and str(assignment.duedate), time and str(time))
                scores = [grade.marks, grade.penalty, grade.total] if grade else [None, None, None]
                rows.append([assignment.name, *when, *who, *scores, assignment.max_score])
        self.table("grades.csv", rows)


class CanvasExporter(_Exporter):
    """Write Canvas's gradebook CSV: a row of points possible, then a row for each student."""

    canvas_ids = Dict(help="Canvas's own id of each assignment, by name: Canvas then fills the column that is there")
    canvas_ids.tag(config=True)

    def export(self, gradebook: Any) -> None:
        assignments, by_student, roster = self.columns(gradebook, "Canvas", "lms_user_id")
        head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
        rows: list[Cells] = [[*head, *(self._column(assignment.name) for assignment in assignments)]]
        rows.append(["    Points Possible", "", "", "", "", *(assignment.max_score for assignment in assignments)])
        for student in self.students(gradebook):
            name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
            who = (name, student.lms_user_id, "", student.id, roster.of(student.id).section)
            rows.append([*who, *_totals(by_student, student.id)])
        self.table("canvas.csv", rows)

    def _column(self, assignment: str) -> str:
        """Return the head of the column, with Canvas's id if it is known."""
        known = self.canvas_ids.get(assignment)
        return f"{assignment} ({known})" if known else assignment


class MoodleExporter(_Exporter):
    """Write Moodle's grade import: a user's name and address, and a column for each assignment."""

    def export(self, gradebook: Any) -> None:
        assignments, by_student, _ = self.columns(gradebook, "Moodle", "email")
        rows: list[Cells] = [["username", "firstname", "lastname", "email", *(assignment.name for assignment in assignments)]]
        for student in self.students(gradebook):
            who = (student.id, student.first_name, student.last_name, student.email)
            rows.append([*who, *_totals(by_student, student.id)])
        self.table("moodle.csv", rows)


class GradescopeExporter(_Exporter):
    """Write `<to>/<assignment>/<student>/results.json`, where each graded cell is a test with title, points and diagnosis."""

    def export(self, gradebook: Any) -> None:
        folder = Path(self.to or "gradescope")
        grades = self.grades(gradebook)
        students = [one.id for one in self.students(gradebook)]
        assignments = self.assignments(gradebook)
        wrong: set[str] = set()
        for assignment in assignments:
            by_student = grades.of(assignment.name)
            self.warn_of_missing_marks(assignment.name, by_student)
            names, states = self._known(assignment.name)
            most = {graded.name: graded.max_score for notebook in assignment.notebooks for graded in notebook.grade_cells}
            for student in students:
                if student not in by_student:
                    continue
                if odd := {name for name in (assignment.name, student) if not _is_folder(name)}:
                    wrong |= odd
                    continue
                path = folder / assignment.name / student / "results.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(_results(by_student[student], most, names, states.get(student, {})), indent=1))
        self.log.info("Wrote %s", folder)
        if wrong:  # the other results have been written
            listed = ", ".join(map(repr, sorted(wrong)))
            raise CourseError(f"expected names that can be a folder's, got {listed}: left out. Rename them in the gradebook.")

    def _known(self, assignment: str) -> tuple[dict[str, "_Test"], dict[str, dict[str, ExerciseRow]]]:
        """Return the graded cells' titles and the state of each student's exercises; both are empty outside a course folder."""
        coursedir = getattr(self.parent, "coursedir", None)
        if coursedir is None:
            return {}, {}
        root = Path(coursedir.root)
        try:
            released = read_release(root, assignment)
        except CourseError:
            return {}, {}
        called = titles(released)
        graded = [cell for cell in released.cells if is_grade(cell)]
        names = {name: _Test(called[name], exercise_of(cell) or "") for cell in graded if (name := str(grade_id(cell)))}
        return names, {entry.row.student: entry.row.exercises for entry in ledger.entries(root, assignment)}


class _Test(NamedTuple):
    """A graded cell as Gradescope shows it: its title, and the exercise that it checks."""

    title: str
    exercise: str


def _is_folder(name: str) -> bool:
    return bool(_SAFE_NAME.fullmatch(name)) and len(name.encode()) <= MAX_FOLDER


def _results(
    grade: Grade, most: Mapping[str, float], names: Mapping[str, _Test], states: Mapping[str, ExerciseRow]
) -> dict[str, Any]:
    tests = []
    order = [*(name for name in names if name in grade.cells), *sorted(name for name in grade.cells if name not in names)]
    for name in order:
        known = names.get(name, _Test(name, ""))
        test = {"name": known.title, "score": round(grade.cells[name], 4), "max_score": most[name]}
        text = "Not graded yet: a person reads this answer." if name in grade.waiting else _diagnosis(states.get(known.exercise))
        tests.append({**test, "output": text, "visibility": "visible"})
    late = f"Late: {grade.penalty:g} of {grade.marks:g} points deducted." if grade.penalty else ""
    missing = f"Not final: {len(grade.waiting)} written answers are not graded yet." if grade.waiting else ""
    text = " ".join(filter(None, [late, missing]))
    # `score` includes the late penalty and overrides the sum of the tests
    return {"score": grade.total, "output": text, "visibility": "visible", "tests": tests}


def _diagnosis(state: ExerciseRow | None) -> str:
    """Return in one line what the student's page says about the exercise."""
    if state is None or (state.status == "pass" and not state.carried):
        return ""
    return state.headline


def _totals(by_student: Sequence[Mapping[str, Grade]], student: str) -> list[float | None]:
    return [grades[student].total if student in grades else None for grades in by_student]


def _chosen(kind: str, every: Iterable[Any], asked: Sequence[Any], *, key: Any) -> list[Any]:
    by_name = {key(item): item for item in every}
    for name in map(str, asked):
        if name not in by_name:
            raise CourseError(f"expected {kind} {name!r} in the gradebook, found none.{did_you_mean(name, list(by_name))}")
    return [by_name[str(name)] for name in asked] if asked else [by_name[name] for name in sorted(by_name)]

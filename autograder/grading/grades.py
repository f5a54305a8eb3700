"""Compute what a submission is worth *now*. Pages, reports, exports and the stored penalty all use this, so they agree.

In: nbgrader's gradebook (automatic and manual marks, extra credit, due dates, times of submission), the class list, the
course's late rule. Out: a `Grade` for each submission. Nothing is cached, so a moved due date, an extension or a manual mark
counts the next time a grade is computed. nbgrader keeps a copy of the penalty for its own commands, and `settle` renews it.

A student's late days are spent in order of due date, one for each day begun, and only if they reduce the penalty.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_DOWN, Decimal
from pathlib import Path
from typing import Any

from autograder.grading.roster import DAY, Roster
from autograder.grading.roster import read as read_roster

Rule = Callable[[str, float, float], float | None]  # (student, score, seconds late) -> points to subtract


@dataclass(frozen=True)
class Grade:
    """What a submission is worth. `marks` include the `extra` credit; `late_s` counts after extensions and extra time."""

    student: str
    assignment: str
    marks: float = 0.0
    extra: float = 0.0
    points: float = 0.0
    late_s: float = 0.0
    late_days: int = 0  # days of the student's budget spent here
    penalty: float = 0.0
    waiting: tuple[str, ...] = ()  # cells that a person still has to mark
    by_hand: tuple[str, ...] = ()  # cells that a person has marked
    cells: Mapping[str, float] = field(default_factory=dict)  # marks by cell, including extra credit
    submission: str = ""  # nbgrader's id of the submitted notebook, for links to formgrader
    timed: bool = True  # false if there is a due date but no known time of submission

    @property
    def total(self) -> float:
        """Marks minus penalty, at least 0."""
        return round(max(0.0, self.marks - self.penalty), 2)


def late_rule(parent: Any) -> Rule:
    """Return the late penalty rule that the configuration of `parent` (an nbgrader application) names."""
    from nbgrader.preprocessors import AssignLatePenalties

    penalties = AssignLatePenalties(parent=parent)
    penalties.init_plugin()
    rule: Rule = penalties.plugin_inst.late_submission_penalty
    return rule


class Grades:
    """The grades in `book` (nbgrader's Gradebook, open), under `rule` and `roster`."""

    def __init__(self, book: Any, rule: Rule, roster: Roster | None = None):
        from nbgrader import api

        self._tables, self._book, self._rule, self.roster = api, book, rule, roster or Roster()

    @classmethod
    def within(cls, book: Any, parent: Any) -> "Grades":
        """Return the grades in `book` under the rules of the course of `parent` (an nbgrader application, or None)."""
        coursedir = getattr(parent, "coursedir", None)
        return cls(book, late_rule(parent), read_roster(Path(coursedir.root)) if coursedir is not None else None)

    def of(self, assignment: str, student: str | None = None) -> dict[str, Grade]:
        """Return the grades of everybody who handed in `assignment`, or of `student` alone."""
        grades = {}
        cells = self._cells(assignment, student)
        for submission in self._submissions(assignment, student):
            name = submission.student_id
            rows = cells.get(name, [])
            marks = round(sum(row.score or 0.0 for row in rows), 2)
            late = self._late(submission)
            days = self._late_days(name, submission.assignment) if late else 0
            taken = self._rule(name, marks, late - days * DAY) if late - days * DAY > 0 else 0.0
            penalty = _hundredths(min(max(taken or 0.0, 0.0), max(marks, 0.0)))
            grades[name] = Grade(
                name, assignment, marks, round(sum(row.extra_credit or 0.0 for row in rows if _marked(row)), 2),
                round(sum(row.max_score for row in rows), 2), late, days, penalty,
                tuple(sorted(row.name for row in rows if row.needs_manual_grade)),
                tuple(sorted(row.name for row in rows if row.manual_score is not None)),
                {row.name: row.score or 0.0 for row in rows}, rows[0].notebook_id if rows else "",
                submission.assignment.duedate is None or submission.timestamp is not None,
            )  # fmt: skip
        return grades

    def settle(self, assignment: str, student: str | None = None) -> None:
        """Renew nbgrader's own copy of the penalties, without committing."""
        self._book.db.flush()
        submissions = self._submissions(assignment, student)
        grades = self.of(assignment, student) if any(map(self._late, submissions)) else {}  # nobody is late
        for submission in submissions:
            left = grades[submission.student_id].penalty or None if grades else None
            for notebook in submission.notebooks:  # ours have one notebook; of several, the first bears the penalty
                if notebook.late_submission_penalty != left:
                    notebook.late_submission_penalty = left
                left = None

    def settle_all(self) -> None:
        """Call `settle` for every assignment, and commit."""
        for assignment in self._book.assignments:
            self.settle(assignment.name)
        self._book.db.commit()

    def enrol(self) -> None:
        """Enter everybody on the class list in the gradebook, so that formgrader and exports show who handed in nothing."""
        students = self.roster.students
        for name, row in enter(self._book, {listed.id: listed.name for listed in students.values()}).items():
            row.email = students[name].email or row.email
            row.lms_user_id = students[name].lms_user_id or row.lms_user_id
        self._book.db.commit()

    def _submissions(self, assignment: str, student: str | None) -> list[Any]:
        table, given = self._tables.SubmittedAssignment, self._tables.Assignment
        query = self._book.db.query(table).join(given, given.id == table.assignment_id).filter(given.name == assignment)
        if student is not None:
            query = query.filter(table.student_id == student)
        return list(query.order_by(table.student_id))

    def _cells(self, assignment: str, student: str | None) -> dict[str, list[Any]]:
        """Return each student's graded cells, with a single query."""
        api, grade = self._tables, self._tables.Grade
        self._book.db.flush()
        query = select_grades(
            assignment, api.SubmittedAssignment.student_id, api.GradeCell.name, grade.score, grade.manual_score, grade.auto_score,
            grade.extra_credit, grade.needs_manual_grade, api.GradeCell.max_score, grade.notebook_id,
        )  # fmt: skip
        if student is not None:
            query = query.where(api.SubmittedAssignment.student_id == student)
        by_student: dict[str, list[Any]] = {}
        for row in self._book.db.execute(query):
            by_student.setdefault(row.student_id, []).append(row)
        return by_student

    def _late(self, submission: Any) -> float:
        """Return by how many seconds `submission` is late, after the extensions from nbgrader and the roster."""
        if submission.assignment.duedate is None:  # nbgrader would add an extension to None
            return 0.0
        late = submission.total_seconds_late
        more = self.roster.more_seconds(submission.student_id, submission.assignment.name)
        return max(0.0, float(late) - more) if late else 0.0

    def _late_days(self, student: str, assignment: Any) -> int:
        """Return how many of the student's late days are spent on `assignment`. Earlier due dates come first."""
        left = self.roster.of(student).late_days
        if not left:
            return 0
        table = self._tables.SubmittedAssignment
        theirs = self._book.db.query(table).filter(table.student_id == student)
        due = [submission for submission in theirs if submission.assignment.duedate is not None]
        for submission in sorted(due, key=lambda each: (each.assignment.duedate, each.assignment.name)):
            spent = self._worth(student, self._late(submission), left)
            if submission.assignment.id == assignment.id:
                return spent
            left -= spent
        return 0

    def _worth(self, student: str, seconds: float, most: int) -> int:
        """Return the fewest late days, at most `most`, that make the penalty for `seconds` late as low as possible."""
        most = min(most, math.ceil(seconds / DAY))
        costs = [self._rule(student, 1.0, left) or 0.0 if (left := seconds - day * DAY) > 0 else 0.0 for day in range(most + 1)]
        return costs.index(min(costs))


def enter(book: Any, people: Mapping[str, str]) -> dict[str, Any]:
    """Enter `people` (student -> full name or "") in `book` without changing a name there, and return their rows by student."""
    from nbgrader.api import Student

    known = {row.id: row for row in book.db.query(Student)}
    rows = {student: known.get(student) or Student(id=student) for student in people}
    book.db.add_all(rows.values())
    for student, name in people.items():
        if name and not (rows[student].first_name or rows[student].last_name):
            first, _, rows[student].last_name = name.rpartition(" ")
            rows[student].first_name = first or None
    return rows


def select_grades(assignment: str, *columns: Any) -> Any:
    """Return a query for `columns` of every grade in `assignment`, its cell and its submission."""
    from nbgrader import api
    from sqlalchemy import select

    return (
        select(*columns)
        .select_from(api.Grade)
        .join(api.GradeCell, api.GradeCell.id == api.Grade.cell_id)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.id == api.Grade.notebook_id)
        .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
        .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
        .where(api.Assignment.name == assignment)
    )


def _hundredths(points: float) -> float:
    """Return a penalty in hundredths of a point. Halves round in the student's favour, regardless of float noise."""
    return float(Decimal(f"{points:.6f}").quantize(Decimal("0.01"), ROUND_HALF_DOWN))


def _marked(row: Any) -> bool:
    """Return whether nbgrader counts the row's extra credit, which it does only if the row has a mark."""
    return row.manual_score is not None or row.auto_score is not None

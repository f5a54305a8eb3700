"""What a submission is worth *now*: page, report, exports and the stored penalty all ask here, so they cannot disagree.

In: nbgrader's gradebook (marks by machine and by hand, extra credit, due dates, times of submission), the class list, the
course's late rule. Out: a `Grade` for each submission. Nothing is cached: a moved due date, an extension or a mark by hand
counts the next time that anybody looks. nbgrader keeps a copy of the penalty for its own commands: `settle` renews it.

A student's late days are spent by due date, on the earliest late work first, a day for each day begun, and only where a day
takes something off the penalty.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_DOWN, Decimal
from pathlib import Path
from typing import Any

from autograder.grading.roster import DAY, Roster
from autograder.grading.roster import read as read_roster

Rule = Callable[[str, float, float], float | None]  # student, score, seconds late: the points to take


@dataclass(frozen=True)
class Grade:
    """A submission's worth. `marks` hold the `extra` credit; `late_s` is what extension and extra time leave of lateness."""

    student: str
    assignment: str
    marks: float = 0.0
    extra: float = 0.0
    points: float = 0.0
    late_s: float = 0.0
    late_days: int = 0  # of the student's budget, spent here
    penalty: float = 0.0
    waiting: tuple[str, ...] = ()  # cells that a person has to mark
    by_hand: tuple[str, ...] = ()  # cells that a person has marked
    cells: Mapping[str, float] = field(default_factory=dict)  # the marks of each cell, extra credit included
    submission: str = ""  # nbgrader's id of the submitted notebook, for formgrader's address
    timed: bool = True  # where there is a due date: whether it is known when it was handed in

    @property
    def total(self) -> float:
        """Marks less penalty, at least 0."""
        return round(max(0.0, self.marks - self.penalty), 2)


def late_rule(parent: Any) -> Rule:
    """The late penalty plugin that the configuration of `parent` (an nbgrader application) names."""
    from nbgrader.preprocessors import AssignLatePenalties

    penalties = AssignLatePenalties(parent=parent)
    penalties.init_plugin()
    found: Rule = penalties.plugin_inst.late_submission_penalty
    return found


class Grades:
    """The grades that `book` (nbgrader's Gradebook, open) holds, under `rule` and `roster`."""

    def __init__(self, book: Any, rule: Rule, roster: Roster | None = None):
        from nbgrader import api

        self._tables, self._book, self._rule, self.roster = api, book, rule, roster or Roster()

    @classmethod
    def within(cls, book: Any, parent: Any) -> "Grades":
        """Those of `book` as the course of `parent` (an nbgrader application, or None) rules."""
        coursedir = getattr(parent, "coursedir", None)
        return cls(book, late_rule(parent), read_roster(Path(coursedir.root)) if coursedir is not None else None)

    def one(self, assignment: str, student: str) -> Grade | None:
        """The grade of `student`; None where nothing was handed in."""
        return self.of(assignment, student).get(student)

    def of(self, assignment: str, student: str | None = None) -> dict[str, Grade]:
        """The grade of everybody who handed `assignment` in, or of `student` alone."""
        found = {}
        cells = self._cells(assignment, student)
        for submission in self._submissions(assignment, student):
            name = submission.student_id
            rows = cells.get(name, [])
            marks = round(sum(row.score or 0.0 for row in rows), 2)
            late = self._late(submission)
            days = self._late_days(name, submission.assignment) if late else 0
            taken = self._rule(name, marks, late - days * DAY) if late - days * DAY > 0 else 0.0
            penalty = _hundredths(min(max(taken or 0.0, 0.0), max(marks, 0.0)))
            found[name] = Grade(
                name, assignment, marks, round(sum(row.extra_credit or 0.0 for row in rows if _marked(row)), 2),
                round(sum(row.max_score for row in rows), 2), late, days, penalty,
                tuple(sorted(row.name for row in rows if row.needs_manual_grade)),
                tuple(sorted(row.name for row in rows if row.manual_score is not None)),
                {row.name: row.score or 0.0 for row in rows}, rows[0].notebook_id if rows else "",
                submission.assignment.duedate is None or submission.timestamp is not None,
            )  # fmt: skip
        return found

    def settle(self, assignment: str, student: str | None = None) -> None:
        """Renew nbgrader's own copy of the penalties; nothing is committed yet."""
        self._book.db.flush()
        submissions = self._submissions(assignment, student)
        grades = self.of(assignment, student) if any(map(self._late, submissions)) else {}  # nobody else pays
        for submission in submissions:
            left = grades[submission.student_id].penalty or None if grades else None
            for notebook in submission.notebooks:  # ours have one; with more, the first bears it
                if notebook.late_submission_penalty != left:
                    notebook.late_submission_penalty = left
                left = None

    def settle_all(self) -> None:
        """`settle` every assignment, and commit."""
        for assignment in self._book.assignments:
            self.settle(assignment.name)
        self._book.db.commit()

    def enrol(self) -> None:
        """Have the gradebook know everybody on the class list: formgrader and exports then show who is silent."""
        students = {student.id: student for student in self._book.db.query(self._tables.Student)}
        for listed in self.roster.students.values():
            student = students.get(listed.id)
            if student is None:
                self._book.db.add(student := self._tables.Student(id=listed.id))
            if listed.name and not (student.first_name or student.last_name):
                first, _, student.last_name = listed.name.rpartition(" ")
                student.first_name = first or None
            student.email = listed.email or student.email
            student.lms_user_id = listed.lms_user_id or student.lms_user_id
        self._book.db.commit()

    def _submissions(self, assignment: str, student: str | None) -> list[Any]:
        table, given = self._tables.SubmittedAssignment, self._tables.Assignment
        query = self._book.db.query(table).join(given, given.id == table.assignment_id).filter(given.name == assignment)
        if student is not None:
            query = query.filter(table.student_id == student)
        return list(query.order_by(table.student_id))

    def _cells(self, assignment: str, student: str | None) -> dict[str, list[Any]]:
        """Each student's graded cells, in one question to the database."""
        api = self._tables
        self._book.db.flush()
        query = (
            self._book.db.query(
                api.SubmittedAssignment.student_id, api.GradeCell.name, api.Grade.score, api.Grade.manual_score,
                api.Grade.auto_score, api.Grade.extra_credit, api.Grade.needs_manual_grade, api.GradeCell.max_score,
                api.Grade.notebook_id,
            )
            .select_from(api.Grade)
            .join(api.GradeCell, api.GradeCell.id == api.Grade.cell_id)
            .join(api.SubmittedNotebook, api.SubmittedNotebook.id == api.Grade.notebook_id)
            .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == assignment)
        )  # fmt: skip
        if student is not None:
            query = query.filter(api.SubmittedAssignment.student_id == student)
        found: dict[str, list[Any]] = {}
        for row in query:
            found.setdefault(row.student_id, []).append(row)
        return found

    def _late(self, submission: Any) -> float:
        """Seconds late, after the extensions of nbgrader and of the roster."""
        if submission.assignment.duedate is None:  # nbgrader would add an extension to it
            return 0.0
        late = submission.total_seconds_late
        more = self.roster.more_seconds(submission.student_id, submission.assignment.name)
        return max(0.0, float(late) - more) if late else 0.0

    def _late_days(self, student: str, assignment: Any) -> int:
        """The days of the student's budget that `assignment` takes: earlier due dates are served first."""
        left = self.roster.of(student).late_days
        if not left:
            return 0
        table = self._tables.SubmittedAssignment
        theirs = self._book.db.query(table).filter(table.student_id == student)
        late = [(self._late(one), one.assignment) for one in theirs if one.assignment.duedate is not None]
        for seconds, one in sorted(late, key=lambda pair: (pair[1].duedate, pair[1].name)):
            spent = self._worth(student, seconds, left)
            if one.id == assignment.id:
                return spent
            left -= spent
        return 0

    def _worth(self, student: str, seconds: float, most: int) -> int:
        """The fewest days that take off all that `most` of them can."""
        most = min(most, math.ceil(seconds / DAY))
        costs = [self._rule(student, 1.0, left) or 0.0 if (left := seconds - day * DAY) > 0 else 0.0 for day in range(most + 1)]
        return costs.index(min(costs))


def _hundredths(points: float) -> float:
    """A penalty in hundredths of a point; a half goes to the student, whatever the last digit of the float."""
    return float(Decimal(f"{points:.6f}").quantize(Decimal("0.01"), ROUND_HALF_DOWN))


def _marked(row: Any) -> bool:
    """Whether nbgrader counts extra credit for it: only beside a mark."""
    return row.manual_score is not None or row.auto_score is not None

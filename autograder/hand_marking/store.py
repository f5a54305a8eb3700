"""Read and write manual marks in nbgrader's gradebook, where formgrader, feedback, report and exports see them at once.

A request to write states what the marker saw (`version`). If a mark has changed since, or belongs to a different answer by
now, it is not overwritten: `ConflictError` says what is there, and nothing in that request is written. Each change adds a line
to the table `marking_trail` in the same database and transaction, so trail and marks cannot disagree. A change made in
formgrader adds no line, but the next change made here records what was there before.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy.orm import aliased

from autograder.grading.grades import Grades, select_grades
from autograder.grading.write_results import place
from autograder.hand_marking import answers
from autograder.hand_marking.answers import Answer

TRAIL = ("time", "marker", "assignment", "question", "student", "grade", "before", "after")


@dataclass(frozen=True)
class Verdict:
    """A mark. A `score` of None withdraws it; `given` is the share of each item in the scheme."""

    score: float | None
    comment: str = ""
    given: tuple[float, ...] = ()


@dataclass(frozen=True)
class Row:
    """What the gradebook holds about a student's answer to a question."""

    id: str
    student: str
    question: str
    score: float | None
    waiting: bool
    points: float
    comment: str
    automatic: float | None = None  # 0 for a blank answer, which doesn't wait
    answer: Answer = field(default_factory=lambda: Answer(""))

    @property
    def version(self) -> str:
        """A hash that changes with the mark or with what the answer says."""
        state = f"{self.score!r} {self.waiting} {answers.same(self.answer)} {self.comment}"
        return hashlib.sha256(state.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Change:
    """A line of the trail: who changed which mark, when, and how it was before and after."""

    time: str
    marker: str
    question: str
    student: str
    grade: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class ConflictError(Exception):
    """Some marks or answers have changed since the marker saw them; `rows` holds these as they are now."""

    def __init__(self, rows: Sequence[Row]):
        super().__init__(f"{len(rows)} marks were changed meanwhile")
        self.rows = tuple(rows)


class Store:
    """The marks of `assignment` in the gradebook behind `api` (nbgrader's). A context manager; use it from one thread."""

    def __init__(self, api: Any, assignment: str):
        from nbgrader import api as tables

        self._tables, self.assignment, self._coursedir = tables, assignment, api.coursedir
        self._book = tables.Gradebook(api.coursedir.db_url, api.course_id)
        self._session = self._book.db
        self._grades = Grades.within(self._book, api)
        self.roster = self._grades.roster
        key = sql.Column("id", sql.Integer, primary_key=True, autoincrement=True)
        columns = (sql.Column(name, sql.Text, nullable=False) for name in TRAIL)
        self._trail = sql.Table("marking_trail", sql.MetaData(), key, *columns)
        self._trail.create(self._book.engine, checkfirst=True)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()

    def rows(self, question: str | None = None, ids: Collection[str] | None = None) -> list[Row]:
        """Return the answers to `question`, by default to all questions; if `ids` is given, only these."""
        api, grade = self._tables, self._tables.Grade
        self._session.rollback()  # a new transaction sees what others have written
        query = self._select(
            grade.id, api.SubmittedAssignment.student_id, api.GradeCell.name, grade.manual_score, grade.needs_manual_grade,
            api.GradeCell.max_score, api.Comment.manual_comment, grade.auto_score,
        ).order_by(grade.id)  # fmt: skip
        if question is not None:
            query = query.where(api.GradeCell.name == question)
        rows = [
            Row(key, student, name, score, bool(waiting), points, text or "", automatic, self._answer(student, name))
            for key, student, name, score, waiting, points, text, automatic in self._session.execute(query)
        ]
        return rows if ids is None else [row for row in rows if row.id in ids]

    def _select(self, *columns: Any) -> Any:
        """Return a query for `columns` of every grade in the assignment, its cell, its submission and its comment."""
        api, solution, comment = self._tables, aliased(self._tables.SolutionCell, flat=True), self._tables.Comment
        query = select_grades(self.assignment, *columns)
        query = query.join(solution, (solution.name == api.GradeCell.name) & (solution.notebook_id == api.GradeCell.notebook_id))
        return query.outerjoin(comment, (comment.cell_id == solution.id) & (comment.notebook_id == api.Grade.notebook_id))

    def write(self, marker: str, question: str, versions: Mapping[str, str], verdict: Verdict) -> list[Row]:
        """Give `verdict` to all answers in `versions` ({id: version}) and return their rows. A ConflictError means to none."""
        rows = self.rows(question, versions)
        if changed := [row for row in rows if row.version != versions[row.id]]:
            raise ConflictError(changed)
        try:
            for row in rows:
                if not self._set(row, verdict):
                    raise ConflictError([row])
                before = {"score": row.score, "comment": row.comment, "waiting": row.waiting}
                entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "marker": marker}
                entry |= {"assignment": self.assignment, "question": question, "student": row.student, "grade": row.id}
                entry |= {"before": json.dumps(before), "after": json.dumps(asdict(verdict))}
                self._session.execute(self._trail.insert().values(**entry))
                self._grades.settle(self.assignment, row.student)
            if changed := [row for row in rows if self._answer(row.student, question) != row.answer]:  # no grader can commit now
                raise ConflictError(changed)
            self._session.commit()
        except ConflictError as conflict:
            self._session.rollback()
            raise ConflictError(self.rows(question, [row.id for row in conflict.rows])) from None
        except BaseException:
            self._session.rollback()
            raise
        return self.rows(question, versions)

    def _answer(self, student: str, question: str) -> Answer:
        path = place(self._coursedir, "autograded", student, self.assignment)
        return answers.read(path).get(question, Answer(""))

    def _set(self, row: Row, verdict: Verdict) -> bool:
        """Write one mark unless another process has changed it since `row` was read. Returns whether it was written."""
        grade, comment, session = self._tables.Grade, self._tables.Comment, self._session
        as_seen = grade.manual_score.is_not_distinct_from(row.score) & (grade.needs_manual_grade == row.waiting)
        change = sql.update(grade).where((grade.id == row.id) & as_seen)
        change = change.values(manual_score=verdict.score, needs_manual_grade=verdict.score is None and row.automatic is None)
        options = {"synchronize_session": False}
        if session.execute(change, execution_options=options).rowcount != 1:
            return False
        there = comment.id == session.execute(self._select(comment.id).where(grade.id == row.id)).scalar_one()
        same = sql.func.coalesce(comment.manual_comment, "") == row.comment
        change = sql.update(comment).where(there & same).values(manual_comment=verdict.comment or None)
        return bool(session.execute(change, execution_options=options).rowcount == 1)

    def trail(self, question: str | None = None) -> list[Change]:
        """Return the changes to marks, earliest first; if `question` is given, only those to its marks."""
        table = self._trail
        self._session.rollback()
        query = sql.select(table).where(table.c.assignment == self.assignment).order_by(table.c.id)
        if question is not None:
            query = query.where(table.c.question == question)
        return [
            Change(row.time, row.marker, row.question, row.student, row.grade, json.loads(row.before), json.loads(row.after))
            for row in self._session.execute(query)
        ]

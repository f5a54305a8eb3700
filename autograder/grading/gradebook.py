"""Write marked submissions into nbgrader's gradebook in one session, with the rows that nbgrader's autograder would write.

nbgrader's preprocessors reopen the database for each step and commit after each cell. Here one session serves the whole
class and commits in batches; `tests/grading/test_grade.py` compares its rows with those of plain `nbgrader autograde`.
"""

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from autograder.authoring.course import CourseError
from autograder.grading import ledger
from autograder.grading.grades import Grade, Grades, enter
from autograder.grading.roster import Roster


class Mark(NamedTuple):
    """One cell's row in the gradebook: automatic and manual marks, the comment, extra credit."""

    automatic: float | None = None
    by_hand: float | None = None
    comment: str = ""
    extra: float = 0.0


@contextmanager
def tables_unwarned() -> Iterator[None]:
    """Suppress SQLAlchemy 2.1's warnings about nbgrader's own tables."""
    from sqlalchemy.exc import SAWarning

    with warnings.catch_warnings(action="ignore", category=SAWarning):
        yield


def ensure_assignment(api: Any, root: Path, assignment: str) -> None:
    """Make sure that the gradebook knows `assignment`; if it doesn't, let nbgrader release it from `root`/source.

    Raises CourseError if there is no source, or nbgrader fails.
    """
    from nbgrader.api import Gradebook as Tables
    from nbgrader.api import MissingEntry

    restore_release(root, assignment)
    with Tables(api.coursedir.db_url, api.course_id) as gradebook:
        try:
            known = bool(gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            known = False
    if known:
        return
    if not (root / "source" / assignment).is_dir():
        raise CourseError(f"expected {assignment} in {root}/source, found none. Run `attn build`.")
    release, aside = root / "release" / assignment, _aside(root, assignment)
    if release.is_dir():  # nbgrader deletes and rewrites the release, so a run that ends in between would lose it
        shutil.rmtree(half := aside.with_name(f"{aside.name}.{os.getpid()}"), ignore_errors=True)
        shutil.copytree(release, half)
        half.rename(aside)
    outcome = api.generate_assignment(assignment, force=True, create=True)
    if not outcome["success"]:
        raise CourseError(f"{assignment}: nbgrader generate_assignment failed.\n{outcome.get('error') or outcome.get('log')}")
    shutil.rmtree(aside, ignore_errors=True)


def has_gradebook(db_url: str) -> bool:
    """Return whether the gradebook exists already. A database server counts as an existing gradebook."""
    return not db_url.startswith("sqlite:///") or Path(db_url.removeprefix("sqlite:///")).exists()


def known_students(db_url: str, roster: Roster) -> dict[str, str]:
    """Return `{learning platform's id: student id}` from the gradebook and the class list, which takes precedence."""
    from nbgrader.api import Gradebook

    known: dict[str, str] = {}
    if has_gradebook(db_url):
        with Gradebook(db_url) as gradebook:
            known = {student.lms_user_id: student.id for student in gradebook.students if student.lms_user_id}
    return {**known, **roster.by_platform_id()}


def enter_students(api: Any, people: Mapping[str, tuple[str, str]]) -> None:
    """Enter `people` (student -> full name and platform id) in the gradebook, without overwriting what it already knows."""
    from nbgrader import api as tables

    if not people:
        return
    with tables_unwarned(), tables.Gradebook(api.coursedir.db_url, api.course_id) as gradebook:
        for student, row in enter(gradebook, {student: name for student, (name, _) in people.items()}).items():
            row.lms_user_id = row.lms_user_id or people[student][1] or None
        gradebook.db.commit()


def restore_release(root: Path, assignment: str) -> None:
    """Put back the release if a run ended while nbgrader was rewriting it."""
    release, aside = root / "release" / assignment, _aside(root, assignment)
    if aside.is_dir():
        shutil.rmtree(release, ignore_errors=True)
        aside.rename(release)


def _aside(root: Path, assignment: str) -> Path:
    return root / ledger.FOLDER / assignment / ".release"


class Gradebook:
    """The gradebook of the course behind `api` (nbgrader's), for one assignment. A context manager; use it from one thread.

    `grades` says what each submission is worth now. Everybody on the class list is entered, with the name given there.
    Raises CourseError if the assignment's notebook is missing.
    """

    def __init__(self, api: Any, assignment: str):
        from nbgrader import api as tables

        self._tables, self.api = tables, api
        self._book = tables.Gradebook(api.coursedir.db_url, api.course_id)
        self._session = self._book.db
        self._assignment = self._book.find_assignment(assignment)
        notebooks = [notebook for notebook in self._assignment.notebooks if notebook.name == assignment]
        if len(notebooks) != 1:
            raise CourseError(f"expected one notebook {assignment} in the gradebook, found {len(notebooks)}. Run `attn build`.")
        self._notebook = notebooks[0]
        self._names = {cell.id: cell.name for cell in [*self._notebook.grade_cells, *self._notebook.solution_cells]}
        self.grades = Grades.within(self._book, api)
        self.grades.enrol()

    def __enter__(self) -> "Gradebook":
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()

    def students(self) -> set[str]:
        """Return the students with a submission of this assignment in the gradebook."""
        table = self._tables.SubmittedAssignment
        rows = self._session.query(table.student_id).filter(table.assignment_id == self._assignment.id)
        return {row[0] for row in rows}

    def put(self, student: str, notebook: Any, timestamp: Any | None, before: Any | None = None) -> None:
        """Enter `student`'s marks and comments from the cells of the marked `notebook`, without committing.

        Manual marks stay, but are flagged for a second look if the answer differs from the notebook marked `before`. Without
        a `timestamp`, the submission counts as on time.
        """
        from nbgrader.utils import compute_checksum, determine_grade

        cells = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in notebook.cells if "nbgrader" in cell.metadata}

        def comment(name: str) -> str | None:
            untouched = cells[name].metadata["nbgrader"].get("checksum") == compute_checksum(cells[name])
            return "No response." if untouched else None

        marks = {cell.id: determine_grade(cells[cell.name])[0] for cell in self._notebook.grade_cells}
        comments = {cell.id: comment(cell.name) for cell in self._notebook.solution_cells}
        if (submission := self._found(student)) is None:
            submission = self._new(student, marks, comments)
        else:
            submitted, changed = self._submitted(submission), _changed_answers(notebook, before)
            for grade in submitted.grades:
                grade.auto_score = marks[grade.cell_id]
                if grade.manual_score is None:
                    grade.needs_manual_grade = grade.auto_score is None
                elif self._names[grade.cell_id] in changed:
                    grade.needs_manual_grade = True
            for row in submitted.comments:
                row.auto_comment = comments[row.cell_id]
        submission.timestamp = timestamp
        self.grades.settle(self._assignment.name, student)

    def set_points(self, points: Mapping[str, float]) -> None:
        """Set the points of graded cells, given by grade_id, without committing."""
        for cell in self._notebook.grade_cells:
            if cell.name in points and cell.max_score != points[cell.name]:
                cell.max_score = points[cell.name]

    def commit(self) -> None:
        """Commit everything entered so far."""
        self._session.commit()

    def marks(self, student: str) -> dict[str, Mark]:
        """Return the `Mark` of each graded or answered cell, by grade_id, for a `student` who has a submission."""
        submitted = self._submitted(self._found(student))
        comments = {self._names[c.cell_id]: c.manual_comment or c.auto_comment or "" for c in submitted.comments}
        graded = {
            self._names[g.cell_id]: Mark(g.auto_score, g.manual_score, extra=g.extra_credit or 0.0) for g in submitted.grades
        }
        return {name: graded.get(name, Mark())._replace(comment=comments.get(name, "")) for name in {**graded, **comments}}

    def grade(self, student: str) -> Grade:
        """Return what the submission of `student` is worth now."""
        return self.grades.of(self._assignment.name, student)[student]

    def _found(self, student: str) -> Any:
        table = self._tables.SubmittedAssignment
        return self._session.query(table).filter_by(assignment_id=self._assignment.id, student_id=student).one_or_none()

    def _submitted(self, submission: Any) -> Any:
        (submitted,) = [notebook for notebook in submission.notebooks if notebook.notebook_id == self._notebook.id]
        return submitted

    def _new(self, student: str, marks: Mapping[str, float | None], comments: Mapping[str, str | None]) -> Any:
        """Enter a submission with `marks` and `comments` by cell id.

        One statement per table is enough; an object per row would take half of the writer's time.
        """
        from sqlalchemy import insert

        tables, session = self._tables, self._session
        if session.get(tables.Student, student) is None:
            session.add(tables.Student(id=student))
        submission = tables.SubmittedAssignment(assignment=self._assignment, student_id=student)
        submitted = tables.SubmittedNotebook(notebook=self._notebook, assignment=submission)
        session.add(submission)
        session.flush()
        rows: dict[Any, list[dict[str, Any]]] = {
            tables.Grade: [
                {"cell_id": cell, "auto_score": mark, "needs_manual_grade": mark is None} for cell, mark in marks.items()
            ],
            tables.Comment: [{"cell_id": cell, "auto_comment": text} for cell, text in comments.items()],
        }
        for table, cells in rows.items():
            if cells:
                session.execute(insert(table), [{**cell, "notebook_id": submitted.id} for cell in cells])
        return submission


def _changed_answers(notebook: Any, before: Any | None) -> set[str]:
    """Return the grade_ids of graded cells whose answer in `notebook` differs from the one in `before`.

    A written answer is compared by its own text, and a check by the answers between the previous check and this one.
    """
    now, then = (
        {about["grade_id"]: (about, "".join(cell["source"])) for cell in cells if (about := cell["metadata"].get("nbgrader"))}
        for cells in (notebook["cells"], before["cells"] if before else [])
    )
    changed, above = set(), False
    for name, (about, source) in now.items():
        if about.get("solution"):
            above = above or name not in then or then[name][1] != source
        if about.get("grade"):
            changed |= {name} if above else set()
            above = False
    return changed

"""Write gradebook, graded notebook, feedback, and finally the ledger. Nothing else in a grading run writes results."""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from autograder.authoring.course import settings
from autograder.grading import ledger
from autograder.grading.gradebook import Gradebook
from autograder.grading.ledger import ExerciseRow, StudentRow
from autograder.grading.marking.mark_submission import Marked
from autograder.grading.marking.scheme import read_release
from autograder.grading.read_in_child import READ_S
from autograder.grading.reports.feedback import Pages
from autograder.grading.submitted_folders import Job
from autograder.notebooks.atomic_write import write_whole


class Writer:
    """Writes the results of a class: gradebook, graded notebook, feedback, and finally the ledger."""

    def __init__(self, root: Path, api: Any, assignment: str, book: Gradebook, *, feedback: bool):
        from nbgrader.preprocessors import LimitOutput

        self.root, self.assignment, self.book = root, assignment, book
        self.released = read_release(root, assignment)
        self.points = 0.0
        self._coursedir = api.coursedir
        self._limit = LimitOutput(parent=api)
        self._pages = Pages(self.released, settings().contact) if feedback else None
        self.waiting: list[tuple[str, StudentRow]] = []
        self.done: list[str] = []

    def known(self) -> dict[str, tuple[str, StudentRow]]:
        """Return the students who are graded already, with key and row: their gradebook rows and files exist."""
        there = self.book.students()
        found = {}
        for key, row, _ in ledger.entries(self.root, self.assignment):
            kinds = ["autograded", *(["feedback"] if self._pages else [])]
            if row.student in there and all(self._path(kind, row.student).exists() for kind in kinds):
                found[row.student] = (key, row)
        return found

    def write(self, job: Job, future: "Future[Marked]") -> StudentRow:
        """Write the outcome of `job` and return its row. If it could not be graded, the row says why."""
        row, marked = row_of(job, future, self.points)
        if marked is None:
            self.done.append(job.student)
            return row
        notebook, _ = self._limit.preprocess(marked.notebook, {})
        self.book.put(job.student, notebook, job.timestamp, _read(self._path("autograded", job.student)))
        mode = 0o664 if self._coursedir.groupshared else 0o444
        # on one line, because nbformat's indented form takes ten times as long, most of this process's time per student
        text = json.dumps(notebook, ensure_ascii=False, sort_keys=True)
        write_whole(self._path("autograded", job.student), text + "\n", mode=mode)
        if self._pages is not None:
            try:
                page = page_for(row, notebook, self._pages, self.book, marked.page_s)
                write_whole(self._path("feedback", job.student), page)
            except Exception as error:  # libraries read what learners wrote: the marks stand, and grading continues
                row.problem = f"graded, but without a feedback page: {type(error).__name__}: {str(error)[:300]}."
        self.waiting.append((job.key, row))
        self.done.append(job.student)
        return row

    def flush(self) -> None:
        """Commit the waiting outcomes, then record them as done."""
        self.book.commit()
        for key, row in self.waiting:
            ledger.write(self.root, self.assignment, key, row)
        self.waiting.clear()

    def _path(self, kind: str, student: str) -> Path:
        return place(self._coursedir, kind, student, self.assignment)


class DryWriter:
    """Replaces a `Writer` in a dry run: makes the rows and writes nothing."""

    def __init__(self, root: Path):
        self.root, self.points = root, 0.0
        self.waiting: list[tuple[str, StudentRow]] = []
        self.done: list[str] = []

    def write(self, job: Job, future: "Future[Marked]") -> StudentRow:
        """Make the row of `job`."""
        row, _ = row_of(job, future, self.points)
        self.done.append(job.student)
        return row

    def flush(self) -> None:
        """Do nothing."""


def row_of(job: Job, future: "Future[Marked]", points: float) -> tuple[StudentRow, Marked | None]:
    """Return the row of `job` and the marked submission, or None with a row that says why it could not be graded."""
    try:
        marked = future.result()
    except Exception as error:  # a lost cluster worker, or a sandbox that no longer starts: grading continues
        return StudentRow(job.student, 0.0, points, problem=f"not graded: {str(error)[:300]}. Grade again."), None
    exercises = {
        name: ExerciseRow(report.score, report.points, report.status, report.headline, report.recorded, report.carried)
        for name, report in marked.reports.items()
    }
    score = round(sum(exercise.score for exercise in exercises.values()), 2)
    flags, notes = ledger.bounded([job.note, *marked.flags] if job.note else marked.flags), ledger.bounded(marked.notes)
    row = StudentRow(job.student, score, points, exercises, flags, notes, job.problem, marked.seconds, marked.tier)
    row.refused = dict.fromkeys(marked.refused, 1)  # the student chooses how often, so a number could spell a hidden input
    row.marked_late = job.marked_late
    return row, marked


def page_for(row: StudentRow, notebook: Any, pages: Pages, book: Gradebook, seconds: float = READ_S) -> str:
    """Return the feedback page for the student of `row` and the marked `notebook`, with the marks now in `book`."""
    name, marks, grade = row.student, book.marks(row.student), book.grade(row.student)
    called, late = book.grades.roster.of(name).name, row.marked_late
    return pages.page(name, notebook, marks, grade, row.notes, row.exercises, called=called, marked_late=late, seconds=seconds)


def _read(path: Path) -> Any | None:
    """Return the notebook that was marked before, or None if none can be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def place(coursedir: Any, kind: str, student: str, assignment: str) -> Path:
    """Return the path at which nbgrader expects a student's file of this `kind` ("autograded" or "feedback")."""
    folder = getattr(coursedir, f"{kind}_directory")
    suffix = ".html" if kind == "feedback" else ".ipynb"
    return Path(coursedir.format_path(folder, student, assignment)) / f"{assignment}{suffix}"

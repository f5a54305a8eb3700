"""Write the gradebook, graded notebooks, feedback, and finally the ledger. Nothing else in a grading run writes results."""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from autograder.authoring.course import settings
from autograder.grading import ledger
from autograder.grading.gradebook import Gradebook
from autograder.grading.ledger import ExerciseRow, StudentRow
from autograder.grading.marking.mark_submission import Marked
from autograder.grading.marking.scheme import MarkScheme, read_release
from autograder.grading.read_in_child import READ_S
from autograder.grading.reports.feedback import Pages
from autograder.grading.submitted_folders import Job
from autograder.notebooks.atomic_write import write_whole


class Writer:
    """Writes the results of a class: the gradebook, graded notebooks, feedback, and finally the ledger.

    Without a `book`, as in a dry run, it makes the rows but writes no results.
    """

    def __init__(self, root: Path, scheme: MarkScheme, book: Gradebook | None = None, *, feedback: bool = False):
        self.root, self.book = root, book
        self._assignment, self._points = scheme.assignment, scheme.hidden.points
        self._pages = Pages(read_release(root, scheme.assignment), settings().contact) if feedback else None
        self.waiting: list[tuple[str, StudentRow]] = []
        self.done: list[str] = []
        if book is not None:
            from nbgrader.preprocessors import LimitOutput

            self._limit = LimitOutput(parent=book.api)

    def known(self) -> dict[str, ledger.Entry]:
        """Return the entries of the students who are graded already. With a gradebook, their rows and files must exist too."""
        entries = {entry.row.student: entry for entry in ledger.entries(self.root, self._assignment)}
        if self.book is None:
            return entries
        kinds = ["autograded", *(["feedback"] if self._pages else [])]
        there = {name for name in self.book.students() if all(self._path(self.book, kind, name).exists() for kind in kinds)}
        return {name: entry for name, entry in entries.items() if name in there}

    def write(self, job: Job, future: "Future[Marked]") -> StudentRow:
        """Write the outcome of `job` and return its row. If it could not be graded, the row says why."""
        row, marked = row_of(job, future, self._points)
        if marked is not None and self.book is not None:
            self._write(self.book, job, row, marked)
        self.done.append(job.student)
        return row

    def _write(self, book: Gradebook, job: Job, row: StudentRow, marked: Marked) -> None:
        notebook, _ = self._limit.preprocess(marked.notebook, {})
        path = self._path(book, "autograded", job.student)
        book.put(job.student, notebook, job.timestamp, _read(path))
        # on one line, because nbformat's indented form takes ten times as long: most of this process's time for a student
        text = json.dumps(notebook, ensure_ascii=False, sort_keys=True)
        write_whole(path, text + "\n", mode=0o664 if book.api.coursedir.groupshared else 0o444)
        if self._pages is not None:
            try:
                page = page_for(row, notebook, self._pages, book, marked.page_s)
                write_whole(self._path(book, "feedback", job.student), page)
            except Exception as error:  # a library may fail on what a learner wrote; the marks stand, and grading continues
                row.flags = [*_unreadable(row.problem), *row.flags]  # a row has one problem
                row.problem = f"graded, but without a feedback page: {type(error).__name__}: {str(error)[:300]}."
        self.waiting.append((job.key, row))

    def flush(self) -> None:
        """Commit the waiting outcomes, then record them as done."""
        if self.book is not None:
            self.book.commit()
        for key, row in self.waiting:
            ledger.write(self.root, self._assignment, key, row)
        self.waiting.clear()

    def _path(self, book: Gradebook, kind: str, student: str) -> Path:
        return place(book.api.coursedir, kind, student, self._assignment)


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
    unreadable = _unreadable(marked.unreadable)
    about_file = [*([job.note] if job.note else []), *([] if job.problem else unreadable)]
    flags, notes = ledger.bounded([*about_file, *marked.flags]), ledger.bounded([*unreadable, *marked.notes])
    row = StudentRow(job.student, score, points, exercises, flags, notes, job.problem, marked.seconds, marked.tier)
    row.refused = dict.fromkeys(marked.refused, 1)  # a student could spell out a hidden input by the number of calls
    row.marked_late = job.marked_late
    return row, marked


def _unreadable(why: str | None) -> list[str]:
    return [f"unreadable: {why}"] if why else []


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

"""`attn grade`: a class of submissions, marked in sandboxes, written by one hand into nbgrader's gradebook.

Reading, marking and writing are apart: whoever marks (`workers`) returns data, and this process alone writes. One bad submission
costs itself; a run that was stopped goes on where it stood (`ledger`).
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring.build import nbgrader_api
from autograder.authoring.course import CourseError, did_you_mean, settings
from autograder.grading import bounded, ledger, rehearsal, workers
from autograder.grading.gradebook import Gradebook, ensure_assignment
from autograder.grading.ledger import ClassReport, ExerciseRow, StudentRow
from autograder.grading.marking.mark import Marked, MarkScheme, make_mark_scheme, read_release
from autograder.grading.reports.feedback import Pages
from autograder.notebooks.archives import shown
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.submission import UnreadableError, load
from autograder.sandbox import Limits

MAX_FOLDER = 200  # bytes of a student's name: files are named after it, and most systems end at 255
BATCH = 16  # outcomes for each commit: a disk takes its time over one
Progress = Callable[[StudentRow, int, int], None]


@dataclass(frozen=True)
class Options:
    """How to grade. `workers` (default: one for each core) counts here, `scheduler` is a Dask cluster instead of this machine."""

    unsafe: bool = False
    feedback: bool = False
    again: bool = False
    workers: int | None = None
    scheduler: str | None = None
    limits: Limits | None = None


@dataclass(frozen=True)
class Job:
    """A submission as read: its bytes (None where `why` says what is the matter), when it was handed in, and its key."""

    student: str
    data: bytes | None
    why: str
    problem: str | None
    timestamp: datetime | None
    note: str
    key: str


def grade_assignment(
    root: Path,
    assignment: str,
    *,
    students: Sequence[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ClassReport:
    """Grade the submissions of `assignment` in the course folder `root` into its gradebook; the whole class, as graded now.

    `options` are the fields of `Options`; `progress` is called with each new row, how many are done and how many there are.
    Raises CourseError where there are no submissions, a named student has none, or the assignment was never released here;
    SandboxUnavailable where nothing isolates.
    """
    from sqlalchemy.exc import SAWarning

    chosen = Options(**options)
    started = time.perf_counter()
    names = _submitters(root, assignment, students)
    with warnings.catch_warnings(), ExitStack() as stack:
        stack.enter_context(ledger.alone(root, assignment))
        warnings.simplefilter("ignore", SAWarning)  # SQLAlchemy 2.1 warns about nbgrader's own tables
        pool = _pool(stack, root, assignment, chosen, names)
        api = nbgrader_api(root, config=root / "nbgrader_config.py")
        ensure_assignment(api, root, assignment)
        book = stack.enter_context(Gradebook(api, assignment))
        writer = Writer(root, api, assignment, book, chosen)
        old = {} if chosen.again else writer.known()
        scheme = make_mark_scheme(root, assignment, chosen.limits)
        writer.points = scheme.hidden.points
        rows = {name: old[name][1] for name in names if name in old}
        rows |= {name: _unnameable(name, writer.points) for name in names if not _is_name(name)}
        jobs = (_read(root, assignment, scheme, name) for name in names if _is_name(name))
        left = (job for job in jobs if job.student not in rows or old[job.student][0] != job.key)
        for name, row in _marked(pool, scheme, left, writer):
            rows[name] = row
            if progress is not None:
                progress(row, len(writer.done), len(names))
    every = [rows[name] for name in names]
    report = ClassReport(assignment, ledger.tiers(every), list(scheme.hidden.exercises), every)
    report.seconds, report.graded_now, report.versions = time.perf_counter() - started, len(writer.done), ledger.versions()
    return report


def _pool(stack: ExitStack, root: Path, assignment: str, options: Options, names: Sequence[str]) -> workers.Workers:
    """Who will mark; they start at once, and import while we do, where somebody is surely not graded yet."""
    released = _released(root, assignment)
    pool = workers.Workers(stack, released, options.limits or Limits(), options.unsafe, options.workers, options.scheduler)
    if options.again or set(names) - {row.student for _, row, _ in ledger.entries(root, assignment)}:
        pool.start()
        bounded.start()
    return pool


def _released(root: Path, assignment: str) -> Any:
    try:
        return read_release(root, assignment)
    except FileNotFoundError:
        raise CourseError(f"expected a release of {assignment} in {root}/release, found none. Run `attn build`.") from None


def write_feedback(root: Path, assignment: str) -> list[Path]:
    """Write everybody's feedback page anew, with the marks and comments that the gradebook holds now; the files written.

    Raises CourseError where nobody is graded.
    """
    from sqlalchemy.exc import SAWarning

    api = nbgrader_api(root, config=root / "nbgrader_config.py")
    ensure_assignment(api, root, assignment)
    pages = Pages(_released(root, assignment))
    written = []
    with warnings.catch_warnings(), Gradebook(api, assignment) as book:
        warnings.simplefilter("ignore", SAWarning)
        for student in sorted(book.students()):
            graded = _place(api.coursedir, "autograded", student, assignment)
            if graded.exists():
                page = pages.page(student, nbformat.read(graded, as_version=4), book.marks(student))
                written.append(_place(api.coursedir, "feedback", student, assignment))
                write_whole(written[-1], page)
    if not written:
        raise CourseError(f"expected graded submissions of {assignment}, found none. Run `attn grade {assignment}` first.")
    return written


def to_json(graded: ClassReport) -> dict[str, Any]:
    """The class as JSON-able data."""
    return asdict(graded)


def _marked(pool: workers.Workers, scheme: MarkScheme, jobs: Iterator[Job], writer: "Writer") -> Iterator[tuple[str, StudentRow]]:
    """Mark `jobs`, a few ahead of what is written, and write each as it comes, once the lesson itself is known to work."""
    running: dict[Future[Marked], Job] = {}
    first: Future[list[str]] | None = None
    try:
        for job in jobs:
            if not running and first is None and not rehearsal.is_known(writer.root, scheme):
                first = pool.rehearse(scheme, settings().requires)
            running[pool.mark(scheme, job.data, job.why)] = job
            while len(running) >= pool.ahead:
                _rehearsed(first, writer.root, scheme)
                first = None
                yield from _write_done(running, writer)
        _rehearsed(first, writer.root, scheme)
        while running:
            yield from _write_done(running, writer)
    finally:
        writer.flush()


def _rehearsed(first: "Future[list[str]] | None", root: Path, scheme: MarkScheme) -> None:
    """Wait for the rehearsal, if there is one. Raises CourseError where the lesson itself does not work in the sandbox."""
    if first is not None:
        rehearsal.refuse(root, scheme, first.result())


def _write_done(running: dict[Future[Marked], Job], writer: "Writer") -> Iterator[tuple[str, StudentRow]]:
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in finished:
        job = running.pop(future)
        yield job.student, writer.write(job, future)
    if len(writer.waiting) >= BATCH or not running:
        writer.flush()


class Writer:
    """The one hand that writes: gradebook, graded notebook, feedback, and last the ledger."""

    def __init__(self, root: Path, api: Any, assignment: str, book: Gradebook, options: Options):
        from nbgrader.preprocessors import LimitOutput

        self.root, self.assignment, self.book = root, assignment, book
        self.released = _released(root, assignment)
        self.points = 0.0
        self._coursedir = api.coursedir
        self._limit = LimitOutput(parent=api)
        self._pages = Pages(self.released) if options.feedback else None
        self.waiting: list[tuple[str, StudentRow]] = []
        self.done: list[str] = []

    def known(self) -> dict[str, tuple[str, StudentRow]]:
        """Who is graded already and need not be again, with the key: the gradebook and the files are there."""
        there = self.book.students()
        found = {}
        for key, row, _ in ledger.entries(self.root, self.assignment):
            kinds = ["autograded", *(["feedback"] if self._pages else [])]
            if row.student in there and all(self._path(kind, row.student).exists() for kind in kinds):
                found[row.student] = (key, row)
        return found

    def write(self, job: Job, future: "Future[Marked]") -> StudentRow:
        """Write the outcome of `job`; what could not be graded becomes a row that says why."""
        try:
            marked = future.result()
        except Exception as error:  # a lost cluster worker, a sandbox that no longer starts: the others go on
            row = StudentRow(job.student, 0.0, self.points, problem=f"not graded: {str(error)[:300]}. Grade again.")
            self.done.append(job.student)
            return row
        row = StudentRow(job.student, 0.0, self.points, flags=marked.flags, seconds=marked.seconds, tier=marked.tier)
        row.flags = ledger.bounded([*([job.note] if job.note else []), *row.flags])
        row.problem = job.problem
        for name, report in marked.reports.items():
            row.exercises[name] = ExerciseRow(report.score, report.points, report.status, report.headline, report.recorded)
        row.score = round(sum(exercise.score for exercise in row.exercises.values()), 2)
        notebook, _ = self._limit.preprocess(marked.notebook, {})
        self.book.put(job.student, notebook, job.timestamp)
        mode = 0o664 if self._coursedir.groupshared else 0o444
        write_whole(self._path("autograded", job.student), nbformat.v4.writes(notebook) + "\n", mode=mode)
        if self._pages is not None:
            try:
                page = self._pages.page(job.student, notebook, self.book.marks(job.student))
                write_whole(self._path("feedback", job.student), page)
            except Exception as error:  # libraries read what learners wrote: the marks stand, and the others go on
                row.problem = f"graded, but without a feedback page: {type(error).__name__}: {str(error)[:300]}."
        self.waiting.append((job.key, row))
        self.done.append(job.student)
        return row

    def flush(self) -> None:
        """Commit what waits, then remember it as done."""
        self.book.commit()
        for key, row in self.waiting:
            ledger.write(self.root, self.assignment, key, row)
        self.waiting.clear()

    def _path(self, kind: str, student: str) -> Path:
        return _place(self._coursedir, kind, student, self.assignment)


def _place(coursedir: Any, kind: str, student: str, assignment: str) -> Path:
    """Where nbgrader expects the `kind` ("autograded" or "feedback") of a student's file."""
    folder = getattr(coursedir, f"{kind}_directory")
    suffix = ".html" if kind == "feedback" else ".ipynb"
    return Path(coursedir.format_path(folder, student, assignment)) / f"{assignment}{suffix}"


def _is_name(student: str) -> bool:
    """Whether the gradebook can hold `student`: a folder may have any name."""
    return student.isprintable() and len(student) <= 128 and len(student.encode()) <= MAX_FOLDER


def _unnameable(student: str, points: float) -> StudentRow:
    label = ascii(student)[1:-1][:128]
    wanted = f"at most 128 printable characters and {MAX_FOLDER} bytes"
    problem = f"expected a folder named after the student, in {wanted}. Rename it and grade again."
    return StudentRow(label, 0.0, points, problem=problem)


def _read(root: Path, assignment: str, scheme: MarkScheme, student: str) -> Job:
    folder = root / "submitted" / student / assignment
    data, why, problem = None, "", None
    path = folder / f"{assignment}.ipynb"
    if not os.path.lexists(path):
        others = sorted(each.name for each in folder.glob("*.ipynb"))
        named = ", ".join(map(shown, others[:5])) or "no notebook"
        problem = f"expected {path.name}, found {named}. Rename it and grade again."
        why = problem
    else:
        try:
            data = load(path)
        except UnreadableError as error:
            why = str(error)
    timestamp, note = _handed_in(folder / "timestamp.txt")
    return Job(student, data, why, problem, timestamp, note, ledger.key(scheme.digest, data, str(timestamp)))


def _handed_in(path: Path) -> tuple[datetime | None, str]:
    """When nbgrader's exchange received the submission, or why its note cannot be used."""
    from nbgrader.utils import parse_utc

    if not os.path.lexists(path):
        return None, ""
    try:
        return parse_utc(load(path)[:100].decode("ascii").strip()), ""
    except (UnreadableError, ValueError, ArithmeticError, TypeError):  # dateutil reads what a student may have written
        return None, "timestamp.txt holds no date: counted as handed in on time"


def _submitters(root: Path, assignment: str, students: Sequence[str] | None) -> list[str]:
    found = sorted(folder.parent.name for folder in (root / "submitted").glob(f"*/{assignment}") if folder.is_dir())
    if not found:
        raise CourseError(
            f"expected submissions in {root}/submitted/<student>/{assignment}, found none. Collect first: nbgrader collect."
        )
    for student in students or ():
        if student not in found:
            raise CourseError(f"expected a submission of {assignment} by {student!r}, found none.{did_you_mean(student, found)}")
    return list(students) if students else found

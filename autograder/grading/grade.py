"""Grade a class for `attn grade`: mark submissions in sandboxes and write them into nbgrader's gradebook.

Reading, marking and writing are separate: the markers (`workers`) return data, and only this process writes. A bad
submission harms nobody else, and a run that was stopped continues where it left off (`ledger`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import nbformat

from autograder.authoring.course import CourseError, settings
from autograder.authoring.make_release import nbgrader_api
from autograder.grading import ledger, read_in_child, rehearsal, submitted_folders
from autograder.grading.gradebook import Gradebook, ensure_assignment, restore_release, tables_unwarned
from autograder.grading.ledger import ClassReport, StudentRow
from autograder.grading.marking.hidden_draws import HiddenDraws
from autograder.grading.marking.mark_submission import CUT_BY_CLASS, CUT_BY_LOAD, Fixed, Marked
from autograder.grading.marking.scheme import MarkScheme, make_hidden_draws, make_mark_scheme, points_of_cells, read_release
from autograder.grading.reports.feedback import Pages
from autograder.grading.submitted_folders import Job
from autograder.grading.workers import Workers
from autograder.grading.write_results import Writer, page_for, place
from autograder.notebooks.atomic_write import write_whole
from autograder.notebooks.roles import is_answer, is_grade
from autograder.sandbox.submission_limits import Limits

BATCH = 16  # outcomes per commit, because each commit is slow on a disk
Progress = Callable[[StudentRow, int, int], None]
Postponed = dict[str, list[tuple[Job, Fixed | None]]]


def grade_assignment(
    root: Path,
    assignment: str,
    *,
    students: Sequence[str] | None = None,
    progress: Progress | None = None,
    unsafe: bool = False,
    feedback: bool = False,
    again: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    limits: Limits | None = None,
    dry_run: bool = False,
) -> ClassReport:
    """Grade the submissions of `assignment` in the course folder `root` and return the report on the whole class.

    `feedback` also writes pages, and `again` ignores earlier results. `workers` is the number of threads on this machine
    (default: one per core); with `scheduler`, a Dask cluster does the work instead. `progress` is called with each new row,
    the number done and the total. `dry_run` marks and compares but writes nothing: no gradebook, no pages, no ledger.

    Raises CourseError if there are no submissions, a named student has none, or the assignment was never released here;
    raises SandboxUnavailable if no isolation works.
    """
    started = time.perf_counter()
    names = submitted_folders.submitters(root, assignment, students)
    with tables_unwarned(), ExitStack() as stack:
        if not dry_run:
            stack.enter_context(ledger.alone(root, assignment))
            restore_release(root, assignment)
        pool = Workers(stack, read_release(root, assignment), limits or Limits(), unsafe, workers, scheduler)
        before = {entry.row.student: entry for entry in ledger.entries(root, assignment)}
        if again or set(names) - set(before):
            pool.start()  # at least one student needs grading, so the workers import while we read
            read_in_child.start()
        book = None
        if not dry_run:
            api = nbgrader_api(root)
            ensure_assignment(api, root, assignment)
            book = stack.enter_context(Gradebook(api, assignment))
        scheme = make_mark_scheme(root, assignment, limits)
        writer = Writer(root, scheme, book, feedback=feedback)
        old = {} if again else writer.known()
        if book is not None:
            book.set_points(points_of_cells(scheme))  # last: a query after this would lock the database
        rows = {name: old[name].row for name in names if name in old}
        points = scheme.hidden.points
        rows |= {name: submitted_folders.unnameable(name, points) for name in names if not submitted_folders.is_name(name)}
        jobs = (submitted_folders.read(root, assignment, scheme, name) for name in names if submitted_folders.is_name(name))
        left = (job for job in jobs if job.student not in rows or old[job.student].key != job.key)
        for name, row in _marked(pool, scheme, left, writer, make_hidden_draws(root, scheme)):
            rows[name] = row
            if progress is not None:
                progress(row, len(writer.done), len(names))
    every = [rows[name] for name in names]
    report = ClassReport(assignment, ledger.tiers(every), list(scheme.hidden.exercises), every)
    report.seconds, report.graded_now, report.versions = time.perf_counter() - started, len(writer.done), ledger.versions()
    graded = [rows[name] for name in writer.done if name in before]
    report.changed = [change for row in graded for change in ledger.changes(before[row.student].row, row)]
    report.dry, report.written = dry_run, any(is_grade(cell) and is_answer(cell) for cell in scheme.released.cells)
    return report


def write_feedback(root: Path, assignment: str, progress: Callable[[str, int, int], None] | None = None) -> list[Path]:
    """Rewrite everybody's feedback page with the marks and comments now in the gradebook, and return the files written.

    `progress` is called with each student, the number of pages done and the total. Raises CourseError if nobody is graded.
    """
    api = nbgrader_api(root)
    ensure_assignment(api, root, assignment)
    pages = Pages(read_release(root, assignment), settings().contact)
    written = []
    known = {entry.row.student: entry.row for entry in ledger.entries(root, assignment)}
    with tables_unwarned(), Gradebook(api, assignment) as book:
        book.grades.settle_all()
        students = sorted(book.students())
        for done, student in enumerate(students, 1):
            graded = place(api.coursedir, "autograded", student, assignment)
            if graded.exists():
                row = known.get(student, StudentRow(student, 0.0, 0.0))
                page = page_for(row, nbformat.read(graded, as_version=4), pages, book)
                written.append(place(api.coursedir, "feedback", student, assignment))
                write_whole(written[-1], page)
            if progress is not None:
                progress(student, done, len(students))
    if not written:
        raise CourseError(f"expected graded submissions of {assignment}, found none. Run `attn grade {assignment}` first.")
    return written


def _marked(
    pool: Workers, scheme: MarkScheme, jobs: Iterator[Job], writer: Writer, draws: HiddenDraws
) -> Iterator[tuple[str, StudentRow]]:
    """Mark `jobs`, a few ahead of the writing. Write each outcome once the rehearsal has passed, and yield the student's row.

    Submissions that the class cut short are marked again at the end with all their seconds. Those that ran out of time
    because the machine was too busy are then marked one at a time, and that result is final.
    """
    running: dict[Future[Marked], Job] = {}
    first: Future[list[str]] | None = None
    postponed: Postponed = {CUT_BY_CLASS: [], CUT_BY_LOAD: []}
    try:
        for job in jobs:
            read_in_child.start()  # not started yet if only resubmissions are graded
            if not running and first is None and not rehearsal.is_known(writer.root, scheme):
                first = pool.rehearse(scheme, settings().requires)
            if job.handed.data is not None:
                job = replace(job, handed=replace(job.handed, hidden=draws.of(job.student)))
            running[pool.mark(scheme, job.handed)] = job
            while len(running) >= pool.ahead:
                _rehearsed(first, writer, scheme)
                first = None
                yield from _write_done(running, writer, postponed)
        _rehearsed(first, writer, scheme)
        while running:
            yield from _write_done(running, writer, postponed)
        for job, fixed in postponed.pop(CUT_BY_CLASS):
            running[pool.mark(scheme, job.handed, fixed)] = job
        while running:
            yield from _write_done(running, writer, postponed)
        for job, fixed in postponed.pop(CUT_BY_LOAD):
            running[pool.mark(scheme, job.handed, fixed, final=True)] = job
            yield from _write_done(running, writer, postponed)
    finally:
        writer.flush()


def _rehearsed(first: "Future[list[str]] | None", writer: Writer, scheme: MarkScheme) -> None:
    """Wait for the rehearsal `first`, if there is one, and record that it passed. Raises CourseError if it failed."""
    if first is not None:
        rehearsal.refuse(scheme, first.result())
        if writer.book is not None:
            rehearsal.remember(writer.root, scheme)


def _write_done(running: dict[Future[Marked], Job], writer: Writer, postponed: Postponed) -> Iterator[tuple[str, StudentRow]]:
    """Wait for outcomes, write them and yield the rows.

    A submission that others cut short goes to `postponed` instead, if that still has a list for the reason.
    """
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in finished:
        job = running.pop(future)
        if future.exception() is None and (cut := future.result().cut) in postponed:
            postponed[cut].append((job, future.result().fixed))
        else:
            yield job.student, writer.write(job, future)
    if len(writer.waiting) >= BATCH or not running:
        writer.flush()

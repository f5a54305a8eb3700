"""`attn grade`: nbgrader's own autograder over a class, with the oracle in the place of `Execute`.

One student at a time through nbgrader's `Autograde` converter, so that one bad submission costs itself alone, and the
gradebook holds exactly what plain nbgrader would have written for an honest one.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from autograder.build import nbgrader_api
from autograder.registry import CourseError, did_you_mean


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise of one student."""

    score: float
    points: float
    status: str
    headline: str
    misconception: str | None


@dataclass
class StudentRow:
    """One student: the autograded `score` of `points`, `flags` for a person to look at, `problem` where grading failed."""

    student: str
    score: float
    points: float
    exercises: dict[str, ExerciseRow] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    problem: str | None = None
    seconds: float = 0.0


@dataclass
class ClassReport:
    """A graded class."""

    assignment: str
    tier: str
    exercises: list[str]
    rows: list[StudentRow]
    seconds: float


def grade_assignment(
    root: Path, assignment: str, *, students: Sequence[str] | None = None, unsafe: bool = False, feedback: bool = False
) -> ClassReport:
    """Grade every submission of `assignment` in the course folder `root` into its gradebook.

    Raises CourseError where there are no submissions, a named student has none, or the assignment was never released here;
    SandboxUnavailable where nothing isolates and not `unsafe`.
    """
    from sqlalchemy.exc import SAWarning

    from autograder.oracle import open_session

    started = time.perf_counter()
    chosen = _submitters(root, assignment, students)
    api = nbgrader_api(root, config=root / "nbgrader_config.py")
    _ensure_assignment(api, root, assignment)
    session = open_session(root, assignment, unsafe=unsafe)
    rows = []
    with session.sandbox, _oracle_installed(session) as converter, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # SQLAlchemy 2.1 warns about nbgrader's own queries
        for student in chosen:
            rows.append(_grade_student(api, converter, session, student))
            if feedback and rows[-1].problem is None:
                rows[-1].problem = _feedback(api, assignment, student)
    return ClassReport(assignment, session.sandbox.tier, list(session.hidden.exercises), rows, time.perf_counter() - started)


def to_json(graded: ClassReport) -> dict[str, Any]:
    """The class as JSON-able data."""
    return asdict(graded)


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


def _ensure_assignment(api: Any, root: Path, assignment: str) -> None:
    from nbgrader.api import Gradebook, MissingEntry

    with Gradebook(api.coursedir.db_url, api.course_id) as gradebook:
        try:
            known = bool(gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            known = False
    if known:
        return
    if not (root / "source" / assignment).is_dir():
        raise CourseError(f"expected {assignment} in {root}/source, found none. Run `attn build`.")
    outcome = api.generate_assignment(assignment, force=True, create=True)
    if not outcome["success"]:
        raise CourseError(f"{assignment}: nbgrader generate_assignment failed.\n{outcome.get('error') or outcome.get('log')}")


@contextmanager
def _oracle_installed(session: Any) -> Iterator[Any]:
    """nbgrader's Autograde converter with our reader and our oracle in it."""
    from nbgrader.converters import Autograde
    from nbgrader.preprocessors import (
        AssignLatePenalties,
        CheckCellMetadata,
        IgnorePattern,
        LimitOutput,
        OverwriteKernelspec,
        SaveAutoGrades,
    )

    from autograder.oracle import Oracle, SafeNotebookExporter

    Oracle.session = SafeNotebookExporter.session = session

    class OracleAutograde(Autograde):  # type: ignore[misc]  # nbgrader ships no types
        exporter_class = SafeNotebookExporter
        sanitize_preprocessors: ClassVar = [OverwriteKernelspec, CheckCellMetadata]
        autograde_preprocessors: ClassVar = [
            Oracle,
            IgnorePattern,
            LimitOutput,
            SaveAutoGrades,
            AssignLatePenalties,
            CheckCellMetadata,
        ]

    try:
        yield OracleAutograde
    finally:
        Oracle.session = SafeNotebookExporter.session = None


def _grade_student(api: Any, converter: Any, session: Any, student: str) -> StudentRow:
    from nbgrader.utils import capture_log, temp_attrs

    session.begin()
    started = time.perf_counter()
    points = session.hidden.points
    stamp = Path(api.coursedir.format_path(api.coursedir.submitted_directory, student, session.assignment)) / "timestamp.txt"
    if stamp.is_symlink() or (stamp.exists() and not stamp.is_file()):  # nbgrader would open it, and wait where it is a pipe
        return StudentRow(student, 0.0, points, problem="expected timestamp.txt to be a file: delete it and grade again")
    # Nothing but the notebook is taken from a submission: its other files (and links) are ignored, not copied about.
    with temp_attrs(api.coursedir, assignment_id=session.assignment, student_id=student, ignore=["*"]):
        app = converter(coursedir=api.coursedir, parent=api)
        app.force = True
        outcome = capture_log(app)
    row = StudentRow(student, 0.0, points, flags=list(session.flags), seconds=time.perf_counter() - started)
    for name, report in session.reports.items():
        row.exercises[name] = ExerciseRow(
            report.score, report.points, report.status, report.headline, report.known.id if report.known else None
        )
    row.score = round(sum(exercise.score for exercise in row.exercises.values()), 2)
    if not outcome["success"]:
        row.problem = _last_line(outcome.get("log") or "") or "nbgrader could not grade this submission"
    return row


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith(("[INFO]", "[WARNING]"))]
    errors = [line for line in lines if "Error" in line or "rror:" in line or "No notebooks" in line]
    return (errors or lines or [""])[0][:300]


def _feedback(api: Any, assignment: str, student: str) -> str | None:
    """Write the student's feedback; why it failed, or None."""
    outcome = api.generate_feedback(assignment, student, force=True)
    return None if outcome["success"] else f"graded, but without feedback: {_last_line(outcome.get('log') or '')}"

"""Read from the folders in `submitted/` who handed in what. Names and contents are untrusted."""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.authoring.course import CourseError, did_you_mean
from autograder.grading import find_notebook, ledger
from autograder.grading.ledger import StudentRow
from autograder.grading.marking.read_submission import Handed
from autograder.grading.marking.scheme import MarkScheme
from autograder.notebooks.rebuild_submission import UnreadableError, load

_ZONE = re.compile(r"[+-]?\d{1,6}|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
MARKED_LATE = ".late"  # a file that `attn collect` leaves beside work that the learning platform marked late
MAX_FOLDER = 200  # bytes of a student's name, because files are named after it and most systems stop at 255


@dataclass(frozen=True)
class Job:
    """A submission as read from its folder, with its time, its `key` in the ledger, and what the grader must know about it."""

    student: str
    handed: Handed
    problem: str | None
    timestamp: datetime | None
    note: str
    key: str
    marked_late: bool = False


def is_name(student: str) -> bool:
    """Return whether `student`, a folder's name, can be a student's id in the gradebook and in file names."""
    return student.isprintable() and len(student) <= 128 and len(student.encode()) <= MAX_FOLDER


def unnameable(student: str, points: float) -> StudentRow:
    """Return the row for a student whose folder's name cannot be an id."""
    label = ascii(student)[1:-1][:128]
    wanted = f"at most 128 printable characters and {MAX_FOLDER} bytes"
    problem = f"expected a folder named after the student, in {wanted}. Rename it and grade again."
    return StudentRow(label, 0.0, points, problem=problem)


def read(root: Path, assignment: str, scheme: MarkScheme, student: str) -> Job:
    """Return what `student` handed in, with the reason as its `problem` if it cannot be read."""
    folder = root / "submitted" / student / assignment
    known = {path.name for path in (root / "release" / assignment).iterdir()}
    try:
        handed = find_notebook.read_folder(folder, assignment, known)
        problem = handed.unreadable if handed.data is None and not os.path.lexists(folder / f"{assignment}.ipynb") else None
    except OSError as error:  # for example, the copied files allow the grader no access
        problem = f"the folder could not be read: {error.strerror}. Give the grader the right to read it, and grade again"
        handed = Handed(None, problem)
    timestamp, note = handed_in(folder / "timestamp.txt")
    late = os.path.lexists(folder / MARKED_LATE)
    key = ledger.key(scheme.digest, handed.content(), f"{timestamp}{' late' if late else ''}")
    return Job(student, handed, problem, timestamp, note, key, late)


def handed_in(path: Path) -> tuple[datetime | None, str]:
    """Return the time of submission in the file at `path`, or None and a note if the file holds no date."""
    if not os.path.lexists(path):
        return None, ""
    try:
        return utc(load(path)[:100].decode("ascii").strip()), ""
    except (UnreadableError, ValueError):
        return None, "timestamp.txt holds no date: counted as handed in on time"


def utc(text: str) -> datetime:
    """Return the time in `text`, which a student may have written, in UTC. Raises ValueError if it is not a time.

    nbgrader uses dateutil, which takes the third word for the name of a time zone and accepts any file's path as a zone. It
    would open any file that the grader can read, and raise whatever reading the file raises. So a zone must be a plain name
    here, and every failure becomes a ValueError.
    """
    from nbgrader.utils import parse_utc

    words = text.split(" ")
    if len(words) == 3 and not _ZONE.fullmatch(words[2]):
        raise ValueError("expected a zone by its name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about zones that dateutil does not know
            time = parse_utc(text)
    except Exception as error:  # nobody knows what dateutil raises on such a text
        raise ValueError(f"no date: {type(error).__name__}") from None
    if not isinstance(time, datetime):
        raise ValueError("no date")
    return time


def submitters(root: Path, assignment: str, students: Sequence[str] | None) -> list[str]:
    """Return whose submissions to grade: `students`, or all. Raises CourseError if there are none, or a student has none."""
    names = sorted(_with_work(root / "submitted", assignment))
    if not names:
        raise CourseError(
            f"expected submissions in {root}/submitted/<student>/{assignment}, found none. Collect first: nbgrader collect."
        )
    for student in students or ():
        if student not in names:
            raise CourseError(f"expected a submission of {assignment} by {student!r}, found none.{did_you_mean(student, names)}")
    return list(students) if students else names


def _with_work(place: Path, assignment: str) -> Iterator[str]:
    """Yield the folders in `place` that contain something named `assignment`, or that cannot be read."""
    for name in os.listdir(place) if place.is_dir() else ():
        try:
            os.lstat(place / name / assignment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # for example, no access to the copied files: `read` reports it, so nobody is left out
            pass
        yield name

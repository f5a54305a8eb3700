"""Who has handed something in, and what: the folders of `submitted/`, read as untrusted data."""

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
from autograder.notebooks.submission import UnreadableError, load

_ZONE = re.compile(r"[+-]?\d{1,6}|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
MARKED_LATE = ".late"  # a file that `attn collect` lays beside what the learning platform marked late
MAX_FOLDER = 200  # bytes of a student's name: files are named after it, and most systems end at 255


@dataclass(frozen=True)
class Job:
    """A submission as read, with when it was handed in, what the grader must know of it, and its key."""

    student: str
    handed: Handed
    problem: str | None
    timestamp: datetime | None
    note: str
    key: str
    marked_late: bool = False


def is_name(student: str) -> bool:
    """Whether the gradebook can hold `student`: a folder may have any name."""
    return student.isprintable() and len(student) <= 128 and len(student.encode()) <= MAX_FOLDER


def unnameable(student: str, points: float) -> StudentRow:
    """The row of somebody whom the gradebook cannot hold."""
    label = ascii(student)[1:-1][:128]
    wanted = f"at most 128 printable characters and {MAX_FOLDER} bytes"
    problem = f"expected a folder named after the student, in {wanted}. Rename it and grade again."
    return StudentRow(label, 0.0, points, problem=problem)


def read(root: Path, assignment: str, scheme: MarkScheme, student: str) -> Job:
    """What `student` handed in, or why it cannot be read."""
    folder = root / "submitted" / student / assignment
    known = {path.name for path in (root / "release" / assignment).iterdir()}
    try:
        handed = find_notebook.read_folder(folder, assignment, known)
        problem = handed.unreadable if handed.data is None and not os.path.lexists(folder / f"{assignment}.ipynb") else None
    except OSError as error:  # as where whoever copied it kept rights that the grader has not
        problem = f"the folder could not be read: {error.strerror}. Give the grader the right to read it, and grade again"
        handed = Handed(None, problem)
    timestamp, note = handed_in(folder / "timestamp.txt")
    late = os.path.lexists(folder / MARKED_LATE)
    key = ledger.key(scheme.digest, handed.content(), f"{timestamp}{' late' if late else ''}")
    return Job(student, handed, problem, timestamp, note, key, late)


def handed_in(path: Path) -> tuple[datetime | None, str]:
    """When nbgrader's exchange received the submission, or why its note cannot be used."""
    if not os.path.lexists(path):
        return None, ""
    try:
        return utc(load(path)[:100].decode("ascii").strip()), ""
    except (UnreadableError, ValueError):
        return None, "timestamp.txt holds no date: counted as handed in on time"


def utc(text: str) -> datetime:
    """The time in `text`, which a student may have written, in UTC. Raises ValueError where it is none.

    nbgrader asks dateutil, which takes the third word for the name of a zone, and that for any file's path: it would open what
    the grader can, and fail in whatever way reading it does. So a zone is a plain name here, and every failure is one.
    """
    from nbgrader.utils import parse_utc

    words = text.split(" ")
    if len(words) == 3 and not _ZONE.fullmatch(words[2]):
        raise ValueError("expected a zone by its name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of zones that it does not know
            found = parse_utc(text)
    except Exception as error:  # what dateutil raises over such a text is not known to anybody
        raise ValueError(f"no date: {type(error).__name__}") from None
    if not isinstance(found, datetime):
        raise ValueError("no date")
    return found


def submitters(root: Path, assignment: str, students: Sequence[str] | None) -> list[str]:
    """Whose submissions to grade: all, or `students`. Raises CourseError where there are none, or one has none."""
    found = sorted(_with_work(root / "submitted", assignment))
    if not found:
        raise CourseError(
            f"expected submissions in {root}/submitted/<student>/{assignment}, found none. Collect first: nbgrader collect."
        )
    for student in students or ():
        if student not in found:
            raise CourseError(f"expected a submission of {assignment} by {student!r}, found none.{did_you_mean(student, found)}")
    return list(students) if students else found


def _with_work(place: Path, assignment: str) -> Iterator[str]:
    """The folders in `place` with something under the name of `assignment`; also those of which that cannot be seen."""
    for name in os.listdir(place) if place.is_dir() else ():
        try:
            os.lstat(place / name / assignment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # whoever copied it kept rights that the grader has not: `read` says so, and nobody is left out
            pass
        yield name

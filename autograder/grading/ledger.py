"""Record each graded student in a small file of their own: `reports/<assignment>/<student>.json` in the course folder.

An entry is written atomically, after the gradebook has the marks. A run that was interrupted at any moment can therefore be
started again: a student whose entry has the current key is skipped, and grading a student twice gives the same rows.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from autograder import __version__
from autograder.authoring.course import CourseError
from autograder.notebooks.atomic_write import write_whole

FOLDER = "reports"
LOCK = ".grading"
MAX_REMARKS = 20  # per student
MAX_REMARK = 400  # characters


@dataclass(frozen=True)
class ExerciseRow:
    """The outcome of one exercise for one student."""

    score: float
    points: float
    status: str
    headline: str
    misconception: str | None
    carried: tuple[str, ...] = ()  # earlier exercises whose reference answers were used for this one

    def named(self) -> list[str]:
        """Return the ids of the mistakes that the course lists, without those that the engine described itself (`~`)."""
        return [mistake for mistake in (self.misconception or "").split("+") if mistake and not mistake.startswith("~")]


@dataclass
class StudentRow:
    """The outcome for one student: the autograded `score` of `points`, `flags` for a person, a `problem` if grading failed.

    `notes` are what the student sees too, about how the submission was read: flags, and a problem with reading it, which is
    not among the flags. `refused` maps the name of each system call that the sandbox refused to 1, however often it was made.
    `marked_late` comes from the learning platform. `seconds` is the time that the submission and its marking took, without
    other work on the machine.
    """

    student: str
    score: float
    points: float
    exercises: dict[str, ExerciseRow] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    seconds: float = 0.0
    tier: str = ""
    refused: dict[str, int] = field(default_factory=dict)
    marked_late: bool = False

    @property
    def remarks(self) -> list[str]:
        """The problem, if any, followed by the flags."""
        return self.flags if self.problem is None else [self.problem, *self.flags]


@dataclass(frozen=True)
class Change:
    """A change of a student's points for an exercise since the previous run."""

    student: str
    exercise: str
    before: float
    after: float


class Entry(msgspec.Struct):
    """The content of a student's file: the row, and the key and versions with which it was graded."""

    key: str
    versions: dict[str, str]
    row: StudentRow


def changes(before: StudentRow, after: StudentRow) -> list[Change]:
    """Return a `Change` for each exercise whose points differ between a student's two rows."""
    was, now = ({name: exercise.score for name, exercise in row.exercises.items()} for row in (before, after))
    both = [Change(after.student, name, was.get(name, 0.0), now.get(name, 0.0)) for name in {**was, **now}]
    return [change for change in both if change.before != change.after]


@dataclass
class ClassReport:
    """A graded class.

    `tier` names every isolation tier used, `graded_now` counts the rows that are not from an earlier run, and `changed`
    lists the marks that differ from the previous run. `dry` means that no results were written, and `written` that the
    assignment has written answers for a person to grade.
    """

    assignment: str
    tier: str
    exercises: list[str]
    rows: list[StudentRow]
    seconds: float = 0.0
    graded_now: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    changed: list[Change] = field(default_factory=list)
    dry: bool = False
    written: bool = True


def key(kit_digest: str, content: bytes, timestamp: str) -> str:
    """Return the key of an outcome. If the scheme, files and time of submission are equal, so are the key and the marks."""
    return hashlib.sha256(b"\0".join([kit_digest.encode(), hashlib.sha256(content).digest(), timestamp.encode()])).hexdigest()


def write(root: Path, assignment: str, entry_key: str, row: StudentRow) -> None:
    """Write the entry for `row` under the key `entry_key`."""
    path = root / FOLDER / assignment / f"{row.student}.json"
    write_whole(path, json.dumps(msgspec.to_builtins(Entry(entry_key, versions(), row)), indent=1) + "\n")


def entries(root: Path, assignment: str) -> Iterator[Entry]:
    """Yield each entry, ordered by student. Unreadable entries are skipped."""
    for path in sorted((root / FOLDER / assignment).glob("*.json")):
        with suppress(ValueError):
            yield msgspec.json.decode(path.read_bytes(), type=Entry)


def load(root: Path, assignment: str) -> ClassReport:
    """Return the report on the students graded so far. Raises CourseError if there are none."""
    graded = list(entries(root, assignment))
    if not graded:
        raise CourseError(f"expected graded submissions of {assignment}, found none. Run `attn grade {assignment}` first.")
    rows = [entry.row for entry in graded]
    exercises = list(dict.fromkeys(name for row in rows for name in row.exercises))
    used: dict[str, str] = {}
    for entry in graded:
        for name, number in entry.versions.items():
            used[name] = number if used.get(name, number) == number else f"{used[name]}, {number}"
    return ClassReport(assignment, tiers(rows), exercises, rows, sum(row.seconds for row in rows), 0, used)


def tiers(rows: list[StudentRow]) -> str:
    """Return the isolation tiers in which `rows` were graded, separated by commas."""
    return ", ".join(sorted({row.tier for row in rows if row.tier}))


@contextmanager
def alone(root: Path, assignment: str) -> Iterator[None]:
    """Hold the grading lock of `assignment`. Raises CourseError naming the other process if one is already grading."""
    try:
        import fcntl
    except ImportError:  # Windows, where only `--unsafe` grades
        yield
        return
    path = root / FOLDER / assignment / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases the lock however the process ends
        except BlockingIOError:
            file.seek(0)
            who = file.read(200).strip() or "another process"
            raise CourseError(
                f"{assignment} is being graded by {who}. Wait until that is done, or end it, and run again."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {time.strftime('%H:%M')}")
        file.flush()
        yield


def bounded(remarks: list[str]) -> list[str]:
    """Return at most `MAX_REMARKS` of `remarks`, each shortened, so that one submission's remarks don't bury the others'.

    >>> bounded([f"cell {number}" for number in range(2000)])[-1]
    'and 1,981 more remarks on this submission'
    """
    kept = [text if len(text) <= MAX_REMARK else text[: MAX_REMARK - 1] + "…" for text in remarks]
    if len(kept) <= MAX_REMARKS:
        return kept
    return [*kept[: MAX_REMARKS - 1], f"and {len(kept) - MAX_REMARKS + 1:,} more remarks on this submission"]


def versions() -> dict[str, str]:
    """Return the versions of the software that marks may depend on."""
    numbers = {"python": platform.python_version(), "autograder": __version__}
    for name in ("nbgrader", "numpy", "torch"):
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            continue
    return numbers

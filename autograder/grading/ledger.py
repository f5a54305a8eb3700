"""What is graded already: a small file for each student, `reports/<assignment>/<student>.json` in the course folder.

An entry is written, whole or not at all, after the gradebook has the marks. So a run that was ended at any moment can be
started again: whoever has an entry with the right key is done, and grading somebody twice gives the same rows.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from autograder import __version__
from autograder.authoring.course import CourseError
from autograder.notebooks.atomic_write import write_whole

FOLDER = "reports"
LOCK = ".grading"
MAX_REMARKS = 20  # for each student
MAX_REMARK = 400  # characters


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise of one student."""

    score: float
    points: float
    status: str
    headline: str
    misconception: str | None
    carried: tuple[str, ...] = ()  # the earlier answers whose references stood in for them

    def named(self) -> list[str]:
        """The ids of the course's own mistakes in the answer; one that the engine described itself (`~`) has no name."""
        return [each for each in (self.misconception or "").split("+") if each and not each.startswith("~")]


@dataclass
class StudentRow:
    """One student: the autograded `score` of `points`, `flags` for a person to look at, `problem` where grading failed.

    `notes` are those of the flags that the student is told: how the submission was read. `refused` has a 1 for
    each system call that the sandbox refused, by name, however often that was. `marked_late` is what the learning platform says.
    `seconds` are the submission's own and the grader's for it, whatever else the machine did.
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
        """The problem, if there is one, then the flags that don't repeat it."""
        if self.problem is None:
            return self.flags
        return [self.problem, *(flag for flag in self.flags if self.problem not in flag)]


@dataclass(frozen=True)
class Change:
    """An exercise for which a student gets other points than in the run before."""

    student: str
    exercise: str
    before: float
    after: float


class Entry(msgspec.Struct):
    """What a student's file holds: the row, and the key and versions that it was graded with."""

    key: str
    versions: dict[str, str]
    row: StudentRow


def changes(before: StudentRow, after: StudentRow) -> list[Change]:
    """What a student who was graded before gets otherwise now, exercise by exercise."""
    found = []
    for name in dict.fromkeys([*before.exercises, *after.exercises]):
        was, now = (row.exercises[name].score if name in row.exercises else 0.0 for row in (before, after))
        if was != now:
            found.append(Change(after.student, name, was, now))
    return found


@dataclass
class ClassReport:
    """A graded class. `tier` names every isolation that was used, `graded_now` how many rows are not from an earlier run.

    `changed` lists the marks that differ from those of the run before. `dry` says that nothing of it was written, `written`
    that the assignment has answers that a person grades.
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
    """The key of an outcome: the same kit, files and time of submission give the same marks."""
    return hashlib.sha256(b"\0".join([kit_digest.encode(), hashlib.sha256(content).digest(), timestamp.encode()])).hexdigest()


def write(root: Path, assignment: str, entry_key: str, row: StudentRow) -> None:
    """Remember `row`."""
    path = root / FOLDER / assignment / f"{row.student}.json"
    write_whole(path, json.dumps(msgspec.to_builtins(Entry(entry_key, versions(), row)), indent=1) + "\n")


def entries(root: Path, assignment: str) -> Iterator[tuple[str, StudentRow, dict[str, str]]]:
    """Each entry as `(key, row, versions)`, by student; one that cannot be read counts as none."""
    for path in sorted((root / FOLDER / assignment).glob("*.json")):
        try:
            found = msgspec.convert(json.loads(path.read_text(encoding="utf-8")), Entry)
        except ValueError:
            continue
        yield found.key, found.row, found.versions


def load(root: Path, assignment: str) -> ClassReport:
    """The class as graded so far. Raises CourseError where nobody is."""
    found = list(entries(root, assignment))
    if not found:
        raise CourseError(f"expected graded submissions of {assignment}, found none. Run `attn grade {assignment}` first.")
    rows = [row for _, row, _ in found]
    exercises = list(dict.fromkeys(name for row in rows for name in row.exercises))
    used: dict[str, str] = {}
    for _, _, each in found:
        for name, number in each.items():
            used[name] = number if used.get(name, number) == number else f"{used[name]}, {number}"
    return ClassReport(assignment, tiers(rows), exercises, rows, sum(row.seconds for row in rows), 0, used)


def tiers(rows: list[StudentRow]) -> str:
    """Every isolation in which rows were graded, for one line."""
    return ", ".join(sorted({row.tier for row in rows if row.tier}))


@contextmanager
def alone(root: Path, assignment: str) -> Iterator[None]:
    """Grade `assignment` as the only grader. Raises CourseError where another one is at work, saying which process and where."""
    try:
        import fcntl
    except ImportError:  # Windows: only `--unsafe` grades there
        yield
        return
    path = root / FOLDER / assignment / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel lets go of it when the process ends, however that is
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
    """At most `MAX_REMARKS` of `remarks`, each short: a submission with thousands of odd cells must not bury the others.

    >>> bounded([f"cell {number}" for number in range(2000)])[-1]
    'and 1,981 more remarks on this submission'
    """
    kept = [text if len(text) <= MAX_REMARK else text[: MAX_REMARK - 1] + "…" for text in remarks]
    if len(kept) <= MAX_REMARKS:
        return kept
    return [*kept[: MAX_REMARKS - 1], f"and {len(kept) - MAX_REMARKS + 1:,} more remarks on this submission"]


def versions() -> dict[str, str]:
    """The versions on which marks may depend."""
    found = {"python": platform.python_version(), "autograder": __version__}
    for name in ("nbgrader", "numpy", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

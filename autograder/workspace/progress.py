"""Keep a learner's progress in one SQLite file in the workspace. Checks and hints write it, and `attn status` reads it.

SQLite in WAL mode survives crashes, and two notebooks may write at once because the second writer waits. Without a workspace
there is no file, and nothing is written elsewhere.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.authoring.course import CourseError

if TYPE_CHECKING:
    from autograder.diagnosis.explain import Report

MARKER = ".attn"
BUSY_S = 10.0  # how long a writer waits for another one; a write takes milliseconds
_SCHEMA = """create table if not exists progress (
    lesson text not null, exercise text not null, score real not null, points real not null, status text not null,
    misconception text, attempts integer not null default 1, changed text not null default current_timestamp,
    primary key (lesson, exercise));
create table if not exists looked_up (
    lesson text not null, exercise text not null, primary key (lesson, exercise));
create table if not exists hints (
    lesson text not null, exercise text not null, level integer not null, primary key (lesson, exercise))"""
_UPSERT = """insert into progress (lesson, exercise, score, points, status, misconception) values (?, ?, ?, ?, ?, ?)
    on conflict (lesson, exercise) do update set score = excluded.score, points = excluded.points, status = excluded.status,
    misconception = excluded.misconception, attempts = attempts + 1, changed = current_timestamp"""
_NEXT_HINT = """insert into hints (lesson, exercise, level) values (?, ?, 1)
    on conflict (lesson, exercise) do update set level = level + 1 returning level"""

_WHAT_NEXT = {
    "full": "Make room on that disk, then run it again: your answers are in the notebooks.",
    "readonly": "That place cannot be written: use a workspace of your own, with --workspace FOLDER.",
    "unable to open": "That place cannot be written: use a workspace of your own, with --workspace FOLDER.",
    "locked": "Another program writes to it: close other notebooks and terminals that use this workspace, then run it again.",
    "damaged": "Close other programs that use it. If it is damaged, move it away: `attn check` makes a new one.",
}


@dataclass(frozen=True)
class Entry:
    """The outcome of an exercise's last check, and how often the exercise was checked."""

    score: float
    status: str
    attempts: int
    misconception: str | None


def database(workspace: Path) -> Path:
    """Return the path of a workspace's progress database."""
    return workspace / MARKER / "progress.sqlite3"


def record(folder: Path, exercise: str, report: "Report") -> None:
    """Record a check made in `folder` if that is a lesson's folder in a workspace; otherwise do nothing.

    A locked or damaged file must never cost the learner the check itself, so database errors are ignored.
    """
    if not (folder.parent / MARKER).is_dir():
        return
    try:
        with closing(_connect(folder.parent)) as db, db:
            db.execute(_UPSERT, (folder.name, exercise, report.score, report.points, report.status, report.recorded))
    except sqlite3.Error:
        return


def passed(folder: Path, exercise: str) -> bool:
    """Return whether the last check in `folder` passed; False outside a workspace or if the database cannot be read."""
    if not database(folder.parent).exists():
        return False
    try:
        entry = read(folder.parent).get((folder.name, exercise))
    except CourseError:
        return False
    return entry is not None and entry.status == "pass"


def read(workspace: Path) -> dict[tuple[str, str], Entry]:
    """Return `{(lesson, exercise): Entry}`; empty if there is no progress yet. Raises CourseError for a damaged file."""
    if not database(workspace).exists():
        return {}
    with _opened(workspace) as db:
        rows = db.execute("select lesson, exercise, score, status, attempts, misconception from progress").fetchall()
    return {(lesson, exercise): Entry(*rest) for lesson, exercise, *rest in rows}


def forget(workspace: Path, lesson: str, exercises: Iterable[str]) -> None:
    """Reset these exercises to "not started". Hints that were read stay read. Raises CourseError for a damaged file."""
    with _opened(workspace) as db:
        db.executemany("delete from progress where lesson = ? and exercise = ?", [(lesson, exercise) for exercise in exercises])


def move(workspace: Path, exercise: str, old: str, new: str) -> None:
    """Move the records of an exercise from the lesson `old` to the lesson `new`. Records that `new` already has are kept."""
    with _opened(workspace) as db:
        for table in ("progress", "looked_up", "hints"):
            db.execute(f"update or ignore {table} set lesson = ? where lesson = ? and exercise = ?", (new, old, exercise))


def next_hint(workspace: Path, lesson: str, exercise: str) -> int:
    """Return 1 at the first call for this exercise, then 2, 3, …; atomically, so that two terminals never skip or repeat one."""
    with _opened(workspace) as db:
        return int(db.execute(_NEXT_HINT, (lesson, exercise)).fetchone()[0])


def last_hint(workspace: Path, lesson: str, exercise: str) -> int:
    """Return how many hints of this exercise have been shown."""
    with _opened(workspace) as db:
        row = db.execute("select level from hints where lesson = ? and exercise = ?", (lesson, exercise)).fetchone()
    return int(row[0]) if row else 0


def looked_up(workspace: Path, lesson: str, exercise: str) -> None:
    """Record that the reference answer was shown before the learner's own passed."""
    with _opened(workspace) as db:
        db.execute("insert or ignore into looked_up values (?, ?)", (lesson, exercise))


def were_looked_up(workspace: Path) -> set[tuple[str, str]]:
    """Return the exercises whose reference answer was shown before the learner's own passed."""
    if not database(workspace).exists():
        return set()
    with _opened(workspace) as db:
        return set(db.execute("select lesson, exercise from looked_up").fetchall())


@contextmanager
def _opened(workspace: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection and make the block one transaction. Raises CourseError, in the learner's terms, for an SQLite error."""
    try:
        with closing(_connect(workspace)) as db, db:
            yield db
    except sqlite3.Error as error:
        advice = next((what for sign, what in _WHAT_NEXT.items() if sign in str(error)), _WHAT_NEXT["damaged"])
        raise CourseError(f"expected a database of progress at {database(workspace)}, got: {error}.\n{advice}") from None


def _connect(workspace: Path) -> sqlite3.Connection:
    db = sqlite3.connect(database(workspace), timeout=BUSY_S)
    try:
        _write_ahead(db)
        db.execute("pragma synchronous=normal")  # survives a killed process; only a power cut may lose the last writes
        db.executescript(_SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch the database to WAL, with retries: SQLite's own waiting does not cover two processes that switch at once."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("pragma journal_mode=wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)

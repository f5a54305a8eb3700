"""A learner's progress: one SQLite file in the workspace, written by each check, read by `attn status`.

SQLite in WAL mode survives a crash and two notebooks at once. No workspace, no file: nothing is written elsewhere.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from autograder.report import Report

MARKER = ".attn"
_SCHEMA = """create table if not exists progress (
    lesson text not null, exercise text not null, score real not null, points real not null, status text not null,
    misconception text, attempts integer not null default 1, changed text not null default current_timestamp,
    primary key (lesson, exercise))"""
_UPSERT = """insert into progress (lesson, exercise, score, points, status, misconception) values (?, ?, ?, ?, ?, ?)
    on conflict (lesson, exercise) do update set score = excluded.score, points = excluded.points, status = excluded.status,
    misconception = excluded.misconception, attempts = attempts + 1, changed = current_timestamp"""


def database(workspace: Path) -> Path:
    """Where a workspace keeps its progress."""
    return workspace / MARKER / "progress.sqlite3"


def record(folder: Path, exercise: str, report: Report) -> None:
    """Note a check made in `folder` (a lesson's folder in a workspace); elsewhere do nothing.

    A locked or damaged file must never cost the learner the check itself, so database errors are swallowed.
    """
    if not (folder.parent / MARKER).is_dir():
        return
    known = report.known.id if report.known else None
    try:
        with closing(_open(folder.parent)) as db, db:
            db.execute(_UPSERT, (folder.name, exercise, report.score, report.points, report.status, known))
    except sqlite3.Error:
        return


def read(workspace: Path) -> dict[tuple[str, str], tuple[float, str, int]]:
    """`{(lesson, exercise): (score, status, attempts)}`; empty where there is no progress yet."""
    if not database(workspace).exists():
        return {}
    with closing(_open(workspace)) as db:
        rows = db.execute("select lesson, exercise, score, status, attempts from progress").fetchall()
    return {(lesson, exercise): (score, status, attempts) for lesson, exercise, score, status, attempts in rows}


def _open(workspace: Path) -> sqlite3.Connection:
    db = sqlite3.connect(database(workspace), timeout=5)
    db.execute("pragma journal_mode=wal")
    db.execute(_SCHEMA)
    return db

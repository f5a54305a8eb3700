"""Two hundred corrupted submissions: each is told why in words, none stops the class.

A seeded fuzzer of thirteen kinds of damage: the same files in each run. All are read and rebuilt as grading does it;
one of each kind goes through grading itself, between two honest students.
"""

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.authoring.course import course_root, find_lesson
from autograder.authoring.reference_source import solution_source
from autograder.grading.grade import grade_assignment
from autograder.notebooks.rebuild_submission import MAX_BYTES, UnreadableError, read, rebuild
from autograder.sandbox.isolation_tiers import available_tiers

LESSON = "00_start_here"
RELEASED = (course_root() / "release" / LESSON / f"{LESSON}.ipynb").read_bytes()
ISOLATED = any(tier.available and tier.name != "none" for tier in available_tiers())
ODD: list[Any] = [None, True, -1, 1e400, "", "x" * 5000, [], {}, [[]], {"a": []}, "\ud800", "\x00\x1b[2J\u202e", ["a", 1, None]]


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in items for place in _places(value, (*path, key)))]


def _replaced(rng: random.Random, times: int) -> bytes:
    document = json.loads(RELEASED)
    for _ in range(times):
        *way, last = rng.choice([place for place in _places(document) if place])
        node = document
        for key in way:
            node = node[key]
        node[last] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(document).encode()


def _flipped(rng: random.Random) -> bytes:
    data = bytearray(RELEASED)
    for _ in range(rng.randint(1, 30)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cells_shuffled(rng: random.Random) -> bytes:
    document = json.loads(RELEASED)
    document["cells"] = rng.choices(document["cells"], k=rng.randint(0, 3 * len(document["cells"])))
    return json.dumps(document).encode()


def _spliced(rng: random.Random) -> bytes:
    first, second = sorted(rng.sample(range(len(RELEASED)), 2))
    return RELEASED[:first] + RELEASED[second:] + RELEASED[first : first + rng.randint(0, 200)]


DAMAGE: dict[str, Callable[[random.Random], bytes]] = {
    "empty": lambda rng: b"" if rng.random() < 0.5 else b"\n" * rng.randint(1, 9),
    "truncated": lambda rng: RELEASED[: rng.randrange(len(RELEASED))],
    "bits flipped": _flipped,
    "spliced": _spliced,
    "one value of another type": lambda rng: _replaced(rng, 1),
    "many values of another type": lambda rng: _replaced(rng, rng.randint(5, 60)),
    "cells dealt again": _cells_shuffled,
    "deeply nested": lambda rng: rng.choice([b"[", b'{"cells":[', b'{"a":']) * rng.randint(2_000, 60_000),
    "another encoding": lambda rng: RELEASED.decode().encode(rng.choice(["utf-16", "utf-32", "utf-16-be"])),
    "not UTF-8": lambda rng: RELEASED.replace(b"average", bytes(rng.choices(range(128, 256), k=rng.randint(1, 9)))),
    "random bytes": lambda rng: rng.randbytes(rng.randint(1, 5_000)),
    "another document": lambda rng: json.dumps(rng.choice(ODD[:-3])).encode() + rng.choice([b"", b" x"]),
    "huge": lambda rng: (
        b'{"cells": [{"cell_type": "code", "source": "' + b"x" * (rng.randint(1, MAX_BYTES >> 19) << 19) + b'"}]}'
    ),
}


def corrupted(count: int) -> list[tuple[str, bytes]]:
    """`count` damaged notebooks, of each kind in turn."""
    rng = random.Random(20)
    return [(kind, DAMAGE[kind](rng)) for kind in (list(DAMAGE) * count)[:count]]


def test_two_hundred_corrupted_submissions_are_read_or_refused_in_words(tmp_path: Path) -> None:
    released = nbformat.reads(RELEASED.decode(), as_version=4)
    refused: dict[str, int] = dict.fromkeys(DAMAGE, 0)
    path = tmp_path / "n.ipynb"
    for kind, data in corrupted(200):
        path.write_bytes(data)
        if (said := _refusal(path)) is not None:
            refused[kind] += 1
            assert len(said.split()) >= 4, kind
            assert said.isprintable(), kind
            continue
        rebuilt = rebuild(released, read(path))
        assert {cell.id: cell.source for cell in rebuilt.notebook.cells if not _theirs(cell)} == {
            cell.id: cell.source for cell in released.cells if not _theirs(cell)
        }, kind
        nbformat.writes(rebuilt.notebook).encode()  # as nbgrader will write it
        assert all(str(flag).isprintable() for flag in rebuilt.flags), (kind, rebuilt.flags)
    assert all(refused[kind] for kind in ("empty", "truncated", "random bytes", "deeply nested", "another document", "not UTF-8"))
    assert not refused["cells dealt again"]


def _refusal(path: Path) -> str | None:
    """Why the file cannot be read, or None where it can."""
    try:
        read(path)
    except UnreadableError as problem:
        return str(problem)
    return None


def _theirs(cell: Any) -> bool:
    return cell.id.startswith("extra-") or "nbgrader" not in cell.metadata or cell.metadata["nbgrader"].get("solution", False)


@pytest.mark.slow
@pytest.mark.skipif(not ISOLATED, reason="neither bubblewrap nor Landlock isolates on this machine")
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_each_kind_of_damage_gets_its_message_and_the_class_goes_on(scratch_course: Path, set_answer: Any) -> None:
    damaged = corrupted(20)
    names = [f"{i:02d}_{kind.replace(' ', '_')}" for i, (kind, _) in enumerate(damaged)]
    for name, (_, data) in zip(names, damaged, strict=True):
        folder = scratch_course / "submitted" / name / LESSON
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").write_bytes(data)
    for name in ("00_honest", "99_honest"):
        path = scratch_course / "submitted" / name / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        shutil.copyfile(scratch_course / "release" / LESSON / f"{LESSON}.ipynb", path)
        set_answer(path, "average_pool", solution_source("start_here", "average_pool"))
        set_answer(path, "predict_shape", f'predict_shape = "{min(find_lesson(LESSON).exercises()[0].choices)}"')
    rows = {row.student: row for row in grade_assignment(scratch_course, LESSON).rows}
    assert sorted(rows) == sorted([*names, "00_honest", "99_honest"])
    for honest in ("00_honest", "99_honest"):
        assert (rows[honest].score, rows[honest].flags, rows[honest].problem) == (rows[honest].points, [], None)
    for name, (_, data) in zip(names, damaged, strict=True):
        path = scratch_course / "submitted" / name / LESSON / f"{LESSON}.ipynb"
        said = [*rows[name].flags, rows[name].problem or ""]
        reason = _refusal(path)
        assert reason is None or any(reason in text for text in said), (name, said)
        assert rows[name].score == 0
        assert all(text.isprintable() for text in said), (name, said, data[:80])

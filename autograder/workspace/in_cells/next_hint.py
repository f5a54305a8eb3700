"""`attn hint`: one hint at a time, and memory of how far the learner has read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.judging.records import hints_of
from autograder.workspace import folder as workspace
from autograder.workspace import progress


@dataclass(frozen=True)
class Hint:
    """Hint `level` of `total` (from 1); `fresh` is False where it was shown before; `text` is empty where there is none."""

    lesson: str
    exercise: str
    level: int
    total: int
    text: str
    fresh: bool


def hint(folder: Path, lesson: str, exercise: str, *, again: bool = False) -> Hint:
    """The next hint of an exercise, or with `again` the last one shown; the last of all, not fresh, where no more are left."""
    hints = hints_of(workspace.load_pack(folder, lesson).exercises[exercise])
    if not hints:
        return Hint(lesson, exercise, 0, 0, "", fresh=False)
    seen = progress.last_hint(folder, lesson, exercise)
    if seen >= len(hints) or (again and seen):
        level = min(seen, len(hints))
        return Hint(lesson, exercise, level, len(hints), hints[level - 1], fresh=False)
    level = min(progress.next_hint(folder, lesson, exercise), len(hints))
    return Hint(lesson, exercise, level, len(hints), hints[level - 1], fresh=True)


_READ: dict[str, int] = {}


def hint_alone(exercise: str, hints: Sequence[str]) -> Hint:
    """The next of `hints` where no workspace remembers how many were read: this kernel does, as long as it runs."""
    if not hints:
        return Hint("", exercise, 0, 0, "", fresh=False)
    seen = _READ.get(exercise, 0)
    level = _READ[exercise] = min(seen + 1, len(hints))
    return Hint("", exercise, level, len(hints), hints[level - 1], fresh=seen < level)

"""Give one hint at a time, and remember how far the learner has read (`attn hint`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.workspace import folder as workspace
from autograder.workspace import progress


@dataclass(frozen=True)
class Hint:
    """Hint `level` of `total` (from 1). `fresh` is False if it was shown before; `text` is empty if there is none."""

    lesson: str
    exercise: str
    level: int
    total: int
    text: str
    fresh: bool


def hint(folder: Path, lesson: str, exercise: str, *, again: bool = False) -> Hint:
    """Return the next hint of an exercise, or with `again` the one shown last.

    When all have been shown, returns the last one again, which is not `fresh`.
    """
    hints = workspace.load_pack(folder, lesson).exercises[exercise].hints
    shown = progress.last_hint(folder, lesson, exercise)
    fresh = shown < len(hints) and not (again and shown)
    return _hint(lesson, exercise, hints, progress.next_hint(folder, lesson, exercise) if fresh else shown, fresh)


_READ: dict[str, int] = {}


def hint_alone(exercise: str, hints: Sequence[str]) -> Hint:
    """Return the next of `hints` outside a workspace. Only the kernel remembers how many were read, while it runs."""
    shown = _READ.get(exercise, 0)
    _READ[exercise] = min(shown + 1, len(hints))
    return _hint("", exercise, hints, shown + 1, fresh=shown < len(hints))


def _hint(lesson: str, exercise: str, hints: Sequence[str], level: int, fresh: bool) -> Hint:
    level = min(level, len(hints))
    return Hint(lesson, exercise, level, len(hints), hints[level - 1] if hints else "", fresh)

"""Show our answer to an exercise or a question in words: `solution` in a cell, `attn solution` in a terminal.

Both follow the same rules: the learner's own answer, or the last hint, comes first, and looking the answer up early is
recorded.
"""

from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.course import CourseError
from autograder.judging.exercise import Prediction
from autograder.judging.records import hints_of
from autograder.workspace import folder as workspace
from autograder.workspace import progress

HINTS_FIRST = 3


@dataclass(frozen=True)
class Calls:
    """The calls to quote to the learner: this call, the one for the next hint, and the one to use after the last hint."""

    this: str
    hint: str
    sure: str


@dataclass(frozen=True)
class Reference:
    """Our answer: code, or Markdown if `words`."""

    text: str
    words: bool


def solution(home: Path, lesson: str, exercise: str, *, sure: bool, calls: Calls) -> Reference:
    """Return our answer if the rules allow it. Raises CourseError saying what comes first if they don't."""
    if exercise not in workspace.load_pack(home, lesson).exercises:  # a question in words
        if exercise not in workspace.answered(home, lesson):
            raise CourseError(
                f"{calls.this}: your own answer comes first. Write it in its cell, save the notebook (Ctrl+S), then again."
            )
        return Reference(_source(lesson, exercise, calls), words=True)
    record = workspace.load_pack(home, lesson).exercises[exercise]
    entry = progress.read(home).get((lesson, exercise))
    passed = entry is not None and entry.status == "pass"
    if not passed and isinstance(record, Prediction):
        raise CourseError(f"{calls.this}: your own prediction comes first. Any that you make passes its check.")
    shown, given = progress.last_hint(home, lesson, exercise), min(HINTS_FIRST, len(hints_of(record)))
    if not passed and (shown < given or not sure):
        rest = f"`{calls.hint}` has {given - shown} more for you" if shown < given else "all hints are read"
        raise CourseError(
            f"{calls.this}: your own answer comes first. {rest[0].upper()}{rest[1:]}; after the last one, "
            f"`{calls.sure}` shows the reference."
        )
    text = _source(lesson, exercise, calls)
    if not passed:
        progress.looked_up(home, lesson, exercise)
    return Reference(text, words=False)


def are_here(lesson: str) -> bool:
    """Return whether this machine has the answers. The course's repository has them; its wheel does not."""
    from autograder.authoring.course import find_lesson

    try:
        return bool(find_lesson(lesson))
    except CourseError:
        return False


def _source(lesson: str, exercise: str, calls: Calls) -> str:
    """Return the reference's source. Raises CourseError without the course itself, because released lessons hold none."""
    from autograder.authoring.course import find_lesson
    from autograder.authoring.read_lesson import read_lesson
    from autograder.authoring.reference_source import BEGIN, END, injected
    from autograder.notebooks.roles import grade_id, is_answer

    missing = (
        f"{calls.this}: our answers come with the course's repository, and are not here. Work in a clone of it (`make lab` "
        "there), or end JupyterLab, and set ATTN_COURSE to the folder `course` of a clone before `attn lab`."
    )
    try:
        cells = [cell for cell in read_lesson(find_lesson(lesson)).cells if is_answer(cell) and grade_id(cell) == exercise]
    except CourseError:
        raise CourseError(missing) from None
    if not cells:
        raise CourseError(missing)
    return "\n".join(line for line in injected(cells[0]).splitlines() if line.strip() not in (BEGIN, END))

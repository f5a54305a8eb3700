"""Show our answer to an exercise or a written question, for `solution` in a cell and `attn solution` in a terminal.

Both follow the same rules: the learner's own answer, or the last hint, comes first, and looking the answer up early is
recorded.
"""

import html
from pathlib import Path

from autograder.authoring.course import CourseError, find_lesson
from autograder.judging.exercise import Prediction
from autograder.workspace import folder as workspace
from autograder.workspace import progress
from autograder.workspace.in_cells.shown import Shown, panel

HINTS_FIRST = 3


def solution(home: Path, lesson: str, exercise: str, *, sure: bool, call: str, hint_call: str, sure_call: str) -> Shown:
    """Return our answer if the rules allow it. Raises CourseError saying what comes first if they don't.

    Messages to the learner quote `call` (this call), `hint_call` (for the next hint) and `sure_call` (after the last hint).
    """
    if exercise not in workspace.load_pack(home, lesson).exercises:  # a question in words
        if exercise not in workspace.answered(home, lesson):
            raise CourseError(
                f"{call}: your own answer comes first. Write it in its cell, save the notebook (Ctrl+S), then again."
            )
        text = _source(lesson, exercise, call)
        return Shown(text, markdown=text)
    record = workspace.load_pack(home, lesson).exercises[exercise]
    entry = progress.read(home).get((lesson, exercise))
    passed = entry is not None and entry.status == "pass"
    if not passed and isinstance(record, Prediction):
        raise CourseError(f"{call}: your own prediction comes first. Any that you make passes its check.")
    shown, given = progress.last_hint(home, lesson, exercise), min(HINTS_FIRST, len(record.hints))
    if not passed and (shown < given or not sure):
        rest = f"`{hint_call}` has {given - shown} more for you" if shown < given else "all hints are read"
        raise CourseError(
            f"{call}: your own answer comes first. {rest[0].upper()}{rest[1:]}; after the last one, "
            f"`{sure_call}` shows the reference."
        )
    text = _source(lesson, exercise, call)
    if not passed:
        progress.looked_up(home, lesson, exercise)
    return panel(text, f"<pre>{html.escape(text)}</pre>")


def are_here(lesson: str) -> bool:
    """Return whether this machine has the answers. The course's repository has them; its wheel does not."""
    try:
        return bool(find_lesson(lesson))
    except CourseError:
        return False


def _source(lesson: str, exercise: str, call: str) -> str:
    """Return the source of our answer. Raises CourseError if only releases are here, because these hold no answers."""
    from autograder.authoring.read_lesson import read_lesson
    from autograder.authoring.reference_source import BEGIN, END, injected
    from autograder.notebooks.roles import grade_id, is_answer

    missing = (
        f"{call}: our answers come with the course's repository, and are not here. Work in a clone of it (`make lab` "
        "there), or end JupyterLab, and set ATTN_COURSE to the folder `course` of a clone before `attn lab`."
    )
    try:
        cells = read_lesson(find_lesson(lesson)).cells
        cell = next(cell for cell in cells if is_answer(cell) and grade_id(cell) == exercise)
    except (CourseError, StopIteration):
        raise CourseError(missing) from None
    return "\n".join(line for line in injected(cell).splitlines() if line.strip() not in (BEGIN, END))

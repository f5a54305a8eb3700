"""Pack a lesson for upload, and tell the learner in advance how the grader will read it (`attn submit`).

The archive holds `STUDENT/LESSON/LESSON.ipynb`. If it is unpacked in a course's `submitted/`, the notebook is where `attn
grade` looks, and `attn collect` finds the student's name in the archive's name.
"""

import ast
import getpass
import re
import zipfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.diagnosis.panel import open_words
from autograder.judging.compare import judge_choice
from autograder.judging.exercise import Prediction
from autograder.notebooks import rebuild_submission
from autograder.notebooks.flags import Flag, Kind
from autograder.notebooks.lesson_names import label_of
from autograder.notebooks.roles import grade_id, grader, is_answer
from autograder.workspace import folder as workspace
from autograder.workspace import learner_status, progress


@dataclass(frozen=True)
class HandIn:
    """The archive that was written, the time when its notebook was last saved, and remarks about the notebook."""

    lesson: str
    student: str
    archive: Path
    saved: datetime
    remarks: list[str]


def submit(folder: Path, lesson: str, *, student: str | None = None, to: Path | None = None) -> HandIn:
    """Pack the notebook of `lesson` into the folder `to` (default: the workspace).

    Raises CourseError for a student's name that cannot be used, and UnreadableError if the grader could not read the notebook.
    """
    name = student or _login()
    if not re.fullmatch(r"\w[\w.@+-]*", name):
        raise CourseError(
            f"expected a student's name of letters, digits and . @ + - _, got {name!r}. Say --as NAME, as your course knows you."
        )
    path = workspace.notebook(folder, lesson)
    remarks = examine(folder, lesson)
    archive = (to or folder) / f"{lesson}-{name}.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(path, f"{name}/{lesson}/{lesson}.ipynb")
    return HandIn(lesson, name, archive, datetime.fromtimestamp(path.stat().st_mtime), remarks)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user here, or Windows without its variable
        return ""


def examine(folder: Path, lesson: str) -> list[str]:
    """Return remarks on what may surprise the learner in grading: missing, duplicated, edited, blank and failing cells."""
    cells = rebuild_submission.read(workspace.notebook(folder, lesson))
    released = workspace.load(workspace.release(folder, lesson))
    done = workspace.answered(folder, lesson) - _no_choice(folder, lesson, cells)
    return [
        *_answers(rebuild_submission.rebuild(released, cells).flags),
        *_locked(released, cells),
        *_unanswered(folder, lesson, done, released, cells),
        *_failing(folder, lesson, done),
    ]


def _answers(flags: list[Flag]) -> list[str]:
    """Return the grader's flags, each followed by what it means for the learner."""
    advice: dict[Kind, str] = {
        "repeated": "The first one is graded. Put your answer there and delete the others.",
        "unknown": "The cell runs as one of your own and is not graded.",
        "missing": "They count as not answered. `attn reset NAME` brings an answer cell back.",
    }
    return [f"{flag}. {advice.get(flag.kind, '')}".strip() for flag in flags]


def _locked(released: Any, cells: list[rebuild_submission.Cell]) -> list[str]:
    sources = {cell.grade_id: cell.source for cell in reversed(cells) if cell.grade_id}
    remarks = []
    for cell in released.cells:
        name = grade_id(cell)
        if not grader(cell).get("locked") or is_answer(cell):
            continue
        if name not in sources:
            remarks.append(f"locked cell {name!r} is missing. The grader puts it back.")
        elif sources[name] != cell.source:
            remarks.append(f"locked cell {name!r} was edited. The grader runs the original, so your code must work with that.")
    return remarks


def _no_choice(folder: Path, lesson: str, cells: list[rebuild_submission.Cell]) -> set[str]:
    """Return the predictions that no check accepts, because their text is none of the choices."""
    records = workspace.load_pack(folder, lesson).exercises
    sources = {cell.grade_id: cell.source for cell in reversed(cells) if cell.grade_id in records}
    asked = [(name, source, records[name]) for name, source in sources.items()]
    return {name for name, source, record in asked if isinstance(record, Prediction) and _refused(source, record)}


def _refused(source: str, prediction: Prediction) -> bool:
    """Return whether the cell does not compile or assigns a constant that is no choice. Computed values are not judged."""
    try:
        lines = ast.parse(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return True
    given = [line.value for line in lines if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == prediction.id]
    return bool(given) and isinstance(given[-1], ast.Constant) and not judge_choice(prediction, given[-1].value).passed


def _unanswered(folder: Path, lesson: str, done: set[str], released: Any, cells: list[rebuild_submission.Cell]) -> list[str]:
    given = {cell.grade_id for cell in cells}
    asked = [question for question in learner_status.questions(folder, lesson) if question.id in given]
    words = [question.id for question in asked]
    ids = [str(grade_id(cell)) for cell in released.cells if is_answer(cell) and grade_id(cell) not in words]
    blank = [name for name in ids if name in given and name not in done]
    where = "; ".join(f"{question.title} ({question.id})" for question in asked if not question.answered)
    return [
        *([f"not answered yet: {', '.join(blank)}."] if blank else []),
        *([f"{open_words(asked)}: {where}."] if where else []),
    ]


def _failing(folder: Path, lesson: str, done: set[str]) -> list[str]:
    """Return a remark on the answers that failed their last check. Progress records a refused prediction as not started."""
    checked = {name: entry.status for (of, name), entry in progress.read(folder).items() if of == lesson}
    wrong = [name for name, status in checked.items() if status in ("fail", "part") or (status == "todo" and name in done)]
    return [f"not right at their last check: {', '.join(wrong)}. `attn check {label_of(lesson)}` checks again."] if wrong else []

"""Count a learner's progress: what each lesson asks (exercises and written questions), what is done, and what is next.

All counts come from this module. An exercise is done when its check passes. A written question, which a person marks, is done
when its cell, as last saved, holds the learner's own words.
"""

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.course import CourseError
from autograder.diagnosis.explain import ExerciseRow, LessonRow, QuestionRow
from autograder.diagnosis.phrase import clauses
from autograder.judging.records import ExerciseRecord
from autograder.notebooks import lesson_names
from autograder.notebooks.lesson_names import is_workshop
from autograder.notebooks.roles import grade_id, grader, is_answer
from autograder.workspace import folder as workspace
from autograder.workspace import progress


def status(home: Path, only: Collection[str] | None = None) -> list[LessonRow]:
    """Return a row for each lesson, or for those in `only`, with its points, exercises and written questions."""
    done = progress.read(home)
    nothing = progress.Entry(0.0, "todo", 0, None)
    rows = []
    for name in workspace.names(home):
        if only is not None and name not in only:
            continue
        lesson = workspace.load_pack(home, name)
        exercises = []
        for exercise in lesson.exercises.values():
            entry = done.get((name, exercise.id), nothing)
            held = (entry.misconception or "").split("+")
            listed = exercise.known if isinstance(exercise, ExerciseRecord) else ()
            says = clauses([known for known in listed if known.id in held]) or None
            exercises.append(
                ExerciseRow(exercise.id, exercise.title, entry.score, exercise.points, entry.status, entry.attempts, says)
            )
        asked = questions(home, name)
        done_all = all(exercise.status == "pass" for exercise in exercises) and all(question.answered for question in asked)
        score = sum(exercise.score for exercise in exercises)
        about = workspace.about(home, name)
        rows.append(
            LessonRow(
                lesson=name,
                title=lesson.title,
                workshop=is_workshop(name),
                needs=tuple(about.get("needs", ())),
                question=about.get("question", ""),
                minutes=about.get("minutes"),
                score=score,
                points=lesson.points,
                done=done_all,
                exercises=tuple(exercises),
                questions=tuple(asked),
            )
        )
    return rows


def core_path_first(rows: Sequence[LessonRow]) -> list[LessonRow]:
    """Return the rows of `status` in the order in which the next open one is searched: core notebooks, then workshops."""
    return sorted(rows, key=lambda row: (is_workshop(row.lesson), row.lesson))


def offered_workshops(rows: Sequence[LessonRow]) -> list[LessonRow]:
    """Return the open workshops to offer beside the next core notebook: those begun, and those of the last finished core."""
    done = [row.lesson for row in rows if row.done and not is_workshop(row.lesson)]
    beside = lesson_names.workshops_beside([row.lesson for row in rows], max(done)) if done else []
    return [row for row in rows if not row.done and is_workshop(row.lesson) and (row.lesson in beside or begun(row))]


def begun(row: LessonRow) -> bool:
    """Return whether the learner has tried an exercise of the lesson, or answered one of its questions."""
    tried = any(exercise.status != "todo" for exercise in row.exercises)
    return tried or any(question.answered for question in row.questions)


def questions(home: Path, lesson: str) -> list[QuestionRow]:
    """Return the written questions of `lesson`, in order. In a missing or damaged notebook, none counts as answered."""
    try:
        asked = [(cell, heading) for cell, heading in _answers(home, lesson) if cell.cell_type == "markdown"]
    except CourseError:  # neither release nor notebook can be read, which `attn check` reports
        return []
    try:
        done = workspace.answered(home, lesson)
    except CourseError:
        done = set()
    return [
        QuestionRow(
            id=str(grade_id(cell)),
            title=heading,
            link=f"{lesson}.ipynb#cell-id={grade_id(cell)}",
            points=float(grader(cell).get("points", 0)),
            answered=grade_id(cell) in done,
        )
        for cell, heading in asked
    ]


def link(home: Path, lesson: str, answer: str) -> str:
    """Return the link to the start of an exercise, from a notebook in the lesson's folder.

    The link leads to the cell with the exercise's heading, else to the last text above the answer, else to the answer cell.
    It uses a cell id, because a link in a cell's output can reach a cell of the open notebook in JupyterLab by its id, but
    not a heading.
    """
    first, above = answer, list[Any]()
    with contextlib.suppress(CourseError):
        for cell in workspace.load(workspace.notebook(home, lesson)).cells:
            if is_answer(cell) and grade_id(cell) == answer:
                headed = [text for text in above if re.search(r"^### Exercise ", text.source, re.MULTILINE)]
                first = (headed or above or [cell])[-1].get("id", answer)
                break
            if is_answer(cell):
                above = []
            elif cell.cell_type == "markdown":
                above.append(cell)
    return f"{lesson}.ipynb#cell-id={first}"


def next_notebook(home: Path, lesson: str | None) -> Path:
    """Return the notebook to open: `lesson`, else the first unfinished core notebook, else the first unfinished workshop.

    If everything is finished, returns the last notebook.
    """
    if lesson is not None:
        return workspace.notebook(Path(), workspace.find(home, lesson))
    rows = status(home)
    row = next((row for row in core_path_first(rows) if not row.done), rows[-1])
    return workspace.notebook(Path(), row.lesson)


def _answers(home: Path, lesson: str) -> Iterator[tuple[Any, str]]:
    """Yield each answer cell of the lesson as released, with the last heading above it."""
    heading = ""
    for cell in workspace.as_released(home, lesson).cells:
        if is_answer(cell):
            yield cell, heading
        elif cell.cell_type == "markdown":
            headings = re.findall(r"^#+ +(.+?)\s*$", cell.source, re.MULTILINE)
            heading = re.sub(r"[`*]", "", headings[-1]) if headings else heading
